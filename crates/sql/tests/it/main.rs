//! Tests of the SQL stores against real servers of their own: PostgreSQL here, MySQL in a module of its own.

#[path = "../support/mod.rs"]
mod support;

mod counts;
mod fixture;
mod wire;
mod workload;

mod batches;
mod books;
mod crashes;
mod cuts;
mod faults;
mod flights;
mod halls;
mod replica;
mod schema;
mod servers;
mod shared;

mod mysql;
