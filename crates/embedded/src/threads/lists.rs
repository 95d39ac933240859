//! Lists, histories and events: what is read from the log, by what the index says of where to look.
//!
//! The log has every event with what it made of its reservation, so nothing is stored twice for them.

use crate::error::Damage;
use crate::error::OpenError;
use crate::index::postings::{self, Term, Terms};
use crate::index::{Index, find_closed};
use crate::log::Log;
use crate::log::batch::Batch;
use crate::threads::shared::Shared;
use rusqlite::Connection;
use std::ops::RangeInclusive;
use std::path::Path;
use std::slice;
use stockhold_domain::{Event, Hold, HoldChange, ItemKey, Label, ReservationId, Transition};
use stockhold_store::{
    Cursor, EventRow, Query, QueryResult, ReservationFilter, ReservationPage, UnitHistory,
};

/// Reservations that are looked at for one page at most: a page that would need more is given as far as it came, with where
/// to go on. Each may take two reads at random places of the index: half a millisecond where those come from the disk.
const LOOKED_AT: usize = 2_000;
/// Bytes of rows, and batches, that are read in one go: more bytes when a single batch has them. Read they take several times that.
const BYTES_TOGETHER: u64 = 8 << 20;
const BATCHES_TOGETHER: u64 = 64;

/// See the module. One for each thread that reads.
pub(crate) struct Lists {
    log: Log,
    index: Connection,
}

impl Lists {
    pub(crate) fn open(log: &Path, index: &Path) -> Result<Self, OpenError> {
        Ok(Self { log: Log::open_reader(log)?, index: Index::open_reader(index)? })
    }

    /// Answers what memory can't. What it found of reservations may not be durable yet.
    pub(crate) fn find(&self, shared: &Shared, query: &Query) -> Result<QueryResult, Damage> {
        match query {
            Query::Reservations(filter) => Ok(QueryResult::Reservations(self.page(shared, filter)?)),
            Query::History(id) => Ok(QueryResult::History(self.history(shared, *id)?)),
            Query::UnitHistory { item, unit } => {
                Ok(QueryResult::UnitHistory(self.unit_history(shared, item, unit)?))
            }
            Query::Events { after, limit } => Ok(QueryResult::Events(self.events(*after, *limit)?)),
            Query::Reservation(_)
            | Query::Items(_)
            | Query::ItemPage(_)
            | Query::Pauses
            | Query::Units(_)
            | Query::Unit { .. }
            | Query::SeatMap { .. } => {
                Err(Damage::What(format!("{query:?} should have been answered from memory")))
            }
        }
    }

    fn events(&self, after: u64, limit: usize) -> Result<Vec<EventRow>, Damage> {
        let mut found = Vec::new();
        let first = self.log.batch_at(after.saturating_add(1))?;
        let before = self.log.head(first.saturating_sub(1))?;
        self.log.walk(before.number, before.sum, |batch, _| {
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

    /// The batches that may mention a term, in ascending ranges that do not overlap.
    fn mentioned(
        &self,
        shared: &Shared,
        term: impl FnOnce(Terms) -> Term,
    ) -> Result<Vec<RangeInclusive<u64>>, Damage> {
        // First what no run has: what is written as one meanwhile is then found twice and not never.
        let (term, mut ranges, reached) = {
            let fresh = shared.fresh();
            let term = term(fresh.terms);
            (term, fresh.of(term), fresh.reached)
        };
        postings::find(&self.index, term, &mut ranges)?;
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
        Ok(ranges.into_iter().map(|(first, last)| first..=last).collect())
    }

    fn last(&self) -> Result<u64, Damage> {
        Ok(self.log.last()?.map_or(0, |(number, _)| number))
    }

    fn page(&self, shared: &Shared, filter: &ReservationFilter) -> Result<ReservationPage, Damage> {
        let ranges = match filter {
            ReservationFilter { owner_id: Some(owner), .. } => {
                self.mentioned(shared, |terms| terms.owner(owner.as_str()))?
            }
            ReservationFilter { sku: Some(sku), .. } => {
                self.mentioned(shared, |terms| terms.sku(sku.as_str()))?
            }
            ReservationFilter { location: Some(location), .. } => {
                self.mentioned(shared, |terms| terms.location(location.as_str()))?
            }
            _ => vec![1..=self.last()?],
        };
        let of_any_status = ReservationFilter { status: None, ..filter.clone() };
        let (mut page, mut ended, mut looked_at) = (ReservationPage::default(), 0, 0);
        let before = filter.after.map_or(u64::MAX, |Cursor(place)| u64::try_from(place).unwrap_or(u64::MAX));
        // Where the page begins, since nothing behind that is of use.
        let newest = if before == u64::MAX { u64::MAX } else { self.log.batch_at(before)? };
        let mut pieces = Pieces::of(&ranges, newest);
        while let Some(batches) = pieces.next(&self.log)? {
            for (position, event) in batches.into_iter().rev().flat_map(numbered_newest_first) {
                let Some(made) = made(&event).filter(|_| position < before) else { continue };
                looked_at += 1;
                if of_any_status.matches(made) {
                    let hold = self.hold(shared, made.id)?.ok_or_else(|| lost(made.id))?;
                    if filter.matches(&hold) {
                        if page.holds.len() >= filter.limit {
                            page.next = Some(Cursor(ended.into()));
                            return Ok(page);
                        }
                        page.holds.push(hold);
                        ended = position;
                    }
                }
                if looked_at >= LOOKED_AT {
                    page.next = Some(Cursor(position.into()));
                    return Ok(page);
                }
            }
        }
        Ok(page)
    }

    fn hold(&self, shared: &Shared, id: ReservationId) -> Result<Option<Hold>, Damage> {
        // The index takes a reservation in before memory lets go of it.
        let known = shared.core().memory.known_hold(id).cloned();
        match known {
            Some(hold) => Ok(Some(hold)),
            None => Ok(find_closed(&self.index, id)?.0),
        }
    }

    fn history(&self, shared: &Shared, id: ReservationId) -> Result<Option<Vec<EventRow>>, Damage> {
        let Some(hold) = self.hold(shared, id)? else { return Ok(None) };
        let mut rows = Vec::new();
        let about = |batch: Batch, rows: &mut Vec<EventRow>| {
            let events = (batch.position..).zip(batch.events);
            let events = events.filter(|(_, event)| target(event).is_some_and(|hold| hold.id == id));
            rows.extend(events.map(|(position, event)| EventRow { position, event }));
        };
        // Several batches may have been decided at the same instant.
        let before = self.log.head(self.log.batch_of(hold.terms.created_at)?.saturating_sub(1))?;
        self.log.walk(before.number, before.sum, |batch, _| {
            about(batch, &mut rows);
            Ok(rows.is_empty())
        })?;
        let Some(made) = rows.first().map(|row| row.position) else { return Ok(None) };
        let made_in = self.log.batch_at(made)?;
        for range in self.mentioned(shared, |terms| terms.reservation(id))? {
            let (mut first, last) = ((*range.start()).max(made_in), *range.end());
            while first <= last {
                let to = self.log.reach(first, last.min(first + BATCHES_TOGETHER - 1), BYTES_TOGETHER)?;
                for batch in self.log.range(first, to)? {
                    about(batch, &mut rows);
                }
                first = to + 1;
            }
        }
        rows.sort_unstable_by_key(|row| row.position);
        rows.dedup_by_key(|row| row.position);
        let mut previous = None;
        for row in &rows {
            if row.event.previous != previous {
                return Err(lost(id));
            }
            previous = Some(row.event.id);
        }
        Ok(Some(rows))
    }

    /// Whether there is such a unit, its events say as well: memory may know of what is not durable yet.
    fn unit_history(
        &self,
        shared: &Shared,
        item: &ItemKey,
        unit: &Label,
    ) -> Result<Option<Vec<EventRow>>, Damage> {
        let ranges = self.mentioned(shared, |terms| terms.unit(item, unit))?;
        let mut history = UnitHistory::new(item, unit);
        let mut pieces = Pieces::of(&ranges, u64::MAX);
        while !history.is_complete()
            && let Some(batches) = pieces.next(&self.log)?
        {
            for (position, event) in batches.into_iter().rev().flat_map(numbered_newest_first) {
                history.add_older(EventRow { position, event });
            }
        }
        let (is_complete, is_gapless) = (history.is_complete(), history.is_gapless());
        let rows = history.into_rows();
        if !is_gapless || !is_complete && !rows.is_empty() {
            return Err(Damage::What(format!(
                "unit {unit:?} is in the log, and an event of it is not found"
            )));
        }
        Ok(Some(rows).filter(|rows| !rows.is_empty()))
    }
}

fn lost(id: ReservationId) -> Damage {
    Damage::What(format!("reservation {id} is in the log, and an event of it is not found"))
}

/// The reservation that an event is about.
fn target(event: &Event) -> Option<&Hold> {
    match &event.transition {
        Transition::Hold { hold, .. } => Some(hold),
        Transition::Stock { .. } | Transition::Sale { .. } => None,
    }
}

/// The reservation that an event made.
fn made(event: &Event) -> Option<&Hold> {
    match &event.transition {
        Transition::Hold { change: HoldChange::Created, hold, .. } => Some(hold),
        _ => None,
    }
}

/// A batch's events with their positions, the newest first.
fn numbered_newest_first(batch: Batch) -> impl Iterator<Item = (u64, Event)> {
    let next = batch.next_position();
    batch.events.into_iter().rev().zip(1..).map(move |(event, back)| (next - back, event))
}

/// Batches of ranges in pieces, the newest first.
struct Pieces<'a> {
    ranges: std::iter::Rev<slice::Iter<'a, RangeInclusive<u64>>>,
    /// No batch beyond this one.
    newest: u64,
    /// What is left of the range that was begun.
    left: Option<(u64, u64)>,
}

impl<'a> Pieces<'a> {
    fn of(ranges: &'a [RangeInclusive<u64>], newest: u64) -> Self {
        Self { ranges: ranges.iter().rev(), newest, left: None }
    }

    fn next(&mut self, log: &Log) -> Result<Option<Vec<Batch>>, Damage> {
        while self.left.is_none() {
            let Some(range) = self.ranges.next() else { return Ok(None) };
            let (first, last) = (*range.start(), (*range.end()).min(self.newest));
            self.left = (first <= last).then_some((first, last));
        }
        let Some((first, last)) = self.left.take() else { return Ok(None) };
        let few = first.max(last.saturating_sub(BATCHES_TOGETHER - 1));
        let from = log.reach(last, few, BYTES_TOGETHER)?;
        self.left = (from > first).then(|| (first, from - 1));
        Ok(Some(log.range(from, last)?))
    }
}
