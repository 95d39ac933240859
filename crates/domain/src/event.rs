//! What happened: what a batch leaves in a log, and what recovery and `verify` fold. An event must be enough by itself:
//! the rules that made it may have changed when it is read.

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

/// Something that happened: appended in the same commit as its effect, never changed. It carries what things are
/// after it, so that state is the fold of events and recovery is plain [`crate::State::apply`], whatever the rules
/// have become since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its id; its position is given by the store at the commit.
    pub id: EventId,
    /// When it was decided.
    pub at: Instant,
    /// Who asked.
    pub origin: Origin,
    /// The reservation's event before this one.
    pub previous: Option<EventId>,
    /// What changed.
    pub transition: Transition,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// A reservation was made or moved.
    Hold {
        /// How.
        change: HoldChange,
        /// The reservation after it.
        hold: Hold,
        /// The items of its lines after it, in their order.
        figures: Box<[StockCounters]>,
    },
    /// An item was created or changed by an operator.
    Stock {
        /// How.
        change: StockChange,
        /// The item after it.
        item: Item,
    },
    /// A sale was paused or resumed.
    Sale {
        /// What it concerns.
        scope: Scope,
        /// Paused, or open.
        paused: bool,
        /// Why.
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
    /// What it weighs in a batch, beyond being one of its events: lines, units with ids,
    /// and the bytes of a record.
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

/// How a reservation moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldChange {
    /// Made.
    Created,
    /// Its deadline moved.
    Extended,
    /// Sold.
    Confirmed,
    /// Released.
    Cancelled,
    /// Fell due.
    Expired,
    /// Sold units came back.
    Returned {
        /// How many of each line, in the lines' order.
        quantities: Vec<u32>,
        /// Which units of each line, by their places in it; empty where no line has units with ids.
        units: Box<[Box<[u32]>]>,
        /// Why.
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

/// How an item changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StockChange {
    /// Created or set.
    Set,
    /// Its total moved.
    Adjusted {
        /// By so much.
        delta: i64,
        /// Why.
        reason: Label,
    },
    /// Units with ids came to it, each available and at its first version.
    UnitsAdded(Arc<[Unit]>),
    /// A unit with an id went.
    UnitRetired(Label),
}

/// An idempotency key that was used, committed with its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// What it is found by.
    pub hash: KeyHash,
    /// What was asked under it.
    pub fingerprint: Fingerprint,
    /// What it made or moved.
    pub target: KeyTarget,
    /// When.
    pub at: Instant,
}

/// What a key stands for: a replay shows it as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTarget {
    /// A reservation.
    Reservation(ReservationId),
    /// An item.
    Item(ItemKey),
    /// A record, which may be deleted since.
    Record(RecordKey),
}
