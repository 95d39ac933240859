//! The configuration: flags before `STOCKHOLD_*` variables before `stockhold.toml` before defaults. Unknown keys are
//! errors. `stockhold config` prints what is in force and where it came from.

use crate::store_address::{EMBEDDED, StoreAddress};
use clap::{Args, ValueEnum};
use figment::providers::{Env, Format, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use stockhold_domain::{HoldLimits, Label, Seconds, limits};
use stockhold_embedded::Options;

/// The file that is read when it is there and no other is named.
pub const FILE: &str = "stockhold.toml";
/// Beginning of the variables that set a key.
pub const PREFIX: &str = "STOCKHOLD_";
/// Largest floor of free space: no disk is larger.
const FREE_SPACE_FLOOR_MIB: u64 = 1 << 40;
/// Most worker threads.
const THREADS: usize = 64;

/// Every key, with its value in force.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Address of the API.
    pub listen: SocketAddr,
    /// Address of health and metrics.
    pub admin_listen: SocketAddr,
    /// `embedded`, or the address of a database.
    pub store: StoreAddress,
    /// Address of a read replica of the database.
    pub replica: Option<StoreAddress>,
    /// Most commands in one transaction of a database.
    pub store_batch: usize,
    /// Directory of the embedded store.
    pub data_dir: PathBuf,
    /// Threads that serve requests; 0 for one per core.
    pub threads: usize,
    /// Time to live of a hold that names none.
    pub default_ttl_seconds: u64,
    /// Longest hold, extensions included.
    pub max_hold_seconds: u64,
    /// Hours that idempotency keys are kept, at least 24.
    pub key_retention_hours: u32,
    /// Free space on the data directory's disk below which no new reservations are taken.
    pub free_space_floor_mib: u64,
    /// `trace`, `debug`, `info`, `warn`, `error`, or a list of `target=level`.
    pub log_level: String,
    /// `text` or `json`.
    pub log_format: LogFormat,
    /// Locations whose holds last differently.
    pub locations: BTreeMap<String, LocationTimes>,
}

const STORE_HELP: &str = "\
    Where the data is: embedded for the data directory, or postgres://USER:PASSWORD@HOST/DATABASE or \
    mysql://... for a database that several servers may share. A password stands better in STOCKHOLD_STORE or the \
    configuration file, where other users of the machine don't see it [default: embedded]";

const REPLICA_HELP: &str = "\
    A read replica of the store's database, whose address looks like the store's: availability and items are read there \
    while it is at most 100 ms behind, and of the store otherwise [default: none]";

/// See [`Config::locations`].
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LocationTimes {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default_ttl_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_hold_seconds: Option<u64>,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: ([127, 0, 0, 1], 8101).into(),
            admin_listen: ([127, 0, 0, 1], 8102).into(),
            store: StoreAddress::embedded(),
            replica: None,
            store_batch: stockhold_sql::Options::BATCH,
            data_dir: "./stockhold-data".into(),
            threads: 0,
            default_ttl_seconds: limits::DEFAULT_TTL_SECONDS.into(),
            max_hold_seconds: limits::DEFAULT_MAX_HOLD_SECONDS.into(),
            key_retention_hours: 24,
            free_space_floor_mib: Options::MIN_FREE_BYTES >> 20,
            log_level: "info".to_owned(),
            log_format: LogFormat::Text,
            locations: BTreeMap::new(),
        }
    }
}

/// The keys as flags.
#[derive(Args, Clone, Debug, Default, Serialize)]
pub struct Flags {
    /// Read this configuration file instead of ./stockhold.toml
    #[arg(long, value_name = "FILE", env = "STOCKHOLD_CONFIG")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// Address of the API [default: 127.0.0.1:8101]
    #[arg(long, value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<SocketAddr>,
    /// Address of /livez, /readyz and /metrics; any address, 0.0.0.0 too [default: 127.0.0.1:8102]
    #[arg(long, value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    admin_listen: Option<SocketAddr>,
    #[arg(long, value_name = "URL", help = STORE_HELP)]
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    #[arg(long, value_name = "URL", help = REPLICA_HELP)]
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<String>,
    /// Most commands in one transaction of a database, 1 to 256: fewer hold locks for less long, and do less [default: 256]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    store_batch: Option<usize>,
    /// Directory of the embedded store; made if it is not there [default: ./stockhold-data]
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    data_dir: Option<PathBuf>,
    /// Threads that serve requests [default: one per core]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<usize>,
    /// Time to live of a hold that names none [default: 600]
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    default_ttl_seconds: Option<u64>,
    /// Longest hold, extensions included [default: 1800]
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_hold_seconds: Option<u64>,
    /// Hours that idempotency keys are kept, 24 or more [default: 24]
    #[arg(long, value_name = "HOURS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    key_retention_hours: Option<u32>,
    /// Take no new reservations when less than this is free on the disk [default: 256]
    #[arg(long, value_name = "MIB")]
    #[serde(skip_serializing_if = "Option::is_none")]
    free_space_floor_mib: Option<u64>,
    /// trace, debug, info, warn, error, or a list of target=level [default: info]
    #[arg(long, value_name = "LEVEL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    log_level: Option<String>,
    /// Log lines for people or as JSON [default: text]
    #[arg(long, value_name = "FORMAT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    log_format: Option<LogFormat>,
}

/// Name of the variables among figment's sources.
const VARIABLES: &str = "environment";
/// Name of the defaults among the sources.
const DEFAULTS: &str = "default";
/// Variables that begin like ours and set no key: they name the file, the server that tools speak to and where a copy goes.
const OTHER_VARIABLES: [&str; 3] = ["config", "server", "copy_to"];

/// Where a command that works on a data directory, and on no database, finds it.
#[derive(Args, Clone, Debug, Default)]
pub struct DataDir {
    /// Read this configuration file instead of ./stockhold.toml
    #[arg(long, value_name = "FILE", env = "STOCKHOLD_CONFIG")]
    config: Option<PathBuf>,
    /// Directory of the store [default: `data_dir` of the configuration, else ./stockhold-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl DataDir {
    /// The directory that is named, or that `serve` would use with the same variables and file. Where it would use a database,
    /// a directory that lies there too is not what is meant.
    pub fn find(&self) -> Result<PathBuf, String> {
        let Self { config, data_dir } = self.clone();
        let named = data_dir.is_some();
        let Config { store, data_dir, .. } = Flags { config, data_dir, ..Flags::default() }.load()?.config;
        if named || store.is_embedded() {
            return Ok(data_dir);
        }
        Err(format!(
            "the store is {store}, and this works on a data directory: use the database's own tools, or name a directory with \
             --data-dir"
        ))
    }
}

/// Where a command that works on a store finds it, be it a data directory or a database.
#[derive(Args, Clone, Debug, Default)]
pub struct StorePlace {
    /// Read this configuration file instead of ./stockhold.toml
    #[arg(long, value_name = "FILE", env = "STOCKHOLD_CONFIG")]
    config: Option<PathBuf>,
    #[arg(long, value_name = "URL", help = STORE_HELP)]
    store: Option<String>,
    /// Directory of the embedded store [default: `data_dir` of the configuration, else ./stockhold-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl StorePlace {
    /// The configuration that `serve` would have with the same flags, variables and file. A data directory that is named is
    /// meant, whatever else the store is elsewhere.
    pub fn load(&self) -> Result<Config, String> {
        let Self { config, store, data_dir } = self.clone();
        let named = data_dir.is_some().then(|| EMBEDDED.to_owned());
        let flags = Flags { config, store: store.or(named), data_dir, ..Flags::default() };
        Ok(flags.load()?.config)
    }

    /// The same with another store.
    pub fn load_for(&self, store: &str) -> Result<Config, String> {
        Self { store: Some(store.to_owned()), data_dir: None, ..self.clone() }.load()
    }
}

/// A configuration and where each value came from.
pub struct Loaded {
    /// The values in force.
    pub config: Config,
    figment: Figment,
}

impl Flags {
    /// Puts all sources together and checks what comes of it.
    pub fn load(&self) -> Result<Loaded, String> {
        let file = match &self.config {
            Some(file) if !file.exists() => return Err(format!("{}: there is no such file", file.display())),
            Some(file) => file.clone(),
            None => FILE.into(),
        };
        let file = if file.exists() { Toml::file_exact(file) } else { Toml::string("") };
        let figment = Figment::from(figment::providers::Serialized::defaults(Config::default()))
            .merge(file)
            .merge(Variables)
            .merge(Serialized::from(self, Profile::Default));
        let config: Config = figment.extract().map_err(|error| explain(&error))?;
        config.check()?;
        Ok(Loaded { config, figment })
    }
}

/// The `STOCKHOLD_*` variables. Those that hold text are taken as they are: a directory may be called `2026`.
struct Variables;

/// Keys whose values are text, whatever they look like.
const TEXTS: [&str; 7] =
    ["listen", "admin_listen", "store", "replica", "data_dir", "log_level", "log_format"];

impl Provider for Variables {
    fn metadata(&self) -> Metadata {
        Metadata::named(VARIABLES)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let read = |key: &str, text: String| {
            if TEXTS.contains(&key) {
                return Value::from(text);
            }
            text.parse().unwrap_or_else(|never: Infallible| match never {})
        };
        let variables = Env::prefixed(PREFIX).ignore(&OTHER_VARIABLES);
        let values = variables.iter().map(|(key, text)| (key.to_string(), read(key.as_str(), text)));
        Ok(Profile::Default.collect(values.collect()))
    }
}

/// All that is wrong, a line each.
fn explain(error: &figment::Error) -> String {
    let lines = error.clone().into_iter().map(|error| {
        let key = error.path.join(".");
        // A key that is not known has no path: it is named in the message.
        let known = error.path.first().map_or("*", String::as_str);
        let source = error.metadata.as_ref().map(|metadata| source_name(metadata, known)).unwrap_or_default();
        match (key.is_empty(), source.is_empty()) {
            (false, false) => format!("{key} ({source}): {}", error.kind),
            (false, true) => format!("{key}: {}", error.kind),
            (true, false) => format!("{source}: {}", error.kind),
            (true, true) => error.kind.to_string(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Where a key's value came from, for people.
fn source_name(metadata: &Metadata, key: &str) -> String {
    if metadata.name.contains("Config") {
        DEFAULTS.to_owned()
    } else if metadata.name.contains("Flags") {
        format!("--{} on the command line", key.replace('_', "-"))
    } else if metadata.name == VARIABLES {
        format!("{PREFIX}{} in the environment", key.to_uppercase())
    } else {
        metadata.source.as_ref().map_or_else(|| metadata.name.to_string(), ToString::to_string)
    }
}

impl Loaded {
    /// Every key, its value and its source.
    pub fn entries(&self) -> Vec<(String, serde_json::Value, String)> {
        let Ok(serde_json::Value::Object(values)) = serde_json::to_value(&self.config) else {
            return Vec::new();
        };
        let source = |key: &str| {
            let found = self.figment.find_metadata(key);
            found.map_or_else(|| DEFAULTS.to_owned(), |metadata| source_name(metadata, key))
        };
        values
            .into_iter()
            .map(|(key, value)| {
                let from = source(&key);
                (key, value, from)
            })
            .collect()
    }
}

impl Config {
    fn check(&self) -> Result<(), String> {
        self.rules()?;
        self.store.check("store")?;
        self.check_replica()?;
        crate::log_level::check(&self.log_level)?;
        if self.listen == self.admin_listen && self.listen.port() != 0 {
            return Err(format!("listen and admin_listen are both {}: give each its own port", self.listen));
        }
        // The admin listener shows only health and metrics, so it may have any address.
        if !self.listen.ip().is_loopback() {
            return Err(format!(
                "listen {}: without credentials the API listens on loopback only, because everybody who reaches it may do \
                 anything; use 127.0.0.1, and a proxy that authenticates callers",
                self.listen
            ));
        }
        if self.threads > THREADS {
            return Err(format!("threads {}: must be at most {THREADS}", self.threads));
        }
        let most = stockhold_sql::Options::BATCH;
        if !(1..=most).contains(&self.store_batch) {
            return Err(format!("store_batch {}: must be 1 to {most}", self.store_batch));
        }
        if self.free_space_floor_mib > FREE_SPACE_FLOOR_MIB {
            let (floor, most) = (self.free_space_floor_mib, FREE_SPACE_FLOOR_MIB);
            return Err(format!("free_space_floor_mib {floor}: must be at most {most}"));
        }
        if u64::from(self.key_retention_hours) * 3600 < Options::KEY_RETENTION.as_secs() {
            return Err(format!("key_retention_hours {}: must be at least 24", self.key_retention_hours));
        }
        Ok(())
    }

    fn check_replica(&self) -> Result<(), String> {
        let Some(replica) = &self.replica else { return Ok(()) };
        replica.check("replica")?;
        if replica.is_embedded() { Err(self.lone_replica()) } else { Ok(()) }
    }

    /// What is said of a replica of no database. Commands that work on a data directory do not mind one in the file.
    pub fn lone_replica(&self) -> String {
        let shown = self.replica.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("replica {shown}: only a database has one; store names its primary")
    }

    /// Threads that serve requests.
    pub fn workers(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(THREADS),
            threads => threads,
        }
    }

    /// What the store runs with.
    pub fn options(&self) -> Result<Options, String> {
        Ok(Options {
            rules: self.rules()?,
            key_retention: Duration::from_secs(u64::from(self.key_retention_hours) * 3600),
            min_free_bytes: self.free_space_floor_mib << 20,
            ..Options::default()
        })
    }

    fn rules(&self) -> Result<HoldLimits, String> {
        let seconds =
            |key: &str, value: u64| Seconds::new(value).map_err(|error| format!("{key} {value}: {error}"));
        let optional = |key: String, value: Option<u64>| value.map(|value| seconds(&key, value)).transpose();
        let mut locations = Vec::new();
        for (name, times) in &self.locations {
            let label = Label::new(name).map_err(|error| format!("locations.{name:?}: {error}"))?;
            let default =
                optional(format!("locations.{name}.default_ttl_seconds"), times.default_ttl_seconds)?;
            let max = optional(format!("locations.{name}.max_hold_seconds"), times.max_hold_seconds)?;
            locations.push((label, default, max));
        }
        Ok(HoldLimits {
            default_ttl: seconds("default_ttl_seconds", self.default_ttl_seconds)?,
            max_hold: seconds("max_hold_seconds", self.max_hold_seconds)?,
            locations,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first server on one machine is started with it as it comes, and no database.
    #[test]
    fn the_variables_that_are_shipped_set_nothing() {
        let shipped = include_str!("../../../deploy/stockhold.env");
        assert!(shipped.lines().all(|line| line.starts_with('#')), "{shipped}");
    }

    /// Any bytes: a configuration that can be run, or words that say what is wrong.
    #[test]
    fn files_that_are_nearly_right() {
        fn parse(bytes: &[u8]) {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            match (Flags { config: Some(file.path().to_owned()), ..Flags::default() }).load() {
                Err(why) => assert!(!why.is_empty()),
                Ok(loaded) => drop(loaded.config.options()),
            }
        }
        let good = "listen = \"127.0.0.1:8101\"\ndata_dir = \"2026\"\nthreads = 2\ndefault_ttl_seconds = 600\n\
            key_retention_hours = 48\nlog_format = \"json\"\n[locations.hub]\nmax_hold_seconds = 30\n";
        stockhold_store::mutate::mutate(("stockhold.toml", parse), &[good.as_bytes().to_vec()], 2_000);
    }
}
