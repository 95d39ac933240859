//! Encoding of the changes of a reservation. The change comes first in a transition, and its tag tells it from other transitions.

use super::read::{DecodeError, Reader, status};
use super::units::{line_units_list, put_line_units_list};
use super::write::{end_fields, put_label_field, put_status, put_text, put_u64, put_u128};
use stockhold_domain::{Disposition, HoldChange, LineChange, MovedUnits, Parties, ReservationId, limits};

type Read<T> = Result<T, DecodeError>;

const CREATED: u8 = 0;
const EXTENDED: u8 = 1;
const CONFIRMED: u8 = 2;
const CANCELLED: u8 = 3;
const EXPIRED: u8 = 4;
const RETURNED: u8 = 5;
const FULFILLED: u8 = 6;
const AMENDED: u8 = 7;
const TRANSFERRED: u8 = 8;
const SPLIT: u8 = 9;
const CREATED_BY_SPLIT: u8 = 10;
const MERGED: u8 = 11;
const MERGED_AWAY: u8 = 12;
const PAYMENT_OPENED: u8 = 13;
const PAYMENT_CLOSED: u8 = 14;
const REPLACED: u8 = 15;
const PAYMENT_ADVANCED: u8 = 80;

/// Appends a change.
pub(super) fn put_hold_change(out: &mut Vec<u8>, change: &HoldChange) {
    match change {
        HoldChange::Created => out.push(CREATED),
        HoldChange::Extended => out.push(EXTENDED),
        HoldChange::Confirmed => out.push(CONFIRMED),
        HoldChange::Cancelled => out.push(CANCELLED),
        HoldChange::Expired => out.push(EXPIRED),
        HoldChange::CreatedBySplit => out.push(CREATED_BY_SPLIT),
        HoldChange::MergedAway => out.push(MERGED_AWAY),
        HoldChange::Replaced => out.push(REPLACED),
        HoldChange::Amended { lines } => {
            out.push(AMENDED);
            put_line_changes(out, lines);
        }
        HoldChange::Transferred { from } => {
            out.push(TRANSFERRED);
            let Parties { owner_id, customer_id, session_id } = &**from;
            put_text(out, owner_id.as_str());
            put_label_field(out, 1, customer_id.as_ref());
            put_label_field(out, 2, session_id.as_ref());
            end_fields(out);
        }
        HoldChange::Split { lines, into } => {
            out.push(SPLIT);
            put_line_changes(out, lines);
            put_u128(out, into.as_u128());
        }
        HoldChange::Merged { lines, from } => {
            out.push(MERGED);
            put_line_changes(out, lines);
            put_ids(out, from);
        }
        HoldChange::PaymentOpened { prolonged } => {
            out.push(PAYMENT_OPENED);
            out.push(u8::from(*prolonged));
        }
        HoldChange::PaymentClosed { reason } => {
            out.push(PAYMENT_CLOSED);
            put_label_field(out, 1, reason.as_ref());
            end_fields(out);
        }
        HoldChange::PaymentAdvanced { status, state_changed } => {
            out.push(PAYMENT_ADVANCED);
            put_status(out, *status);
            out.push(u8::from(*state_changed));
        }
        HoldChange::Fulfilled { lines } => {
            out.push(FULFILLED);
            put_moved(out, lines);
        }
        HoldChange::Returned { lines, fulfilled, disposition, reason } => {
            out.push(RETURNED);
            put_moved(out, lines);
            put_numbers(out, fulfilled);
            out.push(match disposition {
                Disposition::Restock => 0,
                Disposition::WriteOff => 1,
            });
            put_text(out, reason.as_str());
        }
    }
}

/// Reads the change with this tag; `None` when the tag is none of a change of a reservation.
pub(super) fn hold_change(reader: &mut Reader<'_>, tag: u8) -> Read<Option<HoldChange>> {
    Ok(Some(match tag {
        CREATED => HoldChange::Created,
        EXTENDED => HoldChange::Extended,
        CONFIRMED => HoldChange::Confirmed,
        CANCELLED => HoldChange::Cancelled,
        EXPIRED => HoldChange::Expired,
        CREATED_BY_SPLIT => HoldChange::CreatedBySplit,
        MERGED_AWAY => HoldChange::MergedAway,
        REPLACED => HoldChange::Replaced,
        AMENDED => HoldChange::Amended { lines: line_changes(reader)? },
        TRANSFERRED => {
            let mut from = Parties { owner_id: reader.label()?, customer_id: None, session_id: None };
            reader.fields(|reader, tag| {
                match tag {
                    1 => from.customer_id = Some(reader.label()?),
                    2 => from.session_id = Some(reader.label()?),
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            HoldChange::Transferred { from: Box::new(from) }
        }
        SPLIT => {
            HoldChange::Split { lines: line_changes(reader)?, into: ReservationId::from_u128(reader.u128()?) }
        }
        MERGED => HoldChange::Merged {
            lines: line_changes(reader)?,
            from: ids(reader, limits::MERGE_SOURCES)?.into(),
        },
        PAYMENT_OPENED => HoldChange::PaymentOpened { prolonged: reader.flag()? },
        PAYMENT_CLOSED => {
            let mut reason = None;
            reader.fields(|reader, tag| {
                reason = Some(reader.label()?);
                Ok(tag == 1)
            })?;
            HoldChange::PaymentClosed { reason }
        }
        PAYMENT_ADVANCED => {
            HoldChange::PaymentAdvanced { status: status(reader)?, state_changed: reader.flag()? }
        }
        FULFILLED => HoldChange::Fulfilled { lines: moved(reader)? },
        RETURNED => HoldChange::Returned {
            lines: moved(reader)?,
            fulfilled: numbers(reader, limits::BASKET_LINES as u64)?,
            disposition: match reader.byte("disposition")? {
                0 => Disposition::Restock,
                1 => Disposition::WriteOff,
                _ => return Err(reader.bad("disposition")),
            },
            reason: reader.label()?,
        },
        _ => return Ok(None),
    }))
}

fn put_line_changes(out: &mut Vec<u8>, lines: &[LineChange]) {
    put_u64(out, lines.len() as u64);
    for LineChange { quantity_before, kept, released } in lines {
        put_u64(out, u64::from(*quantity_before));
        put_u64(out, u64::from(*kept));
        put_line_units_list(out, released);
    }
}

fn line_changes(reader: &mut Reader<'_>) -> Read<Box<[LineChange]>> {
    let count = reader.lines()?;
    let change = |reader: &mut Reader<'_>| {
        Ok(LineChange {
            quantity_before: reader.u32()?,
            kept: reader.u32()?,
            released: line_units_list(reader)?.into(),
        })
    };
    (0..count).map(|_| change(reader)).collect()
}

fn put_moved(out: &mut Vec<u8>, lines: &[MovedUnits]) {
    put_u64(out, lines.len() as u64);
    for MovedUnits { quantity, places } in lines {
        put_u64(out, u64::from(*quantity));
        put_numbers(out, places);
    }
}

fn moved(reader: &mut Reader<'_>) -> Read<Box<[MovedUnits]>> {
    let count = reader.lines()?;
    let moved = |reader: &mut Reader<'_>| {
        Ok(MovedUnits { quantity: reader.u32()?, places: numbers(reader, limits::LINE_UNITS)? })
    };
    (0..count).map(|_| moved(reader)).collect()
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u32]) {
    put_u64(out, numbers.len() as u64);
    for number in numbers {
        put_u64(out, u64::from(*number));
    }
}

fn numbers(reader: &mut Reader<'_>, most: u64) -> Read<Box<[u32]>> {
    let count = reader.count(most)?;
    (0..count).map(|_| reader.u32()).collect()
}

/// Appends a list of reservations.
pub(super) fn put_ids(out: &mut Vec<u8>, ids: &[ReservationId]) {
    put_u64(out, ids.len() as u64);
    for id in ids {
        put_u128(out, id.as_u128());
    }
}

/// Reads a list of reservations.
pub(super) fn ids(reader: &mut Reader<'_>, most: usize) -> Read<Vec<ReservationId>> {
    let count = reader.count(most as u64)?;
    (0..count).map(|_| reader.u128().map(ReservationId::from_u128)).collect()
}
