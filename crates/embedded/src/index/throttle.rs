//! Throttles the writes of the index. They yield regularly, because other threads serve requests, and they can be
//! cancelled between two rows.

use rusqlite::ffi;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of rows that are written before the thread yields.
const ROWS_PER_YIELD: u32 = 128;

/// The throttle of the writes of the index.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteThrottle {
    /// Whether the index is far behind, so that its writes do not yield.
    pub(crate) urgent: bool,
    /// Set by the thread that waits for the write to cancel it. A cancelled write has no effect.
    pub(crate) cancelled: Arc<AtomicBool>,
    rows: u32,
}

impl WriteThrottle {
    pub(crate) fn yield_point(&mut self) -> rusqlite::Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            let error = ffi::Error::new(ffi::SQLITE_INTERRUPT);
            return Err(rusqlite::Error::SqliteFailure(error, Some("it was given up".to_owned())));
        }
        self.rows += 1;
        if self.rows >= ROWS_PER_YIELD && !self.urgent {
            self.rows = 0;
            std::thread::yield_now();
        }
        Ok(())
    }
}
