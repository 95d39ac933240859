//! `stockhold bench`: puts load on a running server and measures it. It sells only SKUs of its own. At the end it deletes those of
//! them that have no sales and no holds, and reports what it has left behind, and whether the server's counters agree with the answers.

mod generator;
mod report;
mod requests;
mod target;

use super::admin::{AdminClient, ServerInfo};
use super::client::{CallError, RetryClient};
use super::server::{self, AdminArgs, ServerArgs};
use clap::Args;
use generator::{GeneratorThread, LoopMode, MeasurementWindow, Schedule, ThreadResult, to_f64};
use indicatif::ProgressBar;
use report::{BenchAudit, BenchReport, Measurements};
use requests::{Mix, POOL, Tally, Workload};
use rustix::time::{ClockId, clock_gettime};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stockhold_api::client::At;
use stockhold_api::wire::{LimitItem, LimitRequest, Patch, PoolSettings, Price, Stock};
use stockhold_config::exit;
use stockhold_domain::limits::{LIMIT_TARGETS, TTL_CEILING_SECONDS};
use stockhold_domain::{Label, LimitedUnits, SubjectKind};
use target::BenchTarget;

/// Time between the start and the first request, so that all threads run.
const RUN_UP: Duration = Duration::from_millis(100);
/// How often the server's queue is read.
const SCRAPE_EVERY: Duration = Duration::from_millis(250);
/// Most connections.
const MOST_CONNECTIONS: usize = 16_384;
/// Most threads.
const MOST_THREADS: usize = 64;
/// Most SKUs: they are created one by one.
const MOST_SKUS: usize = 100_000;
/// Most commands in one request of the API.
const MOST_BATCH: usize = 8_192;
/// How much the clocks of servers over one database may differ: a hold may expire this much early.
const CLOCKS: Duration = Duration::from_secs(1);
/// Units that a customer may have, in a run with a limit.
const CUSTOMER_UNITS: u64 = 2;
/// The price of a unit, in a run with payments.
const PRICE: u64 = 1_000;
/// Longest run.
const MOST_SECONDS: u64 = 24 * 3600;

#[derive(Args)]
pub(super) struct BenchArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    admin: AdminArgs,
    /// Requests to send. reserve: holds of one unit that expire. reserve-limited: the same
    /// from a pool and under a limit per customer, each for a new customer. reserve-confirm: each hold is confirmed. reserve-checkout: each hold is paid with the test provider. available: reads.
    /// commands: batches of reserves, each followed by a batch of their confirms
    #[arg(long, default_value = "reserve")]
    mix: Mix,
    /// Connections, each with at most one request at a time
    #[arg(short, long, value_name = "N", default_value_t = 64)]
    connections: usize,
    /// Open loop: this many requests a second, however fast the server answers. Without it the loop is closed: each connection
    /// sends its next request when it has its answer
    #[arg(short, long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Seconds of the measurement
    #[arg(short, long, value_name = "SECONDS", default_value_t = 10)]
    duration: u64,
    /// Seconds before the measurement
    #[arg(short, long, value_name = "SECONDS", default_value_t = 2)]
    warm_up: u64,
    /// SKUs to spread the requests over. With 1, all buyers want the same item
    #[arg(long, value_name = "N", default_value_t = 1)]
    skus: usize,
    /// Units of each SKU
    #[arg(long, value_name = "UNITS", default_value_t = 1_000_000_000)]
    stock: u64,
    /// Time to live of holds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    ttl: u64,
    /// Commands in one request, for --mix commands
    #[arg(long, value_name = "N", default_value_t = 64)]
    batch: usize,
    /// Threads of the generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// How long to wait for a server that does not answer, before and after the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    patience: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the load and reports. The exit code says whether the counters agree.
pub(super) fn run(args: &BenchArgs) -> ExitCode {
    let places = args.check().and_then(|()| Ok((args.server.url()?, args.admin.url()?)));
    let (url, admin) = match places {
        Ok(places) => places,
        Err(why) => return exit::because(exit::USAGE, why),
    };
    server::block_on(async {
        match args.bench(&url, &admin).await {
            Ok(report) => {
                if args.json {
                    println!("{:#}", serde_json::json!(report));
                } else {
                    print!("{report}");
                }
                let right = report.books.agree && report.operations > 0;
                ExitCode::from(if right { exit::DONE } else { exit::FAILED })
            }
            Err(failed) => exit::because(server::exit_code(&failed), server::explain(&url, &failed)),
        }
    })
}

impl BenchArgs {
    fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, most: u64| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            Err(format!("--{name} {value}: must be 1 to {most}"))
        };
        within("connections", self.connections as u64, MOST_CONNECTIONS as u64)?;
        within("threads", self.threads as u64, MOST_THREADS as u64)?;
        within("skus", self.skus as u64, MOST_SKUS as u64)?;
        within("batch", self.batch as u64, MOST_BATCH as u64)?;
        within("duration", self.duration, MOST_SECONDS)?;
        within("ttl", self.ttl, TTL_CEILING_SECONDS.into())?;
        if self.warm_up > MOST_SECONDS {
            return Err(format!("--warm-up {}: must be at most {MOST_SECONDS}", self.warm_up));
        }
        match self.rate {
            Some(rate) if !(rate.is_finite() && rate > 0.0 && rate <= 10_000_000.0) => {
                Err(format!("--rate {rate}: must be more than 0, and at most 10000000"))
            }
            _ => Ok(()),
        }
    }

    async fn bench(&self, url: &str, admin: &str) -> Result<BenchReport, CallError> {
        let caller = RetryClient::new(
            url,
            self.server.plain_http,
            Duration::from_secs(self.patience),
            Box::new(|_| {}),
        )?;
        caller.check_reachable().await?;
        let skus = self.set_up(&caller).await?;
        let side = self.admin_side(url, admin).await;
        let load = Workload { mix: self.mix, skus: skus.clone(), ttl: self.ttl, batch: self.batch };

        let begin = Instant::now() + RUN_UP;
        let warm = begin + Duration::from_secs(self.warm_up);
        let times = MeasurementWindow { begin, warm, end: warm + Duration::from_secs(self.duration) };
        let schedule = self.rate.map(|rate| Arc::new(Schedule::new(rate, begin)));
        let target = BenchTarget::new(url, caller.access())?;
        let threads = self.start(&target, &load, times, schedule.as_ref());
        let pacer = schedule.clone().map(|schedule| std::thread::spawn(move || schedule.pace(times.end)));
        let mut measured = self.watch(times, side.as_ref().ok().map(|(side, _)| side)).await;
        let seen = joined(threads)?;
        if let Some(pacer) = pacer {
            pacer
                .join()
                .map_err(|_| CallError::Unexpected("the pacer panicked, which is a bug".to_owned()))?;
        }
        measured.not_sent = schedule.map_or(0, |schedule| schedule.left());
        let books = self.audit(&caller, &skus, &seen.told, begin).await?;
        if let Some(name) = skus.first().filter(|_| self.mix == Mix::ReserveLimited) {
            caller.ask(async |client| client.delete_limit(name, None).await).await?;
        }
        Ok(BenchReport::new(self, url, side.map(|(_, info)| info), &seen, &measured, books))
    }

    /// Creates the SKUs.
    async fn set_up(&self, caller: &RetryClient) -> Result<Vec<String>, CallError> {
        let ids = stockhold_store::ids::IdSource::from_system();
        let mut ids = ids.map_err(|error| CallError::Unexpected(format!("no random numbers: {error}")))?;
        let name = format!("{:032x}", ids.random());
        let name = name.get(..8).unwrap_or_default();
        let mut skus = Vec::with_capacity(self.skus);
        for number in 0..self.skus {
            let sku = format!("bench-{name}-{number}");
            let mut stock = Stock { total_units: Some(self.stock), ..Stock::default() };
            if self.mix == Mix::ReserveCheckout {
                let currency = "eur".to_owned();
                stock.price = Patch::Set(Price { unit_amount: PRICE, currency, discounts: Vec::new() });
            }
            let at = At { sku: &sku, location: None };
            caller.ask(async |client| client.put_stock(at, &stock, None).await).await?;
            if self.mix == Mix::ReserveLimited {
                let settings = PoolSettings { allocated: Some(self.stock), ..PoolSettings::default() };
                caller.ask(async |client| client.set_pool(at, POOL, &settings, None).await).await?;
            }
            skus.push(sku);
        }
        if self.mix == Mix::ReserveLimited {
            self.limit(caller, &skus).await?;
        }
        Ok(skus)
    }

    /// Limits what each customer may have of the SKUs. The limit has the name of the first one.
    async fn limit(&self, caller: &RetryClient, skus: &[String]) -> Result<(), CallError> {
        let Some(name) = skus.first() else { return Ok(()) };
        let item = |sku: &String| LimitItem { sku: Label::new(sku).ok(), location: None };
        let terms = LimitRequest {
            items: skus.iter().take(LIMIT_TARGETS).map(item).collect(),
            channels: None,
            per: Some(SubjectKind::Customer),
            limit: CUSTOMER_UNITS,
            counts: LimitedUnits::default(),
        };
        caller.ask(async |client| client.put_limit(name, &terms, None).await).await.map(drop)
    }

    /// The server's metrics, or why there are none. Metrics of another server would be worse than none.
    async fn admin_side(&self, url: &str, admin: &str) -> Result<(AdminClient, ServerInfo), String> {
        let side = AdminClient::new(admin).ok_or_else(|| format!("{admin} is no address"))?;
        let scrape = side
            .scrape()
            .await
            .ok_or_else(|| format!("{admin} does not answer; give its address with --admin"))?;
        let info = scrape
            .info()
            .ok_or_else(|| format!("{admin} has no metric stockhold_info; is it a Stockhold server?"))?;
        let port = |text: &str| text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
        let authority = url.split("//").nth(1).unwrap_or_default();
        if port(&info.listen) != port(authority) {
            return Err(format!(
                "{admin} belongs to the server on {}; give the right address with --admin",
                info.listen
            ));
        }
        Ok((side, info))
    }

    fn start(
        &self,
        target: &BenchTarget,
        load: &Workload,
        times: MeasurementWindow,
        schedule: Option<&Arc<Schedule>>,
    ) -> Vec<JoinHandle<Result<ThreadResult, String>>> {
        let threads = self.threads.min(self.connections);
        let mut first = 0;
        let mut running = Vec::with_capacity(threads);
        for number in 0..threads {
            let connections = self.connections / threads + usize::from(number < self.connections % threads);
            let thread = GeneratorThread {
                target: target.clone(),
                connections,
                first,
                load: load.clone(),
                times,
                turns: schedule.map_or(LoopMode::Closed, |schedule| LoopMode::Open(Arc::clone(schedule))),
            };
            first += connections;
            running.push(std::thread::spawn(move || thread.run()));
        }
        running
    }

    /// Reads clocks and counters at the beginning and the end, and the queue in between.
    async fn watch(&self, times: MeasurementWindow, side: Option<&AdminClient>) -> Measurements {
        let bar = ProgressBar::new_spinner();
        bar.set_message("warming up");
        tokio::time::sleep_until(times.warm.into()).await;
        let scrape = async || match side {
            Some(side) => side.scrape().await,
            None => None,
        };
        let (before, cpu, machine) = (scrape().await, own_cpu(), machine_cpu());
        let began = Instant::now();
        let mut queue: f64 = 0.0;
        while Instant::now() < times.end {
            let left = times.end.saturating_duration_since(Instant::now());
            bar.set_message(format!("measuring, {} s to go", left.as_secs()));
            bar.tick();
            tokio::time::sleep(SCRAPE_EVERY.min(left)).await;
            if let Some(scrape) = scrape().await {
                queue = queue.max(scrape.sum("stockhold_queue_depth"));
            }
        }
        let (own, took) = (own_cpu().saturating_sub(cpu), began.elapsed());
        let machine = machine_cpu().zip(machine).map(|(after, before)| after.saturating_sub(before));
        let after = scrape().await;
        bar.finish_and_clear();
        Measurements::new(took, (own, machine), before.zip(after), queue)
    }

    /// Compares what is left behind with the answers.
    async fn audit(
        &self,
        caller: &RetryClient,
        skus: &[String],
        told: &Tally,
        begin: Instant,
    ) -> Result<BenchAudit, CallError> {
        let mut books = BenchAudit::new(skus, told);
        let mut unused = Vec::new();
        for sku in skus {
            let at = At { sku, location: None };
            let item = caller.ask(async |client| client.item(at).await).await?;
            books.add(&item);
            if item.confirmed_sold + item.held_units == 0 {
                unused.push(at);
            }
        }
        books.compare(told, begin.elapsed() + CLOCKS >= Duration::from_secs(self.ttl));
        for at in unused {
            caller.ask(async |client| client.delete_item(at, None).await).await?;
            books.deleted += 1;
        }
        Ok(books)
    }
}

fn joined(threads: Vec<JoinHandle<Result<ThreadResult, String>>>) -> Result<ThreadResult, CallError> {
    let mut all: Option<ThreadResult> = None;
    for thread in threads {
        let seen = thread
            .join()
            .map_err(|_| CallError::Unexpected("the generator panicked, which is a bug".to_owned()))?;
        let seen = seen.map_err(CallError::Unexpected)?;
        match &mut all {
            None => all = Some(seen),
            Some(all) => {
                all.told.merge(&seen.told);
                all.warm.merge(&seen.warm);
                all.requests += seen.requests;
                all.done += seen.done;
                all.latencies.merge(&seen.latencies).map_err(CallError::Unexpected)?;
            }
        }
    }
    all.ok_or_else(|| CallError::Unexpected("no thread was started".to_owned()))
}

/// Processor time that this process has used.
fn own_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Processor time that all programs of this machine have used, if the system reports it.
fn machine_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 =
        text.split_whitespace().skip(1).take(3).map_while(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_secs_f64(to_f64(ticks) / to_f64(rustix::param::clock_ticks_per_second())))
}
