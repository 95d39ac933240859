//! A read replica beside the primary. Availability is read from the replica as long as it is known to be fresh enough, and from the
//! primary otherwise. Commands and all other queries go to the primary.
//!
//! Freshness: the primary is asked periodically how far it has committed. Each answer is a mark, with the instant before it was
//! asked for. A read from the replica first asks how far the replica has applied the log. The data that follows is at most as old
//! as the newest mark that the replica has reached. No clock of another machine is used, and nothing is written.
//!
//! If a replica is too far behind, does not answer, is no replica any more or follows another database, its readers wait a moment.
//! Then they are handed to the primary, like all later reads until the replica has recovered.

use super::queries::answer_quick;
use crate::engine::db_error::DbError;
use crate::engine::dialect::{LockSet, Rows, Session};
use crate::engine::options::OpenError;
use crate::engine::reply_batch::{PendingReply, ReplyBatch};
use core::future::Future;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use stockhold_domain::{Item, ItemKey};
use stockhold_store::{Answer, ItemPageRequest, Job, Query, QueryResult, ReplyTo, Request, Store};
use tokio::sync::Notify;
use tokio::time::Instant as Moment;
use tokio::time::{sleep, timeout};

/// Marks within the time that a replica may be behind: a mark's age is what is left of that time for the way to the replica.
const MARKS: u32 = 5;
/// How long marks are taken after the last read.
const MARKED_FOR: Duration = Duration::from_secs(2);
/// Most reads that are answered together, and that wait; more go to the primary.
const AT_ONCE: usize = 256;
const WAITING: usize = 1_024;
/// Longest wait for a replica before the primary is asked: callers wait for both.
const PATIENCE: Duration = Duration::from_millis(250);
/// Pause before a replica that was of no use is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// How far a log has come: for each of its parts whose it is, and where in it. Nothing is no position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPosition(pub(crate) BTreeMap<u32, (u64, u64)>);

impl LogPosition {
    /// Whether a server at this position has applied everything up to a mark. After a failover the log continues under the name of
    /// another server, and positions before and after are not compared.
    fn has(&self, mark: &Self) -> bool {
        let reached = |(part, (of, at)): (&u32, &(u64, u64))| {
            self.0.get(part).is_some_and(|(whose, reached)| whose == of && reached >= at)
        };
        !mark.0.is_empty() && mark.0.iter().all(reached)
    }
}

/// A primary and its replica, and how one talks to them.
pub(crate) trait ReplicaDialect: Send + Sync + 'static {
    /// One connection to either.
    type Session: Session;

    /// Opens a connection to the primary.
    fn primary(&self) -> impl Future<Output = Result<Self::Session, OpenError>> + Send;

    /// Opens a connection to the replica, which may be read-only and whose schema is left alone.
    fn replica(&self) -> impl Future<Output = Result<Self::Session, OpenError>> + Send;

    /// How far the primary has committed: what anybody can have seen there is before that.
    fn committed(
        &self,
        primary: &mut Self::Session,
    ) -> impl Future<Output = Result<LogPosition, DbError>> + Send;

    /// How far a replica has applied, `None` when it is none: what is read of it afterwards has all of that.
    fn applied(
        &self,
        replica: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<LogPosition>, DbError>> + Send;
}

/// A [`Store`] that asks a replica where it may.
pub(crate) struct ReplicaStore {
    shared: Arc<ReplicaState>,
    thread: Option<JoinHandle<()>>,
}

struct ReplicaState {
    primary: Arc<dyn Store>,
    /// Oldest that an answer may be.
    bound: Duration,
    items: ReadQueue,
    shelves: ReadQueue,
    marks: Mutex<VecDeque<(Moment, LogPosition)>>,
    read_at: Mutex<Option<Moment>>,
    /// Rung by reads when no marks are being taken, and at the end.
    bell: Notify,
    over: AtomicBool,
}

/// Reads that wait for one of the replica's connections.
#[derive(Default)]
struct ReadQueue {
    inner: Mutex<ReadQueueState>,
    bell: Notify,
}

#[derive(Default)]
struct ReadQueueState {
    works: VecDeque<(Query, ReplyTo)>,
    /// Since when the replica is of use; `None` while it is not.
    open: Option<Moment>,
}

impl ReplicaStore {
    /// Beside a primary that is open. A replica that can't be reached yet is waited for behind the reads.
    pub(crate) fn start<P: ReplicaDialect>(
        primary: Arc<dyn Store>,
        dialect: P,
        bound: Duration,
    ) -> Result<Self, OpenError> {
        metrics::describe_counter!(
            "stockhold_replica_reads_total",
            "Reads that a replica could have answered, by who did: the replica, or the primary because the replica was \
             too far behind or of no use"
        );
        let shared = Arc::new(ReplicaState {
            primary,
            bound,
            items: ReadQueue::default(),
            shelves: ReadQueue::default(),
            marks: Mutex::default(),
            read_at: Mutex::default(),
            bell: Notify::new(),
            over: AtomicBool::new(false),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| OpenError::Thread(error.to_string()))?;
        let at_work = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("stockhold-replica".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = take_marks(&dialect, &at_work) => {}
                        () = serve(&dialect, &at_work, &at_work.items) => {}
                        () = serve(&dialect, &at_work, &at_work.shelves) => {}
                        () = at_work.ended() => {}
                    }
                });
            })
            .map_err(|error| OpenError::Thread(error.to_string()))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Store for ReplicaStore {
    fn submit(&self, work: Job) {
        let shared = &self.shared;
        let queue = match &work.request {
            Request::Query(Query::Items(_)) => &shared.items,
            Request::Query(Query::ItemPage(_)) => &shared.shelves,
            _ => return shared.primary.submit(work),
        };
        if let Some(work) = queue.push(work) {
            count("primary", 1);
            shared.primary.submit(work);
        }
    }

    fn flush(&self) {
        self.shared.items.bell.notify_one();
        self.shared.shelves.bell.notify_one();
        self.shared.primary.flush();
    }

    fn published_item(&self, item: &ItemKey) -> Option<Option<Item>> {
        self.shared.primary.published_item(item)
    }

    fn newest(&self) -> u64 {
        self.shared.primary.newest()
    }

    fn fatal_error(&self) -> Option<String> {
        self.shared.primary.fatal_error()
    }
}

impl Drop for ReplicaStore {
    /// What waits is handed to the primary, which finishes what it was given.
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.shared.bell.notify_waiters();
        self.shared.bell.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the replica's thread had panicked");
        }
    }
}

impl ReplicaState {
    async fn ended(&self) {
        while !self.over.load(Ordering::SeqCst) {
            self.bell.notified().await;
        }
    }

    /// Marks are taken from now on, if they were not.
    fn is_read(&self) {
        let before = lock(&self.read_at).replace(Moment::now());
        if before.is_none_or(|before| before.elapsed() > MARKED_FOR) {
            self.bell.notify_waiters();
        }
    }

    fn marks_are_wanted(&self) -> bool {
        lock(&self.read_at).is_some_and(|read| read.elapsed() <= MARKED_FOR)
    }

    fn mark(&self, at: Moment, position: LogPosition) {
        let mut marks = lock(&self.marks);
        marks.retain(|(at, _)| at.elapsed() <= self.bound);
        marks.push_back((at, position));
    }

    /// Whether what somebody shows who has come so far is fresh enough to be given out now.
    fn is_fresh(&self, applied: &LogPosition) -> bool {
        let marks = lock(&self.marks);
        let mut good = marks.iter().filter(|(at, _)| at.elapsed() <= self.bound);
        good.any(|(_, position)| applied.has(position))
    }
}

impl ReadQueue {
    /// Takes work, or gives it back: the replica is of no use now.
    fn push(&self, work: Job) -> Option<Job> {
        let Job { request: Request::Query(query), reply } = work else { return Some(work) };
        let mut waiting = lock(&self.inner);
        let open = waiting.open.is_some_and(|since| since <= Moment::now());
        if !open || waiting.works.len() >= WAITING {
            drop(waiting);
            return Some(Job { request: Request::Query(query), reply });
        }
        waiting.works.push_back((query, reply));
        None
    }

    /// From an instant on the replica is of use, or it is no more.
    fn set(&self, open: Option<Moment>) {
        lock(&self.inner).open = open;
    }

    fn take<'a>(&self, most: usize, primary: &'a dyn Store) -> ReadBatch<'a> {
        let mut waiting = lock(&self.inner);
        let count = waiting.works.len().min(most);
        ReadBatch { works: waiting.works.drain(..count).collect(), primary }
    }
}

/// Reads that somebody works on. What is not answered when it is dropped, however that comes, the primary answers.
struct ReadBatch<'a> {
    works: Vec<(Query, ReplyTo)>,
    primary: &'a dyn Store,
}

impl ReadBatch<'_> {
    fn answer_items(mut self, rows: Rows) {
        count("replica", self.works.len());
        let asked = self.works.drain(..).map(|(query, reply)| (query, PendingReply::new(reply))).collect();
        answer_quick(asked, rows, &mut ReplyBatch::default());
    }

    fn answer_shelves(mut self, shelves: Vec<Vec<Item>>) {
        count("replica", self.works.len());
        let mut replies = ReplyBatch::default();
        for ((_, reply), items) in self.works.drain(..).zip(shelves) {
            replies.put(PendingReply::new(reply), Ok(Answer::QueryResult(QueryResult::ItemPage(items))));
        }
    }
}

impl Drop for ReadBatch<'_> {
    fn drop(&mut self) {
        if self.works.is_empty() {
            return;
        }
        count("primary", self.works.len());
        for (query, reply) in self.works.drain(..) {
            self.primary.submit(Job { request: Request::Query(query), reply });
        }
        self.primary.flush();
    }
}

/// Closes a read queue when its task ends, and gives the waiting reads to the primary.
struct ReadQueueGuard<'a> {
    queue: &'a ReadQueue,
    primary: &'a dyn Store,
}

impl Drop for ReadQueueGuard<'_> {
    fn drop(&mut self) {
        self.queue.set(None);
        drop(self.queue.take(usize::MAX, self.primary));
    }
}

/// Asks the primary how far it is while anybody reads of the replica.
async fn take_marks<P: ReplicaDialect>(dialect: &P, shared: &ReplicaState) {
    let mut session = None;
    loop {
        while !shared.marks_are_wanted() {
            shared.bell.notified().await;
        }
        let mut primary = match session.take() {
            Some(primary) => primary,
            None => match dialect.primary().await {
                Ok(primary) => primary,
                // The batches report the reason: they use the same primary.
                Err(_) => {
                    sleep(PAUSE).await;
                    continue;
                }
            },
        };
        let at = Moment::now();
        match timeout(PATIENCE, dialect.committed(&mut primary)).await {
            Ok(Ok(position)) => {
                shared.mark(at, position);
                session = Some(primary);
                sleep(shared.bound / MARKS).await;
            }
            Ok(Err(_)) | Err(_) => sleep(shared.bound).await,
        }
    }
}

/// Answers the reads of one line by one connection.
async fn serve<P: ReplicaDialect>(dialect: &P, shared: &ReplicaState, queue: &ReadQueue) {
    let mut known = None;
    loop {
        let why = match open(dialect).await {
            Ok(replica) => {
                tracing::info!("availability is read of the replica");
                known = None;
                serve_with(dialect, shared, queue, replica).await
            }
            Err(why) => why,
        };
        if known.as_ref() != Some(&why) {
            tracing::warn!(why, "the replica is of no use: the primary is read instead");
            known = Some(why);
        }
        sleep(PAUSE).await;
    }
}

/// Until the connection is of no use any more; why.
async fn serve_with<P: ReplicaDialect>(
    dialect: &P,
    shared: &ReplicaState,
    queue: &ReadQueue,
    mut replica: P::Session,
) -> String {
    let primary = &*shared.primary;
    let _serving = ReadQueueGuard { queue, primary };
    queue.set(Some(Moment::now()));
    loop {
        queue.bell.notified().await;
        loop {
            let taken = queue.take(AT_ONCE, primary);
            if taken.works.is_empty() {
                break;
            }
            shared.is_read();
            let read = timeout(PATIENCE, read(dialect, &mut replica, &taken.works)).await;
            match read {
                Ok(Ok((Some(applied), rows_read))) if shared.is_fresh(&applied) => match rows_read {
                    ReplicaRows::Items(rows) => taken.answer_items(*rows),
                    ReplicaRows::Shelves(shelves) => taken.answer_shelves(shelves),
                },
                // It may have caught up by then.
                Ok(Ok((Some(_), _))) => queue.set(Some(Moment::now() + shared.bound)),
                Ok(Ok((None, _))) => return "it is no replica, or no longer one".to_owned(),
                Ok(Err(error)) => return error.to_string(),
                Err(_) => return "it did not answer in time".to_owned(),
            }
        }
    }
}

/// What the replica shows.
enum ReplicaRows {
    Items(Box<Rows>),
    Shelves(Vec<Vec<Item>>),
}

async fn read<P: ReplicaDialect>(
    dialect: &P,
    replica: &mut P::Session,
    works: &[(Query, ReplyTo)],
) -> Result<(Option<LogPosition>, ReplicaRows), DbError> {
    let applied = dialect.applied(replica).await?;
    let mut lock_set = LockSet::default();
    let mut shelves = Vec::new();
    for (query, _) in works {
        match query {
            Query::Items(keys) => lock_set.items.extend(keys.iter().cloned()),
            Query::ItemPage(shelf) => shelves.push(replica.shelf(shelf).await?),
            _ => return Err(DbError::InvariantViolated("a read that no replica answers".to_owned())),
        }
    }
    if shelves.is_empty() {
        return Ok((applied, ReplicaRows::Items(Box::new(replica.read(&lock_set).await?))));
    }
    Ok((applied, ReplicaRows::Shelves(shelves)))
}

/// Opens the replica, and makes sure that it has the primary's data and not somebody else's: its first item is the primary's as
/// well, made at the same microsecond. Items are never deleted.
async fn open<P: ReplicaDialect>(dialect: &P) -> Result<P::Session, String> {
    let mut replica = dialect.replica().await.map_err(|error| error.to_string())?;
    let look = async {
        if dialect.applied(&mut replica).await?.is_none() {
            return Ok(Err("it is no replica".to_owned()));
        }
        let first = replica.shelf(&ItemPageRequest { location: None, after: None, limit: 1 }).await?;
        Ok::<_, DbError>(first.into_iter().next().ok_or_else(|| "it has no items yet".to_owned()))
    };
    let first = look.await.map_err(|error| error.to_string())??;
    let mut primary = dialect.primary().await.map_err(|error| format!("the primary: {error}"))?;
    let lock_set = LockSet { items: [first.key.clone()].into(), ..LockSet::default() };
    let found = primary.read(&lock_set).await.map_err(|error| format!("the primary: {error}"))?;
    match found.items.first() {
        Some(item) if (item.created_at, item.mode) == (first.created_at, first.mode) => Ok(replica),
        _ => Err("it has another database's data".to_owned()),
    }
}

fn count(by: &'static str, reads: usize) {
    metrics::counter!("stockhold_replica_reads_total", "answered_by" => by).increment(reads as u64);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(parts: &[(u32, u64, u64)]) -> LogPosition {
        LogPosition(parts.iter().map(|(part, of, at)| (*part, (*of, *at))).collect())
    }

    #[test]
    fn a_position_is_reached_on_the_same_line_of_history_only() {
        let mark = at(&[(0, 1, 100)]);
        assert!(at(&[(0, 1, 100)]).has(&mark));
        assert!(at(&[(0, 1, 101), (7, 3, 1)]).has(&mark));
        assert!(!at(&[(0, 1, 99)]).has(&mark));
        assert!(!at(&[(0, 2, 500)]).has(&mark), "somebody else's numbers");
        assert!(!at(&[(1, 1, 500)]).has(&mark), "another part");
        assert!(!at(&[]).has(&mark));
        assert!(!at(&[(0, 1, 100)]).has(&at(&[])), "a primary that says nothing");
        assert!(!at(&[(0, 1, 9)]).has(&at(&[(0, 1, 9), (1, 1, 1)])), "every part");
    }
}
