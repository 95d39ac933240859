//! One request walked through: route, body, command, store, response.

use super::asked::{Asked, Given};
use super::desk::Desk;
use super::guard;
use super::load::{Load, Room, SHORT};
use super::metrics::RouteMetrics;
use super::refused::Refused;
use super::reply::{self, Reply, Shape};
use super::route::{Route, RouteError};
use super::tail::Tail;
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant as Monotonic, UNIX_EPOCH};
use stockhold_api::decode::{self, Invalid, Keyed, Match};
use stockhold_api::openapi;
use stockhold_api::problem::{Problem, Reason, page_html};
use stockhold_api::routes::{Preconditions, RouteId};
use stockhold_domain::{EventId, FieldError, Instant, Label, RequestId};
use stockhold_store::clock::Clock;
use stockhold_store::ids::IdSource;
use stockhold_store::{Failure, Store};
use tokio::sync::watch;

const INDEX: &str = include_str!("index.txt");
const HTML: &str = "text/html; charset=utf-8";

/// What the requests of one worker share.
pub(super) struct Worker {
    pub(super) store: Arc<dyn Store>,
    pub(super) desk: Rc<Desk>,
    pub(super) ids: RefCell<IdSource>,
    pub(super) clock: Arc<dyn Clock>,
    /// Who calls, as long as nobody has to say.
    pub(super) principal: Label,
    pub(super) metrics: RouteMetrics,
    pub(super) draining: Arc<AtomicBool>,
    /// Turns to true when what is open has to end.
    pub(super) stop: watch::Sender<bool>,
    /// Requests under way, for the drain to wait for.
    pub(super) under_way: Arc<AtomicUsize>,
    /// Event streams of all workers.
    pub(super) streams: Arc<AtomicUsize>,
    pub(super) room: Room,
    pub(super) tail: Rc<Tail>,
    /// The second that was last written as a date, and how.
    pub(super) date: RefCell<(u64, Rc<str>)>,
}

/// Counts something for as long as it lives.
#[derive(Debug)]
pub(super) struct Busy(Arc<AtomicUsize>);

impl Busy {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) type Handled = Result<Reply, Refused>;

impl Worker {
    /// A name for the request: the caller's, or a fresh one.
    pub(super) fn name(&self, asked: &Asked<'_>) -> RequestId {
        asked.given_request_id().unwrap_or_else(|| self.fresh_name(asked.now))
    }

    /// A name for what nobody has named.
    pub(super) fn fresh_name(&self, now: Instant) -> RequestId {
        RequestId::Made(EventId::new(now, self.ids.borrow_mut().random()).as_u128())
    }

    /// Says that a request is under way, until dropped.
    pub(super) fn busy(&self) -> Busy {
        Busy::new(&self.under_way)
    }

    /// An instant as a `Date` header has it.
    pub(super) fn date(&self, now: Instant) -> Rc<str> {
        let second = u64::try_from(now.millis() / 1_000).unwrap_or_default();
        let mut date = self.date.borrow_mut();
        if date.0 != second || date.1.is_empty() {
            *date = (second, httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second)).into());
        }
        Rc::clone(&date.1)
    }

    /// Answers one request, whose body has been read or has turned out to be none.
    pub(super) async fn answer(
        self: &Rc<Self>,
        asked: Asked<'_>,
        found: Result<Route<'_>, RouteError>,
        body: Result<&[u8], Problem>,
        request_id: &RequestId,
        begun: Monotonic,
    ) -> Reply {
        let handled = match (found, body) {
            (Err(RouteError::UnknownPath), _) => Err(Problem::unknown_route(asked.path).into()),
            (Err(RouteError::WrongMethod(allow)), _) => {
                let problem = Problem::method_not_allowed(asked.method, allow);
                Err(Refused { allow: Some(allow), ..problem.into() })
            }
            (Ok(_), Err(problem)) => Err(problem.into()),
            (Ok(route), Ok(body)) => match guard::foreign_origin(&asked) {
                Some(origin) => Err(Problem::foreign_origin(&origin).into()),
                None => {
                    let served = std::pin::pin!(self.serve(route, asked, body, request_id));
                    or_panicked(served).await.unwrap_or_else(|| Err(Refused::internal("a panic")))
                }
            },
        };
        let reply = match handled.and_then(|reply| self.weighed(reply)) {
            Ok(reply) => reply,
            Err(refused) => {
                refused.log(&asked, found.ok(), request_id);
                reply::problem(&refused.problem, request_id, refused.allow)
            }
        };
        self.metrics.record(found.ok(), reply.status, begun.elapsed());
        reply
    }

    /// Counts a long answer, unless it is counted already.
    fn weighed(&self, mut reply: Reply) -> Handled {
        if reply.body.len() >= SHORT && reply.load.is_none() {
            reply.load = Some(self.take_room(reply.body.len())?);
        }
        Ok(reply)
    }

    /// Room for a long answer; too much is asked at once when there is none.
    pub(super) fn take_room(&self, bytes: usize) -> Result<Load, Refused> {
        let mut load = self.room.load();
        if load.grow(bytes) { Ok(load) } else { Err(Refused::failed(&Failure::Overloaded)) }
    }

    async fn serve(
        self: &Rc<Self>,
        route: Route<'_>,
        asked: Asked<'_>,
        body: &[u8],
        request_id: &RequestId,
    ) -> Handled {
        let query = asked.query;
        let who = (asked, request_id);
        decode::host(asked.needs_host, asked.host.once("/Host")?)?;
        if !route.body().is_read() {
            decode::no_body(body)?;
        }
        heed_preconditions(route, &asked)?;
        // The path's first parameter, by each name that the routes give it.
        let [sku, unit] = route.parameters;
        let (id, name) = (sku, sku);
        match route.id {
            RouteId::Reserve => {
                let keyed = decode::reserve_single(sku, query, body)?;
                self.keyed(who, keyed, Shape::Reservation).await
            }
            RouteId::ReserveBasket => {
                self.keyed(who, decode::reserve_basket(query, body)?, Shape::NewReservation).await
            }
            RouteId::Confirm => self.keyed(who, decode::confirm(id, query, body)?, Shape::Reservation).await,
            RouteId::Extend => self.keyed(who, decode::extend(id, query, body)?, Shape::Reservation).await,
            RouteId::ReturnUnits => {
                self.keyed(who, decode::return_units(id, query, body)?, Shape::Reservation).await
            }
            RouteId::Release => {
                let keyed = Keyed { command: decode::release(id, query)?, key: None };
                self.keyed(who, keyed, Shape::Nothing).await
            }
            RouteId::SetStock => {
                let command = decode::set_stock(sku, query, precondition(&asked)?, body)?;
                self.command(who, command, None, Shape::Item).await
            }
            RouteId::AdjustStock => {
                let if_match = asked.if_match.once(IF_MATCH)?;
                self.keyed(who, decode::adjust(sku, query, if_match, body)?, Shape::Item).await
            }
            RouteId::AddUnits => {
                self.command(who, decode::add_units(sku, query, body)?, None, Shape::Units).await
            }
            RouteId::RetireUnit => {
                self.command(who, decode::retire_unit(sku, unit, query)?, None, Shape::Nothing).await
            }
            RouteId::ListUnits => Box::pin(self.units(decode::units(sku, query)?)).await,
            RouteId::GetUnit => {
                let (item, unit) = decode::unit(sku, unit, query)?;
                Box::pin(self.unit(item, unit)).await
            }
            RouteId::GetUnitEvents => {
                let (item, unit) = decode::unit(sku, unit, query)?;
                Box::pin(self.unit_history(item, unit)).await
            }
            RouteId::GetSeatMap => {
                let (item, layout) = decode::seat_map(sku, query)?;
                let known = asked.if_none_match.once(IF_NONE_MATCH)?;
                Box::pin(self.seat_map(item, layout, known)).await
            }
            RouteId::PauseItem => {
                Box::pin(self.set_sale(who, decode::set_item_sale(sku, query, body, true)?)).await
            }
            RouteId::ResumeItem => {
                Box::pin(self.set_sale(who, decode::set_item_sale(sku, query, body, false)?)).await
            }
            RouteId::PauseSale => Box::pin(self.set_sale(who, decode::set_sale(query, body, true)?)).await,
            RouteId::ResumeSale => Box::pin(self.set_sale(who, decode::set_sale(query, body, false)?)).await,
            RouteId::GetSale => Box::pin(self.sale(&decode::sale(query)?)).await,
            // Large ones do not make every request's future large.
            RouteId::RunCommands => Box::pin(self.commands(who, body)).await,
            RouteId::GetAvailabilities => {
                Box::pin(self.availability(asked, decode::availability(query, body)?)).await
            }
            RouteId::GetReservation => self.reservation(decode::reservation(id, query)?).await,
            RouteId::GetAvailability => self.available(asked, decode::item(sku, query)?).await,
            RouteId::GetItem => Ok(reply::item(&self.item(decode::item(sku, query)?).await?)),
            RouteId::ListReservations => Box::pin(self.reservations(decode::reservations(query)?)).await,
            RouteId::ListItems => Box::pin(self.inventory(decode::shelf(query)?)).await,
            RouteId::GetReservationEvents => Box::pin(self.history(decode::reservation(id, query)?)).await,
            RouteId::ListEvents => {
                let (after, limit) = decode::events(query)?;
                Box::pin(self.events(after, limit)).await
            }
            RouteId::StreamEvents => {
                let last = asked.last_event_id.once("/Last-Event-ID")?;
                Box::pin(self.event_stream(asked, decode::stream(query, last)?)).await
            }
            RouteId::GetProblem => match Reason::from_name(name) {
                Some(reason) => Ok(reply::page(page_html(reason), HTML)),
                None => Err(Problem::unknown_route(&format!("/problems/{name}")).into()),
            },
            RouteId::GetOpenApi => Ok(reply::page(openapi::text(), openapi::CONTENT_TYPE)),
            RouteId::GetDocs => Ok(reply::page(openapi::docs_html(), HTML)),
            RouteId::GetIndex => Ok(reply::page(INDEX, "text/plain; charset=utf-8")),
        }
    }
}

/// Runs a future; `None` when it panicked. The panic's message has been logged by the hook.
pub(super) async fn or_panicked<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}

/// What was asked, and what the request is called.
pub(super) type Who<'a> = (Asked<'a>, &'a RequestId);

/// Where their faults are told.
const IF_MATCH: &str = "/If-Match";
const IF_NONE_MATCH: &str = "/If-None-Match";

/// What has to be so for an item to be set.
fn precondition<'a>(asked: &Asked<'a>) -> Result<Option<Match<'a>>, Invalid> {
    let if_match = asked.if_match.once(IF_MATCH)?.map(Match::If);
    match (if_match, asked.if_none_match.once(IF_NONE_MATCH)?.map(Match::IfNone)) {
        (Some(_), Some(_)) => {
            let detail = "can't stand beside If-Match: give one of them".to_owned();
            Err(Invalid { errors: vec![FieldError { pointer: IF_NONE_MATCH.into(), detail }] })
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// Refuses a condition where it would be passed over. `If-None-Match` on a read is a cache's, which takes the whole answer
/// as well.
fn heed_preconditions(route: Route<'_>, asked: &Asked<'_>) -> Result<(), Invalid> {
    let preconditions = route.id.spec().preconditions;
    let creates = preconditions == Preconditions::IfMatchOrAbsent;
    let versioned = creates || preconditions == Preconditions::IfMatch;
    let reads = matches!(asked.method, "GET" | "HEAD");
    decode::no_precondition(asked.if_match != Given::Not && !versioned, false)?;
    decode::no_precondition(asked.if_none_match != Given::Not && !creates && !reads, true)
}
