//! Load on several servers over one database that goes on whatever becomes of the database: what is unavailable is left
//! alone, what is unknown is asked again with its key, of the other server, until it is answered, and then the client goes back
//! to its own. An answer that never comes is unknown as well.

use super::Fleet;
use super::client::{Client, Flow, Tolerance};
use crate::Outcome;
use crate::http::Connection;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between requests to servers that can't answer now: about what a patient caller waits, times how many callers there are.
const PAUSE: Duration = Duration::from_millis(20);

/// Sees when each server first has a success again.
#[derive(Debug)]
pub(crate) struct RecoveryWatch {
    seen: Mutex<FirstSuccesses>,
}

#[derive(Debug)]
struct FirstSuccesses {
    since: Option<Instant>,
    first: Vec<Option<Duration>>,
}

impl RecoveryWatch {
    pub(crate) fn new(servers: usize) -> Self {
        Self { seen: Mutex::new(FirstSuccesses { since: None, first: vec![None; servers] }) }
    }

    /// From now on. What was asked before does not count, however late it is answered.
    pub(crate) fn begin(&self) {
        self.seen().since = Some(Instant::now());
    }

    /// How long it took each server, for those that have had a success.
    pub(crate) fn firsts(&self) -> Vec<Duration> {
        self.seen().first.iter().copied().flatten().collect()
    }

    fn success(&self, server: usize, sent: Instant) {
        let mut seen = self.seen();
        let Some(since) = seen.since.filter(|since| *since < sent) else { return };
        if let Some(first @ None) = seen.first.get_mut(server) {
            *first = Some(since.elapsed());
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, FirstSuccesses> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fleet {
    /// All clients at it until `stop`. What is unknown then is left to [`Fleet::resolve`].
    pub(crate) fn load_through_failover(
        &mut self,
        servers: &[SocketAddr],
        stop: &AtomicBool,
        watch: &RecoveryWatch,
    ) -> Outcome<()> {
        self.each(|client| client.load_through_failover(servers, stop, watch))
    }
}

impl Client {
    fn load_through_failover(
        &mut self,
        servers: &[SocketAddr],
        stop: &AtomicBool,
        watch: &RecoveryWatch,
    ) -> Outcome<()> {
        let home = self.home(servers.len());
        let mut server = home;
        let mut open: Option<Connection> = None;
        while !stop.load(Ordering::Relaxed) {
            let mut connection = match open.take() {
                Some(connection) => connection,
                None => Connection::open(servers[server])?,
            };
            let unknown = self.pending.take();
            let retry = unknown.is_some();
            let op = unknown.clone().unwrap_or_else(|| self.choose());
            let (sent, effects) = (Instant::now(), self.counts.effects());
            match self.perform(&mut connection, op, retry, Tolerance::Failover)? {
                Flow::Settled => {
                    if self.counts.effects() > effects {
                        watch.success(server, sent);
                    }
                    // Else a server whose clients all went to ask elsewhere would have none left.
                    open = Some(connection).filter(|_| server == home);
                    server = home;
                }
                Flow::Unavailable => {
                    self.pending = unknown;
                    open = Some(connection);
                    std::thread::sleep(PAUSE);
                }
                Flow::Unknown => {
                    server = (server + 1) % servers.len();
                    std::thread::sleep(PAUSE);
                }
            }
        }
        Ok(())
    }
}
