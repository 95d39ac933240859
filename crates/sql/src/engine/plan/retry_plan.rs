//! What the earlier attempts of a batch found missing. The next attempt locks and loads it as well.

use crate::engine::db_error::DbError;
use crate::engine::options::{BATCH_COMMANDS, BATCH_LINES};
use crate::engine::state::{LoadedState, Shortfall};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use stockhold_domain::{
    CounterKey, Instant, ItemKey, Label, LimitSet, NotLoaded, Pools, Resource, State, Unit, limits,
};

/// The number of deadlines of an item that are loaded at first: enough to tell a refused caller when to retry.
pub(super) const SHALLOW: usize = 1;
/// Maximum number of reservations of an item that a batch expires.
pub(super) const EXPIRIES: usize = limits::EXPIRIES_PER_BATCH as usize;
/// The number of deadlines that are loaded if the first was not enough. A batch can't need more: each deadline is removed by an
/// expiry or by a command.
pub(super) const DEEP: usize = EXPIRIES + BATCH_COMMANDS + 1;
/// The number of releases of pools that are loaded for a sweep. A batch can't need more: each of them is removed by a release or by
/// a line of a command.
pub(super) const RELEASES: usize = EXPIRIES + BATCH_LINES + 1;
/// Reservations are loaded that fall due within this time after the last attempt: several times the duration of an attempt.
/// Doubled each time it was too short.
const LOOK_AHEAD_MICROS: i64 = 250_000;
/// Maximum number of doublings, which makes about one minute.
const LONGEST_LOOK: u32 = 8;
/// How often free units that others have locked are skipped before the batch waits for them by their ids.
const SKIPS_OF_LOCKED_UNITS: u32 = 2;
/// How often the best available units are planned again because another transaction took one of them first. After that, all free
/// units are locked by their ids before the plan is made.
const RACES: u32 = 3;
/// A number that asks for all free units of an item.
pub(super) const ALL: usize = 1_000_001;
const _: () = assert!(ALL as u64 > limits::ITEM_UNITS);
/// See the documentation of the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetryPlan {
    pub(super) names: BTreeSet<Resource>,
    /// Items whose earliest deadline is needed.
    pub(super) shallow: BTreeSet<ItemKey>,
    /// Items of which reservations may have to be expired, with the maximum number of them.
    pub(super) deep: BTreeMap<ItemKey, usize>,
    /// Counters of limits that were reached, with the number of the earliest deadlines that are loaded of what they count.
    pub(super) counted_due: BTreeMap<CounterKey, usize>,
    /// Counters of limits that were reached recently: their earliest deadline will be needed.
    pub(super) reached: Arc<HashSet<CounterKey>>,
    /// The limits as this instance last read them.
    pub(super) limits: Option<Arc<LimitSet>>,
    /// The clock of the last attempt.
    pub(super) now: Option<Instant>,
    /// How often more reservations had fallen due than were loaded.
    pub(super) surprises: u32,
    /// Items whose units have ids, with their pools as they were seen last.
    pub(super) unit_items: BTreeMap<ItemKey, Pools>,
    /// Items of `unit_items` whose own rows have to be locked.
    pub(super) items_to_lock: BTreeSet<ItemKey>,
    /// The minimum number of free units to lock of a pool of an item, or of its general stock.
    pub(super) free: BTreeMap<(ItemKey, Option<Label>), usize>,
    /// How many of the first free units are locked by their ids, so that the batch waits for other holders of their locks.
    pub(super) awaited: BTreeMap<(ItemKey, Option<Label>), usize>,
    /// How often free units that others have locked were skipped.
    pub(super) skipped: u32,
    /// Seat maps that the best available units were planned from.
    pub(crate) maps: BTreeMap<ItemKey, Arc<[Unit]>>,
    /// The units that were planned from a seat map and are to be locked now.
    pub(super) planned: BTreeSet<(ItemKey, Label)>,
    /// How often another transaction took a planned unit first.
    pub(super) races: u32,
}

impl RetryPlan {
    /// Adds items that recently had too little stock: their earliest deadline will be needed.
    pub(crate) fn expect(&mut self, short: impl Iterator<Item = ItemKey>) {
        self.shallow.extend(short);
    }

    /// Adds items whose units are known to have ids, with their pools as they were seen last.
    pub(crate) fn expect_unit_items(&mut self, unit_items: impl Iterator<Item = (ItemKey, Pools)>) {
        self.unit_items.extend(unit_items);
    }

    /// Remembers the pools of the items whose units have ids.
    pub(crate) fn learn_pools(&mut self, state: &LoadedState) {
        for (key, pools) in &mut self.unit_items {
            if let Ok(Some(item)) = state.item(key) {
                pools.clone_from(&item.pools);
            }
        }
    }

    /// Adds counters of limits that were reached recently.
    pub(crate) fn expect_reached(&mut self, counters: Arc<HashSet<CounterKey>>) {
        self.reached = counters;
    }

    /// Counters of limits that were reached by this batch.
    pub(crate) fn reached(&self) -> impl Iterator<Item = &CounterKey> {
        self.counted_due.keys()
    }

    /// Items whose units have ids, with their pools as they were seen last.
    pub(crate) fn unit_items(&self) -> impl Iterator<Item = (&ItemKey, &Pools)> {
        self.unit_items.iter()
    }

    /// Has the rows of items locked that would otherwise only be read. Returns whether any was new.
    pub(crate) fn lock_item_rows(&mut self, items: impl Iterator<Item = ItemKey>) -> bool {
        let before = self.items_to_lock.len();
        self.items_to_lock.extend(items);
        self.items_to_lock.len() > before
    }

    /// Has the deadlines of items with too little stock loaded, and their due reservations. The rules would ask for one item at a
    /// time; this asks for all at once. Returns whether any was new.
    pub(crate) fn expect_expiries(
        &mut self,
        short: Vec<(&ItemKey, u64)>,
        state: &LoadedState,
        now: Instant,
    ) -> bool {
        let mut new = false;
        for (key, units) in short {
            new |= match state.due.get(key) {
                None => self.shallow.insert(key.clone()),
                // Each due reservation returns at least one unit.
                Some(window) if window.is_due(now) && !self.deep.contains_key(key) => {
                    self.load_more_deadlines(key, usize::try_from(units).unwrap_or(EXPIRIES).min(EXPIRIES))
                }
                Some(_) => false,
            };
        }
        new
    }

    /// Has at most `holds` due reservations of an item loaded. Returns whether those are more than before.
    fn load_more_deadlines(&mut self, key: &ItemKey, holds: usize) -> bool {
        let most = self.deep.entry(key.clone()).or_default();
        let more = *most < holds;
        *most = holds.max(*most);
        more
    }

    /// Counters of which reservations may have to be expired.
    pub(super) fn deep_counters(&self) -> impl Iterator<Item = (CounterKey, usize)> {
        self.counted_due.iter().filter(|(_, depth)| **depth >= DEEP).map(|(key, depth)| (key.clone(), *depth))
    }

    /// Has more deadlines of a counter loaded. Returns whether those are more than before.
    fn load_more_counted(&mut self, key: &CounterKey, depth: usize) -> bool {
        let loaded = self.counted_due.entry(key.clone()).or_default();
        let more = *loaded < depth;
        *loaded = depth.max(*loaded);
        more
    }

    /// Has the units locked that were planned from seat maps. The next attempt decides again. Returns whether there are any.
    pub(crate) fn lock_planned_units(&mut self, state: &LoadedState) -> bool {
        let mut any = false;
        for (key, id) in state.units_to_lock() {
            any = true;
            self.planned.insert((key.clone(), id.clone()));
            if let Some(map) = state.unit_items.get(key).and_then(|unit_item| unit_item.map.as_ref()) {
                self.maps.insert(key.clone(), Arc::clone(map));
            }
        }
        any
    }

    /// Drops seat maps that are out of date, and the units that were planned from them. Returns whether there are any.
    pub(crate) fn drop_stale_seat_maps(&mut self, state: &LoadedState) -> bool {
        let outdated: Vec<ItemKey> =
            state.stale_seat_maps().filter(|key| self.maps.contains_key(key)).cloned().collect();
        if outdated.is_empty() {
            return false;
        }
        self.races += 1;
        for key in outdated {
            self.maps.remove(&key);
            self.planned.retain(|(of, _)| *of != key);
            if self.races >= RACES {
                let item = state.item(&key).ok().flatten();
                let pools = item.map(|item| item.pools.clone()).unwrap_or_default();
                let pools = pools.all().iter().map(|pool| Some(pool.name.clone()));
                for pool in core::iter::once(None).chain(pools) {
                    self.free.insert((key.clone(), pool.clone()), ALL);
                    self.awaited.insert((key.clone(), pool), ALL);
                }
            }
        }
        true
    }

    /// Adds a resource that the rules found missing. An error if it was loaded: the batch would be retried without end.
    pub(crate) fn learn(
        &mut self,
        missing: &NotLoaded,
        state: &LoadedState,
        now: Instant,
    ) -> Result<(), DbError> {
        self.now = Some(now);
        let mut new = match &missing.0 {
            Resource::Due(key) => {
                let seen = state.due.contains_key(key);
                if seen { self.load_more_deadlines(key, EXPIRIES) } else { self.shallow.insert(key.clone()) }
            }
            Resource::CountedDue(key) => {
                let seen = state.limits.deadlines(key).is_some();
                self.load_more_counted(key, if seen { DEEP } else { SHALLOW })
            }
            Resource::FreeUnits(key, pool, most) => {
                self.request_free_units(key, pool.as_ref(), *most, state);
                true
            }
            name => self.names.insert(name.clone()),
        };
        if let Resource::Hold(id) = missing.0 {
            self.surprises += 1;
            for (key, window) in &state.due {
                new |= window.shows(&id) && self.load_more_deadlines(key, EXPIRIES);
            }
            for key in state.limits.counters_showing(id) {
                new |= self.load_more_counted(key, DEEP);
            }
        }
        if new {
            Ok(())
        } else {
            Err(DbError::InvariantViolated(format!("loaded, and still missing: {:?}", missing.0)))
        }
    }

    fn request_free_units(&mut self, key: &ItemKey, pool: Option<&Label>, most: u32, state: &LoadedState) {
        let most = usize::try_from(most).unwrap_or(ALL);
        let requested =
            state.unit_items.get(key).and_then(|unit_item| unit_item.free_requested.get(&pool.cloned()));
        let planned = requested.copied().unwrap_or(0);
        let of = (key.clone(), pool.cloned());
        match state.shortage(key, pool, u32::try_from(most).unwrap_or(u32::MAX)) {
            Some(Shortfall::LockedByOthers) => {
                self.skipped += 1;
                if self.skipped > SKIPS_OF_LOCKED_UNITS {
                    let awaited = self.awaited.entry(of).or_default();
                    *awaited = (*awaited).max(planned);
                }
            }
            Some(Shortfall::Horizon) | None => {
                let more = planned.saturating_mul(2).saturating_add(most).min(ALL);
                let free = self.free.entry(of).or_default();
                *free = (*free).max(more);
            }
        }
    }

    /// Adds resources that commands turned out to name. Returns whether any was new.
    pub(crate) fn extend(&mut self, names: Vec<Resource>, now: Instant) -> bool {
        self.now = Some(now);
        let before = self.names.len();
        self.names.extend(names);
        self.names.len() > before
    }

    /// Reservations that fall due until this instant are loaded as well: time passes while the batch waits for its locks.
    pub(super) fn soon(&self, now: Instant) -> Instant {
        let ahead = LOOK_AHEAD_MICROS << self.surprises.min(LONGEST_LOOK);
        Instant::from_micros(now.micros().saturating_add(ahead))
    }

    /// Items that had too little stock.
    pub(crate) fn short(&self) -> impl Iterator<Item = &ItemKey> {
        self.shallow.iter().chain(self.deep.keys())
    }
}
