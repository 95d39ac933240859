//! The history of one unit with an id: which events belong to it. All stores use this, so that they return the same.

use crate::event_row::EventRow;
use stockhold_domain::{ItemKey, Label, StockChange, Transition, UnitMove, moved};

/// Maximum number of events in the history of a unit. Older ones are left out.
pub const UNIT_HISTORY_LIMIT: usize = 64;

/// Calls `each` for every unit that a transition changes, with the version of the unit after it. The version is `None`
/// when the unit was retired.
pub fn for_each_unit<'a>(
    transition: &'a Transition,
    mut each: impl FnMut(&'a ItemKey, &'a Label, Option<u64>),
) {
    match transition {
        Transition::Hold { change, hold, .. } => {
            for (number, line) in hold.lines.iter().enumerate().filter(|(_, line)| line.units.is_some()) {
                for UnitMove { unit, .. } in moved(change, hold, line, number) {
                    each(&line.item, &unit.id, Some(unit.version));
                }
            }
        }
        Transition::Stock { change: StockChange::UnitsAdded(units), item } => {
            for unit in &**units {
                each(&item.key, &unit.id, Some(unit.version));
            }
        }
        Transition::Stock { change: StockChange::UnitsRetired(ids), item } => {
            ids.iter().for_each(|id| each(&item.key, id, None));
        }
        Transition::Stock { change: StockChange::UnitsPooled { units, .. }, item } => {
            units.iter().for_each(|unit| each(&item.key, &unit.id, Some(unit.version)));
        }
        Transition::Stock { .. }
        | Transition::Sale { .. }
        | Transition::Limit { .. }
        | Transition::Record { .. } => {}
    }
}

/// Collects the history of a unit, from the newest event back. The history begins where the unit was added: earlier events
/// of the same id are about another unit.
#[derive(Debug)]
pub struct UnitHistory<'a> {
    item: &'a ItemKey,
    unit: &'a Label,
    /// Events, newest first, each with the version of the unit after it.
    moves: Vec<(u64, EventRow)>,
    /// Whether the first event of the unit was reached.
    begun: bool,
}

impl<'a> UnitHistory<'a> {
    /// An empty history of this unit.
    pub fn new(item: &'a ItemKey, unit: &'a Label) -> Self {
        Self { item, unit, moves: Vec::new(), begun: false }
    }

    /// Adds an event, if it is about the unit. It must be older than all events that were passed before.
    pub fn add_older(&mut self, row: EventRow) {
        if self.is_complete() {
            return;
        }
        let mut version_after = None;
        for_each_unit(&row.event.transition, |item, unit, version| {
            if unit == self.unit && item == self.item {
                version_after = Some(version);
            }
        });
        let Some(version) = version_after else { return };
        self.begun = version.is_none_or(|version| version == FIRST);
        self.moves.extend(version.map(|version| (version, row)));
    }

    /// Whether no older event can belong to the history.
    pub fn is_complete(&self) -> bool {
        self.begun || self.moves.len() >= UNIT_HISTORY_LIMIT
    }

    /// Whether the versions of the unit follow each other without a gap.
    pub fn is_gapless(&self) -> bool {
        self.moves.windows(2).all(|two| matches!(two, [(newer, _), (older, _)] if *newer == older + 1))
    }

    /// The events, oldest first.
    pub fn into_rows(self) -> Vec<EventRow> {
        self.moves.into_iter().rev().map(|(_, row)| row).collect()
    }
}

/// The version of a unit when it was added.
const FIRST: u64 = 1;
