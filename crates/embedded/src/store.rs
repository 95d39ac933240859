//! The store with its threads around one [`Core`]: a committer, an indexer, a checkpointer, a housekeeper and readers.

use crate::base;
use crate::customers::CustomerFile;
use crate::engine::core::Core;
use crate::engine::leaving::LeavingReservations;
use crate::error::OpenError;
use crate::files;
use crate::index::Index;
use crate::limits;
use crate::log::Log;
use crate::start::data_dir::DirectoryLock;
use crate::start::recover::{RecoveredStore, recover};
use crate::threads::checkpointer::LogCheckpointer;
use crate::threads::committer::{Committer, deliver_answers};
use crate::threads::housekeeper::{Housekeeper, SWEEPER_ACTOR};
use crate::threads::indexer::{Indexer, Mailbox, Message, retire_before};
use crate::threads::lists::ListReader;
use crate::threads::reader;
use crate::threads::shared::{Queues, Shared};
use crate::tools::archive::ArchiveError;
use crate::tools::archive::running::{self, Archiver};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use stockhold_domain::{HoldLimits, Instant, Item, ItemKey, Label};
use stockhold_store::clock::{Clock, SteadyClock};
use stockhold_store::fault;
use stockhold_store::ids::IdSource;
use stockhold_store::{
    ArchiveRequest, ArchiveStep, ArchiveSummary, EventArchive, Job, Query, Request, StartProgress, Store,
};

/// The options of a store.
#[derive(Clone)]
pub struct Options {
    /// The limits of how long holds may last.
    pub rules: HoldLimits,
    /// The minimum time that an idempotency key is kept.
    pub key_retention: Duration,
    /// The number of free bytes on the disk below which new reservations are refused.
    pub min_free_bytes: u64,
    /// The number of bytes that the write-ahead log of the log is extended to at a start.
    pub wal_preallocation: u64,
    /// Whether a background thread expires overdue holds.
    pub sweeps: bool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Where the progress of the start is written to.
    pub start_progress: StartProgress,
}

impl Options {
    /// The shortest time that keys may be kept.
    pub const KEY_RETENTION: Duration = Duration::from_hours(24);
    /// Enough space to confirm and release the active holds, for the index and for a checkpoint.
    pub const MIN_FREE_BYTES: u64 = 256 << 20;
    /// The bytes that are written between two checkpoints, and as much again for the writes during a checkpoint.
    pub const WAL_PREALLOCATION: u64 = limits::WAL_PREALLOCATION;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: HoldLimits::default(),
            key_retention: Self::KEY_RETENTION,
            min_free_bytes: Self::MIN_FREE_BYTES,
            wal_preallocation: Self::WAL_PREALLOCATION,
            sweeps: true,
            clock: Arc::new(SteadyClock::start()),
            start_progress: StartProgress::default(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// The store of one data directory.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    committer: Option<JoinHandle<()>>,
    indexer: Option<JoinHandle<()>>,
    others: Vec<JoinHandle<()>>,
    to_indexer: Arc<Mailbox>,
    dir: PathBuf,
    /// The longest retention of keys that was promised.
    key_retention: Duration,
    /// Held during an archive.
    archiving: Mutex<()>,
    lock: DirectoryLock,
}

impl EmbeddedStore {
    /// Opens a data directory, creates it if it does not exist, and starts the threads.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let retire_before = retire_before(options.clock.now(), options.key_retention);
        let RecoveredStore { lock, log, marker, mut backlog, mut memory, published, head } =
            recover(dir, retire_before, options.wal_preallocation, &options.start_progress)?;
        backlog.index.promise_key_retention(options.key_retention);
        let key_retention = backlog.index.promised_key_retention();
        // The disk may have been too full to delete it.
        let start = *log.start();
        let gone = base::untrimmed(dir, &backlog.index, &start)?;
        if !gone.is_empty() {
            memory.begin_leaving(LeavingReservations::of_earlier_step(&gone, start.keys_dropped_before()));
        }
        let (reads, read_queue) = sync_channel(reader::READ_QUEUE);
        let (lists, list_queue) = sync_channel(reader::QUERY_QUEUE);
        let shared = Arc::new(Shared::new(
            Core::new(memory, options.rules, head, backlog.weight()),
            Queues { reads, lists },
            published,
            backlog.unflushed_postings(),
            options.clock,
            start,
        ));
        let log_file = dir.join(files::LOG);
        let index_file = dir.join(files::INDEX);
        let to_indexer = Arc::new(Mailbox::default());
        if !gone.is_empty() {
            to_indexer.send(Message::Archived(gone, Box::new(start)));
        }

        let mut others = Vec::new();
        let read_queue = Arc::new(Mutex::new(read_queue));
        for _ in 0..reader::READERS {
            let (db, queue, shared) =
                (Index::open_reader(&index_file)?, Arc::clone(&read_queue), Arc::clone(&shared));
            others.push(spawn(&Arc::clone(&shared), "reader", move || {
                reader::serve_reads(&shared, &db, &queue);
            })?);
        }
        let customers = Arc::new(CustomerFile::open(dir)?);
        let list_queue = Arc::new(Mutex::new(list_queue));
        for _ in 0..reader::QUERY_READERS {
            let mut lists = ListReader::open(dir, Arc::clone(&customers))?;
            let (queue, shared) = (Arc::clone(&list_queue), Arc::clone(&shared));
            others.push(spawn(&Arc::clone(&shared), "lister", move || {
                reader::serve_queries(&shared, &mut lists, &queue);
            })?);
        }
        let checkpointer = LogCheckpointer { shared: Arc::clone(&shared), log: Log::open_reader(&log_file)? };
        let housekeeper = Housekeeper {
            shared: Arc::clone(&shared),
            log_file: log_file.clone(),
            min_free_bytes: options.min_free_bytes,
            sweeps: options.sweeps,
            ids: IdSource::from_system()
                .map_err(|error| OpenError::io("asking for random bytes", error.to_string()))?,
            actor: Label::new(SWEEPER_ACTOR)
                .map_err(|error| OpenError::io("naming the sweeper", error.to_string()))?,
        };
        others.push(spawn(&shared, "housekeeper", move || housekeeper.run())?);
        others.push(spawn(&shared, "copier", move || checkpointer.run())?);
        let indexer = Indexer::new(Arc::clone(&shared), backlog, options.key_retention);
        let mailbox = Arc::clone(&to_indexer);
        let indexer = spawn(&shared, "indexer", move || indexer.run(&mailbox))?;
        let committer = Committer::new(Arc::clone(&shared), log, marker, Arc::clone(&to_indexer));
        let committer = spawn(&shared, "committer", move || committer.run())?;
        fault!("start.running" => OpenError::io("starting", "a fault point"));
        Ok(Self {
            shared,
            committer: Some(committer),
            indexer: Some(indexer),
            others,
            to_indexer,
            dir: dir.to_owned(),
            key_retention,
            archiving: Mutex::new(()),
            lock,
        })
    }

    /// Stops like a crash, for tests: after the write that is running, nothing more is written.
    pub fn abandon(mut self) {
        self.shared.abandoned.store(true, Ordering::Release);
        self.stop(Message::Abandon);
    }

    /// Writes the address of the server into the directory, for tools that find it in use.
    pub fn note_server(&self, url: &str) -> std::io::Result<()> {
        self.lock.write(url)
    }

    /// Archives on the thread of the caller, while the store serves requests. Other calls wait for it.
    pub fn archive(
        &self,
        request: &ArchiveRequest<'_>,
        archive: &mut dyn EventArchive,
    ) -> Result<ArchiveSummary, ArchiveError> {
        self.archive_by(request, archive, &mut |_| ())
    }

    pub(crate) fn archive_by(
        &self,
        request: &ArchiveRequest<'_>,
        archive: &mut dyn EventArchive,
        reached: &mut dyn FnMut(ArchiveStep),
    ) -> Result<ArchiveSummary, ArchiveError> {
        let _one_at_a_time = self.archiving.lock().unwrap_or_else(PoisonError::into_inner);
        let archiver = Archiver {
            shared: &self.shared,
            indexer: &self.to_indexer,
            dir: &self.dir,
            key_retention: self.key_retention,
        };
        let work = || archiver.archive(request, archive, reached);
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            tracing::error!("an archive panicked");
            self.shared.poison("an archive panicked; a restart recovers".to_owned());
            Err(running::panicked())
        })
    }

    /// Whether reservations that were archived are still being deleted.
    #[cfg(test)]
    pub(crate) fn is_archiving(&self) -> bool {
        self.shared.core().memory.is_leaving()
    }

    /// Whether a command needs a record from the index now, so that others may overtake it. For tests.
    pub fn needs_read(&self, envelope: &stockhold_domain::Envelope) -> bool {
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

    /// The number of active reservations, for metrics.
    pub fn active_holds(&self) -> usize {
        self.shared.core().memory.active_len()
    }

    /// The number of answers that wait for a commit, for metrics.
    pub fn queue_len(&self) -> usize {
        self.shared.core().queue_len()
    }

    /// The weight that the index does not have yet, for metrics: events and their lines.
    pub fn unindexed(&self) -> u64 {
        self.shared.core().unindexed()
    }

    /// How long the earliest active hold is overdue, for metrics.
    pub fn sweep_lag(&self) -> Duration {
        let clock = self.shared.clock.now();
        let core = self.shared.core();
        let late = core
            .next_due()
            .map_or(0, |due| core.clamp_to_committed(clock).micros().saturating_sub(due.micros()));
        Duration::from_micros(late.try_into().unwrap_or(0))
    }

    /// The newest instant that was decided at. No decision is made at an earlier one.
    pub fn newest_instant(&self) -> Instant {
        self.shared.core().clamp_to_committed(Instant::from_micros(i64::MIN))
    }

    /// Runs this if no hold is open, and returns whether it did. Nothing is decided meanwhile. So the clock can be moved forward without
    /// shortening a deadline that was answered.
    pub fn while_no_hold_is_open(&self, run: impl FnOnce()) -> bool {
        let core = self.shared.core();
        let is_free = core.memory.active_len() == 0;
        if is_free {
            run();
        }
        is_free
    }

    fn stop(&mut self, last: Message) {
        self.shared.stop();
        join(self.committer.take());
        fault!("stop.committed");
        // From here on nothing is admitted. Requests that came too late for the committer get their failures.
        let late = {
            let mut core = self.shared.core();
            core.poison("the store has stopped".to_owned());
            core.fail_pending()
        };
        deliver_answers(late);
        // The indexer may have stopped already.
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

/// Starts a thread of the store. The store needs all of its threads, so a panic in one of them poisons it.
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
                | Query::Events { .. }
                | Query::Customer(_)),
            ) => self.shared.queue_query(query, work.reply),
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
        let why = self.shared.core().reserve_refusal.clone();
        why.map(|why| format!("new reservations are turned away: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{AnswerInbox, Bench};
    use rusqlite::ffi::{self, SQLITE_FULL, SQLITE_IOERR_FSYNC};
    use stockhold_conformance::Maker;
    use stockhold_conformance::maker::set_stock;
    use stockhold_store::{Failure, ReplyTo};

    /// Waits until the condition holds.
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
        wait_until(|| store.shared.core().committer_asleep);
        let answers = Arc::new(AnswerInbox::default());
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
