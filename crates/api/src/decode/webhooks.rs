//! The requests on webhook endpoints.

use super::{Invalid, body, both, path};
use crate::field::QueryShape;
use crate::resources::deliveries::{DeliveriesQuery, EventRange, WebhookReplayRequest};
use crate::resources::webhooks::{RotateRequest, WebhookChange, WebhookRequest};
use stockhold_domain::Label;

/// `GET /v1/webhooks`
pub fn webhooks(query: Option<&str>) -> Result<(), Invalid> {
    path::no_query(query)
}

/// The id of an endpoint in a path. An id that no endpoint can have is unknown like any other.
pub fn webhook(id: &str, query: Option<&str>) -> Result<Label, Invalid> {
    both(path::label("/webhook_id", id), path::no_query(query)).map(|(id, ())| id)
}

/// `POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry`
pub fn delivery(id: &str, delivery: &str, query: Option<&str>) -> Result<(Label, Label), Invalid> {
    both(webhook(id, query), path::label("/delivery_id", delivery))
}

/// `POST /v1/webhooks`
pub fn create_webhook(query: Option<&str>, body: &[u8]) -> Result<WebhookRequest, Invalid> {
    both(path::no_query(query), body::read_request(body)).map(|((), body)| body)
}

/// `PATCH /v1/webhooks/{webhook_id}`
pub fn update_webhook(id: &str, query: Option<&str>, body: &[u8]) -> Result<(Label, WebhookChange), Invalid> {
    both(webhook(id, query), body::read_request(body))
}

/// `POST /v1/webhooks/{webhook_id}/rotate`; an empty body is `{}`.
pub fn rotate_webhook(id: &str, query: Option<&str>, body: &[u8]) -> Result<(Label, RotateRequest), Invalid> {
    both(webhook(id, query), body::read_request_or_default(body))
}

/// `GET /v1/webhooks/{webhook_id}/deliveries?status=&limit=&starting_after=`
pub fn deliveries(id: &str, query: Option<&str>) -> Result<(Label, DeliveriesQuery), Invalid> {
    both(path::label("/webhook_id", id), DeliveriesQuery::of_query(query))
}

/// `POST /v1/webhooks/{webhook_id}/replay`
pub fn replay_webhook(id: &str, query: Option<&str>, body: &[u8]) -> Result<(Label, EventRange), Invalid> {
    let (id, body) = both(webhook(id, query), body::read_request::<WebhookReplayRequest>(body))?;
    Ok((id, body.range()?))
}
