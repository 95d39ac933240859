//! The steps of one request: route, body, command, store, response.

use super::admission::Admission;
use super::authorize;
use super::document;
use super::event_tailer::EventTailer;
use super::metrics::RouteMetrics;
use super::origin;
use super::page_headers::HTML;
use super::pending_replies::PendingReplies;
use super::profiles::EndedOrders;
use super::reply::{self, Reply, ResponseKind};
use super::request_error::RequestError;
use super::request_head::{RequestHead, SingleHeader};
use super::restrict::{Creators, shows_holders};
use super::route::{Route, RouteError};
use crate::access::{Access, CrossOrigin, RateVerdict};
use crate::archiver::Archiver;
use hyper::header::{DATE, HeaderMap, HeaderValue};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant as Monotonic, UNIX_EPOCH};
use stockhold_api::decode::{self, Invalid, Keyed, Match};
use stockhold_api::problem::{Problem, Reason, page_html};
use stockhold_api::profiles::{Shape, hub, storefront};
use stockhold_api::routes::{Preconditions, RequiredScope, RouteId};
use stockhold_checkout::CheckoutRunner;
use stockhold_customers::Customers;
use stockhold_domain::{Command, EventId, HoldLimits, Instant, RequestId};
use stockhold_gate::GateStore;
use stockhold_relay::Relay;
use stockhold_service::Caller;
use stockhold_store::Store;
use stockhold_store::clock::Clocks;
use stockhold_store::ids::IdSource;
use tokio::sync::watch;

const INDEX: &str = include_str!("index.txt");

/// The state that the requests of one worker share.
pub(super) struct Worker {
    pub(super) store: Arc<dyn Store>,
    /// The gate in front of the store, if there is one.
    pub(super) gate: Option<Arc<GateStore>>,
    /// Archives old events.
    pub(super) archiver: Arc<Archiver>,
    /// Delivers events to other systems.
    pub(super) relay: Arc<Relay>,
    /// Takes payments.
    pub(super) checkout: Arc<CheckoutRunner>,
    /// Personal data of customers.
    pub(super) customers: Customers,
    pub(super) pending_replies: Rc<PendingReplies>,
    pub(super) ids: RefCell<IdSource>,
    pub(super) clocks: Clocks,
    pub(super) access: Arc<Access>,
    /// How long holds may last.
    pub(super) rules: Arc<HoldLimits>,
    /// After this time a client of HTTP/2 is asked to connect again.
    pub(super) max_connection_age: Duration,
    /// Whether gRPC answers reflection.
    pub(super) grpc_reflection: bool,
    pub(super) metrics: RouteMetrics,
    pub(super) draining: Arc<AtomicBool>,
    /// Becomes true when open connections have to end.
    pub(super) stop: watch::Sender<bool>,
    /// Requests in progress. The drain waits for them.
    pub(super) under_way: Arc<AtomicUsize>,
    pub(super) admission: Admission,
    pub(super) tailer: Rc<EventTailer>,
    pub(super) creators: Creators,
    pub(super) ended_orders: EndedOrders,
    /// The last second that was formatted as a date, and its text.
    pub(super) date: RefCell<(i64, Rc<str>)>,
}

/// Increments a counter, and decrements it when it is dropped.
#[derive(Debug)]
pub(super) struct CountGuard(Arc<AtomicUsize>);

impl CountGuard {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An instant in the format of the `Date` header.
pub(super) fn http_date(now: Instant) -> String {
    let seconds = u64::try_from(now.millis() / 1_000).unwrap_or_default();
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
}

pub(super) type HandlerResult = Result<Reply, RequestError>;

impl Worker {
    /// The request's id: the caller's, or a new one.
    pub(super) fn name(&self, head: &RequestHead<'_>) -> RequestId {
        head.given_request_id().unwrap_or_else(|| self.fresh_name(head.now))
    }

    /// A new request id.
    pub(super) fn fresh_name(&self, now: Instant) -> RequestId {
        RequestId::Made(EventId::new(now, self.ids.borrow_mut().random()).as_u128())
    }

    /// Counts a request in progress, until it is dropped.
    pub(super) fn count_request(&self) -> CountGuard {
        CountGuard::new(&self.under_way)
    }

    /// An instant in the format of the `Date` header.
    pub(super) fn date(&self, now: Instant) -> Rc<str> {
        let second = now.millis() / 1_000;
        let mut date = self.date.borrow_mut();
        if date.0 != second || date.1.is_empty() {
            *date = (second, http_date(now).into());
        }
        Rc::clone(&date.1)
    }

    /// Sets the date of a response of hyper. Its own date stands still after the wall clock was set back.
    pub(super) fn put_date(&self, headers: &mut HeaderMap) {
        if let Ok(date) = HeaderValue::from_str(&self.date(self.clocks.wall.now())) {
            headers.insert(DATE, date);
        }
    }

    /// Answers one request. Its body is read only if the caller may use the route, by a function that learns who the caller is.
    pub(super) async fn answer<B: AsRef<[u8]>>(
        self: &Rc<Self>,
        head: &RequestHead<'_>,
        found: Result<Route<'_>, RouteError>,
        body: impl AsyncFnOnce(&Caller) -> Result<B, Problem>,
        request_id: &RequestId,
        begun: Monotonic,
    ) -> Reply {
        self.answer_caller(head, found, body, request_id, begun, None).await
    }

    /// Answers one request of a caller that is known already, or else is found by its credential.
    pub(super) async fn answer_caller<B: AsRef<[u8]>>(
        self: &Rc<Self>,
        head: &RequestHead<'_>,
        found: Result<Route<'_>, RouteError>,
        body: impl AsyncFnOnce(&Caller) -> Result<B, Problem>,
        request_id: &RequestId,
        begun: Monotonic,
        known: Option<Arc<Caller>>,
    ) -> Reply {
        let rate = Cell::default();
        let served = self.authorize_and_serve(head, found, body, request_id, &rate, known);
        let served = std::pin::pin!(served);
        let handled = or_panicked(served).await.unwrap_or_else(|| Err(RequestError::internal("a panic")));
        self.finish(head, found, handled, request_id, begun, &rate)
    }

    /// The reply to a request that was handled: errors become problems, and what every reply has is added.
    pub(super) fn finish(
        &self,
        head: &RequestHead<'_>,
        found: Result<Route<'_>, RouteError>,
        handled: HandlerResult,
        request_id: &RequestId,
        begun: Monotonic,
        rate: &Cell<Option<RateVerdict>>,
    ) -> Reply {
        let mut reply = match handled {
            Ok(reply) => reply,
            Err(error) => {
                error.log(head, found.ok(), request_id);
                rate.set(error.rate.map(|verdict| *verdict).or(rate.get()));
                reply::error(head.profile(), &error.problem, request_id, error.allow)
            }
        };
        if let Some(verdict) = rate.get() {
            authorize::add_rate_headers(verdict, &mut reply.headers);
        }
        let origin = head.origin.value("/Origin").ok().flatten();
        self.access.cross_origin.add_headers(origin, &mut reply.headers);
        self.metrics.record(found.ok(), reply.status, begun.elapsed());
        reply
    }

    /// Checks in this order: name of the server, credential, rate limit, route, scope, body, origin.
    async fn authorize_and_serve<B: AsRef<[u8]>>(
        self: &Rc<Self>,
        head: &RequestHead<'_>,
        found: Result<Route<'_>, RouteError>,
        body: impl AsyncFnOnce(&Caller) -> Result<B, Problem>,
        request_id: &RequestId,
        rate: &Cell<Option<RateVerdict>>,
        known: Option<Arc<Caller>>,
    ) -> HandlerResult {
        self.check_host(head)?;
        if head.is_preflight
            && let Some(reply) = self.preflight(head)
        {
            return Ok(reply);
        }
        let caller = match (known, found) {
            (Some(caller), _) => caller,
            (None, Ok(route)) if route.id.spec().scope == RequiredScope::Open => {
                // A webhook of a payment provider has a signature instead, and counts when that is refused.
                if route.id != RouteId::ProviderWebhook {
                    self.count_open_request(head, rate).await?;
                }
                self.access.authenticator.anonymous()
            }
            (None, _) => self.authenticate(head).await?,
        };
        let context = RequestContext { head, request_id, caller: &caller, rate };
        self.take_token(context).await?;
        let route = found.map_err(|error| match error {
            RouteError::UnknownPath => Problem::unknown_route(head.path).into(),
            RouteError::WrongMethod(allow) => {
                let problem = Problem::method_not_allowed(head.method, allow);
                RequestError { allow: Some(allow), ..problem.into() }
            }
        })?;
        self.check_route(route, &caller).await?;
        if route.id == RouteId::ProviderWebhook && !self.may_be_webhook(route, head) {
            return self.provider_webhook(context, route.parameters[0], &[]).await;
        }
        let body = body(&caller).await?;
        if let Some(origin) = origin::foreign_origin(head, &self.access.cross_origin, &self.access.hosts) {
            return Err(Problem::foreign_origin(&origin).into());
        }
        let served = self.serve(route, context, body.as_ref()).await;
        let reply = served.map_err(|error| {
            if shows_holders(context) {
                error
            } else {
                RequestError { problem: error.problem.without_holder(), ..error }
            }
        })?;
        self.with_budget(context, reply)
    }

    /// The answer to a preflight of an allowed origin.
    fn preflight(&self, head: &RequestHead<'_>) -> Option<Reply> {
        let origin = head.origin.value("/Origin").ok().flatten()?;
        let allowed = self.access.cross_origin.allows(origin);
        allowed.then(|| Reply { headers: CrossOrigin::preflight(), ..reply::empty(204) })
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each route")]
    async fn serve(
        self: &Rc<Self>,
        route: Route<'_>,
        context: RequestContext<'_>,
        body: &[u8],
    ) -> HandlerResult {
        let head = context.head;
        let query = head.query;
        decode::host(head.needs_host, head.host.value("/Host")?)?;
        if !route.body().is_read() {
            decode::no_body(body)?;
        }
        heed_preconditions(route, head)?;
        // The path's parameters, under each of their names.
        let [sku, unit] = route.parameters;
        let (id, name, pool) = (sku, sku, unit);
        match route.id {
            RouteId::Reserve => {
                let keyed = decode::reserve_single(sku, query, body)?;
                self.keyed(context, keyed, ResponseKind::Reservation).await
            }
            RouteId::ReserveBasket => {
                self.keyed(context, decode::reserve_basket(query, body)?, ResponseKind::NewReservation).await
            }
            RouteId::Confirm => {
                self.keyed(context, decode::confirm(id, query, body)?, ResponseKind::Reservation).await
            }
            RouteId::Extend => {
                self.keyed(context, decode::extend(id, query, body)?, ResponseKind::Reservation).await
            }
            RouteId::Amend => {
                let keyed = decode::amend(id, query, head.if_match.value(IF_MATCH)?, body)?;
                self.keyed(context, keyed, ResponseKind::Reservation).await
            }
            RouteId::Transfer => {
                let keyed = decode::transfer(id, query, head.if_match.value(IF_MATCH)?, body)?;
                self.keyed(context, keyed, ResponseKind::Reservation).await
            }
            RouteId::Split => {
                let keyed = decode::split(id, query, head.if_match.value(IF_MATCH)?, body)?;
                self.keyed(context, keyed, ResponseKind::NewReservation).await
            }
            RouteId::Merge => {
                let keyed = decode::merge(id, query, head.if_match.value(IF_MATCH)?, body)?;
                self.keyed(context, keyed, ResponseKind::Reservation).await
            }
            RouteId::OpenPayment => {
                let keyed = decode::open_payment(id, query, head.if_match.value(IF_MATCH)?, body)?;
                self.keyed(context, keyed, ResponseKind::Reservation).await
            }
            RouteId::ClosePayment => {
                let command = decode::close_payment(id, query)?;
                self.keyed(context, Keyed { command, key: None, hold_token: false }, ResponseKind::Nothing)
                    .await
            }
            RouteId::StartCheckout => {
                let keyed = decode::start_checkout(id, query, head.if_match.value(IF_MATCH)?, body)?;
                Box::pin(self.start_checkout(context, keyed)).await
            }
            RouteId::GetCheckout => Box::pin(self.checkout(context, decode::reservation(id, query)?)).await,
            RouteId::CancelCheckout => {
                Box::pin(self.advance_payment(context, decode::cancel_checkout(id, query)?)).await
            }
            RouteId::Refund => Box::pin(self.refund(context, decode::refund(id, query, body)?)).await,
            RouteId::RetryRefund => {
                Box::pin(self.advance_payment(context, decode::retry_refund(id, query)?)).await
            }
            RouteId::ListOrders => Box::pin(self.orders(context, decode::orders(query)?)).await,
            RouteId::GetOrder => Box::pin(self.order(context, decode::order(name, query)?)).await,
            RouteId::ProviderWebhook => Box::pin(self.provider_webhook(context, name, body)).await,
            RouteId::Fulfil => {
                self.keyed(context, decode::fulfil(id, query, body)?, ResponseKind::Reservation).await
            }
            RouteId::ReturnUnits => {
                self.keyed(context, decode::return_units(id, query, body)?, ResponseKind::Reservation).await
            }
            RouteId::Release => {
                let keyed = Keyed { command: decode::release(id, query)?, key: None, hold_token: false };
                self.keyed(context, keyed, ResponseKind::Nothing).await
            }
            RouteId::SetStock => {
                let command = decode::set_stock(sku, query, precondition(head)?, body)?;
                self.command(context, command, ResponseKind::Item).await
            }
            RouteId::AdjustStock => {
                let if_match = head.if_match.value(IF_MATCH)?;
                self.keyed(context, decode::adjust(sku, query, if_match, body)?, ResponseKind::Item).await
            }
            RouteId::DeleteItem => {
                let command = decode::delete_item(sku, query, head.if_match.value(IF_MATCH)?)?;
                self.keyed(context, Keyed { command, key: None, hold_token: false }, ResponseKind::Nothing)
                    .await
            }
            RouteId::AddUnits => {
                self.command(context, decode::add_units(sku, query, body)?, ResponseKind::Units).await
            }
            RouteId::RetireUnit => {
                self.command(context, decode::retire_unit(sku, unit, query)?, ResponseKind::Nothing).await
            }
            RouteId::ListUnits => Box::pin(self.units(context, decode::units(sku, query)?)).await,
            RouteId::GetUnit => {
                let (item, unit) = decode::unit(sku, unit, query)?;
                Box::pin(self.unit(context, item, unit)).await
            }
            RouteId::GetUnitEvents => {
                let (item, unit) = decode::unit(sku, unit, query)?;
                Box::pin(self.unit_history(context, item, unit)).await
            }
            RouteId::GetSeatMap => {
                let (item, layout) = decode::seat_map(sku, query)?;
                let known = head.if_none_match.value(IF_NONE_MATCH)?;
                Box::pin(self.seat_map(context, item, layout, known)).await
            }
            RouteId::SetPool => {
                let set = decode::set_pool(sku, pool, query, head.if_match.value(IF_MATCH)?, body)?;
                Box::pin(self.set_pool(context, set)).await
            }
            RouteId::PutIntoPool => {
                let set = decode::put_into_pool(sku, pool, query, head.if_match.value(IF_MATCH)?, body)?;
                Box::pin(self.set_unit_pool(context, set)).await
            }
            RouteId::TakeOutOfPool => {
                let set = decode::take_out_of_pool(sku, pool, query, head.if_match.value(IF_MATCH)?, body)?;
                Box::pin(self.set_unit_pool(context, set)).await
            }
            RouteId::ListPools => Box::pin(self.pools(context, decode::item(sku, query)?)).await,
            RouteId::DeletePool => {
                let delete = decode::delete_pool(sku, pool, query, head.if_match.value(IF_MATCH)?)?;
                let command = Command::DeletePool(delete);
                Box::pin(self.command(context, command, ResponseKind::Nothing)).await
            }
            RouteId::GetGate => {
                decode::gate(query)?;
                Box::pin(self.show_gate()).await
            }
            RouteId::GetReconciliation => {
                decode::reconciliation(query)?;
                Box::pin(self.reconciliation()).await
            }
            RouteId::Reconcile => Box::pin(self.reconcile(decode::reconcile(query, body)?)).await,
            RouteId::ForgetStockMaster => {
                Box::pin(self.forget_stock_master(decode::forget_stock_master(sku, query)?)).await
            }
            RouteId::ListSinks => {
                decode::sinks(query)?;
                Box::pin(self.sinks()).await
            }
            RouteId::SkipEvent => Box::pin(self.skip_event(decode::skip_event(sku, query, body)?)).await,
            RouteId::ReplaySink => Box::pin(self.replay_sink(decode::replay_sink(sku, query, body)?)).await,
            RouteId::InitSink => Box::pin(self.init_sink(decode::sink(sku, query)?)).await,
            RouteId::ForgetSink => Box::pin(self.forget_sink(decode::sink(sku, query)?)).await,
            RouteId::ListWebhooks => {
                decode::webhooks(query)?;
                Box::pin(self.webhooks()).await
            }
            RouteId::CreateWebhook => {
                Box::pin(self.create_webhook(context, decode::create_webhook(query, body)?)).await
            }
            RouteId::GetWebhook => Box::pin(self.webhook(decode::webhook(sku, query)?)).await,
            RouteId::UpdateWebhook => {
                Box::pin(self.update_webhook(context, decode::update_webhook(sku, query, body)?)).await
            }
            RouteId::DeleteWebhook => {
                Box::pin(self.delete_webhook(context, decode::webhook(sku, query)?)).await
            }
            RouteId::TestWebhook => Box::pin(self.test_webhook(context, decode::webhook(sku, query)?)).await,
            RouteId::RotateWebhook => {
                Box::pin(self.rotate_webhook(context, decode::rotate_webhook(sku, query, body)?)).await
            }
            RouteId::ListDeliveries => {
                Box::pin(self.deliveries(context, decode::deliveries(sku, query)?)).await
            }
            RouteId::RetryDelivery => {
                Box::pin(self.retry_delivery(context, decode::delivery(sku, pool, query)?)).await
            }
            RouteId::ReplayWebhook => {
                Box::pin(self.replay_webhook(context, decode::replay_webhook(sku, query, body)?)).await
            }
            RouteId::ArchiveEvents => {
                Box::pin(self.archive_events(decode::archive_events(query, body)?)).await
            }
            RouteId::ReloadGate => Box::pin(self.reload_gate(decode::reload_gate(query)?)).await,
            RouteId::PauseItem => {
                Box::pin(self.set_sale(context, decode::set_item_sale(sku, query, body, true)?)).await
            }
            RouteId::ResumeItem => {
                Box::pin(self.set_sale(context, decode::set_item_sale(sku, query, body, false)?)).await
            }
            RouteId::PauseSale => {
                Box::pin(self.set_sale(context, decode::set_sale(query, body, true)?)).await
            }
            RouteId::ResumeSale => {
                Box::pin(self.set_sale(context, decode::set_sale(query, body, false)?)).await
            }
            RouteId::GetSale => Box::pin(self.sale(context, &decode::sale(query)?)).await,
            // Boxed, so that its large future does not enlarge those of all requests.
            RouteId::RunCommands => Box::pin(self.commands(context, body)).await,
            RouteId::GetAvailabilities => {
                Box::pin(self.availability(context, decode::availability(query, body)?)).await
            }
            RouteId::QuotePrices => Box::pin(self.quote(context, decode::quote(query, body)?)).await,
            RouteId::GetReservation => self.reservation(context, decode::reservation(id, query)?).await,
            RouteId::GetAvailability => self.available(context, decode::item(sku, query)?).await,
            RouteId::GetItem => Box::pin(self.show_item(context, decode::item(sku, query)?)).await,
            RouteId::ListReservations => {
                Box::pin(self.reservations(context, decode::reservations(query)?)).await
            }
            RouteId::ListItems => Box::pin(self.inventory(context, decode::shelf(query)?)).await,
            RouteId::GetReservationEvents => {
                Box::pin(self.history(context, decode::reservation(id, query)?)).await
            }
            RouteId::ListEvents => Box::pin(self.events(context, decode::events(query)?)).await,
            RouteId::StreamEvents => {
                let last = head.last_event_id.value("/Last-Event-ID")?;
                Box::pin(self.event_stream(context, decode::stream(query, last)?)).await
            }
            RouteId::SetLimit => {
                let command = decode::set_limit(id, query, precondition(head)?, body)?;
                Box::pin(self.command(context, command, ResponseKind::Limit)).await
            }
            RouteId::DeleteLimit => {
                let command = decode::delete_limit(id, query, head.if_match.value(IF_MATCH)?)?;
                Box::pin(self.command(context, command, ResponseKind::Nothing)).await
            }
            RouteId::GetLimit => Box::pin(self.limit(decode::limit(id, query)?)).await,
            RouteId::ListLimits => Box::pin(self.limits(context, decode::limits(query)?)).await,
            RouteId::GetLimitUsage => {
                Box::pin(self.limit_usage(context, decode::limit_usage(id, query)?)).await
            }
            RouteId::PutCustomer => {
                let decoded = decode::put_customer(id, query, precondition(head)?, body)?;
                Box::pin(self.put_customer(decoded)).await
            }
            RouteId::GetCustomer => Box::pin(self.customer(decode::customer(id, query)?)).await,
            RouteId::DeleteCustomer => {
                let decoded = decode::delete_customer(id, query, head.if_match.value(IF_MATCH)?)?;
                Box::pin(self.delete_customer(decoded)).await
            }
            RouteId::RewrapCustomers => {
                Box::pin(self.rewrap_customers(decode::rewrap_customers(query)?)).await
            }
            RouteId::HubStock => self.hub_stock(context, hub::stock(sku, unit)?).await,
            RouteId::HubReserve => self.hub_reserve(context, hub::reserve(body)?).await,
            RouteId::HubConfirm => {
                let kind = ResponseKind::Profile(Shape::HubConfirmed);
                self.command(context, hub::confirm(body)?, kind).await
            }
            RouteId::HubRelease => {
                let kind = ResponseKind::Profile(Shape::HubReleased);
                self.command(context, hub::release(body)?, kind).await
            }
            RouteId::StorefrontReserve => {
                let kind = ResponseKind::Profile(Shape::StorefrontReservation);
                self.keyed(context, storefront::reserve(body)?, kind).await
            }
            RouteId::StorefrontCommit => {
                let kind = ResponseKind::Profile(Shape::StorefrontDone);
                self.keyed(context, storefront::commit(body)?, kind).await
            }
            RouteId::StorefrontExtend => self.storefront_extend(context, storefront::extend(body)?).await,
            RouteId::StorefrontRelease => {
                let kind = ResponseKind::Profile(Shape::StorefrontDone);
                self.keyed(context, storefront::release(body)?, kind).await
            }
            RouteId::CreateKey => Box::pin(self.create_key(context, decode::create_key(query, body)?)).await,
            RouteId::ListKeys => Box::pin(self.keys(context, decode::keys(query)?)).await,
            RouteId::GetKey => Box::pin(self.key(context, decode::key(id, query)?)).await,
            RouteId::RollKey => Box::pin(self.roll_key(context, decode::roll_key(id, query, body)?)).await,
            RouteId::RevokeKey => Box::pin(self.revoke_key(context, decode::key(id, query)?)).await,
            RouteId::GetProblem => match Reason::from_name(name) {
                Some(reason) => Ok(reply::page(page_html(reason), HTML)),
                None => Err(Problem::unknown_route(&format!("/problems/{name}")).into()),
            },
            RouteId::GetOpenApi => Ok(document::openapi(head.accepts_gzip)),
            RouteId::GetDocs => Ok(document::docs(head.accepts_gzip)),
            RouteId::GetIndex => Ok(reply::page(INDEX, "text/plain; charset=utf-8")),
        }
    }
}

/// Runs a future. Returns `None` when it panicked. The panic hook has logged the message.
pub(super) async fn or_panicked<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}

/// What the steps of one request share.
#[derive(Clone, Copy)]
pub(super) struct RequestContext<'a> {
    pub(super) head: &'a RequestHead<'a>,
    pub(super) request_id: &'a RequestId,
    pub(super) caller: &'a Caller,
    /// What the caller's rate limit said, if there is one.
    pub(super) rate: &'a Cell<Option<RateVerdict>>,
}

/// JSON pointers for errors of these headers.
const IF_MATCH: &str = "/If-Match";
const IF_NONE_MATCH: &str = "/If-None-Match";

/// The precondition of a change of an item.
fn precondition<'a>(head: &RequestHead<'a>) -> Result<Option<Match<'a>>, Invalid> {
    let if_match = head.if_match.value(IF_MATCH)?.map(Match::If);
    match (if_match, head.if_none_match.value(IF_NONE_MATCH)?.map(Match::IfNone)) {
        (Some(_), Some(_)) => {
            let detail = "can't stand beside If-Match: give one of them".to_owned();
            Err(Invalid::header(IF_NONE_MATCH, detail))
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// Refuses a precondition that the route would ignore. `If-None-Match` on a read comes from caches, which accept the
/// whole answer as well.
fn heed_preconditions(route: Route<'_>, head: &RequestHead<'_>) -> Result<(), Invalid> {
    let preconditions = route.id.spec().preconditions;
    let creates = preconditions == Preconditions::IfMatchOrAbsent;
    let versioned = creates || preconditions == Preconditions::IfMatch;
    let reads = matches!(head.method, "GET" | "HEAD");
    decode::no_precondition(head.if_match != SingleHeader::Absent && !versioned, false)?;
    decode::no_precondition(head.if_none_match != SingleHeader::Absent && !creates && !reads, true)
}
