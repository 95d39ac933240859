//! Runs SQLite work that no request waits for on a thread with idle priority. Such a thread gets a core only when no
//! other thread wants it, so a request never waits until this work has used up its time slice.

use rusqlite::ErrorCode;
use std::panic::resume_unwind;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant as Monotonic};

/// The longest run at idle priority. Work on a machine that is not overloaded takes less. Work that takes longer is
/// cancelled and starts again at normal priority.
const MAX_IDLE_RUN: Duration = Duration::from_secs(2);
/// How long all work runs at normal priority after that.
const NORMAL_PRIORITY_PERIOD: Duration = Duration::from_secs(10);
/// How often the waiting thread checks whether the work has become urgent.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Runs SQLite work on a thread with idle priority.
#[derive(Debug)]
pub(crate) struct IdlePriorityRunner {
    name: &'static str,
    max_idle_run: Duration,
    /// Until this time all work runs at normal priority.
    normal_until: Option<Monotonic>,
}

impl IdlePriorityRunner {
    /// A runner whose threads have this name.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, max_idle_run: MAX_IDLE_RUN, normal_until: None }
    }

    /// Runs `work` and waits for it. It runs at idle priority, unless it is `urgent` or an earlier run was cancelled
    /// recently. `cancel` may be called several times. It makes the work fail as interrupted, with no effect; then the
    /// work runs again at normal priority with the argument `true`. The work must not hold a lock that requests need,
    /// because it may be suspended for seconds.
    pub(crate) fn run<T: Send>(
        &mut self,
        cancel: impl Fn(),
        urgent: impl Fn() -> bool,
        mut work: impl FnMut(bool) -> rusqlite::Result<T> + Send,
    ) -> rusqlite::Result<T> {
        let begun = Monotonic::now();
        if urgent() {
            self.normal_until = Some(begun + NORMAL_PRIORITY_PERIOD);
        }
        if self.normal_until.is_some_and(|until| begun < until) {
            return work(false);
        }
        let done = scope(|scope| {
            let (at_work, ended) = channel::<()>();
            let work = &mut work;
            let started = Builder::new().name(self.name.to_owned()).spawn_scoped(scope, move || {
                lower_priority();
                let done = work(false);
                drop(at_work);
                done
            });
            let thread = started.ok()?;
            while ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let late = begun.elapsed() > self.max_idle_run;
                if late || urgent() {
                    tracing::debug!(work = self.name, late, "the work continues at normal priority");
                    self.normal_until = Some(Monotonic::now() + NORMAL_PRIORITY_PERIOD);
                    cancel();
                }
            }
            Some(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        match done {
            Some(Err(error)) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                work(true)
            }
            Some(done) => done,
            // The thread could not be started.
            None => work(false),
        }
    }
}

/// A thread can't raise its priority again without privileges, so each run has a thread of its own. If the system does
/// not support or permit the idle policy, the thread keeps its priority.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::ThreadPriority;
        use thread_priority::unix::{
            NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
            thread_native_id,
        };
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        // The call also returns an error if the process has a nice value, after it has set the policy.
        if let Err(error) = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle) {
            tracing::debug!(?error, "a thread may not have idle priority");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    #[cfg(target_os = "linux")]
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    /// The scheduling policy of the calling thread: field 41 of its line. Field 2 may contain blanks.
    #[cfg(target_os = "linux")]
    fn policy() -> u32 {
        let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, rest) = line.rsplit_once(')').unwrap();
        rest.split_ascii_whitespace().nth(41 - 3).unwrap().parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn work_steps_back_unless_it_is_hurried() {
        const IDLE: u32 = 5;
        // Some sandboxes refuse the policy to every thread.
        let allowed =
            Command::new("chrt").args(["--idle", "0", "true"]).status().is_ok_and(|end| end.success());
        let (own, back) = (policy(), if allowed { IDLE } else { policy() });
        let mut runner = IdlePriorityRunner::new("test");
        let mut run = |urgent| runner.run(|| (), || urgent, |_| Ok(policy())).unwrap();
        assert_eq!((run(false), policy()), (back, own));
        assert_eq!(run(true), own);
        assert_eq!(run(false), own, "a while after work that was hurried none steps back");
    }

    fn interrupted() -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_INTERRUPT), None)
    }

    #[test]
    fn work_that_does_not_get_on_is_given_up_and_begins_anew_on_the_thread_that_waits() {
        let waits = thread::current().id();
        // The first run takes too long. The second run becomes urgent after it has started.
        for late in [Duration::ZERO, Duration::MAX] {
            let mut runner = IdlePriorityRunner::new("test");
            runner.max_idle_run = late;
            let (begun, flag) = (AtomicBool::new(false), AtomicBool::new(false));
            let urgent = || late > Duration::ZERO && begun.load(Ordering::Relaxed);
            let cancel = || flag.store(true, Ordering::Relaxed);
            let done = runner.run(cancel, urgent, |anew| {
                assert_eq!(anew, thread::current().id() == waits);
                begun.store(true, Ordering::Relaxed);
                while !anew && !flag.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                if anew { Ok("anew") } else { Err(interrupted()) }
            });
            assert_eq!(done, Ok("anew"));
            assert!(runner.normal_until.is_some());
        }
    }

    #[test]
    fn failures_and_panics_are_not_swallowed() {
        let (mut runner, mut runs) = (IdlePriorityRunner::new("test"), 0);
        let failed = runner.run(
            || (),
            || false,
            |_| -> rusqlite::Result<()> {
                runs += 1;
                Err(rusqlite::Error::InvalidQuery)
            },
        );
        assert_eq!((failed, runs), (Err(rusqlite::Error::InvalidQuery), 1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            IdlePriorityRunner::new("test").run(
                || (),
                || false,
                |_| -> rusqlite::Result<()> { panic!("on purpose") },
            )
        }));
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
    }
}
