//! How long holds and payment windows may last, as an operator configures it.

use crate::item::Item;
use crate::label::Label;
use crate::time::Seconds;
use alloc::vec::Vec;

/// How long holds and payment windows may last: the settings of the service and of locations. The settings of an item
/// override both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldLimits {
    /// Default time to live of a hold.
    pub default_ttl: Seconds,
    /// Longest hold, extensions included.
    pub max_hold: Seconds,
    /// How long payment windows may keep a hold, from the opening of the first one.
    pub max_payment: Seconds,
    /// Locations with settings of their own.
    pub locations: Vec<(Label, LocationLimits)>,
}

/// The settings of one location. What is absent is as in the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocationLimits {
    /// Default time to live of a hold.
    pub default_ttl: Option<Seconds>,
    /// Longest hold, extensions included.
    pub max_hold: Option<Seconds>,
    /// How long payment windows may keep a hold.
    pub max_payment: Option<Seconds>,
}

/// How long a hold on one item, or on all items of a basket, may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldTimes {
    pub(crate) default_ttl: Seconds,
    pub(crate) max_hold: Seconds,
    pub(crate) max_payment: Seconds,
}

impl HoldTimes {
    /// The times of a basket: the smallest of its items.
    pub(crate) fn smaller(self, other: Self) -> Self {
        Self {
            default_ttl: self.default_ttl.min(other.default_ttl),
            max_hold: self.max_hold.min(other.max_hold),
            max_payment: self.max_payment.min(other.max_payment),
        }
    }
}

impl HoldLimits {
    /// How long a hold on an item lasts whose request names no time.
    pub fn default_hold(&self, item: &Item) -> Seconds {
        let times = self.of_item(item);
        times.default_ttl.min(times.max_hold)
    }

    /// The times of the service.
    pub(crate) fn of_service(&self) -> HoldTimes {
        HoldTimes { default_ttl: self.default_ttl, max_hold: self.max_hold, max_payment: self.max_payment }
    }

    /// The longest hold on an item.
    pub fn max_hold_of(&self, item: &Item) -> Seconds {
        self.of_item(item).max_hold
    }

    /// The times of an item. The nearest setting wins: item, location, service.
    pub(crate) fn of_item(&self, item: &Item) -> HoldTimes {
        let location = self.locations.iter().find(|(name, _)| name.as_str() == item.key.location());
        let location = location.map(|(_, limits)| *limits).unwrap_or_default();
        let settings = &item.settings;
        HoldTimes {
            default_ttl: settings.default_ttl.or(location.default_ttl).unwrap_or(self.default_ttl),
            max_hold: settings.max_hold.or(location.max_hold).unwrap_or(self.max_hold),
            max_payment: settings.max_payment.or(location.max_payment).unwrap_or(self.max_payment),
        }
    }
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self {
            default_ttl: Seconds::DEFAULT_TTL,
            max_hold: Seconds::DEFAULT_MAX_HOLD,
            max_payment: Seconds::DEFAULT_MAX_PAYMENT,
            locations: Vec::new(),
        }
    }
}
