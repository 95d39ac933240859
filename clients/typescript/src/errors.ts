// What a call throws.

/** The members of an answer that is no success. Each reason has more of its own. */
export interface Problem {
  reason?: string;
  retryable?: boolean;
  detail?: string;
  [member: string]: unknown;
}

/** The server refused the request, or could not do it now and was asked often enough. */
export class StockholdError extends Error {
  override readonly name = "StockholdError";
  /** A stable word such as `insufficient_inventory`. */
  readonly reason: string;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;

  constructor(
    readonly status: number,
    /** All members of the answer. */
    readonly problem: Problem,
  ) {
    const reason = String(problem.reason ?? "");
    super(`${status} ${reason}: ${problem.detail ?? "an answer that is no problem document"}`);
    this.reason = reason;
    this.retryable = problem.retryable === true;
  }
}

/** No try got an answer. The command may or may not have taken effect: the same call with the same `key` finds out. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
  readonly retryable = true;
}

/** The webhook is not from the holder of the secret, or not of now. */
export class InvalidSignature extends Error {
  override readonly name = "InvalidSignature";
}
