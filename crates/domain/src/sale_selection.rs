//! Which sold units a command is about.

use crate::basket::Basket;
use crate::label::Label;
use alloc::vec::Vec;

/// The sold units of a reservation that a command moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaleSelection {
    /// All that the command can move.
    All,
    /// A quantity of each of these items, or named units of it.
    Lines(Basket),
    /// These units, in any line. Each is named once.
    Units(Vec<Label>),
}
