//! What the store shows without asking anybody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// See the module.
#[derive(Default)]
pub(crate) struct StoreStatus {
    fatal_error: Mutex<Option<String>>,
    newest: AtomicU64,
}

impl StoreStatus {
    pub(crate) fn fatal_error(&self) -> Option<String> {
        self.fatal_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    pub(crate) fn set_fatal_error(&self, why: Option<String>) {
        *self.fatal_error.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Before whoever asked is answered: it must not know of newer events than the store shows.
    pub(crate) fn set_newest(&self, newest: u64) {
        self.newest.fetch_max(newest, Ordering::AcqRel);
    }
}
