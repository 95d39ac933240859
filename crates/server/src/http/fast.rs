//! The fast path: plain requests, as every client library sends them, read and written without a general HTTP
//! implementation, which costs a third of a request. It takes only what it understands entirely: HTTP/1.1, at most one
//! Content-Length, JSON or no body. Anything else (chunked bodies, HEAD, Expect, odd framing, a stream of events) is handed
//! to hyper with all that was read, for the rest of the connection. It must never guess.
//!
//! One request of a connection is worked on at a time, and no more is read before it is answered: a client that sends many
//! at once waits in the socket.

use super::bounds::{BODY, HEAD, HEAD_BYTES, IN_A_ROW, REST};
use super::ending::{send, turn_away};
use super::handle::Worker;
use super::intake::ENDED;
use super::load::Load;
use super::plain::{Plain, Unlike};
use super::reply::Reply;
use super::route::Route;
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use stockhold_api::encode;
use stockhold_api::problem::Problem;
use stockhold_domain::RequestId;
use stockhold_store::Failure;
use stockhold_store::fault;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

/// Bytes read at a time.
const READ: usize = 8 * 1024;
/// Bytes by which a buffer for a long body grows at least: it grows with what comes, whatever was announced.
const GROW: usize = 64 * 1024;
/// A buffer that has grown past this is not kept between requests; up to here it is not counted, since there are no more of them than
/// connections.
const KEEP: usize = 16 * 1024;
/// A body that is longer is sent from where it is.
const TOGETHER: usize = 16 * 1024;

/// What is left of a connection.
pub(super) enum Left {
    /// Nothing: it has ended.
    Nothing,
    /// A caller that wants more than this path understands, and what was read.
    Unread(TcpStream, Vec<u8>),
}

/// Serves plain requests until the connection ends or sends something else. A server that stops drops connections that
/// rest, so this does not listen for it.
pub(super) async fn converse(worker: &Rc<Worker>, mut stream: TcpStream) -> Left {
    // Nothing is set aside for a connection that says nothing.
    let mut read = Vec::new();
    let mut write = Vec::new();
    let mut idle = pin!(sleep_until(Instant::now() + REST));
    let mut rested_since = Instant::now();
    let mut in_a_row = 0;
    // When the head that is not complete yet has to be.
    let mut head_ends = None;
    loop {
        if read.is_empty() {
            if read.capacity() == 0 {
                match rested(stream.readable(), idle.as_mut(), &rested_since).await {
                    Some(Ok(())) => read.reserve(READ),
                    _ => return Left::Nothing,
                }
            }
            // A read that leaves room says that there is no more for now, which spares asking once more.
            match rested(stream.read_buf(&mut read), idle.as_mut(), &rested_since).await {
                Some(Ok(1..)) => {}
                _ => return Left::Nothing,
            }
        }
        let plain = match Plain::find(&read) {
            Ok(plain) => plain,
            Err(Unlike::Part) if read.len() < HEAD_BYTES => {
                let ends = *head_ends.get_or_insert_with(|| Instant::now() + HEAD);
                match more(&stream, &mut read, ends).await {
                    Ok(()) => continue,
                    Err(error) if error.kind() == ErrorKind::TimedOut => {
                        turn_away(worker, stream, &Problem::late()).await;
                        return Left::Nothing;
                    }
                    Err(_) => return Left::Nothing,
                }
            }
            Err(_) => return Left::Unread(stream, read),
        };
        head_ends = None;
        let whole = plain.head + plain.body;
        let mut load = None;
        if whole > read.len() {
            let problem = match rest(&stream, &mut read, whole, load.insert(worker.room.load())).await {
                Ok(()) => None,
                Err(error) => Some(match error.kind() {
                    ErrorKind::TimedOut => Problem::late(),
                    ErrorKind::UnexpectedEof => Problem::unreadable(ENDED),
                    ErrorKind::OutOfMemory => Problem::from(&Failure::Overloaded),
                    _ => return Left::Nothing,
                }),
            };
            if let Some(problem) = problem {
                turn_away(worker, stream, &problem).await;
                return Left::Nothing;
            }
        }
        let busy = worker.busy();
        let begun = Instant::now();
        rested_since = begun;
        let Some(body) = read.get(plain.head..whole) else { return Left::Unread(stream, read) };
        let asked = plain.asked(&read, worker.clock.now());
        let now = asked.now;
        let request_id = worker.name(&asked);
        let found = Route::find(asked.method, asked.path);
        let reply = worker.answer(asked, found, Ok(body), &request_id, begun.into_std()).await;
        let last = worker.draining.load(Ordering::Relaxed);
        write.clear();
        put_head(&mut write, &reply, &request_id, &worker.date(now), last);
        let apart = if reply.body.len() > TOGETHER {
            &*reply.body
        } else {
            write.extend_from_slice(&reply.body);
            &[]
        };
        fault!("answer.sending");
        if send(&stream, &write).await.is_err() || send(&stream, apart).await.is_err() || last {
            return Left::Nothing;
        }
        fault!("answer.sent");
        drop((busy, load));
        read.drain(..whole);
        if read.is_empty() && read.capacity() > KEEP {
            read = Vec::new();
        }
        in_a_row += 1;
        if in_a_row == IN_A_ROW {
            in_a_row = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Waits for something, and no longer than a connection may rest; `None` when that is over. The timer is set once a minute
/// and not once a request.
async fn rested<T>(waits: impl Future<Output = T>, mut idle: Pin<&mut Sleep>, since: &Instant) -> Option<T> {
    let mut waits = pin!(waits);
    loop {
        tokio::select! {
            biased;
            got = waits.as_mut() => return Some(got),
            () = idle.as_mut() => {
                let ends = *since + REST;
                if Instant::now() >= ends {
                    return None;
                }
                idle.as_mut().reset(ends);
            }
        }
    }
}

/// Reads on until a head may have ended, or is too long.
async fn more(stream: &TcpStream, read: &mut Vec<u8>, ends: Instant) -> io::Result<()> {
    loop {
        let before = read.len().saturating_sub(END.len());
        receive(stream, read, READ, ends).await?;
        // A client that sends byte by byte is not parsed byte by byte.
        let fresh = read.get(before..).unwrap_or_default();
        let ended = fresh.windows(END.len()).any(|three| three == END || three.ends_with(b"\n\n"));
        if ended || read.len() >= HEAD_BYTES {
            return Ok(());
        }
    }
}

/// What the last line of a head ends with, whether or not it has its carriage return.
const END: &[u8; 3] = b"\n\r\n";

/// Reads until `whole` bytes are there; out of memory when all bodies together take too much.
async fn rest(stream: &TcpStream, read: &mut Vec<u8>, whole: usize, load: &mut Load) -> io::Result<()> {
    let ends = Instant::now() + BODY;
    let mut counted = 0;
    while read.len() < whole {
        let left = whole - read.len();
        let room = left.min(read.len().max(GROW));
        receive(stream, read, room, ends).await?;
        if read.capacity() > KEEP {
            if !load.grow(read.capacity() - counted) {
                return Err(ErrorKind::OutOfMemory.into());
            }
            counted = read.capacity();
        }
    }
    Ok(())
}

/// Reads what has come, waiting for it; makes room for so many bytes when there is none.
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

/// Writes all of a reply but its body.
pub(super) fn put_head(out: &mut Vec<u8>, reply: &Reply, request_id: &RequestId, date: &str, last: bool) {
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
}
