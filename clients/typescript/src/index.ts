// Client for Stockhold: time-bounded holds on stock. Every command carries an idempotency key, so that a retry takes
// effect once. What has none is sent once.

export type { components, operations } from "./api.js";
export { command, type Call, type CommandOptions } from "./calls.js";
export { Stockhold, type AtLocation } from "./client.js";
export { InvalidSignature, NoAnswer, StockholdError, type Problem } from "./errors.js";
export type { Hold } from "./hold.js";
export type { ClientOptions, EventOptions } from "./transport.js";
export type * from "./types.js";
export { verifyWebhook, type WebhookHeaders } from "./webhooks.js";
