//! Which units with ids a wish is for: these by name, or the best there are. It only says what is wanted; what is best is found
//! where it is decided, over the pool as it is then.

use crate::label::Label;
use crate::unit::Attributes;
use alloc::vec::Vec;

/// Which units of an item a wish is for. A wish without one takes any, in the order of their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitSelection {
    /// These, each named once.
    Named(Vec<Label>),
    /// The best that are available.
    BestAvailable(BestAvailable),
}

/// What best available means to a buyer. Units that the filters leave out are not considered at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BestAvailable {
    /// All in one run: side by side in one row.
    pub adjacent: bool,
    /// Only in these sections, the first that can serve the wish; anywhere when empty.
    pub sections: Vec<Label>,
    /// Where one run can't be had, several of at least so many each.
    pub min_together: Option<u32>,
    /// Only units that have all of these.
    pub attributes: Attributes,
}
