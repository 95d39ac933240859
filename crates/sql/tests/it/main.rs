//! Tests of the SQL stores against real database servers. `shared`, `audit` and `unit_items` run against every dialect, `mysql` has the
//! tests of MySQL alone, `galera` those of a cluster, and the others are of PostgreSQL alone.

#[path = "../support/mod.rs"]
mod support;

mod counts;
mod fixture;
mod wire;
mod workload;

mod addresses;
mod audit;
mod batches;
mod citus;
mod concurrent_batches;
mod crashes;
mod cuts;
mod faults;
mod pooler;
mod replica;
mod schema;
mod servers;
mod shared;
mod unit_items;

mod galera;
mod mysql;
