//! The requests of one connection, and the counts of its answers. Every command has an idempotency key and a time to live, as a
//! shop's commands have.

use crate::client::{RESERVATIONS, item_path};
use crate::latency::RequestKind;
use bytes::Bytes;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use stockhold_api::problem::Reason;
use stockhold_domain::Label;
use stockhold_store::ids::IdSource;

/// The pool that limited reserves draw from.
pub(super) const POOL: &str = "bench";

/// The mix of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mix {
    /// Reserve one unit, and let the hold expire
    Reserve,
    /// Reserve one unit for a new customer, from a pool and under a limit per customer, and let the hold expire
    ReserveLimited,
    /// Reserve one unit, then confirm it
    ReserveConfirm,
    /// Reserve one unit, then take its payment with the test provider
    ReserveCheckout,
    /// Reserve one unit for each connection, then amend the hold to two units, to one, and so on
    Amend,
    /// Read the availability
    Available,
    /// Send many reserves in one request, then their confirms in one request
    Commands,
}

impl Mix {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::ReserveLimited => "reserve-limited",
            Self::ReserveConfirm => "reserve-confirm",
            Self::ReserveCheckout => "reserve-checkout",
            Self::Amend => "amend",
            Self::Available => "available",
            Self::Commands => "commands",
        }
    }

    /// The kinds of request that are timed.
    pub(super) fn kinds(self) -> &'static [RequestKind] {
        match self {
            Self::Reserve | Self::ReserveLimited => &[RequestKind::Reserve],
            Self::ReserveConfirm => &[RequestKind::Reserve, RequestKind::Confirm],
            Self::ReserveCheckout => &[RequestKind::Reserve, RequestKind::Checkout],
            Self::Amend => &[RequestKind::Reserve, RequestKind::Amend],
            Self::Available => &[RequestKind::Available],
            Self::Commands => &[RequestKind::Commands],
        }
    }
}

/// The load of a run.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) mix: Mix,
    pub(super) skus: Vec<String>,
    pub(super) ttl: u64,
    /// Commands in one request.
    pub(super) batch: usize,
}

/// Counts of answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Commands and reads that succeeded.
    pub(super) done: u64,
    /// Units that holds got.
    pub(super) reserved: u64,
    /// Units that holds gave back.
    pub(super) given_back: u64,
    pub(super) confirmed: u64,
    /// Commands that were refused, by reason.
    pub(super) refused: BTreeMap<String, u64>,
    /// Requests without an answer, by error. Their commands may have taken effect.
    pub(super) failed: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn merge(&mut self, other: &Self) {
        self.done += other.done;
        self.reserved += other.reserved;
        self.given_back += other.given_back;
        self.confirmed += other.confirmed;
        for (ours, theirs) in [(&mut self.refused, &other.refused), (&mut self.failed, &other.failed)] {
            for (what, count) in theirs {
                *ours.entry(what.clone()).or_default() += count;
            }
        }
    }

    /// Requests that may have taken effect or not: those without an answer, and those whose answer says that the outcome is unknown.
    pub(super) fn unknown(&self) -> u64 {
        let open = |reason: &str| {
            let reason = Reason::from_name(reason);
            reason.is_none_or(|reason| matches!(reason, Reason::OutcomeUnknown | Reason::Internal))
        };
        let refused = self.refused.iter().filter(|(reason, _)| open(reason));
        self.failed.values().sum::<u64>() + refused.map(|(_, count)| count).sum::<u64>()
    }

    fn refuse(&mut self, body: &[u8], status: u16) {
        let reason =
            serde_json::from_slice::<ProblemReason<'_>>(body).map(|refusal| refusal.reason.to_owned());
        *self.refused.entry(reason.unwrap_or_else(|_| format!("status {status}"))).or_default() += 1;
    }
}

#[derive(Deserialize)]
struct ProblemReason<'a> {
    reason: &'a str,
}

#[derive(Deserialize)]
struct ReservationRef<'a> {
    reservation_id: &'a str,
}

#[derive(Deserialize)]
struct BatchResults<'a> {
    #[serde(borrow)]
    results: Vec<CommandResult<'a>>,
}

#[derive(Deserialize)]
struct CommandResult<'a> {
    status: u16,
    #[serde(borrow)]
    reservation: Option<ReservationRef<'a>>,
    #[serde(borrow)]
    problem: Option<ProblemReason<'a>>,
}

/// A request.
pub(super) struct BenchRequest {
    pub(super) kind: RequestKind,
    pub(super) method: hyper::Method,
    pub(super) path: String,
    pub(super) body: Bytes,
}

/// A hold of one connection.
struct AmendedHold {
    id: String,
    sku: String,
    /// Units that the latest amend asks for. The first one asks for two, the next one for one, and so on.
    quantity: u64,
}

/// Makes the requests of one connection.
pub(super) struct RequestGenerator {
    load: Workload,
    ids: IdSource,
    next_sku: usize,
    /// Reservations to confirm.
    held: Vec<String>,
    /// The hold that is amended.
    amended: Option<AmendedHold>,
}

impl RequestGenerator {
    pub(super) fn new(load: Workload, first_sku: usize) -> std::result::Result<Self, String> {
        let ids = IdSource::from_system().map_err(|error| format!("no random numbers: {error}"))?;
        Ok(Self { load, ids, next_sku: first_sku, held: Vec::new(), amended: None })
    }

    /// The next request.
    pub(super) fn next(&mut self) -> BenchRequest {
        if let Some(AmendedHold { id, sku, quantity }) = &mut self.amended {
            *quantity = 3 - *quantity;
            let key = self.ids.random();
            let path = format!("{RESERVATIONS}/{id}");
            let body = format!(
                r#"{{"lines":[{{"sku":"{sku}","quantity":{quantity}}}],"idempotency_key":"{key:032x}"}}"#
            );
            return BenchRequest { method: hyper::Method::PATCH, ..post(RequestKind::Amend, path, body) };
        }
        match self.load.mix {
            Mix::Available => {
                let path = item_path(self.sku(), Label::DEFAULT_LOCATION, "/available");
                BenchRequest {
                    kind: RequestKind::Available,
                    method: hyper::Method::GET,
                    path,
                    body: Bytes::new(),
                }
            }
            Mix::Commands => self.batch(),
            Mix::Reserve | Mix::ReserveLimited | Mix::ReserveConfirm | Mix::ReserveCheckout | Mix::Amend => {
                match self.held.pop() {
                    Some(id) if self.load.mix == Mix::ReserveCheckout => {
                        let (path, key) = (format!("{RESERVATIONS}/{id}/checkout"), self.ids.random());
                        let method = r#""payment_method":{"provider":"test","method_ref":"approve"}"#;
                        post(
                            RequestKind::Checkout,
                            path,
                            format!(r#"{{{method},"idempotency_key":"{key:032x}"}}"#),
                        )
                    }
                    Some(id) => post(
                        RequestKind::Confirm,
                        format!("{RESERVATIONS}/{id}/confirm"),
                        format!(r#"{{"idempotency_key":"{:032x}"}}"#, self.ids.random()),
                    ),
                    None => {
                        let (ttl, owner, key) = (self.load.ttl, self.ids.random(), self.ids.random());
                        let buyer = match self.load.mix {
                            Mix::ReserveLimited => {
                                format!(r#""customer_id":"{owner:032x}","pool":"{POOL}","#)
                            }
                            _ => String::new(),
                        };
                        let body = format!(
                            r#"{{"owner_id":"{owner:032x}",{buyer}"quantity":1,"ttl_seconds":{ttl},"idempotency_key":"{key:032x}"}}"#
                        );
                        post(
                            RequestKind::Reserve,
                            item_path(self.sku(), Label::DEFAULT_LOCATION, "/reserve"),
                            body,
                        )
                    }
                }
            }
        }
    }

    fn batch(&mut self) -> BenchRequest {
        let mut body = r#"{"commands":["#.to_owned();
        let confirms = std::mem::take(&mut self.held);
        // Writing to a String does not fail.
        for id in &confirms {
            let key = self.ids.random();
            let _ =
                write!(body, r#"{{"op":"confirm","reservation_id":"{id}","idempotency_key":"{key:032x}"}},"#);
        }
        if confirms.is_empty() {
            for _ in 0..self.load.batch {
                let (ttl, owner, key) = (self.load.ttl, self.ids.random(), self.ids.random());
                let sku = self.sku();
                let _ = write!(
                    body,
                    r#"{{"op":"reserve","owner_id":"{owner:032x}","lines":[{{"sku":"{sku}"}}],"ttl_seconds":{ttl},"idempotency_key":"{key:032x}"}},"#
                );
            }
        }
        body.pop();
        body.push_str("]}");
        post(RequestKind::Commands, "/v1/commands".to_owned(), body)
    }

    /// The SKUs in turn. Their names need no escapes.
    fn sku(&mut self) -> &str {
        let at = self.next_sku % self.load.skus.len().max(1);
        self.next_sku = at + 1;
        self.load.skus.get(at).map(String::as_str).unwrap_or_default()
    }

    /// The SKU of the latest request.
    fn last_sku(&self) -> String {
        self.load.skus.get(self.next_sku.saturating_sub(1)).cloned().unwrap_or_default()
    }

    /// Counts an answer, and returns how many of its operations succeeded.
    pub(super) fn answered(&mut self, kind: RequestKind, status: u16, body: &[u8], told: &mut Tally) -> u64 {
        let done = if (200..300).contains(&status) {
            match kind {
                RequestKind::Commands => self.results(body, told),
                // Its payment goes on by itself.
                RequestKind::Checkout if status == 202 => {
                    *told.failed.entry("a payment that goes on".to_owned()).or_default() += 1;
                    0
                }
                RequestKind::Confirm | RequestKind::Checkout => {
                    told.confirmed += 1;
                    1
                }
                RequestKind::Reserve => {
                    told.reserved += 1;
                    if let Ok(made) = serde_json::from_slice::<ReservationRef<'_>>(body) {
                        match self.load.mix {
                            Mix::ReserveConfirm | Mix::ReserveCheckout => {
                                self.held.push(made.reservation_id.to_owned());
                            }
                            Mix::Amend => {
                                let (id, sku) = (made.reservation_id.to_owned(), self.last_sku());
                                self.amended = Some(AmendedHold { id, sku, quantity: 1 });
                            }
                            Mix::Reserve | Mix::ReserveLimited | Mix::Available | Mix::Commands => {}
                        }
                    }
                    1
                }
                RequestKind::Amend => {
                    match &self.amended {
                        Some(AmendedHold { quantity: 2, .. }) => told.reserved += 1,
                        Some(_) => told.given_back += 1,
                        None => {}
                    }
                    1
                }
                _ => 1,
            }
        } else {
            if kind == RequestKind::Amend {
                // The hold has ended: the next request makes another one.
                self.amended = None;
            }
            told.refuse(body, status);
            0
        };
        told.done += done;
        done
    }

    /// Notes that a request got no answer. Of an amended hold one unit is certain then, and the next request makes another hold.
    pub(super) fn unanswered(&mut self, what: String, told: &mut Tally) {
        if let Some(AmendedHold { quantity: 1, .. }) = self.amended.take() {
            told.given_back += 1;
        }
        told.failed.insert(what, 1);
    }

    fn results(&mut self, body: &[u8], told: &mut Tally) -> u64 {
        let Ok(results) = serde_json::from_slice::<BatchResults<'_>>(body) else {
            *told.failed.entry("an answer that can't be read".to_owned()).or_default() += 1;
            return 0;
        };
        let mut done = 0;
        for result in results.results {
            match (result.status, result.reservation) {
                // 201 is a new reservation, 200 a confirmed one, as on the single routes.
                (201, Some(made)) => {
                    told.reserved += 1;
                    self.held.push(made.reservation_id.to_owned());
                }
                (200, Some(_)) => told.confirmed += 1,
                (status, _) => {
                    let reason = result
                        .problem
                        .map_or_else(|| format!("status {status}"), |why| why.reason.to_owned());
                    *told.refused.entry(reason).or_default() += 1;
                    continue;
                }
            }
            done += 1;
        }
        done
    }
}

fn post(kind: RequestKind, path: String, body: String) -> BenchRequest {
    BenchRequest { kind, method: hyper::Method::POST, path, body: body.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(mix: Mix) -> RequestGenerator {
        RequestGenerator::new(
            Workload { mix, skus: vec!["b-0".to_owned(), "b-1".to_owned()], ttl: 60, batch: 3 },
            0,
        )
        .unwrap()
    }

    #[test]
    fn what_was_held_is_confirmed_next() {
        let mut told = Tally::default();
        let mut traffic = traffic(Mix::ReserveConfirm);
        let first = traffic.next();
        assert!(first.path.starts_with("/v1/inventory/b-0/reserve"), "{}", first.path);
        assert_eq!(traffic.answered(first.kind, 200, br#"{"reservation_id":"x-1"}"#, &mut told), 1);
        let second = traffic.next();
        assert_eq!(
            (second.kind, second.path.as_str()),
            (RequestKind::Confirm, "/v1/reservations/x-1/confirm")
        );
        assert_eq!(traffic.answered(second.kind, 409, br#"{"reason":"reservation_expired"}"#, &mut told), 0);
        assert!(traffic.next().path.starts_with("/v1/inventory/b-1/reserve"));
        assert_eq!((told.done, told.reserved, told.confirmed), (1, 1, 0));
        assert_eq!(told.refused["reservation_expired"], 1);
    }

    #[test]
    fn what_was_held_is_paid_next() {
        let mut told = Tally::default();
        let mut traffic = traffic(Mix::ReserveCheckout);
        for (status, confirmed) in [(200, 1), (202, 1), (402, 1)] {
            let first = traffic.next();
            traffic.answered(first.kind, 200, br#"{"reservation_id":"x-1"}"#, &mut told);
            let second = traffic.next();
            assert_eq!(second.path, "/v1/reservations/x-1/checkout");
            let body: serde_json::Value = serde_json::from_slice(&second.body).unwrap();
            assert_eq!(body["payment_method"]["method_ref"], "approve");
            traffic.answered(second.kind, status, br#"{"reason":"payment_declined"}"#, &mut told);
            assert_eq!(told.confirmed, confirmed);
        }
        assert_eq!((told.unknown(), told.refused["payment_declined"]), (1, 1));
    }

    #[test]
    fn a_hold_is_amended_until_it_ends() {
        let mut told = Tally::default();
        let mut traffic = traffic(Mix::Amend);
        let first = traffic.next();
        assert_eq!(traffic.answered(first.kind, 200, br#"{"reservation_id":"x-1"}"#, &mut told), 1);
        for quantity in [2, 1, 2] {
            let amend = traffic.next();
            assert_eq!((amend.method.as_str(), amend.path.as_str()), ("PATCH", "/v1/reservations/x-1"));
            let body: serde_json::Value = serde_json::from_slice(&amend.body).unwrap();
            assert_eq!(
                (&body["lines"][0]["sku"], &body["lines"][0]["quantity"]),
                (&"b-0".into(), &quantity.into())
            );
            assert_eq!(traffic.answered(amend.kind, 200, b"{}", &mut told), 1);
        }
        let late = traffic.next();
        traffic.answered(late.kind, 409, br#"{"reason":"reservation_expired"}"#, &mut told);
        assert_eq!((traffic.next().kind, told.done), (RequestKind::Reserve, 4));
        assert_eq!((told.reserved, told.given_back), (3, 1));
        // An amend to one unit that got no answer may have taken effect.
        assert_eq!(traffic.answered(first.kind, 200, br#"{"reservation_id":"x-2"}"#, &mut told), 1);
        let amend = traffic.next();
        assert_eq!(traffic.answered(amend.kind, 200, b"{}", &mut told), 1);
        traffic.next();
        traffic.unanswered("connection lost".to_owned(), &mut told);
        assert_eq!((traffic.next().kind, told.unknown()), (RequestKind::Reserve, 1));
        assert_eq!((told.reserved, told.given_back), (5, 2));
    }

    #[test]
    fn a_batch_is_read_result_by_result() {
        let mut told = Tally::default();
        let mut traffic = traffic(Mix::Commands);
        let ask = traffic.next();
        let sent: serde_json::Value = serde_json::from_slice(&ask.body).unwrap();
        assert_eq!(sent["commands"].as_array().unwrap().len(), 3);
        let answer = br#"{"results":[{"status":201,"reservation":{"reservation_id":"a"}},{"status":409,"problem":{"reason":"insufficient_inventory"}},{"status":201,"reservation":{"reservation_id":"b"}}]}"#;
        assert_eq!(traffic.answered(ask.kind, 200, answer, &mut told), 2);
        let confirms: serde_json::Value = serde_json::from_slice(&traffic.next().body).unwrap();
        assert_eq!(confirms["commands"].as_array().unwrap().len(), 2);
        assert_eq!(confirms["commands"][0]["op"], "confirm");
        assert_eq!((told.reserved, told.refused["insufficient_inventory"]), (2, 1));
    }
}
