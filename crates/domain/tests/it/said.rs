//! Outcomes in the words of the tables.

use crate::table::{changes, id_name, since_start, version};
use std::fmt::Write;
use stockhold_domain::{
    Hold, ItemKey, Label, LineUnit, Mode, Outcome, PaymentState, Rejection, Reply, SaleWindow, Scope,
    Shortage, Status, UnavailableUnits, UnitStatus,
};

/// An outcome in a few words.
pub(crate) fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done(reply) => said_reply(reply),
        Outcome::Replayed(reply) => format!("again {}", said_reply(reply)),
        Outcome::Refused(rejection) => said_rejection(rejection),
        Outcome::Later => "later".to_owned(),
    }
}

fn said_reply(reply: &Reply) -> String {
    match reply {
        Reply::Reservation(hold) => said_hold(hold),
        Reply::Item { item, created } => {
            let word = if *created { "created" } else { "item" };
            format!(
                "{word} total={} available={} v={}",
                item.figures.total_units,
                item.available(),
                changes(item)
            )
        }
        Reply::Units { item, added, unchanged } => {
            format!(
                "added {added} unchanged {unchanged} total={} v={}",
                item.figures.total_units,
                changes(item)
            )
        }
        Reply::ItemDeleted => "deleted".to_owned(),
        Reply::Sale { paused } => if *paused { "paused" } else { "open" }.to_owned(),
        Reply::Swept { expired, released: 0 } => format!("swept {expired}"),
        Reply::Swept { expired, released } => format!("swept {expired} released {released}"),
        Reply::Limit { limit, created } => {
            let word = if *created { "created" } else { "limit" };
            match &limit.terms {
                Some(terms) => {
                    format!("{word} most={} v={} g={}", terms.limit, limit.version, limit.generation)
                }
                None => format!("no limit v={}", limit.version),
            }
        }
        Reply::Record(record) => match &record.value {
            Some(value) => {
                format!("record {} v={}", std::str::from_utf8(value.as_bytes()).unwrap(), record.version)
            }
            None => format!("deleted v={}", record.version),
        },
    }
}

pub(crate) fn said_hold(hold: &Hold) -> String {
    let mut words = match hold.status {
        Status::Active => format!("active until {}", since_start(hold.expires_at)),
        Status::Confirmed => "confirmed".to_owned(),
        Status::Cancelled => "cancelled".to_owned(),
        Status::Expired => "expired".to_owned(),
    };
    if let Some(closing) = &hold.closing {
        write!(words, " at {}", since_start(closing.at)).unwrap();
        for (name, label) in [("order", &closing.order_id), ("reason", &closing.reason)] {
            if let Some(label) = label {
                write!(words, " {name}={label}").unwrap();
            }
        }
    }
    if let Some(payment) = &hold.details().payment {
        let state = match payment.state {
            PaymentState::Open => "paying",
            PaymentState::Closed => "unpaid",
            PaymentState::Lapsed => "lapsed",
            PaymentState::Completed => "paid",
        };
        write!(words, " {state} {} until {}", payment.id, since_start(payment.until)).unwrap();
    }
    for line in &*hold.lines {
        write!(words, " {}={}", said_item(&line.item), line.quantity).unwrap();
        if line.requested != line.quantity {
            write!(words, "/{}", line.requested).unwrap();
        }
        if line.fulfilled > 0 {
            write!(words, "+{}", line.fulfilled).unwrap();
        }
        if line.returned > 0 {
            write!(words, "-{}", line.returned).unwrap();
        }
        if line.details().backordered > 0 {
            write!(words, "~{}", line.details().backordered).unwrap();
        }
        for draw in &line.details().draws {
            write!(words, " ^{}={}", draw.pool, draw.units).unwrap();
        }
        for count in &line.details().counted {
            let subject = count.key.subject.name().map(|name| format!("({name})")).unwrap_or_default();
            write!(words, " #{}.{}{subject}={}", count.key.limit, count.key.generation, count.units).unwrap();
        }
        if let Some(at) = line.details().promised_at {
            write!(words, "@{}", since_start(at)).unwrap();
        }
        if line.units.is_some() {
            let mark = |unit: &LineUnit| match (unit.fulfilled, unit.returned) {
                (false, false) => "",
                (true, false) => "+",
                (_, true) => "-",
            };
            let units = line.units().iter().map(|unit| format!("{}.{}{}", unit.id, unit.version, mark(unit)));
            write!(words, "({})", units.collect::<Vec<_>>().join(" ")).unwrap();
        }
    }
    words
}

fn said_item(key: &ItemKey) -> String {
    if key.location() == Label::DEFAULT_LOCATION {
        key.sku().to_owned()
    } else {
        format!("{}/{}", key.location(), key.sku())
    }
}

#[expect(clippy::too_many_lines, reason = "one arm for each rejection")]
fn said_rejection(rejection: &Rejection) -> String {
    match rejection {
        Rejection::InvalidRequest(error) => {
            // People read it behind the pointer: "/delta must not bring …".
            let detail = &error.detail;
            assert!(
                ["must ", "is "].iter().any(|begins| detail.starts_with(begins)),
                "no sentence: {detail}"
            );
            assert!(!detail.ends_with('.'), "{detail}");
            format!("invalid_request {}", error.pointer).trim_end().to_owned()
        }
        Rejection::ModeMismatch { item, mode } => {
            let mode = if *mode == Mode::Units { "units" } else { "counted" };
            format!("mode_mismatch {} {mode}", said_item(item))
        }
        Rejection::UnknownItem(items) => {
            format!("unknown_item {}", items.iter().map(said_item).collect::<Vec<_>>().join(","))
        }
        Rejection::SalePaused(Scope::Everything) => "sale_paused everything".to_owned(),
        Rejection::SalePaused(Scope::Location(location)) => format!("sale_paused at={location}"),
        Rejection::SalePaused(Scope::Item(key)) => format!("sale_paused {}", said_item(key)),
        Rejection::OutsideSaleWindow { item, window } => {
            let window = match window {
                SaleWindow::NotStarted(at) => format!("starts {}", since_start(*at)),
                SaleWindow::Ended(at) => format!("ended {}", since_start(*at)),
            };
            format!("sale_paused {} {window}", said_item(item))
        }
        Rejection::CustomerRequired { limit_id } => format!("customer_required {limit_id}"),
        Rejection::LimitExceeded(limits) => {
            let limits = limits.iter().map(|one| {
                let subject = one.subject.as_ref().map(|name| format!("({name})")).unwrap_or_default();
                format!(" {}{subject}={}+{}>{}", one.limit_id, one.used, one.requested, one.limit)
            });
            format!("limit_exceeded{}", limits.collect::<String>())
        }
        Rejection::UnknownLimit(id) => format!("unknown_limit {id}"),
        Rejection::TooManyLimits => "too_many_limits".to_owned(),
        Rejection::PaymentMethodMissing { customer_id } => format!("payment_method_missing {customer_id}"),
        Rejection::PriceMissing(items) => {
            format!("price_missing {}", items.iter().map(said_item).collect::<Vec<_>>().join(","))
        }
        Rejection::PaymentNotCaptured(_) => "payment_not_captured".to_owned(),
        Rejection::RefundExceedsCaptured { requested, refundable, .. } => {
            format!("refund_exceeds_captured {requested}>{refundable}")
        }
        Rejection::ExceedsOnHand { item, requested, on_hand } => {
            format!("exceeds_on_hand {}={requested}>{on_hand}", said_item(item))
        }
        Rejection::StockOwnedElsewhere { item, stock_master } => {
            format!("stock_owned_elsewhere {} {stock_master}", said_item(item))
        }
        Rejection::UnknownSupply { item, supply_id } => {
            format!("unknown_supply {} {supply_id}", said_item(item))
        }
        Rejection::QuantityLimit { item, requested, limit } => {
            let item = item.as_ref().map_or("units".to_owned(), said_item);
            format!("quantity_limit {item}={requested}>{limit}")
        }
        Rejection::InsufficientInventory(short) => said_shortages(short),
        Rejection::UnitsUnavailable(taken) => said_unavailable(taken),
        Rejection::TtlTooLong { max } => format!("ttl_too_long {}", max.get()),
        Rejection::UnknownUnit { item, unit } => format!("unknown_unit {} {unit}", said_item(item)),
        Rejection::UnitInUse { item, unit, status } => {
            let word = if matches!(status, UnitStatus::Held(_)) { "held" } else { "sold" };
            format!("unit_in_use {} {unit} {word}", said_item(item))
        }
        Rejection::IdempotencyMismatch => "idempotency_mismatch".to_owned(),
        Rejection::UnknownReservation(id) => format!("unknown_reservation {}", id_name(*id)),
        Rejection::ReservationConfirmed { id, order_id, payment_id } => {
            let order = order_id.as_ref().map(|order| format!(" order={order}")).unwrap_or_default();
            let payment = payment_id.as_ref().map(|id| format!(" payment={id}")).unwrap_or_default();
            format!("reservation_confirmed {}{order}{payment}", id_name(*id))
        }
        Rejection::PaymentInProgress { id, payment_id, until } => {
            format!("payment_in_progress {} {payment_id} until {}", id_name(*id), since_start(*until))
        }
        Rejection::SplitExceedsHeld { item, requested, held } => {
            format!("split_exceeds_held {}={requested}>{held}", said_item(item))
        }
        Rejection::FulfilExceedsSold { item, requested, unfulfilled } => {
            format!("fulfil_exceeds_sold {}={requested}>{unfulfilled}", said_item(item))
        }
        Rejection::NotReacquired { id, refusal } => {
            format!("not_reacquired {}: {}", id_name(*id), said_rejection(refusal))
        }
        Rejection::ReservationCancelled(id) => format!("reservation_cancelled {}", id_name(*id)),
        Rejection::ReservationExpired { id, expires_at } => {
            format!("reservation_expired {} since {}", id_name(*id), since_start(*expires_at))
        }
        Rejection::ReservationNotConfirmed(id) => format!("reservation_not_confirmed {}", id_name(*id)),
        Rejection::ExtensionLimit { max_expires_at } => {
            format!("extension_limit {}", since_start(*max_expires_at))
        }
        Rejection::ReturnExceedsSold { item, requested, sold } => {
            format!("return_exceeds_sold {}={requested}>{sold}", said_item(item))
        }
        Rejection::BelowCommitted { confirmed_sold, held, total_units, set_aside } => {
            let aside = if *set_aside > 0 { format!(" aside={set_aside}") } else { String::new() };
            format!("below_committed sold={confirmed_sold} held={held} total={total_units}{aside}")
        }
        Rejection::UnknownPool { item, pool } => format!("unknown_pool {} {pool}", said_item(item)),
        Rejection::TooManyPools(item) => format!("too_many_pools {}", said_item(item)),
        Rejection::ItemInUse { confirmed_sold, held, units } => {
            format!("item_in_use sold={confirmed_sold} held={held} units={units}")
        }
        Rejection::PreconditionFailed { version: found } => match found {
            Some(of_item) if *of_item >= version(1) => {
                format!("precondition_failed v={}", of_item - version(1) + 1)
            }
            Some(of_reservation) => format!("precondition_failed v={of_reservation}"),
            None => "precondition_failed".to_owned(),
        },
        Rejection::RecordChanged { version } => format!("record_changed v={version}"),
        Rejection::AccessDenied { denied, replayed } => {
            format!("access_denied {denied:?} replayed={replayed}")
        }
    }
}

fn said_shortages(short: &[Shortage]) -> String {
    let mut words = "insufficient_inventory".to_owned();
    for line in short {
        let (item, asked, left) = (said_item(&line.item), line.requested, line.available);
        write!(words, " {item}={asked}>{left}").unwrap();
        if let Some(at) = line.next_expiry_at {
            write!(words, "@{}", since_start(at)).unwrap();
        }
        if !line.unknown_sections.is_empty() {
            let unknown: Vec<&str> = line.unknown_sections.iter().map(Label::as_str).collect();
            write!(words, " unknown=[{}]", unknown.join("+")).unwrap();
        }
    }
    words
}

fn said_unavailable(taken: &[UnavailableUnits]) -> String {
    let mut words = "units_unavailable".to_owned();
    for line in taken {
        let units: Vec<&str> = line.units.iter().map(Label::as_str).collect();
        write!(words, " {}=[{}]", said_item(&line.item), units.join("+")).unwrap();
        if !line.unknown.is_empty() {
            let unknown: Vec<&str> = line.unknown.iter().map(Label::as_str).collect();
            write!(words, " unknown=[{}]", unknown.join("+")).unwrap();
        }
        if let Some(at) = line.next_expiry_at {
            write!(words, " next={}", since_start(at)).unwrap();
        }
    }
    words
}
