//! Server-sent events as the server pushes them, read from one connection. The format:
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html>.

use super::attempt::{Error, chain};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use std::time::Duration;

/// Longest time without data. A server without events sends a comment every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);
/// Longest event that is read, in bytes. An event with 2,000 lines fits, and so does one of all units that fit into
/// the longest body.
const EVENT_BYTES: usize = 16 * 1024 * 1024;
const _: () = assert!(EVENT_BYTES >= 2 * crate::decode::UNITS_BODY_BYTES);

/// An event of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamedEvent {
    /// Its position, from which a stream can continue.
    pub id: String,
    /// Its type.
    pub event: String,
    /// Its JSON.
    pub data: String,
}

/// A connection to an event stream.
#[derive(Debug)]
pub struct EventStream {
    body: Incoming,
    lines: Lines,
    event: StreamedEvent,
    /// The id of the last complete block.
    last_id: String,
}

impl EventStream {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, lines: Lines::default(), event: StreamedEvent::default(), last_id: String::new() }
    }

    /// The next event. `None` when the server has ended the stream. After an error there are no more events.
    pub async fn next(&mut self) -> Result<Option<StreamedEvent>, Error> {
        loop {
            while let Some(line) = self.lines.next() {
                let taken = take(&mut self.event, &line);
                if line.is_empty() {
                    self.last_id.clone_from(&self.event.id);
                }
                if taken.is_some() {
                    return Ok(taken);
                }
            }
            if !self.read_frame().await? {
                return Ok(None);
            }
        }
    }

    /// The last id that the server has sent: the position of the last event, or of a later event of another type that
    /// was passed. A stream that starts again after it misses nothing. Empty before the first id.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    /// The id that the server sends before the first event: the position after which the stream begins.
    pub(super) async fn first_id(&mut self) -> Result<Option<String>, Error> {
        loop {
            while let Some(line) = self.lines.next() {
                // No event is complete before the block with the id.
                let _ = take(&mut self.event, &line);
                if !self.event.id.is_empty() {
                    return Ok(Some(self.event.id.clone()));
                }
            }
            if !self.read_frame().await? {
                return Ok(None);
            }
        }
    }

    /// Reads data. Returns `false` at the end of the stream.
    async fn read_frame(&mut self) -> Result<bool, Error> {
        let broken = |what: String| Error::Unreachable { tries: 1, last: what };
        let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
        match frame.map_err(|_| broken(format!("nothing came for {SILENCE:?}")))? {
            None => Ok(false),
            Some(Err(error)) => Err(broken(chain(&error))),
            Some(Ok(frame)) => {
                let bytes: Bytes = frame.into_data().unwrap_or_default();
                self.lines.0.extend_from_slice(&bytes);
                if self.lines.0.len() + self.event.data.len() > EVENT_BYTES {
                    return Err(broken(format!("an event is longer than {EVENT_BYTES} bytes")));
                }
                Ok(true)
            }
        }
    }
}

/// Received data that is not a complete line.
#[derive(Debug, Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn next(&mut self) -> Option<String> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.0.drain(..=end).collect();
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Some(String::from_utf8_lossy(&line).into_owned())
    }
}

/// Adds a line to the event. An empty line ends it.
fn take(event: &mut StreamedEvent, line: &str) -> Option<StreamedEvent> {
    if line.is_empty() {
        let id = event.id.clone();
        let done = std::mem::take(event);
        // An id is valid until the next one.
        event.id = id;
        return (!done.data.is_empty()).then_some(done);
    }
    let (field, value) = line.split_once(':').unwrap_or((line, ""));
    let value = value.strip_prefix(' ').unwrap_or(value);
    match field {
        "id" => value.clone_into(&mut event.id),
        "event" => value.clone_into(&mut event.event),
        "data" => {
            if !event.data.is_empty() {
                event.data.push('\n');
            }
            event.data.push_str(value);
        }
        // A comment, which keeps the connection alive, or an unknown field.
        _ => {}
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> Vec<StreamedEvent> {
        let (mut lines, mut event, mut found) = (Lines::default(), StreamedEvent::default(), Vec::new());
        for piece in pieces {
            lines.0.extend_from_slice(piece.as_bytes());
            while let Some(line) = lines.next() {
                found.extend(take(&mut event, &line));
            }
        }
        found
    }

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let text = ": hello\n\nid: 7\nevent: stock.set\ndata: {\"a\":\ndata: 1}\n\n:\n\nid: 8\r\ndata:x\r\n\r\nretry: 5\n\n";
        let event = |id: &str, event: &str, data: &str| StreamedEvent {
            id: id.to_owned(),
            event: event.to_owned(),
            data: data.to_owned(),
        };
        let expected = vec![event("7", "stock.set", "{\"a\":\n1}"), event("8", "", "x")];
        assert_eq!(read(&[text]), expected);
        for cut in 1..text.len() {
            assert_eq!(read(&[&text[..cut], &text[cut..]]), expected, "cut at {cut}");
        }
        assert_eq!(read(&["data: unfinished\n"]), []);
    }
}
