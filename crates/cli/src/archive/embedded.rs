//! `stockhold archive` of a data directory that no server uses.

use super::ArchiveArgs;
use crate::event_files::EventFiles;
use crate::plural::counted;
use crate::verify::may_read;
use indicatif::ProgressBar;
use stockhold_api::sink_record::SinkRecord;
use stockhold_config::{Config, exit};
use stockhold_domain::Record;
use stockhold_embedded::{ArchiveError, ArchiveRequest, ArchiveSummary, OpenError};
use stockhold_store::EventArchive;

/// Archives and reports.
pub(super) fn run(args: &ArchiveArgs, config: &Config) -> Result<(), (u8, String)> {
    let options = config.options().map_err(|error| (exit::USAGE, error))?;
    may_read(&config.data_dir)?;
    let mut files = EventFiles::open(&args.to).map_err(|error| (exit::FAILED, error))?;
    let request = ArchiveRequest {
        older_than: args.older_than,
        key_retention: options.key_retention,
        now: options.clock.now(),
        drop: args.drop,
        consumers: &|records| sinks_behind(records, &args.ignore_sink),
    };
    let bar = ProgressBar::new_spinner();
    let done = stockhold_embedded::archive(&config.data_dir, &request, &mut files, |done| {
        bar.set_message(format!("archived up to position {}", done.through));
        bar.tick();
    });
    bar.finish_and_clear();
    let done = done.map_err(|error| (exit_code(&error), advice(&error)))?;
    let names = files.files().map_err(|error| (exit::FAILED, error))?.len();
    tell(args, &done, names);
    Ok(())
}

/// The sinks whose records are among these, with their positions, without those that are ignored. The events that a sink has not got stay.
fn sinks_behind(records: &[Record], ignored: &[String]) -> Vec<(String, u64)> {
    let position = |record: &Record| {
        let name = record.key.id.as_str();
        // The position of a record that can't be read is not known, so it holds back everything.
        let read = record.value.as_ref().and_then(|value| SinkRecord::from_bytes(value.as_bytes()).ok());
        (format!("the sink {name}"), read.map_or(0, |record| record.position))
    };
    let counts = |record: &&Record| !ignored.iter().any(|name| name == record.key.id.as_str());
    records.iter().filter(counts).map(position).collect()
}

fn exit_code(error: &ArchiveError) -> u8 {
    match error {
        ArchiveError::InvalidRequest(_) => exit::USAGE,
        ArchiveError::Open(OpenError::Io { .. }) | ArchiveError::Refused(_) | ArchiveError::Archive(_) => {
            exit::FAILED
        }
        ArchiveError::Open(_) => exit::DATA,
    }
}

fn advice(error: &ArchiveError) -> String {
    match error {
        ArchiveError::Open(OpenError::InUse(dir)) => format!(
            "a server uses {}: stop it, and start it again after the archive. Nothing was archived",
            dir.display()
        ),
        other => other.to_string(),
    }
}

fn tell(args: &ArchiveArgs, done: &ArchiveSummary, files: usize) {
    let ArchiveSummary { after, through, dropped, dropped_through, reservations, held_back } = done;
    if args.json {
        println!(
            "{:#}",
            serde_json::json!({
                "after": after, "through": through, "events": through - after, "files": files,
                "dropped_events": dropped, "dropped_through": dropped_through, "reservations": reservations,
                "held_back_by": held_back.as_ref().map(|(name, _)| name), "to": args.to,
            })
        );
        return;
    }
    if through > after {
        println!(
            "{} (positions {} to {through}) {} written to {}",
            counted(through - after, "event", "events"),
            after + 1,
            if through - after == 1 { "was" } else { "were" },
            args.to.display()
        );
    } else if held_back.is_none() {
        println!("no other event is that old; {} has the events up to position {through}", args.to.display());
    }
    if *dropped > 0 {
        println!(
            "{} and {} left the data directory, which begins after position {dropped_through}",
            counted(*dropped, "event", "events"),
            counted(*reservations, "reservation", "reservations")
        );
    } else if dropped_through < through && !args.drop {
        println!(
            "the events after position {dropped_through} are still in the data directory; --drop removes them"
        );
    }
    if let Some((name, position)) = held_back {
        println!(
            "older events stay, because {name} has got the events up to position {position} only; --ignore-sink lets them leave"
        );
    }
}
