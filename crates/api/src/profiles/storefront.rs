//! The storefront's requests and answers. A session is both the owner and the session of a reservation.

use crate::decode::{Id, Invalid, Keyed, Quantity, Text, Ttl, default_item, read_body};
use crate::encode::json::{Object, put_text};
use serde::Deserialize;
use std::sync::Arc;
use stockhold_domain::{
    Basket, Command, Extend, Fulfilment, Hold, Label, OptionalTerms, RequestedLine, ReservationId, Reserve,
    ReserveTerms, Seconds,
};

/// `null` counts as left out: clients that exist already may send it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReserveBody {
    sku: Text,
    qty: Quantity,
    ttl: Option<Ttl>,
    session_id: Text,
    customer_id: Option<Text>,
    source: Option<Text>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReservationBody {
    reservation_id: Id,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExtendBody {
    reservation_id: Id,
    ttl: Option<Ttl>,
}

/// A request for a later deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendRequest {
    /// Which reservation.
    pub id: ReservationId,
    /// How long it shall last from now. `None`: as long as a hold whose request names no time.
    pub ttl: Option<Seconds>,
}

impl ExtendRequest {
    /// The command, with the time that the request has or else `default`.
    pub fn command(self, default: Seconds) -> Command {
        Command::Extend(Extend { id: self.id, ttl: self.ttl.unwrap_or(default) })
    }
}

/// `POST /storefront/reserve`
pub fn reserve(body: &[u8]) -> Result<Keyed<'static>, Invalid> {
    let ReserveBody { sku, qty, ttl, session_id, customer_id, source } = read_body(body)?;
    let line = RequestedLine { item: default_item(&sku.0), quantity: qty.0 };
    let basket = Basket::with_selections(vec![(line, None)])
        .map_err(|_| Invalid::new("/qty", "must be at least 1"))?;
    let optional = OptionalTerms {
        customer_id: customer_id.map(|text| text.0),
        session_id: Some(session_id.0.clone()),
        metadata: source.map(|text| with_source(&text.0)),
        ..OptionalTerms::default()
    };
    let reserve = Reserve {
        checkout: None,
        override_limits: false,
        basket,
        ttl: ttl.map(|ttl| ttl.0),
        fulfilment: Fulfilment::All,
        terms: ReserveTerms::new(session_id.0, optional),
    };
    Ok(without_key(Command::Reserve(reserve)))
}

/// `POST /storefront/commit`
pub fn commit(body: &[u8]) -> Result<Keyed<'static>, Invalid> {
    let ReservationBody { reservation_id } = read_body(body)?;
    Ok(without_key(super::confirm(reservation_id.0)))
}

/// `POST /storefront/extend`
pub fn extend(body: &[u8]) -> Result<ExtendRequest, Invalid> {
    let ExtendBody { reservation_id, ttl } = read_body(body)?;
    Ok(ExtendRequest { id: reservation_id.0, ttl: ttl.map(|ttl| ttl.0) })
}

/// `POST /storefront/release`
pub fn release(body: &[u8]) -> Result<Keyed<'static>, Invalid> {
    let ReservationBody { reservation_id } = read_body(body)?;
    Ok(without_key(super::release(reservation_id.0)))
}

/// A command whose key only the header can name.
pub fn without_key(command: Command) -> Keyed<'static> {
    Keyed { command, key: None, hold_token: false }
}

/// Metadata in canonical form: an object with this one member.
fn with_source(source: &Label) -> Arc<str> {
    let mut out = br#"{"source":"#.to_vec();
    put_text(&mut out, source.as_str());
    out.push(b'}');
    String::from_utf8_lossy(&out).into()
}

/// Writes the answer to a reserve.
pub(super) fn write_reservation(out: &mut Vec<u8>, hold: &Hold) {
    let mut answer = Object::open(out);
    answer.uuid("reservationId", hold.id.as_u128());
    answer.close();
}

/// Writes the answer to a command that was carried out.
pub(super) fn write_done(out: &mut Vec<u8>) {
    let mut answer = Object::open(out);
    answer.flag("ok", true);
    answer.close();
}
