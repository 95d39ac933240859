//! Replies: exactly one to every request, and one wake-up for each inbox of a batch.

use std::sync::Arc;
use stockhold_store::{Answer, Failure, Inbox, ReplyTo};

/// A reply that has to be sent. If a panic drops it, it replies that the outcome is unknown.
pub(crate) struct PendingReply(Option<ReplyTo>);

impl PendingReply {
    pub(crate) fn new(reply: ReplyTo) -> Self {
        Self(Some(reply))
    }

    /// Sends the reply, and wakes its inbox.
    pub(crate) fn answer(mut self, answer: Result<Answer, Failure>) {
        if let Some(reply) = self.0.take() {
            reply.answer(answer);
        }
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            reply.answer(Err(Failure::OutcomeUnknown));
        }
    }
}

/// Replies that were put into their inboxes. The inboxes are woken once each, when this is dropped.
#[derive(Default)]
pub(crate) struct ReplyBatch {
    inboxes: Vec<Arc<dyn Inbox>>,
}

impl ReplyBatch {
    pub(crate) fn put(&mut self, mut reply: PendingReply, answer: Result<Answer, Failure>) {
        let Some(reply) = reply.0.take() else { return };
        reply.inbox.put(reply.ticket, answer);
        if !self.inboxes.iter().any(|inbox| Arc::ptr_eq(inbox, &reply.inbox)) {
            self.inboxes.push(reply.inbox);
        }
    }
}

impl Drop for ReplyBatch {
    /// Wakes the inboxes.
    fn drop(&mut self) {
        for inbox in self.inboxes.drain(..) {
            inbox.flush();
        }
    }
}
