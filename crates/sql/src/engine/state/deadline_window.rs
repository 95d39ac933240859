//! The first deadlines of a queue, as far as they were loaded. The window never tells anything about deadlines that were not.
//! Deadlines are of reservations, and of items that have pools.

use std::collections::BTreeSet;
use stockhold_domain::{Instant, ReservationId};

/// See the documentation of the module.
#[derive(Debug, Default)]
pub(crate) struct DeadlineWindow<K = ReservationId> {
    deadlines: BTreeSet<(Instant, K)>,
    /// The last loaded deadline: later ones were not loaded. `None` if all were.
    horizon: Option<(Instant, K)>,
}

impl<K: Clone + Ord> DeadlineWindow<K> {
    /// A window over `deadlines`, of which at most `depth` were requested.
    pub(crate) fn new(deadlines: BTreeSet<(Instant, K)>, depth: usize) -> Self {
        let horizon = if deadlines.len() < depth { None } else { deadlines.last().cloned() };
        Self { deadlines, horizon }
    }

    /// The earliest deadline. An error if it may be beyond the horizon.
    pub(super) fn earliest(&self) -> Result<Option<(Instant, K)>, ()> {
        match (self.deadlines.first(), &self.horizon) {
            (first, None) => Ok(first.cloned()),
            (Some(first), Some(horizon)) if first <= horizon => Ok(Some(first.clone())),
            (_, Some(_)) => Err(()),
        }
    }

    /// Whether the first deadline is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.deadlines.first().is_some_and(|(due, _)| *due <= now)
    }

    /// Replaces a deadline. The new one may be beyond the horizon: `earliest` never returns such a deadline.
    pub(super) fn replace(&mut self, before: Option<(Instant, K)>, after: Option<(Instant, K)>) {
        if let Some(before) = before {
            self.deadlines.remove(&before);
        }
        self.deadlines.extend(after);
    }

    /// Forgets the deadlines that do not fulfil a condition.
    pub(super) fn retain(&mut self, keep: impl FnMut(&(Instant, K)) -> bool) {
        self.deadlines.retain(keep);
    }

    /// Whether the window has a deadline of the reservation.
    pub(crate) fn shows(&self, id: &K) -> bool {
        self.deadlines.iter().any(|(_, other)| other == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::dialect::Deadline;

    fn deadline(second: i64) -> Deadline {
        (Instant::from_millis(second * 1_000), ReservationId::from_u128(second.unsigned_abs().into()))
    }

    #[test]
    fn a_window_says_nothing_of_what_lies_behind_its_horizon() {
        let mut window = DeadlineWindow::new([deadline(1), deadline(2)].into(), 2);
        assert_eq!(window.earliest(), Ok(Some(deadline(1))));
        // A new hold with a late deadline: something that was not loaded may be due before it.
        window.replace(Some(deadline(1)), Some(deadline(9)));
        assert_eq!(window.earliest(), Ok(Some(deadline(2))));
        window.replace(Some(deadline(2)), None);
        assert_eq!(window.earliest(), Err(()));
        window.replace(None, Some(deadline(1)));
        assert_eq!(window.earliest(), Ok(Some(deadline(1))));
    }

    #[test]
    fn a_window_that_shows_all_is_always_right() {
        let mut window = DeadlineWindow::new([deadline(1)].into(), 2);
        window.replace(Some(deadline(1)), Some(deadline(9)));
        assert_eq!(window.earliest(), Ok(Some(deadline(9))));
        window.replace(Some(deadline(9)), None);
        assert_eq!(window.earliest(), Ok(None));
        assert_eq!(DeadlineWindow::<ReservationId>::new(BTreeSet::new(), 1).earliest(), Ok(None));
    }
}
