//! The document against the server: it is served, and every operation is there.

use super::contract::operations;
use super::server::Server;
use super::wire::Call;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use std::collections::BTreeSet;
use std::io::Read;
use stockhold_api::openapi;

#[test]
fn it_is_served_and_so_is_its_page() {
    let server = Server::start();
    let document = server.ask(&Call::get("/openapi.json"));
    assert_eq!((document.status, document.header("content-type")), (200, Some("application/json")));
    assert_eq!(document.text(), openapi::text());
    let page = server.ask(&Call::get("/docs"));
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.text(), openapi::docs_html());
}

#[test]
fn pages_run_their_own_script_only_and_stand_in_no_other_page() {
    let server = Server::start();
    for page in [
        server.ask(&Call::get("/docs")),
        server.ask(&Call::get("/problems/forbidden")),
        server.ask_admin(&Call::get("/problems/forbidden")),
    ] {
        let html = page.text();
        assert_eq!(html.matches("<script").count(), 1);
        let script = html.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
        let hash = STANDARD.encode(digest(&SHA256, script.as_bytes()));
        let policy = page.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", &format!("script-src 'sha256-{hash}'"), "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{part} is missing in {policy}");
        }
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("x-frame-options"), Some("DENY"));
    }
    for path in ["/openapi.json", "/"] {
        assert_eq!(server.ask(&Call::get(path)).header("x-content-type-options"), Some("nosniff"), "{path}");
    }
}

/// On the path for plain requests, and, with `Connection: close`, on the other one.
#[test]
fn documents_are_compressed_for_clients_that_accept_gzip() {
    let server = Server::start();
    for (path, text) in [("/openapi.json", openapi::text()), ("/docs", openapi::docs_html())] {
        for connection in ["keep-alive", "close"] {
            let call =
                |accept| Call::get(path).header("Connection", connection).header("Accept-Encoding", accept);
            let answer = server.ask(&call("br, gzip"));
            assert_eq!((answer.status, answer.header("content-encoding")), (200, Some("gzip")), "{path}");
            assert_eq!(answer.header("vary"), Some("accept-encoding"), "{path}");
            assert!(answer.body.len() < text.len() / 4, "{} of {} bytes", answer.body.len(), text.len());
            let mut read = String::new();
            flate2::read::GzDecoder::new(&*answer.body).read_to_string(&mut read).unwrap();
            assert_eq!(read, text, "{path}");
            let plain = server.ask(&call("gzip;q=0"));
            assert_eq!(
                (plain.header("content-encoding"), plain.header("vary")),
                (None, Some("accept-encoding"))
            );
            assert_eq!(plain.text(), text, "{path}");
        }
    }
}

#[test]
fn every_path_takes_the_methods_of_the_document_and_no_others() {
    let server = Server::start();
    let all = operations();
    for path in all.iter().map(|operation| operation.path).collect::<BTreeSet<_>>() {
        let target = path
            .replace("{sku}", "tea")
            .replace("{reservation_id}", "018bcfe5-6800-7fff-bfff-ffffffffffff")
            .replace("{key_id}", "key_000102030405060708090a0b0c0d0e0f")
            .replace("{reason}", "internal");
        let answer = server.ask(&Call::new("BREW", target));
        assert_eq!(answer.status, 405, "{path}: {answer:?}");
        let allowed: BTreeSet<_> = answer.header("allow").unwrap().split(", ").collect();
        let mut ours: BTreeSet<_> = all
            .iter()
            .filter(|operation| operation.path == path)
            .map(|operation| operation.method.to_uppercase())
            .collect();
        if ours.contains("GET") {
            ours.insert("HEAD".to_owned());
        }
        assert_eq!(allowed, ours.iter().map(String::as_str).collect(), "{path}");
    }
}

#[test]
fn the_admin_listener_is_as_the_document_says() {
    let server = Server::start();
    let paths = openapi::document()["paths"].as_object().unwrap();
    let admin: Vec<_> = paths.iter().filter(|(_, item)| !item["servers"].is_null()).collect();
    assert_eq!(admin.len(), 4);
    for (path, item) in admin {
        let answer = server.ask_admin(&Call::get(path));
        let kinds = item["get"]["responses"]["200"]["content"].as_object().unwrap();
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, kinds.keys().next().map(String::as_str))
        );
    }
}
