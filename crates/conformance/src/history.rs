//! Random histories. One is compared with the model answer by answer. In the other the clock steps in both directions,
//! and invariants are checked that hold for any clock. Both need a world of their own. An error names the seed.

use super::World;
use super::case_context::units_of;
use super::lists;
use super::unit_histories::compare;
use std::collections::BTreeSet;
use stockhold_domain::{
    Envelope, Event, HoldLimits, Instant, Item, Mode, Outcome, ReservationId, Seconds, Status, UnitIndex,
};
use stockhold_model::Random;
use stockhold_model::maker;
use stockhold_model::{Model, NaiveState, audit, check_successor, holds_agree, outcomes_agree};
use stockhold_model::{ORDERS, Op, OpContext, START};
use stockhold_store::{ReservationFilter, for_each_unit};

const MILLI: i64 = 1_000;
const SECOND: i64 = 1_000_000;
/// Most commands that are submitted at once.
const BATCH: u64 = 6;
/// Reservations of a page of an order. Few, so that there are several pages.
const ORDER_PAGE: usize = 3;
/// One of this many steps restarts the store.
const RESTART_EVERY: u64 = 12;
/// Moves of the clock between steps, in microseconds: none, small ones, and ones past the usual times to live.
const TICKS: [i64; 8] = [0, 1, MILLI, 999 * MILLI, SECOND, 2 * SECOND, 30 * SECOND, 700 * SECOND];
/// Distances from a deadline to which the clock is set, in microseconds.
const EDGES: [i64; 5] = [-MILLI, -1, 0, 1, MILLI];

/// Runs a random history on a new world and on the model, step by step, with batches, retries and restarts. The clock
/// only goes forwards. Every answer, item and reservation must be equal to the model's.
pub fn random_history(world: &mut dyn World, seed: u64, steps: u32) -> Result<(), String> {
    let mut history = History::new(world, seed);
    for step in 0..steps {
        history.step(false).map_err(|what| format!("seed {seed}, step {step}: {what}"))?;
    }
    history.settle().map_err(|what| format!("seed {seed}, after {steps} steps: {what}"))
}

/// Runs a random history on a new world with a clock that steps in both directions, also over restarts. Nothing may
/// expire early, no terminal reservation may change, no item's time may run backwards, and the counters must add up.
pub fn stepping_history(world: &mut dyn World, seed: u64, steps: u32) -> Result<(), String> {
    let mut history = History::new(world, seed);
    for step in 0..steps {
        history.step(true).map_err(|what| format!("seed {seed}, step {step}: {what}"))?;
    }
    Ok(())
}

/// Runs a random history like [`random_history`] that also has an item whose units have ids.
pub fn units_history(world: &mut dyn World, seed: u64, steps: u32) -> Result<(), String> {
    let mut history = History::new(world, seed);
    history.context = OpContext::with_unit_item(seed ^ 0x5eed, &format!("{seed:x}-"));
    history.hall = true;
    for step in 0..steps {
        history.step(false).map_err(|what| format!("seed {seed}, step {step}: {what}"))?;
    }
    history.settle().map_err(|what| format!("seed {seed}, after {steps} steps: {what}"))
}

struct History<'w> {
    /// Whether there is an item whose units have ids.
    hall: bool,
    world: &'w mut dyn World,
    random: Random,
    context: OpContext,
    model: Model,
    now: Instant,
    /// The latest time that the clock ever showed.
    newest: Instant,
    before: NaiveState,
}

impl<'w> History<'w> {
    fn new(world: &'w mut dyn World, seed: u64) -> Self {
        Self {
            hall: false,
            world,
            random: Random::new(seed),
            context: OpContext::new(seed ^ 0x5eed, &format!("{seed:x}-")),
            model: Model::new(HoldLimits::default()),
            now: START,
            newest: START,
            before: NaiveState::default(),
        }
    }

    fn step(&mut self, stepping: bool) -> Result<(), String> {
        if self.random.one_in(RESTART_EVERY) {
            self.world.restart();
        }
        self.tick(stepping);
        let batch = self.batch();
        let answers = self.world.submit(batch.clone());
        if answers.len() != batch.len() {
            return Err(format!("{} answers to {} commands", answers.len(), batch.len()));
        }
        for (n, (envelope, answer)) in batch.iter().zip(answers).enumerate() {
            let got = answer.map_err(|failure| format!("command {n}, {:?}: {failure}", envelope.command))?;
            if got == Outcome::Later {
                return Err(format!("command {n} was answered with later: {:?}", envelope.command));
            }
            if stepping {
                continue;
            }
            let expected = self.model.run(envelope, self.now);
            if !outcomes_agree(&expected, &got) {
                let now = self.now.micros();
                return Err(format!(
                    "command {n} at {now}, {:?}:\n expected {expected:?}\n got      {got:?}",
                    envelope.command
                ));
            }
        }
        if stepping { self.compare_with_before() } else { self.compare_with_model() }
    }

    /// The first step creates the items. The others are random. Sometimes a hold and the command that ends it are in
    /// one batch.
    fn batch(&mut self) -> Vec<Envelope> {
        let mut ops = Vec::new();
        if self.context.holds().is_empty() {
            let (safety_stock, default_ttl, max_hold, expected) = (None, Some(2), None, None);
            ops.extend((0..3).map(|item| {
                let total = Some(6 + item);
                Op::SetStock { item, total, safety_stock, default_ttl, max_hold, expected }
            }));
        }
        if self.hall && self.model.holds().is_empty() {
            ops.push(Op::CreateUnitItem);
            ops.extend((0..3).map(|row| Op::AddUnits { row, first: 0, count: 5, placed: true }));
        }
        for _ in 0..=self.random.below(BATCH) {
            ops.push(if self.hall {
                Op::random_with_unit_item(&mut self.random)
            } else {
                Op::random(&mut self.random)
            });
        }
        ops.iter().map(|op| self.context.envelope(op)).collect()
    }

    fn tick(&mut self, stepping: bool) {
        let deadlines: Vec<Instant> = if stepping {
            self.before.holds.values().filter(|h| h.status == Status::Active).map(|h| h.expires_at).collect()
        } else {
            self.model.holds().iter().filter(|h| h.status == Status::Active).map(|h| h.expires_at).collect()
        };
        let mut now = if !deadlines.is_empty() && self.random.one_in(3) {
            let edge = self.random.pick(&EDGES);
            Instant::from_micros(self.random.pick(&deadlines).micros().saturating_add(edge))
        } else {
            let ways = if self.random.one_in(8) { TICKS.len() } else { TICKS.len() - 2 };
            Instant::from_micros(self.now.micros() + self.random.pick(&TICKS[..ways]))
        };
        if stepping && self.random.one_in(3) {
            now = Instant::from_micros(self.now.micros() - self.random.pick(&TICKS));
        }
        self.now = if stepping { now } else { now.max(self.now) };
        self.newest = self.newest.max(self.now);
        self.world.set_clock(self.now);
    }

    fn compare_with_model(&mut self) -> Result<(), String> {
        for key in self.context.items() {
            let (expected, got) = (self.model.item(key), self.world.item(key));
            if expected != got {
                return Err(format!("{key:?}:\n expected {expected:?}\n got      {got:?}"));
            }
            if expected.is_some_and(|item| item.mode == Mode::Units) {
                let (expected, got) = (self.model.units(key), units_of(self.world, key));
                let got: Vec<_> =
                    got.into_iter().map(|u| (u.id, u.place, u.status, u.version, u.pool)).collect();
                if expected != got {
                    return Err(format!("units of {key:?}:\n expected {expected:?}\n got      {got:?}"));
                }
            }
        }
        for key in self.context.records() {
            let (expected, got) = (self.model.service_record(&key), self.world.record(&key));
            if expected != got {
                return Err(format!("{key:?}:\n expected {expected:?}\n got      {got:?}"));
            }
        }
        // The reservations that recent commands named, and all of them at the end.
        let recent: Vec<_> = self.context.holds().iter().rev().take(8).copied().collect();
        recent.into_iter().try_for_each(|id| self.compare_hold(id))
    }

    fn compare_hold(&mut self, id: ReservationId) -> Result<(), String> {
        let (expected, got) = (self.model.hold(id), self.world.hold(id));
        let same = match (&expected, &got) {
            (Some(expected), Some(got)) => holds_agree(expected, got),
            (expected, got) => expected.is_none() && got.is_none(),
        };
        if same {
            Ok(())
        } else {
            Err(format!("reservation {id}:\n expected {expected:?}\n got      {got:?}"))
        }
    }

    fn compare_with_before(&mut self) -> Result<(), String> {
        let after = seen(self.world, &self.context);
        audit(&after)?;
        check_successor(&self.before, &after)?;
        for hold in after.holds.values() {
            let expired_at = hold.closing.as_ref().filter(|_| hold.status == Status::Expired).map(|c| c.at);
            if expired_at.is_some_and(|at| at > self.newest) {
                return Err(format!("expired at an instant that no clock has shown: {hold:?}"));
            }
        }
        self.before = after;
        Ok(())
    }

    /// The end of a history: everything falls due, and everything is compared before and after a restart.
    fn settle(&mut self) -> Result<(), String> {
        self.now = self.now.deadline(Seconds::DEFAULT_MAX_HOLD);
        self.world.set_clock(self.now);
        let sweep = self.context.envelope(&Op::Sweep);
        let answers = self.world.submit(vec![sweep.clone()]);
        let expected = self.model.run(&sweep, self.now);
        if !matches!(answers.as_slice(), [Ok(got)] if outcomes_agree(&expected, got)) {
            return Err(format!("the last sweep: expected {expected:?}, got {answers:?}"));
        }
        for restarted in [false, true] {
            if restarted {
                self.world.restart();
            }
            self.compare_with_model()?;
            for id in self.context.holds().to_vec() {
                self.compare_hold(id)?;
            }
            fold_is_state(self.world, &self.context)?;
            self.compare_orders()?;
            if self.hall {
                self.compare_units()?;
            }
        }
        Ok(())
    }

    /// The list of each order.
    fn compare_orders(&mut self) -> Result<(), String> {
        let events = self.world.events();
        for order in ORDERS {
            let filter = ReservationFilter {
                order_id: Some(maker::label(order)),
                limit: ORDER_PAGE,
                ..ReservationFilter::default()
            };
            lists::check(self.world, &events, &filter)?;
        }
        Ok(())
    }

    /// Every unit that there was at any time.
    fn compare_units(&mut self) -> Result<(), String> {
        let events = self.world.events();
        let mut units = BTreeSet::new();
        for row in &events {
            for_each_unit(&row.event.transition, |item, unit, _| {
                units.insert((item, unit));
            });
        }
        units.into_iter().try_for_each(|(item, unit)| compare(self.world, &events, item, unit.as_str()))
    }
}

/// The items and reservations of a history as a world shows them.
fn seen(world: &mut dyn World, context: &OpContext) -> NaiveState {
    let mut state = NaiveState::default();
    for key in context.items() {
        if let Some(item) = world.item(key) {
            if item.mode == Mode::Units && item.version > Item::first_version(item.created_at) {
                let mut unit_index = UnitIndex::default();
                unit_index.add(units_of(world, key));
                state.unit_indexes.insert(key.clone(), unit_index);
            }
            state.items.insert(key.clone(), item);
        }
    }
    for id in context.holds() {
        if let Some(hold) = world.hold(*id) {
            state.holds.insert(*id, hold);
        }
    }
    for key in context.records() {
        if let Some(record) = world.record(&key) {
            state.records.insert(key, record);
        }
    }
    state
}

/// An item that was never given units has an empty unit index, or none.
fn same_unit_indexes(one: &NaiveState, other: &NaiveState) -> bool {
    let some = |state: &NaiveState| {
        let unit_indexes = state.unit_indexes.iter().filter(|(_, unit_index)| !unit_index.is_empty());
        unit_indexes.map(|(key, unit_index)| (key.clone(), unit_index.clone())).collect::<Vec<_>>()
    };
    some(one) == some(other)
}

/// State is the fold of the committed events, whose positions are dense from 1.
fn fold_is_state(world: &mut dyn World, context: &OpContext) -> Result<(), String> {
    let rows = world.events();
    if let Some((n, row)) = (1..).zip(&rows).find(|(n, row)| row.position != *n) {
        return Err(format!("event number {n} has position {}", row.position));
    }
    let mut ids: Vec<_> = rows.iter().map(|row| row.event.id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != rows.len() {
        return Err(format!("{} events have {} ids", rows.len(), ids.len()));
    }
    let events: Vec<Event> = rows.into_iter().map(|row| row.event).collect();
    let mut folded = NaiveState::fold(&events, []);
    // Deleted records are not shown.
    folded.records.retain(|_, record| record.value.is_some());
    let shown = seen(world, context);
    let same = folded.items == shown.items && folded.holds == shown.holds && folded.records == shown.records;
    if !same || !same_unit_indexes(&folded, &shown) {
        return Err(format!("state is not the fold of its events:\n state {shown:?}\n fold  {folded:?}"));
    }
    audit(&folded)
}
