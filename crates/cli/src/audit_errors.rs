//! Which exit code a failed audit, archive or copy of a database has.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use stockhold_config::{Config, exit, not_opened};
use stockhold_embedded::files;

/// The exit code and the error text.
pub(super) fn books_failed(config: &Config, error: &stockhold_sql::AuditError) -> (u8, String) {
    match error {
        stockhold_sql::AuditError::Open(error) => not_opened(config, error),
        _ => (exit::FAILED, error.to_string()),
    }
}

/// Checks that this user may read the data.
pub(super) fn may_read(data_dir: &Path) -> Result<(), (u8, String)> {
    let log = data_dir.join(files::LOG);
    match File::open(&log) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let why = format!("opening {}: {error}. Run it as the user that runs the server", log.display());
            Err((exit::FAILED, why))
        }
        // The reader reports any other error.
        Ok(_) | Err(_) => Ok(()),
    }
}
