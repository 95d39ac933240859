//! What goes into a store and what comes out of it: a question with the place that its answer is put in, so that nobody
//! waits in a call.

use crate::query::{Query, QueryResult};
use core::fmt;
use std::sync::Arc;
use stockhold_domain::{Envelope, Outcome};

/// Something asked of a store, and where its answer goes.
pub struct Job {
    /// What is asked.
    pub request: Request,
    /// Where the answer goes.
    pub reply: ReplyTo,
}

/// What can be asked of a store.
#[derive(Clone, Debug)]
pub enum Request {
    /// Decide a command and make it durable.
    Command(Box<Envelope>),
    /// Decide commands strictly in this order, each on its own, and make them durable; over several batches where they are
    /// too many for one.
    Commands(Vec<Envelope>),
    /// Read what is durable.
    Query(Query),
}

/// What a store answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To a command: its outcome, durable. Never [`Outcome::Later`].
    Outcome(Outcome),
    /// To commands: what became of each, in their order.
    Outcomes(Vec<Result<Outcome, Failure>>),
    /// To a query.
    QueryResult(QueryResult),
}

/// Why a store could not answer. Never a business refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The queue is full. Nothing was done.
    Overloaded,
    /// The store can't work now. Nothing was done.
    Unavailable(String),
    /// The commit's outcome is unknown: it may have taken effect. A retry with the same key converges.
    OutcomeUnknown,
    /// The state contradicts itself, or a bug: an alarm. Nothing was done.
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

/// Where answers are put. A store puts all answers of a commit and then flushes once, so that a batch costs one wake-up
/// and not one per caller. Neither method may block.
pub trait Inbox: Send + Sync {
    /// Takes the answer to what was asked under `ticket`.
    fn put(&self, ticket: u64, answer: Result<Answer, Failure>);

    /// Wakes whoever reads the inbox.
    fn flush(&self);
}

/// Where one answer goes: exactly one is put for every [`Job`] that a store is given.
#[derive(Clone)]
pub struct ReplyTo {
    /// The asker's inbox.
    pub inbox: Arc<dyn Inbox>,
    /// The asker's number for what was asked.
    pub ticket: u64,
}

impl ReplyTo {
    /// Puts the answer, and flushes: for answers that come alone.
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
