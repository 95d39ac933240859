//! Calls of a session that have a deadline, and what is left of a session after a call failed.

use crate::engine::db_error::{DbError, report_violation};
use crate::engine::dialect::Session;
use core::future::Future;
use core::time::Duration;
use stockhold_store::Failure;

/// Runs a call of a session with a deadline. After the deadline the session can't be used any more.
pub(crate) async fn within_deadline<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, DbError>>,
) -> Result<T, DbError> {
    let late = || Err(DbError::ConnectionLost("the database did not answer in time".to_owned()));
    tokio::time::timeout(deadline, work).await.unwrap_or_else(|_| late())
}

/// The failure to reply after a read failed, and the session if it can still be used. A read changes nothing, so nothing was done.
pub(crate) async fn recover<S: Session>(
    session: S,
    error: DbError,
    deadline: Duration,
) -> (Failure, Option<S>) {
    let failure = match error {
        DbError::ConnectionLost(why) => {
            tracing::warn!(why, "a connection to the database is dropped");
            return (Failure::Unavailable(why), None);
        }
        DbError::InvariantViolated(what) => report_violation(&what),
        DbError::Deadlock(_) | DbError::LockTimeout(_) | DbError::Conflict(_) => Failure::Overloaded,
    };
    (failure, rolled_back(session, deadline).await)
}

/// The session, if it could roll back.
pub(crate) async fn rolled_back<S: Session>(mut session: S, deadline: Duration) -> Option<S> {
    within_deadline(deadline, session.roll_back()).await.is_ok().then_some(session)
}
