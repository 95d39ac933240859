//! The threads of a running store, and what they share.

pub(crate) mod backpressure;
pub(crate) mod checkpointer;
pub(crate) mod committer;
pub(crate) mod housekeeper;
pub(crate) mod idle_priority;
pub(crate) mod indexer;
pub(crate) mod lists;
pub(crate) mod log_starts;
pub(crate) mod reader;
pub(crate) mod shared;
