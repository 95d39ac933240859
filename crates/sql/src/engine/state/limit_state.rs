//! The limits, and the counters and queues of deadlines that one batch has loaded of them.

use super::deadline_window::DeadlineWindow;
use super::loaded_state::LoadedEntry;
use crate::engine::dialect::{CountedHoldRow, CounterRow, Deadline, LimitChanges, LockSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stockhold_domain::{
    CounterKey, Hold, Label, Limit, LimitCounter, LimitEffects, LimitSet, NotLoaded, ReservationId, Resource,
    Status, Subject,
};

/// See the documentation of the module.
#[derive(Debug, Default)]
pub(crate) struct LimitState {
    set: Option<Arc<LimitSet>>,
    /// Limits that this batch has set.
    changed: BTreeSet<Label>,
    counters: BTreeMap<CounterKey, LoadedEntry<LimitCounter>>,
    due: BTreeMap<CounterKey, DeadlineWindow>,
}

impl LimitState {
    /// Only the limits themselves.
    pub(super) fn of(set: Option<Arc<LimitSet>>) -> Self {
        Self { set, ..Self::default() }
    }

    /// What was read of a lock set: a counter that is not among the rows does not exist.
    pub(super) fn new(
        lock_set: &LockSet,
        set: Option<Arc<LimitSet>>,
        counters: Vec<(CounterKey, LimitCounter)>,
        mut due: BTreeMap<CounterKey, BTreeSet<Deadline>>,
    ) -> Self {
        let mut state = Self::of(set);
        state.counters.extend(lock_set.counters.iter().map(|key| (key.clone(), LoadedEntry::loaded(None))));
        let there = counters.into_iter().map(|(key, counter)| (key, LoadedEntry::loaded(Some(counter))));
        state.counters.extend(there);
        for (key, depth) in &lock_set.counted_due {
            let window = DeadlineWindow::new(due.remove(key).unwrap_or_default(), *depth);
            state.due.insert(key.clone(), window);
        }
        state
    }

    /// All limits.
    pub(super) fn set(&self) -> Result<&LimitSet, NotLoaded> {
        self.set.as_deref().ok_or(NotLoaded(Resource::Limits))
    }

    /// A counter.
    pub(super) fn counter(&self, key: &CounterKey) -> Result<LimitCounter, NotLoaded> {
        let entry = self.counters.get(key).ok_or_else(|| NotLoaded(Resource::Counter(key.clone())))?;
        Ok(entry.now().copied().unwrap_or_default())
    }

    /// The loaded deadlines of the reservations that a counter counts.
    pub(crate) fn deadlines(&self, key: &CounterKey) -> Option<&DeadlineWindow> {
        self.due.get(key)
    }

    /// The counters whose loaded deadlines have one of this reservation.
    pub(crate) fn counters_showing(&self, id: ReservationId) -> impl Iterator<Item = &CounterKey> {
        self.due.iter().filter(move |(_, window)| window.shows(&id)).map(|(key, _)| key)
    }

    /// The earliest deadline of the reservations that a counter counts.
    pub(super) fn earliest(&self, key: &CounterKey) -> Result<Option<Deadline>, NotLoaded> {
        let earliest = self.due.get(key).and_then(|window| window.earliest().ok());
        earliest.ok_or_else(|| NotLoaded(Resource::CountedDue(key.clone())))
    }

    /// Sets a limit.
    pub(super) fn put(&mut self, limit: &Limit) {
        Arc::make_mut(self.set.get_or_insert_default()).put(limit.clone());
        self.changed.insert(limit.id.clone());
    }

    /// Sets the counters that a change of a reservation moved.
    pub(super) fn move_counters(&mut self, effects: Option<&LimitEffects>) {
        for (key, counter) in effects.into_iter().flat_map(|effects| &effects.counters) {
            let entry = self.counters.entry(key.clone()).or_insert_with(|| LoadedEntry::loaded(None));
            entry.after = Some(*counter);
        }
    }

    /// Moves the deadlines of a reservation that was changed.
    pub(super) fn move_deadline(&mut self, before: Option<&Hold>, after: &Hold) {
        let deadline = |hold: &Hold, key: &CounterKey| {
            let is_counted = counters(hold).any(|counted| counted == key);
            (hold.status == Status::Active && is_counted).then_some((hold.expires_at, hold.id))
        };
        for (key, window) in &mut self.due {
            window.replace(before.and_then(|hold| deadline(hold, key)), deadline(after, key));
        }
    }

    /// The changes to write, with those of the given reservations in the queues of their counters.
    pub(super) fn changes<'a>(
        &'a self,
        holds: impl Iterator<Item = &'a LoadedEntry<Hold>>,
    ) -> LimitChanges<'a> {
        let mut changes = LimitChanges::default();
        changes.set.extend(self.changed.iter().filter_map(|id| self.set.as_ref()?.get(id)));
        for (key, LoadedEntry { before, after, .. }) in &self.counters {
            let Some(counter) = *after else { continue };
            let row = CounterRow { key, counter };
            // All buyers need the counter that they share again soon.
            let stays = counter != LimitCounter::default() || key.subject == Subject::Everyone;
            match before {
                None if counter != LimitCounter::default() => changes.new_counters.push(row),
                Some(before) if stays && *before != counter => changes.changed_counters.push(row),
                Some(_) if !stays => changes.gone_counters.push(key),
                None | Some(_) => {}
            }
        }
        for LoadedEntry { before, after, .. } in holds {
            let Some(after) = after else { continue };
            let before = queued(before.as_ref());
            let after = queued(Some(after));
            changes.gone_holds.extend(before.difference(&after));
            changes.new_holds.extend(after.difference(&before));
        }
        changes.gone_holds.sort_unstable();
        changes.new_holds.sort_unstable();
        changes
    }
}

/// The counters that count units of a reservation.
fn counters(hold: &Hold) -> impl Iterator<Item = &CounterKey> {
    hold.lines.iter().flat_map(|line| &line.details().counted).map(|count| &count.key)
}

/// The rows of a reservation in the queues of its counters: one for each of them while it is active.
pub(crate) fn queued(hold: Option<&Hold>) -> BTreeSet<CountedHoldRow<'_>> {
    let active = hold.into_iter().filter(|hold| hold.status == Status::Active);
    let rows = |hold| counters(hold).map(|key| CountedHoldRow { key, deadline: (hold.expires_at, hold.id) });
    active.flat_map(rows).collect()
}
