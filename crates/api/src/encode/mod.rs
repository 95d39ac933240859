//! Encodes answers as JSON and appends them to a buffer: reservations, items, availability, the state of the sale,
//! events and lists.
//!
//! It is written by hand, because these bytes are most of the cost of a hot request. [`crate::wire`] has the same
//! shapes for readers, and a test compares the two. Absent values are left out and never `null`.

pub(crate) mod json;

mod checkout;
mod cloud_event;
mod event;
mod limits;
mod list;
mod pools;
mod prices;
mod terms;
mod units;

pub use checkout::{BuyerAction, checkout, order, order_status, payment};
pub use cloud_event::{
    CLOUD_EVENT_CONTENT, CLOUD_EVENT_PREFIX, cloud_event, cloud_event_of_test, event_subject,
    inventory_cloud_event, item_subject, path_segment,
};
pub use event::{event, event_type, traceparent};
pub use json::{day_of, instant_text};
pub use limits::{limit, limit_usage};
pub use list::{
    List, availability_at, result_item, result_nothing, result_problem, result_reservation, unknown_item,
};
pub use pools::{pool, pools};
pub use prices::quote;
pub(crate) use units::status_name;
pub use units::{added, map_etag, seat_map, unit};

use json::{Object, array};
use serde::Serialize;
use stockhold_domain::{
    Hold, HoldDetails, Instant, Item, ItemKey, Label, Line, Mode, PaymentState, ReservationId, Scope, Status,
};
use terms::put_optional_terms;

/// A shape.
pub fn shape(out: &mut Vec<u8>, shape: &impl Serialize) {
    // Writing to memory does not fail, and every member has a form in JSON.
    let written = serde_json::to_writer(out, shape);
    debug_assert!(written.is_ok(), "{written:?}");
}

/// A reservation.
pub fn reservation(out: &mut Vec<u8>, hold: &Hold) {
    reservation_with_token(out, hold, None);
}

/// A reservation, with its hold token if the caller asked for one.
pub fn reservation_with_token(out: &mut Vec<u8>, hold: &Hold, hold_token: Option<&str>) {
    reservation_with(out, hold, hold_token, None);
}

fn reservation_with(
    out: &mut Vec<u8>,
    hold: &Hold,
    hold_token: Option<&str>,
    next_action: Option<&BuyerAction>,
) {
    let mut object = Object::open(out);
    object.uuid("reservation_id", hold.id.as_u128());
    object.word("status", status(hold.status));
    object.text("owner_id", hold.terms.reserve.owner_id.as_str());
    let pool = hold.terms.reserve.pool();
    array(object.value("lines"), &*hold.lines, |out, shown| line(out, shown, pool));
    object.number("quantity", hold.quantity());
    if let Some(price) = hold.price() {
        prices::put_amount(&mut object, &price);
    }
    object.time("created_at", hold.terms.created_at);
    object.time("expires_at", hold.expires_at);
    object.time("max_expires_at", hold.terms.max_expires_at);
    if let Some(closing) = &hold.closing {
        if hold.status == Status::Confirmed {
            object.time("confirmed_at", closing.at);
        }
        object.time("closed_at", closing.at);
        object.optional_text("close_reason", closing.reason.as_ref().map(Label::as_str));
        object.optional_text("order_id", closing.order_id.as_ref().map(Label::as_str));
    }
    put_optional_terms(&mut object, hold.terms.reserve.optional.as_deref());
    object.number("version", hold.version);
    let details = hold.details();
    if let Some(payment) = &details.payment {
        checkout::put_payment(object.value("payment"), payment, details.authorizations, next_action);
    }
    checkout::put_order(&mut object, hold);
    put_related(&mut object, details);
    object.optional_text("hold_token", hold_token);
    object.close();
}

/// The state of a payment as answers name it.
fn payment_state(state: PaymentState) -> &'static str {
    match state {
        PaymentState::Open => "open",
        // The reservation's status tells a payment that was completed from one that was given up.
        PaymentState::Closed | PaymentState::Completed => "closed",
        PaymentState::Lapsed => "lapsed",
    }
}

/// The relations of a reservation to others.
fn put_related(object: &mut Object<'_>, details: &HoldDetails) {
    let put_id = |out: &mut Vec<u8>, id: &ReservationId| json::put_text(out, &id.to_string());
    for (name, id) in [
        ("split_from", details.split_from),
        ("merged_into", details.merged_into),
        ("replaces", details.replaces),
        ("replaced_by", details.replaced_by),
    ] {
        if let Some(id) = id {
            object.uuid(name, id.as_u128());
        }
    }
    for (name, ids) in [("split_into", &details.split_into), ("merged_from", &details.merged_from)] {
        if !ids.is_empty() {
            array(object.value(name), ids, put_id);
        }
    }
}

/// `pool` is the one that the reservation names.
fn line(out: &mut Vec<u8>, line: &Line, pool: Option<&Label>) {
    let mut object = Object::open(out);
    object.text("sku", line.item.sku());
    object.text("location", line.item.location());
    object.number("quantity", u64::from(line.quantity));
    object.number("requested_quantity", u64::from(line.requested));
    if line.units.is_none() {
        object.number("sequence", line.sequence);
    }
    if line.fulfilled > 0 {
        object.number("fulfilled_quantity", u64::from(line.fulfilled));
    }
    if line.returned > 0 {
        object.number("returned_quantity", u64::from(line.returned));
    }
    put_line_details(&mut object, line, pool);
    if line.units.is_some() {
        units::of_line(object.value("units"), line.units());
    }
    object.close();
}

/// Members that few lines have.
fn put_line_details(object: &mut Object<'_>, line: &Line, pool: Option<&Label>) {
    let Some(details) = &line.details else { return };
    if details.backordered > 0 {
        object.number("backordered_quantity", u64::from(details.backordered));
    }
    if let Some(at) = details.promised_at {
        object.time("promised_at", at);
    }
    pools::put_draws(object, &details.draws, pool);
    limits::put_counted(object, &details.counted);
    if let Some(price) = &details.price {
        prices::put_line_price(object, price);
    }
}

fn text_of(object: &mut Object<'_>, key: &ItemKey) {
    object.text("sku", key.sku());
    object.text("location", key.location());
}

/// A mode as requests and answers name it.
pub(crate) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Counted => "counted",
        Mode::Units => "units",
    }
}

/// An item. Its `ETag` is [`etag`] of its version.
pub fn item(out: &mut Vec<u8>, item: &Item) {
    let mut object = Object::open(out);
    object.text("sku", item.key.sku());
    object.text("location", item.key.location());
    object.word("mode", mode_name(item.mode));
    object.number("total_units", item.figures.total_units);
    object.number("confirmed_sold", item.figures.confirmed_sold);
    object.number("fulfilled_units", item.figures.fulfilled);
    object.number("unfulfilled_units", item.figures.confirmed_sold.saturating_sub(item.figures.fulfilled));
    object.number("on_hand", item.figures.total_units.saturating_sub(item.figures.fulfilled));
    object.number("held_units", item.figures.held);
    object.number("held_under_payment", item.figures.held_under_payment);
    object.number("safety_stock", item.settings.safety_stock);
    object.number("set_aside", item.pools.set_aside());
    object.number("oversell_allowance", item.settings.oversell_allowance);
    object.number("backordered", item.backordered());
    object.number("available", item.available());
    object.number("available_now", item.available_now());
    object.number("active_reservations", item.figures.active);
    object.flag("paused", item.paused);
    if item.mode == Mode::Counted {
        object.number("sequence", item.figures.sequence);
    }
    object.number("version", item.version);
    if let Some(ttl) = item.settings.default_ttl {
        object.number("default_ttl_seconds", u64::from(ttl.get()));
    }
    if let Some(ttl) = item.settings.max_hold {
        object.number("max_hold_seconds", u64::from(ttl.get()));
    }
    if let Some(longest) = item.settings.max_payment {
        object.number("max_payment_seconds", u64::from(longest.get()));
    }
    for (name, at) in
        [("sale_starts_at", item.settings.sale_starts_at), ("sale_ends_at", item.settings.sale_ends_at)]
    {
        if let Some(at) = at {
            object.time(name, at);
        }
    }
    if !item.settings.incoming.is_empty() {
        array(object.value("incoming"), &item.settings.incoming, |out, supply| {
            let mut object = Object::open(out);
            object.text("supply_id", supply.id.as_str());
            object.number("quantity", supply.quantity);
            object.time("available_from", supply.available_from);
            object.close();
        });
    }
    if item.settings.gated {
        object.flag("gated", true);
    }
    if let Some(price) = &item.settings.price {
        prices::put_price(object.value("price"), price);
    }
    if let Some(units) = item.settings.low_stock {
        object.number("low_stock", units);
    }
    if let Some(stock_master) = &item.settings.stock_master {
        object.text("stock_master", stock_master.as_str());
    }
    object.time("created_at", item.created_at);
    object.time("updated_at", item.figures.at);
    if let Some(metadata) = &item.settings.metadata {
        object.raw("metadata", metadata);
    }
    object.close();
}

/// An item's availability. `as_of` is the time at which the counters were true.
pub fn availability(out: &mut Vec<u8>, item: &Item, as_of: Instant) {
    let mut object = Object::open(out);
    object.text("sku_id", item.key.sku());
    object.text("sku", item.key.sku());
    object.text("location", item.key.location());
    object.number("available", item.available());
    object.number("available_now", item.available_now());
    object.number("active_reservations", item.figures.active);
    object.number("held_units", item.figures.held);
    if item.mode == Mode::Counted {
        object.number("sequence", item.figures.sequence);
    }
    object.time("as_of", as_of);
    object.close();
}

/// The pauses of the sale.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaleState {
    /// Whether it has a pause of its own.
    pub paused: bool,
    /// Other pauses that contain it, or that it contains. `None` when they are not known.
    pub also: Option<Vec<Scope>>,
    /// For a location: whether it has items.
    pub has_items: Option<bool>,
}

/// The pauses of the sale.
pub fn sale(out: &mut Vec<u8>, sale: &SaleState) {
    let mut object = Object::open(out);
    object.flag("paused", sale.paused);
    if let Some(also) = &sale.also {
        array(object.value("also_paused"), also, |out, scope| {
            let mut object = Object::open(out);
            put_scope(&mut object, scope);
            object.close();
        });
    }
    if let Some(has_items) = sale.has_items {
        object.flag("has_items", has_items);
    }
    object.close();
}

/// The scope of a pause, as members of an object.
pub(crate) fn put_scope(object: &mut Object<'_>, scope: &Scope) {
    match scope {
        Scope::Everything => object.word("scope", "everything"),
        Scope::Location(location) => {
            object.word("scope", "location");
            object.text("location", location.as_str());
        }
        Scope::Item(key) => {
            object.word("scope", "item");
            text_of(object, key);
        }
    }
}

/// The `ETag` of an item's version.
pub fn etag(version: u64) -> String {
    format!("\"{version}\"")
}

/// An instant as RFC 3339 in UTC with milliseconds, rounded down. Years without four digits are shown as the first or
/// the last possible instant.
pub fn time(at: Instant) -> String {
    json::rfc3339(at).iter().copied().map(char::from).collect()
}

/// Appends an id as a UUID.
pub fn uuid(out: &mut Vec<u8>, bits: u128) {
    json::put_uuid(out, bits);
}

/// A reservation's status in JSON.
pub fn status(status: Status) -> &'static str {
    match status {
        Status::Active => "active",
        Status::Confirmed => "confirmed",
        Status::Cancelled => "cancelled",
        Status::Expired => "expired",
    }
}
