//! Properties that few reservations and few of their lines have, as tagged fields.

use super::changes::{ids, put_ids};
use super::charges::{charge, put_charge};
use super::limits::{counted, put_counted};
use super::pools::{draws, put_draws};
use super::prices::{line_price, put_line_price};
use super::read::{DecodeError, Reader};
use super::write::{end_fields, put_field, put_i64, put_text, put_u64, put_u128};
use stockhold_domain::{HoldDetails, Instant, LineDetails, Payment, PaymentState, ReservationId, limits};

const PAYMENT: u8 = 1;
const FIRST_PAYMENT_AT: u8 = 2;
const SPLIT_FROM: u8 = 3;
const SPLIT_INTO: u8 = 4;
const MERGED_FROM: u8 = 5;
const MERGED_INTO: u8 = 6;
const REPLACES: u8 = 7;
const REPLACED_BY: u8 = 8;
const TRANSFERS: u8 = 9;
const AUTHORIZATIONS: u8 = 10;

const BACKORDERED: u8 = 1;
const PROMISED_AT: u8 = 2;
const COUNTED: u8 = 3;
const DRAWS: u8 = 4;
const PRICE: u8 = 5;
const REFUNDED: u8 = 6;

const CHARGE: u8 = 1;

/// Appends the details that are present.
pub(super) fn put_details(out: &mut Vec<u8>, details: &HoldDetails) {
    let put_id = |out: &mut Vec<u8>, id: ReservationId| put_u128(out, id.as_u128());
    let some = |list: &Vec<ReservationId>| (!list.is_empty()).then(|| list.clone());
    let HoldDetails {
        payment,
        first_payment_at,
        split_from,
        split_into,
        merged_from,
        merged_into,
        replaces,
        replaced_by,
        transfers,
        authorizations,
    } = details;
    put_field(out, PAYMENT, payment.as_ref(), put_payment);
    put_field(out, FIRST_PAYMENT_AT, *first_payment_at, |out, at| put_i64(out, at.micros()));
    put_field(out, SPLIT_FROM, *split_from, put_id);
    put_field(out, SPLIT_INTO, some(split_into), |out, list| put_ids(out, &list));
    put_field(out, MERGED_FROM, some(merged_from), |out, list| put_ids(out, &list));
    put_field(out, MERGED_INTO, *merged_into, put_id);
    put_field(out, REPLACES, *replaces, put_id);
    put_field(out, REPLACED_BY, *replaced_by, put_id);
    put_field(out, TRANSFERS, (*transfers > 0).then_some(u64::from(*transfers)), put_u64);
    put_field(out, AUTHORIZATIONS, (*authorizations > 0).then_some(u64::from(*authorizations)), put_u64);
    end_fields(out);
}

/// Reads details.
pub(super) fn details(reader: &mut Reader<'_>) -> Result<HoldDetails, DecodeError> {
    let mut details = HoldDetails::default();
    reader.fields(|reader, tag| {
        let id = |reader: &mut Reader<'_>| reader.u128().map(ReservationId::from_u128).map(Some);
        let list = |reader: &mut Reader<'_>| match ids(reader, limits::RELATED_RESERVATIONS)? {
            list if list.is_empty() => Err(reader.bad("list of reservations")),
            list => Ok(list),
        };
        match tag {
            PAYMENT => details.payment = Some(payment(reader)?),
            FIRST_PAYMENT_AT => details.first_payment_at = Some(Instant::from_micros(reader.i64()?)),
            SPLIT_FROM => details.split_from = id(reader)?,
            SPLIT_INTO => details.split_into = list(reader)?,
            MERGED_FROM => details.merged_from = list(reader)?,
            MERGED_INTO => details.merged_into = id(reader)?,
            REPLACES => details.replaces = id(reader)?,
            REPLACED_BY => details.replaced_by = id(reader)?,
            TRANSFERS => details.transfers = reader.positive_u32()?,
            AUTHORIZATIONS => details.authorizations = reader.positive_u32()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(details)
}

/// Appends the details of a line that are present.
pub(super) fn put_line_details(out: &mut Vec<u8>, details: &LineDetails) {
    let LineDetails { backordered, promised_at, counted, draws, price, refunded } = details;
    put_field(out, BACKORDERED, (*backordered > 0).then_some(u64::from(*backordered)), put_u64);
    put_field(out, PROMISED_AT, *promised_at, |out, at| put_i64(out, at.micros()));
    put_field(out, COUNTED, (!counted.is_empty()).then_some(counted), |out, counted| {
        put_counted(out, counted);
    });
    put_field(out, DRAWS, (!draws.is_empty()).then_some(draws), |out, draws| put_draws(out, draws));
    put_field(out, PRICE, price.as_ref(), put_line_price);
    put_field(out, REFUNDED, (*refunded > 0).then_some(*refunded), put_u64);
    end_fields(out);
}

/// Reads the details of a line.
pub(super) fn line_details(reader: &mut Reader<'_>) -> Result<LineDetails, DecodeError> {
    let mut details = LineDetails::default();
    reader.fields(|reader, tag| {
        match tag {
            BACKORDERED => details.backordered = reader.positive_u32()?,
            PROMISED_AT => details.promised_at = Some(reader.instant()?),
            COUNTED => details.counted = counted(reader)?,
            DRAWS => details.draws = draws(reader)?,
            PRICE => details.price = Some(line_price(reader)?),
            REFUNDED => details.refunded = reader.positive()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if details == LineDetails::default() { Err(reader.bad("details of a line")) } else { Ok(details) }
}

fn put_payment(out: &mut Vec<u8>, payment: &Payment) {
    put_text(out, payment.id.as_str());
    out.push(match payment.state {
        PaymentState::Open => 0,
        PaymentState::Closed => 1,
        PaymentState::Lapsed => 2,
        PaymentState::Completed => 3,
    });
    put_i64(out, payment.until.micros());
    put_i64(out, payment.deadline_before.micros());
    put_field(out, CHARGE, payment.charge.as_deref(), put_charge);
    end_fields(out);
}

fn payment(reader: &mut Reader<'_>) -> Result<Payment, DecodeError> {
    let mut payment = Payment {
        id: reader.label()?,
        state: match reader.byte("state of a payment")? {
            0 => PaymentState::Open,
            1 => PaymentState::Closed,
            2 => PaymentState::Lapsed,
            3 => PaymentState::Completed,
            _ => return Err(reader.bad("state of a payment")),
        },
        until: reader.instant()?,
        deadline_before: reader.instant()?,
        charge: None,
    };
    reader.fields(|reader, tag| {
        match tag {
            CHARGE => payment.charge = Some(Box::new(charge(reader)?)),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(payment)
}
