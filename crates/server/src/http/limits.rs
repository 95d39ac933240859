//! Limits on the time that a client may take and on the bytes that it may send.

use std::time::Duration;

/// Longest rest between two requests.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Longest time from a connection's acceptance to the end of its TLS handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most TLS handshakes that have begun and not ended, of all workers. The oldest is closed when one more begins. If the process
/// may open few files, at most half of its connections are handshakes.
pub(super) const UNFINISHED_HANDSHAKES: usize = 1_024;
/// Longest wait for the end of a head that has begun.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a body's end.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a client to read anything of what it is sent.
pub(super) const SEND_STALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Slowest rate at which a client may read a long answer, in bytes a second. A long answer takes memory of the shared
/// budget until it is sent.
const READ_RATE: usize = 64 * 1024;

/// Longest time for sending so many bytes.
pub(super) fn send_timeout(bytes: usize) -> Duration {
    SEND_STALL_TIMEOUT + Duration::from_secs((bytes / READ_RATE) as u64)
}

/// How long data of a closing connection is still read. With unread data the kernel would reset the connection, and
/// the last answer could be lost.
pub(super) const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest request line and headers together, in bytes.
pub(super) const MAX_HEAD_BYTES: usize = stockhold_api::problem::HEAD_BYTES;
/// Requests of one connection that are answered before other connections get their turn.
pub(super) const MAX_CONSECUTIVE_REQUESTS: u32 = 32;
