//! All that a log has, batch by batch, for another store to take over.

use crate::error::OpenError;
use crate::files;
use crate::log::Log;
use crate::start::data_dir::{check_wal, checked_end, lock, read_sync_marker};
use crate::start::incomplete_copy;
use std::path::Path;
use stockhold_domain::{Event, KeyRecord};

/// Reads a data directory that no server uses, from the first batch to the last: `each` gets what happened and which keys were
/// used, and how many batches are done and how many there are. It ends early when `each` says no.
pub fn export_log(
    dir: &Path,
    mut each: impl FnMut(Vec<Event>, Vec<KeyRecord>, (u64, u64)) -> bool,
) -> Result<(), OpenError> {
    let file = dir.join(files::LOG);
    if !file.exists() {
        return Err(OpenError::io(format!("opening {}", file.display()), "there is no stockhold data here"));
    }
    // What a server answers after this would be left behind.
    let _lock = lock(dir)?;
    incomplete_copy::refuse(dir)?;
    check_wal(&file)?;
    let log = Log::open_reader(&file)?;
    log.check_format()?;
    let last = checked_end(dir, &log, read_sync_marker(dir)?)?;
    log.for_each_batch(0, 0, |batch, _| Ok(each(batch.events, batch.keys, (batch.number, last))))
}
