//! The store with its threads: a committer, an indexer, a copier, a housekeeper and readers around one [`Core`].

use crate::engine::core::Core;
use crate::error::OpenError;
use crate::files;
use crate::index::Index;
use crate::limits;
use crate::log::Log;
use crate::start::recover::{Recovered, recover};
use crate::threads::checkpointer::Copier;
use crate::threads::committer::{Committer, deliver};
use crate::threads::housekeeper::{ACTOR, Housekeeper};
use crate::threads::indexer::{Indexer, Mailbox, Message, retire_before};
use crate::threads::lists::Lists;
use crate::threads::reader;
use crate::threads::shared::{Queues, Shared};
use std::fmt;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use stockhold_domain::{HoldLimits, Item, ItemKey, Label};
use stockhold_store::clock::{Clock, SteadyClock};
use stockhold_store::fault;
use stockhold_store::ids::IdSource;
use stockhold_store::{Job, Query, Request, Store};

/// How the store is to run.
#[derive(Clone)]
pub struct Options {
    /// How long holds may last.
    pub rules: HoldLimits,
    /// How long an idempotency key is kept at least.
    pub key_retention: Duration,
    /// Free bytes on the disk below which no new reservations are taken.
    pub free_floor: u64,
    /// Bytes that the log's write-ahead log gets beforehand.
    pub log_room: u64,
    /// Whether due holds are expired in the background.
    pub sweeps: bool,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
}

impl Options {
    /// Shortest time that keys may be kept.
    pub const KEY_RETENTION: Duration = Duration::from_hours(24);
    /// Enough for the confirms and releases of what is held, the index and a checkpoint.
    pub const FREE_FLOOR: u64 = 256 << 20;
    /// What is written between two checkpoints, with as much again for what comes while one is made.
    pub const LOG_ROOM: u64 = limits::LOG_ROOM;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: HoldLimits::default(),
            key_retention: Self::KEY_RETENTION,
            free_floor: Self::FREE_FLOOR,
            log_room: Self::LOG_ROOM,
            sweeps: true,
            clock: Arc::new(SteadyClock::start()),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// The store on one data directory.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    committer: Option<JoinHandle<()>>,
    indexer: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    to_indexer: Arc<Mailbox>,
    _lock: File,
}

impl EmbeddedStore {
    /// Opens a data directory, making it when it is not there, and starts to serve.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let retire_before = retire_before(options.clock.now(), options.key_retention);
        let Recovered { lock, log, acked, behind, memory, published, head } =
            recover(dir, retire_before, options.log_room)?;
        let (reads, read_queue) = sync_channel(reader::READ_QUEUE);
        let (lists, list_queue) = sync_channel(reader::LIST_QUEUE);
        let shared = Arc::new(Shared::new(
            Core::new(memory, options.rules, head, behind.weight()),
            Queues { reads, lists },
            published,
            behind.fresh(),
            options.clock,
        ));
        let log_file = dir.join(files::LOG);
        let index_file = dir.join(files::INDEX);
        let to_indexer = Arc::new(Mailbox::default());

        let mut others = Vec::new();
        let read_queue = Arc::new(Mutex::new(read_queue));
        for _ in 0..reader::READERS {
            let (db, queue, shared) =
                (Index::open_reader(&index_file)?, Arc::clone(&read_queue), Arc::clone(&shared));
            others.push(spawn(&Arc::clone(&shared), "reader", move || reader::run(&shared, &db, &queue))?);
        }
        let list_queue = Arc::new(Mutex::new(list_queue));
        for _ in 0..reader::LISTERS {
            let lists = Lists::open(&log_file, &index_file)?;
            let (queue, shared) = (Arc::clone(&list_queue), Arc::clone(&shared));
            others
                .push(spawn(&Arc::clone(&shared), "lister", move || reader::list(&shared, &lists, &queue))?);
        }
        let copier = Copier { shared: Arc::clone(&shared), log: Log::open_reader(&log_file)? };
        let housekeeper = Housekeeper {
            shared: Arc::clone(&shared),
            log_file: log_file.clone(),
            free_floor: options.free_floor,
            sweeps: options.sweeps,
            ids: IdSource::from_system()
                .map_err(|error| OpenError::io("asking for random bytes", error.to_string()))?,
            actor: Label::new(ACTOR)
                .map_err(|error| OpenError::io("naming the sweeper", error.to_string()))?,
        };
        others.push(spawn(&shared, "housekeeper", move || housekeeper.run())?);
        others.push(spawn(&shared, "copier", move || copier.run())?);
        let indexer = Indexer::new(Arc::clone(&shared), behind, options.key_retention);
        let mailbox = Arc::clone(&to_indexer);
        let indexer = spawn(&shared, "indexer", move || indexer.run(&mailbox))?;
        let committer = Committer::new(Arc::clone(&shared), log, acked, Arc::clone(&to_indexer));
        let committer = spawn(&shared, "committer", move || committer.run())?;
        fault!("start.running" => OpenError::io("starting", "a fault point"));
        Ok(Self {
            shared,
            committer: Some(committer),
            indexer: Some(indexer),
            others,
            to_indexer,
            _lock: lock,
        })
    }

    /// Ends as a crash would: nothing more is written than what is being written now. For tests.
    pub fn abandon(mut self) {
        self.shared.abandoned.store(true, Ordering::Release);
        self.stop(Message::Abandon);
    }

    /// Whether a command needs something from the index, as things are now.
    #[cfg(feature = "testing")]
    pub(crate) fn needs_read(&self, envelope: &stockhold_domain::Envelope) -> bool {
        use stockhold_domain::{Resource, State, footprint};
        let core = self.shared.core();
        let mut names = Vec::new();
        footprint(&core.memory, envelope, &mut names);
        names.into_iter().any(|name| match name {
            Resource::Hold(id) => core.memory.hold(id).is_err(),
            Resource::Key(hash) => core.memory.key(hash).is_err(),
            _ => false,
        })
    }

    /// Active reservations, for metrics.
    pub fn active_holds(&self) -> usize {
        self.shared.core().memory.active_len()
    }

    /// Answers that wait for a commit, for metrics.
    pub fn queue_len(&self) -> usize {
        self.shared.core().queue_len()
    }

    /// Events, and lines of theirs, that the index does not have yet, for metrics.
    pub fn unindexed(&self) -> u64 {
        self.shared.core().unindexed()
    }

    /// How long the earliest hold that is still active has been due, for metrics.
    pub fn sweep_lag(&self) -> Duration {
        let clock = self.shared.clock.now();
        let core = self.shared.core();
        let late = core.next_due().map_or(0, |due| core.floor(clock).micros().saturating_sub(due.micros()));
        Duration::from_micros(late.try_into().unwrap_or(0))
    }

    fn stop(&mut self, last: Message) {
        self.shared.stop();
        join(self.committer.take());
        fault!("stop.committed");
        // From here on nothing is admitted, and who came too late for the committer is told.
        let late = {
            let mut core = self.shared.core();
            core.poison("the store has stopped".to_owned());
            core.abandon()
        };
        deliver(late);
        // The indexer may have stopped by itself.
        self.to_indexer.send(last);
        join(self.indexer.take());
        fault!("stop.indexed");
        for thread in self.others.drain(..) {
            thread.thread().unpark();
            join(Some(thread));
        }
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.stop(Message::Stop);
    }
}

/// Starts a thread of the store. Without any of them the store can't keep its promises, so a panic in one poisons it.
fn spawn(
    shared: &Arc<Shared>,
    name: &'static str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, OpenError> {
    let shared = Arc::clone(shared);
    let guarded = move || {
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            tracing::error!(name, "a thread of the store panicked");
            shared.poison(format!("the {name} panicked; a restart recovers"));
        }
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(guarded)
        .map_err(|error| OpenError::io(format!("starting the {name}"), error))
}

fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread
        && thread.join().is_err()
    {
        tracing::error!("a thread of the store ended in a panic");
    }
}

impl Store for EmbeddedStore {
    fn submit(&self, work: Job) {
        match work.request {
            Request::Query(
                query @ (Query::ItemPage(_)
                | Query::Reservations(_)
                | Query::History(_)
                | Query::UnitHistory { .. }
                | Query::Events { .. }),
            ) => self.shared.query(query, work.reply),
            _ => self.shared.admit(work.into()),
        }
    }

    fn flush(&self) {
        self.shared.flush();
    }

    fn published_item(&self, item: &ItemKey) -> Option<Option<Item>> {
        Some(self.shared.published.get(item))
    }

    fn newest(&self) -> u64 {
        self.shared.published.newest()
    }

    fn fatal_error(&self) -> Option<String> {
        self.shared.core().poisoned().map(str::to_owned)
    }

    fn degraded_reason(&self) -> Option<String> {
        let why = self.shared.core().no_reserves.clone();
        why.map(|why| format!("new reservations are turned away: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Answers, Bench};
    use rusqlite::ffi::{self, SQLITE_FULL, SQLITE_IOERR_FSYNC};
    use stockhold_store::conformance::Maker;
    use stockhold_store::conformance::maker::set_stock;
    use stockhold_store::{Failure, ReplyTo};

    /// Waits until it is so, which is for ever if it does not become so.
    fn wait_until(so: impl Fn() -> bool) {
        while !so() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_checkpoint_on_a_full_disk_can_wait_and_on_a_failing_one_ends_the_store_and_its_housekeeping() {
        let bench = Bench::new();
        let store = bench.store();
        let failed = |code| {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            store.shared.checkpoint_failed("the log's", &error)
        };
        assert!(failed(SQLITE_FULL));
        assert_eq!(store.fatal_error(), None);
        assert!(!failed(SQLITE_IOERR_FSYNC));
        assert!(store.fatal_error().is_some_and(|why| why.contains("checkpoint")));
        for name in ["housekeeper", "copier"] {
            let named = |thread: &&JoinHandle<()>| thread.thread().name() == Some(name);
            let thread = store.others.iter().find(named).unwrap();
            wait_until(|| thread.is_finished());
        }
    }

    #[test]
    fn who_waits_is_answered_though_whoever_panicked_woke_nobody() {
        let bench = Bench::new();
        let (store, mut maker) = (bench.store(), Maker::new(1, ""));
        wait_until(|| store.shared.core().committer_sleeps);
        let answers = Arc::new(Answers::default());
        let shirt = maker.item("shirt");
        let ask = Request::Command(Box::new(maker.wrap(set_stock(&shirt, 1))));
        store.submit(Job { request: ask, reply: ReplyTo { inbox: answers.clone(), ticket: 0 } });
        let shared = Arc::clone(&store.shared);
        let panicked = std::thread::spawn(move || {
            let _core = shared.core();
            panic!("while it decides");
        });
        assert!(panicked.join().is_err());
        assert!(matches!(answers.wait(1).remove(0), (0, Err(Failure::Unavailable(_)))));
    }
}
