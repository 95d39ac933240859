//! The buyers of the demo with payments: how each pays, and what each was told.

use super::provider::ProviderProcess;
use crate::client::{CallError, RESERVATIONS, RetryClient, item_path};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use stockhold_api::problem::Reason;
use stockhold_api::wire::{
    CheckoutRequest, ExtraAmount, PaymentMethod, PaymentState, RefundRequest, Reservation, Status, Terms,
};
use stockhold_domain::ReservationId;
use tokio::sync::Semaphore;

/// What is sold.
pub(super) const SKU: &str = "sneaker";
/// Where.
pub(super) const LOCATION: &str = "default";
/// The price of one, in cents.
pub(super) const PRICE: u64 = 12_900;
/// The postage of an order, in cents.
const POSTAGE: u64 = 490;
/// Requests that are under way at once.
const AT_ONCE: usize = 200;
/// How often a buyer reads a payment that goes on by itself, and asks again for a unit.
const PAYMENT_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// What becomes of payments, and how many of a hundred buyers have this. The names are those of the test provider.
const METHODS: [(&str, u64); 9] = [
    ("approve", 34),
    ("decline", 12),
    ("require_action", 14),
    ("timeout_before", 8),
    ("timeout_after", 8),
    ("answer_twice", 8),
    ("error_remembered", 6),
    ("capture_fails", 4),
    ("refund_fails_three_times", 6),
];

#[derive(Serialize)]
struct ReserveBody {
    quantity: u64,
    #[serde(flatten)]
    terms: Terms,
    idempotency_key: String,
}

#[derive(Serialize)]
struct CheckoutBody {
    #[serde(flatten)]
    checkout: CheckoutRequest,
    idempotency_key: String,
}

#[derive(Serialize)]
struct RefundBody {
    #[serde(flatten)]
    refund: RefundRequest,
    idempotency_key: String,
}

/// The sale, as its buyers see it.
pub(super) struct PaidSale {
    pub(super) caller: RetryClient,
    pub(super) provider: ProviderProcess,
    seed: u64,
    /// Reservations with a checkout.
    pub(super) checkouts: RefCell<Vec<ReservationId>>,
    /// Reservations whose buyers were told that they are paid.
    pub(super) paid: RefCell<Vec<ReservationId>>,
    /// Those of them that were given back.
    pub(super) given_back: Cell<u64>,
    pub(super) declined: Cell<u64>,
    /// Payments that their buyers gave up at the bank.
    pub(super) given_up: Cell<u64>,
    /// Payments that the provider could not move the money of.
    pub(super) failed: Cell<u64>,
    /// Whether the demo has ended the sale.
    pub(super) is_over: Cell<bool>,
    turn: Semaphore,
}

impl PaidSale {
    pub(super) fn new(caller: RetryClient, provider: ProviderProcess, seed: u64) -> Rc<Self> {
        Rc::new(Self {
            caller,
            provider,
            seed,
            checkouts: RefCell::default(),
            paid: RefCell::default(),
            given_back: Cell::new(0),
            declined: Cell::new(0),
            given_up: Cell::new(0),
            failed: Cell::new(0),
            is_over: Cell::new(false),
            turn: Semaphore::new(AT_ONCE),
        })
    }

    /// Units that are sold, as far as buyers were told.
    pub(super) fn sold(&self) -> u64 {
        (self.paid.borrow().len() as u64).saturating_sub(self.given_back.get())
    }

    /// One buyer asks until there is a unit and it is paid, or the sale is over.
    pub(super) async fn buy(&self, buyer: u32) -> Result<(), CallError> {
        let mut attempt = 0;
        while !self.is_over.get() {
            let Some(id) = self.reserve(buyer, attempt).await? else {
                tokio::time::sleep(PAYMENT_POLL_INTERVAL).await;
                continue;
            };
            // Who was declined pays with another card.
            let method = if attempt == 0 { self.method(buyer) } else { "approve" };
            let name = format!("buyer-{buyer}:{attempt}");
            if self.pay(buyer, &name, id, method).await? {
                return Ok(());
            }
            attempt += 1;
        }
        Ok(())
    }

    async fn reserve(&self, buyer: u32, attempt: u32) -> Result<Option<ReservationId>, CallError> {
        let owner_id = format!("buyer-{buyer}");
        let request = ReserveBody {
            quantity: 1,
            idempotency_key: format!("{owner_id}:{attempt}:hold"),
            terms: Terms { owner_id, ttl_seconds: Some(60), ..Terms::default() },
        };
        let _turn = self.turn.acquire().await;
        match self.caller.post::<Reservation>(&item_path(SKU, LOCATION, "/reserve"), &request).await {
            Ok(answer) => Ok(Some(answer.body.reservation_id)),
            Err(CallError::Refused(problem)) if problem.reason == Reason::InsufficientInventory.name() => {
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// Pays for a hold. `false` if the hold is gone without a sale.
    async fn pay(&self, buyer: u32, name: &str, id: ReservationId, method: &str) -> Result<bool, CallError> {
        let is_charged_first = self.dice(buyer, "capture").is_multiple_of(2) && method != "capture_fails";
        let checkout = CheckoutRequest {
            payment_method: Some(PaymentMethod {
                provider: "test".to_owned(),
                method_ref: method.to_owned(),
                customer_ref: None,
            }),
            capture: is_charged_first.then(|| "charge_then_confirm".to_owned()),
            extra: vec![ExtraAmount { name: "postage".to_owned(), amount: POSTAGE }],
            ..CheckoutRequest::default()
        };
        self.checkouts.borrow_mut().push(id);
        let body = CheckoutBody { checkout, idempotency_key: format!("{name}:checkout") };
        let answer = {
            let _turn = self.turn.acquire().await;
            self.caller.post::<Reservation>(&format!("{RESERVATIONS}/{id}/checkout"), &body).await
        };
        let mut shown = match answer {
            Ok(answer) => answer.body,
            Err(CallError::Refused(problem)) if problem.reason == Reason::PaymentDeclined.name() => {
                let count = if method == "capture_fails" { &self.failed } else { &self.declined };
                count.set(count.get() + 1);
                return Ok(false);
            }
            Err(other) => return Err(other),
        };
        let provider_ref = shown.payment.as_ref().and_then(|payment| payment.provider_ref.clone());
        if state(&shown) == Some(PaymentState::RequiresAction)
            && let Some(provider_ref) = provider_ref
        {
            self.go_to_the_bank(buyer, id, &provider_ref).await?;
        }
        while !is_at_rest(&shown) {
            tokio::time::sleep(PAYMENT_POLL_INTERVAL).await;
            shown = self.caller.ask(async |client| client.reservation(id).await).await?;
        }
        if shown.status != Status::Confirmed || state(&shown) != Some(PaymentState::Captured) {
            let count = if method == "capture_fails" { &self.failed } else { &self.given_up };
            count.set(count.get() + 1);
            return Ok(false);
        }
        // A unit that goes back does not count as sold in between.
        let goes_back = method == "refund_fails_three_times";
        self.given_back.set(self.given_back.get() + u64::from(goes_back));
        self.paid.borrow_mut().push(id);
        if goes_back {
            self.give_back(name, id).await?;
        }
        Ok(true)
    }

    /// Most buyers agree at the bank. Some give up.
    async fn go_to_the_bank(
        &self,
        buyer: u32,
        id: ReservationId,
        provider_ref: &str,
    ) -> Result<(), CallError> {
        if self.dice(buyer, "bank").is_multiple_of(4) {
            self.caller.ask(async |client| client.cancel_checkout(id).await).await?;
            return Ok(());
        }
        self.provider.approve(provider_ref).await
    }

    /// The sneaker does not fit: the unit and its money go back.
    async fn give_back(&self, name: &str, id: ReservationId) -> Result<(), CallError> {
        let refund = RefundRequest {
            lines: vec![stockhold_api::wire::RequestedLine {
                sku: SKU.to_owned(),
                location: Some(LOCATION.to_owned()),
                quantity: 1,
            }],
            reason: "does not fit".to_owned(),
            ..RefundRequest::default()
        };
        let body = RefundBody { refund, idempotency_key: format!("{name}:refund") };
        self.caller.post::<Reservation>(&format!("{RESERVATIONS}/{id}/refund"), &body).await?;
        Ok(())
    }

    fn method(&self, buyer: u32) -> &'static str {
        let mut left = self.dice(buyer, "method") % METHODS.iter().map(|(_, share)| share).sum::<u64>();
        for (name, share) in METHODS {
            match left.checked_sub(share) {
                Some(rest) => left = rest,
                None => return name,
            }
        }
        "approve"
    }

    /// A number that depends on the seed, the buyer and the question.
    fn dice(&self, buyer: u32, question: &str) -> u64 {
        super::super::sale::dice(self.seed, buyer, question)
    }
}

fn state(reservation: &Reservation) -> Option<PaymentState> {
    reservation.payment.as_ref().map(|payment| payment.state)
}

/// Whether nothing is left to do about the payment of a reservation.
pub(super) fn is_at_rest(reservation: &Reservation) -> bool {
    matches!(
        state(reservation),
        Some(
            PaymentState::Captured
                | PaymentState::Declined
                | PaymentState::Voided
                | PaymentState::Refunded
                | PaymentState::RefundFailed
        )
    )
}
