//! Closed reservations in the index, by their ids.

use crate::error::IndexError;
use crate::index::checksum::{TableTotals, check_neighbours, row_sum};
use crate::index::throttle::WriteThrottle;
use crate::index::{AsOf, read_state};
use rusqlite::{Connection, OptionalExtension, params};
use stockhold_domain::{Hold, ReservationId};
use stockhold_store::codec::{self, Reader};

/// Writes closed reservations.
pub(crate) fn write(
    db: &Connection,
    holds: &[Hold],
    totals: &mut TableTotals,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    let data = &mut Vec::new();
    let mut find = db.prepare_cached("SELECT sum FROM closed WHERE id = ?1")?;
    let mut add = db.prepare_cached("INSERT INTO closed (id, data, sum) VALUES (?1, ?2, ?3)")?;
    let mut replace = db.prepare_cached("UPDATE closed SET data = ?2, sum = ?3 WHERE id = ?1")?;
    for hold in holds {
        let id = hold.id.as_u128().to_be_bytes();
        data.clear();
        codec::put_hold(data, hold);
        let sum = row_sum(&id, data);
        // A closed reservation changes only by a fulfilment, a return, a replacement or a payment that goes on. If another change ever
        // occurred, the insert would fail and the totals would not count the reservation twice.
        let moved = hold.lines.iter().any(|line| line.returned > 0 || line.fulfilled > 0);
        let may_be_there = moved || hold.details().replaced_by.is_some() || hold.charge().is_some();
        let before = if may_be_there { find.query_row([id], |row| row.get(0)).optional()? } else { None };
        let put = if before.is_some() { &mut replace } else { &mut add };
        put.execute(params![id, &*data, sum])?;
        totals.replace(before, Some(sum));
        throttle.yield_point()?;
    }
    Ok(())
}

/// Calls back for every closed reservation after checking its row.
pub(crate) fn load(db: &Connection, mut each: impl FnMut(Hold)) -> Result<TableTotals, IndexError> {
    let mut totals = TableTotals::default();
    let mut statement = db.prepare("SELECT id, data, sum FROM closed")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let sum = row.get(2)?;
        each(decode_hold(row.get(0)?, row.get_ref(1)?.as_blob().unwrap_or_default(), sum)?);
        totals.replace(None, Some(sum));
    }
    Ok(totals)
}

pub(crate) fn decode_hold(id: [u8; 16], data: &[u8], sum: u32) -> Result<Hold, IndexError> {
    if row_sum(&id, data) != sum {
        let id = ReservationId::from_u128(u128::from_be_bytes(id));
        return Err(IndexError::Damaged(format!("the checksum of reservation {id} does not fit")));
    }
    let mut reader = Reader::new(data);
    let hold = codec::hold(&mut reader)?;
    reader.finish()?;
    Ok(hold)
}

/// Finds a closed reservation. Also returns the state of the index.
pub(crate) fn find(db: &Connection, id: ReservationId) -> Result<(Option<Hold>, AsOf), IndexError> {
    let read = db.unchecked_transaction()?;
    let state = read_state(&read)?;
    let as_of = AsOf { complete: state.indexed, archived: state.archived };
    let key = id.as_u128().to_be_bytes();
    let row: Option<(Vec<u8>, u32)> = read
        .prepare_cached("SELECT data, sum FROM closed WHERE id = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match row {
        Some((data, sum)) => Ok((Some(decode_hold(key, &data, sum)?), as_of)),
        None => {
            let around = [
                "SELECT id, data, sum FROM closed WHERE id < ?1 ORDER BY id DESC LIMIT 1",
                "SELECT id, data, sum FROM closed WHERE id > ?1 ORDER BY id LIMIT 1",
            ];
            check_neighbours(&read, &around, &[&key])?;
            Ok((None, as_of))
        }
    }
}

/// Deletes closed reservations, as far as they are there.
pub(crate) fn delete(
    db: &Connection,
    ids: &[ReservationId],
    totals: &mut TableTotals,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    let mut delete = db.prepare_cached("DELETE FROM closed WHERE id = ?1 RETURNING sum")?;
    for id in ids {
        let before = delete.query_row([id.as_u128().to_be_bytes()], |row| row.get(0)).optional()?;
        totals.replace(before, None);
        throttle.yield_point()?;
    }
    Ok(())
}
