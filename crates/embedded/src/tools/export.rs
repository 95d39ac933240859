//! Exports the log batch by batch, for the import into another store.

use crate::customers::{CustomerError, CustomerFile};
use crate::error::OpenError;
use crate::files;
use crate::log::Log;
use crate::start::data_dir::{check_wal, checked_end, lock, read_sync_marker};
use crate::start::incomplete_copy;
use std::path::Path;
use stockhold_domain::{Event, KeyRecord};
use stockhold_store::{CustomerRequest, CustomerResult, CustomerRow};

/// Rows of customers that are read at once.
const CUSTOMERS_AT_ONCE: usize = 200;

/// Reads the log of a data directory that no server uses. `each` gets the events and the used keys of a batch, the
/// number of batches that are done and the number of all batches. The export ends early if `each` returns `false`.
pub fn export_log(
    dir: &Path,
    mut each: impl FnMut(Vec<Event>, Vec<KeyRecord>, (u64, u64)) -> bool,
) -> Result<(), OpenError> {
    let file = dir.join(files::LOG);
    if !file.exists() {
        return Err(OpenError::io(format!("opening {}", file.display()), "there is no stockhold data here"));
    }
    // The lock keeps servers away. Batches that a server committed during the export would be missing from it.
    let _lock = lock(dir)?;
    incomplete_copy::refuse(dir)?;
    check_wal(&file)?;
    let log = Log::open_reader(&file)?;
    log.check_format()?;
    let archived = log.start().through();
    if archived > 0 {
        return Err(OpenError::io(
            format!("copying {}", file.display()),
            format!("the events up to position {archived} were archived, and an export needs all of them"),
        ));
    }
    let last = checked_end(dir, &log, read_sync_marker(dir)?)?;
    log.for_each_batch(0, 0, |batch, _| Ok(each(batch.events, batch.keys, (batch.number, last))))
}

/// Reads the rows of customers of a data directory that no server uses. `each` gets some of them, in order of their ids. The export ends
/// early if `each` returns `false`.
pub fn export_customers(dir: &Path, mut each: impl FnMut(Vec<CustomerRow>) -> bool) -> Result<(), OpenError> {
    let _lock = lock(dir)?;
    incomplete_copy::refuse(dir)?;
    let file = CustomerFile::open(dir)?;
    let mut after = None;
    loop {
        let rows = match file.run(&CustomerRequest::Page { after, limit: CUSTOMERS_AT_ONCE }) {
            Ok(CustomerResult::Page(rows)) => rows,
            Ok(other) => return Err(OpenError::io("reading customers", format!("a page is {other:?}"))),
            Err(CustomerError::Refused(what) | CustomerError::Failed(what)) => {
                return Err(OpenError::io("reading customers", what));
            }
        };
        let is_last = rows.len() < CUSTOMERS_AT_ONCE;
        after = rows.last().map(|row| row.id.clone());
        if !each(rows) || is_last {
            return Ok(());
        }
    }
}
