// Sends requests with fetch: time limits, tries, and the stream of events.

import { isRepeated, pauseBefore, valueOf, type Call } from "./calls.js";
import { NoAnswer, StockholdError } from "./errors.js";
import { blocks } from "./server_sent_events.js";
import { Deadline, sleep } from "./time.js";
import type { EventType, FeedEvent } from "./types.js";

/** The longest wait for one answer. */
const TIMEOUT_MS = 10_000;
/** The server sends something every 15 seconds on an open stream. A connection that is silent for longer than this is lost. */
const LONGEST_SILENCE_MS = 45_000;

export interface ClientOptions {
  /** An API key, a token, or the hold token of one reservation. */
  apiKey?: string;
  /** Replaces the global `fetch`, for example to set certificates or a proxy. */
  fetch?: typeof fetch;
}

export interface EventOptions {
  /** Begin after this position; 0 is from the first event. Default: after the newest event. */
  after?: number;
  /** Only events of these types. Default: all. */
  types?: EventType[];
  /** Ends the stream when it aborts. */
  signal?: AbortSignal;
}

export class Transport {
  readonly #url: string;
  readonly #headers: Headers;
  readonly #fetch: typeof fetch;

  constructor(url: string, options: ClientOptions) {
    const { protocol } = new URL(url);
    if (protocol !== "http:" && protocol !== "https:") {
      throw new TypeError(`the address of a server begins with http:// or https://, not ${protocol}`);
    }
    this.#url = url.replace(/\/+$/, "");
    this.#headers = new Headers(options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` });
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Sends a request, again if it can't take effect twice, and returns the value of the answer. */
  async call(call: Call): Promise<unknown> {
    const request = this.#request(call);
    for (let tries = 1; ; tries += 1) {
      let error: StockholdError | NoAnswer;
      let retryAfter: string | null = null;
      try {
        const answer = await this.#try(call, request);
        retryAfter = answer.retryAfter;
        return valueOf(answer.status, answer.text);
      } catch (thrown) {
        error = failure(call, tries, thrown);
      }
      const pause = pauseBefore(call, tries, error, retryAfter);
      if (pause === undefined) throw error;
      await sleep(pause, call.signal);
    }
  }

  /** Every event after a position, and then those to come. It goes on after a lost connection. */
  async *events(options: EventOptions): AsyncGenerator<FeedEvent, never, undefined> {
    let after: number | string | undefined = options.after;
    let tries = 0;
    for (;;) {
      const call = eventsCall(after, options);
      const deadline = new Deadline(call.signal);
      let error: StockholdError | NoAnswer;
      let retryAfter: string | null = null;
      tries += 1;
      try {
        const answer = await deadline.within(TIMEOUT_MS, this.#send(call, this.#request(call), deadline.signal));
        if (answer.status !== 200 || answer.body === null) {
          retryAfter = answer.headers.get("retry-after");
          valueOf(answer.status, await deadline.within(TIMEOUT_MS, answer.text()));
          throw new StockholdError(answer.status, { detail: "an answer that is no stream of events" });
        }
        const next = blocks(answer.body);
        for (;;) {
          const block = await deadline.within(LONGEST_SILENCE_MS, next());
          if (block === undefined) throw new Error("the server ended the stream");
          tries = 0;
          after = block.id ?? after;
          if (block.data !== "") yield JSON.parse(block.data) as FeedEvent;
        }
      } catch (thrown) {
        // An event that is no JSON must not be passed over.
        if (thrown instanceof SyntaxError) throw thrown;
        error = failure(call, tries, thrown);
      } finally {
        deadline.end();
      }
      const pause = pauseBefore(call, Math.max(tries, 1), error, retryAfter);
      if (pause === undefined) throw error;
      await sleep(pause, call.signal);
    }
  }

  /** What all tries of a call send. Mistakes of the caller are thrown here, and not taken for a lost connection. */
  #request(call: Call): RequestInit {
    const headers = new Headers(this.#headers);
    for (const [name, value] of Object.entries(call.headers ?? {})) headers.set(name, value);
    if (call.body === undefined) return { method: call.method, headers };
    headers.set("content-type", "application/json");
    return { method: call.method, headers, body: JSON.stringify(call.body) };
  }

  #send(call: Call, request: RequestInit, signal: AbortSignal): Promise<Response> {
    // A redirect would turn a POST into a GET.
    return this.#fetch(this.#url + call.path, { ...request, redirect: "manual", signal });
  }

  async #try(call: Call, request: RequestInit): Promise<{ status: number; retryAfter: string | null; text: string }> {
    const deadline = new Deadline(call.signal);
    const read = async () => {
      const answer = await this.#send(call, request, deadline.signal);
      return { status: answer.status, retryAfter: answer.headers.get("retry-after"), text: await answer.text() };
    };
    try {
      return await deadline.within(TIMEOUT_MS, read());
    } finally {
      deadline.end();
    }
  }
}

function eventsCall(after: number | string | undefined, options: EventOptions): Call {
  const query = new URLSearchParams();
  if (after !== undefined) query.set("after", String(after));
  if (options.types !== undefined) query.set("type", options.types.join(","));
  return { method: "GET", path: `/v1/events/stream?${query}`, signal: options.signal };
}

/** What a try failed with: the refusal, or that no answer came. Throws when the caller ended the call. */
function failure(call: Call, tries: number, thrown: unknown): StockholdError | NoAnswer {
  if (thrown instanceof StockholdError) return thrown;
  call.signal?.throwIfAborted();
  const rest = isRepeated(call)
    ? `try ${tries}, the last error: ${thrown}`
    : `${thrown}. It was sent once, because it has no idempotency key. It may have taken effect`;
  return new NoAnswer(`${call.method} ${call.path} got no answer; ${rest}`, { cause: thrown });
}
