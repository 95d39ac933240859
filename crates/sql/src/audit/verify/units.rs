//! Compares units with ids, and the ledger of their sales, with what their events lead to.

use super::Verifier;
use crate::audit::AuditSession;
use crate::engine::DbError;
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{ItemKey, Label, Mode, Unit, UnitStatus};

/// Units that are read at a time.
const UNITS_AT_ONCE: usize = 10_000;

impl<S: AuditSession> Verifier<'_, S> {
    /// Every unit stands where its events left it, and the ledger of sales has those that are sold.
    pub(super) async fn units(&mut self) -> Result<(), DbError> {
        let unit_items = self.ledger.items.values().filter(|account| account.item.mode == Mode::Units);
        let unit_items: Vec<ItemKey> = unit_items.map(|account| account.item.key.clone()).collect();
        let mut sales = 0;
        for key in unit_items {
            let account = self.ledger.items.get_mut(&key);
            let mut meant = account.map(|account| core::mem::take(&mut account.units)).unwrap_or_default();
            let (mut sold, mut in_pools) = (BTreeSet::new(), BTreeMap::<Label, u64>::new());
            let mut after = None;
            loop {
                let page = self.session.units(&key, after.as_ref(), UNITS_AT_ONCE).await?;
                let more = page.len() == UNITS_AT_ONCE;
                self.verdict.units += page.len() as u64;
                after = page.last().map(|unit| (unit.place.position, unit.id.clone()));
                for Unit { id, status, version, pool, .. } in page {
                    if let Some(pool) = pool {
                        *in_pools.entry(pool).or_default() += 1;
                    }
                    let came = meant.remove(&id);
                    if came.map_or(!self.ledger.partial, |came| came != (status, version)) {
                        self.find(format!(
                            "{key:?}: unit {id:?} is {status:?} at version {version}, and its events lead to {came:?}"
                        ));
                    }
                    if let UnitStatus::Sold(by) | UnitStatus::Fulfilled(by) = status {
                        sold.insert((id, by));
                    }
                }
                if !more {
                    break;
                }
            }
            let stored = self.ledger.items.get(&key).map(|account| account.stored_pools.clone());
            for pool in stored.unwrap_or_default().all() {
                let (said, count) = (pool.terms.allocated, in_pools.remove(&pool.name).unwrap_or(0));
                if said != count {
                    self.find(format!(
                        "pool {} of {key:?} has {said} units, and {count} are in it",
                        pool.name
                    ));
                }
            }
            for pool in in_pools.keys() {
                self.find(format!("{key:?}: units are in pool {pool}, which is not there"));
            }
            for id in meant.keys() {
                self.find(format!("{key:?}: unit {id:?} is not there"));
            }
            let open: BTreeSet<_> = self.session.open_sales(&key).await?.into_iter().collect();
            sales += open.len() as u64;
            for (id, by) in sold.symmetric_difference(&open) {
                self.find(format!("{key:?}: unit {id:?}, sold by {by}, and the ledger of sales differ"));
            }
        }
        let all = self.session.open_sale_count().await?;
        if all != sales {
            self.find(format!(
                "{all} units are sold by the ledger of sales, {sales} of them of items that are there"
            ));
        }
        Ok(())
    }
}
