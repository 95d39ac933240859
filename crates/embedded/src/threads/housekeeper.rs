//! Background work: expires overdue holds and checks the free space. No answer depends on it.

use crate::threads::shared::Shared;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant as Monotonic};
use stockhold_domain::{Access, Command, Envelope, EventId, Label, Origin, Outcome, Reply, RequestId};
use stockhold_store::fault;
use stockhold_store::ids::IdSource;
use stockhold_store::{Answer, Failure, Inbox, Job, ReplyTo, Request};

/// How often overdue holds are looked for. It is well below the second that is promised.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_millis(100);
/// How often the free space and the length of the write-ahead log are checked.
pub(crate) const DISK_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// The actor of background expiries.
pub(crate) const SWEEPER_ACTOR: &str = "stockhold";

/// The thread of the background work.
pub(crate) struct Housekeeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log_file: PathBuf,
    pub(crate) min_free_bytes: u64,
    pub(crate) sweeps: bool,
    pub(crate) ids: IdSource,
    pub(crate) actor: Label,
}

impl Housekeeper {
    /// Runs until the store stops.
    pub(crate) fn run(mut self) {
        let answer = Arc::new(AnswerSlot::default());
        let mut looked: Option<Monotonic> = None;
        while !self.shared.stopping.load(Ordering::Acquire) {
            if self.shared.core().poisoned().is_some() {
                // After a poison the disk is not used any more. A thread that panicked could not wake the committer,
                // and the committer has to fail all waiting requests.
                self.shared.flush();
                return;
            }
            if self.sweeps {
                self.sweep(&answer);
            }
            if looked.is_none_or(|at| at.elapsed() >= DISK_CHECK_INTERVAL) {
                looked = Some(Monotonic::now());
                self.check_free_space();
            }
            // A stop ends this wait.
            std::thread::park_timeout(SWEEP_INTERVAL);
        }
    }

    fn sweep(&mut self, answer: &Arc<AnswerSlot>) {
        loop {
            let now = self.shared.clock.now();
            let due = {
                let core = self.shared.core();
                core.poisoned().is_none()
                    && core.next_due().is_some_and(|due| due <= core.clamp_to_committed(now))
            };
            if !due || self.shared.stopping.load(Ordering::Acquire) {
                return;
            }
            let envelope = Envelope {
                access: Access::Unrestricted,
                command: Command::Sweep,
                key: None,
                fresh: self.ids.generate(now, 0),
                origin: Origin {
                    actor: self.actor.clone(),
                    key_id: None,
                    request_id: RequestId::Made(EventId::new(now, self.ids.random()).as_u128()),
                    trace: None,
                },
            };
            fault!("sweep.due");
            let inbox: Arc<dyn Inbox> = answer.clone();
            let work =
                Job { request: Request::Command(Box::new(envelope)), reply: ReplyTo { inbox, ticket: 0 } };
            self.shared.admit(work.into());
            self.shared.flush();
            match answer.wait() {
                // Continues after any number of expiries, because other commands may have used the limit of the batch.
                Ok(Answer::Outcome(Outcome::Done(Reply::Swept { .. }))) => {
                    fault!("sweep.answered");
                }
                // The next round tries again. The reason of the refusal is already logged.
                _ => return,
            }
        }
    }

    fn check_free_space(&self) {
        fault!("space.looked_at");
        let free = free_bytes(&self.log_file);
        if let Ok(free) = free {
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            metrics::gauge!("stockhold_free_disk_bytes").set(free as f64);
        }
        let reserve_refusal = match free {
            Ok(free) if free < self.min_free_bytes => Some(format!(
                "{} MiB are free on the disk of the data directory, and {} MiB are reserved for active reservations",
                free >> 20,
                self.min_free_bytes >> 20
            )),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "the free space can't be read");
                None
            }
        };
        let mut core = self.shared.core();
        if core.reserve_refusal.is_some() != reserve_refusal.is_some() {
            match &reserve_refusal {
                Some(why) => tracing::error!(why, "new reservations are refused"),
                None => tracing::info!("new reservations are accepted again"),
            }
        }
        core.reserve_refusal = reserve_refusal;
    }
}

fn free_bytes(file: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(file)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[derive(Default)]
struct AnswerSlot {
    answer: Mutex<Option<Result<Answer, Failure>>>,
    put: Condvar,
}

impl AnswerSlot {
    fn wait(&self) -> Result<Answer, Failure> {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match answer.take() {
                Some(answer) => return answer,
                None => answer = self.put.wait(answer).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Inbox for AnswerSlot {
    fn put(&self, _: u64, answer: Result<Answer, Failure>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    fn flush(&self) {
        self.put.notify_one();
    }
}
