//! Pools as JSON, and what lines have of them.

use super::json::{Object, array};
use stockhold_domain::{Item, Label, Pool, PoolDraw};

/// A pool of an item.
pub fn pool(out: &mut Vec<u8>, pool: &Pool) {
    let mut object = Object::open(out);
    object.text("pool", pool.name.as_str());
    object.number("allocated", pool.terms.allocated);
    object.number("held", pool.held);
    object.number("sold", pool.sold);
    object.number("free", pool.free());
    object.flag("fallback", pool.terms.fallback);
    if let Some(at) = pool.terms.releases_at {
        object.time("releases_at", at);
    }
    if let Some(seconds) = pool.terms.idle_release {
        object.number("idle_release_seconds", u64::from(seconds.get()));
    }
    if let Some(at) = pool.released_at {
        object.time("released_at", at);
    }
    object.close();
}

/// The pools that an item has.
pub fn pools(out: &mut Vec<u8>, item: &Item) {
    let mut object = Object::open(out);
    array(object.value("data"), item.pools.current(), pool);
    object.close();
}

/// The units of a line that were drawn from pools. Their pool is named if it is not the one that the reservation names.
pub(super) fn put_draws(object: &mut Object<'_>, draws: &[PoolDraw], named: Option<&Label>) {
    if draws.is_empty() {
        return;
    }
    object.number("pool_quantity", draws.iter().map(|draw| u64::from(draw.units)).sum());
    if draws.iter().any(|draw| Some(&draw.pool) != named) {
        array(object.value("pools"), draws, |out, draw| {
            let mut object = Object::open(out);
            object.text("pool", draw.pool.as_str());
            object.number("quantity", u64::from(draw.units));
            object.close();
        });
    }
}
