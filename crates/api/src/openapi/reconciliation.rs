//! The operations on stock masters, and what their answers look like.

use super::operation::{Operation, in_path};
use super::reservations::example;
use super::samples::written;
use super::schema::{
    always, array, closed, counter, flag, label, maybe, named, object, text, time, units, uuid, word,
};
use crate::delivery_state::{DeliveryFailure, DeliveryState};
use crate::encode;
use crate::field::FieldValue;
use crate::printable::QUOTE_CHARS;
use crate::routes::RouteId;
use crate::stock_master_record::{
    DecrementBatch, DecrementLine, Finding, FindingKind, ReconciliationReport, StockMasterFailures,
    StockMasterRecord, StockMasterStatus,
};
use serde_json::{Value, json};

/// What `next_attempt_at` of a failure is.
const NEXT_ATTEMPT: &str = "When the next attempt is due.";
/// What `action` of a failure is.
const ACTION: &str = "Who has to do what before it goes on. Absent: it may go on by itself.";

/// The state of what works with another system.
fn delivery_state() -> Value {
    DeliveryState::schema(
        "`running`; `retrying`: the last attempt failed, and the next one may succeed; `blocked`: nothing goes on before somebody does \
         what `last_error.action` says; `standby`: no instance serves it.",
    )
}

/// What the other system said.
fn failure_message() -> Value {
    text(&format!(
        "What the other system said, at most {QUOTE_CHARS} printable characters, or what happened."
    ))
}

/// Most stock masters that an answer can have: there is no bound but that of the configuration.
const STOCK_MASTERS: usize = 1_000;
/// The instant of the examples.
const AT: i64 = 1_795_627_174_558_000;

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    let forget = Operation::of(RouteId::ForgetStockMaster).parameter(in_path(
        "stock_master",
        label("Its name."),
        "old_erp",
    ));
    vec![list(), reconcile(), forget]
}

/// Their schemas, by name.
#[expect(clippy::too_many_lines, reason = "one entry for each schema")]
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let kinds: Vec<_> = FindingKind::ALL.iter().map(|kind| kind.name()).collect();
    let meanings: Vec<_> =
        FindingKind::ALL.iter().map(|kind| format!("`{}`: {}", kind.name(), kind.meaning())).collect();
    let signed =
        |description: &str| json!({ "type": "integer", "format": "int64", "description": description });
    let counts = json!({
        "type": "object",
        "description": "How often each kind of finding occurred. A kind that did not occur is absent.",
        "properties": FindingKind::ALL.iter().map(|kind| (kind.name().to_owned(), counter(kind.meaning()))).collect::<serde_json::Map<_, _>>(),
    });
    vec![
        (
            "StockMasterList",
            object(
                "The stock masters.",
                vec![always(
                    "data",
                    array(named("StockMaster"), 0, STOCK_MASTERS, "In the order of their names."),
                )],
            ),
        ),
        (
            "StockMaster",
            object(
                "An external system that owns the totals of items.",
                vec![
                    always("stock_master", label("Its name in the configuration.")),
                    always("kind", word(&["json", "magento"], "What it is.")),
                    always("state", delivery_state()),
                    always("position", counter("The last event whose sales it was told of.")),
                    maybe("batch", named("StockMasterBatch")),
                    maybe("last_error", named("StockMasterError")),
                    maybe("instance", label("The instance that serves it.")),
                    maybe("report", named("ReconciliationReport")),
                ],
            ),
        ),
        (
            "StockMasterBatch",
            object(
                "Decrements that are being sent.",
                vec![
                    always("batch_id", uuid("Its id, which is also the idempotency key.")),
                    always("lines", counter("The number of its items.")),
                    always("attempts", counter("Failed attempts.")),
                    maybe(
                        "refused",
                        text("Why the stock master refuses it. Absent while its outcome is not known."),
                    ),
                ],
            ),
        ),
        (
            "StockMasterError",
            object(
                "The last failure of a call to a stock master.",
                vec![
                    always("at", time("When it failed.")),
                    always("message", failure_message()),
                    maybe("next_attempt_at", time(NEXT_ATTEMPT)),
                    maybe("action", text(ACTION)),
                ],
            ),
        ),
        (
            "ReconciliationReport",
            object(
                "What a comparison has found.",
                vec![
                    always("at", time("When it ended.")),
                    always("dry_run", flag("Whether nothing was changed.")),
                    always("figures_compared", counter("Figures that were compared since the last report.")),
                    always("orders_compared", counter("Orders that were read.")),
                    always("sales_compared", counter("Sales that were compared.")),
                    always(
                        "sales_without_order_id",
                        counter("Sales without an order id, which can't be compared."),
                    ),
                    always("pending_units", signed("Units that the stock master has not booked yet.")),
                    maybe("incomplete", text("Why a part could not be compared.")),
                    always("counts", named("FindingCounts")),
                    always(
                        "findings",
                        array(
                            named("Finding"),
                            0,
                            ReconciliationReport::FINDINGS,
                            "The findings, as far as there is room for them.",
                        ),
                    ),
                ],
            ),
        ),
        ("FindingCounts", counts),
        (
            "Finding",
            object(
                "One thing that a comparison has found.",
                vec![
                    always("kind", word(&kinds, &meanings.join(" "))),
                    maybe("sku", label("The item.")),
                    maybe("location", label("Its location.")),
                    maybe("figure", signed("The units that the stock master has.")),
                    maybe("total_units_before", units("The total here before.")),
                    maybe("total_units", units("The total here after it. Of a dry run: as it would be.")),
                    maybe("order_id", text("The order.")),
                    maybe("reservation_id", uuid("The reservation.")),
                    maybe("message", text("What the stock master said.")),
                ],
            ),
        ),
        (
            "ReconciliationRequest",
            closed(
                "Which stock master, and what to do.",
                vec![
                    always("stock_master", label("Its name in the configuration.")),
                    maybe("dry_run", flag("Only report. Without it, `false`.")),
                    maybe(
                        "accept_batch",
                        label(
                            "The `batch_id` of a batch that the stock master refuses: it counts as booked. Not beside `dry_run`.",
                        ),
                    ),
                ],
            ),
        ),
    ]
}

fn report() -> ReconciliationReport {
    let mut report = ReconciliationReport {
        at: AT,
        figures_compared: 1_204,
        orders_compared: 310,
        sales_compared: 308,
        pending_units: 3,
        ..ReconciliationReport::default()
    };
    report.add(Finding {
        sku: Some("tea".to_owned()),
        location: Some("default".to_owned()),
        figure: Some(38),
        total_units_before: Some(50),
        total_units: Some(48),
        ..Finding::new(FindingKind::TotalCorrected)
    });
    report.add(Finding {
        order_id: Some("1007".to_owned()),
        ..Finding::new(FindingKind::OrderWithoutReservation)
    });
    report
}

fn list() -> Operation {
    let line = DecrementLine {
        sku: "tea".to_owned(),
        location: "default".to_owned(),
        quantity: 3,
        order_ids: vec!["1008".to_owned()],
    };
    let batch = DecrementBatch {
        batch_id: "0193a1f0-5b40-7c3e-9d51-3f0a6c1e8b27".to_owned(),
        through: 2_411,
        part: 0,
        lines: vec![line],
        attempts: 2,
        refused: None,
    };
    let record = StockMasterRecord {
        kind: "json".to_owned(),
        position: 2_402,
        batch: Some(batch),
        holder: Some("shop-1".to_owned()),
        failures: StockMasterFailures {
            decrements: Some(
                DeliveryFailure::new(AT, "HTTP 503: down for a backup").with_next_attempt(AT + 10_000_000),
            ),
            ..StockMasterFailures::default()
        },
        ..StockMasterRecord::default()
    };
    let all = [StockMasterStatus { name: "erp".to_owned(), record, report: Some(report()) }];
    Operation::of(RouteId::GetReconciliation).responds(json!({
        "down": example("A stock master that is down", written(|out| encode::stock_masters(out, &all))),
    }))
}

fn reconcile() -> Operation {
    let report = report();
    Operation::of(RouteId::Reconcile)
        .requests(json!({
            "compare": example("Compare and correct", json!({ "stock_master": "erp" })),
            "dry_run": example("Only report", json!({ "stock_master": "erp", "dry_run": true })),
        }))
        .responds(json!({
            "report": example("What was found", written(|out| encode::reconciliation_report(out, &report))),
        }))
}
