//! How far sinks are behind.

use crate::feed::{BATCH, Feed, FeedRead};
use crate::filter::EventFilter;
use stockhold_api::EventType;
use stockhold_domain::Instant;
use stockhold_store::Failure;

/// How far a sink is behind the feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lag {
    /// Events that it has not got.
    pub(crate) events: u64,
    /// The age of the oldest of them, in milliseconds.
    pub(crate) millis: u64,
}

/// How far a sink at this position is behind. Beyond one batch, events are not read, and all of them count.
pub(crate) async fn lag(
    feed: &Feed,
    position: u64,
    filter: Option<&EventFilter>,
    now: Instant,
) -> Result<Lag, Failure> {
    let rows = match feed.after(position, BATCH).await? {
        FeedRead::Events(rows) => rows,
        FeedRead::Archived(through) => match feed.after(through, BATCH).await? {
            FeedRead::Events(rows) => rows,
            FeedRead::Archived(_) => Vec::new(),
        },
    };
    let is_wanted = |event| match filter {
        Some(filter) => filter.has(event),
        None => EventType::of(event).is_some(),
    };
    let wanted: Vec<_> = rows.iter().filter(|row| is_wanted(&row.event)).collect();
    let Some(oldest) = wanted.first() else { return Ok(Lag::default()) };
    let behind_batch = rows.last().map_or(0, |last| feed.0.newest().saturating_sub(last.position));
    Ok(Lag {
        events: wanted.len() as u64 + behind_batch,
        millis: u64::try_from(now.millis() - oldest.event.at.millis()).unwrap_or_default(),
    })
}
