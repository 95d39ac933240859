//! What a request for lines gets: expiry of the due holds that block it, then the units of each line. Reserve, amend and reacquire share
//! it. An amend counts the units of its own hold as free.

use super::hold::expire;
use super::limits::{self, LimitPlan, LimitsLeft};
use super::reserve::line_units;
use super::units::{Offer, due_holders, offer};
use super::{CommandContext, DecideError, pools};
use crate::basket::{Basket, RequestedLine};
use crate::command::Fulfilment;
use crate::hold::{Hold, Line};
use crate::item::{Item, Mode};
use crate::label::Label;
use crate::limit::{CounterKey, LineCount};
use crate::rejection::{Rejection, Shortage, UnavailableUnits};
use crate::state::State;
use crate::time::Instant;
use crate::unit_selection::UnitSelection;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The lines that a command asks for, and the lines of its own hold on the same items.
pub(super) struct Request<'a> {
    pub(super) basket: &'a Basket,
    /// In the order of the basket; empty when there is no hold yet.
    own: Vec<Option<&'a Line>>,
    /// All lines of the hold.
    lines: &'a [Line],
    /// The pool that lines draw from before general stock.
    pool: Option<&'a Label>,
}

/// A requested line and what it gets.
pub(super) struct Grant<'a> {
    pub(super) requested: &'a RequestedLine,
    pub(super) own: Option<&'a Line>,
    pub(super) offer: Offer,
    /// The counters of limits that count the line afterwards.
    pub(super) counted: Vec<LineCount>,
    /// The pool that it draws from.
    pub(super) pool: Option<&'a Label>,
}

impl<'a> Request<'a> {
    /// A request without a hold.
    pub(super) fn new(basket: &'a Basket, pool: Option<&'a Label>) -> Self {
        Self { basket, own: Vec::new(), lines: &[], pool }
    }

    /// A request that replaces the lines of a hold.
    pub(super) fn amending(basket: &'a Basket, hold: &'a Hold) -> Self {
        let (lines, pool) = (&*hold.lines, hold.terms.reserve.pool());
        let known: BTreeMap<_, _> = lines.iter().map(|line| (&line.item, line)).collect();
        let own = basket.lines().iter().map(|line| known.get(&line.item).copied()).collect();
        Self { basket, own, lines, pool }
    }

    /// The units that the hold gives back if the request is granted in full, by the counters of limits that count them.
    pub(super) fn returned(&self) -> BTreeMap<CounterKey, u64> {
        let requested: BTreeMap<_, _> =
            self.basket.lines().iter().map(|line| (&line.item, line.quantity)).collect();
        limits::lost(self.lines.iter().map(|line| {
            let stays =
                requested.get(&line.item).map_or(0, |units| u32::try_from(*units).unwrap_or(u32::MAX));
            (line, line.quantity.saturating_sub(stays))
        }))
    }

    /// The hold's line on the item of the line with this number.
    pub(super) fn own(&self, number: usize) -> Option<&'a Line> {
        self.own.get(number).copied().flatten()
    }

    /// Whether the line may get units that its hold does not have. The best available units are planned anew, so they may.
    pub(super) fn adds(&self, number: usize, line: &RequestedLine) -> bool {
        let Some(own) = self.own(number) else { return true };
        match self.basket.selection(number) {
            Some(UnitSelection::BestAvailable(_)) => true,
            Some(UnitSelection::Named(ids)) => {
                let known: alloc::collections::BTreeSet<_> =
                    own.units().iter().map(|unit| &unit.id).collect();
                ids.iter().any(|id| !known.contains(id))
            }
            None => line.quantity > u64::from(own.quantity),
        }
    }
}

/// What each line of a request gets, in the order of its lines. Lines that get nothing are left out. With `limits_left`, no line gets more than
/// limits leave.
pub(super) fn grant<'a, S: State>(
    context: &CommandContext<'_, S>,
    request: &Request<'a>,
    fulfilment: Fulfilment,
    plan: &LimitPlan,
    mut limits_left: Option<LimitsLeft>,
) -> Result<Result<Vec<Grant<'a>>, Rejection>, DecideError> {
    let lines = request.basket.lines();
    let mut granted = Vec::with_capacity(lines.len());
    let (mut short, mut taken) = (Vec::new(), Vec::new());
    for (number, line) in lines.iter().enumerate() {
        let (item, own) = (known(context, line)?, request.own(number));
        let mut offer = match item.mode {
            Mode::Counted => {
                let quantity = line.quantity.min(free(item, own, request.pool));
                Offer { quantity, ..Offer::default() }
            }
            Mode::Units => offer(context, item, line, request.basket.selection(number), own, request.pool)?,
        };
        let in_stock = offer.quantity;
        if let Some(limits_left) = &mut limits_left {
            let had = own.map_or(0, |line| u64::from(line.quantity));
            offer.clip(had.saturating_add(plan.most(number, limits_left)));
            plan.take(number, offer.quantity.saturating_sub(had), limits_left);
        }
        if !offer.taken.is_empty() {
            taken.push(UnavailableUnits {
                item: item.key.clone(),
                units: core::mem::take(&mut offer.taken),
                unknown: core::mem::take(&mut offer.unknown),
                next_expiry_at: offer.next_expiry_at,
            });
        } else if in_stock < line.quantity {
            short.push((line, in_stock, core::mem::take(&mut offer.unknown_sections)));
        }
        if offer.quantity > 0 {
            let had = own.map_or(0, |line| line.quantity);
            let before = own.map(|line| &*line.details().counted).unwrap_or_default();
            let counted = plan.counted(number, before, had, line_units(offer.quantity)?);
            granted.push(Grant { requested: line, own, offer, counted, pool: request.pool });
        }
    }
    let refused = match fulfilment {
        Fulfilment::All => !short.is_empty() || !taken.is_empty(),
        Fulfilment::Partial => granted.is_empty(),
    };
    Ok(if refused && !taken.is_empty() {
        Err(Rejection::UnitsUnavailable(taken))
    } else if refused {
        Err(shortages(context, short)?)
    } else {
        Ok(granted)
    })
}

/// Units of an item that a line can get: those that are available, and those of its own hold.
pub(super) fn free(item: &Item, own: Option<&Line>, pool: Option<&Label>) -> u64 {
    let own_units = own.map_or(0, |line| u64::from(line.quantity));
    item.available_through(pool, Item::available).saturating_add(own_units)
}

/// Expires due holds of the items that fall short, earliest first, until the request fits or none is due. Returns the
/// instant that applies to the whole request, or `None` when the batch has no expiries left and more holds are due.
pub(super) fn expire_until_it_fits<S: State>(
    context: &mut CommandContext<'_, S>,
    request: &Request<'_>,
    now: Instant,
) -> Result<Option<Instant>, DecideError> {
    let lines = request.basket.lines();
    let mut now = clamp_to_item_clock(context, lines, now)?;
    loop {
        for (number, line) in lines.iter().enumerate() {
            // A pool whose time has come is released before anything is drawn from it.
            if !pools::release_due(context, &line.item, now)? {
                return Ok(None);
            }
            // Named units are free only after the holds that have them end. Expiring other holds does not help.
            if let Some(UnitSelection::Named(ids)) = request.basket.selection(number) {
                for due in due_holders(context, &line.item, ids, now)? {
                    if !context.may_expire() {
                        return Ok(None);
                    }
                    expire(context, due, now)?;
                }
            }
            while !fits(context, request, number, line, now)? {
                match context.state.earliest(Some(&line.item))? {
                    Some((due, id)) if due <= now => {
                        if !context.may_expire() {
                            return Ok(None);
                        }
                        expire(context, id, now)?;
                    }
                    _ => break,
                }
            }
        }
        // An expired hold may span items with a later clock. The clock then moves, and more holds may be due.
        let floor = clamp_to_item_clock(context, lines, now)?;
        if floor == now {
            return Ok(Some(now));
        }
        now = floor;
    }
}

/// Whether expiring due holds would not help this line: it fits in full, or its named units are not in a due hold.
fn fits<S: State>(
    context: &CommandContext<'_, S>,
    request: &Request<'_>,
    number: usize,
    line: &RequestedLine,
    now: Instant,
) -> Result<bool, DecideError> {
    let (item, own) = (known(context, line)?, request.own(number));
    // The allowance is for units that are not there, so a due hold ends before a line is backordered.
    let own_units = own.map_or(0, |line| u64::from(line.quantity));
    let there = item.available_through(request.pool, Item::available_now);
    if there.saturating_add(own_units) < line.quantity {
        return Ok(false);
    }
    let selection = request.basket.selection(number);
    match selection {
        None | Some(UnitSelection::Named(_)) => Ok(true),
        Some(UnitSelection::BestAvailable(_)) => {
            // Planning is repeated for the grant itself, so skip it here when nothing is due. Deadlines that are not loaded
            // count as none: a store has to load them only when stock falls short.
            let none_is_due = context
                .state
                .earliest(Some(&line.item))
                .is_ok_and(|first| first.is_none_or(|(due, _)| due > now));
            let offered = || offer(context, item, line, selection, own, request.pool);
            Ok(none_is_due || offered()?.quantity == line.quantity)
        }
    }
}

/// `now`, clamped to the clocks of the basket's items: time never runs backwards for an item.
pub(super) fn clamp_to_item_clock<S: State>(
    context: &CommandContext<'_, S>,
    lines: &[RequestedLine],
    now: Instant,
) -> Result<Instant, DecideError> {
    let mut at = now;
    for line in lines {
        at = at.max(known(context, line)?.figures.at);
    }
    Ok(at)
}

pub(super) fn known<'s, S: State>(
    context: &'s CommandContext<'_, S>,
    line: &RequestedLine,
) -> Result<&'s Item, DecideError> {
    context
        .state
        .item(&line.item)?
        .ok_or(DecideError::InvariantViolated("an item disappeared while a command was decided"))
}

fn shortages<S: State>(
    context: &CommandContext<'_, S>,
    short: Vec<(&RequestedLine, u64, Vec<Label>)>,
) -> Result<Rejection, DecideError> {
    let mut lines = Vec::with_capacity(short.len());
    for (line, available, unknown_sections) in short {
        lines.push(Shortage {
            item: line.item.clone(),
            requested: line.quantity,
            available,
            next_expiry_at: context.state.earliest(Some(&line.item))?.map(|(due, _)| due),
            unknown_sections,
            approximate: false,
        });
    }
    Ok(Rejection::InsufficientInventory(lines))
}
