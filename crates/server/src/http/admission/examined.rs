//! The work of one page: how many records were examined for it so far.

use super::bounds::EXAMINED_PER_PAGE;
use std::cell::Cell;

/// How many records were examined for a page so far. A page with a bound ends early when it has examined as many.
#[derive(Debug, Default)]
pub(crate) struct Examined(Cell<usize>);

impl Examined {
    /// Each read counts one at least, so that a page ends.
    pub(crate) fn add(&self, records: usize) {
        self.0.set(self.0.get().saturating_add(records.max(1)));
    }

    /// Whether so many more may be examined.
    pub(crate) fn has_room(&self, records: usize) -> bool {
        self.0.get().saturating_add(records) <= EXAMINED_PER_PAGE
    }
}
