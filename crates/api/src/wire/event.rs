//! An event as its readers see it.

use super::{EventLimit, Item, LimitCounter, LineLimit, LinePool, LineUnit, Pool, Status, form};
use serde::Deserialize;
use stockhold_domain::{EventId, Instant, ReservationId};

/// Something that happened. What a type of event does not have is absent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Event {
    /// Its id, given with the commit.
    #[serde(deserialize_with = "form::event_id")]
    pub id: EventId,
    /// Its place in the order of all events: dense, from 1, in the order of commits.
    pub position: u64,
    /// The name of a [`crate::EventType`].
    #[serde(rename = "type")]
    pub kind: String,
    /// When it was decided.
    #[serde(deserialize_with = "form::time")]
    pub time: Instant,
    /// The reservation, of a reservation's event.
    #[serde(default, deserialize_with = "form::optional_id")]
    pub reservation_id: Option<ReservationId>,
    /// Who the reservation is for.
    pub owner_id: Option<String>,
    /// The reservation's status after it.
    pub status: Option<Status>,
    /// Units over all lines of the reservation.
    pub quantity: Option<u64>,
    /// The items that it concerns, with their figures after it. None when a sale is paused or resumed.
    #[serde(default)]
    pub lines: Vec<EventLine>,
    /// The reservation's deadline after it.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub expires_at: Option<Instant>,
    /// The reservation's version after it.
    pub version: Option<u64>,
    /// The latest deadline that the reservation can reach; when it was created or amended.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub max_expires_at: Option<Instant>,
    /// The lines before an amend, a split or a merge.
    #[serde(default)]
    pub lines_before: Vec<LineBefore>,
    /// The reservation from which this one was split off.
    #[serde(default, deserialize_with = "form::optional_id")]
    pub split_from: Option<ReservationId>,
    /// The reservation that a split made.
    #[serde(default, deserialize_with = "form::optional_id")]
    pub split_into: Option<ReservationId>,
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
    /// Who the reservation was for before a transfer.
    pub from: Option<EventParties>,
    /// Who it is for after it.
    pub to: Option<EventParties>,
    /// The payment of a window, or of a confirm.
    pub payment_id: Option<String>,
    /// When the payment window ends.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub until: Option<Instant>,
    /// What left the shelf by this fulfil.
    #[serde(default)]
    pub fulfilled: Vec<MovedLine>,
    /// What became of returned units: `restock` or `write_off`.
    pub disposition: Option<String>,
    /// The order that a confirm named.
    pub order_id: Option<String>,
    /// Why: of a release, a return, an adjustment, a pause or a resumption.
    pub reason: Option<String>,
    /// Sales channel; when the reservation was created.
    pub channel: Option<String>,
    /// The pool: its name when a reservation that draws from it was created, and the pool itself of an event of a pool.
    pub pool: Option<EventPool>,
    /// The buyer; when the reservation was created.
    pub customer_id: Option<String>,
    /// The buyer's session; when the reservation was created.
    pub session_id: Option<String>,
    /// The caller's own data; when the reservation was created.
    pub metadata: Option<serde_json::Value>,
    /// What came back by this return.
    #[serde(default)]
    pub returned: Vec<MovedLine>,
    /// By how much an adjustment moved the total.
    pub delta: Option<i64>,
    /// The expected delivery that arrived by the adjustment.
    pub supply_id: Option<String>,
    /// Units that came to the item.
    #[serde(default)]
    pub units: Vec<NewUnit>,
    /// The units that were retired.
    #[serde(default)]
    pub unit_ids: Vec<String>,
    /// The item after its stock was set or adjusted.
    pub item: Option<Item>,
    /// What is paused or resumed: `everything`, `location` or `item`.
    pub scope: Option<String>,
    /// The item's SKU, when an item is paused or resumed.
    pub sku: Option<String>,
    /// The location, when a location or an item is paused or resumed.
    pub location: Option<String>,
    /// The limit after it was set or deleted.
    pub limit: Option<EventLimit>,
    /// The counters of limits that the event moved, as they are after it.
    #[serde(default)]
    pub limit_counters: Vec<LimitCounter>,
    /// The limits that were passed by and would have refused.
    #[serde(default)]
    pub limits_overridden: Vec<String>,
    /// The API key, of an event of a key.
    pub key_id: Option<String>,
    /// The sink, of an event of a sink.
    pub sink: Option<String>,
    /// The position of the skipped event.
    pub skipped_position: Option<u64>,
    /// The stock master, of an event of a reconciliation.
    pub stock_master: Option<String>,
    /// How often each kind of finding occurred in a reconciliation.
    #[serde(default)]
    pub counts: std::collections::BTreeMap<String, u64>,
    /// The webhook endpoint, of an event of an endpoint.
    pub webhook_id: Option<String>,
    /// Where an endpoint gets events.
    pub url: Option<String>,
    /// Whether an endpoint gets events.
    pub enabled: Option<bool>,
    /// The reservation's event before this one.
    #[serde(default, deserialize_with = "form::optional_event_id")]
    pub previous_event_id: Option<EventId>,
    /// Who asked: the principal, or `stockhold` for what fell due by itself.
    pub actor: String,
    /// The API key that the caller used.
    pub actor_key_id: Option<String>,
    /// What the request was called.
    pub request_id: String,
    /// The caller's trace, as its header had it.
    pub traceparent: Option<String>,
}

/// An item of an event: the reservation's line, if it is about one, and the item's figures after the event.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct EventLine {
    /// What.
    pub sku: String,
    /// Where.
    pub location: String,
    /// Units granted.
    pub quantity: Option<u64>,
    /// Requested units.
    pub requested_quantity: Option<u64>,
    /// Units that left the shelf and did not come back.
    #[serde(default)]
    pub fulfilled_quantity: u64,
    /// Units returned so far.
    #[serde(default)]
    pub returned_quantity: u64,
    /// Transitions of the item so far; absent where units have versions of their own.
    pub sequence: Option<u64>,
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
    /// Units that exist.
    pub total_units: u64,
    /// Units sold, less returns.
    pub confirmed_sold: u64,
    /// Sold units that have left the shelf.
    pub fulfilled_units: u64,
    /// Units in active reservations.
    pub held_units: u64,
    /// Those of them whose reservation has an open payment window.
    pub held_under_payment: u64,
    /// Active reservations with a line on the item.
    pub active_reservations: u64,
}

/// The pool of an event.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum EventPool {
    /// The pool that a reservation draws from.
    Named(String),
    /// The pool after it was set, deleted or released.
    Shown(Pool),
}

/// Who a reservation is for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct EventParties {
    /// The owner.
    pub owner_id: String,
    /// The buyer.
    pub customer_id: Option<String>,
    /// The buyer's session.
    pub session_id: Option<String>,
}

/// A line before an event.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LineBefore {
    /// The SKU.
    pub sku: String,
    /// The location.
    pub location: String,
    /// How many units.
    pub quantity: u64,
    /// Which, where they have ids.
    #[serde(default)]
    pub units: Vec<String>,
}

/// Units of one line that left the shelf or came back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MovedLine {
    /// What.
    pub sku: String,
    /// Where.
    pub location: String,
    /// How many units.
    pub quantity: u64,
    /// Those of returned units that had left the shelf.
    #[serde(default)]
    pub fulfilled_quantity: u64,
    /// Which, where they have ids.
    #[serde(default)]
    pub units: Vec<String>,
}

/// A unit that is new.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NewUnit {
    /// Its id.
    pub unit_id: String,
    /// Its place in the order of claims.
    pub position: u64,
    /// Part of the hall.
    pub section: Option<String>,
    /// Row of the section.
    pub row: Option<String>,
    /// What is painted on it.
    pub number: Option<String>,
    /// What it is like.
    pub attributes: Option<serde_json::Value>,
}
