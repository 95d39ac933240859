//! Checks which units of a line are backordered. They follow from the line before, and from what is held and sold beyond the total after
//! the event.

use super::{Checked, broken};
use stockhold_domain::{Event, Hold, HoldChange, Line, StockCounters, Transition};

/// Checks the lines of an event of a reservation. `figures` are the counters of their items after it.
pub(super) fn check(
    event: &Event,
    before: Option<&Hold>,
    after: &Hold,
    figures: &[StockCounters],
) -> Checked {
    let Transition::Hold { change, .. } = &event.transition else { return Ok(()) };
    for (line, figures) in after.lines.iter().zip(figures) {
        let old = before.and_then(|hold| hold.lines.iter().find(|old| old.item == line.item));
        let late = line.details().backordered;
        let follows = expected(change, old, line, figures).contains(&i128::from(late));
        if !follows || (late == 0 && line.details().promised_at.is_some()) {
            return broken("S1", format!("backordered units of {line:?}, before it {old:?}: {event:?}"));
        }
    }
    Ok(())
}

/// The least and the most units that may be backordered.
fn expected(
    change: &HoldChange,
    old: Option<&Line>,
    line: &Line,
    figures: &StockCounters,
) -> core::ops::RangeInclusive<i128> {
    let (was, is) = (old.map_or(0, |old| old.quantity), line.quantity);
    let had = i128::from(old.map_or(0, |old| old.details().backordered));
    let more = i128::from(is) - i128::from(was);
    let beyond =
        i128::from(figures.held) + i128::from(figures.confirmed_sold) - i128::from(figures.total_units);
    let exactly = |units: i128| units..=units;
    match change {
        // Units with ids are there, and their items' counters are not in every event.
        _ if line.units.is_some() => exactly(0),
        HoldChange::Created | HoldChange::Amended { .. } if more > 0 => exactly(had + beyond.clamp(0, more)),
        HoldChange::CreatedBySplit => 0..=i128::from(is),
        HoldChange::Merged { .. } => had..=had + more,
        _ => exactly((had + more.min(0)).max(0)),
    }
}
