//! `stockhold ctl gate`: the Redis server in front of the store.

use super::{ApiRequest, show};
use crate::client::push_query;
use crate::table::Column;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(super) enum GateCommand {
    /// Show the gate: whether Redis is used, what was refused, and the units that it admits of each item
    Show,
    /// Write counters anew from what the store has committed, for example before a sale
    ///
    ///   stockhold ctl gate reload
    ///   stockhold ctl gate reload --sku tee-s
    #[command(verbatim_doc_comment)]
    Reload(ReloadGateArgs),
}

#[derive(Args)]
pub(super) struct ReloadGateArgs {
    /// Only this SKU, at --location or at `default`
    #[arg(long)]
    sku: Option<String>,
    /// Only items at this location
    #[arg(long)]
    location: Option<String>,
}

impl GateCommand {
    pub(super) fn request(&self) -> ApiRequest {
        match self {
            Self::Show => ApiRequest::get("/v1/gate".to_owned(), gate),
            Self::Reload(reload) => {
                let mut path = "/v1/gate/reload".to_owned();
                for (name, value) in [("sku", &reload.sku), ("location", &reload.location)] {
                    if let Some(value) = value {
                        push_query(&mut path, name, value);
                    }
                }
                let shown = |value: &Value| show::fields(value, &RELOAD);
                ApiRequest { body: None, ..ApiRequest::post(path, json!({}), shown) }
            }
        }
    }
}

const RELOAD: [(&str, &str); 2] = [("reloaded", "reloaded"), ("corrected", "corrected")];

const GATE: [(&str, &str); 6] = [
    ("enabled", "enabled"),
    ("connected", "connected"),
    ("admitted", "hits"),
    ("refused", "refusals"),
    ("corrections", "corrections"),
    ("lag in seconds", "lag_seconds"),
];

const ITEMS: [Column; 5] = [
    Column("SKU", "sku"),
    Column("LOCATION", "location"),
    Column("UNITS", "units"),
    Column("SEQUENCE", "sequence"),
    Column("EPOCH", "epoch"),
];

fn gate(value: &Value) -> String {
    let items = show::entries(&value["items"]);
    let mut shown = show::fields(value, &GATE);
    if !items.is_empty() {
        shown.push('\n');
        shown.push_str(&crate::table::table(&ITEMS, &items));
    }
    if value["has_more"] == true {
        shown.push_str("There are more items.\n");
    }
    shown
}
