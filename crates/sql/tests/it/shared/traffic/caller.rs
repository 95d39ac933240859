//! One caller: what it asks, of whom, and that it asks again elsewhere under the same key.

use super::replies::RecordedReply;
use super::{OFTEN_REACHED, Place, ROWS, SEATS, limit};
use crate::fixture::{Desk, item};
use crate::workload::Stores;
use std::sync::atomic::Ordering;
use stockhold_conformance::{Maker, Random, maker};
use stockhold_domain::{
    AdjustStock, BestAvailable, Command, Envelope, Fulfilment, Instant, ItemKey, Label, LimitTerms,
    OptionalTerms, Outcome, Precondition, Rejection, ReservationId, Reserve, ReserveTerms, Scope,
};

/// Some fall due while their buyers still think, some never do.
const TTLS: [u64; 6] = [5, 30, 120, 600, 1_200, 1_800];
const EXTENSIONS: [u64; 3] = [60, 1_800, 1_800];
const DELTAS: [i64; 5] = [-40, -3, 1, 4, 8];
/// Reservations that are asked about most: the newest so many.
const RECENT: usize = 16;

pub(super) struct Caller<'a> {
    stores: Stores<'a>,
    place: &'a Place,
    maker: Maker,
    seed: u64,
    random: Random,
    /// What it has paused and resumes in the next round.
    paused: Option<Scope>,
    /// How often it has asked: what it asks at once has the same number.
    step: u64,
    told: Vec<RecordedReply>,
}

impl<'a> Caller<'a> {
    pub(super) fn new(stores: Stores<'a>, place: &'a Place, maker: Maker, seed: u64) -> Self {
        let random = Random::new(seed);
        Self { stores, place, maker, seed, random, paused: None, step: 0, told: Vec::new() }
    }

    /// What it was told, in the order asked.
    pub(super) fn call(mut self, rounds: i64) -> Vec<RecordedReply> {
        for round in 0..rounds {
            self.round(round);
            self.place.rounds.fetch_add(1, Ordering::SeqCst);
        }
        if let Some(scope) = self.paused.take() {
            let resume = self.maker.wrap(maker::resume(&scope));
            self.ask(vec![(0, vec![resume])]);
        }
        self.told
    }

    fn round(&mut self, round: i64) {
        let mut commands: Vec<Command> = self.paused.take().iter().map(maker::resume).collect();
        commands.extend((0..=self.random.below(3)).map(|_| self.command()));
        let seed = self.seed;
        let key = |n: usize| format!("{seed}-{round}-{n}");
        let envelopes: Vec<Envelope> =
            commands.into_iter().enumerate().map(|(n, command)| self.maker.keyed(&key(n), command)).collect();
        let again: Vec<Envelope> = envelopes
            .iter()
            .filter(|envelope| envelope.key_in_use().is_some())
            .map(|envelope| self.maker.again(envelope))
            .collect();
        let here = self.below(self.stores.len());
        let elsewhere = (here + 1 + self.below(self.stores.len() - 1)) % self.stores.len();
        match self.random.below(6) {
            0 => self.ask(vec![(here, envelopes), (elsewhere, again)]),
            1 => {
                self.ask(vec![(here, envelopes)]);
                self.ask(vec![(elsewhere, again)]);
            }
            2 => {
                self.ask(vec![(here, envelopes)]);
                self.use_a_key_for_something_else(elsewhere, &key);
            }
            _ => self.ask(vec![(here, envelopes)]),
        }
        let shown = if self.random.one_in(3) { self.place.hall.clone() } else { self.some_item() };
        let shown = item(self.stores[elsewhere], &shown).unwrap().figures;
        assert!(shown.confirmed_sold + shown.held <= shown.total_units, "oversold: {shown:?}");
        self.is_no_prophecy(shown.at);
    }

    /// Sends all requests at once and waits for all replies. The stores have to retry by themselves: a caller never gets a
    /// failure.
    fn ask(&mut self, asks: Vec<(usize, Vec<Envelope>)>) {
        self.step += 1;
        let sent: Vec<_> = asks
            .into_iter()
            .map(|(at, envelopes)| (at, envelopes.clone(), Desk::new().send(self.stores[at], envelopes)))
            .collect();
        for (at, envelopes, pending) in sent {
            for (asked, outcome) in envelopes.into_iter().zip(pending.outcomes()) {
                let outcome = outcome.unwrap_or_else(|failure| panic!("{failure:?} of {:?}", asked.command));
                let told = RecordedReply { step: self.step, at, asked, outcome };
                if let Some(hold) = told.hold() {
                    let newest = hold.closing.as_ref().map_or(hold.terms.created_at, |closing| closing.at);
                    self.is_no_prophecy(newest);
                    self.place.known.lock().unwrap().push(hold.id);
                }
                self.told.push(told);
            }
        }
    }

    /// Asks for something that nobody asks for, under the key of a reservation that was just made.
    fn use_a_key_for_something_else(&mut self, at: usize, key: &impl Fn(usize) -> String) {
        let mut answers = self.told.iter().filter(|told| told.step == self.step);
        let made = |told: &RecordedReply| {
            matches!((&told.asked.command, &told.outcome), (Command::Reserve(_), Outcome::Done(_)))
        };
        let Some(made) = answers.position(made) else { return };
        let other = maker::reserve_for(7, &[(&self.place.items[0], 7)]);
        let envelope = self.maker.keyed(&key(made), other);
        self.ask(vec![(at, vec![envelope])]);
        let told = self.told.last().map(|told| &told.outcome);
        assert_eq!(told, Some(&Outcome::Refused(Rejection::IdempotencyMismatch)));
    }

    fn is_no_prophecy(&self, at: Instant) {
        let latest = Instant::from_micros(self.place.latest.load(Ordering::SeqCst));
        assert!(at <= latest, "decided at {at:?}, which no clock has shown: the latest is {latest:?}");
    }

    fn command(&mut self) -> Command {
        match (self.random.below(37), self.some_reservation()) {
            (0..=4, Some(id)) => self.confirm(id),
            (5 | 6, Some(id)) => maker::release(id),
            (7..=9, Some(id)) => maker::extend(id, self.random.pick(&EXTENSIONS)),
            (10..=13, Some(id)) => self.take_back(id),
            (14 | 15, _) => self.adjust(),
            (16, _) => self.pause(),
            (17, _) => self.nonsense(),
            (18, _) if self.random.one_in(3) => self.limit(),
            (18, _) => self.operate(),
            (19..=22, _) => self.any_units(),
            (23..=25, _) => self.named_units(),
            (26 | 27, _) => {
                let best = BestAvailable { adjacent: self.random.one_in(2), ..BestAvailable::default() };
                maker::reserve_best(self.ttl(), &self.place.hall, 1 + self.random.below(3), best)
            }
            _ => self.basket(),
        }
    }

    fn confirm(&mut self, id: ReservationId) -> Command {
        match self.random.below(3) {
            0 => maker::confirm_as(id, "one"),
            1 => maker::confirm_as(id, "other"),
            _ => maker::confirm(id),
        }
    }

    fn take_back(&mut self, id: ReservationId) -> Command {
        match self.random.below(4) {
            0 => maker::return_of(id, &[(&self.some_item(), 1 + self.random.below(2))]),
            1 => maker::return_units(id, &[&self.some_seat()]),
            _ => maker::return_all(id),
        }
    }

    fn adjust(&mut self) -> Command {
        let Command::AdjustStock(adjust) = maker::adjust(&self.some_item(), self.random.pick(&DELTAS)) else {
            unreachable!("an adjustment")
        };
        let expected = self
            .random
            .one_in(4)
            .then(|| if self.random.one_in(2) { Precondition::Exists } else { Precondition::version(1) });
        Command::AdjustStock(AdjustStock { expected, ..adjust })
    }

    fn pause(&mut self) -> Command {
        let item = self.some_item();
        let scope = match self.random.below(4) {
            0 => Scope::Everything,
            1 => Scope::Location(maker::label(item.location())),
            2 => Scope::Item(self.place.hall.clone()),
            _ => Scope::Item(item),
        };
        if self.paused.is_some() {
            return self.basket();
        }
        self.paused = Some(scope.clone());
        maker::pause(&scope)
    }

    /// Seats of the last row come and go; others stay for as long as somebody has them.
    fn operate(&mut self) -> Command {
        let (hall, row) = (&self.place.hall, ROWS - 1);
        let seat = seat(row, self.below(SEATS));
        match self.random.below(4) {
            0 => maker::add_units(hall, maker::row("stalls", &row.to_string(), &[&seat])),
            1 => maker::retire(hall, &self.some_seat()),
            _ => maker::retire(hall, &seat),
        }
    }

    /// Another limit, of which the counts go on or begin at 0.
    fn limit(&mut self) -> Command {
        let (items, hall) = (&self.place.items, &self.place.hall);
        let number = usize::from(self.random.one_in(2));
        let id = &self.place.limits[number];
        let terms = limit(items, hall, number, OFTEN_REACHED / 2 + self.random.below(OFTEN_REACHED));
        match self.random.below(4) {
            0 => maker::delete_limit(id),
            1 => maker::set_limit(id, LimitTerms { targets: terms.targets[1..].into(), ..terms }),
            _ => maker::set_limit(id, terms),
        }
    }

    fn nonsense(&mut self) -> Command {
        let item = self.some_item();
        match self.random.below(5) {
            0 => maker::confirm(self.maker.no_reservation()),
            1 => maker::reserve_for(60, &[(&self.maker.item("nowhere"), 1)]),
            2 => maker::reserve_for(1_801, &[(&item, 1)]),
            3 => maker::reserve_for(60, &[(&item, 1_000_001)]),
            _ => maker::release(self.maker.no_reservation()),
        }
    }

    fn any_units(&mut self) -> Command {
        let (hall, item) = (&self.place.hall, self.some_item());
        match self.random.below(4) {
            0 => maker::reserve_partial(self.ttl(), &[(hall, 5)]),
            1 => maker::reserve_for(self.ttl(), &[(hall, 1), (&item, 1)]),
            2 => maker::reserve_for(self.ttl(), &[(&item, 1), (hall, 1)]),
            _ => maker::reserve_for(self.ttl(), &[(hall, 1 + self.random.below(3))]),
        }
    }

    fn named_units(&mut self) -> Command {
        let (one, other) = (self.some_seat(), self.some_seat());
        let both = [&*one, &*other];
        let seats = if one == other { &both[..1] } else { &both };
        maker::reserve_named(self.ttl(), &self.place.hall, seats)
    }

    /// Some items next to each other, in one order or the other.
    fn basket(&mut self) -> Command {
        let items = &self.place.items;
        let (first, count) = (self.below(items.len()), 1 + self.below(3));
        let mut keys: Vec<&ItemKey> = (0..count).map(|n| &items[(first + n) % items.len()]).collect();
        keys.sort_unstable();
        if self.random.one_in(2) {
            keys.reverse();
        }
        let partial = self.random.one_in(5);
        let most = if partial { 20 } else { 4 };
        let wants: Vec<_> = keys.into_iter().map(|key| (key, 1 + self.random.below(most))).collect();
        let fulfilment = if partial { Fulfilment::Partial } else { Fulfilment::All };
        let ttl = Some(maker::seconds(self.ttl()));
        let customer_id: Option<Label> = self.random.one_in(3).then(|| maker::label("customer"));
        let optional = OptionalTerms { customer_id, ..OptionalTerms::default() };
        let terms = ReserveTerms::new(maker::label("owner"), optional);
        Command::Reserve(Reserve { ttl, fulfilment, terms, ..maker::reserve_of(&wants) })
    }

    fn ttl(&mut self) -> u64 {
        self.random.pick(&TTLS)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(end as u64)).unwrap()
    }

    fn some_item(&mut self) -> ItemKey {
        self.random.pick(&self.place.items)
    }

    fn some_seat(&mut self) -> String {
        seat(self.below(ROWS), self.below(SEATS))
    }

    fn some_reservation(&mut self) -> Option<ReservationId> {
        let known = self.place.known.lock().unwrap();
        if known.is_empty() {
            return None;
        }
        let from = if self.random.one_in(3) { 0 } else { known.len().saturating_sub(RECENT) };
        Some(self.random.pick(&known[from..]))
    }
}

fn seat(row: usize, seat: usize) -> String {
    format!("r{row:02}-{seat:02}")
}
