// What the tests share: the server, names, and a `fetch` that a test watches or replaces.

import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";
import { Stockhold } from "stockhold";
import { LossyProxy } from "./proxy.js";

const { STOCKHOLD_SERVER } = process.env;
if (STOCKHOLD_SERVER === undefined) throw new Error("STOCKHOLD_SERVER must be the address of a running server");
export const SERVER = STOCKHOLD_SERVER;

export const client = new Stockhold(SERVER);

/** A new item with 100 units. */
export async function newItem(): Promise<string> {
  const sku = `typescript-${randomUUID()}`;
  await client.setStock(sku, { total_units: 100 });
  return sku;
}

export async function lossy(t: TestContext): Promise<{ proxy: LossyProxy; client: Stockhold }> {
  const proxy = await LossyProxy.start(SERVER);
  t.after(() => proxy.close());
  return { proxy, client: new Stockhold(proxy.url) };
}

type Instead = (method: string, url: string, init: RequestInit) => Promise<Response> | undefined;

/** A `fetch` that asks `instead` first, and sends the request if it returns nothing. */
export function fetchWith(instead: Instead): typeof fetch {
  return (input, init = {}) => instead(String(init.method), String(input), init) ?? fetch(input, init);
}

export function problem(status: number, reason: string, headers: Record<string, string> = {}, retryable = false): Response {
  return new Response(JSON.stringify({ reason, retryable, detail: "made by a test" }), { status, headers });
}

/** Lets all that is ready run. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export function seconds(count: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, count * 1_000));
}
