//! One request walked through: route, body, command, store, response.

use super::asked::Asked;
use super::desk::Desk;
use super::metrics::RouteMetrics;
use super::reply::{self, Reply, Shape};
use super::route::{Miss, Route};
use std::borrow::Cow;
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant as Monotonic, UNIX_EPOCH};
use stockhold_api::decode::{self, Invalid, Keyed};
use stockhold_api::problem::{Problem, Reason, page_html};
use stockhold_domain::{Command, Envelope, ItemKey, KeyUse, Label, Origin, Rejection, RequestId, bucket_of};
use stockhold_store::clock::Clock;
use stockhold_store::ids::IdSource;
use stockhold_store::{Answer, Ask, Failure, Query, Store, digest};

const INDEX: &str = include_str!("index.txt");

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
    /// Requests under way, for the drain to wait for.
    pub(super) under_way: Arc<AtomicUsize>,
    /// The second that was last written as a date, and how.
    pub(super) date: RefCell<(u64, Rc<str>)>,
}

/// Counts something for as long as it lives.
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

/// A refusal, and the methods that would have been possible.
struct Refused(Problem, Option<&'static str>);

impl<P: Into<Problem>> From<P> for Refused {
    fn from(problem: P) -> Self {
        Self(problem.into(), None)
    }
}

type Handled = Result<Reply, Refused>;

impl Worker {
    /// A name for the request: the caller's, or a fresh one.
    pub(super) fn name(&self, asked: &Asked<'_>) -> RequestId {
        asked.given_request_id().unwrap_or_else(|| RequestId::Made(self.ids.borrow_mut().random()))
    }

    /// Says that a request is under way, until dropped.
    pub(super) fn busy(&self) -> Busy {
        Busy::new(&self.under_way)
    }

    /// Now as a `Date` header has it.
    pub(super) fn date(&self) -> Rc<str> {
        let second = u64::try_from(self.clock.now().millis() / 1_000).unwrap_or_default();
        let mut date = self.date.borrow_mut();
        if date.0 != second || date.1.is_empty() {
            *date = (second, httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second)).into());
        }
        Rc::clone(&date.1)
    }

    /// Answers one request, whose body has been read or has turned out to be none.
    pub(super) async fn answer(
        &self,
        asked: Asked<'_>,
        found: Result<Route<'_>, Miss>,
        body: Result<&[u8], Problem>,
        request_id: &RequestId,
        begun: Monotonic,
    ) -> Reply {
        let handled = match (found, body) {
            (Err(Miss::Path), _) => Err(Problem::unknown_route(asked.path).into()),
            (Err(Miss::Method(allow)), _) => {
                Err(Refused(Problem::method_not_allowed(asked.method, allow), Some(allow)))
            }
            (Ok(_), Err(problem)) => Err(problem.into()),
            (Ok(route), Ok(body)) => {
                let served = std::pin::pin!(self.serve(route, asked, body, request_id));
                or_panicked(served).await.unwrap_or_else(|| Err(Problem::internal().into()))
            }
        };
        let reply = match handled {
            Ok(reply) => reply,
            Err(Refused(problem, allow)) => reply::problem(&problem, request_id, allow),
        };
        self.metrics.record(found.ok(), reply.status, begun.elapsed());
        reply
    }

    async fn serve(
        &self,
        route: Route<'_>,
        asked: Asked<'_>,
        body: &[u8],
        request_id: &RequestId,
    ) -> Handled {
        let query = asked.query;
        let asked = (asked, request_id);
        match route {
            Route::ReserveSingle(sku) => {
                let keyed = decode::reserve_single(sku, query, body)?;
                self.keyed(asked, keyed, Shape::Reservation).await
            }
            Route::ReserveBasket => {
                self.keyed(asked, decode::reserve_basket(query, body)?, Shape::NewReservation).await
            }
            Route::Confirm(id) => {
                self.keyed(asked, decode::confirm(id, query, body)?, Shape::Reservation).await
            }
            Route::Extend(id) => {
                self.keyed(asked, decode::extend(id, query, body)?, Shape::Reservation).await
            }
            Route::Return(id) => {
                self.keyed(asked, decode::return_units(id, query, body)?, Shape::Reservation).await
            }
            Route::Release(id) => {
                let keyed = Keyed { command: decode::release(id, query)?, key: None };
                self.keyed(asked, keyed, Shape::Nothing).await
            }
            Route::SetStock(sku) => {
                self.command(
                    asked,
                    decode::set_stock(sku, query, if_match(asked.0)?, body)?,
                    None,
                    Shape::Item,
                )
                .await
            }
            Route::Adjust(sku) => {
                self.keyed(asked, decode::adjust(sku, query, if_match(asked.0)?, body)?, Shape::Item).await
            }
            Route::ItemSale(sku, paused) => {
                let command = decode::set_item_sale(sku, query, body, paused)?;
                self.command(asked, command, None, Shape::Sale).await
            }
            Route::Sale(paused) => {
                self.command(asked, decode::set_sale(query, body, paused)?, None, Shape::Sale).await
            }
            Route::Reservation(id) => self.reservation(decode::reservation(id, query)?).await,
            Route::Available(sku) => {
                let item = self.item(decode::item(sku, query)?).await?;
                let as_of = self.clock.now().max(item.figures.at);
                Ok(reply::json(|out| stockhold_api::encode::availability(out, &item, as_of)))
            }
            Route::Item(sku) => Ok(reply::item(&self.item(decode::item(sku, query)?).await?)),
            Route::ProblemPage(name) => match Reason::from_name(name) {
                Some(reason) => Ok(reply::page(page_html(reason), "text/html; charset=utf-8")),
                None => Err(Problem::unknown_route(&format!("/problems/{name}")).into()),
            },
            Route::Index => Ok(reply::page(INDEX.to_owned(), "text/plain; charset=utf-8")),
        }
    }

    /// A command that may carry an idempotency key, in the header or in its body.
    async fn keyed(&self, asked: Who<'_>, Keyed { command, key }: Keyed<'_>, shape: Shape) -> Handled {
        let key = decode::idempotency_key(asked.0.idempotency_key.once("/Idempotency-Key")?, key)?;
        let key = key.map(|key: Cow<'_, str>| KeyUse {
            hash: digest::key_hash(self.principal.as_str(), operation(&command), &key),
            fingerprint: digest::fingerprint(&command),
        });
        self.command(asked, command, key, shape).await
    }

    async fn command(
        &self,
        (asked, request_id): Who<'_>,
        command: Command,
        key: Option<KeyUse>,
        shape: Shape,
    ) -> Handled {
        let now = self.clock.now();
        let envelope = Envelope {
            fresh: self.ids.borrow_mut().fresh(now, first_bucket(&command)),
            command,
            key,
            origin: Origin {
                actor: self.principal.clone(),
                request_id: request_id.clone(),
                trace: asked.trace(),
            },
        };
        match self.desk.ask(Ask::Command(Box::new(envelope))).await {
            Ok(Answer::Outcome(outcome)) => Ok(reply::outcome(outcome, shape)?),
            Ok(_) => Err(mixed_up().into()),
            Err(failure) => Err(failed(&failure, request_id).into()),
        }
    }

    async fn reservation(&self, id: stockhold_domain::ReservationId) -> Handled {
        match self.desk.ask(Ask::Query(Query::Reservation(id))).await {
            Ok(Answer::Reservation(Some(hold))) => Ok(reply::reservation(&hold)),
            Ok(Answer::Reservation(None)) => Err(Problem::from(Rejection::UnknownReservation(id)).into()),
            Ok(_) => Err(mixed_up().into()),
            Err(failure) => Err(Problem::from(&failure).into()),
        }
    }

    async fn item(&self, key: ItemKey) -> Result<stockhold_domain::Item, Refused> {
        let found = match self.store.published(&key) {
            Some(found) => found,
            None => match self.desk.ask(Ask::Query(Query::Items(vec![key.clone()]))).await {
                Ok(Answer::Items(items)) => items.into_iter().next().flatten(),
                Ok(_) => return Err(mixed_up().into()),
                Err(failure) => return Err(Problem::from(&failure).into()),
            },
        };
        found.ok_or_else(|| Problem::from(Rejection::UnknownItem(vec![key])).into())
    }
}

/// Runs a future; `None` when it panicked. The panic's message has been logged by the hook.
async fn or_panicked<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
    .await
}

/// What was asked, and what the request is called.
type Who<'a> = (Asked<'a>, &'a RequestId);

/// What keys are scoped to: both reserve routes are one operation.
fn operation(command: &Command) -> &'static str {
    match command {
        Command::Reserve(_) => "reserve",
        Command::Confirm(_) => "confirm",
        Command::Release(_) => "release",
        Command::Extend(_) => "extend",
        Command::Return(_) => "return",
        Command::SetStock(_) => "set_stock",
        Command::AdjustStock(_) => "adjust",
        Command::SetSale(_) => "set_sale",
        Command::Sweep => "sweep",
    }
}

fn if_match(asked: Asked<'_>) -> Result<Option<&[u8]>, Invalid> {
    asked.if_match.once("/If-Match")
}

fn first_bucket(command: &Command) -> u16 {
    match command {
        Command::Reserve(reserve) => reserve.basket.wants().first().map_or(0, |want| bucket_of(&want.item)),
        _ => 0,
    }
}

/// Problems leave out why the store can't; the log says it.
fn failed(failure: &Failure, request_id: &RequestId) -> Problem {
    match failure {
        Failure::Internal(what) => tracing::error!(what, %request_id, "a command broke an invariant"),
        Failure::Unavailable(why) => tracing::debug!(why, %request_id, "the store is unavailable"),
        Failure::Overloaded | Failure::OutcomeUnknown => {}
    }
    Problem::from(failure)
}

fn mixed_up() -> Problem {
    tracing::error!("the store answered another question");
    Problem::internal()
}
