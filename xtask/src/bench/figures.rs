//! The figures: which measurements each takes, how they make a ratio, and what it must and should be.

use std::collections::BTreeMap;

/// One thing that is measured once a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measurement {
    Hot64,
    RedisOff,
    RedisAlways,
    Spread64,
    SyncOff64,
    Hot512,
    Delay512,
    One,
    RoundTrip,
    Sync,
}

impl Measurement {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hot64 => "reserve, one hot SKU, 64 connections",
            Self::RedisOff => "Redis Lua reserve, no persistence, 50 connections",
            Self::RedisAlways => "Redis Lua reserve, appendfsync always, 50 connections",
            Self::Spread64 => "reserve, 10,000 SKUs evenly, 64 connections",
            Self::SyncOff64 => "reserve, syncs switched off, 64 connections",
            Self::Hot512 => "reserve, one hot SKU, 512 connections",
            Self::Delay512 => "reserve, 1 ms added to every sync, 512 connections",
            Self::One => "reserve, one connection",
            Self::RoundTrip => "loopback round trip of the same sizes",
            Self::Sync => "fdatasync of one written page",
        }
    }
}

/// What one measurement gave in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Per second.
    pub(super) rate: f64,
    /// Microseconds.
    pub(super) p50: f64,
    /// Microseconds.
    pub(super) p99: f64,
    /// Shares of a core.
    pub(super) load_cpu: f64,
    pub(super) server_cpu: f64,
    /// What everybody else used, in cores.
    pub(super) other_cpu: f64,
}

/// All readings of one round.
pub(super) type Round = BTreeMap<Measurement, Reading>;

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    Higher,
    Lower,
}

/// One figure.
pub(super) struct Figure {
    pub(super) id: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
    pub(super) must: f64,
    pub(super) goal: f64,
    pub(super) needs: &'static [Measurement],
    pub(super) value: fn(&Round) -> Option<f64>,
}

use Measurement::{
    Delay512, Hot64, Hot512, One, RedisAlways, RedisOff, RoundTrip, Spread64, Sync, SyncOff64,
};

fn ratio(round: &Round, over: Measurement, under: Measurement) -> Option<f64> {
    Some(round.get(&over)?.rate / round.get(&under)?.rate)
}

/// The figures that rounds are made of; the crowd falling due is measured apart.
pub(super) const FIGURES: &[Figure] = &[
    Figure {
        id: "G1",
        what: "durable reserve/s ÷ Redis with no persistence",
        unit: "×",
        better: Better::Higher,
        must: 1.2,
        goal: 2.0,
        needs: &[Hot64, RedisOff],
        value: |round| ratio(round, Hot64, RedisOff),
    },
    Figure {
        id: "G2",
        what: "durable reserve/s ÷ Redis with appendfsync always",
        unit: "×",
        better: Better::Higher,
        must: 1.6,
        goal: 2.6,
        needs: &[Hot64, RedisAlways],
        value: |round| ratio(round, Hot64, RedisAlways),
    },
    Figure {
        id: "G3",
        what: "p99 of G1's reserves",
        unit: "ms",
        better: Better::Lower,
        must: 5.0,
        goal: 2.0,
        needs: &[Hot64],
        value: |round| Some(round.get(&Hot64)?.p99 / 1_000.0),
    },
    Figure {
        id: "G9",
        what: "one hot SKU ÷ 10,000 SKUs evenly",
        unit: "×",
        better: Better::Higher,
        must: 0.9,
        goal: 1.0,
        needs: &[Hot64, Spread64],
        value: |round| ratio(round, Hot64, Spread64),
    },
    Figure {
        id: "G10a",
        what: "fsync on ÷ off, 64 connections",
        unit: "×",
        better: Better::Higher,
        must: 0.85,
        goal: 0.95,
        needs: &[Hot64, SyncOff64],
        value: |round| ratio(round, Hot64, SyncOff64),
    },
    Figure {
        id: "G10b",
        what: "1 ms added to every sync ÷ none, 512 connections",
        unit: "×",
        better: Better::Higher,
        must: 0.7,
        goal: 0.9,
        needs: &[Hot512, Delay512],
        value: |round| ratio(round, Delay512, Hot512),
    },
    Figure {
        id: "G11",
        what: "p50 of one connection ÷ (loopback round trip + one sync)",
        unit: "×",
        better: Better::Lower,
        must: 3.0,
        goal: 1.5,
        needs: &[One, RoundTrip, Sync],
        value: |round| Some(round.get(&One)?.p50 / (round.get(&RoundTrip)?.p50 + round.get(&Sync)?.p50)),
    },
];

/// The figures of the crowd falling due.
pub(super) const DUE_SECONDS: Figure = Figure {
    id: "due",
    what: "100,000 holds due in one second: all reclaimed",
    unit: "s",
    better: Better::Lower,
    must: 10.0,
    goal: 2.0,
    needs: &[],
    value: |_| None,
};
pub(super) const DUE_P99: Figure = Figure {
    id: "due p99",
    what: "p99 of 1,000 reserves/s meanwhile, open loop",
    unit: "ms",
    better: Better::Lower,
    must: 50.0,
    goal: 20.0,
    needs: &[],
    value: |_| None,
};
