//! Prices.

use super::form;
use serde::{Deserialize, Serialize};
use stockhold_domain::Instant;

/// What an item costs. Amounts are whole numbers of the currency's smallest unit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Price {
    /// Amount of one unit.
    pub unit_amount: u64,
    /// The three letters of the currency. Answers have lower case.
    pub currency: String,
    /// The one that takes off most applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discounts: Vec<Discount>,
}

/// A discount. It has one of `percent` and `amount_off`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Discount {
    /// What it takes off the line, in hundredths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// What it takes off each unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount_off: Option<u64>,
    /// When it begins.
    #[serde(
        default,
        deserialize_with = "form::optional_time",
        serialize_with = "form::optional_put_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub from: Option<Instant>,
    /// When it ends.
    #[serde(
        default,
        deserialize_with = "form::optional_time",
        serialize_with = "form::optional_put_time",
        skip_serializing_if = "Option::is_none"
    )]
    pub to: Option<Instant>,
    /// The channels that it is for. Empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
}

/// What a reserve would cost.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Quote {
    /// The lines of the request, in their order.
    pub lines: Vec<QuoteLine>,
    /// What they cost together; absent unless all of them have a price.
    pub amount: Option<u64>,
    /// The currency of the amount.
    pub currency: Option<String>,
}

/// A line of a quote.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct QuoteLine {
    /// What.
    pub sku: String,
    /// Where.
    pub location: String,
    /// Units.
    pub quantity: u64,
    /// Amount of one unit before discounts; absent when the item has no price.
    pub unit_amount: Option<u64>,
    /// What a discount takes off the line.
    #[serde(default)]
    pub discount: u64,
    /// What the line costs; absent when the item has no price.
    pub amount: Option<u64>,
    /// The currency of the amounts.
    pub currency: Option<String>,
}
