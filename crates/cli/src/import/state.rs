//! Where an import stands, beside its file: up to which line everything was answered. It is what makes the same command
//! go on after a cut; rows behind it that were answered already are sent again, which changes nothing.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What the file's name ends with.
const ENDING: &str = ".stockhold-import";

/// What has become of the rows so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImportCounts {
    /// Items that were not there before.
    pub(super) created: u64,
    /// Items that were set.
    pub(super) updated: u64,
    /// Items that were left as they are.
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

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImportState {
    /// Of the file's content.
    pub(super) digest: String,
    /// Server and options: with others it is another import.
    pub(super) import: String,
    /// Every row up to this line has been dealt with.
    pub(super) line: u64,
    pub(super) counts: ImportCounts,
}

/// The state's place.
pub(super) fn place(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ENDING);
    name.into()
}

/// Names a file's content.
pub(super) fn digest(file: &Path) -> Result<String, String> {
    let mut hasher = blake3::Hasher::new();
    File::open(file)
        .and_then(|file| hasher.update_reader(file).map(|_| ()))
        .map_err(|error| error.to_string())?;
    Ok(hasher.finalize().to_hex().to_string())
}

impl ImportState {
    /// What an earlier run left, if it left something.
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

    /// Replaces what is there, whole or not at all.
    pub(super) fn write(&self, place: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| {
            format!(
                "{}: {error}. Where the import stands is kept there: name another place with --state, or --no-state",
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

    /// There is nothing to go on with any more.
    pub(super) fn remove(place: &Path) {
        // One that stays says that everything is done, and the next run notices.
        let _ = fs::remove_file(place);
    }
}
