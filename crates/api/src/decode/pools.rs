//! The requests on pools.

use super::body::{self, PoolBody, PoolUnitsBody};
use super::header::{self, Match};
use super::{Invalid, both, item, path};
use crate::problem;
use std::collections::HashSet;
use stockhold_domain::limits::{SECTIONS, UNITS_AT_ONCE};
use stockhold_domain::{DeletePool, ItemKey, Label, PoolSelection, SetPool, SetUnitPool};

/// `PUT /v1/inventory/{sku}/pools/{pool}?location=`, with the value of `If-Match`.
pub fn set_pool(
    sku: &str,
    pool: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
    body: &[u8],
) -> Result<SetPool, Invalid> {
    let target = both(item_and_pool(sku, pool, query), header::expected(if_match.map(Match::If)));
    let (((item, pool), expected), body) = both(target, body::read::<PoolBody>(body))?;
    Ok(SetPool {
        item,
        pool,
        allocated: body.allocated.map(|units| units.0),
        fallback: body.fallback.is_none_or(|fallback| fallback.0),
        releases_at: body.releases_at.map(|time| time.0),
        idle_release: body.idle_release_seconds.map(|seconds| seconds.0),
        expected,
    })
}

/// `PUT /v1/inventory/{sku}/pools/{pool}/units?location=`, with the value of `If-Match`.
pub fn put_into_pool(
    sku: &str,
    pool: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
    body: &[u8],
) -> Result<SetUnitPool, Invalid> {
    let target = both(item_and_pool(sku, pool, query), header::expected(if_match.map(Match::If)));
    let (((item, pool), expected), body) = both(target, body::read::<PoolUnitsBody>(body))?;
    Ok(SetUnitPool { item, pool, puts_in: true, units: selection(body)?, expected })
}

/// `DELETE /v1/inventory/{sku}/pools/{pool}/units?location=`, with the value of `If-Match`.
pub fn take_out_of_pool(
    sku: &str,
    pool: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
    body: &[u8],
) -> Result<SetUnitPool, Invalid> {
    let set = put_into_pool(sku, pool, query, if_match, body)?;
    Ok(SetUnitPool { puts_in: false, ..set })
}

fn selection(body: PoolUnitsBody) -> Result<PoolSelection, Invalid> {
    let (pointer, names, most) = match (body.units, body.sections) {
        (Some(units), None) => ("/units", units, UNITS_AT_ONCE),
        (None, Some(sections)) => ("/sections", sections, SECTIONS),
        (Some(_), Some(_)) => return Err(Invalid::new("/sections", "must be left out beside `units`")),
        (None, None) => return Err(Invalid::new("/units", "is missing: name units or sections")),
    };
    let mut known = HashSet::new();
    if let Some(place) = names.iter().position(|name| !known.insert(name.0.as_str())) {
        return Err(Invalid::new(format!("{pointer}/{place}"), "must not occur twice"));
    }
    if names.is_empty() || names.len() > most {
        let (most, found) = (problem::grouped(most as u64), problem::grouped(names.len() as u64));
        return Err(Invalid::new(pointer, format!("must have 1 to {most} of them, found {found}")));
    }
    let names = names.into_iter().map(|name| name.0).collect();
    Ok(if pointer == "/units" { PoolSelection::Units(names) } else { PoolSelection::Sections(names) })
}

/// `DELETE /v1/inventory/{sku}/pools/{pool}?location=`, with the value of `If-Match`.
pub fn delete_pool(
    sku: &str,
    pool: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
) -> Result<DeletePool, Invalid> {
    let target = item_and_pool(sku, pool, query);
    let ((item, pool), expected) = both(target, header::expected(if_match.map(Match::If)))?;
    Ok(DeletePool { item, pool, expected })
}

fn item_and_pool(sku: &str, pool: &str, query: Option<&str>) -> Result<(ItemKey, Label), Invalid> {
    both(item(sku, query), path::label("/pool", pool))
}
