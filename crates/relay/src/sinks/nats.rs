//! Events as messages of NATS `JetStream`: the subject is the type, `Nats-Msg-Id` is the event's id. The stream is the operator's.

use super::broker::Broker;
use super::in_time;
use crate::message::Message;
use crate::sink::DeliveryError;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, HeaderMap};
use std::future::IntoFuture;
use stockhold_api::encode::{CLOUD_EVENT_CONTENT, CLOUD_EVENT_PREFIX};

/// A stream of NATS.
pub(super) struct NatsBroker {
    url: String,
    stream: String,
    connection: Option<(Client, Context)>,
}

impl NatsBroker {
    pub(super) fn new(url: String, stream: String) -> Self {
        Self { url, stream, connection: None }
    }

    /// The connection, which is made if there is none.
    async fn connected(&mut self) -> Result<&(Client, Context), DeliveryError> {
        if self.connection.is_none() {
            let connect = async_nats::ConnectOptions::new().name("stockhold").connect(&self.url);
            let client = in_time("connecting to NATS", connect).await.map_err(DeliveryError::failed)?;
            let mut context = jetstream::new(client.clone());
            context.set_timeout(super::TIMEOUT);
            self.connection = Some((client, context));
        }
        self.connection.as_ref().ok_or_else(|| DeliveryError::failed("NATS is not connected"))
    }
}

impl Broker for NatsBroker {
    async fn publish(&mut self, messages: &[Message]) -> Result<(), DeliveryError> {
        let (client, context) = self.connected().await?;
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
                Err(what) => {
                    failure = Some(DeliveryError::failed(what));
                    break;
                }
            }
        }
        let sent = waiting.len();
        for (confirmed, answer) in waiting.into_iter().enumerate() {
            if let Err(error) = answer.into_future().await {
                return Err(delivery_error(&error).after(confirmed));
            }
        }
        failure.map_or(Ok(()), |failure| Err(failure.after(sent)))
    }

    fn disconnect(&mut self) {
        self.connection = None;
    }

    async fn create(&mut self) -> Result<(), DeliveryError> {
        let stream = self.stream.clone();
        let (_, context) = self.connected().await?;
        let config = jetstream::stream::Config {
            name: stream,
            subjects: vec![format!("{CLOUD_EVENT_PREFIX}>")],
            ..jetstream::stream::Config::default()
        };
        let made = in_time("making the stream", context.get_or_create_stream(config)).await;
        made.map(drop).map_err(DeliveryError::failed)
    }
}

/// What a failed publish means.
fn delivery_error(error: &PublishError) -> DeliveryError {
    match error.kind() {
        PublishErrorKind::StreamNotFound => DeliveryError::refused(
            "no stream takes the subject of the event; make one with stockhold ctl sinks init",
        ),
        PublishErrorKind::WrongLastMessageId | PublishErrorKind::WrongLastSequence => {
            DeliveryError::refused(error)
        }
        // The server has answered with an error: the stream is full, or does not take this message.
        PublishErrorKind::Other => DeliveryError::refused(error),
        _ => DeliveryError::failed(error),
    }
}
