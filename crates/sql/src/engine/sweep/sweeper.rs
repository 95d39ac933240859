//! What the sweeper remembers between its transactions: the position of its pass, the batches of the current page, and the
//! reservations that could not be expired.

use crate::engine::dialect::Deadline;
use crate::engine::meters;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Command, Envelope, GeneratedIds, Instant, Label, Origin, RequestId, ReservationId};
use stockhold_store::ids::IdSource;
use tokio::time::Instant as Moment;

/// The actor in the events of the sweeper.
const ACTOR: &str = "stockhold";
/// How long a reservation is skipped that could not be expired.
const SKIP_FAILED_FOR: Duration = Duration::from_secs(20);
/// How long the next page waits for the batches of a page. A batch takes longer only if it waits for a batch of commands of this
/// instance, which may wait for a lock that somebody keeps.
const PAGE_DEADLINE: Duration = Duration::from_secs(1);

/// See the documentation of the module.
pub(crate) struct Sweeper {
    ids: IdSource,
    actor: Label,
    failed: BTreeMap<ReservationId, Moment>,
    /// Where the next page begins. `None` is the beginning.
    next: Option<Deadline>,
    page: u64,
    /// Batches of the current page that have not ended.
    batches: usize,
    page_deadline: Option<Moment>,
}

impl Sweeper {
    pub(crate) fn new() -> Result<Self, String> {
        Ok(Self {
            ids: IdSource::from_system().map_err(|error| format!("asking for random bytes: {error}"))?,
            actor: Label::new(ACTOR).map_err(|error| format!("naming the sweeper: {error}"))?,
            failed: BTreeMap::new(),
            next: None,
            page: 0,
            batches: 0,
            page_deadline: None,
        })
    }

    /// The command that one sweep decides.
    pub(crate) fn command(&mut self) -> Envelope {
        let fresh: GeneratedIds = self.ids.generate(Instant::from_micros(0), 0);
        Envelope {
            command: Command::Sweep,
            key: None,
            fresh,
            origin: Origin {
                actor: self.actor.clone(),
                key_id: None,
                request_id: RequestId::Made(fresh.event.as_u128()),
                trace: None,
            },
        }
    }

    /// The reservations to skip now, because they could not be expired.
    pub(crate) fn skipped(&mut self, now: Moment) -> BTreeSet<ReservationId> {
        self.failed.retain(|_, until| *until > now);
        self.failed.keys().copied().collect()
    }

    /// Records reservations that could not be expired.
    pub(crate) fn failed(&mut self, holds: &[ReservationId], now: Moment) {
        for id in holds {
            meters::sweep_failed();
            self.failed.insert(*id, now + SKIP_FAILED_FOR);
        }
    }

    /// The deadline after which the next page begins.
    pub(crate) fn next(&self) -> Option<Deadline> {
        self.next
    }

    /// Begins a page. `next` is where the page after it begins.
    pub(crate) fn begin_page(&mut self, next: Option<Deadline>, now: Moment) {
        self.next = next;
        self.page += 1;
        self.batches = 0;
        self.page_deadline = Some(now + PAGE_DEADLINE);
    }

    /// Adds a batch to the current page. Returns the number of the page.
    pub(crate) fn add_batch(&mut self) -> u64 {
        self.batches += 1;
        self.page
    }

    /// A batch of a page has ended.
    pub(crate) fn end_batch(&mut self, page: u64) {
        if page == self.page {
            self.batches = self.batches.saturating_sub(1);
        }
    }

    /// Until when the next page waits for the batches of the current one. `None` if no page has begun.
    pub(crate) fn page_deadline(&self) -> Option<Moment> {
        self.page_deadline
    }

    /// Ends the current page if all of its batches have ended, or at its deadline. Returns whether there is another page, and
    /// `None` if the page goes on.
    pub(crate) fn end_page(&mut self, now: Moment) -> Option<bool> {
        let deadline = self.page_deadline?;
        if self.batches > 0 && deadline > now {
            return None;
        }
        self.page_deadline = None;
        // A late batch of this page must not count for another one.
        self.page += 1;
        Some(self.next.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadline(number: u8) -> Deadline {
        (Instant::from_micros(number.into()), ReservationId::from_u128(number.into()))
    }

    #[test]
    fn the_next_page_begins_when_all_batches_of_the_last_one_have_ended() {
        let (mut sweeper, now) = (Sweeper::new().unwrap(), Moment::now());
        assert_eq!((sweeper.end_page(now), sweeper.next()), (None, None));
        sweeper.begin_page(Some(deadline(7)), now);
        let pages = [sweeper.add_batch(), sweeper.add_batch()];
        sweeper.end_batch(pages[0]);
        assert_eq!(sweeper.end_page(now), None);
        sweeper.end_batch(pages[1]);
        assert_eq!((sweeper.end_page(now), sweeper.next()), (Some(true), Some(deadline(7))));
        assert_eq!((sweeper.end_page(now), sweeper.page_deadline()), (None, None));
        sweeper.begin_page(None, now);
        assert_eq!((sweeper.end_page(now), sweeper.next()), (Some(false), None));
    }

    #[test]
    fn a_batch_that_waits_delays_the_next_page_for_a_while_and_does_not_count_for_it() {
        let (mut sweeper, now) = (Sweeper::new().unwrap(), Moment::now());
        sweeper.begin_page(Some(deadline(7)), now);
        let late = sweeper.add_batch();
        assert_eq!(sweeper.end_page(now), None);
        let later = sweeper.page_deadline().unwrap();
        assert_eq!(sweeper.end_page(later), Some(true));
        sweeper.begin_page(None, later);
        let batch = sweeper.add_batch();
        sweeper.end_batch(late);
        assert_eq!(sweeper.end_page(later), None);
        sweeper.end_batch(batch);
        assert_eq!(sweeper.end_page(later), Some(false));
    }

    #[test]
    fn a_reservation_that_could_not_be_expired_is_skipped_for_a_while() {
        let (mut sweeper, now) = (Sweeper::new().unwrap(), Moment::now());
        let id = ReservationId::from_u128(1);
        sweeper.failed(&[id], now);
        assert_eq!(sweeper.skipped(now), [id].into());
        assert!(sweeper.skipped(now + SKIP_FAILED_FOR).is_empty());
    }
}
