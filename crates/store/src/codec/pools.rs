//! Encoding of the pools of an item and of what lines drew from them.

use super::read::{DecodeError, Reader};
use super::write::{end_fields, put_field, put_i64, put_seconds, put_text, put_u64};
use stockhold_domain::{Instant, Pool, PoolDraw, PoolTerms, Pools, PoolsAfter, limits};

type Read<T> = Result<T, DecodeError>;

const RELEASES_AT: u8 = 1;
const IDLE_RELEASE: u8 = 2;

const HELD: u8 = 1;
const SOLD: u8 = 2;
const RELEASED_AT: u8 = 3;

/// Pools that an item has at most: those in use, and former ones.
const MOST: u64 = (limits::POOLS + limits::FORMER_POOLS) as u64;

fn put_instant(out: &mut Vec<u8>, at: Instant) {
    put_i64(out, at.micros());
}

/// Appends what an operator says about a pool.
pub(super) fn put_pool_terms(out: &mut Vec<u8>, terms: &PoolTerms) {
    let PoolTerms { allocated, fallback, releases_at, idle_release } = terms;
    put_u64(out, *allocated);
    out.push(u8::from(*fallback));
    put_field(out, RELEASES_AT, *releases_at, put_instant);
    put_field(out, IDLE_RELEASE, *idle_release, put_seconds);
    end_fields(out);
}

fn pool_terms(reader: &mut Reader<'_>) -> Read<PoolTerms> {
    let mut terms = PoolTerms {
        allocated: reader.u64()?,
        fallback: reader.flag()?,
        releases_at: None,
        idle_release: None,
    };
    reader.fields(|reader, tag| {
        match tag {
            RELEASES_AT => terms.releases_at = Some(reader.instant()?),
            IDLE_RELEASE => terms.idle_release = Some(reader.seconds()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(terms)
}

/// Appends the pools of an item.
pub fn put_pools(out: &mut Vec<u8>, pools: &Pools) {
    put_u64(out, pools.all().len() as u64);
    for Pool { name, terms, held, sold, used_at, released_at } in pools.all() {
        put_text(out, name.as_str());
        put_pool_terms(out, terms);
        put_instant(out, *used_at);
        put_field(out, HELD, Some(*held).filter(|units| *units > 0), put_u64);
        put_field(out, SOLD, Some(*sold).filter(|units| *units > 0), put_u64);
        put_field(out, RELEASED_AT, *released_at, put_instant);
        end_fields(out);
    }
}

/// Reads the pools of an item.
pub fn pools(reader: &mut Reader<'_>) -> Read<Pools> {
    let count = reader.count(MOST)?;
    let mut all: Vec<Pool> = Vec::with_capacity(count);
    for _ in 0..count {
        let next = pool(reader)?;
        if all.last().is_some_and(|last| last.name >= next.name) {
            return Err(reader.bad("order of pools"));
        }
        all.push(next);
    }
    Ok(Pools::new(all))
}

fn pool(reader: &mut Reader<'_>) -> Read<Pool> {
    let mut pool = Pool {
        name: reader.label()?,
        terms: pool_terms(reader)?,
        held: 0,
        sold: 0,
        used_at: reader.instant()?,
        released_at: None,
    };
    reader.fields(|reader, tag| {
        match tag {
            HELD => pool.held = reader.positive()?,
            SOLD => pool.sold = reader.positive()?,
            RELEASED_AT => pool.released_at = Some(reader.instant()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(pool)
}

/// Appends what a line drew from pools.
pub(super) fn put_draws(out: &mut Vec<u8>, draws: &[PoolDraw]) {
    put_u64(out, draws.len() as u64);
    for PoolDraw { pool, units } in draws {
        put_text(out, pool.as_str());
        put_u64(out, u64::from(*units));
    }
}

/// Reads what a line drew from pools; there is one at least.
pub(super) fn draws(reader: &mut Reader<'_>) -> Read<Vec<PoolDraw>> {
    let count = reader.count(MOST)?;
    if count == 0 {
        return Err(reader.bad("draws of a line"));
    }
    let draw =
        |reader: &mut Reader<'_>| Ok(PoolDraw { pool: reader.label()?, units: reader.positive_u32()? });
    (0..count).map(|_| draw(reader)).collect()
}

/// Appends the pools that a change of a reservation moved.
pub(super) fn put_pools_after(out: &mut Vec<u8>, moved: &[PoolsAfter]) {
    put_u64(out, moved.len() as u64);
    for PoolsAfter { line, pools } in moved {
        put_u64(out, u64::from(*line));
        put_pools(out, pools);
    }
}

/// Reads the pools that a change of a reservation moved.
pub(super) fn pools_after(reader: &mut Reader<'_>) -> Read<Box<[PoolsAfter]>> {
    let count = reader.lines()?;
    (0..count).map(|_| Ok(PoolsAfter { line: reader.u32()?, pools: pools(reader)? })).collect()
}
