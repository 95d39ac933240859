//! The selection of units with ids in a request: named units, or the best available ones. The best ones are found when
//! the command is decided.

use crate::label::Label;
use crate::unit::Attributes;
use alloc::vec::Vec;

/// Selects units of an item. A line without a selection takes any units, in the order of their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitSelection {
    /// These units, each named once.
    Named(Vec<Label>),
    /// The best available units.
    BestAvailable(BestAvailable),
}

/// The conditions of best available. Units that the filters exclude are not considered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BestAvailable {
    /// All in one run: side by side in one row.
    pub adjacent: bool,
    /// Only in these sections: in the first that has enough. Empty: anywhere.
    pub sections: Vec<Label>,
    /// When one run is not possible, several runs of at least this length.
    pub min_together: Option<u32>,
    /// Only units that have all of these.
    pub attributes: Attributes,
}

/// The units that a command puts into a pool or takes out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolSelection {
    /// These units: 1 to [`crate::limits::UNITS_AT_ONCE`], each once.
    Units(Vec<Label>),
    /// All units of these sections: 1 to [`crate::limits::SECTIONS`] sections.
    Sections(Vec<Label>),
}
