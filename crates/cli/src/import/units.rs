//! `stockhold import --units SKU`: imports units of one item from a CSV file, many in one request. Units that exist and are the same
//! stay unchanged, so that an interrupted run is simply given again.

use super::csv_records::{CsvRecords, input};
use super::prediction::PredictedUnits;
use super::row::{COUNTED, RowError, first_segment};
use super::strict_json::StrictJson;
use super::{ImportArgs, too_many};
use crate::client::{CallError, RetryClient, encoded, item_path};
use crate::plural::counted;
use crate::server;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use stockhold_api::problem::Reason;
use stockhold_api::wire::{Item, UnitsAdded};
use stockhold_config::exit;
use stockhold_domain::Label;

/// Units in one request.
pub(super) const UNITS_PER_REQUEST: usize = 1_000;
/// Columns of a file. The first one is required.
const COLUMNS: [&str; 7] = ["unit_id", "section", "row", "number", "position", "attributes", POOL];
/// The column of the pool that a unit is put into.
const POOL: &str = "pool";
/// Columns of an export that are ignored: the status of a unit.
const EXPORTED: [&str; 3] = ["status", "reservation_id", "version"];

/// The report of an import of units. Field names are part of the interface.
#[derive(Debug, Default, Serialize)]
struct UnitsReport {
    file: String,
    dry_run: bool,
    finished: bool,
    rows: u64,
    added: u64,
    unchanged: u64,
    /// Units that are in the pools that their rows name.
    pooled: u64,
    bad: u64,
    seconds: f64,
    errors: Vec<RowError>,
}

/// Why it stopped before the end of its file.
enum UnitsStopReason {
    TooManyErrors,
    File(String),
    Server(CallError),
    /// The item counts its units.
    Counted,
}

impl From<CallError> for UnitsStopReason {
    fn from(failed: CallError) -> Self {
        Self::Server(failed)
    }
}

/// Imports and reports. The exit code says whether every unit is imported.
pub(super) fn run(args: &ImportArgs, sku: &str) -> ExitCode {
    let prepared = check(args, sku).and_then(|()| args.server.url()).and_then(|url| Ok((open(args)?, url)));
    let (records, url) = match prepared {
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
    let report = UnitsReport { file, dry_run: args.dry_run, ..UnitsReport::default() };
    let mut import = UnitsImport { args, sku, caller, report, predicted: PredictedUnits::default() };
    server::block_on(async {
        let begun = Instant::now();
        let cut = match import.begin().await {
            Ok(()) => import.all(records).await.err(),
            Err(cut) => Some(cut),
        };
        import.report.seconds = begun.elapsed().as_secs_f64();
        import.end(&url, cut)
    })
}

fn check(args: &ImportArgs, sku: &str) -> Result<(), String> {
    Label::check(sku).map_err(|why| format!("--units {sku:?} {why}"))?;
    Label::check(&args.location).map_err(|why| format!("--location {:?} {why}", args.location))?;
    if args.format.is_none_or(|format| format.name() == "csv") {
        return Ok(());
    }
    Err("--units takes a CSV file with the columns unit_id, section, row, number, position, attributes and pool; --format jsonl is \
         for items"
        .to_owned())
}

/// A column, or none if it is ignored.
type UnitColumn = Option<&'static str>;

/// Opens the file and reads its columns.
fn open(args: &ImportArgs) -> Result<CsvRecords<UnitColumn>, String> {
    let records = input(&args.file).and_then(|input| {
        CsvRecords::open(input, Rc::default(), args.csv_form(), |names| columns(names, args))
    });
    records.map_err(|why| format!("{}: {why}", args.file.display()))
}

fn columns(names: &[String], args: &ImportArgs) -> Result<Vec<UnitColumn>, String> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let known = COLUMNS.into_iter().find(|known| known == name);
        if known.is_none() && !EXPORTED.contains(&name.as_str()) && !args.ignore.contains(name) {
            let known = COLUMNS.join(", ");
            return Err(format!(
                "column {name:?} is not known; units have {known} (--ignore ignores a column)"
            ));
        }
        if known.is_some() && columns.contains(&known) {
            return Err(format!("column {name:?} is given twice"));
        }
        columns.push(known);
    }
    if !columns.contains(&Some("unit_id")) {
        return Err("there is no column unit_id, which every unit needs".to_owned());
    }
    Ok(columns)
}

/// A unit while its fields are read.
struct UnitBuilder {
    line: u64,
    unit: Map<String, Value>,
    pool: Option<String>,
}

/// A unit as the API takes it, and where it comes from and goes.
struct UnitRow {
    line: u64,
    unit: Value,
    pool: Option<String>,
}

impl UnitRow {
    fn id(&self) -> &str {
        self.unit["unit_id"].as_str().unwrap_or_default()
    }
}

impl UnitBuilder {
    fn new(line: u64) -> Self {
        Self { line, unit: Map::new(), pool: None }
    }

    /// Adds one field. An empty field counts as missing.
    fn put(&mut self, column: UnitColumn, text: &str) -> Result<(), String> {
        let Some(column) = column.filter(|_| !text.is_empty()) else { return Ok(()) };
        if column == POOL {
            Label::check(text).map_err(|why| format!("{text:?} {why}"))?;
            self.pool = Some(text.to_owned());
            return Ok(());
        }
        let value =
            match column {
                "position" => json!(text.trim().parse::<u64>().map_err(|_| {
                    format!("must be a whole number that is not negative, found {text:?}")
                })?),
                "attributes" => {
                    let read = serde_json::from_str(text).map(|StrictJson(value)| value);
                    read.map_err(|error| format!("must be a JSON object: {error}"))?
                }
                _ => json!(text),
            };
        self.unit.insert(column.to_owned(), value);
        Ok(())
    }

    /// The unit as the API takes it. The API's own decoder checks it.
    fn unit(self, sku: &str) -> Result<UnitRow, RowError> {
        let unit = Value::Object(self.unit);
        let body = json!({ "units": [unit] }).to_string();
        match stockhold_api::decode::add_units(&encoded(sku), None, body.as_bytes()) {
            Ok(_) => Ok(UnitRow { line: self.line, unit, pool: self.pool }),
            Err(invalid) => {
                let (pointer, what) =
                    invalid.errors.first().map_or(("", String::new()), |e| (&*e.pointer, e.detail.clone()));
                let column = first_segment(pointer.strip_prefix("/units/0").unwrap_or(pointer)).to_owned();
                Err(RowError { line: self.line, column, what })
            }
        }
    }
}

/// Why reading units stopped.
#[derive(PartialEq, Eq)]
enum ChunkEnd {
    /// The request is full.
    Full,
    /// The file has ended.
    EndOfFile,
}

struct UnitsImport<'a> {
    args: &'a ImportArgs,
    sku: &'a str,
    caller: RetryClient,
    report: UnitsReport,
    /// What a dry run would have added so far.
    predicted: PredictedUnits,
}

impl UnitsImport<'_> {
    /// Checks that the server answers, and in a dry run that the item takes units.
    async fn begin(&mut self) -> Result<(), UnitsStopReason> {
        self.caller.check_reachable().await?;
        if !self.args.dry_run {
            return Ok(());
        }
        match self.caller.send("GET", &item_path(self.sku, &self.args.location, ""), b"").await {
            Ok(raw) => {
                let item: Item = serde_json::from_slice(&raw.body)
                    .map_err(|error| CallError::Unexpected(format!("an item that can't be read: {error}")))?;
                if item.mode == COUNTED {
                    return Err(UnitsStopReason::Counted);
                }
                let units = counted(item.total_units, "unit", "units");
                eprintln!("stockhold: item {:?} has {units}", self.sku);
            }
            Err(CallError::Refused(problem)) if problem.reason == Reason::UnknownItem.name() => {
                eprintln!("stockhold: item {:?} does not exist and would be created", self.sku);
            }
            Err(other) => return Err(other.into()),
        }
        Ok(())
    }

    async fn all(&mut self, mut records: CsvRecords<UnitColumn>) -> Result<(), UnitsStopReason> {
        while !self.report.finished {
            let mut chunk = Vec::new();
            let read = self.read(&mut records, &mut chunk);
            // The rows before a row that ends the import are imported.
            self.send(chunk).await?;
            self.report.finished = read? == ChunkEnd::EndOfFile;
        }
        Ok(())
    }

    /// Reads units for one request.
    fn read(
        &mut self,
        records: &mut CsvRecords<UnitColumn>,
        chunk: &mut Vec<UnitRow>,
    ) -> Result<ChunkEnd, UnitsStopReason> {
        while chunk.len() < UNITS_PER_REQUEST {
            let draft = records.next(UnitBuilder::new, |draft, column, text| draft.put(*column, text));
            let Some(draft) = draft.map_err(UnitsStopReason::File)? else { return Ok(ChunkEnd::EndOfFile) };
            self.report.rows += 1;
            match draft.and_then(|draft| draft.unit(self.sku)) {
                Ok(row) => match self.predict(row.line, &row.unit) {
                    Ok(()) => chunk.push(row),
                    Err(bad) => self.bad(bad)?,
                },
                Err(bad) => self.bad(bad)?,
            }
        }
        Ok(ChunkEnd::Full)
    }

    /// In a dry run, checks a unit against the units before it in the file.
    fn predict(&mut self, line: u64, unit: &Value) -> Result<(), RowError> {
        if !self.args.dry_run {
            return Ok(());
        }
        let taken = self.predicted.take(line, unit);
        taken.map_err(|what| RowError { line, column: "unit_id".to_owned(), what })
    }

    /// Sends units. A unit that the server refuses is reported and left out, and the others are sent again.
    async fn send(&mut self, mut units: Vec<UnitRow>) -> Result<(), UnitsStopReason> {
        let path = item_path(self.sku, &self.args.location, "/units");
        while !units.is_empty() && !self.args.dry_run {
            let body = json!({ "units": units.iter().map(|row| &row.unit).collect::<Vec<_>>() });
            match self.caller.post::<UnitsAdded>(&path, &body).await {
                Ok(answer) => {
                    self.report.added += answer.body.added;
                    self.report.unchanged += answer.body.unchanged;
                    return self.put_into_pools(units).await;
                }
                Err(CallError::Refused(problem)) if problem.reason == Reason::UnknownItem.name() => {
                    let item = item_path(self.sku, &self.args.location, "");
                    let made = self.caller.send("PUT", &item, br#"{"mode":"units"}"#).await?;
                    eprintln!("stockhold: item {:?} is new (status {})", self.sku, made.status);
                }
                Err(CallError::Refused(problem)) => {
                    let error = problem.errors.first();
                    let number = error.and_then(|error| {
                        error.pointer.strip_prefix("/units/")?.split('/').next()?.parse().ok()
                    });
                    let (Some(error), Some(number)) = (error, number.filter(|number| *number < units.len()))
                    else {
                        return Err(CallError::Refused(problem).into());
                    };
                    let UnitRow { line, .. } = units.remove(number);
                    self.bad(RowError { line, column: "unit_id".to_owned(), what: error.detail.clone() })?;
                }
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    /// Puts units into the pools that their rows name. A unit that can't change its pool is reported, and the others are sent again.
    async fn put_into_pools(&mut self, units: Vec<UnitRow>) -> Result<(), UnitsStopReason> {
        let mut pools: BTreeMap<String, Vec<UnitRow>> = BTreeMap::new();
        for mut row in units {
            if let Some(pool) = row.pool.take() {
                pools.entry(pool).or_default().push(row);
            }
        }
        for (pool, mut units) in pools {
            let path = item_path(self.sku, &self.args.location, &format!("/pools/{}/units", encoded(&pool)));
            while !units.is_empty() {
                let body = json!({ "units": units.iter().map(UnitRow::id).collect::<Vec<_>>() });
                let problem = match self.caller.send("PUT", &path, body.to_string().as_bytes()).await {
                    Ok(_) => {
                        self.report.pooled += units.len() as u64;
                        break;
                    }
                    Err(CallError::Refused(problem)) if matches!(problem.status, 404 | 409) => problem,
                    Err(other) => return Err(other.into()),
                };
                let named = problem.more.get("unit_id").and_then(Value::as_str);
                // A refusal that names no unit is about the pool.
                let refused = match units.iter().position(|row| named == Some(row.id())) {
                    Some(place) => vec![units.remove(place)],
                    None => std::mem::take(&mut units),
                };
                for UnitRow { line, .. } in refused {
                    let what = format!("{}: {}", problem.reason, problem.detail);
                    self.bad(RowError { line, column: POOL.to_owned(), what })?;
                }
            }
        }
        Ok(())
    }

    fn bad(&mut self, bad: RowError) -> Result<(), UnitsStopReason> {
        eprintln!("{}:{bad}", self.args.file.display());
        self.report.bad += 1;
        if self.report.errors.len() < super::REPORTED {
            self.report.errors.push(bad);
        }
        if self.report.bad > self.args.max_errors { Err(UnitsStopReason::TooManyErrors) } else { Ok(()) }
    }

    fn end(&self, url: &str, cut: Option<UnitsStopReason>) -> ExitCode {
        let UnitsReport { rows, added, unchanged, pooled, bad, seconds, .. } = &self.report;
        if self.args.json {
            println!("{:#}", json!(self.report));
        } else {
            let rows = counted(*rows, "row", "rows");
            if self.args.dry_run {
                println!(
                    "{rows}: {bad} can't be used; nothing was changed, and existing units were not checked (--dry-run)"
                );
            } else {
                println!(
                    "{rows}: {} added, {unchanged} unchanged, {pooled} in pools, {} left out ({seconds:.2} s)",
                    counted(*added, "unit", "units"),
                    counted(*bad, "row", "rows")
                );
            }
        }
        match cut {
            None if *bad > 0 => ExitCode::from(exit::PARTLY),
            None => ExitCode::from(exit::DONE),
            Some(UnitsStopReason::TooManyErrors) => {
                exit::because(exit::FAILED, too_many(self.args.max_errors))
            }
            Some(UnitsStopReason::File(why)) => {
                let rest = if self.args.dry_run {
                    "Nothing was changed."
                } else {
                    "Everything before that line is imported."
                };
                exit::because(exit::USAGE, format!("{}: {why}\n{rest}", self.args.file.display()))
            }
            Some(UnitsStopReason::Counted) => exit::because(
                exit::FAILED,
                format!(
                    "{:?} at {:?} counts its units (mode counted), which have no ids: --units needs an item of mode units",
                    self.sku, self.args.location
                ),
            ),
            Some(UnitsStopReason::Server(failed)) => {
                exit::because(server::exit_code(&failed), server::explain(url, &failed))
            }
        }
    }
}
