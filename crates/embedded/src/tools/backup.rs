//! A copy of the log elsewhere, made while a server may be writing it. Batches are taken over as they stand, page by
//! page, each held against its checksum and the one before it; between pages nothing is held, so that the server's
//! checkpoints go on. A copy that was cut, or made yesterday, is gone on with.
//!
//! It never changes what it copies, never copies the index (a start makes it anew), and never writes behind a batch that
//! differs from the original.

use crate::error::OpenError;
use crate::files;
use crate::log::sync_marker::{SyncMarker, SyncedBatch};
use crate::log::{Log, LogHead};
use crate::start::data_dir::check_wal_unless_in_use;
use crate::start::data_dir::{check_wal, checked_end, create_dir, lock, read_sync_marker, sync_dir};
use crate::start::incomplete_copy;
use std::path::Path;
use stockhold_domain::Instant;

/// Bytes of batches that are read and written in one go. A single batch may be larger.
const PAGE_BYTES: usize = 8 << 20;
/// Bytes between two checkpoints of the copy: its write-ahead log gets as long.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// What a backup did, and where the copy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// Batches that were copied this time.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The last batch that was there before; 0 for a fresh copy.
    pub begun_at: u64,
    /// The last batch that is there now.
    pub batch: u64,
    /// Position of the last event that is there now.
    pub position: u64,
    /// The newest instant that is in it; `None` as long as there is nothing.
    pub at: Option<Instant>,
}

/// Copies what `to` lacks of the log in `from`, up to the batch that is the last one when this begins: everything that
/// was answered before is in it. `to` is made when it is not there. Returns after the sync. `progress` is told how many
/// batches are there and how many there will be.
/// Until it has returned well `to` is marked as unfinished, and neither served nor recounted.
pub fn backup(from: &Path, to: &Path, progress: impl FnMut(u64, u64)) -> Result<BackupSummary, OpenError> {
    backup_by(PAGE_BYTES, from, to, progress)
}

fn backup_by(
    page_bytes: usize,
    from: &Path,
    to: &Path,
    mut progress: impl FnMut(u64, u64),
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
    // No server starts on a copy that is being written, and no second backup runs.
    let lock = lock(to)?;
    let to_file = to.join(files::LOG);
    check_wal(&to_file)?;
    if !to_file.exists() {
        incomplete_copy::begin(to)?;
    }
    let mut copy = Log::open(&to_file)?;
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

/// Where the copy stands, which must be where the log stood once.
fn go_on_from(source: &Log, end: u64, copy: &Log, to: &Path) -> Result<LogHead, OpenError> {
    let Some((number, sum)) = copy.last()? else { return Ok(LogHead::default()) };
    // Its own last batch is held against its checksum.
    copy.head(number)?;
    let other = "it is the copy of another log, or a server was started on it: name another directory";
    if number > end {
        return Err(refused(
            to,
            format!("it ends at batch {number} and the data directory at batch {end}; {other}"),
        ));
    }
    let head = source.head(number)?;
    if head.sum != sum {
        return Err(refused(to, format!("its batch {number} is not that of the data directory; {other}")));
    }
    Ok(head)
}

/// Puts all of the copy into one file, marks its end, has everything found after a power cut, and only then calls it whole.
fn finish(copy: &Log, to: &Path, head: LogHead) -> Result<(), OpenError> {
    let file = to.join(files::LOG);
    copy.checkpoint_and_truncate().map_err(|error| OpenError::sqlite(&file, "writing", error))?;
    if head.number > 0 {
        // A start on a copy of this copy that lost its end notices it.
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
    use crate::testing::Bench;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;
    use stockhold_store::clock::ManualClock;
    use stockhold_store::conformance::maker::{reserve, set_stock};
    use stockhold_store::conformance::{Maker, START};

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

        /// Each is a batch of its own.
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
        // All of it is in the one file.
        let log = copies.dir.path().join(files::LOG);
        assert_eq!(std::fs::metadata(crate::log::wal::wal_path(&log)).map_or(0, |facts| facts.len()), 0);
    }

    /// The directory as a kill would leave it after this many batches of a copy by single batches.
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
        // An earlier backup that was whole, and a cut of what came since.
        let continued = cut_after(&copies, 30);
        for image in [fresh.path(), continued.path()] {
            let clock = Arc::new(ManualClock::new(START));
            let refusals = [
                crate::testing::open(image, &clock).map(|_| ()).unwrap_err(),
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
            crate::testing::open(image, &clock).unwrap();
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
        // In the middle of what is new, all of which is in the database by now.
        let file = copies.bench.dir().join(files::LOG);
        let last = good.batch + 10;
        let log = Log::open_reader(&file).unwrap();
        let row = log.read_page(last - 1, log.head(last - 1).unwrap().sum, last, 1).unwrap().remove(0);
        drop(log);
        let bytes = std::fs::read(&file).unwrap();
        let database = std::fs::File::options().write(true).open(&file).unwrap();
        // Wherever it stands: a page that was split may still have it where nothing is any more.
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
