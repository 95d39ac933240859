//! The SQL stores: they load and lock what a batch of commands may touch, let [`stockhold_domain::decide`] decide, and
//! commit. No rule stands here, in Rust or in SQL.
//!
//! What every SQL store is stands in `engine`, with the contract that a dialect keeps to; [`postgres`] is one. [`open`] finds
//! the dialect by the address.

mod engine;

pub mod mysql;
pub mod postgres;

pub use engine::{OpenError, Options};

use std::sync::Arc;
use stockhold_store::Store;

/// Opens the store that an address names: `postgres://user:password@host:port/database?sslmode=verify-full`. Blocks until the
/// first connection is there and the schema is up to date.
pub fn open(url: &str, options: Options) -> Result<Arc<dyn Store>, OpenError> {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => Ok(Arc::new(postgres::PostgresStore::open(url, options)?)),
        Some("mysql" | "mariadb") => Ok(Arc::new(mysql::MysqlStore::open(url, options)?)),
        Some(other) => Err(OpenError::Address(format!("{other}:// is none that is known: use postgres://"))),
        None => Err(OpenError::Address("it has to begin with postgres://".to_owned())),
    }
}

/// Brings the schema of the database that an address names up to date, and does nothing else.
pub fn migrate(url: &str, options: Options) -> Result<Migrated, OpenError> {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => postgres::migrate(url, options),
        Some("mysql" | "mariadb") => mysql::migrate(url, &options),
        _ => Err(OpenError::Address("it has to begin with postgres://".to_owned())),
    }
}

/// What a migration found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The schema's version before; 0 when there was none.
    pub from: i32,
    /// The schema's version now.
    pub to: i32,
}
