//! Postings: which batches of the log mention an owner, a customer, a creator, a SKU, a location, an order, a reservation or a unit. Lists and
//! histories are found by them. They are stored in sorted runs, and postings that no run has yet are in memory.
//!
//! A posting may name a batch that does not mention the term. It never misses a batch that does.

mod recount;

use crate::error::IndexError;
use crate::index::runs::{self, Run, RunKind};
use crate::index::throttle::WriteThrottle;
use crate::log::batch::Batch;
use foldhash::fast::RandomState;
use rusqlite::Connection;
use siphasher::sip::SipHasher13;
use std::collections::HashMap;
use std::hash::Hasher;
use stockhold_domain::{Hold, HoldChange, ItemKey, Label, ReservationId, Transition};
use stockhold_store::codec::DecodeError;
use stockhold_store::for_each_unit;

pub(crate) use recount::PostingRecount;

/// The largest gap between two batches of a term that are joined to one posting. Reading the batches of the gap costs
/// less than another posting.
const JOIN_GAP: u64 = 16;
/// The number of items whose terms are cached.
const CACHED_ITEMS: usize = 65_536;
/// The number of recent items of a batch that are searched for an item that is already mentioned.
const RECENT_ITEMS: usize = 8;
/// The same for the actors that created reservations.
const RECENT_CREATORS: usize = 4;

/// The runs of postings.
pub(crate) struct PostingRuns;

impl RunKind for PostingRuns {
    const NAME: &'static str = "posting";
    /// A page has about 13 KB.
    const PER_PAGE: usize = 512;
    const FILTERED: bool = false;

    fn join(last: &mut [u8], next: &[u8]) -> bool {
        let (Ok(before), Ok(after)) = (Posting::read(last), Posting::read(next)) else { return false };
        let Some(joined) = before.join(after) else { return false };
        last.copy_from_slice(&joined.bytes());
        true
    }
}

/// A hash of a searchable name. Two names may have the same hash, so every batch that is found has to be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term(u64);

/// Hashes names to terms with `SipHash` and the key of the index, so that no caller can choose names with equal hashes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TermHasher(SipHasher13);

impl TermHasher {
    /// A hasher with the key of the index.
    pub(crate) fn new(key: u128) -> Self {
        Self(SipHasher13::new_with_key(&key.to_le_bytes()))
    }

    fn of(self, kind: u8, text: &[u8]) -> Term {
        let mut hasher = self.0;
        hasher.write_u8(kind);
        hasher.write(text);
        Term(hasher.finish())
    }

    /// Finds where reservations of an owner were created.
    pub(crate) fn owner(self, owner: &str) -> Term {
        self.of(b'o', owner.as_bytes())
    }

    /// Finds where reservations for a customer were created.
    pub(crate) fn customer(self, customer: &str) -> Term {
        self.of(b'm', customer.as_bytes())
    }

    /// Finds where an actor created reservations, except those that were made of others.
    pub(crate) fn creator(self, actor: &str) -> Term {
        self.of(b'a', actor.as_bytes())
    }

    /// Finds where reservations were made of others. They belong to the creators of those.
    pub(crate) fn derived(self) -> Term {
        self.of(b'd', b"")
    }

    /// Finds where reservations of a SKU were created, at any location.
    pub(crate) fn sku(self, sku: &str) -> Term {
        self.of(b's', sku.as_bytes())
    }

    /// Finds where reservations at a location were created.
    pub(crate) fn location(self, location: &str) -> Term {
        self.of(b'l', location.as_bytes())
    }

    /// Finds when reservations were created to which the owner, customer, SKU or location of `term` came later, by a transfer, a
    /// payment, an amend or a merge. Its postings have instants in place of batches, because a list goes by the creation of its reservations.
    pub(crate) fn later(self, term: Term) -> Term {
        self.of(b'e', &term.0.to_be_bytes())
    }

    /// Finds where reservations were confirmed for an order.
    pub(crate) fn order(self, order: &str) -> Term {
        self.of(b'c', order.as_bytes())
    }

    /// Finds the events of a reservation after its creation.
    pub(crate) fn reservation(self, id: ReservationId) -> Term {
        self.of(b'r', &id.as_u128().to_be_bytes())
    }

    /// Finds the events of a unit.
    pub(crate) fn unit(self, item: &ItemKey, unit: &Label) -> Term {
        let mut hasher = self.0;
        hasher.write_u8(b'u');
        for name in [item.location(), item.sku(), unit.as_str()] {
            hasher.write(name.as_bytes());
            // A separator that no name contains.
            hasher.write_u8(0xff);
        }
        Term(hasher.finish())
    }
}

/// A range of batches that mention a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Posting {
    term: Term,
    first: u64,
    last: u64,
}

const BYTES: usize = 24;

impl Posting {
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
        let wrong = DecodeError { what: "posting", left: bytes.len() };
        let ([term, first, last], []) = bytes.as_chunks::<8>() else { return Err(wrong) };
        let [term, first, last] = [term, first, last].map(|number| u64::from_be_bytes(*number));
        Ok(Self { term: Term(term), first, last })
    }

    /// One posting for both, if `next` follows this one closely.
    fn join(self, next: Self) -> Option<Self> {
        let near = next.first <= self.last.saturating_add(JOIN_GAP);
        (self.term == next.term && near).then(|| Self { last: self.last.max(next.last), ..self })
    }
}

/// The postings that no run has yet.
#[derive(Debug)]
pub(crate) struct UnflushedPostings {
    pub(crate) terms: TermHasher,
    postings: Vec<Posting>,
    /// Every batch up to this one is here or in a run.
    pub(crate) reached: u64,
    item_term_cache: HashMap<ItemKey, [Term; 2], RandomState>,
}

impl UnflushedPostings {
    pub(crate) fn new(terms: TermHasher, reached: u64) -> Self {
        Self { terms, postings: Vec::new(), reached, item_term_cache: HashMap::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.postings.len()
    }

    /// Adds the postings of a batch.
    pub(crate) fn add_batch(&mut self, batch: &Batch) {
        let number = batch.number;
        let mut seen: [Option<&ItemKey>; RECENT_ITEMS] = [None; RECENT_ITEMS];
        let mut next = (0..RECENT_ITEMS).cycle();
        let mut creators: [Option<&Label>; RECENT_CREATORS] = [None; RECENT_CREATORS];
        let mut next_creator = (0..RECENT_CREATORS).cycle();
        for event in &batch.events {
            for_each_unit(&event.transition, |item, unit, _| self.put(self.terms.unit(item, unit), number));
            let Transition::Hold { change, hold, .. } = &event.transition else { continue };
            if change.status_before().is_some() {
                self.put(self.terms.reservation(hold.id), number);
                for term in later_terms(self.terms, change, hold) {
                    self.put(self.terms.later(term), creation_instant(hold));
                }
                if let (HoldChange::Confirmed, Some(order)) = (change, hold.order_id()) {
                    self.put(self.terms.order(order.as_str()), number);
                }
                continue;
            }
            self.put(self.terms.owner(hold.terms.reserve.owner_id.as_str()), number);
            for customer in reserved_for(hold).into_iter().chain(other_payer(hold)) {
                self.put(self.terms.customer(customer.as_str()), number);
            }
            if is_derived(hold) {
                self.put(self.terms.derived(), number);
            } else if !creators.contains(&Some(&event.origin.actor)) {
                if let Some(creator) = next_creator.next().and_then(|at| creators.get_mut(at)) {
                    *creator = Some(&event.origin.actor);
                }
                self.put(self.terms.creator(event.origin.actor.as_str()), number);
            }
            for line in &*hold.lines {
                if seen.contains(&Some(&line.item)) {
                    continue;
                }
                if let Some(seen) = next.next().and_then(|at| seen.get_mut(at)) {
                    *seen = Some(&line.item);
                }
                for term in self.item_terms(&line.item) {
                    self.put(term, number);
                }
            }
        }
        self.reached = number;
    }

    pub(crate) fn put(&mut self, term: Term, batch: u64) {
        self.postings.push(Posting { term, first: batch, last: batch });
    }

    fn item_terms(&mut self, item: &ItemKey) -> [Term; 2] {
        if let Some(terms) = self.item_term_cache.get(item) {
            return *terms;
        }
        let terms = [self.terms.sku(item.sku()), self.terms.location(item.location())];
        if self.item_term_cache.len() >= CACHED_ITEMS {
            self.item_term_cache.clear();
        }
        self.item_term_cache.insert(item.clone(), terms);
        terms
    }

    /// All postings. They stay until [`Self::written`] is called.
    pub(crate) fn all(&self) -> Vec<Posting> {
        self.postings.clone()
    }

    /// Removes the first `count` postings, which a run has now.
    pub(crate) fn written(&mut self, count: usize) {
        self.postings.drain(..count.min(self.postings.len()));
    }

    /// The ranges of batches that mention a term.
    pub(crate) fn of(&self, term: Term) -> Vec<(u64, u64)> {
        let found = self.postings.iter().filter(|posting| posting.term == term);
        found.map(|posting| (posting.first, posting.last)).collect()
    }
}

/// Who a reservation was made for.
fn reserved_for(hold: &Hold) -> Option<&Label> {
    hold.terms.reserve.optional.as_ref()?.customer_id.as_ref()
}

/// Who pays a reservation that was made for somebody else.
fn other_payer(hold: &Hold) -> Option<&Label> {
    hold.order_customer().filter(|payer| reserved_for(hold) != Some(payer))
}

/// Whether a reservation was made of another one, and so belongs to the creator of that one.
pub(crate) fn is_derived(hold: &Hold) -> bool {
    let details = hold.details();
    details.split_from.is_some() || details.replaces.is_some()
}

/// The owner, customers, SKUs and locations that a change of a reservation adds to it.
pub(crate) fn later_terms(terms: TermHasher, change: &HoldChange, hold: &Hold) -> Vec<Term> {
    let mut found = Vec::new();
    if let HoldChange::Transferred { from } = change
        && from.owner_id != hold.terms.reserve.owner_id
    {
        found.push(terms.owner(hold.terms.reserve.owner_id.as_str()));
    }
    // A transfer may bring another customer, and a payment one who pays.
    let is_transfer = matches!(change, HoldChange::Transferred { .. });
    let customers = reserved_for(hold).filter(|_| is_transfer).into_iter().chain(other_payer(hold));
    found.extend(customers.map(|customer| terms.customer(customer.as_str())));
    let lines = hold.lines.iter().zip(change.line_changes().unwrap_or_default());
    for (line, _) in lines.filter(|(_, change)| change.quantity_before == 0) {
        found.extend([terms.sku(line.item.sku()), terms.location(line.item.location())]);
    }
    found
}

/// The instant of a reservation's creation as a number of a posting.
pub(crate) fn creation_instant(hold: &Hold) -> u64 {
    hold.terms.created_at.micros().max(0).cast_unsigned()
}

/// Sorts postings, and joins postings of one term that follow each other.
pub(crate) fn sort_and_join(postings: &mut Vec<Posting>) {
    postings.sort_unstable();
    postings.dedup_by(|next, before| {
        before.join(*next).is_some_and(|joined| {
            *before = joined;
            true
        })
    });
}

/// Writes a run of sorted postings of the batches up to `last`.
pub(crate) fn write_run(
    db: &Connection,
    postings: &[Posting],
    last: u64,
    throttle: WriteThrottle,
) -> rusqlite::Result<Run> {
    runs::write::<PostingRuns, _>(
        db,
        postings,
        last.cast_signed(),
        throttle,
        |posting| posting.hash(),
        |posting, data| {
            data.extend(posting.bytes());
        },
    )
}

/// Adds the ranges of batches that the runs have for a term.
pub(crate) fn find(db: &Connection, term: Term, found: &mut Vec<(u64, u64)>) -> Result<(), IndexError> {
    let read = db.unchecked_transaction()?;
    runs::lookup::<PostingRuns>(&read, u128::from(term.0) << 64, |_, bytes| {
        let posting = Posting::read(bytes)?;
        if posting.term == term {
            found.push((posting.first, posting.last));
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::runs::{load, merge, schema};

    fn terms() -> TermHasher {
        TermHasher::new(7)
    }

    fn fresh_of(postings: impl Iterator<Item = (Term, u64)>) -> UnflushedPostings {
        let mut fresh = UnflushedPostings::new(terms(), 0);
        postings.for_each(|(term, batch)| fresh.put(term, batch));
        fresh
    }

    fn covered(ranges: &[(u64, u64)], batch: u64) -> bool {
        ranges.iter().any(|(first, last)| (first..=last).contains(&&batch))
    }

    #[test]
    fn every_batch_that_mentions_something_is_found_before_and_after_a_merge() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(&schema::<PostingRuns>()).unwrap();
        let owner = |n: u64| terms().owner(&format!("owner-{n}"));
        let hot = terms().sku("hot");
        // A run has a thousand batches. One SKU is in all of them, and each owner in every hundredth.
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
                sorted.iter().filter(|posting| posting.term == hot).count(),
                1,
                "one after the other is one"
            );
            write_run(&db, &sorted, run * 1_000 + 1_000, WriteThrottle::default()).unwrap();
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
        let (runs, mut merging) = (load::<PostingRuns>(&db).unwrap(), None);
        while merge::<PostingRuns>(&db, &runs, &mut merging, 0, WriteThrottle::default()).unwrap().is_none() {
        }
        assert_eq!(load::<PostingRuns>(&db).unwrap().len(), 1);
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
        assert_ne!(terms().owner("a"), terms().order("a"));
        assert_ne!(terms().owner("a"), TermHasher::new(8).owner("a"));
    }
}
