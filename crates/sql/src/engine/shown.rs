//! What the store shows without asking anybody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// See the module.
#[derive(Default)]
pub(super) struct Shown {
    fatal_error: Mutex<Option<String>>,
    newest: AtomicU64,
}

impl Shown {
    pub(super) fn fatal_error(&self) -> Option<String> {
        self.fatal_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    pub(super) fn set_fatal_error(&self, why: Option<String>) {
        *self.fatal_error.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Before whoever asked is answered: it must not know of newer events than the store shows.
    pub(super) fn has_numbered(&self, newest: u64) {
        self.newest.fetch_max(newest, Ordering::AcqRel);
    }
}
