//! The rows of the routes of units with ids, without their paths.

use super::row::{MAP_ETAG, empty, json};
use super::table::PLAIN;
use super::{Access, Body, Preconditions, RequiredScope, Response, Restriction, RouteSpec, Tag};
use crate::decode::UNITS_BODY_BYTES;
use crate::problem::Reason;
use stockhold_service::Scope;

pub(super) const ADD_UNITS: RouteSpec = RouteSpec {
    metric: "add_units",
    tag: Tag::Inventory,
    summary: "Add units with ids",
    description: "Adds seats, slots or serial numbers to an item of mode `units`. A unit that already exists with the \
        same fields is left unchanged. If an existing unit has other fields, nothing is added. To change a unit, retire it \
        and add it again.",
    body: Body::Required { schema: "UnitsRequest", limit: UNITS_BODY_BYTES },
    access: Access::Write,
    scope: RequiredScope::One(Scope::InventoryWrite),
    restriction: Restriction::ByItem,
    responses: &[json(200, "How many units were added.", "UnitsAnswer")],
    own_reasons: &[Reason::UnknownItem, Reason::ModeMismatch],
    ..PLAIN
};

pub(super) const LIST_UNITS: RouteSpec = RouteSpec {
    metric: "units",
    tag: Tag::Inventory,
    summary: "List units with ids",
    description: "Units in the order in which they are claimed, each with its status and its reservation.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    restriction: Restriction::ByItem,
    responses: &[json(200, "A page of units.", "UnitPage")],
    own_reasons: &[Reason::UnknownItem, Reason::ModeMismatch],
    ..PLAIN
};

pub(super) const GET_UNIT: RouteSpec = RouteSpec {
    metric: "unit",
    tag: Tag::Inventory,
    summary: "Read a unit",
    description: "The unit's status and its reservation.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    restriction: Restriction::ByItem,
    responses: &[json(200, "The unit.", "Unit")],
    own_reasons: &[Reason::UnknownItem, Reason::UnknownUnit, Reason::ModeMismatch],
    ..PLAIN
};

pub(super) const GET_SEAT_MAP: RouteSpec = RouteSpec {
    metric: "seat_map",
    tag: Tag::Inventory,
    summary: "Read the seat map of an item",
    description: "The status of every unit, in two bits each: 100,000 units take 34 kB without `layout`. Read the \
        layout once. Then poll with `layout=false` and `If-None-Match`. When `version` changes, units were added or \
        retired: read the layout again.",
    preconditions: Preconditions::Cached,
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    restriction: Restriction::ByItem,
    responses: &[
        Response { headers: &[MAP_ETAG], ..json(200, "The map.", "SeatMap") },
        Response { headers: &[MAP_ETAG], ..empty(304, "The map has not changed.") },
    ],
    own_reasons: &[Reason::UnknownItem, Reason::ModeMismatch],
    ..PLAIN
};

pub(super) const RETIRE_UNIT: RouteSpec = RouteSpec {
    metric: "retire_unit",
    tag: Tag::Inventory,
    summary: "Retire a unit",
    description: "Removes a unit that is neither held nor sold.",
    access: Access::Write,
    scope: RequiredScope::One(Scope::InventoryWrite),
    restriction: Restriction::ByItem,
    responses: &[empty(204, "The unit is removed.")],
    own_reasons: &[Reason::UnknownItem, Reason::UnknownUnit, Reason::ModeMismatch, Reason::UnitInUse],
    ..PLAIN
};
