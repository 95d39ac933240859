//! Exports the log batch by batch, for the import into another store.

use crate::error::OpenError;
use crate::files;
use crate::log::Log;
use crate::start::data_dir::{check_wal, checked_end, lock, read_sync_marker};
use crate::start::incomplete_copy;
use std::path::Path;
use stockhold_domain::{Event, KeyRecord};

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
