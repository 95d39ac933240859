//! Events as JSON lines in files of a directory.
//!
//! A file is named `stockhold-YYYY-MM-DD-NNNN.jsonl` after the day in UTC of the first event that it got. Each batch is synced before it counts as
//! delivered. A last line without its end, which a crash or a full disk has left, is cut off before the file is continued.

use super::failure;
use crate::message::Message;
use crate::sink::{DeliveryError, Sink, SinkFuture};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use stockhold_api::encode::day_of;
use stockhold_store::own_files;
use tokio::task::JoinHandle;

/// Most files of one day. Their numbers have four digits.
const FILES_OF_A_DAY: u32 = 10_000;
/// Bytes that are searched at a time for the end of the last whole line.
const TAIL_BYTES: u64 = 64 * 1024;

/// Files in a directory.
pub(super) struct FileSink {
    /// The file that is continued. `None` while a write runs, and after one that failed.
    current: Option<CurrentFile>,
    /// The write that runs. If its delivery was given up, nothing else may be written before it has ended.
    running: Option<JoinHandle<io::Result<CurrentFile>>>,
    place: FilePlace,
}

/// Where the files are.
#[derive(Clone)]
struct FilePlace {
    directory: PathBuf,
    rotate_bytes: u64,
    /// The instance, in the names of files of a store that several instances serve.
    instance: Option<String>,
}

/// The file that is continued.
struct CurrentFile {
    file: File,
    day: String,
    bytes: u64,
}

impl FileSink {
    pub(super) fn new(directory: PathBuf, rotate_bytes: u64, instance: Option<String>) -> Self {
        Self { current: None, running: None, place: FilePlace { directory, rotate_bytes, instance } }
    }
}

impl Sink for FileSink {
    fn deliver<'a>(&'a mut self, messages: &'a [Message]) -> SinkFuture<'a, ()> {
        Box::pin(async move {
            let Some(first) = messages.first() else { return Ok(()) };
            let day = day_of(first.at);
            let size = messages.iter().map(|message| message.body.len() + 1).sum();
            let mut lines = Vec::with_capacity(size);
            for message in messages {
                lines.extend_from_slice(&message.body);
                lines.push(b'\n');
            }
            if let Some(running) = &mut self.running {
                let ended = running.await;
                self.running = None;
                self.current = ended.ok().and_then(Result::ok);
            }
            let (current, place) = (self.current.take(), self.place.clone());
            // A sync may take long, and the other sinks of this thread go on meanwhile.
            let write = tokio::task::spawn_blocking(move || place.append(current, &day, &lines));
            let written = self.running.insert(write).await;
            self.running = None;
            match written.map_err(DeliveryError::failed)? {
                Ok(current) => {
                    self.current = Some(current);
                    Ok(())
                }
                Err(error) => {
                    let directory = self.place.directory.display();
                    Err(failure(format!("writing to {directory}: {error}")))
                }
            }
        })
    }
}

impl FilePlace {
    /// Appends lines and syncs them.
    fn append(&self, current: Option<CurrentFile>, day: &str, lines: &[u8]) -> io::Result<CurrentFile> {
        let mut current = match current {
            Some(current) if current.day == day && current.bytes < self.rotate_bytes => current,
            _ => self.open(day)?,
        };
        let written = current.file.write_all(lines).and_then(|()| current.file.sync_data());
        if let Err(error) = written {
            // A part of the lines must not stay: the next reader would take them for delivered, and they come again.
            current.file.set_len(current.bytes)?;
            current.file.sync_data()?;
            return Err(error);
        }
        current.bytes += lines.len() as u64;
        Ok(current)
    }

    /// Opens the newest file of a day if there is room, and a new one otherwise.
    fn open(&self, day: &str) -> io::Result<CurrentFile> {
        own_files::create_dir_all(&self.directory)?;
        let mut number = 1;
        while number < FILES_OF_A_DAY && self.file(day, number + 1).exists() {
            number += 1;
        }
        loop {
            let path = self.file(day, number);
            let is_new = !path.exists();
            let mut file = own_files::options().read(true).append(true).create(true).open(&path)?;
            let bytes = cut_torn_line(&mut file)?;
            if is_new {
                File::open(&self.directory)?.sync_all()?;
            }
            if bytes < self.rotate_bytes || number == FILES_OF_A_DAY {
                return Ok(CurrentFile { file, day: day.to_owned(), bytes });
            }
            number += 1;
        }
    }

    fn file(&self, day: &str, number: u32) -> PathBuf {
        let instance = self.instance.as_ref().map(|name| format!("-{name}")).unwrap_or_default();
        self.directory.join(Path::new(&format!("stockhold-{day}{instance}-{number:04}.jsonl")))
    }
}

/// Cuts off everything behind the last end of a line. Returns the length.
fn cut_torn_line(file: &mut File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let mut end = length;
    while end > 0 {
        let begin = end.saturating_sub(TAIL_BYTES);
        let mut part = Vec::new();
        file.seek(SeekFrom::Start(begin))?;
        Read::by_ref(file).take(end - begin).read_to_end(&mut part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            end = begin + at as u64 + 1;
            break;
        }
        end = begin;
    }
    if end < length {
        file.set_len(end)?;
        file.sync_data()?;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(directory: &Path, rotate_bytes: u64) -> FilePlace {
        FilePlace { directory: directory.to_owned(), rotate_bytes, instance: None }
    }

    #[test]
    fn a_torn_line_is_cut_before_the_file_is_continued() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path(), 1 << 20);
        let path = place.file("2026-11-25", 1);
        for (left, kept) in [("", ""), ("{\"half", ""), ("{}\n{}\n{\"half", "{}\n{}\n"), ("{}\n", "{}\n")] {
            std::fs::write(&path, left).unwrap();
            drop(place.append(None, "2026-11-25", b"[]\n").unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{kept}[]\n"), "{left:?}");
        }
        let long = "x".repeat(3 * usize::try_from(TAIL_BYTES).unwrap());
        std::fs::write(&path, format!("{{}}\n{long}")).unwrap();
        drop(place.append(None, "2026-11-25", b"[]\n").unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}\n[]\n");
    }

    #[test]
    fn a_full_file_and_a_new_day_begin_a_new_file() {
        let directory = tempfile::tempdir().unwrap();
        let place = place(directory.path(), 6);
        let mut current = None;
        for day in ["2026-11-25", "2026-11-25", "2026-11-25", "2026-11-26"] {
            current = Some(place.append(current, day, b"{}\n").unwrap());
        }
        drop(current);
        // A restart goes on in the newest file.
        drop(place.append(None, "2026-11-25", b"[]\n").unwrap());
        let read = |day, number| std::fs::read_to_string(place.file(day, number)).unwrap();
        assert_eq!(read("2026-11-25", 1), "{}\n{}\n");
        assert_eq!(read("2026-11-25", 2), "{}\n[]\n");
        assert_eq!(read("2026-11-26", 1), "{}\n");
    }
}
