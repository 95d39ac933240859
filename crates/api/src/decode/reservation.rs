//! The commands on one reservation.

use super::body::{
    self, AmendBody, ConfirmBody, ExtendBody, FulfilBody, LineBody, MergeBody, PaymentBody, ReturnBody,
    SplitBody, TransferBody,
};
use super::field::{Id, JsonObject, Text};
use super::header::{self, Match};
use super::metadata::Metadata;
use super::{Invalid, Keyed, basket_of, both, keyed, parted, path, source, units};
use std::sync::Arc;
use stockhold_domain::limits::MERGE_SOURCES;
use stockhold_domain::{
    Amend, Basket, ClosePayment, Command, Confirm, Extend, Fulfil, Merge, OpenPayment, Patch, Precondition,
    Release, ReservationId, Return, SaleSelection, Split, Transfer,
};

/// The metadata of a reservation that has none, as an amend may ask for it.
const NO_METADATA: &str = "{}";

/// `POST /v1/reservations/{id}/confirm`; an empty body is `{}`.
pub fn confirm<'a>(id: &str, query: Option<&str>, body: &'a [u8]) -> Result<Keyed<'a>, Invalid> {
    let (id, body) = both(reservation(id, query), body::read_or_default::<ConfirmBody<'a>>(body))?;
    let command = Command::Confirm(Confirm {
        override_limits: super::is_set(body.override_limits),
        id,
        order_id: body.order_id.map(|text| text.0),
        payment_id: body.payment_id.map(|text| text.0),
        if_expired: body.if_expired.unwrap_or_default().0,
    });
    Ok(keyed(command, body.idempotency_key))
}

/// `POST /v1/reservations/{id}/extend`
pub fn extend<'a>(id: &str, query: Option<&str>, body: &'a [u8]) -> Result<Keyed<'a>, Invalid> {
    let (id, body) = both(reservation(id, query), body::read::<ExtendBody<'a>>(body))?;
    let command = Command::Extend(Extend { id, ttl: body.ttl_seconds.0 });
    Ok(keyed(command, body.idempotency_key))
}

/// `PATCH /v1/reservations/{id}`, with the value of `If-Match`.
pub fn amend<'a>(
    id: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
    body: &'a [u8],
) -> Result<Keyed<'a>, Invalid> {
    let ((id, expected), body) = both(matched(id, query, if_match), body::read::<AmendBody<'a>>(body))?;
    let command = Command::Amend(Amend {
        override_limits: super::is_set(body.override_limits),
        id,
        basket: body.lines.map(amended_lines).transpose()?,
        fulfilment: body.fulfilment.unwrap_or_default().0,
        ttl: body.ttl_seconds.map(|ttl| ttl.0),
        metadata: metadata(body.metadata),
        expected,
    });
    Ok(keyed(command, body.idempotency_key))
}

/// `POST /v1/reservations/{id}/transfer`, with the value of `If-Match`.
pub fn transfer<'a>(
    id: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
    body: &'a [u8],
) -> Result<Keyed<'a>, Invalid> {
    let ((id, expected), body) = both(matched(id, query, if_match), body::read::<TransferBody<'a>>(body))?;
    let command = Command::Transfer(Transfer {
        override_limits: super::is_set(body.override_limits),
        id,
        owner_id: body.owner_id.map(|text| text.0),
        customer_id: body.customer_id.map(|text| text.0),
        session_id: body.session_id.map(|text| text.0),
        expected,
    });
    Ok(keyed(command, body.idempotency_key))
}

/// `POST /v1/reservations/{id}/split`, with the value of `If-Match`.
pub fn split<'a>(
    id: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
    body: &'a [u8],
) -> Result<Keyed<'a>, Invalid> {
    let ((id, expected), body) = both(matched(id, query, if_match), body::read::<SplitBody<'a>>(body))?;
    let lines = lines_of(body.lines, SaleLines::Split)?;
    Ok(keyed(Command::Split(Split { id, lines, expected }), body.idempotency_key))
}

/// `POST /v1/reservations/{id}/merge`, with the value of `If-Match`.
pub fn merge<'a>(
    id: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
    body: &'a [u8],
) -> Result<Keyed<'a>, Invalid> {
    let ((id, expected), body) = both(matched(id, query, if_match), body::read::<MergeBody<'a>>(body))?;
    let from = sources(&body.from)?;
    Ok(keyed(
        Command::Merge(Merge { override_limits: super::is_set(body.override_limits), id, from, expected }),
        body.idempotency_key,
    ))
}

/// `POST /v1/reservations/{id}/payment`, with the value of `If-Match`.
pub fn open_payment<'a>(
    id: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
    body: &'a [u8],
) -> Result<Keyed<'a>, Invalid> {
    let ((id, expected), body) = both(matched(id, query, if_match), body::read::<PaymentBody<'a>>(body))?;
    let command = Command::OpenPayment(OpenPayment {
        id,
        payment_id: body.payment_id.0,
        window: body.window_seconds.map(|window| window.0),
        expected,
    });
    Ok(keyed(command, body.idempotency_key))
}

/// `DELETE /v1/reservations/{id}/payment?payment_id=&reason=`
pub fn close_payment(id: &str, query: Option<&str>) -> Result<Command, Invalid> {
    let query = path::query(query, ["payment_id", "reason"]);
    let (id, [payment_id, reason]) = both(path::reservation_id(id), query)?;
    Ok(Command::ClosePayment(ClosePayment { id, payment_id, reason }))
}

/// `POST /v1/reservations/{id}/fulfil`; an empty body is `{}`, and without `lines` and `units` everything is fulfilled.
pub fn fulfil<'a>(id: &str, query: Option<&str>, body: &'a [u8]) -> Result<Keyed<'a>, Invalid> {
    let (id, body) = both(reservation(id, query), body::read_or_default::<FulfilBody<'a>>(body))?;
    let selection = selection(body.lines, body.units, SaleLines::Fulfil)?;
    Ok(keyed(Command::Fulfil(Fulfil { id, selection }), body.idempotency_key))
}

/// `POST /v1/reservations/{id}/return`; without `lines` and `units` everything is returned.
pub fn return_units<'a>(id: &str, query: Option<&str>, body: &'a [u8]) -> Result<Keyed<'a>, Invalid> {
    let (id, body) = both(reservation(id, query), body::read::<ReturnBody<'a>>(body))?;
    let command = Command::Return(Return {
        id,
        selection: selection(body.lines, body.units, SaleLines::Return)?,
        from: body.from.map(|word| word.0),
        disposition: body.disposition.unwrap_or_default().0,
        reason: body.reason.0,
    });
    Ok(keyed(command, body.idempotency_key))
}

/// `DELETE /v1/reservations/{id}?reason=`
pub fn release(id: &str, query: Option<&str>) -> Result<Command, Invalid> {
    let (id, [reason]) = both(path::reservation_id(id), path::query(query, ["reason"]))?;
    Ok(Command::Release(Release { id, reason }))
}

/// `GET /v1/reservations/{id}` and `GET /v1/reservations/{id}/events`
pub fn reservation(id: &str, query: Option<&str>) -> Result<ReservationId, Invalid> {
    let (id, ()) = both(path::reservation_id(id), path::no_query(query))?;
    Ok(id)
}

/// A reservation, with the version that it must have.
pub(super) fn matched(
    id: &str,
    query: Option<&str>,
    if_match: Option<&[u8]>,
) -> Result<(ReservationId, Option<Precondition>), Invalid> {
    both(reservation(id, query), header::expected(if_match.map(Match::If)))
}

/// The reservations that a merge ends.
pub(super) fn sources(from: &[Id]) -> Result<Box<[ReservationId]>, Invalid> {
    if !(1..=MERGE_SOURCES).contains(&from.len()) {
        let detail = format!("must name 1 to {MERGE_SOURCES} reservations, found {}", from.len());
        return Err(Invalid::new("/from", detail));
    }
    Ok(from.iter().map(|id| id.0).collect())
}

/// The change of metadata. An empty object clears it.
pub(super) fn metadata(given: Option<Metadata>) -> Patch<Arc<str>> {
    match given {
        None => Patch::Keep,
        Some(Metadata(text)) if &*text == NO_METADATA => Patch::Clear,
        Some(Metadata(text)) => Patch::Set(text),
    }
}

/// All lines of a reservation after an amend.
pub(super) fn amended_lines(lines: Vec<JsonObject<LineBody>>) -> Result<Basket, Invalid> {
    if lines.is_empty() {
        let detail = "must have at least one line: to give back all units, release the reservation";
        return Err(Invalid::new("/lines", detail));
    }
    source::refuse_sources(&lines, "an amend")?;
    basket_of(lines.into_iter().map(|JsonObject(line)| parted(line)))
}

/// The commands whose lines name units that the reservation has.
#[derive(Clone, Copy)]
pub(super) enum SaleLines {
    Split,
    Fulfil,
    Return,
}

/// The sold units that a command moves.
pub(super) fn selection(
    lines: Option<Vec<JsonObject<LineBody>>>,
    units: Option<Vec<Text>>,
    what: SaleLines,
) -> Result<SaleSelection, Invalid> {
    match (lines, units) {
        (None, None) => Ok(SaleSelection::All),
        (Some(lines), None) => lines_of(lines, what).map(SaleSelection::Lines),
        (None, Some(units)) => units::named(units, "/units").map(SaleSelection::Units),
        (Some(_), Some(_)) => Err(Invalid::new("/units", "can't be combined with lines: send one of them")),
    }
}

/// Lines of units that the reservation has. They can't select units as a reserve can.
pub(super) fn lines_of(lines: Vec<JsonObject<LineBody>>, what: SaleLines) -> Result<Basket, Invalid> {
    let what = match what {
        SaleLines::Split => "split",
        SaleLines::Fulfil => "fulfil",
        SaleLines::Return => "return",
    };
    source::refuse_sources(&lines, &format!("a {what}"))?;
    let lines: Vec<_> = lines.into_iter().map(|JsonObject(line)| parted(line)).collect();
    for (number, (_, wish)) in lines.iter().enumerate() {
        if let Some((name, _)) = wish.chosen().iter().find(|(_, given)| *given) {
            let detail = format!("is not a field of a {what}: send quantity or units");
            return Err(Invalid::new(format!("/lines/{number}/{name}"), detail));
        }
    }
    basket_of(lines.into_iter())
}
