//! A read replica beside the primary: what is to be had is read there, as long as it is known to be fresh enough, and of the
//! primary otherwise. Commands, and whatever else is read, never come here.
//!
//! How fresh it is: the primary is asked, again and again, how far it has committed. Each answer is a mark, with the instant
//! before it was asked for. Whoever reads of the replica first asks how far it has applied; what it then shows is at most as old
//! as the newest mark that it has reached. No clock of another machine is looked at, and nothing is written.
//!
//! A replica that is too far behind, does not answer, is none (any more) or is another database's costs its readers a moment:
//! they are handed to the primary, and so are those after them until it is well.

use super::dialect::{Rows, Session, Trouble, Wants};
use super::options::OpenError;
use super::post::{Owed, Post};
use super::read::answer_quick;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use stockhold_domain::{Item, ItemKey};
use stockhold_store::{Answer, ItemPageRequest, Job, Query, QueryResult, ReplyTo, Request, Store};
use tokio::sync::Notify;
use tokio::time::{Instant as Moment, sleep, timeout};

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
pub(crate) struct Position(pub(crate) BTreeMap<u32, (u64, u64)>);

impl Position {
    /// Whether whoever has come this far has all that was there at a mark. Where a log goes on under somebody else's name, as
    /// after a failover, numbers before and after are not compared.
    fn has(&self, mark: &Self) -> bool {
        let reached = |(part, (of, at)): (&u32, &(u64, u64))| {
            self.0.get(part).is_some_and(|(whose, reached)| whose == of && reached >= at)
        };
        !mark.0.is_empty() && mark.0.iter().all(reached)
    }
}

/// A primary and its replica, and how one talks to them.
pub(crate) trait Pair: Send + Sync + 'static {
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
    ) -> impl Future<Output = Result<Position, Trouble>> + Send;

    /// How far a replica has applied, `None` when it is none: what is read of it afterwards has all of that.
    fn applied(
        &self,
        replica: &mut Self::Session,
    ) -> impl Future<Output = Result<Option<Position>, Trouble>> + Send;
}

/// A [`Store`] that asks a replica where it may.
pub(crate) struct ReplicaStore {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    primary: Arc<dyn Store>,
    /// Oldest that an answer may be.
    bound: Duration,
    items: Line,
    shelves: Line,
    marks: Mutex<VecDeque<(Moment, Position)>>,
    read_at: Mutex<Option<Moment>>,
    /// Rung by reads when no marks are being taken, and at the end.
    bell: Notify,
    over: AtomicBool,
}

/// Reads that wait for one of the replica's connections.
#[derive(Default)]
struct Line {
    inner: Mutex<Waiting>,
    bell: Notify,
}

#[derive(Default)]
struct Waiting {
    works: VecDeque<(Query, ReplyTo)>,
    /// Since when the replica is of use; `None` while it is not.
    open: Option<Moment>,
}

impl ReplicaStore {
    /// Beside a primary that is open. A replica that can't be reached yet is waited for behind the reads.
    pub(crate) fn start<P: Pair>(
        primary: Arc<dyn Store>,
        pair: P,
        bound: Duration,
    ) -> Result<Self, OpenError> {
        metrics::describe_counter!(
            "stockhold_replica_reads_total",
            "Reads that a replica could have answered, by who did: the replica, or the primary because the replica was \
             too far behind or of no use"
        );
        let shared = Arc::new(Shared {
            primary,
            bound,
            items: Line::default(),
            shelves: Line::default(),
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
                        () = take_marks(&pair, &at_work) => {}
                        () = serve(&pair, &at_work, &at_work.items) => {}
                        () = serve(&pair, &at_work, &at_work.shelves) => {}
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
        let line = match &work.request {
            Request::Query(Query::Items(_)) => &shared.items,
            Request::Query(Query::ItemPage(_)) => &shared.shelves,
            _ => return shared.primary.submit(work),
        };
        if let Some(work) = line.push(work) {
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

impl Shared {
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

    fn mark(&self, at: Moment, position: Position) {
        let mut marks = lock(&self.marks);
        marks.retain(|(at, _)| at.elapsed() <= self.bound);
        marks.push_back((at, position));
    }

    /// Whether what somebody shows who has come so far is fresh enough to be given out now.
    fn is_fresh(&self, applied: &Position) -> bool {
        let marks = lock(&self.marks);
        let mut good = marks.iter().filter(|(at, _)| at.elapsed() <= self.bound);
        good.any(|(_, position)| applied.has(position))
    }
}

impl Line {
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

    fn take<'a>(&self, most: usize, primary: &'a dyn Store) -> Taken<'a> {
        let mut waiting = lock(&self.inner);
        let count = waiting.works.len().min(most);
        Taken { works: waiting.works.drain(..count).collect(), primary }
    }
}

/// Reads that somebody works on. What is not answered when it is dropped, however that comes, the primary answers.
struct Taken<'a> {
    works: Vec<(Query, ReplyTo)>,
    primary: &'a dyn Store,
}

impl Taken<'_> {
    fn answer_items(mut self, rows: Rows) {
        count("replica", self.works.len());
        let asked = self.works.drain(..).map(|(query, reply)| (query, Owed::new(reply))).collect();
        answer_quick(asked, rows, &mut Post::default());
    }

    fn answer_shelves(mut self, shelves: Vec<Vec<Item>>) {
        count("replica", self.works.len());
        let mut post = Post::default();
        for ((_, reply), items) in self.works.drain(..).zip(shelves) {
            post.put(Owed::new(reply), Ok(Answer::QueryResult(QueryResult::ItemPage(items))));
        }
    }
}

impl Drop for Taken<'_> {
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

/// Closes a line when whoever serves it is gone: what waits is the primary's.
struct Serving<'a> {
    line: &'a Line,
    primary: &'a dyn Store,
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.line.set(None);
        drop(self.line.take(usize::MAX, self.primary));
    }
}

/// Asks the primary how far it is while anybody reads of the replica.
async fn take_marks<P: Pair>(pair: &P, shared: &Shared) {
    let mut session = None;
    loop {
        while !shared.marks_are_wanted() {
            shared.bell.notified().await;
        }
        let mut primary = match session.take() {
            Some(primary) => primary,
            None => match pair.primary().await {
                Ok(primary) => primary,
                // Whoever commits says why: the same primary is out of reach there.
                Err(_) => {
                    sleep(PAUSE).await;
                    continue;
                }
            },
        };
        let at = Moment::now();
        match timeout(PATIENCE, pair.committed(&mut primary)).await {
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
async fn serve<P: Pair>(pair: &P, shared: &Shared, line: &Line) {
    let mut known = None;
    loop {
        let why = match open(pair).await {
            Ok(replica) => {
                tracing::info!("availability is read of the replica");
                known = None;
                serve_with(pair, shared, line, replica).await
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
async fn serve_with<P: Pair>(pair: &P, shared: &Shared, line: &Line, mut replica: P::Session) -> String {
    let primary = &*shared.primary;
    let _serving = Serving { line, primary };
    line.set(Some(Moment::now()));
    loop {
        line.bell.notified().await;
        loop {
            let taken = line.take(AT_ONCE, primary);
            if taken.works.is_empty() {
                break;
            }
            shared.is_read();
            let read = timeout(PATIENCE, read(pair, &mut replica, &taken.works)).await;
            match read {
                Ok(Ok((Some(applied), shown))) if shared.is_fresh(&applied) => match shown {
                    Shown::Items(rows) => taken.answer_items(rows),
                    Shown::Shelves(shelves) => taken.answer_shelves(shelves),
                },
                // It may have caught up by then.
                Ok(Ok((Some(_), _))) => line.set(Some(Moment::now() + shared.bound)),
                Ok(Ok((None, _))) => return "it is no replica, or no longer one".to_owned(),
                Ok(Err(fatal_error)) => return fatal_error.to_string(),
                Err(_) => return "it did not answer in time".to_owned(),
            }
        }
    }
}

/// What the replica shows.
enum Shown {
    Items(Rows),
    Shelves(Vec<Vec<Item>>),
}

async fn read<P: Pair>(
    pair: &P,
    replica: &mut P::Session,
    works: &[(Query, ReplyTo)],
) -> Result<(Option<Position>, Shown), Trouble> {
    let applied = pair.applied(replica).await?;
    let mut wants = Wants::default();
    let mut shelves = Vec::new();
    for (query, _) in works {
        match query {
            Query::Items(keys) => wants.items.extend(keys.iter().cloned()),
            Query::ItemPage(shelf) => shelves.push(replica.shelf(shelf).await?),
            _ => return Err(Trouble::Alarm("a read that no replica answers".to_owned())),
        }
    }
    if shelves.is_empty() {
        return Ok((applied, Shown::Items(replica.read(&wants).await?)));
    }
    Ok((applied, Shown::Shelves(shelves)))
}

/// Opens the replica, and makes sure that it has the primary's data and not somebody else's: its first item is the primary's as
/// well, made at the same microsecond. Items are never deleted.
async fn open<P: Pair>(pair: &P) -> Result<P::Session, String> {
    let mut replica = pair.replica().await.map_err(|error| error.to_string())?;
    let look = async {
        if pair.applied(&mut replica).await?.is_none() {
            return Ok(Err("it is no replica".to_owned()));
        }
        let first = replica.shelf(&ItemPageRequest { location: None, after: None, limit: 1 }).await?;
        Ok::<_, Trouble>(first.into_iter().next().ok_or_else(|| "it has no items yet".to_owned()))
    };
    let first = look.await.map_err(|fatal_error| fatal_error.to_string())??;
    let mut primary = pair.primary().await.map_err(|error| format!("the primary: {error}"))?;
    let wants = Wants { items: [first.key.clone()].into(), ..Wants::default() };
    let found = primary.read(&wants).await.map_err(|fatal_error| format!("the primary: {fatal_error}"))?;
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

    fn at(parts: &[(u32, u64, u64)]) -> Position {
        Position(parts.iter().map(|(part, of, at)| (*part, (*of, *at))).collect())
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
