//! What availability is read from: each item as of the newest commit. Replaced after a commit and before its answers,
//! so that whoever was answered sees it.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use stockhold_domain::{Event, Item, ItemKey, Scope, Transition};

type Slots = HashMap<ItemKey, Arc<Mutex<Item>>, RandomState>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Published(RwLock<Slots>);

impl Published {
    pub(crate) fn get(&self, key: &ItemKey) -> Option<Item> {
        self.slot(key).map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn slot(&self, key: &ItemKey) -> Option<Arc<Mutex<Item>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub(crate) fn put(&self, item: Item) {
        match self.slot(&item.key) {
            Some(slot) => *slot.lock().unwrap_or_else(PoisonError::into_inner) = item,
            None => {
                let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
                slots.insert(item.key.clone(), Arc::new(Mutex::new(item)));
            }
        }
    }

    fn change(&self, key: &ItemKey, change: impl FnOnce(&mut Item)) {
        if let Some(slot) = self.slot(key) {
            change(&mut slot.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Takes in what a commit did.
    pub(crate) fn publish(&self, events: &[Event]) {
        for event in events {
            match &event.transition {
                Transition::Hold { hold, figures, .. } => {
                    for (line, figures) in hold.lines.iter().zip(figures) {
                        self.change(&line.item, |item| item.figures = *figures);
                    }
                }
                Transition::Stock { item, .. } => self.put(item.clone()),
                Transition::Sale { scope: Scope::Item(key), paused, .. } => {
                    self.change(key, |item| item.paused = *paused);
                }
                Transition::Sale { .. } => {}
            }
        }
    }
}
