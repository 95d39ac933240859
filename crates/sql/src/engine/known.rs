//! What an instance remembers of what it has seen, to save round trips. Nothing here is ever the ground of an answer: what it
//! says is used to find out what to lock, and is judged again under the locks.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use stockhold_domain::{Hold, ItemKey, Outcome, Reply, ReservationId};

/// Reservations whose items are remembered: those made in the last minute or so at full load, at about 150 bytes each.
const RESERVATIONS: usize = 65_536;
/// Items that are remembered to have fallen short.
const SHORT: usize = 4_096;

/// See the module.
#[derive(Default)]
pub(super) struct Known {
    items: HashMap<ReservationId, Arc<[ItemKey]>>,
    oldest: VecDeque<ReservationId>,
    short: HashSet<ItemKey>,
}

impl Known {
    /// A reservation's items: they never change.
    pub(super) fn items_of(&self, id: ReservationId) -> Option<Arc<[ItemKey]>> {
        self.items.get(&id).cloned()
    }

    /// Remembers a reservation.
    pub(super) fn learn(&mut self, hold: &Hold) {
        let items = || hold.lines.iter().map(|line| line.item.clone()).collect();
        if let std::collections::hash_map::Entry::Vacant(place) = self.items.entry(hold.id) {
            place.insert(items());
            self.oldest.push_back(hold.id);
        }
        if self.oldest.len() > RESERVATIONS
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.items.remove(&oldest);
        }
    }

    /// Remembers what an answer shows.
    pub(super) fn learn_from(&mut self, outcome: &Outcome) {
        if let Outcome::Done(Reply::Reservation(hold)) | Outcome::Replayed(Reply::Reservation(hold)) = outcome
        {
            self.learn(hold);
        }
    }

    /// Remembers items of which deadlines were asked for.
    pub(super) fn learn_short<'a>(&mut self, items: impl Iterator<Item = &'a ItemKey>) {
        self.short.extend(items.cloned());
        if self.short.len() > SHORT {
            self.short.clear();
        }
    }

    /// Those of the items that fell short lately.
    pub(super) fn short_of<'a>(
        &'a self,
        items: impl Iterator<Item = &'a ItemKey>,
    ) -> impl Iterator<Item = ItemKey> {
        items.filter(|item| self.short.contains(*item)).cloned()
    }

    /// Stock comes back, so what fell short once is not expected to for ever.
    pub(super) fn forget_short(&mut self) {
        self.short.clear();
    }
}
