//! The lines of a reserve. Each item has one line.

use crate::item::ItemKey;
use crate::label::Label;
use crate::limits::BASKET_LINES;
use crate::unit_selection::UnitSelection;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// An item and a number of its units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedLine {
    /// Which item.
    pub item: ItemKey,
    /// Number of units, at least 1. The rules check the upper limit.
    pub quantity: u64,
}

/// The lines of a reserve: 1 to [`BASKET_LINES`], one for each item, each of at least one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basket {
    lines: Box<[RequestedLine]>,
    /// The unit selection of each line. `None` when no line has one.
    selections: Option<Box<[Option<UnitSelection>]>>,
}

/// Why lines are no basket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BasketError {
    /// There is no line.
    Empty,
    /// There are more than [`BASKET_LINES`]. The value is the number found.
    TooMany(usize),
    /// A quantity is 0. The value is the line's number, from 0.
    Zero(usize),
    /// A unit is named twice. The value is the line's number, from 0.
    Twice(usize),
    /// Two lines of one item select its units in different ways. The value is the later line's number, from 0.
    Differs(usize),
}

impl Basket {
    /// Adds up lines of the same item. Items keep the order in which they were first named. A sum saturates at
    /// `u64::MAX`, which is above every limit.
    pub fn new(lines: Vec<RequestedLine>) -> Result<Self, BasketError> {
        if lines.is_empty() {
            return Err(BasketError::Empty);
        }
        if lines.len() > BASKET_LINES {
            return Err(BasketError::TooMany(lines.len()));
        }
        if let Some(line) = lines.iter().position(|line| line.quantity == 0) {
            return Err(BasketError::Zero(line));
        }
        if lines.len() == 1 {
            return Ok(Self { lines: lines.into(), selections: None });
        }
        let mut sums: BTreeMap<ItemKey, u64> = BTreeMap::new();
        for line in &lines {
            let sum = sums.entry(line.item.clone()).or_default();
            *sum = sum.saturating_add(line.quantity);
        }
        // The first line of an item removes it from the map, so later lines of the item find nothing.
        let summed = lines.into_iter().filter_map(|line| {
            let quantity = sums.remove(&line.item)?;
            Some(RequestedLine { quantity, ..line })
        });
        Ok(Self { lines: summed.collect(), selections: None })
    }

    /// Like [`Basket::new`], for lines that may select units. A line that names units has their number as its
    /// quantity. Lines of one item that name units are joined. Other lines of one item are added up when their
    /// selections are equal.
    pub fn with_selections(
        mut lines: Vec<(RequestedLine, Option<UnitSelection>)>,
    ) -> Result<Self, BasketError> {
        if lines.iter().all(|(_, selection)| selection.is_none()) {
            return Self::new(lines.into_iter().map(|(line, _)| line).collect());
        }
        let mut joined: BTreeMap<ItemKey, Option<UnitSelection>> = BTreeMap::new();
        let mut named: BTreeSet<(ItemKey, Label)> = BTreeSet::new();
        for (number, (line, selection)) in lines.iter_mut().enumerate() {
            if let Some(UnitSelection::Named(units)) = selection {
                line.quantity = units.len() as u64;
                if !units.iter().all(|unit| named.insert((line.item.clone(), unit.clone()))) {
                    return Err(BasketError::Twice(number));
                }
            }
            match (joined.get_mut(&line.item), selection.take()) {
                (None, selection) => {
                    joined.insert(line.item.clone(), selection);
                }
                (Some(Some(UnitSelection::Named(known))), Some(UnitSelection::Named(more))) => {
                    known.extend(more);
                }
                (Some(known), selection) if *known == selection => {}
                (Some(_), _) => return Err(BasketError::Differs(number)),
            }
        }
        let basket = Self::new(lines.into_iter().map(|(line, _)| line).collect())?;
        let selections = basket.lines.iter().map(|line| joined.remove(&line.item).flatten()).collect();
        Ok(Self { selections: Some(selections), ..basket })
    }

    /// The lines, one for each item.
    pub fn lines(&self) -> &[RequestedLine] {
        &self.lines
    }

    /// The unit selection of the line with this number.
    pub fn selection(&self, number: usize) -> Option<&UnitSelection> {
        self.selections.as_deref()?.get(number)?.as_ref()
    }

    /// The unit selection of each line. `None` when no line has one.
    pub fn selections(&self) -> Option<&[Option<UnitSelection>]> {
        self.selections.as_deref()
    }
}
