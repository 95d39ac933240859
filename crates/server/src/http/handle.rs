//! One request walked through: route, body, command, store, response.

use super::answer::{self, HttpResponse, Shape};
use super::desk::Desk;
use super::intake;
use super::metrics::RouteMetrics;
use super::route::{Miss, Route};
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, IF_MATCH};
use std::borrow::Cow;
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant as Monotonic;
use stockhold_api::decode::{self, BASKET_BODY_BYTES, BODY_BYTES, Invalid, Keyed};
use stockhold_api::problem::{Problem, Reason, page_html};
use stockhold_domain::{Command, Envelope, ItemKey, KeyUse, Label, Origin, Rejection, RequestId, bucket_of};
use stockhold_store::clock::Clock;
use stockhold_store::ids::IdSource;
use stockhold_store::{Answer, Ask, Failure, Query, Store, digest};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
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
}

/// A refusal, and the methods that would have been possible.
struct Refused(Problem, Option<&'static str>);

impl<P: Into<Problem>> From<P> for Refused {
    fn from(problem: P) -> Self {
        Self(problem.into(), None)
    }
}

type Handled = Result<HttpResponse, Refused>;

impl Worker {
    /// Answers one request.
    pub(super) async fn handle(&self, request: Request<Incoming>) -> HttpResponse {
        let begun = Monotonic::now();
        let (parts, body) = request.into_parts();
        let request_id = intake::request_id(&parts.headers)
            .unwrap_or_else(|| RequestId::Made(self.ids.borrow_mut().random()));
        let found = Route::find(&parts.method, parts.uri.path());
        let handled = match found {
            Ok(route) => {
                let asked =
                    Asked { headers: &parts.headers, query: parts.uri.query(), request_id: &request_id };
                let served = std::pin::pin!(self.serve(route, asked, body));
                or_panicked(served).await.unwrap_or_else(|| Err(Problem::internal().into()))
            }
            Err(Miss::Path) => Err(Problem::unknown_route(parts.uri.path()).into()),
            Err(Miss::Method(allow)) => {
                Err(Refused(Problem::method_not_allowed(parts.method.as_str(), allow), Some(allow)))
            }
        };
        let mut response = match handled {
            Ok(response) => response,
            Err(Refused(problem, allow)) => answer::problem(&problem, &request_id, allow),
        };
        answer::sign(&mut response, &request_id);
        if self.draining.load(Ordering::Relaxed) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        self.metrics.record(found.ok(), response.status(), begun.elapsed());
        response
    }

    async fn serve(&self, route: Route<'_>, asked: Asked<'_>, body: Incoming) -> Handled {
        let limit = if route == Route::ReserveBasket { BASKET_BODY_BYTES } else { BODY_BYTES };
        let body = intake::body(asked.headers, body, limit).await?;
        let if_match = asked.headers.get(IF_MATCH).map(HeaderValue::as_bytes);
        let query = asked.query;
        match route {
            Route::ReserveSingle(sku) => {
                let keyed = decode::reserve_single(sku, query, &body)?;
                self.keyed(asked, keyed, Shape::Reservation).await
            }
            Route::ReserveBasket => {
                self.keyed(asked, decode::reserve_basket(query, &body)?, Shape::NewReservation).await
            }
            Route::Confirm(id) => {
                self.keyed(asked, decode::confirm(id, query, &body)?, Shape::Reservation).await
            }
            Route::Extend(id) => {
                self.keyed(asked, decode::extend(id, query, &body)?, Shape::Reservation).await
            }
            Route::Return(id) => {
                self.keyed(asked, decode::return_units(id, query, &body)?, Shape::Reservation).await
            }
            Route::Release(id) => {
                let keyed = Keyed { command: decode::release(id, query)?, key: None };
                self.keyed(asked, keyed, Shape::Nothing).await
            }
            Route::SetStock(sku) => {
                self.command(asked, decode::set_stock(sku, query, if_match, &body)?, None, Shape::Item).await
            }
            Route::Adjust(sku) => {
                self.keyed(asked, decode::adjust(sku, query, if_match, &body)?, Shape::Item).await
            }
            Route::ItemSale(sku, paused) => {
                let command = decode::set_item_sale(sku, query, &body, paused)?;
                self.command(asked, command, None, Shape::Sale).await
            }
            Route::Sale(paused) => {
                self.command(asked, decode::set_sale(query, &body, paused)?, None, Shape::Sale).await
            }
            Route::Reservation(id) => self.reservation(decode::reservation(id, query)?).await,
            Route::Available(sku) => {
                let item = self.item(decode::item(sku, query)?).await?;
                let as_of = self.clock.now().max(item.figures.at);
                Ok(answer::json(|out| stockhold_api::encode::availability(out, &item, as_of)))
            }
            Route::Item(sku) => Ok(answer::item(&self.item(decode::item(sku, query)?).await?)),
            Route::ProblemPage(name) => match Reason::from_name(name) {
                Some(reason) => Ok(answer::page(page_html(reason), "text/html; charset=utf-8")),
                None => Err(Problem::unknown_route(&format!("/problems/{name}")).into()),
            },
            Route::Index => Ok(answer::page(INDEX.to_owned(), "text/plain; charset=utf-8")),
        }
    }

    /// A command that may carry an idempotency key, in the header or in its body.
    async fn keyed(&self, asked: Asked<'_>, Keyed { command, key }: Keyed<'_>, shape: Shape) -> Handled {
        let mut headers = asked.headers.get_all(IDEMPOTENCY_KEY).iter();
        let header = headers.next().map(HeaderValue::as_bytes);
        if headers.next().is_some() {
            return Err(twice().into());
        }
        let key = decode::idempotency_key(header, key)?;
        let key = key.map(|key: Cow<'_, str>| KeyUse {
            hash: digest::key_hash(self.principal.as_str(), operation(&command), &key),
            fingerprint: digest::fingerprint(&command),
        });
        self.command(asked, command, key, shape).await
    }

    async fn command(
        &self,
        asked: Asked<'_>,
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
                request_id: asked.request_id.clone(),
                trace: intake::trace(asked.headers),
            },
        };
        match self.desk.ask(Ask::Command(Box::new(envelope))).await {
            Ok(Answer::Outcome(outcome)) => Ok(answer::outcome(outcome, shape)?),
            Ok(_) => Err(mixed_up().into()),
            Err(failure) => Err(failed(&failure, asked.request_id).into()),
        }
    }

    async fn reservation(&self, id: stockhold_domain::ReservationId) -> Handled {
        match self.desk.ask(Ask::Query(Query::Reservation(id))).await {
            Ok(Answer::Reservation(Some(hold))) => Ok(answer::reservation(&hold)),
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

/// What of a request its command needs beside the body.
#[derive(Clone, Copy)]
struct Asked<'a> {
    headers: &'a HeaderMap,
    query: Option<&'a str>,
    request_id: &'a RequestId,
}

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

fn first_bucket(command: &Command) -> u16 {
    match command {
        Command::Reserve(reserve) => reserve.basket.wants().first().map_or(0, |want| bucket_of(&want.item)),
        _ => 0,
    }
}

fn twice() -> Invalid {
    let detail = "is given twice: give one key".to_owned();
    Invalid { errors: vec![stockhold_domain::FieldError { pointer: "/Idempotency-Key".into(), detail }] }
}

fn failed(failure: &Failure, request_id: &RequestId) -> Problem {
    if let Failure::Internal(what) = failure {
        metrics::counter!("stockhold_invariant_alarms_total").increment(1);
        tracing::error!(what, %request_id, "a command broke an invariant");
    }
    Problem::from(failure)
}

fn mixed_up() -> Problem {
    tracing::error!("the store answered another question");
    Problem::internal()
}
