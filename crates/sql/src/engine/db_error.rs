//! Errors of a database, and how a broken invariant is reported. A dialect maps its server's errors to [`DbError`].

use crate::engine::meters;
use core::fmt;
use stockhold_store::Failure;

/// What went wrong with a database. Texts are for people and show no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DbError {
    /// Other transactions stood in the way and this one was chosen to give up: wait a moment, run again, a few times.
    Deadlock(String),
    /// A lock was not given in time: likewise.
    LockTimeout(String),
    /// Another instance made the same row first: run again, and see it.
    Conflict(String),
    /// The connection failed, or the server can't work now: nothing more may be asked of this session.
    ConnectionLost(String),
    /// An assertion of the schema fired, a row makes no sense, or a statement is wrong: a bug or damage.
    InvariantViolated(String),
}

impl fmt::Display for DbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadlock(what) => write!(f, "chosen to give way: {what}"),
            Self::LockTimeout(what) => write!(f, "a lock was not given in time: {what}"),
            Self::Conflict(what) => write!(f, "another instance was first: {what}"),
            Self::ConnectionLost(what) => write!(f, "the connection is of no use: {what}"),
            Self::InvariantViolated(what) => write!(f, "an assertion failed: {what}"),
        }
    }
}

impl From<stockhold_store::codec::DecodeError> for DbError {
    fn from(error: stockhold_store::codec::DecodeError) -> Self {
        Self::InvariantViolated(error.to_string())
    }
}

/// Logged and counted here, once, whatever becomes of the answer.
pub(crate) fn report_violation(what: &str) -> Failure {
    tracing::error!(what, "an invariant is broken");
    meters::alarm();
    Failure::Internal(what.to_owned())
}
