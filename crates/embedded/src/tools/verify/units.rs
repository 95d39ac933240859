//! Verifies units with ids: the index has the same units as the log, and the counters of an item and of its pools match its units.

use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};
use stockhold_domain::{Item, ItemKey, Label, Mode, UnitIndex};

/// Units by item.
pub(crate) type UnitIndexes = HashMap<ItemKey, UnitIndex, RandomState>;

/// The items whose units differ between the index and the log.
pub(crate) fn differing(log: &UnitIndexes, index: &UnitIndexes) -> Vec<String> {
    let none = UnitIndex::default();
    let all = log.keys().chain(index.keys().filter(|key| !log.contains_key(*key)));
    let differ = |key: &&ItemKey| log.get(*key).unwrap_or(&none) != index.get(*key).unwrap_or(&none);
    all.filter(differ).map(|key| format!("index: units of {key:?} are missing or differ")).collect()
}

/// The items whose counters do not match their units.
pub(crate) fn miscounted<'a>(
    items: impl Iterator<Item = &'a Item>,
    unit_indexes: &UnitIndexes,
) -> Vec<String> {
    let none = UnitIndex::default();
    let wrong = items.filter(|item| item.mode == Mode::Units).filter_map(|item| {
        let unit_index = unit_indexes.get(&item.key).unwrap_or(&none);
        let said = (item.figures.total_units, item.figures.held, item.figures.confirmed_sold);
        let counted = (unit_index.len() as u64, unit_index.held(), unit_index.sold());
        if said != counted {
            return Some(format!("{:?} says total, held and sold {said:?}, its units {counted:?}", item.key));
        }
        let mut in_pools: BTreeMap<&Label, u64> = BTreeMap::new();
        for pool in unit_index.iter().filter_map(|unit| unit.pool.as_ref()) {
            *in_pools.entry(pool).or_default() += 1;
        }
        let allocated = item.pools.all().iter().map(|pool| (&pool.name, pool.terms.allocated));
        let allocated: BTreeMap<&Label, u64> = allocated.filter(|(_, units)| *units > 0).collect();
        (allocated != in_pools)
            .then(|| format!("{:?} says that pools have {allocated:?}, its units {in_pools:?}", item.key))
    });
    wrong.collect()
}
