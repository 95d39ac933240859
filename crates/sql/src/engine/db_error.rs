//! Errors of a database, and how a broken invariant is reported. A dialect maps its server's errors to [`DbError`].

use crate::engine::meters;
use core::fmt;
use stockhold_store::Failure;

/// An error of a database. The texts are for people and never show a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DbError {
    /// A deadlock or a serialization failure: the server chose this transaction as the victim. Retry a few times after a pause.
    Deadlock(String),
    /// A lock timeout. Retry a few times after a pause.
    LockTimeout(String),
    /// Another instance inserted the same row first, or committed first at another node of a cluster. Retry at once: the next attempt
    /// loads the row.
    Conflict(String),
    /// The connection failed, or the server can't work now. Drop the session.
    ConnectionLost(String),
    /// An assertion of the schema failed, a row can't be decoded, or a statement is wrong: a bug or damage.
    InvariantViolated(String),
}

impl fmt::Display for DbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadlock(what) => write!(f, "deadlock: {what}"),
            Self::LockTimeout(what) => write!(f, "lock timeout: {what}"),
            Self::Conflict(what) => write!(f, "another instance was first: {what}"),
            Self::ConnectionLost(what) => write!(f, "the connection was lost: {what}"),
            Self::InvariantViolated(what) => write!(f, "an assertion failed: {what}"),
        }
    }
}

impl From<stockhold_store::codec::DecodeError> for DbError {
    fn from(error: stockhold_store::codec::DecodeError) -> Self {
        Self::InvariantViolated(error.to_string())
    }
}

/// Logs and counts a violated invariant, once. Returns the failure to reply.
pub(crate) fn report_violation(what: &str) -> Failure {
    tracing::error!(what, "an invariant is broken");
    meters::alarm();
    Failure::Internal(what.to_owned())
}
