//! `stockhold archive` of a database, while servers use it.

use super::ArchiveArgs;
use super::report::tell;
use crate::audit_errors::books_failed;
use crate::event_files::EventFiles;
use indicatif::ProgressBar;
use std::path::Path;
use stockhold_config::{Config, exit, sql_options};
use stockhold_sql::ArchiveError;

/// Archives and reports.
pub(super) fn run(args: &ArchiveArgs, to: &Path, config: &Config) -> Result<(), (u8, String)> {
    let options = sql_options(config)?;
    let now = config.options().map_err(|error| (exit::USAGE, error))?.clock.now();
    let mut files = EventFiles::open(to).map_err(|error| (exit::FAILED, error.to_string()))?;
    let bar = ProgressBar::new_spinner();
    let done = args.with_request(config, options.key_retention, now, |request| {
        stockhold_sql::archive(config.store.url(), &options, request, &mut files, |done| {
            bar.set_message(format!(
                "archived up to position {}, removed up to {}",
                done.through, done.dropped_through
            ));
            bar.tick();
        })
        .map_err(|error| failure(config, &error))
    });
    bar.finish_and_clear();
    tell(args, to, &done?);
    Ok(())
}

/// The exit code and the error text.
fn failure(config: &Config, error: &ArchiveError) -> (u8, String) {
    match error {
        ArchiveError::InvalidRequest(why) => (exit::USAGE, why.clone()),
        ArchiveError::Refused(why) | ArchiveError::Archive(why) | ArchiveError::Interrupted(why) => {
            (exit::FAILED, why.clone())
        }
        ArchiveError::Store(error) => books_failed(config, error),
    }
}
