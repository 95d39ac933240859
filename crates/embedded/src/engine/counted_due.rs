//! The active holds that limits count, by counter and in order of their deadlines.

use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap};
use stockhold_domain::{CounterKey, Hold, Instant, ReservationId};

/// The active holds that limits count.
#[derive(Debug, Default)]
pub(crate) struct CountedDue(HashMap<CounterKey, BTreeSet<(Instant, ReservationId)>, RandomState>);

impl CountedDue {
    pub(crate) fn insert(&mut self, hold: &Hold) {
        for key in counters(hold) {
            match self.0.get_mut(key) {
                Some(all) => {
                    all.insert((hold.expires_at, hold.id));
                }
                None => {
                    self.0.insert(key.clone(), BTreeSet::from([(hold.expires_at, hold.id)]));
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, hold: &Hold) {
        for key in counters(hold) {
            let Some(all) = self.0.get_mut(key) else { continue };
            all.remove(&(hold.expires_at, hold.id));
            if all.is_empty() {
                self.0.remove(key);
            }
        }
    }

    pub(crate) fn earliest(&self, key: &CounterKey) -> Option<(Instant, ReservationId)> {
        self.0.get(key)?.first().copied()
    }
}

fn counters(hold: &Hold) -> impl Iterator<Item = &CounterKey> {
    let lines = hold.lines.iter().filter_map(|line| line.details.as_ref());
    lines.flat_map(|details| &details.counted).map(|count| &count.key)
}
