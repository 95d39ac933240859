//! The limit on the memory of all long requests and long answers together. The small buffers of connections are not counted, because
//! the number of connections bounds them. Nor are answers that are part of the program.

use super::Holder;
use super::bounds::{MEMORY, MEMORY_OF_PRINCIPAL, MEMORY_UNAUTHENTICATED, MEMORY_UNAUTHENTICATED_ADDRESS};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The budget that all workers share.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryBudget(Arc<Mutex<Reserved>>);

/// Reserved bytes.
#[derive(Debug, Default)]
struct Reserved {
    all: usize,
    /// Of all callers without a known credential.
    unauthenticated: usize,
    by_holder: HashMap<Holder, usize>,
}

impl MemoryBudget {
    /// A guard that has reserved nothing.
    pub(crate) fn guard(&self, holder: Holder) -> BudgetGuard {
        BudgetGuard { bytes: 0, holder, memory: self.clone() }
    }

    /// Reserved bytes.
    pub(crate) fn used(&self) -> usize {
        self.reserved().all
    }

    fn reserved(&self) -> MutexGuard<'_, Reserved> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reserved {
    fn of(&self, holder: &Holder) -> usize {
        self.by_holder.get(holder).copied().unwrap_or_default()
    }

    /// Whether there is room for so many bytes more.
    fn has_room(&self, holder: &Holder, more: usize) -> bool {
        let own = match holder {
            Holder::Everybody => MEMORY,
            Holder::Principal(_) => MEMORY_OF_PRINCIPAL,
            Holder::Unauthenticated(None) => MEMORY_UNAUTHENTICATED,
            Holder::Unauthenticated(Some(_)) => MEMORY_UNAUTHENTICATED_ADDRESS,
        };
        let is_unauthenticated = matches!(holder, Holder::Unauthenticated(_));
        self.all + more <= MEMORY
            && self.of(holder) + more <= own
            && !(is_unauthenticated && self.unauthenticated + more > MEMORY_UNAUTHENTICATED)
    }

    fn add(&mut self, holder: &Holder, more: usize) {
        self.all += more;
        if matches!(holder, Holder::Unauthenticated(_)) {
            self.unauthenticated += more;
        }
        match self.by_holder.get_mut(holder) {
            Some(own) => *own += more,
            None => {
                self.by_holder.insert(holder.clone(), more);
            }
        }
    }

    fn release(&mut self, holder: &Holder, bytes: usize) {
        self.all -= bytes;
        if matches!(holder, Holder::Unauthenticated(_)) {
            self.unauthenticated -= bytes;
        }
        if let Some(own) = self.by_holder.get_mut(holder) {
            *own -= bytes;
            if *own == 0 {
                self.by_holder.remove(holder);
            }
        }
    }
}

/// The bytes that one request has reserved. Dropping it releases them.
#[derive(Debug)]
pub(crate) struct BudgetGuard {
    bytes: usize,
    holder: Holder,
    memory: MemoryBudget,
}

impl BudgetGuard {
    /// Reserves more bytes. Returns `false` if the budget, or the holder's part of it, is used up.
    #[must_use]
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        let mut reserved = self.memory.reserved();
        if more > 0 {
            if !reserved.has_room(&self.holder, more) {
                return false;
            }
            reserved.add(&self.holder, more);
        }
        self.bytes += more;
        true
    }

    /// Reserves more bytes even above the budget: for the answer of a request that took effect.
    pub(crate) fn add(&mut self, more: usize) {
        if more > 0 {
            self.memory.reserved().add(&self.holder, more);
            self.bytes += more;
        }
    }
}

impl Drop for BudgetGuard {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.reserved().release(&self.holder, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::Label;

    fn principal(name: &str) -> Holder {
        Holder::Principal(Label::new(name).unwrap())
    }

    #[test]
    fn room_is_bounded_and_comes_back() {
        let budget = MemoryBudget::default();
        let (mut one, mut other) = (budget.guard(Holder::Everybody), budget.guard(Holder::Everybody));
        assert!(one.grow(MEMORY - 1));
        assert!(!other.grow(2));
        assert!(other.grow(1));
        other.add(5);
        assert_eq!(budget.used(), MEMORY + 5);
        drop(one);
        assert!(other.grow(7));
        drop(other);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn nobody_takes_all() {
        let budget = MemoryBudget::default();
        let mut one = [budget.guard(principal("a")), budget.guard(principal("a"))];
        assert!(one[0].grow(MEMORY_OF_PRINCIPAL - 1));
        assert!(!one[1].grow(2) && one[1].grow(1));
        // Each network has a part, and all of them together have one.
        let others = (0..8).map(|n| budget.guard(Holder::Unauthenticated(Some([203, 0, 113, n].into()))));
        let mut others: Vec<_> = others.collect();
        assert!(!others[0].grow(MEMORY_UNAUTHENTICATED_ADDRESS + 1));
        let served = others
            .iter_mut()
            .filter_map(|guard| guard.grow(MEMORY_UNAUTHENTICATED_ADDRESS).then_some(()))
            .count();
        assert_eq!(served, MEMORY_UNAUTHENTICATED / MEMORY_UNAUTHENTICATED_ADDRESS);
        assert!(!budget.guard(Holder::Unauthenticated(None)).grow(1));
        assert!(budget.guard(principal("b")).grow(MEMORY - MEMORY_OF_PRINCIPAL - MEMORY_UNAUTHENTICATED));
        drop((one, others));
        assert!(budget.reserved().by_holder.is_empty());
        assert_eq!((budget.used(), budget.reserved().unauthenticated), (0, 0));
    }
}
