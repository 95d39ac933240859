//! The one task that owns the connection: takes what waits, runs it as one batch, answers. It is the only place that
//! puts answers, and it puts exactly one for everything it takes.

use super::batch::settle;
use super::connect::Connection;
use super::{BATCH_COMMANDS, BATCH_LINES, Config, read};
use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stockhold_domain::{Command, Envelope, Outcome, Returning};
use stockhold_store::{Answer, Ask, EventRow, Failure, Inbox, Query, ReplyTo, Work};
use tokio::sync::Notify;

/// What the task is given.
pub(super) enum Job {
    /// To be answered through its inbox.
    Work(Work),
    /// See [`stockhold_store::Store::events`].
    Events { after: u64, limit: usize, answer: SyncSender<Result<Vec<EventRow>, Failure>> },
}

/// Where jobs wait for the task. Bounded: that is the backpressure.
pub(super) struct Mailbox {
    waiting: Mutex<Waiting>,
    bell: Notify,
    limit: usize,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Mailbox {
    pub(super) fn new(limit: usize) -> Self {
        Self { waiting: Mutex::default(), bell: Notify::new(), limit }
    }

    /// Takes a job, or gives it back with the reason.
    pub(super) fn push(&self, job: Job) -> Result<(), (Job, Failure)> {
        let mut waiting = self.waiting();
        if waiting.closed {
            return Err((job, stopped()));
        }
        if waiting.jobs.len() >= self.limit {
            return Err((job, Failure::Overloaded));
        }
        waiting.jobs.push_back(job);
        Ok(())
    }

    /// Wakes the task.
    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Takes no more jobs; those that wait are still worked on.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.ring();
    }

    /// Takes no more jobs, and answers those that wait: nobody will work on them.
    fn abandon(&self) {
        self.close();
        while let Some(job) = self.pop() {
            if let Job::Work(work) = job {
                work.reply.answer(Err(stopped()));
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.waiting().closed
    }

    fn pop(&self) -> Option<Job> {
        self.waiting().jobs.pop_front()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer when nobody works any more.
pub(super) fn stopped() -> Failure {
    Failure::Unavailable("the store has stopped".to_owned())
}

/// The connection, if there is one, and how to get another.
pub(super) struct Link {
    pub(super) config: Config,
    connection: Option<Connection>,
    trouble: Arc<Mutex<Option<String>>>,
}

impl Link {
    /// The connection, opened if need be.
    pub(super) async fn get(&mut self) -> Result<&Connection, Failure> {
        let connection = match self.connection.take().filter(|connection| !connection.client.is_closed()) {
            Some(connection) => connection,
            None => match Connection::open(&self.config).await {
                Ok(connection) => connection,
                Err(error) => {
                    tracing::warn!(%error, "no connection to PostgreSQL");
                    return Err(self.cut(error.to_string()));
                }
            },
        };
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(self.connection.insert(connection))
    }

    /// The connection that was got before, unless it is lost: never another one.
    pub(super) fn held(&self) -> Option<&Connection> {
        self.connection.as_ref().filter(|connection| !connection.client.is_closed())
    }

    /// Drops the connection, since what is open on it is in doubt.
    pub(super) fn cut(&mut self, why: String) -> Failure {
        self.connection = None;
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
        Failure::Unavailable(why)
    }
}

/// The task's side of the store.
pub(super) struct Queue {
    link: Link,
    mailbox: Arc<Mailbox>,
    /// Taken and not yet settled: commands that go on in the next batch, or did not fit into this one.
    carried: VecDeque<Asked>,
}

/// A command that waits.
struct Asked {
    envelope: Box<Envelope>,
    reply: ReplyTo,
}

/// What was taken to be worked on together.
#[derive(Default)]
struct Taken {
    commands: Vec<Asked>,
    lines: usize,
    queries: Vec<(Query, ReplyTo)>,
    events: Vec<Job>,
}

impl Taken {
    fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.queries.is_empty() && self.events.is_empty()
    }
}

impl Drop for Queue {
    /// Finds something only when the task has panicked.
    fn drop(&mut self) {
        for asked in self.carried.drain(..) {
            asked.reply.answer(Err(stopped()));
        }
        self.mailbox.abandon();
    }
}

impl Queue {
    pub(super) fn new(
        config: Config,
        connection: Connection,
        mailbox: Arc<Mailbox>,
        trouble: Arc<Mutex<Option<String>>>,
    ) -> Self {
        let link = Link { config, connection: Some(connection), trouble };
        Self { link, mailbox, carried: VecDeque::new() }
    }

    /// Runs until the mailbox is closed and nothing waits.
    pub(super) async fn run(&mut self) {
        loop {
            let mut taken = Taken::default();
            for asked in core::mem::take(&mut self.carried) {
                self.place(asked, &mut taken);
            }
            // What did not fit stays ahead of what has not been taken, so that order is kept.
            while self.carried.is_empty() && taken.queries.len() < BATCH_COMMANDS {
                let Some(job) = self.mailbox.pop() else { break };
                self.take(job, &mut taken);
            }
            if !taken.is_empty() {
                self.work(taken).await;
            } else if self.mailbox.is_closed() {
                return;
            } else {
                self.mailbox.bell.notified().await;
            }
        }
    }

    fn take(&mut self, job: Job, taken: &mut Taken) {
        match job {
            Job::Work(Work { ask: Ask::Command(envelope), reply }) => {
                self.place(Asked { envelope, reply }, taken);
            }
            Job::Work(Work { ask: Ask::Query(query), reply }) => taken.queries.push((query, reply)),
            events @ Job::Events { .. } => taken.events.push(events),
        }
    }

    fn place(&mut self, asked: Asked, taken: &mut Taken) {
        let lines = lines_of(&asked.envelope.command);
        let fits = taken.commands.len() < BATCH_COMMANDS && taken.lines + lines <= BATCH_LINES;
        if self.carried.is_empty() && (fits || taken.commands.is_empty()) {
            taken.lines += lines;
            taken.commands.push(asked);
        } else {
            self.carried.push_back(asked);
        }
    }

    async fn work(&mut self, taken: Taken) {
        let mut post = Post::default();
        let envelopes: Vec<&Envelope> = taken.commands.iter().map(|asked| &*asked.envelope).collect();
        let results = settle(&mut self.link, &envelopes).await;
        let mut later = VecDeque::new();
        for (asked, result) in taken.commands.into_iter().zip(results) {
            match result {
                Ok(Outcome::Later) => later.push_back(asked),
                Ok(outcome) => post.put(asked.reply, Ok(Answer::Outcome(outcome))),
                Err(failure) => post.put(asked.reply, Err(failure)),
            }
        }
        later.append(&mut self.carried);
        self.carried = later;

        for (query, reply) in taken.queries {
            post.put(reply, read::query(&mut self.link, &query).await);
        }
        post.flush();
        for job in taken.events {
            if let Job::Events { after, limit, answer } = job {
                // Whoever no longer waits for the answer does not want it.
                let _ = answer.send(read::events(&mut self.link, after, limit).await);
            }
        }
    }
}

fn lines_of(command: &Command) -> usize {
    match command {
        Command::Reserve(reserve) => reserve.basket.wants().len(),
        Command::Return(returned) => match &returned.returning {
            Returning::All => 1,
            Returning::Lines(basket) => basket.wants().len(),
        },
        _ => 1,
    }
}

/// Answers put, and the inboxes to wake for them: each once.
#[derive(Default)]
struct Post {
    inboxes: Vec<Arc<dyn Inbox>>,
}

impl Post {
    fn put(&mut self, reply: ReplyTo, answer: Result<Answer, Failure>) {
        reply.inbox.put(reply.ticket, answer);
        if !self.inboxes.iter().any(|inbox| Arc::ptr_eq(inbox, &reply.inbox)) {
            self.inboxes.push(reply.inbox);
        }
    }

    fn flush(self) {
        for inbox in self.inboxes {
            inbox.flush();
        }
    }
}
