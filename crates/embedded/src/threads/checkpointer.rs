//! Copies the log's write-ahead log into its database, behind the requests.

use crate::limits::COPIED_AT;
use crate::log::Log;
use crate::threads::housekeeper::LOOK_EVERY;
use crate::threads::idle_priority::Quiet;
use crate::threads::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stockhold_store::fault;

/// Bytes that are copied beside the requests and not behind them: before the room is full.
const HURRIED_AT: u64 = COPIED_AT + COPIED_AT / 2;
/// Bytes that are left to the committer.
const REST: u64 = COPIED_AT / 8;

/// See the module.
pub(crate) struct Copier {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: Log,
}

impl Copier {
    /// Runs until the store stops.
    pub(crate) fn run(mut self) {
        let mut quiet = Quiet::new("log-copier");
        while !self.shared.stopping.load(Ordering::Acquire) && self.shared.core().poisoned().is_none() {
            if let Err(error) = self.copy(&mut quiet)
                && !self.shared.checkpoint_failed("the log's", &error)
            {
                return;
            }
            // A stop cuts this short.
            std::thread::park_timeout(LOOK_EVERY);
        }
    }

    fn copy(&mut self, quiet: &mut Quiet) -> rusqlite::Result<()> {
        let bytes = self.log.uncopied()?;
        if bytes <= COPIED_AT {
            return Ok(());
        }
        let _copying = self.shared.copying();
        let interrupt = self.log.interrupt_handle();
        let shared = &self.shared;
        let stopping = || shared.stopping.load(Ordering::Acquire);
        // Asked beside the requests only: whoever steps back takes no lock of ours.
        let over = || stopping() || shared.core().poisoned().is_some();
        let log = &mut self.log;
        let copy = move |again| if stopping() || again && over() { Ok(0) } else { log.checkpoint_behind() };
        quiet.run(|| interrupt.interrupt(), || over() || bytes > HURRIED_AT, copy)?;
        // What has come meanwhile: the committer, which copies the rest, is to find little.
        if self.log.uncopied()? > REST && !over() {
            self.log.checkpoint_behind()?;
        }
        self.shared.checkpoint_wanted.store(true, Ordering::Relaxed);
        fault!("checkpoint.wanted");
        Ok(())
    }
}
