//! A recount of what requests are looked up by: used keys and mentions. Of keys a sum is taken on both sides, which takes
//! no memory; of mentions see [`PostingRecount`].

use crate::error::IndexError;
use crate::index::IndexState;
use crate::index::keys::KeyRuns;
use crate::index::postings::{PostingRecount, TermHasher};
use crate::index::runs;
use crate::log::batch::Batch;
use rusqlite::Connection;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;
use stockhold_domain::{Instant, KeyRecord};
use stockhold_store::codec::{self, Reader};

/// Some keys, whatever their order: how many, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySum {
    keys: u64,
    sum: u128,
}

impl KeySum {
    /// The keys of all runs, each page read, but for those that may be forgotten.
    pub(crate) fn of_runs(db: &Connection, dropped_before: Instant) -> Result<Self, IndexError> {
        let mut sum = Self::default();
        for run in runs::load::<KeyRuns>(db)? {
            runs::for_each_record::<KeyRuns>(db, &run, |bytes| {
                let mut reader = Reader::new(bytes);
                let record = codec::key_record(&mut reader)?;
                reader.finish()?;
                sum.put(&record, dropped_before);
                Ok(())
            })?;
        }
        Ok(sum)
    }

    fn put(&mut self, record: &KeyRecord, dropped_before: Instant) {
        if record.at < dropped_before {
            return;
        }
        let mut bytes = Vec::new();
        codec::put_key_record(&mut bytes, record);
        let mut hasher = SipHasher13::new();
        hasher.write(&bytes);
        self.keys += 1;
        self.sum = self.sum.wrapping_add(hasher.finish128().as_u128());
    }
}

/// What the log has of keys and mentions, up to the batch that the index has them to.
#[derive(Debug)]
pub(crate) struct Lookups {
    state: IndexState,
    indexed: KeySum,
    logged: KeySum,
    postings: PostingRecount,
}

impl Lookups {
    pub(crate) fn new(state: IndexState, indexed: KeySum) -> Self {
        let postings = PostingRecount::new(TermHasher::new(state.term_hash_key));
        Self { state, indexed, logged: KeySum::default(), postings }
    }

    /// Takes a batch in.
    pub(crate) fn add_batch(&mut self, batch: &Batch, index: &Connection) -> Result<(), IndexError> {
        if batch.number > self.state.keyed {
            return Ok(());
        }
        for record in &batch.keys {
            self.logged.put(record, self.state.dropped_before);
        }
        self.postings.add_batch(batch, index)
    }

    /// What the index lacks or has beyond the log.
    pub(crate) fn end(self, index: &Connection) -> Result<Vec<String>, IndexError> {
        let (logged, indexed) = (self.logged.keys, self.indexed.keys);
        let keys = (self.logged != self.indexed).then(|| {
            format!("index: it has {indexed} idempotency keys where the log has {logged}, or others")
        });
        let missing = self.postings.end(index)?;
        let postings = (missing > 0).then(|| {
            format!("index: {missing} postings of owners, SKUs, locations, reservations or units are missing")
        });
        Ok(keys.into_iter().chain(postings).collect())
    }
}
