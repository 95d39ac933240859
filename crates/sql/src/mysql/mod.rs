//! The dialect of MySQL (8.0.16 and newer) and MariaDB (10.6 and newer).
//!
//! The protocol has no pipelining: a client may not send a second packet before the first is answered. But one packet may
//! hold several statements, which the server runs one after the other as if they had come alone, and none behind one that
//! failed. So a batch takes two round trips here as well: one packet that begins, locks, reads the clock and reads the state, each
//! by statements of their own; one that writes and commits. What a batch only refuses ends in a rollback instead. One more
//! goes ahead when a command names a reservation that this instance has not seen lately, and two more, with a new start,
//! when holds have to be expired to make room, or when the best available units were planned and are to be locked. Very large batches take a packet more for every mebibyte (see [`script`]).
//!
//! | what | round trips |
//! |---|---|
//! | a batch that commits, or that only refuses | 2 |
//! | look-ups by key, all that wait | 1 |
//! | a list, a history, a page of events | 1 to 2 |
//! | numbering events | 1, and 1 more for every 8,192 batches that have no position |
//! | a sweep | 2 to look, 1 for what was found, 3 for a transaction |
//! | opening a connection | the handshake and 3 |
//!
//! Values stand in statements as numbers and hexadecimal literals, which nothing can be smuggled through, whatever a session's
//! character set or SQL mode is. Nothing is prepared: a prepared statement is a packet of its own.
//!
//! COMMIT travels behind the writes without waiting for them: a write that fails stops the packet, and behind each write that
//! has to change a certain number of rows stands a statement that fails if it changed another. In a cluster the packet is one compound
//! statement, which Galera aborts as a whole (see [`cluster`]).

mod errors;
mod limit_statements;
mod numbering;
mod script;
mod statements;

mod address;
mod cluster;
mod connect;
mod migrate;

mod rows;

mod customers;
mod load;
mod plans;
mod read;
mod write;

mod replica;

mod audit;
mod positions;

pub(crate) use replica::open_with_replica;

pub use migrate::SCHEMA_VERSION;
pub use plans::{ExpectedIndexUse, ROWS, plans};

use crate::MigrationResult;
use crate::engine::{Dialect, OpenError, Options, SqlStore};
use connect::{MysqlConnection, MysqlTarget};
use core::future::Future;
use std::sync::Arc;

/// Opens a store over MySQL or MariaDB: connects and brings the schema up to date. Blocks until that is done.
pub fn open(url: &str, options: Options) -> Result<SqlStore, OpenError> {
    let mysql = Mysql { target: Arc::new(MysqlTarget::new(url, &options)?) };
    SqlStore::open(mysql, options)
}

/// Brings the schema up to date. Blocks until that is done.
pub fn migrate(url: &str, options: &Options) -> Result<MigrationResult, OpenError> {
    let target = MysqlTarget::new(url, options)?;
    blocking(async move { migrate::alone(&target).await })
}

/// Does something on a thread of its own, so that it can be called from within anybody's runtime.
fn blocking<T: Send + 'static>(
    work: impl Future<Output = Result<T, OpenError>> + Send + 'static,
) -> Result<T, OpenError> {
    let done = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| OpenError::Thread(error.to_string()))?.block_on(work)
    });
    done.join().unwrap_or_else(|_| Err(OpenError::Thread("it panicked".to_owned())))
}

/// A connection that reads the books.
pub(crate) async fn open_audit(url: &str, options: &Options) -> Result<MysqlConnection, OpenError> {
    MysqlConnection::open_audit(&Arc::new(MysqlTarget::new(url, options)?)).await
}

struct Mysql {
    target: Arc<MysqlTarget>,
}

impl Dialect for Mysql {
    type Session = MysqlConnection;

    const NAME: &'static str = "mysql";

    async fn open(&self) -> Result<MysqlConnection, OpenError> {
        MysqlConnection::open(&self.target).await
    }
}
