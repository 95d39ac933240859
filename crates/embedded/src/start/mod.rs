//! What happens before anything is served.

pub(crate) mod data_dir;
pub(crate) mod incomplete_copy;
pub(crate) mod recover;
