//! What a store needs from an archive of events: files that have every position once, in order, each with the hash of the file before it.
//! The format of the files is not known here.

use crate::EventRow;
use stockhold_domain::{Event, Record, RecordValue, Transition};

/// The SHA-256 hash of a file of an archive.
pub type Sha256 = [u8; 32];

/// A complete file of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveFile {
    /// The position of its first event.
    pub first: u64,
    /// The position of its last event.
    pub last: u64,
    /// The hash of the file before it; `None` if it is the first file of all.
    pub previous: Option<Sha256>,
    /// Its own hash.
    pub sha256: Sha256,
}

/// The files of an archive. A file has no name before [`EventArchive::finish`] has made its content durable, and it never changes
/// afterwards.
pub trait EventArchive {
    /// The first and the last position of each complete file, in order and without gaps.
    fn files(&mut self) -> Result<Vec<(u64, u64)>, String>;

    /// Reads a file, checks its hash and its count, and calls back for each event in its [`archived_form`].
    fn read(
        &mut self,
        file: (u64, u64),
        each: &mut dyn FnMut(EventRow) -> Result<(), String>,
    ) -> Result<ArchiveFile, String>;

    /// Begins a file with this first position, after a file with this hash. A file that was begun before and not finished is gone.
    fn begin(&mut self, first: u64, previous: Option<Sha256>) -> Result<(), String>;

    /// Adds the next event to the file that was begun.
    fn add(&mut self, row: &EventRow) -> Result<(), String>;

    /// Makes the file durable and gives it its name, durably.
    fn finish(&mut self) -> Result<ArchiveFile, String>;
}

/// An event as an archive has it: without the value of a record, which may be a secret.
pub fn archived_form(event: &Event) -> Event {
    let mut event = event.clone();
    if let Transition::Record { record: Record { value: Some(value), .. }, .. } = &mut event.transition
        && let Ok(empty) = RecordValue::new(&[])
    {
        *value = empty;
    }
    event
}
