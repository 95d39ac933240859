// What the client adds to a call: the same request by the client and by `fetch` alone, in turns, on connections that stay open.
//
//     STOCKHOLD_SERVER=http://127.0.0.1:8101 npm run bench

import { Stockhold } from "stockhold";

const SERVER = process.env["STOCKHOLD_SERVER"] ?? "http://127.0.0.1:8101";
const CALLS = 20_000;
const WARM_UP = 2_000;

const sku = `bench-${crypto.randomUUID()}`;
const client = new Stockhold(SERVER);
await client.setStock(sku, { total_units: 1_000_000_000 });
const terms = { owner_id: "bench", ttl_seconds: 60 };

const ways: Record<string, () => Promise<unknown>> = {
  fetch: async () => {
    const answer = await fetch(`${SERVER}/v1/inventory/${sku}/reserve`, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": crypto.randomUUID() },
      body: JSON.stringify(terms),
    });
    return answer.json();
  },
  client: () => client.reserve({ sku, ...terms }),
};

const times: Record<string, number[]> = { fetch: [], client: [] };
for (let number = 0; number < WARM_UP + CALLS; number += 1) {
  for (const [name, call] of Object.entries(ways)) {
    const began = performance.now();
    await call();
    if (number >= WARM_UP) times[name]!.push((performance.now() - began) * 1_000);
  }
}

const median = (values: number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]!;
const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
for (const [name, of] of Object.entries({ median, mean })) {
  const [bare, whole] = [of(times["fetch"]!), of(times["client"]!)];
  const added = `added ${(whole - bare).toFixed(0)} µs, ratio ${(whole / bare).toFixed(2)}`;
  console.log(`${name}: fetch ${bare.toFixed(0)} µs, client ${whole.toFixed(0)} µs, ${added}`);
}
