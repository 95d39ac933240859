//! The connection pool: idle connections, their number, and when another one is opened.
//!
//! A machine that has failed sends nothing: an idle connection to it is found lost only after a deadline. So when one connection is
//! lost, all are dropped that were silent for some time. They are opened again in milliseconds.

use crate::engine::dialect::Session;
use crate::engine::meters;
use crate::engine::options::Options;
use core::time::Duration;
use tokio::time::Instant;

/// The pause after a connection could not be opened. It is doubled up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause: how soon a recovered database is noticed.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of connections that are opened at the same time, so that a server that restarts is not overloaded.
const OPENED_AT_ONCE: usize = 4;

/// See the documentation of the module.
pub(super) struct ConnectionPool<S> {
    /// Idle connections, each with the instant of its last answer.
    idle: Vec<(S, Instant)>,
    /// How long an idle connection may have been silent when another one is lost.
    quiet: Duration,
    /// Open connections, idle or in use.
    open: usize,
    opening: usize,
    least: usize,
    most: usize,
    failed: Option<OpenFailure>,
}

struct OpenFailure {
    why: String,
    pause: Duration,
    until: Instant,
}

impl<S: Session> ConnectionPool<S> {
    /// With the first connection, which has been opened already.
    pub(super) fn new(first: S, options: &Options) -> Self {
        Self {
            idle: vec![(first, Instant::now())],
            // Half of the time in which a silent connection is found lost.
            quiet: options.batch_deadline.min(options.commit_deadline) / 2,
            open: 1,
            opening: 0,
            least: options.connections,
            most: options.most_connections,
            failed: None,
        }
    }

    /// The number of idle connections.
    pub(super) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Takes an idle connection. The caller has to return it, or to report that it was lost.
    pub(super) fn take(&mut self) -> Option<S> {
        self.drop_lost();
        self.idle.pop().map(|(session, _)| session)
    }

    /// Returns a connection, or reports with `None` that it was lost.
    pub(super) fn return_connection(&mut self, session: Option<S>) {
        let now = Instant::now();
        match session {
            Some(session) => self.idle.push((session, now)),
            None => {
                self.open = self.open.saturating_sub(1);
                let quiet = self.quiet;
                self.keep(|_, heard| now.duration_since(heard) <= quiet);
            }
        }
        meters::connections(self.open);
    }

    /// Drops idle connections that are known to be lost.
    pub(super) fn drop_lost(&mut self) {
        self.keep(|session, _| !session.is_lost());
    }

    /// Drops all idle connections.
    pub(super) fn give_up(&mut self) {
        self.keep(|_, _| false);
    }

    fn keep(&mut self, good: impl Fn(&S, Instant) -> bool) {
        let before = self.idle.len();
        self.idle.retain(|(session, heard)| good(session, *heard));
        self.open = self.open.saturating_sub(before - self.idle.len());
    }

    /// How many connections to open now: up to the initial number, and one more under `pressure`.
    pub(super) fn missing(&mut self, pressure: bool) -> usize {
        let now = Instant::now();
        if self.failed.as_ref().is_some_and(|failed| failed.until > now) {
            return 0;
        }
        let there = self.open + self.opening;
        let wanted = if pressure { there.max(self.least) + 1 } else { self.least };
        let short = wanted.min(self.most).saturating_sub(there);
        // After a failure, one attempt is enough to find out.
        let at_once = if self.failed.is_some() { 1 } else { OPENED_AT_ONCE };
        let count = short.min(at_once.max(self.opening) - self.opening);
        self.opening += count;
        count
    }

    /// A connection was opened.
    pub(super) fn opened(&mut self, session: S) {
        self.opening = self.opening.saturating_sub(1);
        self.open += 1;
        self.failed = None;
        self.return_connection(Some(session));
    }

    /// A connection could not be opened.
    pub(super) fn could_not_open(&mut self, why: String) {
        self.opening = self.opening.saturating_sub(1);
        let pause = self.failed.take().map_or(FIRST_PAUSE, |failed| (failed.pause * 2).min(LONGEST_PAUSE));
        self.failed = Some(OpenFailure { why, pause, until: Instant::now() + pause });
    }

    /// Why there is no connection, if none is open and none is being opened.
    pub(super) fn out_of_order(&self) -> Option<&str> {
        let failed = self.failed.as_ref().filter(|_| self.open == 0 && self.opening == 0)?;
        Some(&failed.why)
    }

    /// Whether there is no connection at all.
    pub(super) fn is_cut_off(&self) -> bool {
        self.open == 0
    }

    /// When to try again, if the last try failed and its pause is not over.
    pub(super) fn next_try(&self, now: Instant) -> Option<Instant> {
        self.failed.as_ref().map(|failed| failed.until).filter(|until| *until > now)
    }
}
