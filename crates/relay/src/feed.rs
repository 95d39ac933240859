//! Reads the feed of a store.

use std::sync::Arc;
use std::time::Duration;
use stockhold_store::{EventRow, Failure, Query, QueryResult, Store};

/// How often the store is asked whether there are new events.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Events that are read at a time.
pub(crate) const BATCH: usize = 2_048;

/// The feed of a store.
#[derive(Clone)]
pub(crate) struct Feed(pub(crate) Arc<dyn Store>);

/// What the feed has after a position.
pub(crate) enum FeedRead {
    /// These events, oldest first; none if there are no newer ones.
    Events(Vec<EventRow>),
    /// The events up to this position are in an archive.
    Archived(u64),
}

impl Feed {
    /// The events after a position.
    pub(crate) async fn after(&self, position: u64, limit: usize) -> Result<FeedRead, Failure> {
        match stockhold_store::query(&*self.0, Query::Events { after: position, limit }).await? {
            QueryResult::Events(rows) => Ok(FeedRead::Events(rows)),
            QueryResult::Archived { through } => Ok(FeedRead::Archived(through)),
            _ => Err(Failure::Internal("the store answered another question".to_owned())),
        }
    }

    /// The position of the newest event.
    pub(crate) async fn newest(&self) -> Result<u64, Failure> {
        // A store that has just started learns it from a query.
        self.after(self.0.newest(), 0).await?;
        Ok(self.0.newest())
    }

    /// Waits until there is an event after this position, or until the time is over.
    pub(crate) async fn wait_after(&self, position: u64, longest: Duration) {
        let begun = tokio::time::Instant::now();
        while self.0.newest() <= position && begun.elapsed() < longest {
            tokio::time::sleep(POLL_INTERVAL.min(longest)).await;
        }
    }
}
