//! `stockhold replay`: past orders against a running server, and then an audit of what it did with them.
//!
//! The files alone decide what is sent, and all keys derive from them. So the same command continues an interrupted
//! replay.

mod audit;
mod carts;
mod choices;
mod drive;
mod earlier_run;
mod input;
mod ledger;
mod plan;
mod report;
mod report_text;
mod steps;
mod unusable_lines;

use crate::client::{CallError, RetryClient};
use crate::server::{self, ServerArgs};
use audit::ReplayAudit;
use drive::{ReplaySpeed, drive, for_each};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use input::{ColumnArgs, OrderInput};
use ledger::Ledger;
use plan::{InitialStock, ReplayPlan};
use report::{ReplayReport, ReportInput, StockSetup};
use std::cell::{OnceCell, RefCell};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use steps::ReplayRun;
use stockhold_api::client::At;
use stockhold_api::problem::Reason;
use stockhold_api::wire;
use stockhold_config::exit;
use stockhold_domain::{Label, limits};
use tokio::task::LocalSet;

/// Longest key prefix in bytes: with an order's name and the step it stays within what a key may have.
const PREFIX_BYTES: usize = 64;
/// Most requests that are under way at once.
const MOST_CONNECTIONS: usize = 1_024;
/// What the wholesale data that the defaults fit lists among its goods.
const NOT_GOODS: &str = "POST,DOT,C2,M,D,S,B,PADS,CRUK,AMAZONFEE,BANK CHARGES";

const _: () =
    assert!(PREFIX_BYTES + limits::LABEL_BYTES + ":adjust:".len() + 2 * 20 + 2 <= limits::KEY_BYTES);

#[derive(clap::Args)]
pub(super) struct ReplayArgs {
    /// CSV files of order lines, the first line naming the columns
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
    /// Units of each SKU before the first order [default: 100]
    #[arg(long, value_name = "UNITS", conflicts_with = "stock_percent")]
    stock: Option<u64>,
    /// So much of each SKU that this part of what is ordered of it can be met
    #[arg(long, value_name = "PERCENT")]
    stock_percent: Option<u64>,
    /// flat-out, or how many times faster than it happened
    #[arg(long, value_name = "TIMES", default_value = "flat-out")]
    speed: ReplaySpeed,
    /// Orders that are under way at once
    #[arg(long, value_name = "N", default_value_t = 32)]
    connections: usize,
    /// all: a basket in full or not at all. partial: what is available of it
    #[arg(long, value_name = "HOW", default_value = "all", value_parser = ["all", "partial"])]
    fulfilment: String,
    /// Build each basket line by line, and also transfer, split, merge, pay for, ship and write off part of the orders.
    ///
    /// The first line of an order reserves, and each further line amends the whole basket. A line that is refused is left
    /// out. The name of the order decides what else happens to it, so a repeated replay sends the same requests. The
    /// audit then also checks what was shipped, what is still to be shipped, and what is on the shelf. Not with
    /// --fulfilment partial.
    #[arg(long, verbatim_doc_comment)]
    carts: bool,
    /// Where the stock is
    #[arg(long, default_value = Label::DEFAULT_LOCATION)]
    location: String,
    /// How long a hold lasts, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = limits::DEFAULT_TTL_SECONDS)]
    ttl: u32,
    /// Codes that are no goods, separated by commas; upper or lower case
    #[arg(long, value_name = "CODES", value_delimiter = ',', default_value = NOT_GOODS)]
    not_goods: Vec<String>,
    /// What all idempotency keys begin with [default: a digest of the files and of what the requests depend on]
    #[arg(long, value_name = "PREFIX")]
    key_prefix: Option<String>,
    /// How long to wait for a server that is away, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// Best sellers to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// The report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    columns: ColumnArgs,
}

/// Replays, reports, and says by its exit code whether the books balance.
pub(super) fn run(args: &ReplayArgs) -> ExitCode {
    let url = match args.server.url() {
        Ok(url) => url,
        Err(why) => return exit::because(exit::USAGE, why),
    };
    let prepared = args.check().and_then(|()| input::read(&args.files, &args.columns, &args.not_goods));
    let mut input = match prepared {
        Ok(input) => input,
        Err(why) => return exit::because(exit::USAGE, why),
    };
    let plan = plan::plan(&mut input);
    if plan.steps.is_empty() {
        let why = format!(
            "none of the {} lines can be used, so there is nothing to replay\n{}",
            input.read, input.junk
        );
        return exit::because(exit::USAGE, why);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::because(exit::FAILED, format!("starting the runtime: {error}")),
    };
    let report = match LocalSet::new().block_on(&runtime, args.replay(&url, &input, plan)) {
        Ok(report) => report,
        Err((code, why)) => return exit::because(code, why),
    };
    if args.json {
        match serde_json::to_string_pretty(&report) {
            Ok(json) => println!("{json}"),
            Err(error) => return exit::because(exit::FAILED, format!("writing the report: {error}")),
        }
    } else {
        print!("{report}");
    }
    ExitCode::from(if report.audit.balanced { exit::DONE } else { exit::FAILED })
}

impl ReplayArgs {
    fn check(&self) -> Result<(), String> {
        if !(1..=MOST_CONNECTIONS).contains(&self.connections) {
            return Err(format!("--connections {}: must be 1 to {MOST_CONNECTIONS}", self.connections));
        }
        Label::check(&self.location).map_err(|why| format!("--location {:?} {why}", self.location))?;
        if !(limits::TTL_MIN_SECONDS..=limits::TTL_CEILING_SECONDS).contains(&self.ttl) {
            return Err(format!("--ttl {}: must be 1 to {} seconds", self.ttl, limits::TTL_CEILING_SECONDS));
        }
        if self.carts && self.partial() {
            return Err(
                "--carts: not together with --fulfilment partial, because each line of a cart is added \
                        in full or left out"
                    .to_owned(),
            );
        }
        if let Some(prefix) = &self.key_prefix
            && (Label::check(prefix).is_err() || prefix.len() > PREFIX_BYTES)
        {
            return Err(format!(
                "--key-prefix {prefix:?}: must be 1 to {PREFIX_BYTES} bytes without control characters"
            ));
        }
        Ok(())
    }

    fn partial(&self) -> bool {
        self.fulfilment == "partial"
    }

    fn rule(&self) -> InitialStock {
        match (self.stock, self.stock_percent) {
            (_, Some(percent)) => InitialStock::Percent(percent),
            (units, None) => InitialStock::Units(units.unwrap_or(100)),
        }
    }

    /// Names this replay: another one on the same server must not meet its keys.
    fn prefix(&self, input: &OrderInput) -> String {
        self.key_prefix.clone().unwrap_or_else(|| {
            let Self { location, fulfilment, ttl, columns, not_goods, .. } = self;
            let mode = if self.carts { " carts" } else { "" };
            let shape =
                format!("{} {location:?} {fulfilment} {ttl} {columns:?} {not_goods:?}{mode}", input.digest);
            format!("replay-{}", &blake3::hash(shape.as_bytes()).to_hex().as_str()[..16])
        })
    }

    /// An error is an exit code with its reason.
    async fn replay(
        &self,
        url: &str,
        input: &OrderInput,
        plan: ReplayPlan,
    ) -> Result<ReplayReport, (u8, String)> {
        let explain = |error: &CallError| (server::exit_code(error), explain(url, error));
        let bar = progress(plan.steps.len());
        let notices = bar.clone();
        let say = move |what: &str| notices.suspend(|| eprintln!("stockhold: {what}"));
        let caller =
            RetryClient::new(url, self.server.plain_http, Duration::from_secs(self.patience), Box::new(say));
        let run = Rc::new(ReplayRun {
            caller: caller.map_err(|error| explain(&error))?,
            ledger: RefCell::new(
                Ledger::new(&plan.demand, self.rule()).map_err(|error| (exit::FAILED, error))?,
            ),
            plan,
            location: self.location.clone(),
            prefix: self.prefix(input),
            partial: self.partial(),
            carts: self.carts,
            ttl_seconds: self.ttl,
            refused_before: OnceCell::new(),
        });
        run.caller.check_reachable().await.map_err(|error| explain(&error))?;
        bar.set_message("setting up the stock");
        let stock = self.set_up(&run).await.map_err(|error| explain(&error))?;
        if stock.found > 0 {
            let refused_before = run.refused_earlier().await.map_err(|error| explain(&error))?;
            run.refused_before.get_or_init(|| refused_before);
        }
        bar.set_message("replaying");
        let begun = Instant::now();
        let driven = drive(&run, self.speed, self.connections, &bar).await;
        let took = begun.elapsed();
        driven.map_err(|error| explain(&error))?;
        bar.set_message("auditing");
        let verdict = audit::audit(&run, self.connections).await.map_err(|error| explain(&error))?;
        bar.finish_and_clear();
        Ok(self.report(input, &run, stock, took, verdict))
    }

    /// Makes the items that are not there. Those that are may have been moved by an earlier run: setting them again
    /// would undo its adjustments.
    async fn set_up(&self, run: &Rc<ReplayRun>) -> Result<StockSetup, CallError> {
        let stocks: Vec<(String, u64)> =
            run.ledger.borrow().skus.iter().map(|(sku, figures)| (sku.clone(), figures.stock)).collect();
        let mut stock = StockSetup::default();
        let make = |(sku, units): (String, u64)| {
            let run = Rc::clone(run);
            async move { make_item(&run, &sku, units).await }
        };
        for_each(stocks.into_iter(), self.connections, make, |created| {
            stock.created += u64::from(created);
            stock.found += u64::from(!created);
        })
        .await?;
        Ok(stock)
    }

    fn report(
        &self,
        input: &OrderInput,
        run: &ReplayRun,
        stock: StockSetup,
        took: Duration,
        verdict: ReplayAudit,
    ) -> ReplayReport {
        let facts = ReportInput {
            files: self.files.len(),
            lines: input.read,
            junk: &input.junk,
            key_prefix: &run.prefix,
            stock,
            carts: self.carts,
            demand: &run.plan.demand,
            repeated: run.caller.retries(),
            took,
            top: self.top,
        };
        ReplayReport::new(&facts, &run.ledger.borrow(), verdict)
    }
}

fn explain(url: &str, error: &CallError) -> String {
    let what = server::explain(url, error);
    match error {
        CallError::TimedOut { .. } => format!(
            "{what}\nThen give the same command again: it goes on where it stopped, and what was done is not done twice."
        ),
        _ => what,
    }
}

/// Whether the item had to be made.
async fn make_item(run: &ReplayRun, sku: &str, units: u64) -> Result<bool, CallError> {
    let at = At { sku, location: Some(&run.location) };
    match run.caller.ask(async |client| client.item(at).await).await {
        Ok(_) => Ok(false),
        Err(CallError::Refused(problem)) if problem.reason == Reason::UnknownItem.name() => {
            let stock = wire::Stock { total_units: Some(units), ..wire::Stock::default() };
            run.caller.ask(async |client| client.put_stock(at, &stock, None).await).await?;
            Ok(true)
        }
        Err(other) => Err(other),
    }
}

/// On a terminal only.
fn progress(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    let style = "{msg:22} {wide_bar} {pos}/{len} orders {rate} {eta}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        // The bar's own rate has four decimals.
        bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
            // Drawing continues without a rate that can't be written.
            let _ = write!(out, "{:.0}/s", state.per_sec());
        }));
    }
    bar
}
