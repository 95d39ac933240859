//! Keeps the index behind the log: folds committed batches into chunks and writes those, on a thread and a file of its
//! own, so that no commit ever waits for it.

use crate::batch::Batch;
use crate::index::{Chunk, EVERYTHING, Index};
use crate::store::Shared;
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant as Monotonic};
use stockhold_domain::{Hold, HoldChange, ItemKey, KeyRecord, ReservationId, Scope, Status, Transition};

/// Events that make a chunk worth writing before its time.
const CHUNK_EVENTS: usize = 4_096;
/// Longest wait of a chunk.
const CHUNK_AGE: Duration = Duration::from_millis(500);
/// Keys that make a run.
const RUN_KEYS: usize = 65_536;
/// Longest wait of a run: what a start has to read again.
const RUN_AGE: Duration = Duration::from_mins(10);

type Map<K, V> = HashMap<K, V, RandomState>;

/// What the committer tells.
#[derive(Debug)]
pub(crate) enum Message {
    /// This batch is durable, with this checksum.
    Committed(Box<Batch>, u32),
    /// No more is coming: write what there is.
    Stop,
    /// As in a crash: write nothing more.
    Abandon,
}

/// See the module.
pub(crate) struct Indexer {
    shared: Arc<Shared>,
    index: Index,
    retention: Duration,
    fold: Fold,
    fold_began: Option<Monotonic>,
    /// Batch, checksum and next position that the fold leads to.
    reached: (u64, u32, u64),
    keys: Vec<KeyRecord>,
    keys_began: Option<Monotonic>,
}

impl Indexer {
    pub(crate) fn new(shared: Arc<Shared>, index: Index, retention: Duration) -> Self {
        let reached = (index.position.indexed, index.position.indexed_sum, 0);
        Self {
            shared,
            index,
            retention,
            fold: Fold::default(),
            fold_began: None,
            reached,
            keys: Vec::new(),
            keys_began: None,
        }
    }

    /// Runs until told to stop, or until the index can't be written.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) {
        if let Err(error) = self.serve(messages) {
            tracing::error!(%error, "the index can't be written");
            self.shared.poison(format!("the index can't be written ({error})"));
        }
    }

    fn serve(&mut self, messages: &Receiver<Message>) -> rusqlite::Result<()> {
        loop {
            match messages.recv_timeout(CHUNK_AGE) {
                Ok(Message::Committed(batch, sum)) => self.take(*batch, sum),
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.write_chunk()?;
                    self.write_run()?;
                    return crate::log::checkpoint(&self.index.db, "TRUNCATE");
                }
                Ok(Message::Abandon) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => self.tend()?,
            }
            let old = self.fold_began.is_some_and(|began| began.elapsed() >= CHUNK_AGE);
            if old || self.fold.events >= CHUNK_EVENTS {
                self.write_chunk()?;
            }
            let old = self.keys_began.is_some_and(|began| began.elapsed() >= RUN_AGE);
            if old || self.keys.len() >= RUN_KEYS {
                self.write_run()?;
                self.tend()?;
            }
        }
    }

    /// Takes a batch in: also those that a start found in the log beyond the index.
    pub(crate) fn take(&mut self, batch: Batch, sum: u32) {
        if batch.number > self.index.position.indexed {
            self.reached = (batch.number, sum, batch.next_position());
            self.fold_began.get_or_insert_with(Monotonic::now);
            for event in &batch.events {
                self.fold.add(&event.transition);
            }
        }
        if batch.number > self.index.position.keyed && !batch.keys.is_empty() {
            self.keys_began.get_or_insert_with(Monotonic::now);
            self.keys.extend(batch.keys);
        }
    }

    fn write_chunk(&mut self) -> rusqlite::Result<()> {
        if self.fold_began.take().is_none() {
            return Ok(());
        }
        let fold = std::mem::take(&mut self.fold);
        let (batch, sum, position) = self.reached;
        self.index.write(&fold.into_chunk(&self.shared), batch, sum)?;
        self.shared.core().indexed(batch, position);
        if self.index_wal_is_long() {
            crate::log::checkpoint(&self.index.db, "PASSIVE")?;
        }
        Ok(())
    }

    fn write_run(&mut self) -> rusqlite::Result<()> {
        self.keys_began = None;
        let keyed = self.reached.0;
        if keyed > self.index.position.keyed {
            self.index.write_keys(&mut self.keys, keyed)?;
            self.keys.clear();
            self.forget_keys();
        }
        Ok(())
    }

    fn forget_keys(&self) {
        let filters = self.index.runs.iter().map(|run| Arc::clone(&run.filter)).collect();
        self.shared.core().keyed(self.index.position.keyed, filters);
    }

    /// What can wait until nothing else is to be done.
    fn tend(&mut self) -> rusqlite::Result<()> {
        let retention = i64::try_from(self.retention.as_micros()).unwrap_or(i64::MAX);
        let before = self.shared.clock.now().micros().saturating_sub(retention);
        if self.index.tend_keys(before)? {
            self.forget_keys();
        }
        Ok(())
    }

    fn index_wal_is_long(&self) -> bool {
        crate::housekeeper::wal_bytes(&self.index.file) > crate::housekeeper::WAL_BYTES
    }
}

/// Committed events, folded to what they come to.
#[derive(Debug, Default)]
struct Fold {
    events: usize,
    items: HashSet<ItemKey, RandomState>,
    pauses: Map<String, bool>,
    /// Active holds, and whether the index has them as such.
    active: Map<ReservationId, (Hold, bool)>,
    ended: Vec<ReservationId>,
    closed: Map<ReservationId, Hold>,
}

impl Fold {
    fn add(&mut self, transition: &Transition) {
        self.events += 1;
        match transition {
            Transition::Hold { change, hold, .. } => {
                self.items.extend(hold.lines.iter().map(|line| line.item.clone()));
                self.hold(hold, *change == HoldChange::Created);
            }
            Transition::Stock { item, .. } => {
                self.items.insert(item.key.clone());
            }
            Transition::Sale { scope, paused, .. } => match scope {
                Scope::Everything => {
                    self.pauses.insert(EVERYTHING.to_owned(), *paused);
                }
                Scope::Location(location) => {
                    self.pauses.insert(location.as_str().to_owned(), *paused);
                }
                Scope::Item(key) => {
                    self.items.insert(key.clone());
                }
            },
        }
    }

    fn hold(&mut self, hold: &Hold, created: bool) {
        let before = self.active.remove(&hold.id);
        if hold.status == Status::Active {
            let indexed = before.map_or(!created, |(_, indexed)| indexed);
            self.active.insert(hold.id, (hold.clone(), indexed));
            return;
        }
        // What closed before this chunk began and comes again (a return) is in the index as closed.
        let was_closed = self.closed.insert(hold.id, hold.clone()).is_some();
        let returned = hold.lines.iter().any(|line| line.returned > 0);
        let indexed_as_active = before.map_or(!was_closed && !returned, |(_, indexed)| indexed);
        if indexed_as_active {
            self.ended.push(hold.id);
        }
    }

    /// Items are taken as they are published, which may be newer than the chunk: what a start applies on top are
    /// after-images, so it comes to the same.
    fn into_chunk(self, shared: &Shared) -> Chunk {
        let mut chunk = Chunk {
            items: self.items.iter().filter_map(|key| shared.published.get(key)).collect(),
            pauses: self.pauses.into_iter().collect(),
            ended: self.ended,
            closed: self.closed.into_values().collect(),
            ..Chunk::default()
        };
        for (hold, indexed) in self.active.into_values() {
            if indexed { &mut chunk.moved } else { &mut chunk.opened }.push(hold);
        }
        // In the order of their ids, which is the order of the file.
        chunk.opened.sort_unstable_by_key(|hold| hold.id);
        chunk.moved.sort_unstable_by_key(|hold| hold.id);
        chunk.closed.sort_unstable_by_key(|hold| hold.id);
        chunk.ended.sort_unstable();
        chunk
    }
}
