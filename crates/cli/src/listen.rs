//! `stockhold listen`: brings the events of a server to a web application on a developer's machine, as webhooks would.
//!
//! It follows the event stream, so the server needs no endpoint, and the machine needs no address that the server can reach. It goes on
//! over broken connections and restarts of the server. A delivery that fails is reported and not repeated.

use crate::client::{CallError, RetryClient};
use crate::{out, server};
use clap::Args;
use serde::Deserialize;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use stockhold_api::client::{Client, ClientAccess, Error, StreamedEvent};
use stockhold_api::decode::EventFormat;
use stockhold_api::encode::CLOUD_EVENT_CONTENT;
use stockhold_api::{EventType, event_types_named};
use stockhold_config::exit;
use stockhold_service::WebhookSecret;

/// The variable with the secret, because others can read a command line.
const SECRET: &str = "STOCKHOLD_WEBHOOK_SECRET";
/// How long the application may take for an answer, which is what webhooks allow.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the server may be away.
const PATIENCE: Duration = Duration::from_hours(24);
/// Pause before a stream that has ended is asked for again.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(super) struct ListenArgs {
    /// Address of your application that gets the events, for example http://localhost:3000/hook
    #[arg(long, value_name = "URL")]
    forward_to: String,
    /// Only events of these types, like reservation.confirmed or reservation.*. Several have commas between them
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Begin with the event at this position. 1 is the first event [default: the first event that happens from now on]
    #[arg(long, value_name = "POSITION", value_parser = clap::value_parser!(u64).range(1..))]
    from: Option<u64>,
    /// The secret that signs the events [default: a new one, which is printed]
    #[arg(long, value_name = "WHSEC", env = SECRET, hide_env_values = true)]
    secret: Option<String>,
    #[command(flatten)]
    server: server::ServerArgs,
}

/// What is read of an event before it is sent on.
#[derive(Deserialize)]
struct EventHead {
    id: String,
}

/// The application, and what its webhooks are signed with.
struct Forward {
    application: Client,
    path: String,
    secret: WebhookSecret,
}

pub(super) fn run(args: &ListenArgs) -> ExitCode {
    let usage = |error: String| exit::because(exit::USAGE, error);
    let url = match args.server.url() {
        Ok(url) => url,
        Err(error) => return usage(error),
    };
    let types = match event_types(&args.types) {
        Ok(types) => types,
        Err(error) => return usage(format!("--types: {error}")),
    };
    let forward = match Forward::new(&args.forward_to, args.secret.as_deref()) {
        Ok(forward) => forward,
        Err(error) => return usage(error),
    };
    let say = |text: &str| eprintln!("stockhold: {text}");
    let caller = match RetryClient::new(&url, args.server.plain_http, PATIENCE, Box::new(say)) {
        Ok(caller) => caller,
        Err(error) => return usage(error.to_string()),
    };
    server::block_on(async {
        match listen(&caller, &forward, &types, args.from).await {
            Ok(()) => ExitCode::from(exit::DONE),
            Err(failed) => exit::because(server::exit_code(&failed), server::explain(&url, &failed)),
        }
    })
}

/// The types of names and of patterns such as `reservation.*`, with or without the prefix of the service.
fn event_types(names: &[String]) -> Result<Vec<EventType>, String> {
    let mut types = Vec::new();
    for name in names {
        let matching: Vec<_> = event_types_named(name).collect();
        if matching.is_empty() {
            let known: Vec<_> = EventType::ALL.iter().map(|kind| kind.name()).collect();
            return Err(format!("{name:?} is no type of events; the types are {}", known.join(", ")));
        }
        types.extend(matching);
    }
    Ok(types)
}

/// Sends on the events from a position, or from now on, until standard output is closed.
async fn listen(
    caller: &RetryClient,
    forward: &Forward,
    types: &[EventType],
    from: Option<u64>,
) -> Result<(), CallError> {
    caller.check_reachable().await?;
    let mut after = match from {
        Some(first) => first.saturating_sub(1),
        None => caller.ask(async |client| client.newest_position().await).await?,
    };
    eprintln!("stockhold: sending the events from position {} on; each line is an answer", after + 1);
    while !out::is_closed() {
        let open = async |client: &Client| client.follow_as(after, types, EventFormat::CloudEvents).await;
        let mut stream = caller.ask(open).await?;
        loop {
            match stream.next().await {
                Ok(Some(event)) => {
                    after = position(&event.id)?;
                    forward.send(&event).await?;
                    if out::is_closed() {
                        return Ok(());
                    }
                }
                Ok(None) => break,
                Err(Error::Unreachable { last, .. }) => {
                    eprintln!("stockhold: {last}; following again");
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if !stream.last_id().is_empty() {
            after = position(stream.last_id())?.max(after);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

fn position(id: &str) -> Result<u64, CallError> {
    id.parse().map_err(|_| CallError::Unexpected(format!("an event has no position: {id:?}")))
}

impl Forward {
    fn new(url: &str, secret: Option<&str>) -> Result<Self, String> {
        let wrong = |what: &str| format!("--forward-to: {url:?} {what}");
        let uri: hyper::Uri = url.parse().map_err(|error| wrong(&format!("is no address: {error}")))?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong("is no address of an application: write it like http://localhost:3000/hook"));
        };
        if authority.as_str().contains('@') {
            return Err(
                "--forward-to: the address has a user name: webhooks are signed and carry no password"
                    .to_owned(),
            );
        }
        let access: ClientAccess = crate::credentials::certificates();
        let application = Client::with_access(&format!("{scheme}://{authority}"), &access)
            .map_err(|error| wrong(&error.to_string()))?
            .with_patience(NonZeroU32::MIN, ANSWER_TIMEOUT);
        let secret = match secret.filter(|text| !text.is_empty()) {
            Some(text) => WebhookSecret::parse(text).map_err(|error| format!("--secret: {error}"))?,
            None => {
                let made = WebhookSecret::generate().map_err(|error| format!("no random bytes: {error}"))?;
                eprintln!("stockhold: the secret of this run is {}", made.reveal());
                made
            }
        };
        let path = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        Ok(Self { application, path, secret })
    }

    /// Sends an event, and prints a line of what the application answered.
    async fn send(&self, event: &StreamedEvent) -> Result<(), CallError> {
        let head: EventHead = serde_json::from_str(&event.data)
            .map_err(|error| CallError::Unexpected(format!("an event: {error}")))?;
        let seconds = u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or(0);
        let body = event.data.as_bytes();
        let timestamp = seconds.to_string();
        let signature = self.secret.sign(&head.id, seconds, body);
        let headers = [
            ("content-type", CLOUD_EVENT_CONTENT),
            ("webhook-id", head.id.as_str()),
            ("webhook-timestamp", timestamp.as_str()),
            ("webhook-signature", signature.as_str()),
        ];
        let begun = Instant::now();
        let answer = self.application.send_raw_with("POST", &self.path, &headers, body).await;
        let answer = match answer {
            Ok(raw) => raw.status.to_string(),
            Err(Error::Unreachable { last, .. }) => format!("failed: {last}"),
            Err(error) => format!("failed: {error}"),
        };
        let millis = begun.elapsed().as_millis();
        println!("{:>10}  {:<28} {}  {answer} in {millis} ms", event.id, event.event, head.id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(names: &[&str]) -> Result<Vec<EventType>, String> {
        event_types(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn types_are_names_and_patterns() {
        assert_eq!(types(&[]), Ok(Vec::new()));
        assert_eq!(types(&["stockhold.reservation.created"]), types(&["reservation.created"]));
        assert!(types(&["reservation.*"]).unwrap().len() > 3);
        for wrong in ["*", "reservation", "order.made", ""] {
            assert!(types(&[wrong]).unwrap_err().contains("the types are reservation.created"), "{wrong}");
        }
    }

    #[test]
    fn an_address_has_a_scheme_and_no_user() {
        let secret = format!("whsec_{}", "A".repeat(43) + "=");
        let forward = |url: &str| Forward::new(url, Some(&secret)).map(|forward| forward.path);
        assert_eq!(forward("http://localhost:3000/hook?a=1"), Ok("/hook?a=1".to_owned()));
        assert_eq!(forward("http://localhost:3000"), Ok("/".to_owned()));
        for wrong in ["localhost:3000", "/hook", "ftp://localhost/hook", "http://me:pw@localhost/hook", ""] {
            assert!(forward(wrong).unwrap_err().starts_with("--forward-to: "), "{wrong}");
        }
        assert!(Forward::new("http://localhost", Some("secret")).is_err_and(|e| e.starts_with("--secret: ")));
    }
}
