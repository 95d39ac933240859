//! What events come to, item by item: each step is held against the one before. Written from what an event says it did, not
//! from the rules that made it. Takes memory for every item and every unit with an id, and for no reservation and no event.
//!
//! Where units have ids, events of two instances may tell of one item without either having seen the other's: what such an item
//! comes to is summed up here, and what an event says of its figures is not looked at. Each unit's own transitions follow
//! one another.

use super::ItemBalance;
use std::collections::BTreeMap;
use stockhold_domain::{
    Event, Hold, HoldChange, Item, ItemKey, Label, Line, Mode, Record, RecordKey, Scope, StockChange,
    StockCounters, Transition, Unit, UnitStatus, moved,
};
use stockhold_store::ledger::record_violations;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Every item as it is after the events so far.
    pub(super) items: BTreeMap<ItemKey, ItemAccount>,
    /// Pauses by location; the empty one stands for everything.
    pub(super) pauses: BTreeMap<String, bool>,
    /// Records as events left them, deleted ones included.
    pub(super) records: BTreeMap<RecordKey, Record>,
    /// Events so far that are about reservations.
    pub(super) of_holds: u64,
    /// Whether events have left that units came with: one that is not known may be there.
    pub(super) partial: bool,
    /// What does not follow, since it was last taken.
    pub(super) findings: Vec<String>,
}

/// One item, and what its reservations come to.
#[derive(Clone, Debug)]
pub(super) struct ItemAccount {
    pub(super) item: Item,
    /// Whether the store has it.
    pub(super) seen: bool,
    /// Units and reservations that are active.
    pub(super) held: u64,
    pub(super) active: u64,
    /// Units sold, less returns; what has left included.
    pub(super) sold: u64,
    /// Units with ids, each with its version.
    pub(super) units: BTreeMap<Label, (UnitStatus, u64)>,
}

impl ItemAccount {
    fn new(item: Item, sold: u64) -> Self {
        Self { item, seen: false, held: 0, active: 0, sold, units: BTreeMap::new() }
    }
}

impl Ledger {
    /// Opens an item's account where events that have left stopped.
    pub(super) fn open(&mut self, ItemBalance { item, sold }: ItemBalance) {
        self.items.insert(item.key.clone(), ItemAccount::new(item, sold));
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, event: &Event) {
        match &event.transition {
            Transition::Hold { change, hold, figures } => {
                self.of_holds += 1;
                if *change == HoldChange::Expired && event.at < hold.expires_at {
                    self.findings.push(format!("reservation {} expired before its deadline", hold.id));
                }
                if figures.len() != hold.lines.len() {
                    self.findings.push(format!("an event of reservation {} lacks figures", hold.id));
                }
                for ((line, after), at) in hold.lines.iter().zip(figures).zip(0..) {
                    self.line(change, hold, line, at, *after);
                }
            }
            Transition::Stock { change, item } => self.stock(change, item),
            Transition::Sale { scope, paused, .. } => {
                let location = match scope {
                    Scope::Everything => String::new(),
                    Scope::Location(location) => location.as_str().to_owned(),
                    Scope::Item(key) => {
                        match self.items.get_mut(key) {
                            Some(account) => account.item.paused = *paused,
                            None => self.findings.push(format!("{key:?} was paused and is not there")),
                        }
                        return;
                    }
                };
                self.pauses.insert(location, *paused);
            }
            Transition::Record { record, .. } => {
                let before = self.records.insert(record.key.clone(), record.clone());
                if before.is_some() || !self.partial {
                    self.findings.extend(record_violations(before.as_ref(), record));
                }
            }
        }
    }

    /// The figures of one line's item follow from those before, and are never more than there is.
    fn line(&mut self, change: &HoldChange, hold: &Hold, line: &Line, at: usize, after: StockCounters) {
        let Some(account) = self.items.get_mut(&line.item) else {
            self.findings.push(format!("reservation {} names {:?}, which is not there", hold.id, line.item));
            return;
        };
        if line.units.is_some() {
            self.units(change, hold, line, at, after);
            return;
        }
        let before = core::mem::replace(&mut account.item.figures, after);
        let units = i128::from(line.quantity);
        let back = match change {
            HoldChange::Returned { quantities, .. } => quantities.get(at).copied().map_or(0, i128::from),
            _ => 0,
        };
        let (held_by, sold_by, active_by, steps) = match change {
            HoldChange::Created => (units, 0, 1, 1),
            HoldChange::Extended => (0, 0, 0, 0),
            HoldChange::Confirmed => (-units, units, -1, 1),
            HoldChange::Cancelled | HoldChange::Expired => (-units, 0, -1, 1),
            HoldChange::Returned { .. } => (0, -back, 0, i128::from(back > 0)),
        };
        let moved = |before: u64, by: i128, after: u64| i128::from(before) + by == i128::from(after);
        let right = moved(before.held, held_by, after.held)
            && moved(before.confirmed_sold, sold_by, after.confirmed_sold)
            && moved(before.active, active_by, after.active)
            && moved(before.sequence, steps, after.sequence)
            && before.total_units == after.total_units
            && before.at <= after.at
            && (steps == 0 || line.sequence == after.sequence);
        if !right {
            self.findings.push(format!(
                "{:?}: {change:?} of {} leads from {before:?} to {after:?}",
                line.item, hold.id
            ));
        }
        if u128::from(after.held) + u128::from(after.confirmed_sold) > u128::from(after.total_units) {
            self.findings.push(format!("{:?} is oversold: {after:?}", line.item));
        }
    }

    /// What a transition made of the units of one line.
    fn units(&mut self, change: &HoldChange, hold: &Hold, line: &Line, number: usize, said: StockCounters) {
        let Some(account) = self.items.get_mut(&line.item) else { return };
        let from = match change {
            HoldChange::Created => UnitStatus::Available,
            HoldChange::Returned { .. } => UnitStatus::Sold(hold.id),
            _ => UnitStatus::Held(hold.id),
        };
        let mut count = 0;
        for (unit, to) in moved(change, hold, line, number) {
            count += 1;
            let before = account.units.insert(unit.id.clone(), (to, unit.version));
            let follows = match before {
                Some((status, version)) => status == from && version + 1 == unit.version,
                None => self.partial,
            };
            if !follows {
                self.findings.push(format!(
                    "{:?}: {change:?} of {} moves unit {:?} to version {} from {before:?}",
                    line.item, hold.id, unit.id, unit.version
                ));
            }
        }
        let figures = &mut account.item.figures;
        figures.at = figures.at.max(said.at);
        match change {
            HoldChange::Extended => {}
            HoldChange::Created => {
                figures.held += count;
                figures.active += 1;
            }
            HoldChange::Confirmed | HoldChange::Cancelled | HoldChange::Expired => {
                figures.held = figures.held.saturating_sub(count);
                figures.active = figures.active.saturating_sub(1);
                figures.confirmed_sold += if *change == HoldChange::Confirmed { count } else { 0 };
            }
            HoldChange::Returned { .. } => {
                figures.confirmed_sold = figures.confirmed_sold.saturating_sub(count);
            }
        }
        let all = matches!(change, HoldChange::Extended | HoldChange::Returned { .. });
        if !all && count != u64::from(line.quantity) {
            self.findings
                .push(format!("reservation {} has another number of units of {:?}", hold.id, line.item));
        }
        if figures.held + figures.confirmed_sold > figures.total_units {
            self.findings.push(format!("{:?} is oversold: {figures:?}", line.item));
        }
    }

    /// Units with ids came or went, or something else was set on their item.
    fn unit_item(&mut self, change: &StockChange, item: &Item) {
        let partial = self.partial;
        let Some(account) = self.items.get_mut(&item.key) else {
            let new = *change == StockChange::Set && (item.version, item.figures.total_units) == (1, 0);
            if !new {
                self.findings.push(format!("{:?}: {change:?} does not begin it", item.key));
            }
            self.items.insert(item.key.clone(), ItemAccount::new(item.clone(), 0));
            return;
        };
        let before = account.item.figures;
        let mut right = item.version == account.item.version + 1 && account.item.mode == Mode::Units;
        let total = match change {
            StockChange::Set => Some(before.total_units),
            StockChange::Adjusted { .. } => None,
            StockChange::UnitsAdded(units) => {
                for Unit { id, status, version, .. } in &**units {
                    right &= account.units.insert(id.clone(), (*status, *version)).is_none();
                }
                before.total_units.checked_add(units.len() as u64)
            }
            StockChange::UnitRetired(id) => {
                right &= match account.units.remove(id) {
                    Some((status, _)) => status == UnitStatus::Available,
                    None => partial,
                };
                before.total_units.checked_sub(1)
            }
        };
        right &= total == Some(item.figures.total_units) && item.figures.sequence == 0;
        let figures = StockCounters {
            total_units: item.figures.total_units,
            at: before.at.max(item.figures.at),
            ..before
        };
        account.item = Item { figures, ..item.clone() };
        if !right {
            self.findings.push(format!("{:?}: {change:?} does not follow from what it was", item.key));
        }
    }

    fn stock(&mut self, change: &StockChange, item: &Item) {
        if item.mode == Mode::Units {
            self.unit_item(change, item);
            return;
        }
        let before = match self.items.get_mut(&item.key) {
            Some(account) => Some(core::mem::replace(&mut account.item, item.clone())),
            None => {
                self.items.insert(item.key.clone(), ItemAccount::new(item.clone(), 0));
                None
            }
        };
        let after = &item.figures;
        let right = match &before {
            None => {
                *change == StockChange::Set
                    && (item.version, after.sequence, after.held, after.confirmed_sold) == (1, 1, 0, 0)
            }
            Some(before) => {
                let total = |delta| before.figures.total_units.checked_add_signed(delta);
                item.version == before.version + 1
                    && after.sequence == before.figures.sequence + 1
                    && after.held == before.figures.held
                    && after.confirmed_sold == before.figures.confirmed_sold
                    && after.active == before.figures.active
                    && match change {
                        StockChange::Set => true,
                        StockChange::Adjusted { delta, .. } => total(*delta) == Some(after.total_units),
                        // Counted stock has none.
                        StockChange::UnitsAdded(_) | StockChange::UnitRetired(_) => false,
                    }
            }
        };
        let committed = u128::from(after.held) + u128::from(after.confirmed_sold);
        if !right || committed > u128::from(after.total_units) {
            self.findings.push(format!("{:?}: {change:?} does not follow from what it was", item.key));
        }
    }
}
