//! The SQL stores: they load and lock what a batch of commands may touch, let [`stockhold_domain::decide`] decide, and
//! commit. No rule stands here, in Rust or in SQL.
//!
//! What every SQL store is stands in `engine`, with the contract that a dialect keeps to; [`postgres`] is one. [`open`] finds
//! the dialect by the address.

mod audit;
mod engine;

pub mod mysql;
pub mod postgres;

pub use audit::{
    ArchiveRequest, ArchiveSink, ArchiveSummary, AuditError, ExportChunk, ImportSource, ImportSummary,
    VerifyProgress, VerifyReport,
};
pub use engine::{OpenError, Options, Replica};

use audit::{run_archive, send, take, verify_all};
use std::sync::Arc;
use stockhold_store::{StartStep, Store};

/// What an address has to begin with.
const KNOWN: &str = "postgres:// or mysql:// (postgresql:// and mariadb:// mean the same)";

/// The databases that are known.
#[derive(Clone, Copy)]
enum Kind {
    Postgres,
    Mysql,
}

fn kind(url: &str) -> Result<Kind, OpenError> {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => Ok(Kind::Postgres),
        Some("mysql" | "mariadb") => Ok(Kind::Mysql),
        // Nothing of it is quoted: what seems to be a scheme may be a password.
        _ => Err(OpenError::Address(format!("it has to begin with {KNOWN}"))),
    }
}

/// Opens the store that an address names: `postgres://user:password@host:port/database?sslmode=verify-full`, or `mysql://…`.
/// Blocks until the first connection is there and the schema is up to date.
pub fn open(url: &str, options: Options) -> Result<Arc<dyn Store>, OpenError> {
    let of_primary = kind(url)?;
    options.start_progress.begin(StartStep::ConnectToDatabase, None);
    let Some(replica) = options.replica.clone() else { return primary(of_primary, url, options) };
    let primary = primary(of_primary, url, options.clone())?;
    options.start_progress.begin(StartStep::ConnectToReplica, None);
    match (of_primary, kind(&replica.url)?) {
        (Kind::Postgres, Kind::Postgres) => {
            Ok(Arc::new(postgres::open_with_replica(primary, url, &replica, &options)?))
        }
        (Kind::Mysql, Kind::Mysql) => {
            Ok(Arc::new(mysql::open_with_replica(primary, url, &replica, &options)?))
        }
        _ => Err(OpenError::Address("a replica is of the same kind as its primary".to_owned())),
    }
}

fn primary(kind: Kind, url: &str, options: Options) -> Result<Arc<dyn Store>, OpenError> {
    Ok(match kind {
        Kind::Postgres => Arc::new(postgres::PostgresStore::open(url, options)?),
        Kind::Mysql => Arc::new(mysql::MysqlStore::open(url, options)?),
    })
}

/// Brings the schema of the database that an address names up to date, and does nothing else.
pub fn migrate(url: &str, options: Options) -> Result<MigrationResult, OpenError> {
    match kind(url)? {
        Kind::Postgres => postgres::migrate(url, options),
        Kind::Mysql => mysql::migrate(url, &options),
    }
}

/// What a migration found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationResult {
    /// The schema's version before; 0 when there was none.
    pub from: i32,
    /// The schema's version now.
    pub to: i32,
}

/// Opens the books of the database that an address names, and works on them whatever its dialect.
macro_rules! with_audit_session {
    ($url:expr, $options:expr, |$session:ident| $work:expr) => {{
        let kind = kind($url)?;
        apart(async {
            match kind {
                Kind::Postgres => {
                    let $session = &mut postgres::open_audit($url, $options).await?;
                    $work
                }
                Kind::Mysql => {
                    let $session = &mut mysql::open_audit($url, $options).await?;
                    $work
                }
            }
        })
    }};
}

/// Recounts the database that an address names: folds what its events come to, and holds every table against it. Reads one
/// moment; instances go on meanwhile. Blocks until it is done. Takes memory for every item, not for reservations and events.
pub fn verify(
    url: &str,
    options: &Options,
    mut progress: impl FnMut(VerifyProgress) + Send,
) -> Result<VerifyReport, AuditError> {
    with_audit_session!(url, options, |session| Ok(verify_all(session, &mut progress).await?))
}

/// Writes what is old and over to a sink, and lets it leave the database that an address names if that is asked for: events,
/// reservations that have ended and their keys. Instances go on meanwhile. Blocks until it is done.
pub fn archive(
    url: &str,
    options: &Options,
    order: ArchiveRequest,
    sink: &mut (dyn ArchiveSink + Send),
    mut progress: impl FnMut(ArchiveSummary) + Send,
) -> Result<ArchiveSummary, AuditError> {
    with_audit_session!(url, options, |session| run_archive(session, options, order, sink, &mut progress)
        .await)
}

/// Makes the schema of the database that an address names, and takes over what another store has: every event under its
/// position, and the keys that are still to be kept. The database has to be empty, and nobody serves from it before this has ended
/// well: all of it is there then, and adds up. Blocks until the source ends.
pub fn import_from(
    url: &str,
    options: &Options,
    mut source: ImportSource,
    mut progress: impl FnMut(ImportSummary) + Send,
) -> Result<ImportSummary, AuditError> {
    migrate(url, options.clone())?;
    with_audit_session!(url, options, |session| take(session, options, &mut source, &mut progress).await)
}

/// Sends all that a database has as one moment shows it, for another one to take over. Servers have to be stopped before: what
/// they answer after that moment stays behind. Blocks until all is taken.
pub fn export_to(
    url: &str,
    options: &Options,
    to: &tokio::sync::mpsc::Sender<Result<ExportChunk, String>>,
) -> Result<(), AuditError> {
    with_audit_session!(url, options, |session| send(session, to).await)
}

/// Runs on a thread of its own, so that it can be called from within anybody's runtime.
fn apart<T: Send>(work: impl Future<Output = Result<T, AuditError>> + Send) -> Result<T, AuditError> {
    let failed = |why: String| AuditError::Open(OpenError::Thread(why));
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| failed(error.to_string()))?.block_on(work)
        });
        done.join().unwrap_or_else(|_| Err(failed("it panicked".to_owned())))
    })
}
