//! What an item is called.

use crate::table::label;
use std::hash::{DefaultHasher, Hash, Hasher};
use stockhold_domain::ItemKey;

fn key(location: &str, sku: &str) -> ItemKey {
    ItemKey::new(&label(location), &label(sku))
}

#[test]
fn keys_hash_by_location_and_sku() {
    let hash = |location, sku| {
        let mut hasher = DefaultHasher::new();
        key(location, sku).hash(&mut hasher);
        hasher.finish()
    };
    assert_eq!(hash("hub", "a"), hash("hub", "a"));
    assert_ne!(hash("hub", "a"), hash("hub", "b"));
    assert_ne!(hash("hub", "a"), hash("default", "a"));
    assert_ne!(hash("a", "bc"), hash("ab", "c"));
}

#[test]
fn a_key_reads_as_sku_at_location() {
    assert_eq!(format!("{:?}", key("hub", "a")), "\"a\"@\"hub\"");
}
