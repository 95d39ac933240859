//! Transfer: a hold gets another owner, customer or session. Its units and its deadline stay.

use super::hold::{change_hold, done, open_for_change};
use super::limits::LimitPlan;
use super::{CommandContext, DecideError};
use crate::command::{Patch, Transfer};
use crate::event::{HoldChange, Parties};
use crate::hold::{Hold, HoldTerms, LineDetails, OptionalTerms, ReserveTerms};
use crate::limit::{LineCount, SubjectKind};
use crate::outcome::Outcome;
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) fn transfer<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Transfer,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let Transfer { id, owner_id, customer_id, session_id, override_limits, expected } = command;
    if owner_id.is_none() && *customer_id == Patch::Keep && *session_id == Patch::Keep {
        let detail = "must have `owner_id`, `customer_id` or `session_id`".to_string();
        return Ok(Outcome::Refused(Rejection::invalid("", detail)));
    }
    let (mut hold, at) = match open_for_change(context, *id, expected.as_ref(), now)? {
        Ok(opened) => opened,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let before = &hold.terms.reserve;
    let optional = before.optional.as_deref().cloned().unwrap_or_default();
    let from = Parties {
        owner_id: before.owner_id.clone(),
        customer_id: optional.customer_id,
        session_id: optional.session_id,
    };
    let reserve = transferred(before, command);
    if reserve == *before {
        return Ok(done(context, hold, at));
    }
    let changed = |kind: Option<SubjectKind>| {
        kind.is_some_and(|kind| reserve.subject(Some(kind)) != before.subject(Some(kind)))
    };
    let all = hold.lines.iter().map(|line| (&line.item, u64::from(line.quantity)));
    let plan = match LimitPlan::new(context, all, &reserve, *override_limits, changed)? {
        Ok(plan) => plan,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let exceeded = plan.exceeded(context)?;
    if *override_limits {
        plan.note_overridden(context, exceeded);
    } else if !exceeded.is_empty() {
        return Ok(Outcome::Refused(Rejection::LimitExceeded(exceeded)));
    }
    let mut lines = hold.lines.to_vec();
    for (number, line) in lines.iter_mut().enumerate() {
        // Units that counted for the old subject count for the new one.
        let stays = line.details().counted.iter().filter(|count| !changed(count.key.subject.kind()));
        let stays: Vec<LineCount> = stays.cloned().collect();
        let counted = plan.counted(number, &stays, 0, line.quantity);
        line.details = LineDetails { counted, ..line.details().clone() }.some();
    }
    let details = hold.details.get_or_insert_default();
    details.transfers = details.transfers.saturating_add(1);
    let hold = Hold { terms: Arc::new(HoldTerms { reserve, ..(*hold.terms).clone() }), ..hold };
    let change = HoldChange::Transferred { from: Box::new(from) };
    let hold = change_hold(context, context.fresh.event, at, hold, lines, change)?;
    Ok(done(context, hold, at))
}

/// The terms of a reservation after a transfer.
pub(super) fn transferred(before: &ReserveTerms, command: &Transfer) -> ReserveTerms {
    let optional = before.optional.as_deref().cloned().unwrap_or_default();
    let optional = OptionalTerms {
        customer_id: command.customer_id.clone().over(optional.customer_id),
        session_id: command.session_id.clone().over(optional.session_id),
        ..optional
    };
    ReserveTerms::new(command.owner_id.clone().unwrap_or_else(|| before.owner_id.clone()), optional)
}
