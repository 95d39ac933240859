//! Keeps the index close behind the log. It folds committed batches into chunks and writes the chunks, on a thread and
//! a file of its own. No commit waits for it unless it is far behind (see `threads/backpressure.rs`).

use crate::error::describe;
use crate::index::backlog::{INDEX_STEP_WEIGHT, IndexBacklog};
use crate::limits::{RUN_KEYS, URGENT_WEIGHT};
use crate::log;
use crate::log::batch::Batch;
use crate::log::start::LogStart;
use crate::threads::idle_priority::IdlePriorityRunner;
use crate::threads::shared::Shared;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Monotonic};
use stockhold_domain::{Instant, ReservationId};
use stockhold_store::fault;

/// The number of events after which a chunk is written before its time. With more events, fewer pages are written for
/// each event when many items sell evenly. Events of holds reach `INDEX_STEP_WEIGHT` before this number.
const CHUNK_EVENTS: usize = if fault::ENABLED { 4_096 } else { 32_768 };
/// The longest time that a chunk waits.
const CHUNK_AGE: Duration = Duration::from_millis(500);
/// The longest time that a run waits. A start reads this part of the log again.
const RUN_AGE: Duration = Duration::from_mins(10);
/// The archived reservations that are deleted in one transaction.
const FORGOTTEN_AT_ONCE: usize = 4_096;
/// The delay after a full disk. In this time the backlog grows in memory, up to its limit.
const FULL_DISK_RETRY: Duration = Duration::from_secs(1);

/// How long the indexer waits for more batches while batches arrive. Waking it for every batch would cost each commit
/// two context switches.
const BATCHING_DELAY: Duration = Duration::from_millis(10);

/// A message of the committer.
#[derive(Debug)]
pub(crate) enum Message {
    /// The batch is durable and has this checksum.
    Committed(Box<Batch>, u32),
    /// Write the keys and postings that wait, because what was archived is among them.
    WriteRuns,
    /// These closed reservations were archived, with the batches up to this start of the log.
    Archived(Vec<ReservationId>, Box<LogStart>),
    /// The last message: write everything.
    Stop,
    /// The last message, like a crash: write nothing more.
    Abandon,
}

impl Message {
    fn is_last(&self) -> bool {
        matches!(self, Self::Stop | Self::Abandon)
    }
}

/// The queue of messages for the indexer.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    waiting: Mutex<MailboxState>,
    wakeup: Condvar,
}

#[derive(Debug, Default)]
struct MailboxState {
    messages: Vec<Message>,
    /// Whether the indexer has nothing to do and has to be woken.
    asleep: bool,
}

impl Mailbox {
    pub(crate) fn send(&self, message: Message) {
        let last = message.is_last();
        let wake = {
            let mut waiting = self.waiting();
            waiting.messages.push(message);
            std::mem::take(&mut waiting.asleep) || last
        };
        if wake {
            self.wakeup.notify_one();
        }
    }

    /// Takes all messages after a short wait, or after a longer wait if nothing arrived before.
    fn receive(&self, busy: bool, messages: &mut Vec<Message>) {
        let mut waiting = self.waiting();
        if !waiting.messages.iter().any(Message::is_last) {
            waiting.asleep = !busy && waiting.messages.is_empty();
            let delay = if busy { BATCHING_DELAY } else { CHUNK_AGE };
            waiting = self.wakeup.wait_timeout(waiting, delay).unwrap_or_else(PoisonError::into_inner).0;
            waiting.asleep = false;
        }
        std::mem::swap(&mut waiting.messages, messages);
    }

    fn waiting(&self) -> MutexGuard<'_, MailboxState> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that writes the index.
pub(crate) struct Indexer {
    shared: Arc<Shared>,
    backlog: IndexBacklog,
    retention: Duration,
    chunk_started: Option<Monotonic>,
    run_started: Option<Monotonic>,
    /// When the disk was found full.
    full_since: Option<Monotonic>,
    /// Closed reservations that were archived and are still in the index, and where the log starts without them.
    archived: Option<(Vec<ReservationId>, LogStart)>,
    runs_wanted: bool,
    runner: IdlePriorityRunner,
}

impl Indexer {
    pub(crate) fn new(shared: Arc<Shared>, backlog: IndexBacklog, retention: Duration) -> Self {
        let runner = IdlePriorityRunner::new("index-writer");
        let mut indexer = Self {
            shared,
            backlog,
            retention,
            chunk_started: None,
            run_started: None,
            full_since: None,
            archived: None,
            runs_wanted: false,
            runner,
        };
        indexer.start_timers();
        indexer
    }

    /// Runs until it gets the last message, or until the index can't be written.
    pub(crate) fn run(mut self, mailbox: &Mailbox) {
        if let Err(error) = self.serve(mailbox) {
            let error = describe(&error);
            tracing::error!(error, "the index can't be written");
            self.shared.poison(format!("the index can't be written ({error})"));
        }
    }

    fn serve(&mut self, mailbox: &Mailbox) -> rusqlite::Result<()> {
        let mut messages = Vec::new();
        let mut busy = false;
        loop {
            mailbox.receive(busy, &mut messages);
            busy = !messages.is_empty();
            for message in messages.drain(..) {
                match message {
                    Message::Committed(batch, sum) => {
                        fault!("index.told");
                        self.backlog.add_batch(*batch, sum);
                        // Skipped at a stop: `finish` writes everything, and `Abandon` writes nothing.
                        let stopping = self.shared.stopping.load(Ordering::Acquire);
                        if self.backlog.weight() >= INDEX_STEP_WEIGHT && !stopping {
                            self.write_if_due(false)?;
                        }
                    }
                    Message::WriteRuns => self.runs_wanted = true,
                    Message::Archived(gone, start) => self.archived = Some((gone, *start)),
                    Message::Abandon => return Ok(()),
                    Message::Stop => {
                        return match self.finish() {
                            Err(error) if log::is_retryable(&error) => {
                                tracing::warn!(
                                    error = describe(&error),
                                    "the next start reads the rest of the index from the log"
                                );
                                Ok(())
                            }
                            other => other,
                        };
                    }
                }
            }
            self.write_if_due(!busy)?;
        }
    }

    /// Writes what is due, unless the disk was full a moment ago.
    fn write_if_due(&mut self, idle: bool) -> rusqlite::Result<()> {
        self.start_timers();
        if self.full_since.is_some_and(|since| since.elapsed() < FULL_DISK_RETRY) {
            return Ok(());
        }
        match self.write(idle) {
            Ok(()) => self.full_since = None,
            Err(error) if log::is_retryable(&error) => {
                if self.full_since.replace(Monotonic::now()).is_none() {
                    tracing::error!(
                        error = describe(&error),
                        "the index can't be written now; the write is tried again"
                    );
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn start_timers(&mut self) {
        if self.backlog.weight() > 0 {
            self.chunk_started.get_or_insert_with(Monotonic::now);
        }
        if self.backlog.keys() > 0 {
            self.run_started.get_or_insert_with(Monotonic::now);
        }
    }

    /// Writes what is due.
    fn write(&mut self, idle: bool) -> rusqlite::Result<()> {
        let old = |began: Option<Monotonic>, age| began.is_some_and(|began| began.elapsed() >= age);
        let chunk = old(self.chunk_started, CHUNK_AGE)
            || self.backlog.events() >= CHUNK_EVENTS
            || self.backlog.weight() >= INDEX_STEP_WEIGHT;
        if chunk {
            self.write_chunk()?;
            self.checkpoint()?;
        }
        if old(self.run_started, RUN_AGE) || self.backlog.keys() >= RUN_KEYS || self.runs_wanted {
            self.write_runs()?;
            self.runs_wanted = false;
        }
        self.forget_archived()?;
        if chunk || idle {
            self.compact(idle)?;
        }
        if idle {
            self.backlog.release_buffers();
        }
        Ok(())
    }

    /// Runs a step of the work at idle priority. It runs at normal priority if the index lacks too much or the store
    /// stops.
    fn run_step<T: Send>(
        &mut self,
        mut work: impl FnMut(&mut IndexBacklog) -> rusqlite::Result<T> + Send,
    ) -> rusqlite::Result<T> {
        let shared = &self.shared;
        let far = || shared.core().unindexed() > URGENT_WEIGHT;
        let at_once = far();
        let backlog = &mut self.backlog;
        let flag = Arc::clone(&backlog.index.throttle.cancelled);
        // A flag is used instead of an interrupt of SQLite, because an interrupt could also abort the rollback.
        let cancel = || flag.store(true, Ordering::Relaxed);
        let urgent = || shared.stopping.load(Ordering::Acquire) || far();
        let done = self.runner.run(cancel, urgent, |anew| {
            let throttle = &mut backlog.index.throttle;
            throttle.urgent = at_once || anew;
            throttle.cancelled.store(false, Ordering::Relaxed);
            work(backlog)
        });
        // The work may have ended before it read the flag.
        flag.store(false, Ordering::Relaxed);
        done
    }

    /// Copies the write-ahead log of the index at idle priority.
    fn checkpoint(&mut self) -> rusqlite::Result<()> {
        let (shared, backlog) = (&self.shared, &mut self.backlog);
        let interrupt = backlog.index.db.get_interrupt_handle();
        let urgent = || shared.stopping.load(Ordering::Acquire) || shared.core().unindexed() > URGENT_WEIGHT;
        self.runner.run(|| interrupt.interrupt(), urgent, move |_| backlog.checkpoint())
    }

    /// Writes everything at a stop.
    fn finish(&mut self) -> rusqlite::Result<()> {
        fault!("stop.index" => log::injected_error());
        // There are two chunks if the earlier chunk could not be written.
        while self.backlog.weight() > 0 {
            self.write_chunk()?;
        }
        self.write_runs()?;
        fault!("stop.index_checkpoint" => log::injected_error());
        log::checkpoint(&self.backlog.index.db, "TRUNCATE")?;
        Ok(())
    }

    fn write_chunk(&mut self) -> rusqlite::Result<()> {
        self.backlog.seal_chunk(|key| self.shared.published.get(key));
        if let Some((batch, weight)) = self.run_step(IndexBacklog::write_sealed_chunk)? {
            fault!("index.forgetting");
            self.shared.core().on_indexed(batch, weight);
        }
        self.chunk_started = None;
        self.start_timers();
        Ok(())
    }

    fn write_runs(&mut self) -> rusqlite::Result<()> {
        let mut postings = self.backlog.clone_postings();
        let count = postings.len();
        if self.run_step(|backlog| backlog.write_runs_with(&mut postings))? {
            self.backlog.remove_flushed_postings(count);
            fault!("runs.forgetting");
            self.forget_keys();
        }
        self.run_started = None;
        Ok(())
    }

    /// Deletes what was archived, once nobody reads the log from an earlier start. The first pieces are transactions of their own, so
    /// that none is long; a crash in between leaves the rest, which a start deletes.
    fn forget_archived(&mut self) -> rusqlite::Result<()> {
        let Some((gone, start)) = self.archived.take() else { return Ok(()) };
        if self.shared.log_starts.unread_through() < start.head.number {
            self.archived = Some((gone, start));
            return Ok(());
        }
        let (archived, keys_before) = (start.head.number, start.keys_dropped_before());
        let mut forget = || {
            for some in gone.chunks(FORGOTTEN_AT_ONCE) {
                self.run_step(|backlog| backlog.index.delete_closed(some))?;
            }
            self.run_step(|backlog| backlog.index.forget_archived(&[], archived, keys_before))?;
            log::checkpoint(&self.backlog.index.db, "PASSIVE")
        };
        match forget() {
            Ok(0) => self.shared.index_archived.store(archived, Ordering::Release),
            // A power cut may still bring them back. The base keeps their list until the next step.
            Ok(_) => {}
            Err(error) => {
                self.archived = Some((gone, start));
                return Err(error);
            }
        }
        let left = self.shared.core().memory.end_leaving(archived);
        drop(left);
        self.shared.wake_committer();
        Ok(())
    }

    fn forget_keys(&self) {
        let dropped =
            self.shared.core().on_keys_indexed(self.backlog.index.state.keyed, self.backlog.filters());
        drop(dropped);
    }

    fn compact(&mut self, idle: bool) -> rusqlite::Result<()> {
        // A merge writes new pages before it deletes old ones, so it needs free space.
        let may_merge = self.shared.core().reserve_refusal.is_none();
        let retire_before = retire_before(self.shared.clock.now(), self.retention);
        // When no requests arrive there is little to do, which is not worth a thread.
        let tended = if idle {
            self.backlog.compact(retire_before, may_merge)
        } else {
            self.run_step(|backlog| backlog.compact(retire_before, may_merge))
        };
        if tended? {
            self.forget_keys();
        }
        Ok(())
    }
}

/// Keys that were used before this time, in microseconds, are not kept any longer.
pub(crate) fn retire_before(now: Instant, retention: Duration) -> i64 {
    now.micros().saturating_sub(i64::try_from(retention.as_micros()).unwrap_or(i64::MAX))
}
