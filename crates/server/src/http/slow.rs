//! A connection under hyper: whatever the fast path hands on. It understands all of HTTP/1; the answers are the same.

use super::asked::Asked;
use super::handle::Worker;
use super::intake;
use super::reply::Reply;
use super::route::Route;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use stockhold_domain::RequestId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Longest wait for a request's headers, and longest rest between two requests.
pub(super) const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
/// Longest request line and headers together.
const HEADER_BYTES: usize = 16 * 1024;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// One connection, until its caller or the server ends it. `read` was read off it before.
pub(super) async fn converse(
    worker: Rc<Worker>,
    read: Vec<u8>,
    stream: TcpStream,
    mut stop: watch::Receiver<bool>,
) {
    let service = service_fn(move |request| {
        let worker = Rc::clone(&worker);
        async move { Ok::<_, Infallible>(answer(&worker, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        // A caller that has sent all it will send still waits for its answer.
        .half_close(true)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(Resumed { read: read.into(), stream }), service);
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        }
        _ = stop.wait_for(|stop| *stop) => {
            connection.as_mut().graceful_shutdown();
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        }
    }
}

async fn answer(worker: &Worker, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let begun = Instant::now();
    let (parts, body) = request.into_parts();
    let mut asked = Asked {
        method: parts.method.as_str(),
        path: parts.uri.path(),
        query: parts.uri.query(),
        ..Asked::default()
    };
    for (name, value) in &parts.headers {
        asked.header(name.as_str(), value.as_bytes());
    }
    let request_id = worker.name(&asked);
    let found = Route::find(asked.method, asked.path);
    let body = match found {
        Ok(route) => intake::body(&parts.headers, body, route.body_limit()).await,
        Err(_) => Ok(Bytes::new()),
    };
    let reply = match body {
        Ok(body) => worker.answer(asked, found, Ok(&body), &request_id, begun).await,
        Err(problem) => worker.answer(asked, found, Err(problem), &request_id, begun).await,
    };
    let mut response = write(reply, &request_id);
    if worker.draining.load(Ordering::Relaxed) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn write(reply: Reply, request_id: &RequestId) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Some(kind) = reply.kind {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if reply.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    let extra = reply.extra.map(|(name, value)| (HeaderName::from_static(name), value.into_owned()));
    for (name, value) in extra.into_iter().chain([(REQUEST_ID, request_id.to_string())]) {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    response
}

/// A connection of which something was read already.
struct Resumed {
    read: Bytes,
    stream: TcpStream,
}

impl AsyncRead for Resumed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.read.len().min(buffer.remaining());
        buffer.put_slice(&self.read.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Resumed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
