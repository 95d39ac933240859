//! Checks that an event changes units with ids correctly: each version of a unit follows from the one before, and no two
//! reservations have the same unit. For audits that replay events.

use stockhold_domain::{
    Hold, HoldChange, ItemKey, Label, PooledUnit, StockChange, Transition, UnitIndex, UnitMove, UnitStatus,
    moved,
};

/// Describes what is wrong with a transition, given the units before it, which `unit_index` returns. Empty when it is correct.
pub fn violations<'a>(
    unit_index: impl Fn(&ItemKey) -> Option<&'a UnitIndex>,
    transition: &Transition,
) -> Vec<String> {
    match transition {
        Transition::Hold { change, hold, .. } => hold_violations(unit_index, change, hold),
        Transition::Stock { change: StockChange::UnitsAdded(units), item } => {
            let unit_index = unit_index(&item.key);
            let duplicates = units
                .iter()
                .filter(|unit| unit_index.is_some_and(|unit_index| unit_index.get(&unit.id).is_some()));
            duplicates.map(|unit| format!("{:?}: unit {:?} was added twice", item.key, unit.id)).collect()
        }
        Transition::Stock { change: StockChange::UnitsRetired(ids), item } => {
            let unit_index = unit_index(&item.key);
            let status = |id| unit_index.and_then(|unit_index| unit_index.get(id)).map(|unit| unit.status);
            let in_use = ids.iter().filter(|id| status(id) != Some(UnitStatus::Available));
            in_use.map(|id| format!("{:?}: unit {id:?} was retired as {:?}", item.key, status(id))).collect()
        }
        Transition::Stock { change: StockChange::UnitsPooled { units, .. }, item } => {
            let unit_index = unit_index(&item.key);
            let known = |id: &Label| unit_index.and_then(|unit_index| unit_index.get(id));
            let follows = |unit: &&PooledUnit| {
                known(&unit.id).is_some_and(|known| {
                    known.status == UnitStatus::Available && known.version + 1 == unit.version
                })
            };
            let others = units.iter().filter(|unit| !follows(unit));
            let wrong = |unit: &PooledUnit| {
                format!("{:?}: a change of pools leads to {unit:?} from {:?}", item.key, known(&unit.id))
            };
            others.map(wrong).collect()
        }
        Transition::Stock { .. }
        | Transition::Sale { .. }
        | Transition::Limit { .. }
        | Transition::Record { .. } => Vec::new(),
    }
}

fn hold_violations<'a>(
    pool_of: impl Fn(&ItemKey) -> Option<&'a UnitIndex>,
    change: &HoldChange,
    hold: &Hold,
) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in hold.lines.iter().enumerate().filter(|(_, line)| line.units.is_some()) {
        if line.units().len() as u64 != u64::from(line.quantity) {
            found.push(format!("reservation {} has other units of {:?} than it counts", hold.id, line.item));
        }
        let unit_index = pool_of(&line.item);
        for UnitMove { unit, before, .. } in moved(change, hold, line, number) {
            let known = unit_index
                .and_then(|unit_index| unit_index.get(&unit.id))
                .map(|known| (known.status, known.version + 1));
            if known != Some((before, unit.version)) {
                found.push(format!(
                    "{:?}: {change:?} of {} leads unit {:?} to version {} from {known:?}",
                    line.item, hold.id, unit.id, unit.version
                ));
            }
        }
    }
    found
}
