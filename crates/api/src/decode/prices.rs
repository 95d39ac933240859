//! Prices: as a setting of an item, and `POST /v1/prices/quote`.

use super::body::{self, DiscountBody, PriceBody, QuoteBody};
use super::field::JsonObject;
use super::{Invalid, both, key_at, path};
use stockhold_domain::limits::{BASKET_LINES, DISCOUNT_CHANNELS, DISCOUNTS, LINE_QUANTITY};
use stockhold_domain::{Discount, ItemKey, Label, Patch, Price, Reduction};

/// What `POST /v1/prices/quote` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteQuery {
    /// Items and units of each, in the order of the request.
    pub lines: Vec<(ItemKey, u32)>,
    /// The sales channel.
    pub channel: Option<Label>,
}

/// `POST /v1/prices/quote`
pub fn quote(query: Option<&str>, body: &[u8]) -> Result<QuoteQuery, Invalid> {
    let ((), body) = both(path::no_query(query), body::read::<QuoteBody>(body))?;
    let found = body.lines.len();
    if !(1..=BASKET_LINES).contains(&found) {
        let detail = format!("must have 1 to {BASKET_LINES} lines, and has {found}");
        return Err(Invalid::new("/lines", detail));
    }
    let lines = body.lines.into_iter().enumerate().map(|(number, JsonObject(line))| {
        let quantity = line.quantity.map_or(1, |quantity| quantity.0);
        let units = u32::try_from(quantity).ok().filter(|_| quantity <= LINE_QUANTITY);
        let units = units.ok_or_else(|| {
            Invalid::new(format!("/lines/{number}/quantity"), format!("must be at most {LINE_QUANTITY}"))
        })?;
        Ok((key_at(line.location.as_ref().map(|text| &text.0), &line.sku.0), units))
    });
    Ok(QuoteQuery { lines: lines.collect::<Result<_, Invalid>>()?, channel: body.channel.map(|text| text.0) })
}

/// The price that a body sets.
pub(super) fn price(price: Patch<JsonObject<PriceBody>>) -> Result<Patch<Box<Price>>, Invalid> {
    let JsonObject(body) = match price {
        Patch::Keep => return Ok(Patch::Keep),
        Patch::Clear => return Ok(Patch::Clear),
        Patch::Set(body) => body,
    };
    let discounts = body.discounts.unwrap_or_default();
    if discounts.len() > DISCOUNTS {
        let detail = format!("must have at most {DISCOUNTS} discounts, and has {}", discounts.len());
        return Err(Invalid::new("/price/discounts", detail));
    }
    let discounts = discounts.into_iter().enumerate().map(|(number, JsonObject(body))| {
        discount(body)
            .map_err(|(field, detail)| Invalid::new(format!("/price/discounts/{number}{field}"), detail))
    });
    Ok(Patch::Set(Box::new(Price {
        unit_amount: body.unit_amount.0,
        currency: body.currency.0,
        discounts: discounts.collect::<Result<_, Invalid>>()?,
    })))
}

/// A discount, or the field that is wrong and what is wrong with it.
fn discount(body: DiscountBody) -> Result<Discount, (&'static str, String)> {
    let reduction = match (body.percent, body.amount_off) {
        (Some(percent), None) => Reduction::Percent(percent.0),
        (None, Some(amount)) => Reduction::AmountOff(amount.0),
        (None, None) => return Err(("", "must have percent or amount_off".to_owned())),
        (Some(_), Some(_)) => {
            return Err(("/amount_off", "can't be combined with percent: send one of them".to_owned()));
        }
    };
    let channels = body.channels.unwrap_or_default();
    if channels.len() > DISCOUNT_CHANNELS {
        let detail = format!("must have at most {DISCOUNT_CHANNELS} channels, and has {}", channels.len());
        return Err(("/channels", detail));
    }
    Ok(Discount {
        reduction,
        from: body.from.map(|time| time.0),
        to: body.to.map(|time| time.0),
        channels: channels.into_iter().map(|text| text.0).collect(),
    })
}
