//! The gate: a Redis server that refuses reserves of sold-out items before the database decides them.

use crate::field::{LABEL, NUMBER, entry, list, whole};
use crate::openapi::operation::{Operation, in_query};
use crate::openapi::reservations::example;
use crate::openapi::samples::{item_key, to_value};
use crate::openapi::schema::label;
use crate::problem::Reason;
use crate::routes::row;
use crate::routes::table::PLAIN;
use crate::routes::{Access, RequiredScope, RouteId, RouteSpec, Tag};
use serde_json::{Value, json};
use std::time::Duration;
use stockhold_api_macros::shape;
use stockhold_domain::limits::TOTAL_UNITS;
use stockhold_service::Scope;
use stockhold_store::{GateCounter, GateStatus, ReloadSummary};

/// Gated items that an answer shows.
pub const GATE_ITEMS: usize = 100;

/// The gate: `enabled` alone if no gate is configured. Counts are those of this instance since its start.
#[shape(answer)]
pub struct Gate {
    /// Whether a gate is configured.
    pub enabled: bool,
    /// Whether Redis is used at the moment. While it is not, the store decides alone.
    pub connected: Option<bool>,
    /// Reserves that the gate has admitted.
    pub hits: Option<u64>,
    /// Reserves that the gate has refused without the store.
    pub refusals: Option<u64>,
    /// Counters that were found wrong and corrected.
    pub corrections: Option<u64>,
    /// Seconds since this instance knew all changes of other instances.
    #[is(NUMBER)]
    pub lag_seconds: Option<f64>,
    /// Gated items, in the order of locations and SKUs.
    #[is(list(0..=GATE_ITEMS))]
    pub items: Option<Vec<GateItem>>,
    /// Whether there are more gated items.
    pub has_more: Option<bool>,
}

/// The counter of an item in Redis. The members after `location` are absent while Redis has none.
#[shape(answer)]
pub struct GateItem {
    /// The SKU.
    #[is(LABEL)]
    pub sku: String,
    /// The location.
    #[is(LABEL)]
    pub location: String,
    /// Units that the gate admits.
    #[is(whole(0..=TOTAL_UNITS))]
    pub units: Option<u64>,
    /// The item's sequence that is included.
    pub sequence: Option<u64>,
    /// The number of the reload that wrote the counter.
    pub epoch: Option<u64>,
}

/// What a reload did.
#[shape(answer)]
pub struct GateReload {
    /// Counters that were written anew.
    pub reloaded: u64,
    /// Those of them that were wrong.
    pub corrected: u64,
}

impl From<Option<&GateStatus>> for Gate {
    fn from(status: Option<&GateStatus>) -> Self {
        Self {
            enabled: status.is_some(),
            connected: status.map(|status| status.connected),
            hits: status.map(|status| status.admitted),
            refusals: status.map(|status| status.refused),
            corrections: status.map(|status| status.corrections),
            lag_seconds: status.map(|status| Duration::from_millis(status.lag_millis).as_secs_f64()),
            items: status.map(|status| status.items.iter().map(GateItem::from).collect()),
            has_more: status.map(|status| status.has_more),
        }
    }
}

impl From<&stockhold_store::GateItem> for GateItem {
    fn from(shown: &stockhold_store::GateItem) -> Self {
        let counter = shown.counter.as_ref();
        Self {
            sku: shown.item.sku().to_owned(),
            location: shown.item.location().to_owned(),
            units: counter.map(|counter| counter.units),
            sequence: counter.map(|counter| counter.sequence),
            epoch: counter.map(|counter| counter.epoch),
        }
    }
}

impl From<ReloadSummary> for GateReload {
    fn from(summary: ReloadSummary) -> Self {
        Self { reloaded: summary.reloaded, corrected: summary.corrected }
    }
}

pub(crate) const GET_GATE: RouteSpec = RouteSpec {
    metric: "gate",
    tag: Tag::Sale,
    summary: "Read the gate",
    description: "A gate is a Redis server that refuses reserves of sold-out items before the database decides them. Shows whether it \
        is used, what it did at this instance, and its counters of up to 100 gated items. A refusal by the gate has \
        `approximate`.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    responses: &[row::json(200, "The gate.", "Gate")],
    ..PLAIN
};

pub(crate) const RELOAD_GATE: RouteSpec = RouteSpec {
    metric: "reload_gate",
    tag: Tag::Sale,
    summary: "Reload the gate",
    description: "Writes the counters of gated items anew from what the store has committed: of one item, of the items at a location, \
        or of all. The server does it by itself once a minute and whenever Redis comes back. Before a sale it shows that all is \
        in place.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::SaleAdmin),
    responses: &[row::json(200, "The counters are reloaded.", "GateReload")],
    own_reasons: &[Reason::GateNotConfigured],
    ..PLAIN
};

/// The operations of the document.
pub(crate) fn operations() -> Vec<Operation> {
    vec![get(), reload()]
}

/// The schemas of the document, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![entry::<Gate>(), entry::<GateItem>(), entry::<GateReload>()]
}

fn get() -> Operation {
    let status = GateStatus {
        connected: true,
        admitted: 1_000,
        refused: 98_431,
        corrections: 0,
        lag_millis: 120,
        items: vec![stockhold_store::GateItem {
            item: item_key("default", "tea"),
            counter: Some(GateCounter { units: 0, sequence: 2_011, epoch: 1_795_627_174_558_536 }),
        }],
        has_more: false,
    };
    Operation::of(RouteId::GetGate).responds(json!({
        "sold_out": example("A sold-out item", to_value(&Gate::from(Some(&status)))),
        "none": example("No gate is configured", to_value(&Gate::from(None))),
    }))
}

fn reload() -> Operation {
    let summary = ReloadSummary { reloaded: 12, corrected: 0 };
    Operation::of(RouteId::ReloadGate)
        .parameter(in_query("sku", label("Only this item, at `location` or at `default`.")))
        .parameter(in_query("location", label("Only items at this location.")))
        .responds(json!({ "done": example("All were right", to_value(&GateReload::from(summary))) }))
}
