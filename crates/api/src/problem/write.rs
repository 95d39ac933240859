//! A problem as JSON: what all have in common first, then the reason's own fields.

use super::{Fields, Problem};
use crate::encode::json::{Object, array, put_text};
use crate::encode::{mode_name, put_scope, status_name};
use stockhold_domain::{ItemKey, Label, RequestId, SaleWindow, Shortage, UnavailableUnits};
use stockhold_service::MissingPermission;

impl Problem {
    /// Appends the problem as JSON.
    pub fn write(&self, out: &mut Vec<u8>, request_id: &RequestId) {
        let reason = self.reason;
        let mut object = Object::open(out);
        let kind = object.value("type");
        kind.extend_from_slice(b"\"/problems/");
        kind.extend_from_slice(reason.name().as_bytes());
        kind.push(b'"');
        object.word("title", reason.title());
        object.number("status", u64::from(reason.status()));
        object.text("detail", &self.detail);
        object.word("reason", reason.name());
        object.flag("retryable", reason.retryable());
        match request_id {
            RequestId::Made(bits) => object.uuid("request_id", *bits),
            RequestId::Given(text) => object.text("request_id", text.as_str()),
        }
        self.fields.write(&mut object);
        object.close();
    }
}

impl Fields {
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of fields")]
    fn write(&self, object: &mut Object<'_>) {
        match self {
            Self::None => {}
            Self::Errors(errors) => array(object.value("errors"), errors, |out, error| {
                let mut object = Object::open(out);
                object.word("in", error.location.name());
                object.text("pointer", &error.pointer);
                object.text("detail", &error.detail);
                object.close();
            }),
            Self::Items(items) => array(object.value("items"), items, |out, key| {
                let mut object = Object::open(out);
                put_key(&mut object, key);
                object.close();
            }),
            Self::Scope(scope) => put_scope(object, scope),
            Self::Quantity { item, requested, limit } => {
                if let Some(item) = item {
                    put_key(object, item);
                }
                object.number("requested_quantity", *requested);
                object.number("limit", *limit);
            }
            Self::UnavailableUnits(lines) => put_unavailable(object, lines),
            Self::Unit { unit, shows_holder } => {
                let (item, unit, status) = &**unit;
                put_key(object, item);
                object.text("unit_id", unit.as_str());
                if let Some(status) = status {
                    object.word("unit_status", status_name(*status));
                    if let Some(id) = status.holder().filter(|_| *shows_holder) {
                        object.uuid("reservation_id", id.as_u128());
                    }
                }
            }
            Self::Shortages(lines) => {
                array(object.value("lines"), lines, put_shortage);
                if let [only] = &**lines {
                    put_availability(object, only);
                }
                put_approximate(object, lines.iter().any(|line| line.approximate));
            }
            Self::ExpiresAt(at) => object.time("expires_at", *at),
            Self::MaxTtl(max) => object.number("max_ttl_seconds", u64::from(max.get())),
            Self::Mode(item, mode) => {
                put_key(object, item);
                object.word("mode", mode_name(*mode));
            }
            Self::NewestPosition(position) => object.number("newest_position", *position),
            Self::ArchivedThrough(position) => object.number("archived_through", *position),
            Self::MaxExpiresAt(at) => object.time("max_expires_at", *at),
            Self::ReturnExceeds { item, requested, sold } => {
                put_key(object, item);
                object.number("requested_quantity", *requested);
                object.number("confirmed_sold", *sold);
            }
            Self::BelowCommitted { confirmed_sold, held, total_units, set_aside } => {
                object.number("confirmed_sold", *confirmed_sold);
                object.number("held_units", *held);
                object.number("total_units", *total_units);
                object.number("set_aside", *set_aside);
                let promised = confirmed_sold.saturating_add(*held).saturating_add(*set_aside);
                object.number("free", total_units.saturating_sub(promised));
            }
            Self::Pool { item, pool } => {
                put_key(object, item);
                object.text("pool", pool.as_str());
            }
            Self::ItemLimit { item, limit } => {
                put_key(object, item);
                object.number("limit", *limit);
            }
            Self::ItemInUse { confirmed_sold, held, units } => {
                object.number("confirmed_sold", *confirmed_sold);
                object.number("held_units", *held);
                object.number("unit_count", *units);
            }
            Self::LimitId(id) => object.text("limit_id", id.as_str()),
            Self::ExceededLimits(limits) => array(object.value("limits"), limits, |out, limit| {
                let mut object = Object::open(out);
                object.text("limit_id", limit.limit_id.as_str());
                object.optional_text("subject", limit.subject.as_ref().map(Label::as_str));
                object.number("limit", limit.limit);
                object.number("used", limit.used);
                object.number("requested", limit.requested);
                object.close();
            }),
            Self::SaleWindow { item, window } => {
                object.word("scope", "item");
                put_key(object, item);
                match window {
                    SaleWindow::NotStarted(at) => object.time("starts_at", *at),
                    SaleWindow::Ended(at) => object.time("ended_at", *at),
                }
            }
            Self::OnHand { item, requested, on_hand } => {
                put_key(object, item);
                object.number("requested_quantity", *requested);
                object.number("on_hand", *on_hand);
            }
            Self::Supply { item, supply_id } => {
                put_key(object, item);
                object.text("supply_id", supply_id.as_str());
            }
            Self::StockMaster { item, stock_master } => {
                put_key(object, item);
                object.text("stock_master", stock_master.as_str());
            }
            Self::Version(version) => object.number("version", *version),
            Self::Limit(limit) => object.number("limit", *limit),
            Self::Confirmed { order_id, payment_id } => {
                object.optional_text("order_id", order_id.as_ref().map(Label::as_str));
                object.optional_text("payment_id", payment_id.as_ref().map(Label::as_str));
            }
            Self::Payment { payment_id, until } => {
                object.text("payment_id", payment_id.as_str());
                object.time("until", *until);
            }
            Self::Declined { payment_id, provider_code } => {
                object.text("payment_id", payment_id.as_str());
                object.optional_text("provider_code", provider_code.as_ref().map(Label::as_str));
            }
            Self::Refundable(amount) => object.number("refundable", *amount),
            Self::SplitExceeds { item, requested, held } => {
                put_key(object, item);
                object.number("requested_quantity", *requested);
                object.number("held_units", *held);
            }
            Self::FulfilExceeds { item, requested, unfulfilled } => {
                put_key(object, item);
                object.number("requested_quantity", *requested);
                object.number("unfulfilled_units", *unfulfilled);
            }
            Self::Replayed(fields) => {
                object.flag("replayed", true);
                fields.write(object);
            }
            Self::NotReacquired(fields) => {
                object.flag("reservation_expired", true);
                fields.write(object);
            }
            Self::Credential(fault) => object.word("credential", fault.name()),
            Self::Missing(missing) => put_missing(object.value("missing"), missing),
            Self::RetryAfterSeconds(seconds) => object.number("retry_after_seconds", *seconds),
        }
    }
}

fn put_unavailable(object: &mut Object<'_>, lines: &[UnavailableUnits]) {
    // All lines have to fit, so the latest of their first expiries is when another try makes sense.
    let chance = lines.iter().map(|line| line.next_expiry_at).collect::<Option<Vec<_>>>();
    if let Some(at) = chance.and_then(|times| times.into_iter().max()) {
        object.time("next_expiry_at", at);
    }
    array(object.value("taken"), lines, |out, line| {
        let mut object = Object::open(out);
        put_key(&mut object, &line.item);
        array(object.value("units"), &line.units, |out, unit| put_text(out, unit.as_str()));
        object.close();
    });
    let all = lines.iter().flat_map(|line| &line.units);
    array(object.value("units"), all, |out, unit| put_text(out, unit.as_str()));
    let unknown = lines.iter().flat_map(|line| &line.unknown);
    if unknown.clone().next().is_some() {
        array(object.value("unknown_units"), unknown, |out, unit| put_text(out, unit.as_str()));
    }
}

fn put_missing(out: &mut Vec<u8>, missing: &MissingPermission) {
    let mut object = Object::open(out);
    match missing {
        MissingPermission::Scope(scope) => object.word("scope", scope.name()),
        MissingPermission::Location(location) => put_one_or_all(&mut object, "location", location.as_ref()),
        MissingPermission::Channel(channel) => put_one_or_all(&mut object, "channel", channel.as_ref()),
    }
    object.close();
}

/// `null` stands for all of them.
fn put_one_or_all(object: &mut Object<'_>, name: &'static str, label: Option<&Label>) {
    match label {
        Some(label) => object.text(name, label.as_str()),
        None => object.value(name).extend_from_slice(b"null"),
    }
}

fn put_shortage(out: &mut Vec<u8>, line: &Shortage) {
    let mut object = Object::open(out);
    put_key(&mut object, &line.item);
    object.number("requested_quantity", line.requested);
    put_availability(&mut object, line);
    put_approximate(&mut object, line.approximate);
    object.close();
}

fn put_availability(object: &mut Object<'_>, line: &Shortage) {
    object.number("available", line.available);
    if let Some(at) = line.next_expiry_at {
        object.time("next_expiry_at", at);
    }
    if !line.unknown_sections.is_empty() {
        array(object.value("unknown_sections"), &line.unknown_sections, |out, section| {
            put_text(out, section.as_str());
        });
    }
}

/// Left out where the store itself knows the number.
fn put_approximate(object: &mut Object<'_>, approximate: bool) {
    if approximate {
        object.flag("approximate", true);
    }
}

fn put_key(object: &mut Object<'_>, key: &ItemKey) {
    object.text("sku", key.sku());
    object.text("location", key.location());
}
