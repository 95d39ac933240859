//! Paused scopes, in the index.

use crate::error::IndexError;
use crate::index::checksum::{TableTotals, row_sum};
use crate::index::throttle::WriteThrottle;
use rusqlite::{Connection, OptionalExtension, params};

/// Writes which scopes are paused, and which are not any more.
pub(crate) fn write(
    db: &Connection,
    pauses: &[(String, bool)],
    totals: &mut TableTotals,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    for (scope, paused) in pauses {
        throttle.yield_point()?;
        let before = db
            .query_row("DELETE FROM pauses WHERE scope = ?1 RETURNING sum", [scope], |row| row.get(0))
            .optional()?;
        totals.replace(before, None);
        if *paused {
            let sum = row_sum(scope.as_bytes(), &[]);
            db.execute("INSERT INTO pauses (scope, sum) VALUES (?1, ?2)", params![scope, sum])?;
            totals.replace(None, Some(sum));
        }
    }
    Ok(())
}

/// Calls back for every paused scope.
pub(crate) fn load(db: &Connection, mut each: impl FnMut(&str)) -> Result<TableTotals, IndexError> {
    let mut totals = TableTotals::default();
    let mut statement = db.prepare("SELECT scope, sum FROM pauses")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (scope, sum): (String, u32) = (row.get(0)?, row.get(1)?);
        if row_sum(scope.as_bytes(), &[]) != sum {
            return Err(IndexError::Damaged(format!("the checksum of pause {scope:?} does not fit")));
        }
        each(&scope);
        totals.replace(None, Some(sum));
    }
    Ok(totals)
}
