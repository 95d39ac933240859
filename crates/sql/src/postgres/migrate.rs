//! Schema migrations. Each version is made once, even if several instances start at the same time: they wait for each other at
//! the lock of the row that has the version.

use super::citus;
use super::connect::{PostgresTarget, ready};
use super::errors::open_error;
use crate::engine::{OpenError, Options};
use crate::{DistributionResult, MigrationResult};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

/// The schema that this program knows: the number of its last migration.
pub const SCHEMA_VERSION: i32 = 1;

const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/postgres_0001.sql")];
const _: () = assert!(MIGRATIONS.len() == SCHEMA_VERSION as usize);

/// Instances that start at once trip over each other's `CREATE … IF NOT EXISTS`, which is not atomic; each trip means
/// that another one got further, so a few tries are enough.
const TRIES: u32 = 10;

/// Migrates by a connection of its own, with no limit on how long a statement may take.
pub(super) async fn alone(target: &PostgresTarget, options: &Options) -> Result<MigrationResult, OpenError> {
    let (client, _driver) = target.connect().await?;
    // Others would have what is set in a shared session.
    if !ready(target, &client, options).await?.shares_sessions {
        unhurried(&client).await?;
    }
    migrate(&client).await
}

/// Migrates, and spreads the tables over the workers of a Citus cluster.
pub(super) async fn distribute(
    target: &PostgresTarget,
    options: &Options,
    shards: u32,
) -> Result<DistributionResult, OpenError> {
    let (client, _driver) = target.connect().await?;
    let has_citus = ready(target, &client, options).await?.has_citus;
    unhurried(&client).await?;
    // What cannot be distributed gets no schema either.
    citus::check(&client, has_citus, shards).await?;
    let migration = migrate(&client).await?;
    Ok(DistributionResult { migration, is_new: citus::distribute(&client, shards).await? })
}

async fn unhurried(client: &Client) -> Result<(), OpenError> {
    let unhurried = client.batch_execute("SET statement_timeout = 0; SET lock_timeout = 0").await;
    unhurried.map_err(|error| open_error(&error))
}

/// Brings the schema up to date.
pub(super) async fn migrate(client: &Client) -> Result<MigrationResult, OpenError> {
    // Most connections find the schema as it should be, and then write nothing and wait for nobody.
    let found = whole(client).await?;
    match found {
        SCHEMA_VERSION => return Ok(MigrationResult { from: found, to: found }),
        newer if newer > SCHEMA_VERSION => return Err(newer_schema(newer)),
        _ => {}
    }
    let mut tries = 1;
    loop {
        match once(client).await {
            Ok(MigrationCheck::Done(from)) => return Ok(MigrationResult { from, to: SCHEMA_VERSION }),
            Ok(MigrationCheck::Newer(found)) => return Err(newer_schema(found)),
            Err(error) if tries < TRIES && is_race(&error) => {
                client.batch_execute("ROLLBACK").await.map_err(|error| open_error(&error))?;
                tries += 1;
            }
            Err(error) => return Err(open_error(&error)),
        }
    }
}

/// Whether the schema is the one that is known. Changes nothing.
pub(super) async fn expect(client: &Client) -> Result<(), OpenError> {
    match whole(client).await? {
        SCHEMA_VERSION => Ok(()),
        newer if newer > SCHEMA_VERSION => Err(newer_schema(newer)),
        older => Err(OpenError::OlderSchema { found: older, known: SCHEMA_VERSION }),
    }
}

fn newer_schema(found: i32) -> OpenError {
    OpenError::NewerSchema { found, known: SCHEMA_VERSION }
}

/// The schema's version, unless a copy has not ended.
async fn whole(client: &Client) -> Result<i32, OpenError> {
    let (version, unfinished) = version(client).await.map_err(|error| open_error(&error))?;
    if unfinished { Err(OpenError::Unfinished) } else { Ok(version) }
}

/// The schema's version, 0 when there is none, and whether a copy has not ended.
async fn version(client: &Client) -> Result<(i32, bool), Error> {
    let made = client.query_one("SELECT to_regclass('stockhold.schema_version') IS NOT NULL", &[]).await?;
    if !made.try_get::<_, bool>(0)? {
        return Ok((0, false));
    }
    let found = client.query_opt("SELECT version, unfinished FROM stockhold.schema_version", &[]).await?;
    found.map_or(Ok((0, false)), |row| Ok((row.try_get(0)?, row.try_get(1)?)))
}

enum MigrationCheck {
    Done(i32),
    Newer(i32),
}

fn is_race(error: &Error) -> bool {
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
async fn once(client: &Client) -> Result<MigrationCheck, Error> {
    client
        .batch_execute(
            "BEGIN;
             CREATE SCHEMA IF NOT EXISTS stockhold;
             CREATE TABLE IF NOT EXISTS stockhold.schema_version (
                 one boolean PRIMARY KEY DEFAULT true CHECK (one),
                 version integer NOT NULL,
                 unfinished boolean NOT NULL DEFAULT false
             );
             INSERT INTO stockhold.schema_version (version) VALUES (0) ON CONFLICT DO NOTHING",
        )
        .await?;
    let found = client.query_one("SELECT version FROM stockhold.schema_version FOR UPDATE", &[]).await?;
    let found: i32 = found.try_get(0)?;
    if found > SCHEMA_VERSION {
        client.batch_execute("ROLLBACK").await?;
        return Ok(MigrationCheck::Newer(found));
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        client.batch_execute(migration).await?;
    }
    client.execute("UPDATE stockhold.schema_version SET version = $1", &[&SCHEMA_VERSION]).await?;
    client.batch_execute("COMMIT").await?;
    Ok(MigrationCheck::Done(found))
}
