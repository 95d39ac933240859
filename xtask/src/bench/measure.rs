//! How each measurement is taken.

use super::access::{self, Credential};
use super::counter_audit::{CounterAudit, GONE, HOT};
use super::figures::{Measurement, Reading, Round};
use super::lab::{DataSet, Lab, Setup, TTL_SECONDS, run};
use super::quarter::{ThrottledServer, goodput};
use super::redis::{Persistence, RedisScript};
use super::{Effort, base, due, hello, minimal_store, probe, promise, redis, weight};
use crate::load::commands::Commands;
use crate::load::http::{Reserves, sku};
use crate::load::pairs::Pairs;
use crate::load::reads::{Constant, OverloadReserves};
use crate::load::{Run, closed};
use crate::rng::Rng;
use crate::shim::DiskFault;
use crate::{Outcome, fail};

/// What G10 adds to every sync, in microseconds.
const ADDED_DELAY_MICROS: u64 = 1_000;
const CONNECTIONS: usize = 64;
/// Commands in one request, few and as many as it takes.
const FEW: usize = 64;
const MOST: usize = 8_192;
/// So that the next is decided while one is synced, written and read.
const MOST_CONNECTIONS: usize = 4;
/// Connections that a quarter of a core can't serve at once.
const CROWD: usize = 4_096;
/// Holds that stand in the way of those who come to what has sold out.
const SOLD: u64 = 100;

/// Takes a measurement, and those that come with it, into the round of this number.
pub(super) fn take(
    measurement: Measurement,
    lab: &Lab,
    effort: &Effort,
    number: u64,
    round: &mut Round,
) -> Outcome<()> {
    let plan = effort.plan;
    // Some go on where others have been: what one has sent, no other may send again.
    let seed = Rng::new((number << 8) | measurement as u64).next();
    let rng = Rng::new(seed);
    let spread = |on| match on {
        DataSet::Usual => lab.scale.usual.items,
        DataSet::Small => lab.scale.small.items,
        DataSet::Large => lab.scale.large.items,
    };
    let reserve = |setup| -> Outcome<Reading> { Ok(reading(&lab.reserves(setup, plan, seed)?.run)) };
    let hot = |connections| Setup::hot(connections);
    let redis = |what| redis::measure(lab, what, TTL_SECONDS, plan, seed).map(|run| reading(&run));
    let keyed = RedisScript::Keyed(lab.scale.usual);
    let look = Constant::get(&format!("/v1/inventory/{}/available", sku(HOT, 0)));
    let taken = match measurement {
        Measurement::Hot64 => reserve(hot(CONNECTIONS))?,
        Measurement::ApiKey64 => reading(&access::measure(lab, Credential::ApiKey, plan, seed)?),
        Measurement::KnownToken64 => {
            let new = access::measure(lab, Credential::NewTokens, plan, !seed)?;
            round.insert(Measurement::NewTokens64, reading(&new));
            reading(&access::measure(lab, Credential::KnownToken, plan, seed)?)
        }
        Measurement::RedisOff => redis((Persistence::Off, keyed))?,
        Measurement::RedisAlways => redis((Persistence::Always, keyed))?,
        Measurement::RedisBare => redis((Persistence::Off, RedisScript::Bare))?,
        Measurement::Pairs64 => {
            let reserves = Reserves::new(HOT, 1, TTL_SECONDS, Rng::new(!seed));
            let mut pairs = Pairs::new(reserves, CONNECTIONS, rng);
            let made = |pairs: &Pairs, _: &Run| (pairs.reserved, pairs.confirmed);
            reading(&lab.hot(CONNECTIONS, plan, &mut pairs, made)?)
        }
        Measurement::Commands64 => {
            let commands = Commands::new(FEW, (HOT, 1), TTL_SECONDS, CONNECTIONS, rng);
            reading(&lab.hot(CONNECTIONS, plan, &mut commands.confirmed(), by_commands)?)
        }
        Measurement::Commands8192 => {
            let mut commands = Commands::new(MOST, (HOT, 1), TTL_SECONDS, MOST_CONNECTIONS, rng);
            reading(&lab.hot(MOST_CONNECTIONS, plan, &mut commands, by_commands)?)
        }
        Measurement::MinimalStore => reading(&minimal_store::measure(lab, HOT, MOST, plan, seed)?),
        Measurement::Hello => reading(&hello::measure(CONNECTIONS, plan, &mut Constant::get("/"))?),
        Measurement::Look64 => {
            let mut look = look;
            reading(&lab.hot(CONNECTIONS, plan, &mut look, |_, _| (0, 0))?)
        }
        Measurement::Gone64 => reading(&sold_out(lab, effort, rng)?),
        Measurement::Spread64 => reserve(Setup { skus: spread(DataSet::Usual), ..hot(CONNECTIONS) })?,
        Measurement::SyncOff64 => reserve(Setup { disk: Some(DiskFault::SyncOff), ..hot(CONNECTIONS) })?,
        Measurement::Hot512 => reserve(hot(512))?,
        Measurement::Delay512 => {
            reserve(Setup { disk: Some(DiskFault::SyncDelay(ADDED_DELAY_MICROS)), ..hot(512) })?
        }
        Measurement::One => {
            let measured = lab.reserves(hot(1), plan, seed)?;
            let trip = probe::round_trip(measured.request_bytes, measured.answer_bytes, plan)?;
            round.insert(Measurement::RoundTrip, reading(&trip));
            reading(&measured.run)
        }
        Measurement::Sync => {
            let times = probe::sync(&lab.folder, effort.sync)?;
            let micros = |percentile| times.value_at_percentile(percentile) as f64 / 1_000.0;
            let rate = 1e9 / times.mean().max(1.0);
            Reading { p50: micros(50.0), p99: micros(99.0), ..Reading::of(rate, Reading::PER_SECOND) }
        }
        Measurement::Quarter64 => quarter(lab, effort, CONNECTIONS, rng)?,
        Measurement::Quarter4096 => quarter(lab, effort, CROWD, rng)?,
        Measurement::LargeHot => reserve(Setup { on: DataSet::Large, ..hot(CONNECTIONS) })?,
        Measurement::SmallHot => reserve(Setup { on: DataSet::Small, ..hot(CONNECTIONS) })?,
        Measurement::LargeSpread => {
            reserve(Setup { on: DataSet::Large, skus: spread(DataSet::Large), ..hot(CONNECTIONS) })?
        }
        Measurement::SmallSpread => {
            reserve(Setup { on: DataSet::Small, skus: spread(DataSet::Small), ..hot(CONNECTIONS) })?
        }
        Measurement::HoldBytes => Reading::of(weight::active_hold(lab, lab.scale.weighed)?, " B"),
        Measurement::Restart => Reading::of(weight::restart(lab)?, " s"),
        Measurement::PromiseReserve => {
            let [reserves, looks] = promise::measure(lab, plan, seed)?;
            let steady = |(p50, p99)| Reading::steady(promise::PER_SECOND, p50, p99);
            round.insert(Measurement::PromiseLook, steady(looks));
            steady(reserves)
        }
        Measurement::DueReclaimed => {
            let due::ExpiryRound { seconds, p50_millis, p99_millis } = due::measure(lab, seed)?;
            let steady = Reading::steady(due::STEADY_PER_SECOND, p50_millis, p99_millis);
            round.insert(Measurement::DueReserve, steady);
            Reading::of(seconds, " s")
        }
        Measurement::NewTokens64
        | Measurement::RoundTrip
        | Measurement::PromiseLook
        | Measurement::DueReserve => {
            return fail(format!("{measurement:?} is taken with {:?}", measurement.taken_with()));
        }
    };
    round.insert(measurement, taken);
    Ok(())
}

fn by_commands(commands: &Commands, _: &Run) -> (u64, u64) {
    (commands.reserved, commands.confirmed)
}

fn reading(run: &Run) -> Reading {
    Reading {
        value: run.rate,
        unit: Reading::PER_SECOND,
        p50: run.micros(50.0),
        p99: run.micros(99.0),
        load_cpu: run.load_cpu,
        server_cpu: run.server_cpu,
        other_cpu: run.other_cpu,
    }
}

/// Reserves of a SKU whose units are all held: all are refused, and no counter changes.
fn sold_out(lab: &Lab, effort: &Effort, mut rng: Rng) -> Outcome<Run> {
    let running = lab.serve(DataSet::Usual, None)?;
    let address = running.server.address;
    base::restock(address, GONE, SOLD)?;
    let mut last = Reserves::new(GONE, 1, TTL_SECONDS, Rng::new(rng.next())).keep(SOLD);
    closed(address, 1, crate::load::Plan::ALL, None, &mut last)?;
    let books = CounterAudit::open(address, HOT, 1)?;
    let mut reserves = Reserves::new(GONE, 1, TTL_SECONDS, rng).refused();
    let none = |_: &Reserves, _: &Run| (0, 0);
    let run = run(&running.server, (GONE, 1), CONNECTIONS, effort.plan, &mut reserves, none)?;
    books.audit(0, 0)?;
    running.stop()?;
    Ok(run)
}

/// Reserves on a server that is held to a quarter of its core. It may shed what it can't do.
fn quarter(lab: &Lab, effort: &Effort, connections: usize, rng: Rng) -> Outcome<Reading> {
    let held = ThrottledServer::start(lab.serve(DataSet::Usual, None)?);
    let mut shed = OverloadReserves::new(Reserves::new(HOT, 1, TTL_SECONDS, rng));
    let made = |shed: &OverloadReserves, _: &Run| (shed.reserved, 0);
    let run = run(held.server(), (HOT, 1), connections, effort.plan, &mut shed, made)?;
    println!(
        "held by {}: {} made, {} in time per second, {} shed",
        held.how(),
        shed.reserved,
        goodput(&run).round(),
        shed.sent_away
    );
    Ok(Reading { value: goodput(&run), ..reading(&run) })
}
