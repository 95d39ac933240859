//! Which exit code a failed audit, archive or copy of a database has.

use stockhold_config::{Config, exit, not_opened};

/// The exit code and the error text.
pub(super) fn books_failed(config: &Config, error: &stockhold_sql::BooksError) -> (u8, String) {
    match error {
        stockhold_sql::BooksError::Open(error) => not_opened(config, error),
        stockhold_sql::BooksError::Asked(_) => (exit::USAGE, error.to_string()),
        _ => (exit::FAILED, error.to_string()),
    }
}
