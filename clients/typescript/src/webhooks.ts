// Checks webhooks, which are signed as Standard Webhooks are (https://www.standardwebhooks.com).

import { InvalidSignature } from "./errors.js";
import type { WebhookEvent } from "./types.js";

/** How far the time of a webhook may be from now. */
const TOLERANCE_SECONDS = 300;

/** Headers of a request, as fetch and as Node's `http` have them. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

/** The event of a webhook. `secret` is the one of the endpoint (`whsec_…`), `body` the request's body as it came. Throws
 * `InvalidSignature`. `now` is in seconds since 1970. */
export async function verifyWebhook(
  secret: string,
  headers: WebhookHeaders,
  body: string | Uint8Array,
  now = Date.now() / 1_000,
): Promise<WebhookEvent> {
  const known = new Map<string, string>();
  for (const [name, value] of headers instanceof Headers ? headers : Object.entries(headers)) {
    if (value !== undefined) known.set(name.toLowerCase(), String(value));
  }
  const id = known.get("webhook-id");
  const sent = known.get("webhook-timestamp") ?? "";
  const signatures = known.get("webhook-signature");
  if (id === undefined || signatures === undefined || !/^\d+$/.test(sent)) {
    throw new InvalidSignature("a header of the signature is missing or no number");
  }
  if (Math.abs(now - Number(sent)) > TOLERANCE_SECONDS) {
    throw new InvalidSignature("the webhook is too old, or a clock is wrong");
  }
  const content = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signed = concatenated(new TextEncoder().encode(`${id}.${sent}.`), content);
  const key = await crypto.subtle.importKey("raw", secretBytes(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  for (const signature of signatures.split(" ")) {
    const bytes = signature.startsWith("v1,") ? fromBase64(signature.slice(3)) : undefined;
    // `verify` compares in a time that does not depend on the signature.
    if (bytes !== undefined && (await crypto.subtle.verify("HMAC", key, bytes, signed))) {
      return JSON.parse(new TextDecoder().decode(content)) as WebhookEvent;
    }
  }
  throw new InvalidSignature("the signature does not fit the secret");
}

function secretBytes(secret: string): Uint8Array<ArrayBuffer> {
  const bytes = fromBase64(secret.replace(/^whsec_/, ""));
  if (bytes === undefined || bytes.length === 0) throw new TypeError("the secret of an endpoint is whsec_ and base64");
  return bytes;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function concatenated(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}
