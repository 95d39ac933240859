//! The fast path: plain requests, as every client library sends them, read and written without a general HTTP
//! implementation, which costs a third of a request. It takes only what it understands entirely: HTTP/1.1, a whole head
//! in one read, at most one Content-Length, JSON or no body. Anything else (chunked bodies, HEAD, Expect, odd framing, a
//! head in pieces) is handed to hyper with all that was read, for the rest of the connection. It must never guess.

use super::asked::Asked;
use super::handle::Worker;
use super::intake::BODY_TIMEOUT;
use super::reply::Reply;
use super::route::Route;
use super::slow::HEADER_TIMEOUT;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use stockhold_api::decode::is_json;
use stockhold_api::encode;
use stockhold_domain::RequestId;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Most headers of a plain request.
const HEADERS: usize = 32;
/// Bytes read at a time.
const READ: usize = 8 * 1024;
/// A buffer that has grown past this is not kept between requests.
const KEEP: usize = 64 * 1024;

/// What is left of a connection.
pub(super) enum Left {
    /// Nothing: it has ended.
    Nothing,
    /// A caller that wants more than this path understands, and what was read.
    Unread(TcpStream, Vec<u8>),
}

/// Serves plain requests until the connection ends or sends something else.
pub(super) async fn converse(
    worker: &Rc<Worker>,
    stream: TcpStream,
    stop: &mut watch::Receiver<bool>,
) -> Left {
    let mut read = Vec::with_capacity(READ);
    let mut write = Vec::with_capacity(READ);
    let mut idle = pin!(sleep_until(Instant::now() + HEADER_TIMEOUT));
    let mut rested_since = Instant::now();
    loop {
        if read.is_empty() {
            tokio::select! {
                biased;
                ready = stream.readable() => if ready.is_err() { return Left::Nothing },
                _ = stop.wait_for(|stop| *stop) => return Left::Nothing,
                () = idle.as_mut() => {
                    // The timer is set once a minute and not once a request.
                    let ends = rested_since + HEADER_TIMEOUT;
                    if Instant::now() >= ends {
                        return Left::Nothing;
                    }
                    idle.as_mut().reset(ends);
                    continue;
                }
            }
            match stream.try_read_buf(&mut read) {
                Ok(0) => return Left::Nothing,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(_) => return Left::Nothing,
            }
        }
        let Some(Plain { head, body }) = Plain::find(&read) else { return Left::Unread(stream, read) };
        let whole = head + body;
        if whole > read.len() {
            match rest(&stream, &mut read, whole).await {
                Ok(()) => {}
                // hyper says what there is to say about a body that does not come.
                Err(error) if error.kind() == ErrorKind::TimedOut => return Left::Unread(stream, read),
                Err(_) => return Left::Nothing,
            }
        }
        write.clear();
        let answered = answer(worker, &read, head, body, &mut write).await;
        if !answered {
            return Left::Unread(stream, read);
        }
        if send(&stream, &write).await.is_err() || worker.draining.load(Ordering::Relaxed) {
            return Left::Nothing;
        }
        read.drain(..whole.min(read.len()));
        if read.is_empty() && read.capacity() > KEEP {
            read = Vec::with_capacity(READ);
        }
        rested_since = Instant::now();
    }
}

/// Lengths of a plain request's head and body.
struct Plain {
    head: usize,
    body: usize,
}

impl Plain {
    /// `None` when the bytes are not the beginning of a plain request.
    fn find(bytes: &[u8]) -> Option<Self> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(head) = request.parse(bytes).ok()? else { return None };
        if request.version != Some(1) || !matches!(request.method, Some("GET" | "POST" | "PUT" | "DELETE")) {
            return None;
        }
        let path =
            request.path.filter(|path| path.starts_with('/') && path.is_ascii() && !path.contains('#'))?;
        let mut length = None;
        for header in request.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                if length.is_some() || header.value.is_empty() || !header.value.iter().all(u8::is_ascii_digit)
                {
                    return None;
                }
                length = Some(std::str::from_utf8(header.value).ok()?.parse::<usize>().ok()?);
            } else if is("content-type") {
                is_json(header.value).then_some(())?;
            } else if is("connection") {
                header.value.eq_ignore_ascii_case(b"keep-alive").then_some(())?;
            } else if is("transfer-encoding") || is("content-encoding") || is("expect") || is("upgrade") {
                return None;
            }
        }
        let (path, _) = path.split_once('?').unwrap_or((path, ""));
        let limit = Route::find(request.method?, path).map_or(0, Route::body_limit);
        let body = length.unwrap_or(0);
        (body <= limit).then_some(Self { head, body })
    }
}

/// Reads until `whole` bytes are there.
async fn rest(stream: &TcpStream, read: &mut Vec<u8>, whole: usize) -> io::Result<()> {
    let deadline = Instant::now() + BODY_TIMEOUT;
    read.reserve(whole.saturating_sub(read.len()));
    while read.len() < whole {
        timeout_at(deadline, stream.readable()).await.map_err(|_| ErrorKind::TimedOut)??;
        match stream.try_read_buf(read) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Answers a plain request into `write`.
async fn answer(worker: &Worker, read: &[u8], head: usize, body: usize, write: &mut Vec<u8>) -> bool {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(read);
    let (Ok(_), Some(method), Some(target)) = (parsed, request.method, request.path) else { return false };
    let Some(body) = read.get(head..head + body) else { return false };
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut asked = Asked { method, path, query, ..Asked::default() };
    for header in request.headers.iter() {
        asked.header(header.name, header.value);
    }
    let request_id = worker.name(&asked);
    let reply = worker.answer(asked, Route::find(method, path), Ok(body), &request_id).await;
    put(write, &reply, &request_id, &worker.date(), worker.draining.load(Ordering::Relaxed));
    true
}

/// Writes a reply.
fn put(out: &mut Vec<u8>, reply: &Reply, request_id: &RequestId, date: &str, last: bool) {
    let mut line = |parts: [&str; 3]| {
        for part in parts {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    };
    let status =
        hyper::StatusCode::from_u16(reply.status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    line(["HTTP/1.1 ", status.as_str(), ""]);
    if let Some(kind) = reply.kind {
        line(["content-type", ": ", kind]);
    }
    if let Some((name, value)) = &reply.extra {
        line([name, ": ", value]);
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
    out.extend_from_slice(&reply.body);
}

async fn send(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // A caller that does not read its answers.
                let deadline = Instant::now() + HEADER_TIMEOUT;
                timeout_at(deadline, stream.writable()).await.map_err(|_| ErrorKind::TimedOut)??;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
