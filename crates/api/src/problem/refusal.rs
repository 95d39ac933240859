//! A refusal of the rules as a problem: every sentence carries the figures and what to do next.

use super::{Fields, NAMED_IN_DETAIL, Problem, Reason, grouped};
use crate::decode::Invalid;
use crate::encode::time;
use std::fmt::Write;
use stockhold_domain::{
    ItemKey, Label, Rejection, ReservationId, Scope, Shortage, UnavailableUnits, UnitStatus,
};

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let reason = Reason::of(&rejection);
        let (detail, fields) = match rejection {
            Rejection::InvalidRequest(error) => {
                return Self::invalid("This is not possible", Invalid { errors: vec![error] });
            }
            Rejection::UnknownItem(items) => (unknown_items(&items), Fields::Items(items)),
            Rejection::SalePaused(scope) => (paused(&scope), Fields::Scope(scope)),
            Rejection::QuantityLimit { item, requested, limit } => (
                too_many(item.as_ref(), requested, limit),
                Fields::Quantity { item, requested, limit },
            ),
            Rejection::UnitsUnavailable(lines) => (taken(&lines), Fields::UnavailableUnits(lines)),
            Rejection::UnknownUnit { item, unit } => one_unit(item, unit, None),
            Rejection::UnitInUse { item, unit, status } => one_unit(item, unit, Some(status)),
            Rejection::InsufficientInventory(lines) => (shortages(&lines), Fields::Shortages(lines)),
            Rejection::IdempotencyMismatch => (
                "This idempotency key was used before for another request, and nothing was done. Repeat that \
                 request unchanged to see its answer, or use a new key for a new one."
                    .to_owned(),
                Fields::None,
            ),
            Rejection::UnknownReservation(id)
            | Rejection::ReservationCancelled(id)
            | Rejection::ReservationNotConfirmed(id) => (standing(reason, id), Fields::None),
            Rejection::ReservationConfirmed { id, order_id } => {
                let order = match &order_id {
                    Some(order) => format!("for order \"{order}\""),
                    None => "without an order".to_owned(),
                };
                let detail = format!(
                    "Reservation {id} is confirmed {order} and stays so. To give sold units back, use \
                     POST /v1/reservations/{id}/return."
                );
                (detail, Fields::Order(order_id))
            }
            Rejection::ReservationExpired { id, expires_at } => (
                format!(
                    "Reservation {id} fell due at {} and its units are free again. Make a new reservation.",
                    time(expires_at)
                ),
                Fields::ExpiresAt(expires_at),
            ),
            Rejection::ExtensionLimit { max_expires_at } => (
                format!(
                    "The deadline is {}, the latest that this reservation may have. Confirm it before then, or \
                     make a new reservation.",
                    time(max_expires_at)
                ),
                Fields::MaxExpiresAt(max_expires_at),
            ),
            Rejection::ReturnExceedsSold { item, requested, sold } => {
                let (back, left) = (units(requested), grouped(sold));
                let detail = format!(
                    "{back} of {} should come back; of this reservation {left} can: so many were sold and have not \
                     come back yet.",
                    named(&item)
                );
                (detail, Fields::ReturnExceeds { item, requested, sold })
            }
            Rejection::BelowCommitted { confirmed_sold, held, total_units } => {
                let least = grouped(confirmed_sold.saturating_add(held));
                let detail = format!(
                    "Sold: {}, held: {}, so the total can't go below {least}; it stays at {}. \
                     Set {least} or more, or release holds first.",
                    units(confirmed_sold),
                    units(held),
                    grouped(total_units)
                );
                (detail, Fields::BelowCommitted { confirmed_sold, held, total_units })
            }
            Rejection::PreconditionFailed { version: Some(version) } => (
                format!(
                    "The item is there, at version {version}, and that is not what If-Match or If-None-Match asks for. \
                     Read it again and repeat the change with If-Match: \"{version}\"."
                ),
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

fn paused(scope: &Scope) -> String {
    let what = match scope {
        Scope::Everything => "The sale of everything".to_owned(),
        Scope::Location(location) => format!("The sale at location \"{location}\""),
        Scope::Item(key) => format!("The sale of {}", named(key)),
    };
    format!(
        "{what} is paused: no new reservation is made until it is resumed. Those that exist can be confirmed, \
         extended and released. Try again later."
    )
}

fn too_many(item: Option<&ItemKey>, requested: u64, limit: u64) -> String {
    let (asked, limit) = (grouped(requested), grouped(limit));
    let asked = if requested == u64::MAX { format!("At least {asked}") } else { asked };
    let what = match item {
        Some(item) => format!("units of {}", named(item)),
        None => "units with ids, of all lines together,".to_owned(),
    };
    format!(
        "{asked} {what} were requested; one reservation may hold at most {limit}. Ask for less, or make several \
         reservations."
    )
}

fn taken(lines: &[UnavailableUnits]) -> String {
    let mut text = "Units are held, sold or unknown: ".to_owned();
    list(&mut text, lines, "", |text, line| {
        list(text, &line.units, "", |text, unit| {
            // Writing to a String does not fail.
            let _ = write!(text, "\"{unit}\"");
        });
        text.push_str(" of ");
        text.push_str(&named(&line.item));
    });
    text.push_str(
        ". Nothing was held. Choose others, or try again later: holds that are not confirmed come back.",
    );
    text
}

/// A unit that does not stand where the command needs it: as it stands, or nowhere.
fn one_unit(item: ItemKey, unit: Label, status: Option<UnitStatus>) -> (String, Fields) {
    let of = named(&item);
    let detail = match status {
        None => format!(
            "{} has no unit \"{unit}\". GET /v1/inventory/{{sku}}/units lists those it has.",
            capital(&of)
        ),
        Some(UnitStatus::Sold(_)) => {
            format!("Unit \"{unit}\" of {of} is sold. It can be retired after it was returned.")
        }
        Some(UnitStatus::Held(_) | UnitStatus::Available) => format!(
            "Unit \"{unit}\" of {of} is held. It can be retired when its reservation was released or has expired."
        ),
    };
    (detail, Fields::Unit(Box::new((item, unit, status))))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Where a reservation stands that does not stand where the command needs it.
fn standing(reason: Reason, id: ReservationId) -> String {
    match reason {
        Reason::ReservationCancelled => {
            format!("Reservation {id} was released and its units are free again. Make a new reservation.")
        }
        Reason::ReservationNotConfirmed => format!(
            "Reservation {id} is not confirmed, so nothing of it is sold and nothing can come back. A hold is \
             given up with DELETE /v1/reservations/{id}."
        ),
        _ => format!("There is no reservation {id}. Check the id that the reserve was answered with."),
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
    let mut text = "Too little is left: ".to_owned();
    list(&mut text, lines, "", |text, line| {
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "{} of the {} requested {} of {}",
            if line.available == 0 { "none".to_owned() } else { grouped(line.available) },
            grouped(line.requested),
            if line.requested == 1 { "unit" } else { "units" },
            named(&line.item)
        );
    });
    text.push_str(". ");
    // All lines have to fit, so the latest of their first chances is when trying again makes sense.
    let chance = lines.iter().map(|line| line.next_expiry_at).collect::<Option<Vec<_>>>();
    match chance.and_then(|times| times.into_iter().max()) {
        Some(at) => {
            let _ = write!(text, "Holds fall due: try again after {}, or ask for less.", time(at));
        }
        None => text.push_str("No hold that falls due could make up for it: ask for less."),
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
