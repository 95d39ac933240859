//! Events: what a batch writes into the log. Recovery and `verify` fold them into state. An event must be complete by
//! itself, because the rules may have changed before it is read.

use crate::command::Origin;
use crate::hold::{Hold, Line, Status};
use crate::id::{EventId, Fingerprint, KeyHash, ReservationId};
use crate::item::{Item, ItemKey, StockCounters};
use crate::label::Label;
use crate::limits::RECORD_BYTES_PER_LINE;
use crate::record::{Record, RecordChange, RecordKey};
use crate::state::Scope;
use crate::time::Instant;
use crate::unit::{Unit, UnitStatus};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A change that was committed. It is appended in the same commit as its effect and never changed. It carries the
/// state after the change, so recovery only calls [`crate::State::apply`] and runs no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its id. The store assigns its position at the commit.
    pub id: EventId,
    /// When it was decided.
    pub at: Instant,
    /// The caller.
    pub origin: Origin,
    /// The previous event of the same reservation.
    pub previous: Option<EventId>,
    /// The change.
    pub transition: Transition,
}

/// The change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// A reservation was created or changed.
    Hold {
        /// The kind of change.
        change: HoldChange,
        /// The reservation after it.
        hold: Hold,
        /// The counters of the items of its lines after it, in the order of the lines.
        figures: Box<[StockCounters]>,
    },
    /// An item was created or changed by an operator.
    Stock {
        /// The kind of change.
        change: StockChange,
        /// The item after it.
        item: Item,
    },
    /// A sale was paused or resumed.
    Sale {
        /// What was paused or resumed.
        scope: Scope,
        /// Whether it is paused now.
        paused: bool,
        /// The reason that the caller gave.
        reason: Option<Label>,
    },
    /// A record was created, changed or deleted.
    Record {
        /// What it means for those who read events.
        change: RecordChange,
        /// The record after it.
        record: Record,
    },
}

impl Transition {
    /// Its weight in a batch beyond one event: the number of lines and of units with ids, or the length of a record.
    pub fn weight(&self) -> u64 {
        match self {
            Self::Hold { hold, .. } => hold.weight(),
            Self::Stock { change: StockChange::UnitsAdded(units), .. } => units.len() as u64,
            Self::Stock { .. } | Self::Sale { .. } => 0,
            Self::Record { record, .. } => record
                .value
                .as_ref()
                .map_or(0, |value| (value.as_bytes().len() / RECORD_BYTES_PER_LINE) as u64),
        }
    }
}

/// The change of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldChange {
    /// It was created.
    Created,
    /// Its deadline moved.
    Extended,
    /// It was confirmed: its units are sold.
    Confirmed,
    /// It was released.
    Cancelled,
    /// It expired.
    Expired,
    /// Sold units were returned.
    Returned {
        /// Number of returned units of each line, in the order of the lines.
        quantities: Vec<u32>,
        /// The returned units of each line, by their places in it. Empty when no line has units with ids.
        units: Box<[Box<[u32]>]>,
        /// The reason that the caller gave.
        reason: Label,
    },
}

impl HoldChange {
    /// The effect on the counters of the item of one line. `number` is the line's place in the reservation, from 0.
    ///
    /// This is the only place that maps a transition to counters: the rules apply it, and audits check events with it.
    pub fn effect(&self, line: &Line, number: usize) -> CounterEffect {
        let quantity = i64::from(line.quantity);
        let sequence = u64::from(line.units.is_none());
        match self {
            Self::Created => CounterEffect { held: quantity, confirmed_sold: 0, active: 1, sequence },
            Self::Extended => CounterEffect::default(),
            Self::Confirmed => {
                CounterEffect { held: -quantity, confirmed_sold: quantity, active: -1, sequence }
            }
            Self::Cancelled | Self::Expired => {
                CounterEffect { held: -quantity, confirmed_sold: 0, active: -1, sequence }
            }
            Self::Returned { quantities, .. } => {
                let returned = quantities.get(number).copied().unwrap_or(0);
                let sequence = if returned > 0 { sequence } else { 0 };
                CounterEffect { held: 0, confirmed_sold: -i64::from(returned), active: 0, sequence }
            }
        }
    }

    /// The status that a reservation must have before this transition; `None` when it must not exist.
    pub fn status_before(&self) -> Option<Status> {
        match self {
            Self::Created => None,
            Self::Extended | Self::Confirmed | Self::Cancelled | Self::Expired => Some(Status::Active),
            Self::Returned { .. } => Some(Status::Confirmed),
        }
    }

    /// The status that a reservation has after this transition.
    pub fn status_after(&self) -> Status {
        match self {
            Self::Created | Self::Extended => Status::Active,
            Self::Confirmed | Self::Returned { .. } => Status::Confirmed,
            Self::Cancelled => Status::Cancelled,
            Self::Expired => Status::Expired,
        }
    }

    /// The status that a unit of the reservation `id` must have before this transition moves it.
    pub fn unit_status_before(&self, id: ReservationId) -> UnitStatus {
        match self {
            Self::Created => UnitStatus::Available,
            Self::Extended | Self::Confirmed | Self::Cancelled | Self::Expired => UnitStatus::Held(id),
            Self::Returned { .. } => UnitStatus::Sold(id),
        }
    }
}

/// How a transition moves the counters of an item: differences, each added to the counter of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterEffect {
    /// Units in active reservations.
    pub held: i64,
    /// Units sold, less returns.
    pub confirmed_sold: i64,
    /// Active reservations with a line on the item.
    pub active: i64,
    /// Transitions of a counted item: 0 or 1. Always 0 where units have versions of their own.
    pub sequence: u64,
}

/// The change of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StockChange {
    /// It was created, or its stock or settings were set.
    Set,
    /// Its total was changed by a difference.
    Adjusted {
        /// The difference.
        delta: i64,
        /// The reason that the caller gave.
        reason: Label,
    },
    /// Units with ids were added. Each is available and has its first version.
    UnitsAdded(Arc<[Unit]>),
    /// A unit with an id was removed.
    UnitRetired(Label),
    /// The item itself went: the event has the last that was known of it.
    Deleted,
}

/// An idempotency key that was used. It is committed together with its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Digest under which it is found.
    pub hash: KeyHash,
    /// Digest of the request that used it.
    pub fingerprint: Fingerprint,
    /// What the request created or changed.
    pub target: KeyTarget,
    /// When it was used.
    pub at: Instant,
}

/// What a key refers to. A replay shows its current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTarget {
    /// A reservation.
    Reservation(ReservationId),
    /// An item.
    Item(ItemKey),
    /// A record, which may be deleted since.
    Record(RecordKey),
}
