//! Counts what became of reservations: confirmed, cancelled or expired. A store counts the events of a commit once, after the
//! commit. It never counts events that it reads again, at a start for example.

use metrics::Counter;
use stockhold_domain::{Event, HoldChange, Transition};

const RESERVATIONS: &str = "stockhold_reservations_closed_total";
const UNITS: &str = "stockhold_units_closed_total";
/// The outcomes are the statuses of a closed reservation.
const OUTCOMES: [&str; 3] = ["confirmed", "cancelled", "expired"];

/// Counters of closed reservations and of their units, by outcome.
#[derive(Clone, Debug)]
pub struct ClosedReservationCounters {
    /// In the order of the outcomes.
    reservations: [Counter; OUTCOMES.len()],
    units: [Counter; OUTCOMES.len()],
}

impl Default for ClosedReservationCounters {
    fn default() -> Self {
        metrics::describe_counter!(
            RESERVATIONS,
            "Reservations that were closed by commits of this server, by what became of them"
        );
        metrics::describe_counter!(
            UNITS,
            "Units of those reservations, as many as they held when they were closed"
        );
        // There from the start, so that a rise from nothing is a rise.
        let counters = |name: &'static str| {
            OUTCOMES.map(|outcome| {
                let counter = metrics::counter!(name, "outcome" => outcome);
                counter.increment(0);
                counter
            })
        };
        Self { reservations: counters(RESERVATIONS), units: counters(UNITS) }
    }
}

impl ClosedReservationCounters {
    /// Counts the events of one commit.
    pub fn count(&self, events: &[Event]) {
        let closed = closed_by(events);
        for (counters, numbers) in [
            (&self.reservations, closed.map(|[reservations, _]| reservations)),
            (&self.units, closed.map(|[_, units]| units)),
        ] {
            for (counter, number) in counters.iter().zip(numbers) {
                if number > 0 {
                    counter.increment(number);
                }
            }
        }
    }
}

/// The reservations and the units that events close, in the order of the outcomes.
fn closed_by(events: &[Event]) -> [[u64; 2]; OUTCOMES.len()] {
    let [mut confirmed, mut cancelled, mut expired] = [[0_u64; 2]; OUTCOMES.len()];
    for event in events {
        let Transition::Hold { change, hold, .. } = &event.transition else { continue };
        let [reservations, units] = match change {
            HoldChange::Confirmed => &mut confirmed,
            HoldChange::Cancelled | HoldChange::MergedAway => &mut cancelled,
            HoldChange::Expired => &mut expired,
            HoldChange::Created
            | HoldChange::CreatedBySplit
            | HoldChange::Amended { .. }
            | HoldChange::Transferred { .. }
            | HoldChange::Split { .. }
            | HoldChange::Merged { .. }
            | HoldChange::Extended
            | HoldChange::PaymentOpened { .. }
            | HoldChange::PaymentClosed { .. }
            | HoldChange::PaymentAdvanced { .. }
            | HoldChange::Replaced
            | HoldChange::Fulfilled { .. }
            | HoldChange::Returned { .. } => continue,
        };
        *reservations += 1;
        *units += hold.lines.iter().map(|line| u64::from(line.quantity)).sum::<u64>();
    }
    [confirmed, cancelled, expired]
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::{Command, Effects, HoldLimits, Instant, Outcome, Reply, ReservationId, decide};
    use stockhold_model::maker::{confirm, release, reserve, return_all, set_stock};
    use stockhold_model::{Maker, NaiveState, START};

    #[test]
    fn each_way_to_close_a_reservation_is_counted_once() {
        let (mut maker, mut state, mut effects) =
            (Maker::new(1, ""), NaiveState::default(), Effects::default());
        let (shirt, shoe) = (maker.item("shirt"), maker.item("shoe"));
        let mut run = |command: Command, at: Instant| -> Option<ReservationId> {
            match decide(&mut state, &HoldLimits::default(), &maker.wrap(command), at, &mut effects).unwrap()
            {
                Outcome::Done(Reply::Reservation(hold)) => Some(hold.id),
                Outcome::Done(_) => None,
                other => panic!("{other:?}"),
            }
        };
        for item in [&shirt, &shoe] {
            run(set_stock(item, 100), START);
        }
        let sold = run(reserve(&[(&shirt, 2), (&shoe, 3)]), START).unwrap();
        run(confirm(sold), START);
        run(return_all(sold), START);
        let released = run(reserve(&[(&shirt, 7)]), START).unwrap();
        run(release(released), START);
        for _ in 0..2 {
            run(reserve(&[(&shoe, 4)]), START);
        }
        let later = Instant::from_micros(START.micros() + 30 * 86_400_000_000);
        run(Command::Sweep, later);
        run(reserve(&[(&shoe, 1)]), later);
        assert_eq!(closed_by(&effects.events), [[1, 5], [1, 7], [2, 8]]);
    }
}
