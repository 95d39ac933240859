//! What is stored of a stock master: how far it knows the sales, which instance serves it, and what the last comparison found. The relay
//! writes it, and the routes of the reconciliation read it, so every instance shows the same.

use crate::delivery_state::{DeliveryFailure, DeliveryState};
use crate::field::{LABEL, UUID};
use crate::printable::quote;
use crate::resources::reconciliation::UNITS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use stockhold_api_macros::shape;

/// Most bytes of findings in a report, so that a record has room for them.
const FINDINGS_BYTES: usize = 40_000;

/// Units of an item that a stock master is to subtract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecrementLine {
    /// The SKU.
    pub sku: String,
    /// The location.
    pub location: String,
    /// The units. Below 0: units that came back.
    pub quantity: i64,
    /// The orders that the units were sold for.
    pub order_ids: Vec<String>,
}

/// Decrements that are sent together. They are stored before they are sent, so that the same id always has the same lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecrementBatch {
    /// Its id, which is also the idempotency key.
    pub batch_id: String,
    /// The last event of which all units are in it or in an earlier batch.
    pub through: u64,
    /// The lines of the event behind that which are in it or in an earlier batch: an event may have more lines than a batch.
    #[serde(default)]
    pub part: usize,
    /// The lines, each item once.
    pub lines: Vec<DecrementLine>,
    /// Failed attempts to send it.
    #[serde(default)]
    pub attempts: u32,
    /// Why the stock master refuses it. `None` while its outcome is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A reconciliation that a caller asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconciliationOrder {
    /// Its id.
    pub id: String,
    /// Whether nothing is changed.
    pub dry_run: bool,
}

/// What fails of the work with a stock master. One part may fail while others succeed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockMasterFailures {
    /// Sending it sales.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decrements: Option<DeliveryFailure>,
    /// Reading its figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<DeliveryFailure>,
    /// Reading its orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orders: Option<DeliveryFailure>,
}

/// What is stored of a stock master.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockMasterRecord {
    /// Its kind, for example `json`.
    pub kind: String,
    /// The last event whose units the stock master has booked, or that concerns none of its items.
    pub position: u64,
    /// The lines of the event behind `position` that the stock master has booked.
    #[serde(default)]
    pub part: usize,
    /// The last event whose sale was compared with the orders of the stock master.
    pub compared: u64,
    /// The time up to which its orders were compared with reservations, in microseconds since 1970.
    pub orders_compared_at: i64,
    /// The batch that is being sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<DecrementBatch>,
    /// The last batch that was booked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booked: Option<String>,
    /// The instance that serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// What fails, until it succeeds.
    #[serde(default)]
    pub failures: StockMasterFailures,
    /// What a caller asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<ReconciliationOrder>,
}

/// Declares the kinds of findings, and their names on the wire.
macro_rules! finding_kinds {
    ($($kind:ident $name:literal $what:literal;)+) => {
        /// What a comparison has found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum FindingKind {
            $(#[doc = $what] #[serde(rename = $name)] $kind,)+
        }

        impl FindingKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),+ }
            }

            /// What it means.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$kind => $what),+ }
            }
        }
    };
}

finding_kinds! {
    TotalCorrected "total_corrected" "The total here did not fit the figure there, and was set.";
    CommittedAboveFigure "committed_above_figure" "More units are sold and held here than there are there. The total is as low as it can be, so nothing more is sold.";
    FigureContradictory "figure_contradictory" "The stock master gave two figures for one item. Neither was used.";
    FigureInvalid "figure_invalid" "The stock master gave a figure that no item can have. It was not used.";
    ItemUnknown "item_unknown" "The stock master has an item that does not exist here, or that another system owns.";
    ItemMissing "item_missing" "The stock master gave no figure for an item that it owns.";
    DecrementRefused "decrement_refused" "The stock master refuses a batch of decrements. Nothing behind it is sent.";
    SaleMissing "sale_missing" "The stock master has no order for a sale.";
    OrderWithoutReservation "order_without_reservation" "The stock master has an order, and no reservation was confirmed for it.";
    Orphan "orphan" "An active reservation is older than `orphan_after_seconds`, and the stock master has no order of its owner.";
    OrphanReleased "orphan_released" "Such a reservation was released.";
}

impl FindingKind {
    /// Whether every report finds it until somebody mends the cause.
    pub const fn persists(self) -> bool {
        match self {
            Self::CommittedAboveFigure
            | Self::FigureContradictory
            | Self::FigureInvalid
            | Self::ItemUnknown
            | Self::ItemMissing
            | Self::DecrementRefused
            | Self::Orphan => true,
            Self::TotalCorrected
            | Self::SaleMissing
            | Self::OrderWithoutReservation
            | Self::OrphanReleased => false,
        }
    }
}

/// One thing that a comparison has found.
// It is stored as it is shown.
#[shape(answer)]
#[derive(Eq)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// The item.
    #[is(LABEL)]
    pub sku: Option<String>,
    /// Its location.
    #[is(LABEL)]
    pub location: Option<String>,
    /// The units that the stock master has.
    pub figure: Option<i64>,
    /// The total here before.
    #[is(UNITS)]
    pub total_units_before: Option<u64>,
    /// The total here after it. Of a dry run: as it would be.
    #[is(UNITS)]
    pub total_units: Option<u64>,
    /// The order.
    pub order_id: Option<String>,
    /// The reservation.
    #[is(UUID)]
    pub reservation_id: Option<String>,
    /// What the stock master said.
    pub message: Option<String>,
}

impl Finding {
    /// A finding about nothing in particular.
    pub const fn new(kind: FindingKind) -> Self {
        Self {
            kind,
            sku: None,
            location: None,
            figure: None,
            total_units_before: None,
            total_units: None,
            order_id: None,
            reservation_id: None,
            message: None,
        }
    }

    /// About how many bytes it takes in a record.
    fn bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(0, |bytes| bytes.len())
    }
}

/// What a comparison has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportRecord {
    /// When it ended, in microseconds since 1970.
    pub at: i64,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// The request that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Figures of items that were compared since the last report.
    pub figures_compared: u64,
    /// Orders that were compared.
    pub orders_compared: u64,
    /// Sales that were compared.
    pub sales_compared: u64,
    /// Sales without an order id, which can't be compared.
    pub sales_without_order_id: u64,
    /// Units whose decrement the stock master has not booked.
    pub pending_units: i64,
    /// Why a part could not be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// How often each kind of finding occurred.
    pub counts: BTreeMap<FindingKind, u64>,
    /// The findings, as many as a record has room for.
    pub findings: Vec<Finding>,
}

impl ReportRecord {
    /// Most findings that a report shows.
    pub const FINDINGS: usize = 100;

    /// Adds a finding. It is always counted, and shown if there is room.
    pub fn add(&mut self, finding: Finding) {
        *self.counts.entry(finding.kind).or_default() += 1;
        if self.findings.len() >= Self::FINDINGS {
            return;
        }
        let bytes: usize = self.findings.iter().map(Finding::bytes).sum();
        if bytes + finding.bytes() <= FINDINGS_BYTES {
            self.findings.push(finding);
        }
    }

    /// Whether readers of events have to know: something was changed or is found once only, or what persists is not as it was in the
    /// last report.
    pub fn is_news_after(&self, last: &Self) -> bool {
        let persisting = |report: &Self| -> Vec<(FindingKind, u64)> {
            let counts = report.counts.iter().filter(|(kind, _)| kind.persists());
            counts.map(|(kind, count)| (*kind, *count)).collect()
        };
        self.counts.keys().any(|kind| !kind.persists()) || persisting(self) != persisting(last)
    }

    /// Notes that a part could not be compared. The first reason is kept.
    pub fn note_incomplete(&mut self, why: &str) {
        self.incomplete.get_or_insert_with(|| quote(why));
    }
}

/// The bytes of a record can't be read.
#[derive(Debug)]
pub struct StockMasterRecordError(serde_json::Error);

impl std::fmt::Display for StockMasterRecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the record of a stock master can't be read: {}", self.0)
    }
}

impl std::error::Error for StockMasterRecordError {}

impl StockMasterRecord {
    /// Its state.
    pub fn state(&self) -> DeliveryState {
        DeliveryState::of(self.holder.as_deref(), self.last_error())
    }

    /// The failure that matters most: one that waits for somebody, and else the newest.
    pub fn last_error(&self) -> Option<&DeliveryFailure> {
        let StockMasterFailures { decrements, figures, orders } = &self.failures;
        let all = [decrements, figures, orders].into_iter().flatten();
        all.max_by_key(|failure| (failure.action.is_some(), failure.at))
    }

    /// The bytes to store.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads stored bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StockMasterRecordError> {
        serde_json::from_slice(bytes).map_err(StockMasterRecordError)
    }
}

impl ReportRecord {
    /// The bytes to store.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads stored bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StockMasterRecordError> {
        serde_json::from_slice(bytes).map_err(StockMasterRecordError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::limits::RECORD_BYTES;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let line = DecrementLine {
            sku: "tea".to_owned(),
            location: "hub".to_owned(),
            quantity: -2,
            order_ids: vec!["1001".to_owned()],
        };
        let record = StockMasterRecord {
            kind: "json".to_owned(),
            position: 7,
            batch: Some(DecrementBatch {
                batch_id: "b".to_owned(),
                through: 9,
                part: 2,
                lines: vec![line],
                attempts: 1,
                refused: Some("no such SKU".to_owned()),
            }),
            holder: Some("a".to_owned()),
            failures: StockMasterFailures {
                decrements: Some(DeliveryFailure::new(2, "no\nanswer")),
                figures: Some(DeliveryFailure::new(1, "HTTP 401").with_action(Some("correct the token"))),
                orders: None,
            },
            request: Some(ReconciliationOrder { id: "r".to_owned(), dry_run: true }),
            ..StockMasterRecord::default()
        };
        assert_eq!(StockMasterRecord::from_bytes(&record.to_bytes()).unwrap(), record);
        assert_eq!(
            (record.state(), &*record.last_error().unwrap().message),
            (DeliveryState::Blocked, "HTTP 401")
        );
        assert_eq!(record.failures.decrements.unwrap().message, "no answer");
        assert!(StockMasterRecord::from_bytes(b"{}").is_err());
    }

    #[test]
    fn what_persists_is_news_once() {
        let with = |kinds: &[FindingKind]| {
            let mut report = ReportRecord::default();
            for kind in kinds {
                report.add(Finding::new(*kind));
            }
            report
        };
        let (missing, corrected) = (FindingKind::ItemMissing, FindingKind::TotalCorrected);
        for (now, last, expected) in [
            (&[][..], &[][..], false),
            (&[missing], &[], true),
            (&[missing], &[missing], false),
            (&[missing, missing], &[missing], true),
            (&[], &[missing], true),
            (&[missing, corrected], &[missing, corrected], true),
            (&[], &[corrected], false),
        ] {
            assert_eq!(with(now).is_news_after(&with(last)), expected, "{now:?} after {last:?}");
        }
    }

    #[test]
    fn a_report_fits_into_a_record() {
        let mut report = ReportRecord::default();
        let long = "\u{1}".repeat(128);
        for _ in 0..1_000 {
            let finding = Finding {
                sku: Some(long.clone()),
                location: Some(long.clone()),
                ..Finding::new(FindingKind::ItemMissing)
            };
            report.add(finding);
        }
        assert_eq!(report.counts[&FindingKind::ItemMissing], 1_000);
        assert!(!report.findings.is_empty() && report.findings.len() < 1_000);
        let bytes = report.to_bytes();
        assert!(bytes.len() < RECORD_BYTES, "{}", bytes.len());
    }
}
