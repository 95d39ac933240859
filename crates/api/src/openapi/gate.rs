//! The operations on the gate, and what their answers look like.

use super::operation::{Operation, in_query};
use super::reservations::example;
use super::samples::{item_key, written};
use super::schema::{always, array, counter, flag, label, maybe, named, object, units};
use crate::encode;
use crate::routes::RouteId;
use serde_json::{Value, json};
use stockhold_store::{GateCounter, GateItem, GateStatus, ReloadSummary};

/// Gated items that an answer shows.
pub const GATE_ITEMS: usize = 100;

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    vec![get(), reload()]
}

/// Their schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let connected = flag("Whether Redis is used at the moment. While it is not, the store decides alone.");
    let lag = json!({
        "type": "number", "minimum": 0,
        "description": "Seconds since this instance knew all changes of other instances.",
    });
    let shown = "Gated items, in the order of locations and SKUs.";
    vec![
        (
            "Gate",
            object(
                "The gate: `enabled` alone if no gate is configured. Counts are those of this instance since its start.",
                vec![
                    always("enabled", flag("Whether a gate is configured.")),
                    maybe("connected", connected),
                    maybe("hits", counter("Reserves that the gate has admitted.")),
                    maybe("refusals", counter("Reserves that the gate has refused without the store.")),
                    maybe("corrections", counter("Counters that were found wrong and corrected.")),
                    maybe("lag_seconds", lag),
                    maybe("items", array(named("GateItem"), 0, GATE_ITEMS, shown)),
                    maybe("has_more", flag("Whether there are more gated items.")),
                ],
            ),
        ),
        (
            "GateItem",
            object(
                "The counter of an item in Redis. The members after `location` are absent while Redis has none.",
                vec![
                    always("sku", label("The SKU.")),
                    always("location", label("The location.")),
                    maybe("units", units("Units that the gate admits.")),
                    maybe("sequence", counter("The item's sequence that is included.")),
                    maybe("epoch", counter("The number of the reload that wrote the counter.")),
                ],
            ),
        ),
        (
            "GateReload",
            object(
                "What a reload did.",
                vec![
                    always("reloaded", counter("Counters that were written anew.")),
                    always("corrected", counter("Those of them that were wrong.")),
                ],
            ),
        ),
    ]
}

fn get() -> Operation {
    let status = GateStatus {
        connected: true,
        admitted: 1_000,
        refused: 98_431,
        corrections: 0,
        lag_millis: 120,
        items: vec![GateItem {
            item: item_key("default", "tea"),
            counter: Some(GateCounter { units: 0, sequence: 2_011, epoch: 1_795_627_174_558_536 }),
        }],
        has_more: false,
    };
    Operation::of(RouteId::GetGate).responds(json!({
        "sold_out": example("A sold-out item", written(|out| encode::gate(out, Some(&status)))),
        "none": example("No gate is configured", written(|out| encode::gate(out, None))),
    }))
}

fn reload() -> Operation {
    let summary = ReloadSummary { reloaded: 12, corrected: 0 };
    Operation::of(RouteId::ReloadGate)
        .parameter(in_query("sku", label("Only this item, at `location` or at `default`.")))
        .parameter(in_query("location", label("Only items at this location.")))
        .responds(
            json!({ "done": example("All were right", written(|out| encode::gate_reload(out, summary))) }),
        )
}
