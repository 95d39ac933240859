//! `stockhold import`: items, units, pools and limits from a file into a running server, through its API.
//!
//! Memory holds only the rows whose requests are not answered yet, so that it does not grow with the file. Two rows of one item are
//! applied in their order; rows of different items in any order.

mod apply;
mod csv_records;
mod json_lines;
mod prediction;
mod report;
mod row;
mod source;
mod state;
mod strict_json;
mod terms;
mod units;

pub(super) use source::FileFormat;

use super::client::{CallError, RetryClient};
use super::plural::counted;
use super::server::{self, ServerArgs};
use apply::{ApplyOptions, ExistingItems, RowOutcome, StockMeaning};
use clap::Args;
use csv_records::CsvForm;
use indicatif::{ProgressBar, ProgressStyle};
use report::{ImportReport, per_second};
use row::{ItemField, ItemRow, RowError};
use source::{ItemSource, ReadOptions};
use state::{ImportCounts, ImportState};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use stockhold_config::exit;
use stockhold_domain::Label;
use tokio::task::{JoinError, JoinSet};

/// Rows in one request, if rows can be sent together.
const ROWS_PER_REQUEST: usize = 1_000;
/// Bytes of settings in one request: rows with metadata stay far below what the server takes.
const REQUEST_BYTES: usize = 2 << 20;
/// Most requests with many rows at once: more would only wait in the server's queue.
const MOST_BATCHES: usize = 4;
/// Most requests at once.
const MOST_CONNECTIONS: usize = 256;
/// How often the state is written.
const STATE_SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// Bad rows that the report repeats.
const REPORTED: usize = 1_000;
/// The flags of files whose rows are not items.
const OTHER_ROWS: [&str; 3] = ["units", "pools", "limits"];

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct ImportArgs {
    /// File of items, units, pools or limits; - for standard input
    file: PathBuf,
    #[command(flatten)]
    server: ServerArgs,
    /// The rows are units of this item: unit_id, section, row, number, position, attributes (a JSON object) and pool
    #[arg(long, value_name = "SKU")]
    units: Option<String>,
    /// The rows are pools of items, as `export pools` writes them: JSON lines
    #[arg(long, conflicts_with = "units")]
    pools: bool,
    /// The rows are limits, as `export limits` writes them: JSON lines
    #[arg(long, conflicts_with_all = ["units", "pools", "stock"])]
    limits: bool,
    /// Format of the file [default: by its name: .csv, .jsonl or .ndjson]
    #[arg(long)]
    format: Option<FileFormat>,
    /// Separator of CSV fields: one character, or \t
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    /// Take the ' off CSV cells that `export --spreadsheet-safe` has put in front of = + - @ ' tab and return
    #[arg(long)]
    spreadsheet_safe: bool,
    /// The column of a field, like total_units=Qty. Repeat it for more fields
    #[arg(long, value_name = "FIELD=NAME", value_parser = renaming, conflicts_with_all = OTHER_ROWS)]
    column: Vec<(ItemField, String)>,
    /// A column to ignore. Repeat it for more columns
    #[arg(long, value_name = "NAME")]
    ignore: Vec<String>,
    /// Location of items whose rows don't name one
    #[arg(long, default_value = Label::DEFAULT_LOCATION)]
    location: String,
    /// What total_units counts. total: units that exist, including sold ones. unsold: units that are not sold; units that are
    /// sold here are added, and confirmed_sold of the row is subtracted. With --pools, it says what allocated counts: with unsold,
    /// sold of the row is subtracted
    #[arg(long, default_value = "total", conflicts_with = "units")]
    stock: StockMeaning,
    /// What to do with existing items. update: set what the row names. keep: leave them unchanged
    #[arg(long, default_value = "update", conflicts_with_all = OTHER_ROWS)]
    existing: ExistingItems,
    /// Set totals also of items whose total an external system owns (stock_master)
    #[arg(long = "override", conflicts_with_all = OTHER_ROWS)]
    override_owner: bool,
    /// Change nothing: check every row, and report what would happen
    #[arg(long)]
    dry_run: bool,
    /// Stop after more than this many bad rows
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_errors: u64,
    /// Begin with this line of the file
    #[arg(long, value_name = "LINE", conflicts_with_all = ["restart", "units", "pools", "limits"])]
    from_line: Option<u64>,
    /// Begin with the first row, even if an earlier run was interrupted
    #[arg(long)]
    restart: bool,
    /// File for the progress [default: FILE.stockhold-import]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_state", "units", "pools", "limits"])]
    state: Option<PathBuf>,
    /// Keep no progress: an interrupted run begins with the first row again
    #[arg(long)]
    no_state: bool,
    /// Requests at once
    #[arg(long, value_name = "N", default_value_t = 32, conflicts_with_all = OTHER_ROWS)]
    connections: usize,
    /// How long to wait for a server that does not answer
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("must be one ASCII character, or \\t for a tab".to_owned()),
    }
}

fn renaming(text: &str) -> Result<(ItemField, String), String> {
    let known = || format!("must be FIELD=NAME, with one of {} as FIELD", ItemField::SETTABLE);
    let (field, name) = text.split_once('=').ok_or_else(known)?;
    let field = ItemField::named(field).filter(|field| *field != ItemField::Ignored).ok_or_else(known)?;
    Ok((field, name.to_owned()))
}

/// Why an import stopped before the end of its file.
enum StopReason {
    TooManyErrors,
    Interrupted,
    File(String),
    Server(CallError),
}

impl StopReason {
    /// The exit code, and what it says.
    fn explain(&self, args: &ImportArgs, url: &str) -> (u8, String) {
        match self {
            Self::TooManyErrors => (exit::FAILED, too_many(args.max_errors)),
            Self::Interrupted => (exit::FAILED, "stopped by an interrupt".to_owned()),
            Self::File(why) => (exit::USAGE, format!("{}: {why}", args.file.display())),
            Self::Server(failed) => (server::exit_code(failed), server::explain(url, failed)),
        }
    }
}

/// Imports and reports. The exit code says whether every row is imported.
pub(super) fn run(args: &ImportArgs) -> ExitCode {
    if let Some(sku) = &args.units {
        return units::run(args, sku);
    }
    if args.pools || args.limits {
        return terms::run(args);
    }
    let prepared = args.check().and_then(|format| Ok((format, args.server.url()?)));
    let (format, url) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return exit::because(exit::USAGE, why),
    };
    let reading = ReadOptions {
        format,
        csv: args.csv_form(),
        location: &args.location,
        renamed: &args.column,
        ignored: &args.ignore,
        override_owner: args.override_owner,
    };
    let source = match ItemSource::open(&args.file, &reading) {
        Ok(source) => source,
        Err(why) => return exit::because(exit::USAGE, format!("{}: {why}", args.file.display())),
    };
    let (place, state) = match args.state(&url, format) {
        Ok(state) => state,
        Err(why) => return exit::because(exit::USAGE, why),
    };
    let bar = args.bar();
    let notices = bar.clone();
    let say = move |what: &str| notices.suspend(|| eprintln!("stockhold: {what}"));
    let caller = match RetryClient::new(
        &url,
        args.server.plain_http,
        Duration::from_secs(args.patience),
        Box::new(say),
    ) {
        Ok(caller) => Rc::new(caller),
        Err(why) => return exit::because(exit::USAGE, why),
    };
    let mut import = ItemImport {
        args,
        caller,
        rules: ApplyOptions { stock: args.stock, existing: args.existing, dry_run: args.dry_run },
        bar,
        place,
        resumed: state.line,
        bad: state.counts.bad,
        before: state.counts.rows(),
        state,
        under_way: BTreeSet::new(),
        ahead: BTreeMap::new(),
        items: HashSet::new(),
        running: JoinSet::new(),
        batch: Vec::new(),
        batch_bytes: 0,
        errors: Vec::new(),
        paused: 0,
        blank_ended: 0,
        predicted: prediction::PredictedItems::default(),
    };
    server::block_on(async {
        let begun = Instant::now();
        let cut = match import.caller.check_reachable().await {
            Ok(()) => match import.all(source).await.err() {
                // The server can't decide on any more rows.
                cut @ (None | Some(StopReason::Server(_))) => cut,
                Some(cut) => {
                    import.finish_requests().await;
                    Some(cut)
                }
            },
            Err(failed) => Some(StopReason::Server(failed)),
        };
        import.end(&url, cut, begun.elapsed())
    })
}

impl ImportArgs {
    fn csv_form(&self) -> CsvForm {
        CsvForm { delimiter: self.delimiter, is_spreadsheet_safe: self.spreadsheet_safe }
    }

    fn check(&self) -> Result<FileFormat, String> {
        if !(1..=MOST_CONNECTIONS).contains(&self.connections) {
            return Err(format!("--connections {}: must be 1 to {MOST_CONNECTIONS}", self.connections));
        }
        Label::check(&self.location).map_err(|why| format!("--location {:?} {why}", self.location))?;
        let known = self.format.or_else(|| FileFormat::of(&self.file));
        known.ok_or_else(|| format!("{}: add --format csv or --format jsonl", self.file.display()))
    }

    /// Where to continue, and the file for the progress.
    fn state(&self, url: &str, format: FileFormat) -> Result<(Option<PathBuf>, ImportState), String> {
        let shape = format!(
            "{url} {} {:?} {:?} {:?} {:?} {:?} {:?}",
            format.name(),
            (self.delimiter, self.spreadsheet_safe),
            self.column,
            self.ignore,
            self.location,
            self.stock,
            self.existing
        );
        let stdin = self.file.as_os_str() == "-";
        let fresh =
            |digest| ImportState { digest, import: shape.clone(), line: 0, counts: ImportCounts::default() };
        let from_line = |mut state: ImportState| {
            state.line = self.from_line.unwrap_or(1).saturating_sub(1);
            state
        };
        if self.no_state || self.dry_run || (stdin && self.state.is_none()) {
            return Ok((None, from_line(fresh(String::new()))));
        }
        let place = self.state.clone().unwrap_or_else(|| state::place(&self.file));
        let digest = if stdin { Ok("standard input".to_owned()) } else { state::digest(&self.file) };
        let digest = digest.map_err(|error| format!("{}: {error}", self.file.display()))?;
        let fresh = fresh(digest);
        let earlier =
            if self.restart || self.from_line.is_some() { None } else { ImportState::read(&place)? };
        let state = match earlier {
            Some(earlier) if earlier.line == 0 => fresh,
            Some(earlier) if earlier.digest == fresh.digest && earlier.import == fresh.import => {
                eprintln!("stockhold: continuing after line {}, where an earlier run stopped", earlier.line);
                earlier
            }
            Some(_) => {
                eprintln!(
                    "stockhold: an earlier run had another content, another server or other options: beginning with \
                     the first row"
                );
                fresh
            }
            None => from_line(fresh),
        };
        // A place that can't be written should fail now, and not after a million rows.
        state.write(&place)?;
        Ok((Some(place), state))
    }

    fn bar(&self) -> ProgressBar {
        let length = std::fs::metadata(&self.file).map(|facts| facts.len()).unwrap_or_default();
        let bar = if length > 0 { ProgressBar::new(length) } else { ProgressBar::new_spinner() };
        let style = "{wide_bar} {bytes}/{total_bytes} {msg} {eta}";
        if length > 0
            && let Ok(style) = ProgressStyle::with_template(style)
        {
            bar.set_style(style);
        }
        bar
    }
}

/// The rows of one request with their outcomes.
type RowResults = Result<Vec<(ItemRow, RowOutcome)>, CallError>;

/// A running import.
struct ItemImport<'a> {
    args: &'a ImportArgs,
    caller: Rc<RetryClient>,
    rules: ApplyOptions,
    bar: ProgressBar,
    place: Option<PathBuf>,
    state: ImportState,
    /// The last line of an earlier run.
    resumed: u64,
    /// Rows that an earlier run had decided.
    before: u64,
    /// Bad rows so far.
    bad: u64,
    /// Lines without an answer.
    under_way: BTreeSet<u64>,
    /// Outcomes of lines after a line without an answer.
    ahead: BTreeMap<u64, fn(&mut ImportCounts) -> &mut u64>,
    /// Items of the lines without an answer: another row of such an item has to wait.
    items: HashSet<(String, String)>,
    running: JoinSet<RowResults>,
    /// Rows that wait to be sent in one request.
    batch: Vec<ItemRow>,
    batch_bytes: usize,
    errors: Vec<RowError>,
    paused: u64,
    blank_ended: u64,
    /// What the rows so far would have made of their items, in a dry run.
    predicted: prediction::PredictedItems,
}

impl ItemImport<'_> {
    async fn all(&mut self, mut source: ItemSource<'_>) -> Result<(), StopReason> {
        let mut noted = Instant::now();
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            let row = match source.next().map_err(StopReason::File)? {
                None => break,
                Some(Ok(row)) => Ok(row),
                Some(Err(bad)) => Err(bad),
            };
            let line = row.as_ref().map_or_else(|bad| bad.line, |row| row.line);
            if line <= self.resumed {
                continue;
            }
            match row {
                Err(bad) => self.bad(bad)?,
                Ok(row) => {
                    let item = (row.location.clone(), row.sku.clone());
                    if self.items.contains(&item) {
                        self.send_batch();
                    }
                    while self.running.len() >= self.most_requests() || self.items.contains(&item) {
                        tokio::select! {
                            answer = self.running.join_next() => self.answered(answer)?,
                            _ = &mut interrupt => return Err(StopReason::Interrupted),
                        }
                    }
                    self.items.insert(item);
                    self.under_way.insert(line);
                    self.paused += u64::from(row.paused);
                    self.blank_ended += u64::from(row.sku.trim() != row.sku);
                    if self.rules.can_batch() {
                        self.batch_bytes += row.bytes;
                        self.batch.push(row);
                        if self.batch.len() >= ROWS_PER_REQUEST || self.batch_bytes >= REQUEST_BYTES {
                            self.send_batch();
                            // The request leaves before the next rows are read.
                            tokio::task::yield_now().await;
                        }
                    } else {
                        self.send_row(row);
                    }
                }
            }
            if noted.elapsed() >= STATE_SAVE_INTERVAL {
                noted = Instant::now();
                self.note();
            }
            self.bar.set_position(source.bytes());
        }
        self.send_batch();
        while !self.running.is_empty() {
            let answer = self.running.join_next().await;
            self.answered(answer)?;
        }
        Ok(())
    }

    fn most_requests(&self) -> usize {
        if self.rules.can_batch() { self.args.connections.min(MOST_BATCHES) } else { self.args.connections }
    }

    fn send_row(&mut self, row: ItemRow) {
        let (caller, rules) = (Rc::clone(&self.caller), self.rules);
        let earlier = self.predicted.before(&row);
        self.running.spawn_local(async move {
            let outcome = rules.apply(&caller, &row, earlier).await?;
            Ok(vec![(row, outcome)])
        });
    }

    /// Sends the rows that wait, if there are any.
    fn send_batch(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let rows = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let (caller, rules) = (Rc::clone(&self.caller), self.rules);
        self.running.spawn_local(async move { rules.set_many(&caller, rows).await });
    }

    /// Sends the rows that wait and waits for all answers, so that the state covers as many rows as it can.
    async fn finish_requests(&mut self) {
        self.send_batch();
        while let Some(answer) = self.running.join_next().await {
            // The import stops already. One more bad row changes nothing, and it has been reported.
            let _ = self.answered(Some(answer));
        }
    }

    fn answered(&mut self, answer: Option<Result<RowResults, JoinError>>) -> Result<(), StopReason> {
        let Some(answer) = answer else { return Ok(()) };
        let broken = |error| {
            StopReason::Server(CallError::Unexpected(format!("a request's task ended early: {error}")))
        };
        let mut stop = Ok(());
        for (row, outcome) in answer.map_err(broken)?.map_err(StopReason::Server)? {
            self.under_way.remove(&row.line);
            if self.rules.dry_run {
                self.predicted.note(&row, &outcome);
            }
            self.items.remove(&(row.location, row.sku));
            match outcome {
                RowOutcome::Created => self.became(row.line, |counts| &mut counts.created),
                RowOutcome::Updated => self.became(row.line, |counts| &mut counts.updated),
                RowOutcome::Unchanged => self.became(row.line, |counts| &mut counts.kept),
                // The other rows of the request were decided too, and have to be counted.
                RowOutcome::Rejected(bad) => stop = stop.and(self.bad(bad)),
            }
        }
        stop
    }

    fn became(&mut self, line: u64, count: fn(&mut ImportCounts) -> &mut u64) {
        self.ahead.insert(line, count);
    }

    fn bad(&mut self, bad: RowError) -> Result<(), StopReason> {
        self.bar.suspend(|| eprintln!("{}:{bad}", self.args.file.display()));
        self.became(bad.line, |counts| &mut counts.bad);
        self.bad += 1;
        if self.errors.len() < REPORTED {
            self.errors.push(bad);
        }
        if self.bad > self.args.max_errors { Err(StopReason::TooManyErrors) } else { Ok(()) }
    }

    /// Counts the lines before the first line without an answer. A later run does not send them again.
    fn settle(&mut self) {
        let open = self.under_way.first().copied().unwrap_or(u64::MAX);
        while let Some(line) = self.ahead.first_entry().filter(|line| *line.key() < open) {
            self.state.line = self.state.line.max(*line.key());
            *line.remove()(&mut self.state.counts) += 1;
        }
    }

    fn note(&mut self) {
        self.settle();
        self.bar.set_message(counted(self.state.counts.rows(), "row", "rows"));
        if let Some(place) = &self.place
            && let Err(why) = self.state.write(place)
        {
            self.bar.suspend(|| eprintln!("stockhold: {why}"));
        }
    }

    fn end(&mut self, url: &str, cut: Option<StopReason>, took: Duration) -> ExitCode {
        self.note();
        self.bar.finish_and_clear();
        let mut counts = self.state.counts;
        self.ahead.values().for_each(|count| *count(&mut counts) += 1);
        let report = ImportReport {
            file: self.args.file.display().to_string(),
            dry_run: self.args.dry_run,
            finished: cut.is_none(),
            resumed_after_line: self.resumed,
            last_line: self.state.line,
            rows: counts.rows(),
            counts,
            paused_elsewhere: self.paused,
            blank_ended_skus: self.blank_ended,
            seconds: took.as_secs_f64(),
            rows_per_second: per_second(counts.rows() - self.before, took),
            errors: std::mem::take(&mut self.errors),
        };
        if self.args.json {
            println!("{:#}", serde_json::json!(report));
        } else {
            report.tell();
        }
        if let Some(place) = &self.place
            && (cut.is_none() || self.state.line == 0)
        {
            ImportState::remove(place);
        }
        let Some(cut) = cut else {
            return ExitCode::from(if counts.bad > 0 { exit::PARTLY } else { exit::DONE });
        };
        let (code, why) = cut.explain(self.args, url);
        exit::because(code, format!("{why}\n{}", self.advice()))
    }

    /// How to continue after an interruption.
    fn advice(&self) -> String {
        let line = self.state.line;
        match (&self.place, self.args.dry_run) {
            (_, true) => "Nothing was changed.".to_owned(),
            _ if line == 0 => "The same command begins with the first row again.".to_owned(),
            (Some(_), _) => format!(
                "Everything up to line {line} is done. The same command continues after it. If you change the file, it begins \
                 with the first row, unless you add --from-line {}.",
                line + 1
            ),
            (None, _) => {
                format!("Everything up to line {line} is done. Continue with --from-line {}.", line + 1)
            }
        }
    }
}

/// The error of too many bad rows.
fn too_many(most: u64) -> String {
    format!("stopped: more than --max-errors {most} {} bad", if most == 1 { "row is" } else { "rows are" })
}
