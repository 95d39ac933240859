//! Turns flags into requests that change a reservation.

use super::ApiRequest;
use super::requests::{KeyArgs, LineArg, LocationArgs, OverrideArgs, named, object, reservation};
use super::show;
use crate::client::push_query;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::str::FromStr;

/// `SKU=UNIT`: a unit of an item, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnitArg {
    sku: String,
    unit: String,
}

impl FromStr for UnitArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sku, unit) = text.split_once('=').ok_or("must be SKU=UNIT, like concert=A-12")?;
        Ok(Self { sku: sku.to_owned(), unit: unit.to_owned() })
    }
}

/// Lines of a reservation.
#[derive(Args)]
struct LinesArgs {
    /// A line: SKU=UNITS, or SKU for one unit. Repeat it for more lines
    #[arg(long, value_name = "SKU=UNITS")]
    line: Vec<LineArg>,
    /// A unit with an id: SKU=UNIT. Repeat it for more units
    #[arg(long, value_name = "SKU=UNIT")]
    unit: Vec<UnitArg>,
    #[command(flatten)]
    place: LocationArgs,
}

impl LinesArgs {
    /// `null` when there is no line.
    fn json(&self) -> Value {
        let location = &self.place.location;
        let mut lines: Vec<Value> = self.line.iter().map(|line| line.json(location)).collect();
        for UnitArg { sku, unit } in &self.unit {
            let known = lines.iter_mut().find(|line| line["sku"] == **sku && line["units"].is_array());
            match known.and_then(|line| line["units"].as_array_mut()) {
                Some(units) => units.push(json!(unit)),
                None => lines.push(json!({ "sku": sku, "location": location, "units": [unit] })),
            }
        }
        if lines.is_empty() { Value::Null } else { lines.into() }
    }
}

/// The version that a reservation must have.
#[derive(Args)]
pub(super) struct VersionArgs {
    /// Only if the reservation still has this version (`get` shows it)
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    #[command(flatten)]
    key: KeyArgs,
}

impl VersionArgs {
    pub(super) fn request(&self, path: String, body: Value) -> Result<ApiRequest, String> {
        let request = ApiRequest::post(path, body, show::reservation).keyed(self.key.key.as_ref())?;
        Ok(ApiRequest { if_match: self.if_version, ..request })
    }
}

#[derive(Args)]
pub(super) struct AmendArgs {
    /// The reservation's id
    id: String,
    #[command(flatten)]
    lines: LinesArgs,
    /// Hold fewer units if not all of them are available
    #[arg(long)]
    partial: bool,
    /// Move the deadline to this many seconds from now
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u64>,
    /// Your own data, in place of that of the reservation: a JSON object of at most 2 KiB. {} clears it
    #[arg(long, value_name = "JSON", value_parser = object)]
    metadata: Option<Value>,
    #[command(flatten)]
    limits: OverrideArgs,
    #[command(flatten)]
    version: VersionArgs,
}

impl AmendArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let lines = self.lines.json();
        if lines.is_null() && self.ttl.is_none() && self.metadata.is_none() {
            return Err("nothing to change: name --line, --unit, --ttl or --metadata".to_owned());
        }
        let body = named(json!({
            "lines": lines,
            "fulfilment": self.partial.then_some("partial"),
            "ttl_seconds": self.ttl,
            "metadata": self.metadata,
            "override_limits": self.limits.json(),
        }));
        let request = self.version.request(reservation(&self.id, ""), body)?;
        Ok(ApiRequest { method: "PATCH", ..request })
    }
}

#[derive(Args)]
pub(super) struct TransferArgs {
    /// The reservation's id
    id: String,
    /// The new owner
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// The buyer
    #[arg(long, value_name = "CUSTOMER")]
    customer: Option<String>,
    /// The buyer's session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Remove the buyer or the session. Repeat it for both
    #[arg(long, value_name = "FIELD")]
    unset: Vec<PartyField>,
    #[command(flatten)]
    limits: OverrideArgs,
    #[command(flatten)]
    version: VersionArgs,
}

/// A field that a transfer can clear.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PartyField {
    Customer,
    Session,
}

impl TransferArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let mut body = named(json!({
            "owner_id": self.owner,
            "customer_id": self.customer,
            "session_id": self.session,
            "override_limits": self.limits.json(),
        }));
        for field in &self.unset {
            let name = match field {
                PartyField::Customer => "customer_id",
                PartyField::Session => "session_id",
            };
            if !body[name].is_null() {
                return Err(format!("{name} is both set and cleared"));
            }
            body[name] = Value::Null;
        }
        self.version.request(reservation(&self.id, "/transfer"), body)
    }
}

#[derive(Args)]
pub(super) struct SplitArgs {
    /// The reservation's id
    id: String,
    #[command(flatten)]
    lines: LinesArgs,
    #[command(flatten)]
    version: VersionArgs,
}

impl SplitArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let lines = self.lines.json();
        if lines.is_null() {
            return Err("name the units that move: --line or --unit".to_owned());
        }
        self.version.request(reservation(&self.id, "/split"), json!({ "lines": lines }))
    }
}

#[derive(Args)]
pub(super) struct MergeArgs {
    /// The id of the reservation that gets the lines
    id: String,
    /// The ids of the reservations that give their lines and end, at most 20
    #[arg(required = true, value_name = "FROM")]
    from: Vec<String>,
    #[command(flatten)]
    limits: OverrideArgs,
    #[command(flatten)]
    version: VersionArgs,
}

impl MergeArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let body = named(json!({ "from": self.from, "override_limits": self.limits.json() }));
        self.version.request(reservation(&self.id, "/merge"), body)
    }
}

#[derive(Args)]
pub(super) struct OpenPaymentArgs {
    /// The reservation's id
    id: String,
    /// The payment, as you name it
    #[arg(long, value_name = "PAYMENT")]
    payment: String,
    /// Length of the window from now [default: 900, or the longest that the items allow]
    #[arg(long, value_name = "SECONDS")]
    window: Option<u64>,
    #[command(flatten)]
    version: VersionArgs,
}

impl OpenPaymentArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let body = named(json!({ "payment_id": self.payment, "window_seconds": self.window }));
        self.version.request(reservation(&self.id, "/payment"), body)
    }
}

#[derive(Args)]
pub(super) struct ClosePaymentArgs {
    /// The reservation's id
    id: String,
    /// The payment [default: that of the open window]
    #[arg(long, value_name = "PAYMENT")]
    payment: Option<String>,
    /// Reason, kept in the history
    #[arg(long)]
    reason: Option<String>,
}

impl ClosePaymentArgs {
    pub(super) fn request(&self) -> ApiRequest {
        let mut path = reservation(&self.id, "/payment");
        for (name, value) in [("payment_id", &self.payment), ("reason", &self.reason)] {
            if let Some(value) = value {
                push_query(&mut path, name, value);
            }
        }
        ApiRequest {
            method: "DELETE",
            ..ApiRequest::get(path, |_| "no window of this payment is open\n".to_owned())
        }
    }
}

#[derive(Args)]
pub(super) struct ConfirmArgs {
    /// The reservation's id
    id: String,
    /// The order of the sale
    #[arg(long, value_name = "ORDER")]
    order: Option<String>,
    /// The payment. While a payment window is open, it must be the payment of the window
    #[arg(long, value_name = "PAYMENT")]
    payment: Option<String>,
    /// If the hold has expired, take the same units again in a new reservation
    #[arg(long)]
    reacquire: bool,
    #[command(flatten)]
    limits: OverrideArgs,
    #[command(flatten)]
    key: KeyArgs,
}

impl ConfirmArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let body = named(json!({
            "order_id": self.order,
            "payment_id": self.payment,
            "if_expired": self.reacquire.then_some("reacquire"),
            "override_limits": self.limits.json(),
        }));
        ApiRequest::post(reservation(&self.id, "/confirm"), body, show::reservation)
            .keyed(self.key.key.as_ref())
    }
}

#[derive(Args)]
pub(super) struct ReleaseArgs {
    /// The reservation's id
    id: String,
    /// Reason, kept in the history
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
            ..ApiRequest::get(path, |_| "released: its units can be sold again\n".to_owned())
        }
    }
}

#[derive(Args)]
pub(super) struct ExtendArgs {
    /// The reservation's id
    id: String,
    /// New deadline, in seconds from now
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

/// Sold units: by number or by their ids.
#[derive(Args)]
pub(super) struct SoldUnitsArgs {
    /// Units: SKU=UNITS, or SKU for one unit. Repeat it for more lines [default: everything]
    #[arg(long, value_name = "SKU=UNITS")]
    line: Vec<LineArg>,
    /// Id of a unit, from any line. Repeat it for more units
    #[arg(long, value_name = "UNIT", conflicts_with = "line")]
    unit: Vec<String>,
    #[command(flatten)]
    place: LocationArgs,
}

impl SoldUnitsArgs {
    pub(super) fn json(&self) -> (Value, Value) {
        let lines: Vec<Value> = self.line.iter().map(|line| line.json(&self.place.location)).collect();
        let lines = if lines.is_empty() { Value::Null } else { Value::Array(lines) };
        let units = if self.unit.is_empty() { Value::Null } else { json!(self.unit) };
        (lines, units)
    }
}

#[derive(Args)]
pub(super) struct FulfilArgs {
    /// The reservation's id
    id: String,
    #[command(flatten)]
    units: SoldUnitsArgs,
    #[command(flatten)]
    key: KeyArgs,
}

impl FulfilArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let (lines, units) = self.units.json();
        let body = named(json!({ "lines": lines, "units": units }));
        ApiRequest::post(reservation(&self.id, "/fulfil"), body, show::reservation)
            .keyed(self.key.key.as_ref())
    }
}

/// The sold units that a return takes.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReturnFromArg {
    /// Units that have not left the shelf
    Unfulfilled,
    /// Units that have left the shelf
    Fulfilled,
}

#[derive(Args)]
pub(super) struct ReturnArgs {
    /// The reservation's id
    id: String,
    /// Reason, kept in the history
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    units: SoldUnitsArgs,
    /// Only these units [default: units that have not left the shelf come first]
    #[arg(long)]
    from: Option<ReturnFromArg>,
    /// Take the units off the total instead of selling them again
    #[arg(long)]
    write_off: bool,
    #[command(flatten)]
    key: KeyArgs,
}

impl ReturnArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        let (lines, units) = self.units.json();
        let from = self.from.map(|from| match from {
            ReturnFromArg::Unfulfilled => "unfulfilled",
            ReturnFromArg::Fulfilled => "fulfilled",
        });
        let body = named(json!({
            "reason": self.reason,
            "lines": lines,
            "units": units,
            "from": from,
            "disposition": self.write_off.then_some("write_off"),
        }));
        ApiRequest::post(reservation(&self.id, "/return"), body, show::reservation)
            .keyed(self.key.key.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_units_of_one_item_are_one_line() {
        let lines = LinesArgs {
            line: vec!["tea=2".parse().unwrap()],
            unit: ["concert=A=1", "hall=B", "concert=A-2"].map(|unit| unit.parse().unwrap()).into(),
            place: LocationArgs { location: "l".to_owned() },
        };
        let expected = json!([
            { "sku": "tea", "location": "l", "quantity": 2 },
            { "sku": "concert", "location": "l", "units": ["A=1", "A-2"] },
            { "sku": "hall", "location": "l", "units": ["B"] },
        ]);
        assert_eq!(lines.json(), expected);
        assert!("concert".parse::<UnitArg>().is_err());
    }
}
