//! The event stream, as server-sent events: `id` is the position, `event` the type and `data` the event. A client that
//! reconnects with its last id misses nothing and gets nothing twice, because events are read from the log. Where a
//! client wants some types only, a block without data tells it how far the others were passed.
//!
//! There is no queue for clients: each gets a piece when it has read the one before. A client that reads nothing for
//! too long is disconnected (`socket.rs`). It continues from its last id when it reconnects.

use super::admission::Examined;
use super::admission::places::{NoPlace, Place};
use super::authorize::client_address;
use super::credential_watch::CredentialWatch;
use super::event_pages::EVENTS_AT_ONCE;
use super::event_tailer::{POLL_INTERVAL, Subscription};
use super::reply;
use super::request_error::RequestError;
use super::worker::{HandlerResult, RequestContext, Worker};
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant as Monotonic};
use stockhold_api::decode::{EventFormat, EventStreamQuery};
use stockhold_api::problem::Problem;
use stockhold_api::{EventTypes, encode};
use stockhold_service::Caller;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Bytes after which a piece is sent. The event that reaches this length is still complete.
const PIECE: usize = 64 * 1024;
/// Time without a piece after which a comment or a position is sent, so that both ends notice a broken connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The comment before the end of a stream whose credential is not valid any more.
pub(super) const CREDENTIAL_ENDED: &[u8] = b": the credential has ended\n\n";
/// Time after which a client should reconnect, in milliseconds.
const RETRY_MILLIS: u32 = 1_000;

/// The body of an event stream.
#[derive(Debug)]
pub(super) struct EventStream {
    pieces: mpsc::Receiver<Bytes>,
    _place: Place,
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
        stream: EventStreamQuery,
    ) -> HandlerResult {
        if context.head.method == "HEAD" {
            return Ok(reply::stream(None));
        }
        let holder = self.holder(context.caller, client_address(context.head));
        let place = self.admission.event_streams.take(holder).map_err(|full| match full {
            NoPlace::All(most) => Problem::too_many_streams(most),
            NoPlace::OfHolder(most) => Problem::too_many_own_streams(most),
        })?;
        let after = match stream.after {
            Some(after) => {
                self.is_history(after).await?;
                self.events_after(after, 1).await?;
                after
            }
            None => self.newest_position().await?,
        };
        let (sender, pieces) = mpsc::channel(1);
        tokio::task::spawn_local(feed(Rc::clone(self), Subscriber::of(context, stream), after, sender));
        Ok(reply::stream(Some(EventStream { pieces, _place: place })))
    }
}

/// Sends events until the client disconnects or the server stops.
async fn feed(worker: Rc<Worker>, subscriber: Subscriber, after: u64, pieces: mpsc::Sender<Bytes>) {
    let subscription = worker.tailer.subscribe();
    let mut stop = worker.stop.subscribe();
    let sent = async {
        // A client remembers an id without data too, so it reconnects at the right position before its first event.
        if pieces.send(format!("retry: {RETRY_MILLIS}\nid: {after}\n\n").into()).await.is_ok() {
            follow(&worker, &subscriber, &subscription, Progress { position: after, told: after }, &pieces)
                .await;
        }
    };
    tokio::select! {
        () = sent => {}
        () = pieces.closed() => {}
        () = subscriber.credential.ended(&worker) => {
            let _ = pieces.try_send(Bytes::from_static(CREDENTIAL_ENDED));
        }
        _ = stop.wait_for(|stop| *stop) => {
            // A client that reads gets a comment. It reconnects by itself in any case.
            let _ = pieces.try_send(Bytes::from_static(b": the server stops; go on from the last id\n\n"));
        }
    }
}

/// Who reads a stream. The credential is checked again while the stream is open.
struct Subscriber {
    caller: Caller,
    types: EventTypes,
    format: EventFormat,
    credential: CredentialWatch,
}

impl Subscriber {
    fn of(context: RequestContext<'_>, stream: EventStreamQuery) -> Self {
        Self {
            caller: context.caller.clone(),
            types: stream.types,
            format: stream.format,
            credential: CredentialWatch::of(context.head),
        }
    }
}

/// How far a stream is.
struct Progress {
    /// The last event that was sent or passed because of its type.
    position: u64,
    /// The last position that the client was told.
    told: u64,
}

async fn follow(
    worker: &Worker,
    subscriber: &Subscriber,
    subscription: &Subscription,
    mut progress: Progress,
    pieces: &mpsc::Sender<Bytes>,
) {
    let mut ask = EVENTS_AT_ONCE;
    let mut sent = Monotonic::now();
    loop {
        let quiet = KEEP_ALIVE.saturating_sub(sent.elapsed());
        let piece = match timeout(quiet, subscription.wait_for_event_after(progress.position)).await {
            Err(_) => progress.keep_alive(),
            Ok(()) => match next(worker, subscriber, &mut progress, &mut ask).await {
                Ok(NextPiece::NotReadable) => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    continue;
                }
                // While only events of other types come, there is no quiet time.
                Ok(NextPiece::OtherTypes) if sent.elapsed() >= KEEP_ALIVE => progress.keep_alive(),
                Ok(NextPiece::OtherTypes) => continue,
                Ok(NextPiece::Events(piece)) => piece,
                Err(error) => {
                    tracing::debug!(why = error.cause, "an event stream ends: the events can't be read");
                    return;
                }
            },
        };
        if pieces.send(piece).await.is_err() {
            return;
        }
        sent = Monotonic::now();
    }
}

impl Progress {
    /// What keeps the connection open. It tells the position if events of other types were passed, so that a client
    /// that reconnects does not have the server read them again.
    fn keep_alive(&mut self) -> Bytes {
        if self.told == self.position {
            return Bytes::from_static(b":\n\n");
        }
        self.told = self.position;
        format!("id: {}\n\n", self.position).into()
    }
}

/// What was read for the next piece.
enum NextPiece {
    /// Events to send.
    Events(Bytes),
    /// Only events of types that the client does not want.
    OtherTypes,
    /// Nothing: an event is committed and can't be read yet.
    NotReadable,
}

/// The events after a position, as many as fit into one piece. `ask` is the number to read, which is lower for large
/// events.
async fn next(
    worker: &Worker,
    subscriber: &Subscriber,
    progress: &mut Progress,
    ask: &mut usize,
) -> Result<NextPiece, RequestError> {
    let mut rows = worker.events_after(progress.position, *ask).await?;
    let mut piece = Vec::new();
    let mut fit = 0;
    // A stream reads at its own pace, so it has no bound.
    let examined = Examined::default();
    for row in &mut rows {
        progress.position = row.position;
        fit += 1;
        if !subscriber.types.has(&row.event)
            || !worker.reveal_event(&subscriber.caller.principal, row, &examined).await?
        {
            continue;
        }
        // Writing to a Vec does not fail.
        let _ = write!(piece, "id: {}\nevent: {}\ndata: ", row.position, encode::event_type(&row.event));
        match subscriber.format {
            EventFormat::Stockhold => encode::event(&mut piece, row),
            EventFormat::CloudEvents => encode::cloud_event(&mut piece, row, worker.relay.source()),
        }
        piece.extend_from_slice(b"\n\n");
        progress.told = row.position;
        if piece.len() >= PIECE {
            break;
        }
    }
    *ask = (2 * fit).clamp(1, EVENTS_AT_ONCE);
    Ok(match (rows.is_empty(), piece.is_empty()) {
        (true, _) => NextPiece::NotReadable,
        (false, true) => NextPiece::OtherTypes,
        (false, false) => NextPiece::Events(piece.into()),
    })
}
