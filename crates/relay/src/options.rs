//! What the relay is started with.

use crate::connection::split_user;
use crate::filter::{EventFilter, TypeFilter};
use crate::stock_masters::StockMasterOptions;
use crate::webhooks::WebhookOptions;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use stockhold_api::client::ClientAccess;
use stockhold_notify::Notifier;

/// What the relay is started with.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// The `source` of every event.
    pub source: String,
    /// The name of this instance. No two instances of a store have the same.
    pub instance: String,
    /// Whether other instances may serve the same store.
    pub is_shared: bool,
    /// The sinks.
    pub sinks: Vec<SinkOptions>,
    /// What webhooks are sent with.
    pub webhooks: WebhookOptions,
    /// The stock masters.
    pub stock_masters: Vec<StockMasterOptions>,
}

/// A sink.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: SinkKind,
    /// Certificates that are trusted instead of the system's, as PEM. Only with TLS.
    pub ca_file: Option<PathBuf>,
    /// The certificate that the other system is shown, and its private key, as PEM. Only with TLS.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Which events it gets.
    pub filter: EventFilter,
    /// Where it begins if the store has no position of it.
    pub start: SinkStart,
}

/// Where a new sink begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SinkStart {
    /// At the first event that the store still has.
    Beginning,
    /// At the first event after its start.
    #[default]
    Now,
}

/// What a sink is. Addresses may have passwords, so they are not printed.
#[derive(Clone)]
pub enum SinkKind {
    /// JSON lines in files of a directory.
    File {
        /// The directory.
        path: PathBuf,
        /// A file is not continued once it has so many bytes.
        rotate_bytes: u64,
    },
    /// A stream of NATS `JetStream`.
    Nats {
        /// The address of a server.
        url: String,
        /// The name of the stream, for [`crate::Relay::init`].
        stream: String,
    },
    /// A topic exchange of `RabbitMQ`.
    RabbitMq {
        /// The address of a server.
        url: String,
        /// The name of the exchange.
        exchange: String,
    },
    /// Two topics of Kafka.
    Kafka(KafkaOptions),
    /// A table of `ClickHouse`.
    ClickHouse {
        /// The address of its HTTP interface.
        url: String,
        /// The name of the table.
        table: String,
    },
    /// Hashes in Redis with the availability of each item.
    BrowseCache {
        /// The address of a server.
        url: String,
    },
    /// Mail and push messages to buyers.
    Notifications(Arc<Notifier>),
}

/// A cluster of Kafka, and its topics.
#[derive(Clone)]
pub struct KafkaOptions {
    /// Brokers that are asked first, as `host:port`.
    pub brokers: Vec<String>,
    /// Whether connections have TLS.
    pub is_secure: bool,
    /// A user and its password: SASL/PLAIN with TLS, SCRAM-SHA-256 without.
    pub user: Option<(String, String)>,
    /// The topic of the events of reservations.
    pub reservations_topic: String,
    /// The topic of all other events.
    pub inventory_topic: String,
}

impl KafkaOptions {
    /// Reads `kafka[s]://[user:password@]host:port[,host:port…]`. `None` if it is anything else. The topics are the default ones.
    pub fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let is_secure = match scheme {
            "kafka" => false,
            "kafkas" => true,
            _ => return None,
        };
        let (user, brokers) = split_user(rest.trim_end_matches('/'));
        let brokers: Vec<String> = brokers.split(',').map(str::to_owned).collect();
        let has_port = |broker: &String| {
            broker
                .rsplit_once(':')
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        brokers.iter().all(has_port).then(|| Self {
            brokers,
            is_secure,
            user,
            reservations_topic: "stockhold.reservations".to_owned(),
            inventory_topic: "stockhold.inventory".to_owned(),
        })
    }
}

impl SinkOptions {
    /// The name of the sink of notifications.
    pub const NOTIFICATIONS: &str = "notifications";
    /// The types of the events that buyers can be told of.
    const NOTIFIED_TYPES: [&str; 4] =
        ["reservation.confirmed", "reservation.cancelled", "reservation.expired", "payment.*"];

    /// The sink that tells buyers of what happens from its first start on.
    pub fn notifications(notifier: Notifier) -> Self {
        let types = TypeFilter::of_feed(&Self::NOTIFIED_TYPES.map(str::to_owned));
        Self {
            name: Self::NOTIFICATIONS.to_owned(),
            kind: SinkKind::Notifications(Arc::new(notifier)),
            ca_file: None,
            client_certificate: None,
            filter: EventFilter { types, ..EventFilter::DEFAULT },
            start: SinkStart::Now,
        }
    }

    /// Reads the files of TLS. An error has the key of the configuration that it is about.
    pub fn check_files(&self) -> Result<(), (&'static str, String)> {
        if let Some(file) = &self.ca_file {
            let trusted = ClientAccess::default().with_ca_file(file);
            trusted.check_files().map_err(|error| ("ca_file", error))?;
        }
        if let Some((_, key)) = &self.client_certificate {
            let key = key.display().to_string();
            self.access().check_files().map_err(|error| {
                let is_of_key = error.contains(&format!("private key of {key}: "));
                (if is_of_key { "client_key_file" } else { "client_cert_file" }, error)
            })?;
        }
        Ok(())
    }

    /// Whom the sink trusts, and by which certificate the other system knows it.
    pub(crate) fn access(&self) -> ClientAccess {
        let mut access = ClientAccess::default();
        if let Some(file) = &self.ca_file {
            access = access.with_ca_file(file);
        }
        if let Some((cert, key)) = &self.client_certificate {
            access = access.with_client_certificate(cert, key);
        }
        access
    }
}

impl SinkKind {
    /// Its name in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            Self::File { .. } => "file",
            Self::Nats { .. } => "nats",
            Self::RabbitMq { .. } => "rabbitmq",
            Self::Kafka(_) => "kafka",
            Self::ClickHouse { .. } => "clickhouse",
            Self::BrowseCache { .. } => "redis",
            Self::Notifications(_) => "notifications",
        }
    }
}

impl fmt::Debug for SinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
