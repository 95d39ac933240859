//! The next step of the base: the batches that leave the log, folded on top of it.

use super::sums::ArchivedSums;
use super::{KeptReservation, find_kept};
use crate::error::{IndexError, OpenError};
use crate::index::backlog::EventFold;
use crate::index::chunk::Chunk;
use crate::index::{closed, find_item, limits};
use crate::log::batch::Batch;
use crate::log::start::LogStart;
use foldhash::fast::RandomState;
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::Path;
use stockhold_domain::{
    EventId, HoldChange, Item, ItemKey, LimitSet, ReservationId, Scope, StockChange, Transition,
};

/// What the base gets when some batches leave the log.
#[derive(Default)]
pub(crate) struct BaseStep {
    pub(crate) chunk: Chunk,
    /// Where the log starts afterwards.
    pub(crate) start: LogStart,
    /// Reservations that were created or confirmed in these batches and stay.
    pub(crate) kept: Vec<KeptReservation>,
    /// Reservations that leave.
    pub(crate) gone: Vec<ReservationId>,
    /// What they had sold.
    pub(crate) sums: ArchivedSums,
}

/// Batches that leave the log, folded one after the other.
pub(crate) struct BaseFold<'a> {
    base: &'a Connection,
    fold: EventFold,
    items: HashMap<ItemKey, Option<Item>, RandomState>,
    /// The positions of the creation and of the confirm of each reservation, 0 if it was in an earlier batch.
    places: HashMap<ReservationId, (u64, u64), RandomState>,
}

impl<'a> BaseFold<'a> {
    pub(crate) fn new(base: &'a Connection) -> Self {
        Self { base, fold: EventFold::default(), items: HashMap::default(), places: HashMap::default() }
    }

    /// Adds the next batch.
    pub(crate) fn add_batch(&mut self, batch: Batch) -> Result<(), IndexError> {
        for (position, event) in (batch.position..).zip(batch.events) {
            self.apply_to_items(&event.transition)?;
            if let Transition::Hold { change, hold, .. } = &event.transition {
                let place = self.places.entry(hold.id).or_default();
                if change.status_before().is_none() {
                    place.0 = position;
                }
                if *change == HoldChange::Confirmed {
                    place.1 = position;
                }
            }
            self.fold.add(event.transition);
        }
        Ok(())
    }

    fn item(&mut self, key: &ItemKey) -> Result<&mut Option<Item>, IndexError> {
        if !self.items.contains_key(key) {
            self.items.insert(key.clone(), find_item(self.base, key)?);
        }
        Ok(self.items.entry(key.clone()).or_default())
    }

    fn apply_to_items(&mut self, transition: &Transition) -> Result<(), IndexError> {
        match transition {
            Transition::Hold { hold, figures, limits, .. } => {
                for (line, figures) in hold.lines.iter().zip(figures) {
                    if let Some(item) = self.item(&line.item)? {
                        item.figures = *figures;
                    }
                }
                for moved in limits.iter().flat_map(|effects| &*effects.pools) {
                    let line = usize::try_from(moved.line).ok().and_then(|line| hold.lines.get(line));
                    if let Some(line) = line
                        && let Some(item) = self.item(&line.item)?
                    {
                        item.pools = moved.pools.clone();
                    }
                }
            }
            Transition::Stock { change: StockChange::Deleted, item } => *self.item(&item.key)? = None,
            Transition::Stock { item, .. } => *self.item(&item.key)? = Some(item.clone()),
            Transition::Sale { scope: Scope::Item(key), paused, .. } => {
                if let Some(item) = self.item(key)? {
                    item.paused = *paused;
                }
            }
            Transition::Sale { .. } | Transition::Limit { .. } | Transition::Record { .. } => {}
        }
        Ok(())
    }

    /// No other batch leaves with the step.
    pub(crate) fn close(mut self) -> ClosedFold<'a> {
        let mut chunk = Chunk::default();
        let items = std::mem::take(&mut self.items);
        self.fold.drain_into(&mut chunk, |key| items.get(key).cloned().flatten());
        ClosedFold { base: self.base, chunk, places: self.places }
    }
}

/// All batches of a step, folded.
pub(crate) struct ClosedFold<'a> {
    base: &'a Connection,
    chunk: Chunk,
    places: HashMap<ReservationId, (u64, u64), RandomState>,
}

impl ClosedFold<'_> {
    /// The closed reservations that leave if they have not changed since, each with its last event.
    pub(crate) fn closed(&self) -> impl Iterator<Item = (ReservationId, EventId)> {
        let settled = self.chunk.closed.iter().filter(|hold| !hold.has_unsettled_payment());
        settled.map(|hold| (hold.id, hold.last_event))
    }

    /// The step. A closed reservation leaves if the event that `newest_event` has is its last one: the index knows it, and is
    /// complete. One whose payment is not settled stays.
    pub(crate) fn finish(
        self,
        start: LogStart,
        newest_event: impl Fn(ReservationId) -> Result<Option<EventId>, IndexError>,
    ) -> Result<BaseStep, IndexError> {
        let mut step = BaseStep { start, chunk: self.chunk, ..BaseStep::default() };
        let mut limits = LimitSet::default();
        limits::load_limits(self.base, |limit| limits.put(limit))?;
        for limit in &step.chunk.limits.limits {
            limits.put(limit.clone());
        }
        let mut stays = Vec::new();
        for hold in std::mem::take(&mut step.chunk.closed) {
            if newest_event(hold.id)? == Some(hold.last_event) && !hold.has_unsettled_payment() {
                step.sums.add(&hold, &limits);
                step.gone.push(hold.id);
            } else {
                stays.push(hold);
            }
        }
        step.chunk.archived.clone_from(&step.gone);
        let of_active = step.chunk.opened.iter().chain(&step.chunk.moved).map(|hold| hold.id);
        let ids: Vec<ReservationId> = of_active.chain(stays.iter().map(|hold| hold.id)).collect();
        step.chunk.closed = stays;
        for id in ids {
            let (created, confirmed) = self.places.get(&id).copied().unwrap_or_default();
            let before = find_kept(self.base, id)?;
            let kept = KeptReservation {
                id,
                created: before.map_or(created, |before| before.created),
                confirmed: before.map_or(confirmed, |before| before.confirmed.max(confirmed)),
            };
            if before != Some(kept) {
                step.kept.push(kept);
            }
        }
        Ok(step)
    }
}

/// The last event of a closed reservation as a complete index has it. An active one has none.
pub(crate) fn newest_event_in(
    index: &Connection,
) -> impl Fn(ReservationId) -> Result<Option<EventId>, IndexError> {
    |id| Ok(closed::find(index, id)?.0.map(|hold| hold.last_event))
}

/// The error of a base, for operators.
pub(crate) fn damaged(file: &Path) -> impl Fn(IndexError) -> OpenError {
    |error| error.into_open_error(file)
}
