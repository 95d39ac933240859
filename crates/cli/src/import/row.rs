//! One row: an item's settings as the API takes them. The API's own decoder checks them, so that a dry run and a server judge alike.

use super::source::ReadOptions;
use super::strict_json::StrictJson;
use crate::client::{encoded, item_path};
use crate::price::price;
use serde_json::{Map, Value};
use stockhold_domain::Label;

/// The mode of items with interchangeable units.
pub(super) const COUNTED: &str = "counted";
/// The mode of items whose units have ids.
pub(super) const UNITS: &str = "units";

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemField {
    Sku,
    Location,
    Mode,
    TotalUnits,
    /// A count of the shelf, in place of the total.
    OnHand,
    FulfilledUnitsSeen,
    SafetyStock,
    DefaultTtl,
    MaxHold,
    MaxPayment,
    OversellAllowance,
    Gated,
    SaleStartsAt,
    SaleEndsAt,
    Incoming,
    Price,
    LowStock,
    StockMaster,
    Metadata,
    /// Units that are sold in the system that the file comes from.
    ConfirmedSold,
    /// A pause in the system that the file comes from. The report says that pauses are not imported.
    Paused,
    /// A column of an export that can't be set, or a column of --ignore.
    Ignored,
}

impl ItemField {
    /// The fields that `--column` accepts.
    pub(super) const SETTABLE: &'static str = "sku, location, mode, total_units, on_hand, fulfilled_units_seen, \
                                               safety_stock, default_ttl_seconds, max_hold_seconds, \
                                               max_payment_seconds, oversell_allowance, gated, \
                                               sale_starts_at, sale_ends_at, incoming, price, low_stock, \
                                               stock_master, metadata, confirmed_sold";

    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sku" => Self::Sku,
            "location" => Self::Location,
            "mode" => Self::Mode,
            "total_units" => Self::TotalUnits,
            "on_hand" => Self::OnHand,
            "fulfilled_units_seen" => Self::FulfilledUnitsSeen,
            "safety_stock" => Self::SafetyStock,
            "default_ttl_seconds" => Self::DefaultTtl,
            "max_hold_seconds" => Self::MaxHold,
            "max_payment_seconds" => Self::MaxPayment,
            "oversell_allowance" => Self::OversellAllowance,
            "gated" => Self::Gated,
            "sale_starts_at" => Self::SaleStartsAt,
            "sale_ends_at" => Self::SaleEndsAt,
            "incoming" => Self::Incoming,
            "price" => Self::Price,
            "low_stock" => Self::LowStock,
            "stock_master" => Self::StockMaster,
            "metadata" => Self::Metadata,
            "confirmed_sold" => Self::ConfirmedSold,
            "paused" => Self::Paused,
            "available"
            | "available_now"
            | "backordered"
            | "set_aside"
            | "held_units"
            | "held_under_payment"
            | "fulfilled_units"
            | "unfulfilled_units"
            | "active_reservations"
            | "sequence"
            | "version"
            | "created_at"
            | "updated_at" => Self::Ignored,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sku => "sku",
            Self::Location => "location",
            Self::Mode => "mode",
            Self::TotalUnits => "total_units",
            Self::OnHand => "on_hand",
            Self::FulfilledUnitsSeen => "fulfilled_units_seen",
            Self::SafetyStock => "safety_stock",
            Self::DefaultTtl => "default_ttl_seconds",
            Self::MaxHold => "max_hold_seconds",
            Self::MaxPayment => "max_payment_seconds",
            Self::OversellAllowance => "oversell_allowance",
            Self::Gated => "gated",
            Self::SaleStartsAt => "sale_starts_at",
            Self::SaleEndsAt => "sale_ends_at",
            Self::Incoming => "incoming",
            Self::Price => "price",
            Self::LowStock => "low_stock",
            Self::StockMaster => "stock_master",
            Self::Metadata => "metadata",
            Self::ConfirmedSold => "confirmed_sold",
            Self::Paused => "paused",
            Self::Ignored => "ignored",
        }
    }
}

/// A value of the file, unchanged.
pub(super) enum FieldValue<'a> {
    Text(&'a str),
    Json(Value),
}

/// A row that can be sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ItemRow {
    pub(super) line: u64,
    pub(super) sku: String,
    pub(super) location: String,
    /// The body of the request.
    pub(super) settings: Map<String, Value>,
    /// About how many bytes it takes in a request.
    pub(super) bytes: usize,
    /// Units of the total that are sold in the system that the file comes from.
    pub(super) sold: u64,
    pub(super) paused: bool,
}

impl ItemRow {
    /// The path of its item.
    pub(super) fn path(&self) -> String {
        item_path(&self.sku, &self.location, "")
    }

    /// Whether its item's units have ids.
    pub(super) fn is_of_units(&self) -> bool {
        is_of_units(&self.settings)
    }
}

fn is_of_units(settings: &Map<String, Value>) -> bool {
    settings.get("mode").is_some_and(|mode| mode == UNITS)
}

/// Why a row can't be used.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct RowError {
    pub(super) line: u64,
    /// Empty if the error is about the whole row.
    pub(super) column: String,
    pub(super) what: String,
}

impl std::fmt::Display for RowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, column, what } = self;
        if column.is_empty() { write!(f, "{line}: {what}") } else { write!(f, "{line}: {column}: {what}") }
    }
}

/// A row while its fields are read.
#[derive(Default)]
pub(super) struct RowBuilder {
    line: u64,
    sku: Option<String>,
    location: Option<String>,
    settings: Map<String, Value>,
    sold: u64,
    paused: bool,
}

impl RowBuilder {
    pub(super) fn new(line: u64) -> Self {
        Self { line, ..Self::default() }
    }

    /// Adds one field. An empty field counts as missing. `null` clears a setting that an item may have or not.
    pub(super) fn put(&mut self, field: ItemField, raw: FieldValue<'_>) -> Result<(), String> {
        let value = match (field, raw) {
            (
                ItemField::DefaultTtl
                | ItemField::MaxHold
                | ItemField::MaxPayment
                | ItemField::SaleStartsAt
                | ItemField::SaleEndsAt
                | ItemField::Incoming
                | ItemField::Gated
                | ItemField::Price
                | ItemField::LowStock
                | ItemField::StockMaster
                | ItemField::Metadata,
                FieldValue::Json(Value::Null),
            ) => Value::Null,
            (ItemField::Ignored, _) | (_, FieldValue::Text("") | FieldValue::Json(Value::Null)) => {
                return Ok(());
            }
            (
                ItemField::Sku
                | ItemField::Location
                | ItemField::Mode
                | ItemField::SaleStartsAt
                | ItemField::SaleEndsAt
                | ItemField::StockMaster,
                FieldValue::Text(text),
            ) => Value::String(text.to_owned()),
            (ItemField::Incoming, FieldValue::Text(text)) => {
                serde_json::from_str(text).map_err(|error| format!("must be a JSON array: {error}"))?
            }
            (ItemField::Price, FieldValue::Text(text)) => price(text)?,
            (ItemField::Metadata, FieldValue::Text(text)) => {
                let read = serde_json::from_str(text).map(|StrictJson(value)| value);
                read.map_err(|error| format!("must be a JSON object: {error}"))?
            }
            (ItemField::Gated, FieldValue::Text(text)) => {
                let read = text.trim().parse().map(Value::Bool);
                read.map_err(|_| format!("must be true or false, found {text:?}"))?
            }
            (ItemField::Paused, FieldValue::Text(text)) => Value::Bool(matches!(text, "true" | "yes" | "1")),
            (_, FieldValue::Text(text)) => {
                let units: u64 = text
                    .trim()
                    .parse()
                    .map_err(|_| format!("must be a whole number that is not negative, found {text:?}"))?;
                units.into()
            }
            (_, FieldValue::Json(value)) => value,
        };
        match (field, value) {
            (ItemField::Sku, Value::String(sku)) => self.sku = Some(sku),
            (ItemField::Location, Value::String(location)) => self.location = Some(location),
            (ItemField::Sku | ItemField::Location, other) => {
                return Err(format!("must be a text, found {other}"));
            }
            (ItemField::ConfirmedSold, value) => {
                self.sold = value.as_u64().ok_or_else(|| format!("must be a whole number, found {value}"))?;
            }
            (ItemField::Paused, value) => self.paused = value == Value::Bool(true),
            (field, value) => {
                self.settings.insert(field.name().to_owned(), value);
            }
        }
        Ok(())
    }

    /// The row, if it is valid.
    pub(super) fn row(mut self, reading: &ReadOptions<'_>) -> Result<ItemRow, RowError> {
        // The name of the column in the file.
        let column = |field: &str| {
            let theirs = reading.renamed.iter().find(|(ours, _)| ours.name() == field);
            theirs.map_or_else(|| field.to_owned(), |(_, theirs)| theirs.clone())
        };
        let line = self.line;
        let bad = |field: &str, what: String| RowError { line, column: column(field), what };
        let Some(sku) = self.sku else {
            return Err(bad("sku", "is missing; every row needs it".to_owned()));
        };
        let location = self.location.unwrap_or_else(|| reading.location.to_owned());
        for (field, text) in [("sku", &sku), ("location", &location)] {
            if let Err(error) = Label::check(text) {
                return Err(bad(field, format!("{text:?} {error}")));
            }
        }
        if is_of_units(&self.settings) {
            // The total of such an item is the number of units that were added here.
            self.settings.remove("total_units");
            self.settings.remove("on_hand");
        } else if self.settings.contains_key("total_units") {
            // An export has both figures. A count also says which shipments it knows of.
            if self.settings.contains_key("fulfilled_units_seen") {
                let what = "can't be combined with on_hand and fulfilled_units_seen: leave out one of them";
                return Err(bad("total_units", what.to_owned()));
            }
            self.settings.remove("on_hand");
        } else if !self.settings.contains_key("on_hand") {
            let what = "is missing; every row of a counted item needs it, or on_hand in its place";
            return Err(bad("total_units", what.to_owned()));
        }
        if reading.override_owner {
            self.settings.insert("override".to_owned(), Value::Bool(true));
        }
        let body = Value::Object(self.settings.clone()).to_string();
        let query = format!("location={}", encoded(&location));
        if let Err(invalid) =
            stockhold_api::decode::set_stock(&encoded(&sku), Some(&query), None, body.as_bytes())
            && let Some(error) = invalid.errors.first()
        {
            return Err(bad(first_segment(&error.pointer), error.detail.clone()));
        }
        let Self { settings, sold, paused, .. } = self;
        let bytes = body.len() + sku.len() + location.len();
        Ok(ItemRow { line, sku, location, settings, bytes, sold, paused })
    }
}

/// The first segment of a JSON pointer.
pub(super) fn first_segment(pointer: &str) -> &str {
    pointer.trim_start_matches('/').split('/').next().unwrap_or_default()
}
