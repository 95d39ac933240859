//! A typed client. It sends an idempotency key with every command that takes one. It repeats a request that got no
//! answer or a 503, with the same key, so a command that it reports as done took effect once.
//!
//! It never repeats a refusal. Whether to try again for something that is sold out is the caller's decision.

mod access;
mod attempt;
mod changes;
mod checkouts;
mod gate;
mod hold;
mod limits;
mod lists;
mod pools;
mod request;
mod retry_after;
mod stream;
mod units;

pub use access::ClientAccess;
pub use attempt::{Error, Raw};
pub use changes::Change;
pub use hold::{Hold, HoldError};
pub use lists::Listed;
pub use retry_after::retry_after;
pub use stream::{EventStream, StreamedEvent};
pub use units::UnitsListed;

use crate::EventType;
use crate::decode::EventFormat;
use crate::wire::{
    Availability, Confirmation, Item, RequestedLine, Reservation, Sale, SourcedLine, Stock, Terms,
};
use attempt::Retrying;
use request::Request;
use serde::Serialize;
use std::num::NonZeroU32;
use std::time::Duration;
use stockhold_domain::ReservationId;

/// Most times that one request is sent.
pub const TRIES: NonZeroU32 = NonZeroU32::new(6).expect("not 0");
/// How long one try may take.
pub const TRY_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of one server. Cloning shares its connections, and any number of tasks may use it at once.
#[derive(Clone, Debug)]
pub struct Client {
    http: Retrying,
}

/// An item: a SKU, and a location unless it is the default one.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The SKU.
    pub sku: &'a str,
    /// The location.
    pub location: Option<&'a str>,
}

impl Client {
    /// A client of the server at `base`, for example `http://127.0.0.1:8101`. With `https` it trusts the certificates that the
    /// system trusts. It sends nothing yet.
    pub fn new(base: &str) -> Result<Self, Error> {
        Self::with_access(base, &ClientAccess::default())
    }

    /// The same with certificates and a key of its own.
    pub fn with_access(base: &str, access: &ClientAccess) -> Result<Self, Error> {
        Ok(Self { http: Retrying::new(base, access, TRIES, TRY_TIMEOUT)? })
    }

    /// Sets the number of tries and the time of each, instead of [`TRIES`] and [`TRY_TIMEOUT`].
    pub fn with_patience(mut self, tries: NonZeroU32, timeout: Duration) -> Self {
        self.http.set_patience(tries, timeout);
        self
    }

    /// Creates an item or sets its stock. With a version, the item must have that version. The request is then sent
    /// only once, because a second try could not tell its own success from another caller's change.
    pub async fn put_stock(&self, at: At<'_>, stock: &Stock, version: Option<u64>) -> Result<Item, Error> {
        let mut request = Request::new("PUT", at.path("")).json(stock)?;
        if let Some(version) = version {
            request = request.if_match(version);
        }
        self.http.read(request).await
    }

    /// Changes an item's total by a difference. A key is generated when none is given.
    pub async fn adjust(
        &self,
        at: At<'_>,
        delta: i64,
        reason: &str,
        key: Option<&str>,
    ) -> Result<Item, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            delta: i64,
            reason: &'a str,
        }
        self.http.read(Request::new("POST", at.path("/adjust")).json(&Body { delta, reason })?.key(key)).await
    }

    /// Deletes an item that is not in use. A key is made when none is given.
    pub async fn delete_item(&self, at: At<'_>, key: Option<&str>) -> Result<(), Error> {
        self.http.send(Request::new("DELETE", at.path("")).key(key)).await?.done()
    }

    /// One item.
    pub async fn item(&self, at: At<'_>) -> Result<Item, Error> {
        self.http.read(Request::new("GET", at.path(""))).await
    }

    /// An item's availability.
    pub async fn available(&self, at: At<'_>) -> Result<Availability, Error> {
        self.http.read(Request::new("GET", at.path("/available"))).await
    }

    /// Holds units of one item. A key is generated when none is given.
    pub async fn reserve(
        &self,
        at: At<'_>,
        quantity: u64,
        terms: &Terms,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            quantity: u64,
            #[serde(flatten)]
            terms: &'a Terms,
        }
        self.http
            .read(Request::new("POST", at.path("/reserve")).json(&Body { quantity, terms })?.key(key))
            .await
    }

    /// Holds a basket: all of its lines, or as the terms say. A key is generated when none is given.
    pub async fn reserve_basket(
        &self,
        lines: &[RequestedLine],
        terms: &Terms,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            lines: &'a [RequestedLine],
            #[serde(flatten)]
            terms: &'a Terms,
        }
        let request = Request::new("POST", "/v1/reservations".to_owned()).json(&Body { lines, terms })?;
        self.http.read(request.key(key)).await
    }

    /// Holds a basket like [`Client::reserve_basket`], of lines that may have a source.
    pub async fn reserve_from_sources(
        &self,
        lines: &[SourcedLine],
        terms: &Terms,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            lines: &'a [SourcedLine],
            #[serde(flatten)]
            terms: &'a Terms,
        }
        let request = Request::new("POST", "/v1/reservations".to_owned()).json(&Body { lines, terms })?;
        self.http.read(request.key(key)).await
    }

    /// Turns a hold into a sale. A key is generated when none is given.
    pub async fn confirm(
        &self,
        id: ReservationId,
        order_id: Option<&str>,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        let order_id = order_id.map(str::to_owned);
        self.confirm_as(id, &Confirmation { order_id, ..Confirmation::default() }, key).await
    }

    /// Releases a hold. A repetition changes nothing, so it takes no key.
    pub async fn release(&self, id: ReservationId, reason: Option<&str>) -> Result<(), Error> {
        let mut path = reservation(id, "");
        if let Some(reason) = reason {
            path.push_str("?reason=");
            request::push_encoded(&mut path, reason);
        }
        self.http.send(Request::new("DELETE", path)).await?.done()
    }

    /// Moves a hold's deadline to this many seconds from now. A key is generated when none is given.
    pub async fn extend(
        &self,
        id: ReservationId,
        ttl_seconds: u32,
        key: Option<&str>,
    ) -> Result<Reservation, Error> {
        #[derive(Serialize)]
        struct Body {
            ttl_seconds: u32,
        }
        let request = Request::new("POST", reservation(id, "/extend")).json(&Body { ttl_seconds })?;
        self.http.read(request.key(key)).await
    }

    /// One reservation.
    pub async fn reservation(&self, id: ReservationId) -> Result<Reservation, Error> {
        self.http.read(Request::new("GET", reservation(id, ""))).await
    }

    /// Pauses or resumes the sale of one item.
    pub async fn set_item_sale(&self, at: At<'_>, paused: bool) -> Result<Sale, Error> {
        self.http.read(Request::new("POST", at.path(if paused { "/pause" } else { "/resume" }))).await
    }

    /// Pauses or resumes the sale of everything, or of one location.
    pub async fn set_sale(&self, location: Option<&str>, paused: bool) -> Result<Sale, Error> {
        let mut path = format!("/v1/sale/{}", if paused { "pause" } else { "resume" });
        request::push_location(&mut path, location);
        self.http.read(Request::new("POST", path)).await
    }

    /// The pauses of the whole sale, or of one location.
    pub async fn sale(&self, location: Option<&str>) -> Result<Sale, Error> {
        let mut path = "/v1/sale".to_owned();
        request::push_location(&mut path, location);
        self.http.read(Request::new("GET", path)).await
    }

    /// Sends any request once and returns the raw answer. `path` is sent unchanged.
    pub async fn send_raw(&self, method: &str, path: &str, body: &[u8]) -> Result<Raw, Error> {
        self.send_raw_with(method, path, &[], body).await
    }

    /// Like [`Client::send_raw`], with further headers.
    pub async fn send_raw_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Raw, Error> {
        self.http.send_once(&Request::new(method, path.to_owned()).bytes(body).headers(headers)).await
    }

    /// Like [`Client::send_raw_with`], of a server whose body may not end: it is read for so long and up to so many bytes.
    pub async fn send_raw_beginning(
        &self,
        method: &str,
        path: &str,
        (headers, body): (&[(&str, &str)], &[u8]),
        (most, time): (usize, Duration),
    ) -> Result<Raw, Error> {
        let request = Request::new(method, path.to_owned()).bytes(body).headers(headers);
        self.http.send_once_beginning(&request, most, time).await
    }

    /// Follows the events after a position as they are committed, on one connection; without types, of all types. A
    /// caller that starts again after the last position that the stream has reported misses nothing
    /// ([`EventStream::last_id`]).
    pub async fn follow(&self, after: u64, types: &[EventType]) -> Result<EventStream, Error> {
        self.follow_as(after, types, EventFormat::Stockhold).await
    }

    /// Like [`Client::follow`], with events of this format.
    pub async fn follow_as(
        &self,
        after: u64,
        types: &[EventType],
        format: EventFormat,
    ) -> Result<EventStream, Error> {
        let position = after.to_string();
        let headers = [("accept", "text/event-stream"), ("last-event-id", position.as_str())];
        let mut path = "/v1/events/stream".to_owned();
        lists::push_types(&mut path, types);
        if format != EventFormat::default() {
            request::push_parameter(&mut path, "format", Some(format.name()));
        }
        let request = Request::new("GET", path).headers(&headers);
        self.http.open(&request).await.map(EventStream::new)
    }

    /// The position of the newest event, 0 before the first one. A stream without a position begins there and reports
    /// it.
    pub async fn newest_position(&self) -> Result<u64, Error> {
        let headers = [("accept", "text/event-stream")];
        let request = Request::new("GET", "/v1/events/stream".to_owned()).headers(&headers);
        let mut stream = EventStream::new(self.http.open(&request).await?);
        let id = stream.first_id().await?;
        let position = id.as_deref().and_then(|id| id.parse().ok());
        position.ok_or_else(|| Error::Unexpected {
            status: 200,
            what: format!("a stream begins with the id {id:?}"),
        })
    }
}

impl At<'_> {
    fn path(self, tail: &str) -> String {
        let mut path = "/v1/inventory/".to_owned();
        request::push_encoded(&mut path, self.sku);
        path.push_str(tail);
        request::push_location(&mut path, self.location);
        path
    }
}

fn reservation(id: ReservationId, tail: &str) -> String {
    format!("/v1/reservations/{id}{tail}")
}
