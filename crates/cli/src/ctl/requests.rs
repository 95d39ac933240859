//! From flags to requests. What a value may be is left to the server, which says it better; only what could not be
//! written as a request is refused here.

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
            format!("what follows the last = is a number of units, found {units:?}; write {text}=1 for one of {text:?}")
        })?;
        Ok(Self { sku: sku.to_owned(), quantity })
    }
}

impl LineArg {
    fn json(&self, location: &str) -> Value {
        json!({ "sku": self.sku, "location": location, "quantity": self.quantity })
    }
}

/// Where the stock is.
#[derive(Args)]
pub(super) struct LocationArgs {
    /// Where it is stocked
    #[arg(long, default_value = Label::DEFAULT_LOCATION)]
    pub(super) location: String,
}

/// What makes a command safe to repeat.
#[derive(Args)]
struct KeyArgs {
    /// Idempotency key, at most 255 bytes: the same command with the same key takes effect once [default: a fresh one, which
    /// is printed]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

#[derive(Args)]
pub(super) struct ReserveArgs {
    /// What to hold; or use --line
    #[arg(required_unless_present = "line", conflicts_with = "line")]
    sku: Option<String>,
    /// How many units, 1 to 1,000,000
    #[arg(short, long, value_name = "UNITS", default_value_t = 1, conflicts_with = "line")]
    quantity: u64,
    #[command(flatten)]
    choice: UnitSelectionArgs,
    /// One line of a basket: SKU=UNITS, or SKU for one unit; repeat it for more, all or nothing
    #[arg(long, value_name = "SKU=UNITS")]
    line: Vec<LineArg>,
    #[command(flatten)]
    place: LocationArgs,
    /// Who the hold is for: an order, a cart, a session
    #[arg(long, value_name = "ID")]
    owner: String,
    /// How long, in seconds [default: as the items say, 600 if they don't]
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u64>,
    /// Take what there is when it is less than asked for
    #[arg(long)]
    partial: bool,
    /// Sales channel
    #[arg(long)]
    channel: Option<String>,
    /// The buyer
    #[arg(long, value_name = "ID")]
    customer: Option<String>,
    /// The buyer's session
    #[arg(long, value_name = "ID")]
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
pub(super) struct ConfirmArgs {
    /// The reservation's id
    id: String,
    /// The order that it became
    #[arg(long, value_name = "ID")]
    order: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
}

impl ConfirmArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let body = named(json!({ "order_id": self.order }));
        ApiRequest::post(reservation(&self.id, "/confirm"), body, show::reservation)
            .keyed(self.key.key.as_ref())
    }
}

#[derive(Args)]
pub(super) struct ReleaseArgs {
    /// The reservation's id
    id: String,
    /// Why, for the record
    #[arg(long)]
    reason: Option<String>,
}

impl ReleaseArgs {
    pub(super) fn request(&self) -> ApiRequest {
        let mut path = reservation(&self.id, "");
        if let Some(reason) = &self.reason {
            push_query(&mut path, "reason", reason);
        }
        ApiRequest {
            method: "DELETE",
            ..ApiRequest::get(path, |_| "released: its units are free again\n".to_owned())
        }
    }
}

#[derive(Args)]
pub(super) struct ExtendArgs {
    /// The reservation's id
    id: String,
    /// Seconds from now
    #[arg(long, value_name = "SECONDS")]
    ttl: u64,
    #[command(flatten)]
    key: KeyArgs,
}

impl ExtendArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let body = json!({ "ttl_seconds": self.ttl });
        ApiRequest::post(reservation(&self.id, "/extend"), body, show::reservation)
            .keyed(self.key.key.as_ref())
    }
}

#[derive(Args)]
pub(super) struct ReturnArgs {
    /// The reservation's id
    id: String,
    /// Why, for the record
    #[arg(long)]
    reason: String,
    /// What comes back: SKU=UNITS, or SKU for one unit; repeat it for more [default: everything]
    #[arg(long, value_name = "SKU=UNITS")]
    line: Vec<LineArg>,
    /// A unit that comes back, by its id, whichever line has it; repeat it for more
    #[arg(long, value_name = "ID", conflicts_with = "line")]
    unit: Vec<String>,
    #[command(flatten)]
    place: LocationArgs,
    #[command(flatten)]
    key: KeyArgs,
}

impl ReturnArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let lines: Vec<Value> = self.line.iter().map(|line| line.json(&self.place.location)).collect();
        let lines = if lines.is_empty() { Value::Null } else { Value::Array(lines) };
        let units = if self.unit.is_empty() { Value::Null } else { json!(self.unit) };
        let body = named(json!({ "reason": self.reason, "lines": lines, "units": units }));
        ApiRequest::post(reservation(&self.id, "/return"), body, show::reservation)
            .keyed(self.key.key.as_ref())
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

/// What a reservation has become.
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
    /// Go on where an earlier page ended: the cursor that it printed
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
    /// Only those of this owner
    #[arg(long, value_name = "ID")]
    owner: Option<String>,
    /// Only those with a line of this SKU
    #[arg(long)]
    sku: Option<String>,
    /// Only those with a line at this location
    #[arg(long)]
    location: Option<String>,
    /// Only those that have become this
    #[arg(long)]
    status: Option<StatusFilter>,
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

/// How units are told apart.
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
    /// What
    sku: String,
    #[command(flatten)]
    place: LocationArgs,
    /// Units that exist, sold ones included: a new item needs it, unless its units have ids, which are added one by one
    #[arg(long, value_name = "UNITS", required_unless_present_any = Self::OTHERS)]
    total: Option<u64>,
    /// How units are told apart, for good: counted ones are interchangeable, units have ids [default: counted]
    #[arg(long)]
    mode: Option<ItemModeArg>,
    /// Units kept from sale
    #[arg(long, value_name = "UNITS")]
    safety_stock: Option<u64>,
    /// How long a hold lasts that names no time
    #[arg(long, value_name = "SECONDS")]
    default_ttl: Option<u64>,
    /// Longest hold, extensions included
    #[arg(long, value_name = "SECONDS")]
    max_hold: Option<u64>,
    /// Your own data: a JSON object of at most 2 KiB
    #[arg(long, value_name = "JSON", value_parser = object)]
    metadata: Option<Value>,
    /// Takes a setting back, so that the item has none of its own; may be given several times
    #[arg(long, value_name = "SETTING")]
    unset: Vec<ItemSetting>,
    /// Only if the item still has this version, which `stock get` shows
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

/// What an item may have of its own.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ItemSetting {
    /// The service's time to live counts again
    DefaultTtl,
    /// The service's longest hold counts again
    MaxHold,
    /// No data any more
    Metadata,
}

impl ItemSetting {
    fn field(self) -> &'static str {
        match self {
            Self::DefaultTtl => "default_ttl_seconds",
            Self::MaxHold => "max_hold_seconds",
            Self::Metadata => "metadata",
        }
    }
}

impl SetStockArgs {
    /// Of which one is enough.
    const OTHERS: [&str; 6] = ["mode", "safety_stock", "default_ttl", "max_hold", "metadata", "unset"];

    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let mut body = named(json!({
            "total_units": self.total,
            "mode": self.mode.map(ItemModeArg::name),
            "safety_stock": self.safety_stock,
            "default_ttl_seconds": self.default_ttl,
            "max_hold_seconds": self.max_hold,
            "metadata": self.metadata,
        }));
        for own in &self.unset {
            if body.get(own.field()).is_some_and(|asked| !asked.is_null()) {
                return Err(format!("{} is set and unset at once", own.field()));
            }
            body[own.field()] = Value::Null;
        }
        let put = ApiRequest::post(item_path(&self.sku, &self.place.location, ""), body, show::item);
        Ok(ApiRequest { method: "PUT", if_match: self.if_version, ..put })
    }
}

#[derive(Args)]
pub(super) struct AdjustStockArgs {
    /// What
    sku: String,
    /// Units that come (24) or go (-3)
    #[arg(allow_negative_numbers = true)]
    delta: i64,
    /// Why, for the record
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    place: LocationArgs,
    /// Only if the item still has this version, which `stock get` shows
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

impl AdjustStockArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let body = json!({ "delta": self.delta, "reason": self.reason });
        let path = item_path(&self.sku, &self.place.location, "/adjust");
        let request = ApiRequest::post(path, body, show::item).keyed(self.key.key.as_ref())?;
        Ok(ApiRequest { if_match: self.if_version, ..request })
    }
}

#[derive(Args)]
pub(super) struct GetItemArgs {
    /// What
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
    /// Only those here
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
    /// Which, at most 1,000
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
    /// One item; its location is --location, or the default one
    sku: Option<String>,
    /// Where: with a SKU that item there, without one all that is there
    #[arg(long)]
    location: Option<String>,
    /// All locations
    #[arg(long, conflicts_with_all = ["sku", "location"])]
    everything: bool,
    /// Why, for the record
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
                return Err("say what: a SKU, --location, or --everything".to_owned());
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
    /// Only this one
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

/// An object without the fields that were not given.
fn named(body: Value) -> Value {
    match body {
        Value::Object(fields) => {
            Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn object(text: &str) -> Result<Value, String> {
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
