//! Begins a recount with the base: the state after the events that were archived.

use super::{Closed, IndexView, Recount};
use crate::base::sums::ArchivedSums;
use crate::base::{gone_after, open_for_reading};
use crate::error::{IndexError, OpenError};
use crate::files;
use crate::index::closed;
use crate::log::start;
use rusqlite::Connection;
use std::path::Path;
use stockhold_domain::{Hold, Instant, Status};

/// The state that a recount begins with; `None` if no event was archived. What an archive has not deleted from the index yet is removed
/// from the view.
pub(super) fn read(dir: &Path, index: &mut IndexView) -> Result<Option<Recount>, OpenError> {
    let file = dir.join(files::BASE);
    let damaged = |error: IndexError| error.into_open_error(&file);
    let Some(db) = open_for_reading(dir)? else { return Ok(None) };
    let start = start::read(&file)?;
    let mut recount = begin(&db).map_err(damaged)?;
    recount.verdict.events = start.through();
    recount.verdict.archived = start.through();
    recount.verdict.batches = start.head.number;
    for id in gone_after(&db, index.state.archived).map_err(damaged)? {
        index.closed.remove(&id);
    }
    Ok(Some(recount))
}

fn begin(db: &Connection) -> Result<Recount, IndexError> {
    let IndexView { items, pauses, units, active, records, limits, counters, .. } =
        IndexView::read(db, Instant::from_micros(i64::MIN))?;
    let mut recount = Recount { items, paused: pauses, units, records, ..Recount::default() };
    recount.limits.begin(limits, counters);
    for hold in active.values() {
        recount.begin_with(hold);
    }
    recount.active = active;
    closed::load(db, |hold| {
        recount.begin_with(&hold);
        recount.closed.insert(hold.id, Closed::of(&hold));
    })?;
    recount.add_archived(&ArchivedSums::load(db)?);
    Ok(recount)
}

impl Recount {
    /// Counts a reservation that the base has.
    fn begin_with(&mut self, hold: &Hold) {
        self.limits.hold(hold, None);
        self.pools.hold(hold);
        if let Some(due) = hold.payment_due_at() {
            self.due_payments.insert(hold.id, due);
        }
        if hold.status != Status::Confirmed {
            return;
        }
        for line in &*hold.lines {
            *self.sold.entry(line.item.clone()).or_default() +=
                i128::from(line.quantity) - i128::from(line.returned);
            *self.fulfilled.entry(line.item.clone()).or_default() += i128::from(line.fulfilled);
        }
    }

    /// Adds what archived reservations had sold.
    pub(super) fn add_archived(&mut self, sums: &ArchivedSums) {
        for (key, of_item) in &sums.items {
            *self.sold.entry(key.clone()).or_default() += i128::from(of_item.sold);
            *self.fulfilled.entry(key.clone()).or_default() += i128::from(of_item.fulfilled);
            for (pool, units) in &of_item.pools {
                self.pools.add_archived(key, pool, *units);
            }
        }
        for (key, units) in &sums.counters {
            self.limits.add_archived(key, *units);
        }
    }
}
