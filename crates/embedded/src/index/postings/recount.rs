//! A recount of mentions: every batch of the log is to be found by what it mentions. Mentions are many, so they are held
//! against the runs some millions at a time, sorted, in one pass over every run's pages.

use super::{Mention, Mentions, Terms, UnflushedPostings};
use crate::error::Damage;
use crate::index::runs;
use crate::log::batch::Batch;
use rusqlite::Connection;

/// Mentions that are held against the runs in one go, at 24 bytes each: 100 MB. Few in tests, so that there are several.
const TOGETHER: usize = if cfg!(test) { 100 } else { 4_000_000 };

/// See the module.
#[derive(Debug)]
pub(crate) struct Recount {
    fresh: UnflushedPostings,
    missing: u64,
}

impl Recount {
    pub(crate) fn new(terms: Terms) -> Self {
        Self { fresh: UnflushedPostings::new(terms, 0), missing: 0 }
    }

    /// Takes a batch in that the runs have.
    pub(crate) fn take(&mut self, batch: &Batch, index: &Connection) -> Result<(), Damage> {
        self.fresh.take(batch);
        if self.fresh.len() >= TOGETHER { self.compare(index) } else { Ok(()) }
    }

    /// How many mentions of the batches no run has.
    pub(crate) fn end(mut self, index: &Connection) -> Result<u64, Damage> {
        self.compare(index)?;
        Ok(self.missing)
    }

    /// Runs may be merged meanwhile, and have everything all the time: each pass takes them as they are.
    fn compare(&mut self, index: &Connection) -> Result<(), Damage> {
        let mut mentions = std::mem::take(&mut self.fresh.mentions);
        mentions.sort_unstable();
        mentions.dedup();
        let mut found = vec![false; mentions.len()];
        let snapshot = index.unchecked_transaction()?;
        for run in runs::load::<Mentions>(&snapshot)? {
            let mut begin = 0;
            runs::walk::<Mentions>(&snapshot, &run, |bytes| {
                let said = Mention::read(bytes)?;
                let rest = mentions.get(begin..).unwrap_or_default();
                begin +=
                    rest.iter().take_while(|one| (one.term, one.first) < (said.term, said.first)).count();
                let rest = mentions.iter().zip(&mut found).skip(begin);
                for (_, found) in rest.take_while(|(one, _)| one.term == said.term && one.first <= said.last)
                {
                    *found = true;
                }
                Ok(())
            })?;
        }
        self.missing += found.iter().filter(|found| !**found).count() as u64;
        Ok(())
    }
}
