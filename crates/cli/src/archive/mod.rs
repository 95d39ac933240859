//! `stockhold archive`: writes old events to files, and removes them and the reservations that had ended by then from the store.

mod consumers;
mod database;
mod embedded;
mod report;
mod running;

pub use consumers::Consumers;

use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use stockhold_config::{Config, StorePlace, exit};
use stockhold_domain::Instant;
use stockhold_store::{ARCHIVE_FILE_EVENTS, ArchiveRequest, ArchiveSummary, own_files};

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct ArchiveArgs {
    #[command(flatten)]
    place: StorePlace,
    /// Minimum age: 90d or 36h. It can't be less than the time that idempotency keys are kept
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Duration,
    /// Directory for the files. It is created if it does not exist [default: `archive.dir` of the configuration]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Let events leave although this sink, webhook or stock master has not got them. Repeat it for more of them
    #[arg(long, value_name = "SINK")]
    ignore_sink: Vec<String>,
    /// Address of the API of the server that uses the data directory [default: the server has written it into the directory]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Send the API key to that address without TLS also if it is another machine's, where everybody on the way can read it
    #[arg(long)]
    plain_http: bool,
    /// Remove from the store what is written and synced
    #[arg(long)]
    drop: bool,
    /// Begin in a directory without files although events have left the database with files that are elsewhere
    #[arg(long)]
    new_directory: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Reads an age in days or hours.
fn age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not an age: use days (90d) or hours (36h)");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let hours = match unit {
        "d" => 24,
        "h" => 1,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(hours).and_then(|hours| hours.checked_mul(3_600));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

/// Archives and reports.
pub(super) fn run(args: &ArchiveArgs) -> ExitCode {
    let archived = args.place.load().map_err(|error| (exit::USAGE, error)).and_then(|config| {
        let to = args.to.as_ref().or(config.archive.dir.as_ref()).ok_or_else(|| {
            (
                exit::USAGE,
                "--to is missing, and the configuration has no archive.dir: name a directory".to_owned(),
            )
        })?;
        let below_data = |to: PathBuf| {
            own_files::resolved(&config.data_dir).is_ok_and(|data_dir| to.starts_with(data_dir))
        };
        if config.store.is_embedded() && own_files::resolved(to).is_ok_and(below_data) {
            return Err((exit::USAGE, "--to must not be in the data directory: name another one".to_owned()));
        }
        if config.store.is_embedded() {
            embedded::run(args, to, &config)
        } else {
            database::run(args, to, &config)
        }
    });
    match archived {
        Ok(()) => ExitCode::from(exit::DONE),
        Err((code, why)) => exit::because(code, why),
    }
}

impl ArchiveArgs {
    /// Archives with what the command line asks for.
    fn with_request(
        &self,
        config: &Config,
        key_retention: Duration,
        now: Instant,
        archive: impl FnOnce(&ArchiveRequest<'_>) -> Result<ArchiveSummary, (u8, String)>,
    ) -> Result<ArchiveSummary, (u8, String)> {
        let consumers = Consumers::of(config).map_err(|error| (exit::USAGE, error))?;
        archive(&ArchiveRequest {
            older_than: self.older_than,
            key_retention,
            now,
            drop: self.drop,
            consumers: &|records| consumers.behind(records, &self.ignore_sink),
            file_events: ARCHIVE_FILE_EVENTS,
            files: usize::MAX,
            // Nobody else archives a data directory, so no other directory has the newest file.
            new_directory: self.new_directory || config.store.is_embedded(),
            is_cancelled: &|| false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        assert_eq!(age("90d"), Ok(Duration::from_hours(90 * 24)));
        assert_eq!(age("36h"), Ok(Duration::from_hours(36)));
        for wrong in ["", "d", "90", "90m", "-1d", "1.5d", "99999999999999999999d", "9999999999999999d", "1ä"]
        {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
