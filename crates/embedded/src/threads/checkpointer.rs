//! Copies the log's write-ahead log into its database, behind the requests.

use crate::limits::CHECKPOINT_AFTER_BYTES;
use crate::log::Log;
use crate::threads::housekeeper::DISK_CHECK_INTERVAL;
use crate::threads::idle_priority::IdlePriorityRunner;
use crate::threads::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stockhold_store::fault;

/// Bytes that are copied beside the requests and not behind them: before the room is full.
const URGENT_AFTER_BYTES: u64 = CHECKPOINT_AFTER_BYTES + CHECKPOINT_AFTER_BYTES / 2;
/// Bytes that are left to the committer.
const COMMITTER_BYTES: u64 = CHECKPOINT_AFTER_BYTES / 8;

/// See the module.
pub(crate) struct LogCheckpointer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: Log,
}

impl LogCheckpointer {
    /// Runs until the store stops.
    pub(crate) fn run(mut self) {
        let mut runner = IdlePriorityRunner::new("log-copier");
        while !self.shared.stopping.load(Ordering::Acquire) && self.shared.core().poisoned().is_none() {
            if let Err(error) = self.checkpoint(&mut runner)
                && !self.shared.checkpoint_failed("the log's", &error)
            {
                return;
            }
            // A stop cuts this short.
            std::thread::park_timeout(DISK_CHECK_INTERVAL);
        }
    }

    fn checkpoint(&mut self, runner: &mut IdlePriorityRunner) -> rusqlite::Result<()> {
        let bytes = self.log.wal_backlog()?;
        if bytes <= CHECKPOINT_AFTER_BYTES {
            return Ok(());
        }
        let _checkpoint_guard = self.shared.checkpoint_lock();
        let interrupt = self.log.interrupt_handle();
        let shared = &self.shared;
        let stopping = || shared.stopping.load(Ordering::Acquire);
        // Asked beside the requests only: whoever steps back takes no lock of ours.
        let over = || stopping() || shared.core().poisoned().is_some();
        let log = &mut self.log;
        let copy =
            move |again| if stopping() || again && over() { Ok(0) } else { log.checkpoint_concurrently() };
        runner.run(|| interrupt.interrupt(), || over() || bytes > URGENT_AFTER_BYTES, copy)?;
        // What has come meanwhile: the committer, which copies the rest, is to find little.
        if self.log.wal_backlog()? > COMMITTER_BYTES && !over() {
            self.log.checkpoint_concurrently()?;
        }
        self.shared.checkpoint_wanted.store(true, Ordering::Relaxed);
        fault!("checkpoint.wanted");
        Ok(())
    }
}
