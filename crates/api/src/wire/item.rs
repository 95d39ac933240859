//! Items: what an item shows, and what sets it.

use super::{Patch, Price, form};
use serde::{Deserialize, Serialize};
use stockhold_domain::Instant;

/// An item.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Item {
    /// What.
    pub sku: String,
    /// Where.
    pub location: String,
    /// `counted` or `units`.
    pub mode: String,
    /// Units that exist.
    pub total_units: u64,
    /// Units sold, less returns.
    pub confirmed_sold: u64,
    /// Sold units that have left the shelf.
    pub fulfilled_units: u64,
    /// Sold units that have not.
    pub unfulfilled_units: u64,
    /// Units on the shelf.
    pub on_hand: u64,
    /// Units in active reservations.
    pub held_units: u64,
    /// Those of them whose reservation has an open payment window.
    pub held_under_payment: u64,
    /// Units kept from sale.
    pub safety_stock: u64,
    /// Units that pools keep from general sale.
    #[serde(default)]
    pub set_aside: u64,
    /// Units that may be held and sold beyond the total.
    pub oversell_allowance: u64,
    /// Whether a gate may refuse its reserves when it is sold out.
    #[serde(default)]
    pub gated: bool,
    /// Units that are held, sold and set aside beyond the total.
    pub backordered: u64,
    /// Available units, the allowance included.
    pub available: u64,
    /// Available units that are there.
    pub available_now: u64,
    /// Active reservations with a line on the item.
    pub active_reservations: u64,
    /// Whether its sale is paused.
    pub paused: bool,
    /// Transitions so far.
    pub sequence: Option<u64>,
    /// Changes by an operator so far.
    pub version: u64,
    /// Time to live of a hold that names none.
    pub default_ttl_seconds: Option<u32>,
    /// Longest hold.
    pub max_hold_seconds: Option<u32>,
    /// How long payment windows may keep a hold.
    pub max_payment_seconds: Option<u32>,
    /// When its sale begins.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub sale_starts_at: Option<Instant>,
    /// When its sale ends.
    #[serde(default, deserialize_with = "form::optional_time")]
    pub sale_ends_at: Option<Instant>,
    /// Deliveries that are expected.
    #[serde(default)]
    pub incoming: Vec<Supply>,
    /// What a unit costs.
    pub price: Option<Price>,
    /// Available units at and below which the stock counts as low.
    pub low_stock: Option<u64>,
    /// The external system that owns the total.
    pub stock_master: Option<String>,
    /// When it was created.
    #[serde(deserialize_with = "form::time")]
    pub created_at: Instant,
    /// When its figures last changed.
    #[serde(deserialize_with = "form::time")]
    pub updated_at: Instant,
    /// The caller's own data.
    pub metadata: Option<serde_json::Value>,
}

/// A delivery that is expected.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Supply {
    /// Which delivery.
    pub supply_id: String,
    /// Units that it brings.
    pub quantity: u64,
    /// When its units can leave the shelf.
    #[serde(deserialize_with = "form::time", serialize_with = "form::put_time")]
    pub available_from: Instant,
}

/// An item's availability.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Availability {
    /// The SKU, by its longer name.
    pub sku_id: String,
    /// What.
    pub sku: String,
    /// Where.
    pub location: String,
    /// Available units.
    pub available: u64,
    /// Available units that are there.
    pub available_now: u64,
    /// Active reservations with a line on the item.
    pub active_reservations: u64,
    /// Units in active reservations.
    pub held_units: u64,
    /// Transitions of the item so far.
    pub sequence: Option<u64>,
    /// When this was true.
    #[serde(deserialize_with = "form::time")]
    pub as_of: Instant,
}

/// What sets an item. Settings that are not named stay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stock {
    /// Units that exist. A new item that counts them needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_units: Option<u64>,
    /// Units on the shelf, in place of `total_units`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_hand: Option<u64>,
    /// The item's `fulfilled_units` as it was read before the count. An existing item needs it with `on_hand`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fulfilled_units_seen: Option<u64>,
    /// Whether units are counted or have ids. Counted when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
    /// Units kept from sale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_stock: Option<u64>,
    /// Units that may be held and sold beyond the total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oversell_allowance: Option<u64>,
    /// Whether a gate may refuse its reserves when it is sold out.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::setting")]
    pub gated: Patch<bool>,
    /// When the sale begins.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::time_setting")]
    pub sale_starts_at: Patch<Instant>,
    /// When the sale ends.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::time_setting")]
    pub sale_ends_at: Patch<Instant>,
    /// The deliveries that are expected, in place of those that were.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::setting")]
    pub incoming: Patch<Vec<Supply>>,
    /// Time to live of a hold that names none, in seconds.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::setting")]
    pub default_ttl_seconds: Patch<u32>,
    /// Longest hold in seconds.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::setting")]
    pub max_hold_seconds: Patch<u32>,
    /// How long payment windows may keep a hold, in seconds.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::setting")]
    pub max_payment_seconds: Patch<u32>,
    /// What a unit costs.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::setting")]
    pub price: Patch<Price>,
    /// Available units at and below which the stock counts as low.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::setting")]
    pub low_stock: Patch<u64>,
    /// The external system that owns the total.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::setting")]
    pub stock_master: Patch<String>,
    /// Changes the total although an external system owns it.
    #[serde(rename = "override", skip_serializing_if = "std::ops::Not::not")]
    pub override_owner: bool,
    /// The caller's own data: an object.
    #[serde(skip_serializing_if = "form::stays", serialize_with = "form::setting")]
    pub metadata: Patch<serde_json::Value>,
}
