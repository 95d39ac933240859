//! Active holds by id, and when they fall due: most of what a server has in memory, so their bytes are counted.
//!
//! What must never happen: that an item's earliest deadline is missing among those of all items.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use stockhold_domain::{Hold, Instant, ItemKey, ReservationId};

/// Tables that active holds are spread over: one that grows moves its entries while everybody waits.
const SHARDS: usize = 64;

/// Active holds by id.
#[derive(Debug)]
pub(crate) struct Active {
    shards: [HashTable<Entry>; SHARDS],
    hasher: RandomState,
}

/// A hold, and the bits of its id that it is found by: a table that is searched or grows fetches no holds.
#[derive(Debug)]
struct Entry {
    bits: u64,
    hold: Box<Hold>,
}

impl Default for Active {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| HashTable::new()), hasher: RandomState::default() }
    }
}

impl Active {
    pub(crate) fn get(&self, id: ReservationId) -> Option<&Hold> {
        let (_, bits) = halves(id);
        let shard = self.shards.get(shard(id))?;
        let found = shard.find(self.hasher.hash_one(bits), |entry| entry.is(bits, id))?;
        Some(&found.hold)
    }

    /// Puts holds in of which none is there and no two are the same.
    pub(crate) fn fill(&mut self, holds: Vec<Hold>) {
        let each = holds.len() / SHARDS;
        let room = each + each / 8;
        let mut dealt: [Vec<Entry>; SHARDS] = std::array::from_fn(|_| Vec::with_capacity(room));
        for hold in holds {
            let (_, bits) = halves(hold.id);
            let Some(to) = dealt.get_mut(shard(hold.id)) else { continue };
            to.push(Entry { bits, hold: Box::new(hold) });
        }
        // One table after the other: all of them have no room in a processor's cache.
        for (shard, entries) in self.shards.iter_mut().zip(dealt) {
            let hash = |entry: &Entry| self.hasher.hash_one(entry.bits);
            shard.reserve(entries.len(), hash);
            for entry in entries {
                shard.insert_unique(hash(&entry), entry, hash);
            }
        }
    }

    pub(crate) fn insert(&mut self, hold: Hold) {
        let (id, (_, bits)) = (hold.id, halves(hold.id));
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
        let (_, bits) = halves(id);
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

/// The last bits of an id tell the item's bucket, so others choose.
fn shard(id: ReservationId) -> usize {
    const SKIPPED: u32 = 16;
    usize::try_from((id.as_u128() >> SKIPPED) % SHARDS as u128).unwrap_or(0)
}

/// The half of an id that tells the time, and the half that is random.
fn halves(id: ReservationId) -> (u64, u64) {
    let [high, low] = [64, 0].map(|skipped| (id.as_u128() >> skipped) & u128::from(u64::MAX));
    (u64::try_from(high).unwrap_or(0), u64::try_from(low).unwrap_or(0))
}

/// When a hold falls due. An id as one number would have to be aligned, and take eight bytes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Instant,
    id: (u64, u64),
}

impl Due {
    fn of(hold: &Hold) -> Self {
        Self { at: hold.expires_at, id: halves(hold.id) }
    }

    fn told(self) -> (Instant, ReservationId) {
        let (high, low) = self.id;
        (self.at, ReservationId::from_u128((u128::from(high) << 64) | u128::from(low)))
    }
}

/// When the active holds of an item fall due.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(BTreeSet<Due>);

impl Deadlines {
    pub(crate) fn earliest(&self) -> Option<(Instant, ReservationId)> {
        self.0.first().copied().map(Due::told)
    }
}

/// The earliest deadline of each item.
#[derive(Debug, Default)]
pub(crate) struct Earliest(BTreeSet<(Due, ItemKey)>);

impl Earliest {
    /// The earliest of all.
    pub(crate) fn first(&self) -> Option<(Instant, ReservationId)> {
        self.0.first().map(|(due, _)| due.told())
    }

    /// Adds a hold's deadline to those of an item.
    pub(crate) fn put(&mut self, hold: &Hold, key: &ItemKey, deadlines: &mut Deadlines) {
        let (due, first) = (Due::of(hold), deadlines.0.first().copied());
        deadlines.0.insert(due);
        if first.is_none_or(|first| due < first) {
            self.replace(key, first, Some(due));
        }
    }

    /// Takes a hold's deadline from those of an item.
    pub(crate) fn drop(&mut self, hold: &Hold, key: &ItemKey, deadlines: &mut Deadlines) {
        let (due, first) = (Due::of(hold), deadlines.0.first().copied());
        deadlines.0.remove(&due);
        if first == Some(due) {
            self.replace(key, first, deadlines.0.first().copied());
        }
    }

    /// Gives an item deadlines that it has from a start on. The first ones are taken as they are: made together they
    /// stand closer than one put after the other.
    pub(crate) fn begin(&mut self, key: &ItemKey, have: &mut Deadlines, all: Deadlines) {
        let before = have.0.first().copied();
        if have.0.is_empty() {
            have.0 = all.0;
        } else {
            have.0.extend(all.0);
        }
        self.replace(key, before, have.0.first().copied());
    }

    fn replace(&mut self, key: &ItemKey, before: Option<Due>, after: Option<Due>) {
        let entry = |due| (due, key.clone());
        if let Some(before) = before {
            self.0.remove(&entry(before));
        }
        self.0.extend(after.map(entry));
    }
}

/// The deadlines of many holds, to be put at once: together they cost a fraction of one by one. Found by where the text of an
/// item's key stands, since holds of one item share it; an item whose holds don't is there several times.
#[derive(Debug, Default)]
pub(crate) struct Many(HashMap<usize, (ItemKey, Vec<Due>), RandomState>);

impl Many {
    pub(crate) fn add(&mut self, hold: &Hold) {
        for line in &*hold.lines {
            let place = line.item.sku().as_ptr().addr();
            let (_, all) = self.0.entry(place).or_insert_with(|| (line.item.clone(), Vec::new()));
            all.push(Due::of(hold));
        }
    }

    /// What there is of each item.
    pub(crate) fn into_items(self) -> impl Iterator<Item = (ItemKey, Deadlines)> {
        self.0.into_values().map(|(key, all)| (key, Deadlines(all.into_iter().collect())))
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
            returned: 0,
            sequence: 1,
            units: None,
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
            last_event: EventId::from_u128(id),
        }
    }

    fn items() -> [ItemKey; 2] {
        ["shirt", "shoe"].map(|sku| ItemKey::new(&Label::new("hub").unwrap(), &Label::new(sku).unwrap()))
    }

    #[test]
    fn the_earliest_of_all_follows_those_of_the_items() {
        let [shirt, shoe] = items();
        let (mut earliest, mut of_shirt, mut of_shoe) = <(Earliest, Deadlines, Deadlines)>::default();
        let [both, late, early] =
            [hold(1 << 64 | 1, 5, &[&shirt, &shoe]), hold(3, 5, &[&shoe]), hold(2, 4, &[&shirt])];
        let told = |hold: &Hold| Some((hold.expires_at, hold.id));
        earliest.put(&both, &shirt, &mut of_shirt);
        earliest.put(&both, &shoe, &mut of_shoe);
        earliest.put(&late, &shoe, &mut of_shoe);
        assert_eq!((earliest.first(), of_shirt.earliest()), (told(&late), told(&both)), "the id decides");
        earliest.put(&early, &shirt, &mut of_shirt);
        assert_eq!(earliest.first(), told(&early));
        earliest.drop(&early, &shirt, &mut of_shirt);
        earliest.drop(&late, &shoe, &mut of_shoe);
        assert_eq!(earliest.first(), told(&both));
        earliest.drop(&both, &shirt, &mut of_shirt);
        assert_eq!((earliest.first(), of_shirt.earliest()), (told(&both), None));
        earliest.drop(&both, &shoe, &mut of_shoe);
        assert_eq!(earliest.first(), None);
        assert!(earliest.0.is_empty());
    }

    #[test]
    fn many_at_once_are_as_one_by_one() {
        let [shirt, shoe] = items();
        // The same text once more, as of a hold that does not share it.
        let [other_shirt, _] = items();
        let (both, alone) = ([&shirt, &shoe], [&other_shirt]);
        let times = (1..10).rev().zip(1..);
        let holds: Vec<Hold> =
            times.map(|(at, id)| hold(id, at, if at % 2 == 0 { &both } else { &alone })).collect();
        let mut many = Many::default();
        for hold in &holds {
            many.add(hold);
        }
        let mut at_once = Earliest::default();
        let mut one_by_one = (Earliest::default(), Deadlines::default(), Deadlines::default());
        let (mut of_shirt, mut of_shoe) = <(Deadlines, Deadlines)>::default();
        for (key, all) in many.into_items() {
            let have = if key == shirt { &mut of_shirt } else { &mut of_shoe };
            at_once.begin(&key, have, all);
        }
        assert_eq!((of_shirt.0.len(), of_shoe.0.len()), (9, 4));
        for hold in &holds {
            for line in &*hold.lines {
                let of = if line.item == shirt { &mut one_by_one.1 } else { &mut one_by_one.2 };
                one_by_one.0.put(hold, &line.item, of);
            }
        }
        assert_eq!(at_once.0, one_by_one.0.0);
    }

    #[test]
    fn holds_whose_ids_share_bits_are_told_apart() {
        let [shirt, _] = items();
        let mut active = Active::default();
        let ids = [7, 1 << 64 | 7, 1 << 127 | 7];
        for (id, at) in ids.into_iter().zip(1..) {
            active.insert(hold(id, at, &[&shirt]));
        }
        active.insert(hold(ids[1], 9, &[&shirt]));
        let at = |active: &Active, id| {
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
