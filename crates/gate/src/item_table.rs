//! The gated items that an instance knows, as far as they decide whether the gate is asked. It is behind the store: a change at
//! another instance is known within [`crate::refresh::FEED_INTERVAL`] and a read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use stockhold_domain::{Hold, Instant, Item, ItemKey, Line, Mode, Shortage, Status};
use stockhold_store::Pauses;

/// The gated items, and what is paused.
#[derive(Default)]
pub(crate) struct ItemTable {
    content: RwLock<Content>,
    /// Whether there is a gated item. Requests pass without a lock while there is none.
    is_used: AtomicBool,
    /// Whether every counted item is gated, whatever it says.
    every_item: bool,
}

/// The content of an [`ItemTable`].
#[derive(Default)]
pub(crate) struct Content {
    items: HashMap<ItemKey, GatedItem>,
    pub(crate) pauses: Pauses,
    /// Whether a limit counts per customer, so that a reserve without a customer may be refused for that.
    pub(crate) has_customer_limits: bool,
}

/// One gated item.
pub(crate) struct GatedItem {
    pub(crate) item: Item,
    /// The earliest deadline of its holds, as far as it is known. From this instant on the store may have units that the gate does not
    /// know.
    pub(crate) next_expiry_at: Option<Instant>,
}

impl ItemTable {
    /// An empty table. With `every_item`, every counted item is gated.
    pub(crate) fn new(every_item: bool) -> Self {
        Self { every_item, ..Self::default() }
    }

    /// Whether an item is gated.
    pub(crate) fn wants(&self, item: &Item) -> bool {
        item.mode == Mode::Counted && (item.settings.gated || self.every_item)
    }

    /// Whether there may be something to ask the gate for.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Acquire)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over an item as the store has it, unless a newer one is known. Returns whether the item was gated before, and whether it is
    /// now.
    pub(crate) fn put(&self, key: &ItemKey, item: Option<Item>) -> (bool, bool) {
        let mut content = self.write();
        let known = content.items.get_mut(key);
        let was_gated = known.is_some();
        let item = item.filter(|item| self.wants(item));
        match (known, item) {
            (Some(known), Some(item)) => {
                let is_newer = (item.version, item.figures.sequence)
                    >= (known.item.version, known.item.figures.sequence);
                if is_newer {
                    known.item = item;
                }
                return (true, true);
            }
            (None, Some(item)) => {
                content.items.insert(key.clone(), GatedItem { item, next_expiry_at: None });
            }
            (Some(_), None) => {
                content.items.remove(key);
            }
            (None, None) => return (false, false),
        }
        let is_used = !content.items.is_empty();
        self.is_used.store(is_used, Ordering::Release);
        (was_gated, !was_gated)
    }

    pub(crate) fn set_pauses(&self, pauses: Pauses) {
        self.write().pauses = pauses;
    }

    pub(crate) fn set_customer_limits(&self, has_customer_limits: bool) {
        self.write().has_customer_limits = has_customer_limits;
    }

    /// Learns the earliest deadlines from a refusal by the store.
    pub(crate) fn learn_shortages(&self, shortages: &[Shortage]) {
        let mut content = self.write();
        for shortage in shortages {
            if let Some(known) = content.items.get_mut(&shortage.item) {
                known.next_expiry_at = shortage.next_expiry_at;
            }
        }
    }

    /// Learns the deadline of a hold.
    pub(crate) fn learn_hold(&self, hold: &Hold) {
        let is_earlier = |line: &Line| {
            let known = self.read().items.get(&line.item).map(|known| known.next_expiry_at);
            known.is_some_and(|known| known.is_none_or(|known| hold.expires_at < known))
        };
        // Most holds are due later than those before them, and change nothing.
        if hold.status != Status::Active || !hold.lines.iter().any(is_earlier) {
            return;
        }
        let mut content = self.write();
        for line in &*hold.lines {
            if let Some(known) = content.items.get_mut(&line.item) {
                let earlier = known.next_expiry_at.is_none_or(|known| hold.expires_at < known);
                if earlier {
                    known.next_expiry_at = Some(hold.expires_at);
                }
            }
        }
    }

    /// The gated items, in their order.
    pub(crate) fn keys(&self) -> Vec<ItemKey> {
        let mut keys: Vec<_> = self.read().items.keys().cloned().collect();
        keys.sort();
        keys
    }
}

impl Content {
    pub(crate) fn get(&self, item: &ItemKey) -> Option<&GatedItem> {
        self.items.get(item)
    }

    pub(crate) fn is_gated(&self, item: &ItemKey) -> bool {
        self.items.contains_key(item)
    }
}

impl GatedItem {
    /// The earliest deadline of its holds if it is still to come.
    pub(crate) fn next_expiry_after(&self, now: Instant) -> Option<Instant> {
        self.next_expiry_at.filter(|expiry| *expiry > now)
    }

    /// Whether a hold of it is due, so that the store may have more units than the gate knows.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next_expiry_at.is_some_and(|expiry| expiry <= now)
    }
}
