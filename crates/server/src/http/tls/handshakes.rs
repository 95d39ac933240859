//! The limit on handshakes that have begun and not ended. A client that sends nothing costs an open file and some memory, and
//! needs no certificate for that.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;

/// The unfinished handshakes of all workers.
#[derive(Debug)]
pub(super) struct Handshakes {
    most: usize,
    unfinished: Mutex<Unfinished>,
}

#[derive(Debug, Default)]
struct Unfinished {
    begun: u64,
    /// By their numbers, so that the first one is the oldest. To drop a sender closes its handshake.
    all: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Handshake<'a> {
    number: u64,
    closed: oneshot::Receiver<()>,
    handshakes: &'a Handshakes,
}

impl Handshakes {
    pub(super) fn new(most: usize) -> Self {
        Self { most, unfinished: Mutex::default() }
    }

    /// Counts a handshake. If there are too many with it, the oldest one is closed.
    pub(super) fn begin(&self) -> Handshake<'_> {
        let (sender, closed) = oneshot::channel();
        let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.begun += 1;
        let number = unfinished.begun;
        unfinished.all.insert(number, sender);
        if unfinished.all.len() > self.most {
            unfinished.all.pop_first();
        }
        Handshake { number, closed, handshakes: self }
    }
}

impl Handshake<'_> {
    /// Waits until it has to make room for a newer one.
    pub(super) async fn closed(&mut self) {
        // The sender sends nothing: it is dropped.
        let _ = (&mut self.closed).await;
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        let mut unfinished = self.handshakes.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_closed(handshake: &mut Handshake<'_>) -> bool {
        pin!(handshake.closed()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_oldest_makes_room() {
        let handshakes = Handshakes::new(2);
        let (mut first, mut second) = (handshakes.begin(), handshakes.begin());
        assert!(!is_closed(&mut first));
        let mut third = handshakes.begin();
        assert_eq!([&mut first, &mut second, &mut third].map(is_closed), [true, false, false]);
        drop(second);
        let mut fourth = handshakes.begin();
        assert_eq!([&mut third, &mut fourth].map(is_closed), [false, false], "one has ended before");
        drop(first);
        let mut fifth = handshakes.begin();
        assert_eq!([&mut third, &mut fourth, &mut fifth].map(is_closed), [true, false, false]);
    }
}
