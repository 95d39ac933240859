//! Where the log starts, for all threads. An archive moves the start while queries read the log: a query keeps the start that it began
//! with, and what it may still read is not deleted.

use crate::log::start::LogStart;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Where the log starts, and where it started for readers that are not done.
#[derive(Debug)]
pub(crate) struct LogStarts {
    starts: Mutex<StartList>,
    /// Events up to this position are not read any more, because they leave.
    closed_through: AtomicU64,
}

#[derive(Debug)]
struct StartList {
    current: Arc<LogStart>,
    /// Earlier starts that readers may still have.
    earlier: Vec<Weak<LogStart>>,
}

impl LogStarts {
    pub(crate) fn new(start: LogStart) -> Self {
        let starts = StartList { current: Arc::new(start), earlier: Vec::new() };
        Self { closed_through: AtomicU64::new(start.through()), starts: Mutex::new(starts) }
    }

    fn list(&self) -> MutexGuard<'_, StartList> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the log starts. While the caller keeps it, nothing is deleted that follows it.
    pub(crate) fn current(&self) -> Arc<LogStart> {
        Arc::clone(&self.list().current)
    }

    /// The batches up to this one have left, durably.
    pub(crate) fn advance(&self, start: LogStart) {
        let mut list = self.list();
        let before = std::mem::replace(&mut list.current, Arc::new(start));
        list.earlier.push(Arc::downgrade(&before));
        drop(list);
        self.closed_through.fetch_max(start.through(), Ordering::AcqRel);
    }

    /// The batch up to which nobody reads the log any more.
    pub(crate) fn unread_through(&self) -> u64 {
        let mut list = self.list();
        list.earlier.retain(|start| start.strong_count() > 0);
        let earlier = list.earlier.iter().filter_map(Weak::upgrade).map(|start| start.head.number);
        earlier.min().unwrap_or(list.current.head.number)
    }

    /// Events up to this position leave soon. From now on nobody begins to read them.
    pub(crate) fn close_through(&self, position: u64) {
        self.closed_through.fetch_max(position, Ordering::AcqRel);
    }

    /// They do not leave.
    pub(crate) fn reopen(&self) {
        self.closed_through.store(self.current().through(), Ordering::Release);
    }

    /// The position up to which events can't be read.
    pub(crate) fn closed_through(&self) -> u64 {
        self.closed_through.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogHead;

    #[test]
    fn what_a_reader_may_still_read_is_kept() {
        let start = |number| LogStart {
            head: LogHead { number, next_position: 10 * number + 1, ..LogHead::default() },
            sha256: None,
        };
        let starts = LogStarts::new(start(1));
        let (first, same) = (starts.current(), starts.current());
        starts.advance(start(2));
        let second = starts.current();
        starts.advance(start(3));
        assert_eq!(starts.unread_through(), 1);
        drop(first);
        assert_eq!(starts.unread_through(), 1, "another reader has it too");
        drop(same);
        assert_eq!(starts.unread_through(), 2);
        drop(second);
        assert_eq!((starts.unread_through(), starts.current().head.number), (3, 3));
        starts.close_through(35);
        assert_eq!(starts.closed_through(), 35);
        starts.reopen();
        assert_eq!(starts.closed_through(), 30);
    }
}
