//! Handles the results of spawned tasks: returns connections, sends replies, and requeues commands that have no result yet.

use super::super::claims::Claims;
use super::super::combiner::{Batch, BatchTask};
use super::super::submission::{ReplyTarget, Submission};
use super::{Dispatcher, RunningTask, TaskResult};
use crate::engine::db_error::report_violation;
use crate::engine::decide::{AttemptCounts, BatchResult};
use crate::engine::dialect::{Dialect, Rows};
use crate::engine::lock::{AttemptError, LockedBatch};
use crate::engine::meters;
use crate::engine::options::OpenError;
use crate::engine::plan::{ReservationRefs, RetryPlan, fitting};
use crate::engine::reply_batch::ReplyBatch;
use crate::engine::sweep::{Overdue, OverdueName, OverduePage};
use std::collections::HashMap;
use std::sync::Arc;
use stockhold_domain::Outcome;
use stockhold_store::{Answer, Failure};
use tokio::task::Id;
use tokio::time::Instant as Moment;

impl<D: Dialect> Dispatcher<D> {
    /// Handles a finished task.
    pub(super) fn on_task_done(
        &mut self,
        finished: Result<(Id, TaskResult<D::Session>), tokio::task::JoinError>,
    ) {
        let (id, finished) = match finished {
            Ok((id, finished)) => (id, Some(finished)),
            Err(error) => (error.id(), None),
        };
        let running = self.running_tasks.remove(&id);
        if let Some(RunningTask::RunBatch(claims, _) | RunningTask::Sweep(claims, _)) = &running {
            self.combiner.release(claims);
        }
        if let Some(RunningTask::Sweep(_, page)) = &running {
            self.sweeper.end_batch(*page);
        }
        if let (None, Some(RunningTask::LockBatch(claims, _))) = (&finished, &running) {
            self.combiner.release(claims);
        }
        let Some(finished) = finished else {
            report_violation("a task of the store panicked");
            if let Some(running) = running {
                self.on_task_panicked(running);
            }
            return;
        };
        match finished {
            TaskResult::Opened(opened) => self.on_connection_opened(opened),
            TaskResult::BatchDone(result, batch) => self.on_batch_done(*result, batch),
            TaskResult::BatchLocked(session, batch, locked_batch) => {
                self.on_batch_locked(session, batch, locked_batch);
            }
            TaskResult::Swept(swept) => {
                self.return_connection(swept.session);
                self.sweeper.failed(swept.failed, Moment::now());
                if swept.done > 0 {
                    self.jobs.number_soon();
                }
            }
            TaskResult::Resolved(session, submissions, rows) => {
                self.resolving = false;
                self.return_connection(session);
                self.on_resolved(submissions, rows);
            }
            TaskResult::QuickReadsDone(done) => {
                self.quick_reads -= 1;
                self.return_connection(done);
            }
            TaskResult::SlowReadsDone(done) => {
                self.slow_reads -= 1;
                self.return_connection(done);
            }
            TaskResult::OverdueFound(session, page) => {
                self.return_connection(session);
                self.begin_page(page);
            }
            TaskResult::Numbered(session) => {
                self.return_connection(session);
                self.jobs.number.done(false);
            }
            TaskResult::Unfinished => {
                tracing::error!("{}", OpenError::Unfinished);
                self.jobs.number.done(false);
                self.pool.give_up();
                self.pool.return_connection(None);
                self.status.set_fatal_error(Some(OpenError::Unfinished.to_string()));
            }
            TaskResult::KeysForgotten(session, more) => {
                self.return_connection(session);
                self.jobs.keys.done(more);
            }
        }
    }

    /// Cleans up after a task that panicked. Its replies were sent when they were dropped, except for sequences, whose other commands
    /// are elsewhere.
    fn on_task_panicked(&mut self, running: RunningTask) {
        match running {
            RunningTask::Open => {
                self.on_connection_opened(Err(OpenError::Thread("it panicked".to_owned())));
                return;
            }
            RunningTask::RunBatch(_, sequences) | RunningTask::LockBatch(_, sequences) => {
                self.end_sequences(sequences);
            }
            RunningTask::Resolve(counted, sequences) => {
                self.resolving = false;
                self.mailbox.begun(counted);
                self.end_sequences(sequences);
            }
            RunningTask::Sweep(..) => {}
            RunningTask::QuickReads => self.quick_reads -= 1,
            RunningTask::SlowReads => self.slow_reads -= 1,
            RunningTask::FindOverdue => self.jobs.sweep.done(false),
            RunningTask::Number => self.jobs.number.done(false),
            RunningTask::ForgetKeys => self.jobs.keys.done(false),
        }
        self.return_connection(None);
    }

    fn end_sequences(&mut self, sequences: Vec<u64>) {
        let mut replies = ReplyBatch::default();
        for number in sequences {
            let gone = self.sequences.refuse(number, &Failure::OutcomeUnknown, &mut replies);
            self.mailbox.begun(gone);
        }
    }

    fn on_connection_opened(&mut self, opened: Result<D::Session, OpenError>) {
        match opened {
            Ok(session) => {
                self.pool.opened(session);
                if self.status.fatal_error().is_some() {
                    tracing::info!("connected to the {} database again", D::NAME);
                    self.status.set_fatal_error(None);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "no connection to the {} database", D::NAME);
                self.pool.could_not_open(error.to_string());
                if self.pool.is_cut_off() {
                    self.status.set_fatal_error(Some(error.to_string()));
                }
            }
        }
    }

    /// Returns a connection to the pool, or records that it was lost.
    fn return_connection(&mut self, session: Option<D::Session>) {
        let lost = session.is_none();
        self.pool.return_connection(session);
        if lost && self.pool.is_cut_off() {
            self.status.set_fatal_error(Some("the connections to the database were lost".to_owned()));
        }
    }

    fn on_resolved(&mut self, submissions: Vec<Submission>, rows: Result<Rows, Failure>) {
        match rows {
            Ok(rows) => {
                // Do not use the hints: they may have evicted some of these.
                let found: HashMap<_, _> =
                    rows.holds.iter().map(|hold| (hold.id, ReservationRefs::by(hold))).collect();
                for hold in &rows.holds {
                    self.hints.learn(hold);
                }
                for mut submission in submissions {
                    submission.resolve(|id| found.get(&id).cloned());
                    self.combiner.add(self.sequences.cut(submission));
                }
            }
            Err(failure) => {
                let mut replies = ReplyBatch::default();
                for submission in submissions {
                    self.refuse(submission, &failure, &mut replies);
                }
            }
        }
    }

    /// The locks of a batch are held: late arrivals may join it. Or they could not be taken, which `run_batch` handles.
    fn on_batch_locked(
        &mut self,
        session: D::Session,
        mut batch: Batch,
        locked_batch: Result<Box<LockedBatch>, AttemptError>,
    ) {
        if let Ok(locked_batch) = &locked_batch {
            let join_policy = locked_batch.join_policy();
            let counted =
                self.combiner.admit_late_arrivals(&mut batch, |planned| join_policy.admits(planned));
            self.mailbox.begun(counted);
        }
        self.start_batch(session, batch, Some(locked_batch.map(|locked_batch| *locked_batch)));
    }

    fn on_batch_done(&mut self, result: BatchResult<D::Session>, batch: Batch) {
        let BatchResult { session, results, beyond, plan, attempts, .. } = result;
        self.return_connection(session);
        self.hints.learn_short(plan.short());
        self.hints.learn_reached(plan.reached());
        self.hints.learn_unit_items(plan.unit_items());
        let BatchTask::Commands(submissions) = batch.task else { return };
        let mut replies = ReplyBatch::default();
        let (mut later, mut beyond_submissions, mut going_on) = (Vec::new(), Vec::new(), Vec::new());
        let mut results = results.into_iter();
        let mut answered = 0;
        for submission in submissions {
            let count = submission.planned.len();
            let of_submission: Vec<_> = results.by_ref().take(count).collect();
            of_submission.iter().flatten().flatten().for_each(|outcome| self.hints.learn_from(outcome));
            answered += of_submission.iter().flatten().count();
            if of_submission.iter().any(Option::is_none) {
                beyond_submissions.extend(self.sequences.put_part(submission, of_submission));
                continue;
            }
            let of_submission: Vec<_> = of_submission.into_iter().flatten().collect();
            match submission.reply_target {
                ReplyTarget::Single(reply) => match of_submission.into_iter().next() {
                    Some(Ok(Outcome::Later)) => {
                        later.push(Submission::new(submission.planned, ReplyTarget::Single(reply), 0));
                    }
                    Some(result) => replies.put(reply, result.map(Answer::Outcome)),
                    None => replies.put(reply, Err(Failure::Internal("a command had no result".to_owned()))),
                },
                ReplyTarget::Sequence(number, numbers) => {
                    let gone =
                        self.sequences.put(number, &numbers, submission.planned, of_submission, &mut replies);
                    self.mailbox.begun(gone);
                    going_on.push(number);
                }
            }
        }
        meters::answered(answered);
        self.jobs.number_soon();
        self.combiner.put_back(later);
        if !beyond_submissions.is_empty() {
            // Keep the old claims: the batch still needs them.
            let mut claims = Claims::clone(&batch.claims);
            claims.items.extend(beyond);
            let task = BatchTask::Commands(beyond_submissions);
            self.combiner.add_batch(Batch { task, claims: Arc::new(claims), plan, attempts });
        }
        for number in going_on {
            self.enqueue_next_chunk(number);
        }
    }

    /// Makes batches of what is overdue. If a running batch has claimed its items, it goes into a batch of its own, which waits for that
    /// one. At most one batch waits for an item.
    fn begin_page(&mut self, page: OverduePage) {
        let OverduePage { mut due, damaged, next } = page;
        let now = Moment::now();
        for id in &damaged {
            report_violation(&format!("reservation {id} can't be read, and so not be expired"));
        }
        self.sweeper.failed(damaged.into_iter().map(OverdueName::Hold), now);
        self.sweeper.begin_page(next, now);
        due.retain(|(_, refs)| !refs.items.iter().any(|item| self.combiner.has_waiting_sweep(item)));
        let (mut free, mut busy) = (Vec::new(), HashMap::<_, Vec<_>>::new());
        for one in due {
            match one.1.items.iter().find(|item| self.combiner.is_busy(item)) {
                None => free.push(one),
                Some(item) => busy.entry(item.clone()).or_default().push(one),
            }
        }
        for due in core::iter::once(free).chain(busy.into_values()).flat_map(in_batches) {
            self.add_sweep(due);
        }
    }

    fn add_sweep(&mut self, due: Vec<Overdue>) {
        let items = due.iter().flat_map(|(_, refs)| refs.items.iter().cloned()).collect();
        self.combiner.add_batch(Batch {
            task: BatchTask::Sweep { due, page: self.sweeper.add_batch() },
            claims: Arc::new(Claims::of_items(items)),
            plan: RetryPlan::default(),
            attempts: AttemptCounts::default(),
        });
    }

    fn refuse(&mut self, submission: Submission, failure: &Failure, replies: &mut ReplyBatch) {
        self.mailbox.begun(submission.counted);
        match submission.reply_target {
            ReplyTarget::Single(reply) => replies.put(reply, Err(failure.clone())),
            ReplyTarget::Sequence(number, _) => {
                let counted = self.sequences.refuse(number, failure, replies);
                self.mailbox.begun(counted);
            }
        }
    }

    /// Refuses everything that waits: there is no connection, and none can be opened.
    pub(super) fn refuse_all(&mut self, why: &str) {
        let failure = Failure::Unavailable(why.to_owned());
        let mut replies = ReplyBatch::default();
        let (batches, mut submissions) = self.combiner.drain();
        submissions.append(&mut self.unresolved);
        for batch in batches {
            match batch.task {
                BatchTask::Commands(of_batch) => submissions.extend(of_batch),
                BatchTask::Sweep { page, .. } => self.sweeper.end_batch(page),
            }
        }
        for submission in submissions {
            self.refuse(submission, &failure, &mut replies);
        }
        let planned: Vec<_> = self.queries.drain().collect();
        self.mailbox.begun(planned.len());
        for (_, reply) in planned {
            replies.put(reply, Err(failure.clone()));
        }
    }
}

/// Splits what is overdue by the number of lines that fit into one transaction.
fn in_batches(mut due: Vec<Overdue>) -> Vec<Vec<Overdue>> {
    let mut batches = Vec::new();
    while !due.is_empty() {
        let rest = due.split_off(fitting(due.iter().map(|(_, refs)| refs.lines())));
        batches.push(core::mem::replace(&mut due, rest));
    }
    batches
}
