//! Fetches the records that commands need and memory does not have: closed reservations and used keys. Also answers the
//! queries that memory can't answer. Both run on threads of their own, so that callers and the committer do not wait
//! for reads. Queries have other threads than commands, because a query may read much.

use crate::customers::{CustomerError, CustomerFile};
use crate::engine::core::{PendingAnswer, PendingRequest};
use crate::error::{IndexError, REBUILD_INDEX};
use crate::index::{closed, find_key};
use crate::threads::lists::ListReader;
use crate::threads::shared::Shared;
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use stockhold_domain::Resource;
use stockhold_store::fault;
use stockhold_store::{Answer, CustomerRequest, Failure, Query, QueryResult, ReplyTo};

/// The number of threads that read for commands.
pub(crate) const READERS: usize = 2;
/// The number of commands that may wait for a read.
pub(crate) const READ_QUEUE: usize = 4_096;
/// The number of threads that answer queries.
pub(crate) const QUERY_READERS: usize = 2;
/// The number of queries that may wait.
pub(crate) const QUERY_QUEUE: usize = 1_024;
const PANICKED: &str = "a reader panicked; a restart recovers";

/// Serves reads for commands until the store stops.
pub(crate) fn serve_reads(
    shared: &Arc<Shared>,
    db: &Connection,
    queue: &Mutex<Receiver<(PendingRequest, Resource)>>,
) {
    while let Some((mut pending, name)) = next(queue) {
        let deciding = pending.reply_handle();
        pending.reads += 1;
        if catch_unwind(AssertUnwindSafe(|| serve(shared, db, pending, &name))).is_err() {
            tracing::error!(?name, "a reader panicked");
            shared.poison(PANICKED.to_owned());
            answer(deciding.failed(Failure::Internal("a reader panicked".to_owned())));
        }
    }
}

/// Answers queries until the store stops.
pub(crate) fn serve_queries(
    shared: &Arc<Shared>,
    lists: &mut ListReader,
    queue: &Mutex<Receiver<(Query, ReplyTo)>>,
) {
    while let Some((query, reply)) = next(queue) {
        if let Query::Customer(request) = &query {
            serve_customer(shared, &lists.customers, request, reply);
            continue;
        }
        match catch_unwind(AssertUnwindSafe(|| lists.find(shared, &query))) {
            Ok(Ok(found @ QueryResult::Reservations(_))) => shared.answer_when_durable(reply, found),
            Ok(Ok(found)) => reply.answer(Ok(Answer::QueryResult(found))),
            Ok(Err(damage)) if damage.is_transient() => {
                tracing::warn!(%damage, ?query, "a query can't be answered now");
                reply.answer(Err(Failure::Unavailable(damage.to_string())));
            }
            Ok(Err(damage)) => {
                tracing::error!(%damage, ?query, "a query can't be answered");
                shared.poison(format!("what is stored is damaged: {damage}"));
                reply.answer(Err(Failure::Internal(format!("what is stored is damaged: {damage}"))));
            }
            Err(_) => {
                tracing::error!(?query, "a reader panicked");
                shared.poison(PANICKED.to_owned());
                reply.answer(Err(Failure::Internal("a reader panicked".to_owned())));
            }
        }
    }
}

/// Reads or changes the row of a customer. A file that can't be trusted any more ends the store, as a log does.
fn serve_customer(shared: &Arc<Shared>, customers: &CustomerFile, request: &CustomerRequest, reply: ReplyTo) {
    let unknown = |what: String| {
        if request.is_write() { Failure::OutcomeUnknown } else { Failure::Unavailable(what) }
    };
    let answer = match catch_unwind(AssertUnwindSafe(|| customers.run(request))) {
        Ok(Ok(found)) => Ok(Answer::QueryResult(QueryResult::Customer(found))),
        Ok(Err(CustomerError::Refused(what))) => {
            tracing::warn!(what, ?request, "a customer can't be read or written now");
            Err(Failure::Unavailable(what))
        }
        Ok(Err(CustomerError::Failed(what))) => {
            tracing::error!(what, ?request, "a customer can't be read or written");
            shared.poison(format!("{what}; a restart recovers"));
            Err(unknown(what))
        }
        Err(_) => {
            tracing::error!(?request, "a reader panicked");
            shared.poison(PANICKED.to_owned());
            Err(unknown("a reader panicked".to_owned()))
        }
    };
    reply.answer(answer);
}

fn next<T>(queue: &Mutex<Receiver<T>>) -> Option<T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Delivers a failure.
fn answer((reply, answer): PendingAnswer) {
    reply.answer(answer);
}

fn serve(shared: &Shared, db: &Connection, mut pending: PendingRequest, name: &Resource) {
    match fetch(db, &mut pending, name) {
        Ok(()) => {
            fault!("read.brought");
            shared.admit(pending);
            shared.flush();
        }
        Err(damage) if damage.is_transient() => {
            tracing::warn!(%damage, ?name, "a record can't be read now");
            answer(pending.failed(Failure::Unavailable(damage.to_string())));
        }
        Err(damage) => {
            tracing::error!(%damage, ?name, "the index can't be read");
            shared.poison(format!("the index is damaged: {damage}; {REBUILD_INDEX}"));
            answer(pending.failed(Failure::Internal(format!("the index is damaged: {damage}"))));
        }
    }
}

fn fetch(db: &Connection, pending: &mut PendingRequest, name: &Resource) -> Result<(), IndexError> {
    match name {
        Resource::Hold(id) => {
            fault!("read.hold" => IndexError::Damaged("a fault point".to_owned()));
            let (hold, as_of) = closed::find(db, *id)?;
            pending.fetched.holds.push((*id, hold, as_of));
        }
        Resource::Key(hash) => {
            fault!("read.key" => IndexError::Damaged("a fault point".to_owned()));
            let (record, as_of) = find_key(db, *hash)?;
            pending.fetched.keys.push((*hash, record, as_of));
        }
        other => return Err(IndexError::Damaged(format!("{other:?} should have been in memory"))),
    }
    Ok(())
}
