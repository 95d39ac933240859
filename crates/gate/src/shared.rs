//! What the gate's tasks share: the store, the items, and the connection to Redis.
//!
//! No request waits for a connection, and none waits longer than the time-out for an answer of Redis. After [`MAX_FAILURES`] failures in
//! a row Redis is not asked until it is connected again.

use crate::connection::RedisConnection;
use crate::counter::{Counter, CounterMoves, CounterScripts};
use crate::item_table::ItemTable;
use crate::message::{AskedRequest, Message};
use crate::meters::GateMeters;
use crate::options::GateOptions;
use redis::RedisError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stockhold_domain::ItemKey;
use stockhold_store::{Failure, Store};
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Failed calls in a row after which Redis counts as away.
const MAX_FAILURES: u32 = 5;

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) options: GateOptions,
    pub(crate) table: ItemTable,
    pub(crate) scripts: CounterScripts,
    pub(crate) meters: GateMeters,
    pub(crate) messages: mpsc::UnboundedSender<Message>,
    /// Requests that wait for the gate.
    pub(crate) waiting: AtomicUsize,
    /// The connection, while Redis is used.
    connection: watch::Sender<Option<RedisConnection>>,
    /// Failed calls since the last good one.
    failures: AtomicU32,
    /// When all changes of other instances were known.
    known_at: Mutex<Instant>,
    /// Items whose counters may be wrong.
    suspects: Mutex<BTreeSet<ItemKey>>,
    /// Wakes the task that looks at suspects.
    wake_feed: Notify,
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        options: GateOptions,
        messages: mpsc::UnboundedSender<Message>,
    ) -> Self {
        Self {
            store,
            table: ItemTable::new(options.every_item),
            options,
            scripts: CounterScripts::new(),
            meters: GateMeters::new(),
            messages,
            waiting: AtomicUsize::new(0),
            connection: watch::Sender::new(None),
            failures: AtomicU32::new(0),
            known_at: Mutex::new(Instant::now()),
            suspects: Mutex::default(),
            wake_feed: Notify::new(),
        }
    }

    /// Sends a message to the gate's thread, which runs for as long as the store is open.
    pub(crate) fn send(&self, message: Message) {
        match self.messages.send(message) {
            // Only a panic ends the thread before the store is closed.
            Err(SendError(Message::Ask(AskedRequest { reply, .. }))) => {
                reply.answer(Err(Failure::Unavailable("the gate has ended".to_owned())));
            }
            Err(SendError(Message::RaiseFirst { reply, answer, .. })) => reply.answer(answer),
            Ok(())
            | Err(SendError(
                Message::Settle(_) | Message::Reload { .. } | Message::Status { .. } | Message::Stop,
            )) => {}
        }
    }

    /// The connection. `None` while Redis is not used.
    pub(crate) fn connection(&self) -> Option<RedisConnection> {
        self.connection.borrow().clone()
    }

    pub(crate) fn set_connection(&self, connection: RedisConnection) {
        self.failures.store(0, Ordering::Relaxed);
        self.connection.send_replace(Some(connection));
        self.meters.set_connected(true);
    }

    /// Waits until Redis is not used any more.
    pub(crate) async fn disconnected(&self) {
        // It fails only when the sender is gone, which is a part of `self`.
        let _ = self.connection.subscribe().wait_for(Option::is_none).await;
    }

    /// Moves the counters of items, all at once.
    pub(crate) async fn move_counters(
        self: &Arc<Self>,
        mut calls: BTreeMap<ItemKey, CounterMoves>,
    ) -> Vec<(ItemKey, Option<Option<Counter>>)> {
        let mut answers = Vec::with_capacity(calls.len());
        // Most calls are about one item, which needs no task.
        let last = calls.pop_last();
        let mut tasks = JoinSet::new();
        for (item, moves) in calls {
            let shared = Arc::clone(self);
            tasks.spawn(async move {
                let answer = shared.move_counter(&item, &moves).await;
                (item, answer)
            });
        }
        if let Some((item, moves)) = last {
            let answer = self.move_counter(&item, &moves).await;
            answers.push((item, answer));
        }
        while let Some(done) = tasks.join_next().await {
            match done {
                Ok(answer) => answers.push(answer),
                Err(error) => tracing::error!(%error, "a call to the gate's Redis panicked"),
            }
        }
        answers
    }

    /// Moves the counter of an item. `None` if there is no answer. `Some(None)` if Redis has no counter of the item.
    pub(crate) async fn move_counter(&self, item: &ItemKey, moves: &CounterMoves) -> Option<Option<Counter>> {
        let mut connection = self.connection()?;
        let call = self.scripts.run(&mut connection, item, moves, self.options.clock.now());
        self.answer_of(call).await
    }

    /// The answer to a call, if it comes in time. A failed call is counted.
    pub(crate) async fn answer_of<T>(&self, call: impl Future<Output = Result<T, RedisError>>) -> Option<T> {
        let (why, is_lost) = match timeout(self.options.timeout, call).await {
            Ok(Ok(answer)) => {
                self.failures.store(0, Ordering::Relaxed);
                return Some(answer);
            }
            Ok(Err(error)) => (error.to_string(), error.is_connection_dropped()),
            Err(_) => (format!("no answer within {} ms", self.options.timeout.as_millis()), false),
        };
        GateMeters::failed();
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if is_lost || failures >= MAX_FAILURES {
            self.disconnect(&why);
        }
        None
    }

    /// Uses Redis no more, until it is connected again and all counters are written anew.
    pub(crate) fn disconnect(&self, why: &str) {
        if self.connection.send_replace(None).is_some() {
            self.log_away(why);
        }
    }

    /// Asks Redis for nothing, so that its loss is noticed without a request.
    pub(crate) async fn ping(&self) {
        if let Some(mut connection) = self.connection() {
            let _ = self.answer_of(redis::cmd("PING").query_async::<()>(&mut connection)).await;
        }
    }

    pub(crate) fn log_away(&self, why: &str) {
        self.meters.set_connected(false);
        tracing::warn!(why, "the gate's Redis is away: the store decides alone");
    }

    /// Has the counters of these items written anew soon, or at once if they are missing.
    pub(crate) fn suspect(&self, items: Vec<ItemKey>, at_once: bool) {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).extend(items);
        if at_once {
            self.wake_feed.notify_one();
        }
    }

    /// Takes the items whose counters may be wrong.
    pub(crate) fn take_suspects(&self) -> BTreeSet<ItemKey> {
        std::mem::take(&mut *self.suspects.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until a counter was found missing.
    pub(crate) async fn counter_missing(&self) {
        self.wake_feed.notified().await;
    }

    /// Notes that all changes up to now are known.
    pub(crate) fn note_known(&self) {
        *self.known_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The time since all changes were known.
    pub(crate) fn lag(&self) -> Duration {
        self.known_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}
