//! Turns flags into requests. The server checks values, because its error texts are better. Only what can't be written as a request is
//! refused here.

use super::ApiRequest;
use super::show;
use super::units::UnitSelectionArgs;
use crate::client::{RESERVATIONS, encoded, item_path, push_query};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use std::str::FromStr;
use stockhold_domain::Label;

/// `SKU=N`, or `SKU` for one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineArg {
    sku: String,
    quantity: u64,
}

impl FromStr for LineArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((sku, units)) = text.rsplit_once('=') else {
            return Ok(Self { sku: text.to_owned(), quantity: 1 });
        };
        let quantity = units.parse().map_err(|_| {
            format!("the text after the last = must be a number of units, found {units:?}; write {text}=1 for one unit of {text:?}")
        })?;
        Ok(Self { sku: sku.to_owned(), quantity })
    }
}

impl LineArg {
    pub(super) fn json(&self, location: &str) -> Value {
        json!({ "sku": self.sku, "location": location, "quantity": self.quantity })
    }
}

/// The location of an item.
#[derive(Args)]
pub(super) struct LocationArgs {
    /// Location of the stock
    #[arg(long, default_value = Label::DEFAULT_LOCATION)]
    pub(super) location: String,
}

/// What makes a command safe to repeat.
#[derive(Args)]
pub(super) struct KeyArgs {
    /// Idempotency key, at most 255 bytes: the same command with the same key takes effect once [default: a new key, which is
    /// printed]
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<String>,
}

#[derive(Args)]
pub(super) struct ReserveArgs {
    /// The item to hold; or use --line
    #[arg(required_unless_present = "line", conflicts_with = "line")]
    sku: Option<String>,
    /// Number of units, 1 to 1,000,000
    #[arg(short, long, value_name = "UNITS", default_value_t = 1, conflicts_with = "line")]
    quantity: u64,
    #[command(flatten)]
    choice: UnitSelectionArgs,
    /// A line of a basket: SKU=UNITS, or SKU for one unit. Repeat it for more lines: all are held, or none
    #[arg(long, value_name = "SKU=UNITS")]
    line: Vec<LineArg>,
    #[command(flatten)]
    place: LocationArgs,
    /// Who the hold is for: an order, a cart, a session
    #[arg(long, value_name = "OWNER")]
    owner: String,
    /// Time to live of the hold [default: the setting of the items, else of the service (600)]
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u64>,
    /// Hold fewer units if not all of them are available
    #[arg(long)]
    partial: bool,
    /// Sales channel
    #[arg(long)]
    channel: Option<String>,
    /// The buyer
    #[arg(long, value_name = "CUSTOMER")]
    customer: Option<String>,
    /// The buyer's session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Your own data: a JSON object of at most 2 KiB
    #[arg(long, value_name = "JSON", value_parser = object)]
    metadata: Option<Value>,
    #[command(flatten)]
    key: KeyArgs,
}

impl ReserveArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let single = self.sku.iter().map(|sku| LineArg { sku: sku.clone(), quantity: self.quantity });
        let mut lines: Vec<Value> =
            single.chain(self.line.iter().cloned()).map(|line| line.json(&self.place.location)).collect();
        if let Some(line) = lines.first_mut().and_then(Value::as_object_mut) {
            self.choice.put(line)?;
        }
        let body = json!({
            "owner_id": self.owner,
            "lines": lines,
            "ttl_seconds": self.ttl,
            "fulfilment": self.partial.then_some("partial"),
            "channel": self.channel,
            "customer_id": self.customer,
            "session_id": self.session,
            "metadata": self.metadata,
        });
        ApiRequest::post(RESERVATIONS.to_owned(), named(body), show::reservation).keyed(self.key.key.as_ref())
    }
}

#[derive(Args)]
pub(super) struct GetArgs {
    /// The reservation's id
    id: String,
}

impl GetArgs {
    pub(super) fn request(&self) -> ApiRequest {
        ApiRequest::get(reservation(&self.id, ""), show::reservation)
    }
}

/// The status of a reservation.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatusFilter {
    Active,
    Confirmed,
    Cancelled,
    Expired,
}

impl StatusFilter {
    fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Confirmed => "confirmed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

/// A page of a list.
#[derive(Args)]
pub(super) struct PageArgs {
    /// Most entries, 1 to 1,000
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) limit: u64,
    /// Continue after an earlier page: the cursor that it printed
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl PageArgs {
    pub(super) fn push(&self, path: &mut String) {
        push_query(path, "limit", &self.limit.to_string());
        if let Some(after) = &self.after {
            push_query(path, "starting_after", after);
        }
    }
}

#[derive(Args)]
pub(super) struct ListArgs {
    /// Only reservations of this owner
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Only reservations with a line of this SKU
    #[arg(long)]
    sku: Option<String>,
    /// Only reservations with a line at this location
    #[arg(long)]
    location: Option<String>,
    /// Only reservations with this status
    #[arg(long)]
    status: Option<StatusFilter>,
    /// Only reservations that were confirmed for this order, the one that was confirmed last first
    #[arg(long, value_name = "ORDER")]
    order: Option<String>,
    /// Only reservations of this customer
    #[arg(long, value_name = "CUSTOMER")]
    customer: Option<String>,
    /// Only reservations that were created at this time or later, like 2026-11-24T09:30:00Z
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Only reservations that were created before this time
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

impl ListArgs {
    pub(super) fn request(&self) -> ApiRequest {
        let mut path = RESERVATIONS.to_owned();
        let status = self.status.map(|status| status.name().to_owned());
        let filters = [
            ("owner_id", &self.owner),
            ("sku", &self.sku),
            ("location", &self.location),
            ("status", &status),
            ("order_id", &self.order),
            ("customer_id", &self.customer),
            ("created_after", &self.created_after),
            ("created_before", &self.created_before),
        ];
        for (name, value) in filters {
            if let Some(value) = value {
                push_query(&mut path, name, value);
            }
        }
        self.page.push(&mut path);
        ApiRequest::get(path, show::reservations)
    }
}

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
            Self::Metadata => "metadata",
        }
    }
}

impl SetStockArgs {
    /// Flags of which one is enough, if there is no total.
    const OTHERS: [&str; 12] = [
        "on_hand",
        "mode",
        "safety_stock",
        "oversell_allowance",
        "sale_starts_at",
        "sale_ends_at",
        "incoming",
        "default_ttl",
        "max_hold",
        "max_payment",
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
            "sale_starts_at": self.sale_starts_at,
            "sale_ends_at": self.sale_ends_at,
            "incoming": (!self.incoming.is_empty()).then_some(&self.incoming),
            "default_ttl_seconds": self.default_ttl,
            "max_hold_seconds": self.max_hold,
            "max_payment_seconds": self.max_payment,
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
        let body = named(json!({ "delta": self.delta, "reason": self.reason, "supply_id": self.supply }));
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

#[derive(Args)]
pub(super) struct AvailableArgs {
    /// SKUs, at most 1,000
    #[arg(required = true, value_name = "SKU")]
    skus: Vec<String>,
    #[command(flatten)]
    place: LocationArgs,
}

impl AvailableArgs {
    pub(super) fn request(&self) -> ApiRequest {
        if let [sku] = self.skus.as_slice() {
            return ApiRequest::get(item_path(sku, &self.place.location, "/available"), show::availability);
        }
        let items: Vec<Value> =
            self.skus.iter().map(|sku| json!({ "sku": sku, "location": self.place.location })).collect();
        ApiRequest::post("/v1/availability".to_owned(), json!({ "items": items }), show::availabilities)
    }
}

#[derive(Args)]
pub(super) struct PauseArgs {
    /// SKU of one item. Its location is --location, or the default location
    sku: Option<String>,
    /// Location: with a SKU the item at that location, without a SKU the whole location
    #[arg(long)]
    location: Option<String>,
    /// All locations
    #[arg(long, conflicts_with_all = ["sku", "location"])]
    everything: bool,
    /// Reason, kept in the history
    #[arg(long)]
    reason: Option<String>,
}

impl PauseArgs {
    pub(super) fn request(&self, paused: bool) -> Result<ApiRequest, String> {
        let tail = if paused { "/pause" } else { "/resume" };
        let path = match (&self.sku, &self.location) {
            (Some(sku), location) => {
                item_path(sku, location.as_deref().unwrap_or(Label::DEFAULT_LOCATION), tail)
            }
            (None, None) if !self.everything => {
                return Err("name a SKU, --location, or --everything".to_owned());
            }
            (None, location) => {
                let mut path = format!("/v1/sale{tail}");
                if let Some(location) = location {
                    push_query(&mut path, "location", location);
                }
                path
            }
        };
        let show = if self.everything { show::sale_of_all } else { show::sale };
        Ok(ApiRequest::post(path, named(json!({ "reason": self.reason })), show))
    }
}

#[derive(Args)]
pub(super) struct SaleStatusArgs {
    /// Only this location
    #[arg(long)]
    location: Option<String>,
}

impl SaleStatusArgs {
    pub(super) fn request(&self) -> ApiRequest {
        let mut path = "/v1/sale".to_owned();
        let Some(location) = &self.location else { return ApiRequest::get(path, show::sale_of_all) };
        push_query(&mut path, "location", location);
        ApiRequest::get(path, show::sale)
    }
}

/// Removes the fields that were not given.
pub(super) fn named(body: Value) -> Value {
    match body {
        Value::Object(fields) => {
            Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
        }
        other => other,
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

pub(super) fn object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("must be a JSON object, like {\"note\": \"gift\"}".to_owned()),
        Err(error) => Err(format!("must be a JSON object, like {{\"note\": \"gift\"}}: {error}")),
    }
}

pub(super) fn reservation(id: &str, tail: &str) -> String {
    format!("{RESERVATIONS}/{}{tail}", encoded(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_sku_and_a_number_behind_the_last_equals_sign() {
        let line = |sku: &str, quantity| Ok(LineArg { sku: sku.to_owned(), quantity });
        assert_eq!("shirt".parse(), line("shirt", 1));
        assert_eq!("shirt=12".parse(), line("shirt", 12));
        assert_eq!("a=b=3".parse(), line("a=b", 3));
        let why = "a=b".parse::<LineArg>().unwrap_err();
        assert!(why.contains("a=b=1"), "{why}");
    }
}
