//! Verifies units with ids: the index has the same units as the log, and the counters of an item match its units.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use stockhold_domain::{Item, ItemKey, Mode, Pool};

/// Units by item.
pub(crate) type Pools = HashMap<ItemKey, Pool, RandomState>;

/// The items whose units differ between the index and the log.
pub(crate) fn differing(log: &Pools, index: &Pools) -> Vec<String> {
    let none = Pool::default();
    let all = log.keys().chain(index.keys().filter(|key| !log.contains_key(*key)));
    let differ = |key: &&ItemKey| log.get(*key).unwrap_or(&none) != index.get(*key).unwrap_or(&none);
    all.filter(differ).map(|key| format!("index: units of {key:?} are missing or differ")).collect()
}

/// The items whose counters do not match their units.
pub(crate) fn miscounted<'a>(items: impl Iterator<Item = &'a Item>, pools: &Pools) -> Vec<String> {
    let none = Pool::default();
    let wrong = items.filter(|item| item.mode == Mode::Units).filter_map(|item| {
        let pool = pools.get(&item.key).unwrap_or(&none);
        let said = (item.figures.total_units, item.figures.held, item.figures.confirmed_sold);
        let counted = (pool.len() as u64, pool.held(), pool.sold());
        (said != counted)
            .then(|| format!("{:?} says total, held and sold {said:?}, its units {counted:?}", item.key))
    });
    wrong.collect()
}
