//! What the commands of a batch changed of the state that it had loaded: rows to insert, to update and to delete.

use super::loaded_state::{LoadedEntry, LoadedState};
use crate::engine::dialect::{Changes, LineRow, SaleRow};
use crate::engine::encoding::{first_sku, further_skus, key_bucket};
use std::collections::{BTreeMap, BTreeSet};
use stockhold_domain::{
    Effects, Event, Hold, HoldChange, Item, ItemKey, KeyRecord, Label, Mode, ReservationId, Status,
    Transition, UnitMove, bucket_of, moved,
};

/// Transitions of a reservation after which its history so far moves from its row to a row of its own. So the row stays short, and an
/// update costs no more however often the reservation was changed before.
const HISTORY_VERSIONS: u64 = 64;

/// Changes of the queue of deadlines.
#[derive(Default)]
struct QueueChanges<'a> {
    gone: Vec<LineRow<'a>>,
    resized: Vec<LineRow<'a>>,
    come: Vec<LineRow<'a>>,
}

impl LoadedState {
    /// The changes to write, in the order of the tables' keys, so that two instances that insert the same rows wait for each other
    /// in one order and not in a deadlock.
    pub(crate) fn changes<'a>(
        &'a self,
        effects: &'a Effects,
        serial: u64,
        counter_shard: u16,
    ) -> Changes<'a> {
        let (mut new_items, mut changed_items) = split(self.items.values());
        let by_key = |a: &&Item, b: &&Item| (bucket_of(&a.key), &a.key).cmp(&(bucket_of(&b.key), &b.key));
        new_items.sort_by(by_key);
        changed_items.sort_by(by_key);
        changed_items.retain(|item| item.mode == Mode::Counted || self.rewritten.contains(&item.key));
        let is_gone = |entry: &LoadedEntry<Item>| entry.before.is_some() && entry.now().is_none();
        let mut deleted_items: Vec<&ItemKey> =
            self.items.iter().filter(|(_, entry)| is_gone(entry)).map(|(key, _)| key).collect();
        deleted_items.sort_by_key(|key| (bucket_of(key), *key));
        let (mut new_holds, mut changed_holds) = split(self.holds.values());
        let by_id = |hold: &&Hold| (hold.id.bucket(), hold.id);
        new_holds.sort_by_key(by_id);
        changed_holds.sort_by_key(by_id);
        let is_full = |entry: &&LoadedEntry<Hold>| match (&entry.before, &entry.after) {
            (Some(before), Some(after)) => {
                before.version / HISTORY_VERSIONS < after.version / HISTORY_VERSIONS
            }
            _ => false,
        };
        let mut full_histories: Vec<ReservationId> = self
            .holds
            .values()
            .filter(is_full)
            .filter_map(|entry| entry.after.as_ref())
            .map(|hold| hold.id)
            .collect();
        full_histories.sort_by_key(|id| (id.bucket(), *id));
        let relisted = |entry: &&LoadedEntry<Hold>| match (&entry.before, &entry.after) {
            (Some(before), Some(after)) => listed_by(before) != listed_by(after),
            _ => false,
        };
        let mut relisted_holds: Vec<&Hold> =
            self.holds.values().filter(relisted).filter_map(|entry| entry.after.as_ref()).collect();
        relisted_holds.sort_by_key(by_id);
        let new_orders = effects.events.iter().filter_map(confirmed_for_an_order).collect();
        let due = |hold: &Option<Hold>| hold.as_ref().and_then(Hold::payment_due_at);
        let moved_payments = self.holds.values().filter(|entry| due(&entry.before) != due(&entry.after));
        let mut due_payments: Vec<_> =
            moved_payments.filter_map(|entry| Some((entry.after.as_ref()?.id, due(&entry.after)))).collect();
        due_payments.sort_unstable();
        let QueueChanges { gone, resized, come } = self.queue_changes();
        let pauses =
            self.pauses.iter().filter_map(|(location, entry)| Some((location.as_str(), entry.after?)));
        let mut keys: Vec<&KeyRecord> = effects.keys.iter().collect();
        keys.sort_by_key(|record| (key_bucket(record.hash), record.hash));
        let (mut new_units, mut changed_units, mut gone_units) = (Vec::new(), Vec::new(), Vec::new());
        let mut figures = Vec::new();
        let mut unit_items: Vec<_> = self.unit_items.iter().collect();
        unit_items.sort_by(|(a, _), (b, _)| (bucket_of(a), a).cmp(&(bucket_of(b), b)));
        for (item, unit_item) in unit_items {
            unit_item.changes(item, &mut new_units, &mut changed_units, &mut gone_units);
            figures.extend(unit_item.figures(item));
        }
        let (new_sales, closed_sales) = sales(&effects.events);
        let (new_records, changed_records) = split(self.records.values());
        Changes {
            new_items,
            changed_items,
            deleted_items,
            deleted_figures: self.deleted.iter().collect(),
            new_units,
            changed_units,
            gone_units,
            figures,
            counter_shard,
            closed_sales,
            new_sales,
            new_holds,
            changed_holds,
            full_histories,
            relisted_holds,
            new_orders,
            due_payments,
            gone,
            resized,
            come,
            pauses: pauses.collect(),
            new_records,
            changed_records,
            limits: self.limits.changes(self.holds.values()),
            keys,
            events: &effects.events,
            serial,
        }
    }

    /// How the queue of deadlines changes. A line that keeps its deadline and its quantity is not among it.
    fn queue_changes(&self) -> QueueChanges<'_> {
        let mut changes = QueueChanges::default();
        let queued = |hold: &&Hold| hold.status == Status::Active;
        for LoadedEntry { before, after, .. } in self.holds.values() {
            let Some(after) = after else { continue };
            let before = before.as_ref().filter(queued);
            let after = Some(after).filter(queued);
            let key = |line: &LineRow<'_>| (line.expires_at, line.leads);
            let mut known: BTreeMap<&ItemKey, LineRow<'_>> =
                before.into_iter().flat_map(queue_lines).map(|line| (line.item, line)).collect();
            for line in after.into_iter().flat_map(queue_lines) {
                match known.remove(line.item) {
                    Some(known) if key(&known) == key(&line) => {
                        changes.resized.extend((known.quantity != line.quantity).then_some(line));
                    }
                    known => {
                        changes.gone.extend(known);
                        changes.come.push(line);
                    }
                }
            }
            changes.gone.extend(known.into_values());
        }
        let by_key = |a: &LineRow<'_>, b: &LineRow<'_>| {
            let key = |line: &LineRow<'_>| (bucket_of(line.item), line.expires_at, line.id);
            (key(a), a.item).cmp(&(key(b), b.item))
        };
        changes.gone.sort_by(by_key);
        changes.resized.sort_by(by_key);
        changes.come.sort_by(by_key);
        changes
    }
}

/// The changes that events make to the ledger of sales: rows to insert, and rows to close.
fn sales(events: &[Event]) -> (Vec<SaleRow<'_>>, Vec<SaleRow<'_>>) {
    let mut new: BTreeMap<(u16, &ItemKey, &Label, ReservationId), SaleRow<'_>> = BTreeMap::new();
    let mut closed = BTreeMap::new();
    for event in events {
        let Transition::Hold { change, hold, .. } = &event.transition else { continue };
        let sells = *change == HoldChange::Confirmed;
        if !sells && !matches!(change, HoldChange::Returned { .. }) {
            continue;
        }
        for (number, line) in hold.lines.iter().enumerate() {
            for UnitMove { unit, .. } in moved(change, hold, line, number) {
                let unit = &unit.id;
                let key = (bucket_of(&line.item), &line.item, unit, hold.id);
                let row =
                    SaleRow { item: &line.item, unit, id: hold.id, sold_at: event.at, returned_at: None };
                if sells {
                    new.insert(key, row);
                } else if let Some(row) = new.get_mut(&key) {
                    row.returned_at = Some(event.at);
                } else {
                    closed.insert(key, SaleRow { returned_at: Some(event.at), ..row });
                }
            }
        }
    }
    (new.into_values().collect(), closed.into_values().collect())
}

/// What lists find a reservation by, besides its order.
fn listed_by(hold: &Hold) -> (&Label, &str, BTreeSet<&str>) {
    (&hold.terms.reserve.owner_id, first_sku(hold), further_skus(hold))
}

fn queue_lines(hold: &Hold) -> impl Iterator<Item = LineRow<'_>> {
    hold.lines.iter().zip(0_usize..).map(|(line, number)| LineRow {
        item: &line.item,
        expires_at: hold.expires_at,
        id: hold.id,
        quantity: line.quantity,
        leads: number == 0,
    })
}

/// The reservation that an event confirmed for an order. Events have the order of the confirms.
fn confirmed_for_an_order(event: &Event) -> Option<(ReservationId, &Label)> {
    let Transition::Hold { change: HoldChange::Confirmed, hold, .. } = &event.transition else { return None };
    Some((hold.id, hold.closing.as_ref()?.order_id.as_ref()?))
}

/// Splits changed entries into rows to insert and rows to update.
fn split<'a, T: 'a>(entries: impl Iterator<Item = &'a LoadedEntry<T>>) -> (Vec<&'a T>, Vec<&'a T>) {
    let mut new = Vec::new();
    let mut changed = Vec::new();
    for LoadedEntry { before, after, .. } in entries {
        if let Some(after) = after {
            let list = if before.is_some() { &mut changed } else { &mut new };
            list.push(after);
        }
    }
    (new, changed)
}
