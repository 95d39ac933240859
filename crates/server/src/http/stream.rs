//! The event stream, as server-sent events: `id` is the position, `event` the type and `data` the event. A client that
//! reconnects with its last id misses nothing and gets nothing twice, because events are read from the log.
//!
//! There is no queue for clients: each gets a piece when it has read the one before. A client that reads nothing for
//! too long is disconnected (`socket.rs`). It continues from its last id when it reconnects.

use super::event_tailer::{POLL_INTERVAL, Subscription};
use super::lists::EVENTS_AT_ONCE;
use super::reply;
use super::request_error::RequestError;
use super::worker::{CountGuard, HandlerResult, RequestContext, Worker};
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use stockhold_api::encode;
use stockhold_api::problem::Problem;
use stockhold_service::Scope;
use stockhold_store::Query;
use tokio::sync::mpsc;

/// Streams that may be open at once.
const STREAMS: usize = 256;
/// Bytes after which a piece is sent. The event that reaches this length is still complete.
const PIECE: usize = 64 * 1024;
/// Time without events after which a comment is sent, so that both ends notice a broken connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Time after which a client should reconnect, in milliseconds.
const RETRY_MILLIS: u32 = 1_000;

/// The body of an event stream.
#[derive(Debug)]
pub(super) struct EventStream {
    pieces: mpsc::Receiver<Bytes>,
    _open: CountGuard,
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.pieces.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

impl Worker {
    /// Starts a stream after a position, or after the newest event. A wrong position is refused before the stream
    /// begins.
    pub(super) async fn event_stream(
        self: &Rc<Self>,
        context: RequestContext<'_>,
        after: Option<u64>,
    ) -> HandlerResult {
        if context.head.method == "HEAD" {
            return Ok(reply::stream(None));
        }
        let open = CountGuard::new(&self.streams);
        if self.streams.load(Ordering::Relaxed) > STREAMS {
            return Err(Problem::too_many_streams(STREAMS).into());
        }
        let after = match after {
            Some(after) => {
                self.is_history(after).await?;
                self.events_after(after, 1).await?;
                after
            }
            None => {
                // A store that has just started learns its newest position from a query.
                self.find(Query::Events { after: self.store.newest(), limit: 0 }).await?;
                self.store.newest()
            }
        };
        let shows_access = context.caller.principal.may(Scope::KeysAdmin);
        let (sender, pieces) = mpsc::channel(1);
        tokio::task::spawn_local(feed(Rc::clone(self), after, shows_access, sender));
        Ok(reply::stream(Some(EventStream { pieces, _open: open })))
    }
}

/// Sends events until the client disconnects or the server stops.
async fn feed(worker: Rc<Worker>, mut position: u64, shows_access: bool, pieces: mpsc::Sender<Bytes>) {
    let subscription = worker.tailer.subscribe();
    let mut stop = worker.stop.subscribe();
    let sent = async {
        // A client remembers an id without data too, so it reconnects at the right position before its first event.
        if pieces.send(format!("retry: {RETRY_MILLIS}\nid: {position}\n\n").into()).await.is_ok() {
            follow(&worker, &subscription, &mut position, shows_access, &pieces).await;
        }
    };
    tokio::select! {
        () = sent => {}
        () = pieces.closed() => {}
        _ = stop.wait_for(|stop| *stop) => {
            // A client that reads gets a comment. It reconnects by itself in any case.
            let _ = pieces.try_send(Bytes::from_static(b": the server stops; go on from the last id\n\n"));
        }
    }
}

async fn follow(
    worker: &Worker,
    subscription: &Subscription,
    position: &mut u64,
    shows_access: bool,
    pieces: &mpsc::Sender<Bytes>,
) {
    let mut ask = EVENTS_AT_ONCE;
    loop {
        let piece = match tokio::time::timeout(KEEP_ALIVE, subscription.wait_for_event_after(*position)).await
        {
            Err(_) => Bytes::from_static(b":\n\n"),
            Ok(()) => match next(worker, position, shows_access, &mut ask).await {
                Ok(piece) if piece.is_empty() => {
                    // The event is committed and can't be read yet.
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
                Ok(piece) => piece,
                Err(error) => {
                    tracing::debug!(why = error.cause, "an event stream ends: the events can't be read");
                    return;
                }
            },
        };
        if pieces.send(piece).await.is_err() {
            return;
        }
    }
}

/// The events after a position, as many as fit into one piece. `ask` is the number to read, which is lower for large
/// events.
async fn next(
    worker: &Worker,
    position: &mut u64,
    shows_access: bool,
    ask: &mut usize,
) -> Result<Bytes, RequestError> {
    let rows = worker.events_after(*position, *ask).await?;
    let mut piece = Vec::new();
    let mut fit = 0;
    let mut skipped = false;
    for row in &rows {
        *position = row.position;
        fit += 1;
        if !encode::is_visible(&row.event.transition, shows_access) {
            skipped = true;
            continue;
        }
        // Writing to a Vec does not fail.
        let _ = write!(piece, "id: {}\nevent: {}\ndata: ", row.position, encode::event_type(&row.event));
        encode::event(&mut piece, row);
        piece.extend_from_slice(b"\n\n");
        skipped = false;
        if piece.len() >= PIECE {
            break;
        }
    }
    if skipped {
        // The id alone moves the place from which the reader goes on.
        let _ = write!(piece, "id: {position}\n\n");
    }
    *ask = (2 * fit).clamp(1, EVENTS_AT_ONCE);
    Ok(piece.into())
}
