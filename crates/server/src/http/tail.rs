//! The end of the log, for those who follow it. One look at it every moment for all streams of a worker, and none while
//! there is no stream: commits know nothing of who follows.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stockhold_store::Store;
use tokio::sync::Notify;

/// How often it is looked for new events.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// See the module.
pub(super) struct Tail {
    store: Arc<dyn Store>,
    followers: Cell<usize>,
    wanted: Notify,
    moved: Notify,
}

/// Somebody who follows, until dropped.
pub(super) struct Follower(Rc<Tail>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.followers.set(self.0.followers.get() - 1);
    }
}

impl Tail {
    pub(super) fn new(store: Arc<dyn Store>) -> Rc<Self> {
        Rc::new(Self { store, followers: Cell::default(), wanted: Notify::new(), moved: Notify::new() })
    }

    /// Looks as long as somebody follows. Runs for as long as the worker does.
    pub(super) async fn watch(self: Rc<Self>) {
        loop {
            self.wanted.notified().await;
            let mut seen = self.store.newest();
            // Whoever looked before may not have seen all of it.
            self.moved.notify_waiters();
            while self.followers.get() > 0 {
                tokio::time::sleep(LOOK_EVERY).await;
                let newest = self.store.newest();
                if newest != seen {
                    seen = newest;
                    self.moved.notify_waiters();
                }
            }
        }
    }

    pub(super) fn follow(self: &Rc<Self>) -> Follower {
        self.followers.set(self.followers.get() + 1);
        self.wanted.notify_one();
        Follower(Rc::clone(self))
    }
}

impl Follower {
    /// Waits until there is an event after this position.
    pub(super) async fn past(&self, position: u64) {
        loop {
            let moved = self.0.moved.notified();
            if self.0.store.newest() > position {
                return;
            }
            moved.await;
        }
    }
}
