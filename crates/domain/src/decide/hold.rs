//! Changes of one hold as a whole: confirm, release, extend and expire. A command expires its own hold when it comes too late.
//! Confirm, release and extend never expire another one; a confirm that reacquires the units may.

use super::reacquire::reacquire;
use super::units::next_version;
use super::{CommandContext, DecideError, limits, moved_counters, pools, unit_pools};
use crate::charge::ChargeState;
use crate::command::{Confirm, Extend, IfExpired, Release};
use crate::event::{HoldChange, KeyTarget, Transition};
use crate::hold::{Closing, Hold, HoldDetails, Line, Payment, PaymentState, Status};
use crate::id::{EventId, ReservationId};
use crate::item::{CounterEffect, StockCounters};
use crate::label::Label;
use crate::outcome::{Outcome, Reply};
use crate::precondition::Precondition;
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
            let payment = hold.open_payment();
            let is_another = |open: &Payment| command.payment_id.as_ref().is_some_and(|id| *id != open.id);
            if payment.is_some_and(|open| open.charge.is_some() || is_another(open)) {
                return Ok(Outcome::Refused(payment_in_progress(&hold)));
            }
            confirm_active(context, hold, command, context.fresh.event, at)?
        }
        Opened::Ended(hold) if hold.status == Status::Confirmed && same_sale(&hold, command) => hold,
        Opened::Ended(hold)
            if hold.status == Status::Expired && command.if_expired == IfExpired::Reacquire =>
        {
            return reacquire(context, command, &hold, None, now);
        }
        Opened::Ended(hold) => return Ok(Outcome::Refused(ended(&hold))),
        Opened::Unknown => return Ok(Outcome::Refused(Rejection::UnknownReservation(command.id))),
    };
    Ok(done(context, hold, now))
}

/// Confirms an active hold.
pub(super) fn confirm_active<S: State>(
    context: &mut CommandContext<'_, S>,
    hold: Hold,
    command: &Confirm,
    event: EventId,
    at: Instant,
) -> Result<Hold, DecideError> {
    let details = confirmed_details(&hold, command.payment_id.as_ref(), at);
    let closing = Closing { at, reason: None, order_id: command.order_id.clone() };
    let lines = with_next_versions(&hold.lines)?;
    let hold = Hold { closing: Some(Box::new(closing)), details, ..hold };
    change_hold(context, event, at, hold, lines, HoldChange::Confirmed)
}

/// The payment of a confirmed hold: the one of its open window, or the one that the confirm names, if any. A payment whose window was
/// closed did not pay, so the sale does not show it.
fn confirmed_details(hold: &Hold, payment_id: Option<&Label>, at: Instant) -> Option<Box<HoldDetails>> {
    let mut details = hold.details.clone();
    if let Some(payment) = details.as_mut().and_then(|details| details.payment.as_mut())
        && payment.state == PaymentState::Open
    {
        payment.state = PaymentState::Completed;
    } else if hold.charge().is_some_and(|charge| charge.awaits_capture() || charge.captured > 0) {
        // The money of a payment that the service takes came late.
    } else if let Some(id) = payment_id {
        let payment = Payment {
            id: id.clone(),
            state: PaymentState::Closed,
            until: at,
            deadline_before: hold.expires_at,
            charge: None,
        };
        details.get_or_insert_default().payment = Some(payment);
    } else if let Some(details) = &mut details {
        details.payment = None;
    }
    details
}

/// Whether a confirm names the order and the payment with which the hold was confirmed, as far as it names them.
pub(super) fn same_sale(hold: &Hold, command: &Confirm) -> bool {
    let payment_id = hold.details().payment.as_ref().map(|payment| &payment.id);
    let same = |named: &Option<Label>, known: Option<&Label>| named.is_none() || named.as_ref() == known;
    same(&command.order_id, hold.order_id()) && same(&command.payment_id, payment_id)
}

pub(super) fn release<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Release,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let hold = match open(context, command.id, now)? {
        Opened::Active(hold, _) if hold.open_payment().is_some() => {
            return Ok(Outcome::Refused(payment_in_progress(&hold)));
        }
        Opened::Active(hold, at) => {
            let closing = Closing { at, reason: command.reason.clone(), order_id: None };
            close(context, context.fresh.event, hold, HoldChange::Cancelled, closing)?
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
    let (hold, at) = match open_for_change(context, command.id, None, now)? {
        Ok(opened) => opened,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let max_expires_at = hold.terms.max_expires_at;
    if hold.expires_at >= max_expires_at {
        return Ok(Outcome::Refused(Rejection::ExtensionLimit { max_expires_at }));
    }
    let expires_at = at.deadline(command.ttl).min(max_expires_at);
    if expires_at <= hold.expires_at {
        return Ok(done(context, hold, now));
    }
    let lines = hold.lines.to_vec();
    let hold = Hold { expires_at, ..hold };
    let hold = change_hold(context, context.fresh.event, at, hold, lines, HoldChange::Extended)?;
    Ok(done(context, hold, at))
}

pub(super) fn sweep<S: State>(
    context: &mut CommandContext<'_, S>,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let (mut expired, mut released) = (0, 0);
    while let Some((due, id)) = context.state.earliest(None)? {
        if due > now || !context.may_expire() {
            break;
        }
        expire(context, id, now)?;
        expired += 1;
    }
    while let Some((due, item)) = context.state.earliest_release()? {
        if due > now || !pools::release_due(context, &item, now)? {
            break;
        }
        released += 1;
    }
    Ok(Outcome::Done(Reply::Swept { expired, released }))
}

/// Expires a hold that is due.
pub(super) fn expire<S: State>(
    context: &mut CommandContext<'_, S>,
    id: ReservationId,
    now: Instant,
) -> Result<Hold, DecideError> {
    let hold = context.state.hold(id)?;
    let mut hold = hold.ok_or(DecideError::InvariantViolated("a due hold does not exist"))?.clone();
    let at = clamp_to_item_clock(context, &hold, now)?;
    if hold.status != Status::Active || !hold.is_due(at) {
        return Err(DecideError::InvariantViolated("a hold that is not due was to be expired"));
    }
    if let Some(payment) = hold.details.as_mut().and_then(|details| details.payment.as_mut())
        && payment.state == PaymentState::Open
    {
        payment.state = PaymentState::Lapsed;
        if let Some(charge) = &mut payment.charge {
            charge.enter(ChargeState::Voiding, at);
        }
    }
    // One command may expire hundreds of holds, so the id of an expiry follows from the reservation's id.
    let event = EventId::of_expiry(id);
    // The limits that a command passes by belong to its own event, and not to those of holds that it expires.
    let overridden = core::mem::take(&mut context.overridden);
    let hold =
        close(context, event, hold, HoldChange::Expired, Closing { at, reason: None, order_id: None })?;
    context.overridden = overridden;
    Ok(hold)
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

/// An active hold that a command may change, with the instant that applies to it, or the first refusal that applies: unknown,
/// another version than expected, ended, or a payment under way.
pub(super) fn open_for_change<S: State>(
    context: &mut CommandContext<'_, S>,
    id: ReservationId,
    expected: Option<&Precondition>,
    now: Instant,
) -> Result<Result<(Hold, Instant), Rejection>, DecideError> {
    Ok(match open_active(context, id, expected, now)? {
        Ok((hold, _)) if hold.open_payment().is_some() => Err(payment_in_progress(&hold)),
        opened => opened,
    })
}

/// The same, whether or not it is being paid for.
pub(super) fn open_active<S: State>(
    context: &mut CommandContext<'_, S>,
    id: ReservationId,
    expected: Option<&Precondition>,
    now: Instant,
) -> Result<Result<(Hold, Instant), Rejection>, DecideError> {
    let opened = open(context, id, now)?;
    let (Opened::Active(hold, _) | Opened::Ended(hold)) = &opened else {
        return Ok(Err(Rejection::UnknownReservation(id)));
    };
    if expected.is_some_and(|expected| !expected.is_met(Some(hold.version))) {
        return Ok(Err(Rejection::PreconditionFailed { version: Some(hold.version) }));
    }
    Ok(match opened {
        Opened::Active(hold, at) => Ok((hold, at)),
        Opened::Ended(hold) => Err(ended(&hold)),
        Opened::Unknown => Err(Rejection::UnknownReservation(id)),
    })
}

/// Ends an active hold by `change`.
pub(super) fn close<S: State>(
    context: &mut CommandContext<'_, S>,
    event: EventId,
    hold: Hold,
    change: HoldChange,
    closing: Closing,
) -> Result<Hold, DecideError> {
    let (at, lines) = (closing.at, with_next_versions(&hold.lines)?);
    let hold = Hold { closing: Some(Box::new(closing)), ..hold };
    change_hold(context, event, at, hold, lines, change)
}

/// Applies a transition of a reservation. `hold` is the reservation after it, except for what every transition sets here: its lines,
/// its status, its version and its last event. Returns it as it stands afterwards.
pub(super) fn change_hold<S: State>(
    context: &mut CommandContext<'_, S>,
    event: EventId,
    at: Instant,
    mut hold: Hold,
    mut lines: Vec<Line>,
    mut change: HoldChange,
) -> Result<Hold, DecideError> {
    unit_pools::leave_ended_pools(context, &mut lines, &mut change)?;
    let mut figures = Vec::with_capacity(lines.len());
    for (number, line) in lines.iter_mut().enumerate() {
        let effect = change.effect(&hold, line, number);
        let before = match context.state.item(&line.item)? {
            Some(item) => item.figures,
            // An item of which everything came back may have been deleted since.
            None if effect == CounterEffect::default() => StockCounters::none(at),
            None => {
                return Err(DecideError::InvariantViolated("a hold refers to an item that does not exist"));
            }
        };
        let after = moved_counters(&before, &effect)?;
        if effect.sequence > 0 {
            line.sequence = after.sequence;
        }
        // An ended reservation moves the clocks of those items only that it changes.
        let moves_clock = effect != CounterEffect::default() || change.status_after() == Status::Active;
        figures.push(StockCounters { at: if moves_clock { after.at.max(at) } else { after.at }, ..after });
    }
    let previous = change.status_before().map(|_| hold.last_event);
    hold.lines = lines.into();
    hold.status = change.status_after();
    hold.version = super::add(hold.version, 1)?;
    hold.last_event = event;
    let before = if previous.is_some() { context.state.hold(hold.id)? } else { None };
    let before = before.filter(|before| limits::is_counted(before) || pools::has_draws(before)).cloned();
    let pools = pools::effects(context, before.as_ref(), &hold, &change, at)?;
    let limits = limits::effects(context, before.as_ref(), &hold, pools)?;
    let after = hold.without_removed_lines();
    context.emit(event, at, previous, Transition::Hold { change, hold, figures: figures.into(), limits });
    Ok(after)
}

/// The lines of a hold after a transition that moves all of their units.
fn with_next_versions(lines: &[Line]) -> Result<Vec<Line>, DecideError> {
    let mut moved = Vec::with_capacity(lines.len());
    for line in lines {
        let units = match &line.units {
            Some(units) => Some(Arc::new(LineUnits::new(next_versions(units.all())?))),
            None => None,
        };
        moved.push(Line { units, ..line.clone() });
    }
    Ok(moved)
}

/// Units after a transition of each.
pub(super) fn next_versions(units: &[LineUnit]) -> Result<Vec<LineUnit>, DecideError> {
    let next = |unit: &LineUnit| Ok(LineUnit { version: next_version(unit.version)?, ..unit.clone() });
    units.iter().map(next).collect()
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
pub(super) fn ended(hold: &Hold) -> Rejection {
    match hold.status {
        Status::Confirmed => Rejection::ReservationConfirmed {
            id: hold.id,
            order_id: hold.order_id().cloned(),
            payment_id: hold.details().payment.as_ref().map(|payment| payment.id.clone()),
        },
        Status::Cancelled => Rejection::ReservationCancelled(hold.id),
        Status::Expired | Status::Active => {
            Rejection::ReservationExpired { id: hold.id, expires_at: hold.expires_at }
        }
    }
}

/// The rejection of a command that has to wait for the payment of an active hold.
pub(super) fn payment_in_progress(hold: &Hold) -> Rejection {
    if hold.open_payment().is_some() { payment_in_progress_of(hold) } else { ended(hold) }
}

/// The rejection of a command that has to wait for the latest payment of a reservation.
pub(super) fn payment_in_progress_of(hold: &Hold) -> Rejection {
    match &hold.details().payment {
        Some(payment) => {
            Rejection::PaymentInProgress { id: hold.id, payment_id: payment.id.clone(), until: payment.until }
        }
        None => ended(hold),
    }
}

/// Records the command's key and answers with the hold.
pub(super) fn done<S: State>(context: &mut CommandContext<'_, S>, hold: Hold, at: Instant) -> Outcome {
    context.remember(KeyTarget::Reservation(hold.id), at);
    Outcome::Done(Reply::Reservation(hold))
}
