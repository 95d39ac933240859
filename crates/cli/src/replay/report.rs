//! What a replay ends with, as values: [`super::text`] writes them for people, serde for programs.

use super::audit::Verdict;
use super::junk::Found;
use super::ledger::{Baskets, Cancellations, Ledger, WriteOffs};
use crate::latency::Percentiles;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// See the module. Field names are part of the interface.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) files: usize,
    pub(super) lines: u64,
    pub(super) lines_used: u64,
    pub(super) lines_junk: u64,
    pub(super) junk: BTreeMap<super::junk::Kind, Found>,
    pub(super) key_prefix: String,
    pub(super) stock: Stock,
    pub(super) baskets: Baskets,
    pub(super) cancellations: Cancellations,
    pub(super) write_offs: WriteOffs,
    pub(super) replayed_answers: u64,
    pub(super) repeated_requests: u64,
    pub(super) top: Vec<Top>,
    pub(super) seconds: f64,
    pub(super) baskets_per_second: f64,
    pub(super) commands_per_second: f64,
    pub(super) latency: Vec<Percentiles>,
    pub(super) audit: Verdict,
}

/// How the stock was set up.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Stock {
    /// Items that were made.
    pub(super) created: u64,
    /// Items that were there, and were left as they are.
    pub(super) found: u64,
}

/// One of the best sellers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Top {
    pub(super) sku: String,
    /// Units in confirmed reservations, returned ones included.
    pub(super) sold: u64,
    pub(super) returned: u64,
    /// Units before the first order.
    pub(super) stock: u64,
    /// Units that baskets asked for.
    pub(super) demand: u64,
}

/// What the report knows besides the ledger.
pub(super) struct Facts<'a> {
    pub(super) files: usize,
    pub(super) lines: u64,
    pub(super) junk: &'a super::junk::Junk,
    pub(super) key_prefix: &'a str,
    pub(super) stock: Stock,
    pub(super) demand: &'a BTreeMap<String, u64>,
    pub(super) repeated: u64,
    pub(super) took: Duration,
    pub(super) top: usize,
}

impl Report {
    pub(super) fn new(facts: &Facts<'_>, ledger: &Ledger, audit: Verdict) -> Self {
        let seconds = facts.took.as_secs_f64();
        Self {
            files: facts.files,
            lines: facts.lines,
            lines_used: facts.lines - facts.junk.lines(),
            lines_junk: facts.junk.lines(),
            junk: facts.junk.kinds().clone(),
            key_prefix: facts.key_prefix.to_owned(),
            stock: facts.stock,
            baskets: ledger.baskets.clone(),
            cancellations: ledger.cancellations.clone(),
            write_offs: ledger.write_offs.clone(),
            replayed_answers: ledger.replayed,
            repeated_requests: facts.repeated,
            top: top(facts, ledger),
            seconds,
            baskets_per_second: rate(ledger.baskets.orders, seconds),
            commands_per_second: rate(ledger.answered, seconds),
            latency: ledger.latencies.percentiles(),
            audit,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn top(facts: &Facts<'_>, ledger: &Ledger) -> Vec<Top> {
    let mut sold: Vec<_> = ledger.skus.iter().filter(|(_, figures)| figures.confirmed > 0).collect();
    sold.sort_by_key(|(sku, figures)| (Reverse(figures.confirmed), *sku));
    sold.truncate(facts.top);
    sold.into_iter()
        .map(|(sku, figures)| Top {
            sku: sku.clone(),
            sold: figures.confirmed,
            returned: figures.returned,
            stock: figures.stock,
            demand: facts.demand.get(sku).copied().unwrap_or(0),
        })
        .collect()
}
