//! The state that commands are decided on: items, active holds, and the tail of closed holds and used keys that the
//! index does not have yet. What is neither here nor ruled out is [`NotLoaded`]: a reader brings it from the index.

use crate::engine::active::{Active, Deadlines, Earliest, Many};
use crate::engine::recent_keys::{Forgotten, RecentKeys};
use crate::index::filter::{Filter, Sought};
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use stockhold_domain::bug;
use stockhold_domain::{
    Event, Hold, HoldChange, Instant, Item, ItemKey, KeyHash, KeyRecord, Label, Lookup, NotLoaded, Pool,
    ReservationId, Resource, Scope, State, Status, StockChange, Transition, Unit,
};
use stockhold_store::Pauses;

type Map<K, V> = HashMap<K, V, RandomState>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    items: Map<ItemKey, Slot>,
    active: Active,
    earliest: Earliest,
    paused_all: bool,
    paused_locations: HashSet<Box<str>, RandomState>,

    /// Number of the batch that is being decided.
    batch: u64,
    closed: Map<ReservationId, (Hold, u64)>,
    closed_order: VecDeque<(u64, ReservationId)>,
    /// Every closed hold that changed in a batch after this one is in `closed`.
    closed_from: u64,
    keys: RecentKeys,
    /// Every key used in a batch after this one is in `keys`.
    keys_from: u64,
    filters: Vec<Arc<Filter>>,

    /// What a reader brought for the command that is being decided.
    pub(crate) brought: Brought,
}

#[derive(Debug)]
struct Slot {
    item: Item,
    deadlines: Deadlines,
    /// Its units, where they have ids and there are any.
    pool: Option<Box<Pool>>,
}

/// What a reader found in the index, and the batch up to which the index knew.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    pub(crate) holds: Vec<(ReservationId, Option<Hold>, u64)>,
    pub(crate) keys: Vec<(KeyHash, Option<KeyRecord>, u64)>,
}

impl Memory {
    /// Takes the state over from the index at a start.
    pub(crate) fn begin(&mut self, indexed: u64, keyed: u64, filters: Vec<Arc<Filter>>) {
        self.closed_from = indexed;
        self.keys_from = keyed;
        self.filters = filters;
    }

    pub(crate) fn put_item(&mut self, item: Item) {
        match self.items.get_mut(&item.key) {
            Some(slot) => slot.item = item,
            None => {
                let slot = Slot { item, deadlines: Deadlines::default(), pool: None };
                self.items.insert(slot.item.key.clone(), slot);
            }
        }
    }

    /// Takes units of an item in that it does not have.
    pub(crate) fn put_units(&mut self, item: &ItemKey, units: Vec<Unit>) {
        if let Some(slot) = self.items.get_mut(item) {
            slot.pool.get_or_insert_default().add(units);
        }
    }

    /// Has the lines of a hold that was read share their items' keys, as those of a hold that was decided do.
    pub(crate) fn share_keys(&self, hold: &mut Hold) {
        for line in Arc::get_mut(&mut hold.lines).into_iter().flatten() {
            if let Some((key, _)) = self.items.get_key_value(&line.item) {
                line.item = key.clone();
            }
        }
    }

    /// Takes the active holds of a start, each once: all deadlines together cost a fraction of one by one.
    pub(crate) fn fill(&mut self, holds: Vec<Hold>) {
        let mut deadlines = Many::default();
        for hold in &holds {
            deadlines.add(hold);
        }
        self.active.fill(holds);
        for (key, all) in deadlines.into_items() {
            if let Some(slot) = self.items.get_mut(&key) {
                self.earliest.begin(&key, &mut slot.deadlines, all);
            }
        }
    }

    pub(crate) fn put_active(&mut self, hold: Hold) {
        self.put_deadline(&hold);
        self.active.insert(hold);
    }

    /// What is paused as a whole.
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

    /// Says which batch the coming changes belong to.
    pub(crate) fn enter_batch(&mut self, number: u64) {
        self.batch = number;
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.values().map(|slot| &slot.item)
    }

    /// Closed holds and keys that wait for the index.
    pub(crate) fn tail_len(&self) -> usize {
        self.closed.len() + self.keys.len()
    }

    pub(crate) fn active_len(&self) -> usize {
        self.active.len()
    }

    /// A hold that is known without a read, or `None`.
    pub(crate) fn known_hold(&self, id: ReservationId) -> Option<&Hold> {
        self.active.get(id).or_else(|| self.closed.get(&id).map(|(hold, _)| hold))
    }

    /// The batch that the index leads up to.
    pub(crate) fn indexed(&self) -> u64 {
        self.closed_from
    }

    /// The index has every closed hold up to this batch.
    pub(crate) fn forget_closed(&mut self, indexed: u64) {
        self.closed_from = self.closed_from.max(indexed);
        while let Some((batch, id)) = self.closed_order.front().copied() {
            if batch > indexed {
                break;
            }
            self.closed_order.pop_front();
            // A hold that changed again since has a later entry of its own.
            let over = |(_, changed): &(Hold, u64)| *changed <= indexed;
            if self.closed.get(&id).is_some_and(over) || bug!("a-hold-that-changed-since-is-forgotten") {
                self.closed.remove(&id);
            }
        }
    }

    /// The index has every key up to this batch, and this is what rules keys out from now on. Answers with what is not
    /// needed any more, to be dropped where nobody waits.
    pub(crate) fn forget_keys(&mut self, keyed: u64, filters: Vec<Arc<Filter>>) -> Forgotten {
        self.keys_from = self.keys_from.max(keyed);
        self.filters = filters;
        self.keys.forget(|newest| newest <= keyed || bug!("keys-are-forgotten-before-they-are-indexed"))
    }

    fn put_deadline(&mut self, hold: &Hold) {
        for line in &*hold.lines {
            if let Some(slot) = self.items.get_mut(&line.item) {
                self.earliest.put(hold, &line.item, &mut slot.deadlines);
            }
        }
    }

    fn drop_deadline(&mut self, hold: &Hold) {
        for line in &*hold.lines {
            if let Some(slot) = self.items.get_mut(&line.item)
                && !bug!("an-item-keeps-the-deadlines-of-ended-holds")
            {
                self.earliest.drop(hold, &line.item, &mut slot.deadlines);
            }
        }
    }

    fn apply_hold(&mut self, hold: &Hold, is_new: bool) {
        if !is_new && let Some(before) = self.active.remove(hold.id) {
            self.drop_deadline(&before);
        }
        if hold.status == Status::Active {
            self.put_active(hold.clone());
        } else {
            self.closed.insert(hold.id, (hold.clone(), self.batch));
            self.closed_order.push_back((self.batch, hold.id));
        }
    }
}

impl State for Memory {
    fn item(&self, key: &ItemKey) -> Lookup<'_, Item> {
        Ok(self.items.get(key).map(|slot| &slot.item))
    }

    fn hold(&self, id: ReservationId) -> Lookup<'_, Hold> {
        if let Some(hold) = self.known_hold(id) {
            return Ok(Some(hold));
        }
        let brought = self.brought.holds.iter().rev().find(|(found, ..)| *found == id);
        match brought {
            Some((_, hold, as_of))
                if *as_of >= self.closed_from || bug!("an-old-read-of-a-hold-is-believed") =>
            {
                Ok(hold.as_ref())
            }
            _ => Err(NotLoaded(Resource::Hold(id))),
        }
    }

    fn key(&self, hash: KeyHash) -> Lookup<'_, KeyRecord> {
        let sought = Sought::from(hash);
        if let Some(record) = self.keys.get(&sought) {
            return Ok(Some(record));
        }
        // Each is asked, whatever another said: several are fetched at a time then.
        if !self.filters.iter().fold(false, |may, filter| may | filter.may_have(&sought)) {
            return Ok(None);
        }
        let brought = self.brought.keys.iter().rev().find(|(found, ..)| *found == hash);
        match brought {
            Some((_, record, as_of))
                if *as_of >= self.keys_from || bug!("an-old-read-of-a-key-is-believed") =>
            {
                Ok(record.as_ref())
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

    fn pool(&self, item: &ItemKey) -> Lookup<'_, Pool> {
        Ok(self.items.get(item).and_then(|slot| slot.pool.as_deref()))
    }

    fn apply(&mut self, event: &Event) {
        match &event.transition {
            Transition::Hold { change, hold, figures } => {
                for (number, (line, figures)) in hold.lines.iter().zip(figures).enumerate() {
                    if let Some(slot) = self.items.get_mut(&line.item) {
                        slot.item.figures = *figures;
                        if let (Some(_), Some(pool)) = (&line.units, &mut slot.pool) {
                            pool.apply(change, hold, line, number);
                        }
                    }
                }
                self.apply_hold(hold, *change == HoldChange::Created);
            }
            Transition::Stock { change, item } => {
                self.put_item(item.clone());
                match change {
                    StockChange::UnitsAdded(units) => self.put_units(&item.key, units.to_vec()),
                    StockChange::UnitRetired(unit) => {
                        let slot = self.items.get_mut(&item.key);
                        if let Some(pool) = slot.and_then(|slot| slot.pool.as_deref_mut()) {
                            pool.retire(unit);
                        }
                    }
                    StockChange::Set | StockChange::Adjusted { .. } => {}
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
        }
    }

    fn remember(&mut self, key: &KeyRecord) {
        self.keys.insert(self.batch, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::{Effects, Envelope, HoldLimits, Outcome, Reply, decide};
    use stockhold_store::conformance::maker::{confirm, reserve, return_all, set_stock};
    use stockhold_store::conformance::{Maker, START};

    /// Decides in a batch; answers with the reservation that it was about.
    fn run(memory: &mut Memory, batch: u64, envelope: &Envelope) -> Option<ReservationId> {
        memory.enter_batch(batch);
        let mut effects = Effects::default();
        match decide(memory, &HoldLimits::default(), envelope, START, &mut effects).unwrap() {
            Outcome::Done(Reply::Reservation(hold)) => Some(hold.id),
            Outcome::Done(_) => None,
            other => panic!("{other:?}"),
        }
    }

    /// A reservation of a shirt that was confirmed in batch 2, made under a key in batch 1.
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
        memory.forget_closed(2);
        assert_eq!(memory.hold(id).unwrap().unwrap().lines[0].returned, 1);
        memory.forget_closed(3);
        assert_eq!(memory.hold(id), Err(NotLoaded(Resource::Hold(id))));

        assert!(memory.forget_keys(0, Vec::new()).maps.is_empty());
        assert!(memory.key(hash).unwrap().is_some());
        assert_eq!(memory.forget_keys(1, Vec::new()).maps.len(), 1);
        assert_eq!(memory.key(hash), Ok(None), "no filter has it");
    }

    #[test]
    fn a_read_that_was_made_before_the_index_went_on_is_not_believed() {
        let (mut memory, mut maker) = (Memory::default(), Maker::new(1, ""));
        let (id, hash) = sold(&mut memory, &mut maker);
        memory.forget_closed(2);
        memory.forget_keys(2, vec![Arc::new(Filter::of([hash].into_iter()))]);
        memory.brought.holds.push((id, None, 1));
        memory.brought.keys.push((hash, None, 1));
        assert_eq!(memory.hold(id), Err(NotLoaded(Resource::Hold(id))));
        assert_eq!(memory.key(hash), Err(NotLoaded(Resource::Key(hash))));
        memory.brought.holds.push((id, None, 2));
        memory.brought.keys.push((hash, None, 2));
        assert_eq!((memory.hold(id), memory.key(hash)), (Ok(None), Ok(None)));
    }
}
