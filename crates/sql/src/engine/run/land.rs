//! What comes back from the database: sessions, results, what has to go on, what is answered.

use super::super::attempt::{Boarded, Stop};
use super::super::batch::{self, Settled};
use super::super::combine::{Batch, Claims, Task, Teller, Unit, fitting};
use super::super::dialect::{Dialect, Rows};
use super::super::known::Held;
use super::super::meters;
use super::super::options::OpenError;
use super::super::post::Post;
use super::super::sweep::{Due, Round, Seen};
use super::super::wants::Plan;
use super::{Flight, Floor, Landed};
use std::collections::HashMap;
use std::sync::Arc;
use stockhold_domain::Outcome;
use stockhold_store::{Answer, Failure};
use tokio::task::Id;
use tokio::time::Instant as Moment;

impl<D: Dialect> Floor<D> {
    /// Takes a finished task in.
    pub(super) fn land(&mut self, landed: Result<(Id, Landed<D::Session>), tokio::task::JoinError>) {
        let (id, landed) = match landed {
            Ok((id, landed)) => (id, Some(landed)),
            Err(error) => (error.id(), None),
        };
        let flight = self.flights.remove(&id);
        if let Some(Flight::Batch(claims, _) | Flight::Sweep(claims, _)) = &flight {
            self.combiner.landed(claims);
        }
        if let (None, Some(Flight::Boarding(claims, _))) = (&landed, &flight) {
            self.combiner.landed(claims);
        }
        let Some(landed) = landed else {
            batch::alarm("a task of the store panicked");
            if let Some(flight) = flight {
                self.crashed(flight);
            }
            return;
        };
        match landed {
            Landed::Opened(opened) => self.opened(opened),
            Landed::Settled(settled, batch) => self.settled(*settled, batch),
            Landed::Boarded(session, batch, boarded) => self.boarded(session, batch, boarded),
            Landed::Swept(swept, waited) => {
                self.give(swept.session);
                let now = Moment::now();
                self.sweeper.failed(&swept.failed, now);
                if swept.expired > 0 {
                    self.chores.has_committed();
                }
                if waited {
                    self.sweeper.has_waited(&swept.locked, now);
                } else {
                    self.round.passed += swept.locked.len();
                    let patient = self.round.patient;
                    self.sweeper.locked_out(&swept.locked_items, swept.locked, patient, now);
                    self.end_sweep_of(swept.expired);
                }
                self.wait_for_locks();
            }
            Landed::Resolved(session, units, rows) => {
                self.resolving = false;
                self.give(session);
                self.resolved(units, rows);
            }
            Landed::Quick(done) => {
                self.quick_reads -= 1;
                self.give(done);
            }
            Landed::Slow(done) => {
                self.slow_reads -= 1;
                self.give(done);
            }
            Landed::Looked(session, seen) => {
                self.give(session);
                self.begin_sweep(seen);
            }
            Landed::Numbered(session) => {
                self.give(session);
                self.chores.number.done(false);
            }
            Landed::Unfinished => {
                tracing::error!("{}", OpenError::Unfinished);
                self.chores.number.done(false);
                self.pool.give_up();
                self.pool.give(None);
                self.shown.set_fatal_error(Some(OpenError::Unfinished.to_string()));
            }
            Landed::Forgot(session, more) => {
                self.give(session);
                self.chores.keys.done(more);
            }
        }
    }

    /// Puts right what a task that panicked had begun. Whoever waited for its answers was told when they were dropped, except
    /// for sequences, which have commands elsewhere.
    fn crashed(&mut self, flight: Flight) {
        match flight {
            Flight::Open => {
                self.opened(Err(OpenError::Thread("it panicked".to_owned())));
                return;
            }
            Flight::Batch(_, sequences) | Flight::Boarding(_, sequences) => self.end_sequences(sequences),
            Flight::Resolve(counted, sequences) => {
                self.resolving = false;
                self.mailbox.begun(counted);
                self.end_sequences(sequences);
            }
            Flight::Sweep(_, true) => self.sweeper.has_waited(&[], Moment::now()),
            Flight::Sweep(_, false) => self.end_sweep_of(0),
            Flight::Quick => self.quick_reads -= 1,
            Flight::Slow => self.slow_reads -= 1,
            Flight::Look => self.chores.sweep.done(false),
            Flight::Number => self.chores.number.done(false),
            Flight::Forget => self.chores.keys.done(false),
        }
        self.give(None);
    }

    fn end_sequences(&mut self, sequences: Vec<u64>) {
        let mut post = Post::default();
        for number in sequences {
            let gone = self.sequences.refuse(number, &Failure::OutcomeUnknown, &mut post);
            self.mailbox.begun(gone);
        }
    }

    fn opened(&mut self, opened: Result<D::Session, OpenError>) {
        match opened {
            Ok(session) => {
                self.pool.opened(session);
                if self.shown.fatal_error().is_some() {
                    tracing::info!("connected to the {} database again", D::NAME);
                    self.shown.set_fatal_error(None);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "no connection to the {} database", D::NAME);
                self.pool.could_not_open(error.to_string());
                if self.pool.is_cut_off() {
                    self.shown.set_fatal_error(Some(error.to_string()));
                }
            }
        }
    }

    /// Takes a session back, or takes note that it is lost.
    fn give(&mut self, session: Option<D::Session>) {
        let lost = session.is_none();
        self.pool.give(session);
        if lost && self.pool.is_cut_off() {
            self.shown.set_fatal_error(Some("the connections to the database were lost".to_owned()));
        }
    }

    fn resolved(&mut self, units: Vec<Unit>, rows: Result<Rows, Failure>) {
        match rows {
            Ok(rows) => {
                // Not out of what is remembered, which may be less.
                let found: HashMap<_, _> = rows.holds.iter().map(|hold| (hold.id, Held::by(hold))).collect();
                for hold in &rows.holds {
                    self.known.learn(hold);
                }
                for mut unit in units {
                    unit.resolve(|id| found.get(&id).cloned());
                    self.combiner.add(self.sequences.cut(unit));
                }
            }
            Err(failure) => {
                let mut post = Post::default();
                for unit in units {
                    self.refuse(unit, &failure, &mut post);
                }
            }
        }
    }

    /// What a batch may touch is locked: whoever has come for it since goes along. Or it could not be, which is settled with it.
    fn boarded(&mut self, session: D::Session, mut batch: Batch, boarded: Result<Box<Boarded>, Stop>) {
        if let Ok(boarded) = &boarded {
            let room = boarded.room();
            let counted = self.combiner.top_up(&mut batch, |asked| room.takes(asked));
            self.mailbox.begun(counted);
        }
        self.send(session, batch, Some(boarded.map(|boarded| *boarded)));
    }

    fn settled(&mut self, settled: Settled<D::Session>, batch: Batch) {
        let Settled { session, results, beyond, plan, tries, .. } = settled;
        self.give(session);
        self.known.learn_short(plan.short());
        self.known.learn_halls(plan.halls());
        let Task::Commands(units) = batch.task else { return };
        let mut post = Post::default();
        let (mut later, mut beyond_units, mut going_on) = (Vec::new(), Vec::new(), Vec::new());
        let mut results = results.into_iter();
        let mut answered = 0;
        for unit in units {
            let count = unit.asked.len();
            let of_unit: Vec<_> = results.by_ref().take(count).collect();
            of_unit.iter().flatten().flatten().for_each(|outcome| self.known.learn_from(outcome));
            answered += of_unit.iter().flatten().count();
            if of_unit.iter().any(Option::is_none) {
                beyond_units.extend(self.sequences.put_part(unit, of_unit));
                continue;
            }
            let of_unit: Vec<_> = of_unit.into_iter().flatten().collect();
            match unit.teller {
                Teller::One(owed) => match of_unit.into_iter().next() {
                    Some(Ok(Outcome::Later)) => {
                        later.push(Unit::new(unit.asked, Teller::One(owed), 0));
                    }
                    Some(result) => post.put(owed, result.map(Answer::Outcome)),
                    None => post.put(owed, Err(Failure::Internal("a command had no result".to_owned()))),
                },
                Teller::Sequence(number, numbers) => {
                    let gone = self.sequences.put(number, &numbers, unit.asked, of_unit, &mut post);
                    self.mailbox.begun(gone);
                    going_on.push(number);
                }
            }
        }
        meters::answered(answered);
        self.chores.has_committed();
        self.combiner.put_back(later);
        if !beyond_units.is_empty() {
            // What it had claimed before is kept: it is why it needs more.
            let mut claims = Claims::clone(&batch.claims);
            claims.items.extend(beyond);
            let task = Task::Commands(beyond_units);
            self.combiner.add_batch(Batch { task, claims: Arc::new(claims), plan, tries });
        }
        for number in going_on {
            self.go_on(number);
        }
    }

    /// Whatever is overdue is claimed: at once where nobody works on it, else when whoever does is done.
    fn begin_sweep(&mut self, seen: Seen) {
        let Seen { mut due, more, patient, damaged } = seen;
        for id in &damaged {
            batch::alarm(&format!("reservation {id} can't be read, and so not be expired"));
        }
        self.sweeper.failed(&damaged, Moment::now());
        let passed = self.sweeper.pass_by(&mut due);
        let (mut free, mut busy) = (Vec::new(), HashMap::<_, Vec<_>>::new());
        for one in due {
            match one.1.items.iter().find(|item| self.combiner.is_busy(item)) {
                None => free.push(one),
                Some(item) => busy.entry(item.clone()).or_default().push(one),
            }
        }
        self.round = Round { more, passed, patient, ..Round::default() };
        for due in core::iter::once(free).chain(busy.into_values()).flat_map(in_batches) {
            self.sweep_batch(due, false);
        }
        if self.round.batches == 0 {
            self.end_round();
        }
    }

    fn sweep_batch(&mut self, due: Vec<Due>, waits: bool) {
        let items = due.iter().flat_map(|(_, held)| held.items.iter().cloned()).collect();
        self.combiner.add_batch(Batch {
            task: Task::Sweep { due, waits },
            claims: Arc::new(Claims::all_of(items)),
            plan: Plan::default(),
            tries: batch::Tries::default(),
        });
        self.round.batches += usize::from(!waits);
    }

    /// One of the round's batches is over.
    fn end_sweep_of(&mut self, expired: usize) {
        self.round.batches = self.round.batches.saturating_sub(1);
        self.round.expired += expired;
        if self.round.batches == 0 {
            self.end_round();
        }
    }

    /// The next look comes at once only if this one got anywhere: else others are at it.
    fn end_round(&mut self) {
        let Round { more, expired, passed, .. } = self.round;
        self.chores.sweep.done(more && expired + passed > 0);
    }

    /// Goes on waiting for what others have locked.
    fn wait_for_locks(&mut self) {
        if self.mailbox.is_closed() {
            self.sweeper.wait_for_nothing();
        } else if let Some(due) = self.sweeper.next_wait(Moment::now()) {
            self.sweep_batch(due, true);
        }
    }

    fn refuse(&mut self, unit: Unit, failure: &Failure, post: &mut Post) {
        self.mailbox.begun(unit.counted);
        match unit.teller {
            Teller::One(owed) => post.put(owed, Err(failure.clone())),
            Teller::Sequence(number, _) => {
                let counted = self.sequences.refuse(number, failure, post);
                self.mailbox.begun(counted);
            }
        }
    }

    /// There is no connection and none to be had: nothing was done for anybody.
    pub(super) fn refuse_all(&mut self, why: &str) {
        let failure = Failure::Unavailable(why.to_owned());
        let mut post = Post::default();
        let (batches, mut units) = self.combiner.drain();
        units.append(&mut self.unresolved);
        for batch in batches {
            match batch.task {
                Task::Commands(of_batch) => units.extend(of_batch),
                Task::Sweep { waits: true, .. } => self.sweeper.wait_for_nothing(),
                Task::Sweep { waits: false, .. } => self.end_sweep_of(0),
            }
        }
        for unit in units {
            self.refuse(unit, &failure, &mut post);
        }
        let asked: Vec<_> = self.reads.drain().collect();
        self.mailbox.begun(asked.len());
        for (_, owed) in asked {
            post.put(owed, Err(failure.clone()));
        }
    }
}

/// No more lines in one transaction than commands may have.
fn in_batches(mut due: Vec<Due>) -> Vec<Vec<Due>> {
    let mut batches = Vec::new();
    while !due.is_empty() {
        let rest = due.split_off(fitting(due.iter().map(|(_, held)| held.lines())));
        batches.push(core::mem::replace(&mut due, rest));
    }
    batches
}
