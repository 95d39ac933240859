//! Commands as bytes, for the fingerprints that tell a repeated request from another one.

use super::changes::put_ids;
use super::charges::{put_checkout_terms, put_report};
use super::limits::put_terms;
use super::pools::put_pool_terms;
use super::prices::put_price;
use super::settings::put_supplies;
use super::terms::put_optional_terms;
use super::units;
use super::write::{
    put_bytes, put_i64, put_key, put_label, put_mode, put_option, put_record_change, put_record_key,
    put_scope, put_seconds, put_text, put_u64, put_u128,
};
use stockhold_domain::{
    Basket, BestAvailable, CheckoutRequest, Command, Disposition, Fulfilment, IfExpired, Label, Patch,
    PaymentStep, PoolSelection, Precondition, RefundSelection, Reserve, ReturnFrom, SaleSelection, SetStock,
    ShelfCount, Strategy, UnitSelection,
};

/// Appends the parameters of a command. Fingerprints are taken of these bytes. They are never read back.
#[expect(clippy::too_many_lines, reason = "one arm for each command")]
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
            put_label(out, confirm.payment_id.as_ref());
            out.push(match confirm.if_expired {
                IfExpired::Refuse => 0,
                IfExpired::Reacquire => 1,
            });
            out.push(u8::from(confirm.override_limits));
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
        Command::Amend(amend) => {
            out.push(13);
            put_u128(out, amend.id.as_u128());
            put_option(out, amend.basket.as_ref(), put_lines);
            put_fulfilment(out, amend.fulfilment);
            put_option(out, amend.ttl, put_seconds);
            put_patch(out, &amend.metadata, |out, metadata| put_text(out, metadata));
            out.push(u8::from(amend.override_limits));
            put_precondition(out, amend.expected.as_ref());
        }
        Command::Transfer(transfer) => {
            out.push(14);
            put_u128(out, transfer.id.as_u128());
            put_label(out, transfer.owner_id.as_ref());
            put_patch(out, &transfer.customer_id, |out, id| put_text(out, id.as_str()));
            put_patch(out, &transfer.session_id, |out, id| put_text(out, id.as_str()));
            out.push(u8::from(transfer.override_limits));
            put_precondition(out, transfer.expected.as_ref());
        }
        Command::Split(split) => {
            out.push(15);
            put_u128(out, split.id.as_u128());
            put_lines(out, &split.lines);
            put_precondition(out, split.expected.as_ref());
        }
        Command::Merge(merge) => {
            out.push(16);
            put_u128(out, merge.id.as_u128());
            put_ids(out, &merge.from);
            out.push(u8::from(merge.override_limits));
            put_precondition(out, merge.expected.as_ref());
        }
        Command::OpenPayment(open) => {
            out.push(17);
            put_u128(out, open.id.as_u128());
            put_text(out, open.payment_id.as_str());
            put_option(out, open.window, put_seconds);
            put_precondition(out, open.expected.as_ref());
        }
        Command::ClosePayment(close) => {
            out.push(18);
            put_u128(out, close.id.as_u128());
            put_label(out, close.payment_id.as_ref());
            put_label(out, close.reason.as_ref());
        }
        Command::StartCheckout(start) => {
            out.push(25);
            put_u128(out, start.id.as_u128());
            put_checkout_request(out, &start.request);
            put_precondition(out, start.expected.as_ref());
        }
        Command::AdvancePayment(advance) => {
            out.push(26);
            put_u128(out, advance.id.as_u128());
            match &advance.step {
                PaymentStep::Reported { version, report, wait_ms } => {
                    out.push(0);
                    put_u64(out, *version);
                    put_report(out, report);
                    put_u64(out, *wait_ms);
                }
                PaymentStep::Cancel => out.push(1),
                PaymentStep::RetryRefund => out.push(2),
                PaymentStep::Wake => out.push(3),
            }
        }
        Command::Refund(refund) => {
            out.push(27);
            put_u128(out, refund.id.as_u128());
            match &refund.selection {
                RefundSelection::Rest => out.push(0),
                RefundSelection::Amount(amount) => {
                    out.push(1);
                    put_u64(out, *amount);
                }
                RefundSelection::Lines { selection, disposition } => {
                    out.push(2);
                    put_sale_selection(out, selection);
                    put_disposition(out, *disposition);
                }
            }
            put_text(out, refund.reason.as_str());
        }
        Command::Fulfil(fulfil) => {
            out.push(19);
            put_u128(out, fulfil.id.as_u128());
            put_sale_selection(out, &fulfil.selection);
        }
        Command::Return(returned) => {
            out.push(4);
            put_u128(out, returned.id.as_u128());
            put_sale_selection(out, &returned.selection);
            put_option(out, returned.from, |out, from| {
                out.push(match from {
                    ReturnFrom::Unfulfilled => 0,
                    ReturnFrom::Fulfilled => 1,
                });
            });
            put_disposition(out, returned.disposition);
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
            put_label(out, adjust.supply_id.as_ref());
            out.push(u8::from(adjust.override_owner));
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
            out.push(12);
            put_record_key(out, &set.key);
            put_u64(out, set.expected_version);
            put_option(out, set.value.as_ref(), |out, value| put_bytes(out, value.as_bytes()));
            put_record_change(out, set.change);
        }
        Command::SetLimit(set) => {
            out.push(20);
            put_text(out, set.id.as_str());
            put_terms(out, &set.terms);
            put_precondition(out, set.expected.as_ref());
        }
        Command::SetPool(set) => {
            out.push(22);
            put_key(out, &set.item);
            put_text(out, set.pool.as_str());
            put_pool_terms(out, &set.terms(set.allocated.unwrap_or(0)));
            out.push(u8::from(set.allocated.is_some()));
            put_precondition(out, set.expected.as_ref());
        }
        Command::SetUnitPool(set) => {
            out.push(24);
            put_key(out, &set.item);
            put_text(out, set.pool.as_str());
            out.push(u8::from(set.puts_in));
            let (kind, names) = match &set.units {
                PoolSelection::Units(ids) => (0, ids),
                PoolSelection::Sections(names) => (1, names),
            };
            out.push(kind);
            put_u64(out, names.len() as u64);
            for name in names {
                put_text(out, name.as_str());
            }
            put_precondition(out, set.expected.as_ref());
        }
        Command::DeletePool(delete) => {
            out.push(23);
            put_key(out, &delete.item);
            put_text(out, delete.pool.as_str());
            put_precondition(out, delete.expected.as_ref());
        }
        Command::DeleteLimit(delete) => {
            out.push(21);
            put_text(out, delete.id.as_str());
            put_precondition(out, delete.expected.as_ref());
        }
    }
}

fn put_reserve(out: &mut Vec<u8>, reserve: &Reserve) {
    put_text(out, reserve.terms.owner_id.as_str());
    put_basket(out, &reserve.basket);
    put_option(out, reserve.ttl, put_seconds);
    put_fulfilment(out, reserve.fulfilment);
    put_optional_terms(out, reserve.terms.optional.as_deref());
    put_selections(out, &reserve.basket);
    out.push(u8::from(reserve.override_limits));
    put_sources(out, &reserve.basket);
    put_option(out, reserve.checkout.as_deref(), put_checkout_request);
}

fn put_checkout_request(out: &mut Vec<u8>, request: &CheckoutRequest) {
    put_label(out, request.order_id.as_ref());
    put_checkout_terms(out, &request.terms);
    put_option(out, request.window, put_seconds);
}

fn put_fulfilment(out: &mut Vec<u8>, fulfilment: Fulfilment) {
    out.push(match fulfilment {
        Fulfilment::All => 0,
        Fulfilment::Partial => 1,
    });
}

fn put_disposition(out: &mut Vec<u8>, disposition: Disposition) {
    out.push(match disposition {
        Disposition::Restock => 0,
        Disposition::WriteOff => 1,
    });
}

fn put_sale_selection(out: &mut Vec<u8>, selection: &SaleSelection) {
    match selection {
        SaleSelection::All => out.push(0),
        SaleSelection::Lines(basket) => {
            out.push(1);
            put_lines(out, basket);
        }
        SaleSelection::Units(units) => {
            out.push(2);
            put_labels(out, units);
        }
    }
}

/// The lines of a basket with their unit selections.
fn put_lines(out: &mut Vec<u8>, basket: &Basket) {
    put_basket(out, basket);
    put_selections(out, basket);
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

/// The sources of a basket, one a line; nothing where no line has one.
fn put_sources(out: &mut Vec<u8>, basket: &Basket) {
    for source in basket.sources().into_iter().flatten() {
        put_option(out, source.as_ref(), |out, source| {
            out.push(match source.strategy() {
                Strategy::Priority => 0,
                Strategy::MostStock => 1,
                Strategy::Single => 2,
            });
            put_u64(out, source.items().len() as u64);
            source.items().iter().for_each(|item| put_key(out, item));
        });
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
    put_option(out, set.shelf, |out, ShelfCount { on_hand, fulfilled_seen }| {
        put_u64(out, on_hand);
        put_option(out, fulfilled_seen, put_u64);
    });
    put_option(out, set.mode, put_mode);
    put_option(out, set.safety_stock, put_u64);
    put_patch(out, &set.default_ttl, |out, ttl| put_seconds(out, *ttl));
    put_patch(out, &set.max_hold, |out, most| put_seconds(out, *most));
    put_patch(out, &set.max_payment, |out, most| put_seconds(out, *most));
    put_patch(out, &set.metadata, |out, metadata| put_text(out, metadata));
    put_option(out, set.oversell_allowance, put_u64);
    put_patch(out, &set.sale_starts_at, |out, at| put_i64(out, at.micros()));
    put_patch(out, &set.sale_ends_at, |out, at| put_i64(out, at.micros()));
    put_option(out, set.incoming.as_deref(), put_supplies);
    put_patch(out, &set.gated, |out, gated| out.push(u8::from(*gated)));
    put_patch(out, &set.price, |out, price| put_price(out, price));
    put_patch(out, &set.low_stock, |out, units| put_u64(out, *units));
    put_patch(out, &set.stock_master, |out, master| put_text(out, master.as_str()));
    out.push(u8::from(set.override_owner));
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
