//! Turns outcomes into replies, before they are written to a connection. The matches are exhaustive, so a new outcome
//! does not compile until it has a status.

use super::admission::memory::BudgetGuard;
use super::page_headers::page_headers;
use super::request_error::RequestError;
use super::stream::EventStream;
use crate::access::Header;
use serde::Serialize;
use std::borrow::Cow;
use stockhold_api::encode;
use stockhold_api::problem::{self, Problem, Reason};
use stockhold_api::profiles::{Profile, Shape, write_error, write_reservation};
use stockhold_domain::{Hold, Item, Limit, Outcome, Pool, RequestId, Status};
use stockhold_service::{HoldTokenClaims, HoldTokenKey};
use stockhold_store::{Failure, SeatMap};

const JSON: &str = "application/json";
/// Capacity for a reservation of one line, in bytes.
const BODY_ROOM: usize = 512;

/// A reply to a request.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// The body's type, if there is a body.
    pub(super) kind: Option<&'static str>,
    /// Headers besides those that every reply has.
    pub(super) headers: Vec<Header>,
    /// Whether it replays the answer of an idempotency key.
    pub(super) replayed: bool,
    /// The body's compression, if it is compressed.
    pub(super) encoding: Option<&'static str>,
    pub(super) body: Cow<'static, [u8]>,
    /// An event stream instead of a body. Only connections of the general path have one.
    pub(super) stream: Option<Box<EventStream>>,
    /// The memory that the answer reserves until it is sent.
    pub(super) budget: Option<BudgetGuard>,
}

impl Reply {
    fn new(status: u16, kind: Option<&'static str>, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self {
            status,
            kind,
            headers: Vec::new(),
            replayed: false,
            encoding: None,
            body: body.into(),
            stream: None,
            budget: None,
        }
    }
}

/// How a route answers a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseKind {
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
    /// 200 and how many units are new.
    Units,
    /// 200 or 201 and the limit.
    Limit,
    /// 200, in the shape of a profile.
    Profile(Shape),
}

/// The reply to a command.
pub(super) fn outcome(
    outcome: Outcome,
    response_kind: ResponseKind,
    hold_tokens: Option<&HoldTokenKey>,
) -> Result<Reply, RequestError> {
    match outcome {
        Outcome::Done(reply) => Ok(show(&reply, response_kind, hold_tokens)),
        Outcome::Replayed(reply) => Ok(Reply { replayed: true, ..show(&reply, response_kind, hold_tokens) }),
        Outcome::Refused(rejection) => Err(Problem::from(rejection).into()),
        Outcome::Later => Err(RequestError::internal(LATER)),
    }
}

/// Writes the result of one command of a batch. Returns an error that has to be logged.
pub(super) fn result(
    out: &mut Vec<u8>,
    outcome: Result<Outcome, Failure>,
    response_kind: ResponseKind,
    hold_tokens: Option<&HoldTokenKey>,
    request_id: &RequestId,
) -> Option<RequestError> {
    let error = match outcome {
        Ok(Outcome::Done(reply)) => {
            show_result(out, &reply, response_kind, hold_tokens, false);
            return None;
        }
        Ok(Outcome::Replayed(reply)) => {
            show_result(out, &reply, response_kind, hold_tokens, true);
            return None;
        }
        Ok(Outcome::Refused(rejection)) => RequestError::from(Problem::from(rejection)),
        Ok(Outcome::Later) => RequestError::internal(LATER),
        Err(failure) => RequestError::from_store(&failure),
    };
    encode::result_problem(out, &error.problem, request_id);
    error.cause.is_some().then_some(error)
}

/// The text for an outcome that a store must never return.
const LATER: &str = "a store answered that it will answer later";

fn show_result(
    out: &mut Vec<u8>,
    reply: &stockhold_domain::Reply,
    response_kind: ResponseKind,
    hold_tokens: Option<&HoldTokenKey>,
    replayed: bool,
) {
    use stockhold_domain::Reply as Made;
    match (reply, response_kind) {
        (Made::Reservation(hold), ResponseKind::NewReservation) => {
            let token = hold_token(hold, hold_tokens);
            encode::result_reservation(out, 201, replayed, hold, token.as_deref());
        }
        (Made::Reservation(hold), ResponseKind::Reservation) => {
            encode::result_reservation(out, 200, replayed, hold, None);
        }
        (Made::Item { item, created }, ResponseKind::Item) => {
            encode::result_item(out, if *created { 201 } else { 200 }, replayed, item);
        }
        // Commands of a batch make nothing else, and a release has no body.
        _ => encode::result_nothing(out, 204, replayed),
    }
}

/// The hold token of an active reservation, if the caller asked for one.
fn hold_token(hold: &Hold, key: Option<&HoldTokenKey>) -> Option<String> {
    let key = key.filter(|_| hold.status == Status::Active)?;
    Some(key.sign(HoldTokenClaims { reservation: hold.id, generation: hold.details().transfers }))
}

fn show(
    reply: &stockhold_domain::Reply,
    response_kind: ResponseKind,
    hold_tokens: Option<&HoldTokenKey>,
) -> Reply {
    use stockhold_domain::Reply as Made;
    match (reply, response_kind) {
        // Routes that change records answer by themselves.
        (_, ResponseKind::Nothing) | (Made::ItemDeleted | Made::Swept { .. } | Made::Record(_), _) => {
            empty(204)
        }
        (Made::Reservation(hold), ResponseKind::Profile(shape)) => {
            json(|out| write_reservation(out, shape, hold))
        }
        (Made::Reservation(hold), ResponseKind::NewReservation) => {
            let mut reply = shown_reservation(hold, hold_tokens);
            reply.status = 201;
            reply.headers.push(("location", format!("/v1/reservations/{}", hold.id).into()));
            reply
        }
        (Made::Reservation(hold), _) => shown_reservation(hold, hold_tokens),
        (Made::Item { item: shown, created }, _) => {
            Reply { status: if *created { 201 } else { 200 }, ..item(shown) }
        }
        (Made::Limit { limit: shown, created }, _) => {
            Reply { status: if *created { 201 } else { 200 }, ..limit(shown) }
        }
        (Made::Units { item, added, unchanged }, _) => {
            json(|out| encode::added(out, item, *added, *unchanged))
        }
        (Made::Sale { paused }, _) => json(|out| {
            encode::sale(out, &encode::SaleState { paused: *paused, ..encode::SaleState::default() });
        }),
    }
}

fn shown_reservation(hold: &Hold, hold_tokens: Option<&HoldTokenKey>) -> Reply {
    let token = hold_token(hold, hold_tokens);
    let etag = encode::etag(hold.version);
    let reply = json(|out| encode::reservation_with_token(out, hold, token.as_deref()));
    Reply { headers: vec![("etag", etag.into())], ..reply }
}

/// 200 and a reservation with its ETag.
pub(super) fn reservation(hold: &Hold) -> Reply {
    shown_reservation(hold, None)
}

/// 200 and an item with its ETag.
pub(super) fn item(item: &Item) -> Reply {
    let etag = encode::etag(item.version);
    Reply { headers: vec![("etag", etag.into())], ..json(|out| encode::item(out, item)) }
}

/// 200 and a limit with its ETag.
pub(super) fn limit(limit: &Limit) -> Reply {
    let etag = encode::etag(limit.version);
    Reply { headers: vec![("etag", etag.into())], ..json(|out| encode::limit(out, limit)) }
}

/// 200 or 201 and a pool, with the ETag of its item.
pub(super) fn pool(item: &Item, pool: &Pool, created: bool) -> Reply {
    let etag = encode::etag(item.version);
    let reply = json(|out| encode::pool(out, pool));
    Reply { status: if created { 201 } else { 200 }, headers: vec![("etag", etag.into())], ..reply }
}

/// 200 and the pools of an item, with its ETag.
pub(super) fn pools(item: &Item) -> Reply {
    let etag = encode::etag(item.version);
    Reply { headers: vec![("etag", etag.into())], ..json(|out| encode::pools(out, item)) }
}

/// 200 and a seat map, or 304 if the caller has it already.
pub(super) fn seat_map(map: &SeatMap, known: Option<&[u8]>, budget: Option<BudgetGuard>) -> Reply {
    let etag = encode::map_etag(map);
    // Weak comparison, as RFC 9110 requires for If-None-Match.
    let same = |tag: &[u8]| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes();
    let is_known =
        known.is_some_and(|tags| tags.split(|byte| *byte == b',').any(|tag| same(tag.trim_ascii())));
    let reply = if is_known { empty(304) } else { json(|out| encode::seat_map(out, map)) };
    Reply { headers: vec![("etag", etag.into())], budget, ..reply }
}

/// 200 and JSON of this version.
pub(super) fn with_etag(version: u64, write: impl FnOnce(&mut Vec<u8>)) -> Reply {
    Reply { headers: vec![("etag", encode::etag(version).into())], ..json(write) }
}

/// 200 and the JSON that `write` writes.
pub(super) fn json(write: impl FnOnce(&mut Vec<u8>)) -> Reply {
    let mut body = Vec::with_capacity(BODY_ROOM);
    write(&mut body);
    Reply::new(200, Some(JSON), body)
}

/// 200 and a shape.
pub(super) fn shape(shape: &impl Serialize) -> Reply {
    json(|out| encode::shape(out, shape))
}

/// 200 and JSON that was written before.
pub(super) fn written(body: Vec<u8>, budget: Option<BudgetGuard>) -> Reply {
    Reply { budget, ..Reply::new(200, Some(JSON), body) }
}

/// 200 and an event stream.
pub(super) fn stream(stream: Option<EventStream>) -> Reply {
    let headers =
        vec![("cache-control", "no-store, no-transform".into()), ("x-accel-buffering", "no".into())];
    Reply { headers, stream: stream.map(Box::new), ..Reply::new(200, Some("text/event-stream"), Vec::new()) }
}

/// 200 and a page.
pub(super) fn page(body: impl Into<Cow<'static, str>>, kind: &'static str) -> Reply {
    let body = match body.into() {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    };
    Reply { headers: page_headers(kind), ..Reply::new(200, Some(kind), body) }
}

/// 200 and a page that is compressed with gzip.
pub(super) fn compressed(body: &'static [u8], kind: &'static str) -> Reply {
    Reply { encoding: Some("gzip"), headers: page_headers(kind), ..Reply::new(200, Some(kind), body) }
}

/// A reply without a body.
pub(super) fn empty(status: u16) -> Reply {
    Reply::new(status, None, Vec::new())
}

/// A problem, in the shape of a profile if the request was for one. `allow` is the `Allow` header of a wrong method.
pub(super) fn error(
    profile: Option<Profile>,
    problem: &Problem,
    request_id: &RequestId,
    allow: Option<&'static str>,
) -> Reply {
    let reason = problem.reason();
    let mut body = Vec::with_capacity(BODY_ROOM);
    let (status, kind) = match profile {
        None => {
            problem.write(&mut body, request_id);
            (reason.status(), problem::CONTENT_TYPE)
        }
        Some(profile) => (write_error(&mut body, profile, problem), JSON),
    };
    let retry_after = problem.retry_after().map(|seconds| ("retry-after", seconds.to_string().into()));
    let challenge = (reason == Reason::Unauthenticated).then_some(("www-authenticate", "Bearer".into()));
    let allow = allow.map(|allow| ("allow", allow.into()));
    let headers = allow.into_iter().chain(retry_after).chain(challenge).collect();
    Reply { headers, ..Reply::new(status, Some(kind), body) }
}
