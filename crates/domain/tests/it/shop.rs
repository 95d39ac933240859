//! States for tests: a small one that has everything, and a slice of it that has only what was loaded.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    CounterKey, Event, Hold, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, LimitCounter, LimitCounters,
    LimitSet, Lookup, NotLoaded, Record, RecordKey, ReservationId, Resource, Scope, State, Status,
    StockChange, Transition, Unit, UnitIndex,
};

/// Everything in sorted maps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shop {
    pub(crate) items: BTreeMap<ItemKey, Item>,
    pub(crate) holds: BTreeMap<ReservationId, Hold>,
    pub(crate) keys: BTreeMap<KeyHash, KeyRecord>,
    pub(crate) paused: BTreeSet<Option<Label>>,
    pub(crate) unit_indexes: BTreeMap<ItemKey, UnitIndex>,
    pub(crate) records: BTreeMap<RecordKey, Record>,
    pub(crate) limits: LimitSet,
    pub(crate) counters: LimitCounters,
}

impl State for Shop {
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
        Ok(self.paused.iter().any(|paused| paused.as_ref().map(Label::as_str) == location))
    }

    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<(Instant, ReservationId)>, NotLoaded> {
        let about = |hold: &&Hold| item.is_none_or(|key| hold.lines.iter().any(|line| line.item == *key));
        let active = self.holds.values().filter(|hold| hold.status == Status::Active).filter(about);
        Ok(active.map(|hold| (hold.expires_at, hold.id)).min())
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
        let counted = |hold: &&Hold| {
            hold.lines.iter().flat_map(|line| &line.details().counted).any(|count| count.key == *key)
        };
        let active = self.holds.values().filter(|hold| hold.status == Status::Active).filter(counted);
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
            Transition::Hold { change, hold, figures, limits } => {
                for (key, counter) in limits.iter().flat_map(|limits| &*limits.counters) {
                    self.counters.put(key.clone(), *counter);
                }
                assert_eq!(hold.lines.len(), figures.len(), "figures of every line");
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
                self.items.remove(&item.key).expect("an item that is deleted");
                self.unit_indexes.remove(&item.key);
            }
            Transition::Stock { change, item } => {
                self.items.insert(item.key.clone(), item.clone());
                match change {
                    StockChange::UnitsAdded(units) => {
                        self.unit_indexes.entry(item.key.clone()).or_default().add(units.to_vec());
                    }
                    StockChange::UnitsRetired(units) => {
                        let unit_index =
                            self.unit_indexes.get_mut(&item.key).expect("a unit_index of a unit");
                        units.iter().for_each(|unit| unit_index.retire(unit));
                    }
                    StockChange::UnitsPooled { pool, units } => {
                        let unit_index =
                            self.unit_indexes.get_mut(&item.key).expect("a unit_index of a unit");
                        unit_index.set_pool(units, pool.as_ref());
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
                self.items.get_mut(key).expect("an item that is paused").paused = *paused;
            }
            Transition::Sale { scope, paused, .. } => {
                let location = match scope {
                    Scope::Location(location) => Some(location.clone()),
                    Scope::Everything | Scope::Item(_) => None,
                };
                if *paused {
                    self.paused.insert(location)
                } else {
                    self.paused.remove(&location)
                };
            }
            Transition::Limit { limit } => {
                self.counters.on_change(limit);
                self.limits.put(limit.clone());
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

/// What a store that loads and locks has in its hands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slice {
    pub(crate) shop: Shop,
    pub(crate) loaded: BTreeSet<Resource>,
    /// How often something was planned over all units of an item.
    pub(crate) plans: Cell<u32>,
}

impl Slice {
    fn need(&self, name: Resource) -> Result<(), NotLoaded> {
        if self.loaded.contains(&name) { Ok(()) } else { Err(NotLoaded(name)) }
    }
}

impl State for Slice {
    fn item(&self, key: &ItemKey) -> Lookup<'_, Item> {
        self.need(Resource::Item(key.clone()))?;
        self.shop.item(key)
    }

    fn hold(&self, id: ReservationId) -> Lookup<'_, Hold> {
        // A fresh id is looked up to see that it is fresh: nothing has to be loaded for what can't exist.
        if !self.shop.holds.contains_key(&id) {
            return Ok(None);
        }
        self.need(Resource::Hold(id))?;
        self.shop.hold(id)
    }

    fn key(&self, hash: KeyHash) -> Lookup<'_, KeyRecord> {
        self.need(Resource::Key(hash))?;
        self.shop.key(hash)
    }

    fn paused(&self, location: Option<&str>) -> Result<bool, NotLoaded> {
        self.need(Resource::Pause(location.map(|location| Label::new(location).unwrap())))?;
        State::paused(&self.shop, location)
    }

    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<(Instant, ReservationId)>, NotLoaded> {
        self.need(item.map_or(Resource::AnyDue, |key| Resource::Due(key.clone())))?;
        self.shop.earliest(item)
    }

    fn earliest_release(&self) -> Result<Option<(Instant, ItemKey)>, NotLoaded> {
        self.need(Resource::AnyRelease)?;
        self.shop.earliest_release()
    }

    fn limits(&self) -> Result<&LimitSet, NotLoaded> {
        self.need(Resource::Limits)?;
        self.shop.limits()
    }

    fn counter(&self, key: &CounterKey) -> Result<LimitCounter, NotLoaded> {
        self.need(Resource::Counter(key.clone()))?;
        self.shop.counter(key)
    }

    fn earliest_counted(&self, key: &CounterKey) -> Result<Option<(Instant, ReservationId)>, NotLoaded> {
        self.need(Resource::CountedDue(key.clone()))?;
        self.shop.earliest_counted(key)
    }

    fn record(&self, key: &RecordKey) -> Lookup<'_, Record> {
        self.need(Resource::Record(key.clone()))?;
        self.shop.record(key)
    }

    fn unit_index(&self, item: &ItemKey) -> Lookup<'_, UnitIndex> {
        self.need(Resource::SeatMap(item.clone()))?;
        self.plans.set(self.plans.get() + 1);
        self.shop.unit_index(item)
    }

    fn unit(&self, item: &ItemKey, id: &Label) -> Lookup<'_, Unit> {
        self.need(Resource::Unit(item.clone(), id.clone()))?;
        self.shop.unit(item, id)
    }

    fn free_units(&self, item: &ItemKey, pool: Option<&Label>, most: u32) -> Result<Vec<&Unit>, NotLoaded> {
        let enough = |name: &Resource| {
            matches!(name, Resource::FreeUnits(of, from, count)
                if of == item && from.as_ref() == pool && *count >= most)
        };
        if !self.loaded.iter().any(enough) {
            return Err(NotLoaded(Resource::FreeUnits(item.clone(), pool.cloned(), most)));
        }
        self.shop.free_units(item, pool, most)
    }

    fn last_position(&self, item: &ItemKey) -> Result<u64, NotLoaded> {
        self.need(Resource::LastUnit(item.clone()))?;
        self.shop.last_position(item)
    }

    fn apply(&mut self, event: &Event) {
        if let Transition::Hold { hold, .. } = &event.transition {
            self.loaded.insert(Resource::Hold(hold.id));
        }
        self.shop.apply(event);
    }

    fn remember(&mut self, key: &KeyRecord) {
        self.shop.remember(key);
    }
}
