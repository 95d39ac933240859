//! How a SQL store is to run, and why it could not be opened.

use core::fmt;
use core::time::Duration;
use stockhold_domain::{HoldLimits, limits};
use stockhold_store::StartProgress;

/// Most commands in one batch: past it a batch gets longer faster than it gets cheaper.
pub(crate) const BATCH_COMMANDS: usize = 256;
/// Most lines that the commands of one batch make or rewrite, a unit with an id being one more: those of a reservation go all
/// together. A larger basket comes alone.
pub(crate) const BATCH_LINES: usize = 4_096;

const _: () = assert!(limits::BASKET_LINES <= BATCH_LINES && limits::SOURCE_PAIRS <= BATCH_LINES);
const _: () = assert!(BATCH_COMMANDS <= Options::QUEUE);
const _: () = assert!(Options::CONNECTIONS >= Options::FEWEST_CONNECTIONS);
const _: () = assert!(Options::CONNECTIONS <= Options::MOST_CONNECTIONS);

/// How a SQL store is to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long holds may last.
    pub rules: HoldLimits,
    /// Pieces of work that may wait before more is [`stockhold_store::Failure::Overloaded`].
    pub queue: usize,
    /// Most commands in one batch, 1 to 256.
    pub batch: usize,
    /// Connections to start with.
    pub connections: usize,
    /// Connections at most.
    pub most_connections: usize,
    /// How long a connection is waited for.
    pub connect_timeout: Duration,
    /// How long one lock is waited for before the batch starts anew; `None` for what suits the database.
    pub lock_timeout: Option<Duration>,
    /// How long an attempt may take up to its commit.
    pub batch_deadline: Duration,
    /// How long a commit is waited for before its outcome counts as unknown.
    pub commit_deadline: Duration,
    /// How often overdue holds are looked for; `None` when somebody else submits [`stockhold_domain::Command::Sweep`].
    pub sweep_every: Option<Duration>,
    /// Most holds that the sweeper expires in one transaction.
    pub sweep_batch: usize,
    /// How long an idempotency key is kept at least.
    pub key_retention: Duration,
    /// A query that yields the store's time in microseconds since 1970, instead of the database's own clock. Only tests have a
    /// reason to give one.
    pub clock: Option<String>,
    /// A read replica that answers queries for availability.
    pub replica: Option<Replica>,
    /// Where the progress of the start is written to.
    pub start_progress: StartProgress,
}

/// A read replica.
#[derive(Clone)]
pub struct Replica {
    /// Its address, of the same kind as the primary's.
    pub url: String,
    /// Oldest that what it shows may be when it is given out.
    pub staleness: Duration,
}

impl Replica {
    /// Oldest that what it shows may be.
    pub const STALENESS: Duration = Duration::from_millis(100);
}

impl fmt::Debug for Replica {
    /// Without the address: it has a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("staleness", &self.staleness).finish_non_exhaustive()
    }
}

impl Options {
    /// Most commands in one batch.
    pub const BATCH: usize = BATCH_COMMANDS;
    /// Pieces of work that wait.
    pub const QUEUE: usize = 8_192;
    /// Connections to start with.
    pub const CONNECTIONS: usize = 8;
    /// Connections at most.
    pub const MOST_CONNECTIONS: usize = 30;
    /// One for commands and one for reads.
    pub const FEWEST_CONNECTIONS: usize = 2;
    /// How long a connection is waited for.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
    /// How long an attempt may take up to its commit: several locks, and what they wait for.
    pub const BATCH_DEADLINE: Duration = Duration::from_secs(10);
    /// How long a commit is waited for. A synchronous standby that is gone would hold it up for ever.
    pub const COMMIT_DEADLINE: Duration = Duration::from_secs(10);
    /// How often overdue holds are looked for: a fifth of what is typical to wait.
    pub const SWEEP_EVERY: Duration = Duration::from_secs(1);
    /// Most holds that the sweeper expires in one transaction: it holds their items' locks for so long.
    pub const SWEEP_BATCH: usize = 500;
    /// Shortest time that keys may be kept.
    pub const KEY_RETENTION: Duration = Duration::from_hours(24);

    /// What can't be asked for, as text; `None` when all is well.
    pub(crate) fn wrong(&self) -> Option<String> {
        if self.connections < Self::FEWEST_CONNECTIONS || self.most_connections < self.connections {
            return Some(format!(
                "connections: at least {} to start with, and no fewer at most (found {} and {})",
                Self::FEWEST_CONNECTIONS,
                self.connections,
                self.most_connections
            ));
        }
        if self.batch == 0 || self.batch > BATCH_COMMANDS {
            return Some(format!("a batch has 1 to {BATCH_COMMANDS} commands (found {})", self.batch));
        }
        if self.sweep_batch == 0 || self.queue == 0 {
            return Some("a sweep's batch and the queue have room for at least one".to_owned());
        }
        None
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: HoldLimits::default(),
            queue: Self::QUEUE,
            batch: Self::BATCH,
            connections: Self::CONNECTIONS,
            most_connections: Self::MOST_CONNECTIONS,
            connect_timeout: Self::CONNECT_TIMEOUT,
            lock_timeout: None,
            batch_deadline: Self::BATCH_DEADLINE,
            commit_deadline: Self::COMMIT_DEADLINE,
            sweep_every: Some(Self::SWEEP_EVERY),
            sweep_batch: Self::SWEEP_BATCH,
            key_retention: Self::KEY_RETENTION,
            clock: None,
            replica: None,
            start_progress: StartProgress::default(),
        }
    }
}

/// Why a store could not be opened. No text shows a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The address is none that this program understands.
    Address(String),
    /// An option is out of its bounds.
    Option(String),
    /// The thread that serves the store could not be started.
    Thread(String),
    /// The server can't be reached, or did not answer in time.
    Unreachable(String),
    /// The server does not let this user in.
    Refused(String),
    /// The server or the database is not fit: too old, read-only, another encoding, missing rights.
    Unfit(String),
    /// There is no schema, or it is older than this program, and it was not to be changed.
    OlderSchema {
        /// The schema's version; 0 when there is none.
        found: i32,
        /// The newest that this program knows.
        known: i32,
    },
    /// A copy into the database is running or was interrupted, so that data is missing.
    Unfinished,
    /// The schema is newer than this program.
    NewerSchema {
        /// The schema's version.
        found: i32,
        /// The newest that this program knows.
        known: i32,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(why) => write!(f, "not the address of a database: {why}"),
            Self::Option(why) => f.write_str(why),
            Self::Thread(why) => write!(f, "the store's thread could not be started: {why}"),
            Self::Unreachable(why) => write!(f, "the database can't be reached: {why}"),
            Self::Refused(why) => write!(f, "the database refused the connection: {why}"),
            Self::Unfit(why) => write!(f, "the database can't be used: {why}"),
            Self::OlderSchema { found: 0, .. } => {
                f.write_str("there is no stockhold data in this database: is it the right one?")
            }
            Self::OlderSchema { found, known } => write!(
                f,
                "the database has schema version {found}, and this program knows {known}: let `stockhold serve` of this \
                 version start on it first"
            ),
            Self::Unfinished => f.write_str(
                "a copy into this database has not ended, and nobody is served from a part of what there is: if no `stockhold \
                 copy` is at work on it, empty it and copy again",
            ),
            Self::NewerSchema { found, known } => write!(
                f,
                "the database has schema version {found}, and this program knows {known}: run a newer program"
            ),
        }
    }
}

impl std::error::Error for OpenError {}
