//! What becomes of a hold: confirm, release, extend, return, expire. Each of the first three expires its own hold when
//! it comes too late, and no other.

use super::units::next;
use super::{CommandContext, DecideError, add, sub};
use crate::bug;
use crate::command::{Confirm, Extend, Release, Return, ReturnSelection};
use crate::event::{HoldChange, KeyTarget, Transition};
use crate::hold::{Closing, Hold, Line, Status};
use crate::id::{EventId, ReservationId};
use crate::item::StockCounters;
use crate::label::Label;
use crate::outcome::{Outcome, Reply};
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use crate::unit::{LineUnit, LineUnits};
use crate::unit_selection::UnitSelection;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) fn confirm<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Confirm,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let now = if bug!("a-confirm-succeeds-at-its-deadline") { just_before(now) } else { now };
    let hold = match open(context, command.id, now)? {
        Opened::Active(hold, at) => {
            let closing = Closing { at, reason: None, order_id: command.order_id.clone() };
            close(context, hold, HoldChange::Confirmed, Status::Confirmed, closing, |figures, line| {
                figures.held = sub(figures.held, u64::from(line.quantity))?;
                figures.confirmed_sold = add(figures.confirmed_sold, u64::from(line.quantity))?;
                Ok(())
            })?
        }
        Opened::Ended(hold) => {
            let order_id = hold.closing.as_ref().and_then(|closing| closing.order_id.as_ref());
            let same_order = command.order_id.is_none() || command.order_id.as_ref() == order_id;
            let same_order = same_order || bug!("another-order-confirms-too");
            if hold.status != Status::Confirmed || !same_order {
                return Ok(Outcome::Refused(ended(&hold)));
            }
            if bug!("a-confirm-sells-twice") {
                let closing = hold
                    .closing
                    .as_deref()
                    .cloned()
                    .ok_or(DecideError::InvariantViolated("a sale has no end"))?;
                close(context, hold, HoldChange::Confirmed, Status::Confirmed, closing, |figures, line| {
                    figures.active = add(figures.active, 1)?;
                    figures.confirmed_sold = add(figures.confirmed_sold, u64::from(line.quantity))?;
                    Ok(())
                })?
            } else {
                hold
            }
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
    let now = if bug!("a-release-cancels-at-its-deadline") { just_before(now) } else { now };
    let hold = match open(context, command.id, now)? {
        Opened::Active(hold, at) => {
            let closing = Closing { at, reason: command.reason.clone(), order_id: None };
            close(context, hold, HoldChange::Cancelled, Status::Cancelled, closing, give_back)?
        }
        Opened::Ended(hold) if hold.status == Status::Confirmed && bug!("a-release-takes-a-sale-back") => {
            let closing = Closing { at: now, reason: command.reason.clone(), order_id: None };
            close(context, hold, HoldChange::Cancelled, Status::Cancelled, closing, |figures, line| {
                figures.active = add(figures.active, 1)?;
                figures.confirmed_sold = sub(figures.confirmed_sold, u64::from(line.quantity))?;
                Ok(())
            })?
        }
        Opened::Ended(hold) if hold.status == Status::Confirmed => return Ok(Outcome::Refused(ended(&hold))),
        Opened::Ended(hold) if bug!("a-release-gives-back-twice") => {
            let closing = Closing { at: now, reason: command.reason.clone(), order_id: None };
            close(context, hold, HoldChange::Cancelled, Status::Cancelled, closing, |figures, line| {
                figures.active = add(figures.active, 1)?;
                figures.held = figures.held.saturating_sub(u64::from(line.quantity));
                Ok(())
            })?
        }
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
    let now = if bug!("an-extension-revives-at-its-deadline") { just_before(now) } else { now };
    let (hold, at) = match open(context, command.id, now)? {
        Opened::Active(hold, at) => (hold, at),
        Opened::Ended(hold) => return Ok(Outcome::Refused(ended(&hold))),
        Opened::Unknown => return Ok(Outcome::Refused(Rejection::UnknownReservation(command.id))),
    };
    let max_expires_at = hold.terms.max_expires_at;
    if hold.expires_at >= max_expires_at {
        return Ok(Outcome::Refused(Rejection::ExtensionLimit { max_expires_at }));
    }
    let expires_at = at.deadline(command.ttl);
    let expires_at =
        if bug!("an-extension-passes-the-cap") { expires_at } else { expires_at.min(max_expires_at) };
    if expires_at <= hold.expires_at && !bug!("an-extension-shortens") {
        return Ok(done(context, hold, now));
    }
    let mut figures = Vec::with_capacity(hold.lines.len());
    for line in &*hold.lines {
        let before = figures_of(context, line)?;
        let sequence = before.sequence + u64::from(bug!("an-extension-takes-a-sequence"));
        figures.push(StockCounters { sequence, at, ..before });
    }
    let previous = hold.last_event;
    let hold = Hold { expires_at, last_event: context.fresh.event, ..hold };
    let transition =
        Transition::Hold { change: HoldChange::Extended, hold: hold.clone(), figures: figures.into() };
    context.emit(context.fresh.event, at, Some(previous), transition);
    Ok(done(context, hold, at))
}

pub(super) fn return_units<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Return,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let hold = match open(context, command.id, now)? {
        Opened::Ended(hold) if hold.status == Status::Confirmed || bug!("what-was-not-sold-comes-back") => {
            hold
        }
        Opened::Ended(hold) | Opened::Active(hold, _) => {
            return Ok(Outcome::Refused(Rejection::ReservationNotConfirmed(hold.id)));
        }
        Opened::Unknown => return Ok(Outcome::Refused(Rejection::UnknownReservation(command.id))),
    };
    let back = match returned_lines(&hold, &command.selection)? {
        Ok(back) => back,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };

    let at = clamp_to_item_clock(context, &hold, now)?;
    let mut lines = Vec::with_capacity(hold.lines.len());
    let mut figures = Vec::with_capacity(hold.lines.len());
    for (line, back) in hold.lines.iter().zip(&back) {
        let mut line = line.clone();
        let mut after = figures_of(context, &line)?;
        if back.quantity > 0 {
            after.confirmed_sold = sub(after.confirmed_sold, u64::from(back.quantity))?;
            after.sequence = stepped(&line, after.sequence)?;
            after.at = at;
            line.sequence = after.sequence;
            line.returned = line
                .returned
                .checked_add(back.quantity)
                .ok_or(DecideError::InvariantViolated("a line returned too much"))?;
            line.units = returned_units(&line, &back.units)?;
        }
        lines.push(line);
        figures.push(after);
    }
    let previous = hold.last_event;
    let units = if hold.lines.iter().any(|line| line.units.is_some()) {
        back.iter().map(|back| back.units.as_slice().into()).collect()
    } else {
        Box::default()
    };
    let quantities = back.iter().map(|back| back.quantity).collect();
    let hold = Hold { lines: lines.into(), last_event: context.fresh.event, ..hold };
    let change = HoldChange::Returned { quantities, units, reason: command.reason.clone() };
    let transition = Transition::Hold { change, hold: hold.clone(), figures: figures.into() };
    context.emit(context.fresh.event, at, Some(previous), transition);
    Ok(done(context, hold, at))
}

/// What comes back of one line.
#[derive(Default)]
struct ReturnedLine {
    quantity: u32,
    /// Which units, by their places in the line, where they have ids.
    units: Vec<u32>,
}

/// What comes back of each line.
fn returned_lines(
    hold: &Hold,
    selection: &ReturnSelection,
) -> Result<Result<Vec<ReturnedLine>, Rejection>, DecideError> {
    let left = |line: &Line| {
        line.quantity.checked_sub(line.returned).ok_or(DecideError::InvariantViolated("returned too much"))
    };
    let exceeds = |line: &Line, requested: u64| -> Result<Rejection, DecideError> {
        Ok(Rejection::ReturnExceedsSold { item: line.item.clone(), requested, sold: u64::from(left(line)?) })
    };
    let mut all = Vec::with_capacity(hold.lines.len());
    match selection {
        ReturnSelection::All => {
            for line in &*hold.lines {
                all.push(first_back(line, left(line)?));
            }
            if all.iter().all(|back| back.quantity == 0)
                && let Some(line) = hold.lines.first()
            {
                return Ok(Err(exceeds(line, u64::from(line.quantity))?));
            }
        }
        ReturnSelection::Lines(basket) => {
            let stranger =
                basket.lines().iter().find(|want| !hold.lines.iter().any(|line| line.item == want.item));
            if let Some(want) = stranger {
                let (item, requested) = (want.item.clone(), want.quantity);
                return Ok(Err(Rejection::ReturnExceedsSold { item, requested, sold: 0 }));
            }
            for line in &*hold.lines {
                let wanted = basket.lines().iter().enumerate().find(|(_, want)| want.item == line.item);
                let requested = wanted.map_or(0, |(_, want)| want.quantity);
                let back = match u32::try_from(requested) {
                    Ok(back) if back <= left(line)? || bug!("more-comes-back-than-was-sold") => back,
                    _ => return Ok(Err(exceeds(line, requested)?)),
                };
                match wanted.and_then(|(number, _)| basket.selection(number)) {
                    Some(UnitSelection::Named(ids)) => match named_back(line, ids) {
                        Some(back) => all.push(back),
                        None => return Ok(Err(exceeds(line, requested)?)),
                    },
                    Some(UnitSelection::BestAvailable(_)) | None => all.push(first_back(line, back)),
                }
            }
        }
        ReturnSelection::Units(ids) => {
            if let Some(rejection) = ambiguous(hold, ids) {
                return Ok(Err(rejection));
            }
            let mut found: BTreeSet<Label> = BTreeSet::new();
            for line in &*hold.lines {
                let there: BTreeSet<&Label> =
                    line.units().iter().filter(|unit| !unit.returned).map(|unit| &unit.id).collect();
                let here: Vec<Label> = ids.iter().filter(|id| there.contains(id)).cloned().collect();
                all.push(named_back(line, &here).unwrap_or_default());
                found.extend(here);
            }
            if found.len() != ids.len() || ids.is_empty() {
                let line = hold.lines.first().ok_or(DecideError::InvariantViolated("a hold has no line"))?;
                return Ok(Err(exceeds(line, ids.len() as u64)?));
            }
        }
    }
    Ok(Ok(all))
}

/// Refuses an id that more than one line has, whatever came back: an id is unique within an item only.
fn ambiguous(hold: &Hold, ids: &[Label]) -> Option<Rejection> {
    let (mut once, mut again) = (BTreeSet::new(), BTreeSet::new());
    for unit in hold.lines.iter().flat_map(Line::units) {
        if !once.insert(&unit.id) {
            again.insert(&unit.id);
        }
    }
    let place = ids.iter().position(|id| again.contains(id))?;
    let detail = "is in more than one line of the reservation: it must be named in lines".to_string();
    Some(Rejection::invalid(&format!("/units/{place}"), detail))
}

/// So many units of a line; where they have ids, the first that have not come back.
fn first_back(line: &Line, quantity: u32) -> ReturnedLine {
    let out = line.units().iter().zip(0..).filter(|(unit, _)| !unit.returned).map(|(_, place)| place);
    ReturnedLine { quantity, units: out.take(usize::try_from(quantity).unwrap_or(usize::MAX)).collect() }
}

/// These units of a line, each named once. `None` where one of them is not sold by it any more.
fn named_back(line: &Line, ids: &[Label]) -> Option<ReturnedLine> {
    let places: BTreeMap<&Label, u32> = line
        .units()
        .iter()
        .zip(0..)
        .filter(|(unit, _)| !unit.returned)
        .map(|(unit, place)| (&unit.id, place))
        .collect();
    let mut units: Vec<u32> = ids.iter().map(|id| places.get(id).copied()).collect::<Option<_>>()?;
    units.sort_unstable();
    Some(ReturnedLine { quantity: u32::try_from(units.len()).ok()?, units })
}

pub(super) fn sweep<S: State>(
    context: &mut CommandContext<'_, S>,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let mut expired = 0;
    while let Some((due, id)) = context.state.earliest(None)? {
        if bug!("a-sweep-leaves-what-is-due-now") && due == now {
            break;
        }
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
    let hold =
        context.state.hold(id)?.ok_or(DecideError::InvariantViolated("a due hold is not there"))?.clone();
    let at = clamp_to_item_clock(context, &hold, now)?;
    if hold.status != Status::Active || !hold.is_due(at) {
        return Err(DecideError::InvariantViolated("a hold was to be expired that is not due"));
    }
    let closing = Closing { at, reason: None, order_id: None };
    close(context, hold, HoldChange::Expired, Status::Expired, closing, give_back)
}

/// A hold as a command finds it.
enum Opened {
    /// Live, and the instant that counts for it.
    Active(Hold, Instant),
    /// In a terminal state, perhaps since a moment ago.
    Ended(Hold),
    /// There is none.
    Unknown,
}

fn open<S: State>(
    context: &mut CommandContext<'_, S>,
    id: ReservationId,
    now: Instant,
) -> Result<Opened, DecideError> {
    let Some(hold) = context.state.hold(id)? else { return Ok(Opened::Unknown) };
    if hold.status != Status::Active {
        return Ok(Opened::Ended(hold.clone()));
    }
    let hold = hold.clone();
    let at = if bug!("a-confirm-trusts-the-statement-s-clock") {
        now
    } else {
        clamp_to_item_clock(context, &hold, now)?
    };
    if hold.is_due(at) && bug!("expiry-is-a-predicate") {
        return Ok(Opened::Ended(Hold { status: Status::Expired, ..hold }));
    }
    if hold.is_due(at) {
        return Ok(Opened::Ended(expire(context, id, at)?));
    }
    Ok(Opened::Active(hold, at))
}

/// Ends a hold: `effect` moves each line's figures.
fn close<S: State>(
    context: &mut CommandContext<'_, S>,
    hold: Hold,
    change: HoldChange,
    status: Status,
    closing: Closing,
    effect: impl Fn(&mut StockCounters, &Line) -> Result<(), DecideError>,
) -> Result<Hold, DecideError> {
    let at = closing.at;
    let mut lines = Vec::with_capacity(hold.lines.len());
    let mut figures = Vec::with_capacity(hold.lines.len());
    for line in &*hold.lines {
        let mut after = figures_of(context, line)?;
        effect(&mut after, line)?;
        after.active = sub(after.active, 1)?;
        if !(change == HoldChange::Expired && bug!("an-expiry-takes-no-sequence")) {
            after.sequence = stepped(line, after.sequence)?;
        }
        after.at = at;
        lines.push(Line { sequence: after.sequence, units: moved_on(line)?, ..line.clone() });
        figures.push(after);
    }
    let previous = hold.last_event;
    let event = match change {
        HoldChange::Expired => EventId::of_expiry(hold.id),
        _ => context.fresh.event,
    };
    let hold =
        Hold { status, lines: lines.into(), closing: Some(Box::new(closing)), last_event: event, ..hold };
    let transition = Transition::Hold { change, hold: hold.clone(), figures: figures.into() };
    context.emit(event, at, Some(previous), transition);
    Ok(hold)
}

/// The sequence of a line's item after one more transition: none where units have versions of their own.
fn stepped(line: &Line, sequence: u64) -> Result<u64, DecideError> {
    if line.units.is_some() { Ok(sequence) } else { add(sequence, 1) }
}

/// A line's units after one more transition of all of them.
fn moved_on(line: &Line) -> Result<Option<Arc<LineUnits>>, DecideError> {
    let Some(units) = &line.units else { return Ok(None) };
    let mut moved = Vec::with_capacity(units.all().len());
    for unit in units.all() {
        moved.push(LineUnit { version: next(unit.version)?, ..unit.clone() });
    }
    Ok(Some(Arc::new(LineUnits::new(moved))))
}

/// A line's units after those at these places came back.
fn returned_units(line: &Line, back: &[u32]) -> Result<Option<Arc<LineUnits>>, DecideError> {
    let Some(units) = &line.units else { return Ok(None) };
    let mut moved = units.all().to_vec();
    for place in back {
        let unit = usize::try_from(*place).ok().and_then(|place| moved.get_mut(place));
        let unit = unit.ok_or(DecideError::InvariantViolated("a line lacks a unit that came back"))?;
        unit.version = next(unit.version)?;
        unit.returned = true;
    }
    Ok(Some(Arc::new(LineUnits::new(moved))))
}

fn give_back(figures: &mut StockCounters, line: &Line) -> Result<(), DecideError> {
    figures.held = sub(figures.held, u64::from(line.quantity))?;
    Ok(())
}

fn figures_of<S: State>(context: &CommandContext<'_, S>, line: &Line) -> Result<StockCounters, DecideError> {
    let item = context
        .state
        .item(&line.item)?
        .ok_or(DecideError::InvariantViolated("a hold names an item that is not there"))?;
    Ok(item.figures)
}

/// Now, but not before any instant at which one of the hold's items was decided on.
fn clamp_to_item_clock<S: State>(
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

/// A clock that is off by one.
fn just_before(now: Instant) -> Instant {
    Instant::from_micros(now.micros().saturating_sub(1))
}

/// Why an ended hold can't be moved any more.
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

fn done<S: State>(context: &mut CommandContext<'_, S>, hold: Hold, at: Instant) -> Outcome {
    context.remember(KeyTarget::Reservation(hold.id), at);
    Outcome::Done(Reply::Reservation(hold))
}
