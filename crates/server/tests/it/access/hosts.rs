//! Names under which a server answers callers without a credential: a page of another origin must not read it by DNS rebinding.

use super::{ROOT, connect, server};
use crate::api::wire::{Answer, Wire};
use crate::support::Server;
use std::net::{Ipv4Addr, SocketAddr};

fn get(wire: &mut Wire, path: &str, host: &str, credential: Option<&str>) -> Answer {
    let authorization = credential.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{authorization}\r\n").as_bytes());
    wire.answer()
}

#[test]
fn without_credentials_only_addresses_localhost_and_allowed_names_lead_here() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("stockhold.toml"), "allowed_hosts = [\"stock.internal\"]\n").unwrap();
    let server = Server::on(dir.path(), "data");
    for host in
        ["127.0.0.1", "127.0.0.1:8101", "[::1]:8101", "localhost", "LocalHost:1", "stock.internal:8101"]
    {
        assert_eq!(get(&mut connect(&server), "/v1/events", host, None).status, 200, "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:8101",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "a.stock.internal",
    ] {
        for path in ["/v1/events", "/v1/inventory", "/", "/v1/nothing"] {
            let answer = get(&mut connect(&server), path, host, None);
            assert_eq!(answer.status, 421, "{host}{path}");
            assert_eq!(answer.json()["reason"], "misdirected_request");
        }
    }
    // Probes use the names of pods, and it shows health and metrics only.
    let mut admin = Wire::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, server.ports()[1])));
    assert_eq!(get(&mut admin, "/livez", "stockhold-0.stockhold.shop.svc", None).status, 200);
}

#[test]
fn a_server_with_credentials_answers_under_every_name() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    for (host, credential, status) in
        [("stock.example", Some(ROOT), 200), ("stock.example", None, 401), ("localhost", None, 401)]
    {
        assert_eq!(get(&mut connect(&server), "/v1/events", host, credential).status, status);
    }
    assert_eq!(get(&mut connect(&server), "/docs", "stock.example", None).status, 200);
}
