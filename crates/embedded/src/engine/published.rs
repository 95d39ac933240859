//! The items that availability is read from, as of the newest commit. A commit updates them before its answers are
//! delivered, so a caller that has an answer sees its effect.

use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use stockhold_domain::{Event, Item, ItemKey, Label, Scope, StockChange, Transition};
use stockhold_store::ItemPageRequest;

type Slots = HashMap<ItemKey, Arc<Mutex<Item>>, RandomState>;

/// The items as of the newest commit, for readers.
#[derive(Debug, Default)]
pub(crate) struct PublishedItems {
    slots: RwLock<Slots>,
    /// The keys of the items in order, for pages.
    order: RwLock<BTreeSet<ItemKey>>,
    /// The position of the newest committed event.
    newest: AtomicU64,
}

/// The items of an index, as they are loaded in the order of their keys.
#[derive(Debug)]
pub(crate) struct LoadedItems {
    slots: Slots,
    keys: Vec<ItemKey>,
}

impl LoadedItems {
    /// Room for so many items.
    pub(crate) fn with_capacity(items: usize) -> Self {
        Self {
            slots: Slots::with_capacity_and_hasher(items, RandomState::default()),
            keys: Vec::with_capacity(items),
        }
    }

    pub(crate) fn add(&mut self, item: Item) {
        self.keys.push(item.key.clone());
        self.slots.insert(item.key.clone(), Arc::new(Mutex::new(item)));
    }

    /// A tree that is built at once from sorted keys is compact, and costs no search for each key.
    pub(crate) fn publish(self) -> PublishedItems {
        let order = self.keys.into_iter().collect();
        PublishedItems {
            slots: RwLock::new(self.slots),
            order: RwLock::new(order),
            newest: AtomicU64::default(),
        }
    }
}

impl PublishedItems {
    pub(crate) fn get(&self, key: &ItemKey) -> Option<Item> {
        self.slot(key).map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn slot(&self, key: &ItemKey) -> Option<Arc<Mutex<Item>>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub(crate) fn put(&self, item: Item) {
        match self.slot(&item.key) {
            Some(slot) => *slot.lock().unwrap_or_else(PoisonError::into_inner) = item,
            None => {
                self.order.write().unwrap_or_else(PoisonError::into_inner).insert(item.key.clone());
                let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
                slots.insert(item.key.clone(), Arc::new(Mutex::new(item)));
            }
        }
    }

    fn remove(&self, key: &ItemKey) {
        self.order.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.slots.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn update(&self, key: &ItemKey, change: impl FnOnce(&mut Item)) {
        if let Some(slot) = self.slot(key) {
            change(&mut slot.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// A page of items.
    pub(crate) fn page(&self, ItemPageRequest { location, after, limit }: &ItemPageRequest) -> Vec<Item> {
        let order = self.order.read().unwrap_or_else(PoisonError::into_inner);
        // A blank sorts before every label.
        let lowest = Label::new(" ").ok();
        let first = location.as_ref().zip(lowest).map(|(location, lowest)| ItemKey::new(location, &lowest));
        let from = match (after, &first) {
            (Some(after), Some(first)) if after < first => Bound::Included(first),
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(first)) => Bound::Included(first),
            (None, None) => Bound::Unbounded,
        };
        let here = |key: &&ItemKey| location.as_ref().is_none_or(|at| at.as_str() == key.location());
        let keys = order.range((from, Bound::Unbounded)).take_while(here);
        keys.filter_map(|key| self.get(key)).take(*limit).collect()
    }

    /// The position of the newest committed event.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Sets the position of the newest committed event.
    pub(crate) fn set_newest(&self, newest: u64) {
        self.newest.store(newest, Ordering::Release);
    }

    /// Applies the events of a commit.
    pub(crate) fn publish(&self, events: &[Event]) {
        // When an item is in high demand, the next event is most often about the same item.
        let mut last: Option<(&ItemKey, Arc<Mutex<Item>>)> = None;
        for event in events {
            match &event.transition {
                Transition::Hold { hold, figures, limits, .. } => {
                    for (number, (line, figures)) in hold.lines.iter().zip(figures).enumerate() {
                        if last.as_ref().is_none_or(|(key, _)| *key != &line.item) {
                            last = self.slot(&line.item).map(|slot| (&line.item, slot));
                        }
                        if let Some((_, slot)) = &last {
                            let mut item = slot.lock().unwrap_or_else(PoisonError::into_inner);
                            item.figures = *figures;
                            if let Some(pools) = limits.as_ref().and_then(|effects| effects.pools_of(number))
                            {
                                item.pools = pools.clone();
                            }
                        }
                    }
                }
                Transition::Stock { change: StockChange::Deleted, item } => {
                    self.remove(&item.key);
                    last = None;
                }
                Transition::Stock { item, .. } => self.put(item.clone()),
                Transition::Sale { scope: Scope::Item(key), paused, .. } => {
                    self.update(key, |item| item.paused = *paused);
                }
                Transition::Sale { .. } | Transition::Limit { .. } | Transition::Record { .. } => {}
            }
        }
    }
}
