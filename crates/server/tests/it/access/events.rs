//! What restricted callers see of events, in lists and in streams, and streams whose credential ends.

use super::restrictions::EVERYTHING;
use super::{ROOT, ask, connect, id, key, server, stock, with_key};
use crate::api::streams::Reader;
use crate::api::wire::Call;
use crate::support::{Server, wait_for};
use serde_json::{Value, json};

/// What an event is about: the owner of a reservation, an item, or what a pause applies to.
fn label(event: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about = if event["owner_id"].is_string() {
        text(&event["owner_id"])
    } else if event["item"].is_object() {
        text(&event["item"]["location"])
    } else if event["key_id"].is_string() {
        text(&event["principal"])
    } else {
        [&event["scope"], &event["location"], &event["sku"]].map(text).join(" ").trim_end().to_owned()
    };
    format!("{} {about}", text(&event["type"]))
}

fn labels(page: &Value) -> Vec<String> {
    page["data"].as_array().unwrap().iter().map(label).collect()
}

/// Reserves lines of tea at these locations.
#[track_caller]
fn reserve(server: &Server, key: &str, owner: &str, channel: Option<&str>, locations: &[&str]) -> Value {
    let lines: Vec<_> =
        locations.iter().map(|location| json!({ "sku": "tea", "location": location })).collect();
    let mut body = json!({ "owner_id": owner, "lines": lines });
    if let Some(channel) = channel {
        body["channel"] = json!(channel);
    }
    let answer = ask(server, Some(key), Call::post("/v1/reservations").json(&body));
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

/// One event of each kind that restrictions look at. The keys come first: restricted to a location, to a channel and to its own.
fn history(server: &Server) -> [String; 3] {
    let restricted = |principal: &str, restriction: (&str, Value)| {
        let mut fields = json!({ "scopes": ([&EVERYTHING[..], &["keys:admin"]].concat()) });
        fields[restriction.0] = restriction.1;
        key(server, principal, &fields)
    };
    let keys = [
        restricted("hub", ("locations", json!(["hub-1"]))),
        restricted("web", ("channels", json!(["web"]))),
        restricted("own", ("own_reservations_only", json!(true))),
    ];
    stock(server, "tea", "hub-1");
    stock(server, "tea", "hub-2");
    reserve(server, ROOT, "web-1", Some("web"), &["hub-1"]);
    reserve(server, ROOT, "app-1", Some("app"), &["hub-1"]);
    reserve(server, ROOT, "none-2", None, &["hub-2"]);
    reserve(server, ROOT, "web-1-2", Some("web"), &["hub-1", "hub-2"]);
    let own = reserve(server, &keys[2], "own-2", Some("app"), &["hub-2"]);
    // Another principal confirms it. It stays the reservation of its creator.
    let confirm = Call::post(format!("/v1/reservations/{}/confirm", id(&own)));
    assert_eq!(ask(server, Some(ROOT), confirm).status, 200);
    for path in [
        "/v1/inventory/tea/pause?location=hub-1",
        "/v1/inventory/tea/pause?location=hub-2",
        "/v1/sale/pause?location=hub-2",
        "/v1/sale/pause",
    ] {
        assert_eq!(ask(server, Some(ROOT), Call::post(path)).status, 200, "{path}");
    }
    keys
}

const OF_STOCK: [&str; 2] = ["stock.set hub-1", "stock.set hub-2"];
const OF_PAUSES: [&str; 3] =
    ["sale.paused item hub-1 tea", "sale.paused item hub-2 tea", "sale.paused location hub-2"];

#[test]
fn restricted_callers_see_the_events_of_what_they_may_see() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    let [hub, web, own] = history(&server);
    let seen = |key: &str, path: &str| labels(&ask(&server, Some(key), Call::get(path)).json());
    let created = |owner: &str| format!("reservation.created {owner}");
    let all = ["web-1", "app-1", "none-2", "web-1-2", "own-2"].map(created);
    let everything = [
        &["hub", "web", "own"].map(|principal| format!("access.key_created {principal}"))[..],
        &OF_STOCK.map(str::to_owned),
        &all,
        &["reservation.confirmed own-2".to_owned()],
        &OF_PAUSES.map(str::to_owned),
        &["sale.paused everything".to_owned()],
    ]
    .concat();
    assert_eq!(seen(ROOT, "/v1/events?limit=1000"), everything);
    let of_hub = ["stock.set hub-1", "reservation.created web-1", "reservation.created app-1", OF_PAUSES[0]];
    let of_web =
        [&OF_STOCK[..], &["reservation.created web-1", "reservation.created web-1-2"], &OF_PAUSES].concat();
    let of_own =
        [&OF_STOCK[..], &["reservation.created own-2", "reservation.confirmed own-2"], &OF_PAUSES].concat();
    for (key, expected) in [(&hub, &of_hub[..]), (&web, &of_web), (&own, &of_own)] {
        assert_eq!(seen(key, "/v1/events?limit=1000"), expected);
        assert_eq!(seen(key, "/v1/events?tail=1000"), expected);
        // Page by page, with pages that are short because events are left out.
        let (mut paged, mut after) = (Vec::new(), "0".to_owned());
        loop {
            let page = ask(&server, Some(key), Call::get(format!("/v1/events?limit=2&after={after}"))).json();
            paged.extend(labels(&page));
            after = page["next_cursor"].as_str().unwrap().to_owned();
            if page["has_more"] == false {
                break;
            }
        }
        assert_eq!(paged, expected);
        let call = with_key(Call::get("/v1/events/stream?after=0"), key);
        let mut reader = Reader::over(connect(&server), &call);
        let streamed: Vec<_> = expected.iter().map(|_| label(&reader.event().unwrap())).collect();
        assert_eq!(streamed, expected);
        let types = "/v1/events?limit=1000&type=sale.paused";
        let pauses: Vec<_> = expected.iter().copied().filter(|one| one.starts_with("sale.")).collect();
        assert_eq!(seen(key, types), pauses);
    }
}

#[test]
fn a_stream_ends_when_its_key_is_revoked() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    stock(&server, "tea", "default");
    let fields = json!({ "scopes": ["events:read"] });
    let (revoked, other) = (key(&server, "one", &fields), key(&server, "two", &fields));
    let open = |key: &str| Reader::over(connect(&server), &with_key(Call::get("/v1/events/stream"), key));
    let (mut ends, mut stays) = (open(&revoked), open(&other));
    let list = ask(&server, Some(ROOT), Call::get("/v1/keys")).json();
    let of_one = list["data"].as_array().unwrap().iter().find(|key| key["principal"] == "one").unwrap();
    let path = format!("/v1/keys/{}", of_one["key_id"].as_str().unwrap());
    assert_eq!(ask(&server, Some(ROOT), Call::delete(path)).status, 204);
    assert_eq!(ends.event(), None, "the stream ends, with no event before its end");
    super::reserve(&server, ROOT, "tea", "default");
    assert_eq!(label(&stays.event().unwrap()), "reservation.created cart", "another key's stream goes on");
    // A client that reconnects is refused.
    let again = ask(&server, Some(&revoked), Call::get("/v1/events/stream"));
    assert_eq!((again.status, &again.json()["credential"]), (401, &json!("revoked")));
    wait_for("one stream to be left", || {
        server.metrics().contains("stockhold_event_streams 1\n").then_some(())
    });
}

#[test]
fn a_stream_ends_when_its_key_expires() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    let soon = crate::keys::soon(2);
    let brief = key(&server, "brief", &json!({ "scopes": ["events:read"], "expires_at": soon }));
    let mut reader = Reader::over(connect(&server), &with_key(Call::get("/v1/events/stream"), &brief));
    assert_eq!(reader.event(), None);
    wait_for("no stream to be left", || {
        server.metrics().contains("stockhold_event_streams 0\n").then_some(())
    });
}

#[test]
fn channels_of_commands() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir, "");
    stock(&server, "tea", "hub-1");
    let web = key(&server, "web", &json!({ "scopes": EVERYTHING, "channels": ["web"] }));
    let app = reserve(&server, ROOT, "app-1", Some("app"), &["hub-1"]);
    let none = reserve(&server, ROOT, "none-1", None, &["hub-1"]);
    let own = reserve(&server, &web, "own-1", None, &["hub-1"]);
    let place = json!({ "sku": "tea", "location": "hub-1" });
    let reserved = |owner: &str, channel: Option<&str>| {
        let mut command = json!({ "op": "reserve", "owner_id": owner, "lines": [place] });
        if let Some(channel) = channel {
            command["channel"] = json!(channel);
        }
        command
    };
    let on = |op: &str, reservation: &Value| json!({ "op": op, "reservation_id": id(reservation) });
    let mut merge = on("merge", &own);
    merge["from"] = json!([id(&app)]);
    let commands = [
        (reserved("default", None), 201, Value::Null),
        (reserved("named", Some("web")), 201, Value::Null),
        (reserved("other", Some("app")), 403, json!({ "channel": "app" })),
        (on("confirm", &app), 403, json!({ "channel": "app" })),
        (on("release", &none), 403, json!({ "channel": null })),
        (merge, 403, json!({ "channel": "app" })),
        (on("confirm", &own), 200, Value::Null),
    ];
    let body = json!({ "commands": commands.each_ref().map(|(command, ..)| command) });
    let answer = ask(&server, Some(&web), Call::post("/v1/commands").json(&body)).json();
    for (result, (command, status, missing)) in answer["results"].as_array().unwrap().iter().zip(&commands) {
        assert_eq!(result["status"], *status, "{command}: {result}");
        let found = result.get("problem").unwrap_or(result)["missing"].clone();
        assert_eq!(found, *missing, "{command}: {result}");
    }
    let list = ask(&server, Some(&web), Call::get("/v1/reservations")).json();
    let mut owners: Vec<_> =
        list["data"].as_array().unwrap().iter().map(|one| one["owner_id"].as_str().unwrap()).collect();
    owners.sort_unstable();
    assert_eq!(owners, ["default", "named", "own-1"]);
    let held = |reservation: &Value| {
        let path = format!("/v1/reservations/{}", id(reservation));
        ask(&server, Some(ROOT), Call::get(path)).json()["status"].clone()
    };
    assert_eq!((held(&app), held(&none)), (json!("active"), json!("active")));
}
