//! The PostgreSQL store: stateless instances over one database, counted stock.
//!
//! Commands that wait are combined into one transaction: find out what they may touch, lock it in one fixed order, read
//! the clock, read the state again, decide, write, commit, answer. The transaction belongs to the store's own thread,
//! never to a request, so a caller that goes away cancels nothing half done. No rule stands here: [`slice`] tells the
//! rules what is there, and a database constraint that fires is an alarm, never an answer.
//!
//! This first version has one connection and one batch in flight per instance: two batches of an instance can't share an
//! item, at the price that unrelated items wait for each other's commits. Several instances over one database are
//! correct. It has no sweeper of its own: somebody submits [`stockhold_domain::Command::Sweep`].
//!
//! Errors: [`ConnectError`] at the start; [`Failure`] in answers; inside, [`stop::Stop`] says why an attempt ended before
//! its commit, and [`stop::cure`] is the one place where codes of the database are told apart.

mod connect;
mod statements;

mod rows;
mod slice;
mod stop;

mod load;
mod write;

mod batch;
mod queue;
mod read;

pub use connect::{ConnectError, SCHEMA_VERSION};
pub use statements::LOCK_STATEMENTS;

use connect::Connection;
use core::time::Duration;
use queue::{Job, Mailbox, Queue, stopped};
use std::sync::mpsc as answers;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use stockhold_domain::{Item, ItemKey, Rules, limits};
use stockhold_store::{EventRow, Failure, Store, Work};

/// Most commands in one batch: past it a batch gets longer faster than it gets cheaper.
pub const BATCH_COMMANDS: usize = 256;
/// Most lines that the commands of one batch name; a larger basket comes alone.
pub const BATCH_LINES: usize = 4_096;
/// Pieces of work that wait before more is [`Failure::Overloaded`], unless configured otherwise.
pub const QUEUE: usize = 8_192;

/// How long a connection is waited for, unless the URL says.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one lock is waited for: other instances hold locks for a batch, which takes milliseconds.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an attempt may take up to its commit: several locks, and what they wait for.
pub const BATCH_DEADLINE: Duration = Duration::from_secs(10);
/// How long a commit is waited for. A synchronous standby that is gone would hold it up for ever.
pub const COMMIT_DEADLINE: Duration = Duration::from_secs(10);

const _: () = assert!(LOCK_TIMEOUT.as_millis() < BATCH_DEADLINE.as_millis());
const _: () = assert!(limits::BASKET_LINES <= BATCH_LINES);
const _: () = assert!(BATCH_COMMANDS <= QUEUE);

/// How a store reaches its database and how long it waits there.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the database is and who connects.
    pub database: tokio_postgres::Config,
    /// How long holds may last.
    pub rules: Rules,
    /// A query that yields the store's time in microseconds since 1970. Only tests have a reason to change it.
    pub clock: String,
    /// Pieces of work that may wait.
    pub queue: usize,
    /// How long one lock is waited for before the batch starts anew.
    pub lock_timeout: Duration,
    /// How long an attempt may take up to its commit.
    pub batch_deadline: Duration,
    /// How long a commit is waited for before its outcome counts as unknown.
    pub commit_deadline: Duration,
}

impl Config {
    /// For a `postgres://` URL, with everything else at its default.
    pub fn new(url: &str) -> Result<Self, ConnectError> {
        let mut database: tokio_postgres::Config =
            url.parse().map_err(|error: tokio_postgres::Error| ConnectError::Address(error.to_string()))?;
        if database.get_connect_timeout().is_none() {
            database.connect_timeout(CONNECT_TIMEOUT);
        }
        Ok(Self {
            database,
            rules: Rules::default(),
            clock: "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint".to_owned(),
            queue: QUEUE,
            lock_timeout: LOCK_TIMEOUT,
            batch_deadline: BATCH_DEADLINE,
            commit_deadline: COMMIT_DEADLINE,
        })
    }
}

/// A [`Store`] over PostgreSQL.
pub struct PostgresStore {
    mailbox: Arc<Mailbox>,
    trouble: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl PostgresStore {
    /// Connects and brings the schema up to date. Blocks until that is done.
    pub fn connect(config: Config) -> Result<Self, ConnectError> {
        let mailbox = Arc::new(Mailbox::new(config.queue));
        let trouble = Arc::new(Mutex::new(None));
        let (opened, is_open) = answers::sync_channel(1);
        let (jobs, why) = (Arc::clone(&mailbox), Arc::clone(&trouble));
        // All of it on a thread of its own, so that a store can be connected from within anybody's runtime.
        let thread = std::thread::Builder::new()
            .name("stockhold-postgres".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let started = runtime.map_err(ConnectError::Thread).and_then(|runtime| {
                    let connection = runtime.block_on(Connection::open(&config))?;
                    Ok((runtime, Queue::new(config, connection, jobs, why)))
                });
                match started {
                    Ok((runtime, mut queue)) => {
                        // Whoever asked waits for this, and is there.
                        let _ = opened.send(Ok(()));
                        runtime.block_on(queue.run());
                    }
                    Err(error) => {
                        let _ = opened.send(Err(error));
                    }
                }
            })
            .map_err(ConnectError::Thread)?;
        is_open.recv().unwrap_or(Err(ConnectError::Silent))?;
        Ok(Self { mailbox, trouble, thread: Some(thread) })
    }
}

impl Store for PostgresStore {
    fn submit(&self, work: Work) {
        if let Err((Job::Work(work), failure)) = self.mailbox.push(Job::Work(work)) {
            work.reply.answer(Err(failure));
        }
    }

    fn kick(&self) {
        self.mailbox.ring();
    }

    /// Nothing: other instances commit as well, so memory can't know.
    fn published(&self, _: &ItemKey) -> Option<Option<Item>> {
        None
    }

    fn events(&self, after: u64, limit: usize) -> Result<Vec<EventRow>, Failure> {
        let (answer, answered) = answers::sync_channel(1);
        self.mailbox.push(Job::Events { after, limit, answer }).map_err(|(_, failure)| failure)?;
        self.mailbox.ring();
        answered.recv().unwrap_or_else(|_| Err(stopped()))
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for PostgresStore {
    /// Finishes the batch in flight and what waits, then closes the connection.
    fn drop(&mut self) {
        self.mailbox.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the PostgreSQL store's thread had panicked");
        }
    }
}
