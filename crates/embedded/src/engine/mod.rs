//! The store without its threads, files and clock: the state in memory, and what is decided on it. Nothing here waits for a
//! disk or reads a file.

pub(crate) mod active;
pub(crate) mod core;
pub(crate) mod memory;
pub(crate) mod published;
pub(crate) mod queries;
pub(crate) mod recent_keys;
