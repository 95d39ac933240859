//! Lists, histories and events. They are read from the log, and the index tells which batches to read.
//!
//! The log has every event with the state of its reservation afterwards, so nothing is stored twice for lists.

use crate::base;
use crate::customers::CustomerFile;
use crate::error::IndexError;
use crate::error::OpenError;
use crate::files;
use crate::index::postings::{self, Term, TermHasher, creation_instant, is_derived, later_terms};
use crate::index::{Index, closed};
use crate::log::batch::Batch;
use crate::log::{self, Log};
use crate::threads::shared::Shared;
use rusqlite::Connection;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use stockhold_domain::{Event, Hold, HoldChange, Instant, ItemKey, Label, ReservationId, Transition};
use stockhold_store::{
    Cursor, EventRow, Query, QueryResult, RESERVATIONS_EXAMINED, ReservationFilter, ReservationPage,
    UnitHistory,
};

/// The maximum bytes and batches that are read together. A single batch may have more bytes. In memory they take
/// several times as much.
const READ_BYTES: u64 = 8 << 20;
const READ_BATCHES: u64 = 64;

/// Reads lists, histories and events. One for each thread that reads.
pub(crate) struct ListReader {
    dir: PathBuf,
    log: Log,
    index: Connection,
    /// The base, if events were archived.
    base: Option<Connection>,
    pub(crate) customers: Arc<CustomerFile>,
}

impl ListReader {
    pub(crate) fn open(dir: &Path, customers: Arc<CustomerFile>) -> Result<Self, OpenError> {
        let log = Log::open_reader(&dir.join(files::LOG))?;
        let index = Index::open_reader(&dir.join(files::INDEX))?;
        Ok(Self { dir: dir.to_owned(), log, index, base: None, customers })
    }

    /// Answers a query that memory can't answer. The reservations of the answer may not be durable yet.
    pub(crate) fn find(&mut self, shared: &Shared, query: &Query) -> Result<QueryResult, IndexError> {
        // While this is kept, nothing is deleted that the query may read.
        let start = shared.log_starts.current();
        self.log.set_start(*start);
        if start.head.number == 0 || matches!(query, Query::Events { .. }) {
            return self.find_after_start(shared, query);
        }
        // An archive may advance the base meanwhile. The query sees one state of it, and the log from there on.
        if self.base.is_none() {
            self.base = base::open_for_reading(&self.dir)?;
        }
        let Some(base) = &self.base else { return self.find_after_start(shared, query) };
        let _snapshot = base.unchecked_transaction()?;
        match log::start::read_from(base)? {
            Ok(start) => self.log.set_start(start),
            Err(what) => return Err(IndexError::Damaged(format!("the start of the log: {what}"))),
        }
        self.find_after_start(shared, query)
    }

    fn find_after_start(&self, shared: &Shared, query: &Query) -> Result<QueryResult, IndexError> {
        match query {
            Query::Reservations(filter) => Ok(QueryResult::Reservations(self.page(shared, filter)?)),
            Query::History(id) => Ok(QueryResult::History(self.history(shared, *id)?)),
            Query::UnitHistory { item, unit } => {
                Ok(QueryResult::UnitHistory(self.unit_history(shared, item, unit)?))
            }
            Query::Events { after, limit } => {
                let through = shared.log_starts.closed_through();
                if *after < through {
                    return Ok(QueryResult::Archived { through });
                }
                Ok(QueryResult::Events(self.events(*after, *limit)?))
            }
            Query::Reservation(_)
            | Query::Items(_)
            | Query::ItemPage(_)
            | Query::Pauses
            | Query::DuePayments { .. }
            | Query::Units(_)
            | Query::Unit { .. }
            | Query::SeatMap { .. }
            | Query::Record(_)
            | Query::Records { .. }
            | Query::Limit(_)
            | Query::Limits { .. }
            | Query::LimitUsage(_)
            | Query::Customer(_) => {
                Err(IndexError::Damaged(format!("{query:?} should have been answered elsewhere")))
            }
        }
    }

    fn events(&self, after: u64, limit: usize) -> Result<Vec<EventRow>, IndexError> {
        let mut found = Vec::new();
        let first = self.log.batch_of_position(after.saturating_add(1))?;
        let before = self.log.head(first.saturating_sub(1).max(self.first_batch() - 1))?;
        self.log.for_each_batch(before.number, before.sum, |batch, _| {
            let rows = (batch.position..).zip(batch.events);
            found.extend(
                rows.filter(|(position, _)| *position > after)
                    .take(limit - found.len())
                    .map(|(position, event)| EventRow { position, event }),
            );
            Ok(found.len() < limit)
        })?;
        Ok(found)
    }

    /// The batches that may mention a term, as ascending ranges that do not overlap.
    fn batches_with(
        &self,
        shared: &Shared,
        term: impl FnOnce(TermHasher) -> Term,
    ) -> Result<Vec<RangeInclusive<u64>>, IndexError> {
        self.batches_with_any(shared, |terms| [term(terms)])
    }

    /// The batches that may mention one of these terms.
    fn batches_with_any<const COUNT: usize>(
        &self,
        shared: &Shared,
        terms: impl FnOnce(TermHasher) -> [Term; COUNT],
    ) -> Result<Vec<RangeInclusive<u64>>, IndexError> {
        // The postings in memory are read before the runs. A posting that is written as a run in between is then found
        // twice and never missed.
        let (terms, mut ranges, reached) = {
            let fresh = shared.unflushed_postings();
            let terms = terms(fresh.terms);
            let ranges: Vec<_> = terms.iter().flat_map(|term| fresh.of(*term)).collect();
            (terms, ranges, fresh.reached)
        };
        for term in terms {
            postings::find(&self.index, term, &mut ranges)?;
        }
        let last = self.last()?;
        if reached < last {
            ranges.push((reached + 1, last));
        }
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let joined = next.0 <= before.1.saturating_add(1);
            if joined {
                before.1 = before.1.max(next.1);
            }
            joined
        });
        let begin = self.first_batch();
        let kept = ranges.into_iter().map(|(first, last)| first.max(begin)..=last);
        Ok(kept.filter(|range| !range.is_empty()).collect())
    }

    /// The first batch that was not archived.
    fn first_batch(&self) -> u64 {
        self.log.start().head.number + 1
    }

    fn last(&self) -> Result<u64, IndexError> {
        Ok(self.log.last()?.map_or(0, |(number, _)| number))
    }

    fn page(&self, shared: &Shared, filter: &ReservationFilter) -> Result<ReservationPage, IndexError> {
        let ranges = self.listed_batches(shared, filter)?;
        let later = self.later_creations(shared, filter)?;
        let of_any_status = ReservationFilter { status: None, ..filter.clone() };
        let (mut page, mut ended, mut looked_at) = (ReservationPage::default(), 0, 0);
        let before = filter.after.map_or(u64::MAX, |Cursor(place)| u64::try_from(place).unwrap_or(u64::MAX));
        // The batch in which the page begins. Newer batches are not needed.
        let newest = if before == u64::MAX { u64::MAX } else { self.log.batch_of_position(before)? };
        let mut reader = RangeReader::of(&ranges, newest);
        reader.creations.clone_from(&later);
        while let Some(batches) = reader.next(&self.log)? {
            for (position, event) in batches.into_iter().rev().flat_map(numbered_newest_first) {
                let listed = listed_hold(&event, filter).filter(|_| position < before);
                let Some(listed) = listed else { continue };
                looked_at += 1;
                let may_match = (of_any_status.matches(listed)
                    || later.binary_search(&creation_instant(listed)).is_ok())
                    && may_be_created_by(&event, listed, filter);
                if may_match
                    && let Some(hold) = self.listed(shared, listed.id)?
                    && filter.matches(&hold)
                {
                    if page.holds.len() >= filter.limit {
                        page.next = Some(Cursor(ended.into()));
                        return Ok(ReservationPage { examined: looked_at, ..page });
                    }
                    page.holds.push(hold);
                    ended = position;
                }
                if looked_at >= RESERVATIONS_EXAMINED {
                    page.next = Some(Cursor(position.into()));
                    return Ok(ReservationPage { examined: looked_at, ..page });
                }
            }
        }
        page.examined = looked_at;
        self.add_kept(shared, filter, before, looked_at, &mut page)?;
        Ok(page)
    }

    /// Adds the reservations to a page whose place in the list was archived, and who have not left.
    fn add_kept(
        &self,
        shared: &Shared,
        filter: &ReservationFilter,
        before: u64,
        looked_at: usize,
        page: &mut ReservationPage,
    ) -> Result<(), IndexError> {
        let Some(base) = &self.base else { return Ok(()) };
        let left = RESERVATIONS_EXAMINED.saturating_sub(looked_at).max(1);
        let (kept, of_order) = match filter.order_id {
            Some(_) => (base::confirmed_before(base, before)?, true),
            None => (base::kept_before(base, before, left)?, false),
        };
        let is_cut = !of_order && kept.len() >= left;
        page.examined += kept.len();
        let mut ended = page.holds.last().map_or(0, |_| self.log.start().through() + 1);
        let mut last = 0;
        for kept in kept {
            last = if of_order { kept.confirmed } else { kept.created };
            if let Some(hold) = self.listed(shared, kept.id)?
                && filter.matches(&hold)
            {
                if page.holds.len() >= filter.limit {
                    page.next = Some(Cursor(ended.into()));
                    return Ok(());
                }
                page.holds.push(hold);
                ended = last;
            }
        }
        if is_cut {
            page.next = Some(Cursor(last.into()));
        }
        Ok(())
    }

    /// The instants at which reservations were created that got the owner, customer, SKU or location of a filter later, in ascending
    /// order.
    fn later_creations(&self, shared: &Shared, filter: &ReservationFilter) -> Result<Vec<u64>, IndexError> {
        if filter.order_id.is_some() {
            return Ok(Vec::new());
        }
        let (terms, reached) = {
            let fresh = shared.unflushed_postings();
            (fresh.terms, fresh.reached)
        };
        let wanted: Vec<Term> = [
            filter.owner_id.as_ref().map(|owner| terms.owner(owner.as_str())),
            filter.customer_id.as_ref().map(|customer| terms.customer(customer.as_str())),
            filter.sku.as_ref().map(|sku| terms.sku(sku.as_str())),
            filter.location.as_ref().map(|location| terms.location(location.as_str())),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut ranges = Vec::new();
        for term in &wanted {
            let later = terms.later(*term);
            ranges.extend(shared.unflushed_postings().of(later));
            postings::find(&self.index, later, &mut ranges)?;
        }
        // A range of instants is short: postings are joined only when they follow each other closely.
        let mut found: Vec<u64> = ranges.into_iter().flat_map(|(first, last)| first..=last).collect();
        let (mut first, last) = (reached + 1, self.last()?);
        while first <= last && !wanted.is_empty() {
            let to = self.log.last_batch_within(first, last.min(first + READ_BATCHES - 1), READ_BYTES)?;
            for event in self.log.read_range(first, to)?.iter().flat_map(|batch| &batch.events) {
                let Transition::Hold { change, hold, .. } = &event.transition else { continue };
                if later_terms(terms, change, hold).iter().any(|term| wanted.contains(term)) {
                    found.push(creation_instant(hold));
                }
            }
            first = to + 1;
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// The batches with the events that a list goes by (see [`listed_hold`]), as ascending ranges that do not overlap.
    fn listed_batches(
        &self,
        shared: &Shared,
        filter: &ReservationFilter,
    ) -> Result<Vec<RangeInclusive<u64>>, IndexError> {
        if let Some(order) = &filter.order_id {
            return self.batches_with(shared, |terms| terms.order(order.as_str()));
        }
        let ranges = match filter {
            ReservationFilter { owner_id: Some(owner), .. } => {
                self.batches_with(shared, |terms| terms.owner(owner.as_str()))?
            }
            ReservationFilter { customer_id: Some(customer), .. } => {
                self.batches_with(shared, |terms| terms.customer(customer.as_str()))?
            }
            ReservationFilter { created_by: Some(actor), .. } => {
                self.batches_with_any(shared, |terms| [terms.creator(actor.as_str()), terms.derived()])?
            }
            ReservationFilter { sku: Some(sku), .. } => {
                self.batches_with(shared, |terms| terms.sku(sku.as_str()))?
            }
            ReservationFilter { location: Some(location), .. } => {
                self.batches_with(shared, |terms| terms.location(location.as_str()))?
            }
            _ => vec![self.first_batch()..=self.last()?],
        };
        // A batch has the time of its newest decision, and no decision is earlier than the batch before. So what was
        // created within the bounds is not in a batch before the first one with the lower bound, and not in a batch
        // after the first one with the upper bound.
        let oldest = filter.created_after.map_or(Ok(1), |at| self.log.first_batch_since(at))?;
        let newest = filter.created_before.map_or(Ok(u64::MAX), |at| self.log.first_batch_since(at))?;
        let within = ranges.into_iter().map(|range| *range.start().max(&oldest)..=*range.end().min(&newest));
        Ok(within.filter(|range| !range.is_empty()).collect())
    }

    /// A reservation that the log or the base has; `None` if it leaves.
    fn listed(&self, shared: &Shared, id: ReservationId) -> Result<Option<Hold>, IndexError> {
        let hold = self.hold(shared, id)?.ok_or_else(|| missing_event(id))?;
        Ok(Some(hold).filter(|hold| !shared.core().memory.has_left(hold)))
    }

    /// A reservation, even if it leaves: the index lets go of it after all queries that may list it.
    fn hold(&self, shared: &Shared, id: ReservationId) -> Result<Option<Hold>, IndexError> {
        // Memory drops a closed reservation only after the index has it, so it is found in one of them.
        let known = shared.core().memory.find_hold(id).cloned();
        match known {
            Some(hold) => Ok(Some(hold)),
            None => Ok(closed::find(&self.index, id)?.0),
        }
    }

    fn history(&self, shared: &Shared, id: ReservationId) -> Result<Option<Vec<EventRow>>, IndexError> {
        let Some(hold) = self.hold(shared, id)?.filter(|hold| !shared.core().memory.has_left(hold)) else {
            return Ok(None);
        };
        let mut rows = Vec::new();
        let about = |batch: Batch, rows: &mut Vec<EventRow>| {
            let events = (batch.position..).zip(batch.events);
            let events = events.filter(|(_, event)| event_hold(event).is_some_and(|hold| hold.id == id));
            rows.extend(events.map(|(position, event)| EventRow { position, event }));
        };
        let kept = self.base.as_ref().map(|base| base::find_kept(base, id)).transpose()?.flatten();
        let made_in = if kept.is_some() {
            // Its first events were archived.
            self.first_batch()
        } else {
            // Several batches may have been decided at the same time.
            let before =
                self.log.head(self.log.first_batch_since(hold.terms.created_at)?.saturating_sub(1))?;
            self.log.for_each_batch(before.number, before.sum, |batch, _| {
                about(batch, &mut rows);
                Ok(rows.is_empty())
            })?;
            let Some(made) = rows.first().map(|row| row.position) else { return Ok(None) };
            self.log.batch_of_position(made)?
        };
        for range in self.batches_with(shared, |terms| terms.reservation(id))? {
            let (mut first, last) = ((*range.start()).max(made_in), *range.end());
            while first <= last {
                let to = self.log.last_batch_within(first, last.min(first + READ_BATCHES - 1), READ_BYTES)?;
                for batch in self.log.read_range(first, to)? {
                    about(batch, &mut rows);
                }
                first = to + 1;
            }
        }
        rows.sort_unstable_by_key(|row| row.position);
        rows.dedup_by_key(|row| row.position);
        let mut previous = rows.first().filter(|_| kept.is_some()).and_then(|row| row.event.previous);
        for row in &rows {
            if row.event.previous != previous {
                return Err(missing_event(id));
            }
            previous = Some(row.event.id);
        }
        Ok(Some(rows))
    }

    /// The history of a unit. Whether the unit exists is read from its events, because memory may have a unit that is
    /// not durable yet.
    fn unit_history(
        &self,
        shared: &Shared,
        item: &ItemKey,
        unit: &Label,
    ) -> Result<Option<Vec<EventRow>>, IndexError> {
        let ranges = self.batches_with(shared, |terms| terms.unit(item, unit))?;
        let mut history = UnitHistory::new(item, unit);
        let mut reader = RangeReader::of(&ranges, u64::MAX);
        while !history.is_complete()
            && let Some(batches) = reader.next(&self.log)?
        {
            for (position, event) in batches.into_iter().rev().flat_map(numbered_newest_first) {
                history.add_older(EventRow { position, event });
            }
        }
        let (is_complete, is_gapless) = (history.is_complete(), history.is_gapless());
        let rows = history.into_rows();
        if let Some(base) = &self.base
            && is_gapless
            && !is_complete
            && base::has_unit(base, item, unit)?
        {
            return Ok(Some(rows));
        }
        if !is_gapless || !is_complete && !rows.is_empty() {
            return Err(IndexError::Damaged(format!(
                "unit {unit:?} is in the log, and an event of it is not found"
            )));
        }
        Ok(Some(rows).filter(|rows| !rows.is_empty()))
    }
}

fn missing_event(id: ReservationId) -> IndexError {
    IndexError::Damaged(format!("reservation {id} is in the log, and an event of it is not found"))
}

/// The reservation of an event.
fn event_hold(event: &Event) -> Option<&Hold> {
    match &event.transition {
        Transition::Hold { hold, .. } => Some(hold),
        Transition::Stock { .. }
        | Transition::Sale { .. }
        | Transition::Limit { .. }
        | Transition::Record { .. } => None,
    }
}

/// The reservation that a list has at the place of an event: at its creation, or at its confirm if the list is of
/// an order.
fn listed_hold<'e>(event: &'e Event, filter: &ReservationFilter) -> Option<&'e Hold> {
    let Transition::Hold { change, hold, .. } = &event.transition else { return None };
    let is_place = match filter.order_id {
        Some(_) => *change == HoldChange::Confirmed,
        None => change.status_before().is_none(),
    };
    is_place.then_some(hold)
}

/// Whether the actor of a filter may have created a reservation. Who created one that was made of another is not known here.
fn may_be_created_by(event: &Event, hold: &Hold, filter: &ReservationFilter) -> bool {
    filter.order_id.is_some()
        || is_derived(hold)
        || filter.created_by.as_ref().is_none_or(|actor| *actor == event.origin.actor)
}

/// The events of a batch with their positions, the newest first.
fn numbered_newest_first(batch: Batch) -> impl Iterator<Item = (u64, Event)> {
    let next = batch.next_position();
    batch.events.into_iter().rev().zip(1..).map(move |(event, back)| (next - back, event))
}

/// Reads the batches of ranges in parts, the newest first.
struct RangeReader<'a> {
    ranges: std::iter::Rev<slice::Iter<'a, RangeInclusive<u64>>>,
    /// Instants in ascending order, in microseconds. The batches that were decided then are read too.
    creations: Vec<u64>,
    /// The newest batch to read.
    newest: u64,
    /// The part of the current range that is not read yet.
    left: Option<(u64, u64)>,
}

impl<'a> RangeReader<'a> {
    fn of(ranges: &'a [RangeInclusive<u64>], newest: u64) -> Self {
        Self { ranges: ranges.iter().rev(), creations: Vec::new(), newest, left: None }
    }

    fn next(&mut self, log: &Log) -> Result<Option<Vec<Batch>>, IndexError> {
        while self.left.is_none() {
            let Some(range) = self.ranges.next() else { break };
            let (first, last) = (*range.start(), (*range.end()).min(self.newest));
            self.left = (first <= last).then_some((first, last));
        }
        if let Some((first, last)) = self.newest_creation(log)?
            && self.left.is_none_or(|(_, of_range)| last > of_range)
        {
            // The batches above the next range, and then that range.
            let above = self.left.map_or(0, |(_, of_range)| of_range + 1);
            let from = first.max(above).max(last.saturating_sub(READ_BATCHES - 1));
            let from = log.last_batch_within(last, from, READ_BYTES)?;
            self.newest = from.saturating_sub(1);
            return Ok(Some(log.read_range(from, last)?));
        }
        let Some((first, last)) = self.left.take() else { return Ok(None) };
        let few = first.max(last.saturating_sub(READ_BATCHES - 1));
        let from = log.last_batch_within(last, few, READ_BYTES)?;
        self.left = (from > first).then(|| (first, from - 1));
        self.newest = from.saturating_sub(1);
        Ok(Some(log.read_range(from, last)?))
    }

    /// The batches of the newest instant that are not newer than [`Self::newest`].
    fn newest_creation(&mut self, log: &Log) -> Result<Option<(u64, u64)>, IndexError> {
        while let Some(at) = self.creations.last() {
            let at = i64::try_from(*at).unwrap_or(i64::MAX);
            // No decision is earlier than the batch before. So what was decided then is in a batch of this instant, or in the
            // first one of a later instant.
            let first = log.first_batch_since(Instant::from_micros(at))?;
            if first <= self.newest {
                let last = log.first_batch_since(Instant::from_micros(at.saturating_add(1)))?;
                return Ok(Some((first, last.min(self.newest))));
            }
            self.creations.pop();
        }
        Ok(None)
    }
}
