//! Turns the flags of `ctl stock` into requests, as [`super::requests`] does for the other commands.

use super::requests::{KeyArgs, LocationArgs, PageArgs, named, object};
use super::{ApiRequest, show};
use crate::client::{item_path, push_query};
use crate::price::price;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

/// Whether units of an item are interchangeable or have ids.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ItemModeArg {
    Counted,
    Units,
}

impl ItemModeArg {
    fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Units => "units",
        }
    }
}

#[derive(Args)]
pub(super) struct SetStockArgs {
    /// SKU of the item
    sku: String,
    #[command(flatten)]
    place: LocationArgs,
    /// Units that exist, including sold ones. Required for a new item, unless its units have ids
    #[arg(long, value_name = "UNITS", required_unless_present_any = Self::OTHERS)]
    total: Option<u64>,
    /// Units that were counted on the shelf, in place of --total
    #[arg(long, value_name = "UNITS", conflicts_with = "total")]
    on_hand: Option<u64>,
    /// The item's fulfilled units before the count (`stock get` shows them). An existing item needs it with --on-hand
    #[arg(long, value_name = "UNITS", requires = "on_hand")]
    fulfilled_units_seen: Option<u64>,
    /// counted: units are interchangeable. units: units have ids. It can never be changed [default: counted]
    #[arg(long)]
    mode: Option<ItemModeArg>,
    /// Units kept from sale
    #[arg(long, value_name = "UNITS")]
    safety_stock: Option<u64>,
    /// Units that may be held and sold before they are there
    #[arg(long, value_name = "UNITS")]
    oversell_allowance: Option<u64>,
    /// Whether a gate in front of the store may refuse its reserves when it is sold out. Without effect without a gate
    #[arg(long, value_name = "true|false")]
    gated: Option<bool>,
    /// When the sale begins, for example 2027-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    sale_starts_at: Option<String>,
    /// When the sale ends
    #[arg(long, value_name = "TIME")]
    sale_ends_at: Option<String>,
    /// A delivery that is expected, in place of those that were: its id, its units and the time. Repeat it for more
    #[arg(long, value_name = "ID=UNITS@TIME", value_parser = supply)]
    incoming: Vec<Value>,
    /// Time to live of a hold whose request names none
    #[arg(long, value_name = "SECONDS")]
    default_ttl: Option<u64>,
    /// Longest life of a hold, including extensions
    #[arg(long, value_name = "SECONDS")]
    max_hold: Option<u64>,
    /// How long payment windows may keep a hold, from the first one
    #[arg(long, value_name = "SECONDS")]
    max_payment: Option<u64>,
    /// What a unit costs, for example "1999 usd": in the smallest unit of the currency. Or a JSON object, which may have discounts
    #[arg(long, value_name = "PRICE", value_parser = price)]
    price: Option<Value>,
    /// Available units at and below which the stock counts as low
    #[arg(long, value_name = "UNITS")]
    low_stock: Option<u64>,
    /// The external system that owns the total: a name in [stock_masters]
    #[arg(long, value_name = "NAME")]
    stock_master: Option<String>,
    /// Change the total although an external system owns it
    #[arg(long = "override")]
    override_owner: bool,
    /// Your own data: a JSON object of at most 2 KiB
    #[arg(long, value_name = "JSON", value_parser = object)]
    metadata: Option<Value>,
    /// Clear a setting, so that the item has none of its own. Repeat it for more settings
    #[arg(long, value_name = "SETTING")]
    unset: Vec<ItemSetting>,
    /// Only if the item still has this version (`stock get` shows it)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

/// A setting that an item may have or not.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ItemSetting {
    /// Use the service's time to live
    DefaultTtl,
    /// Use the service's longest hold
    MaxHold,
    /// Use the service's longest time of payment windows
    MaxPayment,
    /// Sell from now on
    SaleStartsAt,
    /// Sell without an end
    SaleEndsAt,
    /// Expect no delivery
    Incoming,
    /// Have no price
    Price,
    /// Never count as low
    LowStock,
    /// Let Stockhold own the total
    StockMaster,
    /// Remove the data
    Metadata,
}

impl ItemSetting {
    fn field(self) -> &'static str {
        match self {
            Self::DefaultTtl => "default_ttl_seconds",
            Self::MaxHold => "max_hold_seconds",
            Self::MaxPayment => "max_payment_seconds",
            Self::SaleStartsAt => "sale_starts_at",
            Self::SaleEndsAt => "sale_ends_at",
            Self::Incoming => "incoming",
            Self::Price => "price",
            Self::LowStock => "low_stock",
            Self::StockMaster => "stock_master",
            Self::Metadata => "metadata",
        }
    }
}

impl SetStockArgs {
    /// Flags of which one is enough, if there is no total.
    const OTHERS: [&str; 16] = [
        "on_hand",
        "mode",
        "safety_stock",
        "oversell_allowance",
        "gated",
        "sale_starts_at",
        "sale_ends_at",
        "incoming",
        "default_ttl",
        "max_hold",
        "max_payment",
        "price",
        "low_stock",
        "stock_master",
        "metadata",
        "unset",
    ];

    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let mut body = named(json!({
            "total_units": self.total,
            "on_hand": self.on_hand,
            "fulfilled_units_seen": self.fulfilled_units_seen,
            "mode": self.mode.map(ItemModeArg::name),
            "safety_stock": self.safety_stock,
            "oversell_allowance": self.oversell_allowance,
            "gated": self.gated,
            "sale_starts_at": self.sale_starts_at,
            "sale_ends_at": self.sale_ends_at,
            "incoming": (!self.incoming.is_empty()).then_some(&self.incoming),
            "default_ttl_seconds": self.default_ttl,
            "max_hold_seconds": self.max_hold,
            "max_payment_seconds": self.max_payment,
            "price": self.price,
            "low_stock": self.low_stock,
            "stock_master": self.stock_master,
            "override": self.override_owner.then_some(true),
            "metadata": self.metadata,
        }));
        for own in &self.unset {
            if body.get(own.field()).is_some_and(|asked| !asked.is_null()) {
                return Err(format!("{} is both set and cleared", own.field()));
            }
            body[own.field()] = Value::Null;
        }
        let put = ApiRequest::post(item_path(&self.sku, &self.place.location, ""), body, show::item);
        Ok(ApiRequest { method: "PUT", if_match: self.if_version, ..put })
    }
}

#[derive(Args)]
pub(super) struct AdjustStockArgs {
    /// SKU of the item
    sku: String,
    /// Difference: units that arrived (24) or left (-3)
    #[arg(allow_negative_numbers = true)]
    delta: i64,
    /// Reason, kept in the history
    #[arg(long, required_unless_present = "supply")]
    reason: Option<String>,
    /// The expected delivery that arrived. Its units are then no longer expected
    #[arg(long, value_name = "ID")]
    supply: Option<String>,
    /// Change the total although an external system owns it
    #[arg(long = "override")]
    override_owner: bool,
    #[command(flatten)]
    place: LocationArgs,
    /// Only if the item still has this version (`stock get` shows it)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

impl AdjustStockArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let body = named(json!({
            "delta": self.delta,
            "reason": self.reason,
            "supply_id": self.supply,
            "override": self.override_owner.then_some(true),
        }));
        let path = item_path(&self.sku, &self.place.location, "/adjust");
        let request = ApiRequest::post(path, body, show::item).keyed(self.key.key.as_ref())?;
        Ok(ApiRequest { if_match: self.if_version, ..request })
    }
}

#[derive(Args)]
pub(super) struct DeleteItemArgs {
    /// SKU of the item
    sku: String,
    #[command(flatten)]
    place: LocationArgs,
    /// Only if the item still has this version (`stock get` shows it)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

impl DeleteItemArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let path = item_path(&self.sku, &self.place.location, "");
        let request = ApiRequest::get(path, |_| "deleted\n".to_owned()).keyed(self.key.key.as_ref())?;
        Ok(ApiRequest { method: "DELETE", if_match: self.if_version, ..request })
    }
}

#[derive(Args)]
pub(super) struct GetItemArgs {
    /// SKU of the item
    sku: String,
    #[command(flatten)]
    place: LocationArgs,
}

impl GetItemArgs {
    pub(super) fn request(&self) -> ApiRequest {
        ApiRequest::get(item_path(&self.sku, &self.place.location, ""), show::item)
    }
}

#[derive(Args)]
pub(super) struct ListItemsArgs {
    /// Only items at this location
    #[arg(long)]
    location: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

impl ListItemsArgs {
    pub(super) fn request(&self) -> ApiRequest {
        let mut path = "/v1/inventory".to_owned();
        if let Some(location) = &self.location {
            push_query(&mut path, "location", location);
        }
        self.page.push(&mut path);
        ApiRequest::get(path, show::items)
    }
}

/// A delivery that is expected, as `ID=UNITS@TIME`. An id may have `=` and `@` in it.
fn supply(text: &str) -> Result<Value, String> {
    let parts = || {
        let (rest, available_from) = text.rsplit_once('@')?;
        let (supply_id, units) = rest.rsplit_once('=')?;
        let quantity: u64 = units.parse().ok()?;
        Some(json!({ "supply_id": supply_id, "quantity": quantity, "available_from": available_from }))
    };
    parts().ok_or_else(|| "must be ID=UNITS@TIME, like po-88=24@2027-01-31T12:00:00Z".to_owned())
}
