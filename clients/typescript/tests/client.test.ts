// Calls against a running server, some of them through a proxy that loses answers.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { command, NoAnswer, Stockhold, StockholdError, type Item } from "stockhold";
import { client, fetchWith, lossy, newItem, problem, SERVER, settle } from "./support.js";

const SOLD = 20;

test("answers that are lost change nothing twice", async (t) => {
  const sku = await newItem();
  const { proxy, client: shop } = await lossy(t);
  for (let number = 0; number < SOLD; number += 1) {
    const held = await shop.reserve({ sku, owner_id: `cart-${number}`, quantity: 2 });
    const sold = await shop.confirm(held.reservation_id, { order_id: `${sku}-${number}` });
    assert.equal(sold.status, "confirmed");
  }
  assert.ok(proxy.lost >= 2 * SOLD, "the proxy loses nothing");
  const item = await client.item(sku);
  assert.deepEqual([item.confirmed_sold, item.held_units], [2 * SOLD, 0]);
});

test("calls without a key are sent once", async (t) => {
  const sku = await newItem();
  const { proxy, client: shop } = await lossy(t);
  const path = `/v1/inventory/${sku}/adjust`;
  await assert.rejects(shop.call({ method: "POST", path, body: { delta: 5, reason: "delivery" } }), { name: "NoAnswer", message: /sent once/ });
  assert.deepEqual([proxy.requests, (await client.item(sku)).total_units], [1, 105]);
  await shop.item(sku);
  // With a key it is sent until there is an answer, and takes effect once.
  assert.equal((await shop.call<Item>(command("POST", path, { delta: 5, reason: "delivery" }))).total_units, 110);
  assert.equal((await client.item(sku)).total_units, 110);
  // A read is repeated, whatever its method.
  const found = await shop.call<{ items: { available: number }[] }>({
    method: "POST",
    path: "/v1/availability",
    body: { items: [{ sku }] },
  });
  assert.equal(found.items[0]?.available, 110);
});

test("a refusal is thrown at once", async () => {
  const sku = await newItem();
  let requests = 0;
  const counting = new Stockhold(SERVER, { fetch: fetchWith(() => void (requests += 1)) });
  await assert.rejects(counting.reserve({ sku, owner_id: "cart", quantity: 101 }), (error) => {
    assert.ok(error instanceof StockholdError);
    assert.deepEqual([error.status, error.reason, error.retryable], [409, "insufficient_inventory", false]);
    assert.equal((error.problem["lines"] as { available: number }[])[0]?.available, 100);
    return true;
  });
  assert.equal(requests, 1);
});

test("a server that can't do it now is asked again", async (t) => {
  const sku = await newItem();
  const { proxy, client: shop } = await lossy(t);
  proxy.refuseNext(2, "0");
  assert.equal((await shop.item(sku)).total_units, 100);
  const before = proxy.requests;
  proxy.refuseNext(1, "61");
  await assert.rejects(shop.item(sku), { name: "StockholdError", status: 503, retryable: true });
  assert.equal(proxy.requests, before + 1, "it waits for nothing longer than 60 s");
});

test("Retry-After is honoured up to 60 s", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const answers = [problem(503, "unavailable", { "retry-after": "60" }, true), new Response('{"total_units":7}')];
  const shop = new Stockhold(SERVER, { fetch: fetchWith(async () => answers.shift()!) });
  const item = shop.item("tea");
  await settle();
  t.mock.timers.tick(59_999);
  await settle();
  assert.equal(answers.length, 1, "it did not wait");
  t.mock.timers.tick(1);
  assert.equal((await item).total_units, 7);
});

test("a call has 5 tries, each with 10 s and the same key", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const keys: (string | null)[] = [];
  let givenUp = 0;
  const silent = fetchWith((_method, _url, { headers, signal }) => {
    keys.push(new Headers(headers).get("idempotency-key"));
    return new Promise((_, reject) =>
      signal!.addEventListener("abort", () => {
        givenUp += 1;
        reject(signal!.reason);
      }),
    );
  });
  const call = assert.rejects(new Stockhold(SERVER, { fetch: silent }).confirm("id"), NoAnswer);
  const pauses = [];
  for (let tries = 1; tries <= 5; tries += 1) {
    assert.equal(keys.length, tries);
    t.mock.timers.tick(9_999);
    await settle();
    assert.equal(givenUp, tries - 1);
    t.mock.timers.tick(1);
    await settle();
    assert.equal(givenUp, tries);
    let pause = 0;
    for (; tries < 5 && keys.length === tries; pause += 1) {
      t.mock.timers.tick(1);
      await settle();
    }
    pauses.push(pause);
  }
  await call;
  assert.equal(new Set(keys).size, 1);
  assert.match(String(keys[0]), /^"[0-9a-f-]{36}"$/);
  for (const [number, longest] of [150, 300, 600, 1_200].entries()) {
    assert.ok(pauses[number]! >= longest / 3 && pauses[number]! <= longest + 1, `pause ${number}: ${pauses[number]} ms`);
  }
});

test("a server that is away", async () => {
  await assert.rejects(new Stockhold("http://127.0.0.1:1").item("tea"), (error) => {
    assert.ok(error instanceof NoAnswer && error.cause !== undefined);
    return true;
  });
});

test("a caller's signal ends a call, and it is not tried again", async () => {
  let requests = 0;
  const slow = fetchWith((_method, _url, { signal }) => {
    requests += 1;
    return new Promise((_, reject) => signal!.addEventListener("abort", () => reject(signal!.reason)));
  });
  const end = new AbortController();
  const call = new Stockhold(SERVER, { fetch: slow }).confirm("id", {}, { signal: end.signal });
  end.abort(new Error("the buyer left"));
  await assert.rejects(call, { message: "the buyer left" });
  await assert.rejects(client.confirm("id", {}, { signal: end.signal }), { message: "the buyer left" });
  assert.equal(requests, 1);
});

test("mistakes of the caller are thrown at once", async () => {
  assert.throws(() => new Stockhold("127.0.0.1:8101"), TypeError);
  assert.throws(() => new Stockhold("stockhold"), TypeError);
  assert.throws(() => new Stockhold(SERVER, { apiKey: "line\nbreak" }), TypeError);
  // @ts-expect-error: neither sku nor lines
  await assert.rejects(client.reserve({ owner_id: "cart" }), TypeError);
  await assert.rejects(client.confirm("id", {}, { key: "line\nbreak" }), TypeError);
  // @ts-expect-error: a member that the API does not have
  await assert.rejects(client.confirm("018bcfe5-6800-7fff-bfff-ffffffffffff", { order: "1" }), { reason: "invalid_request" });
});

test("an answer that is no JSON is an error", async () => {
  const html = new Stockhold(SERVER, { fetch: fetchWith(async () => new Response("<html>")) });
  await assert.rejects(html.item("tea"), { name: "StockholdError", status: 200, retryable: false });
  const broken = new Stockhold(SERVER, { fetch: fetchWith(async () => new Response("<html>", { status: 502 })) });
  await assert.rejects(broken.item("tea"), { name: "StockholdError", status: 502, reason: "" });
});

test("a redirect is not followed", async (t) => {
  const elsewhere = createServer((_asked, answer) => answer.writeHead(302, { location: `${SERVER}/v1/limits` }).end());
  await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
  t.after(() => elsewhere.close());
  const moved = new Stockhold(`http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`);
  await assert.rejects(moved.confirm("id"), { name: "StockholdError", status: 302, retryable: false });
});

test("a hold token is a credential for one reservation", async () => {
  const sku = await newItem();
  const held = await client.reserve({ sku, owner_id: "cart", ttl_seconds: 60, hold_token: true });
  const buyer = new Stockhold(`${SERVER}/`, { apiKey: held.hold_token! });
  assert.equal((await buyer.extend(held.reservation_id, 120)).status, "active");
  await assert.rejects(buyer.confirm(held.reservation_id), { status: 403 });
  assert.equal(await buyer.release(held.reservation_id), undefined);
  assert.equal((await client.reservation(held.reservation_id)).status, "cancelled");
});

test("routes without a method of their own", async () => {
  const limits = await client.call<{ data: unknown[] }>({ method: "GET", path: "/v1/limits" });
  assert.ok(Array.isArray(limits.data));
});
