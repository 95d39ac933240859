//! The archive of old events.

use crate::field::{Text, Whole, entry, list, text, whole};
use crate::openapi::operation::Operation;
use crate::openapi::reservations::example;
use crate::openapi::samples::to_value;
use crate::problem::Reason;
use crate::routes::row::{self, required};
use crate::routes::table::PLAIN;
use crate::routes::{Access, RequiredScope, RouteId, RouteSpec, Tag};
use serde_json::{Value, json};
use stockhold_api_macros::shape;
use stockhold_domain::Label;
use stockhold_service::Scope;

/// The longest time that a request may name, in hours: a hundred years.
pub const MOST_ARCHIVE_HOURS: u32 = 876_000;
/// Most sinks and webhooks that a request ignores.
pub const IGNORED_CONSUMERS: usize = 100;

const HOURS: Whole = whole(1..=MOST_ARCHIVE_HOURS as u64).of("hours");
/// The longest path of a directory, in bytes.
pub const PATH_BYTES: usize = 4_096;

/// The path of a directory of the server.
const DIRECTORY: Text = text(1..=PATH_BYTES).check(
    |path| !path.is_empty() && path.len() <= PATH_BYTES && !path.contains(char::is_control),
    "the path of a directory: 1 to 4,096 bytes without control characters",
);

/// What is archived.
#[shape(request)]
pub struct ArchiveRequest {
    /// The age of what is archived. It can't be less than the time that idempotency keys are kept.
    #[is(HOURS)]
    pub older_than_hours: u32,
    /// The directory of the archive on the server, an absolute path: `dir` of `[archive]` in the configuration, or a directory below
    /// it. Every other one is refused with 403. Default: that of the configuration.
    #[is(DIRECTORY)]
    pub to: Option<String>,
    /// Whether the events leave the store. Default: `false`.
    #[is(default)]
    pub drop: bool,
    /// Sinks, by name, and webhooks, by id, that may lack what leaves. Default: none.
    #[is(list(0..=IGNORED_CONSUMERS).each("A sink or a webhook."), default)]
    pub ignore_sinks: Vec<Label>,
}

/// What a request for an archive has done.
#[shape(answer)]
#[derive(Default)]
pub struct Archive {
    /// The position of the last event that was in the archive before.
    pub after: u64,
    /// The position of the last event that is in the archive now.
    pub through: u64,
    /// Events that left the store.
    pub dropped_events: u64,
    /// The position of the last event that has left the store.
    pub dropped_through: u64,
    /// Reservations that left the store.
    pub reservations: u64,
    /// The sink or webhook because of which other events stay that are old enough.
    pub held_back_by: Option<String>,
    /// The position up to which it has got events.
    pub held_back_position: Option<u64>,
    /// Whether nothing is left to do: no other event is old enough and was delivered to all.
    pub complete: bool,
}

pub(crate) const ARCHIVE_EVENTS: RouteSpec = RouteSpec {
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
    responses: &[row::json(200, "What was archived.", "Archive")],
    own_reasons: &[Reason::ArchiveFailed],
    ..PLAIN
};

/// The operations of the document.
pub(crate) fn operations() -> Vec<Operation> {
    let report = Archive {
        after: 0,
        through: 65_536,
        dropped_events: 65_536,
        dropped_through: 65_536,
        reservations: 30_117,
        held_back_by: None,
        held_back_position: None,
        complete: false,
    };
    let held_back = Archive {
        after: 65_536,
        through: 70_112,
        dropped_events: 4_576,
        dropped_through: 70_112,
        reservations: 2_204,
        held_back_by: Some("the sink ledger".to_owned()),
        held_back_position: Some(70_112),
        complete: true,
    };
    vec![
        Operation::of(RouteId::ArchiveEvents)
            .requests(json!({
                "drop": example("What is older than 90 days leaves", json!({ "older_than_hours": 2_160, "drop": true })),
            }))
            .responds(json!({
                "more": example("There is more", to_value(&report)),
                "held_back": example("A sink has not got the rest", to_value(&held_back)),
            })),
    ]
}

/// The schemas of the document, by name.
pub(crate) fn schemas() -> Vec<(&'static str, Value)> {
    vec![entry::<ArchiveRequest>(), entry::<Archive>()]
}
