//! Turns flags into requests. The server checks values, because its error texts are better. Only what can't be written as a request is
//! refused here.

use super::ApiRequest;
use super::show;
use super::units::UnitSelectionArgs;
use crate::client::{RESERVATIONS, encoded, item_path, push_query};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use std::str::FromStr;
use stockhold_domain::Label;

/// `SKU=N`, or `SKU` for one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineArg {
    sku: String,
    quantity: u64,
}

impl FromStr for LineArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((sku, units)) = text.rsplit_once('=') else {
            return Ok(Self { sku: text.to_owned(), quantity: 1 });
        };
        let quantity = units.parse().map_err(|_| {
            format!("the text after the last = must be a number of units, found {units:?}; write {text}=1 for one unit of {text:?}")
        })?;
        Ok(Self { sku: sku.to_owned(), quantity })
    }
}

impl LineArg {
    pub(super) fn json(&self, location: &str) -> Value {
        json!({ "sku": self.sku, "location": location, "quantity": self.quantity })
    }
}

/// The location of an item.
#[derive(Args)]
pub(super) struct LocationArgs {
    /// Location of the stock
    #[arg(long, default_value = Label::DEFAULT_LOCATION)]
    pub(super) location: String,
}

/// Whether limits apply.
#[derive(Args)]
pub(super) struct OverrideArgs {
    /// Take the units although limits refuse them. It needs the scope limits:override
    #[arg(long)]
    override_limits: bool,
}

impl OverrideArgs {
    /// The field of a request. `None` when limits apply.
    pub(super) fn json(&self) -> Option<bool> {
        self.override_limits.then_some(true)
    }
}

/// What makes a command safe to repeat.
#[derive(Args)]
pub(super) struct KeyArgs {
    /// Idempotency key, at most 255 bytes: the same command with the same key takes effect once [default: a new key, which is
    /// printed]
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<String>,
}

#[derive(Args)]
pub(super) struct ReserveArgs {
    /// The item to hold; or use --line
    #[arg(required_unless_present = "line", conflicts_with = "line")]
    sku: Option<String>,
    /// Number of units, 1 to 1,000,000
    #[arg(short, long, value_name = "UNITS", default_value_t = 1, conflicts_with = "line")]
    quantity: u64,
    #[command(flatten)]
    choice: UnitSelectionArgs,
    /// A line of a basket: SKU=UNITS, or SKU for one unit. Repeat it for more lines: all are held, or none
    #[arg(long, value_name = "SKU=UNITS")]
    line: Vec<LineArg>,
    #[command(flatten)]
    place: LocationArgs,
    /// Who the hold is for: an order, a cart, a session
    #[arg(long, value_name = "OWNER")]
    owner: String,
    /// Time to live of the hold [default: the setting of the items, else of the service (600)]
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u64>,
    /// Hold fewer units if not all of them are available
    #[arg(long)]
    partial: bool,
    #[command(flatten)]
    limits: OverrideArgs,
    /// Sales channel
    #[arg(long)]
    channel: Option<String>,
    /// The pool of the items to draw from. What it has too few of comes from general stock, if the pool allows it
    #[arg(long)]
    pool: Option<String>,
    /// The buyer
    #[arg(long, value_name = "CUSTOMER")]
    customer: Option<String>,
    /// The buyer's session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Your own data: a JSON object of at most 2 KiB
    #[arg(long, value_name = "JSON", value_parser = object)]
    metadata: Option<Value>,
    #[command(flatten)]
    key: KeyArgs,
}

impl ReserveArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let single = self.sku.iter().map(|sku| LineArg { sku: sku.clone(), quantity: self.quantity });
        let mut lines: Vec<Value> =
            single.chain(self.line.iter().cloned()).map(|line| line.json(&self.place.location)).collect();
        if let Some(line) = lines.first_mut().and_then(Value::as_object_mut) {
            self.choice.put(line)?;
        }
        let body = json!({
            "owner_id": self.owner,
            "lines": lines,
            "ttl_seconds": self.ttl,
            "fulfilment": self.partial.then_some("partial"),
            "override_limits": self.limits.json(),
            "channel": self.channel,
            "pool": self.pool,
            "customer_id": self.customer,
            "session_id": self.session,
            "metadata": self.metadata,
        });
        ApiRequest::post(RESERVATIONS.to_owned(), named(body), show::reservation).keyed(self.key.key.as_ref())
    }
}

#[derive(Args)]
pub(super) struct GetArgs {
    /// The reservation's id
    id: String,
}

impl GetArgs {
    pub(super) fn request(&self) -> ApiRequest {
        ApiRequest::get(reservation(&self.id, ""), show::reservation)
    }
}

/// The status of a reservation.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatusFilter {
    Active,
    Confirmed,
    Cancelled,
    Expired,
}

impl StatusFilter {
    fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Confirmed => "confirmed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

/// A page of a list.
#[derive(Args)]
pub(super) struct PageArgs {
    /// Most entries, 1 to 1,000
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) limit: u64,
    /// Continue after an earlier page: the cursor that it printed
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl PageArgs {
    pub(super) fn push(&self, path: &mut String) {
        push_query(path, "limit", &self.limit.to_string());
        if let Some(after) = &self.after {
            push_query(path, "starting_after", after);
        }
    }
}

#[derive(Args)]
pub(super) struct ListArgs {
    /// Only reservations of this owner
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Only reservations with a line of this SKU
    #[arg(long)]
    sku: Option<String>,
    /// Only reservations with a line at this location
    #[arg(long)]
    location: Option<String>,
    /// Only reservations with this status
    #[arg(long)]
    status: Option<StatusFilter>,
    /// Only reservations that were confirmed for this order, the one that was confirmed last first
    #[arg(long, value_name = "ORDER")]
    order: Option<String>,
    /// Only reservations of this customer
    #[arg(long, value_name = "CUSTOMER")]
    customer: Option<String>,
    /// Only reservations that were created at this time or later, like 2026-11-24T09:30:00Z
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Only reservations that were created before this time
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

impl ListArgs {
    pub(super) fn request(&self) -> ApiRequest {
        let mut path = RESERVATIONS.to_owned();
        let status = self.status.map(|status| status.name().to_owned());
        let filters = [
            ("owner_id", &self.owner),
            ("sku", &self.sku),
            ("location", &self.location),
            ("status", &status),
            ("order_id", &self.order),
            ("customer_id", &self.customer),
            ("created_after", &self.created_after),
            ("created_before", &self.created_before),
        ];
        for (name, value) in filters {
            if let Some(value) = value {
                push_query(&mut path, name, value);
            }
        }
        self.page.push(&mut path);
        ApiRequest::get(path, show::reservations)
    }
}

#[derive(Args)]
pub(super) struct AvailableArgs {
    /// SKUs, at most 1,000
    #[arg(required = true, value_name = "SKU")]
    skus: Vec<String>,
    #[command(flatten)]
    place: LocationArgs,
}

impl AvailableArgs {
    pub(super) fn request(&self) -> ApiRequest {
        if let [sku] = self.skus.as_slice() {
            return ApiRequest::get(item_path(sku, &self.place.location, "/available"), show::availability);
        }
        let items: Vec<Value> =
            self.skus.iter().map(|sku| json!({ "sku": sku, "location": self.place.location })).collect();
        ApiRequest::post("/v1/availability".to_owned(), json!({ "items": items }), show::availabilities)
    }
}

#[derive(Args)]
pub(super) struct QuoteArgs {
    /// SKUs with their units: `mug=2`, or `mug` for one unit
    #[arg(required = true, value_name = "SKU=N")]
    lines: Vec<LineArg>,
    #[command(flatten)]
    place: LocationArgs,
    /// Sales channel: some discounts are for certain channels only
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
}

impl QuoteArgs {
    pub(super) fn request(&self) -> ApiRequest {
        let lines: Vec<Value> = self.lines.iter().map(|line| line.json(&self.place.location)).collect();
        let body = named(json!({ "lines": lines, "channel": self.channel }));
        ApiRequest::post("/v1/prices/quote".to_owned(), body, show::quote)
    }
}

#[derive(Args)]
pub(super) struct PauseArgs {
    /// SKU of one item. Its location is --location, or the default location
    sku: Option<String>,
    /// Location: with a SKU the item at that location, without a SKU the whole location
    #[arg(long)]
    location: Option<String>,
    /// All locations
    #[arg(long, conflicts_with_all = ["sku", "location"])]
    everything: bool,
    /// Reason, kept in the history
    #[arg(long)]
    reason: Option<String>,
}

impl PauseArgs {
    pub(super) fn request(&self, paused: bool) -> Result<ApiRequest, String> {
        let tail = if paused { "/pause" } else { "/resume" };
        let path = match (&self.sku, &self.location) {
            (Some(sku), location) => {
                item_path(sku, location.as_deref().unwrap_or(Label::DEFAULT_LOCATION), tail)
            }
            (None, None) if !self.everything => {
                return Err("name a SKU, --location, or --everything".to_owned());
            }
            (None, location) => {
                let mut path = format!("/v1/sale{tail}");
                if let Some(location) = location {
                    push_query(&mut path, "location", location);
                }
                path
            }
        };
        let show = if self.everything { show::sale_of_all } else { show::sale };
        Ok(ApiRequest::post(path, named(json!({ "reason": self.reason })), show))
    }
}

#[derive(Args)]
pub(super) struct SaleStatusArgs {
    /// Only this location
    #[arg(long)]
    location: Option<String>,
}

impl SaleStatusArgs {
    pub(super) fn request(&self) -> ApiRequest {
        let mut path = "/v1/sale".to_owned();
        let Some(location) = &self.location else { return ApiRequest::get(path, show::sale_of_all) };
        push_query(&mut path, "location", location);
        ApiRequest::get(path, show::sale)
    }
}

/// Removes the fields that were not given.
pub(super) fn named(body: Value) -> Value {
    match body {
        Value::Object(fields) => {
            Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
        }
        other => other,
    }
}

pub(super) fn object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("must be a JSON object, like {\"note\": \"gift\"}".to_owned()),
        Err(error) => Err(format!("must be a JSON object, like {{\"note\": \"gift\"}}: {error}")),
    }
}

pub(super) fn reservation(id: &str, tail: &str) -> String {
    format!("{RESERVATIONS}/{}{tail}", encoded(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_sku_and_a_number_behind_the_last_equals_sign() {
        let line = |sku: &str, quantity| Ok(LineArg { sku: sku.to_owned(), quantity });
        assert_eq!("shirt".parse(), line("shirt", 1));
        assert_eq!("shirt=12".parse(), line("shirt", 12));
        assert_eq!("a=b=3".parse(), line("a=b", 3));
        let why = "a=b".parse::<LineArg>().unwrap_err();
        assert!(why.contains("a=b=1"), "{why}");
    }
}
