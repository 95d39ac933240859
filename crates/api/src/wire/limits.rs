//! Limits, what they count, and what a reservation does to them.

use serde::{Deserialize, Serialize};

/// What a limit says. A `PUT` replaces all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitTerms {
    /// The items whose units are counted together.
    pub items: Vec<LimitItem>,
    /// Only units that are sold through these channels. Empty: all channels, and reservations without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// Who has a count of their own. `None`: all share one count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<LimitSubject>,
    /// The most units. 0 refuses everybody.
    pub limit: u64,
    /// Which units count.
    #[serde(default)]
    pub counts: LimitedUnits,
}

/// An item with both fields, a SKU at every location, or every item at a location.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitItem {
    /// The SKU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
    /// The location.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

/// Who has a count of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitSubject {
    /// Each `customer_id`.
    Customer,
    /// Each `owner_id`.
    Owner,
}

/// Which units count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedUnits {
    /// Units in active reservations, and sold units that did not come back.
    #[default]
    HeldAndSold,
    /// Units in active reservations only.
    Held,
}

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Limit {
    /// Its id.
    pub limit_id: String,
    /// What it says.
    #[serde(flatten)]
    pub terms: LimitTerms,
    /// The version with which its counts began at 0.
    pub generation: u64,
    /// It rises by 1 with every change.
    pub version: u64,
}

/// A limit as it is after an event.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct EventLimit {
    /// Its id.
    pub limit_id: String,
    /// Its version.
    pub version: u64,
    /// The version with which its counts began at 0. A deleted limit has none.
    pub generation: Option<u64>,
    /// What it says. A deleted limit says nothing.
    #[serde(flatten)]
    pub terms: Option<LimitTerms>,
}

/// What a limit counts for one subject, or for all together.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LimitUsage {
    /// The limit.
    pub limit_id: String,
    /// The customer or the owner. `None`: all together.
    pub subject: Option<String>,
    /// The most units.
    pub limit: u64,
    /// The units that are compared with it.
    pub used: u64,
    /// Units in active reservations.
    pub held: u64,
    /// Units sold, less returns.
    pub sold: u64,
}

/// A limit that counts units of a line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LineLimit {
    /// The limit.
    pub limit_id: String,
    /// Its generation. Counts of an ended generation mean nothing more.
    pub generation: u64,
    /// The customer or the owner. `None`: all together.
    pub subject: Option<String>,
    /// How many units of the line it counts.
    pub quantity: u64,
}

/// A counter of a limit, as it is after an event.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LimitCounter {
    /// The limit.
    pub limit_id: String,
    /// Its generation.
    pub generation: u64,
    /// The customer or the owner. `None`: all together.
    pub subject: Option<String>,
    /// Units in active reservations.
    pub held: u64,
    /// Units sold, less returns.
    pub sold: u64,
}

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
