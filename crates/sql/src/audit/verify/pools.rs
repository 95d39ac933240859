//! Recounts pools from the reservations, and compares the column that says when they are to be released.

use super::Verifier;
use crate::audit::AuditSession;
use crate::audit::ledger::DrawnUnits;
use crate::engine::{DbError, Release, pools_of_row};
use std::collections::BTreeMap;
use stockhold_domain::{Instant, Item, ItemKey, Label, Mode, Pool, Pools};

/// Releases of pools that are read at a time.
const RELEASES_AT_ONCE: usize = 2_000;

/// How the pools of an item differ from those that its events lead to. The counters of units with ids are recounted from the units and
/// the reservations only.
pub(super) fn difference(item: &Item, came: &Item) -> Option<String> {
    (pools_of_row(item) != pools_of_row(came)).then(|| {
        format!(
            "{:?} has {}, and its events lead to {} or to other terms",
            item.key,
            described(&item.pools),
            described(&came.pools)
        )
    })
}

fn described(pools: &Pools) -> String {
    let pool = |pool: &Pool| {
        let released = if pool.released_at.is_some() { ", released" } else { "" };
        format!(
            "pool {} ({} set aside, {} held, {} sold{released})",
            pool.name, pool.terms.allocated, pool.held, pool.sold
        )
    };
    let all: Vec<String> = pools.all().iter().map(pool).collect();
    if all.is_empty() { "no pools".to_owned() } else { all.join(", ") }
}

/// What does not add up of the pools of an item that the store has.
fn findings(item: &Item, stored: &Pools, mut drawn: BTreeMap<Label, DrawnUnits>) -> Vec<String> {
    let mut found = Vec::new();
    for pool in stored.all() {
        let (name, of) = (&pool.name, &item.key);
        let said = DrawnUnits { held: pool.held, sold: pool.sold };
        let sum = drawn.remove(name).unwrap_or_default();
        if said != sum {
            found.push(format!("pool {name} of {of:?} says {said:?}, its reservations {sum:?}"));
        }
        let (allocated, units) = (pool.terms.allocated, pool.drawn());
        // Free units with ids leave a released pool in as many batches as it takes.
        let is_emptied = pool.released_at.is_some() && item.mode == Mode::Counted;
        let fits = if is_emptied { allocated == units } else { allocated >= units };
        if !fits {
            found.push(format!(
                "pool {name} of {of:?} has {allocated} units set aside, and {units} were drawn from it"
            ));
        }
    }
    for (name, sum) in drawn {
        if sum != DrawnUnits::default() {
            let of = &item.key;
            found.push(format!("pool {name} of {of:?} is not there, and its reservations have {sum:?}"));
        }
    }
    found
}

impl<S: AuditSession> Verifier<'_, S> {
    /// What every pool holds and has sold is the sum over the reservations that drew from it, and it has set aside as much.
    pub(super) fn pools(&mut self) {
        let accounts = self.ledger.items.values();
        let found: Vec<String> =
            accounts.flat_map(|of| findings(&of.item, &of.stored_pools, of.drawn.clone())).collect();
        for what in found {
            self.find(what);
        }
    }

    /// The sweeper finds every pool that is to be released by its time, and no other.
    pub(super) async fn releases(&mut self) -> Result<(), DbError> {
        let mut there: BTreeMap<ItemKey, Instant> = BTreeMap::new();
        let mut after: Option<Release> = None;
        loop {
            let (_, rows) = self.session.releases(after.as_ref(), RELEASES_AT_ONCE).await?;
            let more = rows.len() == RELEASES_AT_ONCE;
            after = rows.last().cloned();
            there.extend(rows.into_iter().map(|(at, key)| (key, at)));
            if !more {
                break;
            }
        }
        let mut found = Vec::new();
        for (key, account) in &self.ledger.items {
            let (said, meant) = (there.remove(key), account.stored_pools.release_due_at());
            let fits = match account.item.mode {
                Mode::Counted => said == meant,
                // The time of the row may be earlier than the release, and the sweeper moves it.
                Mode::Units => meant.is_none_or(|meant| said.is_some_and(|said| said <= meant)),
            };
            if !fits {
                found.push(format!(
                    "the next release of a pool of {key:?} is {said:?}, and should be {meant:?}"
                ));
            }
        }
        found.extend(
            there.keys().map(|key| format!("a pool of {key:?} is to be released, which is not there")),
        );
        for what in found {
            self.find(what);
        }
        Ok(())
    }
}
