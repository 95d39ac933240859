//! The store that is served. The rest of the server only knows a [`Store`]. This module has what differs between
//! stores: how to open one, what its failures mean, and its metrics.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use stockhold_config::{Config, exit, not_opened, sql_options};
use stockhold_embedded::{EmbeddedStore, OpenError, Options};
use stockhold_gate::{GateAddress, GateOptions, GateStore};
use stockhold_store::Store;
use stockhold_store::clock::WallClock;

/// A store over a database.
#[derive(Clone)]
pub(crate) struct SqlStores {
    /// Reads some of what is asked for from the replica, if there is one.
    store: Arc<dyn Store>,
    /// Reads everything from the primary.
    primary: Arc<dyn Store>,
    gate: Option<Arc<GateStore>>,
}

/// The store that is served.
#[derive(Clone)]
pub(crate) enum Backend {
    /// In the data directory.
    Embedded(Arc<EmbeddedStore>),
    /// A database that several servers may share, and the gate in front of it if one is configured.
    Sql(SqlStores),
}

impl Backend {
    /// Opens the store that the configuration names. An error was written to standard error already.
    pub(crate) fn open(config: &Config, options: Options) -> Result<Self, ExitCode> {
        if config.store.is_embedded() && config.replica.is_some() {
            return Err(exit::because(exit::USAGE, config.lone_replica()));
        }
        if config.store.is_embedded() && config.gate.is_some() {
            let why = "gate: a gate stands in front of a database, and store is embedded: the embedded store decides as fast as Redis";
            return Err(exit::because(exit::USAGE, why));
        }
        if config.store.is_embedded() {
            return match EmbeddedStore::open(&config.data_dir, options) {
                Ok(store) => Ok(Self::Embedded(Arc::new(store))),
                Err(error @ OpenError::Io { .. }) => Err(exit::because(exit::FAILED, error)),
                Err(error) => Err(exit::because(exit::DATA, error)),
            };
        }
        let start_progress = options.start_progress;
        let options = sql_options(config).map(|options| stockhold_sql::Options { start_progress, ..options });
        match options.and_then(|options| open_sql(config, &options)) {
            Ok(stores) => Ok(Self::Sql(stores)),
            Err((code, why)) => Err(exit::because(code, why)),
        }
    }

    /// The store as the API knows it.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Sql(stores) => Arc::clone(&stores.store),
        }
    }

    /// The store without a replica, which may be behind.
    pub(crate) fn primary(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Sql(stores) => Arc::clone(&stores.primary),
        }
    }

    /// The embedded store, if it is one.
    pub(crate) fn embedded(&self) -> Option<&Arc<EmbeddedStore>> {
        match self {
            Self::Embedded(store) => Some(store),
            Self::Sql(_) => None,
        }
    }

    /// The gate in front of the store, if there is one.
    pub(crate) fn gate(&self) -> Option<Arc<GateStore>> {
        match self {
            Self::Embedded(_) => None,
            Self::Sql(stores) => stores.gate.clone(),
        }
    }

    /// Why the store refuses all commands, if it does.
    pub(crate) fn fatal_error(&self) -> Option<String> {
        match self {
            Self::Embedded(store) => store.fatal_error(),
            Self::Sql(stores) => stores.store.fatal_error(),
        }
    }

    /// A failure that only a restart ends. A database that can't be reached is reconnected without a restart.
    pub(crate) fn failure(&self) -> Option<String> {
        match self {
            Self::Embedded(store) => store.fatal_error(),
            Self::Sql(..) => None,
        }
    }

    /// Its kind, for metrics.
    pub(crate) fn kind(config: &Config) -> &'static str {
        match config.store.url().split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => "postgresql",
            Some("mysql" | "mariadb") => "mysql",
            _ => "embedded",
        }
    }

    /// A sentence for the log about the durability of answers.
    pub(crate) fn durability(&self) -> &'static str {
        match self {
            Self::Embedded(_) => {
                "everything answered survives a crash and a power cut, not the loss of this disk"
            }
            Self::Sql(..) => "everything answered is committed in the database, and as safe as that is",
        }
    }

    /// Sets the store's gauges.
    #[expect(clippy::cast_precision_loss, reason = "gauges")]
    pub(crate) fn gauge(&self) {
        let Self::Embedded(store) = self else { return };
        metrics::gauge!("stockhold_active_holds").set(store.active_holds() as f64);
        metrics::gauge!("stockhold_queue_depth").set(store.queue_len() as f64);
        metrics::gauge!("stockhold_unindexed_events").set(store.unindexed() as f64);
        metrics::gauge!("stockhold_sweeper_lag_seconds").set(store.sweep_lag().as_secs_f64());
    }
}

/// The gate stands between the primary and the replica: it reads the primary.
fn open_sql(config: &Config, options: &stockhold_sql::Options) -> Result<SqlStores, (u8, String)> {
    let url = config.store.url();
    let not_opened = |error| not_opened(config, &error);
    let primary = stockhold_sql::open_primary(url, options.clone()).map_err(not_opened)?;
    let gate = match gate_options(config, options)? {
        Some(gate) => Some(Arc::new(
            GateStore::start(Arc::clone(&primary), gate)
                .map_err(|error| (exit::FAILED, format!("starting the gate: {error}")))?,
        )),
        None => None,
    };
    let primary = gate.clone().map_or(primary, |gate| gate as Arc<dyn Store>);
    let store = stockhold_sql::with_replica(Arc::clone(&primary), url, options).map_err(not_opened)?;
    Ok(SqlStores { store, primary, gate })
}

fn gate_options(
    config: &Config,
    options: &stockhold_sql::Options,
) -> Result<Option<GateOptions>, (u8, String)> {
    let Some(gate) = &config.gate else { return Ok(None) };
    let address =
        GateAddress::parse(gate.expose()).map_err(|error| (exit::USAGE, format!("gate: {error}")))?;
    Ok(Some(GateOptions {
        address,
        timeout: Duration::from_millis(config.gate_timeout_ms),
        reconcile_interval: Duration::from_secs(config.gate_reconcile_seconds),
        ask_interval: GateOptions::ASK_INTERVAL,
        every_item: false,
        hold_limits: options.rules.clone(),
        clock: Arc::new(WallClock),
    }))
}
