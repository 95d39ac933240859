//! `stockhold ctl pools`: parts of an item's stock that are set aside.

use super::requests::{LocationArgs, named};
use super::{ApiRequest, show};
use crate::client::{encoded, item_path};
use crate::table::{Column, table};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

#[derive(Subcommand)]
pub(super) enum PoolsCommand {
    /// Set units of an item aside in a pool, or replace all that was said about a pool
    ///
    ///   stockhold ctl pools set concert vip --allocated 200 --releases-at 2027-01-31T12:00:00Z
    ///   stockhold ctl pools set concert box-office --allocated 50 --no-fallback
    ///   stockhold ctl pools set concert partner-x --allocated 100 --idle-release 86400
    #[command(verbatim_doc_comment)]
    Set(SetPoolArgs),
    /// Put units with ids into a pool
    ///
    ///   stockhold ctl pools put-units concert press --units
    ///   stockhold ctl pools put-units concert vip --sections balcony
    #[command(verbatim_doc_comment)]
    PutUnits(PoolUnitsArgs),
    /// Take units with ids out of a pool: they become general stock
    TakeUnits(PoolUnitsArgs),
    /// List the pools of an item
    List(PoolsArgs),
    /// Delete a pool: its free units go to general sale
    Delete(DeletePoolArgs),
}

#[derive(Args)]
pub(super) struct SetPoolArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// Units that are set aside, those that were drawn and are still held or sold included. Left out for an item whose units have ids
    #[arg(long, value_name = "UNITS")]
    allocated: Option<u64>,
    /// Refuse a reserve that names the pool when the pool has too few units [default: the rest comes from general stock]
    #[arg(long)]
    no_fallback: bool,
    /// When the free units go to general sale, for example 2027-01-31T12:00:00Z [default: never]
    #[arg(long, value_name = "TIME")]
    releases_at: Option<String>,
    /// How long nothing is drawn before the free units go to general sale [default: no matter how long]
    #[arg(long, value_name = "SECONDS")]
    idle_release: Option<u64>,
    /// Only if the item still has this version (`stock get` shows it)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

#[derive(Args)]
pub(super) struct PoolUnitsArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// The ids of the units, separated by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',', required_unless_present = "sections")]
    units: Vec<String>,
    /// All units of these sections, separated by commas
    #[arg(long, value_name = "SECTIONS", value_delimiter = ',', conflicts_with = "units")]
    sections: Vec<String>,
    /// Only if the item still has this version (`stock get` shows it)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

#[derive(Args)]
pub(super) struct PoolsArgs {
    /// SKU of the item
    sku: String,
    #[command(flatten)]
    place: LocationArgs,
}

/// A pool of an item.
#[derive(Args)]
struct PoolArgs {
    /// SKU of the item
    sku: String,
    /// The name of the pool, unique within the item
    pool: String,
    #[command(flatten)]
    place: LocationArgs,
}

#[derive(Args)]
pub(super) struct DeletePoolArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// Only if the item still has this version (`stock get` shows it)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

impl PoolsCommand {
    pub(super) fn request(&self) -> ApiRequest {
        match self {
            Self::Set(set) => set.request(),
            Self::PutUnits(units) => units.request("PUT"),
            Self::TakeUnits(units) => units.request("DELETE"),
            Self::List(list) => ApiRequest::get(item_path(&list.sku, &list.place.location, "/pools"), pools),
            Self::Delete(delete) => {
                let request = ApiRequest::get(delete.pool.path(), |_| "deleted\n".to_owned());
                ApiRequest { method: "DELETE", if_match: delete.if_version, ..request }
            }
        }
    }
}

impl SetPoolArgs {
    fn request(&self) -> ApiRequest {
        let body = named(json!({
            "allocated": self.allocated,
            "fallback": self.no_fallback.then_some(false),
            "releases_at": self.releases_at,
            "idle_release_seconds": self.idle_release,
        }));
        let request = ApiRequest::post(self.pool.path(), body, pool);
        ApiRequest { method: "PUT", if_match: self.if_version, ..request }
    }
}

impl PoolUnitsArgs {
    fn request(&self, method: &'static str) -> ApiRequest {
        let body = if self.units.is_empty() {
            json!({ "sections": self.sections })
        } else {
            json!({ "units": self.units })
        };
        let request = ApiRequest::post(self.pool.path_under("/units"), body, pool);
        ApiRequest { method, if_match: self.if_version, ..request }
    }
}

impl PoolArgs {
    fn path(&self) -> String {
        self.path_under("")
    }

    fn path_under(&self, tail: &str) -> String {
        item_path(&self.sku, &self.place.location, &format!("/pools/{}{tail}", encoded(&self.pool)))
    }
}

const POOL: [(&str, &str); 8] = [
    ("allocated", "allocated"),
    ("held", "held"),
    ("sold", "sold"),
    ("free", "free"),
    ("fallback", "fallback"),
    ("releases at", "releases_at"),
    ("idle release s", "idle_release_seconds"),
    ("released", "released_at"),
];

const POOLS: [Column; 9] = [
    Column("POOL", "pool"),
    Column("ALLOCATED", "allocated"),
    Column("HELD", "held"),
    Column("SOLD", "sold"),
    Column("FREE", "free"),
    Column("FALLBACK", "fallback"),
    Column("RELEASES AT", "releases_at"),
    Column("IDLE RELEASE S", "idle_release_seconds"),
    Column("RELEASED", "released_at"),
];

fn pool(value: &Value) -> String {
    format!("pool {}\n{}", show::text(&value["pool"]), show::fields(value, &POOL))
}

fn pools(value: &Value) -> String {
    table(&POOLS, &show::entries(&value["data"]))
}
