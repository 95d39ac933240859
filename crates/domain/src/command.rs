//! The commands of the rules. An envelope carries what a pure function cannot make: ids, the digests of the idempotency key and of the
//! request, and the caller. Invalid combinations have no representation where that is possible.

use crate::access::Access;
use crate::basket::Basket;
use crate::event::Disposition;
use crate::hold::ReserveTerms;
use crate::id::{EventId, Fingerprint, KeyHash, ReservationId};
use crate::item::{ItemKey, Mode, Supply};
use crate::label::Label;
use crate::limit::LimitTerms;
use crate::origin::Origin;
use crate::payment_command::{
    AdvancePayment, CheckoutRequest, ClosePayment, OpenPayment, Refund, StartCheckout,
};
use crate::pool::PoolTerms;
use crate::precondition::Precondition;
use crate::price::Price;
use crate::record::{RecordChange, RecordKey, RecordValue};
use crate::sale_selection::SaleSelection;
use crate::scope::Scope;
use crate::time::{Instant, Seconds};
use crate::unit::Attributes;
use crate::unit_selection::PoolSelection;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A command with what a store needs to run it once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The command.
    pub command: Command,
    /// The caller's idempotency key, if one was given.
    pub key: Option<IdempotencyKey>,
    /// Ids for what the command creates. They are part of the input, so that `decide` stays pure.
    pub fresh: GeneratedIds,
    /// The caller.
    pub origin: Origin,
    /// What the caller may see and change. It is judged in the commit of the command.
    pub access: Access,
}

impl Envelope {
    /// The idempotency key, if the command takes one.
    pub fn key_in_use(&self) -> Option<IdempotencyKey> {
        self.key.filter(|_| self.command.kind().takes_key())
    }
}

/// An idempotency key in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Digest under which the key is stored.
    pub hash: KeyHash,
    /// Digest of the request that used the key.
    pub fingerprint: Fingerprint,
}

/// Ids for what a command creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratedIds {
    /// Id of a new reservation.
    pub reservation: ReservationId,
    /// Id of the command's own event. The events of holds that it expires have ids of their own.
    pub event: EventId,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Hold units for a time.
    Reserve(Reserve),
    /// Turn an active hold into a sale.
    Confirm(Confirm),
    /// Put the units of a hold back into stock.
    Release(Release),
    /// Move the deadline of a hold.
    Extend(Extend),
    /// Change the lines, the deadline or the metadata of a hold.
    Amend(Amend),
    /// Change who a hold is for.
    Transfer(Transfer),
    /// Move some lines of a hold into a new one.
    Split(Split),
    /// Add the lines of other holds to a hold.
    Merge(Merge),
    /// Keep a hold while its payment is under way.
    OpenPayment(OpenPayment),
    /// End the payment window of a hold.
    ClosePayment(ClosePayment),
    /// Take the payment of a hold and confirm it.
    StartCheckout(StartCheckout),
    /// Move on a payment that the service takes.
    AdvancePayment(AdvancePayment),
    /// Give back money of a confirmed reservation.
    Refund(Refund),
    /// Record that sold units left the shelf.
    Fulfil(Fulfil),
    /// Put sold units back into stock, or write them off.
    Return(Return),
    /// Create an item, or set its stock and settings.
    SetStock(SetStock),
    /// Change an item's total by a difference.
    AdjustStock(AdjustStock),
    /// Delete an item that is not in use.
    DeleteItem(DeleteItem),
    /// Add units with ids to an item.
    AddUnits(AddUnits),
    /// Remove a unit with an id from an item.
    RetireUnit(RetireUnit),
    /// Pause or resume a sale.
    SetSale(SetSale),
    /// Expire due holds and release due pools, at most as many as one batch may.
    Sweep,
    /// Create, change or delete a record.
    SetRecord(SetRecord),
    /// Create or replace a limit.
    SetLimit(SetLimit),
    /// Delete a limit.
    DeleteLimit(DeleteLimit),
    /// Create or replace a pool of an item.
    SetPool(SetPool),
    /// Delete a pool of an item.
    DeletePool(DeletePool),
    /// Put units with ids into a pool of their item, or take them out of it.
    SetUnitPool(SetUnitPool),
}

/// See [`Command::Reserve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// The lines that are requested.
    pub basket: Basket,
    /// Time to live. Without it, the default of the items applies.
    pub ttl: Option<Seconds>,
    /// What happens to a line for which too little stock is available.
    pub fulfilment: Fulfilment,
    /// Who the hold is for, and the caller's descriptive fields.
    pub terms: ReserveTerms,
    /// Whether limits are passed by. Their counters count the units all the same.
    pub override_limits: bool,
    /// The payment that begins in the same commit, if the service is to take it at once.
    pub checkout: Option<Box<CheckoutRequest>>,
}

/// What happens to a line for which too little stock is available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fulfilment {
    /// Every line is granted in full, or the reserve is refused.
    #[default]
    All,
    /// Each line gets what is available. Lines that get nothing are left out.
    Partial,
}

/// See [`Command::Confirm`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// Which reservation.
    pub id: ReservationId,
    /// The order that the reservation becomes.
    pub order_id: Option<Label>,
    /// The payment. While a payment window is open, it must be the payment of the window.
    pub payment_id: Option<Label>,
    /// What happens when the reservation has expired.
    pub if_expired: IfExpired,
    /// Whether limits are passed by when the units are taken again.
    pub override_limits: bool,
}

/// What a confirm does when the reservation has expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfExpired {
    /// It is refused.
    #[default]
    Refuse,
    /// A new reservation takes the same units again and is confirmed in the same commit.
    Reacquire,
}

/// See [`Command::Release`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// Which reservation.
    pub id: ReservationId,
    /// Why.
    pub reason: Option<Label>,
}

/// See [`Command::Extend`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extend {
    /// Which reservation.
    pub id: ReservationId,
    /// Time to live from now. The deadline never passes the reservation's latest one.
    pub ttl: Seconds,
}

/// See [`Command::Amend`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amend {
    /// Which reservation.
    pub id: ReservationId,
    /// All of its lines afterwards. `None` keeps the lines.
    pub basket: Option<Basket>,
    /// What happens to a line for which too little stock is available.
    pub fulfilment: Fulfilment,
    /// Time to live from now, as in [`Extend`]. `None` keeps the deadline.
    pub ttl: Option<Seconds>,
    /// The caller's own data.
    pub metadata: Patch<Arc<str>>,
    /// Whether limits are passed by.
    pub override_limits: bool,
    /// The precondition on the version of the reservation.
    pub expected: Option<Precondition>,
}

/// See [`Command::Transfer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Which reservation.
    pub id: ReservationId,
    /// The new owner. `None` keeps the owner.
    pub owner_id: Option<Label>,
    /// The buyer.
    pub customer_id: Patch<Label>,
    /// The buyer's session.
    pub session_id: Patch<Label>,
    /// Whether limits are passed by.
    pub override_limits: bool,
    /// The precondition on the version of the reservation.
    pub expected: Option<Precondition>,
}

/// See [`Command::Split`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Which reservation.
    pub id: ReservationId,
    /// The lines of the new reservation. Where units have ids, a line names units or takes the first of the line's.
    pub lines: Basket,
    /// The precondition on the version of the reservation.
    pub expected: Option<Precondition>,
}

/// See [`Command::Merge`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The reservation that gets the lines.
    pub id: ReservationId,
    /// The reservations that give their lines and end: 1 to [`crate::limits::MERGE_SOURCES`], each once and not `id`.
    pub from: Box<[ReservationId]>,
    /// Whether limits are passed by.
    pub override_limits: bool,
    /// The precondition on the version of the reservation `id`.
    pub expected: Option<Precondition>,
}

/// See [`Command::Fulfil`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fulfil {
    /// Which reservation.
    pub id: ReservationId,
    /// The units that left the shelf.
    pub selection: SaleSelection,
}

/// See [`Command::Return`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// Which reservation.
    pub id: ReservationId,
    /// The units that are returned.
    pub selection: SaleSelection,
    /// Which of them come first. `None` means: those that have not left the shelf, then the others.
    pub from: Option<ReturnFrom>,
    /// What becomes of the units.
    pub disposition: Disposition,
    /// Why.
    pub reason: Label,
}

/// Restricts a return to some of the sold units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnFrom {
    /// Units that have not left the shelf.
    Unfulfilled,
    /// Units that have left the shelf.
    Fulfilled,
}

/// A change of one optional value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Keep the current value. A new item has none.
    #[default]
    Keep,
    /// Remove the value. The item then has none of its own.
    Clear,
    /// Set it to this value.
    Set(T),
}

impl<T> Patch<T> {
    /// Maps the value of [`Patch::Set`].
    pub fn map<U>(self, value: impl FnOnce(T) -> U) -> Patch<U> {
        match self {
            Self::Keep => Patch::Keep,
            Self::Clear => Patch::Clear,
            Self::Set(old) => Patch::Set(value(old)),
        }
    }

    /// The value after this change of `before`.
    pub fn over(self, before: Option<T>) -> Option<T> {
        match self {
            Self::Keep => before,
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }
}

/// See [`Command::SetStock`]. Settings that are not given keep their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetStock {
    /// Which item.
    pub item: ItemKey,
    /// Units that exist, at most [`crate::limits::TOTAL_UNITS`]. Without it, an existing item keeps its total. An item
    /// whose units have ids has exactly as many as it has ids, so another total is refused.
    pub total_units: Option<u64>,
    /// A count of the shelf in place of `total_units`.
    pub shelf: Option<ShelfCount>,
    /// Whether units have ids. Without it, a new item is counted.
    pub mode: Option<Mode>,
    /// Units that are kept back from sale.
    pub safety_stock: Option<u64>,
    /// Default time to live of a hold.
    pub default_ttl: Patch<Seconds>,
    /// Longest hold.
    pub max_hold: Patch<Seconds>,
    /// Units that may be held and sold beyond the total.
    pub oversell_allowance: Option<u64>,
    /// Whether a gate in front of the store may refuse its reserves. Cleared is `false`.
    pub gated: Patch<bool>,
    /// How long payment windows may keep a hold.
    pub max_payment: Patch<Seconds>,
    /// When the sale begins.
    pub sale_starts_at: Patch<Instant>,
    /// When the sale ends.
    pub sale_ends_at: Patch<Instant>,
    /// The deliveries that are expected, in place of those that were.
    pub incoming: Option<Box<[Supply]>>,
    /// What a unit costs.
    pub price: Patch<Box<Price>>,
    /// Available units at and below which the stock counts as low.
    pub low_stock: Patch<u64>,
    /// The external system that owns the total. Cleared: this service owns it.
    pub stock_master: Patch<Label>,
    /// Whether a total that an external system owns may be changed.
    pub override_owner: bool,
    /// The caller's own data.
    pub metadata: Patch<Arc<str>>,
    /// The precondition of the change.
    pub expected: Option<Precondition>,
}

/// How many units were counted on the shelf, and which shipments the count knows of. The total is the sum of both, so that
/// nothing is counted twice that was shipped after the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShelfCount {
    /// Units on the shelf.
    pub on_hand: u64,
    /// The item's `fulfilled` as it was read for the count. An existing item needs it; a new one has none.
    pub fulfilled_seen: Option<u64>,
}

/// See [`Command::AdjustStock`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdjustStock {
    /// Which item.
    pub item: ItemKey,
    /// Units that arrived. Negative: units that left.
    pub delta: i64,
    /// Why.
    pub reason: Label,
    /// The expected delivery that arrived. Its units are no longer expected.
    pub supply_id: Option<Label>,
    /// Whether a total that an external system owns may be changed.
    pub override_owner: bool,
    /// The precondition of the change.
    pub expected: Option<Precondition>,
}

/// See [`Command::DeleteItem`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteItem {
    /// Which item.
    pub item: ItemKey,
    /// What the item has to be like.
    pub expected: Option<Precondition>,
}

/// See [`Command::AddUnits`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddUnits {
    /// Which item.
    pub item: ItemKey,
    /// At most [`crate::limits::UNITS_AT_ONCE`], each id once.
    pub units: Vec<NewUnit>,
}

/// A unit that an operator adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUnit {
    /// Its id.
    pub id: Label,
    /// Its position. Without it, the position after the highest one.
    pub position: Option<u64>,
    /// Section of the venue.
    pub section: Option<Label>,
    /// Row of the section.
    pub row: Option<Label>,
    /// The number that is printed on it.
    pub number: Option<Label>,
    /// Its attributes.
    pub attributes: Attributes,
}

/// See [`Command::RetireUnit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetireUnit {
    /// Which item.
    pub item: ItemKey,
    /// Which unit.
    pub unit: Label,
}

/// See [`Command::SetSale`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSale {
    /// What is paused or resumed.
    pub scope: Scope,
    /// Whether it is paused afterwards.
    pub paused: bool,
    /// Why.
    pub reason: Option<Label>,
}

/// See [`Command::SetLimit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetLimit {
    /// Which limit.
    pub id: Label,
    /// What it says afterwards.
    pub terms: LimitTerms,
    /// The precondition on its version.
    pub expected: Option<Precondition>,
}

/// See [`Command::DeleteLimit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteLimit {
    /// Which limit.
    pub id: Label,
    /// The precondition on its version.
    pub expected: Option<Precondition>,
}

/// See [`Command::SetPool`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPool {
    /// Which item.
    pub item: ItemKey,
    /// Which pool.
    pub pool: Label,
    /// Units that are set aside afterwards. `None` exactly where units have ids: such units are put into a pool by id.
    pub allocated: Option<u64>,
    /// Whether a reserve that names the pool gets general stock when the pool is empty.
    pub fallback: bool,
    /// When the pool is released.
    pub releases_at: Option<Instant>,
    /// How long nothing is drawn before the pool is released.
    pub idle_release: Option<Seconds>,
    /// The precondition on the version of the item.
    pub expected: Option<Precondition>,
}

impl SetPool {
    /// What the pool is afterwards, with this many units.
    pub fn terms(&self, allocated: u64) -> PoolTerms {
        let Self { fallback, releases_at, idle_release, .. } = *self;
        PoolTerms { allocated, fallback, releases_at, idle_release }
    }
}

/// See [`Command::DeletePool`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletePool {
    /// Which item.
    pub item: ItemKey,
    /// Which pool.
    pub pool: Label,
    /// The precondition on the version of the item.
    pub expected: Option<Precondition>,
}

/// See [`Command::SetUnitPool`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetUnitPool {
    /// Which item.
    pub item: ItemKey,
    /// Which pool. Units that are put into it create it if the item does not have it.
    pub pool: Label,
    /// Whether the units are put into the pool. Otherwise those of them that are in it become general stock.
    pub puts_in: bool,
    /// Which units.
    pub units: PoolSelection,
    /// The precondition on the version of the item.
    pub expected: Option<Precondition>,
}

/// See [`Command::SetRecord`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetRecord {
    /// Which record.
    pub key: RecordKey,
    /// The version that it has to have; 0 when it must not exist.
    pub expected_version: u64,
    /// Its new value; `None` deletes it.
    pub value: Option<RecordValue>,
    /// What the event of it shows.
    pub change: RecordChange,
}
