//! What an index had when something was read from it.

/// The state of an index at the time of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AsOf {
    /// The batch up to which the index was complete.
    pub(crate) complete: u64,
    /// The batch up to which the index had let go of what was archived.
    pub(crate) archived: u64,
}

impl AsOf {
    /// Whether the index was complete up to a batch, and had let go of what was archived up to another one.
    pub(crate) fn has_all_of(self, complete: u64, archived: u64) -> bool {
        self.complete >= complete && self.archived >= archived
    }
}
