//! The keys that were used last and that the index does not have yet. They are kept in several maps, and each map is removed
//! as a whole: the thread that removes it drops it after it has released the lock of the core.
//!
//! What must never happen: a map is removed before the index has all of its keys.

use foldhash::fast::RandomState;
use std::collections::{HashMap, VecDeque};
use stockhold_domain::{KeyHash, KeyRecord};
use stockhold_store::fault;

/// Keys of some batches.
pub(crate) type KeyMap = HashMap<KeyHash, KeyRecord, RandomState>;

/// Keys that one map takes before the next one begins. With the 8,192 commands of one call on top they fit into a table of
/// 65,536 places at a load of seven eighths. More keys would double the table.
const KEYS_PER_MAP: usize = if fault::ENABLED { 256 } else { 49_152 };

/// The used keys that the index does not have yet.
#[derive(Debug, Default)]
pub(crate) struct RecentKeys {
    /// The newest map is last. Each map has the batch of its newest key.
    maps: VecDeque<(u64, KeyMap)>,
}

impl RecentKeys {
    /// The newest use of a key.
    pub(crate) fn get(&self, key: KeyHash) -> Option<&KeyRecord> {
        self.maps.iter().rev().find_map(|(_, keys)| keys.get(&key))
    }

    /// Adds a key that was used in a batch. Batches come in ascending order. All keys of a batch are in one map.
    pub(crate) fn insert(&mut self, batch: u64, key: &KeyRecord) {
        let full = |(newest, keys): &(u64, KeyMap)| keys.len() >= KEYS_PER_MAP && *newest < batch;
        if self.maps.back().is_none_or(full) {
            self.maps.push_back((batch, KeyMap::default()));
        }
        if let Some((newest, keys)) = self.maps.back_mut() {
            *newest = batch;
            keys.insert(key.hash, key.clone());
        }
    }

    /// Removes the maps whose newest key was used in this batch or earlier, and returns them.
    pub(crate) fn remove_up_to(&mut self, batch: u64) -> Vec<KeyMap> {
        let count = self.maps.iter().take_while(|(newest, _)| *newest <= batch).count();
        self.maps.drain(..count).map(|(_, keys)| keys).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.maps.iter().map(|(_, keys)| keys.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::{Fingerprint, Instant, KeyTarget, ReservationId};

    /// Hashes that differ and are spread over the whole range.
    fn hash(n: usize) -> KeyHash {
        KeyHash((n as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }

    fn record(hash: KeyHash, at: i64) -> KeyRecord {
        KeyRecord {
            hash,
            fingerprint: Fingerprint(0),
            target: KeyTarget::Reservation(ReservationId::from_u128(1)),
            at: Instant::from_micros(at),
        }
    }

    #[test]
    fn every_key_is_found_until_its_map_is_removed() {
        const MAPS: usize = 5;
        let mut recent = RecentKeys::default();
        // Each map has the keys of two batches.
        let batch_of = |n: usize| 1 + (n / (KEYS_PER_MAP / 2)) as u64;
        let count = MAPS * KEYS_PER_MAP;
        for n in 0..count {
            recent.insert(batch_of(n), &record(hash(n), 1));
        }
        assert_eq!((recent.len(), recent.maps.len()), (count, MAPS));
        // Batch 3 is the first half of the second map, which stays because of its other half.
        for (removed_to, left) in [(0, 5), (3, 4), (8, 1)] {
            recent.remove_up_to(removed_to);
            assert_eq!(recent.maps.len(), left);
            for n in (0..count).step_by(7) {
                let stays = batch_of(n).next_multiple_of(2) > removed_to;
                assert_eq!(recent.get(hash(n)).is_some(), stays, "key {n} of batch {}", batch_of(n));
            }
        }
        assert_eq!(recent.remove_up_to(u64::MAX).len(), 1);
        assert_eq!((recent.len(), recent.get(hash(count - 1))), (0, None));
    }

    #[test]
    fn the_newest_of_several_uses_is_found() {
        let (mut recent, again) = (RecentKeys::default(), hash(usize::MAX));
        for batch in 1..=10_u32 {
            for n in 0..KEYS_PER_MAP {
                recent.insert(batch.into(), &record(hash(n), 1));
            }
            recent.insert(batch.into(), &record(again, batch.into()));
            assert_eq!(recent.get(again).unwrap().at.micros(), i64::from(batch));
        }
        assert_eq!(recent.maps.len(), 10);
    }
}
