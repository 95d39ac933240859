//! The store without its threads, files and clock: the state in memory and the decisions on it. Nothing here reads a
//! file or waits for a disk.

pub(crate) mod active;
pub(crate) mod core;
pub(crate) mod counted_due;
pub(crate) mod due_payments;
pub(crate) mod leaving;
pub(crate) mod memory;
pub(crate) mod published;
pub(crate) mod queries;
pub(crate) mod recent_keys;
