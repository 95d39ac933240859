//! `stockhold ctl sinks`: the systems that events are delivered to.

use super::{ApiRequest, show};
use crate::client::encoded;
use crate::table::{Column, table};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::fmt::Write;

/// The path of the sinks.
const SINKS: &str = "/v1/sinks";

#[derive(Subcommand)]
pub(super) enum SinksCommand {
    /// Show the sinks: their state, their position, how far they are behind, and their last failure
    List,
    /// Have a sink skip the event that it refuses
    ///
    ///   stockhold ctl sinks skip orders --position 2011
    #[command(verbatim_doc_comment)]
    Skip(SkipEventArgs),
    /// Deliver events again: from a position or from an instant on
    ///
    ///   stockhold ctl sinks replay ledger --from-position 1800
    ///   stockhold ctl sinks replay ledger --since 2026-11-24T09:30:00Z
    #[command(verbatim_doc_comment)]
    Replay(ReplaySinkArgs),
    /// Create in the other system what a sink needs: the stream of a `nats`, the exchange of a `rabbitmq`
    Init(SinkNameArgs),
    /// Delete the position of a sink that is not in the configuration any more
    Forget(SinkNameArgs),
}

#[derive(Args)]
pub(super) struct SinkNameArgs {
    /// The sink's name in the configuration
    #[arg(value_name = "SINK")]
    name: String,
}

#[derive(Args)]
pub(super) struct SkipEventArgs {
    #[command(flatten)]
    sink: SinkNameArgs,
    /// The position of the event; `sinks list` shows it
    #[arg(long, value_name = "N")]
    position: u64,
}

#[derive(Args)]
pub(super) struct ReplaySinkArgs {
    #[command(flatten)]
    sink: SinkNameArgs,
    /// The first event to deliver again
    #[arg(long, value_name = "N", required_unless_present = "since", conflicts_with = "since")]
    from_position: Option<u64>,
    /// Deliver again what was decided at this instant or later
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

impl SinkNameArgs {
    fn path(&self, action: &str) -> String {
        format!("{SINKS}/{}{action}", encoded(&self.name))
    }
}

impl SinksCommand {
    pub(super) fn request(&self) -> ApiRequest {
        match self {
            Self::List => ApiRequest::get(SINKS.to_owned(), sinks),
            Self::Skip(skip) => {
                let body = json!({ "position": skip.position });
                ApiRequest::post(skip.sink.path("/skip"), body, |_| {
                    "The sink goes on behind the event.\n".to_owned()
                })
            }
            Self::Replay(replay) => {
                let body = match (&replay.from_position, &replay.since) {
                    (Some(position), _) => json!({ "from_position": position }),
                    (None, since) => json!({ "since": since }),
                };
                ApiRequest::post(replay.sink.path("/replay"), body, |value| show::fields(value, &REPLAY))
            }
            Self::Init(sink) => {
                let made = |_: &Value| "The sink has what it needs.\n".to_owned();
                ApiRequest { body: None, ..ApiRequest::post(sink.path("/init"), json!({}), made) }
            }
            Self::Forget(sink) => {
                let deleted = |_: &Value| "The position is deleted.\n".to_owned();
                ApiRequest { method: "DELETE", ..ApiRequest::get(sink.path(""), deleted) }
            }
        }
    }
}

const REPLAY: [(&str, &str); 2] = [("from position", "from_position"), ("to position", "to_position")];

const COLUMNS: [Column; 7] = [
    Column("NAME", "name"),
    Column("KIND", "kind"),
    Column("STATE", "state"),
    Column("POSITION", "position"),
    Column("BEHIND", "lag_events"),
    Column("SECONDS", "lag_seconds"),
    Column("INSTANCE", "instance"),
];

/// The sinks as a table, and below it their failures.
fn sinks(value: &Value) -> String {
    let all = show::entries(&value["data"]);
    if all.is_empty() {
        return "There are no sinks. Tables [sinks.NAME] in the configuration file make them.\n".to_owned();
    }
    let mut shown = table(&COLUMNS, &all);
    for sink in all {
        let error = &sink["last_error"];
        if error.is_object() {
            let _ = writeln!(
                shown,
                "{}: event {} was not delivered in {} attempts: {}",
                show::text(&sink["name"]),
                show::text(&error["position"]),
                show::text(&error["attempts"]),
                show::text(&error["message"])
            );
            if let Some(action) = error["action"].as_str() {
                let _ = writeln!(shown, "{}: to do: {action}", show::text(&sink["name"]));
            }
        }
    }
    shown
}
