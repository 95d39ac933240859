//! The settings, their defaults and their limits. The sources of a value, from the strongest: flags, `STOCKHOLD_*` variables,
//! `stockhold.toml`, defaults. `stockhold config` prints what is in force and where it came from.

use crate::access::{AccessSettings, PrincipalSettings};
use crate::archive::ArchiveSettings;
use crate::connection_age::ConnectionAge;
use crate::customers::CustomerSettings;
use crate::notifications::NotificationSettings;
use crate::providers::{CheckoutSettings, ProviderSettings};
use crate::secret::SecretText;
use crate::sinks::{self, SinkSettings};
use crate::stock_masters::{self, StockMasterSettings};
use crate::store_address::StoreAddress;
use clap::ValueEnum;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stockhold_checkout::CheckoutOptions;
use stockhold_customers::Keyring;
use stockhold_domain::limits::{PAYMENT_CEILING_SECONDS, TTL_CEILING_SECONDS};
use stockhold_domain::{HoldLimits, Label, LocationLimits, Seconds, limits};
use stockhold_embedded::Options;
use stockhold_gate::GateAddress;
use stockhold_notify::NotifierOptions;
use stockhold_relay::{SinkOptions, SinkStart, StockMasterOptions, WebhookOptions};
use stockhold_service::network;

/// The file that is read if it exists and the command line names no other.
pub const FILE: &str = "stockhold.toml";
/// All settings.
pub(crate) const KEYS: [&str; 47] = [
    "listen",
    "admin_listen",
    "grpc_listen",
    "grpc_reflection",
    "max_connection_age",
    "hub_listen",
    "storefront_listen",
    "tls_cert",
    "tls_key",
    "tls_client_ca",
    "plain_http",
    "store",
    "replica",
    "gate",
    "gate_timeout_ms",
    "gate_reconcile_seconds",
    "store_batch",
    "data_dir",
    "threads",
    "default_ttl_seconds",
    "max_hold_seconds",
    "max_payment_seconds",
    "key_retention_hours",
    "free_space_floor_mib",
    "log_level",
    "log_format",
    "root_key",
    "root_key_file",
    "allowed_origins",
    "allowed_hosts",
    "trusted_proxies",
    "forwarded_header",
    "locations",
    "issuers",
    "rate_limits",
    "hub_principal",
    "storefront_principal",
    "source",
    "sinks",
    "stock_masters",
    "providers",
    "checkout",
    "notifications",
    "customers",
    "archive",
    "webhook_allowed_networks",
    "webhook_ca_file",
];
/// Settings that are tables of the file.
pub(crate) const TABLES: [&str; 12] = [
    "locations",
    "issuers",
    "rate_limits",
    "hub_principal",
    "storefront_principal",
    "sinks",
    "stock_masters",
    "providers",
    "checkout",
    "notifications",
    "customers",
    "archive",
];
/// Largest floor of free space: no disk is larger.
const FREE_SPACE_FLOOR_MIB: u64 = 1 << 40;
/// Longest wait for the gate's Redis: a request that waits longer is better decided by the store.
const GATE_TIMEOUT_MS: u64 = 10_000;
/// Longest time between two comparisons of the gate with the store.
const GATE_RECONCILE_SECONDS: u64 = 86_400;
/// Most worker threads.
const THREADS: usize = 64;

/// Every setting, with its value in force.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// Address of the API.
    pub listen: SocketAddr,
    /// Address of health and metrics.
    pub admin_listen: SocketAddr,
    /// Address of the listener that serves gRPC alone.
    pub grpc_listen: Option<SocketAddr>,
    /// Whether gRPC answers reflection.
    pub grpc_reflection: bool,
    /// After this time a client of HTTP/2 is asked to connect again.
    pub max_connection_age: ConnectionAge,
    /// Address of the listener that serves the hub's profile alone.
    pub hub_listen: Option<SocketAddr>,
    /// Address of the listener that serves the storefront's profile alone.
    pub storefront_listen: Option<SocketAddr>,
    /// The server's certificate and those that lead to its root, as PEM. With it the API speaks TLS.
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, as PEM.
    pub tls_key: Option<PathBuf>,
    /// Certificates of which one must have issued a client's certificate, as PEM. Without it clients need none.
    pub tls_client_ca: Option<PathBuf>,
    /// Whether the API may be served without TLS on an address that other machines reach.
    pub plain_http: bool,
    /// `embedded`, or the address of a database.
    pub store: StoreAddress,
    /// Address of a read replica of the database.
    pub replica: Option<StoreAddress>,
    /// Address of the gate's Redis. It may have a password, and is shown nowhere.
    pub gate: Option<SecretText>,
    /// Longest wait for an answer of the gate's Redis, in milliseconds.
    pub gate_timeout_ms: u64,
    /// How often the gate's counters are compared with the store.
    pub gate_reconcile_seconds: u64,
    /// Most commands in one transaction of a database.
    pub store_batch: usize,
    /// Directory of the embedded store.
    pub data_dir: PathBuf,
    /// Threads that serve requests; 0 for one per processor. Shown as the number that is used.
    #[serde(serialize_with = "shown_threads")]
    pub threads: usize,
    /// Time to live of a hold whose request names none.
    pub default_ttl_seconds: u64,
    /// Longest life of a hold, including extensions.
    pub max_hold_seconds: u64,
    /// How long payment windows may keep a hold, from the opening of the first one.
    pub max_payment_seconds: u64,
    /// How many hours idempotency keys are kept, at least 24.
    pub key_retention_hours: u32,
    /// New reservations are refused while the data directory's disk has less free space.
    pub free_space_floor_mib: u64,
    /// `trace`, `debug`, `info`, `warn`, `error`, or a list of `target=level`.
    pub log_level: String,
    /// `text` or `json`.
    pub log_format: LogFormat,
    /// Credentials, origins, proxies and rate limits.
    #[serde(flatten)]
    pub access: AccessSettings,
    /// The principal of the clients of `hub_listen`.
    pub hub_principal: Option<PrincipalSettings>,
    /// The principal of the clients of `storefront_listen`.
    pub storefront_principal: Option<PrincipalSettings>,
    /// The `source` of the events that are delivered to other systems.
    pub source: String,
    /// Systems that events are delivered to.
    pub sinks: BTreeMap<String, SinkSettings>,
    /// External systems that own the totals of items.
    pub stock_masters: BTreeMap<String, StockMasterSettings>,
    /// The payment providers.
    pub providers: ProviderSettings,
    /// When payment providers are asked again.
    pub checkout: CheckoutSettings,
    /// How buyers are notified.
    pub notifications: NotificationSettings,
    /// How personal data of customers is kept.
    pub customers: CustomerSettings,
    /// Where old events of the embedded store go, and when.
    pub archive: ArchiveSettings,
    /// Networks that webhooks may be sent to although they are not public.
    pub webhook_allowed_networks: Vec<String>,
    /// Certificates that webhooks trust instead of the system's, as PEM.
    pub webhook_ca_file: Option<PathBuf>,
    /// Locations with their own times.
    pub locations: BTreeMap<String, LocationTimes>,
    /// Warnings about environment variables that look like settings and are none.
    #[serde(skip)]
    pub(crate) ignored: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn shown_threads<S: Serializer>(threads: &usize, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(workers(*threads) as u64)
}

/// See [`Config::locations`].
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of settings end with their unit")]
pub struct LocationTimes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default_ttl_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_hold_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_payment_seconds: Option<u64>,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 8101).into(),
            admin_listen: ([127, 0, 0, 1], 8102).into(),
            grpc_listen: None,
            grpc_reflection: true,
            max_connection_age: ConnectionAge::default(),
            hub_listen: None,
            storefront_listen: None,
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            plain_http: false,
            store: StoreAddress::embedded(),
            replica: None,
            gate: None,
            gate_timeout_ms: 20,
            gate_reconcile_seconds: 60,
            store_batch: stockhold_sql::Options::BATCH,
            data_dir: "./stockhold-data".into(),
            threads: 0,
            default_ttl_seconds: limits::DEFAULT_TTL_SECONDS.into(),
            max_hold_seconds: limits::DEFAULT_MAX_HOLD_SECONDS.into(),
            max_payment_seconds: limits::DEFAULT_MAX_PAYMENT_SECONDS.into(),
            key_retention_hours: 24,
            free_space_floor_mib: Options::MIN_FREE_BYTES >> 20,
            log_level: "info".to_owned(),
            log_format: LogFormat::Text,
            access: AccessSettings::default(),
            hub_principal: None,
            storefront_principal: None,
            source: "stockhold".to_owned(),
            sinks: BTreeMap::new(),
            stock_masters: BTreeMap::new(),
            providers: ProviderSettings::default(),
            checkout: CheckoutSettings::default(),
            notifications: NotificationSettings::default(),
            customers: CustomerSettings::default(),
            archive: ArchiveSettings::default(),
            webhook_allowed_networks: Vec::new(),
            webhook_ca_file: None,
            locations: BTreeMap::new(),
            ignored: Vec::new(),
        }
    }
}

impl Config {
    /// Checks values and their relations. An error has the key that it is about.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let at = |key: &'static str| move |what: String| (key, what);
        self.rules()?;
        self.store.check("store").map_err(at("store"))?;
        self.check_replica().map_err(at("replica"))?;
        self.check_gate()?;
        crate::log_level::check(&self.log_level).map_err(at("log_level"))?;
        self.check_tls()?;
        if self.listen == self.admin_listen && self.listen.port() != 0 {
            let what = format!("listen and admin_listen are both {}: give each its own port", self.listen);
            return Err(("admin_listen", what));
        }
        self.access.check()?;
        self.check_profile_listeners()?;
        self.check_grpc_listener()?;
        self.sink_options().map_err(at("sinks"))?;
        self.stock_master_options().map_err(at("stock_masters"))?;
        self.checkout_options().map_err(at("providers"))?;
        self.notifier_options().map_err(at("notifications"))?;
        self.keyring().map_err(at("customers"))?;
        self.webhook_options().map_err(at("webhook_allowed_networks"))?;
        if self.source.is_empty() || self.source.contains(char::is_control) {
            let what =
                "source: must be a text without control characters, like https://shop.example/stockhold";
            return Err(("source", what.to_owned()));
        }
        // The admin listener shows only health and metrics, so it may have any address. Whether there are credentials is
        // known once the store is open.
        if !self.listen.ip().is_loopback() && self.tls().is_none() && !self.plain_http {
            let what = format!(
                "listen {}: without TLS the API listens on loopback only, because credentials would be readable on the way; set \
                 tls_cert and tls_key, or plain_http if a proxy in front of the server speaks TLS",
                self.listen
            );
            return Err(("listen", what));
        }
        if self.threads > THREADS {
            return Err(("threads", format!("threads {}: must be at most {THREADS}", self.threads)));
        }
        let most = stockhold_sql::Options::BATCH;
        if !(1..=most).contains(&self.store_batch) {
            return Err(("store_batch", format!("store_batch {}: must be 1 to {most}", self.store_batch)));
        }
        if self.free_space_floor_mib > FREE_SPACE_FLOOR_MIB {
            let (floor, most) = (self.free_space_floor_mib, FREE_SPACE_FLOOR_MIB);
            let what = format!("free_space_floor_mib {floor}: must be at most {most}");
            return Err(("free_space_floor_mib", what));
        }
        if u64::from(self.key_retention_hours) * 3600 < Options::KEY_RETENTION.as_secs() {
            let what = format!("key_retention_hours {}: must be at least 24", self.key_retention_hours);
            return Err(("key_retention_hours", what));
        }
        self.archive.check(self.key_retention_hours, &self.data_dir).map_err(at("archive"))
    }

    fn check_replica(&self) -> Result<(), String> {
        let Some(replica) = &self.replica else { return Ok(()) };
        replica.check("replica")?;
        if replica.is_embedded() { Err(self.lone_replica()) } else { Ok(()) }
    }

    fn check_gate(&self) -> Result<(), (&'static str, String)> {
        if let Some(Err(what)) = self.gate.as_ref().map(|gate| GateAddress::parse(gate.expose())) {
            return Err(("gate", format!("gate: {what}")));
        }
        let (timeout, most) = (self.gate_timeout_ms, GATE_TIMEOUT_MS);
        if !(1..=most).contains(&timeout) {
            return Err(("gate_timeout_ms", format!("gate_timeout_ms {timeout}: must be 1 to {most}")));
        }
        let (interval, most) = (self.gate_reconcile_seconds, GATE_RECONCILE_SECONDS);
        if !(1..=most).contains(&interval) {
            return Err((
                "gate_reconcile_seconds",
                format!("gate_reconcile_seconds {interval}: must be 1 to {most}"),
            ));
        }
        Ok(())
    }

    /// The error for a replica without a database. Only `serve` needs it: commands that work on a data directory ignore a replica
    /// in the file.
    pub fn lone_replica(&self) -> String {
        let shown = self.replica.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("replica {shown}: only a database has a replica, and store must name its primary")
    }

    /// Settings that are allowed and are probably a mistake, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let advice = self.rules().map(|rules| crate::advice::of(&rules)).unwrap_or_default();
        self.ignored.iter().cloned().chain(advice).chain(self.open_listeners()).collect()
    }

    /// The sinks for the relay.
    pub fn sink_options(&self) -> Result<Vec<SinkOptions>, String> {
        sinks::options_of(&self.sinks)
    }

    /// Reads the files of TLS of webhooks and of all sinks. An error names the key and the file.
    pub fn check_client_files(&self) -> Result<(), String> {
        self.webhook_options()?.check_files().map_err(|what| format!("webhook_ca_file: {what}"))?;
        let check = |sink: SinkOptions| {
            sink.check_files().map_err(|(member, what)| format!("sinks.{}.{member}: {what}", sink.name))
        };
        self.sink_options()?.into_iter().try_for_each(check)
    }

    /// The names of the sinks that get all events.
    pub fn sinks_from_beginning(&self) -> Result<Vec<String>, String> {
        let sinks = self.sink_options()?.into_iter().filter(|sink| sink.start == SinkStart::Beginning);
        Ok(sinks.map(|sink| sink.name).collect())
    }

    /// The stock masters for the relay.
    pub fn stock_master_options(&self) -> Result<Vec<StockMasterOptions>, String> {
        stock_masters::options_of(&self.stock_masters)
    }

    /// How payments are taken.
    pub fn checkout_options(&self) -> Result<CheckoutOptions, String> {
        self.providers.options(self.checkout)
    }

    /// What buyers are notified with. `None` if they are not.
    pub fn notifier_options(&self) -> Result<Option<NotifierOptions>, String> {
        let options = self.notifications.options()?;
        if options.is_some() && self.customers.encryption_keys.is_empty() {
            return Err("notifications: needs customers.encryption_keys, because addresses are among the data of customers".to_owned());
        }
        let name = SinkOptions::NOTIFICATIONS;
        if options.is_some() && self.sinks.contains_key(name) {
            return Err(format!(
                "sinks.{name}: [notifications] has a sink of this name: give yours another one"
            ));
        }
        Ok(options)
    }

    /// The keys that personal data of customers is encrypted with.
    pub fn keyring(&self) -> Result<Keyring, String> {
        self.customers.keyring().map_err(|what| format!("customers.{what}"))
    }

    /// What webhooks are sent with.
    pub fn webhook_options(&self) -> Result<WebhookOptions, String> {
        let network =
            |text: &String| network(text).map_err(|error| format!("webhook_allowed_networks: {error}"));
        Ok(WebhookOptions {
            allowed_networks: self.webhook_allowed_networks.iter().map(network).collect::<Result<_, _>>()?,
            ca_file: self.webhook_ca_file.clone(),
            keyring: Arc::new(self.keyring()?),
        })
    }

    /// Threads that serve requests.
    pub fn workers(&self) -> usize {
        workers(self.threads)
    }

    /// The options of the embedded store.
    pub fn options(&self) -> Result<Options, String> {
        Ok(Options {
            rules: self.rules().map_err(|(_, what)| what)?,
            key_retention: Duration::from_secs(u64::from(self.key_retention_hours) * 3600),
            min_free_bytes: self.free_space_floor_mib << 20,
            ..Options::default()
        })
    }

    fn rules(&self) -> Result<HoldLimits, (&'static str, String)> {
        let of_location = |key: String, value: Option<u64>, most: u32| {
            value.map(|value| seconds(&key, value, most)).transpose().map_err(|what| ("locations", what))
        };
        let mut locations = Vec::new();
        for (name, times) in &self.locations {
            let label =
                Label::new(name).map_err(|error| ("locations", format!("locations.{name:?}: {error}")))?;
            let key = |member: &str| format!("locations.{name}.{member}");
            let limits = LocationLimits {
                default_ttl: of_location(
                    key("default_ttl_seconds"),
                    times.default_ttl_seconds,
                    TTL_CEILING_SECONDS,
                )?,
                max_hold: of_location(key("max_hold_seconds"), times.max_hold_seconds, TTL_CEILING_SECONDS)?,
                max_payment: of_location(
                    key("max_payment_seconds"),
                    times.max_payment_seconds,
                    PAYMENT_CEILING_SECONDS,
                )?,
            };
            locations.push((label, limits));
        }
        let of_service =
            |key: &'static str, value, most| seconds(key, value, most).map_err(|what| (key, what));
        Ok(HoldLimits {
            default_ttl: of_service("default_ttl_seconds", self.default_ttl_seconds, TTL_CEILING_SECONDS)?,
            max_hold: of_service("max_hold_seconds", self.max_hold_seconds, TTL_CEILING_SECONDS)?,
            max_payment: of_service(
                "max_payment_seconds",
                self.max_payment_seconds,
                PAYMENT_CEILING_SECONDS,
            )?,
            locations,
        })
    }
}

/// A setting in seconds, from 1 to `most`.
fn seconds(key: &str, value: u64, most: u32) -> Result<Seconds, String> {
    match Seconds::new(value) {
        Ok(seconds) if seconds.get() <= most => Ok(seconds),
        Ok(_) => Err(format!("{key} {value}: must be at most {most} seconds")),
        Err(error) => Err(format!("{key} {value}: {error}")),
    }
}

fn workers(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(THREADS),
        threads => threads,
    }
}
