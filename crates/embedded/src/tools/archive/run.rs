//! The steps of an archive, for a store that is stopped and for one that is running.

use super::{ArchiveError, ArchiveRequest, ArchiveSummary, CONSUMER_KINDS, ReadPosition, Step};
use super::{check_previous, compare};
use crate::base::fold::{BaseFold, damaged, newest_event_in};
use crate::base::{Base, gone_after};
use crate::engine::leaving::LeavingReservations;
use crate::error::OpenError;
use crate::files;
use crate::index::read_state;
use crate::log::start::LogStart;
use crate::log::{Log, LogHead};
use crate::start::data_dir::sync_dir;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use stockhold_domain::{Instant, Record, RecordKind, ReservationId};
use stockhold_store::{ArchiveFile, EventArchive, EventRow, Sha256, archived_form};

/// A store that events leave.
pub(crate) trait ArchivedStore {
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

/// An archive of a store.
pub(crate) struct ArchiveRun<'a, S> {
    base_file: PathBuf,
    request: &'a ArchiveRequest<'a>,
    /// Consumers that have not read everything, and the last position that each has read.
    hold_back: Vec<ReadPosition>,
    log: Log,
    /// What happened before this may leave.
    bound: Instant,
    store: S,
}

impl<'a, S: ArchivedStore> ArchiveRun<'a, S> {
    pub(crate) fn new(dir: &Path, request: &'a ArchiveRequest<'a>, log: Log, store: S) -> Self {
        let age = i64::try_from(request.older_than.as_micros()).unwrap_or(i64::MAX);
        let bound = Instant::from_micros(request.now.micros().saturating_sub(age));
        let base_file = dir.join(files::BASE);
        let mut run = Self { base_file, request, hold_back: Vec::new(), log, bound, store };
        run.read_consumers();
        run
    }

    /// Makes the steps. `progress` gets what was done so far.
    pub(crate) fn archive(
        mut self,
        file_events: u64,
        archive: &mut dyn EventArchive,
        progress: &mut dyn FnMut(&ArchiveSummary),
        reached: &mut dyn FnMut(Step),
    ) -> Result<ArchiveSummary, ArchiveError> {
        let files = archive.files().map_err(ArchiveError::Archive)?;
        let (mut done, mut previous) = self.join(archive, &files)?;
        progress(&done);
        let mut waiting: VecDeque<(u64, u64)> =
            files.into_iter().filter(|(_, last)| *last > done.dropped_through).collect();
        let (mut written, mut dropped) = (0, 0);
        'files: loop {
            // The file that was written last, and files that an interrupted archive, or one that dropped nothing, has left.
            while self.request.drop
                && let Some(file) = waiting.front().copied()
                && self.may_leave(file.1)?
            {
                if dropped >= self.request.files || (self.request.is_cancelled)() {
                    break 'files;
                }
                let compared = compare(&self.log, archive, file)?;
                check_previous(&compared, self.log.start().sha256)?;
                let Some(reservations) = self.drop_file(compared, reached)? else { break };
                waiting.pop_front();
                dropped += 1;
                done.reservations += reservations;
                done.dropped += compared.last - compared.first + 1;
                done.dropped_through = compared.last;
                progress(&done);
            }
            if written >= self.request.files || (self.request.is_cancelled)() {
                break;
            }
            let Some(file) = self.write_file(archive, file_events, done.through, previous)? else {
                done.is_complete = true;
                break;
            };
            reached(Step::FileNamed);
            written += 1;
            (done.through, previous) = (file.last, Some(file.sha256));
            waiting.push_back((file.first, file.last));
            progress(&done);
        }
        done.held_back =
            self.held_back(if self.request.drop { done.dropped_through } else { done.through })?;
        reached(Step::Ended);
        Ok(done)
    }

    fn read_consumers(&mut self) {
        let records: Vec<_> =
            CONSUMER_KINDS.into_iter().flat_map(|kind| self.store.records_of(kind)).collect();
        self.hold_back = (self.request.consumers)(&records);
    }

    /// Checks that the files of the archive go on where the log starts. Returns the hash of the last file.
    fn join(
        &self,
        archive: &mut dyn EventArchive,
        files: &[(u64, u64)],
    ) -> Result<(ArchiveSummary, Option<Sha256>), ArchiveError> {
        let start = *self.log.start();
        let left = start.through();
        let through = files.last().map_or(left, |(_, last)| *last);
        let done =
            ArchiveSummary { after: through, through, dropped_through: left, ..ArchiveSummary::default() };
        let Some((first, last)) = files.last().copied() else { return Ok((done, start.sha256)) };
        let begins = files.first().map_or(0, |(first, _)| *first);
        if last < left || begins > left + 1 {
            return Err(ArchiveError::Refused(format!(
                "the archive has the positions {begins} to {last}, and those up to {left} have left the data directory: name \
                 the directory that has the position {left} too"
            )));
        }
        if last > left && begins <= left && !files.iter().any(|(_, last)| *last == left) {
            return Err(ArchiveError::Refused(format!(
                "no file of the archive ends at position {left}, up to which events have left the data directory: it is the \
                 archive of another store"
            )));
        }
        let mut nothing = |_| Ok(());
        if let Some(file) = files.iter().find(|(_, last)| *last == left) {
            let read = archive.read(*file, &mut nothing).map_err(ArchiveError::Archive)?;
            if Some(read.sha256) != start.sha256 {
                return Err(ArchiveError::Refused(format!(
                    "the file of the archive that ends at position {left} is not the one that was written when its events \
                     left the data directory"
                )));
            }
        }
        if last == left {
            return Ok((done, start.sha256));
        }
        self.check_batch_end(last)?;
        let file = compare(&self.log, archive, (first, last))?;
        if first == left + 1 {
            check_previous(&file, start.sha256)?;
        }
        Ok((done, Some(file.sha256)))
    }

    /// Refuses a file that does not end where a batch of the log ends.
    fn check_batch_end(&self, last: u64) -> Result<LogHead, ArchiveError> {
        let head = self.log.head(self.log.batch_of_position(last)?)?;
        if head.next_position == last + 1 {
            return Ok(head);
        }
        Err(ArchiveError::Refused(format!(
            "a file of the archive ends at position {last}, where no batch of the log ends: it is the archive of another store"
        )))
    }

    /// The last position that may leave because consumers have read it, and the consumer that holds back what follows.
    fn read_by_all(&self) -> Option<&ReadPosition> {
        self.hold_back.iter().min_by_key(|(_, position)| *position)
    }

    fn is_read_by_all(&self, position: u64) -> bool {
        self.read_by_all().is_none_or(|(_, read)| position <= *read)
    }

    /// Whether the events up to a position are old enough and were read.
    fn may_leave(&self, last: u64) -> Result<bool, ArchiveError> {
        Ok(self.check_batch_end(last)?.at < self.bound && self.is_read_by_all(last))
    }

    /// The consumer because of which events after a position stay that are old enough.
    fn held_back(&self, through: u64) -> Result<Option<ReadPosition>, ArchiveError> {
        let Some((name, read)) = self.read_by_all() else { return Ok(None) };
        let next = (*read).max(through).saturating_add(1);
        let head = self.log.head(self.log.batch_of_position(next)?)?;
        let is_old = head.next_position > next && head.at < self.bound;
        Ok(is_old.then(|| (name.clone(), *read)))
    }

    /// Writes the next file, if events are old enough for it.
    fn write_file(
        &self,
        archive: &mut dyn EventArchive,
        file_events: u64,
        through: u64,
        previous: Option<Sha256>,
    ) -> Result<Option<ArchiveFile>, ArchiveError> {
        let read = self.read_by_all().map_or(u64::MAX, |(_, read)| *read);
        let from = self.log.head(self.log.batch_of_position(through)?)?;
        let (mut begun, mut last, mut failed) = (false, through, None);
        self.log.for_each_batch(from.number, from.sum, |batch, _| {
            let end = batch.next_position() - 1;
            if batch.at >= self.bound || end > read || last - through >= file_events {
                return Ok(false);
            }
            let mut add = || {
                if !begun && !batch.events.is_empty() {
                    archive.begin(through + 1, previous)?;
                    begun = true;
                }
                let rows = (batch.position..).zip(&batch.events);
                rows.into_iter().try_for_each(|(position, event)| {
                    archive.add(&EventRow { position, event: archived_form(event) })
                })
            };
            failed = add().err();
            last = end;
            Ok(failed.is_none())
        })?;
        match failed {
            Some(why) => Err(ArchiveError::Archive(why)),
            None if begun => archive.finish().map(Some).map_err(ArchiveError::Archive),
            None => Ok(None),
        }
    }

    /// Lets the events of a file leave. Returns how many reservations left with them; `None` if a consumer has gone back meanwhile.
    fn drop_file(
        &mut self,
        file: ArchiveFile,
        reached: &mut dyn FnMut(Step),
    ) -> Result<Option<u64>, ArchiveError> {
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
            self.read_consumers();
            if !self.is_read_by_all(file.last) {
                return Ok(None);
            }
            let step = closed.finish(start, newest_event_in(self.store.index()));
            step.map(Some).map_err(|error| wrong(error).into())
        });
        let step = match step {
            Ok(Some(step)) => step,
            not_made => {
                self.store.cancel_step();
                return not_made.map(|_| None);
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
        reached(Step::BaseAdvanced);
        // A recount that reads the index now has seen an earlier start, so it needs the lists of this step alone.
        base.forget_gone(self.store.index_archived().min(from.number))
            .map_err(|error| OpenError::sqlite(&base_file, "writing", error))?;
        // The index may have more of them: those of a step that was interrupted.
        let archived = read_state(self.store.index()).map_err(&wrong)?.archived;
        let gone = gone_after(&base.index.db, archived).map_err(&wrong)?;
        self.log.set_start(start);
        self.store.end_step(&mut self.log, &start, gone, reached)?;
        Ok(Some(step.gone.len() as u64))
    }
}
