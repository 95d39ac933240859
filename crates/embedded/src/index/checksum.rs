//! The checksums of the index. Each row has one, and for each table the state row keeps the number of rows and the sum
//! of their checksums.

use crate::error::IndexError;
use rusqlite::{Connection, OptionalExtension, ToSql};

/// The number of rows of a table, and the sum of their checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableTotals {
    pub(crate) rows: u64,
    pub(crate) sums: u64,
}

impl TableTotals {
    pub(crate) fn replace(&mut self, before: Option<u32>, after: Option<u32>) {
        if let Some(sum) = before {
            self.rows = self.rows.wrapping_sub(1);
            self.sums = self.sums.wrapping_sub(u64::from(sum));
        }
        if let Some(sum) = after {
            self.rows = self.rows.wrapping_add(1);
            self.sums = self.sums.wrapping_add(u64::from(sum));
        }
    }
}

/// The checksum of a row, over its key and its data.
pub(crate) fn row_sum(key: &[u8], data: &[u8]) -> u32 {
    row_sum_of(&[key, data])
}

/// The checksum of a row whose key and data are in several parts.
pub(crate) fn row_sum_of(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

/// Checks the rows on both sides of the place of an absent row. A row whose key was damaged is not found by its key,
/// but it stands there.
pub(crate) fn check_neighbours(
    db: &Connection,
    queries: &[&str],
    place: &[&dyn ToSql],
) -> Result<(), IndexError> {
    for query in queries {
        let row = db
            .prepare_cached(query)?
            .query_row(place, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .optional()?;
        if let Some((key, data, sum)) = row {
            let (key, data): (Vec<u8>, Vec<u8>) = (key, data);
            if row_sum(&key, &data) != sum {
                return Err(IndexError::Damaged(
                    "the checksum of a row beside the one looked for does not fit".to_owned(),
                ));
            }
        }
    }
    Ok(())
}

pub(crate) fn check_totals(what: &str, found: TableTotals, expected: TableTotals) -> Result<(), IndexError> {
    if found == expected {
        return Ok(());
    }
    Err(IndexError::Damaged(format!(
        "it has {} {what} and should have {}, or their checksums differ",
        found.rows, expected.rows
    )))
}
