//! Reads that decide nothing and lock nothing: queries at the primary, and availability at a read replica.

mod queries;
mod replica;

pub(crate) use queries::{QueryQueues, read_reservations, run_quick, run_slow};
pub(crate) use replica::{LogPosition, ReplicaDialect, ReplicaStore};
