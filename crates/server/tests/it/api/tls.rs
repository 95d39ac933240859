//! TLS of the API: both protocols over both versions, whose certificates are good, renewals, and clients that are none.

use super::wire::{Call, Wire};
use crate::support::{said, stockhold, text, wait_for};
use crate::tls_support::{Authority, HttpClient, TlsServer};
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const FAILED: &str = "stockhold_tls_handshakes_failed_total";
/// Unfinished handshakes that a server keeps.
const UNFINISHED: usize = 1_024;
/// Handshakes that stop half-way.
const HALF_OPEN: usize = 10_000;
/// Files that other tests of the process have open.
const OTHER_FILES: usize = 2_000;

#[tokio::test]
async fn both_protocols_over_both_versions() {
    let tls = TlsServer::start();
    tls.server.log_with(&["https://127.0.0.1:"]);
    for (number, (version, protocols)) in
        [(&TLS12, vec!["h2"]), (&TLS12, vec![]), (&TLS13, vec!["h2", "http/1.1"]), (&TLS13, vec!["http/1.1"])]
            .into_iter()
            .enumerate()
    {
        let stream = tls.handshake(&tls.client_config(&[version], None, &protocols)).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version));
        assert_eq!(
            stream.get_ref().1.alpn_protocol(),
            protocols.first().map(|name| name.as_bytes()),
            "the server's preferred protocol is HTTP/2"
        );
        let mut client = HttpClient::begin(tls.server.address(), stream).await.unwrap();
        let (sku, origin) = (format!("shirt-{number}"), tls.url());
        let path = format!("/v1/inventory/{sku}");
        client.stock(&sku, 10).await;

        let body = json!({ "quantity": 2, "owner_id": "cart-1" });
        let key = [("idempotency-key", sku.as_str()), ("x-request-id", "r-1"), ("origin", origin.as_str())];
        let reserve = format!("{path}/reserve");
        let (status, headers, first) = client.ask("POST", &reserve, &key, Some(&body)).await.unwrap();
        assert_eq!((status, headers["x-request-id"].as_bytes()), (200, b"r-1".as_slice()), "{first:?}");
        assert_eq!(headers["content-length"].to_str().unwrap(), first.len().to_string());
        let (_, headers, second) = client.ask("POST", &reserve, &key, Some(&body)).await.unwrap();
        assert_eq!((headers["idempotent-replayed"].as_bytes(), &second), (b"true".as_slice(), &first));

        let (status, _, body) = client.ask("GET", &path, &[], None).await.unwrap();
        let item: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, &item["available"]), (200, &json!(8)));
        let (status, headers, nothing) = client.ask("HEAD", &path, &[], None).await.unwrap();
        let length: usize = headers["content-length"].to_str().unwrap().parse().unwrap();
        assert_eq!((status, length, nothing.len()), (200, body.len(), 0));
        let (status, _, problem) = client.ask("GET", "/v1/nothing", &[], None).await.unwrap();
        assert_eq!(status, 404);
        assert_eq!(serde_json::from_slice::<Value>(&problem).unwrap()["reason"], "unknown_route");
        // What the origin is compared with is `Host` of HTTP/1.1 and `:authority` of HTTP/2.
        let evil = [("origin", "https://shop.example")];
        let (status, _, _) = client.ask("POST", &format!("{path}/pause"), &evil, None).await.unwrap();
        assert_eq!(status, 403);
        let id = serde_json::from_slice::<Value>(&second).unwrap()["reservation_id"].clone();
        let release = format!("/v1/reservations/{}", id.as_str().unwrap());
        let (status, _, nothing) = client.ask("DELETE", &release, &[], None).await.unwrap();
        assert_eq!((status, nothing.len()), (204, 0));
    }
}

#[tokio::test]
async fn a_host_that_is_not_the_authority_is_refused() {
    let tls = TlsServer::start();
    let mut client = tls.client().await;
    let host = tls.server.address().to_string();
    let (status, ..) = client.ask("GET", "/v1/sale", &[("host", &host)], None).await.unwrap();
    assert_eq!(status, 200);
    let (status, _, problem) = client.ask("GET", "/v1/sale", &[("host", "other")], None).await.unwrap();
    let problem: Value = serde_json::from_slice(&problem).unwrap();
    assert_eq!((status, &problem["errors"][0]["pointer"]), (400, &json!("/Host")), "{problem}");
}

#[tokio::test]
async fn bodies_have_the_same_limits_over_http2() {
    let tls = TlsServer::start();
    let mut client = tls.client().await;
    let long = json!({ "total_units": 1, "metadata": { "a": "x".repeat(20 * 1024 * 1024) } });
    // It may be answered before all of it is sent.
    let (status, ..) = client.ask("PUT", "/v1/inventory/tea", &[], Some(&long)).await.unwrap();
    assert_eq!(status, 413);
    let long = "x".repeat(20 * 1024);
    let (status, ..) = client.ask("GET", "/v1/sale", &[("x-long", &long)], None).await.unwrap();
    assert_eq!(status, 431);
    // Longer than the windows for bodies, and answered.
    let commands = (0..100).map(|n| {
        let stock = json!({ "total_units": 1, "metadata": { "a": "x".repeat(14_000) } });
        json!({ "method": "PUT", "path": format!("/v1/inventory/tea-{n}"), "body": stock })
    });
    let body = json!({ "commands": commands.collect::<Vec<_>>() });
    assert!(body.to_string().len() > 1024 * 1024);
    let (status, _, answer) = client.ask("POST", "/v1/commands", &[], Some(&body)).await.unwrap();
    assert!(matches!(status, 200 | 400), "{status}: {answer:?}");
    client.stock("tea", 1).await;
}

#[tokio::test]
async fn only_certificates_of_the_clients_authority_are_accepted() {
    let (own, other) = (Authority::new(), Authority::new());
    let tls = TlsServer::with(Some(&own));
    for version in [&TLS12, &TLS13] {
        for (pair, accepted) in [(Some(own.issue()), true), (Some(other.issue()), false), (None, false)] {
            let before = tls.server.metric(FAILED);
            let config = tls.client_config(&[version], pair.as_ref(), &["h2"]);
            // With TLS 1.3 a client learns only with the first answer that it was refused.
            let answer = async {
                let stream = tls.handshake(&config).await.map_err(|error| error.to_string())?;
                let client = HttpClient::begin(tls.server.address(), stream).await;
                let mut client = client.map_err(|error| error.to_string())?;
                client.ask("GET", "/v1/sale", &[], None).await.map_err(|error| error.to_string())
            };
            let answer = answer.await.map(|(status, ..)| status);
            assert_eq!(answer.as_ref().ok(), accepted.then_some(&200), "{version:?}: {answer:?}");
            let failed = || (tls.server.metric(FAILED) == before + u64::from(!accepted)).then_some(());
            wait_for("the handshake to be counted", failed);
        }
    }
}

#[tokio::test]
async fn a_renewed_pair_is_taken_in_and_a_bad_one_is_not() {
    let tls = TlsServer::start();
    let mut old = tls.client().await;
    assert_eq!(tls.shown().await, tls.pair.der());
    let shows = async |what: &str, pair: &crate::tls_support::Pair| {
        for _ in 0..600 {
            if tls.shown().await == pair.der() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{what} was not taken in:\n{}", tls.server.log());
    };
    let renewed = tls.authority.issue();
    tls.renew(&renewed.cert, &renewed.key);
    shows("the renewed pair", &renewed).await;
    old.stock("tea", 1).await;

    let stranger = tls.authority.issue();
    tls.renew(&stranger.cert, &renewed.key);
    wait_for("the bad pair to be noticed", || {
        tls.server.log().contains("is not the key of the certificate").then_some(())
    });
    assert_eq!(tls.shown().await, renewed.der(), "the last good one stays");

    let last = tls.authority.issue();
    tls.renew(&last.cert, &last.key);
    shows("the last pair", &last).await;
    let log = tls.server.log();
    assert_eq!(log.matches("is not the key of the certificate").count(), 1, "once for each change: {log}");
    for pair in [&renewed, &stranger, &last] {
        let line = pair.key.lines().nth(1).unwrap();
        assert!(!log.contains(&line[..16]), "{log}");
    }
}

#[test]
fn plain_http_is_told_that_the_port_speaks_https() {
    let tls = TlsServer::start();
    let mut wire = tls.server.connect();
    let answer = wire.ask_elsewhere(&Call::get("/v1/sale"));
    assert_eq!((answer.status, answer.header("connection")), (400, Some("close")));
    assert_eq!(answer.json()["reason"], "invalid_request");
    assert!(answer.text().contains("HTTPS only"), "{}", answer.text());
    assert!(wire.is_closed());
    assert_eq!(tls.server.metric(FAILED), 1);
    // Something else is closed without an answer, or with an alert of TLS.
    let mut stream = TcpStream::connect(tls.server.address()).unwrap();
    stream.write_all(&[0; 64]).unwrap();
    assert!(!text(&rest(&mut stream)).contains("HTTP"));
    // A check of the port alone is no failure.
    drop(TcpStream::connect(tls.server.address()).unwrap());
    wait_for("the failure to be counted", || (tls.server.metric(FAILED) == 2).then_some(()));
}

/// What comes until the connection ends, in whatever way.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut read = Vec::new();
    match stream.read_to_end(&mut read) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("it is still open"),
        _ => read,
    }
}

/// The beginning of a handshake: a record that is announced and does not come.
fn half_open(tls: &TlsServer) -> TcpStream {
    let mut stream = TcpStream::connect(tls.server.address()).unwrap();
    stream.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    stream
}

#[test]
fn a_handshake_that_stops_half_way_is_cut() {
    let tls = TlsServer::start();
    let mut streams = [half_open(&tls), TcpStream::connect(tls.server.address()).unwrap()];
    for stream in &mut streams {
        assert_eq!(rest(stream), b"");
    }
    // A client sees the end of its connection a moment before the server has counted it.
    wait_for("both to be counted", || (tls.server.metric(FAILED) == 2).then_some(()));
    wait_for("both to be gone", || (tls.server.metric("stockhold_connections") == 0).then_some(()));
}

#[tokio::test]
async fn of_many_unfinished_handshakes_the_oldest_go() {
    let opened = more_files();
    let tls = TlsServer::start();
    let mut streams = Vec::new();
    for _ in 0..opened {
        streams.push(half_open(&tls));
        if streams.len() % 2_000 == 0 {
            tls.client().await.stock("tea", 1).await;
        }
    }
    wait_for("the oldest to be closed", || {
        (tls.server.metric(FAILED) >= (opened - UNFINISHED) as u64).then_some(())
    });
    assert_eq!(rest(&mut streams[0]), b"");
    tls.client().await.stock("tea", 1).await;
    assert!(tls.server.metric("stockhold_connections") <= UNFINISHED as u64 + 1);
}

/// Raises the limit on open files: the half-open handshakes that the test can have then, at most [`HALF_OPEN`].
fn more_files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = (HALF_OPEN + OTHER_FILES) as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let files = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let files = current.map_or(wanted, |current| current.max(files));
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }).unwrap();
    let opened = HALF_OPEN.min(usize::try_from(files).unwrap() - OTHER_FILES);
    assert!(opened > UNFINISHED + 500, "this test needs a limit of more than {files} open files");
    opened
}

#[test]
fn files_that_cannot_be_used_are_errors_of_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (own, other) = (Authority::new().issue(), Authority::new().issue());
    for (name, content) in [("cert.pem", &own.cert), ("key.pem", &own.key), ("other.pem", &other.key)] {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    let serve = |flags: &[&str]| stockhold(dir.path()).arg("serve").args(flags).output().unwrap();
    for (flags, words) in [
        (vec!["--tls-cert=cert.pem"], "tls_cert cert.pem: a certificate needs its private key"),
        (vec!["--tls-key=key.pem"], "tls_key key.pem: a private key needs its certificate"),
        (vec!["--tls-cert=no.pem", "--tls-key=key.pem"], "tls_cert no.pem: No such file"),
        (vec!["--tls-cert=cert.pem", "--tls-key=cert.pem"], "tls_key cert.pem: has no private key"),
        (vec!["--tls-cert=cert.pem", "--tls-key=other.pem"], "tls_key other.pem: is not the key of the cert"),
        (
            vec!["--tls-cert=cert.pem", "--tls-key=key.pem", "--tls-client-ca=key.pem"],
            "tls_client_ca key.pem: has no certificate",
        ),
    ] {
        let output = serve(&flags);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(text(&output.stderr).contains(words), "{words}: {}", said(&output));
        assert!(!dir.path().join("stockhold-data").exists());
    }
}

/// The admin listener has no credentials and no secrets, and probes of other machines speak plain HTTP.
#[test]
fn the_admin_listener_stays_plain() {
    let tls = TlsServer::start();
    let answer = Wire::connect(tls.server.admin_address()).ask_elsewhere(&Call::get("/readyz"));
    assert_eq!(answer.status, 200);
}
