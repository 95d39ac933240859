//! The items and idempotency keys that the running batches of this instance have claimed. Two running batches never share one,
//! so batches of one instance do not wait for each other's database locks.

use crate::engine::plan::PlannedCommand;
use crate::engine::state::LoadedState;
use std::collections::HashSet;
use std::hash::Hash;
use stockhold_domain::{ItemKey, KeyHash, RecordKey, Resource, footprint};

/// The items, keys and records that a batch may touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    pub(super) items: HashSet<ItemKey>,
    pub(super) keys: HashSet<KeyHash>,
    pub(super) records: HashSet<RecordKey>,
}

impl Claims {
    /// The claims of one command. The items of the reservation that it names are included once they are known.
    pub(super) fn of(planned: &PlannedCommand) -> Self {
        let mut claims = Self::default();
        claims.items.extend(planned.refs.iter().flat_map(|refs| refs.items.iter().cloned()));
        let mut names = Vec::new();
        footprint(&LoadedState::default(), &planned.envelope, &mut names);
        for name in names {
            match name {
                Resource::Item(item) => {
                    claims.items.insert(item);
                }
                Resource::Key(hash) => {
                    claims.keys.insert(hash);
                }
                Resource::Record(key) => {
                    claims.records.insert(key);
                }
                Resource::Hold(_)
                | Resource::Due(_)
                | Resource::AnyDue
                | Resource::AnyRelease
                | Resource::Pause(_)
                | Resource::Limits
                | Resource::Counter(_)
                | Resource::CountedDue(_)
                | Resource::Unit(..)
                | Resource::FreeUnits(..)
                | Resource::LastUnit(_)
                | Resource::SeatMap(_) => {}
            }
        }
        claims
    }

    pub(super) fn of_items(items: HashSet<ItemKey>) -> Self {
        Self { items, ..Self::default() }
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        fn intersect<T: Eq + Hash>(a: &HashSet<T>, b: &HashSet<T>) -> bool {
            let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
            few.iter().any(|one| many.contains(one))
        }
        intersect(&self.items, &other.items)
            || intersect(&self.keys, &other.keys)
            || intersect(&self.records, &other.records)
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.items.extend(other.items.iter().cloned());
        self.keys.extend(&other.keys);
        self.records.extend(other.records.iter().cloned());
    }

    /// Removes claims that were added before.
    pub(super) fn remove(&mut self, other: &Self) {
        for item in &other.items {
            self.items.remove(item);
        }
        for key in &other.keys {
            self.keys.remove(key);
        }
        for key in &other.records {
            self.records.remove(key);
        }
    }
}
