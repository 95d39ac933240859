//! Prices as JSON.

use super::json::{self, Object, array};
use super::text_of;
use stockhold_domain::{Discount, Item, Label, LinePrice, Price, Reduction};

/// What an item costs.
pub(super) fn put_price(out: &mut Vec<u8>, price: &Price) {
    let mut object = Object::open(out);
    object.number("unit_amount", price.unit_amount);
    object.text("currency", price.currency.as_str());
    if !price.discounts.is_empty() {
        array(object.value("discounts"), &price.discounts, put_discount);
    }
    object.close();
}

fn put_discount(out: &mut Vec<u8>, discount: &Discount) {
    let mut object = Object::open(out);
    match discount.reduction {
        Reduction::Percent(percent) => object.number("percent", percent.into()),
        Reduction::AmountOff(amount) => object.number("amount_off", amount),
    }
    for (name, at) in [("from", discount.from), ("to", discount.to)] {
        if let Some(at) = at {
            object.time(name, at);
        }
    }
    if !discount.channels.is_empty() {
        let put = |out: &mut Vec<u8>, channel: &Label| json::put_text(out, channel.as_str());
        array(object.value("channels"), &*discount.channels, put);
    }
    object.close();
}

/// What a line costs.
pub(super) fn put_line_price(object: &mut Object<'_>, price: &LinePrice) {
    if let Some(amount) = price.unit_amount {
        object.number("unit_amount", amount);
    }
    if price.discount > 0 {
        object.number("discount", price.discount);
    }
    put_amount(object, price);
}

/// What something costs, without what it consists of.
pub(super) fn put_amount(object: &mut Object<'_>, price: &LinePrice) {
    object.number("amount", price.amount);
    object.text("currency", price.currency.as_str());
}

/// What a reserve of these units would cost.
pub fn quote(out: &mut Vec<u8>, units: &[(&Item, u32)], prices: &[Option<LinePrice>]) {
    let mut object = Object::open(out);
    array(object.value("lines"), units.iter().zip(prices), |out, ((item, quantity), price)| {
        let mut line = Object::open(out);
        text_of(&mut line, &item.key);
        line.number("quantity", u64::from(*quantity));
        if let Some(price) = price {
            put_line_price(&mut line, price);
        }
        line.close();
    });
    if let Some(sum) = LinePrice::sum(prices.iter().map(Option::as_ref)) {
        put_amount(&mut object, &sum);
    }
    object.close();
}
