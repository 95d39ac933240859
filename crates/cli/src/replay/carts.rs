//! Sells one order in a replay with `--carts`: the basket is built line by line, and the order's choices say what else
//! happens to it before and after the sale.
//!
//! Every change names the version that the reservation must have. The version is counted here and not read from the
//! answers, because the answer to a repeated request shows the reservation as it is now. A change that an earlier run
//! was refused and went on without is then refused again, since the version has risen since.

use super::audit::Difference;
use super::choices::{FulfilmentChoice, OrderChoices, SoldUnits, Units, first_parcel, second_half};
use super::ledger::{Ledger, refuse};
use super::plan::ReplayStep;
use super::steps::{DECIDED_EARLIER, Keyed, Purchase, Purchases, ReplayRequest, ReplayRun};
use crate::client::{Answer, CallError, RESERVATIONS};
use crate::latency::RequestKind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;
use stockhold_api::problem::Reason;
use stockhold_api::wire::{
    AmendedLine, Amendment, Confirmation, MergeRequest, PaymentWindow, Problem, Recipient, RequestedLine,
    Reservation, Shipment, Status,
};
use stockhold_domain::{Patch, ReservationId};

/// Length of a payment window in seconds.
const WINDOW_SECONDS: u32 = 600;
/// Why the first payment is given up.
const DECLINED: &str = "card declined";

/// A hold of an order, as the accepted requests left it.
struct Cart {
    id: ReservationId,
    /// Which of the order's reservations it is, counted from 0.
    part: usize,
    version: u64,
    lines: Units,
}

/// The lines of a split.
#[derive(Serialize)]
struct SplitLines {
    lines: Vec<RequestedLine>,
}

impl ReplayRun {
    /// Sells one order.
    pub(super) async fn sell_cart(
        &self,
        step: &ReplayStep,
        bought: &mut Purchases,
        due: Instant,
    ) -> Result<(), CallError> {
        self.count(step);
        let choices = OrderChoices::of(&step.order);
        let Some(mut cart) = self.reserve_first_line(step, due).await? else { return Ok(()) };
        for (number, (sku, units)) in step.lines.iter().enumerate().skip(1) {
            self.add_line(step, number, (sku, *units), &mut cart).await?;
        }
        if choices.transferred() {
            self.transfer(step, &mut cart).await?;
        }
        let mut carts = vec![cart];
        if choices.split() {
            self.split(step, &mut carts).await?;
            if choices.merged() {
                self.merge(step, &mut carts).await?;
            }
        }
        let mut confirmed = false;
        for mut cart in carts {
            let payment = self.pay(step, &mut cart, &choices).await?;
            let Some(mut purchase) = self.confirm_cart(step, &cart, payment).await? else { continue };
            confirmed = true;
            self.ship(step, &cart, &choices, &mut purchase).await?;
            bought.0.push(purchase);
        }
        self.ledger.borrow_mut().baskets.confirmed += u64::from(confirmed);
        Ok(())
    }

    async fn reserve_first_line(&self, step: &ReplayStep, due: Instant) -> Result<Option<Cart>, CallError> {
        let basket = self.hold_request(step);
        match self.send::<Reservation>(RequestKind::Reserve, RESERVATIONS, &basket, due).await? {
            Ok(answer) => {
                let lines: Units = step.lines.iter().take(1).cloned().collect();
                let cart = Cart { id: answer.body.reservation_id, part: 0, version: 1, lines };
                let mut ledger = self.ledger.borrow_mut();
                ledger.baskets.held += 1;
                cart.lines.iter().for_each(|(sku, units)| ledger.sku(sku).held += units);
                ledger.check(step, &cart, &answer);
                Ok(Some(cart))
            }
            Err(problem) => {
                self.ledger.borrow_mut().refused(&step.order, &problem);
                Ok(None)
            }
        }
    }

    async fn add_line(
        &self,
        step: &ReplayStep,
        number: usize,
        (sku, units): (&str, u64),
        cart: &mut Cart,
    ) -> Result<(), CallError> {
        let mut lines = cart.lines.clone();
        let sum = lines.entry(sku.to_owned()).or_default();
        *sum = sum.saturating_add(units);
        let amendment = Amendment {
            lines: Some(self.requested(&lines).into_iter().map(AmendedLine::from).collect()),
            ..Amendment::default()
        };
        let body =
            Keyed { body: amendment, idempotency_key: self.part_key(&step.order, "amend", (number, 0)) };
        match self.change(RequestKind::Amend, "PATCH", (cart, ""), &body).await? {
            Ok(answer) => {
                (cart.version, cart.lines) = (cart.version + 1, lines);
                let mut ledger = self.ledger.borrow_mut();
                ledger.carts.amended += 1;
                ledger.sku(sku).held += units;
                ledger.check(step, cart, &answer);
            }
            Err(problem) => {
                let is_stale = problem.reason == Reason::PreconditionFailed.name();
                let decided_earlier = is_stale && self.refused_before.get().is_some();
                let reason = if decided_earlier { DECIDED_EARLIER } else { &problem.reason };
                let refused = &mut self.ledger.borrow_mut().carts.lines_refused;
                refuse(refused, reason, &step.order, &problem.detail);
            }
        }
        Ok(())
    }

    /// The guest logs in as the customer. An order without a customer stays the guest's.
    async fn transfer(&self, step: &ReplayStep, cart: &mut Cart) -> Result<(), CallError> {
        let Some(customer) = &step.customer else { return Ok(()) };
        let recipient = Recipient {
            owner_id: Some(customer.clone()),
            customer_id: Patch::Set(customer.clone()),
            session_id: Patch::Clear,
            ..Recipient::default()
        };
        let body = Keyed { body: recipient, idempotency_key: self.key(&step.order, "transfer") };
        match self.change(RequestKind::Transfer, "POST", (cart, "/transfer"), &body).await? {
            Ok(answer) => {
                cart.version += 1;
                let mut ledger = self.ledger.borrow_mut();
                ledger.carts.transferred += 1;
                ledger.check(step, cart, &answer);
                let seen = &answer.body;
                let is_customers = seen.owner_id == *customer
                    && seen.customer_id.as_ref() == Some(customer)
                    && seen.session_id.is_none();
                ledger.differ(step, "a transferred cart is the customer's", 1, u64::from(is_customers));
            }
            Err(problem) => self.ledger.borrow_mut().change_refused(step, RequestKind::Transfer, &problem),
        }
        Ok(())
    }

    /// Splits the only cart. A cart of one unit stays as it is.
    async fn split(&self, step: &ReplayStep, carts: &mut Vec<Cart>) -> Result<(), CallError> {
        let [cart] = carts.as_mut_slice() else { return Ok(()) };
        let Some(lines) = second_half(&cart.lines) else { return Ok(()) };
        let body = Keyed {
            body: SplitLines { lines: self.requested(&lines) },
            idempotency_key: self.key(&step.order, "split"),
        };
        match self.change(RequestKind::Split, "POST", (cart, "/split"), &body).await? {
            Ok(answer) => {
                cart.version += 1;
                for (sku, units) in &lines {
                    if let Some(left) = cart.lines.get_mut(sku) {
                        *left -= units;
                    }
                }
                cart.lines.retain(|_, units| *units > 0);
                let part = Cart { id: answer.body.reservation_id, part: 1, version: 1, lines };
                let mut ledger = self.ledger.borrow_mut();
                ledger.carts.split += 1;
                ledger.check(step, &part, &answer);
                carts.push(part);
            }
            Err(problem) => self.ledger.borrow_mut().change_refused(step, RequestKind::Split, &problem),
        }
        Ok(())
    }

    /// Merges the second cart into the first.
    async fn merge(&self, step: &ReplayStep, carts: &mut Vec<Cart>) -> Result<(), CallError> {
        let [cart, part] = carts.as_mut_slice() else { return Ok(()) };
        let body = Keyed {
            body: MergeRequest { from: vec![part.id], ..MergeRequest::default() },
            idempotency_key: self.key(&step.order, "merge"),
        };
        match self.change(RequestKind::Merge, "POST", (cart, "/merge"), &body).await? {
            Ok(answer) => {
                cart.version += 1;
                for (sku, units) in std::mem::take(&mut part.lines) {
                    *cart.lines.entry(sku).or_default() += units;
                }
                let mut ledger = self.ledger.borrow_mut();
                ledger.carts.merged += 1;
                ledger.check(step, cart, &answer);
                carts.pop();
            }
            Err(problem) => self.ledger.borrow_mut().change_refused(step, RequestKind::Merge, &problem),
        }
        Ok(())
    }

    /// Opens the payment window of an order that has one. Returns the payment that the confirm names.
    async fn pay(
        &self,
        step: &ReplayStep,
        cart: &mut Cart,
        choices: &OrderChoices,
    ) -> Result<Option<String>, CallError> {
        if !choices.paid() {
            return Ok(None);
        }
        let mut attempt = 0;
        if choices.declined_first() {
            let payment = choices.payment_id(cart.part, attempt);
            if !self.open_payment(step, cart, (&payment, attempt)).await? {
                return Ok(None);
            }
            self.close_payment(step, cart, &payment).await?;
            attempt += 1;
        }
        let payment = choices.payment_id(cart.part, attempt);
        let opened = self.open_payment(step, cart, (&payment, attempt)).await?;
        Ok(opened.then_some(payment))
    }

    /// Whether the window is open.
    async fn open_payment(
        &self,
        step: &ReplayStep,
        cart: &mut Cart,
        (payment, attempt): (&str, usize),
    ) -> Result<bool, CallError> {
        let window = PaymentWindow { payment_id: payment.to_owned(), window_seconds: Some(WINDOW_SECONDS) };
        let key = self.part_key(&step.order, "payment", (cart.part, attempt));
        let body = Keyed { body: window, idempotency_key: key };
        let answer = self.change(RequestKind::OpenPayment, "POST", (cart, "/payment"), &body).await?;
        let mut ledger = self.ledger.borrow_mut();
        match answer {
            Ok(answer) => {
                cart.version += 1;
                ledger.carts.payments_opened += 1;
                ledger.check(step, cart, &answer);
                Ok(true)
            }
            Err(problem) => {
                ledger.change_refused(step, RequestKind::OpenPayment, &problem);
                Ok(false)
            }
        }
    }

    /// Closes the window of a declined payment. The payment is named, so a repetition changes nothing and has no key.
    async fn close_payment(
        &self,
        step: &ReplayStep,
        cart: &mut Cart,
        payment: &str,
    ) -> Result<(), CallError> {
        let sent = Instant::now();
        let close = async |client: &stockhold_api::client::Client| {
            client.close_payment(cart.id, Some(payment), Some(DECLINED)).await
        };
        let answer = self.caller.ask(close).await;
        let mut ledger = self.ledger.borrow_mut();
        match answer {
            Ok(()) => {
                cart.version += 1;
                ledger.carts.payments_declined += 1;
            }
            Err(CallError::Refused(problem)) => {
                ledger.change_refused(step, RequestKind::ClosePayment, &problem);
            }
            Err(other) => return Err(other),
        }
        ledger.latencies.add(RequestKind::ClosePayment, sent.elapsed());
        ledger.answered += 1;
        Ok(())
    }

    /// Confirms one of the order's reservations. `None` if it is refused.
    async fn confirm_cart(
        &self,
        step: &ReplayStep,
        cart: &Cart,
        payment_id: Option<String>,
    ) -> Result<Option<Purchase>, CallError> {
        let paid = payment_id.is_some();
        let confirmation =
            Confirmation { order_id: Some(step.order.clone()), payment_id, ..Confirmation::default() };
        let key = match cart.part {
            0 => self.key(&step.order, "confirm"),
            part => self.part_key(&step.order, "confirm", (part, 0)),
        };
        let body = Keyed { body: confirmation, idempotency_key: key };
        let path = format!("{RESERVATIONS}/{}/confirm", cart.id);
        let answer = self.send::<Reservation>(RequestKind::Confirm, &path, &body, Instant::now()).await?;
        let mut ledger = self.ledger.borrow_mut();
        let answer = match answer {
            Ok(answer) => answer.body,
            Err(problem) => {
                let over = [Reason::ReservationExpired.name(), Reason::ReservationCancelled.name()];
                if over.contains(&problem.reason.as_str()) {
                    cart.lines.iter().for_each(|(sku, units)| ledger.sku(sku).held -= units);
                }
                ledger.lost(&step.order, &problem.reason, &problem.detail);
                return Ok(None);
            }
        };
        // The lines of a confirmed reservation stay as they were sold, also in the answer to a repeated request.
        ledger.differ_in_lines(&cart.lines, &answer);
        ledger.differ(step, "a confirmed reservation", 1, u64::from(answer.status == Status::Confirmed));
        ledger.carts.payments_confirmed += u64::from(paid);
        let mut sold = BTreeMap::new();
        for (sku, units) in &cart.lines {
            let totals = ledger.sku(sku);
            totals.held -= units;
            totals.confirmed += units;
            ledger.baskets.units_confirmed += units;
            sold.insert(sku.clone(), SoldUnits { left: *units, fulfilled: 0 });
        }
        Ok(Some(Purchase { id: answer.reservation_id, sold }))
    }

    /// Ships what the order's choice says.
    async fn ship(
        &self,
        step: &ReplayStep,
        cart: &Cart,
        choices: &OrderChoices,
        purchase: &mut Purchase,
    ) -> Result<(), CallError> {
        let fulfilment = choices.fulfilment();
        if matches!(fulfilment, FulfilmentChoice::TwoParts | FulfilmentChoice::FirstPart) {
            self.fulfil(step, (cart.part, 0), Some(&first_parcel(&cart.lines)), purchase).await?;
        }
        let rest = purchase.sold.values().any(|sold| sold.fulfilled < sold.left);
        if rest && matches!(fulfilment, FulfilmentChoice::Whole | FulfilmentChoice::TwoParts) {
            self.fulfil(step, (cart.part, 1), None, purchase).await?;
        }
        Ok(())
    }

    /// Ships these lines, or all that has not left the shelf.
    async fn fulfil(
        &self,
        step: &ReplayStep,
        parcel: (usize, usize),
        lines: Option<&Units>,
        purchase: &mut Purchase,
    ) -> Result<(), CallError> {
        let shipment = Shipment { lines: lines.map(|lines| self.requested(lines)), units: None };
        let body = Keyed { body: shipment, idempotency_key: self.part_key(&step.order, "fulfil", parcel) };
        let path = format!("{RESERVATIONS}/{}/fulfil", purchase.id);
        let answer = self.send::<Reservation>(RequestKind::Fulfil, &path, &body, Instant::now()).await?;
        let mut ledger = self.ledger.borrow_mut();
        let answer = match answer {
            Ok(answer) => answer,
            Err(problem) => {
                ledger.change_refused(step, RequestKind::Fulfil, &problem);
                return Ok(());
            }
        };
        ledger.carts.fulfilments += 1;
        for (sku, sold) in &mut purchase.sold {
            let units = match lines {
                Some(lines) => lines.get(sku).copied().unwrap_or(0),
                None => sold.left - sold.fulfilled,
            };
            sold.fulfilled += units;
            ledger.sku(sku).fulfilled += units;
            ledger.carts.units_fulfilled += units;
        }
        if !answer.replayed {
            for line in &answer.body.lines {
                let told = purchase.sold.get(&line.sku).map_or(0, |sold| sold.fulfilled);
                ledger.differ(step, "fulfilled_quantity of a line", told, line.fulfilled_quantity);
            }
        }
        Ok(())
    }

    /// Sends a change of a cart that must have the version that the replay knows.
    async fn change(
        &self,
        kind: RequestKind,
        method: &'static str,
        (cart, tail): (&Cart, &str),
        body: &impl Serialize,
    ) -> Result<Result<Answer<Reservation>, Problem>, CallError> {
        let path = format!("{RESERVATIONS}/{}{tail}", cart.id);
        let request = ReplayRequest { kind, method, path: &path, version: Some(cart.version), body };
        self.send_request(request, Instant::now()).await
    }

    fn requested(&self, lines: &Units) -> Vec<RequestedLine> {
        lines.iter().map(|(sku, units)| self.want(sku, *units)).collect()
    }
}

impl Ledger {
    fn change_refused(&mut self, step: &ReplayStep, command: RequestKind, problem: &Problem) {
        let reason = format!("{} {}", command.name(), problem.reason);
        refuse(&mut self.carts.refused, &reason, &step.order, &problem.detail);
    }

    /// Compares an answer with the cart. The answer to a repeated request shows a later state, so it is not compared.
    fn check(&mut self, step: &ReplayStep, cart: &Cart, answer: &Answer<Reservation>) {
        if !answer.replayed {
            self.differ(step, "version of a reservation", cart.version, answer.body.version);
            self.differ_in_lines(&cart.lines, &answer.body);
        }
    }

    fn differ(&mut self, step: &ReplayStep, figure: &'static str, told: u64, server: u64) {
        if told != server {
            let sku = format!("order {}", step.order);
            self.differences.push(Difference { sku, figure, told: told.into(), server: server.into() });
        }
    }

    fn differ_in_lines(&mut self, told: &Units, answer: &Reservation) {
        let mut seen = Units::new();
        for line in &answer.lines {
            *seen.entry(line.sku.clone()).or_default() += line.quantity;
        }
        for sku in told.keys().chain(seen.keys().filter(|sku| !told.contains_key(*sku))) {
            let units = |lines: &Units| i128::from(lines.get(sku).copied().unwrap_or(0));
            let (told, server) = (units(told), units(&seen));
            if told != server {
                let figure = "quantity of a reservation";
                self.differences.push(Difference { sku: sku.clone(), figure, told, server });
            }
        }
    }
}
