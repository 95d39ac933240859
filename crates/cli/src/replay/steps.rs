//! Executes one order: hold and confirm, return, or write off. An answer is recorded in the ledger before any request
//! that depends on it.
//!
//! Every key is made of the prefix, the order and the step, so that a second run repeats the first one's requests.

use super::choices::{OrderChoices, ReturnChoice, ReturnPart, SoldUnits};
use super::ledger::{Ledger, refuse};
use super::plan::{ReplayPlan, ReplayStep, StepKind};
use crate::client::{Answer, CallError, RESERVATIONS, RetryClient, item_path};
use crate::latency::RequestKind;
use serde::Serialize;
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::time::Instant;
use stockhold_api::problem::Reason;
use stockhold_api::wire::{
    Disposition, Item, Problem, RequestedLine, Reservation, ReturnedUnits, Status, Terms,
};
use stockhold_domain::ReservationId;

/// Why a basket or a line of a cart is left out: what came after it in an earlier run was done without it.
pub(super) const DECIDED_EARLIER: &str = "refused_in_an_earlier_run";

/// What all steps share.
pub(super) struct ReplayRun {
    pub(super) caller: RetryClient,
    pub(super) plan: ReplayPlan,
    pub(super) ledger: RefCell<Ledger>,
    pub(super) location: String,
    pub(super) prefix: String,
    pub(super) partial: bool,
    /// Whether baskets are built line by line, and changed before and after the sale.
    pub(super) carts: bool,
    pub(super) ttl_seconds: u32,
    /// Steps that an earlier run was refused and went on without: they stay refused.
    pub(super) refused_before: OnceCell<HashSet<usize>>,
}

/// What one customer has bought so far, the latest last.
#[derive(Default)]
pub(super) struct Purchases(pub(super) Vec<Purchase>);

/// A confirmed reservation.
pub(super) struct Purchase {
    pub(super) id: ReservationId,
    /// Units that have not come back, by SKU.
    pub(super) sold: BTreeMap<String, SoldUnits>,
}

/// One command as it is sent.
pub(super) struct ReplayRequest<'a, B> {
    pub(super) kind: RequestKind,
    pub(super) method: &'static str,
    pub(super) path: &'a str,
    /// The version that the target must have.
    pub(super) version: Option<u64>,
    pub(super) body: &'a B,
}

#[derive(Serialize)]
pub(super) struct BasketBody {
    pub(super) lines: Vec<RequestedLine>,
    #[serde(flatten)]
    pub(super) terms: Terms,
    pub(super) idempotency_key: String,
}

/// A body with its idempotency key.
#[derive(Serialize)]
pub(super) struct Keyed<T> {
    #[serde(flatten)]
    pub(super) body: T,
    pub(super) idempotency_key: String,
}

#[derive(Serialize)]
struct ConfirmBody<'a> {
    order_id: &'a str,
    idempotency_key: String,
}

#[derive(Serialize)]
pub(super) struct AdjustBody<'a> {
    pub(super) delta: i64,
    pub(super) reason: &'a str,
    pub(super) idempotency_key: String,
}

impl ReplayRun {
    /// Does one step. `due` is when it was to begin, which is what its first answer is timed from.
    pub(super) async fn step(
        &self,
        number: usize,
        bought: &mut Purchases,
        due: Instant,
    ) -> Result<(), CallError> {
        let Some(step) = self.plan.steps.get(number) else { return Ok(()) };
        match step.what {
            StepKind::Sale
                if self
                    .refused_before
                    .get()
                    .is_some_and(|refused_before| refused_before.contains(&number)) =>
            {
                self.count(step);
                let why = "its customer's cancellation was booked without it in an earlier run";
                refuse(&mut self.ledger.borrow_mut().baskets.refused, DECIDED_EARLIER, &step.order, why);
                Ok(())
            }
            StepKind::Sale if self.carts => self.sell_cart(step, bought, due).await,
            StepKind::Sale => self.sell(step, bought, due).await,
            StepKind::Cancellation => self.cancel_order(step, bought, due).await,
            StepKind::WriteOff => self.write_off(step, due).await,
        }
    }

    async fn sell(&self, step: &ReplayStep, bought: &mut Purchases, due: Instant) -> Result<(), CallError> {
        self.count(step);
        let basket = self.hold_request(step);
        let held = match self.send::<Reservation>(RequestKind::Reserve, RESERVATIONS, &basket, due).await? {
            Ok(answer) => answer.body,
            Err(problem) => {
                self.ledger.borrow_mut().refused(&step.order, &problem);
                return Ok(());
            }
        };
        let was_active = held.status == Status::Active;
        {
            let mut ledger = self.ledger.borrow_mut();
            ledger.baskets.held += 1;
            if was_active {
                held.lines.iter().for_each(|line| ledger.sku(&line.sku).held += line.quantity);
            }
        }
        let path = format!("{RESERVATIONS}/{}/confirm", held.reservation_id);
        let confirm =
            ConfirmBody { order_id: &step.order, idempotency_key: self.key(&step.order, "confirm") };
        let answer = self.send::<Reservation>(RequestKind::Confirm, &path, &confirm, Instant::now()).await?;
        let mut ledger = self.ledger.borrow_mut();
        if was_active {
            held.lines.iter().for_each(|line| ledger.sku(&line.sku).held -= line.quantity);
        }
        match answer {
            Ok(answer) => {
                let mut sold = BTreeMap::new();
                ledger.baskets.confirmed += 1;
                for line in answer.body.lines {
                    ledger.sku(&line.sku).confirmed += line.quantity;
                    ledger.baskets.units_confirmed += line.quantity;
                    sold.insert(line.sku, SoldUnits { left: line.quantity, fulfilled: 0 });
                }
                bought.0.push(Purchase { id: answer.body.reservation_id, sold });
            }
            Err(problem) => ledger.lost(&step.order, &problem.reason, &problem.detail),
        }
        Ok(())
    }

    /// Counts an order to sell.
    pub(super) fn count(&self, step: &ReplayStep) {
        let baskets = &mut self.ledger.borrow_mut().baskets;
        baskets.orders += 1;
        let units = step.lines.iter().map(|(_, units)| *units);
        baskets.units_asked = units.fold(baskets.units_asked, u64::saturating_add);
    }

    /// Returns the latest purchases first. Units that were not bought in this replay become an adjustment.
    async fn cancel_order(
        &self,
        step: &ReplayStep,
        bought: &mut Purchases,
        due: Instant,
    ) -> Result<(), CallError> {
        self.ledger.borrow_mut().cancellations.orders += 1;
        let mut due = due;
        for (number, (sku, units)) in step.lines.iter().enumerate() {
            self.ledger.borrow_mut().cancellations.lines += 1;
            let mut open = *units;
            let mut part = 0;
            let choice =
                if self.carts { ReturnChoice::of(&step.order, number) } else { ReturnChoice::default() };
            for purchase in bought.0.iter_mut().rev() {
                let Some(sold) = purchase.sold.get_mut(sku).filter(|sold| sold.left > 0) else { continue };
                for back in sold.take(open, choice) {
                    open -= back.units;
                    self.return_units(step, (number, part), (purchase.id, sku, back), due).await?;
                    (part, due) = (part + 1, Instant::now());
                }
                if open == 0 {
                    break;
                }
            }
            if open > 0 {
                let key = self.part_key(&step.order, "adjust", (number, part));
                let reason = format!("cancellation {}", step.order);
                let refused = self.adjust((sku, open, 1), &reason, key, due).await?;
                due = Instant::now();
                let cancellations = &mut self.ledger.borrow_mut().cancellations;
                match refused {
                    Some((reason, detail)) => {
                        refuse(&mut cancellations.refused, &reason, &step.order, &detail);
                    }
                    None => {
                        cancellations.adjustments += 1;
                        cancellations.units_adjusted += open;
                    }
                }
            }
        }
        Ok(())
    }

    async fn return_units(
        &self,
        step: &ReplayStep,
        part: (usize, usize),
        (id, sku, back): (ReservationId, &str, ReturnPart),
        due: Instant,
    ) -> Result<(), CallError> {
        let ReturnPart { units, fulfilled, from, disposition } = back;
        let returned = ReturnedUnits {
            lines: Some(vec![self.want(sku, units)]),
            units: None,
            from,
            disposition,
            reason: step.order.clone(),
        };
        let body = Keyed { body: returned, idempotency_key: self.part_key(&step.order, "return", part) };
        let path = format!("{RESERVATIONS}/{id}/return");
        let answer = self.send::<Reservation>(RequestKind::Return, &path, &body, due).await?;
        let mut ledger = self.ledger.borrow_mut();
        match answer {
            Ok(_) => {
                let written_off = if disposition == Disposition::WriteOff { units } else { 0 };
                let totals = ledger.sku(sku);
                totals.returned += units;
                totals.fulfilled -= fulfilled;
                totals.written_off += written_off;
                ledger.carts.units_returned_fulfilled += fulfilled;
                ledger.carts.units_written_off += written_off;
                ledger.cancellations.returns += 1;
                ledger.cancellations.units_returned += units;
            }
            Err(problem) => {
                refuse(&mut ledger.cancellations.refused, &problem.reason, &step.order, &problem.detail);
            }
        }
        Ok(())
    }

    async fn write_off(&self, step: &ReplayStep, due: Instant) -> Result<(), CallError> {
        let mut due = due;
        for (number, (sku, units)) in step.lines.iter().enumerate() {
            let key = self.part_key(&step.order, "adjust", (number, 0));
            let refused =
                self.adjust((sku, *units, -1), &format!("write-off {}", step.order), key, due).await?;
            due = Instant::now();
            let write_offs = &mut self.ledger.borrow_mut().write_offs;
            write_offs.lines += 1;
            match refused {
                Some((reason, detail)) => refuse(&mut write_offs.refused, &reason, &step.order, &detail),
                None => {
                    write_offs.adjustments += 1;
                    write_offs.units += units;
                }
            }
        }
        Ok(())
    }

    /// Moves an item's total; what comes back is why not.
    async fn adjust(
        &self,
        (sku, units, sign): (&str, u64, i64),
        reason: &str,
        key: String,
        due: Instant,
    ) -> Result<Option<(String, String)>, CallError> {
        // A total above the limit is sent unchanged, and the server refuses it.
        let delta = i64::try_from(units).unwrap_or(i64::MAX).saturating_mul(sign);
        let body = AdjustBody { delta, reason, idempotency_key: key };
        let path = item_path(sku, &self.location, "/adjust");
        match self.send::<Item>(RequestKind::Adjust, &path, &body, due).await? {
            Ok(_) => {
                self.ledger.borrow_mut().sku(sku).adjusted += delta;
                Ok(None)
            }
            Err(problem) => Ok(Some((problem.reason, problem.detail))),
        }
    }

    /// Sends one command by POST.
    pub(super) async fn send<T: serde::de::DeserializeOwned>(
        &self,
        kind: RequestKind,
        path: &str,
        body: &impl Serialize,
        due: Instant,
    ) -> Result<Result<Answer<T>, Problem>, CallError> {
        self.send_request(ReplayRequest { kind, method: "POST", path, version: None, body }, due).await
    }

    /// Sends one command and measures its time. A key that belongs to a different request ends the replay, because the
    /// ledger would be wrong.
    pub(super) async fn send_request<T: serde::de::DeserializeOwned>(
        &self,
        request: ReplayRequest<'_, impl Serialize>,
        due: Instant,
    ) -> Result<Result<Answer<T>, Problem>, CallError> {
        let ReplayRequest { kind, method, path, version, body } = request;
        let answer = self.caller.command(method, path, version, body).await;
        let mut ledger = self.ledger.borrow_mut();
        match answer {
            Ok(answer) => {
                ledger.latencies.add(kind, due.elapsed());
                ledger.answered += 1;
                ledger.replayed += u64::from(answer.replayed);
                Ok(Ok(answer))
            }
            Err(CallError::Refused(problem)) if problem.reason == Reason::IdempotencyMismatch.name() => {
                Err(CallError::Unexpected(format!(
                    "the server knows a key of this replay for another request ({}). Another replay has used the \
                     prefix {:?} there: give another one with --key-prefix, or use a fresh data directory",
                    problem.detail, self.prefix
                )))
            }
            Err(CallError::Refused(problem)) => {
                ledger.latencies.add(kind, due.elapsed());
                ledger.answered += 1;
                Ok(Err(*problem))
            }
            Err(other) => Err(other),
        }
    }

    /// The request that holds an order, or the first line of it if carts are built line by line.
    pub(super) fn hold_request(&self, step: &ReplayStep) -> BasketBody {
        let lines = if self.carts { step.lines.get(..1).unwrap_or_default() } else { step.lines.as_slice() };
        BasketBody {
            lines: lines.iter().map(|(sku, units)| self.want(sku, *units)).collect(),
            terms: self.terms(step),
            idempotency_key: self.key(&step.order, "hold"),
        }
    }

    /// The terms of an order's hold. A cart that is transferred later belongs to a guest first.
    fn terms(&self, step: &ReplayStep) -> Terms {
        let is_guest = self.carts && step.customer.is_some() && OrderChoices::of(&step.order).transferred();
        Terms {
            owner_id: step.order.clone(),
            ttl_seconds: Some(self.ttl_seconds),
            partial: self.partial,
            customer_id: step.customer.clone().filter(|_| !is_guest),
            session_id: is_guest.then(|| step.order.clone()),
            ..Terms::default()
        }
    }

    /// So many units of a SKU.
    pub(super) fn want(&self, sku: &str, quantity: u64) -> RequestedLine {
        RequestedLine { sku: sku.to_owned(), location: Some(self.location.clone()), quantity }
    }

    /// The key of an order's step.
    pub(super) fn key(&self, order: &str, what: &str) -> String {
        format!("{}:{order}:{what}", self.prefix)
    }

    /// The key of one part of a step.
    pub(super) fn part_key(&self, order: &str, what: &str, (line, part): (usize, usize)) -> String {
        format!("{}:{order}:{what}:{line}:{part}", self.prefix)
    }
}
