//! The part of the state that one batch has loaded, as the rules see it.
//!
//! It tells what was not loaded from what does not exist, and keeps what things were beside what they have become, so
//! that only the difference is written. It never asks the database for anything: what it lacks is [`NotLoaded`].

use super::dialect::{Changes, Deadline, LineRow, Rows, SaleRow, Wants, count};
use super::hall::{Hall, Short};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stockhold_domain::{
    Effects, Envelope, Event, Hold, HoldChange, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, LineUnit,
    Lookup, Mode, NotLoaded, Pool, ReservationId, Resource, Scope, State, Status, StockChange, StockCounters,
    Transition, Unit, bucket_of, moved,
};

/// What a batch has loaded.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    pub(super) items: BTreeMap<ItemKey, Entry<Item>>,
    pub(super) holds: BTreeMap<ReservationId, Entry<Hold>>,
    pub(super) keys: BTreeMap<KeyHash, Entry<KeyRecord>>,
    /// By location; the empty one stands for everything.
    pub(super) pauses: BTreeMap<String, Entry<bool>>,
    pub(super) due: BTreeMap<ItemKey, Window>,
    pub(super) any_due: Option<Window>,
    pub(super) halls: BTreeMap<ItemKey, Hall>,
    /// Items whose units have ids and were not asked for: without them the items can't be told.
    pub(super) uncounted: BTreeSet<ItemKey>,
    /// Items whose own rows are to be written, though their figures are counted.
    rewritten: BTreeSet<ItemKey>,
    /// What events said that can't be: nothing may be committed on top of it.
    pub(crate) contradiction: Option<&'static str>,
}

/// One loaded thing: as the database has it, and as it is after the commands decided so far.
#[derive(Debug)]
pub(super) struct Entry<T> {
    /// As loaded; `None` when it did not exist.
    pub(super) before: Option<T>,
    /// As it is now, if it was touched.
    pub(super) after: Option<T>,
}

impl<T> Entry<T> {
    /// As loaded.
    pub(super) fn loaded(before: Option<T>) -> Self {
        Self { before, after: None }
    }

    fn now(&self) -> Option<&T> {
        self.after.as_ref().or(self.before.as_ref())
    }
}

/// The front of a queue of deadlines.
#[derive(Debug, Default)]
pub(super) struct Window {
    deadlines: BTreeSet<Deadline>,
    /// Where the view ends: what lies behind was not loaded. `None` when all was.
    horizon: Option<Deadline>,
}

impl Window {
    /// Over what was loaded when at most `depth` were asked for.
    pub(super) fn new(deadlines: BTreeSet<Deadline>, depth: usize) -> Self {
        let horizon = if deadlines.len() < depth { None } else { deadlines.last().copied() };
        Self { deadlines, horizon }
    }

    /// The earliest; an error when it may lie behind the horizon.
    fn earliest(&self) -> Result<Option<Deadline>, ()> {
        match (self.deadlines.first(), self.horizon) {
            (first, None) => Ok(first.copied()),
            (Some(first), Some(horizon)) if *first <= horizon => Ok(Some(*first)),
            (_, Some(_)) => Err(()),
        }
    }

    /// Whether anything of it is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.deadlines.first().is_some_and(|(due, _)| *due <= now)
    }

    /// What lies behind the horizon may come in as well: it is not looked at before the view ends there.
    fn replace(&mut self, before: Option<Deadline>, after: Option<Deadline>) {
        if let Some(before) = before {
            self.deadlines.remove(&before);
        }
        self.deadlines.extend(after);
    }

    /// Whether a reservation is in view.
    pub(super) fn shows(&self, id: ReservationId) -> bool {
        self.deadlines.iter().any(|(_, other)| *other == id)
    }
}

impl Slice {
    /// What was read, out of what was asked for: the rest of it does not exist.
    pub(crate) fn of(wants: &Wants, rows: Rows) -> Self {
        Self::with_maps(wants, rows, &BTreeMap::new())
    }

    /// Likewise, with seat maps that were read before.
    pub(super) fn with_maps(wants: &Wants, rows: Rows, maps: &BTreeMap<ItemKey, Arc<[Unit]>>) -> Self {
        let Rows { paused, mut items, holds, keys, mut due, any_due, mut units } = rows;
        let mut slice = Self::default();
        for item in &mut items {
            match units.get(&item.key) {
                Some(rows) => count(item, &rows.figures),
                None if item.mode == Mode::Units => {
                    slice.uncounted.insert(item.key.clone());
                }
                None => {}
            }
        }
        items.retain(|item| !slice.uncounted.contains(&item.key));
        slice.add(wants, items, holds, keys);
        for key in &slice.uncounted {
            slice.items.remove(key);
        }
        for (key, wanted) in &wants.units {
            let map = maps.get(key);
            slice.halls.insert(key.clone(), Hall::new(wanted, units.remove(key).unwrap_or_default(), map));
        }
        let pause = |location: &String| (location.clone(), Entry::loaded(Some(paused.contains(location))));
        slice.pauses.extend(wants.pauses.iter().map(pause));
        for (key, depth) in &wants.due {
            slice.due.insert(key.clone(), Window::new(due.remove(key).unwrap_or_default(), *depth));
        }
        slice.any_due = wants.any_due.map(|depth| Window::new(any_due, depth));
        slice
    }

    fn add(&mut self, wants: &Wants, items: Vec<Item>, holds: Vec<Hold>, keys: Vec<KeyRecord>) {
        self.items.extend(wants.all_items().map(|key| (key.clone(), Entry::loaded(None))));
        self.items.extend(items.into_iter().map(|item| (item.key.clone(), Entry::loaded(Some(item)))));
        self.holds.extend(wants.holds.iter().map(|id| (*id, Entry::loaded(None))));
        self.holds.extend(holds.into_iter().map(|hold| (hold.id, Entry::loaded(Some(hold)))));
        self.keys.extend(wants.keys.iter().map(|hash| (*hash, Entry::loaded(None))));
        self.keys.extend(keys.into_iter().map(|record| (record.hash, Entry::loaded(Some(record)))));
    }

    /// Whether the rules would get an answer about it, be it that there is no such thing.
    pub(super) fn has(&self, name: &Resource) -> bool {
        match name {
            Resource::Pause(location) => self.pauses.contains_key(&Self::pause_key(location.as_ref())),
            Resource::Item(key) => self.items.contains_key(key),
            Resource::Hold(id) => self.holds.contains_key(id),
            Resource::Due(key) => self.due.contains_key(key),
            Resource::AnyDue => self.any_due.is_some(),
            Resource::Key(hash) => self.keys.contains_key(hash),
            Resource::Unit(key, id) => self.halls.get(key).is_some_and(|hall| hall.unit(id).is_ok()),
            Resource::FreeUnits(key, _) => self.halls.get(key).is_some_and(|hall| hall.asked > 0),
            Resource::LastUnit(key) => self.halls.get(key).is_some_and(|hall| hall.last_position().is_ok()),
            Resource::SeatMap(key) => self.halls.get(key).is_some_and(|hall| hall.pool.is_some()),
        }
    }

    /// Decides about a key that was not read as about one that nobody has used: the database's own key says otherwise if it was.
    pub(super) fn take_key_for_new(&mut self, envelope: &Envelope) {
        if let Some(key) = envelope.key {
            self.keys.entry(key.hash).or_insert_with(|| Entry::loaded(None));
        }
    }

    /// What is to be written, in the order of the tables' keys: two instances that make the same new rows wait for each
    /// other in one order.
    pub(crate) fn changes<'a>(&'a self, effects: &'a Effects, serial: u64, part: u16) -> Changes<'a> {
        let (mut new_items, mut changed_items) = split(self.items.values());
        let by_key = |a: &&Item, b: &&Item| (bucket_of(&a.key), &a.key).cmp(&(bucket_of(&b.key), &b.key));
        new_items.sort_by(by_key);
        changed_items.sort_by(by_key);
        changed_items.retain(|item| item.mode == Mode::Counted || self.rewritten.contains(&item.key));
        let (mut new_holds, mut changed_holds) = split(self.holds.values());
        let by_id = |hold: &&Hold| (hold.id.bucket(), hold.id);
        new_holds.sort_by_key(by_id);
        changed_holds.sort_by_key(by_id);
        let (gone, come) = self.moved_lines();
        let pauses =
            self.pauses.iter().filter_map(|(location, entry)| Some((location.as_str(), entry.after?)));
        let mut keys: Vec<&KeyRecord> = effects.keys.iter().collect();
        keys.sort_by_key(|record| (super::key_bucket(record.hash), record.hash));
        let (mut new_units, mut changed_units, mut gone_units) = (Vec::new(), Vec::new(), Vec::new());
        let mut figures = Vec::new();
        let mut halls: Vec<_> = self.halls.iter().collect();
        halls.sort_by(|(a, _), (b, _)| (bucket_of(a), a).cmp(&(bucket_of(b), b)));
        for (item, hall) in halls {
            hall.changes(item, &mut new_units, &mut changed_units, &mut gone_units);
            figures.extend(hall.figures(item));
        }
        let (new_sales, closed_sales) = sales(&effects.events);
        Changes {
            new_items,
            changed_items,
            new_units,
            changed_units,
            gone_units,
            figures,
            part,
            closed_sales,
            new_sales,
            new_holds,
            changed_holds,
            gone,
            come,
            pauses: pauses.collect(),
            keys,
            events: &effects.events,
            serial,
        }
    }

    /// The lines that leave the queue of deadlines, and those that enter it. A hold that keeps its deadline does neither.
    fn moved_lines(&self) -> (Vec<LineRow<'_>>, Vec<LineRow<'_>>) {
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        let queued = |hold: &&Hold| hold.status == Status::Active;
        for Entry { before, after } in self.holds.values() {
            let Some(after) = after else { continue };
            let before = before.as_ref().filter(queued);
            let after = Some(after).filter(queued);
            if before.map(|hold| hold.expires_at) != after.map(|hold| hold.expires_at) {
                gone.extend(before.into_iter().flat_map(lines_of));
                come.extend(after.into_iter().flat_map(lines_of));
            }
        }
        let by_key = |a: &LineRow<'_>, b: &LineRow<'_>| {
            let key = |line: &LineRow<'_>| (bucket_of(line.item), line.expires_at, line.id);
            (key(a), a.item).cmp(&(key(b), b.item))
        };
        gone.sort_by(by_key);
        come.sort_by(by_key);
        (gone, come)
    }

    fn move_deadline(&mut self, before: Option<Deadline>, hold: &Hold) {
        let after = (hold.status == Status::Active).then_some((hold.expires_at, hold.id));
        for line in &*hold.lines {
            if let Some(window) = self.due.get_mut(&line.item) {
                window.replace(before, after);
            }
        }
        if let Some(window) = &mut self.any_due {
            window.replace(before, after);
        }
    }

    /// What a transition made of the units of a reservation.
    fn move_units(&mut self, change: &HoldChange, hold: &Hold, at: Instant) {
        for (number, line) in hold.lines.iter().enumerate().filter(|(_, line)| line.units.is_some()) {
            let hall = self.halls.entry(line.item.clone()).or_default();
            let mut there = true;
            let moves = moved(change, hold, line, number);
            let mut any = *change == HoldChange::Extended;
            for (unit, status) in moves {
                any = true;
                there &= hall.set(&unit.id, status, unit.version, at);
            }
            if any {
                let active = match change {
                    HoldChange::Created => 1,
                    HoldChange::Confirmed | HoldChange::Cancelled | HoldChange::Expired => -1,
                    HoldChange::Extended | HoldChange::Returned { .. } => 0,
                };
                hall.touch(active, at);
            }
            if !there {
                self.contradiction = Some("a reservation has a unit that is not there");
            }
        }
    }

    /// A world of which nothing is known but that these items' units have ids.
    pub(super) fn of_halls<'a>(halls: impl Iterator<Item = &'a ItemKey>) -> Self {
        let at = Instant::from_micros(0);
        let nothing =
            StockCounters { total_units: 0, confirmed_sold: 0, held: 0, active: 0, sequence: 0, at };
        let item = |key: &ItemKey| Item {
            key: key.clone(),
            mode: Mode::Units,
            figures: nothing,
            settings: Arc::default(),
            version: 1,
            paused: false,
            created_at: at,
        };
        let entry = |key: &ItemKey| (key.clone(), Entry::loaded(Some(item(key))));
        Self { items: halls.map(entry).collect(), ..Self::default() }
    }

    /// Units of an item that are there and are free, as far as one can see.
    fn free_there(&self, item: &ItemKey) -> Result<u64, NotLoaded> {
        let figures = self.item(item)?.map(|item| item.figures);
        Ok(figures
            .map_or(0, |all| all.total_units.saturating_sub(all.held).saturating_sub(all.confirmed_sold)))
    }

    /// Why so many free units of an item can't be told; `None` when none were asked for.
    pub(super) fn shortage(&self, item: &ItemKey, most: u32) -> Option<Short> {
        let hall = self.halls.get(item).filter(|hall| hall.asked > 0)?;
        let there = self.free_there(item).ok()?;
        hall.first_free(usize::try_from(most).unwrap_or(usize::MAX), there).err()
    }

    /// Items of which a seat map was planned over that no longer holds.
    pub(super) fn stale(&self) -> impl Iterator<Item = &ItemKey> {
        self.halls.iter().filter(|(_, hall)| hall.is_stale).map(|(key, _)| key)
    }

    /// Units that were moved without a lock: nothing of it may be committed.
    pub(crate) fn unlocked(&self) -> impl Iterator<Item = (&ItemKey, &Label)> {
        self.halls.iter().flat_map(|(key, hall)| hall.unlocked.iter().map(move |id| (key, id)))
    }

    fn set_pause(&mut self, location: Option<&Label>, paused: bool) {
        let entry = self.pauses.entry(Self::pause_key(location)).or_insert_with(|| Entry::loaded(None));
        entry.after = Some(paused);
    }

    /// What pauses are found by.
    pub(super) fn pause_key(location: Option<&Label>) -> String {
        location.map_or_else(String::new, |location| location.as_str().to_owned())
    }
}

/// What events make of the ledger of sales: new rows, and rows that are closed.
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
            for (LineUnit { id: unit, .. }, _) in moved(change, hold, line, number) {
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

fn lines_of(hold: &Hold) -> impl Iterator<Item = LineRow<'_>> {
    hold.lines.iter().zip(0_usize..).map(|(line, number)| LineRow {
        item: &line.item,
        expires_at: hold.expires_at,
        id: hold.id,
        quantity: line.quantity,
        leads: number == 0,
    })
}

/// What is new, and what replaces a row.
fn split<'a, T: 'a>(entries: impl Iterator<Item = &'a Entry<T>>) -> (Vec<&'a T>, Vec<&'a T>) {
    let mut new = Vec::new();
    let mut changed = Vec::new();
    for Entry { before, after } in entries {
        if let Some(after) = after {
            let list = if before.is_some() { &mut changed } else { &mut new };
            list.push(after);
        }
    }
    (new, changed)
}

impl State for Slice {
    fn item(&self, key: &ItemKey) -> Lookup<'_, Item> {
        self.items.get(key).map(Entry::now).ok_or_else(|| NotLoaded(Resource::Item(key.clone())))
    }

    fn hold(&self, id: ReservationId) -> Lookup<'_, Hold> {
        self.holds.get(&id).map(Entry::now).ok_or(NotLoaded(Resource::Hold(id)))
    }

    fn key(&self, hash: KeyHash) -> Lookup<'_, KeyRecord> {
        self.keys.get(&hash).map(Entry::now).ok_or(NotLoaded(Resource::Key(hash)))
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

    fn pool(&self, item: &ItemKey) -> Lookup<'_, Pool> {
        let pool = self.halls.get(item).and_then(|hall| hall.pool.as_ref());
        pool.map(Some).ok_or_else(|| NotLoaded(Resource::SeatMap(item.clone())))
    }

    fn unit(&self, item: &ItemKey, id: &Label) -> Lookup<'_, Unit> {
        let unit = self.halls.get(item).map(|hall| hall.unit(id));
        unit.and_then(Result::ok).ok_or_else(|| NotLoaded(Resource::Unit(item.clone(), id.clone())))
    }

    fn last_position(&self, item: &ItemKey) -> Result<u64, NotLoaded> {
        let Some(hall) = self.halls.get(item) else {
            return Err(NotLoaded(Resource::LastUnit(item.clone())));
        };
        // Once it was asked for, only all units tell what it has become.
        hall.last_position().map_err(|()| {
            let asked = hall.asked_last;
            NotLoaded(if asked { Resource::SeatMap(item.clone()) } else { Resource::LastUnit(item.clone()) })
        })
    }

    fn free_units(&self, item: &ItemKey, most: u32) -> Result<Vec<&Unit>, NotLoaded> {
        let missing = || NotLoaded(Resource::FreeUnits(item.clone(), most));
        if most == 0 {
            return Ok(Vec::new());
        }
        let hall = self.halls.get(item).filter(|hall| hall.asked > 0).ok_or_else(missing)?;
        let there = self.free_there(item)?;
        hall.first_free(usize::try_from(most).unwrap_or(usize::MAX), there).map_err(|_| missing())
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
                let entry = self.holds.entry(hold.id).or_insert_with(|| Entry::loaded(None));
                let before = entry.now().filter(|hold| hold.status == Status::Active);
                let before = before.map(|hold| (hold.expires_at, hold.id));
                if *change == HoldChange::Created && entry.now().is_some() {
                    self.contradiction = Some("a fresh reservation id is in use");
                }
                entry.after = Some(hold.clone());
                self.move_deadline(before, hold);
                self.move_units(change, hold, event.at);
            }
            Transition::Stock { change, item } => {
                self.rewritten.insert(item.key.clone());
                match change {
                    StockChange::UnitsAdded(units) => {
                        self.halls.entry(item.key.clone()).or_default().add(units, event.at);
                    }
                    StockChange::UnitRetired(id) => {
                        self.halls.entry(item.key.clone()).or_default().retire(id, event.at);
                    }
                    StockChange::Set | StockChange::Adjusted { .. } => {}
                }
                let entry = self.items.entry(item.key.clone()).or_insert_with(|| Entry::loaded(None));
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
        }
    }

    fn remember(&mut self, key: &KeyRecord) {
        let entry = self.keys.entry(key.hash).or_insert_with(|| Entry::loaded(None));
        entry.after = Some(key.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::Instant;

    fn deadline(second: i64) -> Deadline {
        (Instant::from_millis(second * 1_000), ReservationId::from_u128(second.unsigned_abs().into()))
    }

    #[test]
    fn a_window_says_nothing_of_what_lies_behind_its_horizon() {
        let mut window = Window::new([deadline(1), deadline(2)].into(), 2);
        assert_eq!(window.earliest(), Ok(Some(deadline(1))));
        // A new hold with a late deadline: something that was not loaded may be due before it.
        window.replace(Some(deadline(1)), Some(deadline(9)));
        assert_eq!(window.earliest(), Ok(Some(deadline(2))));
        window.replace(Some(deadline(2)), None);
        assert_eq!(window.earliest(), Err(()));
        window.replace(None, Some(deadline(1)));
        assert_eq!(window.earliest(), Ok(Some(deadline(1))));
    }

    #[test]
    fn a_window_that_shows_all_is_always_right() {
        let mut window = Window::new([deadline(1)].into(), 2);
        window.replace(Some(deadline(1)), Some(deadline(9)));
        assert_eq!(window.earliest(), Ok(Some(deadline(9))));
        window.replace(Some(deadline(9)), None);
        assert_eq!(window.earliest(), Ok(None));
        assert_eq!(Window::new(BTreeSet::new(), 1).earliest(), Ok(None));
    }
}
