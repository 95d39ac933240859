//! Schema migrations. Each version is made once, even if several instances start at the same time: they wait for each other at a
//! named lock, which belongs to the server and is used for nothing else. DDL is not transactional here: every statement of a
//! migration can be run again, and the version is written after the last of them. In a cluster every node has a named lock of its own.
//! So instances at two nodes may migrate at the same time, and one that was in the way of another begins again.

use super::connect::{MysqlTarget, exchange};
use super::errors::{is_conflict, is_no_such_table, open_error};
use super::rows;
use crate::MigrationResult;
use crate::engine::{DbError, OpenError, jitter};
use core::time::Duration;
use mysql_async::{Conn, Error, Row};

/// The schema that this program knows: the number of its last migration.
pub const SCHEMA_VERSION: i32 = 1;

const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/mysql_0001.sql")];
const _: () = assert!(MIGRATIONS.len() == SCHEMA_VERSION as usize);

/// The timeout of the lock in seconds. A server that starts has a shorter deadline of its own; a migration alone has time.
const LOCK_SECONDS: u32 = 3_600;
/// Most attempts at a migration. Of two instances at two nodes, one always gets on.
const ATTEMPTS: u32 = 20;
/// The longest pause between two of them.
const PAUSE: Duration = Duration::from_millis(200);
/// Named locks are the server's, so it has to say of which database. It has 64 characters at most. MySQL has no `MD5()` from 9.6 on.
const LOCK_NAME: &str = "CONCAT('stockhold.', LEFT(SHA2(DATABASE(), 256), 32))";

/// Migrates by a connection of its own, with no limit on how long a statement may take.
pub(super) async fn alone(target: &MysqlTarget) -> Result<MigrationResult, OpenError> {
    let (mut conn, _) = target.connect().await?;
    let unhurried =
        format!("SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}, lock_wait_timeout = {LOCK_SECONDS}");
    run(&mut conn, &unhurried).await.map_err(|error| open_error(&error))?;
    migrate(&mut conn).await
}

/// Brings the schema up to date.
pub(super) async fn migrate(conn: &mut Conn) -> Result<MigrationResult, OpenError> {
    // Most connections find the schema as it should be, and then write nothing and wait for nobody.
    let found = whole(conn).await?;
    if found == SCHEMA_VERSION {
        return Ok(MigrationResult { from: found, to: found });
    }
    if found > SCHEMA_VERSION {
        return Err(newer_schema(found));
    }
    let locked = run(conn, &format!("SELECT GET_LOCK({LOCK_NAME}, {LOCK_SECONDS})")).await;
    let locked = locked.map_err(|error| open_error(&error))?;
    if locked.first().and_then(|row| rows::int(row, 0).ok()) != Some(1) {
        return Err(OpenError::Unfit("another instance's migration does not end".to_owned()));
    }
    let mut attempts = 1;
    let done = loop {
        match under_lock(conn).await {
            Err(MigrationError::Statement(error)) if is_conflict(&error) && attempts < ATTEMPTS => {
                attempts += 1;
                tokio::time::sleep(jitter(PAUSE)).await;
            }
            Err(MigrationError::Statement(error)) => break Err(open_error(&error)),
            Err(MigrationError::Unfit(error)) => break Err(error),
            Ok(done) => break Ok(done),
        }
    };
    // A connection that failed has lost its lock anyway.
    let _ = run(conn, &format!("SELECT RELEASE_LOCK({LOCK_NAME})")).await;
    done
}

/// Whether the schema is the one that is known. Changes nothing.
pub(super) async fn expect(conn: &mut Conn) -> Result<(), OpenError> {
    match whole(conn).await? {
        SCHEMA_VERSION => Ok(()),
        newer if newer > SCHEMA_VERSION => Err(newer_schema(newer)),
        older => Err(OpenError::OlderSchema { found: older, known: SCHEMA_VERSION }),
    }
}

fn newer_schema(found: i32) -> OpenError {
    OpenError::NewerSchema { found, known: SCHEMA_VERSION }
}

/// The schema's version, unless a copy has not ended.
async fn whole(conn: &mut Conn) -> Result<i32, OpenError> {
    let (version, unfinished) = version(conn).await?;
    if unfinished { Err(OpenError::Unfinished) } else { Ok(version) }
}

/// The schema's version, 0 when there is none, and whether a copy has not ended.
async fn version(conn: &mut Conn) -> Result<(i32, bool), OpenError> {
    match run(conn, "SELECT version,unfinished FROM stockhold_schema_version").await {
        Ok(found) => {
            let Some(row) = found.first() else { return Ok((0, false)) };
            let [version, unfinished] = [0, 1].map(|column| rows::int(row, column));
            let unfit = |error: DbError| OpenError::Unfit(error.to_string());
            let (version, unfinished) = (version.map_err(unfit)?, unfinished.map_err(unfit)?);
            Ok((i32::try_from(version).unwrap_or(i32::MAX), unfinished != 0))
        }
        Err(error) if is_no_such_table(&error) => Ok((0, false)),
        Err(error) => Err(open_error(&error)),
    }
}

/// Why a migration has ended early.
enum MigrationError {
    /// A statement of it.
    Statement(Error),
    /// The schema that was found.
    Unfit(OpenError),
}

impl From<Error> for MigrationError {
    fn from(error: Error) -> Self {
        Self::Statement(error)
    }
}

async fn under_lock(conn: &mut Conn) -> Result<MigrationResult, MigrationError> {
    let (from, _) = version(conn).await.map_err(MigrationError::Unfit)?;
    if from > SCHEMA_VERSION {
        return Err(MigrationError::Unfit(newer_schema(from)));
    }
    run(
        conn,
        "CREATE TABLE IF NOT EXISTS stockhold_schema_version (
            one TINYINT NOT NULL,
            version INT NOT NULL,
            unfinished TINYINT NOT NULL DEFAULT 0,
            PRIMARY KEY (one),
            CONSTRAINT stockhold_schema_version_one CHECK (one = 1)
         ) ENGINE = InnoDB",
    )
    .await?;
    for (number, migration) in (1..).zip(MIGRATIONS).skip(usize::try_from(from).unwrap_or(0)) {
        run(conn, migration.trim_end()).await?;
        let noted = format!(
            "INSERT INTO stockhold_schema_version (one, version) VALUES (1, {number})
             ON DUPLICATE KEY UPDATE version = {number}"
        );
        run(conn, &noted).await?;
    }
    Ok(MigrationResult { from, to: SCHEMA_VERSION })
}

/// Runs statements; the rows of all of them.
async fn run(conn: &mut Conn, text: &str) -> Result<Vec<Row>, Error> {
    Ok(exchange(conn, text).await.map_err(|(_, error)| error)?.concat())
}
