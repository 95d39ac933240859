//! The part of the state that one batch has loaded, as the rules see it.
//!
//! It tells what was not loaded from what does not exist, and keeps what things were beside what they have become, so
//! that only the difference is written. It never asks the database for anything: what it lacks is [`Missing`].

use super::dialect::{Changes, Deadline, LineRow, Rows, Wants};
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    Effects, Event, Got, Hold, HoldChange, Item, ItemKey, KeyHash, KeyRecord, Label, Missing, Name,
    ReservationId, Scope, State, Status, Transition, bucket_of,
};

/// What a batch has loaded.
#[derive(Debug, Default)]
pub(super) struct Slice {
    pub(super) items: BTreeMap<ItemKey, Entry<Item>>,
    pub(super) holds: BTreeMap<ReservationId, Entry<Hold>>,
    pub(super) keys: BTreeMap<KeyHash, Entry<KeyRecord>>,
    /// By location; the empty one stands for everything.
    pub(super) pauses: BTreeMap<String, Entry<bool>>,
    pub(super) due: BTreeMap<ItemKey, Window>,
    pub(super) any_due: Option<Window>,
    /// What events said that can't be: nothing may be committed on top of it.
    pub(super) contradiction: Option<&'static str>,
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
    pub(super) fn of(wants: &Wants, rows: Rows) -> Self {
        let Rows { paused, items, holds, keys, mut due, any_due } = rows;
        let mut slice = Self::default();
        slice.add(wants, items, holds, keys);
        let pause = |location: &String| (location.clone(), Entry::loaded(Some(paused.contains(location))));
        slice.pauses.extend(wants.pauses.iter().map(pause));
        for (key, depth) in &wants.due {
            slice.due.insert(key.clone(), Window::new(due.remove(key).unwrap_or_default(), *depth));
        }
        slice.any_due = wants.any_due.map(|depth| Window::new(any_due, depth));
        slice
    }

    fn add(&mut self, wants: &Wants, items: Vec<Item>, holds: Vec<Hold>, keys: Vec<KeyRecord>) {
        self.items.extend(wants.items.iter().map(|key| (key.clone(), Entry::loaded(None))));
        self.items.extend(items.into_iter().map(|item| (item.key.clone(), Entry::loaded(Some(item)))));
        self.holds.extend(wants.holds.iter().map(|id| (*id, Entry::loaded(None))));
        self.holds.extend(holds.into_iter().map(|hold| (hold.id, Entry::loaded(Some(hold)))));
        self.keys.extend(wants.keys.iter().map(|hash| (*hash, Entry::loaded(None))));
        self.keys.extend(keys.into_iter().map(|record| (record.hash, Entry::loaded(Some(record)))));
    }

    /// Whether the rules would get an answer about it, be it that there is no such thing.
    pub(super) fn has(&self, name: &Name) -> bool {
        match name {
            Name::Pause(location) => self.pauses.contains_key(&Self::pause_key(location.as_ref())),
            Name::Item(key) => self.items.contains_key(key),
            Name::Hold(id) => self.holds.contains_key(id),
            Name::Due(key) => self.due.contains_key(key),
            Name::AnyDue => self.any_due.is_some(),
            Name::Key(hash) => self.keys.contains_key(hash),
        }
    }

    /// What is to be written, in the order of the tables' keys: two instances that make the same new rows wait for each
    /// other in one order.
    pub(super) fn changes<'a>(&'a self, effects: &'a Effects, serial: u64) -> Changes<'a> {
        let (mut new_items, mut changed_items) = split(self.items.values());
        let by_key = |a: &&Item, b: &&Item| (bucket_of(&a.key), &a.key).cmp(&(bucket_of(&b.key), &b.key));
        new_items.sort_by(by_key);
        changed_items.sort_by(by_key);
        let (mut new_holds, mut changed_holds) = split(self.holds.values());
        let by_id = |hold: &&Hold| (hold.id.bucket(), hold.id);
        new_holds.sort_by_key(by_id);
        changed_holds.sort_by_key(by_id);
        let (gone, come) = self.moved_lines();
        let pauses =
            self.pauses.iter().filter_map(|(location, entry)| Some((location.as_str(), entry.after?)));
        let mut keys: Vec<&KeyRecord> = effects.keys.iter().collect();
        keys.sort_by_key(|record| (super::key_bucket(record.hash), record.hash));
        Changes {
            new_items,
            changed_items,
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

    fn set_pause(&mut self, location: Option<&Label>, paused: bool) {
        let entry = self.pauses.entry(Self::pause_key(location)).or_insert_with(|| Entry::loaded(None));
        entry.after = Some(paused);
    }

    /// What pauses are found by.
    pub(super) fn pause_key(location: Option<&Label>) -> String {
        location.map_or_else(String::new, |location| location.as_str().to_owned())
    }
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
    fn item(&self, key: &ItemKey) -> Got<'_, Item> {
        self.items.get(key).map(Entry::now).ok_or_else(|| Missing(Name::Item(key.clone())))
    }

    fn hold(&self, id: ReservationId) -> Got<'_, Hold> {
        self.holds.get(&id).map(Entry::now).ok_or(Missing(Name::Hold(id)))
    }

    fn key(&self, hash: KeyHash) -> Got<'_, KeyRecord> {
        self.keys.get(&hash).map(Entry::now).ok_or(Missing(Name::Key(hash)))
    }

    fn paused(&self, location: Option<&str>) -> Result<bool, Missing> {
        match self.pauses.get(location.unwrap_or_default()) {
            Some(entry) => Ok(entry.now().copied().unwrap_or(false)),
            None => Err(Missing(Name::Pause(location.and_then(|location| Label::new(location).ok())))),
        }
    }

    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<Deadline>, Missing> {
        let (window, name) = match item {
            Some(key) => (self.due.get(key), Name::Due(key.clone())),
            None => (self.any_due.as_ref(), Name::AnyDue),
        };
        window.and_then(|window| window.earliest().ok()).ok_or(Missing(name))
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
            }
            Transition::Stock { item, .. } => {
                let entry = self.items.entry(item.key.clone()).or_insert_with(|| Entry::loaded(None));
                entry.after = Some(item.clone());
            }
            Transition::Sale { scope, paused, .. } => match scope {
                Scope::Everything => self.set_pause(None, *paused),
                Scope::Location(location) => self.set_pause(Some(location), *paused),
                Scope::Item(key) => {
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
