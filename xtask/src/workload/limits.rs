//! The limits of what clients buy: one for each customer, and one that all share. Clients share the customers, so that they
//! compete for what a limit leaves. Once every request is answered, the counters follow from the reservations.

use super::known_reservation::{KnownReservation, ReservationState};
use super::{DROP, Fleet, HALL, PLENTY_LIMITED, Stock};
use crate::http::{Answer, Connection, Request};
use crate::{Outcome, fail};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Customers. With [`PER_CUSTOMER`] they soon have as much as they may.
const CUSTOMERS: u64 = 24;
/// Units of the item [`DROP`] that a customer may have, held and sold.
const PER_CUSTOMER: u64 = 40;
/// Units of the items [`PLENTY_LIMITED`] and [`HALL`] that may be held at a time.
const HELD_AT_A_TIME: u64 = 500;
/// Subjects of a page.
const PAGE: usize = 1_000;

/// A limit that is there from the beginning, and is never changed.
struct Limit {
    id: &'static str,
    skus: &'static [&'static str],
    per_customer: bool,
    most: u64,
    /// Whether it compares only what is held.
    only_held: bool,
}

const LIMITS: [Limit; 2] = [
    Limit { id: "each", skus: &[DROP], per_customer: true, most: PER_CUSTOMER, only_held: false },
    Limit {
        id: "together",
        skus: &[PLENTY_LIMITED, HALL],
        per_customer: false,
        most: HELD_AT_A_TIME,
        only_held: true,
    },
];

/// What a limit counts for one subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    held: u64,
    sold: u64,
}

/// The use of every limit, by its id and subject. Subjects that have nothing are left out.
pub(super) type Usage = BTreeMap<(String, Option<String>), Used>;

/// The name of a customer. Any number is one.
pub(super) fn customer(number: u64) -> String {
    format!("customer-{}", number % CUSTOMERS)
}

/// Whether a reservation with units of an item needs a customer.
pub(super) fn needs_customer(stock: &Stock) -> bool {
    LIMITS.iter().any(|limit| limit.per_customer && limit.skus.contains(&stock.sku.as_str()))
}

/// Whether a limit counts units of an item.
pub(super) fn is_limited(stock: &Stock) -> bool {
    LIMITS.iter().any(|limit| limit.skus.contains(&stock.sku.as_str()))
}

/// Checks what a refusal says: each limit that it names leaves less than was requested.
pub(super) fn check_refusal(answer: &Value) -> Result<(), String> {
    let named = answer["limits"].as_array().ok_or("refused by no limit")?;
    for said in named {
        let number = |name: &str| said[name].as_u64().ok_or_else(|| format!("no {name} in {said}"));
        let limit = LIMITS.iter().find(|limit| said["limit_id"] == limit.id);
        let limit = limit.ok_or_else(|| format!("no such limit: {said}"))?;
        let (used, requested) = (number("used")?, number("requested")?);
        if number("limit")? != limit.most || used > limit.most || used + requested <= limit.most {
            return Err(format!("a refusal that does not follow from {said}"));
        }
        if said["subject"].is_string() != limit.per_customer {
            return Err(format!("the subject of another limit: {said}"));
        }
    }
    if named.is_empty() { Err("refused by no limit".to_owned()) } else { Ok(()) }
}

/// Puts the limits there; once, before anything is sold.
pub(super) fn set(connection: &mut Connection) -> Outcome<()> {
    for limit in &LIMITS {
        let items: Vec<_> = limit.skus.iter().map(|sku| json!({ "sku": sku })).collect();
        let counts = if limit.only_held { "held" } else { "held_and_sold" };
        let mut body = json!({"items": items, "limit": limit.most, "counts": counts});
        if limit.per_customer {
            body["per"] = "customer".into();
        }
        let path = format!("/v1/limits/{}", limit.id);
        let request =
            Request { method: "PUT", path, key: None, if_match: None, body: Some(body.to_string()) };
        let answer = connection.call(&request)?;
        if answer.status != 201 {
            return fail(format!("set limit: {}", answer.brief()));
        }
    }
    Ok(())
}

/// Asks what each limit counts. No subject may have more than its limit.
pub(super) fn told(connection: &mut Connection) -> Outcome<Usage> {
    let mut usage = Usage::new();
    for limit in &LIMITS {
        limit.read(&connection.call(&limit.question())?, &mut usage)?;
    }
    Ok(usage)
}

/// Asks like [`told`] where answers may be withheld, which `is_withheld` tells. All others have to be as expected.
pub(super) fn compare(
    connection: &mut Connection,
    expected: &Usage,
    is_withheld: impl Fn(&std::io::Result<Answer>) -> bool,
) -> Outcome<()> {
    for limit in &LIMITS {
        let answer = connection.call(&limit.question());
        if is_withheld(&answer) {
            continue;
        }
        let mut said = Usage::new();
        limit.read(&answer?, &mut said)?;
        let expected: Usage = expected
            .iter()
            .filter(|((id, _), _)| id == limit.id)
            .map(|(key, used)| (key.clone(), *used))
            .collect();
        if said != expected {
            return fail(format!("wrong figure: a limit counts {said:?}, not {expected:?}"));
        }
    }
    Ok(())
}

impl Limit {
    fn question(&self) -> Request {
        let page = if self.per_customer { format!("?limit={PAGE}") } else { String::new() };
        Request::get(format!("/v1/limits/{}/usage{page}", self.id))
    }

    /// Adds what an answer says of its use.
    fn read(&self, answer: &Answer, usage: &mut Usage) -> Outcome<()> {
        let body = answer.json();
        let shown: Vec<&Value> = if self.per_customer {
            let data = body["data"].as_array().map(|data| data.iter().collect());
            data.ok_or_else(|| format!("usage: {}", answer.brief()))?
        } else {
            vec![&body]
        };
        if body["has_more"] == true {
            return fail(format!("more than {PAGE} customers: {}", answer.brief()));
        }
        for one in shown {
            let number =
                |name: &str| one[name].as_u64().ok_or_else(|| format!("no {name}: {}", answer.brief()));
            let used = Used { held: number("held")?, sold: number("sold")? };
            let compared = if self.only_held { used.held } else { used.held + used.sold };
            if number("used")? != compared || number("limit")? != self.most || one["limit_id"] != self.id {
                return fail(format!("a use that does not add up: {one}"));
            }
            if compared > self.most {
                return fail(format!("more than the limit: {one}"));
            }
            if used != Used::default() {
                let subject = one["subject"].as_str().map(str::to_owned);
                usage.insert((self.id.to_owned(), subject), used);
            }
        }
        Ok(())
    }
}

impl Fleet {
    /// What limits have to count, summed over reservations.
    pub(super) fn limits_summed(&self) -> Usage {
        let mut usage = Usage::new();
        for known in self.clients.iter().flat_map(|client| &client.known) {
            add(&mut usage, known, &self.stock);
        }
        usage.retain(|_, used| *used != Used::default());
        usage
    }
}

fn add(usage: &mut Usage, known: &KnownReservation, stock: &[Stock]) {
    for line in &known.lines {
        for limit in LIMITS.iter().filter(|limit| limit.skus.contains(&stock[line.sku].sku.as_str())) {
            let subject = if limit.per_customer { known.parties.customer.clone() } else { None };
            let used = usage.entry((limit.id.to_owned(), subject)).or_default();
            match known.state {
                ReservationState::Active => used.held += line.quantity,
                ReservationState::Confirmed => used.sold += line.sold(),
                ReservationState::Cancelled | ReservationState::Expired | ReservationState::Ended => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &Value) -> Answer {
        Answer { status: 200, replayed: false, body: body.to_string().into_bytes() }
    }

    fn of_customer(held: u64, sold: u64) -> Value {
        json!({"limit_id": "each", "subject": "ann", "limit": PER_CUSTOMER, "used": held + sold, "held": held, "sold": sold})
    }

    #[test]
    fn a_use_beyond_the_limit_or_that_does_not_add_up_is_seen() {
        let read = |one: Value| {
            let mut usage = Usage::new();
            LIMITS[0].read(&answer(&json!({"data": [one], "has_more": false})), &mut usage).map(|()| usage)
        };
        let subject = ("each".to_owned(), Some("ann".to_owned()));
        let used = Used { held: 3, sold: 1 };
        assert_eq!(read(of_customer(3, 1)).unwrap(), Usage::from([(subject, used)]));
        assert!(read(of_customer(0, 0)).unwrap().is_empty());
        assert!(read(of_customer(PER_CUSTOMER, 1)).unwrap_err().to_string().contains("more than the limit"));
        let mut wrong = of_customer(3, 1);
        wrong["used"] = 3.into();
        assert!(read(wrong).unwrap_err().to_string().contains("does not add up"));
    }

    #[test]
    fn a_refusal_that_does_not_follow_is_seen() {
        let refusal = |used: u64, requested: u64| {
            let limit = json!({"limit_id": "each", "limit": PER_CUSTOMER, "used": used, "requested": requested, "subject": "ann"});
            check_refusal(&json!({ "limits": [limit] })).is_ok()
        };
        assert!(refusal(PER_CUSTOMER, 1) && refusal(PER_CUSTOMER - 1, 2));
        assert!(!refusal(PER_CUSTOMER - 1, 1) && !refusal(PER_CUSTOMER + 1, 1));
        assert!(check_refusal(&json!({"limits": []})).is_err() && check_refusal(&json!({})).is_err());
    }
}
