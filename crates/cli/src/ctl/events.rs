//! `ctl events`: past events, and events as they happen. Following continues over broken connections and restarts of the server, after
//! the last position that was shown: no event is missed and none is shown twice.

use super::requests::reservation;
use super::show;
use crate::client::{CallError, RetryClient, push_query};
use crate::{out, server};
use clap::Args;
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;
use stockhold_api::EventType;
use stockhold_api::client::{Error, EventStream};
use stockhold_config::exit;

/// Pause before a broken stream is asked for again.
const AGAIN: Duration = Duration::from_millis(500);
/// Most events of one request.
const PAGE: u64 = 1_000;
/// Most events that are shown if the command line does not say how many.
const DEFAULT_LIMIT: u64 = 50;

#[derive(Args)]
pub(super) struct EventsArgs {
    /// Events of this reservation, the oldest first
    #[arg(long, value_name = "RESERVATION", conflicts_with_all = ["after", "tail", "follow", "types"])]
    reservation: Option<String>,
    /// The events after this position, the oldest first. 0 begins with the first event
    #[arg(long, value_name = "POSITION", conflicts_with = "tail")]
    after: Option<u64>,
    /// Show at most this many events: the newest, or with --after the first after that position [default: 50; with --follow, no
    /// limit]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Begin with the newest N events. With --follow, new events follow them. With --type, N is at most 1,000, and only the
    /// newest 4,096 events are searched
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
    /// Only events of these types, like reservation.confirmed. Several have commas between them. A wrong type shows all types
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = event_type)]
    types: Vec<EventType>,
    /// Continue to show events as they happen, beginning with the first event unless --after or --tail is given
    #[arg(short, long)]
    follow: bool,
}

fn event_type(name: &str) -> Result<EventType, String> {
    EventType::from_name(name).ok_or_else(|| {
        let known: Vec<_> = EventType::ALL.iter().map(|kind| kind.name()).collect();
        format!("the types are {}", known.join(", "))
    })
}

/// How many events are shown, and where to continue.
struct PrintedPage {
    count: u64,
    next: u64,
    has_more: bool,
}

impl EventsArgs {
    pub(super) async fn run(&self, url: &str, caller: &RetryClient, json: bool) -> ExitCode {
        let newest = self.newest();
        if newest > PAGE && !self.types.is_empty() && self.after.is_none() && self.begins_at_newest() {
            return exit::because(
                exit::USAGE,
                format!("with --type, at most the newest {PAGE} events are shown"),
            );
        }
        let done = match (&self.reservation, self.follow) {
            (Some(id), _) => self.history(caller, id, json).await,
            (None, true) => self.follow(caller, json).await,
            (None, false) => self.page(caller, json).await,
        };
        match done {
            Ok(()) => ExitCode::from(exit::DONE),
            Err(failed) => exit::because(server::exit_code(&failed), server::explain(url, &failed)),
        }
    }

    /// How many of the newest events are wanted.
    fn newest(&self) -> u64 {
        let limit = if self.follow { u64::MAX } else { DEFAULT_LIMIT };
        self.tail.unwrap_or(u64::MAX).min(self.limit.unwrap_or(limit))
    }

    fn begins_at_newest(&self) -> bool {
        self.tail.is_some() || !self.follow
    }

    async fn history(&self, caller: &RetryClient, id: &str, json: bool) -> Result<(), CallError> {
        let raw = caller.send("GET", &reservation(id, "/events"), b"").await?;
        show_page(&raw.body, json, self.limit.unwrap_or(u64::MAX)).map(|_| ())
    }

    /// Pages until the limit.
    async fn page(&self, caller: &RetryClient, json: bool) -> Result<(), CallError> {
        let (mut after, mut left) = match self.after {
            Some(after) => (after, self.limit.unwrap_or(DEFAULT_LIMIT)),
            None if self.newest() <= PAGE => {
                return self.show_newest(caller, self.newest(), u64::MAX, json).await.map(|_| ());
            }
            None => (before_newest(caller, self.newest()).await?, self.newest()),
        };
        while left > 0 && !out::is_closed() {
            let mut path = "/v1/events".to_owned();
            push_query(&mut path, "after", &after.to_string());
            push_query(&mut path, "limit", &left.min(PAGE).to_string());
            self.push_types(&mut path);
            let raw = caller.send("GET", &path, b"").await?;
            let shown = show_page(&raw.body, json, left)?;
            if !shown.has_more {
                break;
            }
            left -= shown.count;
            after = shown.next;
        }
        Ok(())
    }

    /// Shows the newest events, 0 to [`PAGE`] of them, and of these the first `most`.
    async fn show_newest(
        &self,
        caller: &RetryClient,
        count: u64,
        most: u64,
        json: bool,
    ) -> Result<PrintedPage, CallError> {
        if count == 0 {
            return Ok(PrintedPage { count: 0, next: before_newest(caller, 0).await?, has_more: false });
        }
        let mut path = "/v1/events".to_owned();
        push_query(&mut path, "tail", &count.to_string());
        self.push_types(&mut path);
        let raw = caller.send("GET", &path, b"").await?;
        show_page(&raw.body, json, most)
    }

    fn push_types(&self, path: &mut String) {
        if !self.types.is_empty() {
            let names: Vec<_> = self.types.iter().map(|kind| kind.name()).collect();
            push_query(path, "type", &names.join(","));
        }
    }

    async fn follow(&self, caller: &RetryClient, json: bool) -> Result<(), CallError> {
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut after = match (self.after, self.tail) {
            (Some(after), _) => after,
            (None, Some(tail)) if tail <= PAGE => {
                let shown = self.show_newest(caller, tail, left, json).await?;
                left -= shown.count;
                shown.next
            }
            (None, Some(tail)) => before_newest(caller, tail).await?,
            (None, None) => 0,
        };
        while left > 0 && !out::is_closed() {
            let mut stream = caller.ask(async |client| client.follow(after, &self.types).await).await?;
            loop {
                match stream.next().await {
                    Ok(Some(event)) => {
                        show_event(&event.data, json)?;
                        left -= 1;
                        if left == 0 || out::is_closed() {
                            return Ok(());
                        }
                    }
                    Ok(None) => break,
                    Err(Error::Unreachable { last, .. }) => {
                        after = last_position(&stream, after)?;
                        eprintln!("stockhold: {last}; following again after position {after}");
                        break;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            after = last_position(&stream, after)?;
            tokio::time::sleep(AGAIN).await;
        }
        Ok(())
    }
}

/// The last position that a stream has told, with an event or between events; `before` if it has told none.
fn last_position(stream: &EventStream, before: u64) -> Result<u64, CallError> {
    match stream.last_id() {
        "" => Ok(before),
        id => id.parse().map_err(|_| CallError::Unexpected(format!("an event has no position: {id:?}"))),
    }
}

/// The position before the newest events. Positions have no gaps.
async fn before_newest(caller: &RetryClient, count: u64) -> Result<u64, CallError> {
    let newest = caller.ask(async |client| client.newest_position().await).await?;
    Ok(newest.saturating_sub(count))
}

/// Shows a page. The history of a reservation is one page and says nothing of a next one.
fn show_page(body: &[u8], json: bool, most: u64) -> Result<PrintedPage, CallError> {
    let odd = |what: &str| CallError::Unexpected(format!("the list of events is odd: {what}"));
    let page: Value = serde_json::from_slice(body).map_err(|error| odd(&error.to_string()))?;
    let events = page["data"].as_array().ok_or_else(|| odd("there is no data"))?;
    let mut count = 0;
    for (event, shown) in events.iter().zip(1..=most) {
        show_value(event, json);
        count = shown;
    }
    let next = match page.get("next_cursor") {
        None => 0,
        Some(cursor) => cursor
            .as_str()
            .and_then(|cursor| cursor.parse().ok())
            .ok_or_else(|| odd("its next_cursor is no position"))?,
    };
    Ok(PrintedPage { count, next, has_more: page["has_more"] == Value::Bool(true) })
}

fn show_event(data: &str, json: bool) -> Result<(), CallError> {
    let event =
        serde_json::from_str(data).map_err(|error| CallError::Unexpected(format!("an event: {error}")))?;
    show_value(&event, json);
    Ok(())
}

fn show_value(event: &Value, json: bool) {
    if json {
        println!("{event}");
    } else {
        println!("{}", show::event(event));
    }
}
