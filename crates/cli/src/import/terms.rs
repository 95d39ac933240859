//! `stockhold import --pools` and `--limits`: pools and limits from JSON lines, in the form in which `export` writes them. Each row
//! replaces one pool or one limit, so that an interrupted run is simply given again.

use super::apply::{StockMeaning, is_about_the_row};
use super::csv_records::input;
use super::json_lines::JsonLines;
use super::row::{RowError, UNITS, first_segment};
use super::source::FileFormat;
use super::{ImportArgs, StopReason};
use crate::client::{CallError, RetryClient, encoded, item_path};
use crate::plural::counted;
use crate::server;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use stockhold_api::decode::Invalid;
use stockhold_api::problem::Reason;
use stockhold_api::wire::Problem;
use stockhold_config::exit;
use stockhold_domain::Label;

/// Fields of an exported pool that are not part of its request.
const POOL_FIGURES: [&str; 8] = ["sku", "location", "mode", "pool", "held", "sold", "free", "released_at"];
/// Fields of an exported limit that are not part of its request.
const LIMIT_FIGURES: [&str; 3] = ["limit_id", "generation", "version"];

/// The report of an import of pools or limits. Field names are part of the interface.
#[derive(Debug, Default, Serialize)]
struct TermsReport {
    file: String,
    dry_run: bool,
    finished: bool,
    rows: u64,
    created: u64,
    updated: u64,
    /// Pools that were released or deleted where they come from.
    released: u64,
    bad: u64,
    seconds: f64,
    errors: Vec<RowError>,
}

/// One request: what a row sets.
#[derive(Debug, PartialEq)]
struct TermsRow {
    line: u64,
    path: String,
    body: String,
}

/// Imports and reports. The exit code says whether every row is imported.
pub(super) fn run(args: &ImportArgs) -> ExitCode {
    let prepared = check(args).and_then(|()| args.server.url()).and_then(|url| {
        let input = input(&args.file).map_err(|why| format!("{}: {why}", args.file.display()))?;
        Ok((JsonLines::open(input, Rc::default()), url))
    });
    let (lines, url) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return exit::because(exit::USAGE, why),
    };
    let say = |what: &str| eprintln!("stockhold: {what}");
    let caller = match RetryClient::new(
        &url,
        args.server.plain_http,
        Duration::from_secs(args.patience),
        Box::new(say),
    ) {
        Ok(caller) => caller,
        Err(why) => return exit::because(exit::USAGE, why),
    };
    let file = args.file.display().to_string();
    let report = TermsReport { file, dry_run: args.dry_run, ..TermsReport::default() };
    let mut import = TermsImport { args, caller, report };
    server::block_on(async {
        let begun = Instant::now();
        let cut = import.all(lines).await.err();
        import.report.seconds = begun.elapsed().as_secs_f64();
        import.report.finished = cut.is_none();
        import.end(&url, cut)
    })
}

fn check(args: &ImportArgs) -> Result<(), String> {
    Label::check(&args.location).map_err(|why| format!("--location {:?} {why}", args.location))?;
    match args.format.or_else(|| FileFormat::of(&args.file)) {
        Some(FileFormat::Csv) => {
            Err("--pools and --limits take JSON lines: use `export` without --format csv".to_owned())
        }
        Some(FileFormat::Jsonl) | None => Ok(()),
    }
}

struct TermsImport<'a> {
    args: &'a ImportArgs,
    caller: RetryClient,
    report: TermsReport,
}

impl TermsImport<'_> {
    async fn all(&mut self, mut lines: JsonLines) -> Result<(), StopReason> {
        self.caller.check_reachable().await.map_err(StopReason::Server)?;
        while let Some(row) = lines.next().map_err(StopReason::File)? {
            self.report.rows += 1;
            let row = row.and_then(|(line, object)| {
                if self.args.limits { self.limit(line, object).map(Some) } else { self.pool(line, object) }
            });
            match row {
                Ok(Some(row)) => self.send(&row).await?,
                Ok(None) => self.report.released += 1,
                Err(bad) => self.bad(bad)?,
            }
        }
        Ok(())
    }

    /// The request of a pool. A pool that was released has nothing that could be set aside.
    fn pool(&self, line: u64, mut object: Map<String, Value>) -> Result<Option<TermsRow>, RowError> {
        let sku = name(line, &object, "sku", None)?;
        let location = name(line, &object, "location", Some(&self.args.location))?;
        let pool = name(line, &object, "pool", None)?;
        if object.get("released_at").is_some_and(|at| !at.is_null()) {
            return Ok(None);
        }
        // Where units have ids, the units name their pool.
        if object.get("mode").is_some_and(|mode| mode == UNITS) {
            object.remove("allocated");
        } else if self.args.stock == StockMeaning::Unsold {
            let sold = object.get("sold").and_then(Value::as_u64).unwrap_or(0);
            let bad = |what: String| RowError { line, column: "allocated".to_owned(), what };
            if let Some(allocated) = object.get("allocated").and_then(Value::as_u64) {
                let unsold = allocated.checked_sub(sold).ok_or_else(|| {
                    bad(format!("is {allocated}, and sold is {sold}, which is more: one of the two is wrong"))
                })?;
                object.insert("allocated".to_owned(), unsold.into());
            }
        }
        let body = self.body(object, &POOL_FIGURES);
        let query = format!("location={}", encoded(&location));
        let valid = stockhold_api::decode::set_pool(
            &encoded(&sku),
            &encoded(&pool),
            Some(&query),
            None,
            body.as_bytes(),
        );
        valid.map_err(|invalid| invalid_row(line, &invalid))?;
        let path = item_path(&sku, &location, &format!("/pools/{}", encoded(&pool)));
        Ok(Some(TermsRow { line, path, body }))
    }

    fn limit(&self, line: u64, object: Map<String, Value>) -> Result<TermsRow, RowError> {
        let id = name(line, &object, "limit_id", None)?;
        let body = self.body(object, &LIMIT_FIGURES);
        let valid = stockhold_api::decode::set_limit(&encoded(&id), None, None, body.as_bytes());
        valid.map_err(|invalid| invalid_row(line, &invalid))?;
        Ok(TermsRow { line, path: format!("/v1/limits/{}", encoded(&id)), body })
    }

    /// The request's body: the fields of the row without those that the server computes. `null` counts as missing.
    fn body(&self, mut object: Map<String, Value>, figures: &[&str]) -> String {
        object.retain(|field, value| {
            !value.is_null() && !figures.contains(&&**field) && !self.args.ignore.contains(field)
        });
        Value::Object(object).to_string()
    }

    async fn send(&mut self, row: &TermsRow) -> Result<(), StopReason> {
        if self.args.dry_run {
            return Ok(());
        }
        match self.caller.send("PUT", &row.path, row.body.as_bytes()).await {
            Ok(raw) if raw.status == 201 => self.report.created += 1,
            Ok(_) => self.report.updated += 1,
            Err(CallError::Refused(problem)) if is_about_the_row(&problem) || problem.status == 404 => {
                self.bad(refused(row.line, &problem))?;
            }
            Err(other) => return Err(StopReason::Server(other)),
        }
        Ok(())
    }

    fn bad(&mut self, bad: RowError) -> Result<(), StopReason> {
        eprintln!("{}:{bad}", self.args.file.display());
        self.report.bad += 1;
        if self.report.errors.len() < super::REPORTED {
            self.report.errors.push(bad);
        }
        if self.report.bad > self.args.max_errors { Err(StopReason::TooManyErrors) } else { Ok(()) }
    }

    fn end(&self, url: &str, cut: Option<StopReason>) -> ExitCode {
        let TermsReport { rows, created, updated, released, bad, seconds, .. } = &self.report;
        if self.args.json {
            println!("{:#}", json!(self.report));
        } else if self.args.dry_run {
            println!(
                "{}: {bad} can't be used; nothing was changed (--dry-run)",
                counted(*rows, "row", "rows")
            );
        } else {
            println!(
                "{}: {created} created, {updated} set, {released} had been released, {} left out ({seconds:.2} s)",
                counted(*rows, "row", "rows"),
                counted(*bad, "row", "rows")
            );
        }
        let Some(cut) = cut else {
            return ExitCode::from(if *bad > 0 { exit::PARTLY } else { exit::DONE });
        };
        let (code, why) = cut.explain(self.args, url);
        exit::because(code, why)
    }
}

/// A name in a row, which becomes a part of the path.
fn name(
    line: u64,
    object: &Map<String, Value>,
    field: &str,
    default: Option<&str>,
) -> Result<String, RowError> {
    let bad = |what: String| RowError { line, column: field.to_owned(), what };
    let text = match (object.get(field), default) {
        (Some(Value::String(text)), _) => text,
        (None | Some(Value::Null), Some(default)) => default,
        (None | Some(Value::Null), None) => return Err(bad("is missing; every row needs it".to_owned())),
        (Some(other), _) => return Err(bad(format!("must be a text, found {other}"))),
    };
    Label::check(text).map_err(|why| bad(format!("{text:?} {why}")))?;
    Ok(text.to_owned())
}

fn invalid_row(line: u64, invalid: &Invalid) -> RowError {
    let (pointer, what) =
        invalid.errors.first().map_or(("", String::new()), |error| (&*error.pointer, error.detail.clone()));
    RowError { line, column: first_segment(pointer).to_owned(), what }
}

/// The error of a row that the server refused, at the field that it is about.
fn refused(line: u64, problem: &Problem) -> RowError {
    let (column, detail) = match problem.errors.first() {
        Some(error) => (first_segment(&error.pointer), &error.detail),
        None if problem.reason == Reason::UnknownItem.name() => ("sku", &problem.detail),
        None if problem.reason == Reason::BelowCommitted.name() => ("allocated", &problem.detail),
        None if problem.reason == Reason::TooManyPools.name() => ("pool", &problem.detail),
        None => ("", &problem.detail),
    };
    RowError { line, column: column.to_owned(), what: format!("{}: {detail}", problem.reason) }
}
