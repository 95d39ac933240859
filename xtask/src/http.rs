//! As much of an HTTP/1.1 client as the harness needs: keep-alive, one request at a time, bodies of a stated length.
//! Never retries: the caller decides what a missing answer means.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest that one answer may take before it counts as unanswered.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

const READ_BYTES: usize = 16 * 1024;
const LINE_END: &[u8] = b"\r\n";

/// Status line and headers of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Bytes up to the body.
    pub(crate) length: usize,
    /// Bytes of the body.
    pub(crate) body: usize,
    /// Whether it says that it repeats an earlier answer.
    pub(crate) replayed: bool,
}

/// Reads an answer's head; `None` while it is incomplete.
pub(crate) fn head(received: &[u8]) -> Result<Option<Head>> {
    let mut head = Head { status: 0, length: 0, body: 0, replayed: false };
    let mut sized = false;
    for line in received.split_inclusive(|byte| *byte == b'\n') {
        let Some(text) = line.strip_suffix(b"\r\n") else { return Ok(None) };
        if head.length == 0 {
            head.status = status(text)?;
        } else if let Some(value) = field(text, b"content-length:") {
            let digits = std::str::from_utf8(value).map_err(|_| malformed("a length that is no text"))?;
            head.body = digits.trim().parse().map_err(|_| malformed("a length that is no number"))?;
            sized = true;
        } else if let Some(value) = field(text, b"idempotent-replayed:") {
            head.replayed = value.trim_ascii().eq_ignore_ascii_case(b"true");
        }
        head.length += line.len();
        if text.is_empty() {
            if !sized && head.status != 204 {
                return Err(malformed("no content-length"));
            }
            return Ok(Some(head));
        }
    }
    Ok(None)
}

fn status(line: &[u8]) -> Result<u16> {
    let digits = line.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| malformed("no status line"))
}

fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(value)
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("malformed answer: {what}"))
}

/// A request as the harness writes them down.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    /// The version that the target must have.
    pub(crate) if_match: Option<u64>,
    pub(crate) body: Option<String>,
}

impl Request {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: "GET", path: path.into(), key: None, if_match: None, body: None }
    }

    /// Its bytes on the wire.
    pub(crate) fn render(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n", self.method, self.path);
        if let Some(key) = &self.key {
            text.push_str("Idempotency-Key: ");
            text.push_str(key);
            text.push_str("\r\n");
        }
        if let Some(version) = self.if_match {
            text.push_str("If-Match: \"");
            text.push_str(&version.to_string());
            text.push_str("\"\r\n");
        }
        let body = self.body.as_deref().unwrap_or_default();
        if self.body.is_some() {
            text.push_str("Content-Type: application/json\r\n");
        }
        if self.method != "GET" {
            text.push_str("Content-Length: ");
            text.push_str(&body.len().to_string());
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        text.push_str(body);
        text.into_bytes()
    }
}

/// A request with a credential behind its first line.
pub(crate) fn with_credential(request: &[u8], credential: &str, out: &mut Vec<u8>) {
    let first = memchr::memmem::find(request, LINE_END).map_or(0, |at| at + LINE_END.len());
    out.extend_from_slice(&request[..first]);
    out.extend_from_slice(b"Authorization: Bearer ");
    out.extend_from_slice(credential.as_bytes());
    out.extend_from_slice(LINE_END);
    out.extend_from_slice(&request[first..]);
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) replayed: bool,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; null when it is none.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The `reason` of a problem; empty when there is none.
    pub(crate) fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// For messages: the status and the start of the body.
    pub(crate) fn brief(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        format!("{} {}", self.status, text.chars().take(300).collect::<String>())
    }
}

/// A keep-alive connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { stream, received: Vec::with_capacity(READ_BYTES) })
    }

    pub(crate) fn call(&mut self, request: &Request) -> Result<Answer> {
        self.send(request)?;
        self.receive()
    }

    /// The same with a credential.
    pub(crate) fn call_as(&mut self, request: &Request, credential: &str) -> Result<Answer> {
        let mut bytes = Vec::new();
        with_credential(&request.render(), credential, &mut bytes);
        self.stream.write_all(&bytes)?;
        self.receive()
    }

    pub(crate) fn send(&mut self, request: &Request) -> Result<()> {
        self.stream.write_all(&request.render())
    }

    pub(crate) fn receive(&mut self) -> Result<Answer> {
        let mut chunk = [0_u8; READ_BYTES];
        loop {
            if let Some(head) = head(&self.received)?
                && self.received.len() >= head.length + head.body
            {
                let body = self.received[head.length..head.length + head.body].to_vec();
                self.received.drain(..head.length + head.body);
                return Ok(Answer { status: head.status, replayed: head.replayed, body });
            }
            let read = match self.stream.read(&mut chunk) {
                // A socket with a time limit says so when the whole machine was stopped and goes on: signal(7).
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                return Err(Error::new(ErrorKind::UnexpectedEof, "the connection was closed"));
            }
            self.received.extend_from_slice(&chunk[..read]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_when_it_is_whole() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nidempotent-replayed: true\r\n\r\n{}";
        assert_eq!(head(&text[..40]).unwrap(), None);
        let whole = head(text).unwrap().unwrap();
        assert_eq!(whole, Head { status: 200, length: text.len() - 2, body: 12, replayed: true });
    }

    #[test]
    fn a_credential_is_a_header() {
        let mut out = Vec::new();
        with_credential(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "secret", &mut out);
        assert_eq!(out, b"GET / HTTP/1.1\r\nAuthorization: Bearer secret\r\nHost: a\r\n\r\n");
    }

    #[test]
    fn an_answer_without_a_length_is_an_error_unless_it_has_no_body() {
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert_eq!(head(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().map(|head| head.body), Some(0));
    }
}
