//! API keys over a database that two instances share.

use super::Database;
use crate::access::{ask, connect, with_key};
use crate::api::streams::Reader;
use crate::api::wire::Call;
use crate::support::{Server, wait_for};
use serde_json::{Value, json};

/// Makes a key with these scopes, with a credential if one is needed.
fn make(server: &Server, credential: Option<&str>, scopes: &[&str]) -> Value {
    let body = json!({ "name": "A key", "principal": "shop", "scopes": scopes });
    let answer = ask(server, credential, Call::post("/v1/keys").json(&body));
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

pub(super) fn what_one_instance_makes_and_revokes_counts_at_the_other<D: Database>(database: &mut D) {
    let servers = [Server::over(&database.url()), Server::over(&database.url())];
    let [one, other] = &servers;
    let text = |key: &Value| key["key"].as_str().unwrap().to_owned();
    // The first key closes both instances.
    let admin = text(&make(one, None, &["keys:admin", "events:read"]));
    wait_for("the other instance to ask for credentials", || {
        (ask(other, None, Call::get("/v1/events")).status == 401).then_some(())
    });
    let reader = make(one, Some(&admin), &["events:read"]);
    let read = || ask(other, Some(&text(&reader)), Call::get("/v1/events?limit=1"));
    assert_eq!(read().status, 200, "a new key works at once");
    let call = with_key(Call::get("/v1/events/stream"), &text(&reader));
    let mut stream = Reader::over(connect(other), &call);
    let path = format!("/v1/keys/{}", reader["key_id"].as_str().unwrap());
    assert_eq!(ask(one, Some(&admin), Call::delete(path)).status, 204);
    assert_eq!(stream.event(), None, "the stream ends");
    let refused = read();
    assert_eq!((refused.status, &refused.json()["credential"]), (401, &json!("revoked")));
    assert_eq!(ask(other, Some(&admin), Call::get("/v1/keys")).status, 200);
}
