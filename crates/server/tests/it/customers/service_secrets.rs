//! The secrets of the service at rest: with a key in the configuration, neither the signing key of hold tokens nor the secret of a webhook
//! is in the store in clear, also those that were there before.

use super::{FIRST_KEY, SECOND_KEY, VARIABLE, send};
use crate::support::Server;
use crate::web_application::{Answer, Application};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use stockhold_domain::{Label, RecordKey, RecordKind};
use stockhold_embedded::{EmbeddedStore, Options};
use stockhold_store::{
    Answer as StoreAnswer, Failure, Inbox, Job, Query, QueryResult, ReplyTo, Request, Store,
};

const ROOT_KEY: &str = "a-root-key-of-this-test-that-is-long-enough";

/// Takes one answer.
#[derive(Default)]
struct Desk(Mutex<Option<Result<StoreAnswer, Failure>>>, Condvar);

impl Inbox for Desk {
    fn put(&self, _: u64, answer: Result<StoreAnswer, Failure>) {
        *self.0.lock().unwrap() = Some(answer);
    }

    fn flush(&self) {
        self.1.notify_all();
    }
}

/// The stored bytes of the signing key and of a webhook, of a server that does not run.
fn stored(dir: &Path, webhook: &str) -> [Vec<u8>; 2] {
    let store =
        EmbeddedStore::open(&dir.join("data"), Options { sweeps: false, ..Options::default() }).unwrap();
    [(RecordKind::SigningKey, "hold_tokens"), (RecordKind::Webhook, webhook)].map(|(kind, id)| {
        let desk = Arc::new(Desk::default());
        let reply = ReplyTo { inbox: Arc::clone(&desk) as Arc<dyn Inbox>, ticket: 0 };
        let key = RecordKey { kind, id: Label::new(id).unwrap() };
        store.submit(Job { request: Request::Query(Query::Record(key)), reply });
        store.flush();
        let answered = desk.1.wait_while(desk.0.lock().unwrap(), |answer| answer.is_none()).unwrap().take();
        match answered {
            Some(Ok(StoreAnswer::QueryResult(QueryResult::Record(Some(record))))) => {
                record.value.unwrap().as_bytes().to_vec()
            }
            other => panic!("{other:?}"),
        }
    })
}

fn start(dir: &Path, keys: &str) -> Server {
    let variables = [
        ("STOCKHOLD_ROOT_KEY", ROOT_KEY),
        ("STOCKHOLD_WEBHOOK_ALLOWED_NETWORKS", "127.0.0.1/32"),
        (VARIABLE, keys),
    ];
    let with_keys = if keys.is_empty() { &variables[..2] } else { &variables[..] };
    Server::with_variables(dir, "data", with_keys)
}

fn as_root(server: &Server, method: &str, path: &str, body: Option<&Value>) -> super::Answer {
    let authorization = format!("Bearer {ROOT_KEY}");
    send(&server.url(), method, path, body, &[("authorization", &authorization)])
}

/// A hold with a token: its path and its token.
fn hold(server: &Server) -> (String, String) {
    let body = json!({ "owner_id": "cart", "lines": [{ "sku": "tea" }], "hold_token": true });
    let made = as_root(server, "POST", "/v1/reservations", Some(&body));
    assert_eq!(made.status, 201, "{made:?}");
    let path = format!("/v1/reservations/{}", made.body["reservation_id"].as_str().unwrap());
    (path, made.body["hold_token"].as_str().unwrap().to_owned())
}

#[track_caller]
fn assert_token_works(server: &Server, (path, token): &(String, String)) {
    let authorization = format!("Bearer {token}");
    let shown = send(&server.url(), "GET", path, None, &[("authorization", &authorization)]);
    assert_eq!(shown.status, 200, "{shown:?}");
}

#[track_caller]
fn assert_sealed(dir: &Path, webhook: &str, key: &str) {
    for bytes in stored(dir, webhook) {
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(&format!("sealed:{key}:")) && !text.contains("whsec_"), "{text}");
    }
}

#[test]
fn secrets_of_the_service_are_encrypted_at_the_next_start_and_again_with_a_newer_key() {
    let dir = tempfile::tempdir().unwrap();
    let application = Application::start(Answer::Status(200));
    let mut server = start(dir.path(), "");
    stock(&server);
    let request = json!({ "url": application.url, "types": ["reservation.cancelled"] });
    let made = as_root(&server, "POST", "/v1/webhooks", Some(&request));
    assert_eq!(made.status, 201, "{made:?}");
    let webhook = made.body["webhook_id"].as_str().unwrap().to_owned();
    let secret = made.body["secret"].as_str().unwrap().to_owned();
    let token = hold(&server);
    assert!(server.terminate().success());
    let [key, settings] = stored(dir.path(), &webhook);
    assert_eq!(key.len(), 32, "in clear");
    assert!(String::from_utf8(settings).unwrap().contains(&secret), "in clear");
    drop(server);

    let mut server = start(dir.path(), FIRST_KEY);
    assert_token_works(&server, &token);
    let sent = |server: &Server| {
        let tested = as_root(server, "POST", &format!("/v1/webhooks/{webhook}/test"), None);
        assert_eq!((tested.status, &tested.body["delivered"]), (202, &json!(true)), "{tested:?}");
        application.deliveries().last().unwrap().signed_by(&[&secret])
    };
    assert_eq!(sent(&server), [1]);
    assert!(server.terminate().success());
    assert_sealed(dir.path(), &webhook, "k1");
    drop(server);

    // A rewrap takes the newer key, and the older one is not needed any more.
    let mut server = start(dir.path(), &format!("{SECOND_KEY},{FIRST_KEY}"));
    assert_token_works(&server, &token);
    let page = as_root(&server, "POST", "/v1/customer-keys/rewrap", None);
    assert_eq!(page.status, 200, "{page:?}");
    assert!(server.terminate().success());
    assert_sealed(dir.path(), &webhook, "k2");
    drop(server);
    let mut server = start(dir.path(), SECOND_KEY);
    assert_token_works(&server, &token);
    assert_eq!(sent(&server), [1]);
    assert!(server.terminate().success());
    drop(server);

    // Without the key nothing is shown, the log says what is missing, and the rest works.
    let server = start(dir.path(), FIRST_KEY);
    server.log_with(&["encrypted with key k2"]);
    let authorization = format!("Bearer {}", token.1);
    let shown = send(&server.url(), "GET", &token.0, None, &[("authorization", &authorization)]);
    assert_eq!(shown.status, 500, "{shown:?}");
    let page = as_root(&server, "POST", "/v1/customer-keys/rewrap", None);
    assert_eq!(page.reason(), (409, "encryption_key_missing"));
    let tested = as_root(&server, "POST", &format!("/v1/webhooks/{webhook}/test"), None);
    assert_eq!((tested.status, &tested.body["delivered"]), (202, &json!(false)), "{tested:?}");
    assert_eq!(as_root(&server, "GET", &token.0, None).status, 200);
}

#[test]
fn with_a_key_from_the_beginning_no_file_ever_has_a_secret_in_clear() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(dir.path(), FIRST_KEY);
    stock(&server);
    let request = json!({ "url": "http://127.0.0.1:9/", "types": ["reservation.cancelled"] });
    let made = as_root(&server, "POST", "/v1/webhooks", Some(&request));
    let webhook = made.body["webhook_id"].as_str().unwrap().to_owned();
    let secret = made.body["secret"].as_str().unwrap().to_owned();
    let rotated = as_root(&server, "POST", &format!("/v1/webhooks/{webhook}/rotate"), Some(&json!({})));
    let rotated = rotated.body["secret"].as_str().unwrap().to_owned();
    hold(&server);
    assert!(server.terminate().success());
    for secret in [&secret, &rotated] {
        let found = super::rest::files_with(dir.path(), secret.as_bytes());
        assert!(found.is_empty(), "{found:?}");
    }
    assert_sealed(dir.path(), &webhook, "k1");
}

fn stock(server: &Server) {
    let made = as_root(server, "PUT", "/v1/inventory/tea", Some(&json!({ "total_units": 10 })));
    assert_eq!(made.status, 201, "{made:?}");
}
