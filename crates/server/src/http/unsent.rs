//! What HTTP/2 has taken and not sent. Its streams have windows of their own, so a client can leave any answer unread on a
//! connection that works otherwise. Each piece has a time by which it must have been sent, and reserves its memory until then.

use super::admission::bounds::{SEND_STALL_TIMEOUT, send_timeout};
use super::admission::memory::BudgetGuard;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::{Instant, sleep_until};

/// The pieces of one connection or one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsent(Arc<Mutex<Pieces>>);

#[derive(Debug, Default)]
struct Pieces {
    begun: u64,
    /// The deadlines, by the number of the piece.
    deadlines: BTreeMap<u64, Instant>,
}

/// A piece, until all of it is sent.
struct Piece {
    bytes: Bytes,
    number: u64,
    unsent: Unsent,
    _budget: Option<BudgetGuard>,
}

impl Unsent {
    /// The same bytes, which are unsent until their last part is dropped.
    pub(super) fn track(&self, bytes: Bytes, budget: Option<BudgetGuard>) -> Bytes {
        let deadline = Instant::now() + send_timeout(bytes.len());
        let number = self.with(|pieces| {
            pieces.begun += 1;
            pieces.deadlines.insert(pieces.begun, deadline);
            pieces.begun
        });
        Bytes::from_owner(Piece { bytes, number, unsent: self.clone(), _budget: budget })
    }

    /// Waits until something is not sent in time.
    pub(super) async fn overdue(&self) {
        loop {
            let earliest = self.with(|pieces| pieces.deadlines.values().min().copied());
            let now = Instant::now();
            match earliest {
                Some(deadline) if deadline <= now => return,
                Some(deadline) => sleep_until(deadline).await,
                // A piece that comes now has at least as much time.
                None => sleep_until(now + SEND_STALL_TIMEOUT).await,
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.with(|pieces| pieces.deadlines.is_empty())
    }

    fn with<T>(&self, run: impl FnOnce(&mut Pieces) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.unsent.with(|pieces| pieces.deadlines.remove(&self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::super::admission::Holder;
    use super::super::admission::memory::MemoryBudget;
    use super::*;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_piece_is_unsent_until_its_last_part_is_dropped() {
        let (unsent, memory) = (Unsent::default(), MemoryBudget::default());
        let mut budget = memory.guard(Holder::Everybody);
        assert!(budget.grow(6));
        let mut whole = unsent.track(Bytes::from_static(b"answer"), Some(budget));
        let part = whole.split_to(3);
        drop(whole);
        assert!(!unsent.is_empty() && memory.used() == 6);
        assert_eq!(&part[..], b"ans");
        drop(part);
        assert!(unsent.is_empty() && memory.used() == 0);
        timeout(2 * SEND_STALL_TIMEOUT, unsent.overdue()).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_sent_in_time_is_overdue() {
        let (unsent, begun) = (Unsent::default(), Instant::now());
        let late = async {
            tokio::time::sleep(SEND_STALL_TIMEOUT / 2).await;
            unsent.track(Bytes::from_static(b"late"), None)
        };
        let (kept, ()) = tokio::join!(late, unsent.overdue());
        assert_eq!(begun.elapsed().as_secs(), (SEND_STALL_TIMEOUT * 3 / 2).as_secs());
        drop(kept);
    }
}
