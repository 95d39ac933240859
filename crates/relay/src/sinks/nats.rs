//! Events as messages of NATS `JetStream`: the subject is the type, `Nats-Msg-Id` is the event's id. The stream is the operator's.

use super::broker::Broker;
use super::{failure, in_time};
use crate::connection::split_user;
use crate::message::Message;
use crate::sink::DeliveryError;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event, HeaderMap};
use std::future::{Future, IntoFuture};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stockhold_api::client::ClientAccess;
use stockhold_api::encode::{CLOUD_EVENT_CONTENT, CLOUD_EVENT_PREFIX};

/// How often is looked whether the connection is lost on which a confirmation is waited for.
const LOST_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A stream of NATS.
pub(super) struct NatsBroker {
    url: String,
    stream: String,
    access: ClientAccess,
    connection: Option<NatsConnection>,
}

/// A connection, and whether it was lost since it was made.
struct NatsConnection {
    client: Client,
    context: Context,
    is_lost: Arc<AtomicBool>,
    /// The last error that the server has sent. It tells of a message that it does not take in no other way.
    said: Arc<Mutex<Option<String>>>,
}

impl NatsBroker {
    pub(super) fn new(url: String, stream: String, access: ClientAccess) -> Self {
        Self { url, stream, access, connection: None }
    }

    /// The address without a user, and the options that belong to it. The client itself does not look at the user of an address.
    fn address(&self) -> Result<(String, ConnectOptions), DeliveryError> {
        let mut options = ConnectOptions::new().name("stockhold");
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("nats", &self.url));
        let (user, host) = split_user(rest);
        options = match user {
            Some((token, password)) if password.is_empty() => options.token(token),
            Some((name, password)) => options.user_and_password(name, password),
            None => options,
        };
        if scheme == "tls" {
            let tls = self.access.tls().map_err(DeliveryError::failed)?;
            // Also on the other servers of the cluster, which the first one names.
            options = options.require_tls(true).tls_client_config(Arc::unwrap_or_clone(tls));
        }
        Ok((format!("{scheme}://{host}"), options))
    }

    /// The connection, which is made if there is none, or if it was lost.
    async fn connected(&mut self) -> Result<&NatsConnection, DeliveryError> {
        if self.connection.as_ref().is_none_or(|connection| connection.is_lost.load(Ordering::Relaxed)) {
            let is_lost = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&is_lost);
            let (address, options) = self.address()?;
            let said = Arc::new(Mutex::new(None));
            let place = Arc::clone(&said);
            let options = options.event_callback(move |event| {
                match event {
                    Event::Disconnected | Event::Closed => flag.store(true, Ordering::Relaxed),
                    Event::ServerError(error) => {
                        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
                    }
                    _ => {}
                }
                std::future::ready(())
            });
            let connect = options.connect(&address);
            let client = in_time("connecting to NATS", connect).await?;
            let mut context = jetstream::new(client.clone());
            context.set_timeout(super::TIMEOUT);
            self.connection = Some(NatsConnection { client, context, is_lost, said });
        }
        self.connection.as_ref().ok_or_else(|| DeliveryError::failed("NATS is not connected"))
    }
}

impl Broker for NatsBroker {
    async fn publish(&mut self, messages: &[Message]) -> Result<(), DeliveryError> {
        let NatsConnection { client, context, is_lost, said } = self.connected().await?;
        let largest = client.server_info().max_payload;
        let mut waiting = Vec::with_capacity(messages.len());
        let mut failure = None;
        for message in messages {
            // The broker would close the connection.
            if message.body.len() > largest {
                let (is, most) = (message.body.len(), largest);
                failure = Some(DeliveryError::refused(format!(
                    "the event has {is} bytes, and the server takes {most}"
                )));
                break;
            }
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Msg-Id", message.deduplication_id());
            headers.insert("Content-Type", CLOUD_EVENT_CONTENT);
            let sent =
                context.publish_with_headers(message.kind.clone(), headers, message.body.clone().into());
            match in_time("publishing", sent).await {
                Ok(answer) => waiting.push(answer),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let sent = waiting.len();
        for (confirmed, answer) in waiting.into_iter().enumerate() {
            let answer = unless_lost(answer.into_future(), is_lost).await;
            let answer = answer.and_then(|answer| answer.map_err(|error| delivery_error(&error)));
            answer.map_err(|error| explained(error, said).after(confirmed))?;
        }
        failure.map_or(Ok(()), |failure| Err(failure.after(sent)))
    }

    fn disconnect(&mut self) {
        self.connection = None;
    }

    async fn create(&mut self) -> Result<(), DeliveryError> {
        let stream = self.stream.clone();
        let NatsConnection { context, .. } = self.connected().await?;
        let config = jetstream::stream::Config {
            name: stream,
            subjects: vec![format!("{CLOUD_EVENT_PREFIX}>")],
            ..jetstream::stream::Config::default()
        };
        let made = in_time("making the stream", context.get_or_create_stream(config)).await;
        made.map(drop)
    }
}

/// Waits for a confirmation while the connection lasts. The client connects again by itself, and the confirmations of before never come.
async fn unless_lost<T>(
    confirmation: impl Future<Output = T>,
    is_lost: &AtomicBool,
) -> Result<T, DeliveryError> {
    let lost = async {
        while !is_lost.load(Ordering::Relaxed) {
            tokio::time::sleep(LOST_POLL_INTERVAL).await;
        }
    };
    tokio::select! {
        biased;
        confirmation = confirmation => Ok(confirmation),
        () = lost => Err(DeliveryError::failed("the connection was lost before the confirmation")),
    }
}

/// The error of a message with what the server has said of it, if anything.
fn explained(error: DeliveryError, said: &Mutex<Option<String>>) -> DeliveryError {
    let said = said.lock().unwrap_or_else(PoisonError::into_inner).take();
    match said {
        Some(said) if !error.is_refused => failure(format!("{}: {said}", error.message)),
        _ => error,
    }
}

/// What a failed publish means.
fn delivery_error(error: &PublishError) -> DeliveryError {
    match error.kind() {
        PublishErrorKind::StreamNotFound => {
            DeliveryError::refused("no stream takes the subject of the event")
                .with_action("make a stream with stockhold ctl sinks init")
        }
        PublishErrorKind::WrongLastMessageId | PublishErrorKind::WrongLastSequence => {
            DeliveryError::refused(error)
        }
        // The server has answered with an error: the stream is full, or does not take this message.
        PublishErrorKind::Other => DeliveryError::refused(error),
        _ => failure(error),
    }
}
