//! Makes an index from the base, for a directory that has lost its index after events were archived.

use crate::base::Base;
use crate::error::OpenError;
use crate::files;
use crate::log;
use crate::log::start::LogStart;
use crate::log::wal::wal_path;
use crate::start::data_dir::sync_dir;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Makes an index from the base. The batches of the log are missing from it. No other process uses the directory.
pub(crate) fn restore_index(dir: &Path, start: &LogStart) -> Result<(), OpenError> {
    let (base_file, index_file) = (dir.join(files::BASE), dir.join(files::INDEX));
    let copy_file = dir.join(files::INDEX_COPY);
    let failed = |error| OpenError::sqlite(&base_file, "copying", error);
    {
        let base = Base::open(&base_file)?;
        log::checkpoint(&base.index.db, "TRUNCATE").map_err(failed)?;
    }
    for suffix in ["", "-wal", "-shm"] {
        remove(&with_suffix(&copy_file, suffix))?;
    }
    fs::copy(&base_file, &copy_file)
        .and_then(|_| File::open(&copy_file)?.sync_all())
        .map_err(|error| OpenError::io(format!("making {}", copy_file.display()), error))?;
    {
        let copy = Base::open(&copy_file)?;
        let mut index = copy.index;
        let damaged = |error| OpenError::sqlite(&copy_file, "writing", error);
        let extra = "DROP TABLE kept; DROP TABLE gone; DROP TABLE log_start; DROP TABLE archived_items; DROP TABLE archived_counters;";
        index.db.execute_batch(&format!("BEGIN; {extra} COMMIT")).map_err(damaged)?;
        index.forget_archived(&[], start.head.number, start.keys_dropped_before()).map_err(damaged)?;
        log::checkpoint(&index.db, "TRUNCATE").map_err(damaged)?;
    }
    for suffix in ["-wal", "-shm"] {
        remove(&with_suffix(&copy_file, suffix))?;
    }
    // The index that is replaced goes before its write-ahead log: a start makes a missing index again, and an index without its
    // write-ahead log may be damaged.
    for suffix in ["", "-wal", "-shm"] {
        remove(&with_suffix(&index_file, suffix))?;
    }
    fs::rename(&copy_file, &index_file)
        .map_err(|error| OpenError::io(format!("naming {}", index_file.display()), error))?;
    sync_dir(dir)
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    if suffix == "-wal" {
        return wal_path(file);
    }
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove(file: &Path) -> Result<(), OpenError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(OpenError::io(format!("removing {}", file.display()), error))
        }
        _ => Ok(()),
    }
}
