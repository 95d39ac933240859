//! `stockhold import --units SKU`: the units of one item from a CSV file, many at a time. Units that are there and the same
//! stay, so a run that was cut is simply run again.

use super::Args;
use super::row::{Bad, first_segment};
use crate::cli::call::{Caller, Failed, encoded, item_path};
use crate::cli::server;
use crate::exit;
use csv::{ByteRecord, Reader, ReaderBuilder};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, Read};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stockhold_api::problem::Reason;
use stockhold_api::wire::{Item, UnitsAdded};
use stockhold_domain::Label;

/// Units that are sent at a time.
const TOGETHER: usize = 1_000;
/// Columns that a file may have; the first it must.
const COLUMNS: [&str; 6] = ["unit_id", "section", "row", "number", "position", "attributes"];

/// The mode of items whose units have no ids.
const COUNTED: &str = "counted";

/// What an import of units ends with. Field names are part of the interface.
#[derive(Debug, Default, Serialize)]
struct Report {
    file: String,
    dry_run: bool,
    finished: bool,
    rows: u64,
    added: u64,
    unchanged: u64,
    bad: u64,
    seconds: f64,
    errors: Vec<Bad>,
}

/// Why it ended before its file.
enum Cut {
    TooManyErrors,
    File(String),
    Server(Failed),
    /// The item has no units with ids.
    Counted,
}

impl From<Failed> for Cut {
    fn from(failed: Failed) -> Self {
        Self::Server(failed)
    }
}

/// Imports, reports, and says by the exit code whether all of it is in.
pub(super) fn run(args: &Args, sku: &str) -> ExitCode {
    let prepared = check(args, sku).and_then(|()| args.server.url()).and_then(|url| Ok((open(args)?, url)));
    let ((reader, columns), url) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return exit::because(exit::USAGE, why),
    };
    let say = |what: &str| eprintln!("stockhold: {what}");
    let caller = match Caller::new(&url, Duration::from_secs(args.patience), Box::new(say)) {
        Ok(caller) => caller,
        Err(why) => return exit::because(exit::USAGE, why),
    };
    let file = args.file.display().to_string();
    let report = Report { file, dry_run: args.dry_run, ..Report::default() };
    let mut import = Import { args, sku, caller, report };
    server::block_on(async {
        let begun = Instant::now();
        let cut = match import.begin().await {
            Ok(()) => import.all(reader, &columns).await.err(),
            Err(cut) => Some(cut),
        };
        import.report.seconds = begun.elapsed().as_secs_f64();
        import.end(&url, cut)
    })
}

fn check(args: &Args, sku: &str) -> Result<(), String> {
    Label::check(sku).map_err(|why| format!("--units {sku:?} {why}"))?;
    Label::check(&args.location).map_err(|why| format!("--location {:?} {why}", args.location))?;
    if args.format.is_none_or(|format| format.name() == "csv") {
        return Ok(());
    }
    Err("--units takes a CSV file with the columns unit_id, section, row, number, position and attributes; --format jsonl is \
         for items"
        .to_owned())
}

type Input = Reader<Box<dyn Read>>;

/// The file, and what its columns are.
fn open(args: &Args) -> Result<(Input, Vec<Option<&'static str>>), String> {
    let path = &args.file;
    let input: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(|error| format!("{}: {error}", path.display()))?)
    };
    let mut reader = ReaderBuilder::new().flexible(true).delimiter(args.delimiter).from_reader(input);
    let header = reader.byte_headers().map_err(|error| format!("{}: {error}", path.display()))?;
    let mut columns = Vec::new();
    for name in header {
        let name = String::from_utf8_lossy(name);
        let name = name.trim_start_matches('\u{feff}').trim();
        let known = COLUMNS.into_iter().find(|known| *known == name);
        if known.is_none() && !args.ignore.iter().any(|ignored| ignored == name) {
            let known = COLUMNS.join(", ");
            return Err(format!(
                "{}: column {name:?} is not known; units have {known} (--ignore passes a column over)",
                path.display()
            ));
        }
        if known.is_some() && columns.contains(&known) {
            return Err(format!("{}: column {name:?} is there twice", path.display()));
        }
        columns.push(known);
    }
    if !columns.contains(&Some("unit_id")) {
        return Err(format!("{}: there is no column unit_id, which every unit needs", path.display()));
    }
    Ok((reader, columns))
}

struct Import<'a> {
    args: &'a Args,
    sku: &'a str,
    caller: Caller,
    report: Report,
}

impl Import<'_> {
    /// Sees whether the server answers, and in a dry run whether its item would take units.
    async fn begin(&mut self) -> Result<(), Cut> {
        self.caller.say_hello().await?;
        if !self.args.dry_run {
            return Ok(());
        }
        match self.caller.send("GET", &item_path(self.sku, &self.args.location, ""), b"").await {
            Ok(raw) => {
                let item: Item = serde_json::from_slice(&raw.body)
                    .map_err(|error| Failed::Broken(format!("an item that can't be read: {error}")))?;
                if item.mode == COUNTED {
                    return Err(Cut::Counted);
                }
                eprintln!("stockhold: item {:?} has {} units", self.sku, item.total_units);
            }
            Err(Failed::Refused(problem)) if problem.reason == Reason::UnknownItem.name() => {
                eprintln!("stockhold: item {:?} is not there and would be made", self.sku);
            }
            Err(other) => return Err(other.into()),
        }
        Ok(())
    }

    async fn all(&mut self, mut reader: Input, columns: &[Option<&'static str>]) -> Result<(), Cut> {
        let mut record = ByteRecord::new();
        let mut together: Vec<(u64, Value)> = Vec::new();
        loop {
            let more = reader.read_byte_record(&mut record).map_err(|error| Cut::File(error.to_string()))?;
            if more {
                self.report.rows += 1;
                let line = record.position().map_or(0, csv::Position::line);
                match self.unit(&record, line, columns) {
                    Ok(unit) => together.push((line, unit)),
                    Err(bad) => self.bad(bad)?,
                }
            }
            if together.len() == TOGETHER || (!more && !together.is_empty()) {
                self.send(std::mem::take(&mut together)).await?;
            }
            if !more {
                self.report.finished = true;
                return Ok(());
            }
        }
    }

    /// One unit as the API takes it. What is valid is asked of the API's own decoder.
    fn unit(&self, record: &ByteRecord, line: u64, columns: &[Option<&'static str>]) -> Result<Value, Bad> {
        let bad = |column: &str, what: String| Bad { line, column: column.to_owned(), what };
        let mut unit = Map::new();
        for (field, column) in record.iter().zip(columns) {
            let Some(column) = *column else { continue };
            let text = std::str::from_utf8(field).map_err(|_| bad(column, "is not UTF-8".to_owned()))?;
            if text.is_empty() {
                continue;
            }
            let value = match column {
                "position" => json!(text.trim().parse::<u64>().map_err(|_| {
                    bad(column, format!("must be a whole number that is not negative, found {text:?}"))
                })?),
                "attributes" => serde_json::from_str(text)
                    .map_err(|error| bad(column, format!("must be a JSON object: {error}")))?,
                _ => json!(text),
            };
            unit.insert(column.to_owned(), value);
        }
        if record.len() > columns.len() {
            let what = format!("has {} fields, the first line names {}", record.len(), columns.len());
            return Err(bad("", what));
        }
        let unit = Value::Object(unit);
        let body = json!({ "units": [unit] }).to_string();
        match stockhold_api::decode::add_units(&encoded(self.sku), None, body.as_bytes()) {
            Ok(_) => Ok(unit),
            Err(invalid) => {
                let (pointer, detail) =
                    invalid.errors.first().map_or(("", String::new()), |e| (&*e.pointer, e.detail.clone()));
                Err(bad(first_segment(pointer.strip_prefix("/units/0").unwrap_or(pointer)), detail))
            }
        }
    }

    /// Sends units; one that the server does not take is told and left out, the others are sent again.
    async fn send(&mut self, mut units: Vec<(u64, Value)>) -> Result<(), Cut> {
        let path = item_path(self.sku, &self.args.location, "/units");
        while !units.is_empty() && !self.args.dry_run {
            let body = json!({ "units": units.iter().map(|(_, unit)| unit).collect::<Vec<_>>() });
            match self.caller.post::<UnitsAdded>(&path, &body).await {
                Ok(answer) => {
                    self.report.added += answer.body.added;
                    self.report.unchanged += answer.body.unchanged;
                    return Ok(());
                }
                Err(Failed::Refused(problem)) if problem.reason == Reason::UnknownItem.name() => {
                    let item = item_path(self.sku, &self.args.location, "");
                    let made = self.caller.send("PUT", &item, br#"{"mode":"units"}"#).await?;
                    eprintln!("stockhold: item {:?} is new (status {})", self.sku, made.status);
                }
                Err(Failed::Refused(problem)) => {
                    let error = problem.errors.first();
                    let number = error.and_then(|error| {
                        error.pointer.strip_prefix("/units/")?.split('/').next()?.parse().ok()
                    });
                    let (Some(error), Some(number)) = (error, number.filter(|number| *number < units.len()))
                    else {
                        return Err(Failed::Refused(problem).into());
                    };
                    let (line, _) = units.remove(number);
                    self.bad(Bad { line, column: "unit_id".to_owned(), what: error.detail.clone() })?;
                }
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    fn bad(&mut self, bad: Bad) -> Result<(), Cut> {
        eprintln!("{}:{bad}", self.args.file.display());
        self.report.bad += 1;
        if self.report.errors.len() < super::REPORTED {
            self.report.errors.push(bad);
        }
        if self.report.bad > self.args.max_errors { Err(Cut::TooManyErrors) } else { Ok(()) }
    }

    fn end(&self, url: &str, cut: Option<Cut>) -> ExitCode {
        let Report { rows, added, unchanged, bad, seconds, .. } = &self.report;
        if self.args.json {
            println!("{:#}", json!(self.report));
        } else if self.args.dry_run {
            println!(
                "{rows} rows: {bad} can't be used; nothing was changed, nor held against units that are there (--dry-run)"
            );
        } else {
            println!(
                "{rows} rows: {added} units added, {unchanged} there already, {bad} rows left out ({seconds:.2} s)"
            );
        }
        match cut {
            None if *bad > 0 => ExitCode::from(exit::PARTLY),
            None => ExitCode::from(exit::DONE),
            Some(Cut::TooManyErrors) => exit::because(
                exit::FAILED,
                format!("stopped: more than --max-errors {} rows are bad", self.args.max_errors),
            ),
            Some(Cut::File(why)) => {
                exit::because(exit::USAGE, format!("{}: {why}", self.args.file.display()))
            }
            Some(Cut::Counted) => exit::because(
                exit::FAILED,
                format!(
                    "{:?} at {:?} counts its units (mode counted), which have no ids: --units is for another item",
                    self.sku, self.args.location
                ),
            ),
            Some(Cut::Server(failed)) => exit::because(server::code(&failed), server::explain(url, &failed)),
        }
    }
}
