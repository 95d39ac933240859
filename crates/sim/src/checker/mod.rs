//! Checks the invariants of the specification. The simulator reports every request, every decision with its order and
//! instant, every durable commit and every answer. The checker runs the commands of each durable commit through the
//! reference model, checks its events one after the other, and compares its answers.
//!
//! It must never ask the store for the expected result.

mod answers;
mod branches;
mod commits;
mod recovered;

mod backorder_checks;
mod charge_checks;
mod command_checks;
mod counter_checks;
mod event_checks;
mod hold_checks;
mod limit_answers;
mod limit_checks;
mod line_checks;

pub(crate) use answers::{Condition, SentRequest};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use stockhold_domain::{
    Command, Envelope, EventId, HoldLimits, Instant, ItemKey, KeyHash, Label, Line, Outcome, ReservationId,
    Seconds,
};
use stockhold_model::START;
use stockhold_model::{Model, NaiveState, audit};
use stockhold_store::QueryResult;

/// Shortest retention of idempotency keys: the default of the embedded store.
pub(crate) const RETENTION: Seconds = match Seconds::new(24 * 3_600) {
    Ok(day) => day,
    Err(_) => Seconds::DEFAULT_TTL,
};
/// A full recount follows one of this many commits.
const AUDIT_EVERY: u64 = 8;

/// An invariant that was broken, and how.
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

/// The result of a check.
pub(crate) type Checked = Result<(), Broken>;

pub(crate) fn broken<T>(rule: &'static str, what: impl Into<String>) -> Result<T, Broken> {
    Err(Broken { rule, what: what.into() })
}

/// Something whose transitions are numbered: a counted item by its sequence, or a unit by its version.
type Turner = (ItemKey, Option<Label>);

/// The versions of a reservation after which answers have to say the same.
#[derive(Clone, Copy, Debug, Default)]
struct ChangedIn {
    units: u64,
    deadline: u64,
}

/// The newest turn of each that answers had reported when the request was sent.
type Heard = Rc<BTreeMap<Turner, u64>>;

/// The turns in a line of a reservation.
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

/// The checker.
pub(crate) struct Checker {
    model: Model,
    /// The state that the durable events and keys add up to.
    fold: NaiveState,
    /// Number, next position and instant of the newest durable commit.
    number: u64,
    next_position: u64,
    at: Instant,
    /// The latest instant that the store's clock ever showed.
    newest: Instant,
    asked: BTreeMap<u64, SentRequest>,
    commands: BTreeMap<EventId, (Envelope, Heard)>,
    /// Commands that are durable and not answered.
    outcomes: BTreeMap<EventId, Outcome>,
    found: BTreeMap<u64, QueryResult>,
    /// Commands that were answered as not done.
    undone: BTreeSet<EventId>,
    /// Commands that were answered with an unknown outcome.
    unknown: BTreeSet<EventId>,
    /// The command of each turn, known by the id of its first event.
    turns: BTreeMap<(Turner, u64), EventId>,
    /// The ids of all events.
    event_ids: BTreeSet<EventId>,
    heard: Heard,
    /// Units that were retired and items that were deleted. A new one with the same id starts with the first version.
    retired: BTreeSet<Turner>,
    /// The units and the deadline of each version of a reservation.
    versions: BTreeMap<(ReservationId, u64), (u64, Instant)>,
    /// The newest version of each reservation in which its units changed, and in which its deadline could become earlier.
    changed: BTreeMap<ReservationId, ChangedIn>,
    /// The newest version of each reservation that an answer showed.
    acknowledged: BTreeMap<ReservationId, u64>,
    /// The commit in which each key was used, its principal and its request.
    key_used: BTreeMap<KeyHash, (u64, Label, Command)>,
    /// The commit in which each reservation was confirmed.
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
            event_ids: BTreeSet::new(),
            heard: Rc::default(),
            retired: BTreeSet::new(),
            versions: BTreeMap::new(),
            changed: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            key_used: BTreeMap::new(),
            sold: BTreeMap::new(),
            started_at: 0,
        }
    }

    /// Number of durable commits.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The newest durable instant.
    pub(crate) fn instant(&self) -> Instant {
        self.at
    }

    /// The durable state.
    pub(crate) fn durable(&self) -> &NaiveState {
        &self.fold
    }

    /// The latest instant that the store's clock ever showed.
    pub(crate) fn clock_showed(&mut self, newest: Instant) {
        self.newest = newest;
    }

    /// Records a request that arrived at the store, with the envelopes of its commands as the callers intended them.
    pub(crate) fn asks(&mut self, ticket: u64, asked: SentRequest, envelopes: Vec<Envelope>) {
        for envelope in envelopes {
            self.commands.insert(envelope.fresh.event, (envelope, Rc::clone(&self.heard)));
        }
        self.asked.insert(ticket, asked);
    }

    /// Whether an unanswered request uses a key.
    pub(crate) fn is_under_way(&self, hash: KeyHash) -> bool {
        let uses = |by: &EventId| {
            let command = self.commands.get(by);
            command.is_some_and(|(envelope, _)| envelope.key_in_use().is_some_and(|key| key.hash == hash))
        };
        self.asked.values().any(|asked| asked.commands().any(uses))
    }

    /// Records that the machine stopped: no open request gets an answer.
    pub(crate) fn went_down(&mut self) {
        self.asked.clear();
        self.commands.clear();
        self.outcomes.clear();
        self.found.clear();
        self.undone.clear();
        self.unknown.clear();
        self.started_at = self.number;
    }

    /// Tickets without an answer.
    pub(crate) fn unanswered(&self) -> Vec<u64> {
        self.asked.keys().copied().collect()
    }

    /// Whether a key's retention has passed, so that the store may have forgotten it.
    fn may_be_forgotten(&self, hash: KeyHash) -> bool {
        self.fold.keys.get(&hash).is_some_and(|record| record.at.deadline(RETENTION) < self.newest)
    }

    fn recount(&self) -> Checked {
        audit(&self.fold).or_else(|what| broken("S1", what))
    }
}
