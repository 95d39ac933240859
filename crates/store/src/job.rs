//! Requests to a store and their answers. A request carries the inbox that its answer is put into, so that no caller blocks
//! in a call.

use crate::query::{Query, QueryResult};
use core::fmt;
use std::sync::Arc;
use stockhold_domain::{Envelope, Outcome};

/// A request and the inbox for its answer.
pub struct Job {
    /// The request.
    pub request: Request,
    /// The inbox for the answer.
    pub reply: ReplyTo,
}

/// A request to a store.
#[derive(Clone, Debug)]
pub enum Request {
    /// Decide a command and make it durable.
    Command(Box<Envelope>),
    /// Decide commands strictly in this order and make them durable. Each succeeds or fails on its own. They are spread over
    /// several batches when they do not fit into one.
    Commands(Vec<Envelope>),
    /// Read durable state.
    Query(Query),
}

/// The answer of a store to a [`Request`].
#[derive(Clone, Debug)]
pub enum Answer {
    /// Outcome of a command. It is durable and never [`Outcome::Later`].
    Outcome(Outcome),
    /// Outcomes of several commands, in the order of the commands.
    Outcomes(Vec<Result<Outcome, Failure>>),
    /// Result of a query.
    QueryResult(QueryResult),
}

/// Why a store could not answer. A refusal by a business rule is an [`Outcome`], never a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The queue is full. Nothing was done.
    Overloaded,
    /// The store does not work at the moment. Nothing was done.
    Unavailable(String),
    /// The commit may or may not have taken effect. A retry with the same idempotency key is safe.
    OutcomeUnknown,
    /// An invariant does not hold, because of damaged state or a bug. Nothing was done. It should raise an alarm.
    Internal(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overloaded => f.write_str("the queue is full"),
            Self::Unavailable(why) => write!(f, "the store is unavailable: {why}"),
            Self::OutcomeUnknown => f.write_str("the commit's outcome is unknown"),
            Self::Internal(what) => write!(f, "an invariant is broken: {what}"),
        }
    }
}

impl std::error::Error for Failure {}

/// A queue of answers. A store puts all answers of a commit and then flushes once, so that a batch wakes the reader once
/// and not once per answer. Neither method may block.
pub trait Inbox: Send + Sync {
    /// Adds the answer to the request with this ticket.
    fn put(&self, ticket: u64, answer: Result<Answer, Failure>);

    /// Wakes the reader of the inbox.
    fn flush(&self);
}

/// The address of one answer. A store puts exactly one answer for every [`Job`].
#[derive(Clone)]
pub struct ReplyTo {
    /// The caller's inbox.
    pub inbox: Arc<dyn Inbox>,
    /// The caller's number for the request.
    pub ticket: u64,
}

impl ReplyTo {
    /// Puts the answer and flushes the inbox: for an answer that is not one of a batch.
    pub fn answer(self, answer: Result<Answer, Failure>) {
        self.inbox.put(self.ticket, answer);
        self.inbox.flush();
    }
}

impl fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyTo({})", self.ticket)
    }
}
