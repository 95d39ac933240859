//! The store's thread: takes what has come, hands it to connections, and settles what comes back. All that is shared stands
//! here and is touched by this one task; what talks to the database is spawned, so that nothing waits for a round trip.

mod land;

use super::attempt::{Boarded, Bounds, Stop, board};
use super::batch::{Settled, settle};
use super::chores::{Chores, forget_keys};
use super::combine::{Batch, Claims, Combiner, LANES, Task, Teller, Unit, lines_of};
use super::dialect::{Dialect, Rows, Session};
use super::known::{Held, Known};
use super::meters;
use super::options::{OpenError, Options};
use super::pool::Pool;
use super::post::Owed;
use super::queue::Mailbox;
use super::read::{self, Reads};
use super::sequence::{Sequences, Told};
use super::shown::Shown;
use super::sweep::{Round, Seen, Sweeper, Swept, look, sweep};
use super::wants::Asked;
use core::hash::{BuildHasher, Hasher};
use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::Arc;
use stockhold_domain::Envelope;
use stockhold_store::{Answer, Failure, Job, Request};
use tokio::task::{Id, JoinSet};

/// Connections that commands leave to everything else.
const LEFT_FREE: usize = 1;
/// Commands that share no item are put together at least up to this number, however many connections rest: below it a
/// transaction of its own costs more than waiting for others.
const LEAST_SHARE: usize = 32;
/// Parts that the figures of an item are kept in: more than there are instances, and few enough to add up for every batch.
const PARTS: u16 = 64;
/// Rounds of slow queries at once.
const SLOW_READS: usize = 2;

/// What a spawned task comes back with.
enum Landed<S> {
    Opened(Result<S, OpenError>),
    Settled(Box<Settled<S>>, Batch),
    /// With whether it has waited for locks.
    Swept(Swept<S>, bool),
    /// With what was locked for it, or why nothing was.
    Boarded(S, Batch, Result<Box<Boarded>, Stop>),
    Resolved(Option<S>, Vec<Unit>, Result<Rows, Failure>),
    Quick(Option<S>),
    Slow(Option<S>),
    Looked(Option<S>, Seen),
    Numbered(Option<S>),
    /// The database turned out to be one that a copy is at work on, or was cut off.
    Unfinished,
    Forgot(Option<S>, bool),
}

/// What has to be put right when a task ends, be it in a panic.
enum Flight {
    Open,
    /// With what it has claimed and the sequences that it has commands of.
    Batch(Arc<Claims>, Vec<u64>),
    /// With whether it waits for locks.
    Sweep(Arc<Claims>, bool),
    /// A batch whose items are being locked, and which more may join until then.
    Boarding(Arc<Claims>, Vec<u64>),
    /// With how many of its commands count as waiting, and the sequences that it has commands of.
    Resolve(usize, Vec<u64>),
    Quick,
    Slow,
    Look,
    Number,
    Forget,
}

impl Flight {
    /// Whether it is one of the batches.
    fn is_batch(&self) -> bool {
        matches!(self, Self::Batch(..) | Self::Boarding(..) | Self::Sweep(..))
    }
}

/// One of the parts for each lane, so that instances seldom share one, and the lanes of one never.
fn any_parts() -> [u16; LANES] {
    let random = RandomState::new().build_hasher().finish();
    let lanes = u16::try_from(LANES).unwrap_or(1);
    let first = u16::try_from(random % u64::from(PARTS / lanes)).unwrap_or(0) * lanes;
    core::array::from_fn(|lane| first + u16::try_from(lane).unwrap_or(0))
}

/// See the module.
pub(super) struct Floor<D: Dialect> {
    dialect: Arc<D>,
    options: Options,
    /// One for each lane.
    bounds: [Arc<Bounds>; LANES],
    mailbox: Arc<Mailbox>,
    shown: Arc<Shown>,
    pool: Pool<D::Session>,
    combiner: Combiner,
    /// Commands that name reservations whose items are not known.
    unresolved: Vec<Unit>,
    resolving: bool,
    sequences: Sequences,
    reads: Reads,
    quick_reads: usize,
    slow_reads: usize,
    known: Known,
    chores: Chores,
    sweeper: Sweeper,
    round: Round,
    tasks: JoinSet<Landed<D::Session>>,
    /// What is in flight.
    flights: HashMap<Id, Flight>,
    /// Whether work was ready the last time and found no connection.
    short_of_connections: bool,
    /// Who is asked first whether he has work for a connection.
    turn: usize,
}

impl<D: Dialect> Drop for Floor<D> {
    /// Finds something to answer only when the task has panicked.
    fn drop(&mut self) {
        self.shown.set_fatal_error(Some("the store has stopped".to_owned()));
        self.mailbox.abandon();
    }
}

impl<D: Dialect> Floor<D> {
    /// Opens the first connection.
    pub(super) async fn start(
        dialect: D,
        options: Options,
        mailbox: Arc<Mailbox>,
        shown: Arc<Shown>,
    ) -> Result<Self, OpenError> {
        let first = dialect.open().await?;
        let bounds = any_parts().map(|part| {
            Arc::new(Bounds {
                part,
                rules: options.rules.clone(),
                batch_deadline: options.batch_deadline,
                commit_deadline: options.commit_deadline,
            })
        });
        Ok(Self {
            dialect: Arc::new(dialect),
            bounds,
            mailbox,
            shown,
            pool: Pool::new(first, &options),
            combiner: Combiner::new(options.batch),
            unresolved: Vec::new(),
            resolving: false,
            sequences: Sequences::default(),
            reads: Reads::default(),
            quick_reads: 0,
            slow_reads: 0,
            known: Known::default(),
            chores: Chores::new(options.sweep_every),
            sweeper: Sweeper::new().map_err(OpenError::Thread)?,
            round: Round::default(),
            tasks: JoinSet::new(),
            flights: HashMap::new(),
            short_of_connections: false,
            turn: 0,
            options,
        })
    }

    /// Runs until the mailbox is closed and nothing is left to do.
    pub(super) async fn run(&mut self) {
        let mailbox = Arc::clone(&self.mailbox);
        loop {
            for work in self.mailbox.empty() {
                self.take_in(work);
            }
            self.hand_out();
            if self.mailbox.is_closed() && self.is_done() {
                return;
            }
            let now = tokio::time::Instant::now();
            let next = [self.chores.next(now), self.pool.next_try(now)].into_iter().flatten().min();
            let alarm = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => core::future::pending().await,
                }
            };
            tokio::select! {
                Some(landed) = self.tasks.join_next_with_id() => self.land(landed),
                () = mailbox.rung() => {}
                () = alarm => {}
            }
            while let Some(landed) = self.tasks.try_join_next_with_id() {
                self.land(landed);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.tasks.is_empty()
            && self.combiner.is_empty()
            && self.unresolved.is_empty()
            && self.sequences.is_empty()
            && !self.reads.has_quick()
            && !self.reads.has_slow()
    }

    fn take_in(&mut self, Job { request: ask, reply }: Job) {
        let owed = Owed::new(reply);
        match ask {
            Request::Command(envelope) => {
                let asked = self.asked(envelope, None, None);
                self.line_up(vec![asked], Teller::One(owed), 1);
            }
            Request::Commands(envelopes) if envelopes.is_empty() => {
                owed.answer(Ok(Answer::Outcomes(Vec::new())))
            }
            Request::Commands(envelopes) => {
                let number = self.sequences.begin(envelopes, owed);
                self.go_on(number);
            }
            Request::Query(query) => self.reads.add((query, owed)),
        }
    }

    fn asked(&self, envelope: Box<Envelope>, held: Option<Held>, sequence: Option<u64>) -> Asked {
        let held = held.or_else(|| self.known.held_of(&envelope.command));
        let halls = self.known.halls_in(&envelope.command);
        Asked { envelope, held, halls, sequence }
    }

    /// The next commands of a sequence, or its answer.
    fn go_on(&mut self, number: u64) {
        let lines = |Told { envelope, held }: &Told| {
            let held = held.clone().or_else(|| self.known.held_of(&envelope.command));
            lines_of(&envelope.command, held.as_ref(), &self.known.halls_in(&envelope.command))
        };
        let Some(chunk) = self.sequences.next(number, self.options.batch, lines) else { return };
        let told = chunk.told.into_iter();
        let asked = told.map(|told| self.asked(Box::new(told.envelope), told.held, Some(number))).collect();
        self.line_up(asked, Teller::Sequence(number, chunk.numbers), chunk.counted);
    }

    fn line_up(&mut self, asked: Vec<Asked>, teller: Teller, counted: usize) {
        let unit = Unit::new(asked, teller, counted);
        if unit.unresolved().next().is_none() { self.combiner.add(unit) } else { self.unresolved.push(unit) }
    }

    fn spawn(&mut self, flight: Flight, task: impl Future<Output = Landed<D::Session>> + Send + 'static) {
        let id = self.tasks.spawn(task).id();
        self.flights.insert(id, flight);
    }

    /// Gives everything that can be done to a connection.
    fn hand_out(&mut self) {
        self.keep_connections();
        if let Some(why) = self.pool.out_of_order() {
            let why = why.to_owned();
            self.refuse_all(&why);
            return;
        }
        let now = tokio::time::Instant::now();
        if self.chores.short.is_due(now) {
            self.known.forget_short();
            self.chores.short.done(false);
        }
        // Whoever had the last connection is asked last the next time: where there are hardly any, each has its turn.
        let steps = [Self::resolve, Self::read_quick, Self::read_slow, Self::do_chores, Self::send_batches];
        let first = self.turn;
        for n in 0..steps.len() {
            let at = (first + n) % steps.len();
            let rested = self.pool.idle();
            if let Some(step) = steps.get(at) {
                step(self);
            }
            if rested > 0 && self.pool.idle() == 0 {
                self.turn = (at + 1) % steps.len();
            }
        }
        meters::waiting(self.mailbox.waiting());
    }

    fn keep_connections(&mut self) {
        self.pool.drop_lost();
        if self.mailbox.is_closed() && self.is_done() {
            return;
        }
        for _ in 0..self.pool.missing(self.short_of_connections) {
            let dialect = Arc::clone(&self.dialect);
            self.spawn(Flight::Open, async move { Landed::Opened(dialect.open().await) });
        }
        self.short_of_connections = false;
    }

    fn resolve(&mut self) {
        if self.resolving || self.unresolved.is_empty() {
            return;
        }
        let Some(session) = self.pool.take() else { return };
        self.resolving = true;
        let units = core::mem::take(&mut self.unresolved);
        let holds = units.iter().flat_map(Unit::unresolved).collect();
        let deadline = self.options.batch_deadline;
        let counted = units.iter().map(|unit| unit.counted).sum();
        let sequences = units.iter().filter_map(Unit::sequence).collect();
        self.spawn(Flight::Resolve(counted, sequences), async move {
            let (session, rows) = read::holds(session, holds, deadline).await;
            Landed::Resolved(session, units, rows)
        });
    }

    fn read_quick(&mut self) {
        let deadline = self.options.batch_deadline;
        if self.quick_reads == 0
            && self.reads.has_quick()
            && let Some(session) = self.pool.take()
        {
            self.quick_reads += 1;
            let asked = self.reads.take_quick();
            self.mailbox.begun(asked.len());
            self.spawn(
                Flight::Quick,
                async move { Landed::Quick(read::quick(session, asked, deadline).await) },
            );
        }
    }

    fn read_slow(&mut self) {
        let deadline = self.options.batch_deadline;
        while self.slow_reads < SLOW_READS
            && self.reads.has_slow()
            && let Some(session) = self.pool.take()
        {
            self.slow_reads += 1;
            let asked = self.reads.take_slow();
            self.mailbox.begun(asked.len());
            let shown = Arc::clone(&self.shown);
            self.spawn(Flight::Slow, async move {
                Landed::Slow(read::slow(session, asked, deadline, &shown).await)
            });
        }
    }

    /// Numbering, which has its pauses, ahead of sweeps, which have none while there is a crowd.
    fn do_chores(&mut self) {
        if self.mailbox.is_closed() {
            return;
        }
        let now = tokio::time::Instant::now();
        let deadline = self.options.batch_deadline;
        if self.chores.number.is_due(now)
            && let Some(mut session) = self.pool.take()
        {
            self.chores.number.at_work = true;
            let shown = Arc::clone(&self.shown);
            self.spawn(Flight::Number, async move {
                let numbered = read::in_time(deadline, async {
                    if session.is_unfinished().await? { Ok(None) } else { session.number().await.map(Some) }
                });
                match numbered.await {
                    Ok(None) => Landed::Unfinished,
                    Ok(Some(newest)) => {
                        shown.has_numbered(newest);
                        Landed::Numbered(Some(session))
                    }
                    Err(fatal_error) => Landed::Numbered(read::after(session, fatal_error, deadline).await.1),
                }
            });
        }
        if self.chores.sweep.is_due(now)
            && let Some(session) = self.pool.take()
        {
            self.chores.sweep.at_work = true;
            let (most, left_alone) = (self.options.sweep_batch, self.sweeper.left_alone(now));
            self.spawn(Flight::Look, async move {
                let (session, seen) = look(session, most, &left_alone, deadline).await;
                Landed::Looked(session, seen)
            });
        }
        if self.chores.keys.is_due(now)
            && let Some(mut session) = self.pool.take()
        {
            self.chores.keys.at_work = true;
            let retention = self.options.key_retention;
            self.spawn(Flight::Forget, async move {
                match forget_keys(&mut session, retention, deadline).await {
                    Ok(more) => Landed::Forgot(Some(session), more),
                    Err(fatal_error) => {
                        Landed::Forgot(read::after(session, fatal_error, deadline).await.1, false)
                    }
                }
            });
        }
    }

    fn send_batches(&mut self) {
        loop {
            // Where there is but one connection, commands have it as well.
            let at_work = self.flights.values().any(Flight::is_batch);
            let free = self.pool.idle().saturating_sub(if at_work { LEFT_FREE } else { 0 });
            if free == 0 {
                let waits = !self.combiner.is_empty() && self.combiner.free_units() >= self.options.batch;
                if waits {
                    meters::pool_wait();
                }
                self.short_of_connections = waits;
                return;
            }
            let share = self.combiner.free_units().div_ceil(free).max(LEAST_SHARE);
            let Some(batch) = self.combiner.take(share) else { return };
            let Some(session) = self.pool.take() else {
                self.combiner.landed(&batch.claims);
                self.combiner.add_batch(batch);
                return;
            };
            match &batch.task {
                Task::Commands(_) => self.board(session, batch),
                Task::Sweep { .. } => self.send(session, batch, None),
            }
        }
    }

    /// For a batch in this lane.
    fn bounds(&self, lane: usize) -> Arc<Bounds> {
        let [first, ..] = &self.bounds;
        Arc::clone(self.bounds.get(lane).unwrap_or(first))
    }

    /// Locks what a batch may touch. Whoever comes for it meanwhile goes along, where he would else wait for the next batch.
    fn board(&mut self, mut session: D::Session, mut batch: Batch) {
        let Task::Commands(units) = &mut batch.task else { return };
        let begun = units.iter_mut().map(|unit| core::mem::take(&mut unit.counted)).sum();
        self.mailbox.begun(begun);
        let (claims, bounds) = (Arc::clone(&batch.claims), self.bounds(batch.claims.lane));
        batch.plan.expect(self.known.short_of(claims.items.iter()));
        batch.plan.expect_halls(self.known.halls_of(claims.items.iter()));
        let sequences = units.iter().filter_map(Unit::sequence).collect();
        self.spawn(Flight::Boarding(Arc::clone(&claims), sequences), async move {
            let mut plan = core::mem::take(&mut batch.plan);
            let boarded = {
                let asked: Vec<&Asked> = batch.asked().collect();
                board(&mut session, &bounds, &asked, &claims.items, &mut plan).await
            };
            batch.plan = plan;
            Landed::Boarded(session, batch, boarded.map(Box::new))
        });
    }

    fn send(&mut self, session: D::Session, mut batch: Batch, boarded: Option<Result<Boarded, Stop>>) {
        let (claims, bounds) = (Arc::clone(&batch.claims), self.bounds(batch.claims.lane));
        match &mut batch.task {
            Task::Commands(units) => {
                let sequences = units.iter().filter_map(Unit::sequence).collect();
                self.spawn(Flight::Batch(Arc::clone(&claims), sequences), async move {
                    let (plan, tries) = (core::mem::take(&mut batch.plan), batch.tries);
                    let settled = {
                        let asked: Vec<&Asked> = batch.asked().collect();
                        settle(session, &bounds, &asked, &claims.items, plan, tries, boarded).await
                    };
                    Landed::Settled(Box::new(settled), batch)
                });
            }
            Task::Sweep { due, waits } => {
                let (envelope, due, waits) = (self.sweeper.command(), core::mem::take(due), *waits);
                self.spawn(Flight::Sweep(claims, waits), async move {
                    Landed::Swept(sweep(session, &bounds, due, waits, &envelope).await, waits)
                });
            }
        }
    }
}
