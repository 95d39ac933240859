//! The systems that events are delivered to: the tables `[sinks.NAME]`, and the variables `STOCKHOLD_SINKS__NAME__KEY`.

use crate::secret::SecretText;
use crate::values::{self, Value, unknown};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use stockhold_relay::{EventFilter, KafkaOptions, SinkKind, SinkOptions, SinkStart, TypeFilter};

/// The members of a sink.
pub(crate) const SINK_KEYS: [&str; 16] = [
    "kind",
    "types",
    "skus",
    "locations",
    "start",
    "path",
    "rotate_bytes",
    "url",
    "ca_file",
    "client_cert_file",
    "client_key_file",
    "stream",
    "exchange",
    "table",
    "reservations_topic",
    "inventory_topic",
];
const KINDS: [&str; 6] = ["file", "nats", "rabbitmq", "kafka", "clickhouse", "redis"];
/// The kinds that have an address, with the scheme of a connection without TLS, and of one with it.
const SCHEMES: [(&str, &str, &str); 5] = [
    ("nats", "nats", "tls"),
    ("rabbitmq", "amqp", "amqps"),
    ("kafka", "kafka", "kafkas"),
    ("clickhouse", "http", "https"),
    ("redis", "redis", "rediss"),
];
/// Longest name of a sink.
const NAME_BYTES: usize = 32;
/// Least and most bytes after which a file of events is not continued.
const ROTATE_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;
/// What is between the parts of a variable that sets a member of a table.
const LEVEL: &str = "__";

/// A sink, as it is configured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SinkSettings {
    /// `file`, `nats`, `rabbitmq`, `kafka`, `clickhouse` or `redis`.
    pub kind: String,
    /// Types of events; empty for all.
    pub types: Vec<String>,
    /// SKUs; empty for all.
    pub skus: Vec<String>,
    /// Locations; empty for all.
    pub locations: Vec<String>,
    /// `beginning` or `now`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The directory of a `file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Bytes after which a file is not continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate_bytes: Option<u64>,
    /// The address of a server. It may have a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<SecretText>,
    /// Certificates that are trusted instead of the system's, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The certificate that the server is shown, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_cert_file: Option<PathBuf>,
    /// Its private key, as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_key_file: Option<PathBuf>,
    /// The stream of a `nats`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The exchange of a `rabbitmq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<String>,
    /// The topic of the events of reservations of a `kafka`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservations_topic: Option<String>,
    /// The topic of all other events of a `kafka`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory_topic: Option<String>,
    /// The table of a `clickhouse`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
}

impl SinkSettings {
    /// The default of `rotate_bytes`.
    const ROTATE_BYTES: u64 = 256 << 20;

    /// Sets a member that is one of [`SINK_KEYS`].
    pub(crate) fn set(&mut self, member: &str, value: &Value, from_file: bool) -> Result<(), String> {
        let list = |value: &Value| match value {
            Value::Text(text) if !from_file => values::split_list(text).list(),
            value => value.list(),
        };
        match member {
            "kind" => self.kind = value.text()?,
            "types" => self.types = list(value)?,
            "skus" => self.skus = list(value)?,
            "locations" => self.locations = list(value)?,
            "start" => self.start = Some(value.text()?),
            "path" => self.path = Some(value.text()?.into()),
            "rotate_bytes" => self.rotate_bytes = Some(value.number(from_file)?),
            "url" => self.url = Some(SecretText::new(value.secret()?)),
            "ca_file" => self.ca_file = Some(value.text()?.into()),
            "client_cert_file" => self.client_cert_file = Some(value.text()?.into()),
            "client_key_file" => self.client_key_file = Some(value.text()?.into()),
            "stream" => self.stream = Some(value.text()?),
            "exchange" => self.exchange = Some(value.text()?),
            "reservations_topic" => self.reservations_topic = Some(value.text()?),
            "inventory_topic" => self.inventory_topic = Some(value.text()?),
            _ => self.table = Some(value.text()?),
        }
        Ok(())
    }

    /// The sink for the relay. An error begins with the member that it is about.
    fn to_options(&self, name: &str) -> Result<SinkOptions, String> {
        if !is_name(name) {
            return Err(format!(
                "the name must begin with a letter a to z, followed by up to {} letters a to z, digits and _",
                NAME_BYTES - 1
            ));
        }
        let kind = self.to_kind()?;
        self.check_foreign_members(&kind)?;
        self.check_tls_members()?;
        let start = match self.start.as_deref() {
            None | Some("now") => SinkStart::Now,
            Some("beginning") => SinkStart::Beginning,
            Some(other) => return Err(format!("start: must be \"beginning\" or \"now\", found {other:?}")),
        };
        let types = TypeFilter::parse(&self.types).map_err(|what| format!("types: {what}"))?;
        let filter = EventFilter { types, skus: self.skus.clone(), locations: self.locations.clone() };
        let client_certificate = self.client_cert_file.clone().zip(self.client_key_file.clone());
        let (name, ca_file) = (name.to_owned(), self.ca_file.clone());
        Ok(SinkOptions { name, kind, ca_file, client_certificate, filter, start })
    }

    /// Its schemes without TLS and with it. A file has none.
    fn schemes(&self) -> Option<(&'static str, &'static str)> {
        SCHEMES.iter().find(|(kind, ..)| *kind == self.kind).map(|(_, plain, secure)| (*plain, *secure))
    }

    fn scheme(&self) -> Option<&str> {
        Some(self.url.as_ref()?.expose().split_once("://")?.0)
    }

    fn url(&self) -> Result<String, String> {
        let url = self.url.as_ref().ok_or_else(|| format!("url: a sink of kind {} needs it", self.kind))?;
        match self.schemes() {
            Some((plain, secure)) if ![Some(plain), Some(secure)].contains(&self.scheme()) => {
                Err(format!("url: must begin with {plain}:// or, for TLS, with {secure}://"))
            }
            _ => Ok(url.expose().to_owned()),
        }
    }

    fn to_kind(&self) -> Result<SinkKind, String> {
        Ok(match self.kind.as_str() {
            "file" => {
                let bytes = self.rotate_bytes.unwrap_or(Self::ROTATE_BYTES);
                if !ROTATE_BYTES.contains(&bytes) {
                    let (least, most) = (ROTATE_BYTES.start(), ROTATE_BYTES.end());
                    return Err(format!("rotate_bytes {bytes}: must be {least} to {most}"));
                }
                let path =
                    self.path.clone().ok_or("path: a sink of kind file needs the directory of its files")?;
                SinkKind::File { path, rotate_bytes: bytes }
            }
            "nats" => SinkKind::Nats {
                url: self.url()?,
                stream: self.stream.clone().unwrap_or_else(|| "STOCKHOLD".to_owned()),
            },
            "rabbitmq" => SinkKind::RabbitMq {
                url: self.url()?,
                exchange: self.exchange.clone().unwrap_or_else(|| "stockhold".to_owned()),
            },
            "kafka" => {
                let parsed = KafkaOptions::parse(&self.url()?);
                let mut kafka = parsed.ok_or("url: must be like kafka://host:9092,host:9092")?;
                if let Some(topic) = &self.reservations_topic {
                    kafka.reservations_topic.clone_from(topic);
                }
                if let Some(topic) = &self.inventory_topic {
                    kafka.inventory_topic.clone_from(topic);
                }
                SinkKind::Kafka(kafka)
            }
            "clickhouse" => {
                let table = self.table.clone().unwrap_or_else(|| "stockhold_events".to_owned());
                // It becomes a part of queries.
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
                if table.is_empty() || !table.chars().all(is_name) {
                    return Err("table: must have letters, digits, _ and . only".to_owned());
                }
                SinkKind::ClickHouse { url: self.url()?, table }
            }
            "redis" => SinkKind::BrowseCache { url: self.url()? },
            "" => return Err(format!("kind: must be one of {}", KINDS.join(", "))),
            other => {
                return Err(format!("kind: {other:?} is no kind of sink; there are {}", KINDS.join(", ")));
            }
        })
    }

    /// Refuses members that belong to other kinds. They would have no effect, which the operator does not expect.
    fn check_foreign_members(&self, kind: &SinkKind) -> Result<(), String> {
        let set = [
            ("path", self.path.is_some(), "file"),
            ("rotate_bytes", self.rotate_bytes.is_some(), "file"),
            ("stream", self.stream.is_some(), "nats"),
            ("exchange", self.exchange.is_some(), "rabbitmq"),
            ("reservations_topic", self.reservations_topic.is_some(), "kafka"),
            ("inventory_topic", self.inventory_topic.is_some(), "kafka"),
            ("table", self.table.is_some(), "clickhouse"),
        ];
        if matches!(kind, SinkKind::File { .. }) && self.url.is_some() {
            return Err("url: a sink of kind file has none".to_owned());
        }
        match set.into_iter().find(|(_, is_set, of)| *is_set && *of != kind.name()) {
            Some((member, _, of)) => Err(format!("{member}: only a sink of kind {of} has it")),
            None => Ok(()),
        }
    }

    /// Refuses members of TLS without it. The certificate and its key belong together.
    fn check_tls_members(&self) -> Result<(), String> {
        let set = [
            ("ca_file", self.ca_file.is_some()),
            ("client_cert_file", self.client_cert_file.is_some()),
            ("client_key_file", self.client_key_file.is_some()),
        ];
        if let Some((member, _)) = set.into_iter().find(|(_, is_set)| *is_set) {
            let Some((_, secure)) = self.schemes() else {
                return Err(format!("{member}: a sink of kind {} has none", self.kind));
            };
            if self.scheme() != Some(secure) {
                return Err(format!("{member}: needs TLS: begin url with {secure}://"));
            }
        }
        match (&self.client_cert_file, &self.client_key_file) {
            (Some(_), None) => {
                Err("client_cert_file: a certificate needs its private key: set client_key_file too"
                    .to_owned())
            }
            (None, Some(_)) => {
                Err("client_key_file: a private key needs its certificate: set client_cert_file too"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Sets a member by a variable: `SINKS__LEDGER__URL` without the prefix of the service.
pub(crate) fn set_variable(
    sinks: &mut BTreeMap<String, SinkSettings>,
    rest: &str,
    value: &str,
) -> Result<(), String> {
    let parts = rest.split_once(LEVEL).and_then(|(_, rest)| rest.split_once(LEVEL));
    let (sink, member) = parts.ok_or("must be named like STOCKHOLD_SINKS__NAME__URL")?;
    let (sink, member) = (sink.to_lowercase(), member.to_lowercase());
    if !SINK_KEYS.contains(&member.as_str()) {
        return Err(format!("sinks.{sink}: {}", unknown(&member, &SINK_KEYS)));
    }
    let settings = sinks.entry(sink.clone()).or_default();
    settings
        .set(&member, &Value::Text(value.to_owned()), false)
        .map_err(|what| format!("sinks.{sink}.{member}: {what}"))
}

/// The sinks for the relay. An error names the sink and the key.
pub(crate) fn options_of(sinks: &BTreeMap<String, SinkSettings>) -> Result<Vec<SinkOptions>, String> {
    let options = |(name, sink): (&String, &SinkSettings)| {
        sink.to_options(name).map_err(|what| match what.split_once(": ") {
            Some((member, what)) if SINK_KEYS.contains(&member) => format!("sinks.{name}.{member}: {what}"),
            _ => format!("sinks.{name}: {what}"),
        })
    };
    sinks.iter().map(options).collect()
}

/// Whether variables of this name set members of sinks.
pub(crate) fn is_variable(rest: &str) -> bool {
    rest.starts_with("SINKS__")
}

/// Whether it can be the name of a sink or of a stock master.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Vec<SinkOptions>, String> {
        let mut sinks = BTreeMap::new();
        for (name, value) in variables {
            set_variable(&mut sinks, &format!("SINKS__{name}"), value)?;
        }
        options_of(&sinks)
    }

    #[test]
    fn an_error_names_the_sink_and_the_key() {
        for (variables, what) in [
            (&[("LEDGER__KIND", "paper")][..], "sinks.ledger.kind: \"paper\" is no kind"),
            (&[("LEDGER__PATH", "out")], "sinks.ledger.kind: must be one of"),
            (&[("LEDGER__KIND", "file")], "sinks.ledger.path: "),
            (&[("LEDGER__KIND", "nats")], "sinks.ledger.url: "),
            (
                &[("LEDGER__KIND", "nats"), ("LEDGER__URL", "amqp://h")],
                "sinks.ledger.url: must begin with nats://",
            ),
            (
                &[("LEDGER__KIND", "file"), ("LEDGER__PATH", "o"), ("LEDGER__STREAM", "s")],
                "sinks.ledger.stream: ",
            ),
            (
                &[("LEDGER__KIND", "file"), ("LEDGER__PATH", "o"), ("LEDGER__TYPES", "sold")],
                "sinks.ledger.types: ",
            ),
            (
                &[("LEDGER__KIND", "file"), ("LEDGER__PATH", "o"), ("LEDGER__START", "later")],
                "sinks.ledger.start: ",
            ),
            (
                &[("LEDGER__KIND", "file"), ("LEDGER__PATH", "o"), ("LEDGER__ROTATE_BYTES", "1")],
                "rotate_bytes 1: ",
            ),
            (&[("LEDGER__KIND", "kafka"), ("LEDGER__URL", "kafka://h")], "sinks.ledger.url: must be like"),
            (
                &[("LEDGER__KIND", "kafka"), ("LEDGER__URL", "kafka://h:1,h")],
                "sinks.ledger.url: must be like",
            ),
            (&[("LEDGER__KIND", "clickhouse"), ("LEDGER__URL", "redis://h")], "must begin with http://"),
            (
                &[("LEDGER__KIND", "clickhouse"), ("LEDGER__URL", "http://h"), ("LEDGER__TABLE", "a b")],
                "sinks.ledger.table: ",
            ),
            (
                &[("LEDGER__KIND", "nats"), ("LEDGER__URL", "natss://h")],
                "sinks.ledger.url: must begin with nats:// or, for TLS, with tls://",
            ),
            (
                &[("LEDGER__KIND", "file"), ("LEDGER__PATH", "o"), ("LEDGER__CA_FILE", "ca.pem")],
                "sinks.ledger.ca_file: a sink of kind file has none",
            ),
            (
                &[("LEDGER__KIND", "kafka"), ("LEDGER__URL", "kafka://h:1"), ("LEDGER__CA_FILE", "ca.pem")],
                "sinks.ledger.ca_file: needs TLS: begin url with kafkas://",
            ),
            (
                &[("LEDGER__KIND", "nats"), ("LEDGER__URL", "tls://h"), ("LEDGER__CLIENT_CERT_FILE", "c")],
                "sinks.ledger.client_cert_file: a certificate needs its private key",
            ),
            (
                &[("LEDGER__KIND", "nats"), ("LEDGER__URL", "tls://h"), ("LEDGER__CLIENT_KEY_FILE", "c")],
                "sinks.ledger.client_key_file: a private key needs its certificate",
            ),
            (&[("LEDGER__URI", "x")], "did you mean url?"),
            (&[("1__KIND", "file"), ("1__PATH", "o")], "sinks.1: the name"),
            (&[("LEDGER", "x")], "must be named like"),
        ] {
            let error = with(variables).unwrap_err();
            assert!(error.contains(what), "{variables:?}: {error}");
        }
    }

    #[test]
    fn every_kind_with_an_address_has_the_files_of_tls() {
        for (kind, _, secure) in SCHEMES {
            let sinks = with(&[
                ("LEDGER__KIND", kind),
                ("LEDGER__URL", &format!("{secure}://h:1")),
                ("LEDGER__CA_FILE", "ca.pem"),
                ("LEDGER__CLIENT_CERT_FILE", "cert.pem"),
                ("LEDGER__CLIENT_KEY_FILE", "key.pem"),
            ]);
            let sink = sinks.unwrap().remove(0);
            assert_eq!(sink.kind.name(), kind);
            assert_eq!(sink.ca_file, Some("ca.pem".into()));
            assert_eq!(sink.client_certificate, Some(("cert.pem".into(), "key.pem".into())));
        }
    }

    #[test]
    fn a_sink_from_variables() {
        let sinks = with(&[
            ("LEDGER__KIND", "redis"),
            ("LEDGER__URL", "rediss://user:secret@h"),
            ("LEDGER__TYPES", "inventory.*, stock.set"),
        ])
        .unwrap();
        let [sink] = &sinks[..] else { panic!("one sink") };
        assert_eq!((sink.name.as_str(), sink.kind.name(), sink.start), ("ledger", "redis", SinkStart::Now));
        assert!(!format!("{sinks:?}").contains("secret"));
    }
}
