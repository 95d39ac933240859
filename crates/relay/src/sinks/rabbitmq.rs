//! Events as messages of a durable topic exchange of `RabbitMQ`: the routing key is the type, `message_id` is the event's id. Queues are
//! the operator's. A message that no queue takes is refused.

use super::broker::Broker;
use super::{TIMEOUT, in_time};
use crate::message::Message;
use crate::sink::DeliveryError;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::tcp::{AMQPUriTcpExt, AsyncTcpStream, RustlsConnector};
use lapin::types::FieldTable;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use stockhold_api::client::ClientAccess;
use stockhold_api::encode::CLOUD_EVENT_CONTENT;

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
            // The client's own TLS trusts the system's certificates besides those of the file.
            AMQPScheme::AMQPS => {
                Some(RustlsConnector::from(self.access.tls().map_err(DeliveryError::failed)?))
            }
        };
        let runtime = lapin::runtime::default_runtime().map_err(DeliveryError::failed)?;
        let pending = PendingSocket::default();
        let place = Arc::clone(&pending.0);
        let connect = Connection::connector(
            uri,
            runtime,
            async move |uri, runtime| {
                let host = uri.authority.host.clone();
                let tcp = AMQPUri { scheme: AMQPScheme::AMQP, ..uri };
                let open = async {
                    let stream = tcp.connect_async(&runtime).await?;
                    if let AsyncTcpStream::Plain(tcp) = &stream {
                        let socket = tcp.get_ref().as_fd().try_clone_to_owned()?;
                        if let Ok(mut place) = place.lock() {
                            *place = Some(socket.into());
                        }
                    }
                    match &tls {
                        Some(tls) => stream.into_rustls(tls, &host).await,
                        None => Ok(stream),
                    }
                };
                let open = tokio::time::timeout(TIMEOUT, open).await;
                Ok(open.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?)
            },
            properties,
        );
        let connection = in_time("connecting to RabbitMQ", connect).await.map_err(DeliveryError::failed)?;
        // From now on it ends with the connection.
        drop(pending.take());
        Ok(connection)
    }

    async fn connect(&self) -> Result<(Connection, Channel), DeliveryError> {
        let failed = |what: String| DeliveryError::failed(what);
        let connection = self.connection().await?;
        let channel = in_time("opening a channel", connection.create_channel()).await.map_err(failed)?;
        let confirm = channel.confirm_select(ConfirmSelectOptions::default());
        in_time("asking for confirmations", confirm).await.map_err(failed)?;
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declare = channel.exchange_declare(
            self.exchange.as_str().into(),
            ExchangeKind::Topic,
            options,
            FieldTable::default(),
        );
        in_time("declaring the exchange", declare).await.map_err(failed)?;
        Ok((connection, channel))
    }
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
            waiting.push(in_time("publishing", sent).await.map_err(DeliveryError::failed)?);
        }
        for (confirmed, answer) in waiting.into_iter().enumerate() {
            let answer = in_time("waiting for the confirmation", answer).await;
            match answer.map_err(DeliveryError::failed).map_err(|error| error.after(confirmed))? {
                Confirmation::Ack(None) => {}
                Confirmation::Ack(Some(returned)) => {
                    let (code, text) = (returned.reply_code, &returned.reply_text);
                    let what =
                        format!("no queue takes the event: {text} ({code}); bind a queue to the exchange");
                    return Err(DeliveryError::refused(what).after(confirmed));
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
