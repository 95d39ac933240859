//! The rows of the routes of limits, without their paths.

use super::row::{empty, json, limit, required};
use super::table::PLAIN;
use super::{Access, Preconditions, RequiredScope, RouteSpec, Tag};
use crate::problem::Reason;
use stockhold_service::Scope;

pub(super) const SET_LIMIT: RouteSpec = RouteSpec {
    metric: "set_limit",
    tag: Tag::Sale,
    summary: "Create or replace a limit",
    description: "Limits how many units of some items one customer, one owner, or all together may have. It is judged when units \
        are reserved, amended, transferred, merged or taken again by a late confirm, never when they are confirmed. The body \
        replaces the whole limit. A new limit counts what comes after it. A change of `limit` or `counts` keeps the counts: below \
        what is in use it refuses more and takes nothing away. A change of `items`, `channels` or `per` begins them at 0. Setting the \
        same again changes nothing.",
    body: required("LimitRequest"),
    preconditions: Preconditions::IfMatchOrAbsent,
    access: Access::Write,
    scope: RequiredScope::One(Scope::SaleAdmin),
    responses: &[limit(201, "The new limit."), limit(200, "The limit, which existed before.")],
    own_reasons: &[Reason::TooManyLimits],
    ..PLAIN
};

pub(super) const LIST_LIMITS: RouteSpec = RouteSpec {
    metric: "limits",
    tag: Tag::Sale,
    summary: "List limits",
    description: "In the order of their ids, compared byte by byte.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    responses: &[json(200, "A page of limits.", "LimitPage")],
    ..PLAIN
};

pub(super) const GET_LIMIT: RouteSpec = RouteSpec {
    metric: "limit",
    tag: Tag::Sale,
    summary: "Read a limit",
    description: "What the limit says. `get_limit_usage` shows what it counts.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    responses: &[limit(200, "The limit.")],
    own_reasons: &[Reason::UnknownLimit],
    ..PLAIN
};

pub(super) const GET_LIMIT_USAGE: RouteSpec = RouteSpec {
    metric: "limit_usage",
    tag: Tag::Sale,
    summary: "Read what a limit counts",
    description: "With `subject`: what one customer or owner has. Of a limit that is shared: what all have together. Else a page of \
        all customers or owners that have something.",
    access: Access::Read,
    scope: RequiredScope::One(Scope::InventoryRead),
    responses: &[json(200, "What it counts.", "LimitUsageAnswer")],
    own_reasons: &[Reason::UnknownLimit],
    ..PLAIN
};

pub(super) const DELETE_LIMIT: RouteSpec = RouteSpec {
    metric: "delete_limit",
    tag: Tag::Sale,
    summary: "Delete a limit",
    description: "It refuses nobody any more, and its counts are forgotten. Deleting it again gives the same answer and changes \
        nothing. A limit that is created again with its id begins at 0, with a higher version.",
    preconditions: Preconditions::IfMatch,
    access: Access::Write,
    scope: RequiredScope::One(Scope::SaleAdmin),
    responses: &[empty(204, "The limit is deleted.")],
    own_reasons: &[Reason::UnknownLimit],
    ..PLAIN
};
