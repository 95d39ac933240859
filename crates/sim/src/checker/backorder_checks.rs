//! Checks which units of a line are backordered. They follow from the line before, and from what is held, sold and set aside beyond the
//! total after the event.

use super::{Checked, broken};
use stockhold_domain::{Event, Hold, HoldChange, Line, Pools, StockCounters, Transition};
use stockhold_model::NaiveState;

/// Checks the lines of an event of a reservation. `figures` are the counters of their items after it.
pub(super) fn check(
    state: &NaiveState,
    event: &Event,
    before: Option<&Hold>,
    after: &Hold,
    figures: &[StockCounters],
) -> Checked {
    let Transition::Hold { change, limits, .. } = &event.transition else { return Ok(()) };
    for (number, (line, figures)) in after.lines.iter().zip(figures).enumerate() {
        let known = || state.items.get(&line.item).map(|item| &item.pools);
        let pools = limits.as_ref().and_then(|effects| effects.pools_of(number)).or_else(known);
        let set_aside = i128::from(pools.map_or(0, Pools::set_aside));
        let old = before.and_then(|hold| hold.lines.iter().find(|old| old.item == line.item));
        let late = line.details().backordered;
        let follows = expected(change, old, line, figures, set_aside).contains(&i128::from(late));
        if !follows || (late == 0 && line.details().promised_at.is_some()) {
            return broken("S1", format!("backordered units of {line:?}, before it {old:?}: {event:?}"));
        }
    }
    Ok(())
}

/// Units of a line that were drawn from pools.
fn drawn(line: &Line) -> i128 {
    line.details().draws.iter().map(|draw| i128::from(draw.units)).sum()
}

/// The least and the most units that may be backordered. Units of pools were set aside before, so none of them is late.
fn expected(
    change: &HoldChange,
    old: Option<&Line>,
    line: &Line,
    figures: &StockCounters,
    set_aside: i128,
) -> core::ops::RangeInclusive<i128> {
    let (was, is) = (old.map_or(0, |old| old.quantity), line.quantity);
    let had = i128::from(old.map_or(0, |old| old.details().backordered));
    let more = i128::from(is) - i128::from(was);
    let beyond = i128::from(figures.held) + i128::from(figures.confirmed_sold) + set_aside
        - i128::from(figures.total_units);
    let general = more - (drawn(line) - old.map_or(0, drawn));
    let exactly = |units: i128| units..=units;
    match change {
        // Units with ids are there, and their items' counters are not in every event.
        _ if line.units.is_some() => exactly(0),
        HoldChange::Created | HoldChange::Amended { .. } if more > 0 => {
            exactly(had + beyond.clamp(0, general.max(0)))
        }
        HoldChange::CreatedBySplit => 0..=i128::from(is),
        HoldChange::Merged { .. } => had..=had + more,
        _ => exactly((had + more.min(0)).max(0)),
    }
}
