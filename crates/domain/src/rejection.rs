//! Why the rules refuse, each reason with the figures that tell its caller what to do. Never the failure of a store.

use crate::id::ReservationId;
use crate::item::ItemKey;
use crate::label::Label;
use crate::state::Scope;
use crate::time::{Instant, Seconds};
use crate::unit::UnitStatus;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Why a command was refused, with the figures that tell the caller what to do. For reserve the first six stand in
/// order: the first that applies is the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The request asks for what cannot be, whatever the stock.
    InvalidRequest(FieldError),
    /// The time to live is above the longest hold.
    TtlTooLong {
        /// The longest hold: of the reserved items, or of the reservation that is extended.
        max: Seconds,
    },
    /// Items that do not exist.
    UnknownItem(Vec<ItemKey>),
    /// The sale of this is paused.
    SalePaused(Scope),
    /// More than a line may ask for, or all of them together.
    QuantityLimit {
        /// Which item; absent where it is the units with ids of all lines.
        item: Option<ItemKey>,
        /// What was asked for, summed.
        requested: u64,
        /// The most that may be.
        limit: u64,
    },
    /// Requested units are held, sold or do not exist.
    UnitsUnavailable(Vec<UnavailableUnits>),
    /// Less than was asked for is left, and nothing more is due.
    InsufficientInventory(Vec<Shortage>),

    /// The key was used before for another request.
    IdempotencyMismatch,
    /// No such reservation.
    UnknownReservation(ReservationId),
    /// It is confirmed.
    ReservationConfirmed {
        /// Which.
        id: ReservationId,
        /// The order that it became.
        order_id: Option<Label>,
    },
    /// It was released.
    ReservationCancelled(ReservationId),
    /// Its deadline has passed.
    ReservationExpired {
        /// Which.
        id: ReservationId,
        /// The deadline.
        expires_at: Instant,
    },
    /// It was never sold.
    ReservationNotConfirmed(ReservationId),
    /// The deadline is as late as it may be.
    ExtensionLimit {
        /// That deadline.
        max_expires_at: Instant,
    },
    /// More would come back than is sold.
    ReturnExceedsSold {
        /// Which item.
        item: ItemKey,
        /// What was to come back.
        requested: u64,
        /// What is sold and has not come back.
        sold: u64,
    },
    /// Less would exist than is sold and held.
    BelowCommitted {
        /// Sold.
        confirmed_sold: u64,
        /// Held.
        held: u64,
        /// What exists.
        total_units: u64,
    },
    /// The item has no such unit.
    UnknownUnit {
        /// Which item.
        item: ItemKey,
        /// The id.
        unit: Label,
    },
    /// The unit is held or sold.
    UnitInUse {
        /// Which item.
        item: ItemKey,
        /// The id.
        unit: Label,
        /// Where it stands.
        status: UnitStatus,
    },
    /// The item is not as it was expected to be.
    PreconditionFailed {
        /// Its version; absent when there is no such item.
        version: Option<u64>,
    },
    /// The record is not at the version that was expected.
    RecordChanged {
        /// Its version; 0 when there is no such record.
        version: u64,
    },
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// A JSON pointer into the request, `""` for all of it.
    pub pointer: Box<str>,
    /// What is wrong and what would be right.
    pub detail: String,
}

/// An item with requested units that are not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnavailableUnits {
    /// Which item.
    pub item: ItemKey,
    /// The units that are not available, in the order of the request.
    pub units: Vec<Label>,
    /// Those of `units` that do not exist, in the same order.
    pub unknown: Vec<Label>,
}

/// An item that falls short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Which item.
    pub item: ItemKey,
    /// What was asked for.
    pub requested: u64,
    /// What there is.
    pub available: u64,
    /// When its earliest hold falls due.
    pub next_expiry_at: Option<Instant>,
}

impl Rejection {
    pub(crate) fn invalid(pointer: &str, detail: String) -> Self {
        Self::InvalidRequest(FieldError { pointer: pointer.into(), detail })
    }
}
