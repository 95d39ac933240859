//! What PostgreSQL's protocol shows of batches.

use crate::shared::proxy::{Moment, Wire};
use std::io::Read;

/// What there is of a connection so far.
#[derive(Default)]
pub(crate) struct PostgresWire {
    started: bool,
    of_reserves: bool,
}

/// A message behind a kind of so many bytes.
fn message(mut from: impl Read, kind: usize) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0; kind + 4];
    from.read_exact(&mut message)?;
    let length: [u8; 4] = message[kind..].try_into().expect("four bytes");
    message.resize(kind + usize::try_from(u32::from_be_bytes(length)).expect("a length"), 0);
    from.read_exact(&mut message[kind + 4..])?;
    Ok(message)
}

impl Wire for PostgresWire {
    const SCHEME: &'static str = "postgres";

    fn request(&mut self, from: impl Read) -> std::io::Result<(Vec<u8>, Moment)> {
        // The first message has no kind.
        let request = message(from, usize::from(self.started))?;
        let is_query = self.started && request[0] == b'Q';
        self.started = true;
        let text = if is_query { String::from_utf8_lossy(&request[5..]) } else { "".into() };
        let begins = text.starts_with("BEGIN");
        if begins {
            self.of_reserves = text.contains("LOCK TABLE");
        }
        let moment = match self.of_reserves {
            true if begins => Moment::Begin,
            true if text.starts_with("COMMIT") => Moment::Commit,
            _ => Moment::Other,
        };
        Ok((request, moment))
    }

    fn answer(mut from: impl Read) -> std::io::Result<Vec<u8>> {
        let mut answer = message(&mut from, 1)?;
        if Self::is_of_commit(&answer) {
            // Ready for the next: without it the store waits on.
            answer.append(&mut message(&mut from, 1)?);
        }
        Ok(answer)
    }

    fn is_of_commit(answer: &[u8]) -> bool {
        answer[0] == b'C' && answer[5..].starts_with(b"COMMIT")
    }
}
