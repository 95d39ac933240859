//! HTTP/2 connections that last: event streams, clients that do not read, and the end of the server.

use crate::support::wait_for;
use crate::tls_support::{HttpClient, TlsServer};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;

const SLOW: &str = "stockhold_slow_consumers_total";
const STREAMS: &str = "stockhold_event_streams";

/// The next text of a stream that has this word.
async fn read_until(body: &mut Incoming, word: &str) -> String {
    let mut read = String::new();
    while !read.contains(word) {
        let frame = tokio::time::timeout(Duration::from_mins(1), body.frame()).await.unwrap();
        let frame = frame.unwrap_or_else(|| panic!("it ended before {word:?}: {read}")).unwrap();
        read.push_str(&String::from_utf8_lossy(&frame.into_data().unwrap()));
    }
    read
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_come_over_both_protocols() {
    let tls = TlsServer::start();
    let mut other = tls.client().await;
    for (number, protocol) in ["h2", "http/1.1"].into_iter().enumerate() {
        let config = tls.client_config(rustls::ALL_VERSIONS, None, &[protocol]);
        let stream = tls.handshake(&config).await.unwrap();
        let mut client = HttpClient::begin(tls.server.address(), stream).await.unwrap();
        let answer = client.open("GET", "/v1/events/stream", &[], None).await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut body = answer.into_body();
        read_until(&mut body, "retry: ").await;
        let sku = format!("tea-{number}");
        other.stock(&sku, 1).await;
        let event = read_until(&mut body, "\n\n").await;
        assert!(event.contains("event: stock.set") && event.contains(&sku), "{event}");
        drop((body, client));
        wait_for("the stream to end", || (tls.server.metric(STREAMS) == 0).then_some(()));
    }
    assert_eq!(tls.server.metric(SLOW), 0);
}

/// A connection on which no answer is longer than this before the client takes more.
async fn narrow(tls: &TlsServer, window: u32) -> HttpClient {
    let stream = tls.handshake(&tls.client_config(rustls::ALL_VERSIONS, None, &["h2"])).await.unwrap();
    HttpClient::with_window(tls.server.address(), stream, Some(window)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_stream_that_is_not_read_ends_alone() {
    let tls = TlsServer::start();
    let mut client = narrow(&tls, 1_024).await;
    let mut deaf = client.open("GET", "/v1/events/stream", &[], None).await.unwrap().into_body();
    for number in 0..10 {
        tls.client().await.stock(&format!("tea-{number}"), 1).await;
    }
    wait_for("the reader to be cut off", || (tls.server.metric(STREAMS) == 0).then_some(()));
    assert_eq!(tls.server.metric(SLOW), 1);
    let ended = async {
        while let Some(frame) = deaf.frame().await {
            frame?;
        }
        Ok::<_, hyper::Error>(())
    };
    ended.await.unwrap_err();
    // The connection has other streams.
    client.stock("tea", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_not_read_ends_the_connection() {
    let tls = TlsServer::start();
    let mut client = narrow(&tls, 1_024).await;
    let deaf = client.open("GET", "/openapi.json", &[], None).await.unwrap();
    wait_for("the reader to be cut off", || (tls.server.metric(SLOW) == 1).then_some(()));
    deaf.into_body().collect().await.unwrap_err();
    client.ask("GET", "/", &[], None).await.unwrap_err();
    wait_for("the connection's end", || (tls.server.metric("stockhold_connections") == 0).then_some(()));
    assert_eq!(tls.server.metric("stockhold_bytes_in_flight"), 0);
}

/// A slow answer is no stalled one, and takes memory of all until it is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_answer_comes_whole_through_a_narrow_window() {
    const LIST: &str = "/v1/reservations?limit=100";
    let tls = TlsServer::start();
    let mut client = tls.client().await;
    client.stock("tea", 100).await;
    let note = "x".repeat(2_000);
    for _ in 0..100 {
        let body = json!({ "owner_id": "o", "lines": [{ "sku": "tea" }], "metadata": { "note": note } });
        assert_eq!(client.ask("POST", "/v1/reservations", &[], Some(&body)).await.unwrap().0, 201);
    }
    let (_, _, whole) = client.ask("GET", LIST, &[], None).await.unwrap();
    assert!(whole.len() > 200_000);
    let mut client = narrow(&tls, 4_096).await;
    let answer = client.open("GET", LIST, &[], None).await.unwrap();
    wait_for("the answer to be counted", || {
        (tls.server.metric("stockhold_bytes_in_flight") >= whole.len() as u64).then_some(())
    });
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), whole);
    wait_for("the memory to be free", || (tls.server.metric("stockhold_bytes_in_flight") == 0).then_some(()));
}

/// A body that comes piece by piece.
struct Pieces(mpsc::Receiver<Bytes>);

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_lets_requests_end_and_waits_for_nobody_else() {
    let mut tls = TlsServer::start();
    // An idle connection, event streams that are read and not read, and a request that has half of its body.
    let mut idle = tls.client().await;
    idle.stock("tea", 1).await;
    let mut reading = tls.client().await;
    let mut events = reading.open("GET", "/v1/events/stream", &[], None).await.unwrap().into_body();
    read_until(&mut events, "retry: ").await;
    let mut deaf = narrow(&tls, 1).await;
    let unread = deaf.open("GET", "/v1/events/stream", &[], None).await.unwrap();
    let stream = tls.handshake(&tls.client_config(rustls::ALL_VERSIONS, None, &["h2"])).await.unwrap();
    let builder = http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let (pieces, body) = mpsc::channel(1);
    let text = json!({ "total_units": 7 }).to_string();
    let (first, second) = text.split_at(5);
    pieces.send(Bytes::copy_from_slice(first.as_bytes())).await.unwrap();
    let request = hyper::Request::put(format!("{}/v1/inventory/late", tls.url()))
        .header("content-type", "application/json")
        .body(Pieces(body))
        .unwrap();
    let answer = tokio::spawn(sender.send_request(request));
    wait_for("the connections", || (tls.server.metric("stockhold_connections") == 4).then_some(()));

    tls.server.terminate();
    wait_for("the stop", || tls.server.log().contains("draining").then_some(()));
    // The stream ends in order when the connections have to.
    read_until(&mut events, "the server stops").await;
    assert_eq!(events.collect().await.unwrap().to_bytes(), "");
    pieces.send(Bytes::copy_from_slice(second.as_bytes())).await.unwrap();
    drop(pieces);
    assert_eq!(answer.await.unwrap().unwrap().status(), 201);
    assert!(tls.server.ended().success());
    let log = tls.server.log();
    assert!(log.contains("drained") && !log.contains("requests are cut"), "{log}");
    drop((idle, unread));
}
