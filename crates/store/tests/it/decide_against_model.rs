//! `decide` over the naive state against the model: histories that shrink. After every step the outcomes are equal, the
//! books balance, nothing runs backwards, and the state is the fold of its events.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use stockhold_conformance::{
    ChangeKind, ChangeOp, Op, OpContext, Random, START, SourceOp, TTLS, TermsOp, maker,
};
use stockhold_domain::{
    Effects, Envelope, Event, HoldLimits, Instant, KeyRecord, Label, LocationLimits, Outcome, Seconds,
    Status, UnitIndex, decide,
};
use stockhold_model::{Model, NaiveState, audit, check_successor, holds_agree, outcomes_agree};

/// How a clock moves before a command.
#[derive(Clone, Copy, Debug)]
enum Tick {
    /// By so many microseconds.
    By(i64),
    /// To a reservation's deadline and so many microseconds more, unless that is gone.
    Deadline(u8, i64),
}

type Step = (Tick, Op);

const MILLI: i64 = 1_000;
const SECOND: i64 = 1_000_000;
const STEPS: std::ops::Range<usize> = 1..80;
const CASES: u32 = 400;

fn ticks(step: impl Strategy<Value = i64> + 'static) -> impl Strategy<Value = Tick> {
    let edges = select(vec![-MILLI, -1, 0, 1, MILLI]);
    prop_oneof![
        2 => step.prop_map(Tick::By),
        1 => (any::<u8>(), edges).prop_map(|(hold, edge)| Tick::Deadline(hold, edge)),
    ]
}

/// A clock that goes forwards only, once [`Tick::Deadline`] is held back.
fn forwards() -> impl Strategy<Value = Tick> {
    ticks(select(vec![0, 0, 1, MILLI, 999 * MILLI, SECOND, 3 * SECOND, 700 * SECOND]))
}

/// A clock that steps both ways.
fn both_ways() -> impl Strategy<Value = Tick> {
    ticks(select(vec![0, 1, SECOND, 60 * SECOND, -1, -SECOND, -60 * SECOND, -700 * SECOND]))
}

fn key() -> impl Strategy<Value = Option<u8>> {
    option::weighted(0.3, 0..6_u8)
}

fn lines() -> impl Strategy<Value = Vec<(u8, u8)>> {
    let quantity = prop_oneof![20 => 1..6_u8, 1 => Just(u8::MAX)];
    vec((prop_oneof![12 => 0..3_u8, 1 => Just(3)], quantity), 1..5)
}

fn ttl() -> impl Strategy<Value = u32> {
    select(TTLS.to_vec())
}

fn op() -> impl Strategy<Value = Op> {
    let hold = || prop_oneof![15 => 0..12_u8, 1 => Just(31)];
    let expected = || option::weighted(0.2, 0..8_u8);
    let time = || option::of(prop_oneof![4 => ttl(), 1 => Just(0)]);
    prop_oneof![
        10 => (lines(), option::weighted(0.8, ttl()), any::<bool>(), key())
            .prop_map(|(lines, ttl, partial, key)| Op::Reserve { lines, ttl, partial, key }),
        4 => (hold(), option::of(0..2_u8), key())
            .prop_map(|(hold, order, key)| Op::Confirm { hold, order, key }),
        3 => (hold(), key()).prop_map(|(hold, key)| Op::Release { hold, key }),
        3 => (hold(), ttl(), key()).prop_map(|(hold, ttl, key)| Op::Extend { hold, ttl, key }),
        3 => (hold(), option::of(lines()), key())
            .prop_map(|(hold, lines, key)| Op::Return { hold, lines, key }),
        3 => (0..5_u8, option::weighted(0.8, 0..16_u8), option::of(0..4_u8), time(), time(), expected())
            .prop_map(|(item, total, safety_stock, default_ttl, max_hold, expected)| {
                Op::SetStock { item, total, safety_stock, default_ttl, max_hold, expected }
            }),
        2 => (0..5_u8, -6..7_i8, expected(), key())
            .prop_map(|(item, delta, expected, key)| Op::AdjustStock { item, delta, expected, key }),
        2 => (
            0..5_u8,
            option::of(0..6_u8),
            option::of((0..3_u8, 0..16_u8)),
            option::of(0..4_u8),
            option::weighted(0.3, 0..3_u8),
            option::weighted(0.7, any::<u8>()),
            option::of(any::<u8>())
        )
            .prop_map(|(item, allowance, window, supplies, gated, price, master)| {
                Op::Terms(TermsOp::Set { item, allowance, window, supplies, gated, price, master })
            }),
        2 => (0..3_u8, option::weighted(0.7, 0..12_u8), any::<u8>())
            .prop_map(|(limit, most, which)| Op::Terms(TermsOp::Limit { limit, most, which })),
        3 => (0..4_u8, 0..2_u8, option::weighted(0.8, 0..8_u8), any::<u8>())
            .prop_map(|(item, pool, units, which)| Op::Terms(TermsOp::Pool { item, pool, units, which })),
        1 => (0..4_u8, -3..7_i8, 0..4_u8, key()).prop_map(
            |(item, delta, supply, key)| Op::Terms(TermsOp::Receive { item, delta, supply, key })
        ),
        2 => (0..5_u8, expected(), key())
            .prop_map(|(item, expected, key)| Op::DeleteItem { item, expected, key }),
        1 => (0..6_u8, prop::bool::weighted(0.4)).prop_map(|(scope, paused)| Op::SetSale { scope, paused }),
        1 => Just(Op::Sweep),
        5 => (lines(), any::<u8>(), option::weighted(0.8, ttl()), any::<bool>(), key()).prop_map(
            |(lines, which, ttl, partial, key)| Op::Source(SourceOp { lines, which, ttl, partial, key })
        ),
        12 => (select(ChangeKind::ALL.to_vec()), hold(), lines(), any::<u8>(), key())
            .prop_map(|(kind, hold, lines, which, key)| Op::Change(ChangeOp { kind, hold, lines, which, key })),
        2 => any::<u8>().prop_map(|sent| Op::Retry { sent }),
        2 => (any::<u8>(), any::<u8>(), option::weighted(0.7, any::<u8>()), any::<u8>(), key())
            .prop_map(|(record, version, value, change, key)| Op::SetRecord { record, version, value, change, key }),
    ]
}

/// Ops of a shop that has a hall.
fn op_of_a_hall() -> impl Strategy<Value = Op> {
    let seats =
        (any::<u8>(), any::<u8>(), any::<u8>(), prop::bool::weighted(0.2), ttl(), any::<bool>(), key())
            .prop_map(|(count, how, which, counted, ttl, partial, key)| Op::ReserveUnits {
                count,
                how,
                which,
                counted,
                ttl,
                partial,
                key,
            });
    prop_oneof![
        8 => seats,
        2 => (any::<u8>(), any::<u8>(), any::<u8>(), prop::bool::weighted(0.8))
            .prop_map(|(row, first, count, placed)| Op::AddUnits { row, first, count, placed }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(row, seat)| Op::RetireUnit { row, seat }),
        3 => (0..12_u8, any::<u8>(), key()).prop_map(|(hold, which, key)| Op::ReturnUnits { hold, which, key }),
        3 => (0..2_u8, any::<u8>(), any::<u8>(), any::<u8>())
            .prop_map(|(pool, row, seat, which)| Op::Terms(TermsOp::UnitPool { pool, row, seat, which })),
        2 => (0..2_u8, option::weighted(0.8, 0..8_u8), any::<u8>())
            .prop_map(|(pool, units, which)| Op::Terms(TermsOp::Pool { item: 5, pool, units, which })),
        12 => op(),
    ]
}

/// Rules under which every level has something to say.
fn rules() -> HoldLimits {
    let seconds = |seconds| Some(Seconds::new(seconds).unwrap());
    let context = OpContext::new(0, "");
    let hub = Label::new(context.items()[2].location()).unwrap();
    let limits = LocationLimits { default_ttl: seconds(3), max_hold: seconds(60), max_payment: seconds(100) };
    HoldLimits { locations: vec![(hub, limits)], ..HoldLimits::default() }
}

/// The rules and the model, side by side.
struct Pair {
    state: NaiveState,
    model: Model,
    rules: HoldLimits,
    context: OpContext,
    events: Vec<Event>,
    keys: Vec<KeyRecord>,
    now: Instant,
    newest: Instant,
}

impl Pair {
    fn new() -> Self {
        let rules = rules();
        let mut pair = Self {
            state: NaiveState::default(),
            model: Model::new(rules.clone()),
            rules,
            context: OpContext::new(0, ""),
            events: Vec::new(),
            keys: Vec::new(),
            now: START,
            newest: START,
        };
        for item in [0, 1, 2, 4] {
            let (safety_stock, default_ttl, max_hold, expected) = (None, None, None, None);
            let op =
                Op::SetStock { item, total: Some(5 + item), safety_stock, default_ttl, max_hold, expected };
            pair.run(&op, true);
        }
        pair
    }

    /// The same with a hall that has a few seats.
    fn with_unit_item() -> Self {
        let mut pair = Self::new();
        pair.context = OpContext::with_unit_item(0, "");
        let hall = pair.context.items().last().unwrap().clone();
        let opened = pair.context.wrap(maker::create_unit_item(&hall));
        pair.run_envelope(&opened, true);
        for row in 0..3 {
            pair.run(&Op::AddUnits { row, first: 0, count: 5, placed: true }, true);
        }
        pair
    }

    fn tick(&mut self, tick: Tick, monotone: bool) {
        let now = match tick {
            Tick::By(micros) => self.now.micros() + micros,
            Tick::Deadline(hold, micros) => {
                let active = self.state.holds.values().filter(|hold| hold.status == Status::Active);
                let deadlines: Vec<_> = active.map(|hold| hold.expires_at.micros()).collect();
                let n = usize::from(hold).checked_rem(deadlines.len());
                n.map_or(self.now.micros(), |n| deadlines[n] + micros)
            }
        };
        let now = Instant::from_micros(now);
        self.now = if monotone { now.max(self.now) } else { now };
        self.newest = self.newest.max(self.now);
    }

    /// Runs one op, and checks everything that can be said after it.
    fn run(&mut self, op: &Op, monotone: bool) {
        let envelope = self.context.envelope(op);
        self.run_envelope(&envelope, monotone);
    }

    fn run_envelope(&mut self, envelope: &Envelope, monotone: bool) {
        let before = self.state.clone();
        let outcome = self.decide(envelope);
        if monotone {
            let expected = self.model.run(envelope, self.now);
            assert!(
                outcomes_agree(&expected, &outcome),
                "{envelope:?}\nexpected {expected:?}\ngot      {outcome:?}"
            );
            let items: Vec<_> = self.model.items();
            assert_eq!(items.len(), self.state.items.len());
            for item in &items {
                assert_eq!(Some(item), self.state.items.get(&item.key));
                let units =
                    self.state.unit_indexes.get(&item.key).into_iter().flat_map(UnitIndex::iter).cloned();
                let units: Vec<_> = units.map(|u| (u.id, u.place, u.status, u.version, u.pool)).collect();
                assert_eq!(self.model.units(&item.key), units);
            }
            for key in self.context.records() {
                let there = self.state.records.get(&key).filter(|record| record.value.is_some());
                assert_eq!(self.model.service_record(&key).as_ref(), there);
            }
            assert_eq!(self.model.holds().len(), self.state.holds.len());
            for hold in self.model.holds() {
                let got = &self.state.holds[&hold.id];
                assert!(holds_agree(hold, got), "expected {hold:?}\ngot      {got:?}");
            }
        }
        audit(&self.state).unwrap();
        check_successor(&before, &self.state).unwrap();
        for hold in self.state.holds.values().filter(|hold| hold.status == Status::Expired) {
            let at = hold.closing.as_ref().unwrap().at;
            assert!(at <= self.newest, "expired at an instant that no clock has shown: {hold:?}");
        }
        assert_eq!(NaiveState::fold(&self.events, &self.keys), self.state);
    }

    fn decide(&mut self, envelope: &Envelope) -> Outcome {
        loop {
            let mut effects = Effects::default();
            let outcome = decide(&mut self.state, &self.rules, envelope, self.now, &mut effects).unwrap();
            self.events.extend(effects.events);
            self.keys.extend(effects.keys);
            if outcome != Outcome::Later {
                return outcome;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decide_is_the_model(steps in vec((forwards(), op()), STEPS)) {
        let mut pair = Pair::new();
        for (tick, op) in &steps {
            pair.tick(*tick, true);
            pair.run(op, true);
        }
    }

    #[test]
    fn decide_is_the_model_with_units_too(steps in vec((forwards(), op_of_a_hall()), STEPS)) {
        let mut pair = Pair::with_unit_item();
        for (tick, op) in &steps {
            pair.tick(*tick, true);
            pair.run(op, true);
        }
    }

    #[test]
    fn books_of_units_balance_whatever_the_clock_does(steps in vec((both_ways(), op_of_a_hall()), STEPS)) {
        let mut pair = Pair::with_unit_item();
        for (tick, op) in &steps {
            pair.tick(*tick, false);
            pair.run(op, false);
        }
    }

    #[test]
    fn books_balance_whatever_the_clock_does(steps in vec((both_ways(), op()), STEPS)) {
        let steps: Vec<Step> = steps;
        let mut pair = Pair::new();
        for (tick, op) in &steps {
            pair.tick(*tick, false);
            pair.run(op, false);
        }
    }
}

/// Histories of which one in so many must see each outcome: a generator that never gets there tests nothing.
#[test]
fn histories_get_everywhere() {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut pair = if seed % 3 == 0 { Pair::with_unit_item() } else { Pair::new() };
        for _ in 0..60 {
            pair.tick(Tick::By(random.pick(&[0, MILLI, SECOND, 3 * SECOND])), true);
            let op =
                if seed % 3 == 0 { Op::random_with_unit_item(&mut random) } else { Op::random(&mut random) };
            let envelope = pair.context.envelope(&op);
            let outcome = format!("{:?}", pair.decide(&envelope));
            let words: String = outcome.chars().take_while(|c| c.is_alphabetic() || *c == '(').collect();
            *seen.entry(words).or_default() += 1;
        }
    }
    for words in [
        "Done(Reservation(Hold",
        "Done(Item",
        "Done(Sale",
        "Done(Swept",
        "Replayed(Reservation(Hold",
        "Replayed(Item",
        "Refused(InvalidRequest(FieldError",
        "Refused(ModeMismatch",
        "Refused(UnknownItem(",
        "Refused(SalePaused(",
        "Refused(QuantityLimit",
        "Refused(UnitsUnavailable(",
        "Refused(UnknownUnit",
        "Refused(UnitInUse",
        "Done(Units",
        "Refused(InsufficientInventory(",
        "Refused(IdempotencyMismatch",
        "Refused(UnknownReservation(",
        "Refused(ReservationConfirmed",
        "Refused(ReservationCancelled(",
        "Refused(ReservationExpired",
        "Refused(ReservationNotConfirmed(",
        "Refused(ExtensionLimit",
        "Refused(TtlTooLong",
        "Refused(ReturnExceedsSold",
        "Refused(PaymentInProgress",
        "Refused(SplitExceedsHeld",
        "Refused(FulfilExceedsSold",
        "Refused(NotReacquired",
        "Refused(BelowCommitted",
        "Done(ItemDeleted",
        "Replayed(ItemDeleted",
        "Refused(ItemInUse",
        "Refused(PreconditionFailed",
        "Done(Record(Record",
        "Replayed(Record(Record",
        "Refused(RecordChanged",
    ] {
        assert!(seen.keys().any(|key| key.starts_with(words)), "never seen: {words}, but {seen:#?}");
    }
}
