//! An item: what it is called, its figures and its settings. Values alone; what may move the figures is for deciding.

use crate::event::CounterEffect;
use crate::label::{Label, LabelError};
use crate::time::{Instant, Seconds};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

/// Which item: a (location, SKU) pair. Cloning shares the text, and a hold's lines share their item's.
#[derive(Clone)]
pub struct ItemKey(Arc<(Box<str>, Box<str>)>);

impl ItemKey {
    /// From two labels.
    pub fn new(location: &Label, sku: &Label) -> Self {
        Self(Arc::new((location.as_str().into(), sku.as_str().into())))
    }

    /// From two texts, which are checked as labels are.
    pub fn from_texts(location: &str, sku: &str) -> Result<Self, LabelError> {
        Label::check(location)?;
        Label::check(sku)?;
        Ok(Self(Arc::new((location.into(), sku.into()))))
    }

    /// Where it is stocked.
    pub fn location(&self) -> &str {
        &self.0.0
    }

    /// What is sold.
    pub fn sku(&self) -> &str {
        &self.0.1
    }
}

impl PartialEq for ItemKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.sku() == other.sku() && self.location() == other.location())
    }
}

impl Eq for ItemKey {}

impl PartialOrd for ItemKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ItemKey {
    /// By location, then SKU.
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl Hash for ItemKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Debug for ItemKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{:?}", self.sku(), self.location())
    }
}

/// How an item's units are told apart; fixed once the item exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Units are interchangeable and the item is a few numbers.
    Counted,
    /// Each unit has an id of its own.
    Units,
}

/// The numbers of an item that reservations move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockCounters {
    /// Units that exist.
    pub total_units: u64,
    /// Units sold, less returns.
    pub confirmed_sold: u64,
    /// Units in active reservations.
    pub held: u64,
    /// Active reservations with a line on the item.
    pub active: u64,
    /// Transitions of the item so far.
    pub sequence: u64,
    /// The newest instant that a transition of the item was decided at: time never runs backwards past it.
    pub at: Instant,
}

impl StockCounters {
    /// The counters after a transition; `None` when one of them would leave its range, which only a damaged state causes.
    /// `at` is not changed: not every transition of a reservation touches each of its items.
    #[must_use]
    pub fn after(&self, effect: &CounterEffect) -> Option<Self> {
        Some(Self {
            held: self.held.checked_add_signed(effect.held)?,
            confirmed_sold: self.confirmed_sold.checked_add_signed(effect.confirmed_sold)?,
            active: self.active.checked_add_signed(effect.active)?,
            sequence: self.sequence.checked_add(effect.sequence)?,
            ..*self
        })
    }
}

/// What an operator set on an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Units kept from sale.
    pub safety_stock: u64,
    /// Time to live of a hold that names none.
    pub default_ttl: Option<Seconds>,
    /// Longest hold, extensions included.
    pub max_hold: Option<Seconds>,
    /// The caller's own data: a JSON object in compact form.
    pub metadata: Option<Arc<str>>,
}

/// One item with its stock figures. Every rule is per item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Which item.
    pub key: ItemKey,
    /// How its units are told apart.
    pub mode: Mode,
    /// What reservations move.
    pub figures: StockCounters,
    /// What an operator set.
    pub settings: Arc<Settings>,
    /// Changes by an operator so far.
    pub version: u64,
    /// Whether its sale is paused (by itself; a location or everything may be paused too).
    pub paused: bool,
    /// When it was created.
    pub created_at: Instant,
}

impl Item {
    /// Units that a reserve can have now: what exists and is neither sold, held nor kept back; never below 0.
    pub fn available(&self) -> u64 {
        self.figures
            .total_units
            .saturating_sub(self.figures.confirmed_sold)
            .saturating_sub(self.figures.held)
            .saturating_sub(self.settings.safety_stock)
    }
}
