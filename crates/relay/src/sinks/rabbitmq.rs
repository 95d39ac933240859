//! Events as messages of an exchange of `RabbitMQ`: the routing key is the type, `message_id` is the event's id. If the exchange does not
//! exist, a durable topic exchange is made. Queues are the operator's. A message that no queue takes is refused.

use super::broker::Broker;
use super::rabbitmq_runtime::{connect, runtime};
use super::{TIMEOUT, in_time};
use crate::message::Message;
use crate::sink::DeliveryError;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::types::FieldTable;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{
    AsyncTcpStream, BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind,
};
use rustls::pki_types::ServerName;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use stockhold_api::client::ClientAccess;
use stockhold_api::encode::CLOUD_EVENT_CONTENT;
use tokio_rustls::TlsConnector;
use tokio_util::compat::TokioAsyncReadCompatExt;
use tokio_util::either::Either;

/// How `RabbitMQ` says that there is no such exchange.
const NOT_FOUND: &str = "NOT_FOUND";
/// The delivery mode of a message that survives a restart of the broker.
const PERSISTENT: u8 = 2;

/// An exchange of `RabbitMQ`.
pub(super) struct RabbitMqBroker {
    url: String,
    exchange: String,
    access: ClientAccess,
    connection: Option<(Connection, Channel)>,
}

/// The socket of a connection that is being made. The client reads it on a thread of its own. That thread waits for a silent server without
/// a limit, even after the connection was given up, and it ends when the socket does. So the socket ends with this value.
#[derive(Default)]
struct PendingSocket(Arc<Mutex<Option<TcpStream>>>);

impl PendingSocket {
    fn take(&self) -> Option<TcpStream> {
        self.0.lock().ok()?.take()
    }
}

impl Drop for PendingSocket {
    fn drop(&mut self) {
        if let Some(socket) = self.take() {
            // An error says that it has ended already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl RabbitMqBroker {
    pub(super) fn new(url: String, exchange: String, access: ClientAccess) -> Self {
        Self { url, exchange, access, connection: None }
    }

    /// A connection, over TLS if the address says so.
    async fn connection(&self) -> Result<Connection, DeliveryError> {
        let properties = ConnectionProperties::default().with_connection_name("stockhold".into());
        // The error of an address may repeat it, and it may have a password.
        let uri: AMQPUri =
            self.url.parse().map_err(|_| DeliveryError::failed("the address of RabbitMQ is not valid"))?;
        let tls = match uri.scheme {
            AMQPScheme::AMQP => None,
            AMQPScheme::AMQPS => {
                let name = ServerName::try_from(uri.authority.host.clone()).map_err(DeliveryError::failed)?;
                Some((TlsConnector::from(self.access.tls().map_err(DeliveryError::failed)?), name))
            }
        };
        let pending = PendingSocket::default();
        let place = Arc::clone(&pending.0);
        let connect = Connection::connector(
            uri,
            runtime(),
            async move |uri, _| {
                let open = async {
                    let tcp = connect((uri.authority.host.as_str(), uri.authority.port)).await?;
                    let socket = tcp.as_fd().try_clone_to_owned()?;
                    if let Ok(mut place) = place.lock() {
                        *place = Some(socket.into());
                    }
                    Ok(match &tls {
                        Some((tls, name)) => Either::Right(Box::new(tls.connect(name.clone(), tcp).await?)),
                        None => Either::Left(tcp),
                    })
                };
                let open = tokio::time::timeout(TIMEOUT, open).await;
                let stream = open.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))?;
                Ok(AsyncTcpStream::Plain(stream.compat()))
            },
            properties,
        );
        let connection = in_time("connecting to RabbitMQ", connect).await?;
        // From now on it ends with the connection.
        drop(pending.take());
        Ok(connection)
    }

    async fn connect(&self) -> Result<(Connection, Channel), DeliveryError> {
        let connection = self.connection().await?;
        let channel = open_channel(&connection).await?;
        // An exchange that is there may be of any type and have any arguments: they are its operator's. A user who may only publish may
        // look for it too.
        match self.declare(&channel, true).await {
            Ok(()) => return Ok((connection, channel)),
            Err(error) if error.message.contains(NOT_FOUND) => {}
            Err(error) => return Err(error),
        }
        // The refusal has ended the channel.
        let channel = open_channel(&connection).await?;
        self.declare(&channel, false).await.map_err(|error| match error.action {
            Some(_) => error.with_action(format!(
                "the operator of RabbitMQ has to make the exchange {}, or let the sink's user make it",
                self.exchange
            )),
            None => error,
        })?;
        Ok((connection, channel))
    }

    /// Makes the exchange if it does not exist. `is_passive`: only looks whether it does.
    async fn declare(&self, channel: &Channel, is_passive: bool) -> Result<(), DeliveryError> {
        let options = ExchangeDeclareOptions {
            durable: true,
            passive: is_passive,
            ..ExchangeDeclareOptions::default()
        };
        let declare = channel.exchange_declare(
            self.exchange.as_str().into(),
            ExchangeKind::Topic,
            options,
            FieldTable::default(),
        );
        in_time("declaring the exchange", declare).await
    }
}

/// A channel whose messages are confirmed.
async fn open_channel(connection: &Connection) -> Result<Channel, DeliveryError> {
    let channel = in_time("opening a channel", connection.create_channel()).await?;
    let confirm = channel.confirm_select(ConfirmSelectOptions::default());
    in_time("asking for confirmations", confirm).await?;
    Ok(channel)
}

impl Broker for RabbitMqBroker {
    async fn publish(&mut self, messages: &[Message]) -> Result<(), DeliveryError> {
        let (_, channel) = match &self.connection {
            Some(connection) if connection.1.status().connected() => connection,
            _ => self.connection.insert(self.connect().await?),
        };
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let mut waiting = Vec::with_capacity(messages.len());
        for message in messages {
            let properties = BasicProperties::default()
                .with_message_id(message.deduplication_id().into())
                .with_type(message.kind.as_str().into())
                .with_content_type(CLOUD_EVENT_CONTENT.into())
                .with_delivery_mode(PERSISTENT);
            let sent = channel.basic_publish(
                self.exchange.as_str().into(),
                message.kind.as_str().into(),
                options,
                &message.body,
                properties,
            );
            waiting.push(in_time("publishing", sent).await?);
        }
        for (confirmed, answer) in waiting.into_iter().enumerate() {
            let answer = in_time("waiting for the confirmation", answer).await;
            match answer.map_err(|error| error.after(confirmed))? {
                Confirmation::Ack(None) => {}
                Confirmation::Ack(Some(returned)) => {
                    let (code, text) = (returned.reply_code, &returned.reply_text);
                    let what = format!("no queue takes the event: {text} ({code})");
                    let action =
                        "the operator of RabbitMQ has to bind a queue to the exchange, or skip the event";
                    return Err(DeliveryError::refused(what).with_action(action).after(confirmed));
                }
                Confirmation::Nack(_) => {
                    return Err(
                        DeliveryError::refused("the broker did not accept the event").after(confirmed)
                    );
                }
                Confirmation::NotRequested => {
                    return Err(DeliveryError::failed("the broker sends no confirmations").after(confirmed));
                }
            }
        }
        Ok(())
    }

    fn disconnect(&mut self) {
        self.connection = None;
    }

    async fn create(&mut self) -> Result<(), DeliveryError> {
        self.connection = Some(self.connect().await?);
        Ok(())
    }
}
