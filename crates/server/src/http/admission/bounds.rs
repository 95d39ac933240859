//! The figures: how many connections, streams and bytes there may be, of whom, and how long a client may take. docs/security.md shows
//! them as a table, which a test compares.

use std::time::Duration;
use stockhold_api::decode::{COMMANDS_BODY_BYTES, EVENTS_EXAMINED};
use stockhold_store::RESERVATIONS_EXAMINED;

/// Most open connections, if the process may open that many files.
pub(crate) const CONNECTIONS: usize = 16_384;
/// Fewest places for connections, even if the process may open few files.
pub(crate) const CONNECTIONS_AT_LEAST: usize = 64;
/// Most open connections of the admin listener.
pub(crate) const ADMIN_CONNECTIONS: usize = 64;
/// Most event streams.
pub(crate) const EVENT_STREAMS: usize = 256;
/// Most calls of `Commands`. Each may have bytes that are not read yet, up to the window of a request of HTTP/2.
pub(crate) const COMMAND_STREAMS: usize = 1_024;
/// Most streams that need no credential: watches of health, and reflection.
pub(crate) const OPEN_STREAMS: usize = 256;
/// One address has this part of the connections at most, and one principal this part of the streams: a quarter.
const SHARE_OF_ONE: usize = 4;

/// How many of so many places one address or one principal may have.
pub(crate) const fn share_of_one(places: usize) -> usize {
    places / SHARE_OF_ONE
}

/// Bytes of request bodies and of long answers that are not sent yet: eight of the largest batches. A short request can have a long
/// answer, so both are counted.
pub(crate) const MEMORY: usize = 64 * 1024 * 1024;
const _: () = assert!(MEMORY_OF_PRINCIPAL >= 4 * COMMANDS_BODY_BYTES);
/// Of these, most bytes of one principal.
pub(crate) const MEMORY_OF_PRINCIPAL: usize = MEMORY / 2;
/// Of these, most bytes of all callers without a known credential.
pub(crate) const MEMORY_UNAUTHENTICATED: usize = MEMORY / 4;
/// Of these, most bytes of one address.
pub(crate) const MEMORY_UNAUTHENTICATED_ADDRESS: usize = MEMORY_UNAUTHENTICATED / 4;
/// Shorter answers are not counted.
pub(crate) const COUNTED_REPLY_BYTES: usize = 64 * 1024;
/// The same for an answer on a connection that may have many at a time.
pub(crate) const COUNTED_STREAM_REPLY_BYTES: usize = 4 * 1024;
/// Longest message of health checks and reflection, in bytes.
pub(crate) const OPEN_MESSAGE_BYTES: usize = 1_024;
/// Most requests of one connection of HTTP/2 at a time.
pub(crate) const MAX_STREAMS: u32 = 100;
/// Most bytes of a request's body that a client may send before the server has read them.
pub(crate) const STREAM_WINDOW: u32 = 256 * 1024;
/// The same for all requests of a connection. Besides, the HTTP/2 library ends a connection whose unread frames are too small: each
/// frame below 256 bytes costs what it lacks of them, and half of this window is the credit. A call of `Commands` has a frame for each
/// message, so the credit has to last for a stream's window of the shortest ones.
pub(crate) const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// The shortest message of `Commands` with what stands before it, in bytes.
const SHORTEST_MESSAGE: u32 = 8;
const _: () = assert!(STREAM_WINDOW / SHORTEST_MESSAGE * (256 - SHORTEST_MESSAGE) <= CONNECTION_WINDOW / 2);
/// Longest request line and headers together, in bytes.
pub(crate) const MAX_HEAD_BYTES: usize = stockhold_api::problem::HEAD_BYTES;

/// Entries of a page, or seats of a seat map, that cost a caller with a rate limit one token.
pub(crate) const ENTRIES_PER_TOKEN: usize = 100;
/// Most reservations, or events, that are examined for one page.
pub(crate) const EXAMINED_PER_PAGE: usize = 4_096;
const _: () = assert!(EXAMINED_PER_PAGE == EVENTS_EXAMINED);
const _: () = assert!(EXAMINED_PER_PAGE.is_multiple_of(RESERVATIONS_EXAMINED));
/// To look up who created a reservation costs as much as to examine this many records.
pub(crate) const CREATOR_WEIGHT: usize = 64;

/// Longest rest between two requests.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Longest time from a connection's acceptance to the end of its TLS handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most TLS handshakes that have begun and not ended, of all workers. The oldest is closed when one more begins. If the process
/// may open few files, at most half of its connections are handshakes.
pub(crate) const UNFINISHED_HANDSHAKES: usize = 1_024;
/// Longest wait for the end of a head that has begun.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the end of a body, or of a message of a stream, that has begun.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a client to read anything of what it is sent.
pub(crate) const SEND_STALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Slowest rate at which a client may read a long answer, in bytes a second. A long answer takes memory of the shared
/// budget until it is sent.
const READ_RATE: usize = 64 * 1024;

/// Longest time for sending so many bytes.
pub(crate) fn send_timeout(bytes: usize) -> Duration {
    SEND_STALL_TIMEOUT + Duration::from_secs((bytes / READ_RATE) as u64)
}

/// How long data of a closing connection is still read. With unread data the kernel would reset the connection, and
/// the last answer could be lost.
pub(crate) const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the credential of a stream that stays open is checked.
pub(crate) const CREDENTIAL_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Requests of one connection that are answered before other connections get their turn.
pub(crate) const MAX_CONSECUTIVE_REQUESTS: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped(number: usize) -> String {
        let digits = number.to_string();
        let groups =
            digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
        groups.collect::<Vec<_>>().join(",")
    }

    fn bytes(count: usize) -> String {
        match count {
            mib if mib % (1 << 20) == 0 => format!("{} MiB", mib >> 20),
            kib if kib % (1 << 10) == 0 => format!("{} KiB", kib >> 10),
            other => format!("{} bytes", grouped(other)),
        }
    }

    /// The rows of the tables of docs/security.md.
    fn rows() -> Vec<String> {
        let places = |what: &str, most: usize, whose: &str| {
            format!("| {what} | {} | {} of one {whose} |", grouped(most), grouped(share_of_one(most)))
        };
        let time = |what: &str, time: Duration| format!("| {what} | {} s |", time.as_secs());
        vec![
            places("connections", CONNECTIONS, "address"),
            places("connections of the admin listener", ADMIN_CONNECTIONS, "address"),
            places("event streams", EVENT_STREAMS, "principal"),
            places("calls of `Commands`", COMMAND_STREAMS, "principal"),
            places("watches of health and calls of reflection", OPEN_STREAMS, "address"),
            format!(
                "| bytes of long requests and long answers | {} | {} of one principal; {} of all callers without a known credential or with a hold token, {} of one address |",
                bytes(MEMORY),
                bytes(MEMORY_OF_PRINCIPAL),
                bytes(MEMORY_UNAUTHENTICATED),
                bytes(MEMORY_UNAUTHENTICATED_ADDRESS)
            ),
            format!("| unfinished TLS handshakes | {} | |", grouped(UNFINISHED_HANDSHAKES)),
            format!("| requests of a connection of HTTP/2 at a time | {MAX_STREAMS} | |"),
            format!(
                "| unread bytes of a connection of HTTP/2 | {} | {} of one request |",
                bytes(CONNECTION_WINDOW as usize),
                bytes(STREAM_WINDOW as usize)
            ),
            format!("| head of a request | {} | |", bytes(MAX_HEAD_BYTES)),
            format!("| message of health checks and reflection | {} | |", bytes(OPEN_MESSAGE_BYTES)),
            format!("| records that are examined for a page | {} | |", grouped(EXAMINED_PER_PAGE)),
            time("a TLS handshake", HANDSHAKE_TIMEOUT),
            time("a head that has begun, over HTTP/1.1", HEAD_TIMEOUT),
            time("a body, or a message of a stream, that has begun", BODY_TIMEOUT),
            time("nothing is read of an answer", SEND_STALL_TIMEOUT),
            time("no request", IDLE_TIMEOUT),
        ]
    }

    #[test]
    fn the_document_has_these_figures() {
        let document = include_str!("../../../../../docs/security.md");
        for row in rows() {
            assert!(document.lines().any(|line| line == row), "docs/security.md lacks {row}");
        }
        let tokens = format!("one token for every {ENTRIES_PER_TOKEN} of its `limit`");
        assert!(document.contains(&tokens), "docs/security.md lacks {tokens:?}");
    }
}
