//! How long holds may last, as an operator configures it.

use crate::label::Label;
use crate::time::Seconds;
use alloc::vec::Vec;

/// How long holds may last: the settings of the service and of locations. The settings of an item override both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldLimits {
    /// Default time to live of a hold.
    pub default_ttl: Seconds,
    /// Longest hold, extensions included.
    pub max_hold: Seconds,
    /// Locations with settings of their own: (location, default time to live, longest hold).
    pub locations: Vec<(Label, Option<Seconds>, Option<Seconds>)>,
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self { default_ttl: Seconds::DEFAULT_TTL, max_hold: Seconds::DEFAULT_MAX_HOLD, locations: Vec::new() }
    }
}
