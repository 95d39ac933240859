// Names for the generated types that callers meet most. `src/api.ts` is made of the server's OpenAPI document.

import type { components, operations } from "./api.js";

type Schemas = components["schemas"];

export type Item = Schemas["Item"];
export type Availability = Schemas["Availability"];
export type Reservation = Schemas["Reservation"];
/** An event of the feed. */
export type FeedEvent = Schemas["Event"];
/** What webhooks bring: an event of the feed, the availability of an item, or a test. */
export type WebhookEvent = Schemas["CloudEvent"] | Schemas["InventoryCloudEvent"] | Schemas["TestCloudEvent"];
export type EventType = NonNullable<NonNullable<operations["stream_events"]["parameters"]["query"]>["type"]>[number];

export type StockSettings = Schemas["StockRequest"];
export type ConfirmMembers = Schemas["ConfirmRequest"];
export type AmendMembers = Schemas["AmendRequest"];
export type CheckoutMembers = Schemas["CheckoutRequest"];
export type RefundMembers = Schemas["RefundRequest"];
export type FulfilMembers = Schemas["FulfilRequest"];
export type ReturnMembers = Schemas["ReturnRequest"];

/** A reserve of one item. */
export type ItemTerms = Schemas["ReserveRequest"] & { sku: string; location?: string; lines?: undefined };
/** A reserve of several items. */
export type BasketTerms = Schemas["BasketRequest"] & { sku?: undefined; location?: undefined };
export type ReserveTerms = ItemTerms | BasketTerms;
