//! The row of the route of the archive, without its path.

use super::row::{json, required};
use super::table::PLAIN;
use super::{Access, RequiredScope, RouteSpec, Tag};
use crate::problem::Reason;
use stockhold_service::Scope;

pub(super) const ARCHIVE_EVENTS: RouteSpec = RouteSpec {
    metric: "archive",
    tag: Tag::Events,
    summary: "Archive old events",
    description: "Writes the oldest events to a file of the archive. With `drop`, they and the reservations that had ended by then leave \
        the store: those are unknown from then on, so a sale that has left can't be returned. Active reservations never leave. Nothing \
        leaves before every sink, every enabled webhook and every stock master has got it.\n\nOne request makes one file at most, of \
        some 65,536 events. Repeat it until `complete` is true. With `[archive] retention_days` the server does it by itself.\n\nOver one \
        database, one archive is at work at a time, and the directory has to have the newest file.",
    body: required("ArchiveRequest"),
    access: Access::Write,
    scope: RequiredScope::One(Scope::KeysAdmin),
    responses: &[json(200, "What was archived.", "Archive")],
    own_reasons: &[Reason::ArchiveFailed],
    ..PLAIN
};
