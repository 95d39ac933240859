//! How rows become values. All of them come as text, with the columns in the order that statements give. A row that makes no
//! sense is damage, said aloud and never guessed around.

use crate::engine::{Deadline, Trouble};
use core::fmt::Display;
use core::str::FromStr;
use mysql_async::{Row, Value};
use std::sync::Arc;
use stockhold_domain::{
    Figures, Instant, Item, ItemKey, Label, Mode, ReservationId, Seconds, Settings, Status,
};

/// The columns of an item, in the order that [`item`] reads and the writes give.
pub(super) const ITEM_COLUMNS: &str = "location,sku,mode,total_units,confirmed_sold,held,active,sequence,decided_at,\
safety_stock,default_ttl,max_hold,metadata,version,paused,created_at";

pub(super) fn bytes(row: &Row, column: usize) -> Result<&[u8], Trouble> {
    some_bytes(row, column)?.ok_or_else(|| wrong(row, column, "NULL"))
}

/// `None` for `NULL`.
pub(super) fn some_bytes(row: &Row, column: usize) -> Result<Option<&[u8]>, Trouble> {
    match row.as_ref(column) {
        Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
        Some(Value::NULL) => Ok(None),
        _ => Err(wrong(row, column, "not there")),
    }
}

fn wrong(row: &Row, column: usize, what: impl Display) -> Trouble {
    let name =
        row.columns_ref().get(column).map_or_else(|| "?".into(), mysql_async::Column::name_str).into_owned();
    Trouble::Alarm(format!("a row's {name} is {what}"))
}

fn number<N: FromStr>(row: &Row, column: usize) -> Result<N, Trouble> {
    let bytes = bytes(row, column)?;
    let value = core::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    value.ok_or_else(|| wrong(row, column, String::from_utf8_lossy(bytes)))
}

pub(super) fn int(row: &Row, column: usize) -> Result<i64, Trouble> {
    number(row, column)
}

pub(super) fn figure(row: &Row, column: usize) -> Result<u64, Trouble> {
    number(row, column)
}

pub(super) fn instant(row: &Row, column: usize) -> Result<Instant, Trouble> {
    Ok(Instant::from_micros(int(row, column)?))
}

pub(super) fn text(row: &Row, column: usize) -> Result<&str, Trouble> {
    core::str::from_utf8(bytes(row, column)?).map_err(|_| wrong(row, column, "no UTF-8"))
}

fn label(row: &Row, column: usize) -> Result<Label, Trouble> {
    Label::new(text(row, column)?).map_err(|error| wrong(row, column, error))
}

fn seconds(row: &Row, column: usize) -> Result<Option<Seconds>, Trouble> {
    if some_bytes(row, column)?.is_none() {
        return Ok(None);
    }
    let value = figure(row, column)?;
    Seconds::new(value).map(Some).map_err(|_| wrong(row, column, value))
}

fn metadata(row: &Row, column: usize) -> Result<Option<Arc<str>>, Trouble> {
    if some_bytes(row, column)?.is_none() {
        return Ok(None);
    }
    text(row, column).map(|text| Some(Arc::from(text)))
}

/// A reservation's id.
pub(super) fn id(row: &Row, column: usize) -> Result<ReservationId, Trouble> {
    let bytes =
        <[u8; 16]>::try_from(bytes(row, column)?).map_err(|_| wrong(row, column, "of another length"))?;
    Ok(ReservationId::from_u128(u128::from_be_bytes(bytes)))
}

/// A deadline: the instant, and the column behind it whose it is.
pub(super) fn deadline(row: &Row, column: usize) -> Result<Deadline, Trouble> {
    Ok((instant(row, column)?, id(row, column + 1)?))
}

/// An item from its row.
pub(super) fn item(row: &Row) -> Result<Item, Trouble> {
    Ok(Item {
        key: ItemKey::new(&label(row, 0)?, &label(row, 1)?),
        mode: match int(row, 2)? {
            0 => Mode::Counted,
            1 => Mode::Units,
            other => return Err(wrong(row, 2, other)),
        },
        figures: Figures {
            total_units: figure(row, 3)?,
            confirmed_sold: figure(row, 4)?,
            held: figure(row, 5)?,
            active: figure(row, 6)?,
            sequence: figure(row, 7)?,
            at: instant(row, 8)?,
        },
        settings: Arc::new(Settings {
            safety_stock: figure(row, 9)?,
            default_ttl: seconds(row, 10)?,
            max_hold: seconds(row, 11)?,
            metadata: metadata(row, 12)?,
        }),
        version: figure(row, 13)?,
        paused: int(row, 14)? != 0,
        created_at: instant(row, 15)?,
    })
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
