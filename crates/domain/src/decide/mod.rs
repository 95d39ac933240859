//! The rules. Each command's own are in a file of theirs; what all share is here.

mod footprint;
mod hold;
mod reserve;
mod stock;
mod units;

use crate::bug;
use crate::command::{Command, Envelope, GeneratedIds, IdempotencyKey, Origin};
use crate::event::{Event, HoldChange, KeyRecord, KeyTarget, Transition};
use crate::id::EventId;
use crate::item::Mode;
use crate::limits::{EXPIRED_LINES_PER_BATCH, EXPIRIES_PER_BATCH, HoldLimits};
use crate::outcome::{Outcome, Reply};
use crate::rejection::Rejection;
use crate::state::{NotLoaded, State};
use crate::time::Instant;
use alloc::vec::Vec;

pub use footprint::footprint;

/// What a batch of commands did, to be committed at once.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// What happened, in order.
    pub events: Vec<Event>,
    /// The keys that were used.
    pub keys: Vec<KeyRecord>,
    expired: u32,
    lines: u32,
    expired_lines: u32,
}

impl Effects {
    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.keys.is_empty()
    }

    /// Lines of the holds in `events`, and units with ids: with their number, what tells how large a batch has become.
    pub fn lines(&self) -> u32 {
        self.lines
    }
}

/// Why a command could not be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecideError {
    /// The state lacks something: load it and run the batch again.
    NotLoaded(NotLoaded),
    /// The state contradicts itself. Nothing may be committed on top of it.
    InvariantViolated(&'static str),
}

impl From<NotLoaded> for DecideError {
    fn from(missing: NotLoaded) -> Self {
        Self::NotLoaded(missing)
    }
}

/// Decides one command.
///
/// The command's events are applied to `state` as they come, so that the next command of the batch sees them, and
/// are added to `effects`. After a [`DecideError`] both may hold half of a command and have to be thrown away.
///
/// `now` is the store's clock; where an item was decided on at a later instant, that instant counts instead.
pub fn decide<S: State>(
    state: &mut S,
    rules: &HoldLimits,
    envelope: &Envelope,
    now: Instant,
    effects: &mut Effects,
) -> Result<Outcome, DecideError> {
    let key = envelope.key_in_use();
    if let Some(known) = known_key(state, key)?.filter(|_| !bug!("a-replay-acts-again")) {
        return Ok(known);
    }
    let mut context = CommandContext {
        state,
        rules,
        effects,
        fresh: envelope.fresh,
        origin: &envelope.origin,
        key: envelope.key,
    };
    match &envelope.command {
        Command::Reserve(reserve) => reserve::reserve(&mut context, reserve, now),
        Command::Confirm(confirm) => hold::confirm(&mut context, confirm, now),
        Command::Release(release) => hold::release(&mut context, release, now),
        Command::Extend(extend) => hold::extend(&mut context, extend, now),
        Command::Return(returned) => hold::return_units(&mut context, returned, now),
        Command::SetStock(set) => stock::set(&mut context, set, now),
        Command::AdjustStock(adjust) => stock::adjust(&mut context, adjust, now),
        Command::AddUnits(add) => units::add(&mut context, add, now),
        Command::RetireUnit(retire) => units::retire(&mut context, retire, now),
        Command::SetSale(set) => stock::set_sale(&mut context, set, now),
        Command::Sweep => hold::sweep(&mut context, now),
    }
}

/// A key that was used before is answered before any rule is asked.
fn known_key<S: State>(state: &S, key: Option<IdempotencyKey>) -> Result<Option<Outcome>, DecideError> {
    let Some(key) = key else { return Ok(None) };
    let Some(record) = state.key(key.hash)? else { return Ok(None) };
    if record.fingerprint != key.fingerprint && !bug!("fingerprints-are-ignored") {
        return Ok(Some(Outcome::Refused(Rejection::IdempotencyMismatch)));
    }
    let reply = match &record.target {
        KeyTarget::Reservation(id) => {
            let hold = state
                .hold(*id)?
                .ok_or(DecideError::InvariantViolated("a key names a reservation that is not there"))?;
            Reply::Reservation(hold.clone())
        }
        KeyTarget::Item(key) => {
            let item = state
                .item(key)?
                .ok_or(DecideError::InvariantViolated("a key names an item that is not there"))?;
            Reply::Item { item: item.clone(), created: false }
        }
    };
    Ok(Some(Outcome::Replayed(reply)))
}

/// One command being decided.
struct CommandContext<'a, S> {
    state: &'a mut S,
    rules: &'a HoldLimits,
    effects: &'a mut Effects,
    fresh: GeneratedIds,
    origin: &'a Origin,
    key: Option<IdempotencyKey>,
}

impl<S: State> CommandContext<'_, S> {
    /// Makes it so: the state takes the event in and the batch keeps it.
    fn emit(&mut self, id: EventId, at: Instant, previous: Option<EventId>, transition: Transition) {
        let event = Event { id, at, origin: self.origin.clone(), previous, transition };
        self.state.apply(&event);
        let weight = u32::try_from(event.transition.weight()).unwrap_or(u32::MAX);
        self.effects.lines = self.effects.lines.saturating_add(weight);
        if matches!(&event.transition, Transition::Hold { change: HoldChange::Expired, .. }) {
            self.effects.expired_lines = self.effects.expired_lines.saturating_add(weight);
        }
        self.effects.events.push(event);
    }

    /// Keeps the command's key, if it has one, with its effect.
    fn remember(&mut self, target: KeyTarget, at: Instant) {
        let Some(IdempotencyKey { hash, fingerprint }) = self.key else { return };
        let record = KeyRecord { hash, fingerprint, target, at };
        self.state.remember(&record);
        if !bug!("a-key-is-not-committed") {
            self.effects.keys.push(record);
        }
    }

    /// Whether this batch may expire one more hold; counts it if so.
    fn may_expire(&mut self) -> bool {
        let Effects { expired, expired_lines, .. } = &*self.effects;
        let may = *expired < EXPIRIES_PER_BATCH && *expired_lines < EXPIRED_LINES_PER_BATCH;
        if may && !bug!("expiries-are-not-counted") {
            self.effects.expired += 1;
        }
        may
    }
}

/// An item's sequence after one more transition. Where units have ids each has a version instead, and there is none.
fn step(mode: Mode, sequence: u64) -> Result<u64, DecideError> {
    match mode {
        Mode::Counted => add(sequence, 1),
        Mode::Units => Ok(sequence),
    }
}

/// A figure that would pass the end of its type. Limits keep real figures far away, so the state must be damaged.
fn add(figure: u64, by: u64) -> Result<u64, DecideError> {
    figure.checked_add(by).ok_or(DecideError::InvariantViolated("a figure passed its end"))
}

/// A figure that would fall below zero: the state must be damaged.
fn sub(figure: u64, by: u64) -> Result<u64, DecideError> {
    figure.checked_sub(by).ok_or(DecideError::InvariantViolated("a figure fell below zero"))
}
