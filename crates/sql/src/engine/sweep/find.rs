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

/// The overdue reservations that one scan found.
#[derive(Debug, Default)]
pub(crate) struct OverdueScan {
    /// The earliest deadline first.
    pub(crate) due: Vec<OverdueHold>,
    /// Whether there may be more.
    pub(crate) more: bool,
    /// Overdue reservations whose rows can't be read.
    pub(crate) damaged: Vec<ReservationId>,
}

/// Finds at most `most` overdue reservations that are not in `skipped`. Returns the session if it can still be used.
pub(crate) async fn find_overdue<S: Session>(
    mut session: S,
    most: usize,
    skipped: &BTreeSet<ReservationId>,
    deadline: Duration,
) -> (Option<S>, OverdueScan) {
    let limit = most + skipped.len();
    let (now, mut overdue): (Instant, Vec<Deadline>) =
        match within_deadline(deadline, session.overdue(limit)).await {
            Ok(found) => found,
            Err(error) => return (recover(session, error, deadline).await.1, OverdueScan::default()),
        };
    let earliest = overdue.first().map(|(due, _)| due.micros());
    meters::lag(earliest.map_or(0, |due| now.micros().saturating_sub(due)));
    let more = overdue.len() == limit;
    overdue.retain(|(_, id)| !skipped.contains(id));
    if overdue.is_empty() {
        return (Some(session), OverdueScan::default());
    }
    let order: Vec<ReservationId> = overdue.iter().map(|(_, id)| *id).collect();
    let (session, rows) = read_reservations(session, order.clone(), deadline).await;
    let Ok(rows) = rows else { return (session, OverdueScan::default()) };
    let mut refs: BTreeMap<ReservationId, ReservationRefs> =
        rows.holds.iter().map(|hold| (hold.id, ReservationRefs::by(hold))).collect();
    let mut scan = OverdueScan { more, ..OverdueScan::default() };
    for id in order {
        match refs.remove(&id) {
            Some(refs) => scan.due.push((id, refs)),
            None => scan.damaged.push(id),
        }
    }
    (session, scan)
}
