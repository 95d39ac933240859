//! The limits as this instance last read them, shared by its connections.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stockhold_domain::LimitSet;

/// See the documentation of the module. The version of the set of limits changes with every commit that sets one, and is read under
/// the lock that such a commit needs. So a set that has the version that was read is the current one.
#[derive(Debug, Default)]
pub(crate) struct LimitCache(Mutex<(i64, Arc<LimitSet>)>);

impl LimitCache {
    /// The set that was read last.
    pub(crate) fn newest(&self) -> Arc<LimitSet> {
        Arc::clone(&self.lock().1)
    }

    /// The set of this version, if it was read last. Version 0 has no limit.
    pub(crate) fn of_version(&self, version: i64) -> Option<Arc<LimitSet>> {
        let (known, set) = &*self.lock();
        (*known == version).then(|| Arc::clone(set))
    }

    /// Keeps a set that was read.
    pub(crate) fn put(&self, version: i64, set: Arc<LimitSet>) {
        *self.lock() = (version, set);
    }

    fn lock(&self) -> MutexGuard<'_, (i64, Arc<LimitSet>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
