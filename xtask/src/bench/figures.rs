//! The figures: which measurements each takes, how they make a ratio, and what it must and should be.

use std::collections::BTreeMap;

/// One thing that is measured once a round, in this order: what is compared stands together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measurement {
    Hot64,
    ApiKey64,
    KnownToken64,
    NewTokens64,
    RedisOff,
    RedisBare,
    RedisAlways,
    Pairs64,
    Commands64,
    Commands8192,
    MinimalStore,
    Hello,
    Look64,
    Gone64,
    Spread64,
    SyncOff64,
    Hot512,
    Delay512,
    One,
    RoundTrip,
    Sync,
    Quarter64,
    Quarter4096,
    LargeHot,
    SmallHot,
    LargeSpread,
    SmallSpread,
    HoldBytes,
    Restart,
    PromiseReserve,
    PromiseLook,
    DueReclaimed,
    DueReserve,
}

use Measurement as M;

impl Measurement {
    pub(super) fn name(self) -> &'static str {
        match self {
            M::Hot64 => "reserve, one hot SKU, 64 connections",
            M::ApiKey64 => "the same with an API key, and a limit for its caller",
            M::KnownToken64 => "the same with a token (RS256) that was seen before",
            M::NewTokens64 => "the same with a new token (RS256) in each request",
            M::RedisOff => "Redis Lua reserve, no persistence, 50 connections",
            M::RedisBare => "the same without keys, on an empty Redis",
            M::RedisAlways => "Redis Lua reserve, appendfsync always, 50 connections",
            M::Pairs64 => "reserve and its confirm one by one, 64 connections",
            M::Commands64 => "the same in commands of 64, 64 connections",
            M::Commands8192 => "reserve in commands of 8192, 4 connections",
            M::MinimalStore => "floor: parse, update, write and sync batches of 8192",
            M::Hello => "hello world as JSON on hyper, 64 connections",
            M::Look64 => "availability, 64 connections",
            M::Gone64 => "reserve refused, sold out, 64 connections",
            M::Spread64 => "reserve, 10,000 SKUs evenly, 64 connections",
            M::SyncOff64 => "reserve, syncs switched off, 64 connections",
            M::Hot512 => "reserve, one hot SKU, 512 connections",
            M::Delay512 => "reserve, 1 ms added to every sync, 512 connections",
            M::One => "reserve, one connection",
            M::RoundTrip => "loopback round trip of the same sizes",
            M::Sync => "fdatasync of one written page",
            M::Quarter64 => "reserve within 1 s, a quarter of a core, 64 connections",
            M::Quarter4096 => "the same, 4,096 connections",
            M::LargeHot => "reserve, 10 M active holds and 1 M items, hot SKU",
            M::SmallHot => "reserve, 1,000 active holds and 1,000 items, hot SKU",
            M::LargeSpread => "reserve, 10 M active holds, over 1 M items evenly",
            M::SmallSpread => "reserve, 1,000 active holds, over 1,000 items evenly",
            M::HoldBytes => "anonymous memory of an active hold",
            M::Restart => "start with 1 M active holds and 10 M closed reservations",
            M::PromiseReserve => "reserve, 1,400/s beside as many looks, open loop",
            M::PromiseLook => "availability, 1,400/s beside as many reserves, open loop",
            M::DueReclaimed => "100,000 holds due in one second: until all are reclaimed",
            M::DueReserve => "reserve, 1,000/s meanwhile, open loop",
        }
    }

    /// Whether it needs a Redis server.
    pub(super) fn is_redis(self) -> bool {
        matches!(self, M::RedisOff | M::RedisBare | M::RedisAlways)
    }

    /// The measurement that this one is taken with.
    pub(super) fn taken_with(self) -> Self {
        match self {
            M::NewTokens64 => M::KnownToken64,
            M::RoundTrip => M::One,
            M::PromiseLook => M::PromiseReserve,
            M::DueReserve => M::DueReclaimed,
            own => own,
        }
    }
}

/// What one measurement gave in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Operations per second, unless `unit` says otherwise.
    pub(super) value: f64,
    pub(super) unit: &'static str,
    /// Microseconds; nothing where no latency was measured.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// Shares of a core.
    pub(super) load_cpu: f64,
    pub(super) server_cpu: f64,
    /// What everybody else used, in cores.
    pub(super) other_cpu: f64,
}

impl Reading {
    pub(super) const PER_SECOND: &'static str = "/s";

    /// Something that is no rate.
    pub(super) fn of(value: f64, unit: &'static str) -> Self {
        Self { value, unit, p50: 0.0, p99: 0.0, load_cpu: 0.0, server_cpu: 0.0, other_cpu: 0.0 }
    }

    /// A rate that was set, and what it felt like.
    pub(super) fn steady(per_second: u32, p50_millis: f64, p99_millis: f64) -> Self {
        let (p50, p99) = (p50_millis * 1_000.0, p99_millis * 1_000.0);
        Self { p50, p99, ..Self::of(f64::from(per_second), Self::PER_SECOND) }
    }
}

/// All readings of one round.
pub(super) type Round = BTreeMap<Measurement, Reading>;

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Higher,
    Lower,
}

/// How a figure is made of measurements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Formula {
    /// The first's value over the second's.
    Over(Measurement, Measurement),
    /// The 99th percentile in milliseconds.
    P99(Measurement),
    /// The value.
    Value(Measurement),
    /// The 50th percentile of the first over those of the others together.
    P50Over(Measurement, [Measurement; 2]),
}

impl Formula {
    pub(super) fn needs(self) -> Vec<Measurement> {
        match self {
            Self::Over(over, under) => vec![over, under],
            Self::P99(one) | Self::Value(one) => vec![one],
            Self::P50Over(over, [one, other]) => vec![over, one, other],
        }
    }

    pub(super) fn value(self, round: &Round) -> Option<f64> {
        let reading = |measurement| round.get(&measurement);
        Some(match self {
            Self::Over(over, under) => reading(over)?.value / reading(under)?.value,
            Self::P99(one) => reading(one)?.p99 / 1_000.0,
            Self::Value(one) => reading(one)?.value,
            Self::P50Over(over, [one, other]) => {
                reading(over)?.p50 / (reading(one)?.p50 + reading(other)?.p50)
            }
        })
    }
}

/// One figure.
pub(super) struct Figure {
    /// Its number, with a letter where one number stands for two.
    pub(super) id: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
    pub(super) must: f64,
    pub(super) goal: f64,
    pub(super) made: Formula,
}

impl Figure {
    /// What it is asked for by: its id without the letter.
    pub(super) fn number(&self) -> &'static str {
        self.id.trim_end_matches(['a', 'b'])
    }
}

const fn ratio(id: &'static str, what: &'static str, bounds: (f64, f64), made: Formula) -> Figure {
    let (must, goal) = bounds;
    Figure { id, what, unit: "×", better: Better::Higher, must, goal, made }
}

const fn most(
    id: &'static str,
    what: &'static str,
    unit: &'static str,
    bounds: (f64, f64),
    made: Formula,
) -> Figure {
    let (must, goal) = bounds;
    Figure { id, what, unit, better: Better::Lower, must, goal, made }
}

/// All of them, in their order.
#[rustfmt::skip]
pub(super) const FIGURES: &[Figure] = &[
    ratio("G1a", "durable reserve/s ÷ Redis with no persistence", (1.2, 2.0), Formula::Over(M::Hot64, M::RedisOff)),
    ratio("G1b", "the same ÷ Redis without keys either, empty", (1.2, 2.0), Formula::Over(M::Hot64, M::RedisBare)),
    ratio("G2", "durable reserve/s ÷ Redis with appendfsync always", (1.6, 2.6), Formula::Over(M::Hot64, M::RedisAlways)),
    most("G3", "p99 of G1's reserves", "ms", (5.0, 2.0), Formula::P99(M::Hot64)),
    ratio("G4", "commands of 64, reserve then confirm ÷ one by one", (4.0, 8.0), Formula::Over(M::Commands64, M::Pairs64)),
    ratio("G5", "commands of 8192 ÷ a single-threaded floor", (0.5, 0.8), Formula::Over(M::Commands8192, M::MinimalStore)),
    ratio("G8", "availability ÷ hello world as JSON on hyper", (0.8, 1.0), Formula::Over(M::Look64, M::Hello)),
    ratio("G9", "one hot SKU ÷ 10,000 SKUs evenly", (0.9, 1.0), Formula::Over(M::Hot64, M::Spread64)),
    ratio("G10a", "fsync on ÷ off, 64 connections", (0.85, 0.95), Formula::Over(M::Hot64, M::SyncOff64)),
    ratio("G10b", "1 ms added to every sync ÷ none, 512 connections", (0.7, 0.9), Formula::Over(M::Delay512, M::Hot512)),
    most("G11", "p50 of one connection ÷ (loopback round trip + one sync)", "×", (3.0, 1.5), Formula::P50Over(M::One, [M::RoundTrip, M::Sync])),
    ratio("G12a", "goodput of a quarter of a core, 4,096 connections ÷ 64", (0.8, 0.95), Formula::Over(M::Quarter4096, M::Quarter64)),
    ratio("G12b", "sold-out refusals/s ÷ availability reads/s", (0.6, 0.9), Formula::Over(M::Gone64, M::Look64)),
    most("G13a", "cost per reserve, 10 M holds and 1 M items ÷ 1,000, hot SKU", "×", (1.5, 1.2), Formula::Over(M::SmallHot, M::LargeHot)),
    most("G13b", "the same, over all items evenly", "×", (1.5, 1.2), Formula::Over(M::SmallSpread, M::LargeSpread)),
    most("G14a", "anonymous memory per active hold", "B", (500.0, 300.0), Formula::Value(M::HoldBytes)),
    most("G14b", "restart with 1 M active holds and 10 M closed", "s", (2.0, 1.0), Formula::Value(M::Restart)),
    ratio("access", "reserve/s with an API key and limits ÷ without credentials", (0.95, 1.0), Formula::Over(M::ApiKey64, M::Hot64)),
    ratio("access", "reserve/s with a token that was seen before ÷ without credentials", (0.93, 1.0), Formula::Over(M::KnownToken64, M::Hot64)),
    most("promise", "reserve p99 at 1,400 reserves/s", "ms", (50.0, 25.0), Formula::P99(M::PromiseReserve)),
    most("promise", "availability p99 meanwhile", "ms", (10.0, 5.0), Formula::P99(M::PromiseLook)),
    most("due", "100,000 holds due in one second: all reclaimed", "s", (10.0, 2.0), Formula::Value(M::DueReclaimed)),
    most("due", "p99 of 1,000 reserves/s meanwhile", "ms", (50.0, 20.0), Formula::P99(M::DueReserve)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_times_and_not_rates() {
        let round = Round::from([
            (M::LargeHot, Reading::of(50.0, Reading::PER_SECOND)),
            (M::SmallHot, Reading::of(100.0, Reading::PER_SECOND)),
        ]);
        let figure = FIGURES.iter().find(|figure| figure.id == "G13a").unwrap();
        assert_eq!(figure.made.value(&round), Some(2.0));
        assert_eq!(figure.number(), "G13");
    }

    #[test]
    fn a_figure_lacks_what_was_not_measured() {
        let round = Round::from([(M::One, Reading::steady(1, 1.0, 2.0))]);
        let value = |id: &str| FIGURES.iter().find(|figure| figure.id == id).unwrap().made.value(&round);
        assert_eq!(value("G11"), None);
    }
}
