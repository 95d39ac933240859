//! Which exit code a failed audit, archive or copy of a database has.

use stockhold_config::{Config, exit, not_opened};

/// The exit code and the error text.
pub(super) fn books_failed(config: &Config, error: &stockhold_sql::AuditError) -> (u8, String) {
    match error {
        stockhold_sql::AuditError::Open(error) => not_opened(config, error),
        _ => (exit::FAILED, error.to_string()),
    }
}
