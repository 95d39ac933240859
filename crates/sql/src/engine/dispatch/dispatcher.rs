//! The task of the store's thread: accepts jobs, gives batches and reads to connections, and handles their results. Only this task
//! touches the shared state. Everything that talks to the database is spawned, so this task never waits for a round trip.

mod task_results;

use super::claims::Claims;
use super::combiner::{Batch, BatchTask, Combiner};
use super::connection_pool::ConnectionPool;
use super::mailbox::Mailbox;
use super::periodic_jobs::{PeriodicJobs, forget_old};
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
use crate::engine::sweep::{OverduePage, SweepResult, Sweeper, find_overdue, sweep};
use core::future::Future;
use core::hash::{BuildHasher, Hasher};
use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::Arc;
use stockhold_domain::Envelope;
use stockhold_store::{Answer, ClosedReservationCounters, Failure, Job, Request};
use tokio::task::{Id, JoinSet};

/// Connections that batches leave free for reads and periodic jobs.
const LEFT_FREE: usize = 1;
/// Unrelated commands are combined at least up to this number, however many connections are idle: below it a transaction of its own
/// costs more than the wait for others.
const LEAST_SHARE: usize = 32;
/// Shards of an item's counters: more than there are instances, and few enough to sum up for every batch.
const COUNTER_SHARDS: u16 = 64;
/// Maximum number of slow query tasks at the same time.
const SLOW_READS: usize = 2;

/// The result of a spawned task.
enum TaskResult<S> {
    Opened(Result<S, OpenError>),
    BatchDone(Box<BatchResult<S>>, Batch),
    Swept(SweepResult<S>),
    /// With the locked batch, or the reason why nothing was locked.
    BatchLocked(S, Batch, Result<Box<LockedBatch>, AttemptError>),
    Resolved(Option<S>, Vec<Submission>, Result<Rows, Failure>),
    QuickReadsDone(Option<S>),
    SlowReadsDone(Option<S>),
    OverdueFound(Option<S>, OverduePage),
    Numbered(Option<S>),
    /// A copy into the database is running, or was interrupted.
    Unfinished,
    KeysForgotten(Option<S>, bool),
}

/// A running task, with what has to be cleaned up when it ends or panics.
enum RunningTask {
    Open,
    /// With its claims, and the sequences of its commands.
    RunBatch(Arc<Claims>, Vec<u64>),
    /// With its claims, and its page.
    Sweep(Arc<Claims>, u64),
    /// A batch that takes its locks. Late arrivals may join it afterwards.
    LockBatch(Arc<Claims>, Vec<u64>),
    /// With the number of its commands that count as waiting, and their sequences.
    Resolve(usize, Vec<u64>),
    QuickReads,
    SlowReads,
    FindOverdue,
    Number,
    ForgetKeys,
}

impl RunningTask {
    /// Whether it runs a batch.
    fn is_batch(&self) -> bool {
        matches!(self, Self::RunBatch(..) | Self::LockBatch(..) | Self::Sweep(..))
    }
}

/// Chooses the counter shard of this instance at random, so that two instances seldom wait for each other's row.
fn random_counter_shard() -> u16 {
    let random = RandomState::new().build_hasher().finish();
    u16::try_from(random % u64::from(COUNTER_SHARDS)).unwrap_or(0)
}

/// See the documentation of the module.
pub(super) struct Dispatcher<D: Dialect> {
    dialect: Arc<D>,
    options: Options,
    limits: Arc<AttemptLimits>,
    mailbox: Arc<Mailbox>,
    status: Arc<StoreStatus>,
    pool: ConnectionPool<D::Session>,
    combiner: Combiner,
    /// Submissions that name reservations whose items have to be looked up.
    unresolved: Vec<Submission>,
    resolving: bool,
    sequences: Sequences,
    queries: QueryQueues,
    quick_reads: usize,
    slow_reads: usize,
    hints: LockHints,
    jobs: PeriodicJobs,
    sweeper: Sweeper,
    tasks: JoinSet<TaskResult<D::Session>>,
    /// The running tasks by id.
    running_tasks: HashMap<Id, RunningTask>,
    /// Whether a full batch was ready the last time and found no idle connection.
    short_of_connections: bool,
    /// The step of `dispatch` that gets the first idle connection.
    turn: usize,
}

impl<D: Dialect> Drop for Dispatcher<D> {
    /// Jobs are left in the mailbox only if this task has panicked.
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
        let limits = Arc::new(AttemptLimits {
            counter_shard: random_counter_shard(),
            rules: options.rules.clone(),
            batch_deadline: options.batch_deadline,
            commit_deadline: options.commit_deadline,
            closed: ClosedReservationCounters::default(),
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
            tasks: JoinSet::new(),
            running_tasks: HashMap::new(),
            short_of_connections: false,
            turn: 0,
            options,
        })
    }

    /// Runs until the mailbox is closed and all work is done.
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
            let next = [self.jobs.next(now), self.pool.next_try(now), self.sweeper.page_deadline()];
            let next = next.into_iter().flatten().min();
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

    /// Enqueues the next chunk of a sequence, if there is one.
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

    /// Gives work to idle connections.
    fn dispatch(&mut self) {
        let now = tokio::time::Instant::now();
        if let Some(more) = self.sweeper.end_page(now) {
            self.jobs.sweep.done(more);
        }
        self.keep_connections();
        if let Some(why) = self.pool.out_of_order() {
            let why = why.to_owned();
            self.refuse_all(&why);
            return;
        }
        if self.jobs.short.is_due(now) {
            self.hints.forget_short();
            self.jobs.short.done(false);
        }
        // The step that got the last connection is the last one next time, so that each step gets its turn if connections are few.
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

    /// Numbering comes before sweeps: sweeps have no pauses while many reservations are overdue.
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
            let (after, most) = (self.sweeper.next(), self.options.sweep_batch);
            let skipped = self.sweeper.skipped(now);
            self.spawn(RunningTask::FindOverdue, async move {
                let (session, page) = find_overdue(session, after, most, &skipped, deadline).await;
                TaskResult::OverdueFound(session, page)
            });
        }
        if self.jobs.keys.is_due(now)
            && let Some(mut session) = self.pool.take()
        {
            self.jobs.keys.at_work = true;
            let (counters, retention) = (self.jobs.ended_counters.clone(), self.options.key_retention);
            self.spawn(RunningTask::ForgetKeys, async move {
                match forget_old(&mut session, &counters, retention, deadline).await {
                    Ok(more) => TaskResult::KeysForgotten(Some(session), more),
                    Err(error) => TaskResult::KeysForgotten(recover(session, error, deadline).await.1, false),
                }
            });
        }
    }

    fn start_batches(&mut self) {
        loop {
            // If there is only one connection, batches may use it as well.
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

    /// Takes the locks of a batch. Submissions that arrive meanwhile may join it; otherwise they would wait for the next batch.
    fn lock_batch(&mut self, mut session: D::Session, mut batch: Batch) {
        let BatchTask::Commands(submissions) = &mut batch.task else { return };
        let begun = submissions.iter_mut().map(|submission| core::mem::take(&mut submission.counted)).sum();
        self.mailbox.begun(begun);
        let (claims, limits) = (Arc::clone(&batch.claims), Arc::clone(&self.limits));
        batch.plan.expect(self.hints.short_of(claims.items.iter()));
        batch.plan.expect_reached(self.hints.reached());
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
        let (claims, limits) = (Arc::clone(&batch.claims), Arc::clone(&self.limits));
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
            BatchTask::Sweep { due, page } => {
                let (envelope, due) = (self.sweeper.command(), core::mem::take(due));
                self.spawn(RunningTask::Sweep(claims, *page), async move {
                    TaskResult::Swept(sweep(session, &limits, due, &envelope).await)
                });
            }
        }
    }
}
