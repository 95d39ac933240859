//! Units with ids from a shell: which ones a hold is for, and what operators do with them.

use super::ApiRequest;
use super::requests::{LocationArgs, PageArgs};
use super::show;
use crate::client::{encoded, item_path, push_query};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use std::str::FromStr;

#[derive(Subcommand)]
pub(super) enum UnitsCommand {
    /// Add units to an item of mode units; those that are there stay
    ///
    ///   stockhold ctl stock set concert --mode units
    ///   stockhold ctl units add concert A-1 A-2 A-3 --section stalls --row A
    #[command(verbatim_doc_comment)]
    Add(AddUnitsArgs),
    /// List an item's units in claim order, with their status
    ///
    ///   stockhold ctl units list concert --status held
    #[command(verbatim_doc_comment)]
    List(ListUnitsArgs),
    /// Show a unit: its status and its reservation
    ///
    ///   stockhold ctl units get concert A-3
    #[command(verbatim_doc_comment)]
    Get(UnitArgs),
    /// Show what happened to a unit since it was added, the newest 64 events at most
    ///
    ///   stockhold ctl units events concert A-3
    #[command(verbatim_doc_comment)]
    Events(UnitArgs),
    /// Draw the status of every unit, row by row
    Map(SeatMapArgs),
    /// Remove a unit that is neither held nor sold
    ///
    ///   stockhold ctl units retire concert A-3
    #[command(verbatim_doc_comment)]
    Retire(UnitArgs),
}

impl UnitsCommand {
    pub(super) fn request(&self) -> Result<ApiRequest, String> {
        Ok(match self {
            Self::Add(ask) => ask.request()?,
            Self::List(ask) => ask.request(),
            Self::Map(ask) => {
                ApiRequest::get(item_path(&ask.sku, &ask.place.location, "/seat-map"), show::seat_map)
            }
            Self::Get(ask) => ApiRequest::get(ask.path(""), show::unit),
            Self::Events(ask) => ApiRequest::get(ask.path("/events"), show::history),
            Self::Retire(ask) => ApiRequest {
                method: "DELETE",
                ..ApiRequest::get(ask.path(""), |_| "retired: it is no more\n".to_owned())
            },
        })
    }
}

#[derive(Args)]
pub(super) struct AddUnitsArgs {
    /// Of what
    sku: String,
    /// Their ids, in the order of their claims; `stockhold import --units` reads many from a file
    #[arg(required = true, value_name = "ID")]
    unit: Vec<String>,
    /// Part of the hall that they are in
    #[arg(long)]
    section: Option<String>,
    /// Row of the section. Units are adjacent in the given order
    #[arg(long)]
    row: Option<String>,
    /// What they are like: NAME=VALUE, a whole number, true, false or a text; repeat it for more
    #[arg(long, value_name = "NAME=VALUE")]
    attribute: Vec<UnitAttribute>,
    #[command(flatten)]
    place: LocationArgs,
}

impl AddUnitsArgs {
    fn request(&self) -> Result<ApiRequest, String> {
        let attributes = UnitAttribute::object(&self.attribute)?;
        let unit = |id: &String| {
            let mut unit = Map::from_iter([("unit_id".to_owned(), json!(id))]);
            for (name, value) in [("section", &self.section), ("row", &self.row)] {
                unit.extend(value.iter().map(|value| (name.to_owned(), json!(value))));
            }
            unit.extend(attributes.clone().map(|all| ("attributes".to_owned(), all)));
            Value::Object(unit)
        };
        let units: Vec<Value> = self.unit.iter().map(unit).collect();
        let path = item_path(&self.sku, &self.place.location, "/units");
        Ok(ApiRequest::post(path, json!({ "units": units }), show::units_added))
    }
}

/// Where units stand.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum UnitStatus {
    Available,
    Held,
    Sold,
}

#[derive(Args)]
pub(super) struct ListUnitsArgs {
    /// Of what
    sku: String,
    /// Only those that stand so
    #[arg(long)]
    status: Option<UnitStatus>,
    /// Only those of this section
    #[arg(long)]
    section: Option<String>,
    #[command(flatten)]
    place: LocationArgs,
    #[command(flatten)]
    page: PageArgs,
}

impl ListUnitsArgs {
    fn request(&self) -> ApiRequest {
        let mut path = item_path(&self.sku, &self.place.location, "/units");
        if let Some(status) = self.status {
            let status = match status {
                UnitStatus::Available => "available",
                UnitStatus::Held => "held",
                UnitStatus::Sold => "sold",
            };
            push_query(&mut path, "status", status);
        }
        if let Some(section) = &self.section {
            push_query(&mut path, "section", section);
        }
        self.page.push(&mut path);
        ApiRequest::get(path, show::units)
    }
}

#[derive(Args)]
pub(super) struct SeatMapArgs {
    /// Of what
    sku: String,
    #[command(flatten)]
    place: LocationArgs,
}

#[derive(Args)]
pub(super) struct UnitArgs {
    /// Of what
    sku: String,
    /// Its id
    #[arg(value_name = "ID")]
    unit: String,
    #[command(flatten)]
    place: LocationArgs,
}

impl UnitArgs {
    fn path(&self, rest: &str) -> String {
        item_path(&self.sku, &self.place.location, &format!("/units/{}{rest}", encoded(&self.unit)))
    }
}

/// Which units of an item a hold is for.
#[derive(Args)]
pub(super) struct UnitSelectionArgs {
    /// A unit by its id, of an item whose units have ids; repeat it for more
    #[arg(long, value_name = "ID", conflicts_with_all = ["line", "quantity", "adjacent", "section", "min_together", "attribute"])]
    unit: Vec<String>,
    /// For units with ids: the best adjacent units
    #[arg(long, conflicts_with = "line")]
    adjacent: bool,
    /// Only units of this section; repeat it for more, in order of preference
    #[arg(long, conflicts_with = "line")]
    section: Vec<String>,
    /// If one group is not possible: several groups of at least this many units
    #[arg(long, value_name = "UNITS", conflicts_with = "line")]
    min_together: Option<u64>,
    /// Only units that have this: NAME=VALUE; repeat it for more
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "line")]
    attribute: Vec<UnitAttribute>,
}

impl UnitSelectionArgs {
    /// Writes it into a line of a request.
    pub(super) fn put(&self, line: &mut Map<String, Value>) -> Result<(), String> {
        let mut put = |name: &str, value: Value| line.insert(name.to_owned(), value);
        if self.adjacent {
            put("adjacent", json!(true));
        }
        if !self.section.is_empty() {
            put("sections", json!(self.section));
        }
        if let Some(least) = self.min_together {
            put("min_together", json!(least));
        }
        if let Some(all) = UnitAttribute::object(&self.attribute)? {
            put("attributes", all);
        }
        if !self.unit.is_empty() {
            put("units", json!(self.unit));
            line.remove("quantity");
        }
        Ok(())
    }
}

/// `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnitAttribute {
    name: String,
    value: Value,
}

impl FromStr for UnitAttribute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, value)) = text.split_once('=') else {
            return Err("must be NAME=VALUE, like aisle=true".to_owned());
        };
        // What reads as no number, true or false is a text.
        let value = match serde_json::from_str(value) {
            Ok(plain @ (Value::Bool(_) | Value::Number(_))) => plain,
            _ => json!(value),
        };
        Ok(Self { name: name.to_owned(), value })
    }
}

impl UnitAttribute {
    fn object(all: &[Self]) -> Result<Option<Value>, String> {
        let mut object = Map::new();
        for Self { name, value } in all {
            if object.insert(name.clone(), value.clone()).is_some() {
                return Err(format!("--attribute {name} is given twice"));
            }
        }
        Ok((!all.is_empty()).then_some(Value::Object(object)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_a_name_and_a_plain_value() {
        let read = |text: &str| text.parse::<UnitAttribute>().map(|it| (it.name, it.value));
        for (text, value) in [
            ("a=true", json!(true)),
            ("a=-3", json!(-3)),
            ("a=b=c", json!("b=c")),
            ("a={}", json!("{}")),
            ("a=", json!("")),
        ] {
            assert_eq!(read(text), Ok(("a".to_owned(), value)), "{text}");
        }
        assert!(read("aisle").unwrap_err().contains("NAME=VALUE"));
        let twice = ["a=1", "b=1", "a=1"].map(|text| text.parse().unwrap());
        assert_eq!(UnitAttribute::object(&twice), Err("--attribute a is given twice".to_owned()));
        assert_eq!(UnitAttribute::object(&twice[..2]), Ok(Some(json!({ "a": 1, "b": 1 }))));
    }
}
