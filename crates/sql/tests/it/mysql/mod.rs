//! Tests of the MySQL store against a real server of their own: the MariaDB that is installed, or the MariaDB or MySQL whose programs are in
//! the folder that `STOCKHOLD_TEST_MYSQL` names.

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

mod only_mysql;
mod positions;

pub(crate) use bench::Bench;

/// Says that a test was not run, because another server was chosen.
fn not_run(needed: &str) {
    eprintln!("not run: this test needs {needed}, and STOCKHOLD_TEST_MYSQL names no server of that kind");
}
