//! The documents of the API, which need no credential.

use super::{PROXIES, from, metric};
use crate::access::connect;
use crate::api::wire::Call;
use crate::tls_support::{HttpClient, TlsServer};
use serde_json::json;
use tempfile::TempDir;

async fn client(tls: &TlsServer, protocol: &str, window: Option<u32>) -> HttpClient {
    let config = tls.client_config(rustls::ALL_VERSIONS, None, &[protocol]);
    let stream = tls.handshake(&config).await.unwrap();
    HttpClient::with_window(tls.server.address(), stream, window).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_that_nobody_reads_cost_nothing() {
    let tls = TlsServer::start();
    let mut open = Vec::new();
    for protocol in ["h2", "http/1.1"] {
        for path in ["/openapi.json", "/docs"].repeat(8) {
            let mut client = client(&tls, protocol, Some(0)).await;
            let answer = client.open("GET", path, &[], None).await.unwrap();
            assert_eq!(answer.status(), 200);
            open.push((client, answer));
        }
    }
    assert_eq!(tls.server.metric("stockhold_bytes_in_flight"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_the_same_over_all_protocols_and_compressed_on_request() {
    let tls = TlsServer::start();
    for path in ["/openapi.json", "/docs"] {
        let mut texts = Vec::new();
        for protocol in ["h2", "http/1.1"] {
            let mut client = client(&tls, protocol, None).await;
            let (status, _, whole) = client.ask("GET", path, &[], None).await.unwrap();
            assert_eq!(status, 200);
            let gzip = [("accept-encoding", "gzip")];
            let (_, headers, short) = client.ask("GET", path, &gzip, None).await.unwrap();
            assert_eq!(headers["content-encoding"], "gzip");
            assert!(short.len() < whole.len() / 4, "{} of {}", short.len(), whole.len());
            // The connection goes on.
            assert_eq!(client.ask("GET", "/", &[], None).await.unwrap().0, 200);
            texts.push(whole);
        }
        assert_eq!(texts[0], texts[1]);
    }
}

#[test]
fn open_routes_count_against_their_address_and_preflights_do_not() {
    let dir = TempDir::new().unwrap();
    let settings = format!("allowed_origins = [\"https://shop.example\"]\n{PROXIES}");
    let server = crate::access::server(&dir, &settings);
    let mut wire = connect(&server);
    for (n, path) in ["/", "/docs", "/openapi.json", "/problems/overloaded"].into_iter().enumerate() {
        let address = format!("203.0.113.{n}");
        let refused =
            (0..60).filter(|_| wire.ask_elsewhere(&from(&address, Call::get(path))).status == 429).count();
        assert!(refused > 0, "{path}");
        assert_eq!(wire.ask_elsewhere(&from("203.0.113.99", Call::get(path))).status, 200);
    }
    let preflight = Call::new("OPTIONS", "/v1/inventory/tea/reserve")
        .header("Origin", "https://shop.example")
        .header("Access-Control-Request-Method", "POST");
    for _ in 0..60 {
        assert_eq!(wire.ask(&from("203.0.113.50", preflight.clone())).status, 204);
    }
    assert_eq!(metric(&server, "stockhold_bytes_in_flight"), 0);
    let bad = Call::post("/v1/providers/stripe/webhook").json(&json!({}));
    assert_eq!(wire.ask(&from("203.0.113.60", bad)).status, 404);
}
