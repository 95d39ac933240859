//! The store's thread: takes what has come, hands it to connections, and settles what comes back. All that is shared stands
//! here and is touched by this one task; what talks to the database is spawned, so that nothing waits for a round trip.

mod task_results;

use super::claims::{Claims, LANES};
use super::combiner::{Batch, BatchTask, Combiner};
use super::connection_pool::ConnectionPool;
use super::mailbox::Mailbox;
use super::periodic_jobs::{PeriodicJobs, forget_keys};
use super::sequences::{QueuedCommand, Sequences};
use super::submission::{ReplyTarget, Submission};
use crate::engine::decide::{BatchResult, run_batch};
use crate::engine::dialect::{Dialect, Rows, Session};
use crate::engine::lock::{AttemptError, AttemptLimits, LockedBatch, lock_and_load};
use crate::engine::meters;
use crate::engine::options::{OpenError, Options};
use crate::engine::plan::{LockHints, PlannedCommand, ReservationRefs, lines_of};
use crate::engine::read::{QueryQueues, read_reservations, run_quick, run_slow};
use crate::engine::reply_batch::PendingReply;
use crate::engine::sessions::{recover, within_deadline};
use crate::engine::store_status::StoreStatus;
use crate::engine::sweep::{OverdueScan, SweepResult, SweepRound, Sweeper, find_overdue, sweep};
use core::future::Future;
use core::hash::{BuildHasher, Hasher};
use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::Arc;
use stockhold_domain::Envelope;
use stockhold_store::{Answer, ClosedReservationCounters, Failure, Job, Request};
use tokio::task::{Id, JoinSet};

/// Connections that commands leave to everything else.
const LEFT_FREE: usize = 1;
/// Commands that share no item are put together at least up to this number, however many connections rest: below it a
/// transaction of its own costs more than waiting for others.
const LEAST_SHARE: usize = 32;
/// Parts that the figures of an item are kept in: more than there are instances, and few enough to add up for every batch.
const COUNTER_SHARDS: u16 = 64;
/// Rounds of slow queries at once.
const SLOW_READS: usize = 2;

/// What a spawned task comes back with.
enum TaskResult<S> {
    Opened(Result<S, OpenError>),
    BatchDone(Box<BatchResult<S>>, Batch),
    /// With whether it has waited for locks.
    Swept(SweepResult<S>, bool),
    /// With what was locked for it, or why nothing was.
    BatchLocked(S, Batch, Result<Box<LockedBatch>, AttemptError>),
    Resolved(Option<S>, Vec<Submission>, Result<Rows, Failure>),
    QuickReadsDone(Option<S>),
    SlowReadsDone(Option<S>),
    OverdueFound(Option<S>, OverdueScan),
    Numbered(Option<S>),
    /// The database turned out to be one that a copy is at work on, or was cut off.
    Unfinished,
    KeysForgotten(Option<S>, bool),
}

/// What has to be put right when a task ends, be it in a panic.
enum RunningTask {
    Open,
    /// With what it has claimed and the sequences that it has commands of.
    RunBatch(Arc<Claims>, Vec<u64>),
    /// With whether it waits for locks.
    Sweep(Arc<Claims>, bool),
    /// A batch whose items are being locked, and which more may join until then.
    LockBatch(Arc<Claims>, Vec<u64>),
    /// With how many of its commands count as waiting, and the sequences that it has commands of.
    Resolve(usize, Vec<u64>),
    QuickReads,
    SlowReads,
    FindOverdue,
    Number,
    ForgetKeys,
}

impl RunningTask {
    /// Whether it is one of the batches.
    fn is_batch(&self) -> bool {
        matches!(self, Self::RunBatch(..) | Self::LockBatch(..) | Self::Sweep(..))
    }
}

/// One of the parts for each lane, so that instances seldom share one, and the lanes of one never.
fn random_counter_shards() -> [u16; LANES] {
    let random = RandomState::new().build_hasher().finish();
    let lanes = u16::try_from(LANES).unwrap_or(1);
    let first = u16::try_from(random % u64::from(COUNTER_SHARDS / lanes)).unwrap_or(0) * lanes;
    core::array::from_fn(|lane| first + u16::try_from(lane).unwrap_or(0))
}

/// See the module.
pub(super) struct Dispatcher<D: Dialect> {
    dialect: Arc<D>,
    options: Options,
    /// One for each lane.
    limits: [Arc<AttemptLimits>; LANES],
    mailbox: Arc<Mailbox>,
    status: Arc<StoreStatus>,
    pool: ConnectionPool<D::Session>,
    combiner: Combiner,
    /// Commands that name reservations whose items are not known.
    unresolved: Vec<Submission>,
    resolving: bool,
    sequences: Sequences,
    queries: QueryQueues,
    quick_reads: usize,
    slow_reads: usize,
    hints: LockHints,
    jobs: PeriodicJobs,
    sweeper: Sweeper,
    round: SweepRound,
    tasks: JoinSet<TaskResult<D::Session>>,
    /// What is in flight.
    running_tasks: HashMap<Id, RunningTask>,
    /// Whether work was ready the last time and found no connection.
    short_of_connections: bool,
    /// Who is asked first whether he has work for a connection.
    turn: usize,
}

impl<D: Dialect> Drop for Dispatcher<D> {
    /// Finds something to answer only when the task has panicked.
    fn drop(&mut self) {
        self.status.set_fatal_error(Some("the store has stopped".to_owned()));
        self.mailbox.abandon();
    }
}

impl<D: Dialect> Dispatcher<D> {
    /// Opens the first connection.
    pub(super) async fn start(
        dialect: D,
        options: Options,
        mailbox: Arc<Mailbox>,
        status: Arc<StoreStatus>,
    ) -> Result<Self, OpenError> {
        let first = dialect.open().await?;
        let closed = ClosedReservationCounters::default();
        let limits = random_counter_shards().map(|counter_shard| {
            Arc::new(AttemptLimits {
                counter_shard,
                rules: options.rules.clone(),
                batch_deadline: options.batch_deadline,
                commit_deadline: options.commit_deadline,
                closed: closed.clone(),
            })
        });
        Ok(Self {
            dialect: Arc::new(dialect),
            limits,
            mailbox,
            status,
            pool: ConnectionPool::new(first, &options),
            combiner: Combiner::new(options.batch),
            unresolved: Vec::new(),
            resolving: false,
            sequences: Sequences::default(),
            queries: QueryQueues::default(),
            quick_reads: 0,
            slow_reads: 0,
            hints: LockHints::default(),
            jobs: PeriodicJobs::new(options.sweep_every),
            sweeper: Sweeper::new().map_err(OpenError::Thread)?,
            round: SweepRound::default(),
            tasks: JoinSet::new(),
            running_tasks: HashMap::new(),
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
                self.accept(work);
            }
            self.dispatch();
            if self.mailbox.is_closed() && self.is_done() {
                return;
            }
            let now = tokio::time::Instant::now();
            let next = [self.jobs.next(now), self.pool.next_try(now)].into_iter().flatten().min();
            let alarm = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => core::future::pending().await,
                }
            };
            tokio::select! {
                Some(finished) = self.tasks.join_next_with_id() => self.on_task_done(finished),
                () = mailbox.rung() => {}
                () = alarm => {}
            }
            while let Some(finished) = self.tasks.try_join_next_with_id() {
                self.on_task_done(finished);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.tasks.is_empty()
            && self.combiner.is_empty()
            && self.unresolved.is_empty()
            && self.sequences.is_empty()
            && !self.queries.has_quick()
            && !self.queries.has_slow()
    }

    fn accept(&mut self, Job { request: ask, reply }: Job) {
        let reply = PendingReply::new(reply);
        match ask {
            Request::Command(envelope) => {
                let planned = self.plan_command(envelope, None, None);
                self.enqueue(vec![planned], ReplyTarget::Single(reply), 1);
            }
            Request::Commands(envelopes) if envelopes.is_empty() => {
                reply.answer(Ok(Answer::Outcomes(Vec::new())));
            }
            Request::Commands(envelopes) => {
                let number = self.sequences.begin(envelopes, reply);
                self.enqueue_next_chunk(number);
            }
            Request::Query(query) => self.queries.add((query, reply)),
        }
    }

    fn plan_command(
        &self,
        envelope: Box<Envelope>,
        refs: Option<ReservationRefs>,
        sequence: Option<u64>,
    ) -> PlannedCommand {
        let refs = refs.or_else(|| self.hints.refs_for(&envelope.command));
        let unit_items = self.hints.unit_items_reserved_by(&envelope.command);
        PlannedCommand { envelope, refs, unit_items, sequence }
    }

    /// The next commands of a sequence, or its answer.
    fn enqueue_next_chunk(&mut self, number: u64) {
        let lines = |QueuedCommand { envelope, refs }: &QueuedCommand| {
            let refs = refs.clone().or_else(|| self.hints.refs_for(&envelope.command));
            lines_of(&envelope.command, refs.as_ref(), &self.hints.unit_items_reserved_by(&envelope.command))
        };
        let Some(chunk) = self.sequences.next(number, self.options.batch, lines) else { return };
        let queued = chunk.queued.into_iter();
        let planned = queued
            .map(|queued| self.plan_command(Box::new(queued.envelope), queued.refs, Some(number)))
            .collect();
        self.enqueue(planned, ReplyTarget::Sequence(number, chunk.numbers), chunk.counted);
    }

    fn enqueue(&mut self, planned: Vec<PlannedCommand>, reply_target: ReplyTarget, counted: usize) {
        let submission = Submission::new(planned, reply_target, counted);
        if submission.unresolved().next().is_none() {
            self.combiner.add(submission);
        } else {
            self.unresolved.push(submission);
        }
    }

    fn spawn(
        &mut self,
        running: RunningTask,
        task: impl Future<Output = TaskResult<D::Session>> + Send + 'static,
    ) {
        let id = self.tasks.spawn(task).id();
        self.running_tasks.insert(id, running);
    }

    /// Gives everything that can be done to a connection.
    fn dispatch(&mut self) {
        self.keep_connections();
        if let Some(why) = self.pool.out_of_order() {
            let why = why.to_owned();
            self.refuse_all(&why);
            return;
        }
        let now = tokio::time::Instant::now();
        if self.jobs.short.is_due(now) {
            self.hints.forget_short();
            self.jobs.short.done(false);
        }
        // Whoever had the last connection is asked last the next time: where there are hardly any, each has its turn.
        let steps = [
            Self::resolve,
            Self::read_quick,
            Self::read_slow,
            Self::start_periodic_jobs,
            Self::start_batches,
        ];
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
            self.spawn(RunningTask::Open, async move { TaskResult::Opened(dialect.open().await) });
        }
        self.short_of_connections = false;
    }

    fn resolve(&mut self) {
        if self.resolving || self.unresolved.is_empty() {
            return;
        }
        let Some(session) = self.pool.take() else { return };
        self.resolving = true;
        let submissions = core::mem::take(&mut self.unresolved);
        let holds = submissions.iter().flat_map(Submission::unresolved).collect();
        let deadline = self.options.batch_deadline;
        let counted = submissions.iter().map(|submission| submission.counted).sum();
        let sequences = submissions.iter().filter_map(Submission::sequence).collect();
        self.spawn(RunningTask::Resolve(counted, sequences), async move {
            let (session, rows) = read_reservations(session, holds, deadline).await;
            TaskResult::Resolved(session, submissions, rows)
        });
    }

    fn read_quick(&mut self) {
        let deadline = self.options.batch_deadline;
        if self.quick_reads == 0
            && self.queries.has_quick()
            && let Some(session) = self.pool.take()
        {
            self.quick_reads += 1;
            let planned = self.queries.take_quick();
            self.mailbox.begun(planned.len());
            self.spawn(RunningTask::QuickReads, async move {
                TaskResult::QuickReadsDone(run_quick(session, planned, deadline).await)
            });
        }
    }

    fn read_slow(&mut self) {
        let deadline = self.options.batch_deadline;
        while self.slow_reads < SLOW_READS
            && self.queries.has_slow()
            && let Some(session) = self.pool.take()
        {
            self.slow_reads += 1;
            let planned = self.queries.take_slow();
            self.mailbox.begun(planned.len());
            let status = Arc::clone(&self.status);
            self.spawn(RunningTask::SlowReads, async move {
                TaskResult::SlowReadsDone(run_slow(session, planned, deadline, &status).await)
            });
        }
    }

    /// Numbering, which has its pauses, ahead of sweeps, which have none while there is a crowd.
    fn start_periodic_jobs(&mut self) {
        if self.mailbox.is_closed() {
            return;
        }
        let now = tokio::time::Instant::now();
        let deadline = self.options.batch_deadline;
        if self.jobs.number.is_due(now)
            && let Some(mut session) = self.pool.take()
        {
            self.jobs.number.at_work = true;
            let status = Arc::clone(&self.status);
            self.spawn(RunningTask::Number, async move {
                let numbered = within_deadline(deadline, async {
                    if session.is_unfinished().await? { Ok(None) } else { session.number().await.map(Some) }
                });
                match numbered.await {
                    Ok(None) => TaskResult::Unfinished,
                    Ok(Some(newest)) => {
                        status.set_newest(newest);
                        TaskResult::Numbered(Some(session))
                    }
                    Err(error) => TaskResult::Numbered(recover(session, error, deadline).await.1),
                }
            });
        }
        if self.jobs.sweep.is_due(now)
            && let Some(session) = self.pool.take()
        {
            self.jobs.sweep.at_work = true;
            let (most, left_alone) = (self.options.sweep_batch, self.sweeper.left_alone(now));
            self.spawn(RunningTask::FindOverdue, async move {
                let (session, seen) = find_overdue(session, most, &left_alone, deadline).await;
                TaskResult::OverdueFound(session, seen)
            });
        }
        if self.jobs.keys.is_due(now)
            && let Some(mut session) = self.pool.take()
        {
            self.jobs.keys.at_work = true;
            let retention = self.options.key_retention;
            self.spawn(RunningTask::ForgetKeys, async move {
                match forget_keys(&mut session, retention, deadline).await {
                    Ok(more) => TaskResult::KeysForgotten(Some(session), more),
                    Err(error) => TaskResult::KeysForgotten(recover(session, error, deadline).await.1, false),
                }
            });
        }
    }

    fn start_batches(&mut self) {
        loop {
            // Where there is but one connection, commands have it as well.
            let at_work = self.running_tasks.values().any(RunningTask::is_batch);
            let free = self.pool.idle().saturating_sub(if at_work { LEFT_FREE } else { 0 });
            if free == 0 {
                let waits = !self.combiner.is_empty() && self.combiner.unblocked() >= self.options.batch;
                if waits {
                    meters::pool_wait();
                }
                self.short_of_connections = waits;
                return;
            }
            let share = self.combiner.unblocked().div_ceil(free).max(LEAST_SHARE);
            let Some(batch) = self.combiner.take(share) else { return };
            let Some(session) = self.pool.take() else {
                self.combiner.release(&batch.claims);
                self.combiner.add_batch(batch);
                return;
            };
            match &batch.task {
                BatchTask::Commands(_) => self.lock_batch(session, batch),
                BatchTask::Sweep { .. } => self.start_batch(session, batch, None),
            }
        }
    }

    /// For a batch in this lane.
    fn limits(&self, lane: usize) -> Arc<AttemptLimits> {
        let [first, ..] = &self.limits;
        Arc::clone(self.limits.get(lane).unwrap_or(first))
    }

    /// Locks what a batch may touch. Whoever comes for it meanwhile goes along, where he would else wait for the next batch.
    fn lock_batch(&mut self, mut session: D::Session, mut batch: Batch) {
        let BatchTask::Commands(submissions) = &mut batch.task else { return };
        let begun = submissions.iter_mut().map(|submission| core::mem::take(&mut submission.counted)).sum();
        self.mailbox.begun(begun);
        let (claims, limits) = (Arc::clone(&batch.claims), self.limits(batch.claims.lane));
        batch.plan.expect(self.hints.short_of(claims.items.iter()));
        batch.plan.expect_unit_items(self.hints.unit_items_among(claims.items.iter()));
        let sequences = submissions.iter().filter_map(Submission::sequence).collect();
        self.spawn(RunningTask::LockBatch(Arc::clone(&claims), sequences), async move {
            let mut plan = core::mem::take(&mut batch.plan);
            let locked_batch = {
                let planned: Vec<&PlannedCommand> = batch.commands().collect();
                lock_and_load(&mut session, &limits, &planned, &claims.items, &mut plan).await
            };
            batch.plan = plan;
            TaskResult::BatchLocked(session, batch, locked_batch.map(Box::new))
        });
    }

    fn start_batch(
        &mut self,
        session: D::Session,
        mut batch: Batch,
        locked_batch: Option<Result<LockedBatch, AttemptError>>,
    ) {
        let (claims, limits) = (Arc::clone(&batch.claims), self.limits(batch.claims.lane));
        match &mut batch.task {
            BatchTask::Commands(submissions) => {
                let sequences = submissions.iter().filter_map(Submission::sequence).collect();
                self.spawn(RunningTask::RunBatch(Arc::clone(&claims), sequences), async move {
                    let (plan, attempts) = (core::mem::take(&mut batch.plan), batch.attempts);
                    let result = {
                        let planned: Vec<&PlannedCommand> = batch.commands().collect();
                        run_batch(session, &limits, &planned, &claims.items, plan, attempts, locked_batch)
                            .await
                    };
                    TaskResult::BatchDone(Box::new(result), batch)
                });
            }
            BatchTask::Sweep { due, waits } => {
                let (envelope, due, waits) = (self.sweeper.command(), core::mem::take(due), *waits);
                self.spawn(RunningTask::Sweep(claims, waits), async move {
                    TaskResult::Swept(sweep(session, &limits, due, waits, &envelope).await, waits)
                });
            }
        }
    }
}
