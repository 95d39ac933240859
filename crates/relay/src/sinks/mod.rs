//! The systems that events are delivered to.

mod broker;
mod browse_cache;
mod clickhouse;
mod file;
mod kafka;
mod nats;
mod notifications;
mod rabbitmq;
mod rabbitmq_runtime;

use crate::options::{RelayOptions, SinkKind, SinkOptions};
use crate::sink::Sink;
use broker::BrokerSink;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use stockhold_store::Store;

/// Longest wait for a connection, and for the confirmation of a delivery.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The sink of these options. It connects at its first delivery. Files of TLS are read whenever it connects.
pub(crate) fn sink(relay: &RelayOptions, options: &SinkOptions, store: &Arc<dyn Store>) -> Box<dyn Sink> {
    let access = options.access();
    match &options.kind {
        SinkKind::File { path, rotate_bytes } => {
            let instance = relay.is_shared.then(|| relay.instance.clone());
            Box::new(file::FileSink::new(path.clone(), *rotate_bytes, instance))
        }
        SinkKind::Nats { url, stream } => {
            Box::new(BrokerSink(nats::NatsBroker::new(url.clone(), stream.clone(), access)))
        }
        SinkKind::RabbitMq { url, exchange } => {
            Box::new(BrokerSink(rabbitmq::RabbitMqBroker::new(url.clone(), exchange.clone(), access)))
        }
        SinkKind::Kafka(kafka) => Box::new(kafka::Kafka::new(kafka.clone(), access)),
        SinkKind::ClickHouse { url, table } => {
            Box::new(clickhouse::ClickHouse::new(url, table.clone(), access))
        }
        SinkKind::Notifications(notifier) => {
            Box::new(notifications::NotificationSink::new(Arc::clone(notifier)))
        }
        SinkKind::BrowseCache { url } => {
            let filter = options.filter.clone();
            Box::new(browse_cache::BrowseCache::new(url.clone(), access, Arc::clone(store), filter))
        }
    }
}

/// Waits for an answer, at most for [`TIMEOUT`].
async fn in_time<T, E: fmt::Display>(
    what: &str,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match tokio::time::timeout(TIMEOUT, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{what}: {}", explained(error.to_string()))),
        Err(_) => Err(format!("{what}: no answer within {} s", TIMEOUT.as_secs())),
    }
}

/// The error of a connection, with what the operator can do if the certificate of the server is not trusted. The clients of the other
/// systems show the same text of the TLS library, and not all of them keep the error itself.
fn explained(error: String) -> String {
    // The second one: the issuer has the name of a trusted one, and another key.
    let is_untrusted = ["invalid peer certificate: UnknownIssuer", "invalid peer certificate: BadSignature"]
        .iter()
        .any(|text| error.contains(text));
    if is_untrusted {
        return format!(
            "the server's certificate is not trusted: ca_file has to have the authority that issued it ({error})"
        );
    }
    error
}
