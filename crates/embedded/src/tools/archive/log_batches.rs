//! The events of a log, as an archive reads them.

use super::ArchiveError;
use crate::error::OpenError;
use crate::log::Log;
use crate::log::start::LogStart;
use stockhold_store::{ArchiveMark, LoggedBatch, LoggedBatches, MarkedFile};

impl LoggedBatches for &Log {
    type Error = OpenError;

    fn mark(&self) -> ArchiveMark {
        mark_of(self.start())
    }

    fn batches(&mut self, after: u64, limit: usize) -> Result<Vec<LoggedBatch>, ArchiveError> {
        let first = self.batch_of_position(after.saturating_add(1))?;
        let before = self.head(first.saturating_sub(1).max(self.start().head.number))?;
        let mut batches = Vec::new();
        self.for_each_batch(before.number, before.sum, |batch, _| {
            // A batch may have nothing but keys.
            if batch.next_position() > after.saturating_add(1) && !batch.events.is_empty() {
                batches.push(LoggedBatch { first: batch.position, at: batch.at, events: batch.events });
            }
            Ok(batches.len() < limit)
        })?;
        Ok(batches)
    }
}

/// The start of a log as an archive knows it. A step is a whole file.
pub(crate) fn mark_of(start: &LogStart) -> ArchiveMark {
    let file = start.sha256.map(|sha256| MarkedFile { last: start.through(), sha256 });
    ArchiveMark { position: start.through(), file }
}
