//! Work that no request waits for: on a thread that gets a core only when no other thread of the process wants it. A request
//! that comes meanwhile goes on at once, and not when such work has used up its turn.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant as Monotonic};

/// What no piece of work takes, disk included, where it gets a core at all. When one has taken longer, all cores are busy.
const STARVED: Duration = Duration::from_secs(2);
/// How long no work steps back then.
const PRESSING: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct Quiet {
    name: &'static str,
    /// Whether there is work just now that steps back.
    back: Arc<AtomicBool>,
    /// Until when no work steps back.
    pressing: Option<Monotonic>,
}

impl Quiet {
    /// For work that is shown under this name.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, back: Arc::default(), pressing: None }
    }

    /// Says whether there is work just now that steps back: it goes on when others rest.
    pub(crate) fn back(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.back)
    }

    /// Does work and waits for it: behind everything else, unless that would take too long or it is `hurried`. It must not
    /// hold a lock that requests want: stepping back, it may hold it for seconds.
    pub(crate) fn run<T: Send>(&mut self, hurried: bool, work: impl FnOnce() -> T + Send) -> T {
        let begun = Monotonic::now();
        if hurried || self.pressing.is_some_and(|until| begun < until) {
            return work();
        }
        self.back.store(true, Ordering::Relaxed);
        let done = quietly(self.name, work);
        self.back.store(false, Ordering::Relaxed);
        self.pressing = (begun.elapsed() > STARVED).then(|| Monotonic::now() + PRESSING);
        done
    }
}

fn quietly<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let done = scope(|scope| {
        let work = &mut work;
        let started = Builder::new().name(name.to_owned()).spawn_scoped(scope, move || {
            step_back();
            work.take().map(|work| work())
        });
        started.ok().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    match (done.flatten(), work) {
        (Some(done), _) => done,
        // No thread could be had.
        (None, Some(work)) => work(),
        (None, None) => unreachable!("a thread that took its work has done it or panicked"),
    }
}

/// A thread can't come forward again without privileges, so it is one for each piece of work. Where the system knows nothing
/// of the kind, or does not allow it, the thread is as all others.
fn step_back() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::ThreadPriority;
        use thread_priority::unix::{
            NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
            thread_native_id,
        };
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        if let Err(error) = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle) {
            tracing::debug!(?error, "a thread can't step back behind the others");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// How the thread that asks is scheduled: field 41 of its line, of which the second may have blanks in it.
    #[cfg(target_os = "linux")]
    fn policy() -> u32 {
        let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, rest) = line.rsplit_once(')').unwrap();
        rest.split_ascii_whitespace().nth(41 - 3).unwrap().parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn work_steps_back_unless_it_is_hurried_and_nobody_else_does() {
        const OTHER: u32 = 0;
        const IDLE: u32 = 5;
        let mut quiet = Quiet::new("test");
        assert_eq!((quiet.run(false, policy), policy()), (IDLE, OTHER));
        assert_eq!(quiet.run(true, policy), OTHER);
        quiet.pressing = Some(Monotonic::now() + PRESSING);
        assert_eq!(quiet.run(false, policy), OTHER);
        quiet.pressing = Some(Monotonic::now());
        assert_eq!(quiet.run(false, policy), IDLE);
        assert_eq!(quiet.pressing, None);
    }

    #[test]
    fn a_panic_is_not_swallowed() {
        let mut done = 0;
        Quiet::new("test").run(false, || done += 1);
        let panicked =
            catch_unwind(AssertUnwindSafe(|| Quiet::new("test").run(false, || panic!("on purpose"))));
        let told = panicked.unwrap_err();
        assert_eq!((done, told.downcast_ref::<&str>()), (1, Some(&"on purpose")));
    }
}
