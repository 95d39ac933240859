//! The gate.

use serde::Deserialize;

/// The state of the gate. Without a gate only `enabled` is set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Gate {
    /// Whether a gate is configured.
    pub enabled: bool,
    /// Whether Redis is used at the moment.
    #[serde(default)]
    pub connected: bool,
    /// Reserves that this instance's gate has admitted.
    #[serde(default)]
    pub hits: u64,
    /// Reserves that it has refused without the store.
    #[serde(default)]
    pub refusals: u64,
    /// Counters that were found wrong and corrected.
    #[serde(default)]
    pub corrections: u64,
    /// Seconds since this instance knew all changes of other instances.
    #[serde(default)]
    pub lag_seconds: f64,
    /// Gated items.
    #[serde(default)]
    pub items: Vec<GateItem>,
    /// Whether there are more gated items.
    #[serde(default)]
    pub has_more: bool,
}

/// The counter of an item in Redis.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GateItem {
    /// The SKU.
    pub sku: String,
    /// The location.
    pub location: String,
    /// Units that the gate admits. `None` while Redis has no counter.
    pub units: Option<u64>,
    /// The item's sequence that is included.
    pub sequence: Option<u64>,
    /// The number of the reload that wrote the counter.
    pub epoch: Option<u64>,
}

/// What a reload of the gate did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct GateReload {
    /// Counters that were written anew.
    pub reloaded: u64,
    /// Those of them that were wrong.
    pub corrected: u64,
}
