//! The files of an archive of events: `events-FIRST-LAST.jsonl.zst`, named by the positions of their first and last event.
//!
//! A file is JSON lines, compressed with zstd. Each line is an event as `/v1/events` shows it, with the member `fold`: the bytes of the
//! whole event in base64, for a recount. An event that `/v1/events` shows to nobody has its position and `fold` only. The last line is
//! `{"previous": …, "sha256": …, "count": …}`: the hash of the file before (null in the first file), the hash of this one, and the
//! number of its events. The hash covers all lines before the last one and the text of the hash before, so the files are a chain:
//! `(zstdcat FILE | head -n -1; printf PREVIOUS) | sha256sum`.
//!
//! A file is written under a name that begins with a dot, and gets its name once it is synced. It never changes afterwards.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{Context, SHA256};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use stockhold_api::{EventType, encode};
use stockhold_store::codec::{self, Reader};
use stockhold_store::{ArchiveFile, EventArchive, EventRow, Sha256, own_files};

/// The level of the compression: the default of zstd.
const LEVEL: i32 = 3;
/// The name of a file that is being written. There is one at most.
const UNFINISHED: &str = ".events-unfinished.jsonl.zst";
const PREFIX: &str = "events-";
const SUFFIX: &str = ".jsonl.zst";

/// The files of an archive in a directory.
pub struct EventFiles {
    dir: PathBuf,
    open: Option<UnfinishedFile>,
    /// Whether it is opened for writing. A directory that is not there is made, and locked, with its first file.
    is_writer: bool,
    /// Held while this process writes.
    lock: Option<File>,
}

/// Why a directory can't be written to.
#[derive(Debug)]
pub enum OpenFilesError {
    /// Another process writes to it.
    InUse(PathBuf),
    /// It can't be used.
    Failed(String),
}

impl fmt::Display for OpenFilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(dir) => write!(f, "another process writes to the archive {}", dir.display()),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

struct UnfinishedFile {
    first: u64,
    last: u64,
    count: u64,
    previous: Option<Sha256>,
    hash: Context,
    out: zstd::Encoder<'static, BufWriter<File>>,
    line: Vec<u8>,
}

impl EventFiles {
    /// Opens a directory for reading.
    pub(crate) fn read_only(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), open: None, is_writer: false, lock: None }
    }

    /// Opens a directory for writing. No other process may write to it. Nothing is made before the first file: until then the archive may
    /// be refused.
    pub fn open(dir: &Path) -> Result<Self, OpenFilesError> {
        let mut files = Self::read_only(dir);
        files.is_writer = true;
        let has_files = files.files().is_ok_and(|found| !found.is_empty());
        if has_files || files.lock_path().exists() {
            files.lock()?;
        }
        Ok(files)
    }

    /// Keeps other processes from writing to the directory, which is there.
    fn lock(&mut self) -> Result<(), OpenFilesError> {
        let path = self.lock_path();
        let failed =
            |what: &str, error| OpenFilesError::Failed(format!("{what} {}: {error}", path.display()));
        let lock = own_files::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| failed("opening", error))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => OpenFilesError::InUse(self.dir.clone()),
            TryLockError::Error(error) => failed("locking", error),
        })?;
        self.lock = Some(lock);
        Ok(())
    }

    /// Makes the directory and locks it. `newest` is the last position that the archive had when it was looked at without a lock.
    fn make(&mut self, newest: u64) -> Result<(), String> {
        stockhold_embedded::create_dir(&self.dir).map_err(|error| error.to_string())?;
        self.lock().map_err(|error| error.to_string())?;
        let found = self.files()?.last().map_or(newest, |(_, last)| *last);
        if found == newest { Ok(()) } else { Err(OpenFilesError::InUse(self.dir.clone()).to_string()) }
    }

    fn lock_path(&self) -> PathBuf {
        self.dir.join("archive.lock")
    }

    fn unfinished(&self) -> PathBuf {
        self.dir.join(UNFINISHED)
    }
}

fn name_of(first: u64, last: u64) -> String {
    format!("{PREFIX}{first:020}-{last:020}{SUFFIX}")
}

/// The positions in the name of a file; `None` if it is not a file of an archive.
fn positions_of(name: &str) -> Option<(u64, u64)> {
    let (first, last) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (name_of(first, last) == name).then_some((first, last))
}

fn hex(hash: &Sha256) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
    hash.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(text: &str) -> Option<Sha256> {
    let mut hash = [0; 32];
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    if pairs.len() != hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

/// The hash of a file whose lines were hashed.
fn end_hash(mut hash: Context, previous: Option<&Sha256>) -> Sha256 {
    if let Some(previous) = previous {
        hash.update(hex(previous).as_bytes());
    }
    let mut bytes = [0; 32];
    for (to, from) in bytes.iter_mut().zip(hash.finish().as_ref()) {
        *to = *from;
    }
    bytes
}

/// The line of an event, with its end.
fn put_line(line: &mut Vec<u8>, row: &EventRow) {
    line.clear();
    if EventType::of(&row.event).is_some() {
        encode::event(line, row);
        line.pop();
    } else {
        line.extend(format!("{{\"position\":{}", row.position).bytes());
    }
    let mut bytes = Vec::new();
    codec::put_event(&mut bytes, &row.event);
    line.extend(b",\"fold\":\"");
    line.extend(STANDARD.encode(bytes).bytes());
    line.extend(b"\"}\n");
}

#[derive(serde::Deserialize)]
struct EventLine<'a> {
    position: u64,
    #[serde(borrow)]
    fold: &'a str,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct LastLine {
    previous: Option<String>,
    sha256: String,
    count: u64,
}

fn read_line(line: &[u8]) -> Result<EventRow, String> {
    let EventLine { position, fold } = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let bytes = STANDARD.decode(fold).map_err(|error| error.to_string())?;
    let mut reader = Reader::new(&bytes);
    let event = codec::event(&mut reader).map_err(|error| error.to_string())?;
    reader.finish().map_err(|error| error.to_string())?;
    Ok(EventRow { position, event })
}

fn read_last_line(line: &[u8]) -> Result<(Option<Sha256>, Sha256, u64), String> {
    let wrong = || {
        "its last line is not {previous, sha256, count}: it is cut off, or another program wrote it"
            .to_owned()
    };
    let LastLine { previous, sha256, count } = serde_json::from_slice(line).map_err(|_| wrong())?;
    let previous = previous.map(|text| from_hex(&text).ok_or_else(wrong)).transpose()?;
    Ok((previous, from_hex(&sha256).ok_or_else(wrong)?, count))
}

impl EventArchive for EventFiles {
    fn files(&mut self) -> Result<Vec<(u64, u64)>, String> {
        let failed = |error: std::io::Error| format!("reading {}: {error}", self.dir.display());
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if self.is_writer && error.kind() == ErrorKind::NotFound => return Ok(found),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            found.extend(entry.map_err(failed)?.file_name().to_str().and_then(positions_of));
        }
        found.sort_unstable();
        for two in found.windows(2) {
            if let [(_, last), (first, _)] = two
                && *first != last + 1
            {
                let what = if *first > *last { "no file has" } else { "two files have" };
                let (from, to) = if *first > *last { (last + 1, first - 1) } else { (*first, *last) };
                return Err(format!("{}: {what} the positions {from} to {to}", self.dir.display()));
            }
        }
        Ok(found)
    }

    fn read(
        &mut self,
        (first, last): (u64, u64),
        each: &mut dyn FnMut(EventRow) -> Result<(), String>,
    ) -> Result<ArchiveFile, String> {
        let path = self.dir.join(name_of(first, last));
        let wrong = |what: String| format!("{}: {what}", path.display());
        let file = File::open(&path).map_err(|error| wrong(error.to_string()))?;
        let decoder = zstd::Decoder::new(file).map_err(|error| wrong(error.to_string()))?;
        let mut lines = BufReader::new(decoder);
        // Each line is kept until the next one is read, because the last one is no event.
        let (mut line, mut next) = (Vec::new(), Vec::new());
        let mut read = |line: &mut Vec<u8>| {
            line.clear();
            lines.read_until(b'\n', line).map_err(|error| wrong(error.to_string()))
        };
        let mut hash = Context::new(&SHA256);
        let mut position = first;
        read(&mut line)?;
        while read(&mut next)? > 0 {
            hash.update(&line);
            let row = read_line(&line).map_err(|error| wrong(format!("position {position}: {error}")))?;
            if row.position != position {
                return Err(wrong(format!("it has position {} where {position} is expected", row.position)));
            }
            each(row)?;
            position += 1;
            std::mem::swap(&mut line, &mut next);
        }
        let (previous, sha256, count) = read_last_line(&line).map_err(wrong)?;
        if end_hash(hash, previous.as_ref()) != sha256 {
            return Err(wrong("its content does not have the hash that it says".to_owned()));
        }
        if count != position - first || position != last + 1 {
            return Err(wrong(format!(
                "it has {} events, says {count}, and its name says {}",
                position - first,
                last + 1 - first
            )));
        }
        Ok(ArchiveFile { first, last, previous, sha256 })
    }

    fn begin(&mut self, first: u64, previous: Option<Sha256>) -> Result<(), String> {
        if self.lock.is_none() {
            self.make(first - 1)?;
        }
        let path = self.unfinished();
        let failed = |error: std::io::Error| format!("writing {}: {error}", path.display());
        let file = BufWriter::new(
            own_files::options().create(true).write(true).truncate(true).open(&path).map_err(failed)?,
        );
        let mut out = zstd::Encoder::new(file, LEVEL).map_err(failed)?;
        out.include_checksum(true).map_err(failed)?;
        let hash = Context::new(&SHA256);
        self.open =
            Some(UnfinishedFile { first, last: first, count: 0, previous, hash, out, line: Vec::new() });
        Ok(())
    }

    fn add(&mut self, row: &EventRow) -> Result<(), String> {
        let path = self.unfinished();
        let open = self.open.as_mut().ok_or("no file was begun")?;
        put_line(&mut open.line, row);
        open.hash.update(&open.line);
        (open.last, open.count) = (row.position, open.count + 1);
        open.out.write_all(&open.line).map_err(|error| format!("writing {}: {error}", path.display()))
    }

    fn finish(&mut self) -> Result<ArchiveFile, String> {
        let path = self.unfinished();
        let failed = |error: std::io::Error| format!("writing {}: {error}", path.display());
        let UnfinishedFile { first, last, count, previous, hash, mut out, .. } =
            self.open.take().ok_or("no file was begun")?;
        let sha256 = end_hash(hash, previous.as_ref());
        let end = LastLine { previous: previous.as_ref().map(hex), sha256: hex(&sha256), count };
        let mut line = serde_json::to_vec(&end).map_err(|error| error.to_string())?;
        line.push(b'\n');
        out.write_all(&line).map_err(failed)?;
        let file = out.finish().and_then(|out| out.into_inner().map_err(std::io::IntoInnerError::into_error));
        file.and_then(|file| file.sync_all()).map_err(failed)?;
        let named = self.dir.join(name_of(first, last));
        match named.try_exists() {
            Ok(false) => {}
            Ok(true) => return Err(format!("{} exists already", named.display())),
            Err(error) => return Err(failed(error)),
        }
        fs::rename(&path, &named).map_err(failed)?;
        stockhold_embedded::sync_dir(&self.dir).map_err(|error| error.to_string())?;
        Ok(ArchiveFile { first, last, previous, sha256 })
    }
}

impl Drop for EventFiles {
    /// Removes a file that was not finished.
    fn drop(&mut self) {
        if self.open.take().is_some()
            && let Err(error) = fs::remove_file(self.unfinished())
            && error.kind() != ErrorKind::NotFound
        {
            eprintln!("{} can be removed: {error}", self.unfinished().display());
        }
    }
}

#[cfg(test)]
mod tests;
