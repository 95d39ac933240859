//! How the index is written: in small steps, since whoever wants the core meanwhile is a request; and given up between two of
//! them where that is wanted.

use rusqlite::ffi;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows that are written before another thread may go first.
const ROWS_PER_YIELD: u32 = 128;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteThrottle {
    /// Too much waits for the index: it goes first now.
    pub(crate) urgent: bool,
    /// Set by whoever waits for a write that is to be given up: nothing of it is kept.
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
