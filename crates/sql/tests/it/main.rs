//! Tests of the SQL stores against real servers of their own: what is the same for all of them in `shared`, `books` and `halls`,
//! what is PostgreSQL's alone here, what is MySQL's in a module of its own.

#[path = "../support/mod.rs"]
mod support;

mod counts;
mod fixture;
mod wire;
mod workload;

mod addresses;
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
