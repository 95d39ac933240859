//! The steps of an archive, the same for every kind of store.

use super::compare::{BATCHES_AT_ONCE, LoggedBatch, check_previous, compare};
use super::{
    ArchiveError, ArchiveFile, ArchiveRequest, ArchiveStep, ArchiveSummary, ArchivedStore, EventArchive,
    ReadPosition, Sha256, archived_form,
};
use crate::EventRow;
use std::collections::VecDeque;
use stockhold_domain::{Instant, Record};

/// An archive of a store.
pub struct ArchiveRun<'a, S> {
    request: &'a ArchiveRequest<'a>,
    /// What happened before this may leave.
    bound: Instant,
    /// The consumers, and the last position that each has read.
    consumers: Vec<ReadPosition>,
    store: &'a mut S,
}

type Error<S> = ArchiveError<<S as super::LoggedBatches>::Error>;
type Result<T, S> = core::result::Result<T, Error<S>>;

impl<'a, S: ArchivedStore> ArchiveRun<'a, S> {
    /// An archive by a clock that shows `now`.
    pub fn new(request: &'a ArchiveRequest<'a>, now: Instant, store: &'a mut S) -> Result<Self, S> {
        let bound = request.bound(now);
        let consumers = (request.consumers)(&store.consumer_records()?);
        Ok(Self { request, bound, consumers, store })
    }

    /// Makes the steps. `progress` gets what was done so far.
    pub fn archive(
        mut self,
        archive: &mut dyn EventArchive,
        progress: &mut dyn FnMut(&ArchiveSummary),
        reached: &mut dyn FnMut(ArchiveStep),
    ) -> Result<ArchiveSummary, S> {
        let files = archive.files().map_err(Error::<S>::Archive)?;
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
                let through = self.drop_file(archive, file, &mut done, reached)?;
                progress(&done);
                if through < file.1 {
                    break;
                }
                waiting.pop_front();
                dropped += 1;
            }
            if written >= self.request.files || (self.request.is_cancelled)() {
                break;
            }
            let Some(file) = self.write_file(archive, done.through, previous)? else {
                done.is_complete = true;
                break;
            };
            reached(ArchiveStep::FileNamed);
            written += 1;
            (done.through, previous) = (file.last, Some(file.sha256));
            waiting.push_back((file.first, file.last));
            progress(&done);
        }
        done.held_back =
            self.held_back(if self.request.drop { done.dropped_through } else { done.through })?;
        reached(ArchiveStep::Ended);
        Ok(done)
    }

    /// Checks that the files of the archive go on where the store begins. Returns the hash of the last file.
    fn join(
        &mut self,
        archive: &mut dyn EventArchive,
        files: &[(u64, u64)],
    ) -> Result<(ArchiveSummary, Option<Sha256>), S> {
        let mark = self.store.mark();
        let left = mark.position;
        let through = files.last().map_or(left, |(_, last)| *last);
        let done =
            ArchiveSummary { after: through, through, dropped_through: left, ..ArchiveSummary::default() };
        let newest = mark.file.map_or(left, |file| file.last);
        let Some((first, last)) = files.last().copied() else {
            if left == 0 || self.request.new_directory {
                return Ok((done, mark.sha256()));
            }
            return Err(ArchiveError::Refused(format!(
                "the archive has no files, and the events up to position {left} have left the store: name the directory that has the \
                 file that ends at position {newest}"
            )));
        };
        let begins = files.first().map_or(0, |(first, _)| *first);
        if last < newest && begins <= left || begins > left + 1 {
            return Err(ArchiveError::Refused(format!(
                "the archive has the positions {begins} to {last}, and those up to {left} have left the store: name the directory \
                 that has the file that ends at position {newest} too"
            )));
        }
        if begins <= left {
            let Some(file) = files.iter().find(|(_, last)| *last == newest) else {
                return Err(ArchiveError::Refused(format!(
                    "no file of the archive ends at position {newest}, as the newest one of which events have left the store: it is the \
                     archive of another store"
                )));
            };
            let read = archive.read(*file, &mut |_| Ok(())).map_err(Error::<S>::Archive)?;
            if Some(read.sha256) != mark.sha256() {
                return Err(ArchiveError::Refused(format!(
                    "the file of the archive that ends at position {newest} is not the one that was written when its events left the \
                     store"
                )));
            }
            if last == left {
                return Ok((done, mark.sha256()));
            }
        }
        self.check_batch_end(last)?;
        let file = compare(self.store, archive, (first, last))?;
        if first == left + 1 {
            check_previous::<S::Error>(&file, mark.sha256())?;
        }
        Ok((done, Some(file.sha256)))
    }

    /// The batch that has a position, if the store has it.
    fn batch_of(&mut self, position: u64) -> Result<Option<LoggedBatch>, S> {
        Ok(self.store.batches(position.saturating_sub(1), 1)?.into_iter().next())
    }

    /// Refuses a file that does not end where a batch of the store ends. Returns the time of the batch.
    fn check_batch_end(&mut self, last: u64) -> Result<Instant, S> {
        match self.batch_of(last)? {
            Some(batch) if batch.last() == last => Ok(batch.at),
            _ => Err(ArchiveError::Refused(format!(
                "a file of the archive ends at position {last}, where no batch of the log ends: it is the archive of another store"
            ))),
        }
    }

    /// The last position that may leave because consumers have read it, and the consumer that holds back what follows.
    fn read_by_all(&self) -> Option<&ReadPosition> {
        self.consumers.iter().min_by_key(|(_, position)| *position)
    }

    fn is_read_by_all(&self, position: u64) -> bool {
        self.read_by_all().is_none_or(|(_, read)| position <= *read)
    }

    /// Whether the events up to a position are old enough and were read.
    fn may_leave(&mut self, last: u64) -> Result<bool, S> {
        Ok(self.check_batch_end(last)? < self.bound && self.is_read_by_all(last))
    }

    /// The consumer because of which events after a position stay that are old enough.
    fn held_back(&mut self, through: u64) -> Result<Option<ReadPosition>, S> {
        let Some((name, read)) = self.read_by_all().cloned() else { return Ok(None) };
        let next = self.batch_of(read.max(through).saturating_add(1))?;
        Ok(next.is_some_and(|batch| batch.at < self.bound).then_some((name, read)))
    }

    /// Writes the next file, if events are old enough for it.
    fn write_file(
        &mut self,
        archive: &mut dyn EventArchive,
        through: u64,
        previous: Option<Sha256>,
    ) -> Result<Option<ArchiveFile>, S> {
        let read = self.read_by_all().map_or(u64::MAX, |(_, read)| *read);
        let (mut begun, mut last) = (false, through);
        'file: loop {
            let batches = self.store.batches(last, BATCHES_AT_ONCE)?;
            if batches.is_empty() {
                break;
            }
            for batch in batches {
                let end = batch.last();
                if batch.at >= self.bound || end > read || last - through >= self.request.file_events {
                    break 'file;
                }
                let mut add = || {
                    if !begun {
                        archive.begin(through + 1, previous)?;
                        begun = true;
                    }
                    batch.rows().try_for_each(|(position, event)| {
                        archive.add(&EventRow { position, event: archived_form(event) })
                    })
                };
                add().map_err(Error::<S>::Archive)?;
                last = end;
            }
        }
        if begun { archive.finish().map(Some).map_err(ArchiveError::Archive) } else { Ok(None) }
    }

    /// Lets the events of a file leave. Returns the position up to which they have left.
    fn drop_file(
        &mut self,
        archive: &mut dyn EventArchive,
        file: (u64, u64),
        done: &mut ArchiveSummary,
        reached: &mut dyn FnMut(ArchiveStep),
    ) -> Result<u64, S> {
        let compared = compare(self.store, archive, file)?;
        let mark = self.store.mark();
        if compared.first > mark.position {
            check_previous::<S::Error>(&compared, mark.sha256())?;
        }
        let (request, consumers) = (self.request, &mut self.consumers);
        let mut may_leave = |records: &[Record]| {
            *consumers = (request.consumers)(records);
            consumers.iter().all(|(_, read)| compared.last <= *read)
        };
        let left = self.store.drop_file(&compared, &mut may_leave, reached)?;
        done.reservations += left.reservations;
        done.dropped += left.through - done.dropped_through;
        done.dropped_through = left.through;
        Ok(left.through)
    }
}
