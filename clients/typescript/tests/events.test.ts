// The stream of events of a running server, through a proxy that breaks it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { NoAnswer, Stockhold, type FeedEvent } from "stockhold";
import { client, fetchWith, lossy, newItem, seconds, SERVER } from "./support.js";

async function until(what: string, isTrue: () => boolean): Promise<void> {
  for (let tries = 0; tries < 500; tries += 1) {
    if (isTrue()) return;
    await seconds(0.01);
  }
  assert.fail(`waited in vain: ${what}`);
}

function isOf(event: FeedEvent, reservationId: string): boolean {
  return "reservation_id" in event && event.reservation_id === reservationId;
}

test("events come in order, and after a lost connection too", async (t) => {
  const sku = await newItem();
  const { proxy, client: shop } = await lossy(t);
  const held = await client.reserve({ sku, owner_id: "cart" });
  const seen: string[] = [];
  for await (const event of shop.events({ after: 0 })) {
    if (!isOf(event, held.reservation_id)) continue;
    seen.push(event.type);
    if (event.type === "reservation.created") {
      await client.extend(held.reservation_id, 700);
      proxy.cut();
    } else if (event.type === "reservation.extended") {
      proxy.cut();
      await client.confirm(held.reservation_id);
    } else break;
  }
  assert.deepEqual(seen, ["reservation.created", "reservation.extended", "reservation.confirmed"]);
  await until("the end of the connection", () => proxy.streams === 0);
});

test("a stream that begins now misses nothing when it is lost before its first event", async (t) => {
  const sku = await newItem();
  const { proxy, client: shop } = await lossy(t);
  const events = shop.events({ types: ["reservation.created", "reservation.confirmed"] });
  const next = events.next();
  await until("the stream", () => proxy.streams === 1);
  // The first block, which says where the stream begins, is there after this.
  await seconds(0.3);
  proxy.refuseNext(1, "1");
  proxy.cut();
  const held = await client.reserve({ sku, owner_id: "cart" });
  await client.extend(held.reservation_id, 700);
  const first: FeedEvent = (await next).value;
  const seen: string[] = isOf(first, held.reservation_id) ? [first.type] : [];
  await client.confirm(held.reservation_id);
  for await (const event of events) {
    // Other tests have events too.
    if (isOf(event, held.reservation_id)) seen.push(event.type);
    if (seen.includes("reservation.confirmed")) break;
  }
  assert.deepEqual(seen, ["reservation.created", "reservation.confirmed"]);
});

test("a signal ends a stream that waits", async () => {
  const end = new AbortController();
  const next = client.events({ types: ["endpoint.deleted"], signal: end.signal }).next();
  setTimeout(() => end.abort(new Error("enough")), 100);
  await assert.rejects(next, { message: "enough" });
});

test("a refusal ends the stream", async () => {
  const events = client.events({ after: 1e15 });
  await assert.rejects(events.next(), { name: "StockholdError", reason: "position_out_of_range" });
});

test("a server that stays away ends the stream", async () => {
  let requests = 0;
  const away = new Stockhold(SERVER, {
    fetch: fetchWith(() => {
      requests += 1;
      return Promise.reject(new TypeError("refused"));
    }),
  });
  await assert.rejects(away.events().next(), NoAnswer);
  assert.equal(requests, 5);
});

test("a connection that is silent for 45 s is lost", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let requests = 0;
  const silent = fetchWith((_method, url, { signal }) => {
    requests += 1;
    if (requests === 2) assert.match(url, /after=7$/);
    const body = new ReadableStream({
      start(stream) {
        stream.enqueue(new TextEncoder().encode(requests === 1 ? "retry: 1000\nid: 7\n\n" : 'id: 8\ndata: {"position":8}\n\n'));
        signal!.addEventListener("abort", () => stream.error(signal!.reason));
      },
    });
    return Promise.resolve(new Response(body, { headers: { "content-type": "text/event-stream" } }));
  });
  const events = new Stockhold(SERVER, { fetch: silent }).events();
  let first: FeedEvent | undefined;
  void events.next().then(({ value }) => (first = value));
  for (let passed = 0; first === undefined && passed < 46_000; passed += 1_000) {
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    if (passed < 45_000) assert.equal(requests, 1, `it is given up after ${passed} ms`);
    t.mock.timers.tick(1_000);
  }
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  assert.equal(first?.position, 8);
  await events.return?.();
});
