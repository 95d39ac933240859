// Requests and the rules of retries, without input and output.

import { StockholdError, type NoAnswer, type Problem } from "./errors.js";

/** Tries of one call. */
const TRIES = 5;
/** The pause before the second try. Each next one is twice as long. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
/** A server that asks for a longer pause than this is not waited for. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/** Routes that change nothing, though their method is POST. */
const READS = new Set(["/v1/availability", "/v1/prices/quote"]);

/** One request. */
export interface Call {
  method: string;
  /** The path with its query, such as `/v1/limits`. */
  path: string;
  /** Sent as JSON. */
  body?: unknown;
  headers?: Record<string, string>;
  /** A repetition changes nothing, though it has no idempotency key. */
  repeatable?: boolean;
  /** Ends the call when it aborts. A command may have taken effect all the same. */
  signal?: AbortSignal | undefined;
}

/** What every command takes beside the members of its request. */
export interface CommandOptions {
  /** The idempotency key. Default: a new one, which all tries of the call have. */
  key?: string;
  /** Ends the call when it aborts. The command may have taken effect all the same. */
  signal?: AbortSignal;
}

/** The path of an item. */
export function itemPath(sku: string, tail: string, location: string | undefined): string {
  const query = location === undefined ? "" : `?location=${encodeURIComponent(location)}`;
  return `/v1/inventory/${encodeURIComponent(sku)}${tail}${query}`;
}

/** The path of a reservation. */
export function reservationPath(id: string, tail = ""): string {
  return `/v1/reservations/${encodeURIComponent(id)}${tail}`;
}

/** A request that changes something, with an idempotency key. */
export function command(method: string, path: string, body: unknown, options: CommandOptions & { version?: number } = {}): Call {
  const headers: Record<string, string> = { "idempotency-key": `"${options.key ?? crypto.randomUUID()}"` };
  if (options.version !== undefined) headers["if-match"] = `"${options.version}"`;
  return { method, path, body, headers, signal: options.signal };
}

/** The value of an answer, `undefined` if it has none. Throws a `StockholdError` when it is a refusal or no JSON. */
export function valueOf(status: number, text: string): unknown {
  const isSuccess = status >= 200 && status < 300;
  let value: unknown;
  try {
    value = text === "" ? undefined : JSON.parse(text);
  } catch {
    throw new StockholdError(status, { detail: "an answer that is no JSON" });
  }
  if (isSuccess) return value;
  throw new StockholdError(status, typeof value === "object" && value !== null ? (value as Problem) : {});
}

/** Whether it is sent again when no answer came: only what can't take effect twice. A precondition alone can't tell an earlier success of
 * the same request from another caller's change. */
export function isRepeated(call: Call): boolean {
  const hasKey = Object.keys(call.headers ?? {}).some((name) => name.toLowerCase() === "idempotency-key");
  return hasKey || (call.repeatable ?? (["GET", "HEAD"].includes(call.method) || READS.has(call.path.replace(/\?.*/, ""))));
}

/** The milliseconds that `Retry-After` asks for, in either form of RFC 9110 10.2.3: a number of seconds, or a date. */
function askedPause(text: string): number | undefined {
  if (/^\d+$/.test(text)) return Number(text) * 1_000;
  const until = Date.parse(text);
  return Number.isNaN(until) ? undefined : Math.max(until - Date.now(), 0);
}

/** Milliseconds before the next try, after so many of them. `undefined`: there is no next one. */
export function pauseBefore(call: Call, tries: number, error: StockholdError | NoAnswer, retryAfter: string | null): number | undefined {
  if (tries >= TRIES || !isRepeated(call) || !error.retryable) return undefined;
  const asked = retryAfter === null ? undefined : askedPause(retryAfter.trim());
  if (asked !== undefined) return asked <= LONGEST_RETRY_AFTER_MS ? asked : undefined;
  const pause = Math.min(FIRST_PAUSE_MS * 2 ** (tries - 1), LONGEST_PAUSE_MS);
  return pause * (0.5 + Math.random());
}
