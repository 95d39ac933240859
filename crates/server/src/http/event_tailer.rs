//! Watches for new events on behalf of event streams. One task per worker polls the store for all of its streams, and only
//! while a stream is open: commits do no work for streams.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stockhold_store::Store;
use tokio::sync::Notify;

/// How often the store is asked for new events.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Watches for new events for the streams of one worker.
pub(super) struct EventTailer {
    store: Arc<dyn Store>,
    subscriptions: Cell<usize>,
    wanted: Notify,
    moved: Notify,
}

/// A stream that waits for events. Dropping it ends the subscription.
pub(super) struct Subscription(Rc<EventTailer>);

impl Drop for Subscription {
    fn drop(&mut self) {
        self.0.subscriptions.set(self.0.subscriptions.get() - 1);
    }
}

impl EventTailer {
    pub(super) fn new(store: Arc<dyn Store>) -> Rc<Self> {
        Rc::new(Self { store, subscriptions: Cell::default(), wanted: Notify::new(), moved: Notify::new() })
    }

    /// Polls while there is a subscription. Runs as long as the worker does.
    pub(super) async fn watch(self: Rc<Self>) {
        loop {
            self.wanted.notified().await;
            let mut seen = self.store.newest();
            // A stream that looked before this may have missed the newest event.
            self.moved.notify_waiters();
            while self.subscriptions.get() > 0 {
                tokio::time::sleep(POLL_INTERVAL).await;
                let newest = self.store.newest();
                if newest != seen {
                    seen = newest;
                    self.moved.notify_waiters();
                }
            }
        }
    }

    pub(super) fn subscribe(self: &Rc<Self>) -> Subscription {
        self.subscriptions.set(self.subscriptions.get() + 1);
        self.wanted.notify_one();
        Subscription(Rc::clone(self))
    }
}

impl Subscription {
    /// Waits until there is an event after this position.
    pub(super) async fn wait_for_event_after(&self, position: u64) {
        loop {
            let moved = self.0.moved.notified();
            if self.0.store.newest() > position {
                return;
            }
            moved.await;
        }
    }
}
