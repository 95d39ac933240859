//! What lines cost, in the model.

use super::{Model, invalid};
use stockhold_domain::{
    Discount, Instant, Label, Line, LineDetails, LinePrice, Price, Reduction, Rejection, SetStock, limits,
};
use stockhold_domain::{ItemKey, Patch};

impl Model {
    /// What units of an item cost that are reserved now.
    fn cost_now(
        &self,
        item: &ItemKey,
        units: u32,
        channel: Option<&Label>,
        now: Instant,
    ) -> Option<LinePrice> {
        let price = self.known(item).settings.price?;
        let full = i128::from(price.unit_amount) * i128::from(units);
        let mut cheapest = full;
        for discount in &price.discounts {
            if is_valid(discount, channel, now) {
                cheapest = cheapest.min(reduced(&price, discount, units));
            }
        }
        Some(LinePrice {
            unit_amount: Some(price.unit_amount),
            discount: amount(full - cheapest),
            amount: amount(cheapest),
            currency: price.currency,
        })
    }

    /// Sets the price of a line of a reservation that had `own` of its item, of which so many units stay.
    pub(super) fn price_line(
        &self,
        line: &mut Line,
        own: Option<(&Line, u32)>,
        channel: Option<&Label>,
        now: Instant,
    ) -> Result<(), Rejection> {
        let mut parts = Vec::new();
        let mut stay = 0;
        if let Some((own, staying)) = own.filter(|(_, staying)| *staying > 0) {
            parts.push(own.details().price.as_ref().map(|price| part(price, staying, own.quantity)));
            stay = staying;
        }
        if line.quantity > stay {
            parts.push(self.cost_now(&line.item, line.quantity - stay, channel, now));
        }
        let parts: Option<Vec<LinePrice>> = parts.into_iter().collect();
        let price = match parts {
            None => None,
            Some(parts) => Some(together(&parts).ok_or_else(|| invalid("/lines"))?),
        };
        set_price(line, price);
        Ok(())
    }
}

/// What is wrong with the price and the low stock that a command sets.
pub(super) fn expect_sound(asked: &SetStock) -> Result<(), Rejection> {
    if let Patch::Set(price) = &asked.price {
        if price.unit_amount > limits::UNIT_AMOUNT {
            return Err(invalid("/price/unit_amount"));
        }
        if price.discounts.len() > limits::DISCOUNTS {
            return Err(invalid("/price/discounts"));
        }
        for (n, discount) in price.discounts.iter().enumerate() {
            let field = match discount.reduction {
                Reduction::Percent(0 | 101..) => "percent",
                Reduction::AmountOff(off) if off == 0 || off > limits::UNIT_AMOUNT => "amount_off",
                _ if discount.from >= discount.to && discount.from.is_some() && discount.to.is_some() => "to",
                _ if discount.channels.len() > limits::DISCOUNT_CHANNELS => "channels",
                _ => continue,
            };
            return Err(invalid(&format!("/price/discounts/{n}/{field}")));
        }
    }
    match asked.low_stock {
        Patch::Set(units) if units > limits::TOTAL_UNITS => Err(invalid("/low_stock")),
        _ => Ok(()),
    }
}

/// Refuses lines that can't be paid together.
pub(super) fn expect_one_currency<'a>(
    lines: impl Iterator<Item = &'a Line>,
    field: &str,
) -> Result<(), Rejection> {
    let prices: Vec<LinePrice> = lines.filter_map(|line| line.details().price.clone()).collect();
    if prices.is_empty() {
        return Ok(());
    }
    let sum = together(&prices).ok_or_else(|| invalid(field))?;
    let full = u128::from(sum.amount) + u128::from(sum.discount);
    if full > u128::from(limits::AMOUNT) { Err(invalid(field)) } else { Ok(()) }
}

/// The price of a line is this one.
pub(super) fn set_price(line: &mut Line, price: Option<LinePrice>) {
    let details = LineDetails { price, ..line.details().clone() };
    line.details = (details != LineDetails::default()).then(|| Box::new(details));
}

/// The price of some units of a line.
pub(super) fn part(price: &LinePrice, units: u32, of: u32) -> LinePrice {
    let half_up =
        |amount: i128| (2 * amount * i128::from(units) + i128::from(of)).div_euclid(2 * i128::from(of));
    let (full, discount) =
        (i128::from(price.amount) + i128::from(price.discount), i128::from(price.discount));
    let (full, discount) = (half_up(full), half_up(discount).min(half_up(full)));
    LinePrice { discount: amount(discount), amount: amount(full - discount), ..price.clone() }
}

/// What is left of a price without a part.
pub(super) fn remainder(price: &LinePrice, part: &LinePrice) -> LinePrice {
    LinePrice {
        discount: price.discount - part.discount,
        amount: price.amount - part.amount,
        ..price.clone()
    }
}

/// The price of two lines together.
pub(super) fn of_both(line: &Line, more: &Line) -> Option<LinePrice> {
    let prices = [line.details().price.clone()?, more.details().price.clone()?];
    together(&prices)
}

/// Prices together. `None` if they have two currencies.
fn together(prices: &[LinePrice]) -> Option<LinePrice> {
    let first = prices.first()?;
    if prices.iter().any(|price| price.currency != first.currency) {
        return None;
    }
    let is_same = prices.iter().all(|price| price.unit_amount == first.unit_amount);
    Some(LinePrice {
        unit_amount: if is_same { first.unit_amount } else { None },
        discount: prices.iter().fold(0, |sum: u64, price| sum.saturating_add(price.discount)),
        amount: prices.iter().fold(0, |sum: u64, price| sum.saturating_add(price.amount)),
        currency: first.currency,
    })
}

fn is_valid(discount: &Discount, channel: Option<&Label>, now: Instant) -> bool {
    let has_begun = match discount.from {
        Some(from) => now >= from,
        None => true,
    };
    let has_ended = match discount.to {
        Some(to) => now >= to,
        None => false,
    };
    let is_for = match (&*discount.channels, channel) {
        ([], _) => true,
        (_, None) => false,
        (channels, Some(channel)) => channels.iter().any(|one| one == channel),
    };
    has_begun && !has_ended && is_for
}

/// What units cost with a discount.
fn reduced(price: &Price, discount: &Discount, units: u32) -> i128 {
    let (unit, units) = (i128::from(price.unit_amount), i128::from(units));
    match discount.reduction {
        Reduction::AmountOff(off) => (unit - i128::from(off)).max(0) * units,
        // What is taken off is rounded half up.
        Reduction::Percent(percent) => unit * units - (2 * unit * units * i128::from(percent) + 100) / 200,
    }
}

fn amount(amount: i128) -> u64 {
    u64::try_from(amount).unwrap_or(u64::MAX)
}

/// Units of a line that its reservation keeps in an amend.
pub(super) fn staying_units(own: &Line, after: &Line) -> u32 {
    match &after.units {
        None => own.quantity.min(after.quantity),
        Some(_) => {
            let kept = after.units().iter().filter(|unit| own.units().iter().any(|one| one.id == unit.id));
            u32::try_from(kept.count()).expect("no more than a line has")
        }
    }
}
