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
use stockhold_api::client::Error;
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
    #[arg(long, value_name = "RESERVATION", conflicts_with_all = ["after", "tail", "follow"])]
    reservation: Option<String>,
    /// The events after this position, the oldest first. 0 begins with the first event
    #[arg(long, value_name = "POSITION", conflicts_with = "tail")]
    after: Option<u64>,
    /// Show at most this many events: the newest, or with --after the first after that position [default: 50; with --follow, no
    /// limit]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Begin with the newest N events. With --follow, new events follow them
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
    /// Continue to show events as they happen, beginning with the first event unless --after or --tail is given
    #[arg(short, long)]
    follow: bool,
}

impl EventsArgs {
    pub(super) async fn run(&self, url: &str, caller: &RetryClient, json: bool) -> ExitCode {
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

    async fn history(&self, caller: &RetryClient, id: &str, json: bool) -> Result<(), CallError> {
        let raw = caller.send("GET", &reservation(id, "/events"), b"").await?;
        show_page(&raw.body, json, self.limit.unwrap_or(u64::MAX)).map(|_| ())
    }

    /// Pages until the limit.
    async fn page(&self, caller: &RetryClient, json: bool) -> Result<(), CallError> {
        let newest = self.tail.unwrap_or(u64::MAX).min(self.limit.unwrap_or(DEFAULT_LIMIT));
        let (mut after, mut left) = match self.after {
            Some(after) => (after, self.limit.unwrap_or(DEFAULT_LIMIT)),
            None => (before_newest(caller, newest).await?, newest),
        };
        while left > 0 && !out::is_closed() {
            let mut path = "/v1/events".to_owned();
            push_query(&mut path, "after", &after.to_string());
            push_query(&mut path, "limit", &left.min(PAGE).to_string());
            let raw = caller.send("GET", &path, b"").await?;
            let Some((shown, last)) = show_page(&raw.body, json, left)? else { break };
            left -= shown;
            after = last;
        }
        Ok(())
    }

    async fn follow(&self, caller: &RetryClient, json: bool) -> Result<(), CallError> {
        let mut after = match (self.after, self.tail) {
            (Some(after), _) => after,
            (None, Some(tail)) => before_newest(caller, tail).await?,
            (None, None) => 0,
        };
        let mut left = self.limit.unwrap_or(u64::MAX);
        while left > 0 {
            let mut stream = caller.ask(async |client| client.follow(after).await).await?;
            loop {
                match stream.next().await {
                    Ok(Some(event)) => {
                        let Ok(position) = event.id.parse() else {
                            return Err(CallError::Unexpected(format!(
                                "an event has no position: {:?}",
                                event.id
                            )));
                        };
                        show_event(&event.data, json)?;
                        (after, left) = (position, left - 1);
                        if left == 0 || out::is_closed() {
                            return Ok(());
                        }
                    }
                    Ok(None) => break,
                    Err(Error::Unreachable { last, .. }) => {
                        eprintln!("stockhold: {last}; following again after position {after}");
                        break;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
        Ok(())
    }
}

/// The position before the newest events. Positions have no gaps.
async fn before_newest(caller: &RetryClient, count: u64) -> Result<u64, CallError> {
    let newest = caller.ask(async |client| client.newest_position().await).await?;
    Ok(newest.saturating_sub(count))
}

/// Shows a page: how many events, and the last one's position; `None` when there are none.
fn show_page(body: &[u8], json: bool, most: u64) -> Result<Option<(u64, u64)>, CallError> {
    let odd = |what: &str| CallError::Unexpected(format!("the list of events is odd: {what}"));
    let page: Value = serde_json::from_slice(body).map_err(|error| odd(&error.to_string()))?;
    let events = page["data"].as_array().ok_or_else(|| odd("there is no data"))?;
    let mut shown = None;
    for (event, count) in events.iter().zip(1..=most) {
        let position = event["position"].as_u64().ok_or_else(|| odd("an event has no position"))?;
        show_value(event, json);
        shown = Some((count, position));
    }
    Ok(shown)
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
