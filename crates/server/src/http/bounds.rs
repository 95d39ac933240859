//! How long a client may take and how much it may send before it is cut off.

use std::time::Duration;

/// Longest rest between two requests.
pub(super) const REST: Duration = Duration::from_mins(1);
/// Longest wait for the end of a head that has begun.
pub(super) const HEAD: Duration = Duration::from_secs(10);
/// Longest wait for a body's end.
pub(super) const BODY: Duration = Duration::from_secs(10);
/// Longest wait for a client to read anything of what it is sent.
pub(super) const SEND: Duration = Duration::from_secs(15);
/// Bytes a second that a client has to read of a long answer at least, which takes of the room that all share until it is sent.
const READ_RATE: usize = 64 * 1024;

/// Longest time for sending so many bytes.
pub(super) fn patience(bytes: usize) -> Duration {
    SEND + Duration::from_secs((bytes / READ_RATE) as u64)
}

/// How long a connection that is given up is still read, so that what was said last arrives: unread bytes would have it
/// thrown away.
pub(super) const LINGER: Duration = Duration::from_secs(1);
/// Longest request line and headers together, in bytes.
pub(super) const HEAD_BYTES: usize = 16 * 1024;
/// Requests of one connection that are answered before others have their turn.
pub(super) const IN_A_ROW: u32 = 32;
