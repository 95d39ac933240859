//! Whether a sale is on: pauses of everything, of a location and of an item, and the sale window of an item.

use super::grants::Request;
use super::{CommandContext, DecideError};
use crate::item::Item;
use crate::label::Label;
use crate::rejection::Rejection;
use crate::scope::Scope;
use crate::state::State;
use crate::time::Instant;

/// The refusal of a request because the sale of an item to which it adds units is paused, has not started or has ended at
/// this instant, or at the clocks of its items if they are later. Items that do not exist are ignored.
pub(super) fn refusal_of_sale<S: State>(
    context: &CommandContext<'_, S>,
    request: &Request<'_>,
    now: Instant,
) -> Result<Option<Rejection>, DecideError> {
    let mut at = now;
    for line in request.basket.lines() {
        at = at.max(context.state.item(&line.item)?.map_or(at, |item| item.figures.at));
    }
    for (number, line) in request.basket.lines().iter().enumerate() {
        let Some(item) = context.state.item(&line.item)?.filter(|_| request.adds(number, line)) else {
            continue;
        };
        if let Some(rejection) = refusal_of_item(context, item, at)? {
            return Ok(Some(rejection));
        }
    }
    Ok(None)
}

/// The refusal of an item because its sale is paused, has not started or has ended at this instant.
pub(super) fn refusal_of_item<S: State>(
    context: &CommandContext<'_, S>,
    item: &Item,
    at: Instant,
) -> Result<Option<Rejection>, DecideError> {
    if let Some(scope) = pause_of(context, item)? {
        return Ok(Some(Rejection::SalePaused(scope)));
    }
    let closed = item.settings.closed_at(at);
    Ok(closed.map(|window| Rejection::OutsideSaleWindow { item: item.key.clone(), window }))
}

/// The widest pause that concerns an item.
fn pause_of<S: State>(context: &CommandContext<'_, S>, item: &Item) -> Result<Option<Scope>, DecideError> {
    if context.state.paused(None)? {
        return Ok(Some(Scope::Everything));
    }
    if context.state.paused(Some(item.key.location()))? {
        let location = Label::new(item.key.location())
            .map_err(|_| DecideError::InvariantViolated("a location is not a label"))?;
        return Ok(Some(Scope::Location(location)));
    }
    Ok(item.paused.then(|| Scope::Item(item.key.clone())))
}
