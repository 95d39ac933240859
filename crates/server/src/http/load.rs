//! How much memory long requests and long answers may take together. What fits into a connection's own small buffer is
//! not counted: it is bounded by the number of connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of bodies that are being read, of those that are being worked on, and of long answers that are not sent yet:
/// eight of the largest batches. A client may ask for more than it sends, so both are counted.
const IN_FLIGHT: usize = 64 * 1024 * 1024;
const _: () = assert!(IN_FLIGHT >= 4 * stockhold_api::decode::COMMANDS_BODY_BYTES);

/// Answers that are shorter are not counted.
pub(super) const SHORT: usize = 64 * 1024;

/// The room that all workers share.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Arc<AtomicUsize>);

impl Room {
    /// Nothing so far.
    pub(super) fn load(&self) -> Load {
        Load { bytes: 0, room: self.clone() }
    }

    /// Bytes in flight.
    pub(super) fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one request takes of the room, given back when dropped.
#[derive(Debug)]
pub(super) struct Load {
    bytes: usize,
    room: Room,
}

impl Load {
    /// Takes so many bytes more, if there is room for them.
    #[must_use]
    pub(super) fn grow(&mut self, more: usize) -> bool {
        self.add(more);
        if self.room.taken() <= IN_FLIGHT {
            return true;
        }
        self.room.0.fetch_sub(more, Ordering::Relaxed);
        self.bytes -= more;
        false
    }

    /// Takes them in any case: for what has to be answered because it has been done.
    pub(super) fn add(&mut self, more: usize) {
        self.room.0.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_and_comes_back() {
        let room = Room::default();
        let (mut one, mut other) = (room.load(), room.load());
        assert!(one.grow(IN_FLIGHT - 1));
        assert!(!other.grow(2));
        assert!(other.grow(1));
        other.add(5);
        assert_eq!(room.taken(), IN_FLIGHT + 5);
        drop(one);
        assert!(other.grow(7));
        drop(other);
        assert_eq!(room.taken(), 0);
    }
}
