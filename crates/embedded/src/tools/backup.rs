//! Backs up the log while a server may be writing it. Batches are copied as rows, page by page, and each is checked
//! against its checksum and the batch before it. No read transaction stays open between two pages, so that the
//! checkpoints of the server continue. A backup that was interrupted, or made earlier, is continued.
//!
//! The rows of customers are copied as a whole each time, after the batches: what was erased since the last backup is not in the copy
//! any more.
//!
//! If events were archived, the copy begins with a copy of the base, which has the state after them.
//!
//! It never changes its source, never copies the index (a start rebuilds it), and never appends after a batch that
//! differs from the source.

use crate::customers;
use crate::error::OpenError;
use crate::files;
use crate::log::sync_marker::{SyncMarker, SyncedBatch};
use crate::log::{self, Log, LogHead, open_reader};
use crate::start::data_dir::check_wal_unless_in_use;
use crate::start::data_dir::{check_wal, checked_end, create_dir, lock, read_sync_marker, sync_dir};
use crate::start::incomplete_copy;
use rusqlite::Connection;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;
use stockhold_domain::Instant;
use stockhold_store::own_files;

/// The bytes of batches that are copied together. A single batch may be larger.
const PAGE_BYTES: usize = 8 << 20;
/// The bytes between two checkpoints of the copy. They bound the length of its write-ahead log.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// The result of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// The number of batches that this backup copied.
    pub batches: u64,
    /// The bytes of these batches.
    pub bytes: u64,
    /// The last batch that the copy had before; 0 for a new copy.
    pub begun_at: u64,
    /// The last batch of the copy.
    pub batch: u64,
    /// The position of the last event of the copy.
    pub position: u64,
    /// The time of the newest decision of the copy; `None` if it is empty.
    pub at: Option<Instant>,
}

/// Copies the batches that `to` lacks from the log in `from`, up to the batch that is the last one at the beginning.
/// The copy then has everything that was answered before. Creates `to` if it does not exist, and returns after the
/// sync. `progress` gets the number of batches that are copied and the number of all batches. Until the backup has
/// succeeded, `to` is marked as incomplete and can be neither served nor verified.
pub fn backup(from: &Path, to: &Path, progress: impl FnMut(u64, u64)) -> Result<BackupSummary, OpenError> {
    backup_by(PAGE_BYTES, from, to, progress)
}

pub(crate) fn backup_by(
    page_bytes: usize,
    from: &Path,
    to: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<BackupSummary, OpenError> {
    let base_file = from.join(files::BASE);
    let mut start = log::start::read(&base_file)?;
    loop {
        let copied = copy_batches(page_bytes, from, to, &mut progress);
        // The server may have archived what was to be copied next. The next try continues after what is copied.
        let now = if copied.is_err() { log::start::read(&base_file)? } else { start };
        if now == start {
            return copied;
        }
        start = now;
    }
}

fn copy_batches(
    page_bytes: usize,
    from: &Path,
    to: &Path,
    progress: &mut impl FnMut(u64, u64),
) -> Result<BackupSummary, OpenError> {
    let from_file = from.join(files::LOG);
    if !from_file.exists() {
        return Err(refused(&from_file, "there is no stockhold data here"));
    }
    incomplete_copy::refuse(from)?;
    check_wal_unless_in_use(from, &from_file)?;
    let mark = read_sync_marker(from)?;
    let source = Log::open_reader(&from_file)?;
    source.check_format()?;
    let end = checked_end(from, &source, mark)?;

    create_dir(to)?;
    if from.canonicalize().ok() == to.canonicalize().ok() {
        return Err(refused(to, "it is the data directory itself; name another one, on another disk"));
    }
    // The lock keeps servers and other backups away from the copy.
    let lock = lock(to)?;
    let to_file = to.join(files::LOG);
    check_wal(&to_file)?;
    if !to_file.exists() {
        incomplete_copy::begin(to)?;
    }
    let mut copy = Log::open(&to_file)?;
    if copy.last()?.is_none() && source.start().head.number > 0 {
        incomplete_copy::begin(to)?;
        copy_base(from, to)?;
        copy = Log::open(&to_file)?;
    }
    let begun = go_on_from(&source, end, &copy, to)?;

    let mut head = begun;
    let (mut bytes, mut unchecked) = (0, 0);
    while head.number < end {
        let rows = source.read_page(head.number, head.sum, end, page_bytes)?;
        let Some(last) = rows.last() else {
            let what = format!("it ended at batch {}, and batch {end} was there before", head.number);
            return Err(OpenError::Damaged { file: from_file, what });
        };
        if head.number == begun.number {
            incomplete_copy::begin(to)?;
        }
        head = LogHead {
            number: last.number,
            sum: last.sum,
            next_position: last.position + last.events,
            at: Instant::from_micros(last.at),
        };
        copy.append_rows(&rows).map_err(|error| OpenError::sqlite(&to_file, "writing", error))?;
        let page: u64 = rows.iter().map(|row| row.data.len() as u64).sum();
        (bytes, unchecked) = (bytes + page, unchecked + page);
        if unchecked >= CHECKPOINT_BYTES {
            unchecked = 0;
            copy.checkpoint_between_batches()
                .map_err(|error| OpenError::sqlite(&to_file, "writing", error))?;
        }
        progress(head.number, end);
    }
    customers::copy(from, to)?;
    finish(&copy, to, head)?;
    drop(lock);
    Ok(BackupSummary {
        batches: head.number - begun.number,
        bytes,
        begun_at: begun.number,
        batch: head.number,
        position: head.next_position - 1,
        at: (head.number > 0).then_some(head.at),
    })
}

/// Copies the base as one transaction shows it.
fn copy_base(from: &Path, to: &Path) -> Result<(), OpenError> {
    let (base_file, copy_file) = (from.join(files::BASE), to.join(files::BASE));
    let new_file = to.join(files::BASE_COPY);
    let failed = |error: std::io::Error| OpenError::io(format!("making {}", copy_file.display()), error);
    match fs::remove_file(&new_file) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let base = open_reader(&base_file)?;
    // SQLite refuses the copy otherwise. It writes nothing to its source.
    base.pragma_update(None, "query_only", false)
        .map_err(|error| OpenError::sqlite(&base_file, "opening", error))?;
    own_files::create_if_missing(&new_file).map_err(failed)?;
    base.execute("VACUUM INTO ?1", [new_file.to_string_lossy()])
        .map_err(|error| OpenError::sqlite(&base_file, "copying", error))?;
    // A copy has no write-ahead log until it is asked for one.
    let copy = Connection::open(&new_file).map_err(|error| OpenError::sqlite(&new_file, "opening", error))?;
    copy.pragma_update(None, "journal_mode", "WAL")
        .map_err(|error| OpenError::sqlite(&new_file, "opening", error))?;
    drop(copy);
    File::open(&new_file).and_then(|file| file.sync_all()).map_err(failed)?;
    fs::rename(&new_file, &copy_file).map_err(failed)?;
    sync_dir(to)
}

/// The end of the copy. It must be an earlier end of the source.
fn go_on_from(source: &Log, end: u64, copy: &Log, to: &Path) -> Result<LogHead, OpenError> {
    let Some((number, sum)) = copy.last()? else { return Ok(LogHead::default()) };
    // Checks the last batch of the copy against its checksum.
    copy.head(number)?;
    let other = "it is the copy of another log, or a server was started on it: name another directory";
    if number > end {
        return Err(refused(
            to,
            format!("it ends at batch {number} and the data directory at batch {end}; {other}"),
        ));
    }
    let archived = source.start().head.number;
    if number < archived {
        return Err(refused(
            to,
            format!(
                "it ends at batch {number}, and the batches up to {archived} were archived since: name another directory"
            ),
        ));
    }
    let head = source.head(number)?;
    if head.sum != sum {
        return Err(refused(to, format!("its batch {number} is not that of the data directory; {other}")));
    }
    Ok(head)
}

/// Moves the whole copy into one file, writes its sync marker, syncs everything, and removes the marker of an
/// incomplete copy at the end.
fn finish(copy: &Log, to: &Path, head: LogHead) -> Result<(), OpenError> {
    let file = to.join(files::LOG);
    copy.checkpoint_and_truncate().map_err(|error| OpenError::sqlite(&file, "writing", error))?;
    if head.number > 0 {
        // A start on a copy of this copy detects a lost end by this marker.
        let path = to.join(files::SYNC_MARKER);
        let failed = |error| OpenError::io(format!("writing {}", path.display()), error);
        let (marker, _) = SyncMarker::open(&path).map_err(failed)?;
        marker.write(SyncedBatch { batch: head.number, sum: head.sum }).map_err(failed)?;
        marker.sync().map_err(failed)?;
    }
    sync_dir(to)?;
    incomplete_copy::end(to)
}

fn refused(path: &Path, why: impl Into<String>) -> OpenError {
    OpenError::io(format!("backing up, {}", path.display()), why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;
    use stockhold_conformance::maker::{reserve, set_stock};
    use stockhold_conformance::{Maker, START};
    use stockhold_store::clock::ManualClock;

    struct Copies {
        bench: Bench,
        maker: Maker,
        dir: tempfile::TempDir,
    }

    impl Copies {
        fn new() -> Self {
            let (mut bench, mut maker) = (Bench::new(), Maker::new(1, ""));
            let shirt = maker.item("shirt");
            bench.run(maker.wrap(set_stock(&shirt, 1_000))).unwrap();
            Self { bench, maker, dir: tempfile::tempdir().unwrap() }
        }

        /// Makes reservations. Each is a batch of its own.
        fn hold(&mut self, count: u64) {
            let shirt = self.maker.item("shirt");
            for _ in 0..count {
                self.bench.run(self.maker.wrap(reserve(&[(&shirt, 1)]))).unwrap();
            }
        }

        fn copy(&self) -> Result<BackupSummary, OpenError> {
            backup(&self.bench.dir(), self.dir.path(), |_, _| ())
        }
    }

    #[test]
    fn a_copy_is_gone_on_with_while_the_store_is_open() {
        let mut copies = Copies::new();
        let empty = Bench::new();
        let nothing = backup(&empty.dir(), &copies.dir.path().join("empty"), |_, _| ()).unwrap();
        assert_eq!((nothing.batch, nothing.position, nothing.at), (0, 0, None));
        copies.hold(20);
        let first = copies.copy().unwrap();
        assert_eq!((first.begun_at, first.batches), (0, first.batch));
        copies.hold(20);
        let second = copies.copy().unwrap();
        assert_eq!((second.begun_at, second.batches), (first.batch, second.batch - first.batch));
        assert!(second.batch > first.batch && second.position > first.position);
        assert_eq!(
            copies.copy().unwrap(),
            BackupSummary { batches: 0, bytes: 0, begun_at: second.batch, ..second }
        );
        let [original, copy] = [copies.bench.dir().as_path(), copies.dir.path()]
            .map(|dir| crate::verify(dir, |_, _| ()).unwrap());
        assert_eq!((copy.drift, copy.events, copy.keys), (0, original.events, original.keys));
        // The whole log is in one file.
        let log = copies.dir.path().join(files::LOG);
        assert_eq!(std::fs::metadata(crate::log::wal::wal_path(&log)).map_or(0, |facts| facts.len()), 0);
    }

    /// The directory as a kill leaves it after this many batches, when each page has one batch.
    fn cut_after(copies: &Copies, batches: u64) -> tempfile::TempDir {
        let image = tempfile::tempdir().unwrap();
        let to = copies.dir.path();
        backup_by(1, &copies.bench.dir(), to, |done, _| {
            if done == batches {
                for entry in std::fs::read_dir(to).unwrap().map(|entry| entry.unwrap()) {
                    std::fs::copy(entry.path(), image.path().join(entry.file_name())).unwrap();
                }
            }
        })
        .unwrap();
        image
    }

    #[test]
    fn a_copy_that_was_cut_is_neither_served_nor_recounted_until_it_is_gone_on_with() {
        let mut copies = Copies::new();
        copies.hold(20);
        let fresh = cut_after(&copies, 10);
        copies.hold(20);
        // A complete earlier backup, and an interrupted backup of what came since.
        let continued = cut_after(&copies, 30);
        for image in [fresh.path(), continued.path()] {
            let clock = Arc::new(ManualClock::new(START));
            let refusals = [
                crate::bench::open(image, &clock).map(|_| ()).unwrap_err(),
                crate::verify(image, |_, _| ()).map(|_| ()).unwrap_err(),
                crate::export_log(image, |_, _, _| true).unwrap_err(),
                backup(image, &image.join("again"), |_, _| ()).map(|_| ()).unwrap_err(),
                crate::inspect(image).unwrap().log.unwrap().map(|_| ()).unwrap_err(),
            ];
            for refusal in refusals {
                assert!(matches!(&refusal, OpenError::IncompleteCopy(dir) if dir == image), "{refusal}");
                assert!(refusal.to_string().contains("stockhold backup --to"), "{refusal}");
            }
            let end = backup(&copies.bench.dir(), image, |_, _| ()).unwrap();
            assert!(end.batches > 0 && end.begun_at > 0, "it was gone on with: {end:?}");
            assert_eq!(crate::verify(image, |_, _| ()).unwrap().batches, end.batch);
            crate::bench::open(image, &clock).unwrap();
        }
    }

    #[test]
    fn a_copy_that_was_cut_is_good_up_to_its_end_where_the_original_is_lost() {
        let mut copies = Copies::new();
        copies.hold(20);
        let image = cut_after(&copies, 10);
        std::fs::remove_file(image.path().join(files::INCOMPLETE_COPY)).unwrap();
        let verdict = crate::verify(image.path(), |_, _| ()).unwrap();
        assert_eq!((verdict.findings, verdict.batches), (Vec::new(), 10));
    }

    #[test]
    fn pages_are_as_long_as_they_may_be_and_follow_each_other() {
        let mut copies = Copies::new();
        copies.hold(20);
        let log = Log::open_reader(&copies.bench.dir().join(files::LOG)).unwrap();
        let end = log.last().unwrap().unwrap().0;
        let (mut number, mut sum) = (0, 0);
        while number < end {
            let page = log.read_page(number, sum, end, 1).unwrap();
            assert_eq!(page.len(), 1, "one at least, and no more once there is a byte");
            (number, sum) = (page[0].number, page[0].sum);
        }
        assert_eq!(log.read_page(0, 0, 3, PAGE_BYTES).unwrap().len(), 3, "not beyond the end");
        assert!(log.read_page(1, 0, end, PAGE_BYTES).is_err(), "not behind another batch");
    }

    #[test]
    fn damage_is_not_copied() {
        let mut copies = Copies::new();
        copies.hold(20);
        let good = copies.copy().unwrap();
        copies.hold(200);
        copies.bench.stop();
        // A batch in the middle of the new batches, which are all in the database.
        let file = copies.bench.dir().join(files::LOG);
        let last = good.batch + 10;
        let log = Log::open_reader(&file).unwrap();
        let row = log.read_page(last - 1, log.head(last - 1).unwrap().sum, last, 1).unwrap().remove(0);
        drop(log);
        let bytes = std::fs::read(&file).unwrap();
        let database = std::fs::File::options().write(true).open(&file).unwrap();
        // All places are changed, because an unused part of a page that was split may have the bytes too.
        for (at, window) in bytes.windows(row.data.len()).enumerate() {
            if window == row.data {
                let middle = at + row.data.len() / 2;
                database.write_all_at(&[bytes[middle] ^ 1], middle as u64).unwrap();
            }
        }
        let error = copies.copy().unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        let copy = crate::verify(copies.dir.path(), |_, _| ()).unwrap();
        assert_eq!((copy.drift, copy.batches), (0, good.batch), "what was copied before is whole");
    }
}
