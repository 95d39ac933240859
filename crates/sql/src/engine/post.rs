//! Answers: exactly one for everything that was asked, and one wake-up for each inbox of a batch.

use std::sync::Arc;
use stockhold_store::{Answer, Failure, Inbox, ReplyTo};

/// An answer that is owed. One that is dropped, which only a panic does, says that the outcome is unknown.
pub(super) struct Owed(Option<ReplyTo>);

impl Owed {
    pub(super) fn new(reply: ReplyTo) -> Self {
        Self(Some(reply))
    }

    /// Answers by itself.
    pub(super) fn answer(mut self, answer: Result<Answer, Failure>) {
        if let Some(reply) = self.0.take() {
            reply.answer(answer);
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            reply.answer(Err(Failure::OutcomeUnknown));
        }
    }
}

/// Answers put, and the inboxes to wake for them: each once.
#[derive(Default)]
pub(super) struct Post {
    inboxes: Vec<Arc<dyn Inbox>>,
}

impl Post {
    pub(super) fn put(&mut self, mut owed: Owed, answer: Result<Answer, Failure>) {
        let Some(reply) = owed.0.take() else { return };
        reply.inbox.put(reply.ticket, answer);
        if !self.inboxes.iter().any(|inbox| Arc::ptr_eq(inbox, &reply.inbox)) {
            self.inboxes.push(reply.inbox);
        }
    }
}

impl Drop for Post {
    /// Wakes whoever was written to.
    fn drop(&mut self) {
        for inbox in self.inboxes.drain(..) {
            inbox.flush();
        }
    }
}
