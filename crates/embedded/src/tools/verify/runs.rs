//! Verifies the used keys and the postings of the index. The keys of both sides are compared by a sum, which needs no
//! memory. Postings are compared by [`PostingRecount`].

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

/// The number of some keys, and the sum of their hashes. It does not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySum {
    keys: u64,
    sum: u128,
}

impl KeySum {
    /// The sum of the keys of all runs, without the keys that may be dropped. Every page is read.
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

/// The keys and postings of the log, up to the batch up to which the index has them.
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

    /// Adds a batch.
    pub(crate) fn add_batch(&mut self, batch: &Batch, index: &Connection) -> Result<(), IndexError> {
        if batch.number > self.state.keyed {
            return Ok(());
        }
        for record in &batch.keys {
            self.logged.put(record, self.state.dropped_before);
        }
        self.postings.add_batch(batch, index)
    }

    /// The findings.
    pub(crate) fn end(self, index: &Connection) -> Result<Vec<String>, IndexError> {
        let (logged, indexed) = (self.logged.keys, self.indexed.keys);
        let keys = (self.logged != self.indexed).then(|| {
            format!("index: it has {indexed} idempotency keys where the log has {logged}, or others")
        });
        let missing = self.postings.end(index)?;
        let postings = (missing > 0).then(|| {
            format!("index: {missing} postings of owners, customers, creators, SKUs, locations, orders, reservations or units are missing")
        });
        Ok(keys.into_iter().chain(postings).collect())
    }
}
