//! The source of a requested line: the items of one SKU that may give its units, and which of them gives first.

use crate::item_key::ItemKey;
use crate::label::Label;
use crate::limits::SOURCE_LOCATIONS;
use alloc::boxed::Box;

/// The items that may give units to a line: one SKU at 1 to [`SOURCE_LOCATIONS`] locations, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    items: Box<[ItemKey]>,
    strategy: Strategy,
}

/// Which of the items of a source gives first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// In the order given. Each gives what it has, until the line has all.
    #[default]
    Priority,
    /// The one with the most units first; of several with as many, the first given.
    MostStock,
    /// One item gives the whole line: the first that can.
    Single,
}

/// Why locations are no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceError {
    /// There is no location.
    Empty,
    /// There are more than [`SOURCE_LOCATIONS`]. The value is the number found.
    TooMany(usize),
    /// A location is named twice. The value is the number of the second, from 0.
    Twice(usize),
}

impl Source {
    /// A SKU at these locations, in this order.
    pub fn new(sku: &Label, locations: &[Label], strategy: Strategy) -> Result<Self, SourceError> {
        if locations.is_empty() {
            return Err(SourceError::Empty);
        }
        if locations.len() > SOURCE_LOCATIONS {
            return Err(SourceError::TooMany(locations.len()));
        }
        let is_repeated =
            |(number, location): (usize, &Label)| locations.iter().take(number).any(|one| one == location);
        if let Some(number) = locations.iter().enumerate().position(is_repeated) {
            return Err(SourceError::Twice(number));
        }
        let items = locations.iter().map(|location| ItemKey::new(location, sku)).collect();
        Ok(Self { items, strategy })
    }

    /// The items that may give, in the order given. There is at least one.
    pub fn items(&self) -> &[ItemKey] {
        &self.items
    }

    /// Which of them gives first.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }
}
