//! Tests of the MySQL store against a real MariaDB of their own.

#[path = "../../support/mysql.rs"]
pub(crate) mod support;

pub(crate) mod bench;
pub(crate) mod wire;

mod claims;
mod cuts;
mod faults;
mod large;
mod replica;
mod schema;
mod servers;

pub(crate) use bench::Bench;
