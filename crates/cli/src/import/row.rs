//! One row: an item's settings as the API takes them. What is valid is asked of the API's own decoder, so that a dry run
//! and a server judge alike.

use super::source::ReadOptions;
use super::strict_json::StrictJson;
use crate::client::{encoded, item_path};
use serde_json::{Map, Value};
use stockhold_domain::Label;

/// The mode of items whose units have no ids.
pub(super) const COUNTED: &str = "counted";
/// That of items whose units have.
pub(super) const UNITS: &str = "units";

/// What a column can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemField {
    Sku,
    Location,
    Mode,
    TotalUnits,
    SafetyStock,
    DefaultTtl,
    MaxHold,
    Metadata,
    /// Of an export: what of the total was sold there.
    ConfirmedSold,
    /// Of an export: it is told that pauses are not carried over.
    Paused,
    /// Of an export, and nothing that can be set; or left out on purpose.
    Ignored,
}

impl ItemField {
    /// What `--column` can name.
    pub(super) const SETTABLE: &'static str = "sku, location, mode, total_units, safety_stock, default_ttl_seconds, \
                                               max_hold_seconds, metadata, confirmed_sold";

    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sku" => Self::Sku,
            "location" => Self::Location,
            "mode" => Self::Mode,
            "total_units" => Self::TotalUnits,
            "safety_stock" => Self::SafetyStock,
            "default_ttl_seconds" => Self::DefaultTtl,
            "max_hold_seconds" => Self::MaxHold,
            "metadata" => Self::Metadata,
            "confirmed_sold" => Self::ConfirmedSold,
            "paused" => Self::Paused,
            "available"
            | "held_units"
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
            Self::SafetyStock => "safety_stock",
            Self::DefaultTtl => "default_ttl_seconds",
            Self::MaxHold => "max_hold_seconds",
            Self::Metadata => "metadata",
            Self::ConfirmedSold => "confirmed_sold",
            Self::Paused => "paused",
            Self::Ignored => "ignored",
        }
    }
}

/// A value as the file has it.
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
    /// What of the total was sold where the file comes from.
    pub(super) sold: u64,
    pub(super) paused: bool,
}

impl ItemRow {
    /// Where it is sent.
    pub(super) fn path(&self) -> String {
        item_path(&self.sku, &self.location, "")
    }

    /// Whether it says that its item's units have ids.
    pub(super) fn is_of_units(&self) -> bool {
        is_of_units(&self.settings)
    }
}

fn is_of_units(settings: &Map<String, Value>) -> bool {
    settings.get("mode").is_some_and(|mode| mode == UNITS)
}

/// A row that can't be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct RowError {
    pub(super) line: u64,
    /// Empty when it is the row as a whole.
    pub(super) column: String,
    pub(super) what: String,
}

impl std::fmt::Display for RowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, column, what } = self;
        if column.is_empty() { write!(f, "{line}: {what}") } else { write!(f, "{line}: {column}: {what}") }
    }
}

/// A row that is being read.
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

    /// Takes one field. An empty one is as good as none; `null` takes back what an item may have of its own.
    pub(super) fn put(&mut self, field: ItemField, raw: FieldValue<'_>) -> Result<(), String> {
        let value = match (field, raw) {
            (
                ItemField::DefaultTtl | ItemField::MaxHold | ItemField::Metadata,
                FieldValue::Json(Value::Null),
            ) => Value::Null,
            (ItemField::Ignored, _) | (_, FieldValue::Text("") | FieldValue::Json(Value::Null)) => {
                return Ok(());
            }
            (ItemField::Sku | ItemField::Location | ItemField::Mode, FieldValue::Text(text)) => {
                Value::String(text.to_owned())
            }
            (ItemField::Metadata, FieldValue::Text(text)) => {
                let read = serde_json::from_str(text).map(|StrictJson(value)| value);
                read.map_err(|error| format!("must be a JSON object: {error}"))?
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

    /// The row, if it is one.
    pub(super) fn row(mut self, reading: &ReadOptions<'_>) -> Result<ItemRow, RowError> {
        // Under the name that the file has for it.
        let column = |field: &str| {
            let theirs = reading.renamed.iter().find(|(ours, _)| ours.name() == field);
            theirs.map_or_else(|| field.to_owned(), |(_, theirs)| theirs.clone())
        };
        let line = self.line;
        let bad = |field: &str, what: String| RowError { line, column: column(field), what };
        let Some(sku) = self.sku else {
            return Err(bad("sku", "is missing; every row names one".to_owned()));
        };
        let location = self.location.unwrap_or_else(|| reading.location.to_owned());
        for (field, text) in [("sku", &sku), ("location", &location)] {
            if let Err(error) = Label::check(text) {
                return Err(bad(field, format!("{text:?} {error}")));
            }
        }
        if is_of_units(&self.settings) {
            // There are as many as were added here, whatever there were where the file comes from.
            self.settings.remove("total_units");
        } else if !self.settings.contains_key("total_units") {
            return Err(bad("total_units", "is missing; every row of a counted item says it".to_owned()));
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

/// The field that a pointer leads into.
pub(super) fn first_segment(pointer: &str) -> &str {
    pointer.trim_start_matches('/').split('/').next().unwrap_or_default()
}
