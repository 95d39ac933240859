//! The active holds by id, and the deadlines of holds. They are most of the memory of a server, so every byte of an
//! entry counts.
//!
//! What must never happen: the earliest deadline of an item is missing from the deadlines of all items.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use stockhold_domain::{Hold, Instant, ItemKey, ReservationId};

/// The number of hash tables for the active holds. A table that grows moves all of its entries while the lock is held,
/// so each table stays small.
const SHARDS: usize = 64;

/// Active holds by id.
#[derive(Debug)]
pub(crate) struct ActiveHolds {
    shards: [HashTable<Entry>; SHARDS],
    hasher: RandomState,
}

/// A hold, and the half of its id that the table hashes. The table can search and grow without reading the holds.
#[derive(Debug)]
struct Entry {
    bits: u64,
    hold: Box<Hold>,
}

impl Default for ActiveHolds {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| HashTable::new()), hasher: RandomState::default() }
    }
}

impl ActiveHolds {
    pub(crate) fn get(&self, id: ReservationId) -> Option<&Hold> {
        let (_, bits) = id_halves(id);
        let shard = self.shards.get(shard(id))?;
        let found = shard.find(self.hasher.hash_one(bits), |entry| entry.is(bits, id))?;
        Some(&found.hold)
    }

    /// Inserts holds. None of their ids is in the tables yet, and no id occurs twice.
    pub(crate) fn insert_all(&mut self, holds: Vec<Hold>) {
        let each = holds.len() / SHARDS;
        let room = each + each / 8;
        let mut dealt: [Vec<Entry>; SHARDS] = std::array::from_fn(|_| Vec::with_capacity(room));
        for hold in holds {
            let (_, bits) = id_halves(hold.id);
            let Some(to) = dealt.get_mut(shard(hold.id)) else { continue };
            to.push(Entry { bits, hold: Box::new(hold) });
        }
        // The tables are filled one after the other, because all of them together do not fit into the cache of a
        // processor.
        for (shard, entries) in self.shards.iter_mut().zip(dealt) {
            let hash = |entry: &Entry| self.hasher.hash_one(entry.bits);
            shard.reserve(entries.len(), hash);
            for entry in entries {
                shard.insert_unique(hash(&entry), entry, hash);
            }
        }
    }

    pub(crate) fn insert(&mut self, hold: Hold) {
        let (id, (_, bits)) = (hold.id, id_halves(hold.id));
        let Some(shard) = self.shards.get_mut(shard(id)) else { return };
        let (hash, hold) = (self.hasher.hash_one(bits), Box::new(hold));
        match shard.find_mut(hash, |entry| entry.is(bits, id)) {
            Some(entry) => entry.hold = hold,
            None => {
                shard.insert_unique(hash, Entry { bits, hold }, |entry| self.hasher.hash_one(entry.bits));
            }
        }
    }

    pub(crate) fn remove(&mut self, id: ReservationId) -> Option<Hold> {
        let (_, bits) = id_halves(id);
        let shard = self.shards.get_mut(shard(id))?;
        let found = shard.find_entry(self.hasher.hash_one(bits), |entry| entry.is(bits, id)).ok()?;
        Some(*found.remove().0.hold)
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(HashTable::len).sum()
    }
}

impl Entry {
    fn is(&self, bits: u64, id: ReservationId) -> bool {
        self.bits == bits && self.hold.id == id
    }
}

/// The lowest bits of an id are the bucket of the item, so other bits choose the table.
fn shard(id: ReservationId) -> usize {
    const SKIPPED: u32 = 16;
    usize::try_from((id.as_u128() >> SKIPPED) % SHARDS as u128).unwrap_or(0)
}

/// The half of an id that holds the time, and the half that is random.
fn id_halves(id: ReservationId) -> (u64, u64) {
    let [high, low] = [64, 0].map(|skipped| (id.as_u128() >> skipped) & u128::from(u64::MAX));
    (u64::try_from(high).unwrap_or(0), u64::try_from(low).unwrap_or(0))
}

/// The deadline of a hold. The id is two numbers because one `u128` would need an alignment that costs eight bytes
/// more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Deadline {
    at: Instant,
    id: (u64, u64),
}

impl Deadline {
    fn of(hold: &Hold) -> Self {
        Self { at: hold.expires_at, id: id_halves(hold.id) }
    }

    fn to_pair(self) -> (Instant, ReservationId) {
        let (high, low) = self.id;
        (self.at, ReservationId::from_u128((u128::from(high) << 64) | u128::from(low)))
    }
}

/// The deadlines of the active holds of one item.
#[derive(Debug, Default)]
pub(crate) struct ItemDeadlines(BTreeSet<Deadline>);

impl ItemDeadlines {
    pub(crate) fn earliest(&self) -> Option<(Instant, ReservationId)> {
        self.0.first().copied().map(Deadline::to_pair)
    }
}

/// The earliest deadline of each item.
#[derive(Debug, Default)]
pub(crate) struct EarliestDeadlines(BTreeSet<(Deadline, ItemKey)>);

impl EarliestDeadlines {
    /// The earliest deadline of all items.
    pub(crate) fn first(&self) -> Option<(Instant, ReservationId)> {
        self.0.first().map(|(due, _)| due.to_pair())
    }

    /// Adds the deadline of a hold to the deadlines of an item.
    pub(crate) fn insert(&mut self, hold: &Hold, key: &ItemKey, deadlines: &mut ItemDeadlines) {
        let (due, first) = (Deadline::of(hold), deadlines.0.first().copied());
        deadlines.0.insert(due);
        if first.is_none_or(|first| due < first) {
            self.replace(key, first, Some(due));
        }
    }

    /// Removes the deadline of a hold from the deadlines of an item.
    pub(crate) fn remove(&mut self, hold: &Hold, key: &ItemKey, deadlines: &mut ItemDeadlines) {
        let (due, first) = (Deadline::of(hold), deadlines.0.first().copied());
        deadlines.0.remove(&due);
        if first == Some(due) {
            self.replace(key, first, deadlines.0.first().copied());
        }
    }

    /// Adds the deadlines that an item has at a start. An empty set is replaced and not extended: a set that is built
    /// at once takes less memory than one that grows entry by entry.
    pub(crate) fn add_all(&mut self, key: &ItemKey, have: &mut ItemDeadlines, all: ItemDeadlines) {
        let before = have.0.first().copied();
        if have.0.is_empty() {
            have.0 = all.0;
        } else {
            have.0.extend(all.0);
        }
        self.replace(key, before, have.0.first().copied());
    }

    fn replace(&mut self, key: &ItemKey, before: Option<Deadline>, after: Option<Deadline>) {
        let entry = |due| (due, key.clone());
        if let Some(before) = before {
            self.0.remove(&entry(before));
        }
        self.0.extend(after.map(entry));
    }
}

/// The deadlines of many holds, grouped by item. Inserting them together costs a fraction of inserting them one by one.
/// The group is found by the address of the text of the item's key, because the holds of one item share that text. An
/// item whose holds do not share it has several groups.
#[derive(Debug, Default)]
pub(crate) struct DeadlinesByItem(HashMap<usize, (ItemKey, Vec<Deadline>), RandomState>);

impl DeadlinesByItem {
    pub(crate) fn add(&mut self, hold: &Hold) {
        for line in &*hold.lines {
            let place = line.item.sku().as_ptr().addr();
            let (_, all) = self.0.entry(place).or_insert_with(|| (line.item.clone(), Vec::new()));
            all.push(Deadline::of(hold));
        }
    }

    /// The deadlines of each item.
    pub(crate) fn into_items(self) -> impl Iterator<Item = (ItemKey, ItemDeadlines)> {
        self.0.into_values().map(|(key, all)| (key, ItemDeadlines(all.into_iter().collect())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use stockhold_domain::{EventId, HoldTerms, Label, Line, ReserveTerms, Status};

    fn hold(id: u128, at: i64, items: &[&ItemKey]) -> Hold {
        let line = |item: &&ItemKey| Line {
            item: (*item).clone(),
            requested: 1,
            quantity: 1,
            fulfilled: 0,
            returned: 0,
            sequence: 1,
            units: None,
            details: None,
        };
        let (at, owner_id) = (Instant::from_micros(at), Label::new("owner").unwrap());
        Hold {
            id: ReservationId::from_u128(id),
            status: Status::Active,
            expires_at: at,
            terms: Arc::new(HoldTerms {
                reserve: ReserveTerms { owner_id, optional: None },
                created_at: at,
                max_expires_at: at,
            }),
            lines: items.iter().map(line).collect(),
            closing: None,
            details: None,
            version: 1,
            last_event: EventId::from_u128(id),
        }
    }

    fn items() -> [ItemKey; 2] {
        ["shirt", "shoe"].map(|sku| ItemKey::new(&Label::new("hub").unwrap(), &Label::new(sku).unwrap()))
    }

    #[test]
    fn the_earliest_of_all_follows_those_of_the_items() {
        let [shirt, shoe] = items();
        let (mut earliest, mut of_shirt, mut of_shoe) =
            <(EarliestDeadlines, ItemDeadlines, ItemDeadlines)>::default();
        let [both, late, early] =
            [hold(1 << 64 | 1, 5, &[&shirt, &shoe]), hold(3, 5, &[&shoe]), hold(2, 4, &[&shirt])];
        let to_pair = |hold: &Hold| Some((hold.expires_at, hold.id));
        earliest.insert(&both, &shirt, &mut of_shirt);
        earliest.insert(&both, &shoe, &mut of_shoe);
        earliest.insert(&late, &shoe, &mut of_shoe);
        assert_eq!(
            (earliest.first(), of_shirt.earliest()),
            (to_pair(&late), to_pair(&both)),
            "the id decides"
        );
        earliest.insert(&early, &shirt, &mut of_shirt);
        assert_eq!(earliest.first(), to_pair(&early));
        earliest.remove(&early, &shirt, &mut of_shirt);
        earliest.remove(&late, &shoe, &mut of_shoe);
        assert_eq!(earliest.first(), to_pair(&both));
        earliest.remove(&both, &shirt, &mut of_shirt);
        assert_eq!((earliest.first(), of_shirt.earliest()), (to_pair(&both), None));
        earliest.remove(&both, &shoe, &mut of_shoe);
        assert_eq!(earliest.first(), None);
        assert!(earliest.0.is_empty());
    }

    #[test]
    fn many_at_once_are_as_one_by_one() {
        let [shirt, shoe] = items();
        // The same key with a text of its own, like the key of a hold that does not share it.
        let [other_shirt, _] = items();
        let (both, alone) = ([&shirt, &shoe], [&other_shirt]);
        let times = (1..10).rev().zip(1..);
        let holds: Vec<Hold> =
            times.map(|(at, id)| hold(id, at, if at % 2 == 0 { &both } else { &alone })).collect();
        let mut many = DeadlinesByItem::default();
        for hold in &holds {
            many.add(hold);
        }
        let mut at_once = EarliestDeadlines::default();
        let mut one_by_one =
            (EarliestDeadlines::default(), ItemDeadlines::default(), ItemDeadlines::default());
        let (mut of_shirt, mut of_shoe) = <(ItemDeadlines, ItemDeadlines)>::default();
        for (key, all) in many.into_items() {
            let have = if key == shirt { &mut of_shirt } else { &mut of_shoe };
            at_once.add_all(&key, have, all);
        }
        assert_eq!((of_shirt.0.len(), of_shoe.0.len()), (9, 4));
        for hold in &holds {
            for line in &*hold.lines {
                let of = if line.item == shirt { &mut one_by_one.1 } else { &mut one_by_one.2 };
                one_by_one.0.insert(hold, &line.item, of);
            }
        }
        assert_eq!(at_once.0, one_by_one.0.0);
    }

    #[test]
    fn holds_whose_ids_share_bits_are_told_apart() {
        let [shirt, _] = items();
        let mut active = ActiveHolds::default();
        let ids = [7, 1 << 64 | 7, 1 << 127 | 7];
        for (id, at) in ids.into_iter().zip(1..) {
            active.insert(hold(id, at, &[&shirt]));
        }
        active.insert(hold(ids[1], 9, &[&shirt]));
        let at = |active: &ActiveHolds, id| {
            active.get(ReservationId::from_u128(id)).map(|hold| hold.expires_at.micros())
        };
        assert_eq!(ids.map(|id| at(&active, id)), [Some(1), Some(9), Some(3)]);
        assert_eq!(
            active.remove(ReservationId::from_u128(ids[1])).map(|hold| hold.id.as_u128()),
            Some(ids[1])
        );
        assert_eq!(ids.map(|id| at(&active, id)), [Some(1), None, Some(3)]);
        assert_eq!(active.len(), 2);
    }
}
