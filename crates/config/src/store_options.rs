//! What a database is opened with, and which exit code a failure to open it has.

use crate::exit;
use crate::settings::Config;

/// The options to open the configured database with.
pub fn sql_options(config: &Config) -> Result<stockhold_sql::Options, (u8, String)> {
    let options = config.options().map_err(|error| (exit::USAGE, error))?;
    Ok(stockhold_sql::Options {
        rules: options.rules,
        batch: config.store_batch,
        key_retention: options.key_retention,
        replica: config.replica.as_ref().map(|replica| stockhold_sql::Replica {
            url: replica.url().to_owned(),
            staleness: stockhold_sql::Replica::STALENESS,
        }),
        ..stockhold_sql::Options::default()
    })
}

/// The exit code and the error text of a database that could not be opened. The text shows the address without its password.
pub fn not_opened(config: &Config, error: &stockhold_sql::OpenError) -> (u8, String) {
    use stockhold_sql::OpenError as Why;
    match error {
        Why::Address(_) | Why::Option(_) => (exit::USAGE, format!("store: {error}")),
        Why::NewerSchema { .. } | Why::OlderSchema { .. } | Why::Unfinished => {
            (exit::DATA, format!("{}: {error}", config.store))
        }
        _ => (exit::FAILED, format!("{}: {error}", config.store)),
    }
}
