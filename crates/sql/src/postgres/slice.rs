//! The part of the state that one batch has loaded, as the rules see it.
//!
//! It tells what was not loaded from what does not exist, and keeps what things were beside what they have become, so
//! that only the difference is written. It never asks the database for anything: what it lacks is [`Missing`].

use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    Event, Got, Hold, HoldChange, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, Missing, Name,
    ReservationId, Scope, State, Status, Transition,
};

/// A deadline and whose it is, in the order that holds fall due.
pub(super) type Deadline = (Instant, ReservationId);

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

    /// Whose deadlines have come, earliest first.
    pub(super) fn fallen_due(&self, now: Instant) -> impl Iterator<Item = ReservationId> + '_ {
        self.deadlines.iter().take_while(move |(due, _)| *due <= now).map(|(_, id)| *id)
    }

    /// Whether a reservation is in view.
    pub(super) fn shows(&self, id: ReservationId) -> bool {
        self.deadlines.iter().any(|(_, other)| *other == id)
    }
}

impl Slice {
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
