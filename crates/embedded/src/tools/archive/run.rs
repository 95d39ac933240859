//! The step of an archive in which the events of a file leave, for a store that is stopped and for one that is running.

use super::log_batches::mark_of;
use super::{ArchiveError, ArchiveRequest, Step};
use crate::base::fold::{BaseFold, damaged, newest_event_in};
use crate::base::{Base, gone_after};
use crate::engine::leaving::LeavingReservations;
use crate::error::OpenError;
use crate::files;
use crate::index::read_state;
use crate::log::Log;
use crate::log::start::LogStart;
use crate::start::data_dir::sync_dir;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use stockhold_domain::{Record, RecordKind, ReservationId};
use stockhold_store::{
    ArchiveFile, ArchiveMark, ArchivedStore, CONSUMER_KINDS, DroppedEvents, LoggedBatch, LoggedBatches,
};

/// A store that events leave, without its log.
pub(crate) trait LeavableStore {
    /// All records of a kind.
    fn records_of(&self, kind: RecordKind) -> Vec<Record>;

    /// From now on these reservations do not change, and the events up to the end of the step are not read. Waits until the index has
    /// everything that happened before, durably.
    fn begin_step(
        &mut self,
        leaving: LeavingReservations,
        start: &LogStart,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), ArchiveError>;

    /// The index, complete up to the step.
    fn index(&self) -> &Connection;

    /// The step is not made.
    fn cancel_step(&mut self);

    /// The base could not be written. It may have the step or not.
    fn fail_step(&mut self, why: &str);

    /// The batch up to which the index has durably let go of what was archived.
    fn index_archived(&self) -> u64;

    /// The base has the step durably. The rows of the log and these closed reservations of the index go.
    fn end_step(
        &mut self,
        log: &mut Log,
        start: &LogStart,
        gone: Vec<ReservationId>,
        reached: &mut dyn FnMut(Step),
    ) -> Result<(), ArchiveError>;

    /// Waits until the store is ready for another step.
    fn wait_for_end(&mut self, is_cancelled: &dyn Fn() -> bool) -> Result<(), ArchiveError>;
}

/// A log and its store, which events leave.
pub(crate) struct LeavableLog<'a, S> {
    base_file: PathBuf,
    request: &'a ArchiveRequest<'a>,
    log: Log,
    store: S,
}

impl<'a, S: LeavableStore> LeavableLog<'a, S> {
    pub(crate) fn new(dir: &Path, request: &'a ArchiveRequest<'a>, log: Log, store: S) -> Self {
        Self { base_file: dir.join(files::BASE), request, log, store }
    }

    fn records(&self) -> Vec<Record> {
        CONSUMER_KINDS.into_iter().flat_map(|kind| self.store.records_of(kind)).collect()
    }
}

impl<S: LeavableStore> LoggedBatches for LeavableLog<'_, S> {
    type Error = OpenError;

    fn mark(&self) -> ArchiveMark {
        mark_of(self.log.start())
    }

    fn batches(&mut self, after: u64, limit: usize) -> Result<Vec<LoggedBatch>, ArchiveError> {
        (&self.log).batches(after, limit)
    }
}

impl<S: LeavableStore> ArchivedStore for LeavableLog<'_, S> {
    fn consumer_records(&mut self) -> Result<Vec<Record>, ArchiveError> {
        Ok(self.records())
    }

    fn drop_file(
        &mut self,
        file: &ArchiveFile,
        may_leave: &mut dyn FnMut(&[Record]) -> bool,
        reached: &mut dyn FnMut(Step),
    ) -> Result<DroppedEvents, ArchiveError> {
        let base_file = self.base_file.clone();
        let wrong = damaged(&base_file);
        self.store.wait_for_end(self.request.is_cancelled)?;
        let mut base = Base::open(&base_file)?;
        let last = self.log.batch_of_position(file.last)?;
        let start = LogStart { head: self.log.head(last)?, sha256: Some(file.sha256) };
        let mut fold = BaseFold::new(&base.index.db);
        let from = self.log.start().head;
        let mut error = None;
        self.log.for_each_batch(from.number, from.sum, |batch, _| {
            let goes_on = batch.number < last;
            if batch.number <= last {
                error = fold.add_batch(batch).err();
            }
            Ok(goes_on && error.is_none())
        })?;
        if let Some(error) = error {
            return Err(wrong(error).into());
        }
        let closed = fold.close();
        let leaving = LeavingReservations::new(closed.closed(), start.keys_dropped_before());
        let step = self.store.begin_step(leaving, &start, self.request.is_cancelled).and_then(|()| {
            if !may_leave(&self.records()) {
                return Ok(None);
            }
            let step = closed.finish(start, newest_event_in(self.store.index()));
            step.map(Some).map_err(|error| wrong(error).into())
        });
        let step = match step {
            Ok(Some(step)) => step,
            not_made => {
                self.store.cancel_step();
                let through = self.log.start().through();
                return not_made.map(|_| DroppedEvents { through, reservations: 0 });
            }
        };
        if let Err(error) = base.advance(&step) {
            if crate::log::is_retryable(&error) {
                self.store.cancel_step();
            } else {
                self.store.fail_step(&crate::error::describe(&error));
            }
            return Err(OpenError::sqlite(&base_file, "writing", error).into());
        }
        // The first step has created the base. Its name is durable before anything is deleted.
        if let Some(dir) = base_file.parent()
            && let Err(error) = sync_dir(dir)
        {
            self.store.fail_step(&error.to_string());
            return Err(error.into());
        }
        reached(Step::EventsLeft);
        // A recount that reads the index now has seen an earlier start, so it needs the lists of this step alone.
        base.forget_gone(self.store.index_archived().min(from.number))
            .map_err(|error| OpenError::sqlite(&base_file, "writing", error))?;
        // The index may have more of them: those of a step that was interrupted.
        let archived = read_state(self.store.index()).map_err(&wrong)?.archived;
        let gone = gone_after(&base.index.db, archived).map_err(&wrong)?;
        self.log.set_start(start);
        self.store.end_step(&mut self.log, &start, gone, reached)?;
        Ok(DroppedEvents { through: file.last, reservations: step.gone.len() as u64 })
    }
}
