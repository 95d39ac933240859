//! What a client knows of one reservation because it was told, and whether what the server says now agrees with it.

use super::Stock;
use super::op::Reserve;
use serde_json::Value;
use std::collections::BTreeSet;

/// One reservation, as far as answers told.
#[derive(Clone, Debug)]
pub(super) struct KnownReservation {
    pub(super) id: String,
    pub(super) request: Reserve,
    pub(super) lines: Vec<KnownLine>,
    /// The latest deadline that was acknowledged, in milliseconds since 1970.
    pub(super) expires_at: i64,
    pub(super) state: ReservationState,
}

/// One of its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownLine {
    pub(super) sku: usize,
    pub(super) quantity: u64,
    pub(super) returned: u64,
    /// The ids of its units, where they have any.
    pub(super) units: Vec<KnownUnit>,
}

/// A unit with an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownUnit {
    pub(super) id: String,
    pub(super) version: u64,
    pub(super) returned: bool,
}

impl KnownLine {
    /// Whether it may have become the other: the same units, none of them moved back.
    fn leads_to(&self, next: &Self) -> bool {
        let of = |line: &Self| (line.sku, line.quantity, line.returned, line.units.len());
        let units = self.units.iter().zip(&next.units);
        of(self) == of(next)
            && units.into_iter().all(|(unit, next)| {
                unit.id == next.id && unit.version <= next.version && unit.returned <= next.returned
            })
    }
}

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReservationState {
    /// Held when last heard of; the deadline may have come since.
    Active,
    Confirmed,
    Cancelled,
    Expired,
    /// A release succeeded at about the deadline: cancelled or expired, whichever came first.
    Ended,
}

impl KnownReservation {
    /// From the answer to its reserve, checked against what was asked.
    pub(super) fn new(request: Reserve, answer: &Value, stock: &[Stock]) -> Result<Self, String> {
        let id = answer["reservation_id"].as_str().ok_or("no reservation_id")?.to_owned();
        let lines = lines(answer, stock)?;
        for line in &lines {
            let asked = request.lines.iter().find(|(sku, _)| *sku == line.sku).map_or(0, |(_, asked)| *asked);
            let granted =
                if request.partial { (1..=asked).contains(&line.quantity) } else { line.quantity == asked };
            if !granted {
                return Err(format!("{} of {asked} granted", line.quantity));
            }
            if let Some(named) = request.named((line.sku, asked), stock) {
                let granted: BTreeSet<String> = line.units.iter().map(|unit| unit.id.clone()).collect();
                if granted != named {
                    return Err(format!("{granted:?} granted, where {named:?} were asked for"));
                }
            }
        }
        if lines.is_empty() || (!request.partial && lines.len() != request.lines.len()) {
            return Err(format!("{} of {} lines granted", lines.len(), request.lines.len()));
        }
        let expires_at = millis(&answer["expires_at"])?;
        // The answer may be a replay after the deadline; then it shows the hold as it is now.
        let state = state(answer)?;
        Ok(Self { id, request, lines, expires_at, state })
    }

    /// Whether an answer agrees with what is known; takes from it what could not be known.
    pub(super) fn check(&mut self, answer: &Value, stock: &[Stock]) -> Result<(), String> {
        if answer["reservation_id"] != *self.id {
            return Err("another reservation".to_owned());
        }
        let now = state(answer)?;
        let expires_at = millis(&answer["expires_at"])?;
        let agrees = match self.state {
            ReservationState::Active => now == ReservationState::Active || now == ReservationState::Expired,
            ReservationState::Ended => now == ReservationState::Cancelled || now == ReservationState::Expired,
            settled => now == settled,
        };
        if !agrees {
            return Err(format!("{now:?}, but {:?} was acknowledged", self.state));
        }
        if expires_at < self.expires_at {
            return Err(format!("deadline {expires_at}, but {} was acknowledged", self.expires_at));
        }
        if now == ReservationState::Expired && millis(&answer["closed_at"])? < expires_at {
            return Err("expired before its deadline".to_owned());
        }
        let lines = lines(answer, stock)?;
        let leads = lines.len() == self.lines.len()
            && self.lines.iter().zip(&lines).all(|(line, next)| line.leads_to(next));
        if !leads {
            return Err(format!("lines {lines:?}, but {:?} were acknowledged", self.lines));
        }
        (self.state, self.expires_at, self.lines) = (now, expires_at, lines);
        Ok(())
    }
}

/// The lines of an answer in order of SKU.
fn lines(answer: &Value, stock: &[Stock]) -> Result<Vec<KnownLine>, String> {
    let mut lines = Vec::new();
    for line in answer["lines"].as_array().ok_or("no lines")? {
        let sku = stock.iter().position(|stock| line["sku"] == *stock.sku).ok_or("an unknown SKU")?;
        let quantity = line["quantity"].as_u64().ok_or("no quantity")?;
        let returned = line["returned_quantity"].as_u64().unwrap_or(0);
        let units = units(line)?;
        let back = units.iter().filter(|unit| unit.returned).count() as u64;
        if stock[sku].seats && (units.len() as u64, back) != (quantity, returned) {
            return Err(format!("{quantity} units, {returned} returned, and these ids: {}", line["units"]));
        }
        lines.push(KnownLine { sku, quantity, returned, units });
    }
    lines.sort_by_key(|line| line.sku);
    let sum: u64 = lines.iter().map(|line| line.quantity).sum();
    if answer["quantity"].as_u64() != Some(sum) {
        return Err(format!("quantity {} over lines of {sum}", answer["quantity"]));
    }
    Ok(lines)
}

fn units(line: &Value) -> Result<Vec<KnownUnit>, String> {
    let unit = |unit: &Value| {
        let id = unit["unit_id"].as_str().ok_or("a unit with no id")?.to_owned();
        let version = unit["version"].as_u64().ok_or("a unit with no version")?;
        Ok(KnownUnit { id, version, returned: unit["returned"] == true })
    };
    line["units"].as_array().into_iter().flatten().map(unit).collect()
}

fn state(answer: &Value) -> Result<ReservationState, String> {
    match answer["status"].as_str() {
        Some("active") => Ok(ReservationState::Active),
        Some("confirmed") => Ok(ReservationState::Confirmed),
        Some("cancelled") => Ok(ReservationState::Cancelled),
        Some("expired") => Ok(ReservationState::Expired),
        _ => Err(format!("status {}", answer["status"])),
    }
}

/// An instant of an answer in milliseconds since 1970.
pub(super) fn millis(value: &Value) -> Result<i64, String> {
    let text = value.as_str().ok_or_else(|| format!("no instant: {value}"))?;
    text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stock() -> Vec<Stock> {
        let stock = |sku: &str, seats| Stock { sku: sku.to_owned(), total: 10, seats };
        vec![stock("a", false), stock("b", false), stock("hall", true)]
    }

    fn answer(status: &str, second: u32, quantity: u64) -> Value {
        json!({
            "reservation_id": "r", "status": status, "quantity": quantity,
            "lines": [{"sku": "b", "quantity": quantity}],
            "expires_at": format!("2026-01-01T00:00:{second:02}.000Z"), "closed_at": "2026-01-01T00:00:30.000Z",
        })
    }

    fn known() -> KnownReservation {
        let request = Reserve {
            number: 1,
            basket: false,
            partial: false,
            ttl: 9,
            lines: vec![(1, 3)],
            first_seat: None,
        };
        KnownReservation::new(request, &answer("active", 20, 3), &stock()).unwrap()
    }

    #[test]
    fn what_agrees_is_accepted() {
        known().check(&answer("active", 25, 3), &stock()).unwrap();
        known().check(&answer("expired", 20, 3), &stock()).unwrap();
    }

    #[test]
    fn every_broken_promise_is_seen() {
        let broken = [
            answer("confirmed", 20, 3),
            answer("active", 19, 3),
            answer("active", 20, 2),
            answer("expired", 31, 3),
        ];
        for answer in broken {
            assert!(known().check(&answer, &stock()).is_err(), "{answer}");
        }
        let mut settled = known();
        settled.state = ReservationState::Confirmed;
        assert!(settled.check(&answer("cancelled", 20, 3), &stock()).is_err());
    }

    #[test]
    fn a_grant_of_something_else_is_seen() {
        let request = Reserve {
            number: 1,
            basket: false,
            partial: false,
            ttl: 9,
            lines: vec![(1, 4)],
            first_seat: None,
        };
        assert!(KnownReservation::new(request, &answer("active", 20, 3), &stock()).is_err());
    }

    fn seats(units: &[(&str, u64, bool)], returned: u64) -> Value {
        let units: Vec<_> = units
            .iter()
            .map(|(id, version, returned)| json!({"unit_id": id, "version": version, "returned": returned}))
            .collect();
        json!({
            "reservation_id": "r", "status": "active", "quantity": 2, "expires_at": "2026-01-01T00:00:20.000Z",
            "lines": [{"sku": "hall", "quantity": 2, "returned_quantity": returned, "units": units}],
        })
    }

    fn two_seats(first_seat: Option<u64>) -> Reserve {
        Reserve { number: 1, basket: false, partial: false, ttl: 9, lines: vec![(2, 2)], first_seat }
    }

    #[test]
    fn seats_that_were_named_are_those_that_are_granted() {
        let granted = |first_seat, units: &[&str]| {
            let units: Vec<_> = units.iter().map(|id| (*id, 1, false)).collect();
            KnownReservation::new(two_seats(first_seat), &seats(&units, 0), &stock()).is_ok()
        };
        assert!(granted(None, &["s-4", "s-7"]));
        assert!(granted(Some(4), &["s-4", "s-5"]) && granted(Some(9), &["s-0", "s-9"]));
        assert!(!granted(Some(4), &["s-4", "s-7"]) && !granted(Some(4), &["s-4", "s-4"]));
    }

    #[test]
    fn units_stay_the_same_and_never_go_back() {
        let request = two_seats(Some(1));
        let told = seats(&[("s-1", 2, false), ("s-2", 5, false)], 0);
        let known = KnownReservation::new(request, &told, &stock()).unwrap();
        known.clone().check(&seats(&[("s-1", 3, false), ("s-2", 5, false)], 0), &stock()).unwrap();
        let broken = [
            seats(&[("s-1", 2, false), ("s-3", 5, false)], 0),
            seats(&[("s-1", 2, false), ("s-2", 4, false)], 0),
            seats(&[("s-1", 2, false)], 0),
            seats(&[("s-1", 2, true), ("s-2", 5, false)], 0),
        ];
        for answer in broken {
            assert!(known.clone().check(&answer, &stock()).is_err(), "{answer}");
        }
    }
}
