//! The status of the store that callers read without a request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// See the documentation of the module.
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

    /// Records the newest position. Call it before the reply: a caller must not see newer events than the store reports.
    pub(crate) fn set_newest(&self, newest: u64) {
        self.newest.fetch_max(newest, Ordering::AcqRel);
    }
}
