//! HTTP/2, served by hyper over TLS. Requests are answered as on the other paths, many at a time.
//!
//! A client that leaves answers unread is cut as on HTTP/1: with an event stream only that stream ends, with another answer the
//! connection does. Everything that a connection may take has a limit here.

use super::admission::bounds::{
    CONNECTION_WINDOW, IDLE_TIMEOUT, LINGER_TIMEOUT, MAX_HEAD_BYTES, MAX_STREAMS, STREAM_WINDOW,
};
use super::admission::connections::Connection;
use super::general_path::{GeneralReply, answer, bytes, head};
use super::grpc::{self, Messages};
use super::listeners::Peer;
use super::stream::EventStream;
use super::transport::Transport;
use super::unsent::Unsent;
use super::worker::Worker;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_LENGTH, HeaderValue};
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Bytes of a response after which its next piece has to wait.
const SEND_BUFFER: usize = 64 * 1024;
/// How often a client is asked whether it is still there, and how long its answer may take.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a connection that has to end is checked for requests in progress.
const SETTLE_POLL_INTERVAL: Duration = Duration::from_millis(10);
#[expect(clippy::cast_possible_truncation, reason = "checked beside it")]
const HEADER_LIST_BYTES: u32 = MAX_HEAD_BYTES as u32;
const _: () = assert!(HEADER_LIST_BYTES as usize == MAX_HEAD_BYTES);

/// Serves a connection until the client or the server ends it.
pub(super) async fn serve_connection<S: Transport + 'static>(
    worker: Rc<Worker>,
    stream: S,
    peer: Peer,
    connection: Rc<Connection>,
    mut stop: watch::Receiver<bool>,
) {
    let state = Rc::new(ConnectionState::new(connection));
    // Streams end with their connection: when the server stops, and when the connection is old.
    let (ending, ends) = watch::channel(false);
    let service = service_fn(|request| {
        let (worker, unsent, ends) = (Rc::clone(&worker), state.unsent.clone(), ends.clone());
        Box::pin(async move {
            let mut response = respond(&worker, &unsent, peer, ends, request).await;
            worker.put_date(response.headers_mut());
            Ok::<_, Infallible>(response)
        })
    });
    let executor = StreamExecutor { state: Rc::clone(&state), stop: ends.clone() };
    let connection = http2::Builder::new(executor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(HEADER_LIST_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = state.overdue() => return,
        () = state.idle() => None,
        () = sleep(connection_age(&worker)) => None,
        _ = stop.wait_for(|stop| *stop) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            ending.send_replace(true);
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = state.overdue() => return,
                () = state.settled() => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP/2 connection ended early");
    }
}

/// After how long a client is asked to connect again: up to half as long again as the setting, so that connections that began
/// together do not end together.
fn connection_age(worker: &Worker) -> Duration {
    let age = worker.max_connection_age;
    let share = u32::try_from(worker.ids.borrow_mut().random() >> 96).unwrap_or_default();
    age + (age / 2).mul_f64(f64::from(share) / f64::from(u32::MAX))
}

async fn respond(
    worker: &Rc<Worker>,
    unsent: &Unsent,
    peer: Peer,
    ends: watch::Receiver<bool>,
    request: Request<Incoming>,
) -> Response<Http2Body> {
    // A listener of a profile serves nothing else.
    if peer.listener.is_none() && grpc::is_call(request.headers()) {
        return Box::pin(grpc::respond(worker, unsent, peer, ends, request)).await;
    }
    if peer.is_grpc {
        return grpc::not_a_call().map(|()| Http2Body::Whole(None));
    }
    let method = request.method().clone();
    let GeneralReply { mut reply, request_id, .. } = answer(worker, peer, request).await;
    let budget = reply.budget.take();
    let mut response = head(&mut reply, &request_id);
    if let Some(stream) = reply.stream {
        return response.map(|()| Http2Body::stream(stream));
    }
    if method == Method::HEAD {
        if reply.kind.is_some() {
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(reply.body.len()));
        }
        return response.map(|()| Http2Body::Whole(None));
    }
    let body = Some(reply.body).filter(|body| !body.is_empty());
    response.map(|()| Http2Body::Whole(body.map(|body| unsent.track(bytes(body), budget))))
}

/// The state of one connection.
struct ConnectionState {
    connection: Rc<Connection>,
    /// Answers, except event streams.
    unsent: Unsent,
    /// Requests in progress, and event streams.
    active: Cell<usize>,
    /// When the last one ended.
    rested: Cell<Instant>,
}

impl ConnectionState {
    fn new(connection: Rc<Connection>) -> Self {
        let (active, rested) = (Cell::new(0), Cell::new(Instant::now()));
        Self { connection, unsent: Unsent::default(), active, rested }
    }

    fn is_busy(&self) -> bool {
        self.active.get() > 0 || !self.unsent.is_empty()
    }

    /// Waits until the client has left an answer unread for too long.
    async fn overdue(&self) {
        self.unsent.overdue().await;
        metrics::counter!("stockhold_slow_consumers_total").increment(1);
    }

    /// Waits until there was no request for too long.
    async fn idle(&self) {
        loop {
            let (now, ends) = (Instant::now(), self.rested.get() + IDLE_TIMEOUT);
            if self.is_busy() {
                sleep(IDLE_TIMEOUT).await;
            } else if now >= ends {
                return;
            } else {
                sleep_until(ends).await;
            }
        }
    }

    /// Waits until all requests are answered, and a moment longer, in which the client may end the connection itself.
    async fn settled(&self) {
        loop {
            while self.is_busy() {
                sleep(SETTLE_POLL_INTERVAL).await;
            }
            sleep(LINGER_TIMEOUT).await;
            if !self.is_busy() {
                return;
            }
        }
    }
}

/// Counts a request in progress until it is dropped.
struct ActiveStream(Rc<ConnectionState>);

impl ActiveStream {
    /// `None` when the connection has to close instead.
    fn new(state: &Rc<ConnectionState>) -> Option<Self> {
        if state.active.get() == 0 && !state.connection.begin() {
            return None;
        }
        state.active.set(state.active.get() + 1);
        Some(Self(Rc::clone(state)))
    }
}

impl Drop for ActiveStream {
    fn drop(&mut self) {
        let (left, now) = (self.0.active.get() - 1, Instant::now());
        self.0.active.set(left);
        self.0.rested.set(now);
        if left == 0 {
            self.0.connection.rest(now.into_std());
        }
    }
}

/// Runs each of hyper's streams as a task of the worker's thread. To drop the task resets the stream.
#[derive(Clone)]
struct StreamExecutor {
    state: Rc<ConnectionState>,
    stop: watch::Receiver<bool>,
}

impl<F: Future<Output = ()> + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, work: F) {
        let Some(active) = ActiveStream::new(&self.state) else { return };
        let (events, stop) = (Rc::new(EventsSent::default()), self.stop.clone());
        let work = Box::pin(EVENTS_SENT.scope(Rc::clone(&events), work));
        tokio::task::spawn_local(async move {
            tokio::select! {
                biased;
                () = work => {}
                () = events.cut(stop) => {}
            }
            drop(active);
        });
    }
}

tokio::task_local! {
    /// Of the stream whose task this is.
    static EVENTS_SENT: Rc<EventsSent>;
}

/// What of an event stream is not sent, if the answer is one.
#[derive(Default)]
struct EventsSent {
    begun: Notify,
    unsent: Unsent,
}

impl EventsSent {
    /// Waits until the client has read nothing of an event stream for too long. It must not delay a stop either.
    async fn cut(&self, mut stop: watch::Receiver<bool>) {
        self.begun.notified().await;
        let stopped = async {
            // An error would mean that the server has ended.
            let _ = stop.wait_for(|stop| *stop).await;
            sleep(LINGER_TIMEOUT).await;
        };
        tokio::select! {
            () = self.unsent.overdue() => {
                metrics::counter!("stockhold_slow_consumers_total").increment(1);
            }
            () = stopped => {}
        }
    }
}

/// What is not sent of the stream whose task this is. From now on the stream ends alone if its client reads nothing for too long.
pub(super) fn unsent_of_stream() -> Unsent {
    let unsent = EVENTS_SENT.try_with(|sent| {
        sent.begun.notify_one();
        sent.unsent.clone()
    });
    unsent.unwrap_or_default()
}

/// The body of a response.
pub(super) enum Http2Body {
    Whole(Option<Bytes>),
    Stream(Box<EventStream>, Unsent),
    /// The answer of a call of gRPC.
    Messages(Messages),
}

impl Http2Body {
    /// An event stream of the stream whose task this is.
    fn stream(events: Box<EventStream>) -> Self {
        Self::Stream(events, unsent_of_stream())
    }
}

impl Body for Http2Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Self::Whole(body) => body.take(),
            Self::Stream(events, unsent) => match ready!(Pin::new(&mut **events).poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data().ok().map(|piece| unsent.track(piece, None)),
                None => None,
            },
            Self::Messages(messages) => return Pin::new(messages).poll_frame(context),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_none(),
            Self::Stream(..) | Self::Messages(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::Stream(..) | Self::Messages(_) => SizeHint::default(),
        }
    }
}
