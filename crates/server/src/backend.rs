//! The store that is served. The rest of the server only knows a [`Store`]. This module has what differs between
//! stores: how to open one, what its failures mean, and its metrics.

use std::process::ExitCode;
use std::sync::Arc;
use stockhold_config::{Config, exit, not_opened, sql_options};
use stockhold_embedded::{EmbeddedStore, OpenError, Options};
use stockhold_store::Store;

/// The store that is served.
#[derive(Clone)]
pub(crate) enum Backend {
    /// In the data directory.
    Embedded(Arc<EmbeddedStore>),
    /// A database that several servers may share.
    Sql(Arc<dyn Store>),
}

impl Backend {
    /// Opens the store that the configuration names. An error was written to standard error already.
    pub(crate) fn open(config: &Config, options: Options) -> Result<Self, ExitCode> {
        if config.store.is_embedded() && config.replica.is_some() {
            return Err(exit::because(exit::USAGE, config.lone_replica()));
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
        match options.and_then(|options| open_sql(config, options)) {
            Ok(store) => Ok(Self::Sql(store)),
            Err((code, why)) => Err(exit::because(code, why)),
        }
    }

    /// The store as the API knows it.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Sql(store) => Arc::clone(store),
        }
    }

    /// Why the store refuses all commands, if it does.
    pub(crate) fn fatal_error(&self) -> Option<String> {
        match self {
            Self::Embedded(store) => store.fatal_error(),
            Self::Sql(store) => store.fatal_error(),
        }
    }

    /// A failure that only a restart ends. A database that can't be reached is reconnected without a restart.
    pub(crate) fn failure(&self) -> Option<String> {
        match self {
            Self::Embedded(store) => store.fatal_error(),
            Self::Sql(_) => None,
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
            Self::Sql(_) => "everything answered is committed in the database, and as safe as that is",
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

fn open_sql(config: &Config, options: stockhold_sql::Options) -> Result<Arc<dyn Store>, (u8, String)> {
    stockhold_sql::open(config.store.url(), options).map_err(|error| not_opened(config, &error))
}
