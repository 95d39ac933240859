// `withHold` against a running server: what it extends, what it releases, and which error comes out.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Stockhold, StockholdError, type Hold } from "stockhold";
import { client, fetchWith, newItem, problem, seconds, SERVER } from "./support.js";

test("a hold lasts as long as its closure", async () => {
  const sku = await newItem();
  const status = await client.withHold({ sku, owner_id: "cart", ttl_seconds: 2 }, async (hold) => {
    assert.equal(hold.reservation.status, "active");
    await seconds(3);
    return (await hold.confirm({ order_id: `${sku}-1` })).status;
  });
  assert.equal(status, "confirmed");
});

test("what the closure does not confirm is released", async () => {
  const sku = await newItem();
  const hold = await client.withHold({ lines: [{ sku, quantity: 3 }], owner_id: "cart" }, async (hold) => hold);
  assert.equal((await client.reservation(hold.id)).status, "cancelled");
});

test("the error of the closure comes out, also when the release fails", async () => {
  const sku = await newItem();
  const failing = new Stockhold(SERVER, {
    fetch: fetchWith((method) => (method === "DELETE" ? Promise.resolve(problem(500, "internal")) : undefined)),
  });
  for (const shop of [client, failing]) {
    let failed: Hold | undefined;
    const work = async (hold: Hold) => {
      failed = hold;
      throw new RangeError("no money");
    };
    await assert.rejects(shop.withHold({ sku, owner_id: "cart", ttl_seconds: 60 }, work), { message: "no money" });
    assert.equal((await client.reservation(failed!.id)).status, shop === client ? "cancelled" : "active");
  }
  await assert.rejects(failing.withHold({ sku, owner_id: "cart" }, async () => 1), { status: 500, reason: "internal" });
});

test("an error after the confirm does not undo the sale", async () => {
  const sku = await newItem();
  const sold = client.withHold({ sku, owner_id: "cart" }, async (hold) => {
    await hold.confirm();
    throw new RangeError("no letter");
  });
  await assert.rejects(sold, { message: "no letter" });
  assert.equal((await client.item(sku)).confirmed_sold, 1);
});

test("a sale by another call is no error", async () => {
  const sku = await newItem();
  await client.withHold({ sku, owner_id: "cart" }, async (hold) => void (await client.confirm(hold.id)));
  assert.equal((await client.item(sku)).confirmed_sold, 1);
});

test("nothing is extended after the closure has returned", async () => {
  const sku = await newItem();
  const extendedAt: number[] = [];
  let isAborted = false;
  // No extend gets an answer, so the closure returns while the second one is under way.
  const slow = new Stockhold(SERVER, {
    fetch: fetchWith((_method, url, { signal }) => {
      if (!url.endsWith("/extend")) return undefined;
      extendedAt.push(performance.now());
      return new Promise((_, reject) =>
        signal!.addEventListener("abort", () => {
          isAborted = true;
          reject(signal!.reason);
        }),
      );
    }),
  });
  const began = performance.now();
  await slow.withHold({ sku, owner_id: "cart", ttl_seconds: 3 }, async (hold) => {
    await seconds(1.6);
    await hold.confirm();
  });
  assert.ok(performance.now() - began < 3_000, "it waits for an extend");
  assert.ok(isAborted);
  await seconds(1.5);
  assert.equal(extendedAt.length, 1);
  const first = extendedAt[0]! - began;
  assert.ok(first >= 990 && first < 1_400, `the first extend is at a third of the time to live, not after ${first} ms`);
});

test("the time to live of the server is used when none is given", async () => {
  const sku = await newItem();
  await client.setStock(sku, { default_ttl_seconds: 2 });
  const sold = await client.withHold({ sku, owner_id: "cart" }, async (hold) => {
    await seconds(3);
    return hold.confirm();
  });
  assert.equal(sold.status, "confirmed");
});

test("a hold that can't be extended is lost, and the confirm says so", async () => {
  const sku = await newItem();
  await client.setStock(sku, { max_hold_seconds: 2 });
  const lost = client.withHold({ sku, owner_id: "cart", ttl_seconds: 2 }, async (hold) => {
    await seconds(3.5);
    await hold.confirm();
  });
  await assert.rejects(lost, (error) => error instanceof StockholdError && error.reason === "reservation_expired");
});
