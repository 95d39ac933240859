//! The events of a database, as an archive reads them.

use super::{ArchiveError, AuditError, AuditSession, BatchRow};
use crate::engine::events_from;
use stockhold_store::{ArchiveMark, LoggedBatch, LoggedBatches};
use tokio::runtime::Runtime;

/// A database whose events are read by a caller that is not within a runtime.
pub(super) struct DatabaseLog<'a, S> {
    pub(super) runtime: &'a Runtime,
    pub(super) session: &'a mut S,
    /// Where the events begin.
    pub(super) mark: ArchiveMark,
}

impl<S: AuditSession> LoggedBatches for DatabaseLog<'_, S> {
    type Error = AuditError;

    fn mark(&self) -> ArchiveMark {
        self.mark
    }

    fn batches(&mut self, after: u64, limit: usize) -> Result<Vec<LoggedBatch>, ArchiveError> {
        let mut batches: Vec<LoggedBatch> = Vec::new();
        let mut end = after;
        for BatchRow { count, last_position, body, .. } in
            self.runtime.block_on(self.session.numbered(after, limit))?
        {
            let rows = events_from(&body, last_position.unwrap_or(0), count)?;
            let first = rows.first().map_or(0, |row| row.position);
            // A file may end within the first batch, if it is not of this database.
            let follows = first == end + 1 || batches.is_empty() && first <= end;
            let Some(at) = rows.iter().map(|row| row.event.at).max().filter(|_| follows) else {
                return Err(ArchiveError::Refused(wrong_books("positions have a gap")));
            };
            let events = rows.into_iter().map(|row| row.event).collect();
            let batch = LoggedBatch { first, at, events };
            end = batch.last();
            batches.push(batch);
        }
        Ok(batches)
    }
}

/// Why nothing leaves a database whose events do not add up.
pub(super) fn wrong_books(what: &str) -> String {
    format!(
        "the books do not add up, and nothing leaves them before they do (see `stockhold verify`): {what}"
    )
}
