//! The state that the threads of a store share: the core under its lock, the queues of the readers, and the published
//! items.

use crate::engine::core::{Admission, Core, PendingRequest};
use crate::engine::published::PublishedItems;
use crate::error::describe;
use crate::index::postings::UnflushedPostings;
use crate::log;
use crate::log::start::LogStart;
use crate::threads::log_starts::LogStarts;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use stockhold_domain::Resource;
use stockhold_store::clock::Clock;
use stockhold_store::{Answer, Failure, Query, QueryResult, ReplyTo};

/// The queues of requests that need a read.
pub(crate) struct Queues {
    pub(crate) reads: SyncSender<(PendingRequest, Resource)>,
    pub(crate) lists: SyncSender<(Query, ReplyTo)>,
}

/// The state that the threads of a store share.
pub(crate) struct Shared {
    core: Mutex<Core>,
    committer: Condvar,
    queues: Mutex<Option<Queues>>,
    pub(crate) published: PublishedItems,
    postings: Arc<Mutex<UnflushedPostings>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stopping: AtomicBool,
    /// Whether the store stops like a crash.
    pub(crate) abandoned: AtomicBool,
    pub(crate) checkpoint_wanted: AtomicBool,
    /// Held during a checkpoint of the log.
    checkpoint_guard: Mutex<()>,
    pub(crate) log_starts: LogStarts,
    /// The batch up to which the index has durably let go of what was archived.
    pub(crate) index_archived: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        core: Core,
        queues: Queues,
        published: PublishedItems,
        postings: Arc<Mutex<UnflushedPostings>>,
        clock: Arc<dyn Clock>,
        log_start: LogStart,
    ) -> Self {
        Self {
            core: Mutex::new(core),
            committer: Condvar::new(),
            queues: Mutex::new(Some(queues)),
            published,
            postings,
            clock,
            stopping: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            checkpoint_wanted: AtomicBool::new(false),
            checkpoint_guard: Mutex::new(()),
            log_starts: LogStarts::new(log_start),
            index_archived: AtomicU64::new(0),
        }
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(poison_half_decided)
    }

    pub(crate) fn wait<'a>(&self, core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        self.committer.wait(core).unwrap_or_else(poison_half_decided)
    }

    pub(crate) fn admit(&self, mut pending: PendingRequest) {
        loop {
            let admitted = self.core().admit(pending, self.clock.now());
            match admitted {
                Admission::Queued => {}
                Admission::Answered(reply, answer) => reply.answer(answer),
                Admission::Read(pending, name) => self.queue_read(pending, name),
                Admission::Yielded(same) => {
                    pending = same;
                    continue;
                }
            }
            return;
        }
    }

    /// Excludes other checkpoints of the log.
    pub(crate) fn checkpoint_lock(&self) -> MutexGuard<'_, ()> {
        self.checkpoint_guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The postings that no run of the index has yet.
    pub(crate) fn unflushed_postings(&self) -> MutexGuard<'_, UnflushedPostings> {
        self.postings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers an answer that was read from memory once it is durable.
    pub(crate) fn answer_when_durable(&self, reply: ReplyTo, found: QueryResult) {
        let settled = self.core().answer_when_durable(reply, Ok(Answer::QueryResult(found)));
        if let Some((reply, answer)) = settled {
            reply.answer(answer);
        }
        self.flush();
    }

    /// Queues a request for the readers.
    pub(crate) fn queue_read(&self, pending: PendingRequest, name: Resource) {
        match self.send(|queues| &queues.reads, (pending, name)) {
            Ok(()) => {}
            Err(((pending, _), failure)) => {
                let (reply, answer) = pending.failed(failure);
                reply.answer(answer);
            }
        }
    }

    /// Answers a query from the published items, or queues it for the readers.
    pub(crate) fn queue_query(&self, query: Query, reply: ReplyTo) {
        if let Query::ItemPage(shelf) = &query {
            let found = QueryResult::ItemPage(self.published.page(shelf));
            return reply.answer(Ok(Answer::QueryResult(found)));
        }
        if let Err(((_, reply), failure)) = self.send(|queues| &queues.lists, (query, reply)) {
            reply.answer(Err(failure));
        }
    }

    fn send<T>(&self, queue: impl Fn(&Queues) -> &SyncSender<T>, what: T) -> Result<(), (T, Failure)> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = match queues.as_ref() {
            Some(queues) => queue(queues).try_send(what),
            None => Err(TrySendError::Disconnected(what)),
        };
        sent.map_err(|error| match error {
            TrySendError::Full(what) => (what, Failure::Overloaded),
            TrySendError::Disconnected(what) => {
                (what, Failure::Unavailable("the store is stopping".to_owned()))
            }
        })
    }

    /// Stops the threads: no request is queued for the readers any more, and the committer takes its last batch.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(self.core());
        self.committer.notify_one();
    }

    pub(crate) fn flush(&self) {
        // The committer is woken after the lock is released, because it needs the lock.
        let wake = self.core().flush();
        if wake {
            self.committer.notify_one();
        }
    }

    /// Wakes the committer, so that it deletes archived batches though there is no batch to commit.
    pub(crate) fn wake_committer(&self) {
        drop(self.core());
        self.committer.notify_one();
    }

    /// Handles a failed checkpoint. Returns `true` if it can be tried again, because the disk is full or another
    /// connection made a checkpoint. After any other failure the disk can't be trusted, and the store is poisoned.
    pub(crate) fn checkpoint_failed(&self, whose: &str, error: &rusqlite::Error) -> bool {
        let is_retryable = log::is_retryable(error);
        if is_retryable {
            tracing::warn!(error = describe(error), "{whose} checkpoint is delayed");
        } else {
            let error = describe(error);
            tracing::error!(error, "{whose} checkpoint failed; the store writes nothing more");
            self.poison(format!("{whose} checkpoint failed ({error}); a restart recovers"));
        }
        is_retryable
    }

    /// Stops all decisions, for this reason.
    pub(crate) fn poison(&self, why: String) {
        self.core().poison(why);
        self.committer.notify_one();
    }
}

/// A thread that panicked under the lock may have left a command half done. Nothing may be decided or committed on top
/// of it.
fn poison_half_decided(broken: PoisonError<MutexGuard<'_, Core>>) -> MutexGuard<'_, Core> {
    let mut core = broken.into_inner();
    core.poison("a thread panicked while it decided a command; a restart recovers".to_owned());
    core
}
