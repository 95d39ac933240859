//! Recounts what limits count, from the reservations.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use stockhold_domain::{
    CounterKey, Hold, Limit, LimitCounter, LimitCounters, LimitEffects, LimitSet, ReservationId, Status,
};

/// The limits and their counters as events leave them, and what the reservations add up to.
#[derive(Default)]
pub(super) struct LimitRecount {
    pub(super) limits: LimitSet,
    /// As the events say.
    pub(super) counters: LimitCounters,
    /// As the reservations say. Counters of ended generations are among them.
    sums: BTreeMap<CounterKey, LimitCounter>,
    /// What each reservation with counted units has.
    of_holds: BTreeMap<ReservationId, Vec<(CounterKey, LimitCounter)>>,
}

impl LimitRecount {
    /// Begins with these limits and counters.
    pub(super) fn begin(&mut self, limits: LimitSet, counters: LimitCounters) {
        (self.limits, self.counters) = (limits, counters);
    }

    /// Adds units that archived reservations have sold.
    pub(super) fn add_archived(&mut self, key: &CounterKey, units: u64) {
        self.sums.entry(key.clone()).or_default().sold += units;
    }

    /// What reservations have under each counter that is in use.
    pub(super) fn current_sums(&self) -> impl Iterator<Item = (&CounterKey, &LimitCounter)> {
        self.sums.iter().filter(|(key, _)| self.limits.current(key).is_some())
    }

    pub(super) fn limit(&mut self, limit: &Limit) -> Vec<String> {
        let before = self.limits.get(&limit.id);
        let version = before.map_or(0, |before| before.version);
        let goes_on = before.is_some_and(|before| before.generation == limit.generation);
        let follows = limit.version == version + 1
            && (goes_on || (limit.generation == limit.version && limit.terms.is_some()));
        self.counters.on_change(limit);
        self.limits.put(limit.clone());
        if follows {
            return Vec::new();
        }
        vec![format!(
            "limit {:?}: version {} does not follow from the limit before it",
            limit.id, limit.version
        )]
    }

    /// Counts a reservation after a change, and checks the counters that its event says.
    pub(super) fn hold(&mut self, hold: &Hold, effects: Option<&LimitEffects>) -> Vec<String> {
        let after = counts(hold);
        if after.is_empty() && effects.is_none() && !self.of_holds.contains_key(&hold.id) {
            return Vec::new();
        }
        for (key, counter) in self.of_holds.remove(&hold.id).unwrap_or_default() {
            if let Entry::Occupied(mut sum) = self.sums.entry(key) {
                let LimitCounter { held, sold } = *sum.get();
                sum.insert(LimitCounter {
                    held: held.saturating_sub(counter.held),
                    sold: sold.saturating_sub(counter.sold),
                });
            }
        }
        for (key, counter) in &after {
            let sum = self.sums.entry(key.clone()).or_default();
            sum.held += counter.held;
            sum.sold += counter.sold;
        }
        if !after.is_empty() {
            self.of_holds.insert(hold.id, after);
        }
        let mut found = Vec::new();
        for (key, counter) in effects.into_iter().flat_map(|effects| &*effects.counters) {
            let sum = self.sums.get(key).copied().unwrap_or_default();
            if sum != *counter {
                found.push(format!("{key:?} says {counter:?}, its reservations {sum:?}"));
            }
            self.counters.put(key.clone(), *counter);
        }
        found
    }

    /// Counters that are not what the reservations add up to.
    pub(super) fn end(&self) -> Vec<String> {
        let current = |key: &CounterKey| self.limits.current(key).is_some();
        let mut found = Vec::new();
        for (key, sum) in self.sums.iter().filter(|(key, _)| current(key)) {
            let counter = self.counters.get(key);
            if counter != *sum {
                found.push(format!("{key:?} is {counter:?}, its reservations add up to {sum:?}"));
            }
        }
        found.extend(
            self.counters
                .iter()
                .filter(|(key, _)| !current(key) || !self.sums.contains_key(key))
                .map(|(key, counter)| format!("{key:?} is {counter:?}, and nothing is counted by it")),
        );
        found
    }
}

/// What a reservation has under each counter.
fn counts(hold: &Hold) -> Vec<(CounterKey, LimitCounter)> {
    let mut all: BTreeMap<&CounterKey, LimitCounter> = BTreeMap::new();
    for count in hold.lines.iter().flat_map(|line| &line.details().counted) {
        let units = u64::from(count.units);
        let counter = all.entry(&count.key).or_default();
        match hold.status {
            Status::Active => counter.held += units,
            Status::Confirmed => counter.sold += units,
            Status::Cancelled | Status::Expired => {}
        }
    }
    all.into_iter().map(|(key, counter)| (key.clone(), counter)).collect()
}
