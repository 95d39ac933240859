//! The reservations whose payment is to be moved on, by the time at which it is due.

use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap};
use stockhold_domain::{Hold, HoldChange, Instant, ReservationId};

/// The reservations whose payment is due at some time.
#[derive(Debug, Default)]
pub(crate) struct DuePayments {
    by_time: BTreeSet<(Instant, ReservationId)>,
    times: HashMap<ReservationId, Instant, RandomState>,
}

impl DuePayments {
    /// Sets when the payment of a reservation is due; `None` if it is not.
    pub(crate) fn set(&mut self, id: ReservationId, due: Option<Instant>) {
        let before = match due {
            Some(due) => self.times.insert(id, due),
            None => self.times.remove(&id),
        };
        if let Some(before) = before {
            self.by_time.remove(&(before, id));
        }
        if let Some(due) = due {
            self.by_time.insert((due, id));
        }
    }

    /// Follows a change of a reservation.
    pub(crate) fn apply(&mut self, change: &HoldChange, hold: &Hold) {
        if let Some(due) = change.payment_due(hold) {
            self.set(hold.id, due);
        }
    }

    /// Those that are due at an instant, the earliest first.
    pub(crate) fn at(&self, now: Instant, limit: usize) -> Vec<ReservationId> {
        let due = self.by_time.iter().take_while(|(due, _)| *due <= now);
        due.take(limit).map(|(_, id)| *id).collect()
    }
}
