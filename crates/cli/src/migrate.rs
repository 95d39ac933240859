//! `stockhold migrate`: brings a database's schema up to date, for servers whose user may not create tables.

use clap::Args;
use std::process::ExitCode;
use stockhold_config::StorePlace;
use stockhold_config::exit;
use stockhold_config::{not_opened, sql_options};
use stockhold_sql::MigrationResult;

#[derive(Args)]
pub(super) struct MigrateArgs {
    #[command(flatten)]
    place: StorePlace,
    /// Spread the tables over the workers of a Citus cluster, if they are not spread yet
    #[arg(long)]
    distribute: bool,
    /// Number of shards; about four for each worker
    #[arg(long, value_name = "N", requires = "distribute", default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(stockhold_domain::BUCKETS)))]
    shards: u32,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Migrates and reports what it did.
pub(super) fn run(args: &MigrateArgs) -> ExitCode {
    match migrate(args) {
        Ok((MigrationResult { from, to }, distributed)) if args.json => {
            let mut said = serde_json::json!({ "from": from, "to": to });
            if let (Some(distributed), Some(said)) = (distributed, said.as_object_mut()) {
                said.insert("distributed".to_owned(), distributed.into());
            }
            println!("{said:#}");
            ExitCode::from(exit::DONE)
        }
        Ok((MigrationResult { from, to }, distributed)) => {
            match from {
                0 => println!("the schema is created: version {to}"),
                same if same == to => println!("the schema is up to date: version {to}"),
                older => println!("the schema was version {older} and is version {to} now"),
            }
            match distributed {
                Some(true) => println!("the tables are spread over the workers: {} shards", args.shards),
                Some(false) => println!("the tables were spread over the workers before: nothing is changed"),
                None => {}
            }
            ExitCode::from(exit::DONE)
        }
        Err((code, why)) => exit::because(code, why),
    }
}

/// What it did, and whether it spread the tables, if it was to.
fn migrate(args: &MigrateArgs) -> Result<(MigrationResult, Option<bool>), (u8, String)> {
    let config = args.place.load().map_err(|error| (exit::USAGE, error))?;
    if config.store.is_embedded() {
        let why = "the embedded store has no schema to migrate: give a database with --store";
        return Err((exit::USAGE, why.to_owned()));
    }
    let options = sql_options(&config)?;
    let failed = |error: stockhold_sql::OpenError| not_opened(&config, &error);
    if args.distribute {
        let done = stockhold_sql::distribute(config.store.url(), options, args.shards).map_err(failed)?;
        return Ok((done.migration, Some(done.is_new)));
    }
    Ok((stockhold_sql::migrate(config.store.url(), options).map_err(failed)?, None))
}
