//! The items and idempotency keys that the running batches of this instance have claimed.

use crate::engine::plan::PlannedCommand;
use crate::engine::state::LoadedState;
use std::collections::{HashMap, HashSet};
use stockhold_domain::{ItemKey, KeyHash, RecordKey, Resource, footprint};

/// Batches in flight that may claim units of one hall: they lock different ones, as those of two instances do, and while one
/// is being written and synced the next is decided.
pub(super) const LANES: usize = 2;

/// A bit for each.
pub(super) const ALL_LANES: u8 = (1 << LANES) - 1;
/// What a batch may touch, and no other batch of this instance while it is in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    pub(super) items: HashSet<ItemKey>,
    pub(super) keys: HashSet<KeyHash>,
    pub(super) records: HashSet<RecordKey>,
    /// Those of the items that are halls of which units are claimed and nothing else is done: others may do the same,
    pub(super) shared: HashSet<ItemKey>,
    /// in another lane.
    pub(super) lane: usize,
}

impl Claims {
    pub(super) fn meets(&self, other: &Self) -> bool {
        fn shares<T: Eq + std::hash::Hash>(a: &HashSet<T>, b: &HashSet<T>) -> bool {
            let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
            few.iter().any(|one| many.contains(one))
        }
        shares(&self.items, &other.items)
            || shares(&self.keys, &other.keys)
            || shares(&self.records, &other.records)
    }

    /// Of one command, as far as the items of the reservation that it names are known.
    pub(super) fn of(planned: &PlannedCommand) -> Self {
        let mut claims = Self { shared: planned.only_claims_of().cloned().collect(), ..Self::default() };
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
                | Resource::Pause(_)
                | Resource::Unit(..)
                | Resource::FreeUnits(..)
                | Resource::LastUnit(_)
                | Resource::SeatMap(_) => {}
            }
        }
        claims
    }

    /// Of whoever does anything with these items.
    pub(super) fn all_of(items: HashSet<ItemKey>) -> Self {
        Self { items, ..Self::default() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for item in &other.items {
            let new = self.items.insert(item.clone());
            if !other.shared.contains(item) {
                self.shared.remove(item);
            } else if new {
                self.shared.insert(item.clone());
            }
        }
        self.keys.extend(&other.keys);
        self.records.extend(other.records.iter().cloned());
    }
}

/// What batches in flight have claimed.
#[derive(Default)]
pub(super) struct ActiveClaims {
    pub(super) items: HashMap<ItemKey, Lanes>,
    pub(super) keys: HashSet<KeyHash>,
    pub(super) records: HashSet<RecordKey>,
}

/// How an item is claimed.
pub(super) enum Lanes {
    Alone,
    /// In which of the lanes, as bits.
    Shared(u8),
}

impl ActiveClaims {
    /// The lanes that are free for all of the claims, as bits: none when something is in the way.
    pub(super) fn free_lanes(&self, claims: &Claims) -> u8 {
        if claims.keys.iter().any(|key| self.keys.contains(key))
            || claims.records.iter().any(|key| self.records.contains(key))
        {
            return 0;
        }
        claims.items.iter().fold(ALL_LANES, |free, item| match self.items.get(item) {
            None => free,
            Some(Lanes::Shared(taken)) if claims.shared.contains(item) => free & !taken,
            Some(_) => 0,
        })
    }

    pub(super) fn add(&mut self, claims: &Claims) {
        for item in &claims.items {
            let taken = self.items.entry(item.clone()).or_insert(Lanes::Shared(0));
            match taken {
                Lanes::Shared(taken) if claims.shared.contains(item) => *taken |= 1 << claims.lane,
                taken => *taken = Lanes::Alone,
            }
        }
        self.keys.extend(&claims.keys);
        self.records.extend(claims.records.iter().cloned());
    }

    pub(super) fn remove(&mut self, claims: &Claims) {
        for item in &claims.items {
            match self.items.get_mut(item) {
                Some(Lanes::Shared(taken)) if *taken != 1 << claims.lane => *taken &= !(1 << claims.lane),
                _ => {
                    self.items.remove(item);
                }
            }
        }
        for key in &claims.keys {
            self.keys.remove(key);
        }
        for key in &claims.records {
            self.records.remove(key);
        }
    }
}
