//! Holds a store to what SPEC calls its invariants. It is told what was asked, what was decided in which order and at what
//! instant, what became durable, and what was answered, and it takes none of it on trust: the commands of each durable
//! commit go through the reference model in their order, its events through the books, its answers must be those.
//!
//! It never asks the store what is right.

mod answers;
mod books;
mod commits;
mod recovered;

pub(crate) use answers::{Asked, Condition};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use stockhold_domain::{
    Command, Envelope, EventId, HoldLimits, Instant, ItemKey, KeyHash, Label, Line, Outcome, ReservationId,
    Seconds,
};
use stockhold_store::QueryResult;
use stockhold_store::conformance::START;
use stockhold_store::model::{Model, NaiveState, audit};

/// How long keys are kept at least: as the embedded store's default.
pub(crate) const RETENTION: Seconds = match Seconds::new(24 * 3_600) {
    Ok(day) => day,
    Err(_) => Seconds::DEFAULT_TTL,
};
/// One commit in so many is followed by a recount of everything.
const AUDIT_EVERY: u64 = 8;

/// A rule that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) rule: &'static str,
    pub(crate) what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// What a check comes to.
pub(crate) type Checked = Result<(), Broken>;

pub(crate) fn broken<T>(rule: &'static str, what: impl Into<String>) -> Result<T, Broken> {
    Err(Broken { rule, what: what.into() })
}

/// What transitions are counted of: a counted item by its sequence, or a unit of an item by its version.
type Turner = (ItemKey, Option<Label>);

/// How far the newest answers said that each has come when something was asked.
type Heard = Rc<BTreeMap<Turner, u64>>;

/// The turns that a line tells of.
fn turns_of(line: &Line) -> Vec<(Turner, u64)> {
    match &line.units {
        None => vec![((line.item.clone(), None), line.sequence)],
        Some(units) => units
            .all()
            .iter()
            .map(|unit| ((line.item.clone(), Some(unit.id.clone())), unit.version))
            .collect(),
    }
}

/// See the module.
pub(crate) struct Checker {
    model: Model,
    /// What the durable events and keys come to.
    fold: NaiveState,
    /// Number, next position and instant of the newest durable commit.
    number: u64,
    next_position: u64,
    at: Instant,
    /// The latest instant that the store's clock has ever shown.
    newest: Instant,
    asked: BTreeMap<u64, Asked>,
    commands: BTreeMap<EventId, (Envelope, Heard)>,
    /// What was made durable and not answered yet.
    outcomes: BTreeMap<EventId, Outcome>,
    found: BTreeMap<u64, QueryResult>,
    /// Those who were told that nothing was done.
    undone: BTreeSet<EventId>,
    /// Those who were told that nobody knows.
    unknown: BTreeSet<EventId>,
    /// Which event took a turn.
    turns: BTreeMap<(Turner, u64), EventId>,
    heard: Heard,
    /// Units that were retired and items that were deleted: one that comes again under the same id begins anew.
    retired: BTreeSet<Turner>,
    /// What callers were told of reservations: units and deadline.
    acknowledged: BTreeMap<ReservationId, (u64, Instant)>,
    /// In which commit a key was used, by whom and for what.
    key_used: BTreeMap<KeyHash, (u64, Label, Command)>,
    /// In which commit a reservation was sold.
    sold: BTreeMap<ReservationId, u64>,
    /// The newest commit at the last start.
    started_at: u64,
}

impl Checker {
    pub(crate) fn new() -> Self {
        Self {
            model: Model::new(HoldLimits::default()),
            fold: NaiveState::default(),
            number: 0,
            next_position: 1,
            at: Instant::from_micros(i64::MIN),
            newest: START,
            asked: BTreeMap::new(),
            commands: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            found: BTreeMap::new(),
            undone: BTreeSet::new(),
            unknown: BTreeSet::new(),
            turns: BTreeMap::new(),
            heard: Rc::default(),
            retired: BTreeSet::new(),
            acknowledged: BTreeMap::new(),
            key_used: BTreeMap::new(),
            sold: BTreeMap::new(),
            started_at: 0,
        }
    }

    /// How many commits are durable.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The newest durable instant.
    pub(crate) fn instant(&self) -> Instant {
        self.at
    }

    /// What is durable.
    pub(crate) fn durable(&self) -> &NaiveState {
        &self.fold
    }

    /// The latest instant that the store's clock has ever shown.
    pub(crate) fn clock_showed(&mut self, newest: Instant) {
        self.newest = newest;
    }

    /// Something arrived at the store, with the envelopes of its commands as their callers meant them.
    pub(crate) fn asks(&mut self, ticket: u64, asked: Asked, envelopes: Vec<Envelope>) {
        for envelope in envelopes {
            self.commands.insert(envelope.fresh.event, (envelope, Rc::clone(&self.heard)));
        }
        self.asked.insert(ticket, asked);
    }

    /// Whether a key is used by something that was asked and not answered.
    pub(crate) fn is_under_way(&self, hash: KeyHash) -> bool {
        let uses = |by: &EventId| {
            let command = self.commands.get(by);
            command.is_some_and(|(envelope, _)| envelope.key_in_use().is_some_and(|key| key.hash == hash))
        };
        self.asked.values().any(|asked| asked.commands().any(uses))
    }

    /// The machine went down: nobody is answered any more.
    pub(crate) fn went_down(&mut self) {
        self.asked.clear();
        self.commands.clear();
        self.outcomes.clear();
        self.found.clear();
        self.undone.clear();
        self.unknown.clear();
        self.started_at = self.number;
    }

    /// Tickets that were never answered.
    pub(crate) fn unanswered(&self) -> Vec<u64> {
        self.asked.keys().copied().collect()
    }

    /// Whether a store may have forgotten a key by now.
    fn may_be_forgotten(&self, hash: KeyHash) -> bool {
        self.fold.keys.get(&hash).is_some_and(|record| record.at.deadline(RETENTION) < self.newest)
    }

    fn recount(&self) -> Checked {
        audit(&self.fold).or_else(|what| broken("S1", what))
    }
}
