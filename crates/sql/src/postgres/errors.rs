//! What an error of PostgreSQL means. Only this file classifies errors. The driver's texts show no password.

use crate::engine::{DbError, OpenError};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError as ServerError, SqlState};

/// Rows that two instances may make at once, there being none to lock: the second runs again and sees the first. Every
/// other row is made under the lock of something that exists, or has an id that nobody else has.
const RACED_FOR: [&str; 4] = ["keys_pkey", "items_pkey", "records_pkey", "limit_counters_pkey"];

/// Violations of constraints, deferred ones at COMMIT.
const CONSTRAINTS: &str = "23";

impl From<Error> for DbError {
    fn from(error: Error) -> Self {
        let text = text_of(&error);
        // Without an answer from the server, it is the connection that failed.
        let Some(code) = error.code() else { return Self::ConnectionLost(text) };
        match *code {
            SqlState::T_R_DEADLOCK_DETECTED | SqlState::T_R_SERIALIZATION_FAILURE => {
                return Self::Deadlock(text);
            }
            SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => return Self::LockTimeout(text),
            // An administrator may grant the rights again.
            SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::INSUFFICIENT_PRIVILEGE => {
                return Self::ConnectionLost(text);
            }
            _ => {}
        }
        if *code == SqlState::UNIQUE_VIOLATION {
            let constraint = error.as_db_error().and_then(ServerError::constraint);
            let raced = constraint.is_some_and(|name| RACED_FOR.contains(&name));
            return if raced { Self::Conflict(text) } else { Self::InvariantViolated(text) };
        }
        // Connection exceptions, a transaction that rested for too long, resources used up, an operator's shutdown, errors of the
        // system.
        let unable = ["08", "25P03", "25P04", "53", "57", "58"];
        if unable.iter().any(|class| code.code().starts_with(class)) {
            return Self::ConnectionLost(text);
        }
        Self::InvariantViolated(text)
    }
}

/// What an error means that the server answered to COMMIT itself. What it checks before it commits proves that it did not;
/// of everything else nobody knows what became of it.
pub(super) fn db_error_at_commit(error: Error) -> DbError {
    let checked_before = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        // Once it has committed, a wait that is cancelled is a warning.
        SqlState::QUERY_CANCELED,
    ];
    let proves = |code: &SqlState| checked_before.contains(code) || code.code().starts_with(CONSTRAINTS);
    if error.code().is_some_and(proves) { error.into() } else { DbError::ConnectionLost(text_of(&error)) }
}

/// Why a connection could not be opened or readied.
pub(super) fn open_error(error: &Error) -> OpenError {
    let text = text_of(error);
    let Some(code) = error.code() else { return OpenError::Unreachable(text) };
    let refused = [
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        SqlState::INVALID_CATALOG_NAME,
    ];
    if refused.contains(code) {
        return OpenError::Refused(text);
    }
    if ["08", "53", "57", "58"].iter().any(|class| code.code().starts_with(class)) {
        return OpenError::Unreachable(text);
    }
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        return OpenError::Unfit(format!(
            "{text}: let this user make the schema `stockhold`, or run `stockhold migrate` as one who may and let this one \
             use it"
        ));
    }
    OpenError::Unfit(text)
}

/// What the database said, or what is behind the driver's word; the whole of it, since "error connecting to server" alone
/// helps nobody.
pub(super) fn text_of(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{} ({})", said.message(), said.code().code());
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}
