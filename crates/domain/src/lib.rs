//! The rules of Stockhold.
//!
//! [`decide`] takes the state, one command and the time. It returns an outcome and the events that bring it about.
//! Nothing here reads a clock, a file, a socket or a random number, starts a thread, waits or serializes. The crate is
//! `no_std` and has no dependencies, so the compiler proves this.
//!
//! Reading order: names and times ([`Label`], [`ItemKey`], [`Instant`], [`ReservationId`]), entities ([`Item`],
//! [`Hold`], [`Unit`], [`Record`]), commands ([`Command`]) and their results ([`Outcome`], [`Rejection`]), events ([`Event`]), the
//! state that the rules read ([`UnitIndex`], [`State`]), and the rules ([`decide`]).
#![no_std]

extern crate alloc;

pub mod limits;

mod label;
mod time;

mod id;

mod charge;
mod hold;
mod hold_limits;
mod item;
mod item_key;
mod limit;
mod origin;
mod pool;
mod price;
mod record;
mod scope;
mod unit;

mod source;
mod unit_selection;

mod access;
mod basket;
mod command;
mod command_access;
mod command_kind;
mod outcome;
mod payment_command;
mod precondition;
mod rejection;
mod sale_selection;

mod event;

mod unit_index;

mod state;

mod decide;

pub use access::{Access, AccessDenied, Restrictions};
pub use basket::{Basket, BasketError, BasketLine, RequestedLine};
pub use charge::{
    CaptureMethod, Charge, ChargeState, CheckoutTerms, ExtraAmount, OnDecline, OrderStatus, PaymentMethod,
    PendingRefund, ProviderRef, SealedRefs,
};
pub use command::{
    AddUnits, AdjustStock, Amend, Command, Confirm, DeleteItem, DeleteLimit, DeletePool, Envelope, Extend,
    Fulfil, Fulfilment, GeneratedIds, IdempotencyKey, IfExpired, Merge, NewUnit, Patch, Release, Reserve,
    RetireUnit, Return, ReturnFrom, SetLimit, SetPool, SetRecord, SetSale, SetStock, SetUnitPool, ShelfCount,
    Split, Transfer,
};
pub use command_kind::CommandKind;
pub use decide::{DecideError, Effects, decide, footprint, quote};
pub use event::{
    Disposition, Event, HoldChange, KeyRecord, KeyTarget, LimitEffects, LineChange, MovedUnits, Parties,
    StockChange, Transition,
};
pub use hold::{
    Closing, Hold, HoldDetails, HoldTerms, Line, LineDetails, OptionalTerms, Payment, PaymentState,
    ReserveTerms, Status,
};
pub use hold_limits::{HoldLimits, LocationLimits};
pub use id::{BUCKETS, EventId, Fingerprint, KeyHash, NotAnId, RequestId, ReservationId, bucket_of};
pub use item::{CounterEffect, Item, ItemKey, Mode, SaleWindow, Settings, StockCounters, Supply};
pub use label::{Label, LabelError};
pub use limit::{
    CounterKey, Limit, LimitCounter, LimitCounters, LimitSet, LimitTarget, LimitTerms, LimitedUnits,
    LineCount, Subject, SubjectKind,
};
pub use origin::{Origin, Trace};
pub use outcome::{Outcome, Reply};
pub use payment_command::{
    AdvancePayment, CheckoutRequest, ClosePayment, OpenPayment, PaymentStep, ProviderReport, Refund,
    RefundSelection, StartCheckout,
};
pub use pool::{Pool, PoolDraw, PoolEffect, PoolTerms, Pools, PoolsAfter};
pub use precondition::Precondition;
pub use price::{Currency, Discount, LinePrice, Price, Reduction};
pub use record::{Record, RecordChange, RecordKey, RecordKind, RecordValue, RecordValueError};
pub use rejection::{ExceededLimit, FieldError, Rejection, Shortage, UnavailableUnits};
pub use sale_selection::SaleSelection;
pub use scope::Scope;
pub use source::{Source, SourceError, Strategy};
pub use state::{Lookup, NotLoaded, Resource, State};
pub use time::{Instant, Seconds, SecondsError};
pub use unit::{Attribute, Attributes, LineUnit, LineUnits, Place, PooledUnit, Unit, UnitStatus};
pub use unit_index::{ClaimSource, SeatStates, UnitIndex, UnitMove, moved};
pub use unit_selection::{BestAvailable, PoolSelection, UnitSelection};
