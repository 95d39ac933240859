//! Commands as bytes, for the fingerprints that tell a repeated request from another one.

use super::terms::put_optional_terms;
use super::units;
use super::write::{
    put_bytes, put_i64, put_key, put_label, put_mode, put_option, put_record_change, put_record_key,
    put_scope, put_seconds, put_text, put_u64, put_u128,
};
use stockhold_domain::{
    Basket, BestAvailable, Command, Fulfilment, Label, Patch, Precondition, Reserve, ReturnSelection,
    SetStock, UnitSelection,
};

/// Appends the parameters of a command. Fingerprints are taken of these bytes. They are never read back.
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
            put_seconds(out, extend.ttl);
        }
        Command::Return(returned) => {
            out.push(4);
            put_u128(out, returned.id.as_u128());
            match &returned.selection {
                ReturnSelection::All => out.push(0),
                ReturnSelection::Lines(basket) => {
                    out.push(1);
                    put_basket(out, basket);
                    put_selections(out, basket);
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
            put_precondition(out, adjust.expected.as_ref());
        }
        Command::SetSale(set) => {
            out.push(7);
            put_scope(out, &set.scope);
            out.push(u8::from(set.paused));
            put_label(out, set.reason.as_ref());
        }
        Command::Sweep => out.push(8),
        Command::DeleteItem(delete) => {
            out.push(11);
            put_key(out, &delete.item);
            put_precondition(out, delete.expected.as_ref());
        }
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
        Command::SetRecord(set) => {
            out.push(11);
            put_record_key(out, &set.key);
            put_u64(out, set.expected_version);
            put_option(out, set.value.as_ref(), |out, value| put_bytes(out, value.as_bytes()));
            put_record_change(out, set.change);
        }
    }
}

fn put_reserve(out: &mut Vec<u8>, reserve: &Reserve) {
    put_text(out, reserve.terms.owner_id.as_str());
    put_basket(out, &reserve.basket);
    put_option(out, reserve.ttl, put_seconds);
    out.push(match reserve.fulfilment {
        Fulfilment::All => 0,
        Fulfilment::Partial => 1,
    });
    put_optional_terms(out, reserve.terms.optional.as_deref());
    put_selections(out, &reserve.basket);
}

fn put_basket(out: &mut Vec<u8>, basket: &Basket) {
    put_u64(out, basket.lines().len() as u64);
    for line in basket.lines() {
        put_key(out, &line.item);
        put_u64(out, line.quantity);
    }
}

/// The unit selections of a basket, one a line; nothing where no line has one.
fn put_selections(out: &mut Vec<u8>, basket: &Basket) {
    for selection in basket.selections().into_iter().flatten() {
        match selection {
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
    put_patch(out, &set.default_ttl, |out, ttl| put_seconds(out, *ttl));
    put_patch(out, &set.max_hold, |out, most| put_seconds(out, *most));
    put_patch(out, &set.metadata, |out, metadata| put_text(out, metadata));
    put_precondition(out, set.expected.as_ref());
}

fn put_patch<T>(out: &mut Vec<u8>, patch: &Patch<T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    match patch {
        Patch::Keep => out.push(0),
        Patch::Set(value) => {
            out.push(1);
            put(out, value);
        }
        Patch::Clear => out.push(2),
    }
}

fn put_precondition(out: &mut Vec<u8>, precondition: Option<&Precondition>) {
    match precondition {
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
