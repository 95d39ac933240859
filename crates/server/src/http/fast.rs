//! The fast path: plain requests, as every client library sends them, read and written without a general HTTP
//! implementation, which costs a third of a request. It takes only what it understands entirely: HTTP/1.1, a whole head
//! in one read, at most one Content-Length, JSON or no body. Anything else (chunked bodies, HEAD, Expect, odd framing, a
//! head in pieces) is handed to hyper with all that was read, for the rest of the connection. It must never guess.

use super::asked::{Asked, Given};
use super::handle::Worker;
use super::intake::BODY_TIMEOUT;
use super::reply::Reply;
use super::route::Route;
use super::slow::HEADER_TIMEOUT;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use stockhold_api::decode::{BODY_BYTES, is_json};
use stockhold_api::encode;
use stockhold_domain::RequestId;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Methods of plain requests.
const METHODS: [&str; 4] = ["POST", "GET", "DELETE", "PUT"];
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

/// Serves plain requests until the connection ends or sends something else. A server that stops drops connections that
/// rest, so this does not listen for it.
pub(super) async fn converse(worker: &Rc<Worker>, stream: TcpStream) -> Left {
    let mut read = Vec::with_capacity(READ);
    let mut write = Vec::with_capacity(READ);
    let mut idle = pin!(sleep_until(Instant::now() + HEADER_TIMEOUT));
    let mut rested_since = Instant::now();
    loop {
        if read.is_empty() {
            tokio::select! {
                biased;
                ready = stream.readable() => if ready.is_err() { return Left::Nothing },
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
        let Some(plain) = Plain::find(&read) else { return Left::Unread(stream, read) };
        let whole = plain.head + plain.body;
        if whole > read.len() {
            match rest(&stream, &mut read, whole).await {
                Ok(()) => {}
                // hyper says what there is to say about a body that does not come.
                Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::UnexpectedEof) => {
                    return Left::Unread(stream, read);
                }
                Err(_) => return Left::Nothing,
            }
        }
        let busy = worker.busy();
        let begun = Instant::now();
        rested_since = begun;
        let Some(body) = read.get(plain.head..whole) else { return Left::Unread(stream, read) };
        let asked = plain.asked(&read);
        let request_id = worker.name(&asked);
        let found = Route::find(asked.method, asked.path);
        let reply = worker.answer(asked, found, Ok(body), &request_id, begun.into_std()).await;
        let last = worker.draining.load(Ordering::Relaxed);
        write.clear();
        put(&mut write, &reply, &request_id, &worker.date(), last);
        if send(&stream, &write).await.is_err() || last {
            return Left::Nothing;
        }
        drop(busy);
        read.drain(..whole);
        if read.is_empty() && read.capacity() > KEEP {
            read = Vec::with_capacity(READ);
        }
    }
}

/// Where in the bytes the parts of a plain request are.
#[derive(Default)]
struct Plain {
    /// Length of the head.
    head: usize,
    /// Length of the body.
    body: usize,
    method: &'static str,
    path: Range<usize>,
    query: Option<Range<usize>>,
    request_id: Option<Range<usize>>,
    idempotency_key: Option<Range<usize>>,
    if_match: Option<Range<usize>>,
    traceparent: Option<Range<usize>>,
}

impl Plain {
    /// `None` when the bytes are not the beginning of a plain request.
    fn find(bytes: &[u8]) -> Option<Self> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(head) = request.parse(bytes).ok()? else { return None };
        if request.version != Some(1) {
            return None;
        }
        let method = METHODS.into_iter().find(|method| request.method == Some(*method))?;
        let target =
            request.path.filter(|path| path.starts_with('/') && path.is_ascii() && !path.contains('#'))?;
        let place = |part: &[u8]| {
            let from = part.as_ptr().addr() - bytes.as_ptr().addr();
            from..from + part.len()
        };
        let mut plain = Self { head, method, path: place(target.as_bytes()), ..Self::default() };
        if let Some((path, query)) = target.split_once('?') {
            (plain.path, plain.query) = (place(path.as_bytes()), Some(place(query.as_bytes())));
        }
        let mut length = None;
        for header in request.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            // One that is given twice is for hyper to judge.
            let once =
                |slot: &mut Option<Range<usize>>| slot.replace(place(header.value)).is_none().then_some(());
            match header.name.len() {
                14 if is("content-length") => {
                    let digits = header.value.iter().all(u8::is_ascii_digit);
                    (length.is_none() && digits).then_some(())?;
                    length = Some(std::str::from_utf8(header.value).ok()?.parse::<usize>().ok()?);
                }
                12 if is("content-type") => is_json(header.value).then_some(())?,
                10 if is("connection") => header.value.eq_ignore_ascii_case(b"keep-alive").then_some(())?,
                15 if is("idempotency-key") => once(&mut plain.idempotency_key)?,
                12 if is("x-request-id") => once(&mut plain.request_id)?,
                11 if is("traceparent") => once(&mut plain.traceparent)?,
                8 if is("if-match") => once(&mut plain.if_match)?,
                17 if is("transfer-encoding") => return None,
                16 if is("content-encoding") => return None,
                6 if is("expect") => return None,
                7 if is("upgrade") => return None,
                _ => {}
            }
        }
        plain.body = length.unwrap_or(0);
        // The longest bodies belong to one route, and it is hyper that refuses what is too long.
        let fits = plain.body <= BODY_BYTES
            || Route::find(
                method,
                bytes.get(plain.path.clone()).and_then(|path| std::str::from_utf8(path).ok())?,
            )
            .is_ok_and(|route| plain.body <= route.body_limit());
        fits.then_some(plain)
    }

    fn asked<'a>(&self, bytes: &'a [u8]) -> Asked<'a> {
        let part = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
        let text = |range: &Range<usize>| std::str::from_utf8(part(range)).ok();
        let once = |range: &Option<Range<usize>>| {
            range.as_ref().map_or(Given::Not, |range| Given::Once(part(range)))
        };
        Asked {
            method: self.method,
            path: text(&self.path).unwrap_or_default(),
            query: self.query.as_ref().and_then(text),
            request_id: self.request_id.as_ref().and_then(text),
            idempotency_key: once(&self.idempotency_key),
            if_match: once(&self.if_match),
            traceparent: self.traceparent.as_ref().and_then(text),
        }
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
    // The space behind the status has to be there, though no words follow it.
    line(["HTTP/1.1 ", status.as_str(), " "]);
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
