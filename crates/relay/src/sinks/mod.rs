//! The systems that events are delivered to.

mod broker;
mod browse_cache;
mod clickhouse;
mod file;
mod kafka;
mod nats;
mod notifications;
mod rabbitmq;

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

/// The sink of these options. It connects at its first delivery.
pub(crate) fn sink(relay: &RelayOptions, options: &SinkOptions, store: &Arc<dyn Store>) -> Box<dyn Sink> {
    match &options.kind {
        SinkKind::File { path, rotate_bytes } => {
            let instance = relay.is_shared.then(|| relay.instance.clone());
            Box::new(file::FileSink::new(path.clone(), *rotate_bytes, instance))
        }
        SinkKind::Nats { url, stream } => {
            Box::new(BrokerSink(nats::NatsBroker::new(url.clone(), stream.clone())))
        }
        SinkKind::RabbitMq { url, exchange } => {
            Box::new(BrokerSink(rabbitmq::RabbitMqBroker::new(url.clone(), exchange.clone())))
        }
        SinkKind::Kafka(kafka) => Box::new(kafka::Kafka::new(kafka.clone())),
        SinkKind::ClickHouse { url, table } => Box::new(clickhouse::ClickHouse::new(url, table.clone())),
        SinkKind::Notifications(notifier) => {
            Box::new(notifications::NotificationSink::new(Arc::clone(notifier)))
        }
        SinkKind::BrowseCache { url } => {
            Box::new(browse_cache::BrowseCache::new(url.clone(), Arc::clone(store), options.filter.clone()))
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
        Ok(Err(error)) => Err(format!("{what}: {error}")),
        Err(_) => Err(format!("{what}: no answer within {} s", TIMEOUT.as_secs())),
    }
}
