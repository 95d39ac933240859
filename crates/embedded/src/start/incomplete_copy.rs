//! A mark on a copy that is being made: what was copied so far looks like a log that ends there. It is set before the
//! first page and taken away after the last, so whatever cuts the copy leaves it.

use crate::error::OpenError;
use crate::files;
use crate::start::data_dir::sync_dir;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

/// Sets the mark, durably.
pub(crate) fn begin(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(files::INCOMPLETE_COPY);
    File::create(&path)
        .and_then(|file| file.sync_all())
        .map_err(|error| OpenError::io(format!("making {}", path.display()), error))?;
    sync_dir(dir)
}

/// Takes the mark away, durably.
pub(crate) fn end(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(files::INCOMPLETE_COPY);
    match fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(OpenError::io(format!("removing {}", path.display()), error)),
    }
    sync_dir(dir)
}

/// Refuses a directory that has the mark.
pub(crate) fn refuse(dir: &Path) -> Result<(), OpenError> {
    if dir.join(files::INCOMPLETE_COPY).exists() {
        Err(OpenError::IncompleteCopy(dir.to_owned()))
    } else {
        Ok(())
    }
}
