//! What can be read from a store, and the pages it comes in.

use crate::store::EventRow;
use stockhold_domain::{Hold, Item, ItemKey, Label, ReservationId, Status};

/// What can be read. A query sees every command that was answered before it was asked.
#[derive(Clone, Debug)]
pub enum Query {
    /// One reservation, whatever its status.
    Reservation(ReservationId),
    /// Items, in the order asked for.
    Items(Vec<ItemKey>),
    /// All items, in order of (location, SKU).
    Shelf(Shelf),
    /// Reservations, the newest first.
    Reservations(Filter),
    /// The events of one reservation, oldest first.
    History(ReservationId),
    /// Committed events after a position, oldest first.
    Events {
        /// Exclusive; 0 is before the first.
        after: u64,
        /// Most events.
        limit: usize,
    },
}

/// A page of items.
#[derive(Clone, Debug)]
pub struct Shelf {
    /// Only those here.
    pub location: Option<Label>,
    /// Only those after this one.
    pub after: Option<ItemKey>,
    /// Most items.
    pub limit: usize,
}

/// A page of reservations: those that all that is given applies to.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Whose they are.
    pub owner_id: Option<Label>,
    /// One of their lines is of this SKU; with a location as well, that line is there.
    pub sku: Option<Label>,
    /// One of their lines is at this location.
    pub location: Option<Label>,
    /// What their status is now.
    pub status: Option<Status>,
    /// Where the page before this one ended.
    pub after: Option<Cursor>,
    /// Most reservations, at least 1.
    pub limit: usize,
}

impl Filter {
    /// Whether a reservation belongs on the page, leaving aside where the page begins.
    pub fn matches(&self, hold: &Hold) -> bool {
        let line = |key: &ItemKey| {
            self.sku.as_ref().is_none_or(|sku| sku.as_str() == key.sku())
                && self.location.as_ref().is_none_or(|location| location.as_str() == key.location())
        };
        self.owner_id.as_ref().is_none_or(|owner| *owner == hold.terms.owner_id)
            && self.status.is_none_or(|status| status == hold.status)
            && hold.lines.iter().any(|found| line(&found.item))
    }
}

/// A place in the order of a store's reservations, which only that store can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub u128);

/// Some of the reservations that were asked for.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The newest first. May be fewer than there was room for, even none, though there are more.
    pub holds: Vec<Hold>,
    /// Where to go on; `None` when there are no more.
    pub next: Option<Cursor>,
}

/// What a store answers to a [`Query`], kind by kind.
#[derive(Clone, Debug)]
pub enum Found {
    /// To [`Query::Reservation`].
    Reservation(Option<Hold>),
    /// To [`Query::Items`].
    Items(Vec<Option<Item>>),
    /// To [`Query::Shelf`]: fewer than the limit only at the end.
    Shelf(Vec<Item>),
    /// To [`Query::Reservations`].
    Reservations(Page),
    /// To [`Query::History`]; `None` when there is no such reservation.
    History(Option<Vec<EventRow>>),
    /// To [`Query::Events`]: fewer than the limit only at the end.
    Events(Vec<EventRow>),
}
