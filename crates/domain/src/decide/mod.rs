//! The rules: one file per group of commands. This file holds what all of them share.

mod amend;
mod backorder;
mod charge;
mod checkout;
mod footprint;
mod grants;
mod hold;
mod limit_terms;
mod limits;
mod merge;
mod payment;
mod pools;
mod prices;
mod reacquire;
mod record;
mod refund;
mod reserve;
mod sale;
mod sale_state;
mod sourcing;
mod split;
mod stock;
mod transfer;
mod unit_pools;
mod units;

use crate::access::Access;
use crate::command::{Command, Envelope, GeneratedIds, IdempotencyKey};
use crate::event::{Event, HoldChange, KeyRecord, KeyTarget, Transition};
use crate::hold_limits::HoldLimits;
use crate::id::EventId;
use crate::item::{CounterEffect, Mode, StockCounters};
use crate::label::Label;
use crate::limits::{EXPIRED_LINES_PER_BATCH, EXPIRIES_PER_BATCH, UNPOOLED_PER_BATCH};
use crate::origin::Origin;
use crate::outcome::{Outcome, Reply};
use crate::rejection::Rejection;
use crate::state::{NotLoaded, State};
use crate::time::Instant;
use alloc::vec;
use alloc::vec::Vec;

pub use footprint::footprint;
pub use prices::quote;

/// The effects of a batch of commands. A store commits them at once.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// The events, in order.
    pub events: Vec<Event>,
    /// The keys that were used.
    pub keys: Vec<KeyRecord>,
    expired: u32,
    lines: u32,
    expired_lines: u32,
    unpooled: u32,
}

impl Effects {
    /// Whether there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.keys.is_empty()
    }

    /// Lines and units with ids in `events`. Together with the number of events, this is the size of the batch.
    pub fn lines(&self) -> u32 {
        self.lines
    }
}

/// Why a command could not be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecideError {
    /// The state has not loaded a resource: load it and run the batch again.
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
    if let Some(known) = known_key(state, envelope)? {
        return Ok(known);
    }
    if let Some(refused) = access_denied(state, envelope)? {
        return Ok(refused);
    }
    let mut context = CommandContext {
        state,
        rules,
        effects,
        fresh: envelope.fresh,
        origin: &envelope.origin,
        key: envelope.key_in_use(),
        overridden: Vec::new(),
    };
    match &envelope.command {
        Command::Reserve(reserve) => reserve::reserve(&mut context, reserve, now),
        Command::Confirm(confirm) => hold::confirm(&mut context, confirm, now),
        Command::Release(release) => hold::release(&mut context, release, now),
        Command::Extend(extend) => hold::extend(&mut context, extend, now),
        Command::Amend(amend) => amend::amend(&mut context, amend, now),
        Command::Transfer(transfer) => transfer::transfer(&mut context, transfer, now),
        Command::Split(split) => split::split(&mut context, split, now),
        Command::Merge(merge) => merge::merge(&mut context, merge, now),
        Command::OpenPayment(open) => payment::open_window(&mut context, open, now),
        Command::ClosePayment(close) => payment::close_window(&mut context, close, now),
        Command::StartCheckout(start) => checkout::start(&mut context, start, now),
        Command::AdvancePayment(advance) => charge::advance(&mut context, advance, now),
        Command::Refund(refund) => refund::refund(&mut context, refund, now),
        Command::Fulfil(fulfil) => sale::fulfil(&mut context, fulfil, now),
        Command::Return(returned) => sale::return_units(&mut context, returned, now),
        Command::SetStock(set) => stock::set(&mut context, set, now),
        Command::AdjustStock(adjust) => stock::adjust(&mut context, adjust, now),
        Command::DeleteItem(delete) => stock::delete(&mut context, delete, now),
        Command::AddUnits(add) => units::add(&mut context, add, now),
        Command::RetireUnit(retire) => units::retire(&mut context, retire, now),
        Command::SetSale(set) => stock::set_sale(&mut context, set, now),
        Command::Sweep => hold::sweep(&mut context, now),
        Command::SetRecord(set) => record::set(&mut context, set, now),
        Command::SetLimit(set) => limit_terms::set(&mut context, set, now),
        Command::DeleteLimit(delete) => limit_terms::delete(&mut context, delete, now),
        Command::SetPool(set) => pools::set(&mut context, set, now),
        Command::DeletePool(delete) => pools::delete(&mut context, delete, now),
        Command::SetUnitPool(set) => unit_pools::set(&mut context, set, now),
    }
}

/// Answers a key that was used before, ahead of any rule.
fn known_key<S: State>(state: &S, envelope: &Envelope) -> Result<Option<Outcome>, DecideError> {
    let Some(key) = envelope.key_in_use() else { return Ok(None) };
    let Some(record) = state.key(key.hash)? else { return Ok(None) };
    if record.fingerprint != key.fingerprint {
        if let Some(id) = envelope.command.reservation()
            && state.hold(id)?.is_none()
        {
            return Ok(Some(Outcome::Refused(Rejection::UnknownReservation(id))));
        }
        let refused = access_denied(state, envelope)?;
        return Ok(Some(refused.unwrap_or(Outcome::Refused(Rejection::IdempotencyMismatch))));
    }
    let denied = |denied| Ok(Some(Outcome::Refused(Rejection::AccessDenied { denied, replayed: true })));
    let reply = match &record.target {
        KeyTarget::Reservation(id) => match state.hold(*id)? {
            Some(hold) => match envelope.access.denies_answer(&envelope.command, hold) {
                Some(why) => return denied(why),
                None => Reply::Reservation(hold.clone()),
            },
            // It was archived since.
            None => return Ok(Some(Outcome::Refused(Rejection::UnknownReservation(*id)))),
        },
        // The item may have been created again since.
        KeyTarget::Item(_) if matches!(envelope.command, Command::DeleteItem(_)) => Reply::ItemDeleted,
        KeyTarget::Item(key) => match state.item(key)? {
            Some(item) => match envelope.access.denies_item(item) {
                Some(why) => return denied(why),
                None => Reply::Item { item: item.clone(), created: false },
            },
            // It was deleted since, so there is nothing to show.
            None => return Ok(Some(Outcome::Refused(Rejection::UnknownItem(vec![key.clone()])))),
        },
        KeyTarget::Record(key) => {
            let record = state
                .record(key)?
                .ok_or(DecideError::InvariantViolated("a key refers to a record that does not exist"))?;
            Reply::Record(record.clone())
        }
    };
    Ok(Some(Outcome::Replayed(reply)))
}

/// The refusal of a command that its caller may not give, with the reservations as they are now.
fn access_denied<S: State>(state: &S, envelope: &Envelope) -> Result<Option<Outcome>, DecideError> {
    let Envelope { command, access, .. } = envelope;
    if *access == Access::Unrestricted {
        return Ok(None);
    }
    let mut denied = access.denies_command(command);
    let sources = if let Command::Merge(merge) = command { &*merge.from } else { &[] };
    for id in command.reservation().iter().chain(sources) {
        if denied.is_none()
            && let Some(hold) = state.hold(*id)?
        {
            denied = access.denies_change(command, hold);
        }
    }
    Ok(denied.map(|denied| Outcome::Refused(Rejection::AccessDenied { denied, replayed: false })))
}

/// One command being decided.
struct CommandContext<'a, S> {
    state: &'a mut S,
    rules: &'a HoldLimits,
    effects: &'a mut Effects,
    fresh: GeneratedIds,
    origin: &'a Origin,
    key: Option<IdempotencyKey>,
    /// Limits that are passed by and would refuse the change of a reservation that is emitted next.
    overridden: Vec<Label>,
}

impl<S: State> CommandContext<'_, S> {
    /// Applies an event to the state and adds it to the batch.
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

    /// Records the command's idempotency key, if it has one, in the same batch as its effect.
    fn remember(&mut self, target: KeyTarget, at: Instant) {
        let Some(IdempotencyKey { hash, fingerprint }) = self.key else { return };
        let record = KeyRecord { hash, fingerprint, target, at };
        self.state.remember(&record);
        self.effects.keys.push(record);
    }

    /// Whether this batch may expire one more hold or release one more pool. Counts it if so.
    fn may_expire(&mut self) -> bool {
        let may = self.has_expiries_left();
        if may {
            self.effects.expired += 1;
        }
        may
    }

    /// Whether this batch may expire one more hold or release one more pool.
    fn has_expiries_left(&self) -> bool {
        let Effects { expired, expired_lines, .. } = &*self.effects;
        *expired < EXPIRIES_PER_BATCH && *expired_lines < EXPIRED_LINES_PER_BATCH
    }

    /// How many of these units the batch may still take out of a released pool. Counts them.
    fn may_unpool(&mut self, units: u64) -> u32 {
        let left = UNPOOLED_PER_BATCH.saturating_sub(self.effects.unpooled);
        let units = u32::try_from(units).unwrap_or(u32::MAX).min(left);
        self.effects.unpooled = self.effects.unpooled.saturating_add(units);
        units
    }
}

/// The sequence of an item after one more transition. Where units have versions of their own the item has no sequence.
fn next_sequence(mode: Mode, sequence: u64) -> Result<u64, DecideError> {
    match mode {
        Mode::Counted => add(sequence, 1),
        Mode::Units => Ok(sequence),
    }
}

/// The counters of an item after a transition of a reservation; `at` stays.
fn moved_counters(before: &StockCounters, effect: &CounterEffect) -> Result<StockCounters, DecideError> {
    before.after(effect).ok_or(DecideError::InvariantViolated("a stock counter left its range"))
}

/// Adds to the units of a line. More than a line may have means damaged state.
fn sum(units: u32, more: u32) -> Result<u32, DecideError> {
    units.checked_add(more).ok_or(DecideError::InvariantViolated("a line has more units than exist"))
}

/// Subtracts from the units of a line. Less than nothing means damaged state.
fn difference(units: u32, less: u32) -> Result<u32, DecideError> {
    units
        .checked_sub(less)
        .ok_or(DecideError::InvariantViolated("more units of a line were moved than exist"))
}

/// Adds to a counter. Limits keep real counters far from the end of their type, so an overflow means damaged state.
fn add(counter: u64, by: u64) -> Result<u64, DecideError> {
    counter.checked_add(by).ok_or(DecideError::InvariantViolated("a counter overflowed"))
}
