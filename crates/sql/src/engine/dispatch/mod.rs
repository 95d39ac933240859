//! The store's own thread: it combines submitted commands into batches, gives batches and reads to connections, and answers.
//! Shared state lives in one task, the [`dispatcher`]; everything that talks to the database is spawned.

mod claims;
mod combiner;
mod connection_pool;
mod dispatcher;
mod ended_counters;
mod mailbox;
mod periodic_jobs;
mod sequences;
mod store;
mod submission;

#[cfg(test)]
mod panic_tests;

pub use store::SqlStore;
