//! A recount of what requests are looked up by: used keys and mentions. Of keys a sum is taken on both sides, which takes
//! no memory; of mentions see [`Recount`].

use crate::error::Damage;
use crate::index::Position;
use crate::index::keys::Keys;
use crate::index::postings::{Recount, Terms};
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
    pub(crate) fn of_runs(db: &Connection, forgotten: Instant) -> Result<Self, Damage> {
        let mut sum = Self::default();
        for run in runs::load::<Keys>(db)? {
            runs::walk::<Keys>(db, &run, |bytes| {
                let mut reader = Reader::new(bytes);
                let record = codec::key_record(&mut reader)?;
                reader.finish()?;
                sum.put(&record, forgotten);
                Ok(())
            })?;
        }
        Ok(sum)
    }

    fn put(&mut self, record: &KeyRecord, forgotten: Instant) {
        if record.at < forgotten {
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
    position: Position,
    indexed: KeySum,
    logged: KeySum,
    mentions: Recount,
}

impl Lookups {
    pub(crate) fn new(position: Position, indexed: KeySum) -> Self {
        let mentions = Recount::new(Terms::new(position.terms_key));
        Self { position, indexed, logged: KeySum::default(), mentions }
    }

    /// Takes a batch in.
    pub(crate) fn take(&mut self, batch: &Batch, index: &Connection) -> Result<(), Damage> {
        if batch.number > self.position.keyed {
            return Ok(());
        }
        for record in &batch.keys {
            self.logged.put(record, self.position.forgotten);
        }
        self.mentions.take(batch, index)
    }

    /// What the index lacks or has beyond the log.
    pub(crate) fn end(self, index: &Connection) -> Result<Vec<String>, Damage> {
        let (logged, indexed) = (self.logged.keys, self.indexed.keys);
        let keys = (self.logged != self.indexed).then(|| {
            format!("index: it has {indexed} idempotency keys where the log has {logged}, or others")
        });
        let missing = self.mentions.end(index)?;
        let mentions = (missing > 0).then(|| {
            format!("index: {missing} mentions of owners, SKUs, locations, reservations or units are missing")
        });
        Ok(keys.into_iter().chain(mentions).collect())
    }
}
