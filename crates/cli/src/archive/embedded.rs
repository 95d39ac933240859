//! `stockhold archive` of a data directory. If a server uses it, the server archives.

use super::report::tell;
use super::{ArchiveArgs, running};
use crate::audit_errors::may_read;
use crate::event_files::EventFiles;
use indicatif::ProgressBar;
use std::path::Path;
use stockhold_config::{Config, exit};
use stockhold_embedded::{ArchiveError, OpenError};

/// Archives and reports.
pub(super) fn run(args: &ArchiveArgs, to: &Path, config: &Config) -> Result<(), (u8, String)> {
    let options = config.options().map_err(|error| (exit::USAGE, error))?;
    may_read(&config.data_dir)?;
    if let Some(noted) = stockhold_embedded::server_of(&config.data_dir) {
        let url = args.server.as_deref().map_or(noted.as_str(), |url| url.trim_end_matches('/'));
        return running::run(args, to, url);
    }
    let mut files = EventFiles::open(to).map_err(|error| (exit::FAILED, error.to_string()))?;
    let bar = ProgressBar::new_spinner();
    let done = args.with_request(config, options.key_retention, options.clock.now(), |request| {
        stockhold_embedded::archive(&config.data_dir, request, &mut files, |done| {
            bar.set_message(format!("archived up to position {}", done.through));
            bar.tick();
        })
        .map_err(|error| (exit_code(&error), advice(&error)))
    });
    bar.finish_and_clear();
    tell(args, to, &done?);
    Ok(())
}

fn exit_code(error: &ArchiveError) -> u8 {
    match error {
        ArchiveError::InvalidRequest(_) => exit::USAGE,
        ArchiveError::Store(OpenError::Io { .. })
        | ArchiveError::Refused(_)
        | ArchiveError::Archive(_)
        | ArchiveError::Interrupted(_) => exit::FAILED,
        ArchiveError::Store(_) => exit::DATA,
    }
}

fn advice(error: &ArchiveError) -> String {
    match error {
        ArchiveError::Store(OpenError::InUse(dir)) => format!(
            "another process uses {}, and it is no server that could archive: try again once it has ended. Nothing was archived",
            dir.display()
        ),
        other => other.to_string(),
    }
}
