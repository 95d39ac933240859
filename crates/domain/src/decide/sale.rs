//! Changes of a confirmed reservation: fulfil records that units left the shelf, and return takes units back. Both select units of the
//! sale in the same way.

use super::hold::{Opened, change_hold, done, open, payment_in_progress_of};
use super::stock::changed_by;
use super::unit_pools::{self, leaving_order};
use super::units::next_version;
use super::{CommandContext, DecideError, limits, pools};
use crate::basket::Basket;
use crate::charge::Charge;
use crate::command::{Fulfil, Return, ReturnFrom};
use crate::event::{Disposition, HoldChange, MovedUnits, StockChange};
use crate::hold::{Hold, Line, LineDetails, Status};
use crate::id::{EventId, ReservationId};
use crate::item::{Item, ItemKey};
use crate::label::Label;
use crate::outcome::Outcome;
use crate::rejection::Rejection;
use crate::sale_selection::SaleSelection;
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

/// Which sold units a command may move, and which come first.
#[derive(Clone, Copy)]
pub(super) enum Movable {
    /// Those that have not left the shelf.
    ToFulfil,
    /// Those that were not returned, as far as they have left the shelf or not.
    ToReturn(Option<ReturnFrom>),
}

pub(super) fn fulfil<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Fulfil,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let (hold, at) = match confirmed(context, command.id, now)? {
        Ok(opened) => opened,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let moved = match Movable::ToFulfil.select(&hold, &command.selection)? {
        Ok(moved) => moved,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    for (line, moved) in hold.lines.iter().zip(&moved) {
        if let Some(rejection) = exceeds_on_hand(context, line, moved.quantity)? {
            return Ok(Outcome::Refused(rejection));
        }
    }
    let mut lines = Vec::with_capacity(hold.lines.len());
    for (line, moved) in hold.lines.iter().zip(&moved) {
        let fulfilled = super::sum(line.fulfilled, moved.quantity)?;
        let units = with_moved(line, &moved.places, |unit| unit.fulfilled = true)?;
        lines.push(Line { fulfilled, units, ..line.clone() });
    }
    let change = HoldChange::Fulfilled { lines: moved.into() };
    let hold = change_hold(context, context.fresh.event, at, hold, lines, change)?;
    Ok(done(context, hold, at))
}

pub(super) fn return_units<S: State>(
    context: &mut CommandContext<'_, S>,
    command: &Return,
    now: Instant,
) -> Result<Outcome, DecideError> {
    let (hold, at) = match confirmed(context, command.id, now)? {
        Ok(opened) => opened,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let moved = match Movable::ToReturn(command.from).select(&hold, &command.selection)? {
        Ok(moved) => moved,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let terms = ReturnTerms { from: command.from, disposition: command.disposition, reason: &command.reason };
    let after = match after_return(context, &hold, &moved, &terms)? {
        Ok(after) => after,
        Err(rejection) => return Ok(Outcome::Refused(rejection)),
    };
    let hold = returned(context, hold, &moved, after, &terms, context.fresh.event, at)?;
    Ok(done(context, hold, at))
}

/// How units are returned.
#[derive(Clone, Copy)]
pub(super) struct ReturnTerms<'a> {
    pub(super) from: Option<ReturnFrom>,
    pub(super) disposition: Disposition,
    pub(super) reason: &'a Label,
}

/// The lines after a return, and how many of the returned units of each had left the shelf.
pub(super) type AfterReturn = (Vec<Line>, Vec<u32>);

/// What a return leads to, or why it is refused.
pub(super) fn after_return<S: State>(
    context: &CommandContext<'_, S>,
    hold: &Hold,
    moved: &[MovedUnits],
    terms: &ReturnTerms<'_>,
) -> Result<Result<AfterReturn, Rejection>, DecideError> {
    let mut lines = Vec::with_capacity(hold.lines.len());
    let mut fulfilled = Vec::with_capacity(hold.lines.len());
    for (line, moved) in hold.lines.iter().zip(moved) {
        let of_fulfilled = returned_after_fulfilment(line, moved, terms.from)?;
        // A written-off unit that has not left the shelf has to be there.
        let lost = super::difference(moved.quantity, of_fulfilled)?;
        if terms.disposition == Disposition::WriteOff
            && let Some(rejection) = exceeds_on_hand(context, line, lost)?
        {
            return Ok(Err(rejection));
        }
        fulfilled.push(of_fulfilled);
        lines.push(Line {
            fulfilled: super::difference(line.fulfilled, of_fulfilled)?,
            returned: super::sum(line.returned, moved.quantity)?,
            units: with_moved(line, &moved.places, |unit| unit.returned = true)?,
            details: details_after_return(line, moved)?,
            ..line.clone()
        });
    }
    Ok(Ok((lines, fulfilled)))
}

/// Returns units.
pub(super) fn returned<S: State>(
    context: &mut CommandContext<'_, S>,
    hold: Hold,
    moved: &[MovedUnits],
    (lines, fulfilled): AfterReturn,
    terms: &ReturnTerms<'_>,
    event: EventId,
    at: Instant,
) -> Result<Hold, DecideError> {
    let change = HoldChange::Returned {
        lines: moved.into(),
        fulfilled: fulfilled.into(),
        disposition: terms.disposition,
        reason: terms.reason.clone(),
    };
    let before = hold.clone();
    let hold = change_hold(context, event, at, hold, lines, change)?;
    if terms.disposition == Disposition::WriteOff {
        write_off(context, &before, &hold, moved, terms.reason, at)?;
    }
    Ok(hold)
}

/// Puts all units of a sale back into stock that were not returned.
pub(super) fn return_all<S: State>(
    context: &mut CommandContext<'_, S>,
    hold: Hold,
    reason: &Label,
    event: EventId,
    at: Instant,
) -> Result<Hold, DecideError> {
    let terms = ReturnTerms { from: None, disposition: Disposition::Restock, reason };
    let Ok(moved) = Movable::ToReturn(None).select(&hold, &SaleSelection::All)? else { return Ok(hold) };
    match after_return(context, &hold, &moved, &terms)? {
        Ok(after) => returned(context, hold, &moved, after, &terms, event, at),
        Err(_) => Err(DecideError::InvariantViolated("sold units can't be returned")),
    }
}

/// The details of a line of which sold units come back: limits count fewer of them, and general stock comes back before a pool's.
fn details_after_return(line: &Line, moved: &MovedUnits) -> Result<Option<Box<LineDetails>>, DecideError> {
    let Some(details) = line.details.as_deref() else { return Ok(None) };
    let counted = limits::less(&details.counted, moved.quantity);
    let draws = if line.units.is_some() {
        let unit = |place: &u32| line.units().get(usize::try_from(*place).ok()?).cloned();
        let units: Vec<LineUnit> = moved.places.iter().filter_map(unit).collect();
        pools::rest(&details.draws, &unit_pools::draws_of(&units))
    } else {
        let still_sold = super::difference(super::difference(line.quantity, line.returned)?, moved.quantity)?;
        pools::kept(&details.draws, still_sold)
    };
    Ok(LineDetails { counted, draws, ..details.clone() }.some())
}

/// The refusal of units of a line that would leave the shelf and are not on it, because they are backordered.
fn exceeds_on_hand<S: State>(
    context: &CommandContext<'_, S>,
    line: &Line,
    units: u32,
) -> Result<Option<Rejection>, DecideError> {
    let requested = u64::from(units);
    // An item of which everything came back may have been deleted since.
    let figures = context.state.item(&line.item)?.filter(|_| units > 0).map(|item| item.figures);
    let on_hand = figures.map_or(0, |figures| figures.total_units.saturating_sub(figures.fulfilled));
    let item = line.item.clone();
    Ok((requested > on_hand).then_some(Rejection::ExceedsOnHand { item, requested, on_hand }))
}

/// Takes returned units off the totals of their items, each item in an event of its own.
fn write_off<S: State>(
    context: &mut CommandContext<'_, S>,
    before: &Hold,
    hold: &Hold,
    moved: &[MovedUnits],
    reason: &Label,
    at: Instant,
) -> Result<(), DecideError> {
    let lines = before.lines.iter().zip(&*hold.lines).zip(moved).filter(|(_, moved)| moved.quantity > 0);
    for (number, ((line_before, line), moved)) in (1..).zip(lines) {
        let item = context.state.item(&line.item)?.cloned();
        let item = item.ok_or(DecideError::InvariantViolated("an item went away that has sales"))?;
        let lost = pools::rest(&line_before.details().draws, &line.details().draws);
        let item = Item { pools: pools::without_lost(&item.pools, &lost)?, ..item };
        let total = item.figures.total_units.checked_sub(u64::from(moved.quantity));
        let total = total.ok_or(DecideError::InvariantViolated("an item has fewer units than were sold"))?;
        let change = if line.units.is_some() {
            let unit =
                |place: &u32| line.units().get(usize::try_from(*place).ok()?).map(|unit| unit.id.clone());
            StockChange::UnitsRetired(moved.places.iter().filter_map(unit).collect())
        } else {
            let delta = -i64::from(moved.quantity);
            StockChange::Adjusted { delta, reason: reason.clone(), supply_id: None }
        };
        let event = context.fresh.event.nth(number);
        changed_by(context, event, item, total, change, at)?;
    }
    Ok(())
}

/// A confirmed reservation, with the instant that applies to it.
pub(super) fn confirmed<S: State>(
    context: &mut CommandContext<'_, S>,
    id: ReservationId,
    now: Instant,
) -> Result<Result<(Hold, Instant), Rejection>, DecideError> {
    let hold = match open(context, id, now)? {
        Opened::Ended(hold) if hold.status == Status::Confirmed => hold,
        Opened::Ended(hold) | Opened::Active(hold, _) => {
            return Ok(Err(Rejection::ReservationNotConfirmed(hold.id)));
        }
        Opened::Unknown => return Ok(Err(Rejection::UnknownReservation(id))),
    };
    if hold.charge().is_some_and(Charge::awaits_capture) {
        return Ok(Err(payment_in_progress_of(&hold)));
    }
    let at = clamp_ended(context, &hold, now)?;
    Ok(Ok((hold, at)))
}

/// `now`, clamped to the clocks of those items of an ended reservation that still exist.
pub(super) fn clamp_ended<S: State>(
    context: &CommandContext<'_, S>,
    hold: &Hold,
    now: Instant,
) -> Result<Instant, DecideError> {
    let mut at = now;
    for line in &*hold.lines {
        // An item of which everything came back may have been deleted since.
        at = at.max(context.state.item(&line.item)?.map_or(now, |item| item.figures.at));
    }
    Ok(at)
}

impl Movable {
    /// What a command moves of each line, in the order of the lines.
    pub(super) fn select(
        self,
        hold: &Hold,
        selection: &SaleSelection,
    ) -> Result<Result<Vec<MovedUnits>, Rejection>, DecideError> {
        match selection {
            SaleSelection::All => self.all(hold),
            SaleSelection::Lines(basket) => self.named_lines(hold, basket),
            SaleSelection::Units(ids) => self.named_units(hold, ids),
        }
    }

    fn all(self, hold: &Hold) -> Result<Result<Vec<MovedUnits>, Rejection>, DecideError> {
        let mut all = Vec::with_capacity(hold.lines.len());
        for line in &*hold.lines {
            all.push(self.first(line, self.left(line)?));
        }
        if all.iter().all(|moved| moved.quantity == 0)
            && let Some(line) = hold.lines.first()
        {
            return Ok(Err(self.exceeds(line, u64::from(line.quantity))?));
        }
        Ok(Ok(all))
    }

    fn named_lines(
        self,
        hold: &Hold,
        basket: &Basket,
    ) -> Result<Result<Vec<MovedUnits>, Rejection>, DecideError> {
        let known: BTreeSet<_> = hold.lines.iter().map(|line| &line.item).collect();
        if let Some(other) = basket.lines().iter().find(|requested| !known.contains(&requested.item)) {
            return Ok(Err(self.exceeds_none(&other.item, other.quantity)));
        }
        let requested: BTreeMap<_, _> =
            basket.lines().iter().enumerate().map(|(number, line)| (&line.item, (number, line))).collect();
        let mut all = Vec::with_capacity(hold.lines.len());
        for line in &*hold.lines {
            let Some((number, requested)) = requested.get(&line.item) else {
                all.push(MovedUnits::default());
                continue;
            };
            let quantity = match u32::try_from(requested.quantity) {
                Ok(quantity) if quantity <= self.left(line)? => quantity,
                Ok(_) | Err(_) => return Ok(Err(self.exceeds(line, requested.quantity)?)),
            };
            match basket.selection(*number) {
                Some(UnitSelection::Named(ids)) => match self.named_in_line(line, ids) {
                    Some(moved) => all.push(moved),
                    None => return Ok(Err(self.exceeds(line, requested.quantity)?)),
                },
                Some(UnitSelection::BestAvailable(_)) | None => all.push(self.first(line, quantity)),
            }
        }
        Ok(Ok(all))
    }

    fn named_units(
        self,
        hold: &Hold,
        ids: &[Label],
    ) -> Result<Result<Vec<MovedUnits>, Rejection>, DecideError> {
        if let Some(rejection) = ambiguous(hold, ids) {
            return Ok(Err(rejection));
        }
        let mut all = Vec::with_capacity(hold.lines.len());
        let mut found: BTreeSet<Label> = BTreeSet::new();
        for line in &*hold.lines {
            let movable: BTreeSet<&Label> =
                line.units().iter().filter(|unit| self.allows(unit)).map(|unit| &unit.id).collect();
            let here: Vec<Label> = ids.iter().filter(|id| movable.contains(id)).cloned().collect();
            all.push(self.named_in_line(line, &here).unwrap_or_default());
            found.extend(here);
        }
        if found.len() != ids.len() || ids.is_empty() {
            let line = hold.lines.first().ok_or(DecideError::InvariantViolated("a hold has no line"))?;
            return Ok(Err(self.exceeds(line, ids.len() as u64)?));
        }
        Ok(Ok(all))
    }

    /// Whether a unit with an id may be moved.
    fn allows(self, unit: &LineUnit) -> bool {
        !unit.returned
            && match self {
                Self::ToFulfil | Self::ToReturn(Some(ReturnFrom::Unfulfilled)) => !unit.fulfilled,
                Self::ToReturn(Some(ReturnFrom::Fulfilled)) => unit.fulfilled,
                Self::ToReturn(None) => true,
            }
    }

    /// Units of a line that may be moved.
    fn left(self, line: &Line) -> Result<u32, DecideError> {
        let sold = super::difference(line.quantity, line.returned)?;
        match self {
            Self::ToFulfil | Self::ToReturn(Some(ReturnFrom::Unfulfilled)) => {
                super::difference(sold, line.fulfilled)
            }
            Self::ToReturn(Some(ReturnFrom::Fulfilled)) => Ok(line.fulfilled),
            Self::ToReturn(None) => Ok(sold),
        }
    }

    fn exceeds(self, line: &Line, requested: u64) -> Result<Rejection, DecideError> {
        let (item, left) = (line.item.clone(), u64::from(self.left(line)?));
        Ok(match self {
            Self::ToFulfil => Rejection::FulfilExceedsSold { item, requested, unfulfilled: left },
            Self::ToReturn(_) => Rejection::ReturnExceedsSold { item, requested, sold: left },
        })
    }

    /// The refusal of an item that the reservation does not have.
    fn exceeds_none(self, item: &ItemKey, requested: u64) -> Rejection {
        let item = item.clone();
        match self {
            Self::ToFulfil => Rejection::FulfilExceedsSold { item, requested, unfulfilled: 0 },
            Self::ToReturn(_) => Rejection::ReturnExceedsSold { item, requested, sold: 0 },
        }
    }

    /// The first units of a line that may be moved, as many as `quantity`: those that have not left the shelf, then the others. Of both,
    /// general stock comes before the units of pools.
    fn first(self, line: &Line, quantity: u32) -> MovedUnits {
        let allowed = line.units().iter().zip(0..).filter(|(unit, _)| self.allows(unit));
        let mut places: Vec<(&LineUnit, u32)> = allowed.collect();
        places.sort_by_key(|(unit, place)| (unit.fulfilled, leaving_order(unit), *place));
        places.truncate(usize::try_from(quantity).unwrap_or(usize::MAX));
        let mut places: Vec<u32> = places.into_iter().map(|(_, place)| place).collect();
        places.sort_unstable();
        MovedUnits { quantity, places: places.into() }
    }

    /// The named units of a line, each named once. `None` when the line does not have one of them to move.
    fn named_in_line(self, line: &Line, ids: &[Label]) -> Option<MovedUnits> {
        let known: BTreeMap<&Label, u32> = line
            .units()
            .iter()
            .zip(0..)
            .filter(|(unit, _)| self.allows(unit))
            .map(|(unit, place)| (&unit.id, place))
            .collect();
        let mut places: Vec<u32> = ids.iter().map(|id| known.get(id).copied()).collect::<Option<_>>()?;
        places.sort_unstable();
        Some(MovedUnits { quantity: u32::try_from(places.len()).ok()?, places: places.into() })
    }
}

/// How many of the returned units of a line had left the shelf.
fn returned_after_fulfilment(
    line: &Line,
    moved: &MovedUnits,
    from: Option<ReturnFrom>,
) -> Result<u32, DecideError> {
    if line.units.is_some() {
        let unit = |place: &u32| line.units().get(usize::try_from(*place).ok()?);
        let count = moved.places.iter().filter_map(unit).filter(|unit| unit.fulfilled).count();
        return u32::try_from(count).map_err(|_| DecideError::InvariantViolated("a line exceeds its limit"));
    }
    Ok(match from {
        Some(ReturnFrom::Unfulfilled) => 0,
        Some(ReturnFrom::Fulfilled) => moved.quantity,
        None => {
            let sold = super::difference(line.quantity, line.returned)?;
            moved.quantity.saturating_sub(super::difference(sold, line.fulfilled)?)
        }
    })
}

/// Refuses an id that occurs in more than one line, returned units included: an id is unique within an item only.
fn ambiguous(hold: &Hold, ids: &[Label]) -> Option<Rejection> {
    let (mut once, mut again) = (BTreeSet::new(), BTreeSet::new());
    for unit in hold.lines.iter().flat_map(Line::units) {
        if !once.insert(&unit.id) {
            again.insert(&unit.id);
        }
    }
    let place = ids.iter().position(|id| again.contains(id))?;
    let detail = "is in more than one line of the reservation: name the unit in `lines`".to_string();
    Some(Rejection::invalid(&format!("/units/{place}"), detail))
}

/// The units of a line after those at these places were moved.
fn with_moved(
    line: &Line,
    places: &[u32],
    change: impl Fn(&mut LineUnit),
) -> Result<Option<Arc<LineUnits>>, DecideError> {
    let Some(units) = line.units.as_ref().filter(|_| !places.is_empty()) else {
        return Ok(line.units.clone());
    };
    let mut moved = units.all().to_vec();
    for place in places {
        let unit = usize::try_from(*place).ok().and_then(|place| moved.get_mut(place));
        let unit = unit.ok_or(DecideError::InvariantViolated("a line lacks a unit that was moved"))?;
        unit.version = next_version(unit.version)?;
        change(unit);
    }
    Ok(Some(Arc::new(LineUnits::new(moved))))
}
