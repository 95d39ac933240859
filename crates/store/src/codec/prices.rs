//! Encoding of prices.

use super::read::{DecodeError, Reader};
use super::write::{end_fields, put_field, put_i64, put_text, put_u64};
use stockhold_domain::{Currency, Discount, Instant, LinePrice, Price, Reduction, limits};

type Read<T> = Result<T, DecodeError>;

const UNIT_AMOUNT: u8 = 1;
const DISCOUNT: u8 = 2;

const FROM: u8 = 1;
const TO: u8 = 2;
const CHANNELS: u8 = 3;

/// Appends what an item costs.
pub(super) fn put_price(out: &mut Vec<u8>, price: &Price) {
    let Price { unit_amount, currency, discounts } = price;
    put_u64(out, *unit_amount);
    put_text(out, currency.as_str());
    put_u64(out, discounts.len() as u64);
    for discount in discounts {
        put_discount(out, discount);
    }
}

/// Reads what an item costs.
pub(super) fn price(reader: &mut Reader<'_>) -> Read<Price> {
    let (unit_amount, currency) = (reader.u64()?, currency(reader)?);
    let count = reader.count(limits::DISCOUNTS as u64)?;
    let discounts = (0..count).map(|_| discount(reader)).collect::<Read<_>>()?;
    Ok(Price { unit_amount, currency, discounts })
}

/// Appends what a line costs.
pub(super) fn put_line_price(out: &mut Vec<u8>, price: &LinePrice) {
    let LinePrice { unit_amount, discount, amount, currency } = price;
    put_u64(out, *amount);
    put_text(out, currency.as_str());
    put_field(out, UNIT_AMOUNT, *unit_amount, put_u64);
    put_field(out, DISCOUNT, Some(*discount).filter(|discount| *discount > 0), put_u64);
    end_fields(out);
}

/// Reads what a line costs.
pub(super) fn line_price(reader: &mut Reader<'_>) -> Read<LinePrice> {
    let (amount, currency) = (reader.u64()?, currency(reader)?);
    let mut price = LinePrice { unit_amount: None, discount: 0, amount, currency };
    reader.fields(|reader, tag| {
        match tag {
            UNIT_AMOUNT => price.unit_amount = Some(reader.u64()?),
            DISCOUNT => price.discount = reader.positive()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(price)
}

fn put_discount(out: &mut Vec<u8>, discount: &Discount) {
    let Discount { reduction, from, to, channels } = discount;
    let put_instant = |out: &mut Vec<u8>, at: Instant| put_i64(out, at.micros());
    match reduction {
        Reduction::Percent(percent) => {
            out.push(0);
            out.push(*percent);
        }
        Reduction::AmountOff(amount) => {
            out.push(1);
            put_u64(out, *amount);
        }
    }
    put_field(out, FROM, *from, put_instant);
    put_field(out, TO, *to, put_instant);
    put_field(out, CHANNELS, (!channels.is_empty()).then_some(channels), |out, channels| {
        put_u64(out, channels.len() as u64);
        channels.iter().for_each(|channel| put_text(out, channel.as_str()));
    });
    end_fields(out);
}

fn discount(reader: &mut Reader<'_>) -> Read<Discount> {
    let reduction = match reader.byte("discount")? {
        0 => Reduction::Percent(reader.byte("percent")?),
        1 => Reduction::AmountOff(reader.u64()?),
        _ => return Err(reader.bad("discount")),
    };
    let mut discount = Discount { reduction, from: None, to: None, channels: [].into() };
    reader.fields(|reader, tag| {
        match tag {
            FROM => discount.from = Some(reader.instant()?),
            TO => discount.to = Some(reader.instant()?),
            CHANNELS => {
                let count = reader.count(limits::DISCOUNT_CHANNELS as u64)?;
                if count == 0 {
                    return Err(reader.bad("channels of a discount"));
                }
                discount.channels = (0..count).map(|_| reader.label()).collect::<Read<_>>()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(discount)
}

pub(super) fn currency(reader: &mut Reader<'_>) -> Read<Currency> {
    let code = reader.text()?;
    let currency = Currency::new(code).filter(|currency| currency.as_str() == code);
    currency.ok_or_else(|| reader.bad("currency"))
}
