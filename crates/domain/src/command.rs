//! What can be asked of the rules. A command brings along whatever deciding can't make by itself: ids, the digests of its key
//! and of its request, who asks. What can't be written down here can't be asked.

use crate::hold::ReserveTerms;
use crate::id::{EventId, Fingerprint, KeyHash, RequestId, ReservationId};
use crate::item::{ItemKey, Mode};
use crate::label::Label;
use crate::limits::BASKET_LINES;
use crate::record::{RecordChange, RecordKey, RecordValue};
use crate::state::Scope;
use crate::time::Seconds;
use crate::unit::Attributes;
use crate::unit_selection::UnitSelection;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A command with what a store needs to run it once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// What is asked.
    pub command: Command,
    /// The caller's idempotency key, if one was given.
    pub key: Option<IdempotencyKey>,
    /// Ids for whatever the command makes; given here so that deciding stays pure.
    pub fresh: GeneratedIds,
    /// Who asks.
    pub origin: Origin,
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
    /// What it is stored under.
    pub hash: KeyHash,
    /// What was asked under it.
    pub fingerprint: Fingerprint,
}

/// Ids for what a command makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratedIds {
    /// Of the reservation.
    pub reservation: ReservationId,
    /// Of the command's own event; those of holds that it expires have theirs.
    pub event: EventId,
}

/// Who asks: goes into the command's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The principal.
    pub actor: Label,
    /// The request.
    pub request_id: RequestId,
    /// The caller's trace.
    pub trace: Option<Trace>,
}

/// A W3C trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Trace id.
    pub trace_id: u128,
    /// Parent span id.
    pub span_id: u64,
    /// Flags.
    pub flags: u8,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Hold units for a time.
    Reserve(Reserve),
    /// Turn a hold into a sale.
    Confirm(Confirm),
    /// Give a hold's units back.
    Release(Release),
    /// Move a hold's deadline.
    Extend(Extend),
    /// Take sold units back.
    Return(Return),
    /// Create an item or set its figures.
    SetStock(SetStock),
    /// Move an item's total.
    AdjustStock(AdjustStock),
    /// Add units with ids to an item.
    AddUnits(AddUnits),
    /// Let a unit with an id go.
    RetireUnit(RetireUnit),
    /// Pause or resume a sale.
    SetSale(SetSale),
    /// Expire what is due, as far as one batch may.
    Sweep,
    /// Create, change or delete a record.
    SetRecord(SetRecord),
}

/// See [`Command::Reserve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// The lines that are requested.
    pub basket: Basket,
    /// How long the hold lasts; the items' default when absent.
    pub ttl: Option<Seconds>,
    /// What to do with a line that does not fit.
    pub fulfilment: Fulfilment,
    /// Who the hold is for, and the caller's descriptive fields.
    pub terms: ReserveTerms,
}

/// What to do with a line that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fulfilment {
    /// Every line in full, or nothing.
    #[default]
    All,
    /// Each line gets what there is; lines that get nothing are left out.
    Partial,
}

/// One wish: an item and how many units of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedLine {
    /// Which item.
    pub item: ItemKey,
    /// How many units; at least 1, judged against the limit by the rules.
    pub quantity: u64,
}

/// What a reserve asks for: 1 to [`BASKET_LINES`] wishes, summed to one per item, each at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basket {
    lines: Box<[RequestedLine]>,
    /// What is said of units, wish by wish; absent when nothing is.
    selections: Option<Box<[Option<UnitSelection>]>>,
}

/// Why wishes are no basket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BasketError {
    /// No line at all.
    Empty,
    /// More than [`BASKET_LINES`]; the number found.
    TooMany(usize),
    /// A quantity of 0; the line's number, from 0.
    Zero(usize),
    /// A unit is named twice; the line's number, from 0.
    Twice(usize),
    /// Two lines on one item say different things of its units; the later line's number, from 0.
    Differs(usize),
}

impl Basket {
    /// Sums wishes for the same item, keeping the order in which items were first named. A sum past a `u64` stays at
    /// its end, which is past any limit.
    pub fn new(lines: Vec<RequestedLine>) -> Result<Self, BasketError> {
        if lines.is_empty() {
            return Err(BasketError::Empty);
        }
        if lines.len() > BASKET_LINES {
            return Err(BasketError::TooMany(lines.len()));
        }
        if let Some(line) = lines.iter().position(|line| line.quantity == 0) {
            return Err(BasketError::Zero(line));
        }
        if lines.len() == 1 {
            return Ok(Self { lines: lines.into(), selections: None });
        }
        let mut sums: BTreeMap<ItemKey, u64> = BTreeMap::new();
        for line in &lines {
            let sum = sums.entry(line.item.clone()).or_default();
            *sum = sum.saturating_add(line.quantity);
        }
        // Each item leaves the map with its first wish, so later wishes for it find nothing.
        let summed = lines.into_iter().filter_map(|line| {
            let quantity = sums.remove(&line.item)?;
            Some(RequestedLine { quantity, ..line })
        });
        Ok(Self { lines: summed.collect(), selections: None })
    }

    /// The same for wishes that may say which units. The quantity of one that names them is their number. Lines on one
    /// item that name units are joined, and those that say the same are summed.
    pub fn with_selections(
        mut lines: Vec<(RequestedLine, Option<UnitSelection>)>,
    ) -> Result<Self, BasketError> {
        if lines.iter().all(|(_, selection)| selection.is_none()) {
            return Self::new(lines.into_iter().map(|(line, _)| line).collect());
        }
        let mut joined: BTreeMap<ItemKey, Option<UnitSelection>> = BTreeMap::new();
        let mut named: BTreeSet<(ItemKey, Label)> = BTreeSet::new();
        for (number, (line, selection)) in lines.iter_mut().enumerate() {
            if let Some(UnitSelection::Named(units)) = selection {
                line.quantity = units.len() as u64;
                if !units.iter().all(|unit| named.insert((line.item.clone(), unit.clone()))) {
                    return Err(BasketError::Twice(number));
                }
            }
            match (joined.get_mut(&line.item), selection.take()) {
                (None, selection) => {
                    joined.insert(line.item.clone(), selection);
                }
                (Some(Some(UnitSelection::Named(known))), Some(UnitSelection::Named(more))) => {
                    known.extend(more);
                }
                (Some(known), selection) if *known == selection => {}
                (Some(_), _) => return Err(BasketError::Differs(number)),
            }
        }
        let basket = Self::new(lines.into_iter().map(|(line, _)| line).collect())?;
        let selections = basket.lines.iter().map(|line| joined.remove(&line.item).flatten()).collect();
        Ok(Self { selections: Some(selections), ..basket })
    }

    /// The wishes, one per item.
    pub fn lines(&self) -> &[RequestedLine] {
        &self.lines
    }

    /// What the wish with this number says of units.
    pub fn selection(&self, number: usize) -> Option<&UnitSelection> {
        self.selections.as_deref()?.get(number)?.as_ref()
    }

    /// What is said of units, wish by wish; `None` when nothing is.
    pub fn selections(&self) -> Option<&[Option<UnitSelection>]> {
        self.selections.as_deref()
    }
}

/// See [`Command::Confirm`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// Which reservation.
    pub id: ReservationId,
    /// The order it becomes.
    pub order_id: Option<Label>,
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
    /// How long from now.
    pub ttl: Seconds,
}

/// See [`Command::Return`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// Which reservation.
    pub id: ReservationId,
    /// What comes back.
    pub selection: ReturnSelection,
    /// Why.
    pub reason: Label,
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReturnSelection {
    /// Everything that has not come back yet.
    All,
    /// So many units of these items, or the units that are named.
    Lines(Basket),
    /// These units, whichever lines have them; each named once.
    Units(Vec<Label>),
}

/// A change of one optional setting of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Leave it as it is. A new item has none.
    #[default]
    Keep,
    /// Clear it: the item has no value of its own afterwards.
    Clear,
    /// Set it to this value.
    Set(T),
}

impl<T> Patch<T> {
    /// The same of another kind of value.
    pub fn map<U>(self, value: impl FnOnce(T) -> U) -> Patch<U> {
        match self {
            Self::Keep => Patch::Keep,
            Self::Clear => Patch::Clear,
            Self::Set(old) => Patch::Set(value(old)),
        }
    }

    /// What the item has then, which had `before`.
    pub fn over(self, before: Option<T>) -> Option<T> {
        match self {
            Self::Keep => before,
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }
}

/// See [`Command::SetStock`]. Settings that are not named stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetStock {
    /// Which item.
    pub item: ItemKey,
    /// Units that exist, at most [`crate::limits::TOTAL_UNITS`]. It may be left out where the item exists, and stays then. Where
    /// units have ids it is nothing else than their number.
    pub total_units: Option<u64>,
    /// How units are told apart; counted when absent on a new item.
    pub mode: Option<Mode>,
    /// Units kept from sale.
    pub safety_stock: Option<u64>,
    /// Time to live of a hold that names none.
    pub default_ttl: Patch<Seconds>,
    /// Longest hold.
    pub max_hold: Patch<Seconds>,
    /// The caller's own data.
    pub metadata: Patch<Arc<str>>,
    /// What the item has to be like.
    pub expected: Option<Precondition>,
}

/// What an item has to be like for a change to be made to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// It is not there.
    Absent,
    /// It is there, whatever its version.
    Exists,
    /// It is there at one of these versions; at none of them when there is none.
    VersionIn(Box<[u64]>),
}

impl Precondition {
    /// It is there at this version.
    pub fn version(version: u64) -> Self {
        Self::VersionIn([version].into())
    }

    /// Whether an item of this version is so; `None` is an item that is not there.
    pub fn is_met(&self, version: Option<u64>) -> bool {
        match (self, version) {
            (Self::Absent, version) => version.is_none(),
            (Self::Exists, version) => version.is_some(),
            (Self::VersionIn(versions), Some(version)) => versions.contains(&version),
            (Self::VersionIn(_), None) => false,
        }
    }
}

/// See [`Command::AdjustStock`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdjustStock {
    /// Which item.
    pub item: ItemKey,
    /// Units that arrived (or, negative, left).
    pub delta: i64,
    /// Why.
    pub reason: Label,
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

/// A unit as an operator posts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUnit {
    /// Its id.
    pub id: Label,
    /// Its position; the one after the highest when absent.
    pub position: Option<u64>,
    /// Part of the hall.
    pub section: Option<Label>,
    /// Row of the section.
    pub row: Option<Label>,
    /// What is painted on it.
    pub number: Option<Label>,
    /// What it is like.
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
    /// What it concerns.
    pub scope: Scope,
    /// Paused, or open.
    pub paused: bool,
    /// Why.
    pub reason: Option<Label>,
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
