//! The general path: connections that the fast path hands over, and those with TLS, served by hyper. It understands all of
//! HTTP/1 and gives the same answers. `http2_path.rs` does the same for HTTP/2.

use super::admission::bounds::{IDLE_TIMEOUT, LINGER_TIMEOUT, MAX_HEAD_BYTES};
use super::admission::connections::Connection;
use super::body::{self, CountedBody};
use super::closing::{close, last_answer};
use super::listeners::Peer;
use super::reply::Reply;
use super::request_head::RequestHead;
use super::route::Route;
use super::socket::{ConnectionState, Socket};
use super::stream::EventStream;
use super::transport::Transport;
use super::worker::Worker;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::borrow::Cow;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;
use stockhold_api::problem::Problem;
use stockhold_domain::RequestId;
use stockhold_service::Caller;
use tokio::sync::watch;
use tokio::time::timeout;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Serves a connection until the client or the server ends it. `read` are the bytes that were read before.
pub(super) async fn serve_connection<S: Transport + 'static>(
    worker: Rc<Worker>,
    read: Vec<u8>,
    stream: S,
    peer: Peer,
    connection: Rc<Connection>,
    mut stop: watch::Receiver<bool>,
) {
    let state = Rc::new(ConnectionState::new(connection));
    let service = service_fn(|request| {
        let (worker, state) = (Rc::clone(&worker), Rc::clone(&state));
        Box::pin(async move {
            if !state.begin() {
                // The connection is closed.
                return std::future::pending().await;
            }
            let GeneralReply { mut reply, request_id, last } = answer(&worker, peer, request).await;
            state.streams.set(state.streams.get() || reply.stream.is_some());
            state.budget.replace(reply.budget.take());
            let mut response = head(&mut reply, &request_id).map(|()| ReplyBody::of(reply, &state));
            worker.put_date(response.headers_mut());
            if last {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            state.made.set(state.made.get() + 1);
            Ok::<_, Infallible>(response)
        })
    });
    let socket = Socket::new(stream, read, Rc::clone(&state));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        // A client that has shut down its sending side still waits for its answer.
        .half_close(true)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    let ended = tokio::select! {
        ended = poll_fn(|context| connection.poll_without_shutdown(context)) => Some(ended),
        _ = stop.wait_for(|stop| *stop) => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        Pin::new(&mut connection).graceful_shutdown();
        let last = poll_fn(|context| connection.poll_without_shutdown(context));
        // A client of an event stream that does not read must not delay the stop.
        if state.streams.get() { timeout(LINGER_TIMEOUT, last).await.unwrap_or(Ok(())) } else { last.await }
    };
    let parts = connection.into_parts();
    let mut socket = parts.io.into_inner();
    // A client of an event stream reconnects and continues where it was.
    if !state.streams.get() && socket.finish().await.is_err() {
        return;
    }
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
        let problem = if error.is_parse_too_large() {
            Problem::head_too_large(MAX_HEAD_BYTES)
        } else if state.is_late() || error.is_timeout() && !parts.read_buf.is_empty() {
            Problem::late()
        } else if state.was_refused() {
            Problem::unreadable(&format!("is no HTTP request: {error}"))
        } else {
            return;
        };
        if socket.send(last_answer(&worker, peer, &problem)).await.is_err() {
            return;
        }
    }
    close(&worker, socket.into_stream()).await;
}

/// A reply, and what the connection has to know of its request.
pub(super) struct GeneralReply {
    pub(super) reply: Reply,
    pub(super) request_id: RequestId,
    /// Whether no further request of the connection is answered.
    last: bool,
}

/// Answers a request of any version of HTTP.
pub(super) async fn answer(worker: &Rc<Worker>, peer: Peer, request: Request<Incoming>) -> GeneralReply {
    let begun = Instant::now();
    let (parts, body) = request.into_parts();
    let mut head = RequestHead {
        method: parts.method.as_str(),
        path: parts.uri.path(),
        query: parts.uri.query(),
        needs_host: matches!(parts.version, Version::HTTP_11 | Version::HTTP_2),
        is_multiplexed: parts.version == Version::HTTP_2,
        now: worker.clocks.wall.now(),
        client: Some(client_address(worker, peer.address, &parts.headers)),
        listener: peer.listener,
        ..RequestHead::default()
    };
    // HTTP/2 has `:authority` for it. If there is a `Host` too, both must be the same (RFC 9113, section 8.3.1).
    let authority = parts.uri.authority().filter(|_| parts.version == Version::HTTP_2);
    if let Some(authority) = authority {
        head.header(HOST.as_str(), authority.as_str().as_bytes());
    }
    for (name, value) in &parts.headers {
        if name != HOST || authority.is_none_or(|authority| value != authority.as_str()) {
            head.header(name.as_str(), value.as_bytes());
        }
    }
    let request_id = worker.name(&head);
    let found = Route::find_on(head.listener, head.method, head.path);
    let unframed = unframed(&parts.headers);
    let last = unframed.is_some() || worker.draining.load(Ordering::Relaxed);
    let body = async |caller: &Caller| {
        let budget = worker.memory_of(caller, &head);
        match (unframed, found) {
            (Some(why), _) => Err(Problem::unreadable(why)),
            (None, Ok(route)) => body::body(&parts.headers, body, route.body().limit(), budget).await,
            (None, Err(_)) => Ok(CountedBody::empty(budget)),
        }
    };
    let reply = worker.answer(&head, found, body, &request_id, begun).await;
    GeneralReply { reply, request_id, last }
}

/// The caller's address, behind trusted proxies.
pub(super) fn client_address(worker: &Worker, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let proxies = &worker.access.proxies;
    match proxies.header_of(peer) {
        Some(header) => {
            let values: Vec<_> = headers.get_all(header.name()).iter().map(HeaderValue::as_bytes).collect();
            proxies.client_address(peer, values.into_iter())
        }
        None => proxies.client_address(peer, std::iter::empty()),
    }
}

/// Why the end of a request's body is ambiguous, if it is. A proxy before the server may see another end.
fn unframed(headers: &HeaderMap) -> Option<&'static str> {
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    let first = encodings.next()?;
    let chunked =
        encodings.next().is_none() && first.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    (!chunked).then_some("has a Transfer-Encoding other than chunked, which is all that is understood")
}

/// The head of a response.
pub(super) fn head(reply: &mut Reply, request_id: &RequestId) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Some(kind) = reply.kind {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if let Some(encoding) = reply.encoding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    if reply.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    let own = std::mem::take(&mut reply.headers);
    let own = own.into_iter().map(|(name, value)| (HeaderName::from_static(name), value.into_owned()));
    for (name, value) in own.chain([(REQUEST_ID, request_id.to_string())]) {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.append(name, value);
        }
    }
    response
}

/// Bytes of a part of the program that are copied at a time. A client that does not read costs this memory and no more.
const STATIC_PIECE_BYTES: usize = 16 * 1024;

/// The body of a response.
enum ReplyBody {
    Whole(Full<Bytes>),
    /// A part of the program, which is sent piece by piece.
    Static(Bytes, Rc<ConnectionState>),
    Stream(Box<EventStream>),
}

impl ReplyBody {
    fn of(reply: Reply, state: &Rc<ConnectionState>) -> Self {
        match (reply.stream, reply.body) {
            (Some(stream), _) => Self::Stream(stream),
            (None, Cow::Borrowed(body)) => Self::Static(Bytes::from_static(body), Rc::clone(state)),
            (None, body @ Cow::Owned(_)) => Self::Whole(Full::from(bytes(body))),
        }
    }
}

/// A whole body, which is not copied.
pub(super) fn bytes(body: Cow<'static, [u8]>) -> Bytes {
    match body {
        Cow::Borrowed(body) => Bytes::from_static(body),
        Cow::Owned(body) => Bytes::from(body),
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Static(body, _) if body.is_empty() => Poll::Ready(None),
            Self::Static(body, state) => {
                state.continues();
                let piece = body.split_to(body.len().min(STATIC_PIECE_BYTES));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Self::Stream(stream) => Pin::new(&mut **stream).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Static(body, _) => body.is_empty(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Static(body, _) => SizeHint::with_exact(body.len() as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
