//! The progress of an import, in a file beside the input: the line up to which every row is answered. With it, the same command
//! continues after an interruption. Rows after that line that were answered are sent again, which changes nothing.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Suffix of the file's name.
const ENDING: &str = ".stockhold-import";

/// Outcomes of the rows so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImportCounts {
    /// Items that were created.
    pub(super) created: u64,
    /// Items that were set.
    pub(super) updated: u64,
    /// Items that were left unchanged.
    pub(super) kept: u64,
    /// Rows that were left out.
    pub(super) bad: u64,
}

impl ImportCounts {
    /// All rows.
    pub(super) fn rows(&self) -> u64 {
        self.created + self.updated + self.kept + self.bad
    }
}

/// The content of the progress file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImportState {
    /// Digest of the file's content.
    pub(super) digest: String,
    /// Server and options. Another server or other options are another import.
    pub(super) import: String,
    /// Every row up to this line is decided.
    pub(super) line: u64,
    pub(super) counts: ImportCounts,
}

/// The default path of the progress file.
pub(super) fn place(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ENDING);
    name.into()
}

/// The digest of a file's content.
pub(super) fn digest(file: &Path) -> Result<String, String> {
    let mut hasher = blake3::Hasher::new();
    File::open(file)
        .and_then(|file| hasher.update_reader(file).map(|_| ()))
        .map_err(|error| error.to_string())?;
    Ok(hasher.finalize().to_hex().to_string())
}

impl ImportState {
    /// Reads what an earlier run has written, if it has.
    pub(super) fn read(place: &Path) -> Result<Option<Self>, String> {
        let text = match fs::read_to_string(place) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", place.display())),
        };
        serde_json::from_str(&text).map(Some).map_err(|error| {
            format!("{}: {error}. Remove it to import the file from its first row", place.display())
        })
    }

    /// Replaces the file as a whole, or not at all.
    pub(super) fn write(&self, place: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| {
            format!(
                "{}: {error}. The progress is kept there: give another path with --state, or use --no-state",
                place.display()
            )
        };
        let dir = place.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(dir).map_err(failed)?;
        serde_json::to_writer_pretty(&mut file, self).map_err(|error| failed(error.into()))?;
        file.write_all(b"\n").map_err(failed)?;
        file.persist(place).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Removes the file: there is nothing to continue.
    pub(super) fn remove(place: &Path) {
        // A file that stays says that everything is done, which the next run sees.
        let _ = fs::remove_file(place);
    }
}
