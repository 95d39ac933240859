//! The limit on the memory of all long requests and long answers together. What fits into a connection's own small buffer
//! is not counted: the number of connections bounds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of bodies that are being read, of those that are being worked on, and of long answers that are not sent yet:
/// eight of the largest batches. A client may ask for more than it sends, so both are counted.
const BUDGET_BYTES: usize = 64 * 1024 * 1024;
const _: () = assert!(BUDGET_BYTES >= 4 * stockhold_api::decode::COMMANDS_BODY_BYTES);

/// Answers that are shorter are not counted.
pub(super) const COUNTED_REPLY_BYTES: usize = 64 * 1024;

/// The room that all workers share.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryBudget(Arc<AtomicUsize>);

impl MemoryBudget {
    /// Nothing so far.
    pub(super) fn guard(&self) -> BudgetGuard {
        BudgetGuard { bytes: 0, memory: self.clone() }
    }

    /// Bytes in flight.
    pub(super) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one request takes of the room, given back when dropped.
#[derive(Debug)]
pub(super) struct BudgetGuard {
    bytes: usize,
    memory: MemoryBudget,
}

impl BudgetGuard {
    /// Takes so many bytes more, if there is room for them.
    #[must_use]
    pub(super) fn grow(&mut self, more: usize) -> bool {
        self.add(more);
        if self.memory.used() <= BUDGET_BYTES {
            return true;
        }
        self.memory.0.fetch_sub(more, Ordering::Relaxed);
        self.bytes -= more;
        false
    }

    /// Takes them in any case: for what has to be answered because it has been done.
    pub(super) fn add(&mut self, more: usize) {
        self.memory.0.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }
}

impl Drop for BudgetGuard {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_and_comes_back() {
        let budget = MemoryBudget::default();
        let (mut one, mut other) = (budget.guard(), budget.guard());
        assert!(one.grow(BUDGET_BYTES - 1));
        assert!(!other.grow(2));
        assert!(other.grow(1));
        other.add(5);
        assert_eq!(budget.used(), BUDGET_BYTES + 5);
        drop(one);
        assert!(other.grow(7));
        drop(other);
        assert_eq!(budget.used(), 0);
    }
}
