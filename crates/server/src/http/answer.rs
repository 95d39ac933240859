//! From an outcome to a response. The matches are exhaustive: a new outcome does not compile until it has its status.

use super::intake::REQUEST_ID;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Response, StatusCode};
use stockhold_api::encode;
use stockhold_api::problem::{self, Problem};
use stockhold_domain::{Hold, Item, Outcome, Reply, RequestId};

pub(super) type HttpResponse = Response<Full<Bytes>>;

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Room for a reservation of one line.
const BODY_ROOM: usize = 512;

/// How a route shows what it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// 200 and the reservation.
    Reservation,
    /// 201, the reservation and where it is.
    NewReservation,
    /// 204.
    Nothing,
    /// 200 or 201 and the item.
    Item,
    /// 200 and whether the sale is paused.
    Sale,
}

/// The response to a command.
pub(super) fn outcome(outcome: Outcome, shape: Shape) -> Result<HttpResponse, Problem> {
    match outcome {
        Outcome::Done(reply) => Ok(show(&reply, shape)),
        Outcome::Replayed(reply) => {
            let mut response = show(&reply, shape);
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
            Ok(response)
        }
        Outcome::Refused(rejection) => Err(Problem::from(rejection)),
        Outcome::Later => {
            tracing::error!("a store answered that it will answer later");
            Err(Problem::internal())
        }
    }
}

fn show(reply: &Reply, shape: Shape) -> HttpResponse {
    match (reply, shape) {
        (_, Shape::Nothing) => status(StatusCode::NO_CONTENT),
        (Reply::Reservation(hold), Shape::NewReservation) => {
            let mut response = reservation(hold);
            *response.status_mut() = StatusCode::CREATED;
            insert(&mut response, LOCATION, &format!("/v1/reservations/{}", hold.id));
            response
        }
        (Reply::Reservation(hold), _) => reservation(hold),
        (Reply::Item { item: shown, created }, _) => {
            let mut response = item(shown);
            if *created {
                *response.status_mut() = StatusCode::CREATED;
            }
            response
        }
        (Reply::Sale { paused }, _) => json(|out| encode::sale(out, *paused)),
        (Reply::Swept { .. }, _) => status(StatusCode::OK),
    }
}

/// 200 and a reservation.
pub(super) fn reservation(hold: &Hold) -> HttpResponse {
    json(|out| encode::reservation(out, hold))
}

/// 200 and an item with its ETag.
pub(super) fn item(item: &Item) -> HttpResponse {
    let mut response = json(|out| encode::item(out, item));
    insert(&mut response, ETAG, &encode::etag(item.version));
    response
}

/// 200 and what `write` writes.
pub(super) fn json(write: impl FnOnce(&mut Vec<u8>)) -> HttpResponse {
    let mut body = Vec::with_capacity(BODY_ROOM);
    write(&mut body);
    with_type(body, JSON)
}

/// 200 and a page.
pub(super) fn page(body: String, kind: &'static str) -> HttpResponse {
    with_type(body.into_bytes(), HeaderValue::from_static(kind))
}

fn with_type(body: Vec<u8>, kind: HeaderValue) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn status(status: StatusCode) -> HttpResponse {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// A problem; `allow` goes with a method that is not possible.
pub(super) fn problem(
    problem: &Problem,
    request_id: &RequestId,
    allow: Option<&'static str>,
) -> HttpResponse {
    let reason = problem.reason();
    let mut body = Vec::with_capacity(BODY_ROOM);
    problem.write(&mut body, request_id);
    let mut response = with_type(body, HeaderValue::from_static(problem::CONTENT_TYPE));
    *response.status_mut() =
        StatusCode::from_u16(reason.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(seconds) = reason.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(allow) = allow {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    response
}

/// Says which request it answers.
pub(super) fn sign(response: &mut HttpResponse, request_id: &RequestId) {
    insert(response, REQUEST_ID, &request_id.to_string());
}

fn insert(response: &mut HttpResponse, name: HeaderName, value: &str) {
    // A request id that the caller gave may hold what a header may not; it is in the body then.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
