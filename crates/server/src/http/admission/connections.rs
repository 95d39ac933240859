//! The open connections of a listener or of several. When there is no room for one more, the connection that has been idle for the
//! longest time gives way. One address has a part of the places at most, so it makes room for itself only.

use super::bounds::share_of_one;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use tokio::task::AbortHandle;

/// Connections that had to make room for newer ones.
const DISPLACED: &str = "stockhold_connections_displaced_total";
/// Connections that were closed at once, because no other was idle.
const REFUSED: &str = "stockhold_connections_refused_total";

/// Says what each metric is.
pub(crate) fn describe() {
    metrics::describe_counter!(DISPLACED, "Idle connections that were closed to make room for newer ones");
    metrics::describe_counter!(
        REFUSED,
        "Connections that were closed at once, because there was no room for them"
    );
    metrics::counter!(DISPLACED).increment(0);
    metrics::counter!(REFUSED).increment(0);
}

/// States of a connection. All others are the milliseconds after which it has been idle.
const BUSY: u64 = u64::MAX;
const CLOSED: u64 = u64::MAX - 1;
/// Connections that are looked at for one that is idle.
const EXAMINED: usize = 1_024;

/// The open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    most: usize,
    /// Those that were admitted and have not ended, also if they make room.
    count: AtomicUsize,
    begun: Instant,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    accepted: u64,
    all: IdleOrder,
    /// By the network of each address that is bounded.
    by_network: HashMap<IpAddr, IdleOrder>,
}

/// Connections, those first that have been idle for the longest time. A connection that was used since it was put here is found
/// further back when it is looked at, so that a request changes nothing here.
#[derive(Debug, Default)]
struct IdleOrder {
    order: BTreeMap<(u64, u64), Arc<State>>,
    /// Where each connection is, by its number.
    places: HashMap<u64, u64>,
}

#[derive(Debug)]
struct State {
    number: u64,
    network: Option<IpAddr>,
    /// [`BUSY`], [`CLOSED`], or since when it is idle.
    idle_since: AtomicU64,
    task: OnceLock<AbortHandle>,
}

/// An open connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    state: Arc<State>,
    connections: Arc<Connections>,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, count: AtomicUsize::new(0), begun: Instant::now(), open: Mutex::default() })
    }

    /// Admits a connection from this network, or from an address without a bound of its own. `None` when there is no room.
    pub(crate) fn admit(self: &Arc<Self>, network: Option<IpAddr>) -> Option<Connection> {
        let now = self.millis(Instant::now());
        let mut open = self.open();
        if !open.make_room(self.most, network, now) {
            metrics::counter!(REFUSED).increment(1);
            return None;
        }
        open.accepted += 1;
        let (number, idle_since) = (open.accepted, AtomicU64::new(now));
        let state = Arc::new(State { number, network, idle_since, task: OnceLock::new() });
        open.all.put(now, Arc::clone(&state));
        if let Some(network) = network {
            open.by_network.entry(network).or_default().put(now, Arc::clone(&state));
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(Connection { state, connections: Arc::clone(self) })
    }

    /// Connections that have not ended.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn millis(&self, at: Instant) -> u64 {
        let millis = at.saturating_duration_since(self.begun).as_millis();
        u64::try_from(millis).unwrap_or(CLOSED).min(CLOSED - 1)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Closes an idle connection if there is no room for one more. Returns `false` if there is still none.
    fn make_room(&mut self, most: usize, network: Option<IpAddr>, now: u64) -> bool {
        let own = network.and_then(|network| self.by_network.get_mut(&network));
        let displaced = match own {
            Some(own) if own.len() >= share_of_one(most).max(1) => own.close_oldest(now),
            _ if self.all.len() >= most => self.all.close_oldest(now),
            _ => return true,
        };
        let Some(displaced) = displaced else { return false };
        metrics::counter!(DISPLACED).increment(1);
        self.remove(&displaced);
        if let Some(task) = displaced.task.get() {
            task.abort();
        }
        true
    }

    fn remove(&mut self, state: &State) {
        self.all.remove(state.number);
        let Some(network) = state.network else { return };
        if let Some(own) = self.by_network.get_mut(&network) {
            own.remove(state.number);
            if own.len() == 0 {
                self.by_network.remove(&network);
            }
        }
    }
}

impl IdleOrder {
    fn len(&self) -> usize {
        self.order.len()
    }

    fn put(&mut self, since: u64, state: Arc<State>) {
        self.places.insert(state.number, since);
        self.order.insert((since, state.number), state);
    }

    fn remove(&mut self, number: u64) {
        if let Some(since) = self.places.remove(&number) {
            self.order.remove(&(since, number));
        }
    }

    /// Closes the connection that has been idle for the longest time, if one is idle.
    fn close_oldest(&mut self, now: u64) -> Option<Arc<State>> {
        let mut busy = Vec::new();
        let mut oldest = None;
        for _ in 0..EXAMINED {
            let Some(((since, _), state)) = self.order.pop_first() else { break };
            match state.idle_since.compare_exchange(since, CLOSED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    oldest = Some(state);
                    break;
                }
                Err(BUSY) => busy.push(state),
                // It was used meanwhile.
                Err(later) => self.put(later, state),
            }
        }
        for state in busy {
            self.put(now, state);
        }
        oldest
    }
}

impl Connection {
    /// Says which task serves the connection. To abort it closes the connection.
    pub(crate) fn served_by(&self, task: AbortHandle) {
        let _ = self.state.task.set(task);
        if self.state.idle_since.load(Ordering::Acquire) == CLOSED
            && let Some(task) = self.state.task.get()
        {
            task.abort();
        }
    }

    /// A request begins. Returns `false` when the connection was chosen to make room: then nothing of the request is done.
    #[must_use]
    pub(crate) fn begin(&self) -> bool {
        if self.state.idle_since.swap(BUSY, Ordering::AcqRel) == CLOSED {
            self.state.idle_since.store(CLOSED, Ordering::Release);
            return false;
        }
        true
    }

    /// The last request, which began then, has ended.
    pub(crate) fn rest(&self, since: Instant) {
        self.state.idle_since.store(self.connections.millis(since), Ordering::Release);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.open().remove(&self.state);
        self.connections.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn is_closed(connection: &Connection) -> bool {
        connection.state.idle_since.load(Ordering::Relaxed) == CLOSED
    }

    fn closed(connections: &[Connection]) -> Vec<bool> {
        connections.iter().map(is_closed).collect()
    }

    #[test]
    fn the_one_that_is_idle_for_the_longest_time_gives_way() {
        let connections = Connections::new(4);
        let mut open: Vec<_> = (0..4).map(|_| connections.admit(None).unwrap()).collect();
        let begun = connections.begun;
        // The first works, and the second has worked later than the others.
        assert!(open[0].begin() && open[1].begin());
        open[1].rest(begun + Duration::from_secs(3));
        open[2].rest(begun + Duration::from_secs(2));
        open[3].rest(begun + Duration::from_secs(1));
        open.push(connections.admit(None).unwrap());
        assert_eq!(closed(&open), [false, false, false, true, false]);
        assert!(open[4].begin() && !open[3].begin() && is_closed(&open[3]));
        open.push(connections.admit(None).unwrap());
        assert_eq!(closed(&open), [false, false, true, true, false, false]);
        assert!(open[1].begin() && open[5].begin());
        assert!(connections.admit(None).is_none(), "all of them work");
        assert_eq!((connections.open().all.len(), connections.count()), (4, 6));
        drop(open);
        assert_eq!((connections.open().all.len(), connections.count()), (0, 0));
    }

    #[test]
    fn an_address_makes_room_for_itself_only() {
        let connections = Connections::new(8);
        let (one, other) = (Some([203, 0, 113, 1].into()), Some([203, 0, 113, 2].into()));
        let mut open: Vec<_> = [other, one, one].map(|network| connections.admit(network).unwrap()).into();
        open.push(connections.admit(one).unwrap());
        assert_eq!(closed(&open), [false, true, false, false]);
        assert!(open[2].begin() && open[3].begin());
        assert!(connections.admit(one).is_none());
        open.extend((0..6).map(|_| connections.admit(None).unwrap()));
        assert_eq!(closed(&open).into_iter().filter(|closed| *closed).count(), 2);
        assert!(is_closed(&open[0]), "it was idle for the longest time");
        drop(open);
        assert!(connections.open().by_network.is_empty());
    }
}
