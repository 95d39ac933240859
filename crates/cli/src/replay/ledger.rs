//! What the replay was told: the one side of the audit.
//!
//! It holds only what a server acknowledged, and never asks one.

use super::audit::Difference;
use super::plan::InitialStock;
use crate::latency::{Latencies, RequestKind};
use serde::Serialize;
use std::collections::BTreeMap;
use stockhold_api::wire::Problem;

/// One SKU as the replay was told about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SkuTotals {
    /// Units before the first order.
    pub(super) stock: u64,
    /// Units in confirmed reservations, returned ones included.
    pub(super) confirmed: u64,
    /// Units that came back.
    pub(super) returned: u64,
    /// Units that were held and neither confirmed nor seen to end.
    pub(super) held: u64,
    /// What adjustments moved the total by.
    pub(super) adjusted: i64,
    /// Units that left the shelf and did not come back.
    pub(super) fulfilled: u64,
    /// Returned units that were taken off the total.
    pub(super) written_off: u64,
}

/// Refusals of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Refusals {
    /// How many.
    pub(super) count: u64,
    /// What the first said.
    pub(super) first: String,
}

/// Refusals by reason.
pub(super) type RefusalsByReason = BTreeMap<String, Refusals>;

/// Counts refusals.
pub(super) fn refuse(reasons: &mut RefusalsByReason, reason: &str, order: &str, detail: &str) {
    let entry = reasons.entry(reason.to_owned()).or_default();
    if entry.count == 0 {
        entry.first = format!("{order}: {detail}");
    }
    entry.count += 1;
}

/// Totals over all SKUs.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct SaleTotals {
    /// Orders to sell.
    pub(super) orders: u64,
    /// Those that got a hold.
    pub(super) held: u64,
    /// Those that were sold.
    pub(super) confirmed: u64,
    /// Units that orders asked for.
    pub(super) units_asked: u64,
    /// Units that were sold.
    pub(super) units_confirmed: u64,
    /// Those that got no hold, by reason.
    pub(super) refused: RefusalsByReason,
    /// Those whose hold ended before it was confirmed, by reason.
    pub(super) lost: RefusalsByReason,
}

/// What came back.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct CancellationTotals {
    /// Cancellations.
    pub(super) orders: u64,
    /// Their lines.
    pub(super) lines: u64,
    /// Returns of reservations that the replay had sold.
    pub(super) returns: u64,
    /// Units of these.
    pub(super) units_returned: u64,
    /// Adjustments, for what was sold before or not at all.
    pub(super) adjustments: u64,
    /// Units of these.
    pub(super) units_adjusted: u64,
    /// What the server did not take, by reason.
    pub(super) refused: RefusalsByReason,
}

/// What was written off.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct WriteOffTotals {
    /// Lines.
    pub(super) lines: u64,
    /// Adjustments that were made.
    pub(super) adjustments: u64,
    /// Units of these.
    pub(super) units: u64,
    /// What the server did not take, by reason.
    pub(super) refused: RefusalsByReason,
}

/// What was done to carts, in a replay with `--carts`.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct CartTotals {
    /// Lines that were added to a cart.
    pub(super) amended: u64,
    /// Lines that were left out because they were refused, by reason.
    pub(super) lines_refused: RefusalsByReason,
    /// Carts that a guest gave to a customer.
    pub(super) transferred: u64,
    /// Carts that were split.
    pub(super) split: u64,
    /// Those of them that were merged again.
    pub(super) merged: u64,
    /// Payment windows that were opened.
    pub(super) payments_opened: u64,
    /// Those of them that were closed because the payment was declined.
    pub(super) payments_declined: u64,
    /// Reservations that were confirmed with a payment.
    pub(super) payments_confirmed: u64,
    /// Shipments.
    pub(super) fulfilments: u64,
    /// Units of these.
    pub(super) units_fulfilled: u64,
    /// Returned units that had left the shelf.
    pub(super) units_returned_fulfilled: u64,
    /// Returned units that were written off.
    pub(super) units_written_off: u64,
    /// Other changes that were refused, by command and reason.
    pub(super) refused: RefusalsByReason,
}

/// The answers that the replay got, summed up for each SKU.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Every SKU of the plan.
    pub(super) skus: BTreeMap<String, SkuTotals>,
    pub(super) baskets: SaleTotals,
    pub(super) cancellations: CancellationTotals,
    pub(super) write_offs: WriteOffTotals,
    pub(super) carts: CartTotals,
    /// Answers that show something else than the request asked for.
    pub(super) differences: Vec<Difference>,
    /// Answers that repeated an earlier one.
    pub(super) replayed: u64,
    /// Commands that were answered.
    pub(super) answered: u64,
    pub(super) latencies: Latencies,
}

impl Ledger {
    /// Before the first order.
    pub(super) fn new(demand: &BTreeMap<String, u64>, rule: InitialStock) -> Result<Self, String> {
        let figures = |demand: &u64| SkuTotals { stock: rule.units(*demand), ..SkuTotals::default() };
        Ok(Self {
            skus: demand.iter().map(|(sku, demand)| (sku.clone(), figures(demand))).collect(),
            baskets: SaleTotals::default(),
            cancellations: CancellationTotals::default(),
            write_offs: WriteOffTotals::default(),
            carts: CartTotals::default(),
            differences: Vec::new(),
            replayed: 0,
            answered: 0,
            latencies: Latencies::new(RequestKind::OF_REPLAY)?,
        })
    }

    /// A SKU's figures, to note something.
    pub(super) fn sku(&mut self, sku: &str) -> &mut SkuTotals {
        self.skus.entry(sku.to_owned()).or_default()
    }

    /// Notes that a basket got no hold.
    pub(super) fn refused(&mut self, order: &str, problem: &Problem) {
        refuse(&mut self.baskets.refused, &problem.reason, order, &problem.detail);
    }

    /// Notes that a hold ended before it was confirmed.
    pub(super) fn lost(&mut self, order: &str, reason: &str, detail: &str) {
        refuse(&mut self.baskets.lost, reason, order, detail);
    }
}
