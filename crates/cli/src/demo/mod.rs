//! `stockhold demo`: a sale that runs itself, told as it happens, and audited.

mod audit;
mod sale;
mod seats;
mod server_process;

use super::client::{CallError, RetryClient};
use sale::{BuyerOutcome, BuyerPlan, DemoSale, HOLD_SECONDS, LOCATION, SKU};
use server_process::ServerProcess;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use stockhold_api::client::At;
use stockhold_api::wire::{Status, Stock};
use stockhold_config::exit;
use tokio::task::{JoinSet, LocalSet};

/// How long a buyer waits for a server that is away.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the server stays away after it was killed.
const AWAY: Duration = Duration::from_millis(300);
/// How often the story looks whether it can go on.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long open holds may take to end after the last deadline.
const ENDING: Duration = Duration::from_secs(15);
/// Most buyers.
const BUYERS: u32 = 100_000;

#[derive(clap::Args)]
pub(super) struct DemoArgs {
    /// How many ask at once
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(BUYERS)))]
    buyers: u32,
    /// How many units there are
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(BUYERS)))]
    units: u32,
    /// Who does what; the same seed makes the same buyers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave the server alone
    #[arg(long)]
    no_kill: bool,
    /// A small hall instead: groups want seats together, and the seat map is drawn as it fills
    #[arg(long, conflicts_with_all = ["buyers", "units", "no_kill"])]
    seats: bool,
}

/// Runs the sale and says by its exit code whether the audit is right.
pub(super) fn run(args: &DemoArgs) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::because(exit::FAILED, format!("starting the runtime: {error}")),
    };
    let told = LocalSet::new().block_on(&runtime, async {
        let story = SaleDemo { args, begun: Instant::now() };
        let tell = async || if args.seats { seats::tell(args.seed).await } else { story.tell().await };
        tokio::select! {
            told = tell() => told,
            _ = tokio::signal::ctrl_c() => Err(CallError::Unexpected("interrupted; the server has been ended".to_owned())),
        }
    });
    match told {
        Ok(true) => ExitCode::from(exit::DONE),
        Ok(false) => ExitCode::from(exit::FAILED),
        Err(why) => exit::because(exit::FAILED, why),
    }
}

struct SaleDemo<'a> {
    args: &'a DemoArgs,
    begun: Instant,
}

impl SaleDemo<'_> {
    fn say(&self, what: impl std::fmt::Display) {
        println!("{:7.2} s  {what}", self.begun.elapsed().as_secs_f64());
    }

    async fn tell(&self) -> Result<bool, CallError> {
        let dir = tempfile::tempdir()
            .map_err(|error| CallError::Unexpected(format!("a temporary directory: {error}")))?;
        let mut server = ServerProcess::start(dir.path()).await?;
        self.say(format_args!(
            "a server of our own: {} (process {}), its data in {}",
            server.url(),
            server.pid(),
            dir.path().display()
        ));
        let sale =
            DemoSale::new(RetryClient::new(&server.url(), PATIENCE, Box::new(|_| {}))?, self.args.seed);
        let stock = Stock { total_units: Some(self.args.units.into()), ..Stock::default() };
        let at = At { sku: SKU, location: Some(LOCATION) };
        sale.caller.ask(async |client| client.put_stock(at, &stock, None).await).await?;
        self.say(format_args!(
            "{} units of {SKU:?} are for sale, a hold lasts {HOLD_SECONDS} s",
            self.args.units
        ));

        let (held, refused) = self.rush(&sale).await?;
        self.decisions(&sale, held, &mut server).await?;
        self.late(&sale, &refused).await?;
        self.end(&sale).await?;

        let checks = audit::audit(&sale, self.args.units.into()).await?;
        self.say("the audit:");
        for check in &checks {
            println!("           {} {}", if check.right { "ok   " } else { "WRONG" }, check.says);
        }
        let right = checks.iter().all(|check| check.right);
        self.say(if right {
            "the books balance to the unit"
        } else {
            "the books do NOT balance: this is a bug"
        });
        Ok(right)
    }

    /// Everybody at once.
    async fn rush(
        &self,
        sale: &Rc<DemoSale>,
    ) -> Result<(Vec<(u32, stockhold_domain::ReservationId)>, Vec<u32>), CallError> {
        let begun = Instant::now();
        let mut buyers = JoinSet::new();
        for buyer in 0..self.args.buyers {
            let sale = Rc::clone(sale);
            buyers.spawn_local(async move { (buyer, sale.reserve(buyer).await) });
        }
        let (mut held, mut refused) = (Vec::new(), Vec::new());
        while let Some(answer) = buyers.join_next().await {
            let (buyer, answer) = answer.map_err(|error| bug(&error))?;
            match answer? {
                Ok(id) => held.push((buyer, id)),
                Err(_) => refused.push(buyer),
            }
        }
        self.say(format_args!(
            "{} buyers ask at once: {} hold a unit, {} are told that it is sold out ({} ms for all)",
            self.args.buyers,
            held.len(),
            refused.len(),
            begun.elapsed().as_millis()
        ));
        Ok((held, refused))
    }

    /// Holders pay, change their minds or walk away; in the middle of it the server is killed.
    async fn decisions(
        &self,
        sale: &Rc<DemoSale>,
        held: Vec<(u32, stockhold_domain::ReservationId)>,
        server: &mut ServerProcess,
    ) -> Result<(), CallError> {
        let count = |fate| held.iter().filter(|(buyer, _)| sale.fate(*buyer) == fate).count() as u64;
        let (pay, change, walk) =
            (count(BuyerPlan::Pay), count(BuyerPlan::Cancel), count(BuyerPlan::Abandon));
        self.say(format_args!("{pay} of them will pay, {change} change their minds, {walk} just walk away"));
        let mut holders = JoinSet::new();
        for (buyer, id) in held {
            let sale = Rc::clone(sale);
            holders.spawn_local(async move { sale.decide(buyer, id).await });
        }
        if !self.args.no_kill {
            while sale.sold.get() < pay / 2 {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            self.kill_and_restart(sale, server).await?;
        }
        while let Some(done) = holders.join_next().await {
            done.map_err(|error| bug(&error))??;
        }
        let told = |told| sale.given.borrow().iter().filter(|given| given.told == told).count();
        self.say(format_args!(
            "{} have paid and were told so, {} gave their unit back, {} were too late",
            told(BuyerOutcome::Sold),
            told(BuyerOutcome::Released),
            told(BuyerOutcome::Expired)
        ));
        Ok(())
    }

    async fn kill_and_restart(&self, sale: &DemoSale, server: &mut ServerProcess) -> Result<(), CallError> {
        let before = sale.given.borrow().clone();
        let pid = server.pid();
        server.kill()?;
        self.say(format_args!(
            "kill -9 {pid}: the server is gone in the middle of the sale; {} sales were acknowledged",
            sale.sold.get()
        ));
        tokio::time::sleep(AWAY).await;
        let begun = Instant::now();
        server.restart().await?;
        self.say(format_args!(
            "started again on the same data (process {}): it serves after {} ms; buyers repeat what got no answer",
            server.pid(),
            begun.elapsed().as_millis()
        ));
        let mut there = 0;
        let mut acknowledged = 0;
        for given in
            before.iter().filter(|given| matches!(given.told, BuyerOutcome::Sold | BuyerOutcome::Released))
        {
            let now = sale.caller.ask(async |client| client.reservation(given.id).await).await?.status;
            let expected =
                if given.told == BuyerOutcome::Sold { Status::Confirmed } else { Status::Cancelled };
            acknowledged += 1;
            there += u64::from(now == expected);
        }
        self.say(format_args!("of {acknowledged} answers given before the kill, {there} are there"));
        if there != acknowledged {
            return Err(CallError::Unexpected("acknowledged answers were lost: this is a bug".to_owned()));
        }
        Ok(())
    }

    /// Who was told "sold out" comes back for what others gave up.
    async fn late(&self, sale: &Rc<DemoSale>, refused: &[u32]) -> Result<(), CallError> {
        let left = u64::from(self.args.units).saturating_sub(sale.sold.get());
        let coming = usize::try_from(left.saturating_mul(2)).unwrap_or(usize::MAX).min(refused.len());
        self.say(format_args!(
            "{coming} of those who were too late come back; {left} units are not sold yet"
        ));
        let mut buyers = JoinSet::new();
        for buyer in refused.iter().take(coming).copied() {
            let sale = Rc::clone(sale);
            buyers.spawn_local(async move { sale.come_back(buyer).await });
        }
        let mut got = 0;
        while let Some(answer) = buyers.join_next().await {
            got += u64::from(answer.map_err(|error| bug(&error))??);
        }
        self.say(format_args!("{got} of them got a unit that was released or whose hold ran out"));
        Ok(())
    }

    /// Waits until no hold is open.
    async fn end(&self, sale: &DemoSale) -> Result<(), CallError> {
        let begun = Instant::now();
        while sale.item().await?.held_units > 0 && begun.elapsed() < ENDING {
            tokio::time::sleep(LOOK_EVERY * 10).await;
        }
        Ok(())
    }
}

fn bug(error: &tokio::task::JoinError) -> CallError {
    CallError::Unexpected(format!("a buyer ended early, which is a bug: {error}"))
}
