//! The active holds that limits count, by counter and in order of their deadlines.

use foldhash::fast::RandomState;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use stockhold_domain::{CounterKey, Hold, Instant, ReservationId};

type Due = (Instant, ReservationId);

/// The active holds that limits count.
#[derive(Debug, Default)]
pub(crate) struct CountedDue(HashMap<CounterKey, Deadlines, RandomState>);

/// The deadlines of a counter. Most counters count one hold, which needs no tree of its own.
#[derive(Debug)]
enum Deadlines {
    One(Due),
    Many(BTreeSet<Due>),
}

impl Deadlines {
    fn insert(&mut self, due: Due) {
        match self {
            Self::One(known) if *known == due => {}
            Self::One(known) => *self = Self::Many(BTreeSet::from([*known, due])),
            Self::Many(all) => {
                all.insert(due);
            }
        }
    }

    /// Whether none is left.
    fn remove(&mut self, due: &Due) -> bool {
        match self {
            Self::One(known) => known == due,
            Self::Many(all) => {
                all.remove(due);
                all.is_empty()
            }
        }
    }

    fn earliest(&self) -> Option<Due> {
        match self {
            Self::One(known) => Some(*known),
            Self::Many(all) => all.first().copied(),
        }
    }
}

impl CountedDue {
    pub(crate) fn insert(&mut self, hold: &Hold) {
        let due = (hold.expires_at, hold.id);
        for key in counters(hold) {
            match self.0.get_mut(key) {
                Some(deadlines) => deadlines.insert(due),
                None => {
                    self.0.insert(key.clone(), Deadlines::One(due));
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, hold: &Hold) {
        for key in counters(hold) {
            let Entry::Occupied(mut deadlines) = self.0.entry(key.clone()) else { continue };
            if deadlines.get_mut().remove(&(hold.expires_at, hold.id)) {
                deadlines.remove();
            }
        }
    }

    pub(crate) fn earliest(&self, key: &CounterKey) -> Option<Due> {
        self.0.get(key)?.earliest()
    }
}

fn counters(hold: &Hold) -> impl Iterator<Item = &CounterKey> {
    let lines = hold.lines.iter().filter_map(|line| line.details.as_ref());
    lines.flat_map(|details| &details.counted).map(|count| &count.key)
}
