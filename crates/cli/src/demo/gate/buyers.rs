//! The buyers of the drop: each asks once for one unit, without an idempotency key, and every second one pays at once.
//!
//! The audit uses only what buyers learned from answers, which is recorded here.

use super::{KILLED, SERVERS};
use crate::client::{CallError, RESERVATIONS, RetryClient, item_path};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use stockhold_api::client::{Error, Listed};
use stockhold_api::problem::Reason;
use stockhold_api::wire::{Problem, Reservation};
use stockhold_domain::ReservationId;
use tokio::sync::Semaphore;

/// What is sold.
pub(super) const SKU: &str = "sneaker";
/// Where.
pub(super) const LOCATION: &str = "default";
/// How long a hold lasts, in seconds: longer than the demo.
const HOLD_SECONDS: u32 = 1_800;
/// Requests that are under way at each server. More wait for their turn, as in front of a real server.
const AT_ONCE: usize = 100;
/// How often a buyer without an answer checks whether the server is back, and how long an overloaded server is left alone.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// What a buyer was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuyerAnswer {
    Held,
    Refused,
}

/// A hold that a buyer knows of.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcknowledgedHold {
    pub(super) buyer: u32,
    pub(super) id: ReservationId,
    pub(super) is_paid: bool,
}

/// Why there is no answer to a reserve.
enum ReserveFailure {
    /// It may have taken effect.
    NoAnswer,
    /// Nothing was done, and a later try may succeed.
    Busy,
    Failed(CallError),
}

/// The sale, as its buyers see it.
pub(super) struct GatedSale {
    callers: Vec<RetryClient>,
    turns: [Semaphore; SERVERS],
    /// Whether the killed server serves again.
    is_back: Cell<bool>,
    holds: RefCell<Vec<AcknowledgedHold>>,
    refused: RefCell<Vec<u32>>,
    pub(super) refused_by_gate: Cell<u64>,
    pub(super) refused_by_database: Cell<u64>,
    /// Reserves whose connection ended without an answer.
    pub(super) unanswered: Cell<u64>,
    /// Holds that these reserves had made.
    pub(super) found: Cell<u64>,
}

impl GatedSale {
    pub(super) fn new(callers: Vec<RetryClient>) -> Self {
        Self {
            callers,
            turns: std::array::from_fn(|_| Semaphore::new(AT_ONCE)),
            is_back: Cell::new(false),
            holds: RefCell::default(),
            refused: RefCell::default(),
            refused_by_gate: Cell::default(),
            refused_by_database: Cell::default(),
            unanswered: Cell::default(),
            found: Cell::default(),
        }
    }

    /// The client of a server.
    pub(super) fn caller(&self, server: usize) -> &RetryClient {
        &self.callers[server % self.callers.len()]
    }

    /// How many buyers hold a unit.
    pub(super) fn held(&self) -> u64 {
        self.holds.borrow().len() as u64
    }

    pub(super) fn holds(&self) -> Vec<AcknowledgedHold> {
        self.holds.borrow().clone()
    }

    /// How many buyers were refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused.borrow().len() as u64
    }

    pub(super) fn refused_buyers(&self) -> Vec<u32> {
        self.refused.borrow().clone()
    }

    /// Tells the buyers that the killed server serves again.
    pub(super) fn came_back(&self) {
        self.is_back.set(true);
    }

    /// One buyer asks for one unit, until there is an answer.
    pub(super) async fn buy(&self, buyer: u32) -> Result<BuyerAnswer, CallError> {
        let server = buyer as usize % SERVERS;
        let turn = self.turns[server].acquire().await;
        let _turn = turn.map_err(|error| CallError::Unexpected(error.to_string()))?;
        let id = loop {
            match self.reserve(server, buyer).await {
                Ok(Some(id)) => break id,
                Ok(None) => {
                    self.refused.borrow_mut().push(buyer);
                    return Ok(BuyerAnswer::Refused);
                }
                Err(ReserveFailure::Failed(failed)) => return Err(failed),
                Err(ReserveFailure::Busy) => tokio::time::sleep(RETRY_INTERVAL).await,
                Err(ReserveFailure::NoAnswer) => {
                    add(&self.unanswered, 1);
                    while server == KILLED && !self.is_back.get() {
                        tokio::time::sleep(RETRY_INTERVAL).await;
                    }
                    if let Some(id) = self.find_hold(server, buyer).await? {
                        add(&self.found, 1);
                        break id;
                    }
                }
            }
        };
        // A hold counts from here on, even if its payment fails.
        let is_paid = buyer % 4 < 2;
        self.holds.borrow_mut().push(AcknowledgedHold { buyer, id, is_paid });
        if is_paid {
            let order = format!("order-{buyer}");
            let paid = json!({ "order_id": order, "idempotency_key": format!("{order}:confirm") });
            let path = format!("{RESERVATIONS}/{id}/confirm");
            self.caller(server).post::<Reservation>(&path, &paid).await?;
        }
        Ok(BuyerAnswer::Held)
    }

    /// One reserve without a key: the hold, or none if there are no units.
    async fn reserve(&self, server: usize, buyer: u32) -> Result<Option<ReservationId>, ReserveFailure> {
        let body =
            json!({ "owner_id": owner(buyer), "quantity": 1, "ttl_seconds": HOLD_SECONDS }).to_string();
        let path = item_path(SKU, LOCATION, "/reserve");
        let raw = match self.caller(server).client().send_raw("POST", &path, body.as_bytes()).await {
            Ok(raw) => raw,
            Err(Error::Unreachable { .. }) => return Err(ReserveFailure::NoAnswer),
            Err(other) => return Err(ReserveFailure::Failed(other.into())),
        };
        let odd = |error: serde_json::Error| {
            ReserveFailure::Failed(CallError::Unexpected(format!("an answer that can't be read: {error}")))
        };
        if raw.status < 300 {
            let made: Reservation = serde_json::from_slice(&raw.body).map_err(odd)?;
            return Ok(Some(made.reservation_id));
        }
        let problem: Box<Problem> = serde_json::from_slice(&raw.body).map_err(odd)?;
        match Reason::from_name(&problem.reason) {
            Some(Reason::InsufficientInventory) => {
                let is_gate = problem.lines.iter().any(|line| line.approximate);
                add(if is_gate { &self.refused_by_gate } else { &self.refused_by_database }, 1);
                Ok(None)
            }
            Some(Reason::Overloaded | Reason::Unavailable) => Err(ReserveFailure::Busy),
            _ if problem.status >= 500 => Err(ReserveFailure::NoAnswer),
            _ => Err(ReserveFailure::Failed(CallError::Refused(problem))),
        }
    }

    /// The hold that a reserve without an answer has made, if it has.
    async fn find_hold(&self, server: usize, buyer: u32) -> Result<Option<ReservationId>, CallError> {
        let owner = owner(buyer);
        let listed = Listed { owner_id: Some(&owner), ..Listed::default() };
        let found =
            self.caller(server).ask(async |client| client.reservations(listed, None, None).await).await?;
        Ok(found.data.first().map(|hold| hold.reservation_id))
    }
}

fn add(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}

/// The owner as the server knows the buyer.
pub(super) fn owner(buyer: u32) -> String {
    format!("buyer-{buyer}")
}
