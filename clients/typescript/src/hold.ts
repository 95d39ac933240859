// A hold for as long as a closure runs.

import type { CommandOptions } from "./calls.js";
import type { Stockhold } from "./client.js";
import { NoAnswer, StockholdError } from "./errors.js";
import { sleep } from "./time.js";
import type { ConfirmMembers, Reservation } from "./types.js";

/** With these refusals of a release, the units are sold or about to be: the closure has seen to it by another call. */
const SOLD_OTHERWISE = ["reservation_confirmed", "payment_in_progress"];

/** What the closure of `withHold` gets. */
export class Hold {
  readonly #client: Stockhold;
  #reservation: Reservation;
  #isConfirmed = false;

  constructor(client: Stockhold, reservation: Reservation) {
    this.#client = client;
    this.#reservation = reservation;
  }

  get id(): string {
    return this.#reservation.reservation_id;
  }

  /** The reservation as the reserve or the confirm returned it. */
  get reservation(): Reservation {
    return this.#reservation;
  }

  get isConfirmed(): boolean {
    return this.#isConfirmed;
  }

  /** Turns the hold into a sale. */
  async confirm(members: ConfirmMembers = {}, options: CommandOptions = {}): Promise<Reservation> {
    this.#reservation = await this.#client.confirm(this.id, members, options);
    this.#isConfirmed = true;
    return this.#reservation;
  }
}

/** Runs the closure, extends the hold meanwhile, and releases it unless the closure has confirmed it. */
export async function runWithHold<Result>(
  client: Stockhold,
  hold: Hold,
  ttlSeconds: number,
  work: (hold: Hold) => Promise<Result>,
): Promise<Result> {
  const returned = new AbortController();
  const extending = keepExtended(client, hold.id, ttlSeconds, returned.signal);
  const stopExtending = () => {
    returned.abort();
    return extending;
  };
  let result: Result;
  try {
    result = await work(hold);
  } catch (error) {
    await stopExtending();
    // The hold ends by itself at its deadline. The error of the closure matters more.
    if (!hold.isConfirmed) await client.release(hold.id).catch(() => undefined);
    throw error;
  }
  await stopExtending();
  if (!hold.isConfirmed) await releaseUnsold(client, hold.id);
  return result;
}

async function releaseUnsold(client: Stockhold, id: string): Promise<void> {
  try {
    await client.release(id);
  } catch (error) {
    if (!(error instanceof StockholdError && SOLD_OTHERWISE.includes(error.reason))) throw error;
  }
}

/** Extends the hold at a third of its time to live, until the signal aborts or the server refuses. */
async function keepExtended(client: Stockhold, id: string, ttlSeconds: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await sleep((ttlSeconds * 1_000) / 3, signal);
      await client.extend(id, ttlSeconds, { signal });
    } catch (error) {
      // If the server can't do it now, the next extend may still come in time. After a refusal the deadline stays as it is,
      // and the confirm says what became of the hold.
      const mayWorkLater = (error instanceof NoAnswer || error instanceof StockholdError) && error.retryable;
      if (!mayWorkLater) return;
    }
  }
}
