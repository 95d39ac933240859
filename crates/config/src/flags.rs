//! The settings as command-line flags: all of them for `serve`, or only those that say where a store is.

use crate::connection_age::ConnectionAge;
use crate::secret::SecretText;
use crate::settings::{Config, FILE, LogFormat};
use crate::sources::{Sources, address};
use crate::store_address::EMBEDDED;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

const STORE_HELP: &str = "\
    Where the data is: embedded (in the data directory), or a database that several servers share: \
    postgres://USER:PASSWORD@HOST/DATABASE or mysql://USER:PASSWORD@HOST/DATABASE. Put a password into STOCKHOLD_STORE or into the \
    configuration file: all users of a machine can see command lines [default: embedded]";

const REPLICA_HELP: &str = "\
    Address of a read replica of the database. Availability and items are read from it while it is at most 100 ms behind, \
    and from the primary otherwise [default: none]";

const GATE_HELP: &str = "\
    Address of a Redis server in front of the database, which refuses reserves of items with the setting `gated` while they are sold out: \
    redis://HOST:PORT/DB, redis+sentinel://HOST:PORT,HOST:PORT/SERVICE or redis+cluster://HOST:PORT,HOST:PORT, each with rediss for \
    TLS. Put a password into STOCKHOLD_GATE or into the configuration file [default: none]";

/// The settings as flags.
#[derive(Args, Clone, Debug, Default)]
pub struct Flags {
    /// Configuration file to read instead of ./stockhold.toml
    #[arg(long, value_name = "FILE", env = "STOCKHOLD_CONFIG")]
    config: Option<PathBuf>,
    /// Address of the API [default: 127.0.0.1:8101]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Address of /livez, /readyz and /metrics; any address, 0.0.0.0 too [default: 127.0.0.1:8102]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    admin_listen: Option<SocketAddr>,
    /// Address of a listener that serves gRPC alone, without TLS unless the API has it [default: none]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    grpc_listen: Option<SocketAddr>,
    /// Whether gRPC answers reflection, by which tools learn its services: true or false [default: true]
    #[arg(long, value_name = "BOOL")]
    grpc_reflection: Option<bool>,
    /// Age at which a client of HTTP/2 or gRPC is asked to connect again, like 90s, 10m or 1h. Each connection gets up to half as long
    /// again [default: 10m]
    #[arg(long, value_name = "TIME")]
    max_connection_age: Option<ConnectionAge>,
    /// Address of a listener that serves the hub's profile alone, at its root. Its clients act as the principal of
    /// `[hub_principal]` in the configuration file [default: none]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    hub_listen: Option<SocketAddr>,
    /// Address of a listener that serves the storefront's profile alone, at its root. Its clients act as the principal of
    /// `[storefront_principal]` in the configuration file [default: none]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    storefront_listen: Option<SocketAddr>,
    /// The server's certificate and those that lead to its root, as a PEM file. With it the API speaks HTTPS only [default:
    /// none]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, as a PEM file without a passphrase [default: none]
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Ask clients for a certificate that one of the certificates of this PEM file has issued, and refuse others [default: none]
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Allow the API to be served without TLS on an address that other machines reach [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    plain_http: Option<bool>,
    #[arg(long, value_name = "URL", help = STORE_HELP)]
    store: Option<String>,
    #[arg(long, value_name = "URL", help = REPLICA_HELP)]
    replica: Option<String>,
    #[arg(long, value_name = "URL", help = GATE_HELP)]
    gate: Option<String>,
    /// Longest wait for an answer of the gate's Redis, 1 to 10000. Requests that get none are decided by the store [default: 20]
    #[arg(long, value_name = "MS")]
    gate_timeout_ms: Option<u64>,
    /// How often the gate's counters are compared with the store, 1 to 86400 [default: 60]
    #[arg(long, value_name = "SECONDS")]
    gate_reconcile_seconds: Option<u64>,
    /// Most commands in one database transaction, 1 to 256. A smaller number holds locks for a shorter time and lowers the
    /// throughput [default: 256]
    #[arg(long, value_name = "N")]
    store_batch: Option<usize>,
    /// Directory of the embedded store. It is created if it does not exist [default: ./stockhold-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Threads that serve requests [default: one per processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Time to live of a hold whose request names none [default: 600]
    #[arg(long, value_name = "SECONDS")]
    default_ttl_seconds: Option<u64>,
    /// Longest life of a hold, including extensions [default: 1800]
    #[arg(long, value_name = "SECONDS")]
    max_hold_seconds: Option<u64>,
    /// How long payment windows may keep a hold, from the first one [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    max_payment_seconds: Option<u64>,
    /// How long idempotency keys are kept, at least 24 hours [default: 24]
    #[arg(long, value_name = "HOURS")]
    key_retention_hours: Option<u32>,
    /// Refuse new reservations while the disk has less free space than this [default: 256]
    #[arg(long, value_name = "MIB")]
    free_space_floor_mib: Option<u64>,
    /// File with the root key, which has every scope. It can also be given as `STOCKHOLD_ROOT_KEY` [default: none]
    #[arg(long, value_name = "FILE")]
    root_key_file: Option<PathBuf>,
    /// trace, debug, info, warn, error, or a list of target=level [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Format of log lines: text for people, json for programs [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

/// A configuration, and where each value came from.
pub struct Loaded {
    /// The values in force.
    pub config: Config,
    sources: Sources,
}

impl Flags {
    /// Reads all sources and checks the result. An error has a line for each wrong setting.
    pub fn load(&self) -> Result<Loaded, String> {
        let (mut config, mut sources) = (Config::default(), Sources::default());
        match &self.config {
            Some(file) if !file.exists() => return Err(format!("{}: there is no such file", file.display())),
            Some(file) => sources.read_file(&mut config, file),
            None if PathBuf::from(FILE).exists() => sources.read_file(&mut config, FILE.as_ref()),
            None => {}
        }
        sources.read_variables(&mut config);
        self.apply(&mut config, &mut sources);
        if let (true, Err((key, what))) = (sources.errors.is_empty(), config.check()) {
            let origin = sources.origins.get(key).map(|origin| format!("{origin}: ")).unwrap_or_default();
            sources.errors.push(format!("{origin}{what}"));
        }
        if !sources.errors.is_empty() {
            return Err(sources.errors.join("\n"));
        }
        config.ignored.clone_from(&sources.warnings);
        Ok(Loaded { config, sources })
    }

    fn apply(&self, config: &mut Config, sources: &mut Sources) {
        let Self { config: _, listen, admin_listen, store, replica, store_batch, data_dir, threads, .. } =
            self;
        let Self { default_ttl_seconds, max_hold_seconds, key_retention_hours, free_space_floor_mib, .. } =
            self;
        let mut named = |key: &'static str, is_given: bool| {
            if is_given {
                let origin = format!("--{} on the command line", key.replace('_', "-"));
                sources.origins.insert(key, origin);
            }
        };
        named("listen", listen.is_some());
        named("admin_listen", admin_listen.is_some());
        named("grpc_listen", self.grpc_listen.is_some());
        named("grpc_reflection", self.grpc_reflection.is_some());
        named("max_connection_age", self.max_connection_age.is_some());
        named("hub_listen", self.hub_listen.is_some());
        named("storefront_listen", self.storefront_listen.is_some());
        named("tls_cert", self.tls_cert.is_some());
        named("tls_key", self.tls_key.is_some());
        named("tls_client_ca", self.tls_client_ca.is_some());
        named("plain_http", self.plain_http.is_some());
        named("store", store.is_some());
        named("replica", replica.is_some());
        named("gate", self.gate.is_some());
        named("gate_timeout_ms", self.gate_timeout_ms.is_some());
        named("gate_reconcile_seconds", self.gate_reconcile_seconds.is_some());
        named("store_batch", store_batch.is_some());
        named("data_dir", data_dir.is_some());
        named("threads", threads.is_some());
        named("default_ttl_seconds", default_ttl_seconds.is_some());
        named("max_hold_seconds", max_hold_seconds.is_some());
        named("max_payment_seconds", self.max_payment_seconds.is_some());
        named("key_retention_hours", key_retention_hours.is_some());
        named("free_space_floor_mib", free_space_floor_mib.is_some());
        named("root_key_file", self.root_key_file.is_some());
        named("log_level", self.log_level.is_some());
        named("log_format", self.log_format.is_some());
        override_with(&mut config.listen, *listen);
        override_with(&mut config.admin_listen, *admin_listen);
        override_with(&mut config.grpc_listen, self.grpc_listen.map(Some));
        override_with(&mut config.grpc_reflection, self.grpc_reflection);
        override_with(&mut config.max_connection_age, self.max_connection_age);
        override_with(&mut config.hub_listen, self.hub_listen.map(Some));
        override_with(&mut config.storefront_listen, self.storefront_listen.map(Some));
        override_with(&mut config.tls_cert, self.tls_cert.clone().map(Some));
        override_with(&mut config.tls_key, self.tls_key.clone().map(Some));
        override_with(&mut config.tls_client_ca, self.tls_client_ca.clone().map(Some));
        override_with(&mut config.plain_http, self.plain_http);
        override_with(&mut config.store, store.clone().map(Into::into));
        override_with(&mut config.replica, replica.clone().map(|replica| Some(replica.into())));
        override_with(&mut config.gate, self.gate.clone().map(|gate| Some(SecretText::new(gate))));
        override_with(&mut config.gate_timeout_ms, self.gate_timeout_ms);
        override_with(&mut config.gate_reconcile_seconds, self.gate_reconcile_seconds);
        override_with(&mut config.store_batch, *store_batch);
        override_with(&mut config.data_dir, data_dir.clone());
        override_with(&mut config.threads, *threads);
        override_with(&mut config.default_ttl_seconds, *default_ttl_seconds);
        override_with(&mut config.max_hold_seconds, *max_hold_seconds);
        override_with(&mut config.max_payment_seconds, self.max_payment_seconds);
        override_with(&mut config.key_retention_hours, *key_retention_hours);
        override_with(&mut config.free_space_floor_mib, *free_space_floor_mib);
        override_with(&mut config.access.root_key_file, self.root_key_file.clone().map(Some));
        override_with(&mut config.log_level, self.log_level.clone());
        override_with(&mut config.log_format, self.log_format);
    }
}

fn override_with<T>(value: &mut T, flag: Option<T>) {
    if let Some(flag) = flag {
        *value = flag;
    }
}

impl Loaded {
    /// Every key, its value and its source, in the order of [`Config`].
    pub fn entries(&self) -> Vec<(String, serde_json::Value, String)> {
        let Ok(serde_json::Value::Object(values)) = serde_json::to_value(&self.config) else {
            return Vec::new();
        };
        values
            .into_iter()
            .map(|(key, value)| {
                let origin = self.sources.origins.get(key.as_str()).cloned();
                (key, value, origin.unwrap_or_else(|| "default".to_owned()))
            })
            .collect()
    }
}

/// Where a command that works on a data directory, and on no database, finds it.
#[derive(Args, Clone, Debug, Default)]
pub struct DataDir {
    /// Configuration file to read instead of ./stockhold.toml
    #[arg(long, value_name = "FILE", env = "STOCKHOLD_CONFIG")]
    config: Option<PathBuf>,
    /// Directory of the store [default: `data_dir` of the configuration, else ./stockhold-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl DataDir {
    /// The directory that is named, or that `serve` would use with the same variables and file. It is an error if `serve` would use
    /// a database: a directory in the default place is then not the data that is served.
    pub fn find(&self) -> Result<PathBuf, String> {
        let Self { config, data_dir } = self.clone();
        let named = data_dir.is_some();
        let Config { store, data_dir, .. } = Flags { config, data_dir, ..Flags::default() }.load()?.config;
        if named || store.is_embedded() {
            return Ok(data_dir);
        }
        Err(format!(
            "the store is {store}, and this command works on a data directory: use the database's own tools, or name a directory \
             with --data-dir"
        ))
    }
}

/// Where a command that works on a data directory or on a database finds it.
#[derive(Args, Clone, Debug, Default)]
pub struct StorePlace {
    /// Configuration file to read instead of ./stockhold.toml
    #[arg(long, value_name = "FILE", env = "STOCKHOLD_CONFIG")]
    config: Option<PathBuf>,
    #[arg(long, value_name = "URL", help = STORE_HELP)]
    store: Option<String>,
    /// Directory of the embedded store [default: `data_dir` of the configuration, else ./stockhold-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl StorePlace {
    /// The configuration that `serve` would have with the same flags, variables and file. A data directory on the command line
    /// overrides a database of the file or of the environment.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The first server of a machine is started with this file unchanged, and without a database.
    #[test]
    fn the_variables_that_are_shipped_set_nothing() {
        let shipped = include_str!("../../../deploy/stockhold.env");
        assert!(shipped.lines().all(|line| line.starts_with('#')), "{shipped}");
    }

    fn load(bytes: &[u8]) -> (String, Result<Config, String>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let flags = Flags { config: Some(file.path().to_owned()), ..Flags::default() };
        (file.path().display().to_string(), flags.load().map(|loaded| loaded.config))
    }

    /// Any bytes: a configuration that can be run, or a text that says what is wrong.
    #[test]
    fn files_that_are_nearly_right() {
        fn parse(bytes: &[u8]) {
            match load(bytes).1 {
                Err(why) => assert!(!why.is_empty()),
                Ok(config) => drop(config.options()),
            }
        }
        let good = "listen = \"127.0.0.1:8101\"\ndata_dir = \"2026\"\nthreads = 2\ndefault_ttl_seconds = 600\n\
            key_retention_hours = 48\nlog_format = \"json\"\n[locations.hub]\nmax_hold_seconds = 30\n";
        stockhold_conformance::mutate::mutate(("stockhold.toml", parse), &[good.as_bytes().to_vec()], 2_000);
    }

    #[test]
    fn every_error_of_a_file_has_its_line() {
        for (text, line, what) in [
            ("threads = 2\nliste = 1\n", 2, "liste is not a setting; did you mean listen?"),
            (
                "\n\nthreads = 'two'\n",
                3,
                "threads: must be a whole number without quotation marks, found \"two\"",
            ),
            ("threads = -1\n", 1, "threads: must be a whole number, 0 or more, found -1"),
            ("listen = 8101\n", 1, "listen: must be a text in quotation marks, found 8101"),
            ("listen = '8101'\n", 1, "listen: must be an IP address and a port like 127.0.0.1:8101"),
            ("log_format = 'xml'\n", 1, "log_format: must be text or json, found \"xml\""),
            ("threads = 2\nthreads = 65\n", 2, "duplicate key"),
            ("threads = 65\n", 1, "threads 65: must be at most 64"),
            ("[locations.hub]\nttl = 1\n", 2, "locations.hub: ttl is not a setting"),
            (
                "[locations.hub]\nmax_hold_seconds = 'x'\n",
                2,
                "locations.hub.max_hold_seconds: must be a whole",
            ),
            ("plain_http = 'yes'\n", 1, "plain_http: must be true or false, found \"yes\""),
            ("plain_http = 1\n", 1, "plain_http: must be true or false, found 1"),
            (
                "tls_cert = 'a.pem'\n",
                1,
                "tls_cert a.pem: a certificate needs its private key: set tls_key too",
            ),
            (
                "tls_key = 'a.key'\n",
                1,
                "tls_key a.key: a private key needs its certificate: set tls_cert too",
            ),
            (
                "\ntls_client_ca = 'ca.pem'\n",
                2,
                "tls_client_ca ca.pem: client certificates need TLS: set tls_cert and tls_key too",
            ),
            ("locations = 1\n", 1, "locations: must be tables"),
        ] {
            let (path, found) = load(text.as_bytes());
            let why = found.map(|_| ()).unwrap_err();
            assert!(why.starts_with(&format!("{path}:{line}: {what}")), "{text:?}: {why}");
        }
        let (_, found) = load(b"liste = 1\nthread = 2\n");
        assert_eq!(found.map(|_| ()).unwrap_err().lines().count(), 2, "each wrong key is named");
    }
}
