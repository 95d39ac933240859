//! Webhooks carry what their creator may see, and nobody with fewer scopes changes them.

use super::{ROOT, ask, key, reason, server, stock};
use crate::api::wire::{Answer, Call};
use crate::support::Server;
use crate::web_application::{Answer as Response, Application};
use serde_json::{Value, json};

#[track_caller]
fn create(server: &Server, credential: &str, body: &Value) -> String {
    let answer = ask(server, Some(credential), Call::post("/v1/webhooks").json(body));
    assert_eq!(answer.status, 201, "{answer:?}");
    format!("/v1/webhooks/{}", answer.json()["webhook_id"].as_str().unwrap())
}

#[track_caller]
fn lacks(answer: &Answer, scope: &str) {
    assert_eq!(reason(answer), (403, "forbidden".to_owned()), "{answer:?}");
    assert_eq!(answer.json()["missing"], json!({ "scope": scope }));
}

#[test]
fn events_about_api_keys_need_the_scope_of_the_creator() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "webhook_allowed_networks = [\"127.0.0.1/32\"]\n");
    let hooks = key(&server, "hooks", &json!({ "scopes": ["webhooks:admin", "events:read"] }));
    let [plain, privileged] = [(); 2].map(|()| Application::start(Response::Status(200)));
    let named = json!({ "url": plain.url, "types": ["access.*"] });
    lacks(&ask(&server, Some(&hooks), Call::post("/v1/webhooks").json(&named)), "keys:admin");
    let path = create(&server, &hooks, &json!({ "url": plain.url }));
    let change = Call::new("PATCH", path.clone()).json(&json!({ "types": ["access.key_created"] }));
    lacks(&ask(&server, Some(&hooks), change.clone()), "keys:admin");
    lacks(&ask(&server, Some(ROOT), change), "keys:admin");
    create(&server, ROOT, &json!({ "url": privileged.url }));
    key(&server, "another", &json!({ "scopes": ["inventory:read"] }));
    stock(&server, "tea", "hub-1");
    // Deliveries come in no order, so each is waited for.
    privileged.wait_for_kind("stockhold.access.key_created");
    plain.wait_for_kind("stockhold.stock.set");
    let of_plain = plain.deliveries();
    assert!(!of_plain.iter().any(|delivery| delivery.kind().starts_with("stockhold.access.")));
    // Nor is one to come: it is not among the deliveries.
    let deliveries = ask(&server, Some(&hooks), Call::get(format!("{path}/deliveries")));
    assert!(!deliveries.text().contains("access."), "{deliveries:?}");
}

#[test]
fn an_endpoint_is_changed_and_replayed_by_callers_with_all_scopes_of_its_creator() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    let with = |scopes: &[&str]| key(&server, "hooks", &json!({ "scopes": scopes }));
    let few = with(&["webhooks:admin"]);
    let more = with(&["webhooks:admin", "events:read"]);
    let url = json!({ "url": "https://shop.example/hook" });
    let path = create(&server, &more, &url);
    let changes = [
        Call::new("PATCH", path.clone()).json(&json!({ "url": "https://evil.example" })),
        Call::post(format!("{path}/test")),
        Call::post(format!("{path}/rotate")),
        Call::post(format!("{path}/replay")).json(&json!({ "from_position": 1 })),
        Call::post(format!("{path}/deliveries/01890a5d-ac96-774b-bcce-b302099a8057/retry")),
        Call::delete(path.clone()),
    ];
    for call in &changes {
        lacks(&ask(&server, Some(&few), call.clone()), "events:read");
    }
    let shown = ask(&server, Some(&few), Call::get(path)).json();
    assert_eq!(shown["scopes"], json!(["events:read", "webhooks:admin"]), "{shown}");
    assert_eq!(shown["url"], url["url"]);
    for call in changes {
        let answer = ask(&server, Some(&more), call);
        assert!(matches!(answer.status, 200..300 | 400 | 404), "{answer:?}");
    }
    let roots = create(&server, ROOT, &url);
    let change = Call::new("PATCH", roots).json(&json!({ "url": "https://evil.example" }));
    assert_eq!(reason(&ask(&server, Some(&more), change)), (403, "forbidden".to_owned()));
}
