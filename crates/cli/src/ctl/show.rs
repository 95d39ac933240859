//! Answers for people. Fields that a later server adds are left out here; --json has them.

use crate::plural::counted;
use crate::seat_map::drawn;
use crate::table::{Column, printable, table};
use serde_json::Value;
use std::fmt::Write;
use stockhold_api::wire::SeatMap;
use stockhold_domain::Label;

const RESERVATION: [(&str, &str); 24] = [
    ("owner", "owner_id"),
    ("created", "created_at"),
    ("expires", "expires_at"),
    ("at the latest", "max_expires_at"),
    ("confirmed", "confirmed_at"),
    ("closed", "closed_at"),
    ("because", "close_reason"),
    ("order", "order_id"),
    ("payment", "payment"),
    ("split from", "split_from"),
    ("split into", "split_into"),
    ("merged from", "merged_from"),
    ("merged into", "merged_into"),
    ("replaces", "replaces"),
    ("replaced by", "replaced_by"),
    ("version", "version"),
    ("channel", "channel"),
    ("pool", "pool"),
    ("customer", "customer_id"),
    ("session", "session_id"),
    ("metadata", "metadata"),
    ("units", "quantity"),
    ("amount", "amount"),
    ("currency", "currency"),
];

const LINES: [Column; 11] = [
    Column("SKU", "sku"),
    Column("LOCATION", "location"),
    Column("UNITS", "quantity"),
    Column("ASKED FOR", "requested_quantity"),
    Column("FULFILLED", "fulfilled_quantity"),
    Column("RETURNED", "returned_quantity"),
    Column("FROM POOL", "pool_quantity"),
    Column("BACKORDERED", "backordered_quantity"),
    Column("PROMISED", "promised_at"),
    Column("AMOUNT", "amount"),
    Column("SEQUENCE", "sequence"),
];

const RESERVATIONS: [Column; 6] = [
    Column("RESERVATION", "reservation_id"),
    Column("STATUS", "status"),
    Column("OWNER", "owner_id"),
    Column("UNITS", "quantity"),
    Column("EXPIRES", "expires_at"),
    Column("ORDER", "order_id"),
];

const ITEM: [(&str, &str); 30] = [
    ("location", "location"),
    ("mode", "mode"),
    ("total units", "total_units"),
    ("sold", "confirmed_sold"),
    ("fulfilled", "fulfilled_units"),
    ("on hand", "on_hand"),
    ("held", "held_units"),
    ("under payment", "held_under_payment"),
    ("safety stock", "safety_stock"),
    ("set aside", "set_aside"),
    ("oversell allowance", "oversell_allowance"),
    ("backordered", "backordered"),
    ("available", "available"),
    ("available now", "available_now"),
    ("reservations", "active_reservations"),
    ("paused", "paused"),
    ("default ttl s", "default_ttl_seconds"),
    ("max hold s", "max_hold_seconds"),
    ("max payment s", "max_payment_seconds"),
    ("sale starts", "sale_starts_at"),
    ("sale ends", "sale_ends_at"),
    ("incoming", "incoming"),
    ("gated", "gated"),
    ("price", "price"),
    ("low stock", "low_stock"),
    ("stock master", "stock_master"),
    ("sequence", "sequence"),
    ("version", "version"),
    ("updated", "updated_at"),
    ("metadata", "metadata"),
];

const ITEMS: [Column; 8] = [
    Column("LOCATION", "location"),
    Column("SKU", "sku"),
    Column("TOTAL", "total_units"),
    Column("SOLD", "confirmed_sold"),
    Column("HELD", "held_units"),
    Column("SAFETY", "safety_stock"),
    Column("AVAILABLE", "available"),
    Column("PAUSED", "paused"),
];

const AVAILABILITY: [Column; 7] = [
    Column("SKU", "sku"),
    Column("LOCATION", "location"),
    Column("AVAILABLE", "available"),
    Column("HELD", "held_units"),
    Column("RESERVATIONS", "active_reservations"),
    Column("UNKNOWN", "unknown"),
    Column("AS OF", "as_of"),
];

const QUOTE: [Column; 7] = [
    Column("SKU", "sku"),
    Column("LOCATION", "location"),
    Column("UNITS", "quantity"),
    Column("UNIT AMOUNT", "unit_amount"),
    Column("DISCOUNT", "discount"),
    Column("AMOUNT", "amount"),
    Column("CURRENCY", "currency"),
];

/// The lines of a quote, and what they cost together.
pub(super) fn quote(value: &Value) -> String {
    let lines = table(&QUOTE, &entries(&value["lines"]));
    let sum = match value["amount"].as_u64() {
        Some(amount) => format!("together {amount} {}\n", text(&value["currency"])),
        None => "no sum: not every item has a price\n".to_owned(),
    };
    lines + &sum
}

pub(super) fn reservation(value: &Value) -> String {
    let mut out = format!("reservation {}  {}\n", text(&value["reservation_id"]), text(&value["status"]));
    out.push_str(&fields(value, &RESERVATION));
    let lines = entries(&value["lines"]);
    out.push_str(&table(&LINES, &lines));
    for line in lines {
        let ids = ids(&line["units"], usize::MAX);
        if !ids.is_empty() {
            // Writing to a String does not fail.
            let _ = writeln!(out, "units of {}: {ids}", item_of(line));
        }
    }
    out
}

pub(super) fn reservations(value: &Value) -> String {
    list(value, &RESERVATIONS)
}

pub(super) fn item(value: &Value) -> String {
    format!("item {}\n{}", text(&value["sku"]), fields(value, &ITEM))
}

pub(super) fn items(value: &Value) -> String {
    list(value, &ITEMS)
}

pub(super) fn availability(value: &Value) -> String {
    table(&AVAILABILITY, &[value])
}

pub(super) fn availabilities(value: &Value) -> String {
    table(&AVAILABILITY, &entries(&value["items"]))
}

/// The pauses of an item or of a location, and of everything around it.
pub(super) fn sale(value: &Value) -> String {
    let around = scopes(value).join(" and ");
    let mut out = match (value["paused"] == Value::Bool(true), around.is_empty()) {
        (true, true) => "paused: nothing new can be reserved there\n".to_owned(),
        (true, false) => format!("paused: nothing new can be reserved there; also paused: {around}\n"),
        (false, true) => "on sale\n".to_owned(),
        (false, false) => format!(
            "not paused by itself, but NOT on sale: paused is {around} (`stockhold ctl resume` with --everything or \
             --location)\n"
        ),
    };
    if value["has_items"] == Value::Bool(false) {
        out.push_str("nothing is stocked at this location: is its name right?\n");
    }
    out
}

/// The pause of everything, and the locations with a pause of their own.
pub(super) fn sale_of_all(value: &Value) -> String {
    let paused = value["paused"] == Value::Bool(true);
    let mut out =
        if paused { "everything is paused: nothing new can be reserved\n" } else { "on sale\n" }.to_owned();
    let within = scopes(value);
    if !within.is_empty() {
        // Writing to a String does not fail.
        let _ = writeln!(out, "paused by themselves: {}", within.join(", "));
    }
    out
}

/// What else is paused, by name.
fn scopes(value: &Value) -> Vec<String> {
    let name = |scope: &Value| match scope["location"].as_str() {
        Some(location) => format!("location {}", printable(location)),
        None => text(&scope["scope"]),
    };
    entries(&value["also_paused"]).into_iter().map(name).collect()
}

const UNITS: [Column; 7] = [
    Column("UNIT", "unit_id"),
    Column("STATUS", "status"),
    Column("RESERVATION", "reservation_id"),
    Column("SECTION", "section"),
    Column("ROW", "row"),
    Column("POSITION", "position"),
    Column("VERSION", "version"),
];

pub(super) fn units(value: &Value) -> String {
    list(value, &UNITS)
}

const UNIT: [(&str, &str); 8] = [
    ("status", "status"),
    ("reservation", "reservation_id"),
    ("section", "section"),
    ("row", "row"),
    ("number", "number"),
    ("position", "position"),
    ("attributes", "attributes"),
    ("version", "version"),
];

pub(super) fn unit(value: &Value) -> String {
    format!("unit {}\n{}", text(&value["unit_id"]), fields(value, &UNIT))
}

const KEY: [(&str, &str); 13] = [
    ("name", "name"),
    ("principal", "principal"),
    ("scopes", "scopes"),
    ("locations", "locations"),
    ("channels", "channels"),
    ("own only", "own_reservations_only"),
    ("networks", "allowed_cidrs"),
    ("rate limit", "rate_limit"),
    ("created", "created_at"),
    ("expires", "expires_at"),
    ("last used", "last_used_at"),
    ("revoked", "revoked_at"),
    ("replaces", "rolled_from"),
];

const KEYS: [Column; 7] = [
    Column("KEY ID", "key_id"),
    Column("NAME", "name"),
    Column("PRINCIPAL", "principal"),
    Column("CREATED", "created_at"),
    Column("LAST USED", "last_used_at"),
    Column("EXPIRES", "expires_at"),
    Column("REVOKED", "revoked_at"),
];

pub(super) fn key(value: &Value) -> String {
    format!("{}\n{}", text(&value["key_id"]), fields(value, &KEY))
}

pub(super) fn keys(value: &Value) -> String {
    list(value, &KEYS)
}

/// Events, one on each line.
pub(super) fn history(value: &Value) -> String {
    entries(&value["data"]).into_iter().map(|one| event(one) + "\n").collect()
}

pub(super) fn units_added(value: &Value) -> String {
    let field = |name: &str| text(&value[name]);
    format!(
        "{} added, {} there already: {}, version {}\n",
        field("added"),
        field("unchanged"),
        counted(value["total_units"].as_u64().unwrap_or(0), "unit", "units"),
        field("version")
    )
}

pub(super) fn seat_map(value: &Value) -> String {
    let read: Result<SeatMap, _> = serde_json::from_value(value.clone());
    match read.as_ref().map(|map| (map, &map.layout)) {
        Ok((map, Some(layout))) => drawn(layout, map),
        // A map of another shape is shown as it came.
        Ok((_, None)) | Err(_) => format!("{value:#}\n"),
    }
}

/// Further fields of events, in the order in which they are shown.
const FIELDS_OF_AN_EVENT: [&str; 18] = [
    "scope",
    "sku",
    "location",
    "delta",
    "disposition",
    "payment_id",
    "until",
    "split_from",
    "split_into",
    "merged_from",
    "merged_into",
    "replaces",
    "replaced_by",
    "to",
    "limits_overridden",
    "key_id",
    "principal",
    "rolled_from",
];

/// Most ids of units on an event's line, for each of what it moved.
const IDS_OF_AN_EVENT: usize = 20;

/// One event on one line.
pub(super) fn event(value: &Value) -> String {
    let field = |name: &str| text(&value[name]);
    let mut out = format!("{:>8}  {}  {:<22}", field("position"), field("time"), field("type"));
    for name in ["reservation_id", "owner_id", "reason", "actor"] {
        if value[name].is_string() {
            let _ = write!(out, "  {}={}", name.trim_end_matches("_id"), field(name));
        }
    }
    // The moved units are not all units of the reservation.
    let moved = ["returned", "fulfilled"].map(|name| entries(&value[name])).concat();
    for line in if moved.is_empty() { entries(&value["lines"]) } else { moved } {
        let (item, ids) = (item_of(line), ids(&line["units"], IDS_OF_AN_EVENT));
        // Writing to a String does not fail.
        let _ = match line["quantity"].as_u64() {
            Some(units) => write!(out, "  {units}×{item}"),
            None => write!(out, "  {item} total={}", text(&line["total_units"])),
        };
        if !ids.is_empty() {
            let _ = write!(out, " ({ids})");
        }
    }
    for name in ["units", "unit_ids"] {
        let units = ids(&value[name], IDS_OF_AN_EVENT);
        if !units.is_empty() {
            let _ = write!(out, "  ({units})");
        }
    }
    if value["limit"].is_object() {
        let _ = write!(out, "  limit={}", text(&value["limit"]["limit_id"]));
    }
    // An event of a reservation names the pool, and an event of a pool has all of it.
    let pool = if value["pool"].is_object() { &value["pool"]["pool"] } else { &value["pool"] };
    if !pool.is_null() {
        let _ = write!(out, "  pool={}", text(pool));
    }
    for name in FIELDS_OF_AN_EVENT {
        if !value[name].is_null() {
            let _ = write!(out, "  {name}={}", field(name));
        }
    }
    out
}

/// An item's SKU, and its location where that is not the usual one.
fn item_of(line: &Value) -> String {
    let sku = text(&line["sku"]);
    match line["location"].as_str() {
        None | Some(Label::DEFAULT_LOCATION) => sku,
        Some(location) => format!("{sku}@{}", printable(location)),
    }
}

/// The ids of units, up to a limit, and the number of further units. Returned units are marked.
fn ids(units: &Value, most: usize) -> String {
    let units = entries(units);
    let id = |unit: &&Value| match (unit.as_str(), unit["returned"].as_bool()) {
        (Some(id), _) => printable(id),
        (None, Some(true)) => format!("{} (returned)", text(&unit["unit_id"])),
        (None, _) => text(&unit["unit_id"]),
    };
    let mut shown = units.iter().take(most).map(id).collect::<Vec<_>>().join(", ");
    if units.len() > most {
        // Writing to a String does not fail.
        let _ = write!(shown, ", … and {} more", units.len() - most);
    }
    shown
}

/// A page, and how to see the next one.
pub(super) fn list(value: &Value, columns: &[Column]) -> String {
    let mut out = table(columns, &entries(&value["data"]));
    if value["has_more"] == Value::Bool(true) {
        // Writing to a String does not fail.
        let _ = writeln!(out, "there are more: --after {}", text(&value["next_cursor"]));
    }
    out
}

pub(super) fn entries(list: &Value) -> Vec<&Value> {
    list.as_array().map(|list| list.iter().collect()).unwrap_or_default()
}

pub(super) fn fields(value: &Value, fields: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (title, name) in fields {
        if !value[*name].is_null() {
            let _ = writeln!(out, "  {title:<14} {}", text(&value[*name]));
        }
    }
    out
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text),
        Value::Null => String::new(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        other => printable(&other.to_string()),
    }
}
