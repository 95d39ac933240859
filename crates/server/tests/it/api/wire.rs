//! HTTP/1.1 by hand over a socket, so that requests can be sent that no proper client would send. What comes back is
//! read strictly: an answer that is not framed as it should be fails the test.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// An answer that takes longer counts as none.
const HANGS: Duration = Duration::from_mins(1);

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Option<Vec<u8>>,
}

impl Call {
    pub(crate) fn new(method: &str, target: impl Into<String>) -> Self {
        Self { method: method.to_owned(), target: target.into(), headers: Vec::new(), body: None }
    }

    pub(crate) fn get(target: impl Into<String>) -> Self {
        Self::new("GET", target)
    }

    pub(crate) fn post(target: impl Into<String>) -> Self {
        Self::new("POST", target)
    }

    pub(crate) fn put(target: impl Into<String>) -> Self {
        Self::new("PUT", target)
    }

    pub(crate) fn delete(target: impl Into<String>) -> Self {
        Self::new("DELETE", target)
    }

    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    pub(crate) fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(one, _)| one.eq_ignore_ascii_case(name))
    }

    pub(crate) fn query(mut self, query: &str) -> Self {
        self.target = format!("{}?{query}", self.target);
        self
    }

    /// The idempotency key.
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("Idempotency-Key", key)
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json").body(body.to_string())
    }

    /// Everything up to the body.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head =
            format!("{} {} HTTP/1.1\r\nHost: localhost\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.headers {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        if let Some(body) = &self.body {
            head.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// The whole request.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }

    /// The whole request with its body in chunks of so many bytes.
    pub(crate) fn chunked(&self, size: usize) -> Vec<u8> {
        let open = Self { body: None, ..self.clone() }.header("Transfer-Encoding", "chunked");
        let mut bytes = open.head();
        for chunk in self.body.as_deref().unwrap_or_default().chunks(size) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        bytes
    }

    pub(crate) fn method(&self) -> &str {
        &self.method
    }

    /// Path and query.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    fn wants_no_body(&self) -> bool {
        self.method == "HEAD"
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) version: String,
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A header that is there at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is there twice: {:?}", self.headers);
        value
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("{error} in the body of {self:?}"),
        }
    }
}

/// A connection.
pub(crate) struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self::try_connect(to).unwrap_or_else(|| panic!("nobody listens on {to}"))
    }

    /// The same, of a server that may not listen.
    pub(crate) fn try_connect(to: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(to).ok()?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(HANGS)).unwrap();
        stream.set_write_timeout(Some(HANGS)).unwrap();
        Some(Self { stream, read: Vec::new() })
    }

    /// A request and its answer, which is one that the API's document has.
    #[track_caller]
    pub(crate) fn ask(&mut self, call: &Call) -> Answer {
        let answer = self.ask_elsewhere(call);
        super::contract::check(call, &answer);
        answer
    }

    /// A request to another listener than the API's, and its answer.
    #[track_caller]
    pub(crate) fn ask_elsewhere(&mut self, call: &Call) -> Answer {
        self.send(&call.bytes());
        if call.wants_no_body() { self.answer_without_body() } else { self.answer() }
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.write_all(bytes) {
            panic!("the server does not take a request: {error}");
        }
    }

    /// Sends as much as the server takes: it may answer and hang up before the end.
    pub(crate) fn send_what_is_taken(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.write_all(bytes) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "the server neither reads nor hangs up");
        }
    }

    /// Sends as much as fits into what lies between.
    pub(crate) fn send_without_waiting(&mut self, mut bytes: &[u8]) {
        self.stream.set_nonblocking(true).unwrap();
        while let Ok(count) = self.stream.write(bytes) {
            bytes = &bytes[count..];
            assert!(!bytes.is_empty(), "all of it went out: it was too little");
        }
    }

    /// Sends, and says whether the server still takes it.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// The socket, for answers that are not framed by a length.
    pub(crate) fn into_stream(self) -> TcpStream {
        assert!(self.read.is_empty());
        self.stream
    }

    /// Says that nothing more will be sent.
    pub(crate) fn end_sending(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// The same, and the socket to read the rest from.
    pub(crate) fn end_and_take(self) -> TcpStream {
        // The server may have hung up.
        let _ = self.stream.shutdown(Shutdown::Write);
        self.into_stream()
    }

    /// The next answer.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Answer {
        self.next_answer(true).expect("the connection was closed without an answer")
    }

    /// The next answer, to a HEAD request.
    #[track_caller]
    pub(crate) fn answer_without_body(&mut self) -> Answer {
        self.next_answer(false).expect("the connection was closed without an answer")
    }

    /// Whether the server has hung up, with nothing more to read.
    #[track_caller]
    pub(crate) fn is_closed(&mut self) -> bool {
        self.next_answer(true).is_none()
    }

    /// The next answer, or `None` when the server closes instead.
    #[track_caller]
    pub(crate) fn next_answer(&mut self, body_follows: bool) -> Option<Answer> {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if !self.read_more() {
                assert!(self.read.is_empty(), "half an answer: {}", String::from_utf8_lossy(&self.read));
                return None;
            }
        };
        let head = String::from_utf8(self.read.drain(..end + 4).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let first = lines.next().unwrap();
        let [version, status, _] = first.splitn(3, ' ').collect::<Vec<_>>()[..] else {
            panic!("no status line: {first:?}");
        };
        let (version, status) = (version.to_owned(), status.parse().unwrap());
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        let mut answer = Answer { version, status, headers: headers.collect(), body: Vec::new() };
        let length = answer.header("content-length").map(|length| length.parse::<usize>().unwrap());
        if body_follows && !matches!(status, 100 | 204 | 304) {
            let length = length.unwrap_or_else(|| panic!("no length: {answer:?}"));
            while self.read.len() < length {
                assert!(self.read_more(), "the body of {answer:?} ends early");
            }
            answer.body = self.read.drain(..length).collect();
        }
        Some(answer)
    }

    /// Whether there was more.
    #[track_caller]
    fn read_more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        loop {
            break match self.stream.read(&mut buffer) {
                Ok(0) => false,
                Ok(count) => {
                    self.read.extend_from_slice(&buffer[..count]);
                    true
                }
                // A socket with a time limit says so when the whole machine was stopped and goes on: signal(7).
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
                Err(error) => panic!("no answer: {error}"),
            };
        }
    }
}

/// Percent-encodes every byte that is not a letter or a digit.
pub(crate) fn encoded(text: impl AsRef<[u8]>) -> String {
    text.as_ref().iter().fold(String::new(), |mut out, &byte| {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").unwrap();
        }
        out
    })
}
