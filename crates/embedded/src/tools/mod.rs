//! The tools of operators for a data directory: verify, inspect, backup and export.

pub(crate) mod archive;
pub(crate) mod backup;
pub(crate) mod export;
pub(crate) mod inspect;
pub(crate) mod verify;
