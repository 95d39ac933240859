//! Streams that stay open: how many one principal may have, and that each needs a credential that counts.

use super::{RawGrpc, ask_with, grpc_server, metric, prefix, root_header, status_of};
use crate::access::{ROOT, connect, key, with_key};
use crate::api::wire::Call;
use crate::grpc::block_on;
use crate::support::wait_for;
use serde_json::{Value, json};
use std::io::Read;
use tempfile::TempDir;

const COMMANDS: &str = "/stockhold.v1.Reservations/Commands";
const UNAUTHENTICATED: &str = "16";
const DEADLINE_EXCEEDED: &str = "4";

#[test]
fn one_principal_has_a_part_of_the_event_streams() {
    let dir = TempDir::new().unwrap();
    let server = crate::access::server(&dir, "");
    let [one, other] = ["one", "other"].map(|name| key(&server, name, &json!({ "scopes": ["events:read"] })));
    let open = |key: &str| {
        let mut wire = connect(&server);
        wire.send(&with_key(Call::get("/v1/events/stream"), key).bytes());
        let mut stream = wire.into_stream();
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).unwrap();
        (String::from_utf8_lossy(&begin).into_owned(), stream)
    };
    let streams: Vec<_> = (0..64).map(|_| open(&one)).collect();
    assert!(streams.iter().all(|(begin, _)| begin == "HTTP/1.1 200"));
    let refused = ask_with(&server, &one, Call::get("/v1/events/stream"));
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (503, Some("overloaded")));
    assert!(refused.text().contains("64 event streams"), "{}", refused.text());
    assert_eq!(open(&other).0, "HTTP/1.1 200");
    assert!(metric(&server, "stockhold_event_streams") >= 64);
    drop(streams);
    wait_for("a place", || (open(&one).0 == "HTTP/1.1 200").then_some(()));
}

/// The answer tells proxies to pass it on at once.
#[test]
fn proxies_do_not_keep_an_event_stream_back() {
    let dir = TempDir::new().unwrap();
    let server = crate::access::server(&dir, "");
    let answer = connect(&server).ask(&with_key(Call::new("HEAD", "/v1/events/stream"), ROOT));
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    assert_eq!(answer.header("cache-control"), Some("no-store, no-transform"));
}

#[test]
fn a_message_that_has_begun_has_to_end() {
    let dir = TempDir::new().unwrap();
    let (server, address) = grpc_server(&dir, "");
    block_on(async {
        let connection = RawGrpc::connect(&address).await;
        let (pieces, answer) = connection.open(COMMANDS, &[("authorization", &root_header())]);
        pieces.send(prefix(1 << 20).freeze()).unwrap();
        pieces.send(vec![b'x'; 100 << 10].into()).unwrap();
        assert_eq!(status_of(answer.await.unwrap()).await, DEADLINE_EXCEEDED);
        assert!(!pieces.is_closed() || pieces.send(vec![b'x'].into()).is_err());
    });
    wait_for("the memory to be free", || (metric(&server, "stockhold_bytes_in_flight") == 0).then_some(()));
}

#[test]
fn a_revoked_key_ends_its_calls_of_commands() {
    let dir = TempDir::new().unwrap();
    let (server, address) = grpc_server(&dir, "");
    let body = json!({ "name": "A key", "principal": "shop", "scopes": ["reservations:write"] });
    let made: Value = ask_with(&server, ROOT, Call::post("/v1/keys").json(&body)).json();
    let authorization = format!("Bearer {}", made["key"].as_str().unwrap());
    block_on(async {
        let connection = RawGrpc::connect(&address).await;
        let idle = connection.open(COMMANDS, &[("authorization", &authorization)]);
        let open = idle.1.await.unwrap();
        let path = format!("/v1/keys/{}", made["key_id"].as_str().unwrap());
        assert_eq!(ask_with(&server, ROOT, Call::delete(path)).status, 204);
        assert_eq!(status_of(open).await, UNAUTHENTICATED);
        drop(idle.0);
    });
}
