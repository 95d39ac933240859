//! Refusals by the rules, each with the figures that its caller needs. A failure of a store is never one of them.

use crate::access::AccessDenied;
use crate::id::ReservationId;
use crate::item::{ItemKey, Mode, SaleWindow};
use crate::label::Label;
use crate::scope::Scope;
use crate::time::{Instant, Seconds};
use crate::unit::UnitStatus;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Why a command was refused, with the figures that the caller needs. The refusals of a reserve are checked in a fixed
/// order, and the first that applies is the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The request can't be fulfilled, whatever the stock.
    InvalidRequest(FieldError),
    /// The time to live is above the longest hold.
    TtlTooLong {
        /// The longest hold of the reserved items.
        max: Seconds,
    },
    /// The request does not fit how the units of the item are told apart.
    ModeMismatch {
        /// Which item.
        item: ItemKey,
        /// Its mode.
        mode: Mode,
    },
    /// Items that do not exist.
    UnknownItem(Vec<ItemKey>),
    /// The sale is paused.
    SalePaused(Scope),
    /// The sale of an item has not started or has ended.
    OutsideSaleWindow {
        /// Which item.
        item: ItemKey,
        /// The end of the window that was missed.
        window: SaleWindow,
    },
    /// A line, or all lines together, ask for too many units.
    QuantityLimit {
        /// The item. `None` when the limit is on the units with ids of all lines together.
        item: Option<ItemKey>,
        /// The requested units, added up.
        requested: u64,
        /// The limit.
        limit: u64,
    },
    /// A limit counts for each customer, and the request names none.
    CustomerRequired {
        /// Which limit.
        limit_id: Label,
    },
    /// More units were requested than limits leave.
    LimitExceeded(Vec<ExceededLimit>),
    /// An external system owns the total of the item.
    StockOwnedElsewhere {
        /// Which item.
        item: ItemKey,
        /// The system, as the configuration names it.
        stock_master: Label,
    },
    /// No such limit.
    UnknownLimit(Label),
    /// There are as many limits as there may be.
    TooManyLimits,
    /// Requested units are held, sold or do not exist.
    UnitsUnavailable(Vec<UnavailableUnits>),
    /// Fewer units than requested are available, and no hold is due.
    InsufficientInventory(Vec<Shortage>),

    /// The idempotency key was used before by a different request.
    IdempotencyMismatch,
    /// No such reservation.
    UnknownReservation(ReservationId),
    /// The reservation is confirmed.
    ReservationConfirmed {
        /// The reservation.
        id: ReservationId,
        /// The order that it became.
        order_id: Option<Label>,
        /// The payment that it was confirmed with.
        payment_id: Option<Label>,
    },
    /// The reservation was released.
    ReservationCancelled(ReservationId),
    /// The reservation's deadline has passed.
    ReservationExpired {
        /// The reservation.
        id: ReservationId,
        /// The deadline.
        expires_at: Instant,
    },
    /// The reservation was never confirmed.
    ReservationNotConfirmed(ReservationId),
    /// The deadline is at its limit already.
    ExtensionLimit {
        /// The latest possible deadline.
        max_expires_at: Instant,
    },
    /// A payment window is open. The reservation does not change until the payment is confirmed or closed.
    PaymentInProgress {
        /// The reservation.
        id: ReservationId,
        /// The payment of the window.
        payment_id: Label,
        /// When the window ends.
        until: Instant,
    },
    /// A checkout of lines that have no price.
    PriceMissing(Vec<ItemKey>),
    /// A checkout with the stored payment method of a customer who has none.
    PaymentMethodMissing {
        /// The customer.
        customer_id: Label,
    },
    /// The service has taken no money for the reservation, so it can give none back.
    PaymentNotCaptured(ReservationId),
    /// More money would be given back than was taken and not given back.
    RefundExceedsCaptured {
        /// The reservation.
        id: ReservationId,
        /// The amount to refund.
        requested: u64,
        /// The amount that can be refunded.
        refundable: u64,
    },
    /// A split names more than the reservation holds.
    SplitExceedsHeld {
        /// Which item.
        item: ItemKey,
        /// The units to split off.
        requested: u64,
        /// Units that the reservation holds.
        held: u64,
    },
    /// More units would be fulfilled than are sold and have not left the shelf.
    FulfilExceedsSold {
        /// Which item.
        item: ItemKey,
        /// The units to fulfil.
        requested: u64,
        /// Units that are sold, have not left the shelf and were not returned.
        unfulfilled: u64,
    },
    /// More units would leave the shelf than are on it.
    ExceedsOnHand {
        /// Which item.
        item: ItemKey,
        /// The units that would leave it.
        requested: u64,
        /// Units on the shelf.
        on_hand: u64,
    },
    /// The item expects no such delivery.
    UnknownSupply {
        /// Which item.
        item: ItemKey,
        /// The delivery.
        supply_id: Label,
    },
    /// An expired reservation can't get its units again.
    NotReacquired {
        /// The expired reservation.
        id: ReservationId,
        /// Why a reserve of the same units is refused.
        refusal: Box<Rejection>,
    },
    /// More units would be returned than are sold.
    ReturnExceedsSold {
        /// Which item.
        item: ItemKey,
        /// The units to return.
        requested: u64,
        /// Units that are sold and not returned.
        sold: u64,
    },
    /// The total and the allowance together would be lower than the units that are sold, held and set aside, or the total lower than the
    /// units that have left the shelf or than the units of all pools. A pool would be lower than what was drawn from it, or have more than
    /// is free.
    BelowCommitted {
        /// Units that are sold.
        confirmed_sold: u64,
        /// Units that are held.
        held: u64,
        /// The total, which is unchanged.
        total_units: u64,
        /// Units that pools set aside and that are not drawn.
        set_aside: u64,
    },
    /// The item has no such pool.
    UnknownPool {
        /// Which item.
        item: ItemKey,
        /// The pool.
        pool: Label,
    },
    /// The item has as many pools as it may have.
    TooManyPools(ItemKey),
    /// The item can't be deleted: it has sales, holds or units with ids.
    ItemInUse {
        /// Sold.
        confirmed_sold: u64,
        /// Held.
        held: u64,
        /// Units with ids.
        units: u64,
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
        /// Its status.
        status: UnitStatus,
    },
    /// The item or the reservation does not fulfil the precondition.
    PreconditionFailed {
        /// Its version. `None` when it does not exist.
        version: Option<u64>,
    },
    /// The caller may not see or change this.
    AccessDenied {
        /// Why.
        denied: AccessDenied,
        /// Whether the request had taken effect before under its idempotency key, so that only its answer is refused.
        replayed: bool,
    },
    /// The record is not at the version that was expected.
    RecordChanged {
        /// Its version; 0 when there is no such record.
        version: u64,
    },
}

/// A limit that leaves fewer units than were requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExceededLimit {
    /// Which limit.
    pub limit_id: Label,
    /// The most units that it allows.
    pub limit: u64,
    /// Units that it counts already.
    pub used: u64,
    /// Units that were requested beyond those.
    pub requested: u64,
    /// Whose units it counts. `None`: everybody's.
    pub subject: Option<Label>,
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// A JSON pointer into the request. `""` means the whole request.
    pub pointer: Box<str>,
    /// What is wrong, and what would be right.
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
    /// The earliest deadline of a hold on one of `units`. Absent when one of them is sold or does not exist.
    pub next_expiry_at: Option<Instant>,
}

/// An item with too few available units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Which item.
    pub item: ItemKey,
    /// Requested units.
    pub requested: u64,
    /// Available units.
    pub available: u64,
    /// Deadline of its earliest hold.
    pub next_expiry_at: Option<Instant>,
    /// Sections that were asked for and do not exist.
    pub unknown_sections: Vec<Label>,
    /// Whether `available` comes from a gate in front of the store, which may be behind the store. The rules always say false.
    pub approximate: bool,
}

impl Rejection {
    pub(crate) fn invalid(pointer: &str, detail: String) -> Self {
        Self::InvalidRequest(FieldError { pointer: pointer.into(), detail })
    }
}
