//! What a replay ends with, as values: [`super::text`] writes them for people, serde for programs.

use super::audit::ReplayAudit;
use super::ledger::{CancellationTotals, CartTotals, Ledger, SaleTotals, WriteOffTotals};
use super::unusable_lines::UnusableLineCount;
use crate::latency::Percentiles;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// The result of a replay. Field names are part of the interface.
#[derive(Debug, Serialize)]
pub(super) struct ReplayReport {
    pub(super) files: usize,
    pub(super) lines: u64,
    pub(super) lines_used: u64,
    pub(super) lines_junk: u64,
    pub(super) junk: BTreeMap<super::unusable_lines::LineError, UnusableLineCount>,
    pub(super) key_prefix: String,
    pub(super) stock: StockSetup,
    pub(super) baskets: SaleTotals,
    pub(super) cancellations: CancellationTotals,
    pub(super) write_offs: WriteOffTotals,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) carts: Option<CartTotals>,
    pub(super) replayed_answers: u64,
    pub(super) repeated_requests: u64,
    pub(super) top: Vec<BestSeller>,
    pub(super) seconds: f64,
    pub(super) baskets_per_second: f64,
    pub(super) commands_per_second: f64,
    pub(super) latency: Vec<Percentiles>,
    pub(super) audit: ReplayAudit,
}

/// How the stock was set up.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct StockSetup {
    /// Items that were made.
    pub(super) created: u64,
    /// Items that were there, and were left as they are.
    pub(super) found: u64,
}

/// One of the best sellers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BestSeller {
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
pub(super) struct ReportInput<'a> {
    pub(super) files: usize,
    pub(super) lines: u64,
    pub(super) junk: &'a super::unusable_lines::UnusableLines,
    pub(super) key_prefix: &'a str,
    pub(super) stock: StockSetup,
    pub(super) carts: bool,
    pub(super) demand: &'a BTreeMap<String, u64>,
    pub(super) repeated: u64,
    pub(super) took: Duration,
    pub(super) top: usize,
}

impl ReplayReport {
    pub(super) fn new(facts: &ReportInput<'_>, ledger: &Ledger, audit: ReplayAudit) -> Self {
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
            carts: facts.carts.then(|| ledger.carts.clone()),
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

fn top(facts: &ReportInput<'_>, ledger: &Ledger) -> Vec<BestSeller> {
    let mut sold: Vec<_> = ledger.skus.iter().filter(|(_, figures)| figures.confirmed > 0).collect();
    sold.sort_by_key(|(sku, figures)| (Reverse(figures.confirmed), *sku));
    sold.truncate(facts.top);
    sold.into_iter()
        .map(|(sku, figures)| BestSeller {
            sku: sku.clone(),
            sold: figures.confirmed,
            returned: figures.returned,
            stock: figures.stock,
            demand: facts.demand.get(sku).copied().unwrap_or(0),
        })
        .collect()
}
