//! The rows of the routes of webhook endpoints, without their paths.

use super::row::{NO_STORE, REPLAYED, empty, json, optional, required};
use super::table::PLAIN;
use super::{Access, RequiredScope, Response, RouteSpec, Tag};
use crate::problem::Reason;
use stockhold_service::Scope;

const ADMIN: RequiredScope = RequiredScope::One(Scope::WebhooksAdmin);

/// What the routes have in common.
const WEBHOOKS: RouteSpec = RouteSpec { tag: Tag::Events, scope: ADMIN, ..PLAIN };

pub(super) const CREATE_WEBHOOK: RouteSpec = RouteSpec {
    metric: "create_webhook",
    summary: "Create a webhook endpoint",
    description: "The endpoint gets every event from now on that the filters leave, as a POST with a CloudEvent, signed as Standard \
        Webhooks defines it. The answer has the secret that signs as `secret`. It is shown this once: a \
        repeated request under the same idempotency key gets the endpoint as it is then, without a secret, \
        or `unknown_webhook` if it was deleted since. If the first answer was lost, `rotate` makes another secret.\n\nThe endpoint \
        keeps the scopes of its creator. Only a caller that has all of them changes, tests or replays it. The types \
        `access.*` need `keys:admin`: without it, an endpoint without `types` does not get them.\n\nThe address must be https, and \
        its name must lead to public addresses only. The operator of the server may allow other networks.",
    body: required("WebhookRequest"),
    idempotency_key: true,
    access: Access::Write,
    responses: &[Response {
        headers: &[("Location", "WebhookLocation"), NO_STORE, REPLAYED],
        ..json(201, "The endpoint with its secret.", "NewWebhook")
    }],
    own_reasons: &[Reason::UnknownWebhook, Reason::TooManyWebhooks],
    ..WEBHOOKS
};

pub(super) const LIST_WEBHOOKS: RouteSpec = RouteSpec {
    metric: "webhooks",
    summary: "List webhook endpoints",
    description: "All endpoints, without their secrets.",
    access: Access::Read,
    responses: &[json(200, "The endpoints, in the order of their creation.", "WebhookList")],
    ..WEBHOOKS
};

pub(super) const GET_WEBHOOK: RouteSpec = RouteSpec {
    metric: "webhook",
    summary: "Read a webhook endpoint",
    description: "An endpoint, without its secret.",
    access: Access::Read,
    responses: &[json(200, "The endpoint.", "Webhook")],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOKS
};

pub(super) const UPDATE_WEBHOOK: RouteSpec = RouteSpec {
    metric: "update_webhook",
    summary: "Change a webhook endpoint",
    description: "Members that are left out stay as they are. While an endpoint is disabled, it gets nothing and nothing waits for it. \
        One that is enabled again gets the events from then on. `replay` brings those that it missed.",
    body: required("WebhookChange"),
    access: Access::Write,
    responses: &[json(200, "The endpoint after the change.", "Webhook")],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOKS
};

pub(super) const DELETE_WEBHOOK: RouteSpec = RouteSpec {
    metric: "delete_webhook",
    summary: "Delete a webhook endpoint",
    description: "Nothing is delivered to it any more. What is on its way may still arrive.",
    access: Access::Write,
    responses: &[empty(204, "It is deleted.")],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOKS
};

pub(super) const TEST_WEBHOOK: RouteSpec = RouteSpec {
    metric: "test_webhook",
    summary: "Send a test to a webhook endpoint",
    description: "Sends a message of type `stockhold.webhook.test` once, whatever the filters say and whether the endpoint is enabled or \
        not, and answers with what came back. It is no event of the feed.",
    access: Access::Write,
    responses: &[json(202, "What the endpoint answered.", "WebhookTest")],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOKS
};

pub(super) const ROTATE_WEBHOOK: RouteSpec = RouteSpec {
    metric: "rotate_webhook",
    summary: "Replace the secret of a webhook endpoint",
    description: "Makes a new secret, which is shown this once: a repeated request under the same idempotency key makes none and shows none. Until the overlap ends, each delivery has a signature by the new secret and \
        one by each older secret. All older secrets end with the overlap.",
    body: optional("RotateRequest"),
    idempotency_key: true,
    access: Access::Write,
    responses: &[Response {
        headers: &[NO_STORE, REPLAYED],
        ..json(200, "The new secret.", "WebhookSecret")
    }],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOKS
};

pub(super) const LIST_DELIVERIES: RouteSpec = RouteSpec {
    metric: "deliveries",
    summary: "List deliveries of a webhook endpoint",
    description: "First those that wait for their next attempt (`pending`), then those that were given up in the last 30 days (`failed`, at \
        most 150), then those that succeeded in the last 7 days, the newest first, in pages. Those that succeeded are found in the \
        events: every event that the endpoint has passed, that its filters leave now, and that is neither pending nor failed.",
    access: Access::Read,
    responses: &[json(200, "A page of deliveries.", "DeliveryPage")],
    own_reasons: &[Reason::UnknownWebhook],
    ..WEBHOOKS
};

pub(super) const RETRY_DELIVERY: RouteSpec = RouteSpec {
    metric: "retry_delivery",
    summary: "Try a delivery again now",
    description: "One that is pending is tried at once. One that was given up becomes pending again, with all its attempts.",
    access: Access::Write,
    responses: &[empty(204, "It is tried again.")],
    own_reasons: &[Reason::UnknownWebhook, Reason::UnknownDelivery, Reason::WebhookDisabled],
    ..WEBHOOKS
};

pub(super) const REPLAY_WEBHOOK: RouteSpec = RouteSpec {
    metric: "replay_webhook",
    summary: "Deliver events to a webhook endpoint again",
    description: "Delivers the events of a range again that the filters leave, beside new ones, with their ids. A replay that is under way is \
        replaced. With `only: \"failed\"` only those are delivered again that were given up, as many as may be pending at once; \
        `deliveries` says how many.",
    body: required("WebhookReplayRequest"),
    access: Access::Write,
    responses: &[json(202, "What is delivered again.", "WebhookReplay")],
    own_reasons: &[Reason::UnknownWebhook, Reason::WebhookDisabled],
    ..WEBHOOKS
};
