//! The bounded queue in front of the store's thread. A full queue is the backpressure.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use stockhold_store::{Failure, Job, Request};
use tokio::sync::Notify;

/// See the documentation of the module.
pub(super) struct Mailbox {
    inner: Mutex<Inner>,
    bell: Notify,
    limit: usize,
}

#[derive(Default)]
struct Inner {
    work: VecDeque<Job>,
    /// Commands and queries that no connection works on yet, here or in the dispatcher.
    waiting: usize,
    closed: bool,
}

/// How many places of the queue a request takes.
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

    /// Queues a job, or replies why it can't.
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

    /// Waits for [`Self::ring`].
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Takes all queued jobs.
    pub(super) fn empty(&self) -> VecDeque<Job> {
        core::mem::take(&mut self.inner().work)
    }

    /// `weight` commands or queries no longer wait.
    pub(super) fn begun(&self, weight: usize) {
        let mut inner = self.inner();
        inner.waiting = inner.waiting.saturating_sub(weight);
    }

    /// How many commands and queries wait.
    pub(super) fn waiting(&self) -> usize {
        self.inner().waiting
    }

    /// Refuses new jobs. The queued ones are still done.
    pub(super) fn close(&self) {
        self.inner().closed = true;
        self.ring();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner().closed
    }

    /// Refuses new jobs and the queued ones: the store's thread has ended.
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

/// The reply after the store's thread has ended.
pub(super) fn stopped() -> Failure {
    Failure::Unavailable("the store has stopped".to_owned())
}
