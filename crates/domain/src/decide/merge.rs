//! Merge: the lines of other holds are added to a hold, and the others end. Each of the others gives its units back in an event of its
//! own, and then the hold takes all of them in one.

use super::amend::kept;
use super::hold::{close, done, expire, next_versions, open_for_change};
use super::limits::LimitPlan;
use super::{CommandContext, DecideError, backorder, limits, prices};
use crate::command::Merge;
use crate::event::{HoldChange, LineChange};
use crate::hold::{Closing, Hold, HoldDetails, HoldTerms, Line, LineDetails};
use crate::item::ItemKey;
use crate::label::Label;
use crate::limits::{BASKET_LINES, BASKET_UNITS, LINE_QUANTITY, LINE_UNITS, MERGE_SOURCES};
use crate::outcome::Outcome;
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use crate::unit::LineUnits;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Why a merged hold ended.
const REASON: &str = "merged";

pub(super) fn merge<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Merge,
    now: Instant,
) -> Result<Outcome, DecideError> {
    if let Some(rejection) = malformed(command) {
        return Ok(Outcome::Refused(rejection));
    }
    for id in core::iter::once(&command.id).chain(&command.from) {
        if context.state.hold(*id)?.is_none() {
            return Ok(Outcome::Refused(Rejection::UnknownReservation(*id)));
        }
    }
    let (mut hold, mut at) = match open_for_change(context, command.id, command.expected.as_ref(), now)? {
        Ok(opened) => opened,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let mut sources = Vec::with_capacity(command.from.len());
    for id in &command.from {
        match open_for_change(context, *id, None, now)? {
            Ok((source, clock)) => {
                at = at.max(clock);
                sources.push(source);
            }
            Err(rejection) => return Ok(Outcome::Refused(rejection)),
        }
    }
    // The clock of one hold's items may be past the deadline of another.
    if let Some(due) =
        core::iter::once(&hold).chain(&sources).find(|hold| hold.is_due(at)).map(|hold| hold.id)
    {
        let due = expire(context, due, at)?;
        return Ok(Outcome::Refused(super::hold::ended(&due)));
    }
    let (mut lines, changes) = match sum(&hold, &sources)? {
        Ok(sum) => sum,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    if let Some(rejection) = count(context, command, &hold, &sources, &mut lines)? {
        return Ok(Outcome::Refused(rejection));
    }
    let max_expires_at = sources.iter().map(|source| source.terms.max_expires_at).min();
    let max_expires_at =
        max_expires_at.map_or(hold.terms.max_expires_at, |max| max.min(hold.terms.max_expires_at));
    // After a payment window was closed, a deadline may be past `max_expires_at`. It stands, and does not end at once.
    let latest = sources.iter().map(|source| source.terms.max_expires_at.max(source.expires_at)).min();
    let expires_at = latest.map_or(hold.expires_at, |latest| latest.min(hold.expires_at));
    let all = core::iter::once(&hold).chain(&sources);
    let first_payment_at = all.filter_map(|hold| hold.details().first_payment_at).min();
    let reason = Label::new(REASON).map_err(|_| DecideError::InvariantViolated("a reason is no label"))?;
    let overridden = core::mem::take(&mut context.overridden);
    for (number, mut source) in (1..).zip(sources) {
        source.details.get_or_insert_default().merged_into = Some(hold.id);
        let closing = Closing { at, reason: Some(reason.clone()), order_id: None };
        close(context, context.fresh.event.nth(number), source, HoldChange::MergedAway, closing)?;
    }
    let details = hold.details.get_or_insert_default();
    HoldDetails::relate(&mut details.merged_from, &command.from);
    // Otherwise a merge would begin the time anew for which payment windows may keep the units.
    details.first_payment_at = first_payment_at;
    let hold =
        Hold { expires_at, terms: Arc::new(HoldTerms { max_expires_at, ..(*hold.terms).clone() }), ..hold };
    context.overridden = overridden;
    let change = HoldChange::Merged { lines: changes.into(), from: command.from.clone() };
    let hold = super::hold::change_hold(context, context.fresh.event, at, hold, lines, change)?;
    Ok(done(context, hold, at))
}

/// Judges limits as if the sum had been reserved, and counts the lines of the sum. What the sources give back counts as free.
fn count<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Merge,
    hold: &Hold,
    sources: &[Hold],
    lines: &mut [Line],
) -> Result<Option<Rejection>, DecideError> {
    let had: BTreeMap<_, _> = hold.lines.iter().map(|line| (&line.item, line)).collect();
    let units_before = |line: &Line| had.get(&line.item).map_or(0, |line| line.quantity);
    let added =
        lines.iter().map(|line| (&line.item, u64::from(line.quantity.saturating_sub(units_before(line)))));
    let plan = match LimitPlan::new(context, added, &hold.terms.reserve, command.override_limits, |_| true)? {
        Ok(plan) => plan,
        Err(rejection) => return Ok(Some(rejection)),
    };
    let given = sources.iter().flat_map(|source| &*source.lines).map(|line| (line, line.quantity));
    let plan = plan.returning(limits::lost(given));
    let exceeded = plan.exceeded(context)?;
    if command.override_limits {
        plan.note_overridden(context, exceeded);
    } else if !exceeded.is_empty() {
        return Ok(Some(Rejection::LimitExceeded(exceeded)));
    }
    for (number, line) in lines.iter_mut().enumerate() {
        let known = had.get(&line.item).map(|line| &*line.details().counted).unwrap_or_default();
        let counted = plan.counted(number, known, units_before(line), line.quantity);
        line.details = LineDetails { counted, ..line.details().clone() }.some();
    }
    Ok(None)
}

fn malformed(command: &Merge) -> Option<Rejection> {
    if command.from.is_empty() || command.from.len() > MERGE_SOURCES {
        let detail = format!("must be 1 to {MERGE_SOURCES} reservations, and is {}", command.from.len());
        return Some(Rejection::invalid("/from", detail));
    }
    let mut known = BTreeSet::from([command.id]);
    let place = command.from.iter().position(|id| !known.insert(*id))?;
    let detail = "must name each reservation once, and not the one that is merged into".to_string();
    Some(Rejection::invalid(&format!("/from/{place}"), detail))
}

type Lines = (Vec<Line>, Vec<LineChange>);

/// The lines of all holds together, as if they had been reserved at once.
fn sum(hold: &Hold, sources: &[Hold]) -> Result<Result<Lines, Rejection>, DecideError> {
    let mut lines = hold.lines.to_vec();
    let mut changes: Vec<LineChange> = lines.iter().map(kept).collect();
    let mut places: BTreeMap<ItemKey, usize> =
        lines.iter().enumerate().map(|(place, line)| (line.item.clone(), place)).collect();
    let mut gained: BTreeMap<usize, Vec<crate::unit::LineUnit>> = BTreeMap::new();
    for line in sources.iter().flat_map(|source| &*source.lines) {
        // The source gives each unit back, and this hold takes it: two transitions.
        let units = next_versions(&next_versions(line.units())?)?;
        let place = *places.entry(line.item.clone()).or_insert(lines.len());
        if place == lines.len() {
            lines.push(Line {
                requested: 0,
                quantity: 0,
                sequence: 0,
                units: line.units.as_ref().map(|_| Arc::new(LineUnits::new(Vec::new()))),
                details: None,
                ..line.clone()
            });
            changes.push(LineChange::default());
        }
        if let Some(known) = lines.get_mut(place) {
            known.details = backorder::sum(known, line);
            known.requested = known.requested.saturating_add(line.requested);
            known.quantity = known.quantity.saturating_add(line.quantity);
        }
        gained.entry(place).or_default().extend(units);
    }
    for (place, more) in gained {
        if let Some(line) = lines.get_mut(place)
            && let Some(units) = &line.units
        {
            let all = units.all().iter().cloned().chain(more).collect();
            line.units = Some(Arc::new(LineUnits::new(all)));
        }
    }
    let all = hold.lines.iter().chain(sources.iter().flat_map(|source| &*source.lines));
    Ok(match too_large(&lines).or_else(|| prices::refusal("/from", all)) {
        Some(rejection) => Err(rejection),
        None => Ok((lines, changes)),
    })
}

fn too_large(lines: &[Line]) -> Option<Rejection> {
    if lines.len() > BASKET_LINES {
        let detail = format!("must not bring the reservation past {BASKET_LINES} lines");
        return Some(Rejection::invalid("/from", detail));
    }
    let most = |line: &Line| if line.units.is_some() { LINE_UNITS } else { LINE_QUANTITY };
    if let Some(line) = lines.iter().find(|line| u64::from(line.quantity) > most(line)) {
        let (item, requested) = (Some(line.item.clone()), u64::from(line.quantity));
        return Some(Rejection::QuantityLimit { item, requested, limit: most(line) });
    }
    let units = lines.iter().map(|line| line.units().len() as u64).sum::<u64>();
    (units > BASKET_UNITS).then_some(Rejection::QuantityLimit {
        item: None,
        requested: units,
        limit: BASKET_UNITS,
    })
}
