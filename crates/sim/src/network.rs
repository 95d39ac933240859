//! The simulated network between callers and the store. It keeps messages in the order in which they were sent. It
//! delivers them in any order, loses some and repeats some.

use crate::counters::{Count, Counters};

/// Messages that were sent and not delivered.
#[derive(Debug)]
pub(crate) struct Wire<T> {
    under_way: Vec<T>,
    reordered: Count,
    lost: Count,
}

impl<T: Clone> Wire<T> {
    pub(crate) fn new(reordered: Count, lost: Count) -> Self {
        Self { under_way: Vec::new(), reordered, lost }
    }

    pub(crate) fn send(&mut self, what: T) {
        self.under_way.push(what);
    }

    /// Delivers one.
    pub(crate) fn arrive(&mut self, n: u8, counters: &mut Counters) -> Option<T> {
        let n = self.place(n)?;
        if n > 0 {
            counters.one(self.reordered);
        }
        Some(self.under_way.remove(n))
    }

    /// Loses one.
    pub(crate) fn lose(&mut self, n: u8, counters: &mut Counters) {
        if let Some(n) = self.place(n) {
            counters.one(self.lost);
            self.under_way.remove(n);
        }
    }

    /// Repeats one.
    pub(crate) fn repeat(&mut self, n: u8) -> bool {
        let Some(n) = self.place(n) else { return false };
        self.under_way.push(self.under_way[n].clone());
        true
    }

    /// Delivers everything.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        std::mem::take(&mut self.under_way)
    }

    /// The largest number selects the newest message.
    fn place(&self, n: u8) -> Option<usize> {
        let last = self.under_way.len().checked_sub(1)?;
        Some(if n == u8::MAX { last } else { usize::from(n) % (last + 1) })
    }
}
