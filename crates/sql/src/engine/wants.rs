//! What a batch may touch. Found before anything is locked; what is read on the way says what to lock and nothing else.

use super::dialect::{Rows, Session, Trouble, Wants};
use super::options::BATCH_COMMANDS;
use super::slice::Slice;
use std::collections::BTreeSet;
use std::sync::Arc;
use stockhold_domain::{
    Command, Envelope, Instant, ItemKey, Missing, Name, ReservationId, footprint, limits,
};

/// Deadlines of an item that are loaded at first: enough to say when a refused caller should look again.
const SHALLOW: usize = 1;
/// Deadlines that are loaded once the first was not enough: a batch can't use up more, since each of them goes by an
/// expiry or by a command.
const DEEP: usize = limits::EXPIRIES_PER_BATCH as usize + BATCH_COMMANDS + 1;

/// How far ahead of the last attempt's clock holds are brought that will fall due: several times what an attempt takes.
/// Doubled each time that it was not enough.
const LOOK_AHEAD_MICROS: i64 = 250_000;
/// Most doublings: a minute.
const LONGEST_LOOK: u32 = 8;

/// A command with the items of the reservation that it names, as far as they are known. A reservation's items never change.
#[derive(Debug)]
pub(super) struct Asked {
    /// The command.
    pub(super) envelope: Box<Envelope>,
    /// The reservation's items; none when there is no such reservation, `None` when it is not known.
    pub(super) items: Option<Arc<[ItemKey]>>,
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
    names: BTreeSet<Name>,
    /// Items whose earliest deadline matters.
    shallow: BTreeSet<ItemKey>,
    /// Items of which holds have to be expired, or may have to be.
    deep: BTreeSet<ItemKey>,
    /// What the clock showed at the last attempt.
    now: Option<Instant>,
    /// How often more had fallen due than was loaded.
    surprises: u32,
}

impl Plan {
    /// Items that fell short lately: what falls due of them will be asked for.
    pub(super) fn expect(&mut self, short: impl Iterator<Item = ItemKey>) {
        self.shallow.extend(short);
    }

    /// Takes in what the rules lacked. An error when it had been loaded, and would be missing for ever.
    pub(super) fn learn(&mut self, missing: &Missing, slice: &Slice, now: Instant) -> Result<(), Trouble> {
        self.now = Some(now);
        let mut new = match &missing.0 {
            Name::Due(key) => {
                let seen = slice.due.contains_key(key);
                if seen { self.deep.insert(key.clone()) } else { self.shallow.insert(key.clone()) }
            }
            name => self.names.insert(name.clone()),
        };
        if let Name::Hold(id) = missing.0 {
            self.surprises += 1;
            for (key, window) in &slice.due {
                new |= window.shows(id) && self.deep.insert(key.clone());
            }
        }
        if new { Ok(()) } else { Err(Trouble::Alarm(format!("loaded, and still missing: {:?}", missing.0))) }
    }

    /// Takes in what a command turns out to name. Whether any of it was new.
    pub(super) fn extend(&mut self, names: Vec<Name>, now: Instant) -> bool {
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
        self.shallow.iter().chain(&self.deep)
    }
}

/// What one attempt locks and loads.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Of each command, in the batch's order.
    pub(super) of_command: Vec<Vec<Name>>,
    /// Of all.
    pub(super) wants: Wants,
}

impl Needs {
    /// What commands name themselves, and what the plan adds.
    fn new(batch: &[&Asked], plan: &Plan) -> Self {
        let mut needs = Self::default();
        let nothing = Slice::default();
        for asked in batch {
            let mut names = Vec::new();
            footprint(&nothing, &asked.envelope, &mut names);
            names.extend(asked.items.iter().flat_map(|items| items.iter().cloned()).map(Name::Item));
            needs.wants.sets_pauses |= matches!(asked.envelope.command, Command::SetSale(_));
            for name in &names {
                needs.add(name);
            }
            needs.of_command.push(names);
        }
        for name in &plan.names {
            needs.add(name);
        }
        let depths =
            plan.shallow.iter().map(|key| (key, SHALLOW)).chain(plan.deep.iter().map(|key| (key, DEEP)));
        for (key, depth) in depths {
            needs.wants.items.insert(key.clone());
            needs.wants.due.insert(key.clone(), depth);
        }
        needs
    }

    fn add(&mut self, name: &Name) {
        let wants = &mut self.wants;
        match name {
            Name::Pause(location) => {
                wants.pauses.insert(Slice::pause_key(location.as_ref()));
            }
            Name::Item(key) => {
                wants.items.insert(key.clone());
            }
            Name::Hold(id) => {
                wants.holds.insert(*id);
            }
            Name::Key(hash) => {
                wants.keys.insert(*hash);
            }
            Name::AnyDue => wants.any_due = Some(DEEP),
            // Asked for only when stock falls short, which the plan says.
            Name::Due(_) => {}
        }
    }

    /// Adds reservations that were found, with their items.
    fn add_holds(&mut self, rows: &Rows) {
        for hold in &rows.holds {
            self.wants.holds.insert(hold.id);
            self.wants.items.extend(hold.lines.iter().map(|line| line.item.clone()));
        }
    }
}

/// Finds out what to lock. Reads only where a reservation's items are not known or holds may have to be expired.
pub(super) async fn explore<S: Session>(
    session: &mut S,
    batch: &[&Asked],
    plan: &Plan,
) -> Result<Needs, Trouble> {
    let mut needs = Needs::new(batch, plan);
    let named: BTreeSet<_> = batch.iter().filter_map(|asked| named_hold(&asked.envelope.command)).collect();
    let mut unknown: BTreeSet<ReservationId> = needs.wants.holds.difference(&named).copied().collect();
    if let (false, Some(now)) = (plan.deep.is_empty(), plan.now) {
        let due = plan.deep.iter().map(|key| (key.clone(), DEEP)).collect();
        let found = session.read(&Wants { due, ..Wants::default() }).await?;
        let soon = plan.soon(now);
        for deadlines in found.due.values() {
            let fallen = deadlines.iter().take_while(|(due, _)| *due <= soon);
            unknown.extend(fallen.take(limits::EXPIRIES_PER_BATCH as usize).map(|(_, id)| *id));
        }
    }
    if needs.wants.any_due.is_some() {
        let (_, overdue) = session.overdue(limits::EXPIRIES_PER_BATCH as usize).await?;
        unknown.extend(overdue.into_iter().map(|(_, id)| id));
    }
    if !unknown.is_empty() {
        let found = session.read(&Wants { holds: unknown, ..Wants::default() }).await?;
        needs.add_holds(&found);
    }
    Ok(needs)
}
