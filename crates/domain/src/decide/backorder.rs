//! Backorders: units of a line that are not there yet. A line that loses units loses its backordered ones first.

use crate::hold::{Line, LineDetails};
use crate::item::Item;
use alloc::boxed::Box;

/// The details of a line on a counted item that gets this many units in place of those of `own`. `item` is as it was before.
pub(super) fn details_of(item: &Item, own: Option<&Line>, quantity: u32) -> Option<Box<LineDetails>> {
    let had = own.map_or(0, |line| line.quantity);
    let details = own.map(|line| line.details().clone()).unwrap_or_default();
    let Some(more) = quantity.checked_sub(had).filter(|more| *more > 0) else {
        return without(&details, had.saturating_sub(quantity)).some();
    };
    let figures = &item.figures;
    let committed = figures.confirmed_sold.saturating_add(figures.held).saturating_add(u64::from(more));
    let short = committed.saturating_sub(figures.total_units);
    let late = more.min(u32::try_from(short).unwrap_or(u32::MAX));
    if late == 0 {
        return details.some();
    }
    let backordered = details.backordered.saturating_add(late);
    LineDetails { backordered, promised_at: item.settings.covered_from(short) }.some()
}

/// The details of the two parts of a line: of the part with this many units, and of the rest.
pub(super) fn split(line: &Line, quantity: u32) -> (Option<Box<LineDetails>>, Option<Box<LineDetails>>) {
    let details = line.details();
    let moved = LineDetails { backordered: details.backordered.min(quantity), ..details.clone() };
    (promised(&moved).some(), without(details, quantity).some())
}

/// The details of two lines of one item together.
pub(super) fn sum(one: &Line, other: &Line) -> Option<Box<LineDetails>> {
    let (one, other) = (one.details(), other.details());
    let promised_at = match (one.backordered, other.backordered) {
        (0, _) => other.promised_at,
        (_, 0) => one.promised_at,
        // Without a date for one of them there is none for both.
        (_, _) => one.promised_at.zip(other.promised_at).map(|(one, other)| one.max(other)),
    };
    LineDetails { backordered: one.backordered.saturating_add(other.backordered), promised_at }.some()
}

fn without(details: &LineDetails, units: u32) -> LineDetails {
    promised(&LineDetails { backordered: details.backordered.saturating_sub(units), ..details.clone() })
}

/// Only a line with backordered units has a date.
fn promised(details: &LineDetails) -> LineDetails {
    LineDetails { promised_at: details.promised_at.filter(|_| details.backordered > 0), ..details.clone() }
}
