//! [`GateStore`]: a store with a gate in front of it.
//!
//! What the gate is not asked for goes to the store on the caller's thread. The rest goes to one thread, which asks Redis for all
//! requests that wait, and then hands what was admitted to the store as one batch.

use crate::admission::{GateRequest, may_raise};
use crate::follow_up::{FollowUp, FollowUpInbox, Followed, FollowedCommands, Part};
use crate::message::{AskedCommands, AskedRequest, Message};
use crate::options::GateOptions;
use crate::refresh;
use crate::round::Rounds;
use crate::shared::Shared;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stockhold_domain::{Command, CommandKind, Envelope, Item, ItemKey};
use stockhold_store::{Failure, GateSelection, GateStatus, Job, ReloadSummary, ReplyTo, Request, Store};
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait for the gate. Further ones are answered as overloaded.
const MAX_WAITING: usize = 65_536;

/// Longest wait for answers that the store puts while the gate ends.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// Pause between two looks at them.
const LAST_ANSWERS_PAUSE: Duration = Duration::from_millis(5);

/// A store with a gate in front of it.
pub struct GateStore {
    shared: Arc<Shared>,
    inbox: Arc<FollowUpInbox>,
    thread: Option<JoinHandle<()>>,
}

impl GateStore {
    /// Puts a gate in front of a store. It does not wait for Redis.
    pub fn start(store: Arc<dyn Store>, options: GateOptions) -> io::Result<Self> {
        let (messages, receiver) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::new(store, options, messages));
        let inbox = Arc::new(FollowUpInbox::new(&shared));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let rounds = Rounds::new(Arc::clone(&shared), Arc::clone(&inbox), receiver);
        let tasks = Arc::clone(&shared);
        let run = move || {
            runtime.block_on(async move {
                tokio::spawn(refresh::keep_connected(Arc::clone(&tasks)));
                tokio::spawn(refresh::follow_events(Arc::clone(&tasks)));
                tokio::spawn(refresh::reconcile(tasks));
                rounds.run().await;
            });
        };
        let thread = std::thread::Builder::new().name("gate".to_owned()).spawn(run)?;
        Ok(Self { shared, inbox, thread: Some(thread) })
    }

    /// The state of the gate, with at most `limit` items.
    pub async fn status(&self, limit: usize) -> Result<GateStatus, Failure> {
        let (reply, status) = oneshot::channel();
        self.shared.send(Message::Status { limit, reply });
        status.await.map_err(|_| gone())
    }

    /// Writes counters of gated items anew from what the store has committed.
    pub async fn reload(&self, selection: GateSelection) -> Result<ReloadSummary, Failure> {
        let (reply, summary) = oneshot::channel();
        self.shared.send(Message::Reload { selection, reply });
        summary.await.map_err(|_| gone())?
    }

    fn request_of(&self, envelope: &Envelope) -> Option<GateRequest> {
        let Command::Reserve(reserve) = &envelope.command else { return None };
        let Shared { table, options, .. } = &*self.shared;
        GateRequest::of(&table.read(), reserve, &options.hold_limits, options.clock.now())
    }

    fn ask(&self, job: AskedRequest) {
        if self.shared.waiting.fetch_add(1, Ordering::AcqRel) >= MAX_WAITING {
            self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
            return job.reply.answer(Err(Failure::Overloaded));
        }
        self.shared.send(Message::Ask(job));
    }

    fn submit_commands(&self, envelopes: Vec<Envelope>, reply: ReplyTo) {
        // Commands are decided in their order. Units that an earlier one gives back are not in the gate yet.
        let mut raised = false;
        let mut commands = Vec::with_capacity(envelopes.len());
        for envelope in envelopes {
            let request = if raised { None } else { self.request_of(&envelope) };
            raised |= may_raise(&envelope.command);
            commands.push((envelope, request));
        }
        if commands.iter().any(|(_, request)| request.is_some()) {
            return self.ask(AskedRequest { commands: AskedCommands::Many(commands), reply });
        }
        let parts = commands.iter().map(|(envelope, _)| Part::Sent(Followed::of(envelope))).collect();
        let envelopes = commands.into_iter().map(|(envelope, _)| envelope).collect();
        let follow_up = FollowUp { reply, commands: FollowedCommands::Many(parts) };
        let reply = self.inbox.address(follow_up);
        self.shared.store.submit(Job { request: Request::Commands(envelopes), reply });
    }
}

impl Followed {
    /// What follows a command that the gate is not asked for, or that it has admitted.
    pub(crate) fn of(envelope: &Envelope) -> Self {
        Self {
            may_raise: may_raise(&envelope.command),
            item: envelope.command.changed_item().cloned(),
            changes_pauses: envelope.command.kind() == CommandKind::SetSale,
            ..Self::default()
        }
    }
}

impl Store for GateStore {
    fn submit(&self, job: Job) {
        let store = &self.shared.store;
        match job.request {
            Request::Query(_) => store.submit(job),
            // The first gated item is known when its command is answered.
            Request::Command(ref envelope)
                if !self.shared.table.is_used() && envelope.command.changed_item().is_none() =>
            {
                store.submit(job);
            }
            Request::Command(envelope) => {
                if let Some(request) = self.request_of(&envelope) {
                    return self.ask(AskedRequest {
                        commands: AskedCommands::One(envelope, request),
                        reply: job.reply,
                    });
                }
                let commands = FollowedCommands::One(Followed::of(&envelope));
                let reply = self.inbox.address(FollowUp { reply: job.reply, commands });
                store.submit(Job { request: Request::Command(envelope), reply });
            }
            Request::Commands(ref envelopes)
                if !self.shared.table.is_used()
                    && envelopes.iter().all(|envelope| envelope.command.changed_item().is_none()) =>
            {
                store.submit(job);
            }
            Request::Commands(envelopes) => self.submit_commands(envelopes, job.reply),
        }
    }

    fn flush(&self) {
        self.shared.store.flush();
    }

    fn published_item(&self, item: &ItemKey) -> Option<Option<Item>> {
        self.shared.store.published_item(item)
    }

    fn newest(&self) -> u64 {
        self.shared.store.newest()
    }

    fn fatal_error(&self) -> Option<String> {
        self.shared.store.fatal_error()
    }

    fn degraded_reason(&self) -> Option<String> {
        self.shared.store.degraded_reason()
    }
}

impl Drop for GateStore {
    /// Ends the gate's thread. What waits for the gate is handed to the store.
    fn drop(&mut self) {
        self.shared.send(Message::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the gate's thread had panicked");
        }
        // A thread of the store that puts an answer has the store with it for a moment, and must not be the one that ends the store.
        let begun = Instant::now();
        while Arc::strong_count(&self.shared) > 1 && begun.elapsed() < LAST_ANSWERS {
            std::thread::sleep(LAST_ANSWERS_PAUSE);
        }
    }
}

fn gone() -> Failure {
    Failure::Unavailable("the gate has ended".to_owned())
}
