//! The items that a stock master owns, as they were after the last event that was read.

use std::collections::HashMap;
use stockhold_domain::{Instant, Item, ItemKey, StockChange, StockCounters};

/// An item that a stock master owns. About 200 bytes, which a server has in memory for each of them.
#[derive(Clone, Debug)]
pub(super) struct OwnedItem {
    pub(super) figures: StockCounters,
    pub(super) version: u64,
    /// Units that may be sold beyond the total.
    pub(super) oversell_allowance: u64,
    created_at: Instant,
    /// The event that gave it to the stock master. Earlier sales are none of its business.
    owned_since: u64,
}

/// The items that a stock master owns.
#[derive(Debug)]
pub(super) struct OwnedItems {
    stock_master: String,
    items: HashMap<ItemKey, OwnedItem>,
}

impl OwnedItems {
    pub(super) fn new(stock_master: &str) -> Self {
        Self { stock_master: stock_master.to_owned(), items: HashMap::new() }
    }

    /// Adds an item from a list, if the stock master owns it. Events that are older than the item are passed by.
    pub(super) fn add_listed(&mut self, item: &Item) {
        if self.is_owned(item) {
            self.items.insert(item.key.clone(), owned(item, 0));
        }
    }

    /// Follows a change of an item by an operator. Returns whether the item has left the stock master.
    pub(super) fn note_stock(&mut self, position: u64, change: &StockChange, item: &Item) -> bool {
        let known = self.items.get(&item.key);
        let is_old = known.is_some_and(|known| {
            (known.created_at, known.figures.sequence) > (item.created_at, item.figures.sequence)
        });
        if is_old {
            return false;
        }
        if *change == StockChange::Deleted || !self.is_owned(item) {
            return self.items.remove(&item.key).is_some();
        }
        let owned_since = known.map_or(position, |known| known.owned_since);
        self.items.insert(item.key.clone(), owned(item, owned_since));
        false
    }

    /// Follows the counters of an item after a change of a reservation.
    pub(super) fn note_counters(&mut self, item: &ItemKey, figures: &StockCounters) {
        if let Some(known) = self.items.get_mut(item)
            && figures.sequence > known.figures.sequence
        {
            known.figures = *figures;
        }
    }

    /// Whether the stock master owned the item when the event at this position was committed.
    pub(super) fn owns(&self, item: &ItemKey, position: u64) -> bool {
        self.items.get(item).is_some_and(|known| known.owned_since < position)
    }

    pub(super) fn get(&self, item: &ItemKey) -> Option<&OwnedItem> {
        self.items.get(item)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ItemKey> {
        self.items.keys()
    }

    fn is_owned(&self, item: &Item) -> bool {
        item.settings.stock_master.as_ref().is_some_and(|name| name.as_str() == self.stock_master)
    }
}

fn owned(item: &Item, owned_since: u64) -> OwnedItem {
    OwnedItem {
        figures: item.figures,
        version: item.version,
        oversell_allowance: item.settings.oversell_allowance,
        created_at: item.created_at,
        owned_since,
    }
}
