//! What can be read from a store, and the pages it comes in.

use crate::store::EventRow;
use std::sync::Arc;
use stockhold_domain::{
    Hold, Item, ItemKey, Label, Place, Pool, ReservationId, SeatStates, Status, Unit, UnitStatus,
};

/// What can be read. A query sees every command that was answered before it was asked.
#[derive(Clone, Debug)]
pub enum Query {
    /// One reservation, whatever its status.
    Reservation(ReservationId),
    /// Items, in the order asked for.
    Items(Vec<ItemKey>),
    /// All items, in order of (location, SKU).
    ItemPage(ItemPageRequest),
    /// Units of an item, in the order of their claims.
    Units(UnitFilter),
    /// One unit of an item.
    Unit {
        /// Which item.
        item: ItemKey,
        /// Which of its units.
        unit: Label,
    },
    /// The events that moved a unit since it was added, oldest first: the newest [`crate::UNIT_HISTORY_LIMIT`] at most.
    UnitHistory {
        /// Which item.
        item: ItemKey,
        /// Which of its units.
        unit: Label,
    },
    /// Where every unit of an item stands, and with `layout` where it is.
    SeatMap {
        /// Which item.
        item: ItemKey,
        /// Whether the units themselves are asked for too.
        layout: bool,
    },
    /// Reservations, the newest first.
    Reservations(ReservationFilter),
    /// The events of one reservation, oldest first.
    History(ReservationId),
    /// Committed events after a position, oldest first.
    Events {
        /// Exclusive; 0 is before the first.
        after: u64,
        /// Most events.
        limit: usize,
    },
    /// What is paused as a whole. An item that is paused by itself says so.
    Pauses,
}

/// A page of items.
#[derive(Clone, Debug)]
pub struct ItemPageRequest {
    /// Only those here.
    pub location: Option<Label>,
    /// Only those after this one.
    pub after: Option<ItemKey>,
    /// Most items.
    pub limit: usize,
}

/// A page of an item's units: those that all that is given applies to.
#[derive(Clone, Debug)]
pub struct UnitFilter {
    /// Which item.
    pub item: ItemKey,
    /// Only those that stand so, whoever has them.
    pub status: Option<UnitState>,
    /// Only those of this section.
    pub section: Option<Label>,
    /// Only those after this one: its position and id.
    pub after: Option<(u64, Label)>,
    /// Most units.
    pub limit: usize,
}

impl UnitFilter {
    /// Whether a unit belongs on the page, leaving aside where the page begins.
    pub fn matches(&self, unit: &Unit) -> bool {
        let standing = match unit.status {
            UnitStatus::Available => UnitState::Available,
            UnitStatus::Held(_) => UnitState::Held,
            UnitStatus::Sold(_) => UnitState::Sold,
        };
        self.status.is_none_or(|asked| asked == standing)
            && self.section.as_ref().is_none_or(|section| unit.place.section.as_ref() == Some(section))
    }

    /// The page of a pool.
    pub fn page(&self, pool: &Pool) -> UnitPage {
        let after = self.after.as_ref().map(|(position, id)| (*position, id));
        let mut page = UnitPage::default();
        let mut last = None;
        let mut rest = pool.after(after);
        for unit in rest.by_ref().take(MAX_UNITS_SCANNED) {
            last = Some(unit);
            if self.matches(unit) {
                page.units.push(unit.clone());
                if page.units.len() >= self.limit {
                    break;
                }
            }
        }
        page.next = last.filter(|_| rest.next().is_some()).map(|unit| (unit.place.position, unit.id.clone()));
        page
    }
}

/// Units that are looked at for one page at most: whoever waits for the store meanwhile does not wait for long.
pub const MAX_UNITS_SCANNED: usize = 4_096;

/// Some of the units that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitPage {
    /// In the order of their claims. May be fewer than there was room for, even none, though there are more.
    pub units: Vec<Unit>,
    /// Where to go on; `None` when there are no more.
    pub next: Option<(u64, Label)>,
}

/// Where a unit stands, leaving aside with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitState {
    /// It can be reserved.
    Available,
    /// It is held.
    Held,
    /// It is sold.
    Sold,
}

/// Where the units of an item stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatMap {
    /// The item.
    pub item: Item,
    /// Where each stands.
    pub states: SeatStates,
    /// The units in the order of their claims, if they were asked for.
    pub layout: Option<Arc<[(Label, Place)]>>,
}

impl SeatMap {
    /// Of an item and its units.
    pub fn of(item: &Item, pool: &Pool, layout: bool) -> Self {
        Self { item: item.clone(), states: pool.states(), layout: layout.then(|| pool.layout()) }
    }
}

/// A page of reservations: those that all that is given applies to.
#[derive(Clone, Debug, Default)]
pub struct ReservationFilter {
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

impl ReservationFilter {
    /// Whether a reservation belongs on the page, leaving aside where the page begins.
    pub fn matches(&self, hold: &Hold) -> bool {
        let line = |key: &ItemKey| {
            self.sku.as_ref().is_none_or(|sku| sku.as_str() == key.sku())
                && self.location.as_ref().is_none_or(|location| location.as_str() == key.location())
        };
        self.owner_id.as_ref().is_none_or(|owner| *owner == hold.terms.reserve.owner_id)
            && self.status.is_none_or(|status| status == hold.status)
            && hold.lines.iter().any(|found| line(&found.item))
    }
}

/// A place in the order of a store's reservations, which only that store can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub u128);

/// Some of the reservations that were asked for.
#[derive(Clone, Debug, Default)]
pub struct ReservationPage {
    /// The newest first. May be fewer than there was room for, even none, though there are more.
    pub holds: Vec<Hold>,
    /// Where to go on; `None` when there are no more.
    pub next: Option<Cursor>,
}

/// What is paused as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Whether the sale of everything is.
    pub everything: bool,
    /// Locations whose sale is, by themselves, in order of their names.
    pub locations: Vec<Label>,
}

/// What a store answers to a [`Query`], kind by kind.
#[derive(Clone, Debug)]
pub enum QueryResult {
    /// To [`Query::Reservation`].
    Reservation(Option<Hold>),
    /// To [`Query::Items`].
    Items(Vec<Option<Item>>),
    /// To [`Query::ItemPage`]: fewer than the limit only at the end.
    ItemPage(Vec<Item>),
    /// To [`Query::Units`]; `None` when there is no such item, or its units are counted.
    Units(Option<UnitPage>),
    /// To [`Query::Unit`]; `None` when there is no such unit, be it that there is no such item.
    Unit(Option<Unit>),
    /// To [`Query::UnitHistory`]; `None` as for a unit. Events that have left for an archive are not among them.
    UnitHistory(Option<Vec<EventRow>>),
    /// To [`Query::SeatMap`]; `None` as for units.
    SeatMap(Option<Box<SeatMap>>),
    /// To [`Query::Reservations`].
    Reservations(ReservationPage),
    /// To [`Query::History`]; `None` when there is no such reservation.
    History(Option<Vec<EventRow>>),
    /// To [`Query::Events`]: fewer than the limit only at the end.
    Events(Vec<EventRow>),
    /// To [`Query::Events`] likewise: of what comes after the position asked for, events are no longer here.
    Archived {
        /// Up to this one.
        through: u64,
    },
    /// To [`Query::Pauses`].
    Pauses(Pauses),
}
