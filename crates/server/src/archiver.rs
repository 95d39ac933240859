//! Archives old events of the store: when an operator asks for it, and by itself if the configuration says so. It has a thread of its
//! own, on which it makes one file after the other. Of several servers over one database, one archives at a time.

mod store;

pub(crate) use store::ArchivableStore;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Monotonic};
use stockhold_api::resources::archive::{Archive, ArchiveRequest as ArchiveOrder};
use stockhold_cli::{Consumers, EventFiles, OpenFilesError};
use stockhold_config::Config;
use stockhold_domain::Label;
use stockhold_store::clock::Clock;
use stockhold_store::own_files;
use stockhold_store::{ARCHIVE_FILE_EVENTS, ArchiveRequest, ArchiveSummary, ReadPosition};
use store::StoreError;
use tokio::sync::oneshot;

/// How often it archives by itself.
const INTERVAL: Duration = Duration::from_hours(1);
/// The pause after an archive that was interrupted.
const RETRY_PAUSE: Duration = Duration::from_mins(1);
/// How long it waits for a request if it does not archive by itself.
const IDLE: Duration = Duration::from_hours(24);
/// The gauge that names who holds back old events.
const HELD_BACK: &str = "stockhold_archive_held_back";

/// Why a store could not be archived.
type ArchiveError = stockhold_store::ArchiveError<StoreError>;

/// Archives a store.
pub(crate) struct Archiver {
    dir: Option<PathBuf>,
    /// The directory of the embedded store, which can't have the files.
    data_dir: Option<PathBuf>,
    tasks: Option<Sender<ArchiveTask>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What an operator asks for.
struct ArchiveTask {
    order: ArchiveOrder,
    to: PathBuf,
    reply: oneshot::Sender<Result<ArchiveSummary, ArchiveError>>,
}

/// Why an order was not carried out.
#[derive(Debug)]
pub(crate) enum OrderError {
    /// The request names no directory, and the configuration has none.
    NoDirectory,
    /// The directory is not that of the configuration, nor below it.
    OtherDirectory,
    /// The age is too small.
    Age(String),
    /// The archive can't be made.
    Archive(ArchiveError),
    /// The archiver has ended.
    Ended,
}

impl Archiver {
    /// Starts the archiver of a store.
    pub(crate) fn start(
        config: &Config,
        key_retention: Duration,
        store: ArchivableStore,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Self> {
        describe();
        let (tasks, waiting) = channel();
        let stop = Arc::<AtomicBool>::default();
        let work = ArchiveThread {
            store,
            clock,
            key_retention,
            own: config.archive.dir.clone().zip(config.archive.retention()),
            consumers: Consumers::of(config).map_err(io::Error::other)?,
            stop: Arc::clone(&stop),
            held_back: None,
        };
        let thread =
            std::thread::Builder::new().name("archiver".to_owned()).spawn(move || work.run(&waiting))?;
        Ok(Self {
            dir: config.archive.dir.clone(),
            data_dir: config.store.is_embedded().then(|| config.data_dir.clone()),
            tasks: Some(tasks),
            stop,
            thread: Some(thread),
        })
    }

    /// Makes one file at most.
    pub(crate) async fn archive(&self, order: ArchiveOrder) -> Result<Archive, OrderError> {
        let to = self.directory(order.to.as_deref().map(Path::new))?;
        let (reply, answer) = oneshot::channel();
        let tasks = self.tasks.as_ref().ok_or(OrderError::Ended)?;
        tasks.send(ArchiveTask { order, to, reply }).map_err(|_| OrderError::Ended)?;
        match answer.await {
            Ok(Ok(summary)) => Ok(report(summary)),
            Ok(Err(ArchiveError::InvalidRequest(why))) => Err(OrderError::Age(why)),
            Ok(Err(error)) => Err(OrderError::Archive(error)),
            Err(_) => Err(OrderError::Ended),
        }
    }

    /// The directory of an order: that of the configuration or one below it, after symbolic links. Callers choose no other, and learn
    /// nothing about other places.
    fn directory(&self, to: Option<&Path>) -> Result<PathBuf, OrderError> {
        let Some(dir) = &self.dir else {
            return Err(if to.is_some() { OrderError::OtherDirectory } else { OrderError::NoDirectory });
        };
        let Some(to) = to else { return Ok(dir.clone()) };
        let may_be_used = |to: &Path| {
            let below = |dir: &Path| own_files::resolved(dir).is_ok_and(|dir| to.starts_with(dir));
            below(dir) && !self.data_dir.as_deref().is_some_and(below)
        };
        let real = to.is_absolute().then(|| own_files::resolved(to).ok()).flatten();
        real.filter(|to| may_be_used(to)).ok_or(OrderError::OtherDirectory)
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        drop(self.tasks.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the archiver ended in a panic");
        }
    }
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDirectory => f.write_str("is missing: the configuration has no archive.dir"),
            Self::OtherDirectory => f.write_str("is not the directory of archive.dir, nor below it"),
            Self::Age(why) => f.write_str(why),
            Self::Archive(error) => error.fmt(f),
            Self::Ended => f.write_str("the archiver has ended"),
        }
    }
}

fn report(summary: ArchiveSummary) -> Archive {
    let (held_back_by, held_back_position) = summary.held_back.unzip();
    Archive {
        after: summary.after,
        through: summary.through,
        dropped_events: summary.dropped,
        dropped_through: summary.dropped_through,
        reservations: summary.reservations,
        held_back_by,
        held_back_position,
        complete: summary.is_complete,
    }
}

/// The thread that archives.
struct ArchiveThread {
    store: ArchivableStore,
    clock: Arc<dyn Clock>,
    key_retention: Duration,
    /// Where it archives to by itself, and after which time events leave.
    own: Option<(PathBuf, Duration)>,
    consumers: Consumers,
    stop: Arc<AtomicBool>,
    /// Who holds back what is older than the retention.
    held_back: Option<String>,
}

impl ArchiveThread {
    fn run(mut self, tasks: &Receiver<ArchiveTask>) {
        let mut due = Monotonic::now();
        while !self.stop.load(Ordering::Acquire) {
            let own = self.own.clone();
            let wait = if own.is_some() { due.saturating_duration_since(Monotonic::now()) } else { IDLE };
            match tasks.recv_timeout(wait) {
                Ok(ArchiveTask { order, to, reply }) => {
                    let older_than = Duration::from_hours(order.older_than_hours.into());
                    let ignored: Vec<_> = order.ignore_sinks.iter().map(Label::to_string).collect();
                    let done = self.archive(&to, older_than, order.drop, &ignored);
                    // The caller may have gone.
                    let _ = reply.send(done);
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some((dir, retention)) = own {
                        due = Monotonic::now() + self.archive_by_itself(&dir, retention);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Makes one file of what is older than the retention. Returns when it is to go on.
    fn archive_by_itself(&mut self, dir: &Path, retention: Duration) -> Duration {
        match self.archive(dir, retention, true, &[]) {
            Ok(done) if !done.is_complete => Duration::ZERO,
            Ok(done) => {
                if done.dropped_through > 0 {
                    tracing::info!(
                        through = done.dropped_through,
                        dir = %dir.display(),
                        "what is older than the retention is archived"
                    );
                }
                self.tell_who_holds_back(done.held_back);
                INTERVAL
            }
            Err(
                ArchiveError::Interrupted(why) | ArchiveError::Store(StoreError { why, is_temporary: true }),
            ) => {
                tracing::warn!(why, "old events are archived later");
                RETRY_PAUSE
            }
            Err(error) => {
                metrics::counter!("stockhold_archive_failures_total").increment(1);
                tracing::error!(%error, dir = %dir.display(), "old events can't be archived; they stay in the store");
                INTERVAL
            }
        }
    }

    fn archive(
        &self,
        to: &Path,
        older_than: Duration,
        drop: bool,
        ignored: &[String],
    ) -> Result<ArchiveSummary, ArchiveError> {
        let mut files = EventFiles::open(to).map_err(|error| match error {
            OpenFilesError::InUse(_) => ArchiveError::Interrupted(error.to_string()),
            OpenFilesError::Failed(why) => ArchiveError::Archive(why),
        })?;
        let (consumers, stop) = (&self.consumers, &self.stop);
        let request = ArchiveRequest {
            older_than,
            key_retention: self.key_retention,
            now: self.clock.now(),
            drop,
            consumers: &|records| consumers.behind(records, ignored),
            file_events: ARCHIVE_FILE_EVENTS,
            files: 1,
            new_directory: self.store.is_embedded(),
            is_cancelled: &|| stop.load(Ordering::Acquire),
        };
        let done = self.store.archive(&request, &mut files)?;
        metrics::counter!("stockhold_archived_events_total").increment(done.dropped);
        #[expect(clippy::cast_precision_loss, reason = "a gauge")]
        metrics::gauge!("stockhold_archive_position").set(done.dropped_through as f64);
        Ok(done)
    }

    /// Names the consumer because of which old events stay, in the log and as a metric.
    fn tell_who_holds_back(&mut self, holds_back: Option<ReadPosition>) {
        let now = holds_back.as_ref().map(|(name, _)| name.clone());
        if let Some(before) = self.held_back.take().filter(|before| Some(before) != now.as_ref()) {
            metrics::gauge!(HELD_BACK, "consumer" => before).set(0.0);
        }
        if let Some((name, position)) = holds_back {
            tracing::warn!(
                consumer = name,
                position,
                "events that are older than the retention stay, because a consumer has not got them"
            );
            metrics::gauge!(HELD_BACK, "consumer" => name).set(1.0);
        }
        self.held_back = now;
    }
}

fn describe() {
    metrics::describe_counter!(
        "stockhold_archived_events_total",
        "Events that left the store with an archive"
    );
    metrics::describe_counter!(
        "stockhold_archive_failures_total",
        "Archives that the server began by itself and could not make"
    );
    metrics::describe_gauge!(
        "stockhold_archive_position",
        "Position of the last event that has left the store"
    );
    metrics::describe_gauge!(
        HELD_BACK,
        "1: events that are older than the retention stay, because the sink, webhook or stock master of the label has not got them"
    );
    metrics::counter!("stockhold_archive_failures_total").increment(0);
}

/// The text of an error for the caller, and whether the same request may succeed later.
pub(crate) fn explain(error: ArchiveError) -> (String, bool) {
    match error {
        ArchiveError::Interrupted(why) => (why, true),
        ArchiveError::Store(StoreError { why, is_temporary }) => (why, is_temporary),
        other => (other.to_string(), false),
    }
}
