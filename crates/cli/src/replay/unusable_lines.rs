//! Lines that can't be used: counted by kind, the first few with their place.
//!
//! The caller decides that a line is unusable and gives the reason.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

/// Examples that are kept of each kind.
const EXAMPLES: usize = 3;
/// Longest piece of a line that an example shows, in characters.
const SHOWN_CHARS: usize = 60;

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LineError {
    /// Another number of fields than the header has.
    Columns,
    /// A field that is needed is not UTF-8.
    NotText,
    /// It belongs to no order.
    NoOrder,
    /// It says not what was ordered.
    NoSku,
    /// A name that is too long or has control characters.
    Name,
    /// Postage, fees, discounts and the like.
    NotGoods,
    /// The quantity is no whole number.
    Quantity,
    /// A quantity of 0.
    Zero,
    /// A cancellation that takes nothing back.
    PositiveCancellation,
    /// The time can't be read.
    Time,
    /// Its order has more different items than one basket may have.
    BasketTooLarge,
}

impl LineError {
    /// For people.
    fn words(self) -> &'static str {
        match self {
            Self::Columns => "another number of fields than the header",
            Self::NotText => "a field that is not UTF-8",
            Self::NoOrder => "no order",
            Self::NoSku => "no SKU",
            Self::Name => "a name that is too long or has control characters",
            Self::NotGoods => "not goods (see --not-goods)",
            Self::Quantity => "the quantity is no whole number",
            Self::Zero => "a quantity of 0",
            Self::PositiveCancellation => "a cancellation with a positive quantity",
            Self::Time => "a time that can't be read",
            Self::BasketTooLarge => "more different SKUs in one order than a basket may have",
        }
    }
}

/// The place of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinePosition {
    /// Which file, counted from 0.
    pub(super) file: usize,
    /// Which line, counted from 1.
    pub(super) line: u64,
}

/// The lines of the input that can't be used.
#[derive(Debug)]
pub(super) struct UnusableLines {
    files: Vec<String>,
    kinds: BTreeMap<LineError, UnusableLineCount>,
}

/// What was found of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct UnusableLineCount {
    /// How many lines.
    pub(super) lines: u64,
    /// The first of them: `file:line: what`.
    pub(super) examples: Vec<String>,
}

impl UnusableLines {
    /// None yet.
    pub(super) fn new(files: &[PathBuf]) -> Self {
        Self { files: files.iter().map(|path| path.display().to_string()).collect(), kinds: BTreeMap::new() }
    }

    /// Counts one line.
    pub(super) fn add(&mut self, kind: LineError, place: LinePosition, found: &str) {
        let entry = self.kinds.entry(kind).or_default();
        entry.lines += 1;
        if entry.examples.len() < EXAMPLES {
            let file = self.files.get(place.file).map_or("?", String::as_str);
            let found: String = found.chars().take(SHOWN_CHARS).collect();
            let colon = if found.is_empty() { "" } else { ": " };
            entry.examples.push(format!("{file}:{}{colon}{found}", place.line));
        }
    }

    /// What was found, by kind.
    pub(super) fn kinds(&self) -> &BTreeMap<LineError, UnusableLineCount> {
        &self.kinds
    }

    /// Lines of all kinds.
    pub(super) fn lines(&self) -> u64 {
        self.kinds.values().map(|found| found.lines).sum()
    }
}

impl Display for UnusableLines {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_kinds(f, &self.kinds)
    }
}

/// Writes what was found, for people: a kind a line, its examples below.
pub(super) fn write_kinds(
    f: &mut Formatter<'_>,
    kinds: &BTreeMap<LineError, UnusableLineCount>,
) -> fmt::Result {
    for (kind, found) in kinds {
        writeln!(f, "           {:>7} {}", found.lines, kind.words())?;
        for example in &found.examples {
            writeln!(f, "                   {example}")?;
        }
    }
    Ok(())
}
