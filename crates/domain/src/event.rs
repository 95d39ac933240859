//! Events: what a batch writes into the log. Recovery and `verify` fold them into state. An event must be complete by
//! itself, because the rules may have changed before it is read.

use crate::hold::{Hold, Line, PaymentState, Status};
use crate::id::{EventId, Fingerprint, KeyHash, ReservationId};
use crate::item::{CounterEffect, Item, ItemKey, StockCounters};
use crate::label::Label;
use crate::limit::{CounterKey, Limit, LimitCounter};
use crate::limits::RECORD_BYTES_PER_LINE;
use crate::origin::Origin;
use crate::pool::{Pools, PoolsAfter};
use crate::record::{Record, RecordChange, RecordKey};
use crate::scope::Scope;
use crate::time::Instant;
use crate::unit::{LineUnit, PooledUnit, Unit};
use alloc::boxed::Box;
use alloc::sync::Arc;

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
        /// The reservation after it. Lines that a change removed stand at its end, with no units: [`Hold::without_removed_lines`] is
        /// the reservation as it stands.
        hold: Hold,
        /// The counters of the items of its lines after it, in the order of the lines.
        figures: Box<[StockCounters]>,
        /// What it did to limits; absent when none concerns it.
        limits: Option<Box<LimitEffects>>,
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
    /// A limit was created, replaced or deleted.
    Limit {
        /// The limit after it.
        limit: Limit,
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
            Self::Hold { change, hold, .. } => {
                let released = change.line_changes().unwrap_or_default().iter();
                hold.weight() + released.map(|line| line.released.len() as u64).sum::<u64>()
            }
            Self::Stock { change: StockChange::UnitsAdded(units), .. } => units.len() as u64,
            Self::Stock { change: StockChange::UnitsRetired(units), .. } => units.len() as u64,
            Self::Stock { change: StockChange::UnitsPooled { units, .. }, .. } => units.len() as u64,
            Self::Stock { .. } | Self::Sale { .. } => 0,
            Self::Limit { limit } => limit.terms.as_ref().map_or(0, |terms| terms.targets.len() as u64),
            Self::Record { record, .. } => record
                .value
                .as_ref()
                .map_or(0, |value| (value.as_bytes().len() / RECORD_BYTES_PER_LINE) as u64),
        }
    }
}

/// What a change of a reservation did to limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitEffects {
    /// The counters that moved, after it, in order of their keys.
    pub counters: Box<[(CounterKey, LimitCounter)]>,
    /// The limits that were passed by and would have refused it, in order of their ids.
    pub overridden: Box<[Label]>,
    /// The pools of those items whose pools it moved, after it, in order of its lines.
    pub pools: Box<[PoolsAfter]>,
}

impl LimitEffects {
    /// The pools of the item of the line with this number after the change, if it moved them.
    pub fn pools_of(&self, line: usize) -> Option<&Pools> {
        let moved = self.pools.iter().find(|moved| usize::try_from(moved.line) == Ok(line));
        moved.map(|moved| &moved.pools)
    }
}

/// The change of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldChange {
    /// It was created.
    Created,
    /// Its lines, its deadline or its metadata were changed.
    Amended {
        /// What each line was before, in the order of the lines. Lines that were removed stand at the end.
        lines: Box<[LineChange]>,
    },
    /// Its owner, customer or session changed.
    Transferred {
        /// Who it was for before.
        from: Box<Parties>,
    },
    /// Some of its lines left it for a new reservation.
    Split {
        /// What each line was before, as in `Amended`.
        lines: Box<[LineChange]>,
        /// The new reservation.
        into: ReservationId,
    },
    /// It was created from lines of another reservation.
    CreatedBySplit,
    /// The lines of other reservations were added to it.
    Merged {
        /// What each line was before, as in `Amended`.
        lines: Box<[LineChange]>,
        /// The other reservations.
        from: Box<[ReservationId]>,
    },
    /// Its lines were added to another reservation, and it ended.
    MergedAway,
    /// Its deadline moved.
    Extended,
    /// A payment window was opened, or an open one was prolonged.
    PaymentOpened {
        /// Whether the window was open before.
        prolonged: bool,
    },
    /// Its payment window was closed.
    PaymentClosed {
        /// The reason that the caller gave.
        reason: Option<Label>,
    },
    /// The payment that the service takes was moved on.
    PaymentAdvanced {
        /// The status of the reservation, which stays.
        status: Status,
        /// Whether the payment has another state than before. Otherwise only its tries and its next time changed.
        state_changed: bool,
    },
    /// It was confirmed: its units are sold.
    Confirmed,
    /// It was released.
    Cancelled,
    /// It expired.
    Expired,
    /// It had expired, and a new reservation took the same units again.
    Replaced,
    /// Sold units left the shelf.
    Fulfilled {
        /// What left of each line, in the order of the lines.
        lines: Box<[MovedUnits]>,
    },
    /// Sold units were returned.
    Returned {
        /// What was returned of each line, in the order of the lines.
        lines: Box<[MovedUnits]>,
        /// Number of those units of each line that had left the shelf, in the same order.
        fulfilled: Box<[u32]>,
        /// What became of the units.
        disposition: Disposition,
        /// The reason that the caller gave.
        reason: Label,
    },
}

/// Who a reservation is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parties {
    /// The owner.
    pub owner_id: Label,
    /// The buyer.
    pub customer_id: Option<Label>,
    /// The buyer's session.
    pub session_id: Option<Label>,
}

/// What a line was before a change of its reservation's lines. The line itself is the one after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineChange {
    /// Its units; 0 when the line is new.
    pub quantity_before: u32,
    /// Number of units with ids that it kept. They are the first of its units. The others are new.
    pub kept: u32,
    /// Units with ids that it gave back, with their versions after that.
    pub released: Box<[LineUnit]>,
}

/// The sold units of a line that a transition moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedUnits {
    /// Number of units.
    pub quantity: u32,
    /// Their places in the line, where units have ids.
    pub places: Box<[u32]>,
}

/// What becomes of returned units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disposition {
    /// They can be sold again.
    #[default]
    Restock,
    /// They are lost: the item's total is lowered in the same commit.
    WriteOff,
}

impl HoldChange {
    /// When the payment of the reservation is due after the change. `Some(None)`: it is not due any more. `None`: it was not due before
    /// either.
    pub fn payment_due(&self, hold: &Hold) -> Option<Option<Instant>> {
        let payment = hold.details.as_ref()?.payment.as_ref()?;
        match &payment.charge {
            Some(charge) => Some(charge.due_at),
            // The charge moved to the reservation that replaces this one.
            None if *self == Self::Replaced => Some(None),
            None => None,
        }
    }

    /// The effect on the counters of the item of one line of the reservation after the change. `number` is the line's place, from 0.
    ///
    /// This is the only place that maps a transition to counters: the rules apply it, and audits check events with it. The effect of
    /// an event depends on that event only. So a split and a merge give units back in one event and take them in the next.
    pub fn effect(&self, hold: &Hold, line: &Line, number: usize) -> CounterEffect {
        let quantity = i64::from(line.quantity);
        let moves = CounterEffect { sequence: u64::from(line.units.is_none()), ..CounterEffect::default() };
        let payment = hold.details.as_ref().and_then(|details| details.payment.as_ref());
        let paid_for =
            |state| if payment.is_some_and(|payment| payment.state == state) { quantity } else { 0 };
        match self {
            Self::Created | Self::CreatedBySplit => CounterEffect { held: quantity, active: 1, ..moves },
            Self::Amended { lines } | Self::Split { lines, .. } | Self::Merged { lines, .. } => {
                lines.get(number).map_or_else(CounterEffect::default, |change| change.effect(line))
            }
            Self::Transferred { .. }
            | Self::Extended
            | Self::Replaced
            | Self::PaymentAdvanced { .. }
            | Self::PaymentOpened { prolonged: true } => CounterEffect::default(),
            Self::PaymentOpened { prolonged: false } => {
                CounterEffect { held_under_payment: quantity, ..moves }
            }
            Self::PaymentClosed { .. } => CounterEffect { held_under_payment: -quantity, ..moves },
            Self::Confirmed => CounterEffect {
                held: -quantity,
                confirmed_sold: quantity,
                active: -1,
                held_under_payment: -paid_for(PaymentState::Completed),
                ..moves
            },
            Self::Cancelled | Self::MergedAway => CounterEffect { held: -quantity, active: -1, ..moves },
            Self::Expired => CounterEffect {
                held: -quantity,
                active: -1,
                held_under_payment: -paid_for(PaymentState::Lapsed),
                ..moves
            },
            Self::Fulfilled { lines } => match lines.get(number).map_or(0, |moved| moved.quantity) {
                0 => CounterEffect::default(),
                fulfilled => CounterEffect { fulfilled: i64::from(fulfilled), ..moves },
            },
            Self::Returned { lines, fulfilled, .. } => {
                match lines.get(number).map_or(0, |moved| moved.quantity) {
                    0 => CounterEffect::default(),
                    returned => CounterEffect {
                        confirmed_sold: -i64::from(returned),
                        fulfilled: -i64::from(fulfilled.get(number).copied().unwrap_or(0)),
                        ..moves
                    },
                }
            }
        }
    }

    /// The status that a reservation must have before this transition; `None` when it must not exist.
    pub fn status_before(&self) -> Option<Status> {
        match self {
            Self::Created | Self::CreatedBySplit => None,
            Self::Amended { .. }
            | Self::Transferred { .. }
            | Self::Split { .. }
            | Self::Merged { .. }
            | Self::MergedAway
            | Self::Extended
            | Self::PaymentOpened { .. }
            | Self::PaymentClosed { .. }
            | Self::Confirmed
            | Self::Cancelled
            | Self::Expired => Some(Status::Active),
            Self::PaymentAdvanced { status, .. } => Some(*status),
            Self::Replaced => Some(Status::Expired),
            Self::Fulfilled { .. } | Self::Returned { .. } => Some(Status::Confirmed),
        }
    }

    /// The status that a reservation has after this transition.
    pub fn status_after(&self) -> Status {
        match self {
            Self::Created
            | Self::CreatedBySplit
            | Self::Amended { .. }
            | Self::Transferred { .. }
            | Self::Split { .. }
            | Self::Merged { .. }
            | Self::Extended
            | Self::PaymentOpened { .. }
            | Self::PaymentClosed { .. } => Status::Active,
            Self::PaymentAdvanced { status, .. } => *status,
            Self::Confirmed | Self::Fulfilled { .. } | Self::Returned { .. } => Status::Confirmed,
            Self::Cancelled | Self::MergedAway => Status::Cancelled,
            Self::Expired | Self::Replaced => Status::Expired,
        }
    }

    /// Whether it changes the lines of an active reservation. Then its event also has the lines that were removed.
    pub fn line_changes(&self) -> Option<&[LineChange]> {
        match self {
            Self::Amended { lines } | Self::Split { lines, .. } | Self::Merged { lines, .. } => Some(lines),
            Self::Created
            | Self::CreatedBySplit
            | Self::Transferred { .. }
            | Self::MergedAway
            | Self::Extended
            | Self::PaymentOpened { .. }
            | Self::PaymentClosed { .. }
            | Self::PaymentAdvanced { .. }
            | Self::Confirmed
            | Self::Cancelled
            | Self::Expired
            | Self::Replaced
            | Self::Fulfilled { .. }
            | Self::Returned { .. } => None,
        }
    }
}

impl LineChange {
    /// Whether the line is as before.
    pub fn is_empty(&self, line: &Line) -> bool {
        let kept = usize::try_from(self.kept).unwrap_or(usize::MAX);
        self.quantity_before == line.quantity && self.released.is_empty() && kept == line.units().len()
    }

    fn effect(&self, line: &Line) -> CounterEffect {
        let is_there = |quantity: u32| i64::from(quantity > 0);
        if self.quantity_before == line.quantity {
            return CounterEffect::default();
        }
        CounterEffect {
            held: i64::from(line.quantity) - i64::from(self.quantity_before),
            active: is_there(line.quantity) - is_there(self.quantity_before),
            sequence: u64::from(line.units.is_none()),
            ..CounterEffect::default()
        }
    }
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
        /// The expected delivery that arrived.
        supply_id: Option<Label>,
    },
    /// Units with ids were added. Each is available and has its first version.
    UnitsAdded(Arc<[Unit]>),
    /// Units with ids were removed, each named once.
    UnitsRetired(Arc<[Label]>),
    /// The item itself went: the event has the last that was known of it.
    Deleted,
    /// A pool was created or replaced.
    PoolSet {
        /// Which pool.
        pool: Label,
    },
    /// A pool was deleted. Its free units went to general sale.
    PoolDeleted {
        /// Which pool.
        pool: Label,
    },
    /// A pool was released, because its time came. Its free units went to general sale.
    PoolReleased {
        /// Which pool.
        pool: Label,
    },
    /// Free units with ids were put into a pool or taken out of one.
    UnitsPooled {
        /// The pool that they are in now; `None` if they are general stock.
        pool: Option<Label>,
        /// The units, each once.
        units: Arc<[PooledUnit]>,
    },
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
