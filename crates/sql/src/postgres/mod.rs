//! The PostgreSQL dialect.
//!
//! A batch takes two round trips: one that begins, locks, reads the clock and reads the state, each by statements of their own
//! that are sent together; one that writes and commits, sent together as well. What a batch only refuses ends in a rollback
//! instead. One more goes ahead when a command names a reservation that this instance has not seen lately, and two more, with
//! a new start, when holds have to be expired to make room, or when the best available units were planned and are to be locked.
//!
//! COMMIT is sent behind the writes without waiting for them: a write that fails leaves the server nothing to commit, and
//! each write that has to change a certain number of rows divides by zero if it changed another.

mod errors;
mod params;
mod run;

mod citus;

mod limit_statements;
mod plans;
mod statements;

mod tls;

mod connect;
mod migrate;
mod pooler;

mod rows;

mod customers;
mod limits;
mod load;
mod read;
mod unit_statements;
mod units;
mod write;

mod replica;

mod audit;

pub(crate) use replica::open_with_replica;

pub use migrate::SCHEMA_VERSION;
pub use plans::{ExpectedPlan, PLANS};

use crate::engine::{Dialect, OpenError, Options, SqlStore};
use crate::{DistributionResult, MigrationResult};
use connect::{PostgresConnection, PostgresTarget};

/// Opens a store over PostgreSQL: connects and brings the schema up to date. Blocks until that is done.
pub fn open(url: &str, options: Options) -> Result<SqlStore, OpenError> {
    let postgres = Postgres { target: PostgresTarget::new(url, &options)?, options: options.clone() };
    SqlStore::open(postgres, options)
}

/// Brings the schema up to date. Blocks until that is done.
pub fn migrate(url: &str, options: Options) -> Result<MigrationResult, OpenError> {
    let target = PostgresTarget::new(url, &options)?;
    apart(async move { migrate::alone(&target, &options).await })
}

/// Brings the schema up to date and spreads the tables over the workers of a Citus cluster, with so many shards. Blocks until that is
/// done.
pub fn distribute(url: &str, options: Options, shards: u32) -> Result<DistributionResult, OpenError> {
    let target = PostgresTarget::new(url, &options)?;
    apart(async move { migrate::distribute(&target, &options, shards).await })
}

fn apart<T: Send + 'static>(
    work: impl Future<Output = Result<T, OpenError>> + Send + 'static,
) -> Result<T, OpenError> {
    // On a thread of its own, so that it can be called from within anybody's runtime.
    let done = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| OpenError::Thread(error.to_string()))?.block_on(work)
    });
    done.join().unwrap_or_else(|_| Err(OpenError::Thread("it panicked".to_owned())))
}

/// A connection that reads the books.
pub(crate) async fn open_audit(url: &str, options: &Options) -> Result<PostgresConnection, OpenError> {
    PostgresConnection::open_audit(&PostgresTarget::new(url, options)?, options).await
}

struct Postgres {
    target: PostgresTarget,
    options: Options,
}

impl Dialect for Postgres {
    type Session = PostgresConnection;

    const NAME: &'static str = "postgres";

    async fn open(&self) -> Result<PostgresConnection, OpenError> {
        PostgresConnection::open(&self.target, &self.options).await
    }
}
