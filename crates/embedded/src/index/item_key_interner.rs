//! Interns the keys of items while a start reads them, so that each text exists once. If a million copies were shared
//! only afterwards, they would leave the memory fragmented.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::cell::RefCell;
use std::hash::BuildHasher;
use stockhold_domain::ItemKey;
use stockhold_store::codec::KnownKeys;

/// The keys of items that a start has read, each once.
#[derive(Debug, Default)]
pub(crate) struct ItemKeyInterner {
    known: RefCell<HashTable<ItemKey>>,
    hasher: RandomState,
}

/// An interner that learns nothing more: for records whose keys occur once each.
#[derive(Debug)]
pub(crate) struct FrozenInterner<'a>(pub(crate) &'a ItemKeyInterner);

impl KnownKeys for FrozenInterner<'_> {
    fn find(&self, location: &str, sku: &str) -> Option<ItemKey> {
        self.0.find(location, sku)
    }

    fn learn(&self, _: &ItemKey) {}
}

impl KnownKeys for ItemKeyInterner {
    fn find(&self, location: &str, sku: &str) -> Option<ItemKey> {
        if self.known.borrow().is_empty() {
            return None;
        }
        let is_it = |key: &ItemKey| key.sku() == sku && key.location() == location;
        self.known.borrow().find(self.hasher.hash_one((location, sku)), is_it).cloned()
    }

    fn learn(&self, key: &ItemKey) {
        let hash = |key: &ItemKey| self.hasher.hash_one((key.location(), key.sku()));
        self.known.borrow_mut().insert_unique(hash(key), key.clone(), hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::Label;

    #[test]
    fn keys_are_found_by_both_texts() {
        let keys = ItemKeyInterner::default();
        let key = |location: &str, sku: &str| {
            ItemKey::new(&Label::new(location).unwrap(), &Label::new(sku).unwrap())
        };
        for n in 0..100 {
            keys.learn(&key("hub", &n.to_string()));
        }
        let found = keys.find("hub", "7").unwrap();
        assert_eq!(found, key("hub", "7"));
        assert_eq!(found.sku().as_ptr(), keys.find("hub", "7").unwrap().sku().as_ptr());
        let frozen = FrozenInterner(&keys);
        assert_eq!(found.sku().as_ptr(), frozen.find("hub", "7").unwrap().sku().as_ptr());
        frozen.learn(&key("hub", "100"));
        assert_eq!(
            (keys.find("7", "hub"), keys.find("hub", "100"), keys.find("hu", "b7")),
            (None, None, None)
        );
    }
}
