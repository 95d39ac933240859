//! The queries of lists and of events.

use super::Invalid;
use super::explain::clip;
use super::path;
use crate::{cursor, encode};
use stockhold_domain::{Label, Status};
use stockhold_store::{ItemPageRequest, ReservationFilter};

/// Most entries of a page.
pub const PAGE_LIMIT: usize = 1_000;
/// Entries of a page whose size nobody names.
pub const PAGE_DEFAULT: usize = 50;

/// `GET /v1/reservations?owner_id=&sku=&location=&status=&limit=&starting_after=`
pub fn reservations(query: Option<&str>) -> Result<ReservationFilter, Invalid> {
    let mut filter = ReservationFilter { limit: PAGE_DEFAULT, ..ReservationFilter::default() };
    let names = ["owner_id", "sku", "location", "status", "limit", "starting_after"];
    path::parameters(query, &names, |at, text| {
        match at {
            0 => filter.owner_id = Some(label(text)?),
            1 => filter.sku = Some(label(text)?),
            2 => filter.location = Some(label(text)?),
            3 => filter.status = Some(status(text)?),
            4 => filter.limit = limit(text)?,
            _ => filter.after = Some(cursor::place(text).ok_or_else(|| no_cursor(text))?),
        }
        Ok(())
    })?;
    Ok(filter)
}

/// `GET /v1/inventory?location=&limit=&starting_after=`
pub fn shelf(query: Option<&str>) -> Result<ItemPageRequest, Invalid> {
    let mut shelf = ItemPageRequest { location: None, after: None, limit: PAGE_DEFAULT };
    path::parameters(query, &["location", "limit", "starting_after"], |at, text| {
        match at {
            0 => shelf.location = Some(label(text)?),
            1 => shelf.limit = limit(text)?,
            _ => shelf.after = Some(cursor::item(text).ok_or_else(|| no_cursor(text))?),
        }
        Ok(())
    })?;
    Ok(shelf)
}

/// `GET /v1/events?after=&limit=`: after which position, and most events.
pub fn events(query: Option<&str>) -> Result<(u64, usize), Invalid> {
    let mut page = (0, PAGE_DEFAULT);
    path::parameters(query, &["after", "limit"], |at, text| {
        match at {
            0 => page.0 = position(text)?,
            _ => page.1 = limit(text)?,
        }
        Ok(())
    })?;
    Ok(page)
}

/// `GET /v1/events/stream?after=` with the value of `Last-Event-ID`, which a client that comes back sends beside the
/// query that it began with: the header goes before. Without either the stream begins at the newest event.
pub fn stream(query: Option<&str>, last_event_id: Option<&[u8]>) -> Result<Option<u64>, Invalid> {
    let mut after = None;
    let mut invalid = path::parameters(query, &["after"], |_, text| {
        after = Some(position(text)?);
        Ok(())
    });
    if let Some(header) = last_event_id {
        match position(String::from_utf8_lossy(header).trim()) {
            Ok(last) => after = Some(last),
            Err(detail) => {
                let mut errors = Invalid::new("/Last-Event-ID", detail).errors;
                errors.extend(invalid.err().into_iter().flat_map(|invalid| invalid.errors));
                invalid = Err(Invalid { errors });
            }
        }
    }
    invalid.map(|()| after)
}

pub(super) fn label(text: &str) -> Result<Label, String> {
    Label::new(text).map_err(|error| error.to_string())
}

fn status(text: &str) -> Result<Status, String> {
    let all = [Status::Active, Status::Confirmed, Status::Cancelled, Status::Expired];
    all.into_iter().find(|status| encode::status(*status) == text).ok_or_else(|| {
        let found = clip(text);
        format!("must be active, confirmed, cancelled or expired, found \"{found}\"")
    })
}

pub(super) fn limit(text: &str) -> Result<usize, String> {
    number(text)
        .and_then(|limit| usize::try_from(limit).ok())
        .filter(|limit| (1..=PAGE_LIMIT).contains(limit))
        .ok_or_else(|| format!("must be a whole number from 1 to 1,000, found \"{}\"", clip(text)))
}

const _: () = assert!(PAGE_LIMIT == 1_000);

fn position(text: &str) -> Result<u64, String> {
    number(text).ok_or_else(|| {
        let found = clip(text);
        format!("must be the position of an event, a whole number like 1042, found \"{found}\"")
    })
}

/// Digits alone: no sign, no blanks.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

pub(super) fn no_cursor(text: &str) -> String {
    format!("must be the next_cursor of a page of this list, found \"{}\"", clip(text))
}
