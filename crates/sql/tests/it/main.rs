//! Tests of the PostgreSQL store against a real server of their own.

#[path = "../support/mod.rs"]
mod support;

mod fixture;

mod batches;
mod conformance;
mod faults;
mod instances;
mod schema;
