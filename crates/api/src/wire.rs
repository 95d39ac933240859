//! Answers and requests as those see them who speak to Stockhold: the shapes that [`crate::encode`] writes and
//! [`crate::decode`] reads. Unknown fields are ignored, since the API may gain some.

mod changes;
mod checkouts;
mod event;
mod item;
mod many;
mod payment;
mod pools;
mod prices;
mod units;

pub use crate::resources::gate::{Gate, GateItem, GateReload};
pub use crate::resources::limits::{
    EventLimit, Limit, LimitCounter, LimitItem, LimitRequest, LimitUsage, LineLimit,
};
pub use changes::{
    AmendedLine, Amendment, Confirmation, Disposition, MergeRequest, PaymentWindow, Recipient, ReturnFrom,
    ReturnedUnits, Shipment,
};
pub use checkouts::{CheckoutRequest, ExtraAmount, Order, PaymentMethod, RefundRequest};
pub use event::{Event, EventLine, EventParties, EventPool, LineBefore, MovedLine, NewUnit};
pub use item::{Availability, Item, Stock, Supply};
pub use many::{Command, CommandResult, LocationAvailability, LocationsAvailability, Page, Stocked};
pub use payment::{NextAction, OrderSummary, Payment, PaymentState};
pub use pools::{LinePool, Pool, PoolSettings, PoolUnits};
pub use prices::{Discount, Price, Quote, QuoteLine};
pub use units::{PostedUnit, SeatLayout, SeatMap, SeatRow, Stands, Unit, UnitsAdded, Wish};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use stockhold_domain::{Instant, ReservationId};

pub use stockhold_domain::Patch;

/// A limit that leaves fewer units than were requested.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ExceededLimit {
    /// The limit.
    pub limit_id: String,
    /// The most units.
    pub limit: u64,
    /// Units that it counts already.
    pub used: u64,
    /// Units that the request adds.
    pub requested: u64,
    /// The customer or the owner. `None`: all together.
    pub subject: Option<String>,
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Reservation {
    /// Its id.
    #[serde(deserialize_with = "form::id")]
    pub reservation_id: ReservationId,
    /// Where it stands.
    pub status: Status,
    /// Who the hold is for.
    pub owner_id: String,
    /// What it holds, one line per item.
    pub lines: Vec<Line>,
    /// Units over all lines.
    pub quantity: u64,
    /// What all lines cost together; absent unless all of them have a price.
    pub amount: Option<u64>,
    /// The currency of the amount.
    pub currency: Option<String>,
    /// When it was made.
    #[serde(deserialize_with = "form::time")]
    pub created_at: Instant,
    /// The deadline.
    #[serde(deserialize_with = "form::time")]
    pub expires_at: Instant,
    /// The latest deadline that extensions can reach.
    #[serde(deserialize_with = "form::time")]
    pub max_expires_at: Instant,
    /// When it was confirmed.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub confirmed_at: Option<Instant>,
    /// When its terminal state was reached.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub closed_at: Option<Instant>,
    /// Why it was released.
    pub close_reason: Option<String>,
    /// The order it became.
    pub order_id: Option<String>,
    /// Sales channel.
    pub channel: Option<String>,
    /// The pool that its lines draw from.
    pub pool: Option<String>,
    /// The buyer.
    pub customer_id: Option<String>,
    /// The buyer's session.
    pub session_id: Option<String>,
    /// The caller's own data.
    pub metadata: Option<serde_json::Value>,
    /// Changes so far.
    pub version: u64,
    /// The latest payment.
    pub payment: Option<Payment>,
    /// The order that it became by a checkout.
    pub order: Option<OrderSummary>,
    /// The reservation from which this one was split off.
    #[serde(default, deserialize_with = "form::optional_id")]
    pub split_from: Option<ReservationId>,
    /// The reservations that were split off.
    #[serde(default, deserialize_with = "form::ids")]
    pub split_into: Vec<ReservationId>,
    /// The reservations that were merged into this one.
    #[serde(default, deserialize_with = "form::ids")]
    pub merged_from: Vec<ReservationId>,
    /// The reservation that took the lines of this one.
    #[serde(default, deserialize_with = "form::optional_id")]
    pub merged_into: Option<ReservationId>,
    /// The expired reservation whose units this one took again.
    #[serde(default, deserialize_with = "form::optional_id")]
    pub replaces: Option<ReservationId>,
    /// The reservation that took the units again.
    #[serde(default, deserialize_with = "form::optional_id")]
    pub replaced_by: Option<ReservationId>,
    /// The hold token, if the reserve asked for one.
    pub hold_token: Option<String>,
}

/// Where a reservation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its units are held.
    Active,
    /// Its units are sold.
    Confirmed,
    /// It was released.
    Cancelled,
    /// Its deadline came first.
    Expired,
}

/// One item of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Line {
    /// What.
    pub sku: String,
    /// Where.
    pub location: String,
    /// Units granted.
    pub quantity: u64,
    /// Requested units.
    pub requested_quantity: u64,
    /// The item's sequence at the line's latest transition.
    pub sequence: Option<u64>,
    /// Units that left the shelf and did not come back.
    #[serde(default)]
    pub fulfilled_quantity: u64,
    /// Units that came back after the sale.
    #[serde(default)]
    pub returned_quantity: u64,
    /// Units that were not there when they were granted.
    #[serde(default)]
    pub backordered_quantity: u64,
    /// When they are expected.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub promised_at: Option<Instant>,
    /// Amount of one unit before discounts; absent when the line has no price, or when its units have different ones.
    pub unit_amount: Option<u64>,
    /// What a discount takes off the line.
    #[serde(default)]
    pub discount: u64,
    /// What the line costs; absent unless all of its units had a price.
    pub amount: Option<u64>,
    /// The currency of the amounts.
    pub currency: Option<String>,
    /// The limits that count units of the line.
    #[serde(default)]
    pub limits: Vec<LineLimit>,
    /// Units that were drawn from pools.
    #[serde(default)]
    pub pool_quantity: u64,
    /// Which pools, if it is not only the pool that the reservation names.
    #[serde(default)]
    pub pools: Vec<LinePool>,
    /// Which units, where they have ids.
    #[serde(default)]
    pub units: Vec<LineUnit>,
}

/// A unit of a line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LineUnit {
    /// Its id.
    pub unit_id: String,
    /// Its version at the line's latest transition of it.
    pub version: u64,
    /// Whether it left the shelf.
    #[serde(default)]
    pub fulfilled: bool,
    /// Whether it came back after the sale.
    #[serde(default)]
    pub returned: bool,
}

/// How a sale stands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Sale {
    /// Whether it is paused by itself.
    pub paused: bool,
    /// What else is paused that bears on it; absent when that is not known.
    pub also_paused: Option<Vec<PausedScope>>,
    /// Of a location: whether anything is stocked there.
    pub has_items: Option<bool>,
}

/// Something that is paused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PausedScope {
    /// What it is: `location` or `everything`.
    pub scope: String,
    /// The location.
    pub location: Option<String>,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Problem {
    /// The path of the reason's page.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, and what to do next.
    pub detail: String,
    /// The reason's name; see [`crate::problem::Reason::from_name`].
    pub reason: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// What the request is called in the server's log.
    pub request_id: String,
    /// What is wrong with which field.
    #[serde(default)]
    pub errors: Vec<FieldProblem>,
    /// The items that fall short.
    #[serde(default)]
    pub lines: Vec<ShortLine>,
    /// The limits that leave too few units.
    #[serde(default)]
    pub limits: Vec<ExceededLimit>,
    /// The pause that the answer asked for in its headers.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
    /// The reason's other fields.
    #[serde(flatten)]
    pub more: BTreeMap<String, serde_json::Value>,
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct FieldProblem {
    /// The part of the request: `body`, `path`, `query` or `header`.
    #[serde(rename = "in")]
    pub location: String,
    /// Where: RFC 6901 into the body, or the name of a path parameter, a query parameter or a header.
    pub pointer: String,
    /// What is wrong and what would be right.
    pub detail: String,
}

/// An item that falls short.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ShortLine {
    /// What.
    pub sku: String,
    /// Where.
    pub location: String,
    /// Requested units.
    pub requested_quantity: u64,
    /// Available units.
    pub available: u64,
    /// The deadline of the earliest hold on the item.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub next_expiry_at: Option<Instant>,
    /// Requested sections that do not exist.
    #[serde(default)]
    pub unknown_sections: Vec<String>,
    /// Whether `available` comes from a gate in front of the store, which may be behind the store.
    #[serde(default)]
    pub approximate: bool,
}

/// What reserve asks for, apart from the units.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Terms {
    /// Who the hold is for.
    pub owner_id: String,
    /// How long, in seconds; the items' default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u32>,
    /// Take what is available if it is less than requested.
    #[serde(rename = "fulfilment", skip_serializing_if = "is_all", serialize_with = "form::fulfilment")]
    pub partial: bool,
    /// Take the units although limits refuse them. It needs the scope `limits:override`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub override_limits: bool,
    /// How the reservation is paid, if the payment begins at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_checkout: Option<CheckoutRequest>,
    /// Sales channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The pool that the lines draw from before general stock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The buyer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customer_id: Option<String>,
    /// The buyer's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The caller's own data: an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_all(partial: &bool) -> bool {
    !partial
}

/// A line of a basket, of one location or of a source.
#[derive(Clone, Debug, Serialize)]
pub struct SourcedLine {
    /// The SKU.
    pub sku: String,
    /// The location; `default` when it and the source are absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The locations that may give, in place of `location`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Number of units.
    pub quantity: u64,
}

/// The locations that may give the units of a line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Source {
    /// The locations, each once.
    pub locations: Vec<String>,
    /// Which of them gives first.
    pub strategy: Strategy,
}

/// Which location of a source gives first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// In the order given.
    #[default]
    Priority,
    /// The one with the most units.
    MostStock,
    /// The first that can give the whole line.
    Single,
}

/// One wish of a basket, or one line of a return.
#[derive(Clone, Debug, Serialize)]
pub struct RequestedLine {
    /// What.
    pub sku: String,
    /// Where; `default` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// How many units.
    pub quantity: u64,
}

/// How ids, times and words are written in JSON.
mod form {
    use super::Patch;
    use serde::Serialize;
    use serde::de::{Deserialize, Deserializer, Error};
    use std::borrow::Cow;
    use std::str::FromStr;
    use stockhold_domain::{EventId, Instant, NotAnId, ReservationId};

    pub(super) fn id<'de, D: Deserializer<'de>>(from: D) -> Result<ReservationId, D::Error> {
        parsed(from)
    }

    pub(super) fn optional_id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ReservationId>, D::Error> {
        id(from).map(Some)
    }

    pub(super) fn ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ReservationId>, D::Error> {
        let texts = Vec::<Cow<'_, str>>::deserialize(from)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }

    pub(super) fn event_id<'de, D: Deserializer<'de>>(from: D) -> Result<EventId, D::Error> {
        parsed(from)
    }

    pub(super) fn optional_event_id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<EventId>, D::Error> {
        event_id(from).map(Some)
    }

    fn parsed<'de, T: FromStr<Err = NotAnId>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        Cow::<str>::deserialize(from)?.parse().map_err(D::Error::custom)
    }

    pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Instant, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        let stamp: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Instant::from_micros(stamp.as_microsecond()))
    }

    pub(super) fn optional_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Instant>, D::Error> {
        time(from).map(Some)
    }

    pub(super) fn put_ids<S: serde::Serializer>(ids: &[ReservationId], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ids.iter().map(ToString::to_string))
    }

    pub(super) fn stays<T>(setting: &Patch<T>) -> bool {
        matches!(setting, Patch::Keep)
    }

    /// One that is left out where it [`stays`].
    pub(super) fn setting<T: Serialize, S: serde::Serializer>(
        setting: &Patch<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match setting {
            Patch::Set(value) => to.serialize_some(value),
            Patch::Clear | Patch::Keep => to.serialize_none(),
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn put_time<S: serde::Serializer>(at: &Instant, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&crate::encode::time(*at))
    }

    #[expect(clippy::ref_option, reason = "serde's signature")]
    pub(super) fn optional_put_time<S: serde::Serializer>(
        at: &Option<Instant>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => put_time(at, to),
            None => to.serialize_none(),
        }
    }

    pub(super) fn time_setting<S: serde::Serializer>(
        setting: &Patch<Instant>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match setting {
            Patch::Set(at) => put_time(at, to),
            Patch::Clear | Patch::Keep => to.serialize_none(),
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn fulfilment<S: serde::Serializer>(partial: &bool, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(if *partial { "partial" } else { "all" })
    }
}
