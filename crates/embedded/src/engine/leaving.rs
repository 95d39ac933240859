//! The closed reservations that leave the store while an archive makes a step. From the moment at which memory knows them no command
//! finds them, so none of them changes any more, and the step can be written without holding up a command.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use stockhold_domain::{EventId, Hold, Instant, ReservationId};

/// The reservations that leave with one step.
#[derive(Debug)]
pub(crate) struct LeavingReservations {
    /// `None`: it left with an earlier step, whatever its last event was.
    last_events: HashMap<ReservationId, Option<EventId>, RandomState>,
    keys_before: Instant,
}

impl LeavingReservations {
    /// Reservations, each with the event after which it leaves. One that has changed since stays. Keys that were used before
    /// `keys_before` leave too.
    pub(crate) fn new(
        last_events: impl Iterator<Item = (ReservationId, EventId)>,
        keys_before: Instant,
    ) -> Self {
        Self { last_events: last_events.map(|(id, last)| (id, Some(last))).collect(), keys_before }
    }

    /// Reservations that have left already, and that the index still has.
    pub(crate) fn of_earlier_step(gone: &[ReservationId], keys_before: Instant) -> Self {
        Self { last_events: gone.iter().map(|id| (*id, None)).collect(), keys_before }
    }

    /// Whether this reservation leaves.
    pub(crate) fn has(&self, hold: &Hold) -> bool {
        self.last_events.get(&hold.id).is_some_and(|last| last.is_none_or(|last| last == hold.last_event))
    }

    /// Whether a key that was used at this time leaves.
    pub(crate) fn has_key_of(&self, at: Instant) -> bool {
        at < self.keys_before
    }
}
