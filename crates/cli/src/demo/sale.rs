//! The buyers: what each wants, what each was told.
//!
//! The audit uses only what buyers learned from answers, which is recorded here.

use crate::client::{CallError, RESERVATIONS, RetryClient, item_path};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use stockhold_api::client::At;
use stockhold_api::problem::Reason;
use stockhold_api::wire::{Reservation, Terms};
use stockhold_domain::{Instant, ReservationId};
use tokio::sync::Semaphore;

/// What is sold.
pub(super) const SKU: &str = "sneaker";
/// Where.
pub(super) const LOCATION: &str = "default";
/// How long a hold lasts, in seconds.
pub(super) const HOLD_SECONDS: u32 = 3;
/// Requests that are under way at once; more wait for their turn, as in front of a real server.
const AT_ONCE: usize = 200;
/// Longest time that a buyer takes to make up their mind, in milliseconds.
const THINK_MILLIS: u64 = 800;
/// How often a late buyer asks again while holds of others may still end.
const ASK_EVERY: Duration = Duration::from_millis(150);

/// What a buyer does with a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuyerPlan {
    Pay,
    Cancel,
    Abandon,
}

/// How a hold ended according to its buyer's last answer. A buyer who abandons a hold gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuyerOutcome {
    Sold,
    Released,
    Abandoned,
    Expired,
}

/// A hold that a buyer was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldRecord {
    pub(super) buyer: u32,
    pub(super) id: ReservationId,
    pub(super) told: BuyerOutcome,
}

/// The sale, as its buyers see it.
pub(super) struct DemoSale {
    pub(super) caller: RetryClient,
    pub(super) seed: u64,
    /// Every hold that was given to anybody.
    pub(super) given: RefCell<Vec<HoldRecord>>,
    /// Sales that were acknowledged.
    pub(super) sold: Cell<u64>,
    turn: Semaphore,
}

#[derive(Serialize)]
struct DemoReserveBody {
    quantity: u64,
    #[serde(flatten)]
    terms: Terms,
    idempotency_key: String,
}

#[derive(Serialize)]
struct DemoConfirmBody {
    order_id: String,
    idempotency_key: String,
}

impl DemoSale {
    pub(super) fn new(caller: RetryClient, seed: u64) -> Rc<Self> {
        let (given, sold) = (RefCell::default(), Cell::new(0));
        Rc::new(Self { caller, seed, given, sold, turn: Semaphore::new(AT_ONCE) })
    }

    /// Asks for one unit. Without one, says when it may be worth asking again.
    pub(super) async fn reserve(
        &self,
        buyer: u32,
    ) -> Result<Result<ReservationId, Option<Instant>>, CallError> {
        let owner_id = format!("buyer-{buyer}");
        let request = DemoReserveBody {
            quantity: 1,
            idempotency_key: format!("{owner_id}:hold"),
            terms: Terms { owner_id, ttl_seconds: Some(HOLD_SECONDS), ..Terms::default() },
        };
        let _turn = self.turn.acquire().await;
        match self.caller.post::<Reservation>(&item_path(SKU, LOCATION, "/reserve"), &request).await {
            Ok(answer) => Ok(Ok(answer.body.reservation_id)),
            Err(CallError::Refused(problem)) if problem.reason == Reason::InsufficientInventory.name() => {
                Ok(Err(problem.lines.first().and_then(|line| line.next_expiry_at)))
            }
            Err(other) => Err(other),
        }
    }

    /// What a buyer does with a hold, after some thought.
    pub(super) async fn decide(&self, buyer: u32, id: ReservationId) -> Result<(), CallError> {
        let told = match self.fate(buyer) {
            BuyerPlan::Abandon => BuyerOutcome::Abandoned,
            fate => {
                tokio::time::sleep(Duration::from_millis(self.dice(buyer, "think") % THINK_MILLIS)).await;
                if fate == BuyerPlan::Pay { self.pay(buyer, id).await? } else { self.release(id).await? }
            }
        };
        self.given.borrow_mut().push(HoldRecord { buyer, id, told });
        Ok(())
    }

    /// A buyer who was too late tries again until a unit is available, or until no hold is left that could end.
    pub(super) async fn come_back(&self, buyer: u32) -> Result<bool, CallError> {
        loop {
            match self.reserve(buyer).await? {
                Ok(id) => {
                    let told = self.pay(buyer, id).await?;
                    self.given.borrow_mut().push(HoldRecord { buyer, id, told });
                    return Ok(told == BuyerOutcome::Sold);
                }
                Err(None) => return Ok(false),
                Err(Some(_)) => tokio::time::sleep(ASK_EVERY).await,
            }
        }
    }

    async fn pay(&self, buyer: u32, id: ReservationId) -> Result<BuyerOutcome, CallError> {
        let order_id = format!("order-{buyer}");
        let request = DemoConfirmBody { idempotency_key: format!("{order_id}:confirm"), order_id };
        let _turn = self.turn.acquire().await;
        match self.caller.post::<Reservation>(&format!("{RESERVATIONS}/{id}/confirm"), &request).await {
            Ok(_) => {
                self.sold.set(self.sold.get() + 1);
                Ok(BuyerOutcome::Sold)
            }
            Err(CallError::Refused(problem)) if problem.reason == Reason::ReservationExpired.name() => {
                Ok(BuyerOutcome::Expired)
            }
            Err(other) => Err(other),
        }
    }

    async fn release(&self, id: ReservationId) -> Result<BuyerOutcome, CallError> {
        let _turn = self.turn.acquire().await;
        self.caller.ask(async |client| client.release(id, Some("changed my mind")).await).await?;
        Ok(BuyerOutcome::Released)
    }

    /// The item as the server has it.
    pub(super) async fn item(&self) -> Result<stockhold_api::wire::Item, CallError> {
        let at = At { sku: SKU, location: Some(LOCATION) };
        self.caller.ask(async |client| client.item(at).await).await
    }

    /// Half of the buyers pay, a quarter change their minds, a quarter walk away.
    pub(super) fn fate(&self, buyer: u32) -> BuyerPlan {
        match self.dice(buyer, "fate") % 4 {
            0 | 1 => BuyerPlan::Pay,
            2 => BuyerPlan::Cancel,
            _ => BuyerPlan::Abandon,
        }
    }

    /// A number that depends on the seed, the buyer and the question.
    fn dice(&self, buyer: u32, question: &str) -> u64 {
        dice(self.seed, buyer, question)
    }
}

/// A number that depends on a seed, a buyer and a question.
pub(super) fn dice(seed: u64, buyer: u32, question: &str) -> u64 {
    let hash = blake3::hash(format!("{seed}:{buyer}:{question}").as_bytes());
    hash.as_bytes().iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}
