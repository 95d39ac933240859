//! `stockhold ctl limits`: how many units of some items one customer, one owner, or all together may have.

use super::requests::{PageArgs, named};
use super::{ApiRequest, show};
use crate::client::{encoded, push_query};
use crate::table::{Column, printable};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::str::FromStr;

/// The path of the limits.
const LIMITS: &str = "/v1/limits";

/// Most items of a limit that are shown to people.
const ITEMS_SHOWN: usize = 20;

#[derive(Subcommand)]
pub(super) enum LimitsCommand {
    /// Create a limit, or replace all of it
    ///
    ///   stockhold ctl limits set drop-7 --sku tee-s --sku tee-m --per customer --limit 2
    ///   stockhold ctl limits set market --item tea@hub-9 --channel marketplace --limit 500
    ///   stockhold ctl limits set carts --location hub-9 --per owner --limit 20 --counts held
    #[command(verbatim_doc_comment)]
    Set(SetLimitArgs),
    /// List limits in the order of their ids
    List(PageArgs),
    /// Show what a limit says
    Show(LimitIdArgs),
    /// Show what a limit counts: for one customer or owner, for each of them, or for all together
    ///
    ///   stockhold ctl limits usage drop-7 --subject ann
    #[command(verbatim_doc_comment)]
    Usage(LimitUsageArgs),
    /// Delete a limit, and forget what it counts
    Delete(DeleteLimitArgs),
}

/// Who has a count of their own.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LimitSubjectArg {
    /// Each customer. A reservation without a customer is refused
    Customer,
    /// Each owner of reservations
    Owner,
}

/// Which units count.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LimitedUnitsArg {
    /// Units in active reservations, and sold units that did not come back
    #[value(name = "held_and_sold", alias = "held-and-sold")]
    HeldAndSold,
    /// Units in active reservations only
    Held,
}

/// `SKU@LOCATION`: one item.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ItemArg {
    sku: String,
    location: String,
}

impl FromStr for ItemArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('@') {
            Some((sku, location)) if !sku.is_empty() && !location.is_empty() => {
                Ok(Self { sku: sku.to_owned(), location: location.to_owned() })
            }
            _ => Err("must be SKU@LOCATION, like tea@hub-9; --sku names a SKU at every location".to_owned()),
        }
    }
}

#[derive(Args)]
pub(super) struct SetLimitArgs {
    /// The limit's id, as you name it
    #[arg(value_name = "LIMIT_ID")]
    id: String,
    /// The most units. 0 refuses everybody
    #[arg(long, value_name = "UNITS")]
    limit: u64,
    /// A SKU at every location. Repeat it for more SKUs: the units of all items are counted together
    #[arg(long)]
    sku: Vec<String>,
    /// Every item at a location. Repeat it for more locations
    #[arg(long)]
    location: Vec<String>,
    /// One item. Repeat it for more items
    #[arg(long, value_name = "SKU@LOCATION")]
    item: Vec<ItemArg>,
    /// Only units that are sold through this channel. Repeat it for more channels [default: all, and reservations without a channel]
    #[arg(long)]
    channel: Vec<String>,
    /// Who has a count of their own [default: all share one count]
    #[arg(long, value_name = "SUBJECT")]
    per: Option<LimitSubjectArg>,
    /// Which units count [default: held_and_sold]
    #[arg(long, value_name = "UNITS")]
    counts: Option<LimitedUnitsArg>,
    /// Only if the limit still has this version (`limits show` shows it)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

#[derive(Args)]
pub(super) struct LimitIdArgs {
    /// The limit's id
    #[arg(value_name = "LIMIT_ID")]
    id: String,
}

#[derive(Args)]
pub(super) struct LimitUsageArgs {
    #[command(flatten)]
    id: LimitIdArgs,
    /// The customer or the owner [default: all that have units, in pages]
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

#[derive(Args)]
pub(super) struct DeleteLimitArgs {
    #[command(flatten)]
    id: LimitIdArgs,
    /// Only if the limit still has this version (`limits show` shows it)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

impl LimitsCommand {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        match self {
            Self::Set(set) => set.request(),
            Self::List(page) => {
                let mut path = LIMITS.to_owned();
                page.push(&mut path);
                Ok(ApiRequest::get(path, limits))
            }
            Self::Show(id) => Ok(ApiRequest::get(id.path(""), limit)),
            Self::Usage(usage) => Ok(usage.request()),
            Self::Delete(delete) => {
                let request = ApiRequest::get(delete.id.path(""), |_| "deleted\n".to_owned());
                Ok(ApiRequest { method: "DELETE", if_match: delete.if_version, ..request })
            }
        }
    }
}

impl SetLimitArgs {
    fn request(&self) -> Result<ApiRequest, String> {
        let skus = self.sku.iter().map(|sku| json!({ "sku": sku }));
        let locations = self.location.iter().map(|location| json!({ "location": location }));
        let items = self.item.iter().map(|item| json!({ "sku": item.sku, "location": item.location }));
        let items: Vec<Value> = skus.chain(locations).chain(items).collect();
        if items.is_empty() {
            return Err("name the items that are counted: --sku, --location or --item".to_owned());
        }
        let body = named(json!({
            "items": items,
            "channels": (!self.channel.is_empty()).then_some(&self.channel),
            "per": self.per.map(|per| match per {
                LimitSubjectArg::Customer => "customer",
                LimitSubjectArg::Owner => "owner",
            }),
            "limit": self.limit,
            "counts": self.counts.map(|counts| match counts {
                LimitedUnitsArg::HeldAndSold => "held_and_sold",
                LimitedUnitsArg::Held => "held",
            }),
        }));
        let request = ApiRequest::post(path(&self.id, ""), body, limit);
        Ok(ApiRequest { method: "PUT", if_match: self.if_version, ..request })
    }
}

impl LimitUsageArgs {
    fn request(&self) -> ApiRequest {
        let mut path = self.id.path("/usage");
        match &self.subject {
            Some(subject) => push_query(&mut path, "subject", subject),
            None => self.page.push(&mut path),
        }
        ApiRequest::get(path, usage)
    }
}

impl LimitIdArgs {
    fn path(&self, tail: &str) -> String {
        path(&self.id, tail)
    }
}

fn path(id: &str, tail: &str) -> String {
    format!("{LIMITS}/{}{tail}", encoded(id))
}

const LIMIT: [(&str, &str); 7] = [
    ("items", "items"),
    ("channels", "channels"),
    ("per", "per"),
    ("limit", "limit"),
    ("counts", "counts"),
    ("generation", "generation"),
    ("version", "version"),
];

const LIMIT_COLUMNS: [Column; 7] = [
    Column("LIMIT ID", "limit_id"),
    Column("LIMIT", "limit"),
    Column("PER", "per"),
    Column("COUNTS", "counts"),
    Column("CHANNELS", "channels"),
    Column("ITEMS", "items"),
    Column("VERSION", "version"),
];

const USAGE_COLUMNS: [Column; 6] = [
    Column("LIMIT ID", "limit_id"),
    Column("SUBJECT", "subject"),
    Column("USED", "used"),
    Column("LIMIT", "limit"),
    Column("HELD", "held"),
    Column("SOLD", "sold"),
];

fn limit(value: &Value) -> String {
    format!("limit {}\n{}", show::text(&value["limit_id"]), show::fields(&with_texts(value), &LIMIT))
}

fn limits(value: &Value) -> String {
    let mut page = value.clone();
    page["data"] = show::entries(&value["data"]).into_iter().map(with_texts).collect();
    show::list(&page, &LIMIT_COLUMNS)
}

/// A page of what a limit counts, or the one count that it has.
fn usage(value: &Value) -> String {
    if value["data"].is_array() {
        return show::list(value, &USAGE_COLUMNS);
    }
    crate::table::table(&USAGE_COLUMNS, &[value])
}

/// A limit whose items and channels are texts for people.
fn with_texts(limit: &Value) -> Value {
    let mut limit = limit.clone();
    let items: Vec<String> = show::entries(&limit["items"]).into_iter().map(item).collect();
    let mut shown = items.iter().take(ITEMS_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if items.len() > ITEMS_SHOWN {
        shown = format!("{shown}, … and {} more", items.len() - ITEMS_SHOWN);
    }
    limit["items"] = shown.into();
    if limit["channels"].is_array() {
        let channels: Vec<String> = show::entries(&limit["channels"]).into_iter().map(show::text).collect();
        limit["channels"] = channels.join(", ").into();
    }
    limit
}

/// What a limit counts, in the form in which `set` takes it.
fn item(item: &Value) -> String {
    match (item["sku"].as_str(), item["location"].as_str()) {
        (Some(sku), Some(location)) => format!("{}@{}", printable(sku), printable(location)),
        (Some(sku), None) => printable(sku),
        (None, location) => format!("everything at {}", printable(location.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_a_sku_and_a_location_behind_the_last_at_sign() {
        let item =
            |sku: &str, location: &str| Ok(ItemArg { sku: sku.to_owned(), location: location.to_owned() });
        assert_eq!("tea@hub-9".parse(), item("tea", "hub-9"));
        assert_eq!("a@b@c".parse(), item("a@b", "c"));
        for wrong in ["tea", "@hub-9", "tea@", ""] {
            let why = wrong.parse::<ItemArg>().unwrap_err();
            assert!(why.contains("SKU@LOCATION"), "{why}");
        }
    }

    #[test]
    fn people_see_some_of_many_items() {
        let items: Vec<Value> = (0..25).map(|number| json!({ "sku": format!("s{number}") })).collect();
        let shown = with_texts(&json!({ "items": items }));
        assert!(shown["items"].as_str().unwrap().ends_with("s19, … and 5 more"), "{shown}");
        let one =
            with_texts(&json!({ "items": [{ "location": "hub" }, { "sku": "tea", "location": "hub" }] }));
        assert_eq!(one["items"], "everything at hub, tea@hub");
    }
}
