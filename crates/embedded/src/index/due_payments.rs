//! When the payments of reservations are due, in the index.

use crate::error::IndexError;
use crate::index::checksum::{TableTotals, check_totals, row_sum};
use crate::index::throttle::WriteThrottle;
use rusqlite::{Connection, OptionalExtension, params};
use stockhold_domain::{Instant, ReservationId};

pub(crate) const SCHEMA: &str = "
    CREATE TABLE due_payments (
        id BLOB PRIMARY KEY, due INTEGER NOT NULL, sum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// Writes when payments are due; `None` for one that is not due any more.
pub(crate) fn write(
    db: &Connection,
    payments: &[(ReservationId, Option<Instant>)],
    totals: &mut TableTotals,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    for (id, due) in payments {
        let id = id.as_u128().to_be_bytes();
        let mut find = db.prepare_cached("SELECT sum FROM due_payments WHERE id = ?1")?;
        let before = find.query_row([id], |row| row.get(0)).optional()?;
        let after = due.map(|due| row_sum(&id, &due.micros().to_be_bytes()));
        match due.zip(after) {
            Some((due, sum)) => {
                db.prepare_cached("INSERT OR REPLACE INTO due_payments (id, due, sum) VALUES (?1, ?2, ?3)")?
                    .execute(params![id, due.micros(), sum])?;
            }
            None => {
                db.prepare_cached("DELETE FROM due_payments WHERE id = ?1")?.execute([id])?;
            }
        }
        totals.replace(before, after);
        throttle.yield_point()?;
    }
    Ok(())
}

/// Calls back for every payment that is due at some time, and checks that none is missing.
pub(crate) fn load(
    db: &Connection,
    expected: TableTotals,
    mut each: impl FnMut(ReservationId, Instant),
) -> Result<(), IndexError> {
    let mut totals = TableTotals::default();
    let mut statement = db.prepare("SELECT id, due, sum FROM due_payments")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, due, sum): ([u8; 16], i64, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let reservation = ReservationId::from_u128(u128::from_be_bytes(id));
        if row_sum(&id, &due.to_be_bytes()) != sum {
            let what = format!("the checksum of the due payment of reservation {reservation} does not fit");
            return Err(IndexError::Damaged(what));
        }
        each(reservation, Instant::from_micros(due));
        totals.replace(None, Some(sum));
    }
    check_totals("due payments", totals, expected)
}
