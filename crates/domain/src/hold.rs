//! A reservation: its lines, its terms, and where it stands. Values alone; what may become of one is for deciding.

use crate::id::{EventId, ReservationId};
use crate::item::ItemKey;
use crate::label::Label;
use crate::time::Instant;
use crate::unit::{LineUnit, LineUnits};
use alloc::boxed::Box;
use alloc::sync::Arc;

/// Where a reservation stands. Every state but `Active` is terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Its units are held.
    Active,
    /// Its units are sold.
    Confirmed,
    /// It was released.
    Cancelled,
    /// Its deadline came first.
    Expired,
}

/// One item of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which item.
    pub item: ItemKey,
    /// Units asked for, 1 to [`crate::limits::LINE_QUANTITY`].
    pub requested: u32,
    /// Units granted, 1 to `requested`.
    pub quantity: u32,
    /// Units that came back after the sale, at most `quantity`.
    pub returned: u32,
    /// The item's sequence at the line's latest transition; 0 where units have versions of their own.
    pub sequence: u64,
    /// Which units, where they have ids: as many as `quantity`.
    pub units: Option<Arc<LineUnits>>,
}

impl Line {
    /// The units with ids, none where units are counted.
    pub fn units(&self) -> &[LineUnit] {
        self.units.as_deref().map(LineUnits::all).unwrap_or_default()
    }
}

/// The terms of a reservation that the rules fix when it is created. They never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldTerms {
    /// The terms that the caller gave.
    pub reserve: ReserveTerms,
    /// When the reservation was created.
    pub created_at: Instant,
    /// The latest deadline that extensions can reach.
    pub max_expires_at: Instant,
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
    /// Terms with an owner; `optional` is dropped when it is empty.
    pub fn new(owner_id: Label, optional: OptionalTerms) -> Self {
        let optional = (optional != OptionalTerms::default()).then(|| Box::new(optional));
        Self { owner_id, optional }
    }
}

/// The optional terms of a reservation. The rules store them and never read them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionalTerms {
    /// Sales channel.
    pub channel: Option<Label>,
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
    /// The order it became.
    pub order_id: Option<Label>,
}

/// One reservation: a hold by one owner on one or more lines, which share one deadline and one fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its id.
    pub id: ReservationId,
    /// Where it stands.
    pub status: Status,
    /// When it falls due: live while `now < expires_at`.
    pub expires_at: Instant,
    /// The terms it was created with.
    pub terms: Arc<HoldTerms>,
    /// Its lines, one per item, in the order asked for.
    pub lines: Arc<[Line]>,
    /// How it ended; present exactly when the status is terminal.
    pub closing: Option<Box<Closing>>,
    /// Its latest event.
    pub last_event: EventId,
}

impl Hold {
    /// Whether the deadline has come (equality is due).
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.expires_at
    }

    /// Units granted over all lines.
    pub fn quantity(&self) -> u64 {
        self.lines.iter().map(|line| u64::from(line.quantity)).sum()
    }

    /// What it weighs in a batch: its lines, and units with ids.
    pub fn weight(&self) -> u64 {
        self.lines.iter().map(|line| 1 + line.units().len() as u64).sum()
    }
}
