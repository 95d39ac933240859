//! The part of the state that one batch has loaded, as the rules see it.
//!
//! It distinguishes what was not loaded from what does not exist. It keeps the loaded value of each entry beside the current one, so
//! that only the difference is written. It never reads from the database: a resource that was not loaded is [`NotLoaded`].

use super::deadline_window::DeadlineWindow;
use super::unit_item_state::{Shortfall, UnitItemState};
use crate::engine::dialect::{Changes, Deadline, LineRow, LockSet, Rows, SaleRow, set_counters};
use crate::engine::encoding::{first_sku, further_skus, key_bucket};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stockhold_domain::{
    Effects, Envelope, Event, Hold, HoldChange, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, Lookup,
    Mode, NotLoaded, Pool, Record, RecordKey, ReservationId, Resource, Scope, State, Status, StockChange,
    StockCounters, Transition, Unit, UnitMove, bucket_of, moved,
};

/// Transitions of a reservation after which its history so far moves from its row to a row of its own. So the row stays short, and an
/// update costs no more however often the reservation was changed before.
const HISTORY_VERSIONS: u64 = 64;

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
    pub(crate) unit_items: BTreeMap<ItemKey, UnitItemState>,
    /// Items whose units have ids and whose counters were not requested: such an item is incomplete and not usable.
    pub(crate) without_counters: BTreeSet<ItemKey>,
    /// Items with units that have ids, whose own rows have to be written as well.
    rewritten: BTreeSet<ItemKey>,
    /// Items that were deleted by this batch, even if it created them again.
    deleted: BTreeSet<ItemKey>,
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

/// Changes of the queue of deadlines.
#[derive(Default)]
struct QueueChanges<'a> {
    gone: Vec<LineRow<'a>>,
    resized: Vec<LineRow<'a>>,
    come: Vec<LineRow<'a>>,
}

impl<T> LoadedEntry<T> {
    /// An entry that was not changed.
    pub(crate) fn loaded(before: Option<T>) -> Self {
        Self { before, after: None, is_deleted: false }
    }

    fn now(&self) -> Option<&T> {
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
        let Rows { paused, mut items, holds, keys, mut due, any_due, mut units, records } = rows;
        let mut state = Self::default();
        for item in &mut items {
            match units.get(&item.key) {
                Some(rows) => set_counters(item, &rows.figures),
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
        state
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
            Resource::Key(hash) => self.keys.contains_key(hash),
            Resource::Record(key) => self.records.contains_key(key),
            Resource::Unit(key, id) => {
                self.unit_items.get(key).is_some_and(|unit_item| unit_item.unit(id).is_ok())
            }
            Resource::FreeUnits(key, _) => {
                self.unit_items.get(key).is_some_and(|unit_item| unit_item.free_requested > 0)
            }
            Resource::LastUnit(key) => {
                self.unit_items.get(key).is_some_and(|unit_item| unit_item.last_position().is_ok())
            }
            Resource::SeatMap(key) => {
                self.unit_items.get(key).is_some_and(|unit_item| unit_item.pool.is_some())
            }
        }
    }

    /// Assumes that a key that was not loaded is unused. If it was used, the database's unique key refuses the batch.
    pub(crate) fn assume_key_is_unused(&mut self, envelope: &Envelope) {
        if let Some(key) = envelope.key {
            self.keys.entry(key.hash).or_insert_with(|| LoadedEntry::loaded(None));
        }
    }

    /// The changes to write, in the order of the tables' keys, so that two instances that insert the same rows wait for each other
    /// in one order and not in a deadlock.
    pub(crate) fn changes<'a>(
        &'a self,
        effects: &'a Effects,
        serial: u64,
        counter_shard: u16,
    ) -> Changes<'a> {
        let (mut new_items, mut changed_items) = split(self.items.values());
        let by_key = |a: &&Item, b: &&Item| (bucket_of(&a.key), &a.key).cmp(&(bucket_of(&b.key), &b.key));
        new_items.sort_by(by_key);
        changed_items.sort_by(by_key);
        changed_items.retain(|item| item.mode == Mode::Counted || self.rewritten.contains(&item.key));
        let is_gone = |entry: &LoadedEntry<Item>| entry.before.is_some() && entry.now().is_none();
        let mut deleted_items: Vec<&ItemKey> =
            self.items.iter().filter(|(_, entry)| is_gone(entry)).map(|(key, _)| key).collect();
        deleted_items.sort_by_key(|key| (bucket_of(key), *key));
        let (mut new_holds, mut changed_holds) = split(self.holds.values());
        let by_id = |hold: &&Hold| (hold.id.bucket(), hold.id);
        new_holds.sort_by_key(by_id);
        changed_holds.sort_by_key(by_id);
        let is_full = |entry: &&LoadedEntry<Hold>| match (&entry.before, &entry.after) {
            (Some(before), Some(after)) => {
                before.version / HISTORY_VERSIONS < after.version / HISTORY_VERSIONS
            }
            _ => false,
        };
        let mut full_histories: Vec<ReservationId> = self
            .holds
            .values()
            .filter(is_full)
            .filter_map(|entry| entry.after.as_ref())
            .map(|hold| hold.id)
            .collect();
        full_histories.sort_by_key(|id| (id.bucket(), *id));
        let relisted = |entry: &&LoadedEntry<Hold>| match (&entry.before, &entry.after) {
            (Some(before), Some(after)) => listed_by(before) != listed_by(after),
            _ => false,
        };
        let mut relisted_holds: Vec<&Hold> =
            self.holds.values().filter(relisted).filter_map(|entry| entry.after.as_ref()).collect();
        relisted_holds.sort_by_key(by_id);
        let new_orders = effects.events.iter().filter_map(confirmed_for_an_order).collect();
        let QueueChanges { gone, resized, come } = self.queue_changes();
        let pauses =
            self.pauses.iter().filter_map(|(location, entry)| Some((location.as_str(), entry.after?)));
        let mut keys: Vec<&KeyRecord> = effects.keys.iter().collect();
        keys.sort_by_key(|record| (key_bucket(record.hash), record.hash));
        let (mut new_units, mut changed_units, mut gone_units) = (Vec::new(), Vec::new(), Vec::new());
        let mut figures = Vec::new();
        let mut unit_items: Vec<_> = self.unit_items.iter().collect();
        unit_items.sort_by(|(a, _), (b, _)| (bucket_of(a), a).cmp(&(bucket_of(b), b)));
        for (item, unit_item) in unit_items {
            unit_item.changes(item, &mut new_units, &mut changed_units, &mut gone_units);
            figures.extend(unit_item.figures(item));
        }
        let (new_sales, closed_sales) = sales(&effects.events);
        let (new_records, changed_records) = split(self.records.values());
        Changes {
            new_items,
            changed_items,
            deleted_items,
            deleted_figures: self.deleted.iter().collect(),
            new_units,
            changed_units,
            gone_units,
            figures,
            counter_shard,
            closed_sales,
            new_sales,
            new_holds,
            changed_holds,
            full_histories,
            relisted_holds,
            new_orders,
            gone,
            resized,
            come,
            pauses: pauses.collect(),
            new_records,
            changed_records,
            keys,
            events: &effects.events,
            serial,
        }
    }

    /// How the queue of deadlines changes. A line that keeps its deadline and its quantity is not among it.
    fn queue_changes(&self) -> QueueChanges<'_> {
        let mut changes = QueueChanges::default();
        let queued = |hold: &&Hold| hold.status == Status::Active;
        for LoadedEntry { before, after, .. } in self.holds.values() {
            let Some(after) = after else { continue };
            let before = before.as_ref().filter(queued);
            let after = Some(after).filter(queued);
            let key = |line: &LineRow<'_>| (line.expires_at, line.leads);
            let mut known: BTreeMap<&ItemKey, LineRow<'_>> =
                before.into_iter().flat_map(queue_lines).map(|line| (line.item, line)).collect();
            for line in after.into_iter().flat_map(queue_lines) {
                match known.remove(line.item) {
                    Some(known) if key(&known) == key(&line) => {
                        changes.resized.extend((known.quantity != line.quantity).then_some(line));
                    }
                    known => {
                        changes.gone.extend(known);
                        changes.come.push(line);
                    }
                }
            }
            changes.gone.extend(known.into_values());
        }
        let by_key = |a: &LineRow<'_>, b: &LineRow<'_>| {
            let key = |line: &LineRow<'_>| (bucket_of(line.item), line.expires_at, line.id);
            (key(a), a.item).cmp(&(key(b), b.item))
        };
        changes.gone.sort_by(by_key);
        changes.resized.sort_by(by_key);
        changes.come.sort_by(by_key);
        changes
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
                there &= unit_item.set(&unit.id, after, unit.version, at);
            }
            if any {
                unit_item.touch(&change.effect(hold, line, number), at);
            }
            if !there {
                self.violated_invariant = Some("a reservation has a unit that is not there");
            }
        }
    }

    /// A state that knows only that the units of these items have ids.
    pub(crate) fn of_unit_items<'a>(unit_items: impl Iterator<Item = &'a ItemKey>) -> Self {
        let at = Instant::from_micros(0);
        let nothing = StockCounters::none(at);
        let item = |key: &ItemKey| Item {
            key: key.clone(),
            mode: Mode::Units,
            figures: nothing,
            settings: Arc::default(),
            version: 1,
            paused: false,
            created_at: at,
        };
        let entry = |key: &ItemKey| (key.clone(), LoadedEntry::loaded(Some(item(key))));
        Self { items: unit_items.map(entry).collect(), ..Self::default() }
    }

    /// The number of free units of an item by its counters, whether or not others have locked them.
    fn free_there(&self, item: &ItemKey) -> Result<u64, NotLoaded> {
        let figures = self.item(item)?.map(|item| item.figures);
        Ok(figures
            .map_or(0, |all| all.total_units.saturating_sub(all.held).saturating_sub(all.confirmed_sold)))
    }

    /// Why the state can't name `most` free units of an item. `None` if free units were not requested.
    pub(crate) fn shortage(&self, item: &ItemKey, most: u32) -> Option<Shortfall> {
        let unit_item = self.unit_items.get(item).filter(|unit_item| unit_item.free_requested > 0)?;
        let there = self.free_there(item).ok()?;
        unit_item.first_free(usize::try_from(most).unwrap_or(usize::MAX), there).err()
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

/// The changes that events make to the ledger of sales: rows to insert, and rows to close.
fn sales(events: &[Event]) -> (Vec<SaleRow<'_>>, Vec<SaleRow<'_>>) {
    let mut new: BTreeMap<(u16, &ItemKey, &Label, ReservationId), SaleRow<'_>> = BTreeMap::new();
    let mut closed = BTreeMap::new();
    for event in events {
        let Transition::Hold { change, hold, .. } = &event.transition else { continue };
        let sells = *change == HoldChange::Confirmed;
        if !sells && !matches!(change, HoldChange::Returned { .. }) {
            continue;
        }
        for (number, line) in hold.lines.iter().enumerate() {
            for UnitMove { unit, .. } in moved(change, hold, line, number) {
                let unit = &unit.id;
                let key = (bucket_of(&line.item), &line.item, unit, hold.id);
                let row =
                    SaleRow { item: &line.item, unit, id: hold.id, sold_at: event.at, returned_at: None };
                if sells {
                    new.insert(key, row);
                } else if let Some(row) = new.get_mut(&key) {
                    row.returned_at = Some(event.at);
                } else {
                    closed.insert(key, SaleRow { returned_at: Some(event.at), ..row });
                }
            }
        }
    }
    (new.into_values().collect(), closed.into_values().collect())
}

/// What lists find a reservation by, besides its order.
fn listed_by(hold: &Hold) -> (&Label, &str, BTreeSet<&str>) {
    (&hold.terms.reserve.owner_id, first_sku(hold), further_skus(hold))
}

fn queue_lines(hold: &Hold) -> impl Iterator<Item = LineRow<'_>> {
    hold.lines.iter().zip(0_usize..).map(|(line, number)| LineRow {
        item: &line.item,
        expires_at: hold.expires_at,
        id: hold.id,
        quantity: line.quantity,
        leads: number == 0,
    })
}

/// The reservation that an event confirmed for an order. Events have the order of the confirms.
fn confirmed_for_an_order(event: &Event) -> Option<(ReservationId, &Label)> {
    let Transition::Hold { change: HoldChange::Confirmed, hold, .. } = &event.transition else { return None };
    Some((hold.id, hold.closing.as_ref()?.order_id.as_ref()?))
}

/// Splits changed entries into rows to insert and rows to update.
fn split<'a, T: 'a>(entries: impl Iterator<Item = &'a LoadedEntry<T>>) -> (Vec<&'a T>, Vec<&'a T>) {
    let mut new = Vec::new();
    let mut changed = Vec::new();
    for LoadedEntry { before, after, .. } in entries {
        if let Some(after) = after {
            let list = if before.is_some() { &mut changed } else { &mut new };
            list.push(after);
        }
    }
    (new, changed)
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

    fn record(&self, key: &RecordKey) -> Lookup<'_, Record> {
        self.records.get(key).map(LoadedEntry::now).ok_or_else(|| NotLoaded(Resource::Record(key.clone())))
    }

    fn pool(&self, item: &ItemKey) -> Lookup<'_, Pool> {
        let pool = self.unit_items.get(item).and_then(|unit_item| unit_item.pool.as_ref());
        pool.map(Some).ok_or_else(|| NotLoaded(Resource::SeatMap(item.clone())))
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

    fn free_units(&self, item: &ItemKey, most: u32) -> Result<Vec<&Unit>, NotLoaded> {
        let missing = || NotLoaded(Resource::FreeUnits(item.clone(), most));
        if most == 0 {
            return Ok(Vec::new());
        }
        let unit_item =
            self.unit_items.get(item).filter(|unit_item| unit_item.free_requested > 0).ok_or_else(missing)?;
        let there = self.free_there(item)?;
        unit_item.first_free(usize::try_from(most).unwrap_or(usize::MAX), there).map_err(|_| missing())
    }

    fn apply(&mut self, event: &Event) {
        match &event.transition {
            Transition::Hold { change, hold, figures } => {
                for (line, figures) in hold.lines.iter().zip(figures) {
                    if let Some(entry) = self.items.get_mut(&line.item)
                        && let Some(item) = entry.now().cloned()
                    {
                        entry.after = Some(Item { figures: *figures, ..item });
                    }
                }
                let entry = self.holds.entry(hold.id).or_insert_with(|| LoadedEntry::loaded(None));
                let before = entry.now().filter(|hold| hold.status == Status::Active);
                let before = before.map(|hold| (hold.expires_at, hold.id));
                if change.status_before().is_none() && entry.now().is_some() {
                    self.violated_invariant = Some("a fresh reservation id is in use");
                }
                entry.after = Some(hold.without_removed_lines());
                self.move_deadline(before, hold);
                self.move_units(change, hold, event.at);
            }
            Transition::Stock { change: StockChange::Deleted, item } => {
                self.deleted.insert(item.key.clone());
                if let Some(unit_item) = self.unit_items.get_mut(&item.key) {
                    unit_item.forget_figures();
                }
                self.items.entry(item.key.clone()).or_insert_with(|| LoadedEntry::loaded(None)).delete();
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
                    StockChange::Set | StockChange::Adjusted { .. } | StockChange::Deleted => {}
                }
                let entry = self.items.entry(item.key.clone()).or_insert_with(|| LoadedEntry::loaded(None));
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
