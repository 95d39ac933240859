//! Queries, their results, and the pages that lists are read in.

use crate::customers::{CustomerRequest, CustomerResult};
use crate::event_row::EventRow;
use std::sync::Arc;
use stockhold_domain::{
    CounterKey, Hold, Instant, Item, ItemKey, Label, Limit, LimitCounter, LimitCounters, LimitSet, Place,
    Record, RecordKey, RecordKind, ReservationId, SeatStates, Status, Subject, SubjectKind, Unit, UnitIndex,
    UnitStatus,
};

/// A read. It sees every command that was answered before the query was submitted.
#[derive(Clone, Debug)]
pub enum Query {
    /// One reservation, in any status.
    Reservation(ReservationId),
    /// Items by their keys. The result has their order.
    Items(Vec<ItemKey>),
    /// A page of all items, in order of (location, SKU).
    ItemPage(ItemPageRequest),
    /// A page of the units of an item, in the order in which they are claimed.
    Units(UnitFilter),
    /// One unit of an item.
    Unit {
        /// Which item.
        item: ItemKey,
        /// Which of its units.
        unit: Label,
    },
    /// The events that changed a unit since it was added, oldest first. At most the newest
    /// [`crate::UNIT_HISTORY_LIMIT`] of them.
    UnitHistory {
        /// Which item.
        item: ItemKey,
        /// Which of its units.
        unit: Label,
    },
    /// The state of every unit of an item, and its place when `layout` is set.
    SeatMap {
        /// Which item.
        item: ItemKey,
        /// Whether the result has the ids and places of the units too.
        layout: bool,
    },
    /// A page of reservations, newest first. With an order: the one that was confirmed last first.
    Reservations(ReservationFilter),
    /// The events of one reservation, oldest first.
    History(ReservationId),
    /// Committed events after a position, oldest first.
    Events {
        /// Position of the last event before the page. 0 starts at the first event.
        after: u64,
        /// Maximum number of events.
        limit: usize,
    },
    /// Reservations whose payment is to be moved on, the one that is due first before the others.
    DuePayments {
        /// Only those that are due at this instant.
        now: Instant,
        /// Maximum number of reservations.
        limit: usize,
    },
    /// Pauses of the whole sale and of locations. The pause of a single item is a field of the item.
    Pauses,
    /// One record.
    Record(RecordKey),
    /// A page of the records of a kind, in order of their ids.
    Records {
        /// Which kind.
        kind: RecordKind,
        /// Id of the last record of the page before.
        after: Option<Label>,
        /// Maximum number of records.
        limit: usize,
    },
    /// One limit.
    Limit(Label),
    /// A page of the limits, in order of their ids.
    Limits {
        /// Id of the last limit of the page before.
        after: Option<Label>,
        /// Maximum number of limits.
        limit: usize,
    },
    /// What a limit counts.
    LimitUsage(UsageRequest),
    /// Rows of customers. Unlike other queries it may write: these rows are in no event.
    Customer(CustomerRequest),
}

/// Selects counters of a limit.
#[derive(Clone, Debug)]
pub struct UsageRequest {
    /// Which limit.
    pub limit_id: Label,
    /// Only the counter of this customer or owner.
    pub subject: Option<Label>,
    /// The last subject of the page before.
    pub after: Option<Label>,
    /// Maximum number of counters.
    pub limit: usize,
}

/// What a limit counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitUsage {
    /// The limit.
    pub limit: Limit,
    /// The counters, in order of their subjects. A subject that has used nothing is left out, unless it was asked for. A limit for all
    /// together has one counter without a subject.
    pub counters: Vec<(Option<Label>, LimitCounter)>,
}

impl UsageRequest {
    /// The result, from the limits and counters of a store that has all of them in memory.
    pub fn usage(&self, limits: &LimitSet, counters: &LimitCounters) -> Option<LimitUsage> {
        let limit = limits.get(&self.limit_id).filter(|limit| limit.terms.is_some())?.clone();
        let per = limit.terms.as_ref().and_then(|terms| terms.per);
        let named = |name: &Label| subject_of(per, name);
        let found = match (&self.subject, per) {
            (Some(name), Some(_)) => {
                let key = CounterKey {
                    limit: limit.id.clone(),
                    generation: limit.generation,
                    subject: named(name),
                };
                vec![(Some(name.clone()), counters.get(&key))]
            }
            (_, None) => {
                let key = CounterKey {
                    limit: limit.id.clone(),
                    generation: limit.generation,
                    subject: Subject::Everyone,
                };
                vec![(None, counters.get(&key))]
            }
            (None, Some(_)) => {
                let after = self.after.as_ref().map(named);
                let page = counters.of_limit(&limit, after.as_ref()).take(self.limit);
                page.map(|(subject, counter)| (subject.name().cloned(), counter)).collect()
            }
        };
        Some(LimitUsage { limit, counters: found })
    }
}

/// The subject of a limit with this name.
pub fn subject_of(per: Option<SubjectKind>, name: &Label) -> Subject {
    match per {
        None => Subject::Everyone,
        Some(SubjectKind::Customer) => Subject::Customer(name.clone()),
        Some(SubjectKind::Owner) => Subject::Owner(name.clone()),
    }
}

/// Selects a page of items.
#[derive(Clone, Debug)]
pub struct ItemPageRequest {
    /// Only items at this location.
    pub location: Option<Label>,
    /// The last item of the page before.
    pub after: Option<ItemKey>,
    /// Maximum number of items.
    pub limit: usize,
}

/// Selects a page of an item's units. All conditions that are set apply together.
#[derive(Clone, Debug)]
pub struct UnitFilter {
    /// Which item.
    pub item: ItemKey,
    /// Only units in this state.
    pub status: Option<UnitState>,
    /// Only units of this section.
    pub section: Option<Label>,
    /// Position and id of the last unit of the page before.
    pub after: Option<(u64, Label)>,
    /// Maximum number of units.
    pub limit: usize,
}

impl UnitFilter {
    /// Whether a unit has the state and the section of this filter. Does not check `after`.
    pub fn matches(&self, unit: &Unit) -> bool {
        let state = match unit.status {
            UnitStatus::Available => UnitState::Available,
            UnitStatus::Held(_) => UnitState::Held,
            UnitStatus::Sold(_) | UnitStatus::Fulfilled(_) => UnitState::Sold,
        };
        self.status.is_none_or(|status| status == state)
            && self.section.as_ref().is_none_or(|section| unit.place.section.as_ref() == Some(section))
    }

    /// The page of this filter from the units of a unit index.
    pub fn page(&self, unit_index: &UnitIndex) -> UnitPage {
        let after = self.after.as_ref().map(|(position, id)| (*position, id));
        let mut page = UnitPage::default();
        let mut last = None;
        let mut rest = unit_index.after(after);
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

/// Maximum number of units that are read for one page. It bounds the time that other requests wait for the page.
pub const MAX_UNITS_SCANNED: usize = 4_096;

/// A page of units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitPage {
    /// Units in the order in which they are claimed. There may be fewer than the limit, even none, before the last page.
    pub units: Vec<Unit>,
    /// The `after` of the next page. `None` on the last page.
    pub next: Option<(u64, Label)>,
}

/// The state of a unit, without the reservation that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitState {
    /// It can be reserved.
    Available,
    /// An active reservation has it.
    Held,
    /// A confirmed reservation has it.
    Sold,
}

/// The states of all units of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatMap {
    /// The item.
    pub item: Item,
    /// The state of each unit.
    pub states: SeatStates,
    /// Id and place of each unit, in the order of `states`. `None` when the query did not ask for the layout.
    pub layout: Option<Arc<[(Label, Place)]>>,
}

impl SeatMap {
    /// The seat map of an item and its units.
    pub fn of(item: &Item, unit_index: &UnitIndex, layout: bool) -> Self {
        Self { item: item.clone(), states: unit_index.states(), layout: layout.then(|| unit_index.layout()) }
    }
}

/// Selects a page of reservations. All conditions that are set apply together.
#[derive(Clone, Debug, Default)]
pub struct ReservationFilter {
    /// Only reservations of this owner.
    pub owner_id: Option<Label>,
    /// Only reservations with a line of this SKU. When `location` is set too, one line has to match both.
    pub sku: Option<Label>,
    /// Only reservations with a line at this location.
    pub location: Option<Label>,
    /// Only reservations that have this status now.
    pub status: Option<Status>,
    /// Only reservations that were confirmed for this order. An order may have several. A store finds them without
    /// reading others, and lists the one that was confirmed last first.
    pub order_id: Option<Label>,
    /// Only reservations that were made for this customer, or that the customer pays. The embedded store has an index for it.
    pub customer_id: Option<Label>,
    /// Only reservations that were created at this instant or later.
    pub created_after: Option<Instant>,
    /// Only reservations that were created before this instant.
    pub created_before: Option<Instant>,
    /// Only reservations that this actor may have created matter. A store may list others too: the caller has to look at who created
    /// each. The embedded store has an index for it.
    pub created_by: Option<Label>,
    /// The end of the page before.
    pub after: Option<Cursor>,
    /// Maximum number of reservations, at least 1.
    pub limit: usize,
}

impl ReservationFilter {
    /// Whether a reservation fulfils the conditions of this filter. Does not check `after` and `created_by`.
    pub fn matches(&self, hold: &Hold) -> bool {
        let line = |key: &ItemKey| {
            self.sku.as_ref().is_none_or(|sku| sku.as_str() == key.sku())
                && self.location.as_ref().is_none_or(|location| location.as_str() == key.location())
        };
        let terms = &hold.terms;
        let customer = terms.reserve.optional.as_ref().and_then(|optional| optional.customer_id.as_ref());
        let is_of = |wanted: &Label| customer == Some(wanted) || hold.order_customer() == Some(wanted);
        self.owner_id.as_ref().is_none_or(|owner| *owner == terms.reserve.owner_id)
            && self.status.is_none_or(|status| status == hold.status)
            && self.order_id.as_ref().is_none_or(|order| hold.order_id() == Some(order))
            && self.customer_id.as_ref().is_none_or(is_of)
            && self.created_after.is_none_or(|after| terms.created_at >= after)
            && self.created_before.is_none_or(|before| terms.created_at < before)
            && hold.lines.iter().any(|held| line(&held.item))
    }
}

/// A place in a store's list of reservations. Its number has a meaning only for the store that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub u128);

/// Most reservations that a store examines for a page with few of them. The page ends early then, and has a cursor.
pub const RESERVATIONS_EXAMINED: usize = 1_024;

/// A page of reservations.
#[derive(Clone, Debug, Default)]
pub struct ReservationPage {
    /// Reservations, in the order of [`Query::Reservations`]. There may be fewer than the limit, even none, before the last page.
    pub holds: Vec<Hold>,
    /// The `after` of the next page. `None` on the last page.
    pub next: Option<Cursor>,
    /// How many reservations were examined for it.
    pub examined: usize,
}

/// Pauses of the whole sale and of locations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Whether the whole sale is paused.
    pub everything: bool,
    /// Locations that are paused themselves, in the order of their names.
    pub locations: Vec<Label>,
}

/// The result of a [`Query`]: each kind of query has its own.
#[derive(Clone, Debug)]
pub enum QueryResult {
    /// Result of [`Query::Reservation`].
    Reservation(Option<Hold>),
    /// Result of [`Query::Items`].
    Items(Vec<Option<Item>>),
    /// Result of [`Query::ItemPage`]. Only the last page has fewer items than the limit.
    ItemPage(Vec<Item>),
    /// Result of [`Query::Units`]. `None` when the item does not exist, or its units have no ids.
    Units(Option<UnitPage>),
    /// Result of [`Query::Unit`]. `None` when the unit or its item does not exist.
    Unit(Option<Unit>),
    /// Result of [`Query::UnitHistory`]. `None` when the unit or its item does not exist. Archived events are left out.
    UnitHistory(Option<Vec<EventRow>>),
    /// Result of [`Query::SeatMap`]. `None` when the item does not exist, or its units have no ids.
    SeatMap(Option<Box<SeatMap>>),
    /// Result of [`Query::Reservations`].
    Reservations(ReservationPage),
    /// Result of [`Query::History`]. `None` when the reservation does not exist.
    History(Option<Vec<EventRow>>),
    /// Result of [`Query::Events`]. Only the last page has fewer events than the limit.
    Events(Vec<EventRow>),
    /// Result of [`Query::Events`] when events after the requested position were moved to an archive.
    Archived {
        /// Position of the newest archived event.
        through: u64,
    },
    /// Result of [`Query::DuePayments`].
    DuePayments(Vec<ReservationId>),
    /// Result of [`Query::Pauses`].
    Pauses(Pauses),
    /// Result of [`Query::Record`]. `None` when there is no such record, or it was deleted.
    Record(Option<Record>),
    /// Result of [`Query::Records`], without deleted ones. Only the last page has fewer records than the limit.
    Records(Vec<Record>),
    /// Result of [`Query::Limit`]. `None` when there is no such limit, or it was deleted.
    Limit(Option<Limit>),
    /// Result of [`Query::Limits`], without deleted ones. Only the last page has fewer limits than the limit.
    Limits(Vec<Limit>),
    /// Result of [`Query::LimitUsage`]. `None` when there is no such limit, or it was deleted.
    LimitUsage(Option<LimitUsage>),
    /// Result of [`Query::Customer`].
    Customer(CustomerResult),
}
