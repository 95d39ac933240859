//! The configuration, what a store is opened with, and the exit codes: what the server and the command-line tools share.
//!
//! It opens no store and starts nothing.

pub mod advice;
pub mod exit;
mod log_level;
mod settings;
mod store_address;
mod store_options;

pub use log_level::check as check_log_level;
pub use settings::{Config, DataDir, FILE, Flags, Loaded, LogFormat, PREFIX, StorePlace};
pub use store_address::StoreAddress;
pub use store_options::{not_opened, sql_options};
