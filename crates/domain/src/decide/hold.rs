//! Changes of one hold: confirm, release, extend and expire. Confirm, release and extend expire their own hold when they
//! come too late. They never expire another one.

use super::units::next_version;
use super::{CommandContext, DecideError, moved_counters};
use crate::command::{Confirm, Extend, Release};
use crate::event::{HoldChange, KeyTarget, Transition};
use crate::hold::{Closing, Hold, Line, Status};
use crate::id::{EventId, ReservationId};
use crate::item::StockCounters;
use crate::outcome::{Outcome, Reply};
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use crate::unit::{LineUnit, LineUnits};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) fn confirm<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Confirm,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let hold = match open(context, command.id, now)? {
        Opened::Active(hold, at) => {
            let closing = Closing { at, reason: None, order_id: command.order_id.clone() };
            close(context, hold, HoldChange::Confirmed, closing)?
        }
        Opened::Ended(hold) => {
            let order_id = hold.closing.as_ref().and_then(|closing| closing.order_id.as_ref());
            let same_order = command.order_id.is_none() || command.order_id.as_ref() == order_id;
            if hold.status != Status::Confirmed || !same_order {
                return Ok(Outcome::Refused(ended(&hold)));
            }
            hold
        }
        Opened::Unknown => return Ok(Outcome::Refused(Rejection::UnknownReservation(command.id))),
    };
    Ok(done(context, hold, now))
}

pub(super) fn release<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Release,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let hold = match open(context, command.id, now)? {
        Opened::Active(hold, at) => {
            let closing = Closing { at, reason: command.reason.clone(), order_id: None };
            close(context, hold, HoldChange::Cancelled, closing)?
        }
        Opened::Ended(hold) if hold.status == Status::Confirmed => return Ok(Outcome::Refused(ended(&hold))),
        Opened::Ended(hold) => hold,
        Opened::Unknown => return Ok(Outcome::Refused(Rejection::UnknownReservation(command.id))),
    };
    Ok(done(context, hold, now))
}

pub(super) fn extend<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Extend,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let (hold, at) = match open(context, command.id, now)? {
        Opened::Active(hold, at) => (hold, at),
        Opened::Ended(hold) => return Ok(Outcome::Refused(ended(&hold))),
        Opened::Unknown => return Ok(Outcome::Refused(Rejection::UnknownReservation(command.id))),
    };
    let max_expires_at = hold.terms.max_expires_at;
    if hold.expires_at >= max_expires_at {
        return Ok(Outcome::Refused(Rejection::ExtensionLimit { max_expires_at }));
    }
    let expires_at = at.deadline(command.ttl).min(max_expires_at);
    if expires_at <= hold.expires_at {
        return Ok(done(context, hold, now));
    }
    let mut figures = Vec::with_capacity(hold.lines.len());
    for (number, line) in hold.lines.iter().enumerate() {
        let after = moved_counters(&figures_of(context, line)?, &HoldChange::Extended, line, number)?;
        figures.push(StockCounters { at, ..after });
    }
    let previous = hold.last_event;
    let hold = Hold { expires_at, last_event: context.fresh.event, ..hold };
    let transition =
        Transition::Hold { change: HoldChange::Extended, hold: hold.clone(), figures: figures.into() };
    context.emit(context.fresh.event, at, Some(previous), transition);
    Ok(done(context, hold, at))
}

pub(super) fn sweep<S: State>(
    context: &mut CommandContext<'_, S>,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let mut expired = 0;
    while let Some((due, id)) = context.state.earliest(None)? {
        if due > now || !context.may_expire() {
            break;
        }
        expire(context, id, now)?;
        expired += 1;
    }
    Ok(Outcome::Done(Reply::Swept { expired }))
}

/// Expires a hold that is due.
pub(super) fn expire<S: State>(
    context: &mut CommandContext<'_, S>,
    id: ReservationId,
    now: Instant,
) -> Result<Hold, DecideError> {
    let hold = context.state.hold(id)?;
    let hold = hold.ok_or(DecideError::InvariantViolated("a due hold does not exist"))?.clone();
    let at = clamp_to_item_clock(context, &hold, now)?;
    if hold.status != Status::Active || !hold.is_due(at) {
        return Err(DecideError::InvariantViolated("a hold that is not due was to be expired"));
    }
    close(context, hold, HoldChange::Expired, Closing { at, reason: None, order_id: None })
}

/// A hold as a command finds it.
pub(super) enum Opened {
    /// Active and not due, with the instant that applies to it.
    Active(Hold, Instant),
    /// In a terminal state. The command itself may just have expired it.
    Ended(Hold),
    /// No such hold exists.
    Unknown,
}

/// Loads a hold, and expires it first if it is due.
pub(super) fn open<S: State>(
    context: &mut CommandContext<'_, S>,
    id: ReservationId,
    now: Instant,
) -> Result<Opened, DecideError> {
    let Some(hold) = context.state.hold(id)? else { return Ok(Opened::Unknown) };
    let hold = hold.clone();
    if hold.status != Status::Active {
        return Ok(Opened::Ended(hold));
    }
    let at = clamp_to_item_clock(context, &hold, now)?;
    if hold.is_due(at) {
        return Ok(Opened::Ended(expire(context, id, at)?));
    }
    Ok(Opened::Active(hold, at))
}

/// Ends an active hold by `change`.
fn close<S: State>(
    context: &mut CommandContext<'_, S>,
    hold: Hold,
    change: HoldChange,
    closing: Closing,
) -> Result<Hold, DecideError> {
    let at = closing.at;
    let mut lines = Vec::with_capacity(hold.lines.len());
    let mut figures = Vec::with_capacity(hold.lines.len());
    for (number, line) in hold.lines.iter().enumerate() {
        let mut after = moved_counters(&figures_of(context, line)?, &change, line, number)?;
        after.at = at;
        lines.push(Line { sequence: after.sequence, units: with_next_versions(line)?, ..line.clone() });
        figures.push(after);
    }
    let previous = hold.last_event;
    // One command may expire hundreds of holds, so the id of an expiry follows from the reservation's id.
    let event = if change == HoldChange::Expired { EventId::of_expiry(hold.id) } else { context.fresh.event };
    let hold = Hold {
        status: change.status_after(),
        lines: lines.into(),
        closing: Some(Box::new(closing)),
        last_event: event,
        ..hold
    };
    let transition = Transition::Hold { change, hold: hold.clone(), figures: figures.into() };
    context.emit(event, at, Some(previous), transition);
    Ok(hold)
}

/// The units of a line after a transition that moves all of them.
fn with_next_versions(line: &Line) -> Result<Option<Arc<LineUnits>>, DecideError> {
    let Some(units) = &line.units else { return Ok(None) };
    let mut moved = Vec::with_capacity(units.all().len());
    for unit in units.all() {
        moved.push(LineUnit { version: next_version(unit.version)?, ..unit.clone() });
    }
    Ok(Some(Arc::new(LineUnits::new(moved))))
}

/// The counters of a line's item.
pub(super) fn figures_of<S: State>(
    context: &CommandContext<'_, S>,
    line: &Line,
) -> Result<StockCounters, DecideError> {
    let item = context.state.item(&line.item)?;
    let item = item.ok_or(DecideError::InvariantViolated("a hold refers to an item that does not exist"))?;
    Ok(item.figures)
}

/// `now`, clamped to the clocks of the hold's items: time never runs backwards for an item.
pub(super) fn clamp_to_item_clock<S: State>(
    context: &CommandContext<'_, S>,
    hold: &Hold,
    now: Instant,
) -> Result<Instant, DecideError> {
    let mut at = now;
    for line in &*hold.lines {
        at = at.max(figures_of(context, line)?.at);
    }
    Ok(at)
}

/// The rejection of a command on a hold that has ended.
fn ended(hold: &Hold) -> Rejection {
    match hold.status {
        Status::Confirmed => {
            let order_id = hold.closing.as_ref().and_then(|closing| closing.order_id.clone());
            Rejection::ReservationConfirmed { id: hold.id, order_id }
        }
        Status::Cancelled => Rejection::ReservationCancelled(hold.id),
        Status::Expired | Status::Active => {
            Rejection::ReservationExpired { id: hold.id, expires_at: hold.expires_at }
        }
    }
}

/// Records the command's key and answers with the hold.
pub(super) fn done<S: State>(context: &mut CommandContext<'_, S>, hold: Hold, at: Instant) -> Outcome {
    context.remember(KeyTarget::Reservation(hold.id), at);
    Outcome::Done(Reply::Reservation(hold))
}
