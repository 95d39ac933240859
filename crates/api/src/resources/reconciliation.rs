//! Stock masters: external systems that own the totals of items, and comparisons with them.

use crate::decode::Invalid;
use crate::delivery_state::{DeliveryFailure, DeliveryState};
use crate::field::{
    LABEL, MemberSchema, ObjectShape, OneOf, Part, UUID, Whole, entry, list, object_schema, one_of,
    plain_values, whole,
};
use crate::openapi::operation::{Operation, in_path};
use crate::openapi::reservations::example;
use crate::openapi::samples::to_value;
use crate::openapi::schema::{counter, label, word};
use crate::routes::row::{self, empty, required};
use crate::routes::table::PLAIN;
use crate::routes::{Access, RequiredScope, RouteId, RouteSpec, Tag};
use crate::stock_master_record::{self as stored, Finding, FindingKind, StockMasterRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use stockhold_api_macros::shape;
use stockhold_domain::limits::TOTAL_UNITS;
use stockhold_domain::{Instant, Label};
use stockhold_service::Scope;

/// Most stock masters that an answer can have: there is no bound but that of the configuration.
const STOCK_MASTERS: usize = 1_000;
/// The instant of the examples.
const AT: i64 = 1_795_627_174_558_000;

const KINDS: OneOf = one_of(|| vec!["json", "magento"]);
/// Units of an item, as its figures have them.
pub(crate) const UNITS: Whole = whole(0..=TOTAL_UNITS);

plain_values! {
    FindingKind: |_| {
        let names: Vec<_> = FindingKind::ALL.iter().map(|kind| kind.name()).collect();
        let meaning = |kind: &FindingKind| format!("`{}`: {}", kind.name(), kind.meaning());
        word(&names, &FindingKind::ALL.iter().map(meaning).collect::<Vec<_>>().join(" "))
    },
}

/// The stock masters.
#[shape(answer)]
pub struct StockMasterList {
    /// In the order of their names.
    #[is(list(0..=STOCK_MASTERS))]
    pub data: Vec<StockMaster>,
}

/// An external system that owns the totals of items.
#[shape(answer)]
pub struct StockMaster {
    /// Its name in the configuration.
    #[is(LABEL)]
    pub stock_master: String,
    /// What it is.
    #[is(KINDS)]
    pub kind: String,
    /// `running`; `retrying`: the last attempt failed, and the next one may succeed; `blocked`: nothing goes on before somebody does
    /// what `last_error.action` says; `standby`: no instance serves it.
    pub state: DeliveryState,
    /// The last event whose sales it was told of.
    pub position: u64,
    /// Decrements that are being sent.
    pub batch: Option<StockMasterBatch>,
    /// The last failure of a call to it.
    pub last_error: Option<StockMasterError>,
    /// The instance that serves it.
    #[is(LABEL)]
    pub instance: Option<String>,
    /// What the last comparison has found.
    pub report: Option<ReconciliationReport>,
}

/// Decrements that are being sent.
#[shape(answer)]
pub struct StockMasterBatch {
    /// Its id, which is also the idempotency key.
    #[is(UUID)]
    pub batch_id: String,
    /// The number of its items.
    pub lines: u64,
    /// Failed attempts.
    pub attempts: u64,
    /// Why the stock master refuses it. Absent while its outcome is not known.
    pub refused: Option<String>,
}

/// The last failure of a call to a stock master.
#[shape(answer)]
pub struct StockMasterError {
    /// When it failed.
    pub at: Instant,
    /// What the other system said, at most 256 printable characters, or what happened.
    pub message: String,
    /// When the next attempt is due.
    pub next_attempt_at: Option<Instant>,
    /// Who has to do what before it goes on. Absent: it may go on by itself.
    pub action: Option<String>,
}

/// What a comparison has found.
#[shape(answer)]
pub struct ReconciliationReport {
    /// When it ended.
    pub at: Instant,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Figures that were compared since the last report.
    pub figures_compared: u64,
    /// Orders that were read.
    pub orders_compared: u64,
    /// Sales that were compared.
    pub sales_compared: u64,
    /// Sales without an order id, which can't be compared.
    pub sales_without_order_id: u64,
    /// Units that the stock master has not booked yet.
    pub pending_units: i64,
    /// Why a part could not be compared.
    pub incomplete: Option<String>,
    /// How often each kind of finding occurred.
    pub counts: FindingCounts,
    /// The findings, as far as there is room for them.
    #[is(list(0..=stored::ReportRecord::FINDINGS))]
    pub findings: Vec<Finding>,
}

/// How often each kind of finding occurred: a member for each kind that did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindingCounts(BTreeMap<FindingKind, u64>);

/// Which stock master, and what to do.
#[shape(request)]
pub struct ReconciliationRequest {
    /// Its name in the configuration.
    pub stock_master: Label,
    /// Only report. Without it, `false`.
    pub dry_run: Option<bool>,
    /// The `batch_id` of a batch that the stock master refuses: it counts as booked. Not beside `dry_run`.
    pub accept_batch: Option<Label>,
}

/// What a caller asks of a stock master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReconcileAction {
    /// To compare now.
    Compare {
        /// Whether nothing is changed.
        dry_run: bool,
    },
    /// To count a refused batch as booked.
    AcceptBatch(Label),
}

impl ReconciliationRequest {
    /// What is asked of the stock master.
    pub(crate) fn action(&self) -> Result<ReconcileAction, Invalid> {
        match (&self.accept_batch, self.dry_run) {
            (Some(_), Some(_)) => Err(Invalid::new("/dry_run", "must be left out beside accept_batch")),
            (Some(batch), None) => Ok(ReconcileAction::AcceptBatch(batch.clone())),
            (None, dry_run) => Ok(ReconcileAction::Compare { dry_run: dry_run.unwrap_or_default() }),
        }
    }
}

impl ObjectShape for FindingCounts {
    const NAME: &'static str = "FindingCounts";

    fn members(_: Part) -> Vec<MemberSchema> {
        let member = |kind: &FindingKind| MemberSchema {
            name: kind.name(),
            schema: counter(kind.meaning()),
            is_required: false,
        };
        FindingKind::ALL.iter().map(member).collect()
    }

    fn schema() -> Value {
        let description = "How often each kind of finding occurred. A kind that did not occur is absent.";
        object_schema::<Self>(description, false, &[])
    }
}

impl StockMaster {
    /// A stock master, and its last report.
    pub fn of(name: &str, record: &StockMasterRecord, report: Option<&stored::ReportRecord>) -> Self {
        Self {
            stock_master: name.to_owned(),
            kind: record.kind.clone(),
            state: record.state(),
            position: record.position,
            batch: record.batch.as_ref().map(StockMasterBatch::from),
            last_error: record.last_error().map(StockMasterError::from),
            instance: record.holder.clone(),
            report: report.map(ReconciliationReport::from),
        }
    }
}

impl From<&stored::DecrementBatch> for StockMasterBatch {
    fn from(batch: &stored::DecrementBatch) -> Self {
        Self {
            batch_id: batch.batch_id.clone(),
            lines: batch.lines.len() as u64,
            attempts: batch.attempts.into(),
            refused: batch.refused.clone(),
        }
    }
}

impl From<&DeliveryFailure> for StockMasterError {
    fn from(failure: &DeliveryFailure) -> Self {
        Self {
            at: Instant::from_micros(failure.at),
            message: failure.message.clone(),
            next_attempt_at: failure.next_at.map(Instant::from_micros),
            action: failure.action.clone(),
        }
    }
}

impl From<&stored::ReportRecord> for ReconciliationReport {
    fn from(report: &stored::ReportRecord) -> Self {
        Self {
            at: Instant::from_micros(report.at),
            dry_run: report.dry_run,
            figures_compared: report.figures_compared,
            orders_compared: report.orders_compared,
            sales_compared: report.sales_compared,
            sales_without_order_id: report.sales_without_order_id,
            pending_units: report.pending_units,
            incomplete: report.incomplete.clone(),
            counts: FindingCounts(report.counts.clone()),
            findings: report.findings.clone(),
        }
    }
}

pub(crate) const GET_RECONCILIATION: RouteSpec = RouteSpec {
    metric: "reconciliation",
    tag: Tag::Inventory,
    summary: "Show the stock masters and their last reports",
    description: "The external systems that own the totals of items: those of the configuration of this server, and those that the store \
        has a record of. Each with the batch of decrements that has no answer yet, its last failure, and the report of the last comparison. \
        Every instance shows the same. A caller with restrictions may not read it.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    responses: &[row::json(200, "The stock masters, in the order of their names.", "StockMasterList")],
    ..PLAIN
};

pub(crate) const RECONCILE: RouteSpec = RouteSpec {
    metric: "reconcile",
    tag: Tag::Inventory,
    summary: "Compare with a stock master now",
    description: "Reads the figures and the orders of a stock master, corrects totals, and answers with the report. With `dry_run`, it \
        only reports. The answer may take up to 60 seconds. If it takes longer, the answer is `unavailable`, and the comparison goes on. \
        With `accept_batch`, it compares nothing: the batch of decrements that the stock master refuses counts as booked, because you have \
        booked it by hand. A caller with restrictions may not do it.",
    body: required("ReconciliationRequest"),
    access: Access::Write,
    scope: RequiredScope::One(Scope::InventoryWrite),
    responses: &[row::json(200, "What was found.", "ReconciliationReport")],
    ..PLAIN
};

pub(crate) const FORGET_STOCK_MASTER: RouteSpec = RouteSpec {
    metric: "forget_stock_master",
    tag: Tag::Inventory,
    summary: "Forget a removed stock master",
    description: "Deletes what is stored of a stock master that is not in the configuration of this server any more, so that it keeps no \
        event from an archive. Items keep their `stock_master`. One that is configured is refused. A caller with restrictions may not do it.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::InventoryWrite),
    responses: &[empty(204, "Nothing is stored of it.")],
    ..PLAIN
};

/// The operations of the document.
pub(crate) fn operations() -> Vec<Operation> {
    let forget = Operation::of(RouteId::ForgetStockMaster).parameter(in_path(
        "stock_master",
        label("Its name."),
        "old_erp",
    ));
    vec![list_all(), reconcile(), forget]
}

/// The schemas of the document, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        entry::<StockMasterList>(),
        entry::<StockMaster>(),
        entry::<StockMasterBatch>(),
        entry::<StockMasterError>(),
        entry::<ReconciliationReport>(),
        entry::<FindingCounts>(),
        entry::<Finding>(),
        entry::<ReconciliationRequest>(),
    ]
}

fn report() -> ReconciliationReport {
    let mut report = stored::ReportRecord {
        at: AT,
        figures_compared: 1_204,
        orders_compared: 310,
        sales_compared: 308,
        pending_units: 3,
        ..stored::ReportRecord::default()
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
    ReconciliationReport::from(&report)
}

fn list_all() -> Operation {
    let batch = StockMasterBatch {
        batch_id: "0193a1f0-5b40-7c3e-9d51-3f0a6c1e8b27".to_owned(),
        lines: 1,
        attempts: 2,
        refused: None,
    };
    let failure = DeliveryFailure::new(AT, "HTTP 503: down for a backup").with_next_attempt(AT + 10_000_000);
    let erp = StockMaster {
        stock_master: "erp".to_owned(),
        kind: "json".to_owned(),
        state: DeliveryState::Retrying,
        position: 2_402,
        batch: Some(batch),
        last_error: Some(StockMasterError::from(&failure)),
        instance: Some("shop-1".to_owned()),
        report: Some(report()),
    };
    let all = StockMasterList { data: vec![erp] };
    Operation::of(RouteId::GetReconciliation)
        .responds(json!({ "down": example("A stock master that is down", to_value(&all)) }))
}

fn reconcile() -> Operation {
    Operation::of(RouteId::Reconcile)
        .requests(json!({
            "compare": example("Compare and correct", json!({ "stock_master": "erp" })),
            "dry_run": example("Only report", json!({ "stock_master": "erp", "dry_run": true })),
        }))
        .responds(json!({ "report": example("What was found", to_value(&report())) }))
}
