//! The requests on webhook endpoints.

use super::body::{self, RotateBody, WebhookBody, WebhookChangeBody, WebhookReplayBody};
use super::field::Text;
use super::lists::{PAGE_DEFAULT, limit};
use super::{EventBound, Invalid, both, path};
use crate::encode::DeliveryStatus;
use crate::webhook_record::WebhookStatus;
use crate::{EventType, event_types_named};
use serde_json::json;
use std::borrow::Cow;
use stockhold_domain::{Label, Patch};

/// Most types, SKUs or locations that an endpoint names.
pub const WEBHOOK_ENTRIES: usize = 100;
/// How long older secrets sign after a rotation that does not say it, in seconds: a day.
pub const ROTATION_OVERLAP_SECONDS: u32 = 86_400;

/// What a request says of an endpoint. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookChange {
    /// Where events are sent to.
    pub url: Option<String>,
    /// Types and patterns of types; empty for all.
    pub types: Option<Vec<String>>,
    /// SKUs; empty for all.
    pub skus: Option<Vec<String>>,
    /// Locations; empty for all.
    pub locations: Option<Vec<String>>,
    /// Most deliveries in a second. `Some(None)`: as many as it takes.
    pub rate_limit: Option<Option<u32>>,
    /// Whether it gets events.
    pub status: Option<WebhookStatus>,
}

/// An endpoint to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateWebhook<'a> {
    /// Its settings.
    pub settings: WebhookChange,
    /// The body's `idempotency_key`.
    pub idempotency_key: Option<Cow<'a, str>>,
}

impl CreateWebhook<'_> {
    /// What the request asks for, as bytes that are the same for the same meaning. Fingerprints of idempotency keys are made of it.
    pub fn meaning(&self) -> Vec<u8> {
        let WebhookChange { url, types, skus, locations, rate_limit, status: _ } = &self.settings;
        json!([url, types, skus, locations, rate_limit]).to_string().into_bytes()
    }
}

/// A request for a new secret of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotateWebhook<'a> {
    /// Which endpoint.
    pub webhook_id: Label,
    /// How long older secrets sign, in seconds.
    pub overlap_seconds: u32,
    /// The body's `idempotency_key`.
    pub idempotency_key: Option<Cow<'a, str>>,
}

impl RotateWebhook<'_> {
    /// What the request asks for, as bytes that are the same for the same meaning. Fingerprints of idempotency keys are made of it.
    pub fn meaning(&self) -> Vec<u8> {
        json!([self.webhook_id.as_str(), self.overlap_seconds]).to_string().into_bytes()
    }
}

/// Events that are to be delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookReplayRequest {
    /// The first.
    pub from: EventBound,
    /// The last. `None`: the newest that was delivered.
    pub to: Option<EventBound>,
    /// Whether only those are meant whose delivery failed.
    pub only_failed: bool,
}

/// A page of deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveriesQuery {
    /// Only those with this status.
    pub status: Option<DeliveryStatus>,
    /// The cursor of the page before.
    pub before: Option<u64>,
    /// Most deliveries that succeeded.
    pub limit: usize,
}

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
pub fn create_webhook<'a>(query: Option<&str>, body: &'a [u8]) -> Result<CreateWebhook<'a>, Invalid> {
    let ((), body) = both(path::no_query(query), body::read::<WebhookBody<'a>>(body))?;
    let settings = change(WebhookChangeBody {
        url: Some(body.url),
        types: body.types,
        skus: body.skus,
        locations: body.locations,
        rate_limit: body.rate_limit.map_or(Patch::Keep, Patch::Set),
        status: None,
    })?;
    Ok(CreateWebhook { settings, idempotency_key: body.idempotency_key.map(|key| key.0) })
}

/// `PATCH /v1/webhooks/{webhook_id}`
pub fn update_webhook(id: &str, query: Option<&str>, body: &[u8]) -> Result<(Label, WebhookChange), Invalid> {
    let (id, body) = both(webhook(id, query), body::read::<WebhookChangeBody>(body))?;
    Ok((id, change(body)?))
}

fn change(body: WebhookChangeBody) -> Result<WebhookChange, Invalid> {
    let list = |pointer: &str, list: Option<Vec<Text>>| match list {
        Some(list) if list.len() > WEBHOOK_ENTRIES => {
            let found = list.len();
            Err(Invalid::new(pointer, format!("must have at most {WEBHOOK_ENTRIES} entries, found {found}")))
        }
        list => Ok(list.map(|list| list.into_iter().map(|text| text.0.as_str().to_owned()).collect())),
    };
    let types = list("/types", body.types).and_then(|types: Option<Vec<String>>| {
        for (number, name) in types.iter().flatten().enumerate() {
            if event_types_named(name).next().is_none() {
                let known: Vec<_> = EventType::ALL.iter().map(|kind| kind.name()).collect();
                let known = known.join(", ");
                let detail = format!(
                    "must be a type of events or a pattern like reservation.*; the types are {known}"
                );
                return Err(Invalid::new(format!("/types/{number}"), detail));
            }
        }
        Ok(types)
    });
    let (types, skus) = both(types, list("/skus", body.skus))?;
    let locations = list("/locations", body.locations)?;
    Ok(WebhookChange {
        url: body.url.map(|url| url.0),
        types,
        skus,
        locations,
        rate_limit: match body.rate_limit {
            Patch::Keep => None,
            Patch::Clear => Some(None),
            Patch::Set(rate) => Some(Some(rate.0)),
        },
        status: body.status.map(|status| status.0),
    })
}

/// `POST /v1/webhooks/{webhook_id}/rotate`
pub fn rotate_webhook<'a>(
    id: &str,
    query: Option<&str>,
    body: &'a [u8],
) -> Result<RotateWebhook<'a>, Invalid> {
    let (webhook_id, body) = both(webhook(id, query), body::read_or_default::<RotateBody<'a>>(body))?;
    let overlap_seconds = body.overlap_seconds.map_or(ROTATION_OVERLAP_SECONDS, |overlap| overlap.0);
    let idempotency_key = body.idempotency_key.map(|key| key.0);
    Ok(RotateWebhook { webhook_id, overlap_seconds, idempotency_key })
}

/// `GET /v1/webhooks/{webhook_id}/deliveries?status=&limit=&starting_after=`
pub fn deliveries(id: &str, query: Option<&str>) -> Result<(Label, DeliveriesQuery), Invalid> {
    let mut page = DeliveriesQuery { status: None, before: None, limit: PAGE_DEFAULT };
    let read = path::parameters(query, &["status", "limit", "starting_after"], |at, text| {
        match at {
            0 => page.status = Some(delivery_status(text)?),
            1 => page.limit = limit(text)?,
            _ => {
                let before = text.parse().ok().filter(|before| *before > 0);
                let what = "must be the next_cursor of a page of this list, unchanged";
                page.before = Some(before.ok_or_else(|| what.to_owned())?);
            }
        }
        Ok(())
    });
    both(path::label("/webhook_id", id), read).map(|(id, ())| (id, page))
}

fn delivery_status(text: &str) -> Result<DeliveryStatus, String> {
    let known = DeliveryStatus::ALL.into_iter().find(|status| status.name() == text);
    known.ok_or_else(|| {
        format!("must be pending, succeeded or failed, found \"{}\"", super::explain::clip(text))
    })
}

/// `POST /v1/webhooks/{webhook_id}/replay`
pub fn replay_webhook(
    id: &str,
    query: Option<&str>,
    body: &[u8],
) -> Result<(Label, WebhookReplayRequest), Invalid> {
    let (id, body) = both(webhook(id, query), body::read::<WebhookReplayBody>(body))?;
    let from = match (body.from_position, body.since) {
        (Some(position), None) => EventBound::Position(position.0),
        (None, Some(since)) => EventBound::Time(since.0),
        (Some(_), Some(_)) => return Err(Invalid::new("/since", "must be left out beside from_position")),
        (None, None) => return Err(Invalid::new("", "must have from_position or since")),
    };
    let to = match (body.to_position, body.until) {
        (Some(position), None) => Some(EventBound::Position(position.0)),
        (None, Some(until)) => Some(EventBound::Time(until.0)),
        (Some(_), Some(_)) => return Err(Invalid::new("/until", "must be left out beside to_position")),
        (None, None) => None,
    };
    Ok((id, WebhookReplayRequest { from, to, only_failed: body.only.is_some_and(|only| only.0) }))
}
