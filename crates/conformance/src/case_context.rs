//! The context of a case: a world, a clock and common checks.

use super::World;
use std::sync::atomic::{AtomicU64, Ordering};
use stockhold_domain::{
    Command, Envelope, Event, Hold, HoldChange, Instant, Item, ItemKey, Outcome, Rejection, Reply,
    ReservationId, Seconds, Status, StockCounters, Transition, Unit, limits,
};
use stockhold_model::START;
use stockhold_model::maker::{self, Maker};
use stockhold_store::{EventRow, Query, QueryResult, UnitFilter};

/// Fails the case, with what was expected, unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(format!("{} ({}:{})", format_args!($($what)+), file!(), line!()));
        }
    };
}

/// Fails the case, with both sides, unless they are equal.
macro_rules! ensure_eq {
    ($got:expr, $expected:expr, $($what:tt)+) => {
        match (&$got, &$expected) {
            (got, expected) => ensure!(
                *got == *expected,
                "{}:\n expected {expected:?}\n got      {got:?}\n",
                format_args!($($what)+)
            ),
        }
    };
}

/// Fails the case unless a value matches a pattern. The error has the value.
macro_rules! ensure_matches {
    ($got:expr, $pattern:pat $(if $guard:expr)?, $($what:tt)+) => {
        match &$got {
            $pattern $(if $guard)? => {}
            got => ensure!(
                false,
                "{}:\n expected {}\n got      {got:?}\n",
                format_args!($($what)+),
                stringify!($pattern $(if $guard)?)
            ),
        }
    };
}

pub(super) type Checked<T = ()> = Result<T, String>;

pub(super) const SECOND: i64 = 1_000_000;
pub(super) const MILLI: i64 = 1_000;
const DAY: i64 = 24 * 3_600 * SECOND;

/// Number of cases that ran in this process. Each case has ids and items of its own and starts on a later day, so all
/// can share a world.
static CASE_CONTEXTS: AtomicU64 = AtomicU64::new(0);

/// A running case.
pub(super) struct CaseContext<'w> {
    pub(super) world: &'w mut dyn World,
    pub(super) maker: Maker,
    now: Instant,
}

impl<'w> CaseContext<'w> {
    pub(super) fn new(world: &'w mut dyn World) -> Self {
        let number = CASE_CONTEXTS.fetch_add(1, Ordering::Relaxed);
        // After the longest hold that an earlier case can have left.
        let apart = i64::from(limits::TTL_CEILING_SECONDS) * SECOND + DAY;
        let days = i64::try_from(number).unwrap_or_default() * apart;
        let now = Instant::from_micros(START.micros() + days);
        world.set_clock(now);
        Self { world, maker: Maker::new(number ^ 0xca5e_0000_0000, &format!("case{number}-")), now }
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Sets the clock, forwards or back.
    pub(super) fn set_clock(&mut self, now: Instant) {
        self.now = now;
        self.world.set_clock(now);
    }

    /// Moves the clock by microseconds, forwards or back.
    pub(super) fn advance(&mut self, micros: i64) {
        self.set_clock(Instant::from_micros(self.now.micros() + micros));
    }

    /// Creates an item with this many units.
    pub(super) fn create_item(&mut self, name: &str, total: u64) -> Checked<ItemKey> {
        let item = self.maker.item(name);
        self.expect_done(maker::set_stock(&item, total))?;
        Ok(item)
    }

    /// Submits commands together.
    pub(super) fn submit(&mut self, envelopes: Vec<Envelope>) -> Checked<Vec<Outcome>> {
        let asked = envelopes.len();
        let answers = self.world.submit(envelopes);
        ensure_eq!(answers.len(), asked, "answers to as many commands");
        let mut outcomes = Vec::with_capacity(asked);
        for (n, answer) in answers.into_iter().enumerate() {
            let outcome = answer.map_err(|failure| format!("command {n} of {asked} failed: {failure}"))?;
            ensure!(outcome != Outcome::Later, "command {n} of {asked} was answered with later");
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// Submits commands together, each without a key.
    pub(super) fn submit_all(&mut self, commands: Vec<Command>) -> Checked<Vec<Outcome>> {
        let envelopes = commands.into_iter().map(|command| self.maker.wrap(command)).collect();
        self.submit(envelopes)
    }

    /// Submits commands in one request, each without a key, so that they are decided in their order.
    pub(super) fn submit_in_order(&mut self, commands: Vec<Command>) -> Checked<Vec<Outcome>> {
        let envelopes: Vec<_> = commands.into_iter().map(|command| self.maker.wrap(command)).collect();
        let asked = envelopes.len();
        let answers = self.world.submit_in_order(envelopes);
        ensure_eq!(answers.len(), asked, "answers to as many commands");
        answers.into_iter().map(|answer| answer.map_err(|failure| failure.to_string())).collect()
    }

    /// Submits two commands together, or in one request.
    pub(super) fn submit_two(&mut self, one_request: bool, commands: [Command; 2]) -> Checked<[Outcome; 2]> {
        let commands = Vec::from(commands);
        let outcomes = if one_request { self.submit_in_order(commands) } else { self.submit_all(commands) };
        outcomes?.try_into().map_err(|outcomes| format!("not two answers: {outcomes:?}"))
    }

    pub(super) fn submit_one(&mut self, envelope: Envelope) -> Checked<Outcome> {
        let mut outcomes = self.submit(vec![envelope])?;
        outcomes.pop().ok_or_else(|| "no answer".to_owned())
    }

    pub(super) fn run(&mut self, command: Command) -> Checked<Outcome> {
        let envelope = self.maker.wrap(command);
        self.submit_one(envelope)
    }

    pub(super) fn expect_done(&mut self, command: Command) -> Checked<Reply> {
        let asked = format!("{command:?}");
        match self.run(command)? {
            Outcome::Done(reply) => Ok(reply),
            other => Err(format!("{asked} was answered with {other:?}")),
        }
    }

    pub(super) fn expect_refused(&mut self, command: Command) -> Checked<Rejection> {
        let asked = format!("{command:?}");
        match self.run(command)? {
            Outcome::Refused(rejection) => Ok(rejection),
            other => Err(format!("{asked} was not refused: {other:?}")),
        }
    }

    /// A command whose answer is a reservation.
    pub(super) fn hold(&mut self, command: Command) -> Checked<Hold> {
        match self.expect_done(command)? {
            Reply::Reservation(hold) => Ok(hold),
            other => Err(format!("no reservation but {other:?}")),
        }
    }

    /// A command whose answer is an item.
    pub(super) fn item(&mut self, command: Command) -> Checked<Item> {
        match self.expect_done(command)? {
            Reply::Item { item, .. } => Ok(item),
            other => Err(format!("no item but {other:?}")),
        }
    }

    /// Sweeps until no hold is due. Returns the number of expired holds.
    pub(super) fn sweep(&mut self) -> Checked<u64> {
        let mut all = 0;
        loop {
            match self.expect_done(Command::Sweep)? {
                Reply::Swept { expired: 0, .. } => return Ok(all),
                Reply::Swept { expired, .. } => all += u64::from(expired),
                other => return Err(format!("a sweep was answered with {other:?}")),
            }
        }
    }

    /// An item as the world shows it.
    pub(super) fn read_item(&mut self, key: &ItemKey) -> Checked<Item> {
        self.world.item(key).ok_or_else(|| format!("{key:?} is not shown"))
    }

    /// A reservation as the world shows it.
    pub(super) fn read_hold(&mut self, id: ReservationId) -> Checked<Hold> {
        self.world.hold(id).ok_or_else(|| format!("reservation {id} is not shown"))
    }

    pub(super) fn expect_status(&mut self, id: ReservationId, status: Status) -> Checked {
        let hold = self.read_hold(id)?;
        ensure_eq!(hold.status, status, "status of reservation {id}");
        Ok(())
    }

    /// Checks an item's sold and held units.
    pub(super) fn expect_counters(&mut self, key: &ItemKey, sold: u64, held: u64) -> Checked {
        let item = self.read_item(key)?;
        ensure_eq!(
            (item.figures.confirmed_sold, item.figures.held),
            (sold, held),
            "sold and held of {key:?}"
        );
        Ok(())
    }

    /// Checks all counters of an item. The instant of `expected` does not matter.
    pub(super) fn expect_figures(&mut self, key: &ItemKey, expected: StockCounters) -> Checked {
        let shown = self.read_item(key)?.figures;
        ensure_eq!(shown, StockCounters { at: shown.at, ..expected }, "figures of {key:?}");
        Ok(())
    }

    /// The reservations whose payment is due at an instant. A world may have those of other cases too.
    pub(super) fn due_payments(&mut self, now: Instant) -> Checked<Vec<ReservationId>> {
        match self.world.find(Query::DuePayments { now, limit: 100_000 }) {
            Ok(QueryResult::DuePayments(due)) => Ok(due),
            other => Err(format!("due payments were answered with {other:?}")),
        }
    }

    /// The events of a reservation, the oldest first.
    pub(super) fn history(&mut self, id: ReservationId) -> Checked<Vec<Event>> {
        match self.world.find(Query::History(id)) {
            Ok(QueryResult::History(Some(rows))) => Ok(rows.into_iter().map(|row| row.event).collect()),
            other => Err(format!("the history of {id} was answered with {other:?}")),
        }
    }

    /// The latest event of a reservation: the change, the reservation with the lines that the change removed, and the
    /// figures of each line's item.
    pub(super) fn latest_change(
        &mut self,
        id: ReservationId,
    ) -> Checked<(HoldChange, Hold, Box<[StockCounters]>)> {
        match self.history(id)?.pop().map(|event| event.transition) {
            Some(Transition::Hold { change, hold, figures, .. }) => Ok((change, hold, figures)),
            other => Err(format!("the latest event of {id} is {other:?}")),
        }
    }

    /// Committed events of these items, the oldest first.
    pub(super) fn events_of(&mut self, items: &[&ItemKey]) -> Vec<Event> {
        let items: Vec<ItemKey> = items.iter().map(|item| (*item).clone()).collect();
        self.event_rows_of(&items).into_iter().map(|row| row.event).collect()
    }

    /// The same, with their positions.
    pub(super) fn event_rows_of(&mut self, items: &[ItemKey]) -> Vec<EventRow> {
        let about = |row: &EventRow| match &row.event.transition {
            Transition::Hold { hold, .. } => hold.lines.iter().any(|line| items.contains(&line.item)),
            Transition::Stock { item, .. } => items.contains(&item.key),
            Transition::Sale { .. } | Transition::Limit { .. } | Transition::Record { .. } => false,
        };
        self.world.events().into_iter().filter(about).collect()
    }
}

/// Counters that are all 0.
pub(super) fn no_counters() -> StockCounters {
    StockCounters::none(START)
}

/// The time in this many microseconds.
pub(super) fn after(at: Instant, micros: i64) -> Instant {
    Instant::from_micros(at.micros() + micros)
}

/// The deadline of a hold of this many seconds that is made now.
pub(super) fn deadline(now: Instant, ttl: u64) -> Instant {
    now.deadline(Seconds::new(ttl).unwrap_or(Seconds::DEFAULT_TTL))
}

/// All units of an item, read in pages.
pub(super) fn units_of(world: &mut dyn World, item: &ItemKey) -> Vec<Unit> {
    const PAGE: usize = 7;
    let mut page = UnitFilter { item: item.clone(), status: None, section: None, after: None, limit: PAGE };
    let mut all = Vec::new();
    loop {
        match world.find(Query::Units(page.clone())) {
            Ok(QueryResult::Units(Some(found))) => {
                all.extend(found.units);
                page.after = found.next;
            }
            other => panic!("asked for units, it answered {other:?}"),
        }
        if page.after.is_none() {
            return all;
        }
    }
}
