//! What the sweeper remembers between its transactions: the position of its pass, the batches of the current page, and what could
//! not be expired or released.

use super::find::{OverdueName, PagePosition};
use crate::engine::meters;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{Access, Command, Envelope, GeneratedIds, Instant, Label, Origin, RequestId};
use stockhold_store::ids::IdSource;
use tokio::time::Instant as Moment;

/// The actor in the events of the sweeper.
const ACTOR: &str = "stockhold";
/// How long a reservation or an item is skipped that could not be expired or released.
const SKIP_FAILED_FOR: Duration = Duration::from_secs(20);
/// How long the next page waits for the batches of a page. A batch takes longer only if it waits for a batch of commands of this
/// instance, which may wait for a lock that somebody keeps.
const PAGE_DEADLINE: Duration = Duration::from_secs(1);

/// See the documentation of the module.
pub(crate) struct Sweeper {
    ids: IdSource,
    actor: Label,
    failed: BTreeMap<OverdueName, Moment>,
    /// Where the next page begins.
    next: PagePosition,
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
            next: PagePosition::default(),
            page: 0,
            batches: 0,
            page_deadline: None,
        })
    }

    /// The command that one sweep decides.
    pub(crate) fn command(&mut self) -> Envelope {
        let fresh: GeneratedIds = self.ids.generate(Instant::from_micros(0), 0);
        Envelope {
            access: Access::Unrestricted,
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

    /// What to skip now, because it could not be expired or released.
    pub(crate) fn skipped(&mut self, now: Moment) -> BTreeSet<OverdueName> {
        self.failed.retain(|_, until| *until > now);
        self.failed.keys().cloned().collect()
    }

    /// Records what could not be expired or released.
    pub(crate) fn failed(&mut self, names: impl IntoIterator<Item = OverdueName>, now: Moment) {
        for name in names {
            meters::sweep_failed();
            self.failed.insert(name, now + SKIP_FAILED_FOR);
        }
    }

    /// Where the next page begins.
    pub(crate) fn next(&self) -> PagePosition {
        self.next.clone()
    }

    /// Begins a page. `next` is where the page after it begins.
    pub(crate) fn begin_page(&mut self, next: PagePosition, now: Moment) {
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
        let more = self.next != PagePosition::END;
        if !more {
            self.next = PagePosition::default();
        }
        Some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::super::find::QueuePosition;
    use super::*;
    use stockhold_domain::ReservationId;

    fn position(number: u8) -> PagePosition {
        let deadline = (Instant::from_micros(number.into()), ReservationId::from_u128(number.into()));
        PagePosition { holds: QueuePosition::After(deadline), releases: QueuePosition::End }
    }

    #[test]
    fn the_next_page_begins_when_all_batches_of_the_last_one_have_ended() {
        let (mut sweeper, now) = (Sweeper::new().unwrap(), Moment::now());
        assert_eq!((sweeper.end_page(now), sweeper.next()), (None, PagePosition::default()));
        sweeper.begin_page(position(7), now);
        let pages = [sweeper.add_batch(), sweeper.add_batch()];
        sweeper.end_batch(pages[0]);
        assert_eq!(sweeper.end_page(now), None);
        sweeper.end_batch(pages[1]);
        assert_eq!((sweeper.end_page(now), sweeper.next()), (Some(true), position(7)));
        assert_eq!((sweeper.end_page(now), sweeper.page_deadline()), (None, None));
        sweeper.begin_page(PagePosition::END, now);
        assert_eq!((sweeper.end_page(now), sweeper.next()), (Some(false), PagePosition::default()));
    }

    #[test]
    fn a_batch_that_waits_delays_the_next_page_for_a_while_and_does_not_count_for_it() {
        let (mut sweeper, now) = (Sweeper::new().unwrap(), Moment::now());
        sweeper.begin_page(position(7), now);
        let late = sweeper.add_batch();
        assert_eq!(sweeper.end_page(now), None);
        let later = sweeper.page_deadline().unwrap();
        assert_eq!(sweeper.end_page(later), Some(true));
        sweeper.begin_page(PagePosition::END, later);
        let batch = sweeper.add_batch();
        sweeper.end_batch(late);
        assert_eq!(sweeper.end_page(later), None);
        sweeper.end_batch(batch);
        assert_eq!(sweeper.end_page(later), Some(false));
    }

    #[test]
    fn a_reservation_that_could_not_be_expired_is_skipped_for_a_while() {
        let (mut sweeper, now) = (Sweeper::new().unwrap(), Moment::now());
        let name = OverdueName::Hold(ReservationId::from_u128(1));
        sweeper.failed([name.clone()], now);
        assert_eq!(sweeper.skipped(now), [name].into());
        assert!(sweeper.skipped(now + SKIP_FAILED_FOR).is_empty());
    }
}
