//! The operation on the archive, and what its answer looks like.

use super::operation::Operation;
use super::reservations::example;
use super::samples::written;
use super::schema::{always, array, closed, counter, flag, integer, label, long_label, maybe, object, text};
use crate::decode::{IGNORED_CONSUMERS, MOST_ARCHIVE_HOURS, PATH_BYTES};
use crate::encode::{self, ArchiveReport};
use crate::routes::RouteId;
use serde_json::{Value, json};

/// All of them.
pub(super) fn operations() -> Vec<Operation> {
    let report = ArchiveReport {
        after: 0,
        through: 65_536,
        dropped: 65_536,
        dropped_through: 65_536,
        reservations: 30_117,
        held_back: None,
        is_complete: false,
    };
    let held_back = ArchiveReport {
        after: 65_536,
        through: 70_112,
        dropped: 4_576,
        dropped_through: 70_112,
        reservations: 2_204,
        held_back: Some(("the sink ledger".to_owned(), 70_112)),
        is_complete: true,
    };
    vec![
        Operation::of(RouteId::ArchiveEvents)
            .requests(json!({
                "drop": example("What is older than 90 days leaves", json!({ "older_than_hours": 2_160, "drop": true })),
            }))
            .responds(json!({
                "more": example("There is more", written(|out| encode::archive(out, &report))),
                "held_back": example("A sink has not got the rest", written(|out| encode::archive(out, &held_back))),
            })),
    ]
}

/// Their schemas, by name.
pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let older_than =
        "The age of what is archived. It can't be less than the time that idempotency keys are kept.";
    let to = "The directory of the archive on the server, an absolute path: `dir` of `[archive]` in the configuration, or a directory \
              below it. Every other one is refused with 403. Default: that of the configuration.";
    let ignored = "Sinks, by name, and webhooks, by id, that may lack what leaves. Default: none.";
    vec![
        (
            "ArchiveRequest",
            closed(
                "What is archived.",
                vec![
                    always("older_than_hours", integer(1, MOST_ARCHIVE_HOURS.into(), older_than)),
                    maybe("to", long_label(PATH_BYTES, to)),
                    maybe("drop", flag("Whether the events leave the store. Default: `false`.")),
                    maybe(
                        "ignore_sinks",
                        array(label("A sink or a webhook."), 0, IGNORED_CONSUMERS, ignored),
                    ),
                ],
            ),
        ),
        (
            "Archive",
            object(
                "What a request for an archive has done.",
                vec![
                    always(
                        "after",
                        counter("The position of the last event that was in the archive before."),
                    ),
                    always("through", counter("The position of the last event that is in the archive now.")),
                    always("dropped_events", counter("Events that left the store.")),
                    always(
                        "dropped_through",
                        counter("The position of the last event that has left the store."),
                    ),
                    always("reservations", counter("Reservations that left the store.")),
                    maybe(
                        "held_back_by",
                        text("The sink or webhook because of which other events stay that are old enough."),
                    ),
                    maybe("held_back_position", counter("The position up to which it has got events.")),
                    always(
                        "complete",
                        flag(
                            "Whether nothing is left to do: no other event is old enough and was delivered to all.",
                        ),
                    ),
                ],
            ),
        ),
    ]
}
