//! What goes on in the background: expiring what is due, watching the free space. None of it is needed for a right answer.

use crate::threads::shared::Shared;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant as Monotonic};
use stockhold_domain::{Command, Envelope, EventId, Label, Origin, Outcome, Reply, RequestId};
use stockhold_store::fault;
use stockhold_store::ids::IdSource;
use stockhold_store::{Answer, Failure, Inbox, Job, ReplyTo, Request};

/// How often due holds are looked for: well within the second that is promised.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// How often the free space is looked at, and the log's length.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Who expires what nobody asked for.
pub(crate) const ACTOR: &str = "stockhold";

/// See the module.
pub(crate) struct Housekeeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log_file: PathBuf,
    pub(crate) free_floor: u64,
    pub(crate) sweeps: bool,
    pub(crate) ids: IdSource,
    pub(crate) actor: Label,
}

impl Housekeeper {
    /// Runs until the store stops.
    pub(crate) fn run(mut self) {
        let answer = Arc::new(OneAnswer::default());
        let mut looked: Option<Monotonic> = None;
        while !self.shared.stopping.load(Ordering::Acquire) {
            if self.shared.core().poisoned().is_some() {
                // The disk is not touched any more. Who panicked could not wake the committer, and it has to tell
                // everybody.
                self.shared.flush();
                return;
            }
            if self.sweeps {
                self.sweep(&answer);
            }
            if looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
                looked = Some(Monotonic::now());
                self.look();
            }
            // A stop cuts this short.
            std::thread::park_timeout(SWEEP_EVERY);
        }
    }

    fn sweep(&mut self, answer: &Arc<OneAnswer>) {
        loop {
            let now = self.shared.clock.now();
            let due = {
                let core = self.shared.core();
                core.poisoned().is_none() && core.next_due().is_some_and(|due| due <= core.floor(now))
            };
            if !due || self.shared.stopping.load(Ordering::Acquire) {
                return;
            }
            let envelope = Envelope {
                command: Command::Sweep,
                key: None,
                fresh: self.ids.generate(now, 0),
                origin: Origin {
                    actor: self.actor.clone(),
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
                // However few it were: others may have used up what the batch may expire.
                Ok(Answer::Outcome(Outcome::Done(Reply::Swept { .. }))) => {
                    fault!("sweep.answered");
                }
                // Refused for a moment or for good: the next round tries again, and whoever refused has said why.
                _ => return,
            }
        }
    }

    fn look(&self) {
        fault!("space.looked_at");
        let free = free_bytes(&self.log_file);
        if let Ok(free) = free {
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            metrics::gauge!("stockhold_free_disk_bytes").set(free as f64);
        }
        let no_reserves = match free {
            Ok(free) if free < self.free_floor => Some(format!(
                "{} MiB are free on the data directory's disk and {} MiB are kept for what is under way",
                free >> 20,
                self.free_floor >> 20
            )),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "the free space can't be read");
                None
            }
        };
        let mut core = self.shared.core();
        if core.no_reserves.is_some() != no_reserves.is_some() {
            match &no_reserves {
                Some(why) => tracing::error!(why, "new reservations are turned away"),
                None => tracing::info!("new reservations are taken again"),
            }
        }
        core.no_reserves = no_reserves;
    }
}

fn free_bytes(file: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(file)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[derive(Default)]
struct OneAnswer {
    answer: Mutex<Option<Result<Answer, Failure>>>,
    put: Condvar,
}

impl OneAnswer {
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

impl Inbox for OneAnswer {
    fn put(&self, _: u64, answer: Result<Answer, Failure>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    fn flush(&self) {
        self.put.notify_one();
    }
}
