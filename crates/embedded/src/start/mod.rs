//! The start of a store, before it accepts requests.

pub(crate) mod data_dir;
pub(crate) mod incomplete_copy;
pub(crate) mod recover;
mod restore_index;
