//! Attacks on memory, connections and streams, mostly without a credential. What is held is bounded, and others are served meanwhile.

mod connections;
mod documents;
mod frames;
mod memory;
mod open_calls;
mod streams;
mod weights;

use crate::access::{ROOT, connect, with_key};
use crate::api::wire::{Answer, Call};
use crate::support::{Server, free_port};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Clients are told apart by a header, and may ask as often as they like.
const PROXIES: &str = "trusted_proxies = [\"127.0.0.0/8\"]\n";
const MANY: &str = "[rate_limits]\naddress = { per_second = 100000, burst = 100000 }\n";

/// A server with a listener of gRPC, whose root key is [`ROOT`], and its address.
fn grpc_server(dir: &TempDir, settings: &str) -> (Server, String) {
    let address = format!("127.0.0.1:{}", free_port());
    (crate::access::server(dir, &format!("grpc_listen = \"{address}\"\n{settings}")), address)
}

/// A metric without labels.
fn metric(server: &Server, name: &str) -> u64 {
    // A thread of its own, because the caller may be in a runtime.
    let scrape = std::thread::scope(|scope| scope.spawn(|| server.metrics()).join().unwrap());
    let line = scrape.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {scrape}")).parse().unwrap()
}

/// A call from a client with this address.
fn from(address: &str, call: Call) -> Call {
    call.header("X-Forwarded-For", address)
}

fn ask_with(server: &Server, key: &str, call: Call) -> Answer {
    connect(server).ask(&with_key(call, key))
}

/// A request body that comes piece by piece. It ends when its sender is dropped.
struct Pieces(mpsc::UnboundedReceiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// A connection of HTTP/2 on which gRPC is written by hand.
#[derive(Clone)]
struct RawGrpc(http2::SendRequest<Pieces>);

impl RawGrpc {
    async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) =
            http2::Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    /// Begins a call: what its request is sent with, and its answer.
    fn open(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (mpsc::UnboundedSender<Bytes>, impl Future<Output = hyper::Result<Response<Incoming>>> + use<>) {
        let (pieces, body) = mpsc::unbounded_channel();
        let mut request =
            Request::post(format!("http://test{path}")).header("content-type", "application/grpc");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut sender = self.0.clone();
        let request = request.body(Pieces(body)).unwrap();
        (pieces, async move {
            sender.ready().await?;
            sender.send_request(request).await
        })
    }
}

/// The status with which a call ends.
async fn status_of(answer: Response<Incoming>) -> String {
    let (head, body) = answer.into_parts();
    let at_once = head.headers.get("grpc-status").cloned();
    let trailers = body.collect().await.unwrap().trailers().cloned().unwrap_or_default();
    let status = at_once.or_else(|| trailers.get("grpc-status").cloned());
    status.expect("a call has a status").to_str().unwrap().to_owned()
}

/// What stands before a message of so many bytes.
fn prefix(length: usize) -> BytesMut {
    let mut prefix = BytesMut::new();
    prefix.put_u8(0);
    prefix.put_u32(length.try_into().unwrap());
    prefix
}

fn message(message: &[u8]) -> Bytes {
    let mut out = prefix(message.len());
    out.extend_from_slice(message);
    out.freeze()
}

fn root_header() -> String {
    format!("Bearer {ROOT}")
}
