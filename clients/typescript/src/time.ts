// Pauses and time limits that a caller can end.

/** Resolves after so many milliseconds. Rejects when the signal aborts. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const end = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** A signal that aborts after some time without progress, or when the caller's own signal does. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #callers: AbortSignal | undefined;
  readonly #forward = () => this.#controller.abort(this.#callers?.reason);

  constructor(callers: AbortSignal | undefined) {
    callers?.throwIfAborted();
    this.#callers = callers;
    callers?.addEventListener("abort", this.#forward, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Waits for one step. The signal aborts when it takes longer than so many milliseconds. */
  async within<Value>(ms: number, step: Promise<Value>): Promise<Value> {
    const timer = setTimeout(() => this.#controller.abort(new Error(`nothing came within ${ms / 1_000} s`)), ms);
    try {
      return await step;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends what uses the signal, if it still runs. */
  end(): void {
    this.#callers?.removeEventListener("abort", this.#forward);
    this.#controller.abort();
  }
}
