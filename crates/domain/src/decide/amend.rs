//! Amend: a hold gets other lines, another deadline or other metadata in one step. Its own units count as free, so nobody can take one
//! in between. Only what is added is judged.

use super::grants::{Grant, Request, expire_until_it_fits, grant, known};
use super::hold::{change_hold, done, ended, expire, next_versions, open_for_change};
use super::limits::{LimitDecision, LimitPlan};
use super::prices::Quantities;
use super::reserve::{line_units, validate_lines};
use super::sale_state::refusal_of_sale;
use super::{CommandContext, DecideError, backorder, prices};
use crate::basket::Basket;
use crate::command::Amend;
use crate::event::{HoldChange, LineChange};
use crate::hold::{Hold, HoldTerms, Line, OptionalTerms, ReserveTerms, Status};
use crate::item::Mode;
use crate::outcome::Outcome;
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use crate::unit::LineUnits;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) fn amend<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Amend,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let (hold, mut at) = match open_for_change(context, command.id, command.expected.as_ref(), now)? {
        Ok(opened) => opened,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let max_expires_at = hold.terms.max_expires_at;
    if command.ttl.is_some() && hold.expires_at >= max_expires_at {
        return Ok(Outcome::Refused(Rejection::ExtensionLimit { max_expires_at }));
    }
    let mut lines = NewLines {
        changes: hold.lines.iter().map(kept).collect(),
        lines: hold.lines.to_vec(),
        latest: None,
        same: true,
    };
    if let Some(basket) = &command.basket {
        let request = Request::amending(basket, &hold);
        if let Err(rejection) = validate_lines(context, &request, at)? {
            return Ok(Outcome::Refused(rejection));
        }
        let overrides = command.override_limits;
        let plan = match LimitPlan::of_request(context, &request, &hold.terms.reserve, overrides)? {
            Ok(plan) => plan,
            Err(rejection) => return Ok(Outcome::Refused(rejection)),
        };
        let limits_left = match plan.check(context, command.fulfilment, overrides, at)? {
            LimitDecision::Within(limits_left) => limits_left,
            LimitDecision::Refused(rejection) => return Ok(Outcome::Refused(rejection)),
            LimitDecision::Later => return Ok(Outcome::Later),
        };
        let Some(later) = expire_until_it_fits(context, &request, at)? else { return Ok(Outcome::Later) };
        at = later;
        // An item with a later clock, or a hold that was expired, may have moved the time past this hold's deadline.
        if let Some(rejection) = ended_meanwhile(context, &hold, at)? {
            return Ok(Outcome::Refused(rejection));
        }
        if let Some(rejection) = refusal_of_sale(context, &request, at)? {
            return Ok(Outcome::Refused(rejection));
        }
        let granted = match grant(context, &request, command.fulfilment, &plan, limits_left)? {
            Ok(granted) => granted,
            Err(rejection) => return Ok(Outcome::Refused(rejection)),
        };
        lines = match new_lines(context, &hold, basket, granted, at)? {
            Ok(lines) => lines,
            Err(rejection) => return Ok(Outcome::Refused(rejection)),
        };
    }
    let NewLines { lines, changes, latest, same } = lines;
    // After a payment window was closed, the deadline may be past its limit. Then only new lines cut it.
    let extended =
        command.ttl.map_or(hold.expires_at, |ttl| at.deadline(ttl).min(max_expires_at).max(hold.expires_at));
    let expires_at = latest.map_or(extended, |latest| latest.min(extended));
    let max_expires_at = latest.map_or(max_expires_at, |latest| latest.min(max_expires_at));
    let before = &hold.terms.reserve;
    let optional = before.optional.as_deref().cloned().unwrap_or_default();
    let metadata = command.metadata.clone().over(optional.metadata.clone());
    let reserve = ReserveTerms::new(before.owner_id.clone(), OptionalTerms { metadata, ..optional });
    let terms = HoldTerms { reserve, max_expires_at, ..(*hold.terms).clone() };
    if same && expires_at == hold.expires_at && terms == *hold.terms {
        return Ok(done(context, hold, at));
    }
    let hold = Hold { expires_at, terms: Arc::new(terms), ..hold };
    let change = HoldChange::Amended { lines: changes.into() };
    let hold = change_hold(context, context.fresh.event, at, hold, lines, change)?;
    Ok(done(context, hold, at))
}

/// Lines after an amend, with what each was before. Removed lines are at the end.
struct NewLines {
    lines: Vec<Line>,
    changes: Vec<LineChange>,
    /// The latest deadline that the items of new lines allow; `None` when there are no new lines.
    latest: Option<Instant>,
    /// Whether every line is as before.
    same: bool,
}

/// The refusal of a hold that was expired while others were, or that is due at a later instant than the command was decided at.
fn ended_meanwhile<S: State>(
    context: &mut CommandContext<'_, S>,
    hold: &Hold,
    at: Instant,
) -> Result<Option<Rejection>, DecideError> {
    let known = context.state.hold(hold.id)?.cloned();
    let known = known.ok_or(DecideError::InvariantViolated("a hold disappeared while it was amended"))?;
    Ok(if known.status != Status::Active {
        Some(ended(&known))
    } else if known.is_due(at) {
        Some(ended(&expire(context, hold.id, at)?))
    } else {
        None
    })
}

/// The change of a line that keeps all of its units.
pub(super) fn kept(line: &Line) -> LineChange {
    let kept = u32::try_from(line.units().len()).unwrap_or(u32::MAX);
    LineChange { quantity_before: line.quantity, kept, released: [].into() }
}

/// A line that its reservation loses, with all of its units.
pub(super) fn removed(line: &Line) -> Result<(Line, LineChange), DecideError> {
    let change =
        LineChange { quantity_before: line.quantity, kept: 0, released: next_versions(line.units())?.into() };
    let units = line.units.as_ref().map(|_| Arc::new(LineUnits::new(Vec::new())));
    Ok((Line { requested: 0, quantity: 0, units, details: None, ..line.clone() }, change))
}

fn new_lines<S: State>(
    context: &CommandContext<'_, S>,
    hold: &Hold,
    basket: &Basket,
    granted: Vec<Grant<'_>>,
    at: Instant,
) -> Result<Result<NewLines, Rejection>, DecideError> {
    let channel = hold.terms.reserve.channel();
    let mut lines = Vec::with_capacity(basket.lines().len());
    let mut changes = Vec::with_capacity(basket.lines().len());
    let mut latest: Option<Instant> = None;
    let mut same = granted.len() == hold.lines.len();
    for Grant { requested, own, offer, counted, pool } in granted {
        let item = known(context, requested)?;
        if own.is_none() {
            let of_item = at.deadline(context.rules.of_item(item).max_hold);
            latest = Some(latest.map_or(of_item, |latest| latest.min(of_item)));
        }
        let units = offer.units.unwrap_or_default();
        let stays: BTreeSet<_> =
            units.iter().take(own.map_or(0, |line| line.units().len())).map(|unit| &unit.id).collect();
        let released: Vec<_> = own
            .map(Line::units)
            .unwrap_or_default()
            .iter()
            .filter(|unit| !stays.contains(&unit.id))
            .cloned()
            .collect();
        changes.push(LineChange {
            quantity_before: own.map_or(0, |line| line.quantity),
            kept: offer.kept,
            released: next_versions(&released)?.into(),
        });
        let (quantity, has_ids) = (line_units(offer.quantity)?, item.mode == Mode::Units);
        let had = own.map_or(0, |line| line.quantity);
        let quantities =
            Quantities { kept: if has_ids { offer.kept } else { had.min(quantity) }, now: quantity };
        let price = match prices::of_amended_line(item, own, quantities, channel, at) {
            Ok(price) => price,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let details = backorder::details_of(item, own, quantity, has_ids.then_some(&units), counted, pool);
        let line = Line {
            item: item.key.clone(),
            requested: line_units(requested.quantity)?,
            quantity,
            fulfilled: 0,
            returned: 0,
            sequence: own.map_or(0, |line| line.sequence),
            details: prices::with(details, price),
            units: has_ids.then(|| Arc::new(LineUnits::new(units))),
        };
        same &= own.is_some_and(|own| own.requested == line.requested)
            && changes.last().is_some_and(|change| change.is_empty(&line));
        lines.push(line);
    }
    if let Some(rejection) = prices::refusal("/lines", lines.iter()) {
        return Ok(Err(rejection));
    }
    let stays: BTreeSet<_> = lines.iter().map(|line| line.item.clone()).collect();
    for line in hold.lines.iter().filter(|line| !stays.contains(&line.item)) {
        let (line, change) = removed(line)?;
        lines.push(line);
        changes.push(change);
    }
    Ok(Ok(NewLines { lines, changes, latest, same }))
}
