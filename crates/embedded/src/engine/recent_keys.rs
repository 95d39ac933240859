//! The keys that were used last, which the index does not have yet. They stand in maps that are forgotten whole. While large
//! batches of commands come there may be twenty, and to ask each of them is to miss the cache twenty times; so a filter says of
//! eight maps together that a key is in none.
//!
//! What must never happen: a map going before the index has all of its keys, or a filter ruling out a key of its maps.

use crate::index::filter::{Filter, Sought};
use foldhash::fast::RandomState;
use std::collections::{HashMap, VecDeque};
use stockhold_domain::{KeyHash, KeyRecord};
use stockhold_store::fault;

/// Keys of some batches.
pub(crate) type Keys = HashMap<KeyHash, KeyRecord, RandomState>;

/// Keys that one map takes before the next is begun. With the 8,192 commands of one call on top they fit into
/// 65,536 places at seven eighths: with more the map has twice as many.
const KEYS_TOGETHER: usize = if fault::ENABLED { 256 } else { 49_152 };
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

/// What is over, to be dropped where nobody waits.
#[derive(Debug, Default)]
pub(crate) struct Forgotten {
    pub(crate) maps: Vec<Keys>,
    groups: Vec<Group>,
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
    pub(crate) fn get(&self, sought: &Sought) -> Option<&KeyRecord> {
        let may_have = self.groups.iter().rev().filter(|group| group.filter.may_have(sought));
        may_have.flat_map(|group| group.maps.iter().rev()).find_map(|(_, keys)| keys.get(&sought.key))
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

    /// Forgets the maps whose newest key's batch is `over`, from the oldest on. Answers with them.
    pub(crate) fn forget(&mut self, over: impl Fn(u64) -> bool) -> Forgotten {
        let mut forgotten = Forgotten::default();
        while let Some(group) = self.groups.front_mut() {
            let count = group.maps.iter().take_while(|(newest, _)| over(*newest)).count();
            forgotten.maps.extend(group.maps.drain(..count).map(|(_, keys)| keys));
            // One that has maps left to begin goes on with them.
            if !group.maps.is_empty() || group.begun < MAPS_TOGETHER {
                break;
            }
            forgotten.groups.extend(self.groups.pop_front());
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
    use stockhold_domain::{Fingerprint, Instant, KeyTarget, ReservationId};

    /// Any that differ, all over the range.
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

    fn get(recent: &RecentKeys, n: usize) -> Option<&KeyRecord> {
        recent.get(&hash(n).into())
    }

    fn maps(recent: &RecentKeys) -> Vec<usize> {
        recent.groups.iter().map(|group| group.maps.len()).collect()
    }

    /// Two groups and a half, two batches for every map.
    #[test]
    fn every_key_is_found_until_its_map_is_forgotten() {
        let mut recent = RecentKeys::default();
        let batch_of = |n: usize| 1 + (n / (KEYS_TOGETHER / 2)) as u64;
        let count = MAPS_TOGETHER * 5 / 2 * KEYS_TOGETHER;
        for n in 0..count {
            recent.insert(batch_of(n), &record(hash(n), 1));
        }
        assert_eq!((recent.len(), maps(&recent)), (count, vec![8, 8, 4]));
        // Batch 3 is half of what the second map has, which stays for the other half.
        for (over, left) in [(0, vec![8, 8, 4]), (3, vec![7, 8, 4]), (16, vec![8, 4]), (35, vec![3])] {
            recent.forget(|newest| newest <= over);
            assert_eq!(maps(&recent), left);
            for n in (0..count).step_by(7) {
                let stays = batch_of(n).next_multiple_of(2) > over;
                assert_eq!(get(&recent, n).is_some(), stays, "key {n} of batch {}", batch_of(n));
            }
        }
        assert_eq!(recent.forget(|_| true).maps.len(), 3);
        assert_eq!((recent.len(), get(&recent, count - 1)), (0, None));
        // The last group goes on with the maps that it has left to begin.
        let more = count..count + KEYS_TOGETHER * 5;
        for n in more.clone() {
            recent.insert(batch_of(n), &record(hash(n), 1));
        }
        assert_eq!(maps(&recent), [4, 1]);
        assert!(more.into_iter().all(|n| get(&recent, n).is_some()));
    }

    #[test]
    fn the_newest_of_several_uses_is_found() {
        let (mut recent, again) = (RecentKeys::default(), hash(usize::MAX));
        for batch in 1..=10_u32 {
            for n in 0..KEYS_TOGETHER {
                recent.insert(batch.into(), &record(hash(n), 1));
            }
            recent.insert(batch.into(), &record(again, batch.into()));
            assert_eq!(recent.get(&again.into()).unwrap().at.micros(), i64::from(batch));
        }
        assert_eq!(maps(&recent), [8, 2]);
    }
}
