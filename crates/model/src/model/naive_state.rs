//! The simplest [`State`]: everything is in sorted maps, and the earliest deadline is found by a scan. It is for tests
//! and for folding events. It contains no rule and need not be fast.

use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    CounterKey, Event, Hold, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, LimitCounter, LimitCounters,
    LimitSet, Lookup, NotLoaded, Record, RecordKey, ReservationId, Scope, State, Status, StockChange,
    Transition, UnitIndex,
};

/// The whole state in memory, so that nothing is ever [`NotLoaded`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NaiveState {
    /// Items.
    pub items: BTreeMap<ItemKey, Item>,
    /// Reservations, including closed ones.
    pub holds: BTreeMap<ReservationId, Hold>,
    /// Keys that were used.
    pub keys: BTreeMap<KeyHash, KeyRecord>,
    /// Locations whose sale is paused; `None` for everything.
    pub paused: BTreeSet<Option<Label>>,
    /// Units of the items whose units have ids.
    pub unit_indexes: BTreeMap<ItemKey, UnitIndex>,
    /// Records, deleted ones included.
    pub records: BTreeMap<RecordKey, Record>,
    /// Limits, deleted ones included.
    pub limits: LimitSet,
    /// What limits count.
    pub counters: LimitCounters,
}

impl NaiveState {
    /// The fold of events and keys, starting with an empty state.
    pub fn fold<'a>(
        events: impl IntoIterator<Item = &'a Event>,
        keys: impl IntoIterator<Item = &'a KeyRecord>,
    ) -> Self {
        let mut state = Self::default();
        for event in events {
            state.apply(event);
        }
        for key in keys {
            state.remember(key);
        }
        state
    }
}

impl State for NaiveState {
    fn item(&self, key: &ItemKey) -> Lookup<'_, Item> {
        Ok(self.items.get(key))
    }

    fn hold(&self, id: ReservationId) -> Lookup<'_, Hold> {
        Ok(self.holds.get(&id))
    }

    fn key(&self, hash: KeyHash) -> Lookup<'_, KeyRecord> {
        Ok(self.keys.get(&hash))
    }

    fn paused(&self, location: Option<&str>) -> Result<bool, NotLoaded> {
        Ok(self.paused.iter().any(|scope| scope.as_ref().map(Label::as_str) == location))
    }

    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<(Instant, ReservationId)>, NotLoaded> {
        Ok(self
            .holds
            .values()
            .filter(|hold| hold.status == Status::Active)
            .filter(|hold| item.is_none_or(|key| hold.lines.iter().any(|line| line.item == *key)))
            .map(|hold| (hold.expires_at, hold.id))
            .min())
    }

    fn earliest_release(&self) -> Result<Option<(Instant, ItemKey)>, NotLoaded> {
        let due = |item: &Item| Some((item.pools.release_due_at()?, item.key.clone()));
        Ok(self.items.values().filter_map(due).min())
    }

    fn limits(&self) -> Result<&LimitSet, NotLoaded> {
        Ok(&self.limits)
    }

    fn counter(&self, key: &CounterKey) -> Result<LimitCounter, NotLoaded> {
        Ok(self.counters.get(key))
    }

    fn earliest_counted(&self, key: &CounterKey) -> Result<Option<(Instant, ReservationId)>, NotLoaded> {
        let counts = |hold: &&Hold| {
            hold.lines.iter().flat_map(|line| &line.details().counted).any(|count| count.key == *key)
        };
        let active = self.holds.values().filter(|hold| hold.status == Status::Active).filter(counts);
        Ok(active.map(|hold| (hold.expires_at, hold.id)).min())
    }

    fn record(&self, key: &RecordKey) -> Lookup<'_, Record> {
        Ok(self.records.get(key))
    }

    fn unit_index(&self, item: &ItemKey) -> Lookup<'_, UnitIndex> {
        Ok(self.unit_indexes.get(item))
    }

    fn apply(&mut self, event: &Event) {
        match &event.transition {
            Transition::Limit { limit } => {
                self.counters.on_change(limit);
                self.limits.put(limit.clone());
            }
            Transition::Hold { change, hold, figures, limits } => {
                for (key, counter) in limits.iter().flat_map(|limits| &*limits.counters) {
                    self.counters.put(key.clone(), *counter);
                }
                for (number, (line, figures)) in hold.lines.iter().zip(figures).enumerate() {
                    if let Some(unit_index) = self.unit_indexes.get_mut(&line.item) {
                        unit_index.apply(change, hold, line, number);
                    }
                    if let Some(item) = self.items.get_mut(&line.item) {
                        item.figures = *figures;
                        if let Some(pools) = limits.as_ref().and_then(|effects| effects.pools_of(number)) {
                            item.pools = pools.clone();
                        }
                    }
                }
                self.holds.insert(hold.id, hold.without_removed_lines());
            }
            Transition::Stock { change: StockChange::Deleted, item } => {
                self.items.remove(&item.key);
                self.unit_indexes.remove(&item.key);
            }
            Transition::Stock { change, item } => {
                self.items.insert(item.key.clone(), item.clone());
                match change {
                    StockChange::UnitsAdded(units) => {
                        self.unit_indexes.entry(item.key.clone()).or_default().add(units.to_vec());
                    }
                    StockChange::UnitsRetired(units) => {
                        if let Some(unit_index) = self.unit_indexes.get_mut(&item.key) {
                            units.iter().for_each(|unit| unit_index.retire(unit));
                        }
                    }
                    StockChange::UnitsPooled { pool, units } => {
                        if let Some(unit_index) = self.unit_indexes.get_mut(&item.key) {
                            unit_index.set_pool(units, pool.as_ref());
                        }
                    }
                    StockChange::Set
                    | StockChange::Adjusted { .. }
                    | StockChange::Deleted
                    | StockChange::PoolSet { .. }
                    | StockChange::PoolDeleted { .. }
                    | StockChange::PoolReleased { .. } => {}
                }
            }
            Transition::Sale { scope: Scope::Item(key), paused, .. } => {
                if let Some(item) = self.items.get_mut(key) {
                    item.paused = *paused;
                }
            }
            Transition::Sale { scope, paused, .. } => {
                let location = match scope {
                    Scope::Location(location) => Some(location.clone()),
                    Scope::Everything | Scope::Item(_) => None,
                };
                if *paused {
                    self.paused.insert(location);
                } else {
                    self.paused.remove(&location);
                }
            }
            Transition::Record { record, .. } => {
                self.records.insert(record.key.clone(), record.clone());
            }
        }
    }

    fn remember(&mut self, key: &KeyRecord) {
        self.keys.insert(key.hash, key.clone());
    }
}
