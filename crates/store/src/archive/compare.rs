//! Compares a file of an archive with the events of a store.

use super::{ArchiveError, ArchiveFile, ArchiveMark, EventArchive, Sha256, archived_form};
use crate::EventRow;
use core::fmt;
use stockhold_domain::{Event, Instant};

/// The batches that are read together.
pub(super) const BATCHES_AT_ONCE: usize = 64;

/// The events of one commit, at least one.
#[derive(Debug)]
pub struct LoggedBatch {
    /// The position of its first event.
    pub first: u64,
    /// The time of its newest decision.
    pub at: Instant,
    /// Its events.
    pub events: Vec<Event>,
}

impl LoggedBatch {
    /// The position of its last event.
    pub fn last(&self) -> u64 {
        (self.first + self.events.len() as u64).saturating_sub(1)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (u64, &Event)> {
        (self.first..).zip(&self.events)
    }
}

/// The events that a store still has, in the order of their positions.
pub trait LoggedBatches {
    /// Why the store can't be used.
    type Error: fmt::Display;

    /// Where the events begin.
    fn mark(&self) -> ArchiveMark;

    /// The batches that have an event after a position, which has left or is in the store, in order. At most `limit` of them, and none only
    /// if there is none.
    fn batches(&mut self, after: u64, limit: usize) -> Result<Vec<LoggedBatch>, ArchiveError<Self::Error>>;
}

/// Compares a file with the store, event by event. Events that have left are only read.
pub(super) fn compare<L: LoggedBatches>(
    log: &mut L,
    archive: &mut dyn EventArchive,
    (first, last): (u64, u64),
) -> Result<ArchiveFile, ArchiveError<L::Error>> {
    let left = log.mark().position;
    let differs = |position| format!("position {position} of the archive is not that of the log");
    let mut rows = LoggedRows { log, after: left.max(first - 1), rows: Vec::new().into_iter(), failed: None };
    let read = archive.read((first, last), &mut |row| {
        if row.position <= left {
            return Ok(());
        }
        match rows.next() {
            Some(EventRow { position, event })
                if position == row.position && archived_form(&event) == row.event =>
            {
                Ok(())
            }
            _ => Err(differs(row.position)),
        }
    });
    match rows.failed.take() {
        Some(error) => Err(error),
        None => read.map_err(ArchiveError::Archive),
    }
}

/// Refuses a file that does not follow the file with this hash.
pub(super) fn check_previous<E>(file: &ArchiveFile, previous: Option<Sha256>) -> Result<(), ArchiveError<E>> {
    if file.previous == previous {
        return Ok(());
    }
    Err(ArchiveError::Refused(format!(
        "the file of the archive that begins at position {} does not name the file before it",
        file.first
    )))
}

/// The events after a position, read in parts.
struct LoggedRows<'a, L: LoggedBatches> {
    log: &'a mut L,
    after: u64,
    rows: std::vec::IntoIter<EventRow>,
    failed: Option<ArchiveError<L::Error>>,
}

impl<L: LoggedBatches> LoggedRows<'_, L> {
    fn next(&mut self) -> Option<EventRow> {
        if let Some(row) = self.rows.next() {
            self.after = row.position;
            return Some(row);
        }
        match self.log.batches(self.after, BATCHES_AT_ONCE) {
            Ok(batches) => {
                let rows = batches.into_iter().flat_map(|batch| {
                    (batch.first..).zip(batch.events).map(|(position, event)| EventRow { position, event })
                });
                let rows: Vec<_> = rows.filter(|row| row.position > self.after).collect();
                self.rows = rows.into_iter();
            }
            Err(error) => self.failed = Some(error),
        }
        let row = self.rows.next()?;
        self.after = row.position;
        Some(row)
    }
}
