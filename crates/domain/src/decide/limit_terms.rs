//! Commands of operators on limits: set and delete.

use super::{CommandContext, DecideError, add};
use crate::command::{DeleteLimit, SetLimit};
use crate::event::Transition;
use crate::label::Label;
use crate::limit::{Limit, LimitTerms};
use crate::limits::{LIMIT_CHANNELS, LIMIT_TARGETS, LIMITS, TOTAL_UNITS};
use crate::outcome::{Outcome, Reply};
use crate::precondition::Precondition;
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;

pub(super) fn set<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &SetLimit,
    now: Instant,
) -> Result<Outcome, DecideError> {
    if let Some(rejection) = malformed(&command.terms) {
        return Ok(Outcome::Refused(rejection));
    }
    let asked = in_order(&command.terms);
    let limits = context.state.limits()?;
    let before = limits.get(&command.id);
    if let Some(rejection) = unexpected(before, command.expected.as_ref()) {
        return Ok(Outcome::Refused(rejection));
    }
    let known = before.and_then(|limit| limit.terms.as_deref());
    if let (Some(before), Some(known)) = (before, known)
        && *known == asked
    {
        return Ok(Outcome::Done(Reply::Limit { limit: before.clone(), created: false }));
    }
    if known.is_none() && limits.iter().filter(|limit| limit.terms.is_some()).count() >= LIMITS {
        return Ok(Outcome::Refused(Rejection::TooManyLimits));
    }
    let version = add(before.map_or(0, |limit| limit.version), 1)?;
    // Only the counters of a limit that counts the same units as before go on.
    let same = known.is_some_and(|known| {
        let LimitTerms { targets, channels, per, limit: _, counts: _ } = &asked;
        (&known.targets, &known.channels, &known.per) == (targets, channels, per)
    });
    let generation = before.filter(|_| same).map_or(version, |limit| limit.generation);
    let created = known.is_none();
    let terms = Some(Arc::new(asked));
    let limit = Limit { id: command.id.clone(), version, generation, terms };
    context.emit(context.fresh.event, now, None, Transition::Limit { limit: limit.clone() });
    Ok(Outcome::Done(Reply::Limit { limit, created }))
}

/// The terms with their targets and channels in one order: these are sets, and the same set in another order is the same limit.
fn in_order(terms: &LimitTerms) -> LimitTerms {
    let mut terms = terms.clone();
    terms.targets.sort();
    terms.channels.sort();
    terms
}

/// Deletes a limit. Deleting it again changes nothing.
pub(super) fn delete<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &DeleteLimit,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let Some(before) = context.state.limits()?.get(&command.id).cloned() else {
        return Ok(Outcome::Refused(Rejection::UnknownLimit(command.id.clone())));
    };
    if before.terms.is_none() {
        return Ok(Outcome::Done(Reply::Limit { limit: before, created: false }));
    }
    if let Some(rejection) = unexpected(Some(&before), command.expected.as_ref()) {
        return Ok(Outcome::Refused(rejection));
    }
    let limit = Limit { version: add(before.version, 1)?, terms: None, ..before };
    context.emit(context.fresh.event, now, None, Transition::Limit { limit: limit.clone() });
    Ok(Outcome::Done(Reply::Limit { limit, created: false }))
}

/// The refusal of a precondition that a limit does not fulfil. A deleted limit counts as absent.
fn unexpected(limit: Option<&Limit>, expected: Option<&Precondition>) -> Option<Rejection> {
    let version = limit.filter(|limit| limit.terms.is_some()).map(|limit| limit.version);
    let is_met = expected.is_none_or(|expected| expected.is_met(version));
    (!is_met).then_some(Rejection::PreconditionFailed { version })
}

fn malformed(terms: &LimitTerms) -> Option<Rejection> {
    let LimitTerms { targets, channels, per: _, limit, counts: _ } = terms;
    if targets.is_empty() || targets.len() > LIMIT_TARGETS {
        let detail = format!("must have 1 to {LIMIT_TARGETS} entries, and has {}", targets.len());
        return Some(Rejection::invalid("/items", detail));
    }
    if channels.len() > LIMIT_CHANNELS {
        let detail = format!("must have at most {LIMIT_CHANNELS} entries, and has {}", channels.len());
        return Some(Rejection::invalid("/channels", detail));
    }
    let mut known = BTreeSet::new();
    if let Some(place) = targets.iter().position(|target| !known.insert(target)) {
        return Some(Rejection::invalid(&format!("/items/{place}"), "must not occur twice".to_string()));
    }
    let mut known: BTreeSet<&Label> = BTreeSet::new();
    if let Some(place) = channels.iter().position(|channel| !known.insert(channel)) {
        return Some(Rejection::invalid(&format!("/channels/{place}"), "must not occur twice".to_string()));
    }
    (*limit > TOTAL_UNITS).then(|| Rejection::invalid("/limit", format!("must be at most {TOTAL_UNITS}")))
}
