//! The rows of the routes of the gate, without their paths.

use super::row::json;
use super::table::PLAIN;
use super::{Access, RequiredScope, RouteSpec, Tag};
use crate::problem::Reason;
use stockhold_service::Scope;

pub(super) const GET_GATE: RouteSpec = RouteSpec {
    metric: "gate",
    tag: Tag::Sale,
    summary: "Read the gate",
    description: "A gate is a Redis server that refuses reserves of sold-out items before the database decides them. Shows whether it \
        is used, what it did at this instance, and its counters of up to 100 gated items. A refusal by the gate has \
        `approximate`.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    responses: &[json(200, "The gate.", "Gate")],
    ..PLAIN
};

pub(super) const RELOAD_GATE: RouteSpec = RouteSpec {
    metric: "reload_gate",
    tag: Tag::Sale,
    summary: "Reload the gate",
    description: "Writes the counters of gated items anew from what the store has committed: of one item, of the items at a location, \
        or of all. The server does it by itself once a minute and whenever Redis comes back. Before a sale it shows that all is \
        in place.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::SaleAdmin),
    responses: &[json(200, "The counters are reloaded.", "GateReload")],
    own_reasons: &[Reason::GateNotConfigured],
    ..PLAIN
};
