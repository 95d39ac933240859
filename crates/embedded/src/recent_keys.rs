//! The keys that were used last, which the index does not have yet. They stand in maps that are forgotten whole; a filter
//! over several maps says of most keys that none of these has them, since beside commands in large batches, which the index
//! follows from afar, there are twenty maps, each of them a miss of the cache.

use crate::filter::Filter;
use foldhash::fast::RandomState;
use std::collections::{HashMap, VecDeque};
use stockhold_domain::{KeyHash, KeyRecord};
use stockhold_store::fault;

/// Keys of some batches.
pub(crate) type Keys = HashMap<KeyHash, KeyRecord, RandomState>;

/// Keys that one map takes before the next is begun. With the 8,192 commands of one call on top they fit into
/// 65,536 places at seven eighths: with more the map has twice as many.
const KEYS_TOGETHER: usize = if fault::ON { 256 } else { 49_152 };
/// Maps under one filter.
const MAPS_TOGETHER: usize = 8;
/// Keys that a filter is made for: half of those that it gets. To be wrong costs it a look into eight maps, where a
/// filter of the index would have something read.
const FILTER_KEYS: usize = KEYS_TOGETHER * MAPS_TOGETHER / 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RecentKeys {
    /// The newest last.
    groups: VecDeque<Group>,
}

#[derive(Debug)]
struct Group {
    /// How many maps were begun, those that are forgotten by now included.
    begun: usize,
    /// The newest last, each with the batch of its newest key.
    maps: VecDeque<(u64, Keys)>,
    /// Over all of them.
    filter: Filter,
}

impl Group {
    fn new() -> Self {
        Self { begun: 0, maps: VecDeque::new(), filter: Filter::for_keys(FILTER_KEYS) }
    }

    /// The map that takes the keys of a batch; `None` where that would be one too many.
    fn map(&mut self, batch: u64) -> Option<&mut (u64, Keys)> {
        let full = |(newest, keys): &(u64, Keys)| keys.len() >= KEYS_TOGETHER && *newest < batch;
        if self.maps.back().is_none_or(full) {
            if self.begun == MAPS_TOGETHER {
                return None;
            }
            self.begun += 1;
            self.maps.push_back((batch, Keys::default()));
        }
        self.maps.back_mut()
    }
}

impl RecentKeys {
    pub(crate) fn get(&self, hash: KeyHash) -> Option<&KeyRecord> {
        let may_have = self.groups.iter().rev().filter(|group| group.filter.may_have(hash));
        may_have.flat_map(|group| group.maps.iter().rev()).find_map(|(_, keys)| keys.get(&hash))
    }

    /// Takes a key in that was used in a batch, which is none before the last one.
    pub(crate) fn insert(&mut self, batch: u64, key: &KeyRecord) {
        if self.groups.back_mut().is_none_or(|group| group.map(batch).is_none()) {
            self.groups.push_back(Group::new());
        }
        if let Some(group) = self.groups.back_mut() {
            group.filter.insert(key.hash);
            if let Some((newest, keys)) = group.map(batch) {
                *newest = batch;
                keys.insert(key.hash, key.clone());
            }
        }
    }

    /// Forgets the maps whose newest key's batch is `over`. Answers with them.
    pub(crate) fn forget(&mut self, over: impl Fn(u64) -> bool) -> Vec<Keys> {
        let mut forgotten = Vec::new();
        while let Some(group) = self.groups.front_mut() {
            let count = group.maps.iter().take_while(|(newest, _)| over(*newest)).count();
            forgotten.extend(group.maps.drain(..count).map(|(_, keys)| keys));
            if !group.maps.is_empty() {
                break;
            }
            self.groups.pop_front();
        }
        forgotten
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.iter().flat_map(|group| &group.maps).map(|(_, keys)| keys.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::{Fingerprint, Instant, ReservationId, Subject};
    use stockhold_store::digest;

    fn hash(n: usize) -> KeyHash {
        digest::key_hash("p", "o", &n.to_string())
    }

    fn record(n: usize, at: i64) -> KeyRecord {
        KeyRecord {
            hash: hash(n),
            fingerprint: Fingerprint(0),
            subject: Subject::Reservation(ReservationId::from_u128(1)),
            at: Instant::from_micros(at),
        }
    }

    /// Two groups and a half, a batch for every map.
    #[test]
    fn every_key_is_found_until_its_map_is_forgotten_and_the_newest_of_two_before_it() {
        let mut recent = RecentKeys::default();
        let batches = MAPS_TOGETHER * 5 / 2;
        let batch_of = |n: usize| 1 + (n / KEYS_TOGETHER) as u64;
        let count = batches * KEYS_TOGETHER;
        for n in 0..count {
            recent.insert(batch_of(n), &record(n, 1));
        }
        let maps = |recent: &RecentKeys| recent.groups.iter().map(|g| g.maps.len()).collect::<Vec<_>>();
        assert_eq!((recent.len(), maps(&recent)), (count, vec![8, 8, 4]));
        let last = batch_of(count - 1);
        recent.insert(last, &record(0, 2));
        assert_eq!((recent.get(hash(0)).unwrap().at.micros(), recent.get(hash(count))), (2, None));

        for (over, left) in [(0, vec![8, 8, 4]), (3, vec![5, 8, 4]), (8, vec![8, 4]), (17, vec![3])] {
            recent.forget(|newest| newest <= over);
            assert_eq!(maps(&recent), left);
            for n in (0..count).step_by(7) {
                let stays = batch_of(n) > over || n == 0;
                assert_eq!(recent.get(hash(n)).is_some(), stays, "key {n} of batch {}", batch_of(n));
            }
        }
        // The last group goes on with the maps that it has left to begin.
        for n in count..count + KEYS_TOGETHER * 5 {
            recent.insert(batch_of(n), &record(n, 1));
        }
        assert_eq!(maps(&recent), [7, 1]);
        assert_eq!(recent.forget(|_| true).len(), 8);
        assert_eq!((recent.len(), recent.get(hash(count))), (0, None));
        recent.insert(99, &record(1, 1));
        assert!(recent.get(hash(1)).is_some());
    }
}
