//! Reads an archive from the first event ever on, for a recount.

use super::compare::{LoggedBatches, check_previous, compare};
use super::{ArchiveError, ArchiveMark, EventArchive, Sha256};
use stockhold_domain::Event;

/// Calls back for each event that has left a store, in order. Returns the hash of the newest file that has one of them, for
/// [`compare_kept`].
pub fn fold_archived(
    archive: &mut dyn EventArchive,
    mark: &ArchiveMark,
    each: &mut dyn FnMut(&Event),
) -> Result<Option<Sha256>, String> {
    let (mut end, mut previous) = (0, None);
    for (first, last) in archive.files()? {
        // Of the newest file a part of the events may be in the store.
        let is_newest = mark.file.is_some_and(|file| file.last == last);
        if first > mark.position || (last > mark.position && !is_newest) {
            break;
        }
        if first != end + 1 {
            return Err(format!("it begins at position {first}, not with the first event"));
        }
        let read = archive.read((first, last), &mut |row| {
            if row.position <= mark.position {
                each(&row.event);
            }
            Ok(())
        })?;
        check_previous::<String>(&read, previous).map_err(|error| error.to_string())?;
        (end, previous) = (last.min(mark.position), Some(read.sha256));
    }
    if end == mark.position {
        Ok(previous)
    } else {
        Err(format!(
            "no file of it ends at position {}, after which the log begins; the files before that end at {end}",
            mark.position
        ))
    }
}

/// Compares the events of files that are still in the store. `newest` is the hash of the newest file of which events have left, as it
/// was read. Also checks that it is the one that the store knows.
pub fn compare_kept<L: LoggedBatches>(
    log: &mut L,
    archive: &mut dyn EventArchive,
    newest: Option<Sha256>,
) -> Result<(), ArchiveError<L::Error>> {
    let mark = log.mark();
    if let Some(file) = mark.file.filter(|file| Some(file.sha256) != newest) {
        return Err(ArchiveError::Refused(format!(
            "the file that ends at position {} is not the one whose events left the log",
            file.last
        )));
    }
    let mut previous = newest;
    let files = archive.files().map_err(ArchiveError::<L::Error>::Archive)?;
    for file in files.into_iter().filter(|(_, last)| *last > mark.position) {
        let read = compare(log, archive, file)?;
        if read.first > mark.position {
            check_previous::<L::Error>(&read, previous)?;
        }
        previous = Some(read.sha256);
    }
    Ok(())
}
