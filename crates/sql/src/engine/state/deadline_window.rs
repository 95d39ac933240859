//! The first deadlines of a queue, as far as they were loaded.

use crate::engine::dialect::Deadline;
use std::collections::BTreeSet;
use stockhold_domain::{Instant, ReservationId};

/// The front of a queue of deadlines.
#[derive(Debug, Default)]
pub(crate) struct DeadlineWindow {
    deadlines: BTreeSet<Deadline>,
    /// Where the view ends: what lies behind was not loaded. `None` when all was.
    horizon: Option<Deadline>,
}

impl DeadlineWindow {
    /// Over what was loaded when at most `depth` were asked for.
    pub(crate) fn new(deadlines: BTreeSet<Deadline>, depth: usize) -> Self {
        let horizon = if deadlines.len() < depth { None } else { deadlines.last().copied() };
        Self { deadlines, horizon }
    }

    /// The earliest; an error when it may lie behind the horizon.
    pub(super) fn earliest(&self) -> Result<Option<Deadline>, ()> {
        match (self.deadlines.first(), self.horizon) {
            (first, None) => Ok(first.copied()),
            (Some(first), Some(horizon)) if *first <= horizon => Ok(Some(*first)),
            (_, Some(_)) => Err(()),
        }
    }

    /// Whether anything of it is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.deadlines.first().is_some_and(|(due, _)| *due <= now)
    }

    /// What lies behind the horizon may come in as well: it is not looked at before the view ends there.
    pub(super) fn replace(&mut self, before: Option<Deadline>, after: Option<Deadline>) {
        if let Some(before) = before {
            self.deadlines.remove(&before);
        }
        self.deadlines.extend(after);
    }

    /// Whether a reservation is in view.
    pub(crate) fn shows(&self, id: ReservationId) -> bool {
        self.deadlines.iter().any(|(_, other)| *other == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::Instant;

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
        assert_eq!(DeadlineWindow::new(BTreeSet::new(), 1).earliest(), Ok(None));
    }
}
