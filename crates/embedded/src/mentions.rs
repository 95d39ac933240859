//! Which batches of the log mention an owner, a SKU, a location or a reservation: what lists and histories are found by.
//! Kept behind the commit in sorted runs (see [`crate::runs`]); what is not in a run yet stands in memory.
//!
//! A mention may lead to a batch that has nothing of what is looked for, never past one that has.

use crate::batch::Batch;
use crate::index::{Damage, Pace};
use crate::runs::{self, Kind, Run};
use foldhash::fast::RandomState;
use rusqlite::Connection;
use std::collections::HashMap;
use stockhold_domain::{HoldChange, ItemKey, ReservationId, Transition};
use stockhold_store::codec::DecodeError;
use stockhold_store::digest;

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

/// What can be looked for, as a hash of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term(u64);

impl Term {
    fn of(kind: &str, text: &[u8]) -> Self {
        Self(digest::term(kind, text))
    }

    /// Where an owner's reservations were made.
    pub(crate) fn owner(owner: &str) -> Self {
        Self::of("owner", owner.as_bytes())
    }

    /// Where reservations of a SKU were made, at any location.
    pub(crate) fn sku(sku: &str) -> Self {
        Self::of("sku", sku.as_bytes())
    }

    /// Where reservations at a location were made.
    pub(crate) fn location(location: &str) -> Self {
        Self::of("location", location.as_bytes())
    }

    /// Where something happened to a reservation after it was made.
    pub(crate) fn reservation(id: ReservationId) -> Self {
        Self::of("reservation", &id.as_u128().to_be_bytes())
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

    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
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
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    mentions: Vec<Mention>,
    /// Every batch up to this one is here or in a run.
    pub(crate) reached: u64,
    terms: HashMap<ItemKey, [Term; 2], RandomState>,
}

impl Fresh {
    pub(crate) fn new(reached: u64) -> Self {
        Self { reached, ..Self::default() }
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
            let Transition::Hold { change, hold, .. } = &event.transition else { continue };
            if *change != HoldChange::Created {
                self.put(Term::reservation(hold.id), number);
                continue;
            }
            self.put(Term::owner(hold.terms.owner_id.as_str()), number);
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

    fn put(&mut self, term: Term, batch: u64) {
        self.mentions.push(Mention { term, first: batch, last: batch });
    }

    fn terms_of(&mut self, item: &ItemKey) -> [Term; 2] {
        if let Some(terms) = self.terms.get(item) {
            return *terms;
        }
        let terms = [Term::sku(item.sku()), Term::location(item.location())];
        if self.terms.len() >= KNOWN_ITEMS {
            self.terms.clear();
        }
        self.terms.insert(item.clone(), terms);
        terms
    }

    /// Writes the first `count` as a run; they stay until [`Self::written`].
    pub(crate) fn sorted(&self) -> Vec<Mention> {
        let mut mentions = self.mentions.clone();
        mentions.sort_unstable();
        mentions.dedup_by(|next, before| {
            before.join(*next).is_some_and(|joined| {
                *before = joined;
                true
            })
        });
        mentions
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
    runs::look_up::<Mentions>(db, u128::from(term.0) << 64, |_, bytes| {
        let mention = Mention::read(bytes)?;
        if mention.term == term {
            found.push((mention.first, mention.last));
        }
        Ok(true)
    })
}
