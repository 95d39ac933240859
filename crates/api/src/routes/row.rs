//! What rows of the route table are made of: bodies, responses and their headers.

use super::{Body, Content, Response};
use crate::decode::{BASKET_BODY_BYTES, BODY_BYTES};

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const PLAIN_TEXT: &str = "text/plain; charset=utf-8";
/// The media type of a stream of server-sent events.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

pub(super) const REPLAYED: (&str, &str) = ("Idempotent-Replayed", "Replayed");
pub(super) const ETAG: (&str, &str) = ("ETag", "ETag");
pub(super) const KEY_LOCATION: (&str, &str) = ("Location", "KeyLocation");
pub(super) const NO_STORE: (&str, &str) = ("Cache-Control", "NoStore");
pub(super) const MAP_ETAG: (&str, &str) = ("ETag", "MapETag");
/// Those of a stream that proxies have to pass on at once.
pub(super) const NOT_BUFFERED: &[(&str, &str)] =
    &[("Cache-Control", "Unchanged"), ("X-Accel-Buffering", "Unbuffered")];
/// Those of a document that is compressed for clients that take gzip.
pub(super) const COMPRESSED: &[(&str, &str)] = &[("Vary", "Vary"), ("Content-Encoding", "ContentEncoding")];

pub(super) const fn required(schema: &'static str) -> Body {
    Body::Required { schema, limit: BODY_BYTES }
}

pub(super) const fn optional(schema: &'static str) -> Body {
    Body::Optional { schema, limit: BODY_BYTES }
}

/// A body with lines, or none.
pub(super) const fn optional_lines(schema: &'static str) -> Body {
    Body::Optional { schema, limit: BASKET_BODY_BYTES }
}

/// A body with lines.
pub(super) const fn lines(schema: &'static str) -> Body {
    Body::Required { schema, limit: BASKET_BODY_BYTES }
}

pub(super) const fn json(status: u16, description: &'static str, schema: &'static str) -> Response {
    Response { status, description, content: Content::Json(schema), headers: &[] }
}

/// A reservation, with its version and whether the answer is a replay.
pub(super) const fn reservation(description: &'static str) -> Response {
    Response { headers: &[ETAG, REPLAYED], ..json(200, description, "Reservation") }
}

/// A new reservation.
pub(super) const fn new_reservation(description: &'static str) -> Response {
    let headers = &[("Location", "Location"), ETAG, REPLAYED];
    Response { headers, ..json(201, description, "Reservation") }
}

pub(super) const fn item(status: u16, description: &'static str) -> Response {
    Response { headers: &[ETAG], ..json(status, description, "Item") }
}

pub(super) const fn limit(status: u16, description: &'static str) -> Response {
    Response { headers: &[ETAG], ..json(status, description, "Limit") }
}

/// A pool, with the version of its item.
pub(super) const fn pool(status: u16, description: &'static str) -> Response {
    Response { headers: &[ETAG], ..json(status, description, "Pool") }
}

/// The pools of an item, with its version.
pub(super) const fn pools(status: u16, description: &'static str) -> Response {
    Response { headers: &[ETAG], ..json(status, description, "PoolList") }
}

pub(super) const fn empty(status: u16, description: &'static str) -> Response {
    Response { status, description, content: Content::None, headers: &[] }
}

pub(super) const fn text(description: &'static str, kind: &'static str) -> Response {
    Response { status: 200, description, content: Content::Text(kind), headers: &[] }
}
