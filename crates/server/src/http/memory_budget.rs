//! The limit on the memory of all long requests and long answers together. The small buffers of connections are not
//! counted, because the number of connections bounds them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of request bodies and of long answers that are not sent yet: eight of the largest batches. A short request
/// can have a long answer, so both are counted.
const BUDGET_BYTES: usize = 64 * 1024 * 1024;
const _: () = assert!(BUDGET_BYTES >= 4 * stockhold_api::decode::COMMANDS_BODY_BYTES);

/// Shorter answers are not counted.
pub(super) const COUNTED_REPLY_BYTES: usize = 64 * 1024;
/// The same for an answer on a connection that may have many at a time.
pub(super) const COUNTED_STREAM_REPLY_BYTES: usize = 4 * 1024;

/// The budget that all workers share.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryBudget(Arc<AtomicUsize>);

impl MemoryBudget {
    /// A guard that has reserved nothing.
    pub(super) fn guard(&self) -> BudgetGuard {
        BudgetGuard { bytes: 0, memory: self.clone() }
    }

    /// Reserved bytes.
    pub(super) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The bytes that one request has reserved. Dropping it releases them.
#[derive(Debug)]
pub(super) struct BudgetGuard {
    bytes: usize,
    memory: MemoryBudget,
}

impl BudgetGuard {
    /// Reserves more bytes. Returns `false` if the budget is used up.
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

    /// Reserves more bytes even above the budget: for the answer of a request that took effect.
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
