//! Records as bytes. Logs keep them for good: a form that is in use does not change, and what is new gets a tag of its own.

use super::units;
use stockhold_domain::{
    Basket, BestAvailable, Closing, Command, Event, Fulfilment, Hold, HoldChange, Item, ItemKey, KeyRecord,
    KeyTarget, Label, Line, Mode, Origin, Patch, Precondition, RequestId, Reserve, ReturnSelection, Scope,
    Seconds, SetStock, Settings, Status, StockChange, StockCounters, Terms, Trace, Transition, UnitSelection,
};

/// Beside a hold's status: its lines tell their units.
pub(super) const WITH_UNITS: u8 = 8;

/// Appends an unsigned integer.
pub fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

#[expect(clippy::cast_sign_loss, reason = "zigzag")]
pub(super) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends an id.
pub fn put_u128(out: &mut Vec<u8>, value: u128) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a text.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_u64(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        None => out.push(0),
        Some(value) => {
            out.push(1);
            put(out, value);
        }
    }
}

pub(super) fn put_label(out: &mut Vec<u8>, label: Option<&Label>) {
    put_option(out, label.map(Label::as_str), put_text);
}

fn put_seconds(out: &mut Vec<u8>, seconds: Option<Seconds>) {
    put_option(out, seconds, |out, seconds| put_u64(out, u64::from(seconds.get())));
}

pub(super) fn put_key(out: &mut Vec<u8>, key: &ItemKey) {
    put_text(out, key.location());
    put_text(out, key.sku());
}

/// Appends an event.
pub fn put_event(out: &mut Vec<u8>, event: &Event) {
    put_u128(out, event.id.as_u128());
    put_i64(out, event.at.micros());
    put_origin(out, &event.origin);
    put_option(out, event.previous, |out, id| put_u128(out, id.as_u128()));
    match &event.transition {
        Transition::Hold { change, hold, figures } => {
            out.push(match change {
                HoldChange::Created => 0,
                HoldChange::Extended => 1,
                HoldChange::Confirmed => 2,
                HoldChange::Cancelled => 3,
                HoldChange::Expired => 4,
                HoldChange::Returned { units, .. } if units.is_empty() => 5,
                HoldChange::Returned { .. } => 6,
            });
            if let HoldChange::Returned { quantities, units, reason } = change {
                put_u64(out, quantities.len() as u64);
                for quantity in quantities {
                    put_u64(out, u64::from(*quantity));
                }
                if !units.is_empty() {
                    units::put_back(out, units);
                }
                put_text(out, reason.as_str());
            }
            put_hold(out, hold);
            for figures in figures {
                put_figures(out, figures);
            }
        }
        Transition::Stock { change, item } => {
            match change {
                StockChange::Set => out.push(16),
                StockChange::Adjusted { delta, reason } => {
                    out.push(17);
                    put_i64(out, *delta);
                    put_text(out, reason.as_str());
                }
                StockChange::UnitsAdded(units) => {
                    out.push(18);
                    units::put_added(out, units);
                }
                StockChange::UnitRetired(unit) => {
                    out.push(19);
                    put_text(out, unit.as_str());
                }
            }
            put_item(out, item);
        }
        Transition::Sale { scope, paused, reason } => {
            out.push(32);
            put_scope(out, scope);
            out.push(u8::from(*paused));
            put_label(out, reason.as_ref());
        }
    }
}

fn put_origin(out: &mut Vec<u8>, origin: &Origin) {
    put_text(out, origin.actor.as_str());
    match &origin.request_id {
        RequestId::Made(id) => {
            out.push(0);
            put_u128(out, *id);
        }
        RequestId::Given(text) => {
            out.push(1);
            put_text(out, text.as_str());
        }
    }
    put_option(out, origin.trace, |out, Trace { trace_id, span_id, flags }| {
        put_u128(out, trace_id);
        put_u64(out, span_id);
        out.push(flags);
    });
}

/// Appends a hold.
pub fn put_hold(out: &mut Vec<u8>, hold: &Hold) {
    put_u128(out, hold.id.as_u128());
    let named = hold.lines.iter().any(|line| line.units.is_some());
    let status = match hold.status {
        Status::Active => 0,
        Status::Confirmed => 1,
        Status::Cancelled => 2,
        Status::Expired => 3,
    };
    out.push(if named { status | WITH_UNITS } else { status });
    put_i64(out, hold.expires_at.micros());
    put_terms(out, &hold.terms);
    put_u64(out, hold.lines.len() as u64);
    for line in &*hold.lines {
        let Line { item, requested, quantity, returned, sequence, .. } = line;
        put_key(out, item);
        put_u64(out, u64::from(*requested));
        put_u64(out, u64::from(*quantity));
        put_u64(out, u64::from(*returned));
        put_u64(out, *sequence);
        if named {
            units::put_line_units(out, line);
        }
    }
    put_option(out, hold.closing.as_deref(), |out, Closing { at, reason, order_id }| {
        put_i64(out, at.micros());
        put_label(out, reason.as_ref());
        put_label(out, order_id.as_ref());
    });
    put_u128(out, hold.last_event.as_u128());
}

fn put_terms(out: &mut Vec<u8>, terms: &Terms) {
    put_text(out, terms.owner_id.as_str());
    put_i64(out, terms.created_at.micros());
    put_i64(out, terms.max_expires_at.micros());
    put_option(out, terms.extras.as_deref(), |out, extras| {
        put_label(out, extras.channel.as_ref());
        put_label(out, extras.customer_id.as_ref());
        put_label(out, extras.session_id.as_ref());
        put_option(out, extras.metadata.as_deref(), put_text);
    });
}

fn put_figures(out: &mut Vec<u8>, figures: &StockCounters) {
    let StockCounters { total_units, confirmed_sold, held, active, sequence, at } = figures;
    for figure in [total_units, confirmed_sold, held, active, sequence] {
        put_u64(out, *figure);
    }
    put_i64(out, at.micros());
}

/// Appends an item.
pub fn put_item(out: &mut Vec<u8>, item: &Item) {
    put_key(out, &item.key);
    put_mode(out, item.mode);
    put_figures(out, &item.figures);
    let Settings { safety_stock, default_ttl, max_hold, metadata } = &*item.settings;
    put_u64(out, *safety_stock);
    put_seconds(out, *default_ttl);
    put_seconds(out, *max_hold);
    put_option(out, metadata.as_deref(), put_text);
    put_u64(out, item.version);
    out.push(u8::from(item.paused));
    put_i64(out, item.created_at.micros());
}

fn put_mode(out: &mut Vec<u8>, mode: Mode) {
    out.push(match mode {
        Mode::Counted => 0,
        Mode::Units => 1,
    });
}

fn put_scope(out: &mut Vec<u8>, scope: &Scope) {
    match scope {
        Scope::Everything => out.push(0),
        Scope::Location(location) => {
            out.push(1);
            put_text(out, location.as_str());
        }
        Scope::Item(key) => {
            out.push(2);
            put_key(out, key);
        }
    }
}

/// Appends a used key.
pub fn put_key_record(out: &mut Vec<u8>, record: &KeyRecord) {
    put_u128(out, record.hash.0);
    put_u128(out, record.fingerprint.0);
    match &record.target {
        KeyTarget::Reservation(id) => {
            out.push(0);
            put_u128(out, id.as_u128());
        }
        KeyTarget::Item(key) => {
            out.push(1);
            put_key(out, key);
        }
    }
    put_i64(out, record.at.micros());
}

/// Appends what a command asks, for its fingerprint. It is never read back.
pub fn put_command(out: &mut Vec<u8>, command: &Command) {
    match command {
        Command::Reserve(reserve) => {
            out.push(0);
            put_reserve(out, reserve);
        }
        Command::Confirm(confirm) => {
            out.push(1);
            put_u128(out, confirm.id.as_u128());
            put_label(out, confirm.order_id.as_ref());
        }
        Command::Release(release) => {
            out.push(2);
            put_u128(out, release.id.as_u128());
            put_label(out, release.reason.as_ref());
        }
        Command::Extend(extend) => {
            out.push(3);
            put_u128(out, extend.id.as_u128());
            put_seconds(out, Some(extend.ttl));
        }
        Command::Return(returned) => {
            out.push(4);
            put_u128(out, returned.id.as_u128());
            match &returned.selection {
                ReturnSelection::All => out.push(0),
                ReturnSelection::Lines(basket) => {
                    out.push(1);
                    put_basket(out, basket);
                    put_choices(out, basket);
                }
                ReturnSelection::Units(units) => {
                    out.push(2);
                    put_labels(out, units);
                }
            }
            put_text(out, returned.reason.as_str());
        }
        Command::SetStock(set) => {
            out.push(5);
            put_set_stock(out, set);
        }
        Command::AdjustStock(adjust) => {
            out.push(6);
            put_key(out, &adjust.item);
            put_i64(out, adjust.delta);
            put_text(out, adjust.reason.as_str());
            put_expected(out, adjust.expected.as_ref());
        }
        Command::SetSale(set) => {
            out.push(7);
            put_scope(out, &set.scope);
            out.push(u8::from(set.paused));
            put_label(out, set.reason.as_ref());
        }
        Command::Sweep => out.push(8),
        Command::AddUnits(add) => {
            out.push(9);
            put_key(out, &add.item);
            put_u64(out, add.units.len() as u64);
            for unit in &add.units {
                put_text(out, unit.id.as_str());
                put_option(out, unit.position, put_u64);
                for label in [&unit.section, &unit.row, &unit.number] {
                    put_label(out, label.as_ref());
                }
                units::put_attributes(out, &unit.attributes);
            }
        }
        Command::RetireUnit(retire) => {
            out.push(10);
            put_key(out, &retire.item);
            put_text(out, retire.unit.as_str());
        }
    }
}

fn put_reserve(out: &mut Vec<u8>, reserve: &Reserve) {
    put_text(out, reserve.owner_id.as_str());
    put_basket(out, &reserve.basket);
    put_seconds(out, reserve.ttl);
    out.push(match reserve.fulfilment {
        Fulfilment::All => 0,
        Fulfilment::Partial => 1,
    });
    for label in [&reserve.pool, &reserve.channel, &reserve.customer_id, &reserve.session_id] {
        put_label(out, label.as_ref());
    }
    put_option(out, reserve.metadata.as_deref(), put_text);
    put_choices(out, &reserve.basket);
}

fn put_basket(out: &mut Vec<u8>, basket: &Basket) {
    put_u64(out, basket.lines().len() as u64);
    for want in basket.lines() {
        put_key(out, &want.item);
        put_u64(out, want.quantity);
    }
}

/// What is said of units, which comes last and only when anything is: a basket of counted stock has the form that it always
/// had.
fn put_choices(out: &mut Vec<u8>, basket: &Basket) {
    for choice in basket.selections().into_iter().flatten() {
        match choice {
            None => out.push(0),
            Some(UnitSelection::Named(units)) => {
                out.push(1);
                put_labels(out, units);
            }
            Some(UnitSelection::BestAvailable(BestAvailable {
                adjacent,
                sections,
                min_together,
                attributes,
            })) => {
                out.push(2);
                out.push(u8::from(*adjacent));
                put_labels(out, sections);
                put_option(out, min_together.map(u64::from), put_u64);
                units::put_attributes(out, attributes);
            }
        }
    }
}

fn put_labels(out: &mut Vec<u8>, labels: &[Label]) {
    put_u64(out, labels.len() as u64);
    for label in labels {
        put_text(out, label.as_str());
    }
}

fn put_set_stock(out: &mut Vec<u8>, set: &SetStock) {
    put_key(out, &set.item);
    put_option(out, set.total_units, put_u64);
    put_option(out, set.mode, put_mode);
    put_option(out, set.safety_stock, put_u64);
    put_setting(out, &set.default_ttl, |out, ttl| put_u64(out, u64::from(ttl.get())));
    put_setting(out, &set.max_hold, |out, most| put_u64(out, u64::from(most.get())));
    put_setting(out, &set.metadata, |out, metadata| put_text(out, metadata));
    put_expected(out, set.expected.as_ref());
}

fn put_setting<T>(out: &mut Vec<u8>, setting: &Patch<T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    match setting {
        Patch::Keep => out.push(0),
        Patch::Set(value) => {
            out.push(1);
            put(out, value);
        }
        Patch::Clear => out.push(2),
    }
}

/// One version is written as it was when there was nothing else to expect.
fn put_expected(out: &mut Vec<u8>, expected: Option<&Precondition>) {
    match expected {
        None => out.push(0),
        Some(Precondition::VersionIn(versions)) => match &**versions {
            [only] => put_option(out, Some(*only), put_u64),
            several => {
                out.push(2);
                put_u64(out, several.len() as u64);
                for version in several {
                    put_u64(out, *version);
                }
            }
        },
        Some(Precondition::Exists) => out.push(3),
        Some(Precondition::Absent) => out.push(4),
    }
}
