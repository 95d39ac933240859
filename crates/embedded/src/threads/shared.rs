//! What the store's threads share: the core under its lock, the queues of the readers, the published items.

use crate::engine::core::{Admitted, Core, Pending};
use crate::engine::published::Published;
use crate::index::postings::UnflushedPostings;
use crate::log;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use stockhold_domain::Resource;
use stockhold_store::clock::Clock;
use stockhold_store::{Answer, Failure, Query, QueryResult, ReplyTo};

/// Where what needs a read waits for its reader.
pub(crate) struct Queues {
    pub(crate) reads: SyncSender<(Pending, Resource)>,
    pub(crate) lists: SyncSender<(Query, ReplyTo)>,
}

/// What the store's threads share.
pub(crate) struct Shared {
    core: Mutex<Core>,
    committer: Condvar,
    queues: Mutex<Option<Queues>>,
    pub(crate) published: Published,
    mentions: Arc<Mutex<UnflushedPostings>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stopping: AtomicBool,
    /// Whether the stop is to look like a crash.
    pub(crate) abandoned: AtomicBool,
    pub(crate) checkpoint_wanted: AtomicBool,
    /// Held while the log is copied.
    copying: Mutex<()>,
}

impl Shared {
    pub(crate) fn new(
        core: Core,
        queues: Queues,
        published: Published,
        mentions: Arc<Mutex<UnflushedPostings>>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            core: Mutex::new(core),
            committer: Condvar::new(),
            queues: Mutex::new(Some(queues)),
            published,
            mentions,
            clock,
            stopping: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            checkpoint_wanted: AtomicBool::new(false),
            copying: Mutex::new(()),
        }
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(half_decided)
    }

    pub(crate) fn wait<'a>(&self, core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        self.committer.wait(core).unwrap_or_else(half_decided)
    }

    pub(crate) fn admit(&self, mut pending: Pending) {
        loop {
            let admitted = self.core().admit(pending, self.clock.now());
            match admitted {
                Admitted::Waits => {}
                Admitted::Answered(reply, answer) => reply.answer(answer),
                Admitted::Read(pending, name) => self.read(pending, name),
                Admitted::GoesOn(same) => {
                    pending = same;
                    continue;
                }
            }
            return;
        }
    }

    /// Keeps others from copying the log.
    pub(crate) fn copying(&self) -> MutexGuard<'_, ()> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Mentions that no run of the index has yet.
    pub(crate) fn fresh(&self) -> MutexGuard<'_, UnflushedPostings> {
        self.mentions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an answer that was made of what memory knows, once that is durable.
    pub(crate) fn settle(&self, reply: ReplyTo, found: QueryResult) {
        let settled = self.core().settle(reply, Ok(Answer::QueryResult(found)));
        if let Some((reply, answer)) = settled {
            reply.answer(answer);
        }
        self.flush();
    }

    /// Hands something to the readers.
    pub(crate) fn read(&self, pending: Pending, name: Resource) {
        match self.send(|queues| &queues.reads, (pending, name)) {
            Ok(()) => {}
            Err(((pending, _), failure)) => {
                let (reply, answer) = pending.failed(failure);
                reply.answer(answer);
            }
        }
    }

    /// Answers a query from what is published, or hands it to the readers.
    pub(crate) fn query(&self, query: Query, reply: ReplyTo) {
        if let Query::ItemPage(shelf) = &query {
            let found = QueryResult::ItemPage(self.published.shelf(shelf));
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

    /// Has the threads stop: nothing more is handed to the readers, and the committer takes what there is.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(self.core());
        self.committer.notify_one();
    }

    pub(crate) fn flush(&self) {
        // Woken under the lock, the committer would run into it.
        let wake = self.core().flush();
        if wake {
            self.committer.notify_one();
        }
    }

    /// A checkpoint failed: one that ran out of room or met another can be made later, which `true` says. After any other
    /// failure the disk is not to be trusted, and the store is poisoned.
    pub(crate) fn checkpoint_failed(&self, whose: &str, error: &rusqlite::Error) -> bool {
        let can_wait = log::can_wait(error);
        if can_wait {
            tracing::warn!(%error, "{whose} checkpoint has to wait");
        } else {
            tracing::error!(%error, "{whose} checkpoint failed; nothing more is written");
            self.poison(format!("{whose} checkpoint failed ({error}); a restart recovers"));
        }
        can_wait
    }

    /// Nothing is decided any more, for this reason.
    pub(crate) fn poison(&self, why: String) {
        self.core().poison(why);
        self.committer.notify_one();
    }
}

/// Whoever panicked under the lock has left half a command behind: nothing is decided or committed on top of it.
fn half_decided(broken: PoisonError<MutexGuard<'_, Core>>) -> MutexGuard<'_, Core> {
    let mut core = broken.into_inner();
    core.poison("a thread panicked while it decided; a restart recovers".to_owned());
    core
}
