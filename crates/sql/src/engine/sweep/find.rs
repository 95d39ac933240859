//! Finds overdue reservations and pools that are to be released, without locks.

use crate::engine::db_error::DbError;
use crate::engine::dialect::{Deadline, Release, Session};
use crate::engine::meters;
use crate::engine::plan::ReservationRefs;
use crate::engine::read::read_reservations;
use crate::engine::sessions::{recover, within_deadline};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Instant, ReservationId};

/// What is overdue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OverdueName {
    /// A reservation whose deadline has passed.
    Hold(ReservationId),
    /// An item of which a pool is to be released, and when.
    Release(Release),
}

/// Something overdue, and its items and units.
pub(crate) type Overdue = (OverdueName, ReservationRefs);

/// How far a pass has come in one of its two queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum QueuePosition<T> {
    /// At the beginning.
    #[default]
    Start,
    /// Behind this one.
    After(T),
    /// Everything overdue was found.
    End,
}

impl<T> QueuePosition<T> {
    /// Behind the last one that was found, if there may be more after it.
    fn behind(last: Option<&T>, is_full: bool) -> Self
    where
        T: Clone,
    {
        last.filter(|_| is_full).map_or(Self::End, |last| Self::After(last.clone()))
    }
}

/// Where a page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PagePosition {
    pub(crate) holds: QueuePosition<Deadline>,
    pub(crate) releases: QueuePosition<Release>,
}

impl PagePosition {
    /// Behind the last page.
    pub(crate) const END: Self = Self { holds: QueuePosition::End, releases: QueuePosition::End };
}

/// One page of what is overdue.
#[derive(Debug)]
pub(crate) struct OverduePage {
    /// Reservations before releases, the earliest deadline first.
    pub(crate) due: Vec<Overdue>,
    /// Overdue reservations whose rows can't be read.
    pub(crate) damaged: Vec<ReservationId>,
    /// Where the next page begins.
    pub(crate) next: PagePosition,
}

impl Default for OverduePage {
    /// A page without anything, which is the last.
    fn default() -> Self {
        Self { due: Vec::new(), damaged: Vec::new(), next: PagePosition::END }
    }
}

/// Finds the first `most` overdue reservations and the first `most` items with pools to release after a position, and leaves out those
/// in `skipped`. Returns the session if it can still be used.
pub(crate) async fn find_overdue<S: Session>(
    mut session: S,
    after: PagePosition,
    most: usize,
    skipped: &BTreeSet<OverdueName>,
    deadline: Duration,
) -> (Option<S>, OverduePage) {
    let found = within_deadline(deadline, async {
        let (overdue, next_hold) = overdue(&mut session, after.holds, most).await?;
        let (releases, next_release) = releases(&mut session, after.releases, most).await?;
        Ok((overdue, releases, PagePosition { holds: next_hold, releases: next_release }))
    });
    let (mut overdue, mut releases, next) = match found.await {
        Ok(found) => found,
        Err(error) => return (recover(session, error, deadline).await.1, OverduePage::default()),
    };
    let mut page = OverduePage { next, ..OverduePage::default() };
    overdue.retain(|(_, id)| !skipped.contains(&OverdueName::Hold(*id)));
    releases.retain(|release| !skipped.contains(&OverdueName::Release(release.clone())));
    let mut kept = Some(session);
    if !overdue.is_empty()
        && let Some(session) = kept.take()
    {
        let order: Vec<ReservationId> = overdue.into_iter().map(|(_, id)| id).collect();
        let (session, rows) = read_reservations(session, order.clone(), deadline).await;
        let Ok(rows) = rows else { return (session, OverduePage::default()) };
        kept = session;
        let mut refs: BTreeMap<ReservationId, ReservationRefs> =
            rows.holds.iter().map(|hold| (hold.id, ReservationRefs::by(hold))).collect();
        for id in order {
            match refs.remove(&id) {
                Some(refs) => page.due.push((OverdueName::Hold(id), refs)),
                None => page.damaged.push(id),
            }
        }
    }
    let of_release = |release: Release| {
        let refs = ReservationRefs { items: [release.1.clone()].into(), ..ReservationRefs::default() };
        (OverdueName::Release(release), refs)
    };
    page.due.extend(releases.into_iter().map(of_release));
    (kept, page)
}

/// Overdue reservations behind a position, and the position behind them.
async fn overdue<S: Session>(
    session: &mut S,
    position: QueuePosition<Deadline>,
    most: usize,
) -> Result<(Vec<Deadline>, QueuePosition<Deadline>), DbError> {
    let after = match position {
        QueuePosition::Start => None,
        QueuePosition::After(after) => Some(after),
        QueuePosition::End => return Ok((Vec::new(), QueuePosition::End)),
    };
    let (now, overdue): (Instant, Vec<Deadline>) = session.overdue(after, most).await?;
    if after.is_none() {
        let earliest = overdue.first().map(|(due, _)| due.micros());
        meters::lag(earliest.map_or(0, |due| now.micros().saturating_sub(due)));
    }
    let next = QueuePosition::behind(overdue.last(), overdue.len() == most);
    Ok((overdue, next))
}

/// Items with pools to release behind a position, and the position behind them.
async fn releases<S: Session>(
    session: &mut S,
    position: QueuePosition<Release>,
    most: usize,
) -> Result<(Vec<Release>, QueuePosition<Release>), DbError> {
    let after = match position {
        QueuePosition::Start => None,
        QueuePosition::After(after) => Some(after),
        QueuePosition::End => return Ok((Vec::new(), QueuePosition::End)),
    };
    let (now, mut releases) = session.releases(after.as_ref(), most).await?;
    releases.retain(|(due, _)| *due <= now);
    let next = QueuePosition::behind(releases.last(), releases.len() == most);
    Ok((releases, next))
}
