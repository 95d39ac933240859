//! Archives the oldest events of a store, and lets them and the reservations that had ended by then leave the log and the index. The
//! store is a data directory that no server uses (`stopped`), or it is running (`running`). [`stockhold_store::ArchiveRun`] has the order
//! of the steps.
//!
//! One file of the archive is one step, in this order (2 to 4 are in `run`):
//!
//! 1. The archive has the file: its content is synced before it gets its name, and the name is synced.
//! 2. The base is advanced to the last batch of the file, in one synced transaction. This is the moment at which the events leave.
//! 3. The rows of these batches are deleted from the log.
//! 4. The reservations that left are deleted from the index, and the index is synced.
//!
//! In a running store, the reservations that leave do not change any more before 2 (`engine/leaving`), 3 and 4 are done by the
//! committer and the indexer, and they wait for queries that began before (`threads/log_starts`).
//!
//! A crash after 1 leaves a file whose events are still in the log. The next archive compares it with the log and goes on with 2. A
//! crash after 2 or 3 leaves rows that nothing reads. A start and the next archive delete them.
//!
//! What must never happen: 2 without 1. A position in two files, or in none. A file that is written to after it has its name.

mod log_batches;
mod run;
pub(crate) mod running;
mod stopped;

pub(crate) use self::log_batches::mark_of;

use self::run::LeavableLog;
use self::stopped::StoppedStore;
use crate::error::OpenError;
use crate::files;
use crate::start::recover::recover;
use crate::threads::indexer::retire_before;
use std::path::Path;
use std::time::Duration;
use stockhold_store::{
    ArchiveRequest, ArchiveRun, ArchiveStep as Step, ArchiveSummary, EventArchive, StartProgress, check_age,
};

/// Why a data directory could not be archived.
pub type ArchiveError = stockhold_store::ArchiveError<OpenError>;

impl From<OpenError> for ArchiveError {
    fn from(error: OpenError) -> Self {
        Self::Store(error)
    }
}

/// Archives a data directory that no server uses. `progress` gets what was done so far.
pub fn archive(
    dir: &Path,
    request: &ArchiveRequest<'_>,
    archive: &mut dyn EventArchive,
    mut progress: impl FnMut(&ArchiveSummary),
) -> Result<ArchiveSummary, ArchiveError> {
    archive_by(dir, request, archive, &mut progress, &mut |_| ())
}

pub(crate) fn archive_by(
    dir: &Path,
    request: &ArchiveRequest<'_>,
    archive: &mut dyn EventArchive,
    progress: &mut dyn FnMut(&ArchiveSummary),
    reached: &mut dyn FnMut(Step),
) -> Result<ArchiveSummary, ArchiveError> {
    check_age::<OpenError>(request, Duration::ZERO)?;
    let log_file = dir.join(files::LOG);
    if !log_file.exists() {
        let error =
            OpenError::io(format!("opening {}", log_file.display()), "there is no stockhold data here");
        return Err(error.into());
    }
    let retire_before = retire_before(request.now, request.key_retention);
    let recovered = recover(dir, retire_before, 0, &StartProgress::default())?;
    // The server may have had another configuration than this command.
    check_age::<OpenError>(request, recovered.backlog.index.promised_key_retention())?;
    let (store, log) = StoppedStore::new(dir, recovered)?;
    let mut store = LeavableLog::new(dir, request, log, store);
    ArchiveRun::new(request, request.now, &mut store)?.archive(archive, progress, reached)
}

#[cfg(test)]
mod tests;
