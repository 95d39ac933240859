//! Archives while the store is running. It runs on the thread of the caller, reads with connections of its own and is the only one that
//! writes the base. No request waits for it.
//!
//! The reservations of a step stop changing when memory knows that they leave. The step is written once the index has everything that
//! was decided before. Then the committer and the indexer delete what has left, after the queries that may still read it.

use super::run::{LeavableLog, LeavableStore};
use super::{ArchiveError, ArchiveRequest, ArchiveRun, ArchiveSummary, Step, check_age};
use crate::engine::leaving::LeavingReservations;
use crate::index::{Index, read_state};
use crate::log::Log;
use crate::log::start::LogStart;
use crate::threads::indexer::{Mailbox, Message};
use crate::threads::shared::Shared;
use crate::{error::OpenError, files};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as Monotonic};
use stockhold_domain::{Record, RecordKind, ReservationId};
use stockhold_store::EventArchive;

/// How often it is looked whether other threads have done their part.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The longest wait for them. They may wait for a disk that is full, or for a long query.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Archives a running store.
pub(crate) struct Archiver<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) indexer: &'a Mailbox,
    pub(crate) dir: &'a Path,
    /// The longest retention of keys that was promised.
    pub(crate) key_retention: Duration,
}

impl Archiver<'_> {
    pub(crate) fn archive(
        self,
        request: &ArchiveRequest<'_>,
        archive: &mut dyn EventArchive,
        reached: &mut dyn FnMut(Step),
    ) -> Result<ArchiveSummary, ArchiveError> {
        check_age::<OpenError>(request, self.key_retention)?;
        let log = Log::open_reader(&self.dir.join(files::LOG))?;
        let index = Index::open_reader(&self.dir.join(files::INDEX))?;
        let store = RunningStore { shared: self.shared, indexer: self.indexer, index };
        let mut store = LeavableLog::new(self.dir, request, log, store);
        ArchiveRun::new(request, request.now, &mut store)?.archive(archive, &mut |_| (), reached)
    }
}

/// A store that is running.
struct RunningStore<'a> {
    shared: &'a Arc<Shared>,
    indexer: &'a Mailbox,
    index: Connection,
}

impl RunningStore<'_> {
    /// Waits until `is_so`.
    fn wait_until(
        &self,
        what: &str,
        is_cancelled: &dyn Fn() -> bool,
        mut is_so: impl FnMut() -> Result<bool, ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let begun = Monotonic::now();
        while !is_so()? {
            if let Some(why) = self.shared.core().poisoned() {
                return Err(ArchiveError::Interrupted(why.to_owned()));
            }
            if is_cancelled() {
                return Err(ArchiveError::Interrupted("the server is stopping".to_owned()));
            }
            if begun.elapsed() > LONGEST_WAIT {
                let seconds = LONGEST_WAIT.as_secs();
                return Err(ArchiveError::Interrupted(format!("{what} for {seconds} s; try again later")));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

impl LeavableStore for RunningStore<'_> {
    fn records_of(&self, kind: RecordKind) -> Vec<Record> {
        self.shared.core().memory.records_of(kind)
    }

    fn begin_step(
        &mut self,
        leaving: LeavingReservations,
        start: &LogStart,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), ArchiveError> {
        self.shared.log_starts.close_through(start.through());
        let decided = self.shared.core().begin_leaving(leaving);
        let mut runs_wanted = false;
        self.wait_until("the index has been far behind", is_cancelled, || {
            let state = read_state(&self.index)
                .map_err(|damage| ArchiveError::Store(damage.into_open_error(files::INDEX.as_ref())))?;
            if state.keyed < start.head.number && !runs_wanted {
                self.indexer.send(Message::WriteRuns);
                runs_wanted = true;
            }
            Ok(state.indexed >= decided && state.keyed >= start.head.number)
        })
    }

    fn index(&self) -> &Connection {
        &self.index
    }

    fn cancel_step(&mut self) {
        let stays = self.shared.core().memory.cancel_leaving();
        drop(stays);
        self.shared.log_starts.reopen();
    }

    fn fail_step(&mut self, why: &str) {
        tracing::error!(why, "the base can't be written; the store writes nothing more");
        self.shared.poison(format!("writing the base failed ({why}); a restart recovers"));
    }

    fn index_archived(&self) -> u64 {
        self.shared.index_archived.load(Ordering::Acquire)
    }

    fn end_step(
        &mut self,
        _: &mut Log,
        start: &LogStart,
        gone: Vec<ReservationId>,
        _: &mut dyn FnMut(Step),
    ) -> Result<(), ArchiveError> {
        self.shared.log_starts.advance(*start);
        self.indexer.send(Message::Archived(gone, Box::new(*start)));
        self.shared.wake_committer();
        Ok(())
    }

    fn wait_for_end(&mut self, is_cancelled: &dyn Fn() -> bool) -> Result<(), ArchiveError> {
        let what = "what was archived before has been in use, or could not be deleted,";
        self.wait_until(what, is_cancelled, || Ok(!self.shared.core().memory.is_leaving()))
    }
}

/// The error of a panic, which ends the store.
pub(crate) fn panicked() -> ArchiveError {
    ArchiveError::Store(OpenError::io("archiving", "the archive panicked; a restart recovers"))
}
