//! A refusal of the rules as a problem: every sentence carries the figures and what to do next.

use super::{Fields, NAMED_IN_DETAIL, Problem, Reason, grouped};
use crate::decode::Invalid;
use crate::encode::time;
use std::fmt::Write;
use stockhold_domain::limits::{LIMITS, POOLS};
use stockhold_domain::{
    ExceededLimit, Instant, ItemKey, Label, Mode, Rejection, ReservationId, SaleWindow, Scope, Shortage,
    UnavailableUnits, UnitStatus,
};

/// Limits that a sentence names. The members of the problem have all of them.
const SHOWN_LIMITS: usize = 3;

impl From<Rejection> for Problem {
    #[expect(clippy::too_many_lines, reason = "one arm for each rejection")]
    fn from(rejection: Rejection) -> Self {
        let reason = Reason::of(&rejection);
        let (detail, fields) = match rejection {
            Rejection::InvalidRequest(error) => {
                return Self::invalid("The request is not possible", Invalid { errors: vec![error.into()] });
            }
            Rejection::AccessDenied { denied, replayed } => {
                let problem = Self::denied(denied);
                return if replayed { problem.replayed() } else { problem };
            }
            Rejection::TtlTooLong { max } => (
                format!(
                    "ttl_seconds is above the longest hold, which is {} seconds. Send at most {0}.",
                    max.get()
                ),
                Fields::MaxTtl(max),
            ),
            Rejection::ModeMismatch { item, mode } => (other_mode(&item, mode), Fields::Mode(item, mode)),
            Rejection::UnknownItem(items) => (unknown_items(&items), Fields::Items(items)),
            Rejection::SalePaused(scope) => (paused(&scope), Fields::Scope(scope)),
            Rejection::OutsideSaleWindow { item, window } => {
                (not_on_sale(&item, window), Fields::SaleWindow { item, window })
            }
            Rejection::CustomerRequired { limit_id } => {
                let detail = format!(
                    "Limit \"{limit_id}\" counts units for each customer, and the request names none. Send customer_id."
                );
                (detail, Fields::LimitId(limit_id))
            }
            Rejection::LimitExceeded(limits) => (exceeded(&limits), Fields::ExceededLimits(limits)),
            Rejection::UnknownLimit(limit_id) => (
                format!("There is no limit \"{limit_id}\". GET /v1/limits lists the limits."),
                Fields::LimitId(limit_id),
            ),
            Rejection::TooManyLimits => (
                format!("There are {} limits. Delete limits that are no longer needed.", grouped(LIMITS as u64)),
                Fields::Limit(LIMITS as u64),
            ),
            Rejection::UnknownPool { item, pool } => (
                format!(
                    "{} has no pool \"{pool}\". GET /v1/inventory/{{sku}}/pools lists its pools.",
                    capital(&named(&item))
                ),
                Fields::Pool { item, pool },
            ),
            Rejection::TooManyPools(item) => (
                format!(
                    "{} has {POOLS} pools. Delete one that is no longer needed. A released pool counts until the units that \
                     were drawn from it have come back.",
                    capital(&named(&item))
                ),
                Fields::ItemLimit { item, limit: POOLS as u64 },
            ),
            Rejection::ExceedsOnHand { item, requested, on_hand } => {
                (more_than_on_hand(&item, requested, on_hand), Fields::OnHand { item, requested, on_hand })
            }
            Rejection::UnknownSupply { item, supply_id } => {
                let item_named = named(&item);
                let detail = format!(
                    "No delivery \"{supply_id}\" is expected of {item_named}. `incoming` of the item lists those that are."
                );
                (detail, Fields::Supply { item, supply_id })
            }
            Rejection::QuantityLimit { item, requested, limit } => (
                too_many(item.as_ref(), requested, limit),
                Fields::Quantity { item, requested, limit },
            ),
            Rejection::UnitsUnavailable(lines) => (taken(&lines), Fields::UnavailableUnits(lines)),
            Rejection::UnknownUnit { item, unit } => one_unit(item, unit, None),
            Rejection::UnitInUse { item, unit, status } => one_unit(item, unit, Some(status)),
            Rejection::InsufficientInventory(lines) => (shortages(&lines), Fields::Shortages(lines)),
            Rejection::IdempotencyMismatch => (
                "This idempotency key was used for another request. Nothing was done. Repeat that request unchanged to see \
                 its answer, or send a new key."
                    .to_owned(),
                Fields::None,
            ),
            Rejection::UnknownReservation(id)
            | Rejection::ReservationCancelled(id)
            | Rejection::ReservationNotConfirmed(id) => (standing(reason, id), Fields::None),
            Rejection::ReservationConfirmed { id, order_id, payment_id } => {
                let detail = confirmed(id, order_id.as_ref(), payment_id.as_ref());
                (detail, Fields::Confirmed { order_id, payment_id })
            }
            Rejection::PaymentInProgress { id, payment_id, until } => {
                (in_payment(id, &payment_id, until), Fields::Payment { payment_id, until })
            }
            Rejection::PriceMissing(items) => (unpriced(&items), Fields::Items(items)),
            Rejection::PaymentMethodMissing { customer_id } => {
                let detail = format!(
                    "Customer \"{customer_id}\" has no payment method at a provider of this server. Store one with PUT \
                     /v1/customers/{{customer_id}}, or send payment_method instead of customer_id."
                );
                (detail, Fields::None)
            }
            Rejection::PaymentNotCaptured(id) => {
                let detail = format!(
                    "Stockhold has taken no money for reservation {id}, so it can give none back. Refund it where it was paid."
                );
                (detail, Fields::None)
            }
            Rejection::RefundExceedsCaptured { id, requested, refundable } => {
                let detail = match refundable {
                    0 => format!("All money of reservation {id} was refunded or is going to be."),
                    _ => format!(
                        "The refund of {} is more than is left of reservation {id}. Refund {refundable} or less.",
                        if requested == 0 { "the rest".to_owned() } else { requested.to_string() },
                    ),
                };
                (detail, Fields::Refundable(refundable))
            }
            Rejection::SplitExceedsHeld { item, requested, held } => {
                let detail = format!(
                    "The split has {} of {}, but the reservation holds {2}. Split off {2} or fewer.",
                    units(requested),
                    named(&item),
                    grouped(held)
                );
                (detail, Fields::SplitExceeds { item, requested, held })
            }
            Rejection::FulfilExceedsSold { item, requested, unfulfilled } => {
                (more_than_unfulfilled(&item, requested, unfulfilled), Fields::FulfilExceeds { item, requested, unfulfilled })
            }
            Rejection::NotReacquired { id, refusal } => {
                let Self { reason: _, detail, fields } = Self::from(*refusal);
                let detail = format!("Reservation {id} has expired, and its units can't be taken again. {detail}");
                (detail, Fields::NotReacquired(Box::new(fields)))
            }
            Rejection::ReservationExpired { id, expires_at } => (
                format!(
                    "Reservation {id} expired at {} and its units are available again. Make a new reservation.",
                    time(expires_at)
                ),
                Fields::ExpiresAt(expires_at),
            ),
            Rejection::ExtensionLimit { max_expires_at } => (
                format!(
                    "The deadline of this reservation can't be later than {}. Confirm it before then, or make a new reservation.",
                    time(max_expires_at)
                ),
                Fields::MaxExpiresAt(max_expires_at),
            ),
            Rejection::ReturnExceedsSold { item, requested, sold } => {
                (more_than_sold(&item, requested, sold), Fields::ReturnExceeds { item, requested, sold })
            }
            Rejection::StockOwnedElsewhere { item, stock_master } => {
                let detail = format!(
                    "The total of {} is owned by the stock master \"{stock_master}\". Change it there, or send `override` to \
                     change it here until the next pull.",
                    named(&item)
                );
                (detail, Fields::StockMaster { item, stock_master })
            }
            Rejection::BelowCommitted { confirmed_sold, held, total_units, set_aside } => {
                let detail = below_committed(confirmed_sold, held, total_units, set_aside);
                (detail, Fields::BelowCommitted { confirmed_sold, held, total_units, set_aside })
            }
            Rejection::ItemInUse { confirmed_sold, held, units } => {
                (in_use(confirmed_sold, held, units), Fields::ItemInUse { confirmed_sold, held, units })
            }
            Rejection::PreconditionFailed { version: Some(version) } => (
                format!(
                    "The version is {version}, which does not meet If-Match or If-None-Match. Read it again and repeat the \
                     change with If-Match: \"{version}\"."
                ),
                Fields::Version(version),
            ),
            Rejection::RecordChanged { version } => (
                format!("The record has version {version} by now. Read it and repeat the change."),
                Fields::Version(version),
            ),
            Rejection::PreconditionFailed { version: None } => (
                "The item does not exist, so it has no version to match. PUT without If-Match creates it."
                    .to_owned(),
                Fields::None,
            ),
        };
        Self { reason, detail, fields }
    }
}

fn confirmed(id: ReservationId, order_id: Option<&Label>, payment_id: Option<&Label>) -> String {
    let order =
        order_id.map_or_else(|| "without an order".to_owned(), |order| format!("for order \"{order}\""));
    let payment = payment_id.map(|payment| format!(" with payment \"{payment}\"")).unwrap_or_default();
    format!(
        "Reservation {id} is confirmed {order}{payment}. To return sold units, use POST /v1/reservations/{id}/return."
    )
}

fn unpriced(items: &[ItemKey]) -> String {
    let mut text = "These items had no price when they were reserved: ".to_owned();
    list(&mut text, items, "", |text, item| text.push_str(&named(item)));
    text.push_str(". Set a price with PUT /v1/inventory/{sku}, and make a new reservation.");
    text
}

fn in_payment(id: ReservationId, payment_id: &Label, until: Instant) -> String {
    let until = time(until);
    format!(
        "Payment \"{payment_id}\" of reservation {id} is open until {until}. Confirm the reservation with this payment_id, or \
         close the payment with DELETE /v1/reservations/{id}/payment, and try again. The payment of a checkout goes on by itself: \
         wait for it, or give it up with POST /v1/reservations/{id}/checkout/cancel."
    )
}

fn more_than_unfulfilled(item: &ItemKey, requested: u64, unfulfilled: u64) -> String {
    let (requested, item, left) = (units(requested), named(item), grouped(unfulfilled));
    format!(
        "{requested} of {item} would be fulfilled, but only {left} of this reservation are sold and neither fulfilled nor \
         returned. Fulfil {left} or fewer."
    )
}

fn more_than_sold(item: &ItemKey, requested: u64, sold: u64) -> String {
    let (back, item, left) = (units(requested), named(item), grouped(sold));
    format!(
        "The return has {back} of {item}, but only {left} of this reservation are sold and not yet returned. Return {left} or \
         fewer."
    )
}

fn below_committed(confirmed_sold: u64, held: u64, total_units: u64, set_aside: u64) -> String {
    let promised = confirmed_sold.saturating_add(held).saturating_add(set_aside);
    let free = grouped(total_units.saturating_sub(promised));
    let (sold, held, total) = (units(confirmed_sold), units(held), grouped(total_units));
    let (set_aside, least) = (units(set_aside), grouped(promised));
    format!(
        "Sold: {sold}, held: {held}, set aside by pools: {set_aside}, free: {free}. Nothing was changed, the total stays at \
         {total}. The total and the oversell allowance together can't be below {least}, and the total not below what has left \
         the shelf or what pools have. A pool can't have less than was drawn from it, and can be given only free units. Set \
         another number, or release reservations or pools first."
    )
}

/// What is in the way of a deletion, and what removes it.
fn in_use(confirmed_sold: u64, held: u64, with_ids: u64) -> String {
    let steps = [
        (confirmed_sold, "sold", "return them"),
        (held, "held", "release their reservations, or wait until they expire"),
        (with_ids, "existing with an id", "retire them"),
    ];
    let steps = steps.into_iter().filter(|(count, ..)| *count > 0);
    let steps: Vec<String> =
        steps.map(|(count, what, how)| format!("{} {what} ({how})", units(count))).collect();
    format!("The item can't be deleted. It has {}. Delete the item after that.", steps.join(", "))
}

fn other_mode(item: &ItemKey, mode: Mode) -> String {
    let item = capital(&named(item));
    match mode {
        Mode::Counted => format!(
            "{item} counts its units, so they have no ids, sections or rows. The mode never changes. Send a quantity. To sell \
             units with ids, create another item with \"mode\": \"units\"."
        ),
        Mode::Units => format!(
            "{item} has units with ids. The mode never changes, and the total is the number of units. Add and retire units one \
             by one. Only items that count their units can have pools. To count units, create another item."
        ),
    }
}

fn paused(scope: &Scope) -> String {
    let what = match scope {
        Scope::Everything => "The sale of everything".to_owned(),
        Scope::Location(location) => format!("The sale at location \"{location}\""),
        Scope::Item(key) => format!("The sale of {}", named(key)),
    };
    format!(
        "{what} is paused. No new reservations are made until it is resumed. Existing ones can be confirmed, extended \
         and released."
    )
}

fn not_on_sale(item: &ItemKey, window: SaleWindow) -> String {
    let item = named(item);
    match window {
        SaleWindow::NotStarted(at) => {
            format!("The sale of {item} begins at {}. Try again then.", time(at))
        }
        SaleWindow::Ended(at) => format!(
            "The sale of {item} ended at {}. No new reservations are made. Existing ones can be confirmed, extended and \
             released.",
            time(at)
        ),
    }
}

fn exceeded(limits: &[ExceededLimit]) -> String {
    let one = |limit: &ExceededLimit| {
        let ExceededLimit { limit_id, limit, used, requested, subject } = limit;
        let of = subject.as_ref().map(|subject| format!(" of \"{subject}\"")).unwrap_or_default();
        let (limit, used, requested) = (grouped(*limit), grouped(*used), grouped(*requested));
        format!("\"{limit_id}\" allows {limit}, {used}{of} are in use and {requested} more were requested")
    };
    let all: Vec<_> = limits.iter().take(SHOWN_LIMITS).map(one).collect();
    let more = limits.len().saturating_sub(SHOWN_LIMITS);
    let rest = if more > 0 { format!("; {more} more limits refuse too") } else { String::new() };
    format!("Limits leave too few units: {}{rest}. Nothing was held. Request fewer.", all.join("; "))
}

fn more_than_on_hand(item: &ItemKey, requested: u64, on_hand: u64) -> String {
    let (requested, item, on_hand) = (units(requested), named(item), grouped(on_hand));
    format!(
        "{requested} of {item} would leave the shelf, but only {on_hand} are on it: the others are backordered. Move \
         {on_hand} or fewer, or receive the delivery first."
    )
}

fn too_many(item: Option<&ItemKey>, requested: u64, limit: u64) -> String {
    let (asked, limit) = (grouped(requested), grouped(limit));
    let what = match item {
        Some(item) => format!("units of {}", named(item)),
        None => "units with ids in all lines together".to_owned(),
    };
    format!(
        "{asked} {what} were requested. One reservation may hold at most {limit}. Request less, or make several \
         reservations."
    )
}

fn taken(lines: &[UnavailableUnits]) -> String {
    let groups = |of: fn(&UnavailableUnits) -> Vec<&Label>| -> Vec<(&ItemKey, Vec<&Label>)> {
        let lines = lines.iter().map(|line| (&line.item, of(line)));
        lines.filter(|(_, units)| !units.is_empty()).collect()
    };
    let exist = groups(|line| line.units.iter().filter(|unit| !line.unknown.contains(unit)).collect());
    let unknown = groups(|line| line.unknown.iter().collect());
    let mut text = String::new();
    if !exist.is_empty() {
        text.push_str("These units are held or sold: ");
        list(&mut text, &exist, "", put_units);
        text.push_str(". ");
    }
    if !unknown.is_empty() {
        text.push_str("These units do not exist: ");
        list(&mut text, &unknown, "", put_units);
        text.push_str(". Check the ids. ");
    }
    text.push_str("Nothing was held. Choose other units.");
    text
}

fn put_units(text: &mut String, (item, units): &(&ItemKey, Vec<&Label>)) {
    list(text, units, "", |text, unit| {
        // Writing to a String does not fail.
        let _ = write!(text, "\"{unit}\"");
    });
    text.push_str(" of ");
    text.push_str(&named(item));
}

/// A unit that does not stand where the command needs it: as it stands, or nowhere.
fn one_unit(item: ItemKey, unit: Label, status: Option<UnitStatus>) -> (String, Fields) {
    let of = named(&item);
    let detail = match status {
        None => format!(
            "{} has no unit \"{unit}\". GET /v1/inventory/{{sku}}/units lists its units.",
            capital(&of)
        ),
        Some(UnitStatus::Sold(_) | UnitStatus::Fulfilled(_)) => {
            format!("Unit \"{unit}\" of {of} is sold. It can be retired after it was returned.")
        }
        Some(UnitStatus::Held(_) | UnitStatus::Available) => format!(
            "Unit \"{unit}\" of {of} is held. It can be retired when its reservation was released or has expired."
        ),
    };
    (detail, Fields::Unit { unit: Box::new((item, unit, status)), shows_holder: true })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Where a reservation stands that does not stand where the command needs it.
fn standing(reason: Reason, id: ReservationId) -> String {
    match reason {
        Reason::ReservationCancelled => {
            format!(
                "Reservation {id} was released and its units are available again. Make a new reservation."
            )
        }
        Reason::ReservationNotConfirmed => format!(
            "Reservation {id} is not confirmed, so it has no sold units to fulfil or return. To release it, use \
             DELETE /v1/reservations/{id}."
        ),
        _ => format!("There is no reservation {id}. Check the id in the answer to the reserve."),
    }
}

fn named(key: &ItemKey) -> String {
    format!("item \"{}\" at location \"{}\"", key.sku(), key.location())
}

/// So many units.
fn units(count: u64) -> String {
    format!("{} {}", grouped(count), if count == 1 { "unit" } else { "units" })
}

fn unknown_items(items: &[ItemKey]) -> String {
    let mut text = "There is no ".to_owned();
    list(&mut text, items, "or ", |text, key| text.push_str(&named(key)));
    text.push_str(". Check the SKU and the location, or create the item with PUT /v1/inventory/{sku}.");
    text
}

fn shortages(lines: &[Shortage]) -> String {
    let mut unknown: Vec<_> =
        lines.iter().map(|line| (&line.item, line.unknown_sections.iter().collect())).collect();
    unknown.retain(|(_, sections): &(_, Vec<_>)| !sections.is_empty());
    let sold_out = unknown.is_empty() && lines.iter().all(|line| line.available == 0);
    let mut text = String::new();
    if !unknown.is_empty() {
        text.push_str("These sections do not exist: ");
        list(&mut text, &unknown, "", put_units);
        text.push_str(". ");
    }
    text.push_str(if sold_out { "Sold out. No unit is available of " } else { "Too little is left: " });
    list(&mut text, lines, "", |text, line| {
        let item = named(&line.item);
        // Writing to a String does not fail.
        let _ = match line.available {
            0 if sold_out => write!(text, "{item}"),
            left => {
                let noun = if line.requested == 1 { "unit" } else { "units" };
                let requested = grouped(line.requested);
                write!(text, "{} of the {requested} requested {noun} of {item}", grouped(left))
            }
        };
    });
    text.push_str(". ");
    if !unknown.is_empty() {
        text.push_str("Check the names, or choose other sections.");
        return text;
    }
    // Every line has to fit, so the latest of their first expiries is when another try makes sense.
    let chance = lines.iter().map(|line| line.next_expiry_at).collect::<Option<Vec<_>>>();
    let less = if sold_out { "" } else { " Or request less." };
    match chance.and_then(|times| times.into_iter().max()) {
        Some(at) => {
            let _ = write!(text, "Units may become available when holds expire, from {} on.{less}", time(at));
        }
        // A gate may not know the holds.
        None if lines.iter().any(|line| line.approximate) => {
            text.push_str("The figures come from a gate, which may be behind the store.");
            text.push_str(less);
        }
        None if sold_out => text.push_str("No hold that could expire would help."),
        None => text.push_str("No hold that could expire would help. Request less."),
    }
    text
}

fn list<T>(text: &mut String, all: &[T], before_last: &str, put: impl Fn(&mut String, &T)) {
    for (n, one) in all.iter().take(NAMED_IN_DETAIL).enumerate() {
        if n > 0 {
            text.push_str(", ");
            text.push_str(before_last);
        }
        put(text, one);
    }
    if let Some(more) = all.len().checked_sub(NAMED_IN_DETAIL).filter(|more| *more > 0) {
        // Writing to a String does not fail.
        let _ = write!(text, ", and {more} more");
    }
}
