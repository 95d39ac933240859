//! Where work waits for the store's thread. Bounded: that is the backpressure.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use stockhold_store::{Failure, Job, Request};
use tokio::sync::Notify;

/// See the module.
pub(super) struct Mailbox {
    inner: Mutex<Inner>,
    bell: Notify,
    limit: usize,
}

#[derive(Default)]
struct Inner {
    work: VecDeque<Job>,
    /// Commands and queries that no connection has begun on, here or at the store's thread.
    waiting: usize,
    closed: bool,
}

/// How much of the queue a piece of work takes.
pub(super) fn weight(ask: &Request) -> usize {
    match ask {
        Request::Commands(commands) => commands.len(),
        Request::Command(_) | Request::Query(_) => 1,
    }
}

impl Mailbox {
    pub(super) fn new(limit: usize) -> Self {
        Self { inner: Mutex::default(), bell: Notify::new(), limit }
    }

    /// Takes work, or answers why it can't.
    pub(super) fn push(&self, work: Job) {
        let mut inner = self.inner();
        let failure = if inner.closed {
            stopped()
        } else if inner.waiting >= self.limit {
            Failure::Overloaded
        } else {
            inner.waiting += weight(&work.request);
            inner.work.push_back(work);
            return;
        };
        drop(inner);
        work.reply.answer(Err(failure));
    }

    /// Wakes the store's thread.
    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Waits until it is woken.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// All that has come.
    pub(super) fn empty(&self) -> VecDeque<Job> {
        core::mem::take(&mut self.inner().work)
    }

    /// So much no longer waits.
    pub(super) fn begun(&self, weight: usize) {
        let mut inner = self.inner();
        inner.waiting = inner.waiting.saturating_sub(weight);
    }

    /// How much waits.
    pub(super) fn waiting(&self) -> usize {
        self.inner().waiting
    }

    /// Takes no more; what waits is still worked on.
    pub(super) fn close(&self) {
        self.inner().closed = true;
        self.ring();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner().closed
    }

    /// Takes no more, and answers what waits: nobody will work on it.
    pub(super) fn abandon(&self) {
        self.close();
        for work in self.empty() {
            work.reply.answer(Err(stopped()));
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer when nobody works any more.
pub(super) fn stopped() -> Failure {
    Failure::Unavailable("the store has stopped".to_owned())
}
