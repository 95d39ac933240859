//! The fast path: plain requests, as every client library sends them. It reads and writes them without a general HTTP
//! implementation, which would take a third of a request's time. It handles only what it understands entirely:
//! HTTP/1.1, at most one Content-Length, JSON or no body. Everything else (chunked bodies, HEAD, Expect, unusual
//! framing, an event stream) is handed over to hyper, with all bytes that were read, for the rest of the connection.
//! It must never guess.
//!
//! A connection has one request in progress, and nothing more is read before the answer. Further requests of a client
//! wait in the socket.

use super::admission::bounds::{
    BODY_TIMEOUT, HEAD_TIMEOUT, IDLE_TIMEOUT, MAX_CONSECUTIVE_REQUESTS, MAX_HEAD_BYTES,
};
use super::admission::connections::Connection;
use super::body::{ENDED, long_body};
use super::closing::{linger, reject_connection, send};
use super::listeners::Peer;
use super::plain_request::{NotPlain, PlainRequest};
use super::reply::Reply;
use super::request_head::RequestHead;
use super::route::{Route, RouteError};
use super::worker::Worker;
use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use stockhold_api::encode;
use stockhold_api::problem::Problem;
use stockhold_domain::RequestId;
use stockhold_service::Caller;
use stockhold_store::fault;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

/// Bytes read at a time.
const READ: usize = 8 * 1024;
/// A longer body that has not arrived is read only after its caller is known, into a buffer of its own, whose memory is counted. A
/// larger buffer is not kept between requests. Smaller ones are not counted, because the number of connections bounds them.
const KEEP: usize = 16 * 1024;
/// A longer body is sent without copying it behind the head.
const TOGETHER: usize = 16 * 1024;

/// The beginning of an HTTP/2 connection without negotiation (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2";
const HTTP2: &str = "is HTTP/2 without TLS, which this server does not speak: send HTTP/1.1, or use HTTPS";

/// How the fast path ends a connection.
pub(super) enum FastPathEnd {
    /// The connection has ended.
    Closed,
    /// The general path continues with the connection and the bytes that were read.
    HandOver(TcpStream, Vec<u8>),
}

/// Serves plain requests until the connection ends or sends something else. It does not watch for a stop of the
/// server, because idle connections are dropped then.
pub(super) async fn serve_connection(
    worker: &Rc<Worker>,
    mut stream: TcpStream,
    peer: Peer,
    connection: &Connection,
) -> FastPathEnd {
    // An idle connection gets no buffer.
    let mut read = Vec::new();
    let mut write = Vec::new();
    let mut idle = pin!(sleep_until(Instant::now() + IDLE_TIMEOUT));
    let mut idle_since = Instant::now();
    let mut consecutive_requests = 0;
    // Deadline for the head that is being received.
    let mut head_ends = None;
    loop {
        if read.is_empty() && first_bytes(&mut stream, &mut read, idle.as_mut(), &idle_since).await.is_none()
        {
            return FastPathEnd::Closed;
        }
        let plain = match PlainRequest::find(&read, worker.access.proxies.header_of(peer.address)) {
            Ok(plain) => plain,
            Err(NotPlain::Incomplete) if read.len() < MAX_HEAD_BYTES => {
                let ends = *head_ends.get_or_insert_with(|| Instant::now() + HEAD_TIMEOUT);
                match more(&stream, &mut read, ends).await {
                    Ok(()) => continue,
                    Err(error) if error.kind() == ErrorKind::TimedOut => {
                        reject_connection(worker, stream, peer, &Problem::late()).await;
                        return FastPathEnd::Closed;
                    }
                    Err(_) => return FastPathEnd::Closed,
                }
            }
            Err(_) if read.starts_with(HTTP2_PREFACE) => {
                reject_connection(worker, stream, peer, &Problem::unreadable(HTTP2)).await;
                return FastPathEnd::Closed;
            }
            Err(_) => return FastPathEnd::HandOver(stream, read),
        };
        head_ends = None;
        let whole = plain.head + plain.body;
        let is_long = whole > read.len() && plain.body > KEEP;
        if whole > read.len() && !is_long {
            let problem = match rest(&stream, &mut read, whole).await {
                Ok(()) => None,
                Err(error) => Some(match error.kind() {
                    ErrorKind::TimedOut => Problem::late(),
                    ErrorKind::UnexpectedEof => Problem::unreadable(ENDED),
                    _ => return FastPathEnd::Closed,
                }),
            };
            if let Some(problem) = problem {
                reject_connection(worker, stream, peer, &problem).await;
                return FastPathEnd::Closed;
            }
        }
        if !connection.begin() {
            return FastPathEnd::Closed;
        }
        let busy = worker.count_request();
        let begun = Instant::now();
        idle_since = begun;
        let Some(body) = read.get(plain.head..whole.min(read.len())) else {
            return FastPathEnd::HandOver(stream, read);
        };
        let head = plain.request_head(&read, peer, &worker.access.proxies, worker.clocks.wall.now());
        let request_id = worker.name(&head);
        let found = Route::find_on(head.listener, head.method, head.path);
        let (reply, is_read) = if is_long {
            let request = LongRequest { head: &head, found, request_id: &request_id, begun };
            Box::pin(request.answer(worker, &stream, body, plain.body)).await
        } else {
            let arrived = async |_: &Caller| Ok(body);
            (worker.answer(&head, found, arrived, &request_id, begun.into_std()).await, true)
        };
        let last = !is_read || worker.draining.load(Ordering::Relaxed);
        write.clear();
        put_head(&mut write, &reply, &request_id, &worker.date(head.now), last);
        let apart = if reply.body.len() > TOGETHER {
            &*reply.body
        } else {
            write.extend_from_slice(&reply.body);
            &[]
        };
        fault!("answer.sending");
        if send(&stream, &write).await.is_err() || send(&stream, apart).await.is_err() {
            return FastPathEnd::Closed;
        }
        if last {
            if !is_read {
                linger(worker, stream).await;
            }
            return FastPathEnd::Closed;
        }
        fault!("answer.sent");
        drop(busy);
        connection.rest(begun.into_std());
        read.drain(..whole.min(read.len()));
        if read.is_empty() && read.capacity() > KEEP {
            read = Vec::new();
        }
        consecutive_requests += 1;
        if consecutive_requests == MAX_CONSECUTIVE_REQUESTS {
            consecutive_requests = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Reads what has arrived, once something has. `None` at the end of the connection.
async fn first_bytes(
    stream: &mut TcpStream,
    read: &mut Vec<u8>,
    mut idle: Pin<&mut Sleep>,
    idle_since: &Instant,
) -> Option<()> {
    if read.capacity() == 0 {
        before_idle_timeout(stream.readable(), idle.as_mut(), idle_since).await?.ok()?;
        read.reserve(READ);
    }
    // A read that does not fill the buffer has read everything, so a second read is not needed.
    let length = before_idle_timeout(stream.read_buf(read), idle.as_mut(), idle_since).await?.ok()?;
    (length > 0).then_some(())
}

/// A request whose long body has not arrived.
struct LongRequest<'a> {
    head: &'a RequestHead<'a>,
    found: Result<Route<'a>, RouteError>,
    request_id: &'a RequestId,
    begun: Instant,
}

impl LongRequest<'_> {
    /// Answers it. The body is read once the caller is known, and only then: the answer, and whether it was read.
    async fn answer(
        self,
        worker: &Rc<Worker>,
        stream: &TcpStream,
        arrived: &[u8],
        length: usize,
    ) -> (Reply, bool) {
        let is_read = Cell::new(false);
        let body = async |caller: &Caller| {
            let read = long_body(stream, arrived, length, worker.memory_of(caller, self.head)).await;
            is_read.set(read.is_ok());
            read
        };
        let begun = self.begun.into_std();
        let reply = worker.answer(self.head, self.found, body, self.request_id, begun).await;
        (reply, is_read.get())
    }
}

/// Waits for a future, at most as long as a connection may be idle. Returns `None` after that. The timer is set once a
/// minute and not once a request.
async fn before_idle_timeout<T>(
    waits: impl Future<Output = T>,
    mut idle: Pin<&mut Sleep>,
    since: &Instant,
) -> Option<T> {
    let mut waits = pin!(waits);
    loop {
        tokio::select! {
            biased;
            got = waits.as_mut() => return Some(got),
            () = idle.as_mut() => {
                let ends = *since + IDLE_TIMEOUT;
                if Instant::now() >= ends {
                    return None;
                }
                idle.as_mut().reset(ends);
            }
        }
    }
}

/// Reads until the head may be complete, or is too long.
async fn more(stream: &TcpStream, read: &mut Vec<u8>, ends: Instant) -> io::Result<()> {
    loop {
        let before = read.len().saturating_sub(END.len());
        receive(stream, read, READ, ends).await?;
        // Do not parse again for every byte of a client that sends byte by byte.
        let fresh = read.get(before..).unwrap_or_default();
        let ended = fresh.windows(END.len()).any(|three| three == END || three.ends_with(b"\n\n"));
        if ended || read.len() >= MAX_HEAD_BYTES {
            return Ok(());
        }
    }
}

/// The end of a head, with or without carriage returns.
const END: &[u8; 3] = b"\n\r\n";

/// Reads until there are `whole` bytes.
async fn rest(stream: &TcpStream, read: &mut Vec<u8>, whole: usize) -> io::Result<()> {
    let ends = Instant::now() + BODY_TIMEOUT;
    while read.len() < whole {
        receive(stream, read, whole - read.len(), ends).await?;
    }
    Ok(())
}

/// Waits for data and reads it. Grows a full buffer by `room` bytes.
async fn receive(stream: &TcpStream, read: &mut Vec<u8>, room: usize, ends: Instant) -> io::Result<()> {
    loop {
        timeout_at(ends, stream.readable()).await.map_err(|_| ErrorKind::TimedOut)??;
        if read.len() == read.capacity() {
            read.reserve_exact(room);
        }
        match stream.try_read_buf(read) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes the head of a reply.
pub(super) fn put_head(out: &mut Vec<u8>, reply: &Reply, request_id: &RequestId, date: &str, last: bool) {
    let status =
        hyper::StatusCode::from_u16(reply.status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    let phrase = status.canonical_reason().unwrap_or_default();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    // RFC 9112, section 4: the space is required even if no phrase follows.
    out.extend_from_slice(b" ");
    out.extend_from_slice(phrase.as_bytes());
    out.extend_from_slice(b"\r\n");
    let mut line = |parts: [&str; 3]| {
        for part in parts {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    };
    if let Some(kind) = reply.kind {
        line(["content-type", ": ", kind]);
    }
    for (name, value) in &reply.headers {
        line([name, ": ", value]);
    }
    if let Some(encoding) = reply.encoding {
        line(["content-encoding", ": ", encoding]);
    }
    if reply.replayed {
        line(["idempotent-replayed: true", "", ""]);
    }
    if last {
        line(["connection: close", "", ""]);
    }
    line(["date: ", date, ""]);
    if reply.kind.is_some() {
        line(["content-length: ", itoa::Buffer::new().format(reply.body.len()), ""]);
    }
    out.extend_from_slice(b"x-request-id: ");
    match request_id {
        RequestId::Made(bits) => encode::uuid(out, *bits),
        RequestId::Given(text) => out.extend_from_slice(text.as_str().as_bytes()),
    }
    out.extend_from_slice(b"\r\n\r\n");
}
