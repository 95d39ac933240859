//! The configuration, what a store is opened with, and the exit codes: what the server and the command-line tools share.
//!
//! It opens no store and starts nothing.

mod access;
mod advice;
mod archive;
mod connection_age;
mod customers;
pub mod exit;
mod flags;
mod grpc_listener;
mod log_level;
mod notifications;
mod profile_listeners;
mod providers;
mod secret;
mod settings;
mod sinks;
mod sources;
pub mod standard_error;
mod stock_masters;
mod store_address;
mod store_options;
mod tables;
mod tls;
mod values;
mod wide_files;

pub use access::{
    AccessSettings, IssuerSettings, PrincipalSettings, Rate, RateLimitSettings, credentials_hint,
};
pub use archive::ArchiveSettings;
pub use connection_age::ConnectionAge;
pub use flags::{DataDir, Flags, Loaded, StorePlace};
pub use log_level::check as check_log_level;
pub use secret::SecretText;
pub use settings::{Config, FILE, LocationTimes, LogFormat};
pub use sinks::SinkSettings;
pub use sources::PREFIX;
pub use store_address::StoreAddress;
pub use store_options::{not_opened, sql_options};
pub use tls::{TlsFiles, TlsPaths};
