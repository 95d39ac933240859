//! The settings of an item, as tagged fields.

use super::prices::{price, put_price};
use super::read::{DecodeError, Reader};
use super::write::{end_fields, put_field, put_i64, put_seconds, put_text, put_u64};
use stockhold_domain::{Instant, Settings, Supply, limits};

const DEFAULT_TTL: u8 = 1;
const MAX_HOLD: u8 = 2;
const METADATA: u8 = 3;
const MAX_PAYMENT: u8 = 4;
const SAFETY_STOCK: u8 = 5;
const OVERSELL_ALLOWANCE: u8 = 6;
const SALE_STARTS_AT: u8 = 7;
const SALE_ENDS_AT: u8 = 8;
const INCOMING: u8 = 9;
const GATED: u8 = 10;
const PRICE: u8 = 11;
const LOW_STOCK: u8 = 12;
const STOCK_MASTER: u8 = 13;

/// Appends the settings of an item.
pub fn put_settings(out: &mut Vec<u8>, settings: &Settings) {
    let Settings {
        safety_stock,
        oversell_allowance,
        gated,
        default_ttl,
        max_hold,
        max_payment,
        sale_starts_at,
        sale_ends_at,
        incoming,
        price,
        low_stock,
        stock_master,
        metadata,
    } = settings;
    let put_instant = |out: &mut Vec<u8>, at: Instant| put_i64(out, at.micros());
    let some = |units: u64| (units > 0).then_some(units);
    put_field(out, DEFAULT_TTL, *default_ttl, put_seconds);
    put_field(out, MAX_HOLD, *max_hold, put_seconds);
    put_field(out, METADATA, metadata.as_deref(), put_text);
    put_field(out, MAX_PAYMENT, *max_payment, put_seconds);
    put_field(out, SAFETY_STOCK, some(*safety_stock), put_u64);
    put_field(out, OVERSELL_ALLOWANCE, some(*oversell_allowance), put_u64);
    put_field(out, SALE_STARTS_AT, *sale_starts_at, put_instant);
    put_field(out, SALE_ENDS_AT, *sale_ends_at, put_instant);
    put_field(out, INCOMING, (!incoming.is_empty()).then_some(incoming), |out, supplies| {
        put_supplies(out, supplies);
    });
    // The tag says that it is set. It has no value.
    put_field(out, GATED, gated.then_some(()), |_, ()| {});
    put_field(out, PRICE, price.as_deref(), put_price);
    put_field(out, LOW_STOCK, *low_stock, put_u64);
    put_field(out, STOCK_MASTER, stock_master.as_ref(), |out, master| put_text(out, master.as_str()));
    end_fields(out);
}

/// Appends expected deliveries.
pub(super) fn put_supplies(out: &mut Vec<u8>, supplies: &[Supply]) {
    put_u64(out, supplies.len() as u64);
    for Supply { id, quantity, available_from } in supplies {
        put_text(out, id.as_str());
        put_u64(out, *quantity);
        put_i64(out, available_from.micros());
    }
}

/// Reads the settings of an item.
pub fn settings(reader: &mut Reader<'_>) -> Result<Settings, DecodeError> {
    let mut settings = Settings::default();
    reader.fields(|reader, tag| {
        match tag {
            DEFAULT_TTL => settings.default_ttl = Some(reader.seconds()?),
            MAX_HOLD => settings.max_hold = Some(reader.seconds()?),
            METADATA => settings.metadata = Some(reader.shared_text()?),
            MAX_PAYMENT => settings.max_payment = Some(reader.seconds()?),
            SAFETY_STOCK => settings.safety_stock = reader.positive()?,
            OVERSELL_ALLOWANCE => settings.oversell_allowance = reader.positive()?,
            SALE_STARTS_AT => settings.sale_starts_at = Some(reader.instant()?),
            SALE_ENDS_AT => settings.sale_ends_at = Some(reader.instant()?),
            INCOMING => settings.incoming = supplies(reader)?,
            GATED => settings.gated = true,
            PRICE => settings.price = Some(Box::new(price(reader)?)),
            LOW_STOCK => settings.low_stock = Some(reader.u64()?),
            STOCK_MASTER => settings.stock_master = Some(reader.label()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(settings)
}

fn supplies(reader: &mut Reader<'_>) -> Result<Box<[Supply]>, DecodeError> {
    let count = reader.count(limits::SUPPLIES as u64)?;
    if count == 0 {
        return Err(reader.bad("expected deliveries"));
    }
    let supply = |reader: &mut Reader<'_>| {
        Ok(Supply { id: reader.label()?, quantity: reader.u64()?, available_from: reader.instant()? })
    };
    (0..count).map(|_| supply(reader)).collect()
}
