//! Checks that an event changes units with ids correctly: each version of a unit follows from the one before, and no two
//! reservations have the same unit. For audits that replay events.

use stockhold_domain::{
    Hold, HoldChange, ItemKey, Pool, StockChange, Transition, UnitMove, UnitStatus, moved,
};

/// Describes what is wrong with a transition, given the units before it, which `pool` returns. Empty when it is correct.
pub fn violations<'a>(pool: impl Fn(&ItemKey) -> Option<&'a Pool>, transition: &Transition) -> Vec<String> {
    match transition {
        Transition::Hold { change, hold, .. } => hold_violations(pool, change, hold),
        Transition::Stock { change: StockChange::UnitsAdded(units), item } => {
            let pool = pool(&item.key);
            let duplicates =
                units.iter().filter(|unit| pool.is_some_and(|pool| pool.get(&unit.id).is_some()));
            duplicates.map(|unit| format!("{:?}: unit {:?} was added twice", item.key, unit.id)).collect()
        }
        Transition::Stock { change: StockChange::UnitsRetired(ids), item } => {
            let pool = pool(&item.key);
            let status = |id| pool.and_then(|pool| pool.get(id)).map(|unit| unit.status);
            let in_use = ids.iter().filter(|id| status(id) != Some(UnitStatus::Available));
            in_use.map(|id| format!("{:?}: unit {id:?} was retired as {:?}", item.key, status(id))).collect()
        }
        Transition::Stock { .. } | Transition::Sale { .. } | Transition::Record { .. } => Vec::new(),
    }
}

fn hold_violations<'a>(
    pool_of: impl Fn(&ItemKey) -> Option<&'a Pool>,
    change: &HoldChange,
    hold: &Hold,
) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in hold.lines.iter().enumerate().filter(|(_, line)| line.units.is_some()) {
        if line.units().len() as u64 != u64::from(line.quantity) {
            found.push(format!("reservation {} has other units of {:?} than it counts", hold.id, line.item));
        }
        let pool = pool_of(&line.item);
        for UnitMove { unit, before, .. } in moved(change, hold, line, number) {
            let known =
                pool.and_then(|pool| pool.get(&unit.id)).map(|known| (known.status, known.version + 1));
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
