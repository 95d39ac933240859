//! Archives the oldest events of a data directory that no server uses, and lets them and the reservations that had ended by then leave
//! the log and the index.
//!
//! One file of the archive is one step, in this order:
//!
//! 1. The archive has the file: its content is synced before it gets its name, and the name is synced.
//! 2. The base is advanced to the last batch of the file, in one synced transaction. This is the moment at which the events leave.
//! 3. The rows of these batches are deleted from the log.
//! 4. The reservations that left are deleted from the index, and the index is synced.
//!
//! A crash after 1 leaves a file whose events are still in the log. The next archive compares it with the log and goes on with 2. A
//! crash after 2 or 3 leaves rows that nothing reads. A start and the next archive delete them.
//!
//! What must never happen: 2 without 1. A position in two files, or in none. A file that is written to after it has its name.

mod compare;
mod error;

pub(crate) use self::compare::{check_previous, compare};
pub use self::error::ArchiveError;

use crate::base::fold::{BaseFold, damaged, newest_event_in};
use crate::base::{self, Base};
use crate::error::OpenError;
use crate::files;
use crate::index::Index;
use crate::log::start::LogStart;
use crate::log::{Log, LogHead};
use crate::start::data_dir::{DirectoryLock, sync_dir};
use crate::start::recover::{RecoveredStore, recover};
use crate::threads::indexer::retire_before;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stockhold_domain::{Instant, ItemKey, Record, RecordKind, State};
use stockhold_store::{ArchiveFile, EventArchive, EventRow, Sha256, StartProgress, archived_form};

/// The events after which a file ends. Their batches are folded into the base in one transaction.
const FILE_EVENTS: u64 = 262_144;
/// The rows that are deleted from the log in one transaction.
const ROWS_AT_ONCE: u64 = 1_024;

/// The name of a consumer of events, and the last position that it has read.
pub type ReadPosition = (String, u64);

/// What is to be archived.
#[derive(Clone)]
pub struct ArchiveRequest<'a> {
    /// What happened longer ago than this.
    pub older_than: Duration,
    /// How long idempotency keys are kept. Nothing younger may leave.
    pub key_retention: Duration,
    /// The time now.
    pub now: Instant,
    /// Whether the events leave the log, or are only written.
    pub drop: bool,
    /// The consumers of events that records are about: their names, and the last position that each has read.
    pub consumers: &'a dyn Fn(&[Record]) -> Vec<ReadPosition>,
}

/// What was archived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSummary {
    /// The position of the last event that was in the archive before.
    pub after: u64,
    /// The position of the last event that is in the archive now.
    pub through: u64,
    /// The number of events that left the log.
    pub dropped: u64,
    /// The position of the last event that has left the log.
    pub dropped_through: u64,
    /// The number of reservations that left.
    pub reservations: u64,
    /// The consumer because of which older events stay, and the position that it has read.
    pub held_back: Option<ReadPosition>,
}

/// A durable step, for tests that cut between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    FileNamed,
    BaseAdvanced,
    LogTrimmed,
    IndexTrimmed,
    Ended,
}

/// Archives. `progress` gets what was done so far.
pub fn archive(
    dir: &Path,
    request: &ArchiveRequest<'_>,
    archive: &mut dyn EventArchive,
    mut progress: impl FnMut(&ArchiveSummary),
) -> Result<ArchiveSummary, ArchiveError> {
    archive_by(FILE_EVENTS, dir, request, archive, &mut progress, &mut |_| ())
}

pub(crate) fn archive_by(
    file_events: u64,
    dir: &Path,
    request: &ArchiveRequest<'_>,
    archive: &mut dyn EventArchive,
    progress: &mut dyn FnMut(&ArchiveSummary),
    reached: &mut dyn FnMut(Step),
) -> Result<ArchiveSummary, ArchiveError> {
    check_age(request, request.key_retention)?;
    let log_file = dir.join(files::LOG);
    if !log_file.exists() {
        let error =
            OpenError::io(format!("opening {}", log_file.display()), "there is no stockhold data here");
        return Err(error.into());
    }
    let retire_before = retire_before(request.now, request.key_retention);
    let recovered = recover(dir, retire_before, 0, &StartProgress::default())?;
    // The server may have had another configuration than this command.
    check_age(request, recovered.backlog.index.promised_key_retention())?;
    let mut run = ArchiveRun::new(dir, request, recovered)?;
    let files = archive.files().map_err(ArchiveError::Archive)?;
    let (mut done, mut previous) = run.join(archive, &files)?;
    progress(&done);
    let mut waiting: VecDeque<(u64, u64)> =
        files.into_iter().filter(|(_, last)| *last > done.dropped_through).collect();
    loop {
        // Files that an interrupted archive, or one that dropped nothing, has left.
        if request.drop {
            while let Some(file) = waiting.front().copied() {
                if !run.may_leave(file.1)? {
                    break;
                }
                waiting.pop_front();
                let compared = compare(&run.log, archive, file)?;
                check_previous(&compared, run.log.start().sha256)?;
                done.reservations += run.drop_file(compared, reached)?;
                done.dropped += compared.last - compared.first + 1;
                done.dropped_through = compared.last;
                progress(&done);
            }
        }
        let Some(file) = run.write_file(archive, file_events, done.through, previous)? else { break };
        reached(Step::FileNamed);
        (done.through, previous) = (file.last, Some(file.sha256));
        waiting.push_back((file.first, file.last));
        progress(&done);
    }
    done.held_back = run.held_back(if request.drop { done.dropped_through } else { done.through })?;
    reached(Step::Ended);
    Ok(done)
}

/// Refuses what is younger than the retention of keys.
fn check_age(request: &ArchiveRequest<'_>, key_retention: Duration) -> Result<(), ArchiveError> {
    if request.older_than >= key_retention {
        return Ok(());
    }
    Err(ArchiveError::InvalidRequest(format!(
        "what is younger than {} h can't be archived: its idempotency keys are kept for so long",
        key_retention.as_secs().div_ceil(3_600)
    )))
}

/// An archive of a directory that is locked, with an index that is complete.
struct ArchiveRun {
    dir: PathBuf,
    /// Consumers that have not read everything, and the last position that each has read.
    hold_back: Vec<ReadPosition>,
    log: Log,
    index: Index,
    /// What happened before this may leave.
    bound: Instant,
    _lock: DirectoryLock,
}

impl ArchiveRun {
    fn new(
        dir: &Path,
        request: &ArchiveRequest<'_>,
        recovered: RecoveredStore,
    ) -> Result<Self, ArchiveError> {
        let RecoveredStore { lock, log, mut backlog, memory, .. } = recovered;
        let index_file = dir.join(files::INDEX);
        let failed = |error| OpenError::sqlite(&index_file, "writing", error);
        // With a complete index, the index alone tells which event of a reservation is its last one.
        let item = |key: &ItemKey| memory.item(key).ok().flatten().cloned();
        while backlog.weight() > 0 {
            backlog.write_chunk(item).map_err(failed)?;
        }
        backlog.write_runs().map_err(failed)?;
        let age = i64::try_from(request.older_than.as_micros()).unwrap_or(i64::MAX);
        let bound = Instant::from_micros(request.now.micros().saturating_sub(age));
        let kinds =
            [RecordKind::Sink, RecordKind::Webhook, RecordKind::WebhookProgress, RecordKind::StockMaster];
        let records: Vec<_> = kinds.into_iter().flat_map(|kind| memory.records_of(kind)).collect();
        let hold_back = (request.consumers)(&records);
        Ok(Self { dir: dir.to_owned(), hold_back, log, index: backlog.index, bound, _lock: lock })
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

    /// Whether the events up to a position are old enough and were read.
    fn may_leave(&self, last: u64) -> Result<bool, ArchiveError> {
        let head = self.check_batch_end(last)?;
        Ok(head.at < self.bound && self.read_by_all().is_none_or(|(_, read)| last <= *read))
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

    /// Lets the events of a file leave. Returns how many reservations left with them.
    fn drop_file(&mut self, file: ArchiveFile, reached: &mut dyn FnMut(Step)) -> Result<u64, ArchiveError> {
        let base_file = self.dir.join(files::BASE);
        let failed = |error| OpenError::sqlite(&base_file, "writing", error);
        let wrong = damaged(&base_file);
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
        let step = fold.finish(start, newest_event_in(&self.index.db)).map_err(&wrong)?;
        base.advance(&step).map_err(failed)?;
        // The first step has created the base. Its name is durable before anything is deleted.
        sync_dir(&self.dir)?;
        reached(Step::BaseAdvanced);

        let log_file = self.dir.join(files::LOG);
        let log_failed = |error| OpenError::sqlite(&log_file, "deleting archived batches", error);
        self.log = Log::open(&log_file)?;
        self.log.trim(ROWS_AT_ONCE).map_err(log_failed)?;
        reached(Step::LogTrimmed);
        let index_file = self.dir.join(files::INDEX);
        base::trim_index(&base.index.db, &mut self.index, &start)
            .map_err(|error| error.into_open_error(&index_file))?;
        let left = crate::log::checkpoint(&self.index.db, "TRUNCATE")
            .map_err(|error| OpenError::sqlite(&index_file, "writing", error))?;
        // A reader may have delayed the checkpoint. Then a power cut may still bring the reservations back.
        if left == 0 {
            base.forget_gone(start.head.number).map_err(failed)?;
        }
        reached(Step::IndexTrimmed);
        Ok(step.gone.len() as u64)
    }
}

#[cfg(test)]
mod tests;
