//! Which batches of the log mention an owner, a SKU, a location, a reservation or a unit: what lists and histories are found by.
//! Kept behind the commit in sorted runs (see [`crate::index::runs`]); what is not in a run yet stands in memory.
//!
//! A mention may lead to a batch that has nothing of what is looked for, never past one that has.

mod recount;

use crate::error::Damage;
use crate::index::runs::{self, Kind, Run};
use crate::index::throttle::Pace;
use crate::log::batch::Batch;
use foldhash::fast::RandomState;
use rusqlite::Connection;
use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::hash::Hasher;
use stockhold_domain::{HoldChange, ItemKey, Label, ReservationId, Transition};
use stockhold_store::codec::DecodeError;
use stockhold_store::for_each_unit;

pub(crate) use recount::Recount;

/// Batches between two that mention the same that are taken in: reading them costs less than telling them apart.
const GAP: u64 = 16;
/// Items whose terms are remembered.
const KNOWN_ITEMS: usize = 65_536;
/// Items of a batch that are looked through for one that was mentioned already.
const SEEN_ITEMS: usize = 8;

/// Runs of mentions.
pub(crate) struct Mentions;

impl Kind for Mentions {
    const NAME: &'static str = "mention";
    /// About 13 KB.
    const PER_PAGE: usize = 512;
    const FILTERED: bool = false;

    fn join(last: &mut [u8], next: &[u8]) -> bool {
        let (Ok(before), Ok(after)) = (Mention::read(last), Mention::read(next)) else { return false };
        let Some(joined) = before.join(after) else { return false };
        last.copy_from_slice(&joined.bytes());
        true
    }
}

/// What can be looked for, as a hash of it. Two may meet, so what is found has to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term(u64);

/// Makes terms: `SipHash` under a key of the index's own, so that nobody can choose names that meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms(SipHasher13);

impl Terms {
    /// From the index's key.
    pub(crate) fn new(key: u128) -> Self {
        Self(SipHasher13::new_with_key(&key.to_le_bytes()))
    }

    fn of(self, kind: u8, text: &[u8]) -> Term {
        let mut hasher = self.0;
        hasher.write_u8(kind);
        hasher.write(text);
        Term(hasher.finish())
    }

    /// Where an owner's reservations were made.
    pub(crate) fn owner(self, owner: &str) -> Term {
        self.of(b'o', owner.as_bytes())
    }

    /// Where reservations of a SKU were made, at any location.
    pub(crate) fn sku(self, sku: &str) -> Term {
        self.of(b's', sku.as_bytes())
    }

    /// Where reservations at a location were made.
    pub(crate) fn location(self, location: &str) -> Term {
        self.of(b'l', location.as_bytes())
    }

    /// Where something happened to a reservation after it was made.
    pub(crate) fn reservation(self, id: ReservationId) -> Term {
        self.of(b'r', &id.as_u128().to_be_bytes())
    }

    /// Where a unit of an item came, moved or went.
    pub(crate) fn unit(self, item: &ItemKey, unit: &Label) -> Term {
        let mut hasher = self.0;
        hasher.write_u8(b'u');
        for name in [item.location(), item.sku(), unit.as_str()] {
            hasher.write(name.as_bytes());
            // What no name has in it.
            hasher.write_u8(0xff);
        }
        Term(hasher.finish())
    }
}

/// Some batches in a row that mention a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mention {
    term: Term,
    first: u64,
    last: u64,
}

const BYTES: usize = 24;

impl Mention {
    fn hash(self) -> u128 {
        u128::from(self.term.0) << 64 | u128::from(self.first)
    }

    fn bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let numbers = [self.term.0, self.first, self.last].map(u64::to_be_bytes);
        for (to, from) in bytes.iter_mut().zip(numbers.as_flattened()) {
            *to = *from;
        }
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let wrong = DecodeError { what: "mention", left: bytes.len() };
        let ([term, first, last], []) = bytes.as_chunks::<8>() else { return Err(wrong) };
        let [term, first, last] = [term, first, last].map(|number| u64::from_be_bytes(*number));
        Ok(Self { term: Term(term), first, last })
    }

    /// One that stands for both, where the other follows this one.
    fn join(self, next: Self) -> Option<Self> {
        let near = next.first <= self.last.saturating_add(GAP);
        (self.term == next.term && near).then(|| Self { last: self.last.max(next.last), ..self })
    }
}

/// Mentions that no run has yet.
#[derive(Debug)]
pub(crate) struct UnflushedPostings {
    pub(crate) terms: Terms,
    mentions: Vec<Mention>,
    /// Every batch up to this one is here or in a run.
    pub(crate) reached: u64,
    of_items: HashMap<ItemKey, [Term; 2], RandomState>,
}

impl UnflushedPostings {
    pub(crate) fn new(terms: Terms, reached: u64) -> Self {
        Self { terms, mentions: Vec::new(), reached, of_items: HashMap::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.mentions.len()
    }

    /// Takes a batch in.
    pub(crate) fn take(&mut self, batch: &Batch) {
        let number = batch.number;
        let mut seen: [Option<&ItemKey>; SEEN_ITEMS] = [None; SEEN_ITEMS];
        let mut next = (0..SEEN_ITEMS).cycle();
        for event in &batch.events {
            for_each_unit(&event.transition, |item, unit, _| self.put(self.terms.unit(item, unit), number));
            let Transition::Hold { change, hold, .. } = &event.transition else { continue };
            if *change != HoldChange::Created {
                self.put(self.terms.reservation(hold.id), number);
                continue;
            }
            self.put(self.terms.owner(hold.terms.reserve.owner_id.as_str()), number);
            for line in &*hold.lines {
                if seen.contains(&Some(&line.item)) {
                    continue;
                }
                if let Some(seen) = next.next().and_then(|at| seen.get_mut(at)) {
                    *seen = Some(&line.item);
                }
                for term in self.terms_of(&line.item) {
                    self.put(term, number);
                }
            }
        }
        self.reached = number;
    }

    pub(crate) fn put(&mut self, term: Term, batch: u64) {
        self.mentions.push(Mention { term, first: batch, last: batch });
    }

    fn terms_of(&mut self, item: &ItemKey) -> [Term; 2] {
        if let Some(terms) = self.of_items.get(item) {
            return *terms;
        }
        let terms = [self.terms.sku(item.sku()), self.terms.location(item.location())];
        if self.of_items.len() >= KNOWN_ITEMS {
            self.of_items.clear();
        }
        self.of_items.insert(item.clone(), terms);
        terms
    }

    /// All of them; they stay until [`Self::written`].
    pub(crate) fn all(&self) -> Vec<Mention> {
        self.mentions.clone()
    }

    /// A run has the first `count` of them.
    pub(crate) fn written(&mut self, count: usize) {
        self.mentions.drain(..count.min(self.mentions.len()));
    }

    /// Batches that mention a term, as first and last of some in a row.
    pub(crate) fn of(&self, term: Term) -> Vec<(u64, u64)> {
        let found = self.mentions.iter().filter(|mention| mention.term == term);
        found.map(|mention| (mention.first, mention.last)).collect()
    }
}

/// Sorts mentions, and joins those that follow each other.
pub(crate) fn sort_and_join(mentions: &mut Vec<Mention>) {
    mentions.sort_unstable();
    mentions.dedup_by(|next, before| {
        before.join(*next).is_some_and(|joined| {
            *before = joined;
            true
        })
    });
}

/// Writes a run of mentions that are sorted.
pub(crate) fn write_run(db: &Connection, mentions: &[Mention], pace: Pace) -> rusqlite::Result<Run> {
    runs::write::<Mentions, _>(
        db,
        mentions,
        i64::MAX,
        pace,
        |mention| mention.hash(),
        |mention, data| {
            data.extend(mention.bytes());
        },
    )
}

/// Adds the batches that the runs have for a term.
pub(crate) fn find(db: &Connection, term: Term, found: &mut Vec<(u64, u64)>) -> Result<(), Damage> {
    let read = db.unchecked_transaction()?;
    runs::look_up::<Mentions>(&read, u128::from(term.0) << 64, |_, bytes| {
        let mention = Mention::read(bytes)?;
        if mention.term == term {
            found.push((mention.first, mention.last));
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::runs::{load, merge, schema};

    fn terms() -> Terms {
        Terms::new(7)
    }

    fn fresh_of(mentions: impl Iterator<Item = (Term, u64)>) -> UnflushedPostings {
        let mut fresh = UnflushedPostings::new(terms(), 0);
        mentions.for_each(|(term, batch)| fresh.put(term, batch));
        fresh
    }

    fn covered(ranges: &[(u64, u64)], batch: u64) -> bool {
        ranges.iter().any(|(first, last)| (first..=last).contains(&&batch))
    }

    #[test]
    fn every_batch_that_mentions_something_is_found_before_and_after_a_merge() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&schema::<Mentions>()).unwrap();
        let owner = |n: u64| terms().owner(&format!("owner-{n}"));
        let hot = terms().sku("hot");
        // A thousand batches a run: one SKU in all of them, an owner in every hundredth.
        let of_run = |run: u64| {
            (run * 1_000 + 1..=run * 1_000 + 1_000)
                .flat_map(move |batch| [(owner(batch % 100), batch), (hot, batch)])
        };
        for run in 0..8 {
            let mut sorted = fresh_of(of_run(run)).all();
            sort_and_join(&mut sorted);
            let once = sorted.clone();
            sort_and_join(&mut sorted);
            assert_eq!(sorted, once, "a write that was given up begins with what it left");
            assert_eq!(
                sorted.iter().filter(|mention| mention.term == hot).count(),
                1,
                "one after the other is one"
            );
            write_run(&db, &sorted, Pace::default()).unwrap();
        }
        let look = |term| {
            let mut found = Vec::new();
            find(&db, term, &mut found).unwrap();
            found
        };
        let check = || {
            assert!((1..=8_000).all(|batch| covered(&look(hot), batch)));
            for n in 0..100 {
                let found = look(owner(n));
                assert!((1..=8_000).filter(|batch| batch % 100 == n).all(|batch| covered(&found, batch)));
                assert_eq!(
                    found.iter().map(|(first, last)| last - first + 1).sum::<u64>(),
                    80,
                    "and nothing else"
                );
            }
            assert_eq!(look(terms().owner("nobody")), []);
        };
        check();
        let (runs, mut merging) = (load::<Mentions>(&db).unwrap(), None);
        while merge::<Mentions>(&db, &runs, &mut merging, 0, Pace::default()).unwrap().is_none() {}
        assert_eq!(load::<Mentions>(&db).unwrap().len(), 1);
        check();
        assert_eq!(look(hot), [(1, 8_000)]);
    }

    #[test]
    fn what_is_not_in_a_run_yet_is_found_in_memory() {
        let term = terms().location("hub");
        let mut fresh = fresh_of([(term, 3), (terms().owner("x"), 4), (term, 90)].into_iter());
        assert_eq!(fresh.of(term), [(3, 3), (90, 90)]);
        fresh.written(2);
        assert_eq!(fresh.of(term), [(90, 90)]);
        assert_ne!(terms().owner("a"), terms().sku("a"));
        assert_ne!(terms().owner("a"), Terms::new(8).owner("a"));
    }
}
