//! The recount of pools: what reservations drew from them.

use super::Map;
use std::collections::BTreeMap;
use stockhold_domain::{Hold, Item, ItemKey, Label, Mode, PoolDraw, ReservationId, Status};

/// Held and sold units by pool.
type Drawn = BTreeMap<Label, (u64, u64)>;

/// What the confirmed reservations of a log drew from pools and did not return.
#[derive(Default)]
pub(crate) struct PoolRecount {
    sold: Map<ReservationId, Vec<(ItemKey, PoolDraw)>>,
    /// What archived reservations had sold from pools.
    archived: Vec<(ItemKey, Label, u64)>,
}

fn draws(hold: &Hold) -> impl Iterator<Item = (ItemKey, PoolDraw)> {
    let lines = hold.lines.iter();
    lines.flat_map(|line| line.details().draws.iter().map(|draw| (line.item.clone(), draw.clone())))
}

impl PoolRecount {
    /// Counts a reservation after an event.
    pub(crate) fn hold(&mut self, hold: &Hold) {
        if hold.status != Status::Confirmed {
            return;
        }
        let sold: Vec<_> = draws(hold).collect();
        if sold.is_empty() {
            self.sold.remove(&hold.id);
        } else {
            self.sold.insert(hold.id, sold);
        }
    }

    /// Adds units that archived reservations have sold from a pool.
    pub(crate) fn add_archived(&mut self, item: &ItemKey, pool: &Label, units: u64) {
        self.archived.push((item.clone(), pool.clone(), units));
    }

    /// What confirmed reservations have sold from each pool.
    pub(crate) fn sums(&self) -> BTreeMap<(&ItemKey, &Label), u64> {
        let mut sums = BTreeMap::new();
        let kept = self.sold.values().flatten().map(|(item, draw)| (item, &draw.pool, u64::from(draw.units)));
        let archived = self.archived.iter().map(|(item, pool, units)| (item, pool, *units));
        for (item, pool, units) in kept.chain(archived).filter(|(.., units)| *units > 0) {
            *sums.entry((item, pool)).or_default() += units;
        }
        sums
    }

    /// Describes the pools that do not have what these reservations drew from them.
    pub(crate) fn end<'a>(
        &self,
        active: impl Iterator<Item = &'a Hold>,
        items: impl Iterator<Item = &'a Item>,
    ) -> Vec<String> {
        let mut drawn: Map<ItemKey, Drawn> = Map::default();
        for (item, draw) in active.flat_map(draws) {
            drawn.entry(item).or_default().entry(draw.pool).or_default().0 += u64::from(draw.units);
        }
        for (item, draw) in self.sold.values().flatten().cloned() {
            drawn.entry(item).or_default().entry(draw.pool).or_default().1 += u64::from(draw.units);
        }
        for (item, pool, units) in &self.archived {
            drawn.entry(item.clone()).or_default().entry(pool.clone()).or_default().1 += units;
        }
        let mut found = Vec::new();
        for item in items {
            let mut of_item = drawn.remove(&item.key).unwrap_or_default();
            for pool in item.pools.all() {
                let sums = of_item.remove(&pool.name).unwrap_or_default();
                if (pool.held, pool.sold) != sums {
                    let said = (pool.held, pool.sold);
                    let (key, name) = (&item.key, &pool.name);
                    found.push(format!(
                        "pool {name} of {key:?} says held and sold {said:?}, its reservations {sums:?}"
                    ));
                }
                // Free units with ids leave a released pool in as many batches as it takes.
                let is_emptied = pool.released_at.is_some() && item.mode == Mode::Counted;
                if pool.drawn() > pool.terms.allocated || (is_emptied && pool.free() > 0) {
                    found.push(format!(
                        "pool {} of {:?} has units that it can't have: {pool:?}",
                        pool.name, item.key
                    ));
                }
            }
            found.extend(
                of_item
                    .keys()
                    .map(|name| format!("{:?} has no pool {name}, and units were drawn from it", item.key)),
            );
        }
        found.extend(
            drawn.keys().map(|key| format!("{key:?} is not there, and units were drawn from its pools")),
        );
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;
    use stockhold_conformance::maker::{confirm, pool_of, reserve_from, set_pool, set_stock};
    use stockhold_conformance::{Maker, World};
    use stockhold_domain::{Command, Outcome, Pool, PoolTerms, Pools, Reply};

    /// An item of which one unit of its pool is held and one is sold, and both reservations.
    fn shop() -> (Item, [Hold; 2]) {
        let (mut bench, mut maker) = (Bench::new(), Maker::new(9, ""));
        let tins = maker.item("tins");
        let mut run = |command| match bench.run(maker.wrap(command)).unwrap() {
            Outcome::Done(Reply::Reservation(hold)) => Some(hold),
            Outcome::Done(_) => None,
            other => panic!("{other:?}"),
        };
        run(set_stock(&tins, 9));
        run(set_pool(&tins, "vip", pool_of(4)));
        let mut draw = || run(Command::Reserve(reserve_from("vip", 60, &[(&tins, 1)]))).unwrap();
        let (held, sold) = (draw(), draw());
        let sold = run(confirm(sold.id)).unwrap();
        (bench.item(&tins).unwrap(), [held, sold])
    }

    fn findings(item: &Item, holds: &[Hold; 2]) -> Vec<String> {
        let mut recount = PoolRecount::default();
        for hold in holds {
            recount.hold(hold);
        }
        recount.end(holds[..1].iter(), std::iter::once(item))
    }

    #[test]
    fn a_pool_has_what_was_drawn_from_it() {
        let (item, holds) = shop();
        assert_eq!(findings(&item, &holds), Vec::<String>::new());
        let pool = item.pools.all()[0].clone();
        let said = |pool: Pool| findings(&Item { pools: Pools::new(vec![pool]), ..item.clone() }, &holds);
        assert_eq!(said(Pool { held: 2, ..pool.clone() }).len(), 1);
        assert_eq!(said(Pool { sold: 0, ..pool.clone() }).len(), 1);
        assert_eq!(
            said(Pool { terms: PoolTerms { allocated: 1, ..pool.terms.clone() }, ..pool.clone() }).len(),
            1
        );
        assert_eq!(said(Pool { released_at: Some(pool.used_at), ..pool }).len(), 1);
        let none = findings(&Item { pools: Pools::default(), ..item.clone() }, &holds);
        assert!(none[0].contains("has no pool vip"), "{none:?}");
    }
}
