//! Records in the index. A deleted record keeps its row without a value, because its version is needed later.

use crate::error::IndexError;
use crate::index::checksum::{TableTotals, check_totals, row_sum};
use crate::index::throttle::WriteThrottle;
use rusqlite::{Connection, OptionalExtension, params};
use stockhold_domain::Record;
use stockhold_store::codec::{self, Reader};

pub(crate) const SCHEMA: &str = "
    CREATE TABLE records (
        kind TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (kind, id)
    ) STRICT, WITHOUT ROWID;
";

fn row_key(kind: &str, id: &str) -> Vec<u8> {
    [kind.as_bytes(), &[0], id.as_bytes()].concat()
}

/// Writes the latest state of records, which are sorted like the table.
pub(crate) fn write(
    db: &Connection,
    records: &[Record],
    totals: &mut TableTotals,
    throttle: &mut WriteThrottle,
) -> rusqlite::Result<()> {
    let mut find = db.prepare_cached("SELECT sum FROM records WHERE kind = ?1 AND id = ?2")?;
    let mut put =
        db.prepare_cached("INSERT OR REPLACE INTO records (kind, id, data, sum) VALUES (?1, ?2, ?3, ?4)")?;
    let mut data = Vec::new();
    for record in records {
        let (kind, id) = (record.key.kind.name(), record.key.id.as_str());
        data.clear();
        codec::put_record(&mut data, record);
        let sum = row_sum(&row_key(kind, id), &data);
        let before = find.query_row([kind, id], |row| row.get(0)).optional()?;
        put.execute(params![kind, id, data, sum])?;
        totals.replace(before, Some(sum));
        throttle.yield_point()?;
    }
    Ok(())
}

/// Calls back for every record, deleted ones included, and checks that none is missing.
pub(crate) fn load(
    db: &Connection,
    expected: TableTotals,
    mut each: impl FnMut(Record),
) -> Result<(), IndexError> {
    let mut totals = TableTotals::default();
    let mut statement = db.prepare("SELECT kind, id, data, sum FROM records")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, id, sum): (String, String, u32) = (row.get(0)?, row.get(1)?, row.get(3)?);
        let data = row.get_ref(2)?.as_blob().unwrap_or_default();
        if row_sum(&row_key(&kind, &id), data) != sum {
            let what = format!("the checksum of record {id:?} of kind {kind} does not fit");
            return Err(IndexError::Damaged(what));
        }
        let mut reader = Reader::new(data);
        each(codec::record(&mut reader)?);
        reader.finish()?;
        totals.replace(None, Some(sum));
    }
    check_totals("records", totals, expected)
}
