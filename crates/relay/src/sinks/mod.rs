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
use crate::sink::{DeliveryError, Sink};
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
) -> Result<T, DeliveryError> {
    match tokio::time::timeout(TIMEOUT, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(failure(format!("{what}: {error}"))),
        Err(_) => Err(DeliveryError::failed(format!("{what}: no answer within {} s", TIMEOUT.as_secs()))),
    }
}

/// What has to be done when the error of a system has one of these words. The systems' clients show them alike, and not all of them keep
/// the error itself.
const ACTIONS: [(&[&str], &str); 5] = [
    // The second one: the issuer has the name of a trusted one, and another key.
    (
        &["invalid peer certificate: UnknownIssuer", "invalid peer certificate: BadSignature"],
        "ca_file has to have the authority that issued the server's certificate",
    ),
    (
        &["invalid peer certificate"],
        "the operator of the server has to give it a certificate that is valid for its name",
    ),
    (
        &[
            "authorization violation",
            "Authorization Violation",
            "SaslAuthenticationFailed",
            "AuthenticationFailed",
            "authentication failed",
            "Authentication failed",
            "AUTHENTICATION_FAILED",
            "REQUIRED_PASSWORD",
            "WRONGPASS",
            "NOAUTH",
            "Login was refused",
        ],
        "correct the user and the password in the sink's url",
    ),
    (
        &[
            "ACCESS_REFUSED",
            "NOT_ALLOWED",
            "Permissions Violation",
            "AuthorizationFailed",
            "NOPERM",
            "ACCESS_DENIED",
            "Permission denied",
        ],
        "the operator of the other system has to give the sink's user the right to do this",
    ),
    (
        &["PRECONDITION_FAILED", "READONLY", "Read-only file system", "Not a directory", "File exists"],
        "correct what the sink writes to, in the configuration or in the other system",
    ),
];

/// A failure in the words of the other system. Where the words say that nothing can work before somebody acts, it is blocked.
fn failure(error: impl fmt::Display) -> DeliveryError {
    let mut text = error.to_string();
    let found = ACTIONS.iter().find(|(words, _)| words.iter().any(|word| text.contains(word)));
    let Some((words, action)) = found else { return DeliveryError::failed(text) };
    if words == &ACTIONS[0].0 {
        text = format!(
            "the server's certificate is not trusted: ca_file has to have the authority that issued it ({text})"
        );
    }
    DeliveryError::blocked(text, action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_before_somebody_acts_is_blocked() {
        for (text, action) in [
            ("invalid peer certificate: UnknownIssuer", Some("ca_file")),
            ("invalid peer certificate: certificate not valid for name", Some("valid for its name")),
            ("nats: authorization violation", Some("password")),
            ("WRONGPASS: invalid username-password pair", Some("password")),
            ("ACCESS-REFUSED: ACCESS_REFUSED - Login was refused using", Some("password")),
            ("ACCESS-REFUSED: ACCESS_REFUSED - write access to exchange 'x' refused", Some("the right")),
            ("NOT-ALLOWED: NOT_ALLOWED - vhost shop not found", Some("the right")),
            ("PRECONDITION-FAILED: PRECONDITION_FAILED - inequivalent arg 'type'", Some("correct what")),
            ("writing to out: Permission denied (os error 13)", Some("the right")),
            ("connection refused", None),
            ("No space left on device (os error 28)", None),
        ] {
            let error = failure(text);
            assert!(!error.is_refused && error.message.contains(text), "{text}");
            match (error.action, action) {
                (None, None) => {}
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{text}: {found}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
