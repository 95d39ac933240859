//! The part of the state that one batch has loaded, as the rules see it.
//!
//! It distinguishes what was not loaded from what does not exist. It keeps the loaded value of each entry beside the current one, so
//! that only the difference is written. It never reads from the database: a resource that was not loaded is [`NotLoaded`].

use super::deadline_window::DeadlineWindow;
use super::limit_state::LimitState;
use super::unit_item_state::{Shortfall, UnitItemState};
use crate::engine::dialect::{Deadline, LockSet, Release, Rows};
use crate::engine::unit_counters::set_counters;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stockhold_domain::{
    CounterKey, Envelope, Event, Hold, HoldChange, Instant, Item, ItemKey, KeyHash, KeyRecord, Label,
    LimitCounter, LimitSet, Lookup, Mode, NotLoaded, Pool, PooledUnit, Pools, Record, RecordKey,
    ReservationId, Resource, Scope, State, Status, StockChange, StockCounters, Transition, Unit, UnitIndex,
    UnitMove, UnitStatus, moved,
};

/// See the documentation of the module.
#[derive(Debug, Default)]
pub(crate) struct LoadedState {
    pub(crate) items: BTreeMap<ItemKey, LoadedEntry<Item>>,
    pub(crate) holds: BTreeMap<ReservationId, LoadedEntry<Hold>>,
    pub(crate) keys: BTreeMap<KeyHash, LoadedEntry<KeyRecord>>,
    pub(crate) records: BTreeMap<RecordKey, LoadedEntry<Record>>,
    /// Pauses by location. The empty location stands for everything.
    pub(crate) pauses: BTreeMap<String, LoadedEntry<bool>>,
    pub(crate) due: BTreeMap<ItemKey, DeadlineWindow>,
    pub(crate) any_due: Option<DeadlineWindow>,
    /// The earliest releases of pools of all items.
    pub(crate) any_release: Option<DeadlineWindow<ItemKey>>,
    /// Limits and what they count.
    pub(crate) limits: LimitState,
    pub(crate) unit_items: BTreeMap<ItemKey, UnitItemState>,
    /// Items whose units have ids and whose counters were not requested: such an item is incomplete and not usable.
    pub(crate) without_counters: BTreeSet<ItemKey>,
    /// Items with units that have ids, whose own rows have to be written as well.
    pub(crate) rewritten: BTreeSet<ItemKey>,
    /// Items that were deleted by this batch, even if it created them again.
    pub(super) deleted: BTreeSet<ItemKey>,
    /// A contradiction between an event and the state. Nothing may be committed after it.
    pub(crate) violated_invariant: Option<&'static str>,
}

/// One entry: its value in the database, and its value after the commands that were decided so far.
#[derive(Debug)]
pub(crate) struct LoadedEntry<T> {
    /// The loaded value. `None` if it did not exist.
    pub(crate) before: Option<T>,
    /// The current value, if it was changed.
    pub(crate) after: Option<T>,
    /// Whether it is not there any more.
    pub(crate) is_deleted: bool,
}

impl<T> LoadedEntry<T> {
    /// An entry that was not changed.
    pub(crate) fn loaded(before: Option<T>) -> Self {
        Self { before, after: None, is_deleted: false }
    }

    pub(super) fn now(&self) -> Option<&T> {
        self.after.as_ref().or(self.before.as_ref().filter(|_| !self.is_deleted))
    }

    fn delete(&mut self) {
        (self.after, self.is_deleted) = (None, true);
    }
}

impl LoadedState {
    /// The state of a lock set after `rows` were read: what is not among the rows does not exist.
    pub(crate) fn of(lock_set: &LockSet, rows: Rows) -> Self {
        Self::with_seat_maps(lock_set, rows, &BTreeMap::new())
    }

    /// As [`Self::of`], with seat maps that an earlier attempt has read.
    pub(crate) fn with_seat_maps(
        lock_set: &LockSet,
        rows: Rows,
        maps: &BTreeMap<ItemKey, Arc<[Unit]>>,
    ) -> Self {
        let Rows {
            paused, mut items, holds, keys, mut due, any_due, any_release, mut units, records, ..
        } = rows;
        let limits = LimitState::new(lock_set, rows.limits, rows.counters, rows.counted_due);
        let mut state = Self { limits, ..Self::default() };
        for item in &mut items {
            match units.get(&item.key) {
                Some(rows) => set_counters(item, rows),
                None if item.mode == Mode::Units => {
                    state.without_counters.insert(item.key.clone());
                }
                None => {}
            }
        }
        items.retain(|item| !state.without_counters.contains(&item.key));
        state.add(lock_set, items, holds, keys);
        for key in &state.without_counters {
            state.items.remove(key);
        }
        for (key, wanted) in &lock_set.units {
            let map = maps.get(key);
            state
                .unit_items
                .insert(key.clone(), UnitItemState::new(wanted, units.remove(key).unwrap_or_default(), map));
        }
        let absent = lock_set.records.iter().map(|key| (key.clone(), LoadedEntry::loaded(None)));
        state.records.extend(absent);
        let there = records.into_iter().map(|record| (record.key.clone(), LoadedEntry::loaded(Some(record))));
        state.records.extend(there);
        let pause =
            |location: &String| (location.clone(), LoadedEntry::loaded(Some(paused.contains(location))));
        state.pauses.extend(lock_set.pauses.iter().map(pause));
        for (key, depth) in &lock_set.due {
            state.due.insert(key.clone(), DeadlineWindow::new(due.remove(key).unwrap_or_default(), *depth));
        }
        state.any_due = lock_set.any_due.map(|depth| DeadlineWindow::new(any_due, depth));
        state.any_release = lock_set.any_release.map(|depth| state.releases(any_release, depth));
        state
    }

    /// A window over releases of pools. A release that its loaded item does not have is left out: nothing would ever end it. Where units
    /// have ids, the time of the row may be earlier than that of the item.
    fn releases(&self, found: BTreeSet<Release>, depth: usize) -> DeadlineWindow<ItemKey> {
        let mut window = DeadlineWindow::new(found, depth);
        window.retain(|(at, key)| {
            let item = self.items.get(key).map(LoadedEntry::now);
            item.is_none_or(|item| item.and_then(|item| item.pools.release_due_at()) == Some(*at))
        });
        let of_units =
            self.items.values().filter_map(LoadedEntry::now).filter(|item| item.mode == Mode::Units);
        for item in of_units {
            if let Some(due) = item.pools.release_due_at() {
                window.replace(None, Some((due, item.key.clone())));
            }
        }
        window
    }

    fn add(&mut self, lock_set: &LockSet, items: Vec<Item>, holds: Vec<Hold>, keys: Vec<KeyRecord>) {
        self.items.extend(lock_set.all_items().map(|key| (key.clone(), LoadedEntry::loaded(None))));
        self.items.extend(items.into_iter().map(|item| (item.key.clone(), LoadedEntry::loaded(Some(item)))));
        self.holds.extend(lock_set.holds.iter().map(|id| (*id, LoadedEntry::loaded(None))));
        self.holds.extend(holds.into_iter().map(|hold| (hold.id, LoadedEntry::loaded(Some(hold)))));
        self.keys.extend(lock_set.keys.iter().map(|hash| (*hash, LoadedEntry::loaded(None))));
        self.keys.extend(keys.into_iter().map(|record| (record.hash, LoadedEntry::loaded(Some(record)))));
    }

    /// Whether the resource was loaded, even if it does not exist.
    pub(crate) fn has(&self, name: &Resource) -> bool {
        match name {
            Resource::Pause(location) => self.pauses.contains_key(&Self::pause_key(location.as_ref())),
            Resource::Item(key) => self.items.contains_key(key),
            Resource::Hold(id) => self.holds.contains_key(id),
            Resource::Due(key) => self.due.contains_key(key),
            Resource::AnyDue => self.any_due.is_some(),
            Resource::AnyRelease => self.any_release.is_some(),
            Resource::Limits => self.limits.set().is_ok(),
            Resource::Counter(key) => self.limits.counter(key).is_ok(),
            Resource::CountedDue(key) => self.limits.deadlines(key).is_some(),
            Resource::Key(hash) => self.keys.contains_key(hash),
            Resource::Record(key) => self.records.contains_key(key),
            Resource::Unit(key, id) => {
                self.unit_items.get(key).is_some_and(|unit_item| unit_item.unit(id).is_ok())
            }
            Resource::FreeUnits(key, pool, _) => {
                self.unit_items.get(key).is_some_and(|unit_item| unit_item.free_requested.contains_key(pool))
            }
            Resource::LastUnit(key) => {
                self.unit_items.get(key).is_some_and(|unit_item| unit_item.last_position().is_ok())
            }
            Resource::SeatMap(key) => {
                self.unit_items.get(key).is_some_and(|unit_item| unit_item.unit_index.is_some())
            }
        }
    }

    /// Assumes that a key that was not loaded is unused. If it was used, the database's unique key refuses the batch.
    pub(crate) fn assume_key_is_unused(&mut self, envelope: &Envelope) {
        if let Some(key) = envelope.key {
            self.keys.entry(key.hash).or_insert_with(|| LoadedEntry::loaded(None));
        }
    }

    fn move_deadline(&mut self, before: Option<Deadline>, hold: &Hold) {
        let after = (hold.status == Status::Active).then_some((hold.expires_at, hold.id));
        for line in &*hold.lines {
            if let Some(window) = self.due.get_mut(&line.item) {
                window.replace(before, after.filter(|_| line.quantity > 0));
            }
        }
        if let Some(window) = &mut self.any_due {
            window.replace(before, after);
        }
    }

    /// Applies a transition to the units of a reservation.
    fn move_units(&mut self, change: &HoldChange, hold: &Hold, at: Instant) {
        for (number, line) in hold.lines.iter().enumerate().filter(|(_, line)| line.units.is_some()) {
            let unit_item = self.unit_items.entry(line.item.clone()).or_default();
            let mut there = true;
            let mut any = change.status_after() == Status::Active;
            for UnitMove { unit, after, .. } in moved(change, hold, line, number) {
                any = true;
                there &= unit_item.set(&unit.id, after, unit.version, unit.pool.as_ref(), at);
            }
            if any {
                unit_item.touch(&change.effect(hold, line, number), at);
            }
            if !there {
                self.violated_invariant = Some("a reservation has a unit that is not there");
            }
        }
    }

    /// A state that knows only that the units of these items have ids, their pools as they were seen last, and the limits.
    pub(crate) fn for_planning<'a>(
        unit_items: impl Iterator<Item = (&'a ItemKey, &'a Pools)>,
        limits: Option<Arc<LimitSet>>,
    ) -> Self {
        let at = Instant::from_micros(0);
        let nothing = StockCounters::none(at);
        let item = |key: &ItemKey, pools: &Pools| Item {
            key: key.clone(),
            mode: Mode::Units,
            figures: nothing,
            settings: Arc::default(),
            pools: pools.clone(),
            version: 1,
            paused: false,
            created_at: at,
        };
        let entry =
            |(key, pools): (&ItemKey, &Pools)| (key.clone(), LoadedEntry::loaded(Some(item(key, pools))));
        Self { items: unit_items.map(entry).collect(), limits: LimitState::of(limits), ..Self::default() }
    }

    /// The number of free units of a pool or of general stock by the counters of an item, whether or not others have locked them.
    fn free_there(&self, item: &ItemKey, pool: Option<&Label>) -> Result<u64, NotLoaded> {
        let item = self.item(item)?;
        Ok(item.map_or(0, |item| match pool {
            Some(pool) => item.pools.get(pool).map_or(0, Pool::free),
            None => {
                let taken = item.figures.committed().saturating_add(item.pools.set_aside());
                item.figures.total_units.saturating_sub(taken)
            }
        }))
    }

    /// Why the state can't name `most` free units of a pool or of general stock. `None` if these were not requested.
    pub(crate) fn shortage(&self, item: &ItemKey, pool: Option<&Label>, most: u32) -> Option<Shortfall> {
        let unit_item =
            self.unit_items.get(item).filter(|of| of.free_requested.contains_key(&pool.cloned()))?;
        let there = self.free_there(item, pool).ok()?;
        unit_item.first_free(pool, usize::try_from(most).unwrap_or(usize::MAX), there).err()
    }

    /// Items whose seat map is out of date.
    pub(crate) fn stale_seat_maps(&self) -> impl Iterator<Item = &ItemKey> {
        self.unit_items.iter().filter(|(_, unit_item)| unit_item.is_stale).map(|(key, _)| key)
    }

    /// Units changed by this batch that still have to be locked before it commits.
    pub(crate) fn units_to_lock(&self) -> impl Iterator<Item = (&ItemKey, &Label)> {
        self.unit_items.iter().flat_map(|(key, unit_item)| unit_item.to_lock.iter().map(move |id| (key, id)))
    }

    fn set_pause(&mut self, location: Option<&Label>, paused: bool) {
        let entry = self.pauses.entry(Self::pause_key(location)).or_insert_with(|| LoadedEntry::loaded(None));
        entry.after = Some(paused);
    }

    /// The key of a pause.
    pub(crate) fn pause_key(location: Option<&Label>) -> String {
        location.map_or_else(String::new, |location| location.as_str().to_owned())
    }
}

/// Notes the pools of an item from which a change of a reservation has drawn units.
fn note_draws(unit_item: &mut UnitItemState, before: &Pools, after: &Pools) {
    for pool in after.all() {
        if before.get(&pool.name).is_some_and(|known| known.used_at < pool.used_at) {
            unit_item.draw(&pool.name, pool.used_at);
        }
    }
}

/// Moves the earliest release of an item's pools, if releases were loaded.
fn move_release(
    window: &mut Option<DeadlineWindow<ItemKey>>,
    key: &ItemKey,
    before: Option<&Pools>,
    after: Option<&Pools>,
) {
    let Some(window) = window else { return };
    let release = |pools: &Pools| Some((pools.release_due_at()?, key.clone()));
    window.replace(before.and_then(release), after.and_then(release));
}

impl State for LoadedState {
    fn item(&self, key: &ItemKey) -> Lookup<'_, Item> {
        self.items.get(key).map(LoadedEntry::now).ok_or_else(|| NotLoaded(Resource::Item(key.clone())))
    }

    fn hold(&self, id: ReservationId) -> Lookup<'_, Hold> {
        self.holds.get(&id).map(LoadedEntry::now).ok_or(NotLoaded(Resource::Hold(id)))
    }

    fn key(&self, hash: KeyHash) -> Lookup<'_, KeyRecord> {
        self.keys.get(&hash).map(LoadedEntry::now).ok_or(NotLoaded(Resource::Key(hash)))
    }

    fn paused(&self, location: Option<&str>) -> Result<bool, NotLoaded> {
        match self.pauses.get(location.unwrap_or_default()) {
            Some(entry) => Ok(entry.now().copied().unwrap_or(false)),
            None => Err(NotLoaded(Resource::Pause(location.and_then(|location| Label::new(location).ok())))),
        }
    }

    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<Deadline>, NotLoaded> {
        let (window, name) = match item {
            Some(key) => (self.due.get(key), Resource::Due(key.clone())),
            None => (self.any_due.as_ref(), Resource::AnyDue),
        };
        window.and_then(|window| window.earliest().ok()).ok_or(NotLoaded(name))
    }

    fn earliest_release(&self) -> Result<Option<Release>, NotLoaded> {
        let window = self.any_release.as_ref().and_then(|window| window.earliest().ok());
        window.ok_or(NotLoaded(Resource::AnyRelease))
    }

    fn limits(&self) -> Result<&LimitSet, NotLoaded> {
        self.limits.set()
    }

    fn counter(&self, key: &CounterKey) -> Result<LimitCounter, NotLoaded> {
        self.limits.counter(key)
    }

    fn earliest_counted(&self, key: &CounterKey) -> Result<Option<Deadline>, NotLoaded> {
        self.limits.earliest(key)
    }

    fn record(&self, key: &RecordKey) -> Lookup<'_, Record> {
        self.records.get(key).map(LoadedEntry::now).ok_or_else(|| NotLoaded(Resource::Record(key.clone())))
    }

    fn unit_index(&self, item: &ItemKey) -> Lookup<'_, UnitIndex> {
        let unit_index = self.unit_items.get(item).and_then(|unit_item| unit_item.unit_index.as_ref());
        unit_index.map(Some).ok_or_else(|| NotLoaded(Resource::SeatMap(item.clone())))
    }

    fn unit(&self, item: &ItemKey, id: &Label) -> Lookup<'_, Unit> {
        let unit = self.unit_items.get(item).map(|unit_item| unit_item.unit(id));
        unit.and_then(Result::ok).ok_or_else(|| NotLoaded(Resource::Unit(item.clone(), id.clone())))
    }

    fn last_position(&self, item: &ItemKey) -> Result<u64, NotLoaded> {
        let Some(unit_item) = self.unit_items.get(item) else {
            return Err(NotLoaded(Resource::LastUnit(item.clone())));
        };
        // The last position was loaded and has changed since: only all units together tell the new one.
        unit_item.last_position().map_err(|()| {
            let free_requested = unit_item.asked_last;
            NotLoaded(if free_requested {
                Resource::SeatMap(item.clone())
            } else {
                Resource::LastUnit(item.clone())
            })
        })
    }

    fn free_units(&self, item: &ItemKey, pool: Option<&Label>, most: u32) -> Result<Vec<&Unit>, NotLoaded> {
        let missing = || NotLoaded(Resource::FreeUnits(item.clone(), pool.cloned(), most));
        if most == 0 {
            return Ok(Vec::new());
        }
        let requested = |of: &&UnitItemState| of.free_requested.contains_key(&pool.cloned());
        let unit_item = self.unit_items.get(item).filter(requested).ok_or_else(missing)?;
        let there = self.free_there(item, pool)?;
        unit_item.first_free(pool, usize::try_from(most).unwrap_or(usize::MAX), there).map_err(|_| missing())
    }

    fn apply(&mut self, event: &Event) {
        match &event.transition {
            Transition::Hold { change, hold, figures, limits } => {
                self.limits.move_counters(limits.as_deref());
                for (number, (line, figures)) in hold.lines.iter().zip(figures).enumerate() {
                    if let Some(entry) = self.items.get_mut(&line.item)
                        && let Some(item) = entry.now().cloned()
                    {
                        let mut item = Item { figures: *figures, ..item };
                        if let Some(pools) = limits.as_ref().and_then(|effects| effects.pools_of(number)) {
                            move_release(&mut self.any_release, &item.key, Some(&item.pools), Some(pools));
                            if item.mode == Mode::Units {
                                let unit_item = self.unit_items.entry(item.key.clone()).or_default();
                                note_draws(unit_item, &item.pools, pools);
                            }
                            item.pools = pools.clone();
                        }
                        entry.after = Some(item);
                    }
                }
                let entry = self.holds.entry(hold.id).or_insert_with(|| LoadedEntry::loaded(None));
                let before = entry.now().filter(|hold| hold.status == Status::Active);
                let before = before.map(|hold| (hold.expires_at, hold.id));
                if change.status_before().is_none() && entry.now().is_some() {
                    self.violated_invariant = Some("a fresh reservation id is in use");
                }
                let after = hold.without_removed_lines();
                self.limits.move_deadline(entry.now(), &after);
                entry.after = Some(after);
                self.move_deadline(before, hold);
                self.move_units(change, hold, event.at);
            }
            Transition::Stock { change: StockChange::Deleted, item } => {
                self.deleted.insert(item.key.clone());
                if let Some(unit_item) = self.unit_items.get_mut(&item.key) {
                    unit_item.forget_figures();
                }
                let entry = self.items.entry(item.key.clone()).or_insert_with(|| LoadedEntry::loaded(None));
                move_release(&mut self.any_release, &item.key, entry.now().map(|item| &item.pools), None);
                entry.delete();
            }
            Transition::Stock { change, item } => {
                self.rewritten.insert(item.key.clone());
                match change {
                    StockChange::UnitsAdded(units) => {
                        self.unit_items.entry(item.key.clone()).or_default().add(units, event.at);
                    }
                    StockChange::UnitsRetired(ids) => {
                        let unit_item = self.unit_items.entry(item.key.clone()).or_default();
                        ids.iter().for_each(|id| unit_item.retire(id, event.at));
                    }
                    StockChange::UnitsPooled { pool, units } => {
                        let unit_item = self.unit_items.entry(item.key.clone()).or_default();
                        for PooledUnit { id, version } in &**units {
                            let to = UnitStatus::Available;
                            if !unit_item.set(id, to, *version, pool.as_ref(), event.at) {
                                self.violated_invariant = Some("a unit of a pool is not there");
                            }
                        }
                    }
                    StockChange::Set
                    | StockChange::Adjusted { .. }
                    | StockChange::Deleted
                    | StockChange::PoolSet { .. }
                    | StockChange::PoolDeleted { .. }
                    | StockChange::PoolReleased { .. } => {}
                }
                let entry = self.items.entry(item.key.clone()).or_insert_with(|| LoadedEntry::loaded(None));
                let before = entry.now().map(|item| &item.pools);
                move_release(&mut self.any_release, &item.key, before, Some(&item.pools));
                entry.after = Some(item.clone());
            }
            Transition::Sale { scope, paused, .. } => match scope {
                Scope::Everything => self.set_pause(None, *paused),
                Scope::Location(location) => self.set_pause(Some(location), *paused),
                Scope::Item(key) => {
                    self.rewritten.insert(key.clone());
                    if let Some(entry) = self.items.get_mut(key)
                        && let Some(item) = entry.now().cloned()
                    {
                        entry.after = Some(Item { paused: *paused, ..item });
                    }
                }
            },
            Transition::Limit { limit } => self.limits.put(limit),
            Transition::Record { record, .. } => {
                let entry =
                    self.records.entry(record.key.clone()).or_insert_with(|| LoadedEntry::loaded(None));
                entry.after = Some(record.clone());
            }
        }
    }

    fn remember(&mut self, key: &KeyRecord) {
        let entry = self.keys.entry(key.hash).or_insert_with(|| LoadedEntry::loaded(None));
        entry.after = Some(key.clone());
    }
}
