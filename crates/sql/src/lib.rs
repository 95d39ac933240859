//! The SQL stores: they lock and load what a batch of commands may touch, let [`stockhold_domain::decide`] decide, and commit. No
//! rule is here, in Rust or in SQL.
//!
//! `engine` has what all SQL stores share, and the contract of a dialect. [`postgres`] and [`mysql`] are the dialects, and [`open`]
//! selects one by the address. `audit` verifies, archives and copies a database.

mod audit;
mod engine;

pub mod mysql;
pub mod postgres;

pub use audit::{
    ArchiveError, AuditError, ExportChunk, ImportSource, ImportSummary, PositionRepair, VerifyProgress,
    VerifyReport,
};
pub use engine::{OpenError, Options, Replica, SqlStore};

use audit::{repair, run_archive, send, take, verify_all, verify_from_archive};
use std::sync::Arc;
use stockhold_domain::Record;
use stockhold_store::{ArchiveRequest, ArchiveSummary, EventArchive, ReadPosition, StartStep, Store};
use tokio::runtime::Runtime;

/// The prefixes that an address may have.
const KNOWN: &str = "postgres:// or mysql:// (postgresql:// and mariadb:// mean the same)";

/// The supported databases.
#[derive(Clone, Copy)]
enum Kind {
    Postgres,
    Mysql,
}

fn kind(url: &str) -> Result<Kind, OpenError> {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => Ok(Kind::Postgres),
        Some("mysql" | "mariadb") => Ok(Kind::Mysql),
        // Do not quote the address: what looks like a scheme may be a password.
        _ => Err(OpenError::Address(format!("it has to begin with {KNOWN}"))),
    }
}

/// Opens the store that an address names: `postgres://user:password@host:port/database?sslmode=verify-full`, or `mysql://…`.
/// Blocks until the first connection is open and the schema is up to date.
pub fn open(url: &str, options: Options) -> Result<Arc<dyn Store>, OpenError> {
    let of_replica = options.clone();
    let primary = open_primary(url, options)?;
    with_replica(primary, url, &of_replica)
}

/// Like [`open`], without the replica.
pub fn open_primary(url: &str, options: Options) -> Result<Arc<dyn Store>, OpenError> {
    options.start_progress.begin(StartStep::ConnectToDatabase, None);
    Ok(match kind(url)? {
        Kind::Postgres => Arc::new(postgres::open(url, options)?),
        Kind::Mysql => Arc::new(mysql::open(url, options)?),
    })
}

/// Puts the replica of the options, if there is one, in front of a store over its primary.
pub fn with_replica(
    primary: Arc<dyn Store>,
    url: &str,
    options: &Options,
) -> Result<Arc<dyn Store>, OpenError> {
    let Some(replica) = &options.replica else { return Ok(primary) };
    options.start_progress.begin(StartStep::ConnectToReplica, None);
    match (kind(url)?, kind(&replica.url)?) {
        (Kind::Postgres, Kind::Postgres) => {
            Ok(Arc::new(postgres::open_with_replica(primary, url, replica, options)?))
        }
        (Kind::Mysql, Kind::Mysql) => Ok(Arc::new(mysql::open_with_replica(primary, url, replica, options)?)),
        _ => Err(OpenError::Address("a replica is of the same kind as its primary".to_owned())),
    }
}

/// Brings the schema of the database that an address names up to date, and does nothing else.
pub fn migrate(url: &str, options: Options) -> Result<MigrationResult, OpenError> {
    match kind(url)? {
        Kind::Postgres => postgres::migrate(url, options),
        Kind::Mysql => mysql::migrate(url, &options),
    }
}

/// Brings the schema of the PostgreSQL that an address names up to date and spreads the tables over the workers of its Citus cluster,
/// with so many shards. Stop the servers before. Blocks until that is done.
pub fn distribute(url: &str, options: Options, shards: u32) -> Result<DistributionResult, OpenError> {
    match kind(url)? {
        Kind::Postgres => postgres::distribute(url, options, shards),
        Kind::Mysql => {
            Err(OpenError::Unfit("only PostgreSQL with Citus can distribute the tables".to_owned()))
        }
    }
}

/// The result of spreading the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributionResult {
    /// The migration before.
    pub migration: MigrationResult,
    /// Whether the tables were spread. They may be already, by whatever number of shards.
    pub is_new: bool,
}

/// The result of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationResult {
    /// The schema version before. 0 if there was no schema.
    pub from: i32,
    /// The schema version after.
    pub to: i32,
}

/// Opens an audit session to the database that an address names, and runs `$work` on it, outside of the runtime.
macro_rules! with_audit_session {
    ($url:expr, $options:expr, |$runtime:ident, $session:ident| $work:expr) => {{
        let kind = kind($url)?;
        apart(|$runtime| match kind {
            Kind::Postgres => {
                let $session = &mut $runtime.block_on(postgres::open_audit($url, $options))?;
                $work
            }
            Kind::Mysql => {
                let $session = &mut $runtime.block_on(mysql::open_audit($url, $options))?;
                $work
            }
        })
    }};
}

/// Verifies the database that an address names: folds its events and compares every table with the result. It reads one snapshot,
/// so instances may continue to run. Blocks until it is done. Uses memory for every item, not for reservations and events.
pub fn verify(
    url: &str,
    options: &Options,
    mut progress: impl FnMut(VerifyProgress) + Send,
) -> Result<VerifyReport, AuditError> {
    with_audit_session!(url, options, |runtime, session| {
        runtime.block_on(verify_all(session, &mut progress))
    })
}

/// Verifies a database like [`verify`], from the first event ever on: it folds the events of the archive, and compares the result with
/// what the database keeps of them. Where the archive can't be used, that is a finding.
pub fn verify_with_archive(
    url: &str,
    options: &Options,
    archive: &mut (dyn EventArchive + Send),
    mut progress: impl FnMut(VerifyProgress) + Send,
) -> Result<VerifyReport, AuditError> {
    with_audit_session!(url, options, |runtime, session| {
        Ok(verify_from_archive(runtime, session, archive, &mut progress)?)
    })
}

/// Puts the events of the MariaDB or MySQL that an address names back into order, where they have wrong positions. `consumers` tells from
/// records which consumers there are, and up to which position each has read. Readers of which the store does not know have to be
/// stopped before, or to begin again before the ranges that are returned. Blocks until it is done.
pub fn repair_positions(
    url: &str,
    options: &Options,
    consumers: &(dyn Fn(&[Record]) -> Vec<ReadPosition> + Sync),
) -> Result<PositionRepair, AuditError> {
    match kind(url)? {
        Kind::Postgres => Err(AuditError::Refused(
            "PostgreSQL has always given the right positions: there is nothing to repair".to_owned(),
        )),
        Kind::Mysql => apart(|runtime| {
            let session = &mut runtime.block_on(mysql::open_audit(url, options))?;
            runtime.block_on(repair(session, consumers))
        }),
    }
}

/// Writes the oldest events of the database that an address names to an archive and, if the request says so, lets them, the
/// reservations that had ended by then, and idempotency keys of that age leave the database. Instances may continue to run. One archive at
/// a time works on a database. Blocks until it is done.
pub fn archive(
    url: &str,
    options: &Options,
    request: &ArchiveRequest<'_>,
    archive: &mut (dyn EventArchive + Send),
    mut progress: impl FnMut(&ArchiveSummary) + Send,
) -> Result<ArchiveSummary, ArchiveError> {
    with_audit_session!(url, options, |runtime, session| {
        run_archive(runtime, session, request, archive, &mut progress)
    })
}

/// Creates the schema of the database that an address names and imports another store: every event with its position, and the keys
/// within the retention. The database has to be empty. No instance can open it until the import is complete and verified. Blocks
/// until the source ends.
pub fn import_from(
    url: &str,
    options: &Options,
    mut source: ImportSource,
    mut progress: impl FnMut(ImportSummary) + Send,
) -> Result<ImportSummary, AuditError> {
    migrate(url, options.clone())?;
    with_audit_session!(url, options, |runtime, session| {
        // Boxed, because the copy of a whole store has a large future.
        runtime.block_on(Box::pin(take(session, options, &mut source, &mut progress)))
    })
}

/// Sends a snapshot of a database, for another database to import. Stop the servers before: what they commit after the snapshot is
/// not sent. Blocks until everything is received.
pub fn export_to(
    url: &str,
    options: &Options,
    to: &tokio::sync::mpsc::Sender<Result<ExportChunk, String>>,
) -> Result<(), AuditError> {
    with_audit_session!(url, options, |runtime, session| runtime.block_on(send(session, to)))
}

/// Works with a runtime on a thread of its own, so that the caller may be within a runtime.
fn apart<T: Send, E: Send + From<AuditError>>(
    work: impl FnOnce(&Runtime) -> Result<T, E> + Send,
) -> Result<T, E> {
    let failed = |why: String| AuditError::Open(OpenError::Thread(why));
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            work(&runtime.map_err(|error| failed(error.to_string()))?)
        });
        done.join().unwrap_or_else(|_| Err(failed("it panicked".to_owned()).into()))
    })
}
