//! `stockhold verify`: recounts everything and reports whether it is consistent, for every kind of store.

use super::plural::counted;
use crate::archive::Consumers;
use crate::audit_errors::{books_failed, may_read};
use crate::event_files::EventFiles;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use stockhold_config::exit;
use stockhold_config::sql_options;
use stockhold_config::{Config, StorePlace};
use stockhold_embedded::OpenError;
use stockhold_sql::VerifyProgress;

#[derive(Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    place: StorePlace,
    /// Directory with the files of the archive: begin with the first event ever, and check the files
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// First put events back into order that have wrong positions, which servers before 2026-12 could give on MariaDB and MySQL. Stop the
    /// servers and all readers of events before: a reader that has read a part of a range that is printed has to begin again before it
    #[arg(long, conflicts_with = "archive")]
    repair_positions: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Batches between two updates of the progress bar.
const BAR_STEP: u64 = 256;

/// The result of a recount, for every kind of store.
struct VerifyResult {
    batches: u64,
    events: u64,
    /// Position up to which events have been archived.
    archived: u64,
    items: u64,
    /// Units with ids, if they were counted.
    units: Option<u64>,
    reservations: [u64; 4],
    keys: u64,
    findings: Vec<String>,
    drift: u64,
}

impl VerifyArgs {
    pub(crate) fn run(&self) -> ExitCode {
        let config = match self.place.load() {
            Ok(config) => config,
            Err(error) => return exit::because(exit::USAGE, error),
        };
        if self.repair_positions
            && let Err((code, why)) = repair_positions(&config)
        {
            return exit::because(code, why);
        }
        let verdict = if config.store.is_embedded() {
            embedded(&config, self.archive.as_deref())
        } else {
            sql(&config, self.archive.as_deref())
        };
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err((code, why)) => return exit::because(code, why),
        };
        if self.json {
            println!("{:#}", json(&verdict));
        } else {
            tell(&verdict);
        }
        ExitCode::from(if verdict.drift == 0 { exit::DONE } else { exit::FAILED })
    }
}

/// Repairs, and reports on the standard error.
fn repair_positions(config: &Config) -> Result<(), (u8, String)> {
    if config.store.is_embedded() {
        let why = "the embedded store has always given the right positions: give a database of MariaDB or MySQL with --store";
        return Err((exit::USAGE, why.to_owned()));
    }
    let consumers = Consumers::of(config).map_err(|error| (exit::USAGE, error))?;
    let repaired = stockhold_sql::repair_positions(config.store.url(), &sql_options(config)?, &|records| {
        consumers.behind(records, &[])
    });
    let repaired = repaired.map_err(|error| books_failed(config, &error))?;
    for range in &repaired.ranges {
        eprintln!(
            "the events of the positions {} to {} are in another order now",
            range.start(),
            range.end()
        );
    }
    eprintln!("{} other positions", counted(repaired.batches, "batch has", "batches have"));
    Ok(())
}

fn embedded(config: &Config, archive: Option<&Path>) -> Result<VerifyResult, (u8, String)> {
    may_read(&config.data_dir)?;
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("recounting {wide_bar} {pos}/{len} batches") {
        bar.set_style(style);
    }
    let progress = |done: u64, all| {
        if done.is_multiple_of(BAR_STEP) {
            bar.set_length(all);
            bar.set_position(done);
        }
    };
    let verdict = match archive {
        Some(files) => {
            let mut files = EventFiles::read_only(files);
            stockhold_embedded::verify_with_archive(&config.data_dir, &mut files, progress)
        }
        None => stockhold_embedded::verify(&config.data_dir, progress),
    };
    bar.finish_and_clear();
    let stockhold_embedded::VerifyReport {
        batches,
        events,
        archived,
        items,
        reservations,
        keys,
        findings,
        drift,
    } = verdict.map_err(|error| {
        let code = if matches!(error, OpenError::Io { .. }) { exit::FAILED } else { exit::DATA };
        (code, error.to_string())
    })?;
    Ok(VerifyResult { batches, events, archived, items, units: None, reservations, keys, findings, drift })
}

fn sql(config: &Config, archive: Option<&Path>) -> Result<VerifyResult, (u8, String)> {
    let options = sql_options(config)?;
    let bar = ProgressBar::new_spinner();
    let progress = |progress| {
        bar.set_message(match progress {
            VerifyProgress::Archived(done, all) => format!("recounting the archive: event {done} of {all}"),
            VerifyProgress::Events(done, all) => format!("recounting: event {done} of {all}"),
            VerifyProgress::Reservations(done) => format!("recounting: {done} reservations"),
            VerifyProgress::Keys(done) => format!("recounting: {done} keys"),
        });
        bar.tick();
    };
    let verdict = match archive {
        Some(files) => {
            let mut files = EventFiles::read_only(files);
            stockhold_sql::verify_with_archive(config.store.url(), &options, &mut files, progress)
        }
        None => stockhold_sql::verify(config.store.url(), &options, progress),
    };
    bar.finish_and_clear();
    let stockhold_sql::VerifyReport {
        batches,
        events,
        archived,
        items,
        units,
        reservations,
        keys,
        findings,
        drift,
    } = verdict.map_err(|error| books_failed(config, &error))?;
    let units = Some(units);
    Ok(VerifyResult { batches, events, archived, items, units, reservations, keys, findings, drift })
}

fn json(verdict: &VerifyResult) -> serde_json::Value {
    let [active, confirmed, cancelled, expired] = verdict.reservations;
    let mut told = serde_json::json!({
        "adds_up": verdict.drift == 0,
        "drift": verdict.drift,
        "findings": verdict.findings,
        "batches": verdict.batches,
        "events": verdict.events,
        "archived_through": verdict.archived,
        "items": verdict.items,
        "idempotency_keys": verdict.keys,
        "reservations": { "active": active, "confirmed": confirmed, "cancelled": cancelled, "expired": expired },
    });
    if let Some(units) = verdict.units {
        told["units"] = units.into();
    }
    told
}

fn tell(verdict: &VerifyResult) {
    let [active, confirmed, cancelled, expired] = verdict.reservations;
    println!(
        "{} in {}, {}, {}",
        counted(verdict.events, "event", "events"),
        counted(verdict.batches, "batch", "batches"),
        counted(verdict.items, "item", "items"),
        counted(verdict.keys, "key", "keys")
    );
    if verdict.archived > 0 {
        println!("events up to position {} have been archived; their totals are kept", verdict.archived);
    }
    println!(
        "reservations: {active} active, {confirmed} confirmed, {cancelled} cancelled, {expired} expired"
    );
    for finding in &verdict.findings {
        println!("drift: {finding}");
    }
    let unlisted = verdict.drift.saturating_sub(verdict.findings.len() as u64);
    if unlisted > 0 {
        println!("drift: and {unlisted} more");
    }
    println!("{}", if verdict.drift == 0 { "everything is consistent" } else { "NOT consistent" });
}
