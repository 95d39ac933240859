// The scenarios that all clients share, through a proxy that loses answers. `clients/scenarios.yaml` says what is in them.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Stockhold, StockholdError, type Hold, type ReserveTerms } from "stockhold";
import { parse } from "yaml";
import { client as direct, lossy, seconds } from "./support.js";

type Json = Record<string, any>;
type Call = (client: Stockhold, step: Json) => Promise<unknown>;

const FILE = new URL("../../../scenarios.yaml", import.meta.url);

const CALLS: Record<string, Call> = {
  set_stock: (client, { at, body }) => client.setStock(at.sku, body, at),
  get_item: (client, { at }) => client.item(at.sku, at),
  get_availability: (client, { at }) => client.available(at.sku, at),
  reserve: (client, { at, body, key }) => client.reserve({ ...at, ...body }, { key }),
  reserve_basket: (client, { body, key }) => client.reserve(body, { key }),
  get_reservation: (client, { at }) => client.reservation(at.reservation_id),
  confirm: (client, { at, body, key }) => client.confirm(at.reservation_id, body, { key }),
  extend: (client, { at, body, key }) => client.extend(at.reservation_id, body.ttl_seconds, { key }),
  release: (client, { at }) => client.release(at.reservation_id, at.reason),
  amend: (client, { at, body, key, version }) => client.amend(at.reservation_id, body, { key, version }),
  fulfil: (client, { at, body, key }) => client.fulfil(at.reservation_id, body, { key }),
  return_units: (client, { at, body, key }) => client.returnUnits(at.reservation_id, body, { key }),
};

class Failed extends Error {}

/** What came of a step: the answer, or the problem of a refusal with its status. */
async function outcome(client: Stockhold, step: Json): Promise<{ answer?: Json; refused?: Json }> {
  try {
    if (step["wait"] !== undefined) {
      await seconds(step["wait"]);
      return { answer: {} };
    }
    if (step["hold"] !== undefined) return { answer: await held(client, step) };
    return { answer: ((await CALLS[step["call"]]!(client, step)) ?? {}) as Json };
  } catch (error) {
    if (!(error instanceof StockholdError)) throw error;
    const { status, reason, retryable } = error;
    return { refused: { ...error.problem, status, reason, retryable } };
  }
}

/** Runs a hold with a closure. The reservation when it began. */
async function held(client: Stockhold, step: Json): Promise<Json> {
  let begun: Json = {};
  const work = async (hold: Hold) => {
    begun = hold.reservation;
    await seconds(step["seconds"]);
    if (step["ends"] === "fails") throw new Failed();
    if (step["ends"] === "confirms") await hold.confirm();
  };
  const run = client.withHold(step["hold"] as ReserveTerms, work);
  await (step["ends"] === "fails" ? assert.rejects(run, Failed) : run);
  return begun;
}

/** A value with what is known in place of each `${name}`. */
function filled(value: any, known: Json): any {
  if (Array.isArray(value)) return value.map((element) => filled(element, known));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, filled(member, known)]));
  }
  if (typeof value !== "string") return value;
  const whole = /^\$\{(\w+)\}$/.exec(value);
  return whole ? known[whole[1]!] : value.replace(/\$\{(\w+)\}/g, (_, name) => String(known[name]));
}

/** Fails if what was found has not what is expected. It may have more members. */
function compare(place: string, expected: any, found: any): void {
  if (typeof expected !== "object" || typeof found !== "object" || found === null) {
    assert.deepEqual(found, expected, place);
    return;
  }
  if (Array.isArray(expected)) assert.equal(found.length, expected.length, `${place}, length`);
  for (const [name, member] of Object.entries(expected)) compare(`${place}, ${name}`, member, found[name]);
}

test("the scenarios of all clients", async (t) => {
  const { proxy, client } = await lossy(t);
  const run = `run-${randomUUID().slice(0, 13)}`;
  const { scenarios } = parse(readFileSync(FILE, "utf8")) as { scenarios: Json[] };
  for (const scenario of scenarios) {
    await t.test(scenario["name"], async () => {
      const known: Json = { run };
      for (const [number, written] of scenario["steps"].entries()) {
        const step = filled(written, known);
        const place = `step ${number + 1}`;
        const { answer, refused } = await outcome(client, step);
        assert.equal(refused === undefined, step.refused === undefined, `${place}: ${JSON.stringify(refused ?? answer)}`);
        compare(place, step.refused ?? step.expect ?? {}, refused ?? answer);
        for (const [name, member] of Object.entries<string>(step.save ?? {})) known[name] = answer?.[member];
      }
    });
  }
  assert.ok(proxy.lost > 50, "the proxy loses nothing");
  for (const item of scenarios.flatMap((scenario) => filled(scenario["counters"], { run }) as Json[])) {
    compare(item["sku"], item, await direct.item(item["sku"], item));
  }
});
