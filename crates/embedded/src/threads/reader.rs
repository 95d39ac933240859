//! Brings what commands need and memory lacks, closed reservations and used keys, and answers queries that memory can't.
//! On threads of its own, so that neither the callers' threads nor the committer wait for a read; and queries that may
//! read much on others than commands wait for.

use crate::engine::core::{Pending, Waiting};
use crate::error::Damage;
use crate::index::{find_closed, find_key};
use crate::threads::lists::Lists;
use crate::threads::shared::Shared;
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use stockhold_domain::Resource;
use stockhold_store::fault;
use stockhold_store::{Answer, Failure, Query, QueryResult, ReplyTo};

/// Threads that read for commands.
pub(crate) const READERS: usize = 2;
/// Commands that may wait for a read.
pub(crate) const READ_QUEUE: usize = 4_096;
/// Threads that answer queries.
pub(crate) const LISTERS: usize = 2;
/// Queries that may wait.
pub(crate) const LIST_QUEUE: usize = 1_024;
const PANICKED: &str = "a reader panicked; a restart recovers";

/// Reads until the store stops.
pub(crate) fn run(shared: &Arc<Shared>, db: &Connection, queue: &Mutex<Receiver<(Pending, Resource)>>) {
    while let Some((mut pending, name)) = next(queue) {
        let deciding = pending.deciding();
        pending.reads += 1;
        if catch_unwind(AssertUnwindSafe(|| serve(shared, db, pending, &name))).is_err() {
            tracing::error!(?name, "a reader panicked");
            shared.poison(PANICKED.to_owned());
            answer(deciding.failed(Failure::Internal("a reader panicked".to_owned())));
        }
    }
}

/// Answers queries until the store stops.
pub(crate) fn list(shared: &Arc<Shared>, lists: &Lists, queue: &Mutex<Receiver<(Query, ReplyTo)>>) {
    while let Some((query, reply)) = next(queue) {
        match catch_unwind(AssertUnwindSafe(|| lists.find(shared, &query))) {
            Ok(Ok(found @ QueryResult::Reservations(_))) => shared.settle(reply, found),
            Ok(Ok(found)) => reply.answer(Ok(Answer::QueryResult(found))),
            Ok(Err(damage)) if damage.is_passing() => {
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

fn next<T>(queue: &Mutex<Receiver<T>>) -> Option<T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Whose commands wait is told what was decided of them, too.
fn answer((reply, answer): Waiting) {
    reply.answer(answer);
}

fn serve(shared: &Shared, db: &Connection, mut pending: Pending, name: &Resource) {
    match bring(db, &mut pending, name) {
        Ok(()) => {
            fault!("read.brought");
            shared.admit(pending);
            shared.flush();
        }
        Err(damage) if damage.is_passing() => {
            tracing::warn!(%damage, ?name, "a command can't be decided now");
            answer(pending.failed(Failure::Unavailable(damage.to_string())));
        }
        Err(damage) => {
            tracing::error!(%damage, ?name, "the index can't be read");
            shared.poison(format!("the index is damaged: {damage}"));
            answer(pending.failed(Failure::Internal(format!("the index is damaged: {damage}"))));
        }
    }
}

fn bring(db: &Connection, pending: &mut Pending, name: &Resource) -> Result<(), Damage> {
    match name {
        Resource::Hold(id) => {
            fault!("read.hold" => Damage::What("a fault point".to_owned()));
            let (hold, as_of) = find_closed(db, *id)?;
            pending.brought.holds.push((*id, hold, as_of));
        }
        Resource::Key(hash) => {
            fault!("read.key" => Damage::What("a fault point".to_owned()));
            let (record, as_of) = find_key(db, *hash)?;
            pending.brought.keys.push((*hash, record, as_of));
        }
        other => return Err(Damage::What(format!("{other:?} should have been in memory"))),
    }
    Ok(())
}
