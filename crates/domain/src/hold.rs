//! A reservation: its lines, its terms and its status. These are plain values. The rules in `decide` change them.

use crate::charge::{Charge, ChargeState, OrderStatus};
use crate::id::{EventId, ReservationId};
use crate::item::ItemKey;
use crate::label::Label;
use crate::limit::{LineCount, Subject, SubjectKind};
use crate::limits::RELATED_RESERVATIONS;
use crate::pool::PoolDraw;
use crate::price::LinePrice;
use crate::time::{Instant, Seconds};
use crate::unit::{LineUnit, LineUnits};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The status of a reservation. Every status except `Active` is terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Its units are held.
    Active,
    /// Its units are sold.
    Confirmed,
    /// It was released.
    Cancelled,
    /// Its deadline passed.
    Expired,
}

/// One item of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which item.
    pub item: ItemKey,
    /// Requested units, 1 to [`crate::limits::LINE_QUANTITY`].
    pub requested: u32,
    /// Granted units, 1 to `requested`. In an event, 0 on a line that the event removes from the reservation.
    pub quantity: u32,
    /// Sold units that left the shelf and were not returned; with `returned` at most `quantity`.
    pub fulfilled: u32,
    /// Units that were returned after the sale, at most `quantity`.
    pub returned: u32,
    /// The item's sequence at the line's latest transition; 0 where units have versions of their own.
    pub sequence: u64,
    /// The units, where units have ids: as many as `quantity`.
    pub units: Option<Arc<LineUnits>>,
    /// Properties that few lines have; absent when there are none, which keeps a plain line small.
    pub details: Option<Box<LineDetails>>,
}

/// Properties that few lines have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineDetails {
    /// Units that were not there when the line got them, at most the quantity of the line.
    pub backordered: u32,
    /// When the expected deliveries cover the backorder, as far as it was known when the line got its latest backordered units.
    pub promised_at: Option<Instant>,
    /// The counters of limits that count units of the line, each once. A counter of an ended generation counts nothing more.
    pub counted: Vec<LineCount>,
    /// Units that were drawn from pools, each pool once and in order of their names; the others are general stock. Returned units are not
    /// among them.
    pub draws: Vec<PoolDraw>,
    /// What its units cost together, as it was when they were reserved. `None` unless all of them had a price.
    pub price: Option<LinePrice>,
    /// Money that was given back for returned units of it, or is going to be.
    pub refunded: u64,
}

impl LineDetails {
    /// The details, unless there are none.
    pub fn some(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

impl Line {
    /// Its details, which may all be absent.
    pub fn details(&self) -> &LineDetails {
        const NONE: &LineDetails = &LineDetails {
            backordered: 0,
            promised_at: None,
            counted: Vec::new(),
            draws: Vec::new(),
            price: None,
            refunded: 0,
        };
        self.details.as_deref().unwrap_or(NONE)
    }

    /// The units with ids. Empty where units are counted.
    pub fn units(&self) -> &[LineUnit] {
        self.units.as_deref().map(LineUnits::all).unwrap_or_default()
    }
}

/// The terms of a reservation. An amend may change the metadata and lower `max_expires_at`, a transfer changes the owner, the
/// customer and the session, and a merge may lower `max_expires_at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldTerms {
    /// The terms that the caller gave.
    pub reserve: ReserveTerms,
    /// When the reservation was created.
    pub created_at: Instant,
    /// The latest deadline that extensions can reach. A payment window may pass it.
    pub max_expires_at: Instant,
}

impl HoldTerms {
    /// The longest hold that the reservation was created with.
    pub fn max_hold(&self) -> Option<Seconds> {
        // The deadline was rounded up by less than a millisecond, which the division drops.
        let micros = self.max_expires_at.micros().checked_sub(self.created_at.micros())?;
        Seconds::new(u64::try_from(micros).ok()? / 1_000_000).ok()
    }
}

/// What a caller says about a reservation apart from its lines and its time. The reserve command, the reservation and
/// the API's request bodies share it, so a new descriptive field is added here once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveTerms {
    /// Who the hold is for, as the caller names it.
    pub owner_id: Label,
    /// The optional terms; absent when none is given, which keeps a plain hold small in memory.
    pub optional: Option<Box<OptionalTerms>>,
}

impl ReserveTerms {
    /// For whom a limit of this kind counts the reservation. `None` when the limit is per customer and no customer is named.
    pub fn subject(&self, per: Option<SubjectKind>) -> Option<Subject> {
        match per {
            None => Some(Subject::Everyone),
            Some(SubjectKind::Owner) => Some(Subject::Owner(self.owner_id.clone())),
            Some(SubjectKind::Customer) => self.optional.as_ref()?.customer_id.clone().map(Subject::Customer),
        }
    }

    /// The sales channel.
    pub fn channel(&self) -> Option<&Label> {
        self.optional.as_ref()?.channel.as_ref()
    }

    /// The pool that lines draw from.
    pub fn pool(&self) -> Option<&Label> {
        self.optional.as_ref()?.pool.as_ref()
    }

    /// Terms with an owner; `optional` is dropped when it is empty.
    pub fn new(owner_id: Label, optional: OptionalTerms) -> Self {
        let optional = (optional != OptionalTerms::default()).then(|| Box::new(optional));
        Self { owner_id, optional }
    }
}

/// The optional terms of a reservation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionalTerms {
    /// Sales channel.
    pub channel: Option<Label>,
    /// The pool that its lines draw from before general stock.
    pub pool: Option<Label>,
    /// The buyer.
    pub customer_id: Option<Label>,
    /// The buyer's session.
    pub session_id: Option<Label>,
    /// The caller's own data: a JSON object in compact form.
    pub metadata: Option<Arc<str>>,
}

/// How a reservation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// When the terminal state was reached.
    pub at: Instant,
    /// Why, as the caller said it.
    pub reason: Option<Label>,
    /// The order that it became.
    pub order_id: Option<Label>,
}

/// The state of the latest payment window of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaymentState {
    /// The payment is under way.
    Open,
    /// The payment was declined or given up.
    Closed,
    /// The reservation expired in the window.
    Lapsed,
    /// The reservation was confirmed in the window.
    Completed,
}

/// The latest payment window of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// The payment, as the caller names it.
    pub id: Label,
    /// Its state.
    pub state: PaymentState,
    /// When the window ends.
    pub until: Instant,
    /// The deadline of the reservation before the window was opened.
    pub deadline_before: Instant,
    /// The payment itself, if the service takes it. Else the caller does.
    pub charge: Option<Box<Charge>>,
}

/// Properties that few reservations have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoldDetails {
    /// The latest payment window.
    pub payment: Option<Payment>,
    /// When the first payment window was opened, of this reservation or of the one that it was split from.
    pub first_payment_at: Option<Instant>,
    /// The reservation that it was split from.
    pub split_from: Option<ReservationId>,
    /// The reservations that were split from it: the latest [`RELATED_RESERVATIONS`].
    pub split_into: Vec<ReservationId>,
    /// The reservations that were merged into it: the latest [`RELATED_RESERVATIONS`].
    pub merged_from: Vec<ReservationId>,
    /// The reservation that it was merged into.
    pub merged_into: Option<ReservationId>,
    /// The expired reservation whose units it took again.
    pub replaces: Option<ReservationId>,
    /// The reservation that took its units again after it had expired.
    pub replaced_by: Option<ReservationId>,
    /// How often it was transferred.
    pub transfers: u32,
    /// Keys with which providers were asked for payments of it. No key is used for two payments.
    pub authorizations: u32,
}

impl HoldDetails {
    /// Adds to a list of related reservations, which keeps the latest [`RELATED_RESERVATIONS`].
    pub(crate) fn relate(list: &mut Vec<ReservationId>, more: &[ReservationId]) {
        list.extend(more);
        list.drain(..list.len().saturating_sub(RELATED_RESERVATIONS));
    }
}

/// One reservation: a hold by one owner on one or more lines, which share one deadline and one fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its id.
    pub id: ReservationId,
    /// Its status.
    pub status: Status,
    /// Its deadline. The hold is live while `now < expires_at`.
    pub expires_at: Instant,
    /// The terms it was created with.
    pub terms: Arc<HoldTerms>,
    /// Its lines, one for each item, in the order of the request.
    pub lines: Arc<[Line]>,
    /// How it ended; present exactly when the status is terminal.
    pub closing: Option<Box<Closing>>,
    /// Its payment and its relations to other reservations; absent when there are none, which keeps a plain hold small.
    pub details: Option<Box<HoldDetails>>,
    /// Number of its transitions, including its creation.
    pub version: u64,
    /// Its latest event.
    pub last_event: EventId,
}

impl Hold {
    /// Its payment and its relations, which may all be absent.
    pub fn details(&self) -> &HoldDetails {
        const NONE: &HoldDetails = &HoldDetails {
            payment: None,
            first_payment_at: None,
            split_from: None,
            split_into: Vec::new(),
            merged_from: Vec::new(),
            merged_into: None,
            replaces: None,
            replaced_by: None,
            transfers: 0,
            authorizations: 0,
        };
        self.details.as_deref().unwrap_or(NONE)
    }

    /// Its open payment window.
    pub fn open_payment(&self) -> Option<&Payment> {
        self.details.as_ref()?.payment.as_ref().filter(|payment| payment.state == PaymentState::Open)
    }

    /// The reservation as it stands after an event: without the lines that the event removed from it.
    #[must_use]
    pub fn without_removed_lines(&self) -> Self {
        let mut hold = self.clone();
        if hold.lines.iter().any(|line| line.quantity == 0) {
            hold.lines = hold.lines.iter().filter(|line| line.quantity > 0).cloned().collect();
        }
        hold
    }

    /// Whether the deadline has come (equality is due).
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.expires_at
    }

    /// Units granted over all lines.
    pub fn quantity(&self) -> u64 {
        self.lines.iter().map(|line| u64::from(line.quantity)).sum()
    }

    /// What its lines cost together. `None` unless all of them have a price.
    pub fn price(&self) -> Option<LinePrice> {
        LinePrice::sum(self.lines.iter().map(|line| line.details().price.as_ref()))
    }

    /// Its weight in a batch: the number of its lines and of its units with ids.
    pub fn weight(&self) -> u64 {
        self.lines.iter().map(|line| 1 + line.units().len() as u64).sum()
    }

    /// The order that it became, if it was confirmed for one.
    pub fn order_id(&self) -> Option<&Label> {
        self.closing.as_ref()?.order_id.as_ref()
    }
}

/// Its payment, if the service takes it.
impl Hold {
    /// Its latest payment, if the service takes it.
    pub fn charge(&self) -> Option<&Charge> {
        self.details.as_ref()?.payment.as_ref()?.charge.as_deref()
    }

    /// The customer of its order: who pays, or else who it was reserved for.
    pub fn order_customer(&self) -> Option<&Label> {
        let payer = self.charge().and_then(|charge| charge.terms.customer_id());
        let reserved_for = || self.terms.reserve.optional.as_ref()?.customer_id.as_ref();
        payer.or_else(reserved_for)
    }

    /// Its latest payment, to be changed.
    pub(crate) fn charge_mut(&mut self) -> Option<&mut Charge> {
        self.details.as_mut()?.payment.as_mut()?.charge.as_deref_mut()
    }

    /// When its payment has to be moved on. `None` if there is nothing to do.
    pub fn payment_due_at(&self) -> Option<Instant> {
        self.charge()?.due_at
    }

    /// Whether something is left to do about its payment, for the service or for an operator.
    pub fn has_unsettled_payment(&self) -> bool {
        self.charge()
            .is_some_and(|charge| !charge.state.is_at_rest() || charge.state == ChargeState::RefundFailed)
    }

    /// The state of the order that it became. `None` if it is none, because its caller confirmed it, or nobody did.
    pub fn order_status(&self) -> Option<OrderStatus> {
        let charge = self.charge().filter(|_| self.status == Status::Confirmed)?;
        Some(match charge.state {
            ChargeState::Authorized | ChargeState::Capturing => OrderStatus::Authorized,
            ChargeState::Declined | ChargeState::Voiding | ChargeState::Voided => OrderStatus::Cancelled,
            _ if charge.refunded == 0 => OrderStatus::Paid,
            _ if charge.refunded < charge.captured => OrderStatus::PartiallyRefunded,
            _ => OrderStatus::Refunded,
        })
    }
}
