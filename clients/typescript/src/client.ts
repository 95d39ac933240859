// The client: a method for each call that shops make, and `call` for all others.

import { command, itemPath, reservationPath, type Call, type CommandOptions } from "./calls.js";
import { Hold, runWithHold } from "./hold.js";
import { Transport, type ClientOptions, type EventOptions } from "./transport.js";
import type {
  AmendMembers,
  Availability,
  CheckoutMembers,
  ConfirmMembers,
  FeedEvent,
  FulfilMembers,
  Item,
  RefundMembers,
  Reservation,
  ReserveTerms,
  ReturnMembers,
  StockSettings,
} from "./types.js";

/** Where an item is stocked. Default: the location `default`. */
export interface AtLocation {
  location?: string;
}

/** Calls one server. Members of requests and answers have the names of the HTTP API. */
export class Stockhold {
  readonly #transport: Transport;

  constructor(url: string, options: ClientOptions = {}) {
    this.#transport = new Transport(url, options);
  }

  /** Sends a request and returns the value of the answer; for routes without a method of their own. It is sent again only if it can't
   * take effect twice: a read, or a command with an idempotency key, which `command` gives it. */
  async call<Answer>(call: Call): Promise<Answer> {
    return (await this.#transport.call(call)) as Answer;
  }

  /** Creates an item or sets its stock and settings. A setting that is `null` is cleared. */
  setStock(sku: string, settings: StockSettings, at: AtLocation = {}): Promise<Item> {
    return this.call({ method: "PUT", path: itemPath(sku, "", at.location), body: settings, repeatable: true });
  }

  /** An item. */
  item(sku: string, at: AtLocation = {}): Promise<Item> {
    return this.call({ method: "GET", path: itemPath(sku, "", at.location) });
  }

  /** How many units can be reserved. */
  available(sku: string, at: AtLocation = {}): Promise<Availability> {
    return this.call({ method: "GET", path: itemPath(sku, "/available", at.location) });
  }

  /** Holds units of one `sku`, or the `lines` of a basket. */
  async reserve(terms: ReserveTerms, options: CommandOptions = {}): Promise<Reservation> {
    const { sku, location, ...members } = terms;
    if ((sku === undefined) === (members.lines === undefined)) throw new TypeError("reserve needs either sku or lines");
    const path = sku === undefined ? "/v1/reservations" : itemPath(sku, "/reserve", location);
    return this.call(command("POST", path, members, options));
  }

  /** Reserves, and runs the closure: the hold is extended meanwhile, and released unless the closure confirms it. */
  async withHold<Result>(
    terms: ReserveTerms,
    work: (hold: Hold) => Promise<Result>,
    options: CommandOptions = {},
  ): Promise<Result> {
    const reservation = await this.reserve(terms, options);
    return runWithHold(this, new Hold(this, reservation), terms.ttl_seconds ?? ttlOf(reservation), work);
  }

  /** A reservation in any status. */
  reservation(id: string): Promise<Reservation> {
    return this.call({ method: "GET", path: reservationPath(id) });
  }

  /** Turns a hold into a sale. */
  confirm(id: string, members: ConfirmMembers = {}, options: CommandOptions = {}): Promise<Reservation> {
    return this.call(command("POST", reservationPath(id, "/confirm"), members, options));
  }

  /** Moves the deadline to so many seconds from now. */
  extend(id: string, ttlSeconds: number, options: CommandOptions = {}): Promise<Reservation> {
    return this.call(command("POST", reservationPath(id, "/extend"), { ttl_seconds: ttlSeconds }, options));
  }

  /** Gives the units back. A repetition changes nothing. */
  release(id: string, reason?: string): Promise<void> {
    const query = reason === undefined ? "" : `?reason=${encodeURIComponent(reason)}`;
    return this.call({ method: "DELETE", path: reservationPath(id, query), repeatable: true });
  }

  /** Changes a hold, if it still has this `version`: all `lines` that it has afterwards, `ttl_seconds`, `metadata`. */
  amend(id: string, members: AmendMembers, options: CommandOptions & { version?: number } = {}): Promise<Reservation> {
    return this.call(command("PATCH", reservationPath(id), members, options));
  }

  /** Takes the payment of a hold and confirms it. A declined payment throws `payment_declined`. */
  checkout(id: string, members: CheckoutMembers, options: CommandOptions = {}): Promise<Reservation> {
    return this.call(command("POST", reservationPath(id, "/checkout"), members, options));
  }

  /** Gives money back: an `amount`, what `lines` or `units` cost, or all that is left. */
  refund(id: string, members: RefundMembers, options: CommandOptions = {}): Promise<Reservation> {
    return this.call(command("POST", reservationPath(id, "/refund"), members, options));
  }

  /** Records that sold units have left the shelf: `lines`, `units`, or all. */
  fulfil(id: string, members: FulfilMembers = {}, options: CommandOptions = {}): Promise<Reservation> {
    return this.call(command("POST", reservationPath(id, "/fulfil"), members, options));
  }

  /** Takes sold units back: `lines`, `units`, or all. */
  returnUnits(id: string, members: ReturnMembers, options: CommandOptions = {}): Promise<Reservation> {
    return this.call(command("POST", reservationPath(id, "/return"), members, options));
  }

  /** Every event after a position, and then those to come, without an end. It goes on after a lost connection. */
  events(options: EventOptions = {}): AsyncIterableIterator<FeedEvent> {
    return this.#transport.events(options);
  }
}

/** The time to live that the server gave a new hold. */
function ttlOf(reservation: Reservation): number {
  const seconds = (Date.parse(reservation.expires_at) - Date.parse(reservation.created_at)) / 1_000;
  return Math.max(1, Math.round(seconds));
}
