//! What a batch may touch. Found before anything is locked; what is read on the way says what to lock and nothing else.

use super::dialect::{Rows, Session, Trouble, UnitWants, Wants};
use super::hall::Short;
use super::known::Held;
use super::options::BATCH_COMMANDS;
use super::slice::Slice;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use stockhold_domain::{
    Command, Envelope, Instant, ItemKey, Label, NotLoaded, ReservationId, Resource, Unit, footprint, limits,
};

/// Deadlines of an item that are loaded at first: enough to say when a refused caller should look again.
const SHALLOW: usize = 1;
/// Holds of an item that a batch expires at most.
const EXPIRIES: usize = limits::EXPIRIES_PER_BATCH as usize;
/// Deadlines that are loaded once the first was not enough: a batch can't use up more, since each of them goes by an
/// expiry or by a command.
const DEEP: usize = EXPIRIES + BATCH_COMMANDS + 1;

/// How far ahead of the last attempt's clock holds are brought that will fall due: several times what an attempt takes.
/// Doubled each time that it was not enough.
const LOOK_AHEAD_MICROS: i64 = 250_000;
/// Most doublings: a minute.
const LONGEST_LOOK: u32 = 8;

/// How often free units that others have locked are passed by before they are waited for, by their ids.
const PASSED_BY: u32 = 2;
/// How often the best available are planned again because somebody took one of them first. After that all that are free are
/// locked by their ids before they are planned over.
const RACES: u32 = 3;
/// All free units of an item.
const ALL: usize = 1_000_001;
const _: () = assert!(ALL as u64 > limits::POOL_UNITS);

/// A command with what the reservation that it names is about, as far as it is known.
#[derive(Debug)]
pub(super) struct Asked {
    /// The command.
    pub(super) envelope: Box<Envelope>,
    /// What the reservation is about; nothing when there is no such reservation, `None` when it is not known.
    pub(super) held: Option<Held>,
    /// Items that it reserves of and that are known to have units with ids.
    pub(super) halls: HashSet<ItemKey>,
    /// Commands with the same number are decided in their order, come what may.
    pub(super) sequence: Option<u64>,
}

/// The reservation that a command names.
pub(super) fn named_hold(command: &Command) -> Option<ReservationId> {
    match command {
        Command::Confirm(confirm) => Some(confirm.id),
        Command::Release(release) => Some(release.id),
        Command::Extend(extend) => Some(extend.id),
        Command::Return(returned) => Some(returned.id),
        _ => None,
    }
}

/// What attempts at a batch have learnt for the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    names: BTreeSet<Resource>,
    /// Items whose earliest deadline matters.
    shallow: BTreeSet<ItemKey>,
    /// Items of which holds have to be expired, or may have to be: at most so many.
    deep: BTreeMap<ItemKey, usize>,
    /// What the clock showed at the last attempt.
    now: Option<Instant>,
    /// How often more had fallen due than was loaded.
    surprises: u32,
    /// Items whose units have ids.
    halls: BTreeSet<ItemKey>,
    /// Those of them whose own rows have to be locked.
    guarded: BTreeSet<ItemKey>,
    /// How many free units of them are needed at least.
    free: BTreeMap<ItemKey, usize>,
    /// How many of the first free ones are locked by their ids, so that whoever else has locked them is waited for.
    awaited: BTreeMap<ItemKey, usize>,
    /// How often free ones that others have locked were passed by.
    passed_by: u32,
    /// Seat maps that a plan was made over,
    pub(super) maps: BTreeMap<ItemKey, Arc<[Unit]>>,
    /// and what it named, which is now to be locked.
    planned: BTreeSet<(ItemKey, Label)>,
    /// How often somebody took something of it first.
    races: u32,
}

impl Plan {
    /// Items that fell short lately: what falls due of them will be asked for.
    pub(super) fn expect(&mut self, short: impl Iterator<Item = ItemKey>) {
        self.shallow.extend(short);
    }

    /// Items whose units are known to have ids.
    pub(super) fn expect_halls(&mut self, halls: impl Iterator<Item = ItemKey>) {
        self.halls.extend(halls);
    }

    /// Items whose units have ids.
    pub(super) fn halls(&self) -> impl Iterator<Item = &ItemKey> {
        self.halls.iter()
    }

    /// Has the rows of items locked that are else only read. Whether any of it was new.
    pub(super) fn guard(&mut self, items: impl Iterator<Item = ItemKey>) -> bool {
        let before = self.guarded.len();
        self.guarded.extend(items);
        self.guarded.len() > before
    }

    /// Has deadlines loaded of items that fall short of so many units, and the holds of those of them that are due: all at once, where
    /// the rules would ask for one item at a time. Whether any of it was new.
    pub(super) fn foresee(&mut self, short: Vec<(&ItemKey, u64)>, slice: &Slice, now: Instant) -> bool {
        let mut new = false;
        for (key, units) in short {
            new |= match slice.due.get(key) {
                None => self.shallow.insert(key.clone()),
                // Each of them brings one at least.
                Some(window) if window.is_due(now) && !self.deep.contains_key(key) => {
                    self.deepen(key, usize::try_from(units).unwrap_or(EXPIRIES).min(EXPIRIES))
                }
                Some(_) => false,
            };
        }
        new
    }

    /// Has so many of an item's due holds loaded. Whether those are more than before.
    fn deepen(&mut self, key: &ItemKey, holds: usize) -> bool {
        let most = self.deep.entry(key.clone()).or_default();
        let more = *most < holds;
        *most = holds.max(*most);
        more
    }

    /// What was planned over seat maps is to be locked, and judged again.
    pub(super) fn lock_what_was_planned(&mut self, slice: &Slice) -> bool {
        let mut any = false;
        for (key, id) in slice.unlocked() {
            any = true;
            self.planned.insert((key.clone(), id.clone()));
            if let Some(map) = slice.halls.get(key).and_then(|hall| hall.map.as_ref()) {
                self.maps.insert(key.clone(), Arc::clone(map));
            }
        }
        any
    }

    /// Seat maps that no longer hold are read again, and nobody wants what was planned over them. Whether there are any.
    pub(super) fn lose(&mut self, slice: &Slice) -> bool {
        let stale: Vec<ItemKey> = slice.stale().filter(|key| self.maps.contains_key(key)).cloned().collect();
        if stale.is_empty() {
            return false;
        }
        self.races += 1;
        for key in stale {
            self.maps.remove(&key);
            self.planned.retain(|(of, _)| *of != key);
            if self.races >= RACES {
                self.free.insert(key.clone(), ALL);
                self.awaited.insert(key, ALL);
            }
        }
        true
    }

    /// Takes in what the rules lacked. An error when it had been loaded, and would be missing for ever.
    pub(super) fn learn(&mut self, missing: &NotLoaded, slice: &Slice, now: Instant) -> Result<(), Trouble> {
        self.now = Some(now);
        let mut new = match &missing.0 {
            Resource::Due(key) => {
                let seen = slice.due.contains_key(key);
                if seen { self.deepen(key, EXPIRIES) } else { self.shallow.insert(key.clone()) }
            }
            Resource::FreeUnits(key, most) => {
                self.need_free(key, *most, slice);
                true
            }
            name => self.names.insert(name.clone()),
        };
        if let Resource::Hold(id) = missing.0 {
            self.surprises += 1;
            for (key, window) in &slice.due {
                new |= window.shows(id) && self.deepen(key, EXPIRIES);
            }
        }
        if new { Ok(()) } else { Err(Trouble::Alarm(format!("loaded, and still missing: {:?}", missing.0))) }
    }

    fn need_free(&mut self, key: &ItemKey, most: u32, slice: &Slice) {
        let most = usize::try_from(most).unwrap_or(ALL);
        let asked = slice.halls.get(key).map_or(0, |hall| hall.asked);
        match slice.shortage(key, u32::try_from(most).unwrap_or(u32::MAX)) {
            Some(Short::Elsewhere) => {
                self.passed_by += 1;
                if self.passed_by > PASSED_BY {
                    let awaited = self.awaited.entry(key.clone()).or_default();
                    *awaited = (*awaited).max(asked);
                }
            }
            Some(Short::Horizon) | None => {
                let more = asked.saturating_mul(2).saturating_add(most).min(ALL);
                let free = self.free.entry(key.clone()).or_default();
                *free = (*free).max(more);
            }
        }
    }

    /// Takes in what a command turns out to name. Whether any of it was new.
    pub(super) fn extend(&mut self, names: Vec<Resource>, now: Instant) -> bool {
        self.now = Some(now);
        let before = self.names.len();
        self.names.extend(names);
        self.names.len() > before
    }

    /// What falls due by then is brought as well: more does while the locks are waited for.
    fn soon(&self, now: Instant) -> Instant {
        let ahead = LOOK_AHEAD_MICROS << self.surprises.min(LONGEST_LOOK);
        Instant::from_micros(now.micros().saturating_add(ahead))
    }

    /// Items that fell short.
    pub(super) fn short(&self) -> impl Iterator<Item = &ItemKey> {
        self.shallow.iter().chain(self.deep.keys())
    }
}

/// What one attempt locks and loads.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Of each command, in the batch's order.
    pub(super) of_command: Vec<Vec<Resource>>,
    /// Of all.
    pub(super) wants: Wants,
}

impl Needs {
    /// What commands name themselves, and what the plan adds.
    fn new(batch: &[&Asked], plan: &Plan) -> Self {
        let mut needs = Self::default();
        let seen = Slice::of_halls(plan.halls.iter());
        for asked in batch {
            let mut names = Vec::new();
            footprint(&seen, &asked.envelope, &mut names);
            if let Some(held) = &asked.held {
                names.extend(held.items.iter().cloned().map(Resource::Item));
                for (key, units) in &*held.units {
                    names.extend(units.all().iter().map(|unit| Resource::Unit(key.clone(), unit.id.clone())));
                }
            }
            let command = &asked.envelope.command;
            needs.wants.sets_pauses |= matches!(command, Command::SetSale(_));
            let changes_items = matches!(
                command,
                Command::SetStock(_)
                    | Command::AdjustStock(_)
                    | Command::AddUnits(_)
                    | Command::RetireUnit(_)
                    | Command::SetSale(_)
            );
            for name in &names {
                match name {
                    Resource::Item(key) if changes_items => {
                        needs.wants.items.insert(key.clone());
                    }
                    name => needs.add(name, plan),
                }
            }
            needs.of_command.push(names);
        }
        for name in &plan.names {
            needs.add(name, plan);
        }
        for (key, id) in &plan.planned {
            needs.add_unit(key, id);
        }
        let depths =
            plan.shallow.iter().map(|key| (key, SHALLOW)).chain(plan.deep.keys().map(|key| (key, DEEP)));
        for (key, depth) in depths {
            needs.add_item(key, plan);
            needs.wants.due.insert(key.clone(), depth);
        }
        needs
    }

    /// An item. Where units have ids the units are locked, and not the item.
    fn add_item(&mut self, key: &ItemKey, plan: &Plan) {
        let only_seen = plan.halls.contains(key) && !plan.guarded.contains(key);
        let items = if only_seen { &mut self.wants.seen } else { &mut self.wants.items };
        items.insert(key.clone());
    }

    fn add_unit(&mut self, key: &ItemKey, id: &Label) {
        self.wants.units.entry(key.clone()).or_default().named.insert(id.clone());
    }

    fn add(&mut self, name: &Resource, plan: &Plan) {
        match name {
            Resource::Item(key) => self.add_item(key, plan),
            Resource::Unit(key, id) => self.add_unit(key, id),
            // Each command has its own.
            Resource::FreeUnits(key, most) => {
                let free = &mut self.wants.units.entry(key.clone()).or_default().free;
                *free = free.saturating_add(usize::try_from(*most).unwrap_or(ALL)).min(ALL);
            }
            Resource::SeatMap(key) => {
                self.wants.units.entry(key.clone()).or_default().map = !plan.maps.contains_key(key);
            }
            Resource::LastUnit(key) => self.wants.units.entry(key.clone()).or_default().last = true,
            Resource::Pause(location) => {
                self.wants.pauses.insert(Slice::pause_key(location.as_ref()));
            }
            Resource::Hold(id) => {
                self.wants.holds.insert(*id);
            }
            Resource::Key(hash) => {
                self.wants.keys.insert(*hash);
            }
            Resource::AnyDue => self.wants.any_due = Some(DEEP),
            // Asked for only when stock falls short, which the plan says.
            Resource::Due(_) => {}
        }
    }

    /// Adds reservations that were found, with their items and units.
    fn add_holds(&mut self, rows: &Rows, plan: &mut Plan) {
        for hold in &rows.holds {
            self.wants.holds.insert(hold.id);
            for line in &*hold.lines {
                if line.units.is_some() {
                    plan.halls.insert(line.item.clone());
                }
                self.add_item(&line.item, plan);
                for unit in line.units() {
                    self.add_unit(&line.item, &unit.id);
                }
            }
        }
    }

    /// What follows from all of it.
    fn complete(&mut self, plan: &Plan) {
        let wants = &mut self.wants;
        wants.seen.retain(|key| !wants.items.contains(key));
        for key in wants.items.iter().chain(&wants.seen).filter(|key| plan.halls.contains(*key)) {
            wants.units.entry(key.clone()).or_default();
        }
        for (key, units) in &mut wants.units {
            units.free = units.free.max(plan.free.get(key).copied().unwrap_or(0));
        }
    }
}

/// Finds out what to lock. Reads only where a reservation's items are not known or holds may have to be expired.
pub(super) async fn explore<S: Session>(
    session: &mut S,
    batch: &[&Asked],
    plan: &mut Plan,
) -> Result<Needs, Trouble> {
    plan.halls.extend(
        batch.iter().flat_map(|asked| &asked.held).flat_map(|held| &*held.units).map(|(key, _)| key.clone()),
    );
    let mut needs = Needs::new(batch, plan);
    let named: BTreeSet<_> = batch.iter().filter_map(|asked| named_hold(&asked.envelope.command)).collect();
    let mut unknown: BTreeSet<ReservationId> = needs.wants.holds.difference(&named).copied().collect();
    if let (false, Some(now)) = (plan.deep.is_empty(), plan.now) {
        let due = plan.deep.keys().map(|key| (key.clone(), DEEP)).collect();
        let found = session.read(&Wants { due, ..Wants::default() }).await?;
        let soon = plan.soon(now);
        for (key, deadlines) in &found.due {
            let fallen = deadlines.iter().take_while(|(due, _)| *due <= soon);
            let most = plan.deep.get(key).copied().unwrap_or(EXPIRIES);
            unknown.extend(fallen.take(most).map(|(_, id)| *id));
        }
    }
    if needs.wants.any_due.is_some() {
        let (_, overdue) = session.overdue(EXPIRIES).await?;
        unknown.extend(overdue.into_iter().map(|(_, id)| id));
    }
    // What others have locked may come back, and is waited for in the order that all units are.
    let units: BTreeMap<_, _> = plan
        .awaited
        .iter()
        .map(|(key, free)| (key.clone(), UnitWants { free: *free, ..UnitWants::default() }))
        .collect();
    if !unknown.is_empty() || !units.is_empty() {
        let found = session.read(&Wants { holds: unknown, units, ..Wants::default() }).await?;
        needs.add_holds(&found, plan);
        for (key, rows) in &found.units {
            rows.free.iter().for_each(|unit| needs.add_unit(key, &unit.id));
        }
    }
    needs.complete(plan);
    Ok(needs)
}

#[cfg(test)]
mod tests {
    use super::super::dialect::UnitRows;
    use super::*;
    use stockhold_domain::{Place, UnitStatus};

    fn label(text: &str) -> Label {
        Label::new(text).unwrap()
    }

    fn seat(id: &str, version: u64) -> Unit {
        let place = Place { position: 1, ..Place::default() };
        Unit { id: label(id), place, status: UnitStatus::Available, version }
    }

    /// What an attempt sees that wants this of a hall and reads that.
    fn seen(hall: &ItemKey, wants: UnitWants, rows: UnitRows, plan: &Plan) -> Slice {
        let wants = Wants { units: [(hall.clone(), wants)].into(), ..Wants::default() };
        let rows = Rows { units: [(hall.clone(), rows)].into(), ..Rows::default() };
        Slice::with_maps(&wants, rows, &plan.maps)
    }

    #[test]
    fn what_was_planned_is_locked_until_its_map_is_lost() {
        let (hall, mut plan) = (ItemKey::new(&label("x"), &label("hall")), Plan::default());
        let wants = UnitWants { map: true, ..UnitWants::default() };
        let rows = UnitRows { map: vec![seat("A1", 1), seat("A2", 1)], ..UnitRows::default() };
        let mut slice = seen(&hall, wants, rows, &plan);
        let (now, holder) = (Instant::from_micros(0), ReservationId::from_u128(1));
        slice.halls.get_mut(&hall).unwrap().set(&label("A1"), UnitStatus::Held(holder), 2, now);
        assert!(plan.lock_what_was_planned(&slice));
        let named = Needs::new(&[], &plan).wants.units.remove(&hall).unwrap();
        assert_eq!(named.named, [label("A1")].into());
        let rows = UnitRows { named: vec![seat("A1", 2)], ..UnitRows::default() };
        assert!(plan.lose(&seen(&hall, named, rows, &plan)));
        let wants = Needs::new(&[], &plan).wants;
        assert!(wants.units.get(&hall).is_none_or(|units| units.named.is_empty()), "{wants:?}");
    }
}
