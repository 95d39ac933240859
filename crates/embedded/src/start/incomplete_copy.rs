//! A marker file in a directory while a backup writes into it. A part of a copy looks like a complete log that is
//! shorter, so the marker is set before the first page and removed after the last page.

use crate::error::OpenError;
use crate::files;
use crate::start::data_dir::sync_dir;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use stockhold_store::own_files;

/// Sets the marker durably.
pub(crate) fn begin(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(files::INCOMPLETE_COPY);
    own_files::options()
        .create(true)
        .write(true)
        .truncate(true)
        .open(&path)
        .and_then(|file| file.sync_all())
        .map_err(|error| OpenError::io(format!("making {}", path.display()), error))?;
    sync_dir(dir)
}

/// Removes the marker durably.
pub(crate) fn end(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(files::INCOMPLETE_COPY);
    match fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(OpenError::io(format!("removing {}", path.display()), error)),
    }
    sync_dir(dir)
}

/// Refuses a directory that has the marker.
pub(crate) fn refuse(dir: &Path) -> Result<(), OpenError> {
    if dir.join(files::INCOMPLETE_COPY).exists() {
        Err(OpenError::IncompleteCopy(dir.to_owned()))
    } else {
        Ok(())
    }
}
