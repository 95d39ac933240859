//! How rows become values. All of them come as text, with the columns in the order that statements give. A row that makes no
//! sense is damage, said aloud and never guessed around.

use crate::engine::{DbError, Deadline, Release, attributes_from, pools_from, settings_from, subject_from};
use core::fmt::Display;
use core::str::FromStr;
use mysql_async::{Row, Value};
use std::sync::Arc;
use stockhold_domain::{
    CounterKey, Instant, Item, ItemKey, Label, LimitCounter, Mode, Place, Record, RecordKey, RecordKind,
    RecordValue, ReservationId, Status, StockCounters, Subject, Unit, UnitStatus,
};

/// The columns of an item, in the order that [`item`] reads.
pub(super) const ITEM_COLUMNS: &str = "location,sku,mode,total_units,confirmed_sold,fulfilled,held,\
held_under_payment,active,sequence,decided_at,oversell_allowance,settings,version,paused,created_at,pools";

/// The columns of a unit, in the order that [`unit`] reads.
pub(super) const UNIT_COLUMNS: &str =
    "id,position,section,seat_row,seat_number,attributes,status,reservation,version,pool";
/// Where a unit's history stands behind them.
pub(super) const UNIT_HISTORY: usize = 10;

pub(super) fn bytes(row: &Row, column: usize) -> Result<&[u8], DbError> {
    some_bytes(row, column)?.ok_or_else(|| wrong(row, column, "NULL"))
}

/// `None` for `NULL`.
pub(super) fn some_bytes(row: &Row, column: usize) -> Result<Option<&[u8]>, DbError> {
    match row.as_ref(column) {
        Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
        Some(Value::NULL) => Ok(None),
        _ => Err(wrong(row, column, "not there")),
    }
}

fn wrong(row: &Row, column: usize, what: impl Display) -> DbError {
    let name =
        row.columns_ref().get(column).map_or_else(|| "?".into(), mysql_async::Column::name_str).into_owned();
    DbError::InvariantViolated(format!("a row's {name} is {what}"))
}

fn number<N: FromStr>(row: &Row, column: usize) -> Result<N, DbError> {
    let bytes = bytes(row, column)?;
    let value = core::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    value.ok_or_else(|| wrong(row, column, String::from_utf8_lossy(bytes)))
}

pub(super) fn int(row: &Row, column: usize) -> Result<i64, DbError> {
    number(row, column)
}

pub(super) fn figure(row: &Row, column: usize) -> Result<u64, DbError> {
    number(row, column)
}

pub(super) fn instant(row: &Row, column: usize) -> Result<Instant, DbError> {
    Ok(Instant::from_micros(int(row, column)?))
}

pub(super) fn text(row: &Row, column: usize) -> Result<&str, DbError> {
    core::str::from_utf8(bytes(row, column)?).map_err(|_| wrong(row, column, "no UTF-8"))
}

pub(super) fn label(row: &Row, column: usize) -> Result<Label, DbError> {
    Label::new(text(row, column)?).map_err(|error| wrong(row, column, error))
}

/// A reservation's id.
pub(super) fn id(row: &Row, column: usize) -> Result<ReservationId, DbError> {
    let bytes =
        <[u8; 16]>::try_from(bytes(row, column)?).map_err(|_| wrong(row, column, "of another length"))?;
    Ok(ReservationId::from_u128(u128::from_be_bytes(bytes)))
}

/// A deadline: the instant, and the column behind it whose it is.
pub(super) fn deadline(row: &Row, column: usize) -> Result<Deadline, DbError> {
    Ok((instant(row, column)?, id(row, column + 1)?))
}

/// A release of a pool: the instant, and in the columns behind it the item.
pub(super) fn release(row: &Row) -> Result<Release, DbError> {
    Ok((instant(row, 0)?, ItemKey::new(&label(row, 1)?, &label(row, 2)?)))
}

/// An item from its row.
pub(super) fn item(row: &Row) -> Result<Item, DbError> {
    Ok(Item {
        key: ItemKey::new(&label(row, 0)?, &label(row, 1)?),
        mode: match int(row, 2)? {
            0 => Mode::Counted,
            1 => Mode::Units,
            other => return Err(wrong(row, 2, other)),
        },
        figures: StockCounters {
            total_units: figure(row, 3)?,
            confirmed_sold: figure(row, 4)?,
            fulfilled: figure(row, 5)?,
            held: figure(row, 6)?,
            held_under_payment: figure(row, 7)?,
            active: figure(row, 8)?,
            sequence: figure(row, 9)?,
            at: instant(row, 10)?,
        },
        settings: Arc::new(settings_from(bytes(row, 12)?, figure(row, 11)?)?),
        pools: pools_from(some_bytes(row, 16)?)?,
        version: figure(row, 13)?,
        paused: int(row, 14)? != 0,
        created_at: instant(row, 15)?,
    })
}

/// The columns of a record, in the order that [`record`] reads.
pub(super) const RECORD_COLUMNS: &str = "kind,id,version,value";

/// A record from its row.
pub(super) fn record(row: &Row) -> Result<Record, DbError> {
    let kind = text(row, 0)?;
    let value = some_bytes(row, 3)?.map(RecordValue::new).transpose();
    Ok(Record {
        key: RecordKey {
            kind: RecordKind::from_name(kind).ok_or_else(|| wrong(row, 0, kind))?,
            id: label(row, 1)?,
        },
        version: figure(row, 2)?,
        value: value.map_err(|error| wrong(row, 3, error))?,
    })
}

/// A counter from its row.
pub(super) fn counter(row: &Row) -> Result<(CounterKey, LimitCounter), DbError> {
    Ok((counter_key(row)?, LimitCounter { held: figure(row, 3)?, sold: figure(row, 4)? }))
}

/// The key of a counter.
pub(super) fn counter_key(row: &Row) -> Result<CounterKey, DbError> {
    Ok(CounterKey {
        limit: label(row, 0)?,
        generation: figure(row, 1)?,
        subject: subject_from(bytes(row, 2)?)?,
    })
}

/// A counter of a limit that is known, with its subject.
pub(super) fn subject_and_counter(row: &Row) -> Result<(Subject, LimitCounter), DbError> {
    let counter = LimitCounter { held: figure(row, 1)?, sold: figure(row, 2)? };
    Ok((subject_from(bytes(row, 0)?)?, counter))
}

fn some_label(row: &Row, column: usize) -> Result<Option<Label>, DbError> {
    if some_bytes(row, column)?.is_none() {
        return Ok(None);
    }
    label(row, column).map(Some)
}

/// A unit from its row.
pub(super) fn unit(row: &Row) -> Result<Unit, DbError> {
    let with = some_bytes(row, 7)?.map(|_| id(row, 7)).transpose()?;
    Ok(Unit {
        id: label(row, 0)?,
        place: Place {
            position: figure(row, 1)?,
            section: some_label(row, 2)?,
            row: some_label(row, 3)?,
            number: some_label(row, 4)?,
            attributes: attributes_from(bytes(row, 5)?)?,
        },
        status: match (int(row, 6)?, with) {
            (0 | FREE_IN_POOL, None) => UnitStatus::Available,
            (1, Some(id)) => UnitStatus::Held(id),
            (2, Some(id)) => UnitStatus::Sold(id),
            (3, Some(id)) => UnitStatus::Fulfilled(id),
            (other, _) => return Err(wrong(row, 6, other)),
        },
        version: figure(row, 8)?,
        pool: some_label(row, 9)?,
    })
}

/// A unit that is available in a pool only. General claims do not meet it in their index.
const FREE_IN_POOL: i64 = 4;

/// Where a unit stands, as its column has it.
pub(super) fn standing(unit: &Unit) -> i64 {
    match unit.status {
        UnitStatus::Available if unit.pool.is_some() => FREE_IN_POOL,
        UnitStatus::Available => 0,
        UnitStatus::Held(_) => 1,
        UnitStatus::Sold(_) => 2,
        UnitStatus::Fulfilled(_) => 3,
    }
}

pub(super) fn status(status: Status) -> u8 {
    match status {
        Status::Active => 0,
        Status::Confirmed => 1,
        Status::Cancelled => 2,
        Status::Expired => 3,
    }
}

pub(super) fn mode(mode: Mode) -> u8 {
    match mode {
        Mode::Counted => 0,
        Mode::Units => 1,
    }
}
