//! How a gate is run.

use crate::GateAddress;
use std::sync::Arc;
use std::time::Duration;
use stockhold_domain::HoldLimits;
use stockhold_store::clock::Clock;

/// How a gate is run.
pub struct GateOptions {
    /// Where Redis is.
    pub address: GateAddress,
    /// Longest wait for an answer of Redis.
    pub timeout: Duration,
    /// How often all counters are compared with the store.
    pub reconcile_interval: Duration,
    /// How often the store is asked for an item although the gate has no units. 0: each time, so that no refusal is the gate's own.
    pub ask_interval: Duration,
    /// Whether every counted item is gated, whatever it says: for tests.
    pub every_item: bool,
    /// How long holds may last, as the store has it.
    pub hold_limits: HoldLimits,
    /// The clock of the store.
    pub clock: Arc<dyn Clock>,
}

impl GateOptions {
    /// [`Self::timeout`] unless it is configured.
    pub const TIMEOUT: Duration = Duration::from_millis(20);
    /// [`Self::reconcile_interval`] unless it is configured.
    pub const RECONCILE_INTERVAL: Duration = Duration::from_mins(1);
    /// [`Self::ask_interval`] of a server.
    pub const ASK_INTERVAL: Duration = Duration::from_millis(50);
}
