//! What an error of PostgreSQL means. Only this file classifies errors. The driver's texts show no password.

use super::pooler;
use crate::engine::{DbError, OpenError};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError as ServerError, SqlState};

/// Rows that two instances may make at once, there being none to lock: the second runs again and sees the first. Every
/// other row is made under the lock of something that exists, or has an id that nobody else has.
const RACED_FOR: [&str; 4] = ["keys_pkey", "items_pkey", "records_pkey", "limit_counters_pkey"];

/// How Citus says that it has lost a worker where the code does not.
const LOST_WORKER: [&str; 3] =
    ["failure on connection marked as essential", "connection not open", "server closed the connection"];

/// The name of the unique constraint that was violated. Citus names the constraint of a worker in the message only, and sometimes
/// reports it with the code of an internal error.
fn violated_unique(error: &ServerError) -> Option<&str> {
    let named = error.constraint().or_else(|| constraint_in(error.message()));
    match *error.code() {
        SqlState::UNIQUE_VIOLATION => Some(named.unwrap_or_default()),
        SqlState::INTERNAL_ERROR => constraint_in(error.message()),
        _ => None,
    }
}

fn constraint_in(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("duplicate key value violates unique constraint \"")?;
    rest.split_once('"').map(|(name, _)| name)
}

/// Whether a message is about a shard, whose name ends in its number.
fn names_shard(message: &str) -> bool {
    let name = message.split('"').nth(1).unwrap_or_default();
    without_shard(name) != name
}

/// Whether a shard was split, or moved and dropped, after the statement was planned.
fn lost_shard(code: &SqlState, message: &str) -> bool {
    match *code {
        SqlState::UNDEFINED_TABLE => names_shard(message),
        SqlState::INTERNAL_ERROR => message.starts_with("could not find valid entry for shard"),
        _ => false,
    }
}

/// The name of a constraint without the number of its shard, which Citus adds.
fn without_shard(constraint: &str) -> &str {
    match constraint.rsplit_once('_') {
        Some((name, shard)) if !shard.is_empty() && shard.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => constraint,
    }
}

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
            // A statement that this connection has prepared is missing, or one of its name is there that another connection has
            // prepared, with other parameters. Nothing was executed.
            SqlState::UNDEFINED_PSTATEMENT
            | SqlState::DUPLICATE_PSTATEMENT
            | SqlState::DATATYPE_MISMATCH
            | SqlState::INVALID_BINARY_REPRESENTATION => {
                pooler::session_changed(&text);
                return Self::ConnectionLost(text);
            }
            _ => {}
        }
        if let Some(constraint) = error.as_db_error().and_then(violated_unique) {
            let raced = RACED_FOR.contains(&without_shard(constraint));
            return if raced { Self::Conflict(text) } else { Self::InvariantViolated(text) };
        }
        if lost_shard(code, &text) {
            return Self::Deadlock(text);
        }
        // Citus hides some errors of its workers behind a code of its own. What they say is that a worker is gone.
        if *code == SqlState::INTERNAL_ERROR && LOST_WORKER.iter().any(|said| text.contains(said)) {
            return Self::ConnectionLost(text);
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
    if matches!(*code, SqlState::UNDEFINED_PSTATEMENT | SqlState::DUPLICATE_PSTATEMENT) {
        return pooler::unfit(&text);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constraint_of_a_shard_is_that_of_its_table() {
        assert_eq!(without_shard("keys_pkey_102120"), "keys_pkey");
        assert_eq!(without_shard("keys_pkey"), "keys_pkey");
        assert_eq!(without_shard("keys_"), "keys_");
        assert!(names_shard("relation \"stockhold.items_102009\" does not exist (42P01)"));
        assert!(!names_shard("relation \"stockhold.items\" does not exist (42P01)"));
        let said = "could not find valid entry for shard 102384 (XX000)";
        assert!(lost_shard(&SqlState::INTERNAL_ERROR, said) && !lost_shard(&SqlState::SYNTAX_ERROR, said));
    }

    #[test]
    fn a_hidden_violation_is_read_from_the_message() {
        let said = "duplicate key value violates unique constraint \"keys_pkey_102120\"";
        assert_eq!(constraint_in(said).map(without_shard), Some("keys_pkey"));
        assert_eq!(constraint_in("something else"), None);
    }
}
