//! The state that commands are decided on: items, active holds, records, and the closed holds and used keys that the index does
//! not have yet. A record that is neither in memory nor ruled out is [`NotLoaded`], and a reader fetches it from the
//! index.

use crate::engine::active::{ActiveHolds, DeadlinesByItem, EarliestDeadlines, ItemDeadlines};
use crate::engine::counted_due::CountedDue;
use crate::engine::due_payments::DuePayments;
use crate::engine::leaving::LeavingReservations;
use crate::engine::recent_keys::{KeyMap, RecentKeys};
use crate::index::AsOf;
use crate::index::filter::{BloomFilter, KeyProbe};
use foldhash::fast::RandomState;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use stockhold_domain::{
    CounterKey, Event, Hold, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, Limit, LimitCounter,
    LimitCounters, LimitSet, Lookup, NotLoaded, Pools, Record, RecordKey, RecordKind, ReservationId,
    Resource, Scope, State, Status, StockChange, Transition, Unit, UnitIndex,
};
use stockhold_store::{LimitUsage, Pauses, UsageRequest};

type Map<K, V> = HashMap<K, V, RandomState>;

/// The state that commands are decided on.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// In boxes: a table has up to twice as many places as entries, and moves its entries when it grows.
    items: Map<ItemKey, Box<ItemSlot>>,
    active: ActiveHolds,
    earliest: EarliestDeadlines,
    paused_all: bool,
    paused_locations: HashSet<Box<str>, RandomState>,
    /// All records, deleted ones included.
    records: BTreeMap<RecordKey, Record>,
    /// All limits, deleted ones included.
    limits: LimitSet,
    counters: LimitCounters,
    counted_due: CountedDue,
    /// The items with pools that are to be released, by the earliest time of each.
    releases: BTreeSet<(Instant, ItemKey)>,
    /// The reservations whose payment is to be moved on.
    pub(crate) due_payments: DuePayments,

    /// The number of the batch that is being decided.
    batch: u64,
    closed: Map<ReservationId, (Hold, u64)>,
    closed_order: VecDeque<(u64, ReservationId)>,
    /// Every closed hold that changed in a batch after this one is in `closed`.
    closed_after: u64,
    keys: RecentKeys,
    /// Every key that was used in a batch after this one is in `keys`.
    keys_after: u64,
    filters: Vec<Arc<BloomFilter>>,
    /// The closed reservations that leave with the step that an archive makes.
    leaving: Option<LeavingReservations>,
    /// The batch up to which the index has let go of what was archived. Older reads may have what is gone.
    archived: u64,

    /// The records that a reader fetched for the command that is being decided.
    pub(crate) fetched: FetchedRecords,
}

#[derive(Debug)]
struct ItemSlot {
    item: Item,
    deadlines: ItemDeadlines,
    /// The units of the item, if it has units with ids.
    unit_index: Option<Box<UnitIndex>>,
}

/// Records that a reader found in the index, each with the state of the index at that time.
#[derive(Debug, Default)]
pub(crate) struct FetchedRecords {
    pub(crate) holds: Vec<(ReservationId, Option<Hold>, AsOf)>,
    pub(crate) keys: Vec<(KeyHash, Option<KeyRecord>, AsOf)>,
}

impl Memory {
    /// Sets the position of the index at a start.
    pub(crate) fn start_after_index(&mut self, indexed: u64, keyed: u64, filters: Vec<Arc<BloomFilter>>) {
        self.closed_after = indexed;
        self.keys_after = keyed;
        self.filters = filters;
    }

    /// Makes room for the items of a start.
    pub(crate) fn reserve_items(&mut self, items: usize) {
        self.items.reserve(items);
    }

    pub(crate) fn put_item(&mut self, item: Item) {
        let due = item.pools.release_due_at();
        let known = self.items.get(&item.key).and_then(|slot| slot.item.pools.release_due_at());
        self.move_release(&item.key, known, due);
        match self.items.entry(item.key.clone()) {
            Entry::Occupied(mut slot) => slot.get_mut().item = item,
            Entry::Vacant(place) => {
                place.insert(Box::new(ItemSlot {
                    item,
                    deadlines: ItemDeadlines::default(),
                    unit_index: None,
                }));
            }
        }
    }

    fn move_release(&mut self, key: &ItemKey, before: Option<Instant>, after: Option<Instant>) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.releases.remove(&(before, key.clone()));
        }
        if let Some(after) = after {
            self.releases.insert((after, key.clone()));
        }
    }

    fn put_pools(&mut self, key: &ItemKey, pools: &Pools) {
        let Some(slot) = self.items.get_mut(key) else { return };
        let before = slot.item.pools.release_due_at();
        slot.item.pools = pools.clone();
        self.move_release(key, before, pools.release_due_at());
    }

    /// Adds new units to an item.
    pub(crate) fn put_units(&mut self, item: &ItemKey, units: Vec<Unit>) {
        if let Some(slot) = self.items.get_mut(item) {
            slot.unit_index.get_or_insert_default().add(units);
        }
    }

    /// Makes the lines of a hold that was read share the keys of their items. The lines of a decided hold share them
    /// already.
    pub(crate) fn share_keys(&self, hold: &mut Hold) {
        for line in Arc::get_mut(&mut hold.lines).into_iter().flatten() {
            if let Some((key, _)) = self.items.get_key_value(&line.item) {
                line.item = key.clone();
            }
        }
    }

    /// Adds the active holds at a start. All of their deadlines are inserted together, which costs a fraction of
    /// inserting them one by one.
    pub(crate) fn load_active(&mut self, holds: Vec<Hold>) {
        let mut deadlines = DeadlinesByItem::default();
        for hold in &holds {
            deadlines.add(hold);
            self.counted_due.insert(hold);
        }
        self.active.insert_all(holds);
        for (key, all) in deadlines.into_items() {
            if let Some(slot) = self.items.get_mut(&key) {
                self.earliest.add_all(&key, &mut slot.deadlines, all);
            }
        }
    }

    pub(crate) fn put_active(&mut self, hold: Hold) {
        self.put_deadline(&hold);
        self.active.insert(hold);
    }

    /// Whether everything is paused, and the locations that are paused.
    pub(crate) fn pauses(&self) -> Pauses {
        let named = self.paused_locations.iter().filter_map(|location| Label::new(location).ok());
        let mut locations: Vec<Label> = named.collect();
        locations.sort_unstable();
        Pauses { everything: self.paused_all, locations }
    }

    pub(crate) fn put_pause(&mut self, location: Option<&str>, paused: bool) {
        match location {
            None => self.paused_all = paused,
            Some(location) if paused => {
                self.paused_locations.insert(location.into());
            }
            Some(location) => {
                self.paused_locations.remove(location);
            }
        }
    }

    pub(crate) fn put_record(&mut self, record: Record) {
        self.records.insert(record.key.clone(), record);
    }

    /// Puts the limits and counters of a start.
    pub(crate) fn put_limits(&mut self, limits: LimitSet, counters: LimitCounters) {
        (self.limits, self.counters) = (limits, counters);
    }

    /// All limits, deleted ones included, and all counters that are not at 0.
    pub(crate) fn all_limits(&self) -> (Vec<Limit>, Vec<(CounterKey, LimitCounter)>) {
        (self.limits.iter().cloned().collect(), self.counters.iter().collect())
    }

    /// A page of the limits that are not deleted.
    pub(crate) fn limit_page(&self, after: Option<&Label>, limit: usize) -> Vec<Limit> {
        let here = self.limits.iter().filter(|one| one.terms.is_some());
        here.filter(|one| after.is_none_or(|after| one.id > *after)).take(limit).cloned().collect()
    }

    /// What a limit counts.
    pub(crate) fn limit_usage(&self, request: &UsageRequest) -> Option<LimitUsage> {
        request.usage(&self.limits, &self.counters)
    }

    /// All records of a kind that are not deleted.
    pub(crate) fn records_of(&self, kind: RecordKind) -> Vec<Record> {
        let of_kind =
            self.records.values().filter(|record| record.key.kind == kind && record.value.is_some());
        of_kind.cloned().collect()
    }

    /// A page of the records of a kind that are not deleted.
    pub(crate) fn record_page(&self, kind: RecordKind, after: Option<&Label>, limit: usize) -> Vec<Record> {
        let after = after.map(|id| RecordKey { kind, id: id.clone() });
        let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.records.range((from, Bound::Unbounded)).map(|(_, record)| record);
        let here = records.filter(|record| record.key.kind == kind && record.value.is_some());
        here.take(limit).cloned().collect()
    }

    /// Sets the batch that the next changes belong to.
    pub(crate) fn begin_batch(&mut self, number: u64) {
        self.batch = number;
    }
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.values().map(|slot| &slot.item)
    }

    /// The number of closed holds and keys that the index does not have yet.
    pub(crate) fn unindexed_records(&self) -> usize {
        self.closed.len() + self.keys.len()
    }

    pub(crate) fn active_len(&self) -> usize {
        self.active.len()
    }

    /// A hold that is in memory, even if it leaves.
    pub(crate) fn find_hold(&self, id: ReservationId) -> Option<&Hold> {
        self.active.get(id).or_else(|| self.closed.get(&id).map(|(hold, _)| hold))
    }

    /// The batch up to which the index is complete.
    pub(crate) fn indexed_batch(&self) -> u64 {
        self.closed_after
    }

    /// Removes closed holds that the index has. The index has every closed hold up to this batch.
    pub(crate) fn drop_closed_up_to(&mut self, indexed: u64) {
        self.closed_after = self.closed_after.max(indexed);
        while let Some((batch, id)) = self.closed_order.front().copied() {
            if batch > indexed {
                break;
            }
            self.closed_order.pop_front();
            // A hold that changed again after this batch has a later entry in `closed_order`.
            let over = |(_, changed): &(Hold, u64)| *changed <= indexed;
            if self.closed.get(&id).is_some_and(over) {
                self.closed.remove(&id);
            }
        }
    }

    /// Removes keys that the index has, and sets the filters of the index. The index has every key up to this batch.
    /// Returns the removed maps, so that the caller can drop them after it has released the lock.
    pub(crate) fn drop_keys_up_to(&mut self, keyed: u64, filters: Vec<Arc<BloomFilter>>) -> Vec<KeyMap> {
        self.keys_after = self.keys_after.max(keyed);
        self.filters = filters;
        self.keys.remove_up_to(keyed)
    }

    /// From now on no command finds these reservations.
    pub(crate) fn begin_leaving(&mut self, leaving: LeavingReservations) {
        self.leaving = Some(leaving);
    }

    /// They do not leave. Returns them, so that the caller can drop them after it has released the lock.
    pub(crate) fn cancel_leaving(&mut self) -> Option<LeavingReservations> {
        self.leaving.take()
    }

    /// The index has let go of them, with the batches up to this one. Returns them like [`Memory::cancel_leaving`].
    pub(crate) fn end_leaving(&mut self, archived: u64) -> Option<LeavingReservations> {
        self.archived = self.archived.max(archived);
        self.leaving.take()
    }

    /// Whether reservations leave.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Whether this reservation leaves.
    pub(crate) fn has_left(&self, hold: &Hold) -> bool {
        self.leaving.as_ref().is_some_and(|leaving| leaving.has(hold))
    }

    fn put_deadline(&mut self, hold: &Hold) {
        self.counted_due.insert(hold);
        for line in &*hold.lines {
            if let Some(slot) = self.items.get_mut(&line.item) {
                self.earliest.insert(hold, &line.item, &mut slot.deadlines);
            }
        }
    }

    fn drop_deadline(&mut self, hold: &Hold) {
        self.counted_due.remove(hold);
        for line in &*hold.lines {
            if let Some(slot) = self.items.get_mut(&line.item) {
                self.earliest.remove(hold, &line.item, &mut slot.deadlines);
            }
        }
    }

    fn apply_hold(&mut self, hold: Hold, is_new: bool) {
        if !is_new && let Some(before) = self.active.remove(hold.id) {
            self.drop_deadline(&before);
        }
        if hold.status == Status::Active {
            self.put_active(hold);
        } else {
            self.closed_order.push_back((self.batch, hold.id));
            self.closed.insert(hold.id, (hold, self.batch));
        }
    }
}

impl State for Memory {
    fn item(&self, key: &ItemKey) -> Lookup<'_, Item> {
        Ok(self.items.get(key).map(|slot| &slot.item))
    }

    fn hold(&self, id: ReservationId) -> Lookup<'_, Hold> {
        if let Some(hold) = self.find_hold(id) {
            return Ok(Some(hold).filter(|hold| !self.has_left(hold)));
        }
        let fetched = self.fetched.holds.iter().rev().find(|(found, ..)| *found == id);
        match fetched {
            Some((_, hold, as_of)) if as_of.has_all_of(self.closed_after, self.archived) => {
                Ok(hold.as_ref().filter(|hold| !self.has_left(hold)))
            }
            _ => Err(NotLoaded(Resource::Hold(id))),
        }
    }

    fn key(&self, hash: KeyHash) -> Lookup<'_, KeyRecord> {
        let leaving = |at| self.leaving.as_ref().is_some_and(|leaving| leaving.has_key_of(at));
        if let Some(record) = self.keys.get(hash) {
            return Ok(Some(record).filter(|record| !leaving(record.at)));
        }
        let probe = KeyProbe::from(hash);
        // Every filter is read without a branch, so that the processor fetches several of them at the same time.
        if !self.filters.iter().fold(false, |may, filter| may | filter.may_contain(&probe)) {
            return Ok(None);
        }
        let fetched = self.fetched.keys.iter().rev().find(|(found, ..)| *found == hash);
        match fetched {
            Some((_, record, as_of)) if as_of.has_all_of(self.keys_after, self.archived) => {
                Ok(record.as_ref().filter(|record| !leaving(record.at)))
            }
            _ => Err(NotLoaded(Resource::Key(hash))),
        }
    }

    fn paused(&self, location: Option<&str>) -> Result<bool, NotLoaded> {
        Ok(location.map_or(self.paused_all, |location| self.paused_locations.contains(location)))
    }

    fn earliest(&self, item: Option<&ItemKey>) -> Result<Option<(Instant, ReservationId)>, NotLoaded> {
        Ok(match item {
            None => self.earliest.first(),
            Some(key) => self.items.get(key).and_then(|slot| slot.deadlines.earliest()),
        })
    }

    fn earliest_release(&self) -> Result<Option<(Instant, ItemKey)>, NotLoaded> {
        Ok(self.releases.first().cloned())
    }

    fn limits(&self) -> Result<&LimitSet, NotLoaded> {
        Ok(&self.limits)
    }

    fn counter(&self, key: &CounterKey) -> Result<LimitCounter, NotLoaded> {
        Ok(self.counters.get(key))
    }

    fn earliest_counted(&self, key: &CounterKey) -> Result<Option<(Instant, ReservationId)>, NotLoaded> {
        Ok(self.counted_due.earliest(key))
    }

    fn record(&self, key: &RecordKey) -> Lookup<'_, Record> {
        Ok(self.records.get(key))
    }

    fn unit_index(&self, item: &ItemKey) -> Lookup<'_, UnitIndex> {
        Ok(self.items.get(item).and_then(|slot| slot.unit_index.as_deref()))
    }

    fn apply(&mut self, event: &Event) {
        match &event.transition {
            Transition::Hold { change, hold, figures, limits } => {
                self.due_payments.apply(change, hold);
                for (key, counter) in limits.iter().flat_map(|limits| &*limits.counters) {
                    self.counters.put(key.clone(), *counter);
                }
                for (number, (line, figures)) in hold.lines.iter().zip(figures).enumerate() {
                    if let Some(slot) = self.items.get_mut(&line.item) {
                        slot.item.figures = *figures;
                        if let (Some(_), Some(unit_index)) = (&line.units, &mut slot.unit_index) {
                            unit_index.apply(change, hold, line, number);
                        }
                    }
                }
                for moved in limits.iter().flat_map(|effects| &*effects.pools) {
                    let line = usize::try_from(moved.line).ok().and_then(|line| hold.lines.get(line));
                    if let Some(line) = line {
                        self.put_pools(&line.item, &moved.pools);
                    }
                }
                self.apply_hold(hold.without_removed_lines(), change.status_before().is_none());
            }
            Transition::Stock { change: StockChange::Deleted, item } => {
                let gone = self.items.remove(&item.key);
                let due = gone.and_then(|slot| slot.item.pools.release_due_at());
                self.move_release(&item.key, due, None);
            }
            Transition::Stock { change, item } => {
                self.put_item(item.clone());
                match change {
                    StockChange::UnitsAdded(units) => self.put_units(&item.key, units.to_vec()),
                    StockChange::UnitsRetired(units) => {
                        let slot = self.items.get_mut(&item.key);
                        if let Some(unit_index) = slot.and_then(|slot| slot.unit_index.as_deref_mut()) {
                            units.iter().for_each(|unit| unit_index.retire(unit));
                        }
                    }
                    StockChange::UnitsPooled { pool, units } => {
                        let slot = self.items.get_mut(&item.key);
                        if let Some(unit_index) = slot.and_then(|slot| slot.unit_index.as_deref_mut()) {
                            unit_index.set_pool(units, pool.as_ref());
                        }
                    }
                    StockChange::Set
                    | StockChange::Adjusted { .. }
                    | StockChange::Deleted
                    | StockChange::PoolSet { .. }
                    | StockChange::PoolDeleted { .. }
                    | StockChange::PoolReleased { .. } => {}
                }
            }
            Transition::Sale { scope, paused, .. } => match scope {
                Scope::Everything => self.put_pause(None, *paused),
                Scope::Location(location) => self.put_pause(Some(location.as_str()), *paused),
                Scope::Item(key) => {
                    if let Some(slot) = self.items.get_mut(key) {
                        slot.item.paused = *paused;
                    }
                }
            },
            Transition::Limit { limit } => {
                self.counters.on_change(limit);
                self.limits.put(limit.clone());
            }
            Transition::Record { record, .. } => self.put_record(record.clone()),
        }
    }

    fn remember(&mut self, key: &KeyRecord) {
        self.keys.insert(self.batch, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_conformance::maker::{confirm, reserve, return_all, set_stock};
    use stockhold_conformance::{Maker, START};
    use stockhold_domain::{Effects, Envelope, EventId, HoldLimits, Outcome, Reply, decide};

    /// Decides a command in a batch. Returns the id of its reservation.
    fn run(memory: &mut Memory, batch: u64, envelope: &Envelope) -> Option<ReservationId> {
        memory.begin_batch(batch);
        let mut effects = Effects::default();
        match decide(memory, &HoldLimits::default(), envelope, START, &mut effects).unwrap() {
            Outcome::Done(Reply::Reservation(hold)) => Some(hold.id),
            Outcome::Done(_) => None,
            other => panic!("{other:?}"),
        }
    }

    /// A reservation that was made with a key in batch 1 and confirmed in batch 2.
    fn sold(memory: &mut Memory, maker: &mut Maker) -> (ReservationId, KeyHash) {
        let shirt = maker.item("shirt");
        run(memory, 1, &maker.wrap(set_stock(&shirt, 9)));
        let keyed = maker.keyed("key", reserve(&[(&shirt, 1)]));
        let id = run(memory, 1, &keyed).unwrap();
        run(memory, 2, &maker.wrap(confirm(id)));
        (id, keyed.key.unwrap().hash)
    }

    #[test]
    fn what_changed_after_the_index_was_written_is_not_forgotten_with_what_it_has() {
        let (mut memory, mut maker) = (Memory::default(), Maker::new(1, ""));
        let (id, hash) = sold(&mut memory, &mut maker);
        run(&mut memory, 3, &maker.wrap(return_all(id)));
        memory.drop_closed_up_to(2);
        assert_eq!(memory.hold(id).unwrap().unwrap().lines[0].returned, 1);
        memory.drop_closed_up_to(3);
        assert_eq!(memory.hold(id), Err(NotLoaded(Resource::Hold(id))));

        assert!(memory.drop_keys_up_to(0, Vec::new()).is_empty());
        assert!(memory.key(hash).unwrap().is_some());
        assert_eq!(memory.drop_keys_up_to(1, Vec::new()).len(), 1);
        assert_eq!(memory.key(hash), Ok(None), "no filter has it");
    }

    #[test]
    fn a_read_that_was_made_before_the_index_went_on_is_not_believed() {
        let (mut memory, mut maker) = (Memory::default(), Maker::new(1, ""));
        let (id, hash) = sold(&mut memory, &mut maker);
        memory.drop_closed_up_to(2);
        memory.drop_keys_up_to(2, vec![Arc::new(BloomFilter::from_keys([hash].into_iter()))]);
        let as_of = |complete| AsOf { complete, archived: 0 };
        memory.fetched.holds.push((id, None, as_of(1)));
        memory.fetched.keys.push((hash, None, as_of(1)));
        assert_eq!(memory.hold(id), Err(NotLoaded(Resource::Hold(id))));
        assert_eq!(memory.key(hash), Err(NotLoaded(Resource::Key(hash))));
        memory.fetched.holds.push((id, None, as_of(2)));
        memory.fetched.keys.push((hash, None, as_of(2)));
        assert_eq!((memory.hold(id), memory.key(hash)), (Ok(None), Ok(None)));
    }

    #[test]
    fn a_reservation_that_leaves_is_unknown_and_one_that_has_changed_since_is_not() {
        let (mut memory, mut maker) = (Memory::default(), Maker::new(1, ""));
        let (id, _) = sold(&mut memory, &mut maker);
        let before = memory.hold(id).unwrap().unwrap().clone();
        let as_of = |archived| AsOf { complete: 2, archived };
        let leave =
            |last_event| LeavingReservations::new(std::iter::once((id, last_event)), Instant::from_micros(0));
        memory.begin_leaving(leave(before.last_event));
        assert_eq!(memory.hold(id), Ok(None), "though the index does not have it yet");
        memory.drop_closed_up_to(2);
        memory.fetched.holds.push((id, Some(before.clone()), as_of(0)));
        memory.begin_leaving(leave(EventId::from_u128(1)));
        assert!(memory.hold(id).unwrap().is_some(), "another event is its last one");
        memory.begin_leaving(leave(before.last_event));
        assert_eq!(memory.hold(id), Ok(None));
        assert!(memory.cancel_leaving().is_some() && memory.hold(id).unwrap().is_some());
        memory.begin_leaving(leave(before.last_event));
        memory.end_leaving(1);
        assert_eq!(memory.hold(id), Err(NotLoaded(Resource::Hold(id))), "the read is older than the archive");
        memory.fetched.holds.push((id, None, as_of(1)));
        assert_eq!(memory.hold(id), Ok(None));
        memory.fetched.holds.push((id, Some(before), as_of(1)));
        memory.begin_leaving(LeavingReservations::of_earlier_step(&[id], Instant::from_micros(0)));
        assert_eq!(memory.hold(id), Ok(None), "whatever its last event is");
    }
}
