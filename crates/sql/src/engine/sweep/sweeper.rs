//! What the sweeper remembers between rounds: which reservations and items to skip, and until when.

use super::find::OverdueHold;
use crate::engine::meters;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    Command, Envelope, GeneratedIds, Instant, ItemKey, Label, Origin, RequestId, ReservationId,
};
use stockhold_store::ids::IdSource;
use tokio::time::Instant as Moment;

/// The actor in the events of the sweeper.
const ACTOR: &str = "stockhold";
/// How long a reservation is skipped that could not be expired.
const SKIP_FAILED_FOR: Duration = Duration::from_secs(20);
/// How long an item or a reservation is skipped that another transaction has locked.
const SKIP_LOCKED_FOR: Duration = Duration::from_secs(1);

/// One round: a scan and the batches that came of it.
#[derive(Debug, Default)]
pub(crate) struct SweepRound {
    /// Batches that have not ended.
    pub(crate) batches: usize,
    /// Reservations that were expired.
    pub(crate) expired: usize,
    /// Whether the scan left reservations for the next round.
    pub(crate) more: bool,
    /// Reservations that were skipped, because others have locked something of them.
    pub(crate) skipped: usize,
}

/// See the documentation of the module.
pub(crate) struct Sweeper {
    ids: IdSource,
    actor: Label,
    skipped_holds: BTreeMap<ReservationId, Moment>,
    skipped_items: BTreeMap<ItemKey, Moment>,
}

impl Sweeper {
    pub(crate) fn new() -> Result<Self, String> {
        Ok(Self {
            ids: IdSource::from_system().map_err(|error| format!("asking for random bytes: {error}"))?,
            actor: Label::new(ACTOR).map_err(|error| format!("naming the sweeper: {error}"))?,
            skipped_holds: BTreeMap::new(),
            skipped_items: BTreeMap::new(),
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
                request_id: RequestId::Made(fresh.event.as_u128()),
                trace: None,
            },
        }
    }

    /// The reservations to skip now.
    pub(crate) fn skipped(&mut self, now: Moment) -> BTreeSet<ReservationId> {
        self.skipped_holds.retain(|_, until| *until > now);
        self.skipped_items.retain(|_, until| *until > now);
        self.skipped_holds.keys().copied().collect()
    }

    /// Records reservations that could not be expired.
    pub(crate) fn failed(&mut self, holds: &[ReservationId], now: Moment) {
        for id in holds {
            meters::sweep_failed();
            self.skipped_holds.insert(*id, now + SKIP_FAILED_FOR);
        }
    }

    /// Records items and reservations that others have locked.
    pub(crate) fn locked_by_others(&mut self, items: BTreeSet<ItemKey>, holds: &[OverdueHold], now: Moment) {
        let until = now + SKIP_LOCKED_FOR;
        self.skipped_holds.extend(holds.iter().map(|(id, _)| (*id, until)));
        self.skipped_items.extend(items.into_iter().map(|item| (item, until)));
    }

    /// Removes the reservations with a skipped item, and skips them as long as the item. Returns how many it removed.
    pub(crate) fn remove_skipped(&mut self, due: &mut Vec<OverdueHold>) -> usize {
        let before = due.len();
        due.retain(|(id, refs)| {
            let until = refs.items.iter().filter_map(|item| self.skipped_items.get(item)).max();
            self.skipped_holds.extend(until.map(|until| (*id, *until)));
            until.is_none()
        });
        before - due.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::plan::ReservationRefs;

    fn key(sku: &str) -> ItemKey {
        ItemKey::new(&Label::new("default").unwrap(), &Label::new(sku).unwrap())
    }

    fn due(number: u128, items: &[&str]) -> OverdueHold {
        let items = items.iter().map(|sku| key(sku)).collect();
        (ReservationId::from_u128(number), ReservationRefs { items, ..ReservationRefs::default() })
    }

    fn ids(due: &[OverdueHold]) -> Vec<u128> {
        due.iter().map(|(id, _)| id.as_u128()).collect()
    }

    #[test]
    fn a_locked_item_is_skipped_for_a_while_with_all_of_its_reservations() {
        let (mut sweeper, now) = (Sweeper::new().unwrap(), Moment::now());
        let holds = [due(1, &["a"]), due(2, &["b"]), due(3, &["b", "a"])];
        sweeper.locked_by_others([key("a"), key("b")].into(), &holds, now);
        assert_eq!(sweeper.skipped(now).len(), 3);
        let mut more = vec![due(4, &["a"]), due(5, &["c"]), due(6, &["c", "b"])];
        assert_eq!((sweeper.remove_skipped(&mut more), ids(&more)), (2, vec![5]));
        assert_eq!(sweeper.skipped(now).len(), 5);
        assert!(sweeper.skipped(now + SKIP_LOCKED_FOR).is_empty());
        assert_eq!(sweeper.remove_skipped(&mut vec![due(4, &["a"])]), 0);
    }
}
