//! Compares a file of an archive with the log.

use super::ArchiveError;
use crate::error::OpenError;
use crate::log::Log;
use stockhold_store::{ArchiveFile, EventArchive, EventRow, Sha256, archived_form};

/// The batches that are read together.
const READ_BATCHES: u64 = 64;

/// Compares a file with the log, event by event.
pub(crate) fn compare(
    log: &Log,
    archive: &mut dyn EventArchive,
    (first, last): (u64, u64),
) -> Result<ArchiveFile, ArchiveError> {
    let differs = |position| format!("position {position} of the archive is not that of the log");
    let mut logged = LogRows::from(log, first)?;
    archive
        .read((first, last), &mut |row| match logged.next()? {
            Some(EventRow { position, event })
                if position == row.position && archived_form(&event) == row.event =>
            {
                Ok(())
            }
            _ => Err(differs(row.position)),
        })
        .map_err(ArchiveError::Archive)
}

/// Refuses a file that does not follow the file with this hash.
pub(crate) fn check_previous(file: &ArchiveFile, previous: Option<Sha256>) -> Result<(), ArchiveError> {
    if file.previous == previous {
        return Ok(());
    }
    Err(ArchiveError::Refused(format!(
        "the file of the archive that begins at position {} does not name the file before it",
        file.first
    )))
}

/// The events of a log from a position on, read in parts.
struct LogRows<'a> {
    log: &'a Log,
    next_batch: u64,
    last: u64,
    rows: std::vec::IntoIter<EventRow>,
}

impl<'a> LogRows<'a> {
    fn from(log: &'a Log, position: u64) -> Result<Self, OpenError> {
        let next_batch = log.batch_of_position(position)?;
        let last = log.last()?.map_or(0, |(number, _)| number);
        let mut rows = Self { log, next_batch, last, rows: Vec::new().into_iter() };
        rows.read()?;
        rows.rows = rows.rows.filter(|row| row.position >= position).collect::<Vec<_>>().into_iter();
        Ok(rows)
    }

    fn read(&mut self) -> Result<(), OpenError> {
        let to = self.last.min(self.next_batch + READ_BATCHES - 1);
        let batches = self.log.read_range(self.next_batch, to)?;
        self.next_batch = to + 1;
        let rows = batches.into_iter().flat_map(|batch| {
            (batch.position..).zip(batch.events).map(|(position, event)| EventRow { position, event })
        });
        self.rows = rows.collect::<Vec<_>>().into_iter();
        Ok(())
    }

    fn next(&mut self) -> Result<Option<EventRow>, String> {
        loop {
            if let Some(row) = self.rows.next() {
                return Ok(Some(row));
            }
            if self.next_batch > self.last {
                return Ok(None);
            }
            self.read().map_err(|error| error.to_string())?;
        }
    }
}
