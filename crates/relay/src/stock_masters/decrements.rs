//! The units that a stock master is to subtract, and the batches that they are sent in.

use super::options::DecrementAt;
use super::owned_items::OwnedItems;
use std::collections::BTreeMap;
use stockhold_api::stock_master_record::{DecrementBatch, DecrementLine};
use stockhold_domain::{Disposition, HoldChange, ItemKey, Label, Line, Transition};
use stockhold_store::EventRow;

/// Most lines of a batch.
const BATCH_LINES: usize = 200;
/// Most ids of orders in a line.
const LINE_ORDERS: usize = 100;
/// Most bytes of a batch, so that its record has room for it.
const BATCH_BYTES: usize = 40_000;
/// Bytes of a line beside its texts.
const LINE_BYTES: usize = 80;
/// Bytes of the id of an order beside its text.
const ORDER_BYTES: usize = 3;

/// The units of each item that an event lets the stock master subtract. Below 0: units that come back.
///
/// Whatever an event does, `total − counted` falls by these units. So a written-off unit that was sold is not told: the total falls with
/// the sold units, and the stock master has subtracted it already.
fn units(transition: &Transition, decrement_at: DecrementAt) -> Vec<(&ItemKey, i64)> {
    let Transition::Hold { change, hold, .. } = transition else { return Vec::new() };
    let of_line = |(number, line): (usize, &Line)| {
        let effect = change.effect(hold, line, number);
        let counted = match decrement_at {
            DecrementAt::Sale => effect.confirmed_sold,
            DecrementAt::Shipment => effect.fulfilled,
        };
        counted + written_off(change, number)
    };
    let lines = hold.lines.iter().enumerate();
    lines
        .map(|(number, line)| (&line.item, of_line((number, line))))
        .filter(|(_, units)| *units != 0)
        .collect()
}

/// The units of a line by which an event lowers the total.
fn written_off(change: &HoldChange, number: usize) -> i64 {
    match change {
        HoldChange::Returned { lines, disposition: Disposition::WriteOff, .. } => {
            lines.get(number).map_or(0, |moved| i64::from(moved.quantity))
        }
        _ => 0,
    }
}

/// The units that a stock master has not booked, of each item.
#[derive(Debug, Default)]
pub(super) struct PendingDecrements(BTreeMap<ItemKey, i64>);

impl PendingDecrements {
    /// Adds what an event lets the stock master subtract, without its first lines, which are booked.
    pub(super) fn note(
        &mut self,
        row: &EventRow,
        booked_part: usize,
        owned: &OwnedItems,
        decrement_at: DecrementAt,
    ) {
        for (item, units) in units(&row.event.transition, decrement_at).into_iter().skip(booked_part) {
            if owned.owns(item, row.position) {
                self.add(item.clone(), units);
            }
        }
    }

    /// Forgets the units of a batch that was booked.
    pub(super) fn book(&mut self, batch: &DecrementBatch) {
        for line in &batch.lines {
            if let Some(item) = item_of(line) {
                self.add(item, -line.quantity);
            }
        }
    }

    /// Forgets an item.
    pub(super) fn forget(&mut self, item: &ItemKey) {
        self.0.remove(item);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The units of an item.
    pub(super) fn of(&self, item: &ItemKey) -> i64 {
        self.0.get(item).copied().unwrap_or(0)
    }

    /// The units of all items together.
    pub(super) fn total(&self) -> i64 {
        self.0.values().sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, item: ItemKey, units: i64) {
        let pending = self.of(&item) + units;
        if pending == 0 {
            self.0.remove(&item);
        } else {
            self.0.insert(item, pending);
        }
    }
}

fn item_of(line: &DecrementLine) -> Option<ItemKey> {
    let (location, sku) = (Label::new(&line.location).ok()?, Label::new(&line.sku).ok()?);
    Some(ItemKey::new(&location, &sku))
}

/// Gathers the units of events that follow each other into one batch.
pub(super) struct BatchBuilder {
    lines: BTreeMap<ItemKey, (i64, Vec<String>)>,
    bytes: usize,
    through: u64,
    /// The lines of the event behind `through` that are in this batch or an earlier one.
    part: usize,
    is_full: bool,
}

impl BatchBuilder {
    /// A batch of the events after this position, without the first lines of the next event.
    pub(super) fn new(after: u64, booked_part: usize) -> Self {
        Self { lines: BTreeMap::new(), bytes: 0, through: after, part: booked_part, is_full: false }
    }

    /// Adds the next event, or as many of its lines as fit.
    pub(super) fn add(&mut self, row: &EventRow, owned: &OwnedItems, decrement_at: DecrementAt) {
        let order_id = match &row.event.transition {
            Transition::Hold { hold, .. } => hold.order_id().map(Label::as_str),
            _ => None,
        };
        for (item, units) in units(&row.event.transition, decrement_at).into_iter().skip(self.part) {
            if owned.owns(item, row.position) && !self.add_line(item, units, order_id) {
                self.is_full = true;
                return;
            }
            self.part += 1;
        }
        (self.through, self.part) = (row.position, 0);
    }

    /// Adds units of one item. `false` if the batch has no room for them.
    fn add_line(&mut self, item: &ItemKey, units: i64, order_id: Option<&str>) -> bool {
        let known = self.lines.get(item);
        let is_new_order =
            |id: &&str| known.is_none_or(|(_, orders)| !orders.iter().any(|order| order == id));
        let order_id = order_id.filter(is_new_order);
        let mut bytes = order_id.map_or(0, |id| id.len() + ORDER_BYTES);
        if known.is_none() {
            bytes += item.sku().len() + item.location().len() + LINE_BYTES;
        }
        let has_room = match known {
            Some((_, orders)) => orders.len() < LINE_ORDERS,
            None => self.lines.len() < BATCH_LINES,
        };
        if !has_room || self.bytes + bytes > BATCH_BYTES {
            return false;
        }
        self.bytes += bytes;
        let (sum, orders) = self.lines.entry(item.clone()).or_default();
        *sum += units;
        orders.extend(order_id.map(str::to_owned));
        true
    }

    /// The last event of which all lines are in it.
    pub(super) fn through(&self) -> u64 {
        self.through
    }

    /// Whether it has no more room.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The batch. It has no lines if the units add up to nothing.
    pub(super) fn finish(self, batch_id: String) -> DecrementBatch {
        let lines = self.lines.into_iter().filter(|(_, (units, _))| *units != 0);
        let line = |(item, (quantity, order_ids)): (ItemKey, (i64, Vec<String>))| DecrementLine {
            sku: item.sku().to_owned(),
            location: item.location().to_owned(),
            quantity,
            order_ids,
        };
        DecrementBatch {
            batch_id,
            through: self.through,
            part: self.part,
            lines: lines.map(line).collect(),
            attempts: 0,
            refused: None,
        }
    }
}
