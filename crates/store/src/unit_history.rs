//! What happened to one unit with an id: which events belong to its history, for every store alike.

use crate::store::EventRow;
use stockhold_domain::{ItemKey, Label, StockChange, Transition, moved};

/// Most transitions that the history of a unit shows: the newest ones.
pub const UNIT_HISTORY_LIMIT: usize = 64;

/// Calls back for every unit that a transition is about, with the version that it has after it; `None` where it went.
pub fn for_each_unit<'a>(
    transition: &'a Transition,
    mut each: impl FnMut(&'a ItemKey, &'a Label, Option<u64>),
) {
    match transition {
        Transition::Hold { change, hold, .. } => {
            for (number, line) in hold.lines.iter().enumerate().filter(|(_, line)| line.units.is_some()) {
                for (unit, _) in moved(change, hold, line, number) {
                    each(&line.item, &unit.id, Some(unit.version));
                }
            }
        }
        Transition::Stock { change: StockChange::UnitsAdded(units), item } => {
            for unit in &**units {
                each(&item.key, &unit.id, Some(unit.version));
            }
        }
        Transition::Stock { change: StockChange::UnitRetired(id), item } => each(&item.key, id, None),
        Transition::Stock { .. } | Transition::Sale { .. } => {}
    }
}

/// The history of a unit, put together from the newest event back. It begins where the unit was added: what was called the same
/// before that was another one.
#[derive(Debug)]
pub struct UnitHistory<'a> {
    item: &'a ItemKey,
    unit: &'a Label,
    /// The newest first, each with the version that it led to.
    moves: Vec<(u64, EventRow)>,
    /// Nothing before what was looked at is about the unit.
    begun: bool,
}

impl<'a> UnitHistory<'a> {
    /// Of this unit.
    pub fn new(item: &'a ItemKey, unit: &'a Label) -> Self {
        Self { item, unit, moves: Vec::new(), begun: false }
    }

    /// Takes an event in that is older than those before, if it belongs here.
    pub fn add_older(&mut self, row: EventRow) {
        if self.is_complete() {
            return;
        }
        let mut led_to = None;
        for_each_unit(&row.event.transition, |item, unit, version| {
            if unit == self.unit && item == self.item {
                led_to = Some(version);
            }
        });
        let Some(version) = led_to else { return };
        self.begun = version.is_none_or(|version| version == FIRST);
        self.moves.extend(version.map(|version| (version, row)));
    }

    /// Whether older events add nothing.
    pub fn is_complete(&self) -> bool {
        self.begun || self.moves.len() >= UNIT_HISTORY_LIMIT
    }

    /// Whether each event leads from where the one before it led to.
    pub fn is_gapless(&self) -> bool {
        self.moves.windows(2).all(|two| matches!(two, [(newer, _), (older, _)] if *newer == older + 1))
    }

    /// Its events, oldest first.
    pub fn into_rows(self) -> Vec<EventRow> {
        self.moves.into_iter().rev().map(|(_, row)| row).collect()
    }
}

/// The version of a unit that was added and has not moved since.
const FIRST: u64 = 1;
