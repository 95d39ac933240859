//! The rows of the routes of stock masters, without their paths.

use super::row::{empty, json, required};
use super::table::PLAIN;
use super::{Access, RequiredScope, RouteSpec, Tag};
use stockhold_service::Scope;

pub(super) const GET_RECONCILIATION: RouteSpec = RouteSpec {
    metric: "reconciliation",
    tag: Tag::Inventory,
    summary: "Show the stock masters and their last reports",
    description: "The external systems that own the totals of items: those of the configuration of this server, and those that the store \
        has a record of. Each with the batch of decrements that has no answer yet, its last failure, and the report of the last comparison. \
        Every instance shows the same. A caller with restrictions may not read it.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    responses: &[json(200, "The stock masters, in the order of their names.", "StockMasterList")],
    ..PLAIN
};

pub(super) const RECONCILE: RouteSpec = RouteSpec {
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
    responses: &[json(200, "What was found.", "ReconciliationReport")],
    ..PLAIN
};

pub(super) const FORGET_STOCK_MASTER: RouteSpec = RouteSpec {
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
