//! An archive in memory, for tests of what stores archive.

use stockhold_domain::Event;
use stockhold_store::{ArchiveFile, EventArchive, EventRow, Sha256};

/// An archive in memory. The hash of a file is the number of its last position.
#[derive(Clone, Debug, Default)]
pub struct MemoryArchive {
    /// The complete files, in order.
    pub files: Vec<(ArchiveFile, Vec<EventRow>)>,
    pub(super) open: Option<(u64, Option<Sha256>, Vec<EventRow>)>,
}

/// The hash of the file that ends at a position.
pub fn hash_of(last: u64) -> Sha256 {
    let mut hash = [7; 32];
    for (to, from) in hash.iter_mut().zip(last.to_be_bytes()) {
        *to = from;
    }
    hash
}

impl EventArchive for MemoryArchive {
    fn files(&mut self) -> Result<Vec<(u64, u64)>, String> {
        Ok(self.files.iter().map(|(file, _)| (file.first, file.last)).collect())
    }

    fn read(
        &mut self,
        file: (u64, u64),
        each: &mut dyn FnMut(EventRow) -> Result<(), String>,
    ) -> Result<ArchiveFile, String> {
        let (found, rows) =
            self.files.iter().find(|(found, _)| (found.first, found.last) == file).ok_or("no such file")?;
        rows.iter().cloned().try_for_each(each)?;
        Ok(*found)
    }

    fn begin(&mut self, first: u64, previous: Option<Sha256>) -> Result<(), String> {
        self.open = Some((first, previous, Vec::new()));
        Ok(())
    }

    fn add(&mut self, row: &EventRow) -> Result<(), String> {
        self.open.as_mut().ok_or("no file")?.2.push(row.clone());
        Ok(())
    }

    fn finish(&mut self) -> Result<ArchiveFile, String> {
        let (first, previous, rows) = self.open.take().ok_or("no file")?;
        let last = rows.last().ok_or("an empty file")?.position;
        let file = ArchiveFile { first, last, previous, sha256: hash_of(last) };
        self.files.push((file, rows));
        Ok(file)
    }
}

impl MemoryArchive {
    /// All events. Panics unless every position is in one file and the files are a chain.
    pub fn events(&self) -> Vec<Event> {
        let mut previous = None;
        let mut events: Vec<Event> = Vec::new();
        for (file, rows) in &self.files {
            assert_eq!(file.previous, previous, "the chain");
            assert_eq!(file.first, events.len() as u64 + 1, "the first position of the file");
            for row in rows {
                assert_eq!(row.position, events.len() as u64 + 1, "every position once");
                events.push(row.event.clone());
            }
            assert_eq!(file.last, events.len() as u64, "the last position of the file");
            previous = Some(file.sha256);
        }
        events
    }

    /// Changes the event at an index.
    pub fn change(&mut self, index: usize, change: impl FnOnce(&mut Event)) {
        if let Some(row) = self.files.iter_mut().flat_map(|(_, rows)| rows).nth(index) {
            change(&mut row.event);
        }
    }

    /// Gives a file another hash.
    pub fn set_hash(&mut self, file: usize, sha256: Sha256) {
        if let Some((file, _)) = self.files.get_mut(file) {
            file.sha256 = sha256;
        }
    }

    /// Has a file name another one before it.
    pub fn set_previous(&mut self, file: usize, previous: Option<Sha256>) {
        if let Some((file, _)) = self.files.get_mut(file) {
            file.previous = previous;
        }
    }
}
