//! One connection: opened, its schema brought up to date, its statements prepared, its warnings watched.
//!
//! A connection whose state is in doubt is dropped, never reused: a transaction may be open on it.

use super::Config;
use super::statements::Statements;
use core::fmt;
use core::future::poll_fn;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// The schema that this program knows: the number of its last migration.
pub const SCHEMA_VERSION: i32 = 1;

const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/0001_counted.sql")];
const _: () = assert!(MIGRATIONS.len() == SCHEMA_VERSION as usize);

/// Instances that start at once trip over each other's `CREATE … IF NOT EXISTS`, which is not atomic; each trip means
/// that another one got further, so a few tries are enough.
const MIGRATION_TRIES: u32 = 10;

/// Why a store could not be connected.
#[derive(Debug)]
pub enum ConnectError {
    /// The address is no PostgreSQL URL.
    Address(String),
    /// The thread that serves the store could not be started.
    Thread(std::io::Error),
    /// The database can't be reached, or refuses.
    Database(tokio_postgres::Error),
    /// The database did not answer in time.
    Silent,
    /// The database keeps texts in an encoding that can't hold every SKU.
    Encoding(String),
    /// The schema is newer than this program.
    NewerSchema {
        /// The schema's version.
        found: i32,
    },
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(why) => write!(f, "not the address of a PostgreSQL database: {why}"),
            Self::Thread(why) => write!(f, "the store's thread could not be started: {why}"),
            Self::Database(why) => match why.as_db_error() {
                Some(answer) => write!(f, "the database refused: {answer}"),
                None => write!(f, "the database can't be reached: {why}"),
            },
            Self::Silent => f.write_str("the database did not answer in time"),
            Self::Encoding(found) => write!(f, "the database's encoding is {found}; it has to be UTF8"),
            Self::NewerSchema { found } => write!(
                f,
                "the database has schema version {found}, and this program knows {SCHEMA_VERSION}: run a newer one"
            ),
        }
    }
}

impl std::error::Error for ConnectError {}

impl From<tokio_postgres::Error> for ConnectError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

/// An open connection that is ready for batches.
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) statements: Statements,
    /// Whether the server has warned of anything since this was last cleared.
    warned: Arc<AtomicBool>,
    driver: tokio::task::JoinHandle<()>,
}

impl Drop for Connection {
    /// Closes the socket at once, whatever was going on: the server rolls back what it had not committed.
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Opens, migrates, prepares; all of it within the deadline of a batch.
    pub(super) async fn open(config: &Config) -> Result<Self, ConnectError> {
        let opened = tokio::time::timeout(config.batch_deadline, Self::open_slowly(config)).await;
        opened.unwrap_or(Err(ConnectError::Silent))
    }

    async fn open_slowly(config: &Config) -> Result<Self, ConnectError> {
        let (client, mut connection) = config.database.connect(NoTls).await?;
        let warned = Arc::new(AtomicBool::new(false));
        let warn = Arc::clone(&warned);
        let driver = tokio::spawn(async move {
            while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                match message {
                    Ok(AsyncMessage::Notice(notice)) => {
                        if notice.parsed_severity() == Some(Severity::Warning) {
                            warn.store(true, Ordering::SeqCst);
                        }
                    }
                    Ok(_) => {}
                    // Whoever waits for an answer is told the same, and handles it.
                    Err(_) => return,
                }
            }
        });
        let timeouts = format!(
            "SET lock_timeout = {}; SET statement_timeout = {}; SET client_min_messages = 'warning'",
            millis(config.lock_timeout),
            millis(config.batch_deadline)
        );
        client.batch_execute(&timeouts).await?;
        let encoding: String = client.query_one("SHOW server_encoding", &[]).await?.get(0);
        if encoding != "UTF8" {
            return Err(ConnectError::Encoding(encoding));
        }
        migrate(&client).await?;
        let statements = Statements::prepare(&client, &config.clock).await?;
        Ok(Self { client, statements, warned, driver })
    }

    /// Commits. `false` when the server warned: a synchronous standby did not confirm, so the commit may not outlive
    /// this server. The server sends a warning ahead of the answer, so it has been seen when the answer has.
    pub(super) async fn commit(&self) -> Result<bool, tokio_postgres::Error> {
        self.warned.store(false, Ordering::SeqCst);
        self.client.batch_execute("COMMIT").await?;
        Ok(!self.warned.load(Ordering::SeqCst))
    }
}

fn millis(duration: Duration) -> u128 {
    duration.as_millis().max(1)
}

async fn migrate(client: &Client) -> Result<(), ConnectError> {
    // Most connections find the schema as it should be, and then write nothing and wait for nobody.
    let made: bool =
        client.query_one("SELECT to_regclass('stockhold.schema_version') IS NOT NULL", &[]).await?.get(0);
    if made {
        let found = client.query_opt("SELECT version FROM stockhold.schema_version", &[]).await?;
        if found.map(|row| row.get(0)) == Some(SCHEMA_VERSION) {
            return Ok(());
        }
    }
    let mut tries = 1;
    loop {
        match migrate_once(client).await {
            Err(ConnectError::Database(error)) if tries < MIGRATION_TRIES && is_race(&error) => {
                client.batch_execute("ROLLBACK").await?;
                tries += 1;
            }
            other => return other,
        }
    }
}

fn is_race(error: &tokio_postgres::Error) -> bool {
    let races = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_SCHEMA,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    error.code().is_some_and(|code| races.contains(code))
}

/// The version's row is the lock: a second instance waits for it, and then finds nothing to do.
async fn migrate_once(client: &Client) -> Result<(), ConnectError> {
    client
        .batch_execute(
            "BEGIN;
             CREATE SCHEMA IF NOT EXISTS stockhold;
             CREATE TABLE IF NOT EXISTS stockhold.schema_version (
                 one boolean PRIMARY KEY DEFAULT true CHECK (one),
                 version integer NOT NULL
             );
             INSERT INTO stockhold.schema_version (version) VALUES (0) ON CONFLICT DO NOTHING",
        )
        .await?;
    let found = client.query_one("SELECT version FROM stockhold.schema_version FOR UPDATE", &[]).await?;
    let found: i32 = found.get(0);
    if found > SCHEMA_VERSION {
        return Err(ConnectError::NewerSchema { found });
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        client.batch_execute(migration).await?;
    }
    client.execute("UPDATE stockhold.schema_version SET version = $1", &[&SCHEMA_VERSION]).await?;
    client.batch_execute("COMMIT").await?;
    Ok(())
}
