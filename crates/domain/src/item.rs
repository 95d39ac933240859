//! An item: its counters and its settings. These are plain values. The rules in `decide` change them.

use crate::label::Label;
use crate::pool::Pools;
use crate::price::Price;
use crate::time::{Instant, Seconds};
use alloc::boxed::Box;
use alloc::sync::Arc;

pub use crate::item_key::ItemKey;

/// Whether the units of an item have ids. It never changes once the item exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Units are interchangeable. The item only counts them.
    Counted,
    /// Each unit has an id of its own.
    Units,
}

/// The counters of an item that reservations change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockCounters {
    /// Units that exist.
    pub total_units: u64,
    /// Units sold, less returns.
    pub confirmed_sold: u64,
    /// Sold units that left the shelf, less returns.
    pub fulfilled: u64,
    /// Units in active reservations.
    pub held: u64,
    /// Those of `held` whose reservation has an open payment window.
    pub held_under_payment: u64,
    /// Active reservations with a line on the item.
    pub active: u64,
    /// Transitions of the item so far.
    pub sequence: u64,
    /// The newest instant at which a transition of the item was decided. No later transition gets an earlier instant.
    pub at: Instant,
}

impl StockCounters {
    /// The counters of an item that is not there.
    pub const fn none(at: Instant) -> Self {
        Self {
            total_units: 0,
            confirmed_sold: 0,
            fulfilled: 0,
            held: 0,
            held_under_payment: 0,
            active: 0,
            sequence: 0,
            at,
        }
    }

    /// Units that are left of `units` after what is sold, held and kept back.
    fn free_of(&self, units: u64, kept_back: u64) -> u64 {
        units.saturating_sub(self.committed()).saturating_sub(kept_back)
    }

    /// Units that are held or sold.
    pub fn committed(&self) -> u64 {
        self.confirmed_sold.saturating_add(self.held)
    }

    /// The counters after a transition; `None` when one of them would leave its range, which only a damaged state causes.
    /// `at` is not changed: not every transition of a reservation touches each of its items.
    #[must_use]
    pub fn after(&self, effect: &CounterEffect) -> Option<Self> {
        Some(Self {
            held: self.held.checked_add_signed(effect.held)?,
            confirmed_sold: self.confirmed_sold.checked_add_signed(effect.confirmed_sold)?,
            fulfilled: self.fulfilled.checked_add_signed(effect.fulfilled)?,
            held_under_payment: self.held_under_payment.checked_add_signed(effect.held_under_payment)?,
            active: self.active.checked_add_signed(effect.active)?,
            sequence: self.sequence.checked_add(effect.sequence)?,
            ..*self
        })
    }
}

/// What an operator set on an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Units that are kept back from sale.
    pub safety_stock: u64,
    /// Units that may be held and sold beyond the total. Always 0 where units have ids.
    pub oversell_allowance: u64,
    /// Whether a gate in front of the store may refuse its reserves. No rule reads it. Always false where units have ids.
    pub gated: bool,
    /// Default time to live of a hold.
    pub default_ttl: Option<Seconds>,
    /// Longest hold, extensions included.
    pub max_hold: Option<Seconds>,
    /// How long payment windows may keep a hold.
    pub max_payment: Option<Seconds>,
    /// When the sale begins. Before, reserves are refused.
    pub sale_starts_at: Option<Instant>,
    /// When the sale ends. At this instant and later, reserves are refused.
    pub sale_ends_at: Option<Instant>,
    /// Deliveries that are expected: at most [`crate::limits::SUPPLIES`], in order of their dates, each id once.
    pub incoming: Box<[Supply]>,
    /// What a unit costs. Lines keep the price at which their units were reserved.
    pub price: Option<Box<Price>>,
    /// Available units at and below which the stock counts as low. No rule reads it. Events say when it is reached.
    pub low_stock: Option<u64>,
    /// The external system that owns the total, as the configuration names it. `None`: this service owns it. Always `None` where units
    /// have ids.
    pub stock_master: Option<Label>,
    /// The caller's own data: a JSON object in compact form.
    pub metadata: Option<Arc<str>>,
}

/// A delivery that is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supply {
    /// The delivery, as the caller names it.
    pub id: Label,
    /// Units that it brings, at least 1.
    pub quantity: u64,
    /// When its units can leave the shelf.
    pub available_from: Instant,
}

/// Why a sale window refuses a reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaleWindow {
    /// The sale begins at this instant.
    NotStarted(Instant),
    /// The sale ended at this instant.
    Ended(Instant),
}

impl Settings {
    /// Why nothing is sold at this instant. `None` while the sale is on.
    pub fn closed_at(&self, now: Instant) -> Option<SaleWindow> {
        match (self.sale_starts_at, self.sale_ends_at) {
            (_, Some(end)) if end <= now => Some(SaleWindow::Ended(end)),
            (Some(start), _) if now < start => Some(SaleWindow::NotStarted(start)),
            _ => None,
        }
    }

    /// The first date by which the expected deliveries together bring this many units.
    pub fn covered_from(&self, units: u64) -> Option<Instant> {
        let mut brought = 0_u64;
        let covers = |supply: &&Supply| {
            brought = brought.saturating_add(supply.quantity);
            brought >= units
        };
        self.incoming.iter().find(covers).map(|supply| supply.available_from)
    }
}

/// One item with its stock figures. Every rule is per item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Which item.
    pub key: ItemKey,
    /// Whether its units have ids.
    pub mode: Mode,
    /// The counters.
    pub figures: StockCounters,
    /// The operator's settings.
    pub settings: Arc<Settings>,
    /// The parts of its stock that are set aside.
    pub pools: Pools,
    /// It begins at [`Self::first_version`] and rises by 1 with every change by an operator.
    pub version: u64,
    /// Whether the item itself is paused. Its location or the whole sale may be paused too.
    pub paused: bool,
    /// When it was created.
    pub created_at: Instant,
}

impl Item {
    /// The version of an item that is created at this instant: its microseconds since 1970. An item that is deleted and
    /// created again has a higher version than it ever had, if time has passed. Two items at one instant have the same version.
    pub fn first_version(created_at: Instant) -> u64 {
        u64::try_from(created_at.micros()).unwrap_or_default().max(1)
    }

    /// Units that may be held and sold: the total and the allowance.
    pub fn sellable(&self) -> u64 {
        self.figures.total_units.saturating_add(self.settings.oversell_allowance)
    }

    /// Units that can be reserved now without a pool: the total and the allowance, less what is sold, held, kept back and set aside,
    /// and never below 0.
    pub fn available(&self) -> u64 {
        self.figures.free_of(self.sellable(), self.kept_back())
    }

    /// Units that can be reserved now and are there: [`Self::available`] without the allowance.
    pub fn available_now(&self) -> u64 {
        self.figures.free_of(self.figures.total_units, self.kept_back())
    }

    /// Units that a reserve with this pool can get of what this function of the item says for general stock.
    pub fn available_through(&self, pool: Option<&Label>, general: impl Fn(&Self) -> u64) -> u64 {
        match pool.and_then(|name| self.pools.get(name)) {
            None => general(self),
            Some(pool) if pool.falls_back() => general(self).saturating_add(pool.free()),
            Some(pool) => pool.free(),
        }
    }

    /// Units that are promised beyond the total: held, sold or set aside without being there.
    pub fn backordered(&self) -> u64 {
        let promised = self.figures.committed().saturating_add(self.pools.set_aside());
        promised.saturating_sub(self.figures.total_units)
    }

    fn kept_back(&self) -> u64 {
        self.settings.safety_stock.saturating_add(self.pools.set_aside())
    }
}

/// How a transition moves the counters of an item: differences, each added to the counter of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterEffect {
    /// Units in active reservations.
    pub held: i64,
    /// Units sold, less returns.
    pub confirmed_sold: i64,
    /// Sold units that left the shelf, less returns.
    pub fulfilled: i64,
    /// Units in active reservations with an open payment window.
    pub held_under_payment: i64,
    /// Active reservations with a line on the item.
    pub active: i64,
    /// Transitions of a counted item: 0 or 1. Always 0 where units have versions of their own.
    pub sequence: u64,
}
