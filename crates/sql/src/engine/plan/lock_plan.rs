//! Plans the lock set of a batch before anything is locked. Reads that are made for the plan are without locks: they only say what
//! to lock, and no answer is made from them.

use super::command::PlannedCommand;
use super::retry_plan::{ALL, DEEP, EXPIRIES, RELEASES, RetryPlan, SHALLOW};
use crate::engine::db_error::DbError;
use crate::engine::dialect::{LockSet, Rows, Session, UnitLockSet};
use crate::engine::state::LoadedState;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{CommandKind, CounterKey, ItemKey, Label, ReservationId, Resource, footprint};

/// The lock set of one attempt.
#[derive(Debug, Default)]
pub(crate) struct BatchLockPlan {
    /// The resources that each command names, in the order of the batch.
    pub(crate) of_command: Vec<Vec<Resource>>,
    /// The lock set of all commands.
    pub(crate) lock_set: LockSet,
}

impl BatchLockPlan {
    /// The footprints of the commands, and what the retry plan adds.
    fn new(batch: &[&PlannedCommand], plan: &RetryPlan) -> Self {
        let mut lock_plan = Self::default();
        let seen = LoadedState::for_planning(plan.unit_items.iter(), plan.limits.clone());
        for planned in batch {
            let mut names = Vec::new();
            footprint(&seen, &planned.envelope, &mut names);
            if let Some(refs) = &planned.refs {
                names.extend(refs.items.iter().cloned().map(Resource::Item));
                for (key, units) in &*refs.units {
                    names.extend(units.all().iter().map(|unit| Resource::Unit(key.clone(), unit.id.clone())));
                }
                names.extend((!refs.counters.is_empty()).then_some(Resource::Limits));
                names.extend(refs.counters.iter().cloned().map(Resource::Counter));
            }
            let command = &planned.envelope.command;
            lock_plan.lock_set.sets_pauses |= command.kind() == CommandKind::SetSale;
            lock_plan.lock_set.sets_limits |=
                matches!(command.kind(), CommandKind::SetLimit | CommandKind::DeleteLimit);
            // The row of the item is locked even if its units have ids.
            let changes_item = command.changed_item().is_some();
            for name in &names {
                match name {
                    Resource::Item(key) if changes_item => {
                        lock_plan.lock_set.items.insert(key.clone());
                    }
                    name => lock_plan.add(name, plan),
                }
            }
            lock_plan.of_command.push(names);
        }
        for name in &plan.names {
            lock_plan.add(name, plan);
        }
        for (key, id) in &plan.planned {
            lock_plan.add_unit(key, id);
        }
        let depths =
            plan.shallow.iter().map(|key| (key, SHALLOW)).chain(plan.deep.keys().map(|key| (key, DEEP)));
        for (key, depth) in depths {
            lock_plan.add_item(key, plan);
            lock_plan.lock_set.due.insert(key.clone(), depth);
        }
        let reached = lock_plan.lock_set.counters.iter().filter(|key| plan.reached.contains(*key));
        lock_plan.lock_set.counted_due = reached.map(|key| (key.clone(), SHALLOW)).collect();
        for (key, depth) in &plan.counted_due {
            lock_plan.add(&Resource::Counter(key.clone()), plan);
            lock_plan.lock_set.counted_due.insert(key.clone(), *depth);
        }
        lock_plan
    }

    /// Adds an item. Where units have ids, the units are locked and the item is only read.
    fn add_item(&mut self, key: &ItemKey, plan: &RetryPlan) {
        let only_seen = plan.unit_items.contains_key(key) && !plan.items_to_lock.contains(key);
        let items = if only_seen { &mut self.lock_set.seen } else { &mut self.lock_set.items };
        items.insert(key.clone());
    }

    fn add_unit(&mut self, key: &ItemKey, id: &Label) {
        self.lock_set.units.entry(key.clone()).or_default().named.insert(id.clone());
    }

    fn add(&mut self, name: &Resource, plan: &RetryPlan) {
        match name {
            Resource::Item(key) => self.add_item(key, plan),
            Resource::Unit(key, id) => self.add_unit(key, id),
            // Each command needs its own free units.
            Resource::FreeUnits(key, pool, most) => {
                let free = &mut self.lock_set.units.entry(key.clone()).or_default().free;
                let free = free.entry(pool.clone()).or_default();
                *free = free.saturating_add(usize::try_from(*most).unwrap_or(ALL)).min(ALL);
            }
            Resource::SeatMap(key) => {
                self.lock_set.units.entry(key.clone()).or_default().map = !plan.maps.contains_key(key);
            }
            Resource::LastUnit(key) => self.lock_set.units.entry(key.clone()).or_default().last = true,
            Resource::Pause(location) => {
                self.lock_set.pauses.insert(LoadedState::pause_key(location.as_ref()));
            }
            Resource::Hold(id) => {
                self.lock_set.holds.insert(*id);
            }
            Resource::Key(hash) => {
                self.lock_set.keys.insert(*hash);
            }
            Resource::Record(key) => {
                self.lock_set.records.insert(key.clone());
            }
            Resource::AnyDue => self.lock_set.any_due = Some(DEEP),
            Resource::AnyRelease => self.lock_set.any_release = Some(RELEASES),
            Resource::Limits => self.lock_set.limits = true,
            Resource::Counter(key) => {
                self.lock_set.counters.insert(key.clone());
            }
            // Deadlines are loaded only if stock is short or a limit is reached, as the retry plan says.
            Resource::Due(_) | Resource::CountedDue(_) => {}
        }
    }

    /// Adds reservations that were read, with their items and units.
    fn add_holds(&mut self, rows: &Rows, plan: &mut RetryPlan) {
        for hold in &rows.holds {
            self.lock_set.holds.insert(hold.id);
            for line in &*hold.lines {
                if line.units.is_some() {
                    plan.unit_items.entry(line.item.clone()).or_default();
                }
                self.add_item(&line.item, plan);
                for unit in line.units() {
                    self.add_unit(&line.item, &unit.id);
                }
                for count in &line.details().counted {
                    self.lock_set.limits = true;
                    self.lock_set.counters.insert(count.key.clone());
                }
            }
        }
    }

    /// Derives the rest of the lock set from what was added.
    fn complete(&mut self, plan: &RetryPlan) {
        let lock_set = &mut self.lock_set;
        lock_set.seen.retain(|key| !lock_set.items.contains(key));
        for key in
            lock_set.items.iter().chain(&lock_set.seen).filter(|key| plan.unit_items.contains_key(*key))
        {
            lock_set.units.entry(key.clone()).or_default();
        }
        for ((key, pool), most) in &plan.free {
            if let Some(units) = lock_set.units.get_mut(key) {
                let free = units.free.entry(pool.clone()).or_default();
                *free = (*free).max(*most);
            }
        }
    }
}

/// Plans the lock set. Reads from the database only if the items of a reservation are unknown or reservations may have to be
/// expired.
pub(crate) async fn plan_locks<S: Session>(
    session: &mut S,
    batch: &[&PlannedCommand],
    plan: &mut RetryPlan,
) -> Result<BatchLockPlan, DbError> {
    let of_refs = batch.iter().flat_map(|planned| &planned.refs).flat_map(|refs| &*refs.units);
    for (key, _) in of_refs {
        plan.unit_items.entry(key.clone()).or_default();
    }
    plan.limits = Some(session.known_limits());
    let mut lock_plan = BatchLockPlan::new(batch, plan);
    let named: BTreeSet<_> =
        batch.iter().filter_map(|planned| planned.envelope.command.reservation()).collect();
    let mut unknown: BTreeSet<ReservationId> = lock_plan.lock_set.holds.difference(&named).copied().collect();
    let counted_due: BTreeMap<CounterKey, usize> = plan.deep_counters().collect();
    if let Some(now) = plan.now.filter(|_| !plan.deep.is_empty() || !counted_due.is_empty()) {
        let due = plan.deep.keys().map(|key| (key.clone(), DEEP)).collect();
        let found = session.read(&LockSet { counted_due, due, ..LockSet::default() }).await?;
        let soon = plan.soon(now);
        for deadlines in found.counted_due.values() {
            let fallen = deadlines.iter().take_while(|(due, _)| *due <= soon);
            unknown.extend(fallen.take(EXPIRIES).map(|(_, id)| *id));
        }
        for (key, deadlines) in &found.due {
            let fallen = deadlines.iter().take_while(|(due, _)| *due <= soon);
            let most = plan.deep.get(key).copied().unwrap_or(EXPIRIES);
            unknown.extend(fallen.take(most).map(|(_, id)| *id));
        }
    }
    if lock_plan.lock_set.any_due.is_some() {
        let (_, overdue) = session.overdue(None, EXPIRIES).await?;
        unknown.extend(overdue.into_iter().map(|(_, id)| id));
    }
    if lock_plan.lock_set.any_release.is_some() {
        let (now, releases) = session.releases(None, EXPIRIES).await?;
        for (_, key) in releases.iter().take_while(|(due, _)| *due <= now) {
            lock_plan.add_item(key, plan);
        }
    }
    // Units that others have locked may become free again. They are locked by id, in the order in which all units are locked.
    let mut units: BTreeMap<ItemKey, UnitLockSet> = BTreeMap::new();
    for ((key, pool), free) in &plan.awaited {
        units.entry(key.clone()).or_default().free.insert(pool.clone(), *free);
    }
    if !unknown.is_empty() || !units.is_empty() {
        let found = session.read(&LockSet { holds: unknown, units, ..LockSet::default() }).await?;
        lock_plan.add_holds(&found, plan);
        for (key, rows) in &found.units {
            rows.free.iter().for_each(|unit| lock_plan.add_unit(key, &unit.id));
        }
    }
    lock_plan.complete(plan);
    Ok(lock_plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::dialect::UnitRows;
    use stockhold_domain::{Instant, Place, Unit, UnitStatus};

    fn label(text: &str) -> Label {
        Label::new(text).unwrap()
    }

    fn seat(id: &str, version: u64) -> Unit {
        let place = Place { position: 1, ..Place::default() };
        Unit { id: label(id), place, status: UnitStatus::Available, version, pool: None }
    }

    /// What an attempt sees that wants this of a hall and reads that.
    fn seen(unit_item: &ItemKey, lock_set: UnitLockSet, rows: UnitRows, plan: &RetryPlan) -> LoadedState {
        let lock_set = LockSet { units: [(unit_item.clone(), lock_set)].into(), ..LockSet::default() };
        let rows = Rows { units: [(unit_item.clone(), rows)].into(), ..Rows::default() };
        LoadedState::with_seat_maps(&lock_set, rows, &plan.maps)
    }

    #[test]
    fn what_was_planned_is_locked_until_its_map_is_lost() {
        let (unit_item, mut plan) = (ItemKey::new(&label("x"), &label("hall")), RetryPlan::default());
        let lock_set = UnitLockSet { map: true, ..UnitLockSet::default() };
        let rows = UnitRows { map: vec![seat("A1", 1), seat("A2", 1)], ..UnitRows::default() };
        let mut state = seen(&unit_item, lock_set, rows, &plan);
        let (now, holder) = (Instant::from_micros(0), ReservationId::from_u128(1));
        state.unit_items.get_mut(&unit_item).unwrap().set(
            &label("A1"),
            UnitStatus::Held(holder),
            2,
            None,
            now,
        );
        assert!(plan.lock_planned_units(&state));
        let named = BatchLockPlan::new(&[], &plan).lock_set.units.remove(&unit_item).unwrap();
        assert_eq!(named.named, [label("A1")].into());
        let rows = UnitRows { named: vec![seat("A1", 2)], ..UnitRows::default() };
        assert!(plan.drop_stale_seat_maps(&seen(&unit_item, named, rows, &plan)));
        let lock_set = BatchLockPlan::new(&[], &plan).lock_set;
        assert!(lock_set.units.get(&unit_item).is_none_or(|units| units.named.is_empty()), "{lock_set:?}");
    }
}
