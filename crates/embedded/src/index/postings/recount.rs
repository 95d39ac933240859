//! Checks that every batch of the log can be found by its postings. There are many postings, so some millions of them
//! at a time are sorted and compared with all pages of the runs.

use super::{Posting, PostingRuns, TermHasher, UnflushedPostings};
use crate::error::IndexError;
use crate::index::runs;
use crate::log::batch::Batch;
use rusqlite::Connection;

/// The number of postings that are compared together. Each takes 24 bytes, so all of them take 100 MB. Tests use few,
/// so that there are several comparisons.
const CHUNK_POSTINGS: usize = if cfg!(test) { 100 } else { 4_000_000 };

/// The postings that the log requires, compared with those of the index.
#[derive(Debug)]
pub(crate) struct PostingRecount {
    fresh: UnflushedPostings,
    missing: u64,
}

impl PostingRecount {
    pub(crate) fn new(terms: TermHasher) -> Self {
        Self { fresh: UnflushedPostings::new(terms, 0), missing: 0 }
    }

    /// Adds a batch that the runs have.
    pub(crate) fn add_batch(&mut self, batch: &Batch, index: &Connection) -> Result<(), IndexError> {
        self.fresh.add_batch(batch);
        if self.fresh.len() >= CHUNK_POSTINGS { self.compare(index) } else { Ok(()) }
    }

    /// The number of postings of these batches that no run has.
    pub(crate) fn end(mut self, index: &Connection) -> Result<u64, IndexError> {
        self.compare(index)?;
        Ok(self.missing)
    }

    /// Runs may be merged between two passes, but together they always have all postings. Each pass reads the current
    /// runs.
    fn compare(&mut self, index: &Connection) -> Result<(), IndexError> {
        let mut postings = std::mem::take(&mut self.fresh.postings);
        postings.sort_unstable();
        postings.dedup();
        let mut found = vec![false; postings.len()];
        let snapshot = index.unchecked_transaction()?;
        for run in runs::load::<PostingRuns>(&snapshot)? {
            let mut begin = 0;
            runs::for_each_record::<PostingRuns>(&snapshot, &run, |bytes| {
                let said = Posting::read(bytes)?;
                let rest = postings.get(begin..).unwrap_or_default();
                begin +=
                    rest.iter().take_while(|one| (one.term, one.first) < (said.term, said.first)).count();
                let rest = postings.iter().zip(&mut found).skip(begin);
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
