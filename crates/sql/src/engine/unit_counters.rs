//! The counters of items whose units have ids, which stand apart from the row of the item, and what the row has instead.

use super::dialect::{PoolCounters, UnitRows};
use stockhold_domain::{Instant, Item, Mode, Pool, Pools, StockCounters};

/// What the row of an item has whose units have ids: its figures stand apart.
pub(crate) fn empty_counters(at: Instant) -> StockCounters {
    StockCounters { sequence: 1, ..StockCounters::none(at) }
}

/// Gives an item whose units have ids the figures that stand apart from its row, and its pools theirs.
pub(crate) fn set_counters(item: &mut Item, counted: &UnitRows) {
    if item.mode == Mode::Units {
        let at = item.figures.at.max(counted.figures.at);
        item.figures = StockCounters { sequence: 0, at, ..counted.figures };
        let pool = |pool: &Pool| match counted.pools.get(&pool.name) {
            None => pool.clone(),
            Some(PoolCounters { allocated, held, sold, used_at }) => Pool {
                held: *held,
                sold: *sold,
                used_at: pool.used_at.max(*used_at),
                ..pool.with_allocated(*allocated)
            },
        };
        item.pools = Pools::new(item.pools.all().iter().map(pool).collect());
    }
}

/// What the row of an item has of its pools. Where units have ids, their counters stand apart.
pub(crate) fn pools_of_row(item: &Item) -> Pools {
    let without = |pool: &Pool| Pool { held: 0, sold: 0, ..pool.with_allocated(0) };
    match item.mode {
        Mode::Counted => item.pools.clone(),
        Mode::Units => Pools::new(item.pools.all().iter().map(without).collect()),
    }
}

/// When the sweeper has to look at an item because of its pools. Where units have ids, draws do not write the row of the item, so the
/// time may come before a release is due, and the sweeper moves it. A released pool is looked at once more: a unit that came back at the
/// same moment may still be in it.
pub(crate) fn next_release(item: &Item) -> Option<Instant> {
    let again = |pool: &Pool| {
        let at = pool.released_at?.micros().saturating_add(LOOK_AGAIN_MICROS);
        let is_ahead = at > item.figures.at.micros() && pool.drawn() > 0;
        is_ahead.then(|| Instant::from_micros(at))
    };
    match item.mode {
        Mode::Counted => item.pools.release_due_at(),
        Mode::Units => {
            item.pools.release_due_at().into_iter().chain(item.pools.all().iter().filter_map(again)).min()
        }
    }
}

/// After this time a released pool of units with ids is looked at again: much longer than a batch takes.
const LOOK_AGAIN_MICROS: i64 = 60_000_000;
