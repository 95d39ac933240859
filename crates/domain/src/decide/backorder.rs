//! Backorders: units of a line that are not there yet. A line that loses units loses its backordered ones first.

use super::{limits, pools, unit_pools};
use crate::hold::{Line, LineDetails};
use crate::item::Item;
use crate::label::Label;
use crate::limit::LineCount;
use crate::unit::LineUnit;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The details of a line that gets this many units in place of those of `own`. `item` is as it was before. `units` are the units that
/// the line gets, where units have ids.
pub(super) fn details_of(
    item: &Item,
    own: Option<&Line>,
    quantity: u32,
    units: Option<&[LineUnit]>,
    counted: Vec<LineCount>,
    pool: Option<&Label>,
) -> Option<Box<LineDetails>> {
    let had = own.map_or(0, |line| line.quantity);
    let details = own.map(|line| line.details().clone()).unwrap_or_default();
    if let Some(units) = units {
        // A unit that is not there can't be granted, so nothing is backordered.
        return LineDetails { counted, draws: unit_pools::draws_of(units), ..details }.some();
    }
    let draws = pools::kept(&details.draws, quantity);
    let details = LineDetails { counted, draws, ..details };
    let Some(more) = quantity.checked_sub(had).filter(|more| *more > 0) else {
        return without(details, had.saturating_sub(quantity)).some();
    };
    let gained = pools::draw(item, pool, more);
    let general = more.saturating_sub(gained.as_ref().map_or(0, |draw| draw.units));
    let draws = pools::sum(&details.draws, gained.as_slice());
    let details = LineDetails { draws, ..details };
    // What is drawn from a pool was set aside before, so it makes nothing late.
    let promised = item.figures.committed().saturating_add(item.pools.set_aside());
    let short = promised.saturating_add(u64::from(general)).saturating_sub(item.figures.total_units);
    let late = general.min(u32::try_from(short).unwrap_or(u32::MAX));
    if late == 0 {
        return details.some();
    }
    let backordered = details.backordered.saturating_add(late);
    LineDetails { backordered, promised_at: item.settings.covered_from(short), ..details }.some()
}

/// The details of the two parts of a line: of the part with this many units, and of the rest. `units` are those of the first part, where
/// units have ids.
pub(super) fn split(
    line: &Line,
    quantity: u32,
    units: &[LineUnit],
) -> (Option<Box<LineDetails>>, Option<Box<LineDetails>>) {
    let details = line.details();
    let backordered = details.backordered.min(quantity);
    let counted = limits::part(&details.counted, quantity);
    let kept = if line.units.is_some() {
        pools::rest(&details.draws, &unit_pools::draws_of(units))
    } else {
        // General stock leaves a line first.
        pools::kept(&details.draws, line.quantity.saturating_sub(quantity))
    };
    let draws = pools::rest(&details.draws, &kept);
    let price = details.price.as_ref().map(|price| price.share(quantity, line.quantity));
    let rest = details.price.as_ref().zip(price.as_ref()).map(|(whole, share)| whole.less(share));
    let moved = LineDetails { backordered, counted, draws, price, ..details.clone() };
    let counted = limits::less(&details.counted, quantity);
    let left = LineDetails { counted, draws: kept, price: rest, ..details.clone() };
    (promised(moved).some(), without(left, quantity).some())
}

/// The details of two lines of one item together, without what limits count. The caller checks that their currencies are the same.
pub(super) fn sum(one: &Line, other: &Line) -> Option<Box<LineDetails>> {
    let is_new = one.quantity == 0;
    let (one, other) = (one.details(), other.details());
    let price = match &one.price {
        _ if is_new => other.price.clone(),
        price => price.as_ref().zip(other.price.as_ref()).and_then(|(one, other)| one.plus(other)),
    };
    let promised_at = match (one.backordered, other.backordered) {
        (0, _) => other.promised_at,
        (_, 0) => one.promised_at,
        // Without a date for one of them there is none for both.
        (_, _) => one.promised_at.zip(other.promised_at).map(|(one, other)| one.max(other)),
    };
    let backordered = one.backordered.saturating_add(other.backordered);
    let draws = pools::sum(&one.draws, &other.draws);
    LineDetails { backordered, promised_at, counted: Vec::new(), draws, price, refunded: 0 }.some()
}

fn without(details: LineDetails, units: u32) -> LineDetails {
    promised(LineDetails { backordered: details.backordered.saturating_sub(units), ..details })
}

/// Only a line with backordered units has a date.
fn promised(details: LineDetails) -> LineDetails {
    LineDetails { promised_at: details.promised_at.filter(|_| details.backordered > 0), ..details }
}
