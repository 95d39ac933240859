//! Keeps the index behind the log: folds committed batches into chunks and writes those, on a thread and a file of its
//! own, so that no commit waits for it unless it is far behind ([`crate::threads::backpressure`]).

use crate::index::backlog::{Behind, STEP_WEIGHT};
use crate::limits::{HURRIED_WEIGHT, RUN_KEYS};
use crate::log;
use crate::log::batch::Batch;
use crate::threads::idle_priority::Quiet;
use crate::threads::shared::Shared;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Monotonic};
use stockhold_domain::Instant;
use stockhold_store::fault;

/// Events that make a chunk worth writing before its time. The more, the fewer pages are written for each where many items sell
/// evenly; those of holds come to a step by then.
const CHUNK_EVENTS: usize = if fault::ENABLED { 4_096 } else { 32_768 };
/// Longest wait of a chunk.
const CHUNK_AGE: Duration = Duration::from_millis(500);
/// Longest wait of a run: what a start has to read again.
const RUN_AGE: Duration = Duration::from_mins(10);
/// How long a full disk is left alone. Meanwhile what waits grows to its bound in memory.
const FULL_WAIT: Duration = Duration::from_secs(1);

/// How long the indexer naps while batches come: to be woken for each would cost the commits two changes of thread.
const NAP: Duration = Duration::from_millis(10);

/// What the committer tells.
#[derive(Debug)]
pub(crate) enum Message {
    /// This batch is durable, with this checksum.
    Committed(Box<Batch>, u32),
    /// No more is coming: write what there is.
    Stop,
    /// As in a crash: write nothing more.
    Abandon,
}

impl Message {
    fn ends(&self) -> bool {
        !matches!(self, Self::Committed(..))
    }
}

/// Where messages wait for the indexer.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: Vec<Message>,
    /// Whether the indexer has nothing to do and has to be woken.
    asleep: bool,
}

impl Mailbox {
    pub(crate) fn send(&self, message: Message) {
        let last = message.ends();
        let wake = {
            let mut waiting = self.waiting();
            waiting.messages.push(message);
            std::mem::take(&mut waiting.asleep) || last
        };
        if wake {
            self.bell.notify_one();
        }
    }

    /// Takes what waits, after a nap; after a longer one when there was nothing before.
    fn take(&self, busy: bool, messages: &mut Vec<Message>) {
        let mut waiting = self.waiting();
        if !waiting.messages.iter().any(Message::ends) {
            waiting.asleep = !busy && waiting.messages.is_empty();
            let nap = if busy { NAP } else { CHUNK_AGE };
            waiting = self.bell.wait_timeout(waiting, nap).unwrap_or_else(PoisonError::into_inner).0;
            waiting.asleep = false;
        }
        std::mem::swap(&mut waiting.messages, messages);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module.
pub(crate) struct Indexer {
    shared: Arc<Shared>,
    behind: Behind,
    retention: Duration,
    fold_began: Option<Monotonic>,
    keys_began: Option<Monotonic>,
    /// When the disk was found full.
    full: Option<Monotonic>,
    quiet: Quiet,
}

impl Indexer {
    pub(crate) fn new(shared: Arc<Shared>, behind: Behind, retention: Duration) -> Self {
        let quiet = Quiet::new("index-writer");
        let mut indexer =
            Self { shared, behind, retention, fold_began: None, keys_began: None, full: None, quiet };
        indexer.note_ages();
        indexer
    }

    /// Runs until told to stop, or until the index can't be written.
    pub(crate) fn run(mut self, mailbox: &Mailbox) {
        if let Err(error) = self.serve(mailbox) {
            tracing::error!(%error, "the index can't be written");
            self.shared.poison(format!("the index can't be written ({error})"));
        }
    }

    fn serve(&mut self, mailbox: &Mailbox) -> rusqlite::Result<()> {
        let mut messages = Vec::new();
        let mut busy = false;
        loop {
            mailbox.take(busy, &mut messages);
            busy = !messages.is_empty();
            for message in messages.drain(..) {
                match message {
                    Message::Committed(batch, sum) => {
                        fault!("index.told");
                        self.behind.take(*batch, sum);
                        // An end writes all of it itself, or nothing.
                        let stopping = self.shared.stopping.load(Ordering::Acquire);
                        if self.behind.weight() >= STEP_WEIGHT && !stopping {
                            self.keep_up(false)?;
                        }
                    }
                    Message::Abandon => return Ok(()),
                    Message::Stop => {
                        return match self.finish() {
                            Err(error) if log::can_wait(&error) => {
                                tracing::warn!(%error, "the next start reads the rest of the index from the log");
                                Ok(())
                            }
                            other => other,
                        };
                    }
                }
            }
            self.keep_up(!busy)?;
        }
    }

    /// Writes what is due, unless the disk was found full a moment ago.
    fn keep_up(&mut self, idle: bool) -> rusqlite::Result<()> {
        self.note_ages();
        if self.full.is_some_and(|since| since.elapsed() < FULL_WAIT) {
            return Ok(());
        }
        match self.write(idle) {
            Ok(()) => self.full = None,
            Err(error) if log::can_wait(&error) => {
                if self.full.replace(Monotonic::now()).is_none() {
                    tracing::error!(%error, "the index has to wait");
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn note_ages(&mut self) {
        if self.behind.weight() > 0 {
            self.fold_began.get_or_insert_with(Monotonic::now);
        }
        if self.behind.keys() > 0 {
            self.keys_began.get_or_insert_with(Monotonic::now);
        }
    }

    /// Writes what is due.
    fn write(&mut self, idle: bool) -> rusqlite::Result<()> {
        let old = |began: Option<Monotonic>, age| began.is_some_and(|began| began.elapsed() >= age);
        let chunk = old(self.fold_began, CHUNK_AGE)
            || self.behind.events() >= CHUNK_EVENTS
            || self.behind.weight() >= STEP_WEIGHT;
        if chunk {
            self.write_chunk()?;
            self.checkpoint()?;
        }
        if old(self.keys_began, RUN_AGE) || self.behind.keys() >= RUN_KEYS {
            self.write_runs()?;
        }
        if chunk || idle {
            self.tend(idle)?;
        }
        if idle {
            self.behind.rest();
        }
        Ok(())
    }

    /// Takes a step of the work: behind the requests, unless too much waits, with what the committer has told since, or the
    /// store stops.
    fn step<T: Send>(
        &mut self,
        mut work: impl FnMut(&mut Behind) -> rusqlite::Result<T> + Send,
    ) -> rusqlite::Result<T> {
        let shared = &self.shared;
        let far = || shared.core().unindexed() > HURRIED_WEIGHT;
        let at_once = far();
        let behind = &mut self.behind;
        let flag = Arc::clone(&behind.index.pace.given_up);
        // Not an interrupt, which could meet the write's being taken back.
        let give_up = || flag.store(true, Ordering::Relaxed);
        let hurried = || shared.stopping.load(Ordering::Acquire) || far();
        let done = self.quiet.run(give_up, hurried, |anew| {
            let pace = &mut behind.index.pace;
            pace.hurried = at_once || anew;
            pace.given_up.store(false, Ordering::Relaxed);
            work(behind)
        });
        // It may have ended before it noticed.
        flag.store(false, Ordering::Relaxed);
        done
    }

    /// Copies the index's write-ahead log, likewise.
    fn checkpoint(&mut self) -> rusqlite::Result<()> {
        let (shared, behind) = (&self.shared, &mut self.behind);
        let interrupt = behind.index.db.get_interrupt_handle();
        let hurried =
            || shared.stopping.load(Ordering::Acquire) || shared.core().unindexed() > HURRIED_WEIGHT;
        self.quiet.run(|| interrupt.interrupt(), hurried, move |_| behind.checkpoint())
    }

    /// Writes everything.
    fn finish(&mut self) -> rusqlite::Result<()> {
        fault!("stop.index" => log::failing_disk());
        // One more chunk when the one before it had to wait.
        while self.behind.weight() > 0 {
            self.write_chunk()?;
        }
        self.write_runs()?;
        fault!("stop.index_checkpoint" => log::failing_disk());
        log::checkpoint(&self.behind.index.db, "TRUNCATE")?;
        Ok(())
    }

    fn write_chunk(&mut self) -> rusqlite::Result<()> {
        self.behind.make_ready(|key| self.shared.published.get(key));
        if let Some((batch, weight)) = self.step(Behind::write_ready)? {
            fault!("index.forgetting");
            self.shared.core().indexed(batch, weight);
        }
        self.fold_began = None;
        self.note_ages();
        Ok(())
    }

    fn write_runs(&mut self) -> rusqlite::Result<()> {
        let mut mentions = self.behind.waiting_mentions();
        let count = mentions.len();
        if self.step(|behind| behind.write_runs_with(&mut mentions))? {
            self.behind.forget_mentions(count);
            fault!("runs.forgetting");
            self.forget_keys();
        }
        self.keys_began = None;
        Ok(())
    }

    fn forget_keys(&self) {
        let dropped = self.shared.core().keyed(self.behind.index.position.keyed, self.behind.filters());
        drop(dropped);
    }

    fn tend(&mut self, idle: bool) -> rusqlite::Result<()> {
        // Merging writes before it deletes.
        let may_merge = self.shared.core().no_reserves.is_none();
        let retire_before = retire_before(self.shared.clock.now(), self.retention);
        // Where nobody reserves it is little, and not worth a thread.
        let tended = if idle {
            self.behind.tend(retire_before, may_merge)
        } else {
            self.step(|behind| behind.tend(retire_before, may_merge))
        };
        if tended? {
            self.forget_keys();
        }
        Ok(())
    }
}

/// Keys that were used before this instant, in microseconds, are kept no longer.
pub(crate) fn retire_before(now: Instant, retention: Duration) -> i64 {
    now.micros().saturating_sub(i64::try_from(retention.as_micros()).unwrap_or(i64::MAX))
}
