//! Why an attempt at a batch stopped short of its commit, and what an error of the database means. Errors are told apart
//! here and nowhere else.

use stockhold_store::Failure;
use stockhold_store::codec::DecodeError;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

/// Why an attempt stopped. Nothing of it was committed.
#[derive(Debug)]
pub(super) enum Stop {
    /// The rules asked for what was not loaded; it is in the plan now.
    Missing,
    /// A command, by its number within the attempt, found the state to contradict itself.
    Broken(usize, &'static str),
    /// A row makes no sense, or an assertion failed.
    Damaged(String),
    /// The database answered with an error, or not at all.
    Database(Error),
    /// There is nothing to be done about it, and the connection is in order or dropped.
    Failed(Failure),
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

/// What to do about an error of the database that came before COMMIT was sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cure {
    /// Another transaction was in the way: wait a moment, run again, a few times.
    Wait,
    /// Another instance made the same row first: run again, and see it.
    Again,
    /// The database can't be reached or can't work now.
    Reconnect,
    /// An assertion of the schema fired, or a statement is wrong: a bug.
    Alarm,
}

/// Rows that two instances may make at once, there being none to lock: the second runs again and sees the first. Every
/// other row is made under the lock of something that exists, or has an id that nobody else has.
const RACED_FOR: [&str; 2] = ["keys_pkey", "items_pkey"];

pub(super) fn cure(error: &Error) -> Cure {
    // Without an answer from the server, it is the connection that failed.
    let Some(code) = error.code() else { return Cure::Reconnect };
    let in_the_way = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
    ];
    if in_the_way.contains(code) {
        return Cure::Wait;
    }
    if *code == SqlState::UNIQUE_VIOLATION {
        let constraint = error.as_db_error().and_then(DbError::constraint);
        let raced = constraint.is_some_and(|name| RACED_FOR.contains(&name));
        return if raced { Cure::Again } else { Cure::Alarm };
    }
    // Connection exceptions, resources used up, an operator's shutdown, errors of the system, a server that has
    // become read-only.
    let unable = ["08", "53", "57", "58"];
    if unable.iter().any(|class| code.code().starts_with(class))
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
    {
        return Cure::Reconnect;
    }
    Cure::Alarm
}
