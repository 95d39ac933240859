//! Checks that idempotency keys stand for something that is there.

use super::{Verifier, VerifyProgress};
use crate::audit::{AuditSession, KeyRow};
use crate::engine::{DbError, LockSet, key_from};
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{KeyHash, KeyTarget, ReservationId};

/// Keys that are read at a time.
const KEYS_AT_ONCE: usize = 2_000;
/// How far the clock of an instance that made an id may be ahead of the database's clock.
const CLOCKS_APART_MILLIS: u128 = 3_600_000;

impl<S: AuditSession> Verifier<'_, S> {
    /// Every key is found by its digest and stands for something that is there.
    pub(super) async fn keys(
        &mut self,
        progress: &mut (dyn FnMut(VerifyProgress) + Send),
    ) -> Result<(), DbError> {
        let mut after: Option<KeyHash> = None;
        loop {
            let rows = self.session.key_rows(after, KEYS_AT_ONCE).await?;
            let more = rows.len() == KEYS_AT_ONCE;
            self.verdict.keys += rows.len() as u64;
            after = rows.last().map(|row| row.hash);
            let mut wanted = BTreeMap::new();
            for row in &rows {
                self.key(row, &mut wanted);
            }
            let lock_set = LockSet { holds: wanted.keys().copied().collect(), ..LockSet::default() };
            let there: BTreeSet<ReservationId> =
                self.session.read(&lock_set).await?.holds.iter().map(|hold| hold.id).collect();
            for (id, hash) in wanted {
                if !there.contains(&id) && !self.may_have_left(id) {
                    self.find(format!("key {:032x} stands for reservation {id}, which is not there", hash.0));
                }
            }
            progress(VerifyProgress::Keys(self.verdict.keys));
            if !more {
                return Ok(());
            }
        }
    }

    fn key(&mut self, row: &KeyRow, wanted: &mut BTreeMap<ReservationId, KeyHash>) {
        let name = format!("key {:032x}", row.hash.0);
        match key_from(&row.body) {
            Err(what) => self.find(format!("{name}: {what}")),
            Ok(record) => {
                if (record.hash, record.at) != (row.hash, row.used_at) {
                    self.find(format!("{name}: what it is found by is not what it is"));
                }
                match record.target {
                    KeyTarget::Reservation(id) => {
                        wanted.insert(id, row.hash);
                    }
                    KeyTarget::Item(item)
                        if self.ledger.items.contains_key(&item) || self.ledger.deleted.contains(&item) => {}
                    KeyTarget::Item(item) => {
                        self.find(format!("{name} stands for {item:?}, which is not there"));
                    }
                    KeyTarget::Record(key) if self.records.contains(&key) => {}
                    KeyTarget::Record(key) => {
                        self.find(format!("{name} stands for {key:?}, which is not there"));
                    }
                }
            }
        }
    }

    /// Whether a reservation of this id may be among those that have left. A key outlives its reservation there when it was
    /// used on one that had ended long before.
    fn may_have_left(&self, id: ReservationId) -> bool {
        let newest = u128::from(self.opening.at.millis().unsigned_abs()) + CLOCKS_APART_MILLIS;
        self.opening.position > 0 && (id.as_u128() >> 80) <= newest
    }
}
