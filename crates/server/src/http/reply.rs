//! From an outcome to a reply, before it is written onto a connection. The matches are exhaustive: a new outcome does not
//! compile until it has its status.

use std::borrow::Cow;
use stockhold_api::encode;
use stockhold_api::problem::{self, Problem};
use stockhold_domain::{Hold, Item, Outcome, RequestId};

const JSON: &str = "application/json";
/// Room for a reservation of one line.
const BODY_ROOM: usize = 512;

/// What is written back.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// The body's type, if there is a body.
    pub(super) kind: Option<&'static str>,
    /// A header of its own that a reply may have.
    pub(super) extra: Option<(&'static str, Cow<'static, str>)>,
    /// Whether it repeats what a key made before.
    pub(super) replayed: bool,
    pub(super) body: Vec<u8>,
}

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

/// The reply to a command.
pub(super) fn outcome(outcome: Outcome, shape: Shape) -> Result<Reply, Problem> {
    match outcome {
        Outcome::Done(reply) => Ok(show(&reply, shape)),
        Outcome::Replayed(reply) => Ok(Reply { replayed: true, ..show(&reply, shape) }),
        Outcome::Refused(rejection) => Err(Problem::from(rejection)),
        Outcome::Later => {
            tracing::error!("a store answered that it will answer later");
            Err(Problem::internal())
        }
    }
}

fn show(reply: &stockhold_domain::Reply, shape: Shape) -> Reply {
    use stockhold_domain::Reply as Made;
    match (reply, shape) {
        (_, Shape::Nothing) | (Made::Swept { .. }, _) => empty(204),
        (Made::Reservation(hold), Shape::NewReservation) => {
            let place = format!("/v1/reservations/{}", hold.id);
            Reply { status: 201, extra: Some(("location", place.into())), ..reservation(hold) }
        }
        (Made::Reservation(hold), _) => reservation(hold),
        (Made::Item { item: shown, created }, _) => {
            Reply { status: if *created { 201 } else { 200 }, ..item(shown) }
        }
        (Made::Sale { paused }, _) => json(|out| encode::sale(out, *paused)),
    }
}

/// 200 and a reservation.
pub(super) fn reservation(hold: &Hold) -> Reply {
    json(|out| encode::reservation(out, hold))
}

/// 200 and an item with its ETag.
pub(super) fn item(item: &Item) -> Reply {
    let etag = encode::etag(item.version);
    Reply { extra: Some(("etag", etag.into())), ..json(|out| encode::item(out, item)) }
}

/// 200 and what `write` writes.
pub(super) fn json(write: impl FnOnce(&mut Vec<u8>)) -> Reply {
    let mut body = Vec::with_capacity(BODY_ROOM);
    write(&mut body);
    Reply { status: 200, kind: Some(JSON), extra: None, replayed: false, body }
}

/// 200 and a page.
pub(super) fn page(body: String, kind: &'static str) -> Reply {
    Reply { status: 200, kind: Some(kind), extra: None, replayed: false, body: body.into_bytes() }
}

fn empty(status: u16) -> Reply {
    Reply { status, kind: None, extra: None, replayed: false, body: Vec::new() }
}

/// A problem; `allow` goes with a method that is not possible.
pub(super) fn problem(problem: &Problem, request_id: &RequestId, allow: Option<&'static str>) -> Reply {
    let reason = problem.reason();
    let mut body = Vec::with_capacity(BODY_ROOM);
    problem.write(&mut body, request_id);
    let retry_after = reason.retry_after().map(|seconds| ("retry-after", seconds.to_string().into()));
    let extra = allow.map(|allow| ("allow", allow.into())).or(retry_after);
    Reply { status: reason.status(), kind: Some(problem::CONTENT_TYPE), extra, replayed: false, body }
}
