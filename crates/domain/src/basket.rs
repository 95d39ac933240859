//! The lines of a reserve. Each item has one line.

use crate::item::ItemKey;
use crate::label::Label;
use crate::limits::{BASKET_LINES, SOURCE_PAIRS};
use crate::source::Source;
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

/// The lines of a reserve: 1 to [`BASKET_LINES`], one for each item, each of at least one unit. A line with a source stands for
/// itself: its item is the first that may give, and other lines may name that item too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basket {
    lines: Box<[RequestedLine]>,
    /// The unit selection of each line. `None` when no line has one.
    selections: Option<Box<[Option<UnitSelection>]>>,
    /// The source of each line. `None` when no line has one.
    sources: Option<Box<[Option<Source>]>>,
}

/// A line for [`Basket::with_sources`]. It has at most one of a unit selection and a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasketLine {
    /// The item and the number of its units. With a source: the first item that may give.
    pub line: RequestedLine,
    /// Which units of the item.
    pub selection: Option<UnitSelection>,
    /// Which items may give.
    pub source: Option<Source>,
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
    /// The lines together name more than [`SOURCE_PAIRS`] items. The value is the number found.
    TooManyPairs(usize),
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
            return Ok(Self { lines: lines.into(), selections: None, sources: None });
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
        Ok(Self { lines: summed.collect(), selections: None, sources: None })
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

    /// Like [`Basket::with_selections`], for lines of which some have a source. A line with a source is joined with no other line.
    pub fn with_sources(lines: Vec<BasketLine>) -> Result<Self, BasketError> {
        if lines.iter().all(|line| line.source.is_none()) {
            return Self::with_selections(
                lines.into_iter().map(|line| (line.line, line.selection)).collect(),
            );
        }
        if lines.len() > BASKET_LINES {
            return Err(BasketError::TooMany(lines.len()));
        }
        let items = |line: &BasketLine| line.source.as_ref().map_or(1, |source| source.items().len());
        let pairs = lines.iter().map(items).sum();
        if pairs > SOURCE_PAIRS {
            return Err(BasketError::TooManyPairs(pairs));
        }
        if let Some(line) = lines.iter().position(|line| line.source.is_some() && line.line.quantity == 0) {
            return Err(BasketError::Zero(line));
        }
        let (numbers, plain): (Vec<_>, Vec<_>) = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.source.is_none())
            .map(|(number, line)| (number, (line.line.clone(), line.selection.clone())))
            .unzip();
        let mut joined = BTreeMap::new();
        if !plain.is_empty() {
            let in_all_lines = |number: usize| numbers.get(number).copied().unwrap_or(number);
            let plain = Self::with_selections(plain).map_err(|error| error.renumbered(in_all_lines))?;
            for (number, line) in plain.lines.iter().enumerate() {
                joined.insert(line.item.clone(), (line.quantity, plain.selection(number).cloned()));
            }
        }
        let (mut all, mut selections, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for BasketLine { mut line, source, .. } in lines {
            if source.is_some() {
                selections.push(None);
            } else if let Some((quantity, selection)) = joined.remove(&line.item) {
                // The first plain line of an item stands for all of them.
                line.quantity = quantity;
                selections.push(selection);
            } else {
                continue;
            }
            all.push(line);
            sources.push(source);
        }
        let selections = selections.iter().any(Option::is_some).then(|| selections.into());
        Ok(Self { lines: all.into(), selections, sources: Some(sources.into()) })
    }

    /// These lines as they are: nothing is joined or checked.
    pub(crate) fn unjoined(lines: Vec<(RequestedLine, Option<UnitSelection>)>) -> Self {
        let (lines, selections): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
        let selections = selections.iter().any(Option::is_some).then(|| selections.into());
        Self { lines: lines.into(), selections, sources: None }
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

    /// Whether a line has a source.
    pub fn has_sources(&self) -> bool {
        self.sources.is_some()
    }

    /// The source of the line with this number.
    pub fn source(&self, number: usize) -> Option<&Source> {
        self.sources.as_deref()?.get(number)?.as_ref()
    }

    /// The source of each line. `None` when no line has one.
    pub fn sources(&self) -> Option<&[Option<Source>]> {
        self.sources.as_deref()
    }

    /// The items that may give units to the line with this number, in the order in which they were named.
    pub fn items_of(&self, number: usize) -> &[ItemKey] {
        match (self.source(number), self.lines.get(number)) {
            (Some(source), _) => source.items(),
            (None, Some(line)) => core::slice::from_ref(&line.item),
            (None, None) => &[],
        }
    }

    /// The items that may give units to any line, line by line. An item is in it as often as it is named.
    pub fn items(&self) -> impl Iterator<Item = &ItemKey> {
        (0..self.lines.len()).flat_map(|number| self.items_of(number))
    }
}

impl BasketError {
    fn renumbered(self, number: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Zero(line) => Self::Zero(number(line)),
            Self::Twice(line) => Self::Twice(number(line)),
            Self::Differs(line) => Self::Differs(number(line)),
            Self::Empty | Self::TooMany(_) | Self::TooManyPairs(_) => self,
        }
    }
}
