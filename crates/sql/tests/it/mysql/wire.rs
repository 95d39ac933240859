//! What MySQL's protocol shows of batches.

use crate::shared::proxy::{Moment, Wire};
use std::io::Read;

/// A command that is a text of statements.
const QUERY: u8 = 3;
/// An answer that is in order and has no rows.
const OK: u8 = 0;
/// A flag of such an answer: another statement's follows.
const MORE_RESULTS: u16 = 8;

/// Each packet says by itself what it is.
#[derive(Default)]
pub(crate) struct MysqlWire;

/// A packet with its header.
fn packet(mut from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut packet = vec![0; 4];
    from.read_exact(&mut packet)?;
    let length = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]);
    packet.resize(4 + usize::try_from(length).expect("a length"), 0);
    from.read_exact(&mut packet[4..])?;
    Ok(packet)
}

/// The flags behind the two numbers (rows that changed, an id that was drawn), each of one byte or of as many as the first
/// says.
fn status(body: &[u8]) -> u16 {
    let mut at = 0;
    for _ in 0..2 {
        at += match body[at] {
            0xfc => 3,
            0xfd => 4,
            0xfe => 9,
            _ => 1,
        };
    }
    u16::from_le_bytes([body[at], body[at + 1]])
}

impl Wire for MysqlWire {
    const SCHEME: &'static str = "mysql";

    fn request(&mut self, from: impl Read) -> std::io::Result<(Vec<u8>, Moment)> {
        let request = packet(from)?;
        let is_query = request[3] == 0 && request.get(4) == Some(&QUERY);
        let text = if is_query { String::from_utf8_lossy(&request[5..]) } else { "".into() };
        let begins = text.starts_with("START TRANSACTION") && text.contains("stockhold_pauses");
        // In a cluster it is one compound statement.
        let statements =
            text.strip_prefix("INSERT INTO stockhold_events").map(|rest| rest.ends_with("COMMIT"));
        let is_compound =
            text.starts_with("BEGIN NOT ATOMIC") && text.contains("INSERT INTO stockhold_events");
        let commits = is_compound || statements == Some(true);
        let moment = match (begins, commits) {
            (true, _) => Moment::Begin,
            (_, true) => Moment::Commit,
            _ => Moment::Other,
        };
        Ok((request, moment))
    }

    fn answer(from: impl Read) -> std::io::Result<Vec<u8>> {
        packet(from)
    }

    /// All answers to what commits are in order and without rows; the last of them is COMMIT's.
    fn is_of_commit(answer: &[u8]) -> bool {
        answer[4] == OK && status(&answer[5..]) & MORE_RESULTS == 0
    }
}
