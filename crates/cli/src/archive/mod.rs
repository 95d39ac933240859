//! `stockhold archive`: writes old events to files, and removes them and the reservations that had ended by then from the store.

mod embedded;
mod running;

pub use embedded::consumers_behind;

use super::plural::counted;
use crate::audit_errors::books_failed;
use clap::Args;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use stockhold_api::{EventType, encode};
use stockhold_config::exit;
use stockhold_config::sql_options;
use stockhold_config::{Config, StorePlace};
use stockhold_domain::Hold;
use stockhold_sql::{ArchiveRequest, ArchiveSink, ArchiveSummary};
use stockhold_store::EventRow;

/// Most files with the same first position.
const MOST_OF_A_NAME: u32 = 100;

#[derive(Args)]
pub(super) struct ArchiveArgs {
    #[command(flatten)]
    place: StorePlace,
    /// Minimum age: 90d or 36h. It can't be less than the time that idempotency keys are kept
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Duration,
    /// Directory for the files. It is created if it does not exist [default: `archive.dir` of the configuration]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Let events of the embedded store leave although this sink or webhook has not got them. Repeat it for more of them
    #[arg(long, value_name = "SINK")]
    ignore_sink: Vec<String>,
    /// Address of the API of the server that uses the data directory [default: the server has written it into the directory]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Remove from the store what is written and synced
    #[arg(long)]
    drop: bool,
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
        if config.store.is_embedded() {
            embedded::run(args, to, &config)
        } else {
            archive(args, to, &config).map(|archived| tell(args, to, &archived))
        }
    });
    match archived {
        Ok(()) => ExitCode::from(exit::DONE),
        Err((code, why)) => exit::because(code, why),
    }
}

fn archive(args: &ArchiveArgs, to: &Path, config: &Config) -> Result<ArchiveSummary, (u8, String)> {
    let options = sql_options(config)?;
    // What is removed from the database exists only in these files.
    stockhold_embedded::create_dir(to).map_err(|error| (exit::FAILED, error.to_string()))?;
    let bar = ProgressBar::new_spinner();
    let order = ArchiveRequest { older_than: args.older_than, drop: args.drop };
    let mut files = ArchiveFiles { dir: to.to_owned(), first: 0, open: None };
    let done = stockhold_sql::archive(config.store.url(), &options, order, &mut files, |done| {
        bar.set_message(format!("{} events up to position {}", done.events, done.through));
        bar.tick();
    });
    bar.finish_and_clear();
    done.map_err(|error| books_failed(config, &error))
}

fn tell(args: &ArchiveArgs, to: &Path, archived: &ArchiveSummary) {
    let ArchiveSummary { after, through, events, reservations, keys } = archived;
    if args.json {
        println!(
            "{:#}",
            serde_json::json!({
                "after": after, "through": through, "events": events, "reservations": reservations,
                "idempotency_keys": keys, "dropped": args.drop, "to": to,
            })
        );
        return;
    }
    if *events == 0 {
        println!("nothing is that old; all events after position {after} are in the database");
        return;
    }
    println!(
        "{} (positions {} to {through}) and {} are in {}",
        counted(*events, "event", "events"),
        after + 1,
        counted(*reservations, "reservation", "reservations"),
        to.display()
    );
    if args.drop {
        let keys = counted(*keys, "old idempotency key", "old idempotency keys");
        println!("they and {keys} are removed from the database");
    } else {
        println!("they are still in the database; --drop removes them");
    }
}

/// Two files for every archive, named by the position of its first event. An existing file is never written to, because it may be the
/// only copy of its events. If an archive was interrupted before anything was removed, its file and the next one have the same
/// events with the same positions.
struct ArchiveFiles {
    dir: PathBuf,
    first: u64,
    open: Option<[JsonLinesFile; 2]>,
}

struct JsonLinesFile {
    path: PathBuf,
    out: BufWriter<File>,
    line: Vec<u8>,
}

impl JsonLinesFile {
    fn create(dir: &Path, name: &str) -> Result<Self, String> {
        for number in 1..=MOST_OF_A_NAME {
            let path = match number {
                1 => dir.join(format!("{name}.jsonl")),
                _ => dir.join(format!("{name}.{number}.jsonl")),
            };
            match File::create_new(&path) {
                Ok(file) => return Ok(Self { path, out: BufWriter::new(file), line: Vec::new() }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("{}: {error}", path.display())),
            }
        }
        Err(format!(
            "{}: there are {MOST_OF_A_NAME} files called {name}: remove those that are not needed",
            dir.display()
        ))
    }

    fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), String> {
        self.line.clear();
        write(&mut self.line);
        self.line.push(b'\n');
        self.out.write_all(&self.line).map_err(|error| self.failed(&error))
    }

    fn sync(&mut self) -> Result<(), String> {
        let synced = self.out.flush().and_then(|()| self.out.get_ref().sync_all());
        synced.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> String {
        format!("writing {}: {error}", self.path.display())
    }
}

impl ArchiveFiles {
    /// Created when there is something to write.
    fn open(&mut self) -> Result<&mut [JsonLinesFile; 2], String> {
        if self.open.is_none() {
            let create = |what: &str| JsonLinesFile::create(&self.dir, &format!("{what}-{:020}", self.first));
            self.open = Some([create("events")?, create("reservations")?]);
        }
        self.open.as_mut().ok_or_else(|| "no file is open".to_owned())
    }
}

impl ArchiveSink for ArchiveFiles {
    fn begin(&mut self, after: u64) -> Result<(), String> {
        self.first = after + 1;
        Ok(())
    }

    fn event(&mut self, row: &EventRow) -> Result<(), String> {
        let [events, _] = self.open()?;
        // Events of API keys are in the archive too: the store may drop its own, and they are the audit trail.
        if EventType::of(&row.event).is_none() {
            return Ok(());
        }
        events.put(|line| encode::event(line, row))
    }

    fn reservation(&mut self, hold: &Hold) -> Result<(), String> {
        let [_, reservations] = self.open()?;
        reservations.put(|line| encode::reservation(line, hold))
    }

    fn sync(&mut self) -> Result<(), String> {
        self.open()?.iter_mut().try_for_each(JsonLinesFile::sync)?;
        // A new file survives a power cut only if its directory is synced too.
        stockhold_embedded::sync_dir(&self.dir).map_err(|error| error.to_string())
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
