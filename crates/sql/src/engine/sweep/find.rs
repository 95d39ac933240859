//! Finds overdue reservations, without locks.

use crate::engine::dialect::{Deadline, Session};
use crate::engine::meters;
use crate::engine::plan::ReservationRefs;
use crate::engine::read::read_reservations;
use crate::engine::sessions::{recover, within_deadline};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Instant, ReservationId};

/// An overdue reservation, and its items and units.
pub(crate) type OverdueHold = (ReservationId, ReservationRefs);

/// One page of the overdue reservations.
#[derive(Debug, Default)]
pub(crate) struct OverduePage {
    /// The earliest deadline first.
    pub(crate) due: Vec<OverdueHold>,
    /// Overdue reservations whose rows can't be read.
    pub(crate) damaged: Vec<ReservationId>,
    /// The last deadline of the page, if there may be more after it.
    pub(crate) next: Option<Deadline>,
}

/// Finds the first `most` overdue reservations after a deadline, and leaves out those in `skipped`. Returns the session if it can
/// still be used.
pub(crate) async fn find_overdue<S: Session>(
    mut session: S,
    after: Option<Deadline>,
    most: usize,
    skipped: &BTreeSet<ReservationId>,
    deadline: Duration,
) -> (Option<S>, OverduePage) {
    let (now, mut overdue): (Instant, Vec<Deadline>) =
        match within_deadline(deadline, session.overdue(after, most)).await {
            Ok(found) => found,
            Err(error) => return (recover(session, error, deadline).await.1, OverduePage::default()),
        };
    if after.is_none() {
        let earliest = overdue.first().map(|(due, _)| due.micros());
        meters::lag(earliest.map_or(0, |due| now.micros().saturating_sub(due)));
    }
    let next = overdue.last().copied().filter(|_| overdue.len() == most);
    let mut page = OverduePage { next, ..OverduePage::default() };
    overdue.retain(|(_, id)| !skipped.contains(id));
    if overdue.is_empty() {
        return (Some(session), page);
    }
    let order: Vec<ReservationId> = overdue.iter().map(|(_, id)| *id).collect();
    let (session, rows) = read_reservations(session, order.clone(), deadline).await;
    let Ok(rows) = rows else { return (session, OverduePage::default()) };
    let mut refs: BTreeMap<ReservationId, ReservationRefs> =
        rows.holds.iter().map(|hold| (hold.id, ReservationRefs::by(hold))).collect();
    for id in order {
        match refs.remove(&id) {
            Some(refs) => page.due.push((id, refs)),
            None => page.damaged.push(id),
        }
    }
    (session, page)
}
