//! `stockhold ctl webhooks`: the endpoints that events are sent to, and their deliveries.

use super::{ApiRequest, show};
use crate::client::{encoded, push_query};
use crate::table::{Column, table};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

/// The path of the endpoints.
const WEBHOOKS: &str = "/v1/webhooks";

#[derive(Subcommand)]
pub(super) enum WebhooksCommand {
    /// Show the endpoints
    List,
    /// Create an endpoint. Its secret is printed, this once
    ///
    ///   stockhold ctl webhooks create https://shop.example/hook --types reservation.*
    #[command(verbatim_doc_comment)]
    Create(CreateArgs),
    /// Show an endpoint
    Get(WebhookArgs),
    /// Have an endpoint get events again. It gets those from now on
    Enable(WebhookArgs),
    /// Have an endpoint get no events
    Disable(WebhookArgs),
    /// Delete an endpoint
    Delete(WebhookArgs),
    /// Send a test to an endpoint, and show what it answers
    Test(WebhookArgs),
    /// Replace the secret of an endpoint. The new one is printed, this once
    Rotate(RotateArgs),
    /// Show deliveries: those that wait for their next attempt, those that were given up, and those that succeeded
    Deliveries(DeliveriesArgs),
    /// Try a delivery again now
    Retry(RetryArgs),
    /// Deliver events again
    ///
    ///   stockhold ctl webhooks replay WEBHOOK --since 2026-11-24T09:30:00Z --until 2026-11-24T10:15:00Z
    ///   stockhold ctl webhooks replay WEBHOOK --from-position 1 --only-failed
    #[command(verbatim_doc_comment)]
    Replay(WebhookReplayArgs),
}

#[derive(Args)]
pub(super) struct WebhookArgs {
    /// The endpoint's id
    #[arg(value_name = "WEBHOOK")]
    id: String,
}

#[derive(Args)]
pub(super) struct CreateArgs {
    /// Where events are sent to, with https://
    #[arg(value_name = "URL")]
    url: String,
    /// Only events of these types, like reservation.confirmed or reservation.*. Several have commas between them
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Only events of this SKU. Can be given several times
    #[arg(long = "sku", value_name = "SKU")]
    skus: Vec<String>,
    /// Only events of this location. Can be given several times
    #[arg(long = "location", value_name = "LOCATION")]
    locations: Vec<String>,
    /// Most deliveries in a second
    #[arg(long, value_name = "N")]
    rate_limit: Option<u32>,
}

#[derive(Args)]
pub(super) struct RotateArgs {
    #[command(flatten)]
    webhook: WebhookArgs,
    /// How long older secrets sign, in seconds [default: 86400]
    #[arg(long, value_name = "SECONDS")]
    overlap: Option<u32>,
}

#[derive(Args)]
pub(super) struct DeliveriesArgs {
    #[command(flatten)]
    webhook: WebhookArgs,
    /// Only deliveries with this status: pending, failed or succeeded
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Most deliveries that succeeded
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
}

#[derive(Args)]
pub(super) struct RetryArgs {
    #[command(flatten)]
    webhook: WebhookArgs,
    /// The delivery's id; `webhooks deliveries` shows it
    #[arg(value_name = "DELIVERY")]
    delivery: String,
}

#[derive(Args)]
pub(super) struct WebhookReplayArgs {
    #[command(flatten)]
    webhook: WebhookArgs,
    /// The first event
    #[arg(long, value_name = "N", required_unless_present = "since", conflicts_with = "since")]
    from_position: Option<u64>,
    /// Events that were decided at this instant or later
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// The last event [default: the newest that was delivered]
    #[arg(long, value_name = "N", conflicts_with = "until")]
    to_position: Option<u64>,
    /// Events that were decided at this instant or before
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only events whose delivery was given up
    #[arg(long)]
    only_failed: bool,
}

impl WebhookArgs {
    fn path(&self, action: &str) -> String {
        format!("{WEBHOOKS}/{}{action}", encoded(&self.id))
    }

    fn set_status(&self, status: &str) -> ApiRequest {
        let body = json!({ "status": status });
        ApiRequest { method: "PATCH", ..ApiRequest::post(self.path(""), body, one) }
    }
}

impl WebhooksCommand {
    pub(super) fn request(&self) -> ApiRequest {
        match self {
            Self::List => ApiRequest::get(WEBHOOKS.to_owned(), all),
            Self::Create(create) => {
                let mut body = json!({ "url": create.url });
                let lists =
                    [("types", &create.types), ("skus", &create.skus), ("locations", &create.locations)];
                for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
                    body[name] = json!(list);
                }
                if let Some(rate_limit) = create.rate_limit {
                    body["rate_limit"] = rate_limit.into();
                }
                ApiRequest::post(WEBHOOKS.to_owned(), body, one)
            }
            Self::Get(webhook) => ApiRequest::get(webhook.path(""), one),
            Self::Enable(webhook) => webhook.set_status("enabled"),
            Self::Disable(webhook) => webhook.set_status("disabled"),
            Self::Delete(webhook) => {
                let deleted = |_: &Value| "The endpoint is deleted.\n".to_owned();
                ApiRequest { method: "DELETE", ..ApiRequest::get(webhook.path(""), deleted) }
            }
            Self::Test(webhook) => {
                let shown = |value: &Value| show::fields(value, &TEST);
                ApiRequest { body: None, ..ApiRequest::post(webhook.path("/test"), json!({}), shown) }
            }
            Self::Rotate(rotate) => {
                let body = rotate.overlap.map_or(json!({}), |overlap| json!({ "overlap_seconds": overlap }));
                let shown = |value: &Value| show::fields(value, &[("secret", "secret")]);
                ApiRequest::post(rotate.webhook.path("/rotate"), body, shown)
            }
            Self::Deliveries(page) => {
                let mut path = page.webhook.path("/deliveries");
                if let Some(status) = &page.status {
                    push_query(&mut path, "status", status);
                }
                if let Some(limit) = page.limit {
                    push_query(&mut path, "limit", &limit.to_string());
                }
                ApiRequest::get(path, deliveries)
            }
            Self::Retry(retry) => {
                let path = retry.webhook.path(&format!("/deliveries/{}/retry", encoded(&retry.delivery)));
                let shown = |_: &Value| "It is tried again.\n".to_owned();
                ApiRequest { body: None, ..ApiRequest::post(path, json!({}), shown) }
            }
            Self::Replay(replay) => {
                let mut body = json!({});
                let positions =
                    [("from_position", replay.from_position), ("to_position", replay.to_position)];
                for (name, position) in positions {
                    if let Some(position) = position {
                        body[name] = position.into();
                    }
                }
                for (name, time) in [("since", &replay.since), ("until", &replay.until)] {
                    if let Some(time) = time {
                        body[name] = time.as_str().into();
                    }
                }
                if replay.only_failed {
                    body["only"] = "failed".into();
                }
                ApiRequest::post(replay.webhook.path("/replay"), body, |value| show::fields(value, &REPLAY))
            }
        }
    }
}

const WEBHOOK: [(&str, &str); 10] = [
    ("webhook", "webhook_id"),
    ("url", "url"),
    ("types", "types"),
    ("skus", "skus"),
    ("locations", "locations"),
    ("rate limit", "rate_limit"),
    ("status", "status"),
    ("reason", "disabled_reason"),
    ("created", "created_at"),
    ("secret", "secret"),
];
const TEST: [(&str, &str); 3] =
    [("delivered", "delivered"), ("answer", "response_status"), ("error", "error")];
const REPLAY: [(&str, &str); 3] =
    [("from position", "from_position"), ("to position", "to_position"), ("deliveries", "deliveries")];
const COLUMNS: [Column; 4] = [
    Column("WEBHOOK", "webhook_id"),
    Column("STATUS", "status"),
    Column("URL", "url"),
    Column("REASON", "disabled_reason"),
];
const DELIVERY_COLUMNS: [Column; 7] = [
    Column("DELIVERY", "delivery_id"),
    Column("POSITION", "position"),
    Column("TYPE", "type"),
    Column("STATUS", "status"),
    Column("ATTEMPTS", "attempts"),
    Column("ANSWER", "response_status"),
    Column("NEXT ATTEMPT", "next_attempt_at"),
];

fn one(value: &Value) -> String {
    show::fields(value, &WEBHOOK)
}

fn all(value: &Value) -> String {
    let all = show::entries(&value["data"]);
    if all.is_empty() {
        return "There are no endpoints. `stockhold ctl webhooks create` makes one.\n".to_owned();
    }
    table(&COLUMNS, &all)
}

fn deliveries(value: &Value) -> String {
    let all = show::entries(&value["data"]);
    if all.is_empty() {
        return "There are no such deliveries.\n".to_owned();
    }
    table(&DELIVERY_COLUMNS, &all)
}
