//! The store of a data directory that no server uses.

use super::run::LeavableStore;
use super::{ArchiveError, Step};
use crate::engine::leaving::LeavingReservations;
use crate::error::OpenError;
use crate::files;
use crate::index::Index;
use crate::log::Log;
use crate::log::start::LogStart;
use crate::start::data_dir::DirectoryLock;
use crate::start::recover::RecoveredStore;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use stockhold_domain::{ItemKey, Record, RecordKind, ReservationId, State};
use stockhold_store::CONSUMER_KINDS;

/// The rows that are deleted from the log in one transaction.
const ROWS_AT_ONCE: u64 = 1_024;

/// The store of a directory that is locked, with an index that is complete.
pub(super) struct StoppedStore {
    dir: PathBuf,
    index: Index,
    index_archived: u64,
    records: Vec<Record>,
    _lock: DirectoryLock,
}

impl StoppedStore {
    pub(super) fn new(dir: &Path, recovered: RecoveredStore) -> Result<(Self, Log), ArchiveError> {
        let RecoveredStore { lock, log, mut backlog, memory, .. } = recovered;
        let index_file = dir.join(files::INDEX);
        let failed = |error| OpenError::sqlite(&index_file, "writing", error);
        // With a complete index, the index alone tells which event of a reservation is its last one.
        let item = |key: &ItemKey| memory.item(key).ok().flatten().cloned();
        while backlog.weight() > 0 {
            backlog.write_chunk(item).map_err(failed)?;
        }
        backlog.write_runs().map_err(failed)?;
        let records = CONSUMER_KINDS.into_iter().flat_map(|kind| memory.records_of(kind)).collect();
        let dir = dir.to_owned();
        Ok((Self { dir, index: backlog.index, index_archived: 0, records, _lock: lock }, log))
    }
}

impl LeavableStore for StoppedStore {
    fn records_of(&self, kind: RecordKind) -> Vec<Record> {
        self.records.iter().filter(|record| record.key.kind == kind).cloned().collect()
    }

    fn begin_step(
        &mut self,
        _: LeavingReservations,
        _: &LogStart,
        _: &dyn Fn() -> bool,
    ) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn index(&self) -> &Connection {
        &self.index.db
    }

    fn cancel_step(&mut self) {}

    fn fail_step(&mut self, _: &str) {}

    fn index_archived(&self) -> u64 {
        self.index_archived
    }

    fn end_step(
        &mut self,
        log: &mut Log,
        start: &LogStart,
        gone: Vec<ReservationId>,
        reached: &mut dyn FnMut(Step),
    ) -> Result<(), ArchiveError> {
        let log_file = self.dir.join(files::LOG);
        log.trim(ROWS_AT_ONCE)
            .map_err(|error| OpenError::sqlite(&log_file, "deleting archived batches", error))?;
        reached(Step::LogTrimmed);
        let index_file = self.dir.join(files::INDEX);
        let failed = |error| OpenError::sqlite(&index_file, "writing", error);
        self.index.forget_archived(&gone, start.head.number, start.keys_dropped_before()).map_err(failed)?;
        // A reader may have delayed the checkpoint. Then a power cut may still bring the reservations back.
        if crate::log::checkpoint(&self.index.db, "TRUNCATE").map_err(failed)? == 0 {
            self.index_archived = start.head.number;
        }
        reached(Step::IndexTrimmed);
        Ok(())
    }

    fn wait_for_end(&mut self, _: &dyn Fn() -> bool) -> Result<(), ArchiveError> {
        Ok(())
    }
}
