//! Pages of events: after a position, or the newest ones. Like other pages they are made of several small reads. A page
//! of some types is made of a bounded number of them, so it may be short or empty although more events follow.

use super::admission::Examined;
use super::admission::bounds::COUNTED_REPLY_BYTES;
use super::lists::PAGE_BYTES;
use super::reply;
use super::request_error::RequestError;
use super::worker::{HandlerResult, RequestContext, Worker};
use stockhold_api::EventTypes;
use stockhold_api::decode::{EventPageQuery, EventsFrom};
use stockhold_api::encode::{self, List};
use stockhold_api::problem::Problem;
use stockhold_store::{EventRow, Query, QueryResult};

/// Events that are read at a time.
pub(super) const EVENTS_AT_ONCE: usize = 64;

impl Worker {
    pub(super) async fn events(&self, context: RequestContext<'_>, page: EventPageQuery) -> HandlerResult {
        self.take_page_tokens(context, page.limit).await?;
        match page.from {
            EventsFrom::After(after) => self.events_page(context, after, page.limit, page.types).await,
            EventsFrom::Tail => self.newest_events(context, page.limit, page.types).await,
        }
    }

    async fn events_page(
        &self,
        context: RequestContext<'_>,
        after: u64,
        limit: usize,
        types: EventTypes,
    ) -> HandlerResult {
        let principal = &context.caller.principal;
        self.is_history(after).await?;
        let mut position = after;
        let mut left = limit;
        let examined = Examined::default();
        let mut out = Vec::new();
        let mut budget = None;
        let mut list = List::open(&mut out, "data");
        let mut has_more = true;
        while has_more && left > 0 && out.len() < PAGE_BYTES && examined.has_room(EVENTS_AT_ONCE) {
            // Where the first read did not fill the page, events are left out, and small reads would not get far.
            let reads_all = types == EventTypes::ALL && position == after;
            let ask = if reads_all { left.min(EVENTS_AT_ONCE) } else { EVENTS_AT_ONCE };
            let mut rows = self.events_after(position, ask).await?;
            examined.add(rows.len());
            for row in rows.iter_mut().take(ask) {
                position = row.position;
                if !types.has(&row.event) || !self.reveal_event(principal, row, &examined).await? {
                    if examined.has_room(0) {
                        continue;
                    }
                    break;
                }
                encode::event(list.entry(&mut out), row);
                left -= 1;
                if left == 0 || out.len() >= PAGE_BYTES || !examined.has_room(0) {
                    break;
                }
            }
            // A page that is long enough may end before the last event that was read.
            let cut = rows.last().is_some_and(|last| last.position > position);
            has_more = cut || rows.len() >= ask;
            drop(budget.take());
            budget = self.count_page(context, &out)?;
        }
        // The store knows without a read whether more events follow a full page.
        let has_more = has_more && self.store.newest() > position;
        list.close_page(&mut out, has_more, Some(&position.to_string()));
        Ok(reply::written(out, budget))
    }

    /// The newest events, at most `limit`. They are read backwards until there are enough of them. A reader that
    /// continues after the page misses nothing.
    async fn newest_events(
        &self,
        context: RequestContext<'_>,
        limit: usize,
        types: EventTypes,
    ) -> HandlerResult {
        let principal = &context.caller.principal;
        let newest = self.newest_position().await?;
        // Each event as it is written, the newest first.
        let mut events: Vec<Vec<u8>> = Vec::new();
        let (mut bytes, mut before, mut begins) = (0, newest, false);
        let mut budget = None;
        let examined = Examined::default();
        while before > 0
            && !begins
            && events.len() < limit
            && bytes < PAGE_BYTES
            && examined.has_room(EVENTS_AT_ONCE)
        {
            let after = before.saturating_sub(EVENTS_AT_ONCE as u64);
            let (mut rows, is_first) = self.events_between(after, before).await?;
            examined.add(rows.len());
            for row in rows.iter_mut().rev() {
                if !types.has(&row.event) || !self.reveal_event(principal, row, &examined).await? {
                    continue;
                }
                let mut event = Vec::new();
                encode::event(&mut event, row);
                bytes += event.len();
                events.push(event);
                if events.len() >= limit || bytes >= PAGE_BYTES {
                    break;
                }
            }
            (before, begins) = (after, is_first);
            if bytes >= COUNTED_REPLY_BYTES {
                // For the events and for the page that they are copied to.
                drop(budget.take());
                budget = Some(self.reserve_memory(context, 2 * bytes)?);
            }
        }
        let mut out = Vec::with_capacity(bytes + events.len());
        let mut list = List::open(&mut out, "data");
        for event in events.iter().rev() {
            list.entry(&mut out).extend_from_slice(event);
        }
        drop(budget.take());
        let budget = self.count_page(context, &out)?;
        list.close_page(&mut out, false, Some(&newest.to_string()));
        Ok(reply::written(out, budget))
    }

    /// The events after a position, up to another one, and whether none of the events before them is left: they were
    /// archived.
    async fn events_between(&self, after: u64, last: u64) -> Result<(Vec<EventRow>, bool), RequestError> {
        let (mut after, mut is_first) = (after, false);
        loop {
            let limit = usize::try_from(last.saturating_sub(after)).unwrap_or(EVENTS_AT_ONCE);
            match self.find(Query::Events { after, limit }).await? {
                QueryResult::Events(rows) => return Ok((rows, is_first)),
                QueryResult::Archived { through } if through >= last => return Ok((Vec::new(), true)),
                QueryResult::Archived { through } => (after, is_first) = (through.max(after + 1), true),
                _ => return Err(RequestError::wrong_answer()),
            }
        }
    }

    /// The position of the newest event. A store that has just started learns it from a query.
    pub(super) async fn newest_position(&self) -> Result<u64, RequestError> {
        self.find(Query::Events { after: self.store.newest(), limit: 0 }).await?;
        Ok(self.store.newest())
    }

    /// Refuses a position that no event has yet. A consumer that continued from there would miss every event up to it.
    pub(super) async fn is_history(&self, after: u64) -> Result<(), RequestError> {
        if after <= self.store.newest() {
            return Ok(());
        }
        // `newest` may be slightly out of date, so a caller may have read a newer event.
        match self.find(Query::Events { after: after - 1, limit: 1 }).await? {
            QueryResult::Events(rows) if rows.is_empty() => {
                Err(Problem::beyond_newest(after, self.store.newest()).into())
            }
            QueryResult::Events(_) | QueryResult::Archived { .. } => Ok(()),
            _ => Err(RequestError::wrong_answer()),
        }
    }

    /// The events after a position, at most `limit`.
    pub(super) async fn events_after(&self, after: u64, limit: usize) -> Result<Vec<EventRow>, RequestError> {
        match self.find(Query::Events { after, limit }).await? {
            QueryResult::Events(rows) => Ok(rows),
            QueryResult::Archived { through } => Err(Problem::archived(after, through).into()),
            _ => Err(RequestError::wrong_answer()),
        }
    }
}
