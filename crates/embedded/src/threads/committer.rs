//! The only thread that writes the log. It takes the open batch, writes and syncs it, publishes the items and delivers
//! the answers. While it waits for the disk, callers decide the next batch. It also deletes the batches that were archived, a few
//! with each batch that it writes and more while there is none to write.

use crate::engine::core::{PendingAnswer, SealedBatch};
use crate::error::describe;
use crate::log::batch::Batch;
use crate::log::sync_marker::{SyncMarker, SyncedBatch};
use crate::log::{self, Log};
use crate::threads::backpressure::{self, Backpressure};
use crate::threads::indexer::{Mailbox, Message};
use crate::threads::shared::Shared;
use metrics::Histogram;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as Monotonic};
use std::vec;
use stockhold_store::fault;
use stockhold_store::{ClosedReservationCounters, Failure, Inbox};

/// The archived batches that are deleted in the transaction of a new one. With more than one the log can't grow.
const TRIMMED_PER_COMMIT: u64 = 8;
/// The archived batches that are deleted at once while there is nothing to commit. A batch that comes meanwhile waits for them.
const TRIMMED_WHEN_IDLE: u64 = 64;
/// The delay after a full disk.
const TRIM_RETRY: Duration = Duration::from_secs(1);

/// The thread that writes the log.
pub(crate) struct Committer {
    shared: Arc<Shared>,
    log: Log,
    marker: SyncMarker,
    indexer: Arc<Mailbox>,
    backpressure: Backpressure,
    /// The answers of the batch that is being committed and that are not delivered yet.
    in_flight: vec::IntoIter<PendingAnswer>,
    commit_seconds: Histogram,
    /// How long a batch waited for the index, for the batches that waited.
    held_seconds: Histogram,
    batch_answers: Histogram,
    closed: ClosedReservationCounters,
    /// The batch up to which all archived batches are deleted.
    trimmed_through: u64,
    /// When the disk was too full to delete any.
    trim_failed: Option<Monotonic>,
}

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>, log: Log, marker: SyncMarker, indexer: Arc<Mailbox>) -> Self {
        Self {
            trimmed_through: 0,
            trim_failed: None,
            shared,
            log,
            marker,
            indexer,
            backpressure: Backpressure::default(),
            held_seconds: metrics::histogram!("stockhold_commit_held_seconds"),
            in_flight: Vec::new().into_iter(),
            commit_seconds: metrics::histogram!("stockhold_commit_seconds"),
            batch_answers: metrics::histogram!("stockhold_batch_answers"),
            closed: ClosedReservationCounters::default(),
        }
    }

    /// Runs until the store stops and every admitted request is answered, or until a commit fails.
    pub(crate) fn run(mut self) {
        if catch_unwind(AssertUnwindSafe(|| self.serve())).is_err() {
            tracing::error!("the committer panicked; the store writes nothing more");
            self.shared.poison("the committer panicked; a restart recovers".to_owned());
            self.fail_in_flight();
        }
        if self.shared.core().poisoned().is_some() {
            let lost = self.shared.core().fail_pending();
            deliver_answers(lost);
            return;
        }
        // A checkpoint does nothing while another connection makes one.
        let _checkpoint_guard = self.shared.checkpoint_lock();
        if !self.shared.abandoned.load(Ordering::Acquire)
            && let Err(error) = self.log.checkpoint_and_truncate()
        {
            tracing::warn!(%error, "the checkpoint of the log is delayed until the next start");
        }
    }

    fn serve(&mut self) {
        while let Some(SealedBatch { batch, previous_sum, waiting, reads, on }) = self.next_batch() {
            self.in_flight = waiting.into_iter();
            fault!("batch.taken");
            for (pending, name) in reads {
                self.shared.queue_read(pending, name);
            }
            for pending in on {
                self.shared.admit(pending);
            }
            if !self.commit(batch, previous_sum) {
                return;
            }
            if !self.checkpoint_if_wanted() {
                return;
            }
        }
    }

    /// Fails the answers in flight. Their batch may be in the log or not.
    fn fail_in_flight(&mut self) {
        deliver_answers(self.in_flight.by_ref().map(|(reply, _)| (reply, Err(Failure::OutcomeUnknown))));
    }

    fn next_batch(&mut self) -> Option<SealedBatch> {
        let mut held: Option<Monotonic> = None;
        let mut core = self.shared.core();
        loop {
            if core.poisoned().is_some() || self.shared.abandoned.load(Ordering::Acquire) {
                return None;
            }
            let stopping = self.shared.stopping.load(Ordering::Acquire);
            if core.is_due(stopping) {
                let now = Monotonic::now();
                let since = held.unwrap_or(now);
                let (unindexed, indexed) = (core.unindexed(), core.memory.indexed_batch());
                if stopping || !self.backpressure.should_wait(unindexed, indexed, since, now) {
                    if held.is_some() {
                        self.held_seconds.record(now.duration_since(since));
                    }
                    return Some(core.seal_batch(self.shared.clock.now()));
                }
                held = Some(since);
                drop(core);
                std::thread::sleep(backpressure::POLL_INTERVAL);
                core = self.shared.core();
                continue;
            }
            if stopping {
                return None;
            }
            if let Some(archived) = self.untrimmed() {
                drop(core);
                if !self.trim(archived) {
                    return None;
                }
                core = self.shared.core();
                continue;
            }
            core.committer_asleep = true;
            core = self.shared.wait(core);
            core.committer_asleep = false;
        }
    }

    /// The batch up to which batches have to be deleted, because they were archived and nobody reads them any more.
    fn untrimmed(&self) -> Option<u64> {
        if self.trim_failed.is_some_and(|at| at.elapsed() < TRIM_RETRY) {
            return None;
        }
        Some(self.shared.log_starts.unread_through()).filter(|archived| *archived > self.trimmed_through)
    }

    /// Deletes some archived batches. Returns `false` if nothing more may be written.
    fn trim(&mut self, archived: u64) -> bool {
        match self.log.trim_some(archived, TRIMMED_WHEN_IDLE) {
            Ok(more) => {
                self.trim_failed = None;
                if !more {
                    self.trimmed_through = archived;
                }
            }
            Err(error) if log::is_retryable(&error) => {
                tracing::warn!(error = describe(&error), "archived batches are deleted from the log later");
                self.trim_failed = Some(Monotonic::now());
            }
            Err(error) => {
                let error = describe(&error);
                tracing::error!(error, "archived batches can't be deleted; the store writes nothing more");
                self.shared.poison(format!("deleting archived batches failed ({error}); a restart recovers"));
                return false;
            }
        }
        self.checkpoint_if_wanted()
    }

    /// Appends a batch, and deletes some archived ones with it.
    fn append(&mut self, batch: &Batch, previous_sum: u32) -> rusqlite::Result<u32> {
        let Some(archived) = self.untrimmed() else { return self.log.append(batch, previous_sum) };
        let (sum, more) = self.log.append_and_trim(batch, previous_sum, (archived, TRIMMED_PER_COMMIT))?;
        if !more {
            self.trimmed_through = archived;
        }
        Ok(sum)
    }

    /// Makes the checkpoint that is wanted. Returns `false` if nothing more may be written.
    fn checkpoint_if_wanted(&self) -> bool {
        if self.shared.checkpoint_wanted.swap(false, Ordering::Relaxed)
            && let Err(error) = self.log.checkpoint_between_batches()
        {
            return self.shared.checkpoint_failed("the log's", &error);
        }
        true
    }

    /// Writes a batch and its sync marker. Returns the checksum of the batch.
    fn write(&mut self, batch: &Batch, previous_sum: u32) -> Result<u32, String> {
        let sum = self.append(batch, previous_sum).map_err(|error| describe(&error))?;
        fault!("commit.synced" => "a fault point".to_owned());
        let mark = SyncedBatch { batch: batch.number, sum };
        self.marker.write(mark).map_err(|error| error.to_string())?;
        fault!("commit.marked" => "a fault point".to_owned());
        Ok(sum)
    }

    /// Commits a batch. Returns `false` if nothing more may be written.
    fn commit(&mut self, batch: Option<Batch>, previous_sum: u32) -> bool {
        let Some(batch) = batch else {
            self.shared.core().on_empty_commit();
            deliver_answers(&mut self.in_flight);
            return true;
        };
        let begun = Monotonic::now();
        let sum = match self.write(&batch, previous_sum) {
            Ok(sum) => sum,
            Err(error) => {
                tracing::error!(
                    error,
                    batch = batch.number,
                    "a commit failed; the store writes nothing more"
                );
                self.shared.core().poison(format!("a commit failed ({error}); a restart recovers"));
                self.fail_in_flight();
                return false;
            }
        };
        self.commit_seconds.record(begun.elapsed());
        #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
        self.batch_answers.record(self.in_flight.len() as f64);
        self.closed.count(&batch.events);
        self.shared.published.publish(&batch.events);
        self.shared.published.set_newest(batch.next_position() - 1);
        fault!("commit.published");
        self.shared.core().on_committed(sum);
        fault!("answers.due");
        deliver_answers(&mut self.in_flight);
        fault!("answers.delivered");
        // If the indexer has stopped, the backlog grows to its limit and requests are refused. The indexer has logged
        // the reason.
        self.indexer.send(Message::Committed(Box::new(batch), sum));
        true
    }
}

/// Delivers all answers, and then wakes each inbox once.
pub(crate) fn deliver_answers(waiting: impl IntoIterator<Item = PendingAnswer>) {
    let mut inboxes: Vec<Arc<dyn Inbox>> = Vec::new();
    for (reply, answer) in waiting {
        reply.inbox.put(reply.ticket, answer);
        fault!("answer.put");
        if !inboxes.iter().any(|inbox| Arc::ptr_eq(inbox, &reply.inbox)) {
            inboxes.push(reply.inbox);
        }
    }
    for inbox in inboxes {
        inbox.flush();
        fault!("answer.flushed");
    }
}
