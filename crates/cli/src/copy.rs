//! `stockhold copy`: copies a whole store into an empty database.

use super::audit_errors::may_read;
use super::plural::counted;
use crate::audit_errors::books_failed;
use clap::Args;
use indicatif::ProgressBar;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use stockhold_config::exit;
use stockhold_config::sql_options;
use stockhold_config::{Config, StorePlace};
use stockhold_embedded::OpenError;
use stockhold_sql::{ExportChunk, ImportSummary};
use tokio::sync::mpsc::{Sender, channel};

/// Batches between the thread that reads and the thread that writes.
const AHEAD: usize = 4;

#[derive(Args)]
pub(super) struct CopyArgs {
    #[command(flatten)]
    place: StorePlace,
    /// Address of the empty database, with a user who may create tables. Put a password into the variable
    #[arg(long, value_name = "URL", env = "STOCKHOLD_COPY_TO", hide_env_values = true)]
    to: String,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Why it failed: the exit code and the error text.
type ExitError = (u8, String);

/// Copies, recounts and reports.
pub(super) fn run(args: &CopyArgs) -> ExitCode {
    match copy(args) {
        Ok(ImportSummary { events, keys, reservations, customers }) => {
            if args.json {
                let report = serde_json::json!({
                    "events": events, "idempotency_keys": keys, "reservations": reservations, "customers": customers,
                    "adds_up": true,
                });
                println!("{report:#}");
            } else {
                println!(
                    "{}, {}, {} and {} are copied; everything is consistent",
                    counted(events, "event", "events"),
                    counted(reservations, "reservation", "reservations"),
                    counted(keys, "idempotency key", "idempotency keys"),
                    counted(customers, "customer", "customers")
                );
            }
            ExitCode::from(exit::DONE)
        }
        Err((code, why)) => exit::because(code, why),
    }
}

fn copy(args: &CopyArgs) -> Result<ImportSummary, ExitError> {
    let usage = |why: String| (exit::USAGE, why);
    let (from, to) = (args.place.load().map_err(usage)?, args.place.load_for(&args.to).map_err(usage)?);
    if to.store.is_embedded() {
        return Err(usage("--to: the target must be a database".to_owned()));
    }
    if from.store.url() == to.store.url() {
        return Err(usage("--to: this is the store itself: give another database".to_owned()));
    }
    let options = sql_options(&to)?;
    let bar = ProgressBar::new_spinner();
    let (sender, source) = channel(AHEAD);
    let (sent, taken) = std::thread::scope(|scope| {
        let sending = scope.spawn(move || {
            let sent = catch_unwind(AssertUnwindSafe(|| send(&from, &sender)));
            let sent = sent.unwrap_or_else(|_| Err((exit::FAILED, "reading panicked".to_owned())));
            if let Err((_, why)) = &sent {
                // A closed channel would mean the end of the data. If the writer has stopped, it reports why.
                let _ = sender.blocking_send(Err(why.clone()));
            }
            sent
        });
        let taken = stockhold_sql::import_from(
            to.store.url(),
            &options,
            source,
            |ImportSummary { events, keys, .. }| {
                bar.set_message(format!("{events} events, {keys} keys"));
                bar.tick();
            },
        );
        (sending.join(), taken)
    });
    bar.finish_and_clear();
    // If the writer failed, the reader was stopped by that: the writer's error is the cause.
    if matches!(taken, Err(stockhold_sql::AuditError::Source(_)) | Ok(_)) {
        sent.unwrap_or_else(|_| Err((exit::FAILED, "reading panicked".to_owned())))?;
    }
    taken.map_err(|error| books_failed(&to, &error))
}

/// Sends the whole store.
fn send(from: &Config, to: &Sender<Result<ExportChunk, String>>) -> Result<(), ExitError> {
    if from.store.is_embedded() {
        may_read(&from.data_dir)?;
        let pass_on = |chunk| to.blocking_send(Ok(chunk)).is_ok();
        let each = |events, keys, _| pass_on(ExportChunk { events, keys, ..ExportChunk::default() });
        let customers = |customers| pass_on(ExportChunk { customers, ..ExportChunk::default() });
        let sent = stockhold_embedded::export_log(&from.data_dir, each)
            .and_then(|()| stockhold_embedded::export_customers(&from.data_dir, customers));
        sent.map_err(|error| {
            let code = if matches!(error, OpenError::Io { .. }) { exit::FAILED } else { exit::DATA };
            (code, error.to_string())
        })
    } else {
        let sent = stockhold_sql::export_to(from.store.url(), &sql_options(from)?, to);
        sent.map_err(|error| books_failed(from, &error))
    }
}
