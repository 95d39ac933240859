//! `stockhold export`: writes items, units, pools, limits, reservations and events of a running server to a file, page by page through its API.
//!
//! Memory holds one page. JSON lines have everything that the server answers; CSV has the columns of `columns`.

mod columns;
mod pages;
mod target;

use super::client::{RetryClient, item_path};
use super::import::FileFormat;
use super::out;
use super::plural::counted;
use super::server::{self, ServerArgs};
use super::spreadsheet::{is_formula, made_safe};
use clap::{Args, Subcommand};
use columns::CsvColumns;
use indicatif::ProgressBar;
use pages::{ListQuery, PageReader};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stockhold_config::exit;
use stockhold_domain::Label;
use target::ExportTarget;

/// The parameter of most lists that names the cursor.
const CURSOR_PARAMETER: &str = "starting_after";

#[derive(Args)]
#[command(arg_required_else_help = true)]
pub(super) struct ExportArgs {
    #[command(subcommand)]
    what: ExportCommand,
}

#[derive(Subcommand)]
enum ExportCommand {
    /// Items with their stock and settings. `import` reads them
    Items {
        /// Only items at this location
        #[arg(long)]
        location: Option<String>,
        #[command(flatten)]
        how: OutputArgs,
    },
    /// Units of one item, in claim order. `import --units` reads them
    Units {
        /// SKU of the item
        sku: String,
        /// Location of the item
        #[arg(long, default_value = Label::DEFAULT_LOCATION)]
        location: String,
        /// Only units with this status: available, held or sold
        #[arg(long, value_parser = ["available", "held", "sold"])]
        status: Option<String>,
        /// Only units of this section
        #[arg(long)]
        section: Option<String>,
        #[command(flatten)]
        how: OutputArgs,
    },
    /// Pools of items, in the order of their items. `import --pools` reads the JSON lines
    Pools {
        /// Only pools of items at this location
        #[arg(long)]
        location: Option<String>,
        #[command(flatten)]
        how: OutputArgs,
    },
    /// Limits, in the order of their ids. `import --limits` reads the JSON lines
    Limits {
        #[command(flatten)]
        how: OutputArgs,
    },
    /// Reservations, the newest first. CSV has one row for each line of a basket
    Reservations {
        /// Only reservations of this owner
        #[arg(long, value_name = "OWNER")]
        owner: Option<String>,
        /// Only reservations with a line of this SKU
        #[arg(long)]
        sku: Option<String>,
        /// Only reservations with a line at this location
        #[arg(long)]
        location: Option<String>,
        /// Only reservations with this status: active, confirmed, cancelled or expired
        #[arg(long, value_parser = ["active", "confirmed", "cancelled", "expired"])]
        status: Option<String>,
        #[command(flatten)]
        how: OutputArgs,
    },
    /// Events, the oldest first. CSV has one row for each line of a basket
    Events {
        #[command(flatten)]
        how: OutputArgs,
    },
}

#[derive(Args)]
struct OutputArgs {
    /// File to write [default: standard output]. It is written as FILE.part and renamed when it is complete. Only its owner may
    /// read a new file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Format of the file [default: by its name: .csv, .jsonl or .ndjson; else jsonl]
    #[arg(long)]
    format: Option<FileFormat>,
    /// Continue after an earlier export: the cursor that it printed, or a position of events
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Leave out the first line of CSV, to append to an earlier export
    #[arg(long)]
    no_header: bool,
    /// Put ' in front of CSV cells that a spreadsheet would take for formulas: those that begin with = + - @ ' tab or return. `import
    /// --spreadsheet-safe` takes it off
    #[arg(long)]
    spreadsheet_safe: bool,
    /// How long to wait for a server that does not answer
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// Print the report as JSON, to standard error
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// The report of an export. Field names are part of the interface.
#[derive(Debug, Serialize)]
struct ExportReport {
    entries: u64,
    rows: u64,
    /// Cells that a spreadsheet may take for formulas.
    formula_cells: u64,
    bytes: u64,
    seconds: f64,
    out: Option<String>,
}

/// Exports and reports.
pub(super) fn run(args: &ExportArgs) -> ExitCode {
    let (list, shape, how) = args.what.list();
    let url = match how.server.url() {
        Ok(url) => url,
        Err(why) => return exit::because(exit::USAGE, why),
    };
    let bar = ProgressBar::new_spinner();
    let notices = bar.clone();
    let say = move |what: &str| notices.suspend(|| eprintln!("stockhold: {what}"));
    let caller =
        match RetryClient::new(&url, how.server.plain_http, Duration::from_secs(how.patience), Box::new(say))
        {
            Ok(caller) => caller,
            Err(why) => return exit::because(exit::USAGE, why),
        };
    let sink = match how.sink(shape) {
        Ok(sink) => sink,
        Err(why) => return exit::because(exit::FAILED, why),
    };
    server::block_on(how.export(&url, &caller, list, sink, &bar))
}

impl ExportCommand {
    fn list(&self) -> (ListQuery, CsvColumns, &OutputArgs) {
        match self {
            Self::Items { location, how } => {
                let list = ListQuery::new("/v1/inventory", CURSOR_PARAMETER);
                (list.filtered("location", location.as_ref()), CsvColumns::ITEMS, how)
            }
            Self::Units { sku, location, status, section, how } => {
                let list = ListQuery::new(item_path(sku, location, "/units"), CURSOR_PARAMETER);
                let list = list.filtered("status", status.as_ref()).filtered("section", section.as_ref());
                (list, CsvColumns::UNITS, how)
            }
            Self::Pools { location, how } => {
                let list = ListQuery::new("/v1/inventory", CURSOR_PARAMETER).of_pools();
                (list.filtered("location", location.as_ref()), CsvColumns::POOLS, how)
            }
            Self::Limits { how } => (ListQuery::new("/v1/limits", CURSOR_PARAMETER), CsvColumns::LIMITS, how),
            Self::Reservations { owner, sku, location, status, how } => {
                let list = ListQuery::new("/v1/reservations", CURSOR_PARAMETER);
                let list = list.filtered("owner_id", owner.as_ref()).filtered("sku", sku.as_ref());
                (
                    list.filtered("location", location.as_ref()).filtered("status", status.as_ref()),
                    CsvColumns::RESERVATIONS,
                    how,
                )
            }
            Self::Events { how } => (ListQuery::new("/v1/events", "after"), CsvColumns::EVENTS, how),
        }
    }
}

impl OutputArgs {
    async fn export(
        &self,
        url: &str,
        caller: &RetryClient,
        list: ListQuery,
        mut sink: RowWriter,
        bar: &ProgressBar,
    ) -> ExitCode {
        let begun = Instant::now();
        let mut pages = PageReader::new(list, self.after.clone());
        let mut entries = 0;
        if let Err(failed) = caller.check_reachable().await {
            return exit::because(server::exit_code(&failed), server::explain(url, &failed));
        }
        loop {
            let page = match pages.next(caller).await {
                Ok(Some(page)) => page,
                Ok(None) => break,
                Err(failed) => {
                    let mut why = server::explain(url, &failed);
                    // Without entries there is nothing to continue.
                    if entries > 0 {
                        why.push('\n');
                        why.push_str(&self.advice(entries, &pages, &sink.name()));
                        sink.keep();
                    }
                    return exit::because(server::exit_code(&failed), why);
                }
            };
            for entry in page.entries() {
                if let Err(why) = sink.put(entry) {
                    return exit::because(exit::FAILED, why);
                }
                entries += 1;
            }
            // Everything before the cursor is written, so that an export can continue there.
            if let Err(why) = sink.flush() {
                return exit::because(exit::FAILED, why);
            }
            if out::is_closed() {
                return ExitCode::from(exit::DONE);
            }
            bar.set_message(format!("{entries} exported"));
            bar.tick();
        }
        bar.finish_and_clear();
        match sink.finish() {
            Ok(RowCounts { rows, bytes, formula_cells }) => {
                self.tell(&ExportReport {
                    entries,
                    rows,
                    formula_cells,
                    bytes,
                    seconds: begun.elapsed().as_secs_f64(),
                    out: self.out.as_ref().map(|out| out.display().to_string()),
                });
                ExitCode::from(exit::DONE)
            }
            Err(why) => exit::because(exit::FAILED, why),
        }
    }

    fn sink(&self, shape: CsvColumns) -> Result<RowWriter, String> {
        let format =
            self.format.or_else(|| self.out.as_deref().and_then(FileFormat::of)).unwrap_or(FileFormat::Jsonl);
        let out = BufWriter::with_capacity(1 << 16, ExportTarget::open(self.out.as_deref())?);
        let is_safe = self.spreadsheet_safe;
        let mut sink = RowWriter { out, format, shape, is_safe, counts: RowCounts::default() };
        if format == FileFormat::Csv && !self.no_header {
            let header: Vec<String> = sink.shape.header().map(str::to_owned).collect();
            sink.csv(&header)?;
            sink.counts.rows = 0;
        }
        Ok(sink)
    }

    /// How to continue after an interruption. `name` is the file that was written.
    fn advice(&self, entries: u64, pages: &PageReader, name: &str) -> String {
        let at = pages.cursor().map(|cursor| format!(" --after {cursor}")).unwrap_or_default();
        let written = counted(entries, "entry was", "entries were");
        match &self.out {
            Some(_) => format!(
                "{written} written to {name}. Continue with{at} --no-header into another file, or begin again."
            ),
            None => format!("{written} written. Continue with{at} --no-header and append the output."),
        }
    }

    fn tell(&self, report: &ExportReport) {
        if self.json {
            eprintln!("{}", serde_json::json!(report));
            return;
        }
        let ExportReport { entries, rows, formula_cells, bytes, seconds, .. } = report;
        let to = report.out.as_deref().unwrap_or("standard output");
        let rows =
            if rows == entries { String::new() } else { format!(" in {}", counted(*rows, "row", "rows")) };
        if *formula_cells > 0 {
            eprintln!(
                "stockhold: a spreadsheet may take {} for formulas, which the callers of the server have chosen: --spreadsheet-safe \
                 puts ' in front of them",
                counted(*formula_cells, "cell", "cells")
            );
        }
        eprintln!("{entries} exported{rows}, {} to {to} in {seconds:.2} s", indicatif::HumanBytes(*bytes));
    }
}

/// Writes rows in the chosen format.
struct RowWriter {
    out: BufWriter<ExportTarget>,
    format: FileFormat,
    shape: CsvColumns,
    /// Whether cells are made safe for spreadsheets.
    is_safe: bool,
    counts: RowCounts,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
struct RowCounts {
    rows: u64,
    bytes: u64,
    formula_cells: u64,
}

impl RowWriter {
    fn put(&mut self, entry: &str) -> Result<(), String> {
        if self.format == FileFormat::Jsonl {
            self.counts.rows += 1;
            self.counts.bytes += entry.len() as u64 + 1;
            let written = self.out.write_all(entry.as_bytes()).and_then(|()| self.out.write_all(b"\n"));
            return written.map_err(|error| self.failed(&error));
        }
        for mut row in self.shape.rows(entry)? {
            if self.is_safe {
                row = row.iter().map(|cell| made_safe(cell)).collect();
            }
            self.counts.formula_cells += row.iter().filter(|cell| is_formula(cell)).count() as u64;
            self.csv(&row)?;
        }
        Ok(())
    }

    fn csv(&mut self, row: &[String]) -> Result<(), String> {
        let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
        let written = writer.write_record(row).map_err(|error| error.to_string());
        written.map_err(|error| format!("writing: {error}"))?;
        let bytes = writer.into_inner().map_err(|error| format!("writing: {error}"))?;
        self.counts.rows += 1;
        self.counts.bytes += bytes.len() as u64;
        self.out.write_all(&bytes).map_err(|error| self.failed(&error))
    }

    fn flush(&mut self) -> Result<(), String> {
        self.out.flush().map_err(|error| self.failed(&error))
    }

    /// Ends the file, and returns what was written.
    fn finish(mut self) -> Result<RowCounts, String> {
        self.flush()?;
        self.out.get_mut().finish().map_err(|error| self.failed(&error))?;
        Ok(self.counts)
    }

    /// Keeps what is written so far.
    fn keep(&mut self) {
        self.out.get_mut().keep();
    }

    fn name(&self) -> String {
        self.out.get_ref().name()
    }

    fn failed(&self, error: &io::Error) -> String {
        format!("writing {}: {error}", self.name())
    }
}
