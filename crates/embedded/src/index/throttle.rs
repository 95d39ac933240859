//! How the index is written: in small steps, since whoever wants the core meanwhile is a request; and given up between two of
//! them where that is wanted.

use rusqlite::ffi;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows that are written before another thread may go first.
const STRIDE: u32 = 128;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    /// Too much waits for the index: it goes first now.
    pub(crate) hurried: bool,
    /// Set by whoever waits for a write that is to be given up: nothing of it is kept.
    pub(crate) given_up: Arc<AtomicBool>,
    rows: u32,
}

impl Pace {
    pub(crate) fn row(&mut self) -> rusqlite::Result<()> {
        if self.given_up.load(Ordering::Relaxed) {
            let error = ffi::Error::new(ffi::SQLITE_INTERRUPT);
            return Err(rusqlite::Error::SqliteFailure(error, Some("it was given up".to_owned())));
        }
        self.rows += 1;
        if self.rows >= STRIDE && !self.hurried {
            self.rows = 0;
            std::thread::yield_now();
        }
        Ok(())
    }
}
