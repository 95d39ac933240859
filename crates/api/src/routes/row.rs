//! What rows of the route table are made of: bodies, responses and their headers.

use super::{Body, Content, Response};
use crate::decode::{BASKET_BODY_BYTES, BODY_BYTES};

pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const PLAIN_TEXT: &str = "text/plain; charset=utf-8";
/// The media type of a stream of server-sent events.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

pub(crate) const REPLAYED: (&str, &str) = ("Idempotent-Replayed", "Replayed");
pub(crate) const ETAG: (&str, &str) = ("ETag", "ETag");
pub(crate) const KEY_LOCATION: (&str, &str) = ("Location", "KeyLocation");
pub(crate) const NO_STORE: (&str, &str) = ("Cache-Control", "NoStore");
pub(crate) const MAP_ETAG: (&str, &str) = ("ETag", "MapETag");
/// Those of a stream that proxies have to pass on at once.
pub(crate) const NOT_BUFFERED: &[(&str, &str)] =
    &[("Cache-Control", "Unchanged"), ("X-Accel-Buffering", "Unbuffered")];
/// Those of a document that is compressed for clients that take gzip.
pub(crate) const COMPRESSED: &[(&str, &str)] = &[("Vary", "Vary"), ("Content-Encoding", "ContentEncoding")];

pub(crate) const fn required(schema: &'static str) -> Body {
    Body::Required { schema, limit: BODY_BYTES }
}

pub(crate) const fn optional(schema: &'static str) -> Body {
    Body::Optional { schema, limit: BODY_BYTES }
}

/// A body with lines, or none.
pub(crate) const fn optional_lines(schema: &'static str) -> Body {
    Body::Optional { schema, limit: BASKET_BODY_BYTES }
}

/// A body with lines.
pub(crate) const fn lines(schema: &'static str) -> Body {
    Body::Required { schema, limit: BASKET_BODY_BYTES }
}

pub(crate) const fn json(status: u16, description: &'static str, schema: &'static str) -> Response {
    Response { status, description, content: Content::Json(schema), headers: &[] }
}

/// A reservation, with its version and whether the answer is a replay.
pub(crate) const fn reservation(description: &'static str) -> Response {
    Response { headers: &[ETAG, REPLAYED], ..json(200, description, "Reservation") }
}

/// A new reservation.
pub(crate) const fn new_reservation(description: &'static str) -> Response {
    let headers = &[("Location", "Location"), ETAG, REPLAYED];
    Response { headers, ..json(201, description, "Reservation") }
}

pub(crate) const fn item(status: u16, description: &'static str) -> Response {
    Response { headers: &[ETAG], ..json(status, description, "Item") }
}

pub(crate) const fn limit(status: u16, description: &'static str) -> Response {
    Response { headers: &[ETAG], ..json(status, description, "Limit") }
}

/// A pool, with the version of its item.
pub(crate) const fn pool(status: u16, description: &'static str) -> Response {
    Response { headers: &[ETAG], ..json(status, description, "Pool") }
}

/// The pools of an item, with its version.
pub(crate) const fn pools(status: u16, description: &'static str) -> Response {
    Response { headers: &[ETAG], ..json(status, description, "PoolList") }
}

pub(crate) const fn empty(status: u16, description: &'static str) -> Response {
    Response { status, description, content: Content::None, headers: &[] }
}

pub(crate) const fn text(description: &'static str, kind: &'static str) -> Response {
    Response { status: 200, description, content: Content::Text(kind), headers: &[] }
}
