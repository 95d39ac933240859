//! Brings what commands need and memory lacks: closed reservations and used keys, from the index. On threads of its own,
//! so that neither the callers' threads nor the committer wait for a read.

use crate::core::Pending;
use crate::index::{Damage, find_closed, find_key};
use crate::store::Shared;
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use stockhold_domain::Name;
use stockhold_store::Failure;

/// Threads that read.
pub(crate) const READERS: usize = 2;
/// Commands that may wait for a read.
pub(crate) const READ_QUEUE: usize = 4_096;

/// Reads until the store stops.
pub(crate) fn run(shared: &Arc<Shared>, db: &Connection, queue: &Mutex<Receiver<(Pending, Name)>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((mut pending, name)) = next else { return };
        let reply = pending.reply.clone();
        pending.reads += 1;
        if catch_unwind(AssertUnwindSafe(|| serve(shared, db, pending, &name))).is_err() {
            tracing::error!(?name, "a reader panicked");
            shared.poison("a reader panicked; a restart recovers".to_owned());
            reply.answer(Err(Failure::Internal("a reader panicked".to_owned())));
        }
    }
}

fn serve(shared: &Shared, db: &Connection, mut pending: Pending, name: &Name) {
    match bring(db, &mut pending, name) {
        Ok(()) => {
            shared.admit(pending);
            shared.kick();
        }
        Err(damage) => {
            tracing::error!(%damage, ?name, "the index can't be read");
            shared.poison(format!("the index is damaged: {damage}"));
            pending.reply.answer(Err(Failure::Internal(format!("the index is damaged: {damage}"))));
        }
    }
}

fn bring(db: &Connection, pending: &mut Pending, name: &Name) -> Result<(), Damage> {
    match name {
        Name::Hold(id) => {
            let (hold, as_of) = find_closed(db, *id)?;
            pending.brought.holds.push((*id, hold, as_of));
        }
        Name::Key(hash) => {
            let (record, as_of) = find_key(db, *hash)?;
            pending.brought.keys.push((*hash, record, as_of));
        }
        other => return Err(Damage::What(format!("{other:?} should have been in memory"))),
    }
    Ok(())
}
