//! Stock masters and comparisons with them as JSON.

use super::json::{Object, array};
use crate::delivery_state::DeliveryFailure;
use crate::field::Words;
use crate::stock_master_record::{Finding, ReconciliationReport, StockMasterRecord, StockMasterStatus};
use stockhold_domain::{Instant, RecordValue};

/// The stock masters, each with its last report.
pub fn stock_masters(out: &mut Vec<u8>, all: &[StockMasterStatus]) {
    let mut object = Object::open(out);
    array(object.value("data"), all, stock_master);
    object.close();
}

fn stock_master(out: &mut Vec<u8>, StockMasterStatus { name, record, report }: &StockMasterStatus) {
    let StockMasterRecord { kind, position, batch, holder, .. } = record;
    let mut object = Object::open(out);
    object.text("stock_master", name);
    object.text("kind", kind);
    object.word("state", record.state().word());
    object.number("position", *position);
    if let Some(batch) = batch {
        let mut shown = Object::open(object.value("batch"));
        shown.text("batch_id", &batch.batch_id);
        shown.number("lines", batch.lines.len() as u64);
        shown.number("attempts", u64::from(batch.attempts));
        shown.optional_text("refused", batch.refused.as_deref());
        shown.close();
    }
    if let Some(failure) = record.last_error() {
        let mut shown = Object::open(object.value("last_error"));
        put_failure(&mut shown, failure);
        shown.close();
    }
    object.optional_text("instance", holder.as_deref());
    if let Some(report) = report {
        reconciliation_report(object.value("report"), report);
    }
    object.close();
}

/// What a comparison has found.
pub fn reconciliation_report(out: &mut Vec<u8>, report: &ReconciliationReport) {
    let mut object = Object::open(out);
    object.time("at", Instant::from_micros(report.at));
    object.flag("dry_run", report.dry_run);
    object.number("figures_compared", report.figures_compared);
    object.number("orders_compared", report.orders_compared);
    object.number("sales_compared", report.sales_compared);
    object.number("sales_without_order_id", report.sales_without_order_id);
    object.raw("pending_units", &report.pending_units.to_string());
    object.optional_text("incomplete", report.incomplete.as_deref());
    counts(&mut object, report);
    array(object.value("findings"), &report.findings, finding);
    object.close();
}

fn counts(object: &mut Object<'_>, report: &ReconciliationReport) {
    let mut counts = Object::open(object.value("counts"));
    for (kind, count) in &report.counts {
        counts.number(kind.name(), *count);
    }
    counts.close();
}

fn finding(out: &mut Vec<u8>, finding: &Finding) {
    let mut object = Object::open(out);
    object.word("kind", finding.kind.name());
    object.optional_text("sku", finding.sku.as_deref());
    object.optional_text("location", finding.location.as_deref());
    if let Some(figure) = finding.figure {
        object.raw("figure", &figure.to_string());
    }
    if let Some(units) = finding.total_units_before {
        object.number("total_units_before", units);
    }
    if let Some(units) = finding.total_units {
        object.number("total_units", units);
    }
    object.optional_text("order_id", finding.order_id.as_deref());
    object.optional_text("reservation_id", finding.reservation_id.as_deref());
    object.optional_text("message", finding.message.as_deref());
    object.close();
}

/// What an event shows of a comparison: how often each kind of finding occurred.
pub(super) fn of_event(object: &mut Object<'_>, value: Option<&RecordValue>) {
    let report = value.and_then(|value| ReconciliationReport::from_bytes(value.as_bytes()).ok());
    if let Some(report) = &report {
        counts(object, report);
    }
}

/// Why something does not work with another system.
fn put_failure(object: &mut Object<'_>, failure: &DeliveryFailure) {
    object.time("at", Instant::from_micros(failure.at));
    object.text("message", &failure.message);
    if let Some(next) = failure.next_at {
        object.time("next_attempt_at", Instant::from_micros(next));
    }
    object.optional_text("action", failure.action.as_deref());
}
