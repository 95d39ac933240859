// A proxy between a client and a server that loses answers: the server has done its work, and the client hears nothing.

import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export class LossyProxy {
  requests = 0;
  lost = 0;
  readonly #server: URL;
  readonly #listener: Server;
  readonly #streams = new Set<ServerResponse>();
  #refusals: string[] = [];

  private constructor(server: string) {
    this.#server = new URL(server);
    this.#listener = createServer((asked, answer) => this.#pass(asked, answer));
  }

  static async start(server: string): Promise<LossyProxy> {
    const proxy = new LossyProxy(server);
    await new Promise<void>((resolve) => proxy.#listener.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  /** How many streams of events are open. */
  get streams(): number {
    return this.#streams.size;
  }

  /** Answers so many requests with a 503 that may be retried. */
  refuseNext(times: number, retryAfter: string): void {
    this.#refusals = Array(times).fill(retryAfter);
  }

  /** Breaks all streams of events. */
  cut(): void {
    for (const stream of this.#streams) stream.destroy();
  }

  close(): void {
    this.#listener.close();
    this.#listener.closeAllConnections();
  }

  #pass(asked: IncomingMessage, answer: ServerResponse): void {
    this.requests += 1;
    const retryAfter = this.#refusals.pop();
    if (retryAfter !== undefined) {
      answer.writeHead(503, { "retry-after": retryAfter });
      answer.end('{"reason":"unavailable","retryable":true,"detail":"try again"}');
      return;
    }
    const loses = this.requests % 2 === 1;
    const { hostname, port } = this.#server;
    const options = { hostname, port, method: asked.method, path: asked.url, headers: asked.headers };
    const passed = request(options, (answered) => {
      if (loses) {
        this.lost += 1;
        answered.destroy();
        answer.destroy();
        return;
      }
      if (answered.headers["content-type"]?.startsWith("text/event-stream")) {
        this.#streams.add(answer);
        answer.on("close", () => {
          this.#streams.delete(answer);
          answered.destroy();
        });
      }
      answer.writeHead(answered.statusCode ?? 502, answered.headers);
      answered.on("error", () => answer.destroy());
      answered.pipe(answer);
    });
    passed.on("error", () => answer.destroy());
    asked.pipe(passed);
  }
}
