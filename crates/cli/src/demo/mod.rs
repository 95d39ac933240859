//! `stockhold demo`: a sale with many buyers, described line by line as it happens, and audited.

mod audit;
mod checkout;
mod gate;
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
/// How often the demo checks whether it can continue.
const CHECK_EVERY: Duration = Duration::from_millis(2);
/// How long holds may take to expire after the last deadline.
const ENDING: Duration = Duration::from_secs(15);
/// What to do after the demo.
const NEXT_STEPS: &str = "\n\
    Next: run a server of your own and make the first reservation:\n  \
    stockhold serve\n  \
    stockhold ctl stock set shirt --total 10\n  \
    stockhold ctl reserve shirt --owner cart-1\n\
    The API with examples is at http://127.0.0.1:8101/docs. `stockhold bench` measures the server.";
/// Most buyers.
const BUYERS: u32 = 100_000;

#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
pub(super) struct DemoArgs {
    /// Buyers that send requests at once [default: 1000; with --gate 100000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(BUYERS)))]
    buyers: Option<u32>,
    /// Units for sale [default: 100; with --gate 1000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(BUYERS)))]
    units: Option<u32>,
    /// Seed of the buyers' behavior
    #[arg(long, default_value_t = 1, conflicts_with = "gate")]
    seed: u64,
    /// Do not kill the server
    #[arg(long)]
    no_kill: bool,
    /// Sell the seats of a small hall instead. Groups want adjacent seats, and the seat map is drawn as it fills
    #[arg(long, conflicts_with_all = ["buyers", "units", "no_kill"])]
    seats: bool,
    /// Sell behind a gate instead: two servers over a PostgreSQL and a Redis of the demo's own. Redis is flushed and a server is killed
    /// in the middle of the sale. Needs both to be installed
    #[arg(long, conflicts_with_all = ["seats", "no_kill"])]
    gate: bool,
    /// Take the money too: a payment provider of the demo's own declines, times out and answers twice, and the server is killed three
    /// times. Its ledger is compared with the orders
    #[arg(long, conflicts_with_all = ["seats", "gate"])]
    checkout: bool,
}

impl DemoArgs {
    fn buyers(&self) -> u32 {
        self.buyers.unwrap_or(if self.gate { 100_000 } else { 1_000 })
    }

    fn units(&self) -> u32 {
        self.units.unwrap_or(if self.gate { 1_000 } else { 100 })
    }
}

/// Runs the sale and says by its exit code whether the audit is right.
pub(super) fn run(args: &DemoArgs) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::because(exit::FAILED, format!("starting the runtime: {error}")),
    };
    let told = LocalSet::new().block_on(&runtime, async {
        let story = SaleDemo { args, begun: Instant::now() };
        let tell = async || {
            if args.seats {
                seats::tell(args.seed).await
            } else if args.gate {
                gate::tell(args.buyers(), args.units(), story.begun).await
            } else if args.checkout {
                let size = (args.buyers(), args.units(), args.seed);
                checkout::tell(size, !args.no_kill, story.begun).await
            } else {
                story.tell().await
            }
        };
        tokio::select! {
            told = tell() => told,
            _ = tokio::signal::ctrl_c() => Err(CallError::Unexpected("interrupted; the server has been ended".to_owned())),
        }
    });
    match told {
        Ok(true) => {
            println!("{NEXT_STEPS}");
            ExitCode::from(exit::DONE)
        }
        Ok(false) => ExitCode::from(exit::FAILED),
        Err(why) => exit::because(exit::FAILED, why),
    }
}

/// Prints what happened, with the time since the beginning.
fn say(begun: Instant, what: impl std::fmt::Display) {
    println!("{:7.2} s  {what}", begun.elapsed().as_secs_f64());
}

struct SaleDemo<'a> {
    args: &'a DemoArgs,
    begun: Instant,
}

impl SaleDemo<'_> {
    fn say(&self, what: impl std::fmt::Display) {
        say(self.begun, what);
    }

    async fn tell(&self) -> Result<bool, CallError> {
        let dir = tempfile::tempdir()
            .map_err(|error| CallError::Unexpected(format!("a temporary directory: {error}")))?;
        let mut server = ServerProcess::start(dir.path(), &[]).await?;
        self.say(format_args!(
            "started a server: {} (process {}), data in {}",
            server.url(),
            server.pid(),
            dir.path().display()
        ));
        let sale = DemoSale::new(
            RetryClient::without_key(&server.url(), PATIENCE, Box::new(|_| {}))?,
            self.args.seed,
        );
        let stock = Stock { total_units: Some(self.args.units().into()), ..Stock::default() };
        let at = At { sku: SKU, location: Some(LOCATION) };
        sale.caller.ask(async |client| client.put_stock(at, &stock, None).await).await?;
        self.say(format_args!(
            "{} units of {SKU:?} are for sale; a hold lasts {HOLD_SECONDS} s",
            self.args.units()
        ));

        let (held, refused) = self.rush(&sale).await?;
        self.decisions(&sale, held, &mut server).await?;
        self.late(&sale, &refused).await?;
        self.end(&sale).await?;

        let checks = audit::audit(&sale, self.args.units().into()).await?;
        Ok(audit::conclude(self.begun, &checks, "no unit was lost or sold twice"))
    }

    /// All buyers send a reserve at once.
    async fn rush(
        &self,
        sale: &Rc<DemoSale>,
    ) -> Result<(Vec<(u32, stockhold_domain::ReservationId)>, Vec<u32>), CallError> {
        let begun = Instant::now();
        let mut buyers = JoinSet::new();
        for buyer in 0..self.args.buyers() {
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
            "{} buyers reserve at once: {} hold a unit, {} get \"sold out\" ({} ms for all)",
            self.args.buyers(),
            held.len(),
            refused.len(),
            begun.elapsed().as_millis()
        ));
        Ok((held, refused))
    }

    /// Buyers with a hold pay, cancel or do nothing. In the middle of it the server is killed.
    async fn decisions(
        &self,
        sale: &Rc<DemoSale>,
        held: Vec<(u32, stockhold_domain::ReservationId)>,
        server: &mut ServerProcess,
    ) -> Result<(), CallError> {
        let count = |fate| held.iter().filter(|(buyer, _)| sale.fate(*buyer) == fate).count() as u64;
        let (pay, change, walk) =
            (count(BuyerPlan::Pay), count(BuyerPlan::Cancel), count(BuyerPlan::Abandon));
        self.say(format_args!("{pay} of them will pay, {change} will cancel, {walk} will do nothing"));
        let mut holders = JoinSet::new();
        for (buyer, id) in held {
            let sale = Rc::clone(sale);
            holders.spawn_local(async move { sale.decide(buyer, id).await });
        }
        if !self.args.no_kill {
            while sale.sold.get() < pay / 2 {
                tokio::time::sleep(CHECK_EVERY).await;
            }
            self.kill_and_restart(sale, server).await?;
        }
        while let Some(done) = holders.join_next().await {
            done.map_err(|error| bug(&error))??;
        }
        let told = |told| sale.given.borrow().iter().filter(|given| given.told == told).count();
        self.say(format_args!(
            "{} have paid and got the confirmation, {} have cancelled, {} were too late",
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
            "kill -9 {pid}: the server is killed in the middle of the sale; {} sales were acknowledged",
            sale.sold.get()
        ));
        tokio::time::sleep(AWAY).await;
        let begun = Instant::now();
        server.restart().await?;
        self.say(format_args!(
            "started again on the same data (process {}): ready after {} ms; buyers repeat requests without an answer",
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
        self.say(format_args!("of {acknowledged} acknowledged changes before the kill, {there} exist"));
        if there != acknowledged {
            return Err(CallError::Unexpected("acknowledged changes were lost: this is a bug".to_owned()));
        }
        Ok(())
    }

    /// Buyers without a unit try again, for units that came back.
    async fn late(&self, sale: &Rc<DemoSale>, refused: &[u32]) -> Result<(), CallError> {
        let left = u64::from(self.args.units()).saturating_sub(sale.sold.get());
        let coming = usize::try_from(left.saturating_mul(2)).unwrap_or(usize::MAX).min(refused.len());
        self.say(format_args!("{coming} buyers without a unit try again; {left} units are not sold yet"));
        let mut buyers = JoinSet::new();
        for buyer in refused.iter().take(coming).copied() {
            let sale = Rc::clone(sale);
            buyers.spawn_local(async move { sale.come_back(buyer).await });
        }
        let mut got = 0;
        while let Some(answer) = buyers.join_next().await {
            got += u64::from(answer.map_err(|error| bug(&error))??);
        }
        self.say(format_args!("{got} of them got a unit that was released or whose hold expired"));
        Ok(())
    }

    /// Waits until no hold is active.
    async fn end(&self, sale: &DemoSale) -> Result<(), CallError> {
        let begun = Instant::now();
        while sale.item().await?.held_units > 0 && begun.elapsed() < ENDING {
            tokio::time::sleep(CHECK_EVERY * 10).await;
        }
        Ok(())
    }
}

fn bug(error: &tokio::task::JoinError) -> CallError {
    CallError::Unexpected(format!("a buyer ended early, which is a bug: {error}"))
}
