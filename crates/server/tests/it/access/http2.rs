//! Restricted callers over HTTP/2, and with HEAD over both protocols.

use super::restrictions::EVERYTHING;
use super::{ROOT, ask, id, key, reserve, server, stock};
use crate::api::wire::Call;
use crate::tls_support::{HttpClient, TlsServer};
use serde_json::{Value, json};

/// Sends a request with a key: the status, `content-length`, and the body.
async fn send(
    client: &mut HttpClient,
    key: &str,
    (method, path): (&str, &str),
    body: Option<&Value>,
) -> (u16, Option<String>, Vec<u8>) {
    let authorization = format!("Bearer {key}");
    let headers = [("authorization", authorization.as_str())];
    let (status, headers, body) = client.ask(method, path, &headers, body).await.unwrap();
    let length = headers.get("content-length").map(|length| length.to_str().unwrap().to_owned());
    (status, length, body.to_vec())
}

async fn json_of(client: &mut HttpClient, key: &str, call: (&str, &str), body: &Value) -> Value {
    let (status, _, answer) = send(client, key, call, Some(body)).await;
    assert!(status < 300, "{call:?}: {}", String::from_utf8_lossy(&answer));
    serde_json::from_slice(&answer).unwrap()
}

#[tokio::test]
async fn restrictions_hold_over_http2() {
    let tls = TlsServer::start();
    let mut client = tls.client().await;
    // The first key. From here on every request needs one.
    let fields = json!({ "name": "Root", "principal": "root", "scopes": ([&EVERYTHING[..], &["keys:admin"]].concat()) });
    let (_, _, made) = client.ask("POST", "/v1/keys", &[], Some(&fields)).await.unwrap();
    let root = serde_json::from_slice::<Value>(&made).unwrap()["key"].as_str().unwrap().to_owned();
    let (status, ..) = client.ask("GET", "/v1/inventory", &[], None).await.unwrap();
    assert_eq!(status, 401);
    let mut restricted = Vec::new();
    for (principal, name, value) in [
        ("hub", "locations", json!(["hub-1"])),
        ("web", "channels", json!(["web"])),
        ("own", "own_reservations_only", json!(true)),
    ] {
        let mut fields = json!({ "name": principal, "principal": principal, "scopes": EVERYTHING });
        fields[name] = value;
        let made = json_of(&mut client, &root, ("POST", "/v1/keys"), &fields).await;
        restricted.push(made["key"].as_str().unwrap().to_owned());
    }
    for location in ["hub-1", "hub-2"] {
        let path = format!("/v1/inventory/tea?location={location}");
        json_of(&mut client, &root, ("PUT", &path), &json!({ "total_units": 9 })).await;
    }
    let body =
        json!({ "owner_id": "foreign", "channel": "app", "lines": [{ "sku": "tea", "location": "hub-2" }] });
    let foreign = json_of(&mut client, &root, ("POST", "/v1/reservations"), &body).await;
    let path = format!("/v1/reservations/{}", id(&foreign));
    let [hub, web, own] = [&restricted[0], &restricted[1], &restricted[2]];
    for (key, reservation, item) in [(hub, 403, 403), (web, 403, 200), (own, 404, 200)] {
        for (path, expected) in [(path.as_str(), reservation), ("/v1/inventory/tea?location=hub-2", item)] {
            let (status, length, body) = send(&mut client, key, ("GET", path), None).await;
            assert_eq!(status, expected, "{path}: {}", String::from_utf8_lossy(&body));
            assert_eq!(length, Some(body.len().to_string()));
            let (head, length_of_head, nothing) = send(&mut client, key, ("HEAD", path), None).await;
            assert_eq!((head, nothing.len()), (status, 0), "HEAD {path}");
            assert_eq!(length_of_head, length, "HEAD {path}");
        }
        let (status, _, list) = send(&mut client, key, ("GET", "/v1/reservations"), None).await;
        let list: Value = serde_json::from_slice(&list).unwrap();
        assert_eq!((status, &list["data"]), (200, &json!([])));
        let (_, _, events) = send(&mut client, key, ("GET", "/v1/events?limit=1000"), None).await;
        assert!(!String::from_utf8_lossy(&events).contains(id(&foreign)));
        let (status, ..) = send(&mut client, key, ("DELETE", &path), None).await;
        assert_eq!(status, reservation, "DELETE {path}");
    }
    let (status, ..) = send(&mut client, &root, ("DELETE", &path), None).await;
    assert_eq!(status, 204, "nobody else has released it");
}

#[test]
fn head_is_refused_where_get_is() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    stock(&server, "tea", "hub-1");
    stock(&server, "tea", "hub-2");
    let hub = key(&server, "hub", &json!({ "scopes": EVERYTHING, "locations": ["hub-1"] }));
    let own = key(&server, "own", &json!({ "scopes": EVERYTHING, "own_reservations_only": true }));
    let few = key(&server, "few", &json!({ "scopes": ["events:read"] }));
    let foreign = format!("/v1/reservations/{}", id(&reserve(&server, ROOT, "tea", "hub-2")));
    let mut statuses = Vec::new();
    for key in [Some(&*hub), Some(&*own), Some(&*few), Some("wrong"), None] {
        for path in [
            foreign.as_str(),
            "/v1/inventory/tea?location=hub-2",
            "/v1/inventory/tea?location=hub-1",
            "/v1/events",
            "/v1/keys",
        ] {
            let get = ask(&server, key, Call::get(path));
            let head = ask(&server, key, Call::new("HEAD", path));
            assert_eq!(head.status, get.status, "{path}");
            assert_eq!(head.header("content-length"), get.header("content-length"), "{path}");
            statuses.push(get.status);
        }
    }
    for status in [200, 401, 403, 404] {
        assert!(statuses.contains(&status), "{statuses:?}");
    }
}
