//! What lines cost. A line keeps the price at which its units were reserved, and only units that are added get the price of now.

use super::DecideError;
use crate::hold::{Line, LineDetails};
use crate::item::Item;
use crate::label::Label;
use crate::limits::{AMOUNT, DISCOUNT_CHANNELS, DISCOUNTS, UNIT_AMOUNT};
use crate::price::{Discount, LinePrice, Price, Reduction};
use crate::rejection::Rejection;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The units of a line that it had before, and all that it has now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantities {
    pub(super) kept: u32,
    pub(super) now: u32,
}

/// What units of an item cost that are reserved now. `None` if it has no price.
pub(super) fn of_new_units(
    item: &Item,
    units: u32,
    channel: Option<&Label>,
    now: Instant,
) -> Option<LinePrice> {
    Some(item.settings.price.as_ref()?.of_units(units, channel, now))
}

/// The price of a line after an amend: a share of what it cost for the units that it keeps, and the price of now for the others. `None` if
/// any of them has no price.
pub(super) fn of_amended_line(
    item: &Item,
    own: Option<&Line>,
    units: Quantities,
    channel: Option<&Label>,
    now: Instant,
) -> Result<Option<LinePrice>, Rejection> {
    let added = units.now.saturating_sub(units.kept);
    let new = of_new_units(item, added, channel, now);
    let Some(own) = own.filter(|_| units.kept > 0) else { return Ok(new) };
    let kept = own.details().price.as_ref().map(|price| price.share(units.kept, own.quantity));
    match (kept, new) {
        (kept, _) if added == 0 => Ok(kept),
        (Some(kept), Some(new)) => kept.plus(&new).map(Some).ok_or_else(|| two_currencies("/lines")),
        (_, _) => Ok(None),
    }
}

/// Details with this price.
pub(super) fn with(details: Option<Box<LineDetails>>, price: Option<LinePrice>) -> Option<Box<LineDetails>> {
    if details.is_none() && price.is_none() {
        return None;
    }
    LineDetails { price, ..details.map(|details| *details).unwrap_or_default() }.some()
}

/// The refusal of lines that have two currencies, or that cost more together than an amount can say. `field` is the field of the request
/// that brings the lines together.
pub(super) fn refusal<'a>(field: &str, lines: impl Iterator<Item = &'a Line>) -> Option<Rejection> {
    refusal_of_prices(field, lines.filter_map(|line| line.details().price.as_ref()))
}

fn refusal_of_prices<'a>(field: &str, mut prices: impl Iterator<Item = &'a LinePrice>) -> Option<Rejection> {
    let mut sum = prices.next()?.clone();
    for price in prices {
        match sum.plus(price) {
            Some(more) => sum = more,
            None => return Some(two_currencies(field)),
        }
    }
    (!sum.is_in_range()).then(|| {
        let detail = format!("must not cost more than {AMOUNT} together, before discounts");
        Rejection::invalid(field, detail)
    })
}

fn two_currencies(field: &str) -> Rejection {
    let detail =
        "must bring together prices of one currency: use a reservation for each currency".to_string();
    Rejection::invalid(field, detail)
}

/// What a reserve of these units would cost at this instant: an entry for each, which is `None` where the item has no price. It is refused
/// as a reserve with these prices would be.
pub fn quote(
    units: &[(&Item, u32)],
    channel: Option<&Label>,
    now: Instant,
) -> Result<Vec<Option<LinePrice>>, Rejection> {
    let prices: Vec<_> =
        units.iter().map(|(item, quantity)| of_new_units(item, *quantity, channel, now)).collect();
    match refusal_of_prices("/lines", prices.iter().flatten()) {
        Some(rejection) => Err(rejection),
        None => Ok(prices),
    }
}

/// The refusal of a price that is wrong whatever the item is.
pub(super) fn malformed(price: &Price) -> Option<Rejection> {
    if price.unit_amount > UNIT_AMOUNT {
        return Some(Rejection::invalid("/price/unit_amount", format!("must be at most {UNIT_AMOUNT}")));
    }
    if price.discounts.len() > DISCOUNTS {
        let detail = format!("must be at most {DISCOUNTS} discounts, and is {}", price.discounts.len());
        return Some(Rejection::invalid("/price/discounts", detail));
    }
    price.discounts.iter().enumerate().find_map(|(place, discount)| {
        let (field, detail) = malformed_discount(discount)?;
        Some(Rejection::invalid(&format!("/price/discounts/{place}/{field}"), detail))
    })
}

fn malformed_discount(discount: &Discount) -> Option<(&'static str, String)> {
    match discount.reduction {
        Reduction::Percent(percent) if !(1..=100).contains(&percent) => {
            return Some(("percent", "must be 1 to 100".to_string()));
        }
        Reduction::AmountOff(amount) if !(1..=UNIT_AMOUNT).contains(&amount) => {
            return Some(("amount_off", format!("must be 1 to {UNIT_AMOUNT}")));
        }
        Reduction::Percent(_) | Reduction::AmountOff(_) => {}
    }
    if discount.from.zip(discount.to).is_some_and(|(from, to)| to <= from) {
        return Some(("to", "must be after `from`".to_string()));
    }
    if discount.channels.len() > DISCOUNT_CHANNELS {
        let detail =
            format!("must be at most {DISCOUNT_CHANNELS} channels, and is {}", discount.channels.len());
        return Some(("channels", detail));
    }
    None
}

/// The price of an expired line, for the line that takes its units again.
pub(super) fn frozen(lines: &[Line], item: &Item, quantity: u32) -> Result<Option<LinePrice>, DecideError> {
    let line = lines.iter().find(|line| line.item == item.key);
    let line = line.filter(|line| line.quantity == quantity);
    let line = line.ok_or(DecideError::InvariantViolated("a line was taken again in part"))?;
    Ok(line.details().price.clone())
}
