//! Copies the write-ahead log of the log into its database, at idle priority.

use crate::limits::CHECKPOINT_AFTER_BYTES;
use crate::log::Log;
use crate::threads::housekeeper::DISK_CHECK_INTERVAL;
use crate::threads::idle_priority::IdlePriorityRunner;
use crate::threads::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stockhold_store::fault;

/// The bytes after which the copy runs at normal priority, before the preallocated space is full.
const URGENT_AFTER_BYTES: u64 = CHECKPOINT_AFTER_BYTES + CHECKPOINT_AFTER_BYTES / 2;
/// The bytes that the checkpointer leaves to the committer.
const COMMITTER_BYTES: u64 = CHECKPOINT_AFTER_BYTES / 8;

/// The thread that copies the write-ahead log into the database.
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
            // A stop ends this wait.
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
        // Called on the waiting thread only. The thread at idle priority must not take a lock of the store.
        let over = || stopping() || shared.core().poisoned().is_some();
        let log = &mut self.log;
        let copy =
            move |again| if stopping() || again && over() { Ok(0) } else { log.checkpoint_concurrently() };
        runner.run(|| interrupt.interrupt(), || over() || bytes > URGENT_AFTER_BYTES, copy)?;
        // Copies the frames that were written during the copy, so that the committer has little to copy.
        if self.log.wal_backlog()? > COMMITTER_BYTES && !over() {
            self.log.checkpoint_concurrently()?;
        }
        self.shared.checkpoint_wanted.store(true, Ordering::Relaxed);
        fault!("checkpoint.wanted");
        Ok(())
    }
}
