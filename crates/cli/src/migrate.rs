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
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Migrates and reports what it did.
pub(super) fn run(args: &MigrateArgs) -> ExitCode {
    match migrate(args) {
        Ok(MigrationResult { from, to }) if args.json => {
            println!("{:#}", serde_json::json!({ "from": from, "to": to }));
            ExitCode::from(exit::DONE)
        }
        Ok(MigrationResult { from, to }) => {
            match from {
                0 => println!("the schema is created: version {to}"),
                same if same == to => println!("the schema is up to date: version {to}"),
                older => println!("the schema was version {older} and is version {to} now"),
            }
            ExitCode::from(exit::DONE)
        }
        Err((code, why)) => exit::because(code, why),
    }
}

fn migrate(args: &MigrateArgs) -> Result<MigrationResult, (u8, String)> {
    let config = args.place.load().map_err(|error| (exit::USAGE, error))?;
    if config.store.is_embedded() {
        let why = "the embedded store has no schema to migrate: give a database with --store";
        return Err((exit::USAGE, why.to_owned()));
    }
    let options = sql_options(&config)?;
    stockhold_sql::migrate(config.store.url(), options).map_err(|error| not_opened(&config, &error))
}
