//! Transfer: a hold gets another owner, customer or session. Its units and its deadline stay.

use super::hold::{change_hold, done, open_for_change};
use super::{CommandContext, DecideError};
use crate::command::{Patch, Transfer};
use crate::event::{HoldChange, Parties};
use crate::hold::{Hold, HoldTerms, OptionalTerms, ReserveTerms};
use crate::outcome::Outcome;
use crate::rejection::Rejection;
use crate::state::State;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;

pub(super) fn transfer<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Transfer,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let Transfer { id, owner_id, customer_id, session_id, expected } = command;
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
        customer_id: optional.customer_id.clone(),
        session_id: optional.session_id.clone(),
    };
    let optional = OptionalTerms {
        customer_id: customer_id.clone().over(optional.customer_id),
        session_id: session_id.clone().over(optional.session_id),
        ..optional
    };
    let owner_id = owner_id.clone().unwrap_or_else(|| before.owner_id.clone());
    let reserve = ReserveTerms::new(owner_id, optional);
    if reserve == *before {
        return Ok(done(context, hold, at));
    }
    let details = hold.details.get_or_insert_default();
    details.transfers = details.transfers.saturating_add(1);
    let lines = hold.lines.to_vec();
    let hold = Hold { terms: Arc::new(HoldTerms { reserve, ..(*hold.terms).clone() }), ..hold };
    let change = HoldChange::Transferred { from: Box::new(from) };
    let hold = change_hold(context, context.fresh.event, at, hold, lines, change)?;
    Ok(done(context, hold, at))
}
