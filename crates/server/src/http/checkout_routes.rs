//! The routes of checkouts, refunds and orders. The rules decide, and the checkout runner asks the providers (`stockhold_checkout`).
//! A checkout waits some seconds for its payment, and answers by the state of the reservation then.

use super::admission::Examined;
use super::commands::key_use;
use super::lists::PAGE_BYTES;
use super::reply::{self, Reply, ResponseKind};
use super::request_error::RequestError;
use super::request_head::{RequestHead, SingleHeader};
use super::route::Route;
use super::worker::{HandlerResult, RequestContext, Worker};
use std::time::{Duration, Instant as Monotonic};
use stockhold_api::cursor;
use stockhold_api::decode::{self, Invalid, Keyed, OrderFilter};
use stockhold_api::encode::{self, List};
use stockhold_api::problem::Problem;
use stockhold_checkout::WebhookHeaders;
use stockhold_domain::{
    AdvancePayment, ChargeState, CheckoutTerms, Command, Hold, Label, OrderStatus, Outcome, PaymentMethod,
    PaymentStep, Rejection, ReservationId, Status,
};
use stockhold_store::{Query, QueryResult, RESERVATIONS_EXAMINED, ReservationFilter};

/// How long a checkout waits for its payment. Longer than a provider usually takes, and shorter than clients wait.
const CHECKOUT_WAIT: Duration = Duration::from_secs(7);
/// How often it looks by itself, because another instance may move the payment on.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Reservations that are read at a time for a list of orders.
const HOLDS_AT_ONCE: usize = 200;

impl Worker {
    /// `POST /v1/reservations/{reservation_id}/checkout`
    pub(super) async fn start_checkout(
        &self,
        context: RequestContext<'_>,
        Keyed { command, key, hold_token: _ }: Keyed<'_>,
    ) -> HandlerResult {
        if let Command::StartCheckout(start) = &command {
            self.check_provider(&start.request.terms, "")?;
        }
        let key = decode::idempotency_key(context.head.idempotency_key.value("/Idempotency-Key")?, key)?;
        let command = self.restrict(context, command).await?;
        let key = key.map(|key| key_use(context.caller, &command, &key));
        let command = self.seal_method(command).await?;
        let (hold, replayed) = match self.run(context, command, key).await? {
            Outcome::Done(stockhold_domain::Reply::Reservation(hold)) => (hold, false),
            Outcome::Replayed(stockhold_domain::Reply::Reservation(hold)) => (hold, true),
            Outcome::Refused(rejection) => return Err(Problem::from(rejection).into()),
            Outcome::Done(_) | Outcome::Replayed(_) | Outcome::Later => {
                return Err(RequestError::wrong_answer());
            }
        };
        let hold = self.settled(context, hold).await?;
        let reply = self.show_checkout(&hold).await?;
        Ok(Reply { replayed, ..reply })
    }

    /// Refuses a provider that the server is not configured with. That of a customer is one of those. `at` is the place of the checkout in
    /// the request.
    pub(super) fn check_provider(&self, terms: &CheckoutTerms, at: &str) -> Result<(), Invalid> {
        let provider = &terms.provider;
        let has_any = self.checkout.providers().next().is_some();
        if terms.customer_id().is_some() && has_any {
            return Ok(());
        }
        if self.checkout.providers().any(|known| known == provider.as_str()) {
            return Ok(());
        }
        let known: Vec<&str> = self.checkout.providers().collect();
        let detail = if known.is_empty() {
            "can't be used: this server has no payment provider. Set [providers.stripe] or [providers.test] in its \
             configuration"
                .to_owned()
        } else {
            format!("must be a provider that the server is configured with: {}", known.join(", "))
        };
        let pointer = match terms.method {
            PaymentMethod::Named { .. } => "payment_method/provider",
            PaymentMethod::Customer { .. } => "customer_id",
        };
        Err(Invalid::new(format!("{at}/{pointer}"), detail))
    }

    /// Waits until a payment has come to an end or needs somebody, and not too long.
    async fn settled(&self, context: RequestContext<'_>, mut hold: Hold) -> Result<Hold, RequestError> {
        let begun = Monotonic::now();
        while goes_on(&hold) && begun.elapsed() < CHECKOUT_WAIT {
            let changed = self.checkout.changed(hold.id);
            self.checkout.wake(hold.id);
            // It may have changed before it was waited for.
            let now = self.visible_hold(context, hold.id).await?;
            if now.version == hold.version {
                // A missed word costs a second, and a runner that has ended says nothing.
                let _ = tokio::time::timeout(LOOK_INTERVAL, changed).await;
            }
            hold = self.visible_hold(context, hold.id).await?;
        }
        // Money that came late has made another reservation of it.
        match hold.details().replaced_by.filter(|_| hold.charge().is_none()) {
            Some(id) => self.visible_hold(context, id).await,
            None => Ok(hold),
        }
    }

    /// The answer of a checkout by the present state of its reservation.
    async fn show_checkout(&self, hold: &Hold) -> HandlerResult {
        let order = hold.order_status();
        let state = hold.charge().map(|charge| charge.state);
        let status = match (hold.status, state) {
            (Status::Confirmed, _) if order == Some(OrderStatus::Cancelled) => {
                return Err(Problem::payment_declined(hold).into());
            }
            (Status::Confirmed, _) => 200,
            (_, Some(ChargeState::Declined | ChargeState::Voided)) => {
                return Err(Problem::payment_declined(hold).into());
            }
            (Status::Active, _) => 202,
            (Status::Cancelled, _) => {
                return Err(Problem::from(Rejection::ReservationCancelled(hold.id)).into());
            }
            (Status::Expired, _) => {
                let (id, expires_at) = (hold.id, hold.expires_at);
                return Err(Problem::from(Rejection::ReservationExpired { id, expires_at }).into());
            }
        };
        let next_action = self.checkout.next_action(hold).await;
        let shown = reply::with_etag(hold.version, |out| encode::checkout(out, hold, next_action.as_ref()));
        Ok(Reply { status, ..shown })
    }

    /// `GET /v1/reservations/{reservation_id}/checkout`
    pub(super) async fn checkout(&self, context: RequestContext<'_>, id: ReservationId) -> HandlerResult {
        let hold = self.visible_hold(context, id).await?;
        let next_action = self.checkout.next_action(&hold).await;
        let mut shown =
            reply::with_etag(hold.version, |out| encode::checkout(out, &hold, next_action.as_ref()));
        shown.headers.push(("cache-control", "no-store".into()));
        Ok(shown)
    }

    /// `POST /v1/reservations/{reservation_id}/checkout/cancel` and `…/refund/retry`
    pub(super) async fn advance_payment(
        &self,
        context: RequestContext<'_>,
        command: Command,
    ) -> HandlerResult {
        let id = command.reservation();
        let reply = self.command(context, command, ResponseKind::Reservation).await?;
        if let Some(id) = id {
            self.checkout.wake(id);
        }
        Ok(reply)
    }

    /// `POST /v1/reservations/{reservation_id}/refund`
    pub(super) async fn refund(&self, context: RequestContext<'_>, keyed: Keyed<'_>) -> HandlerResult {
        let id = keyed.command.reservation();
        let reply = self.keyed(context, keyed, ResponseKind::Reservation).await?;
        if let Some(id) = id {
            self.checkout.wake(id);
        }
        Ok(reply)
    }

    /// `GET /v1/orders/{order_id}`
    pub(super) async fn order(&self, context: RequestContext<'_>, id: Label) -> HandlerResult {
        let mut filter = ReservationFilter {
            order_id: Some(id.clone()),
            limit: HOLDS_AT_ONCE,
            ..ReservationFilter::default()
        };
        let examined = Examined::default();
        while examined.has_room(RESERVATIONS_EXAMINED) {
            let QueryResult::Reservations(page) = self.find(Query::Reservations(filter.clone())).await?
            else {
                return Err(RequestError::wrong_answer());
            };
            examined.add(page.examined);
            let visible = self.visible(&context.caller.principal, page.holds, &examined).await?;
            if let Some(hold) = visible.iter().find(|hold| hold.order_status().is_some()) {
                return Ok(reply::json(|out| encode::order(out, hold)));
            }
            if page.next.is_none() {
                break;
            }
            filter.after = page.next;
        }
        Err(Problem::unknown_order(&id).into())
    }

    /// `GET /v1/orders`
    pub(super) async fn orders(&self, context: RequestContext<'_>, wanted: OrderFilter) -> HandlerResult {
        self.take_page_tokens(context, wanted.limit).await?;
        let principal = &context.caller.principal;
        let created_by = principal.restrictions.own_reservations_only.then(|| principal.actor.clone());
        let mut filter = ReservationFilter {
            status: Some(Status::Confirmed),
            created_by,
            customer_id: wanted.customer_id,
            after: wanted.after,
            ..ReservationFilter::default()
        };
        let mut out = Vec::new();
        let mut list = List::open(&mut out, "data");
        let mut left = wanted.limit;
        let examined = Examined::default();
        while examined.has_room(RESERVATIONS_EXAMINED) {
            // Not more than are wanted, because only the store knows the place behind one of them.
            filter.limit = left.min(HOLDS_AT_ONCE);
            let QueryResult::Reservations(page) = self.find(Query::Reservations(filter.clone())).await?
            else {
                return Err(RequestError::wrong_answer());
            };
            examined.add(page.examined);
            for hold in self.visible(principal, page.holds, &examined).await? {
                let Some(status) = hold.order_status() else { continue };
                // A reservation that another customer pays is the order of that one.
                if filter.customer_id.as_ref().is_some_and(|wanted| hold.order_customer() != Some(wanted)) {
                    continue;
                }
                if wanted.status.is_none_or(|wanted| wanted == status) {
                    encode::order(list.entry(&mut out), &hold);
                    left = left.saturating_sub(1);
                }
            }
            filter.after = page.next;
            if page.next.is_none() || left == 0 || out.len() >= PAGE_BYTES {
                break;
            }
        }
        let next = filter.after.map(cursor::of_place);
        list.close_page(&mut out, next.is_some(), next.as_deref());
        Ok(reply::written(out, None))
    }

    /// Whether a request may be a webhook of a configured provider. The body of another one is not read.
    pub(super) fn may_be_webhook(&self, route: Route<'_>, head: &RequestHead<'_>) -> bool {
        let [provider, _] = route.parameters;
        self.checkout.has_provider(provider) && head.provider_signature != SingleHeader::Absent
    }

    /// `POST /v1/providers/{provider}/webhook`
    pub(super) async fn provider_webhook(
        &self,
        context: RequestContext<'_>,
        provider: &str,
        body: &[u8],
    ) -> HandlerResult {
        let signature = context.head.provider_signature.value("/Stripe-Signature")?;
        let stripe_signature = signature.and_then(|value| std::str::from_utf8(value).ok());
        let headers = WebhookHeaders { stripe_signature };
        let read = self.checkout.read_webhook(provider, headers, body, context.head.now);
        let id = match read {
            None => {
                self.count_open_request(context.head, context.rate).await?;
                return Err(Problem::unknown_route(context.head.path).into());
            }
            Some(Err(what)) => {
                self.count_open_request(context.head, context.rate).await?;
                return Err(Problem::invalid_signature(&what).into());
            }
            Some(Ok(id)) => id,
        };
        if let Some(id) = id {
            let step = PaymentStep::Wake;
            match self.run(context, Command::AdvancePayment(AdvancePayment { id, step }), None).await? {
                // A reservation of another installation that uses the same account.
                Outcome::Refused(Rejection::UnknownReservation(_)) | Outcome::Done(_) => {}
                Outcome::Refused(_) | Outcome::Replayed(_) | Outcome::Later => {
                    return Err(RequestError::wrong_answer());
                }
            }
            self.checkout.wake(id);
        }
        Ok(reply::json(|out| out.extend_from_slice(b"{\"received\":true}")))
    }
}

/// Whether the payment of a reservation goes on without anybody else.
fn goes_on(hold: &Hold) -> bool {
    let state = hold.charge().map(|charge| charge.state);
    match hold.status {
        Status::Active => {
            matches!(state, Some(ChargeState::Pending | ChargeState::Processing | ChargeState::Voiding))
        }
        Status::Confirmed => matches!(state, Some(ChargeState::Authorized)),
        Status::Cancelled => false,
        Status::Expired => matches!(state, Some(ChargeState::Voiding)),
    }
}
