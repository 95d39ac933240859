//! The queries of lists and of events.

use super::explain::clip;
use super::path;
use super::time::instant;
use super::{FaultLocation, Invalid, MAX_FAULTS};
use crate::{EventType, EventTypes, cursor, encode};
use stockhold_domain::{Label, Status};
use stockhold_store::{ItemPageRequest, ReservationFilter};

/// Most entries of a page.
pub const PAGE_LIMIT: usize = 1_000;
/// Entries of a page whose size nobody names.
pub const PAGE_DEFAULT: usize = 50;

/// Most events that are examined for one page of some types, or for the newest ones of some types.
pub const EVENTS_EXAMINED: usize = 4_096;

const CREATED_BEFORE: &str = "created_before";
const TAIL: &str = "tail";
const TYPE: &str = "type";

/// `GET /v1/reservations` with its filters. Times have to be in their order.
pub fn reservations(query: Option<&str>) -> Result<ReservationFilter, Invalid> {
    let mut filter = ReservationFilter { limit: PAGE_DEFAULT, ..ReservationFilter::default() };
    let names = [
        "owner_id",
        "sku",
        "location",
        "status",
        "order_id",
        "customer_id",
        "created_after",
        CREATED_BEFORE,
        "limit",
        "starting_after",
    ];
    let read = path::parameters(query, &names, |at, text| {
        match at {
            0 => filter.owner_id = Some(label(text)?),
            1 => filter.sku = Some(label(text)?),
            2 => filter.location = Some(label(text)?),
            3 => filter.status = Some(status(text)?),
            4 => filter.order_id = Some(label(text)?),
            5 => filter.customer_id = Some(label(text)?),
            6 => filter.created_after = Some(instant(text)?),
            7 => filter.created_before = Some(instant(text)?),
            8 => filter.limit = limit(text)?,
            _ => filter.after = Some(cursor::place(text).ok_or_else(|| no_cursor(text))?),
        }
        Ok(())
    });
    let in_order = match (filter.created_after, filter.created_before) {
        (Some(after), Some(before)) if before <= after => Err("must be later than created_after"),
        _ => Ok(()),
    };
    with_fault(read, CREATED_BEFORE, in_order)?;
    Ok(filter)
}

/// The result of reading a query, with a fault of one parameter that shows only beside the others.
fn with_fault(read: Result<(), Invalid>, name: &str, more: Result<(), &str>) -> Result<(), Invalid> {
    let Err(detail) = more else { return read };
    let mut errors = read.err().map(|invalid| invalid.errors).unwrap_or_default();
    if errors.len() < MAX_FAULTS {
        let fault = Invalid::at(FaultLocation::Query, format!("/{name}"), detail.to_owned());
        errors.extend(fault.errors);
    }
    Err(Invalid { errors })
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

/// Where a page of events begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsFrom {
    /// After this position. 0 begins with the first event.
    After(u64),
    /// With the newest events: as many as the page may have.
    Tail,
}

/// A page of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPageQuery {
    /// Where it begins.
    pub from: EventsFrom,
    /// Most events, 1 to [`PAGE_LIMIT`].
    pub limit: usize,
    /// Only events of these types.
    pub types: EventTypes,
}

/// `GET /v1/events?after=&limit=&type=`, or `?tail=&type=`: `tail` says how many events, so the other two are refused
/// beside it.
pub fn events(query: Option<&str>) -> Result<EventPageQuery, Invalid> {
    let (mut after, mut tail, mut most, mut types) = (None, None, None, EventTypes::ALL);
    let read = path::parameters(query, &["after", TAIL, "limit", TYPE], |at, text| {
        match at {
            0 => after = Some(position(text)?),
            1 => tail = Some(limit(text)?),
            2 => most = Some(limit(text)?),
            _ => types = event_types(text)?,
        }
        Ok(())
    });
    let alone = match (tail, after, most) {
        (Some(_), Some(_), _) => Err("can't be combined with after: leave out one of them"),
        (Some(_), None, Some(_)) => Err("can't be combined with limit: it says how many events already"),
        _ => Ok(()),
    };
    with_fault(read, TAIL, alone)?;
    let from = if tail.is_some() { EventsFrom::Tail } else { EventsFrom::After(after.unwrap_or(0)) };
    Ok(EventPageQuery { from, limit: tail.or(most).unwrap_or(PAGE_DEFAULT), types })
}

/// How the events of a stream are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventFormat {
    /// As pages of events have them.
    #[default]
    Stockhold,
    /// As `CloudEvents`, which webhooks and sinks get.
    CloudEvents,
}

impl EventFormat {
    /// Every format.
    pub const ALL: [Self; 2] = [Self::Stockhold, Self::CloudEvents];

    /// The name in a query.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stockhold => "stockhold",
            Self::CloudEvents => "cloudevents",
        }
    }
}

/// A stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventStreamQuery {
    /// It begins after this position. `None` begins after the newest event.
    pub after: Option<u64>,
    /// Only events of these types.
    pub types: EventTypes,
    /// How they are written.
    pub format: EventFormat,
}

/// `GET /v1/events/stream?after=&type=&format=` with the value of `Last-Event-ID`, which a client that reconnects sends beside
/// the query that it began with: the header goes before. Without either the stream begins at the newest event.
pub fn stream(query: Option<&str>, last_event_id: Option<&[u8]>) -> Result<EventStreamQuery, Invalid> {
    let mut stream = EventStreamQuery { after: None, types: EventTypes::ALL, format: EventFormat::default() };
    let mut invalid = path::parameters(query, &["after", TYPE, "format"], |at, text| {
        match at {
            0 => stream.after = Some(position(text)?),
            1 => stream.types = event_types(text)?,
            _ => stream.format = event_format(text)?,
        }
        Ok(())
    });
    if let Some(header) = last_event_id {
        match position(String::from_utf8_lossy(header).trim()) {
            Ok(last) => stream.after = Some(last),
            Err(detail) => {
                let mut errors = Invalid::header("/Last-Event-ID", detail).errors;
                errors.extend(invalid.err().into_iter().flat_map(|invalid| invalid.errors));
                invalid = Err(Invalid { errors });
            }
        }
    }
    invalid.map(|()| stream)
}

/// Names of event types with commas between them.
fn event_types(text: &str) -> Result<EventTypes, String> {
    let mut types = EventTypes::default();
    for name in text.split(',') {
        let kind = EventType::from_name(name).ok_or_else(|| {
            let known: Vec<_> = EventType::ALL.iter().map(|kind| kind.name()).collect();
            let (known, found) = (known.join(", "), clip(name));
            format!("must be event types with commas between them; these are: {known}; found \"{found}\"")
        })?;
        types.add(kind);
    }
    Ok(types)
}

fn event_format(text: &str) -> Result<EventFormat, String> {
    EventFormat::ALL
        .into_iter()
        .find(|format| format.name() == text)
        .ok_or_else(|| format!("must be stockhold or cloudevents, found \"{}\"", clip(text)))
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
