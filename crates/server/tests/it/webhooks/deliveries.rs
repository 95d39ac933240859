//! Deliveries to applications that fail, hang, redirect, end and come back.

use super::{answer, call, create, deliveries, server};
use crate::sinks::{feed, sell, stock};
use crate::support::{Server, wait_for};
use crate::web_application::{Answer, Application, Delivery};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The events that an application got, by their ids.
fn ids(application: &Application) -> BTreeMap<String, u64> {
    let position = |event: &Value| event["position"].as_str().unwrap().parse().unwrap();
    let events = application.deliveries().into_iter().map(|delivery| delivery.event());
    events.map(|event| (event["id"].as_str().unwrap().to_owned(), position(&event))).collect()
}

/// Waits until the application has all events behind a position.
fn wait_for_all(server: &Server, application: &Application, after: u64) {
    let known = feed(server);
    wait_for("all events", || {
        let got = ids(application);
        known.iter().all(|(id, position)| *position <= after || got.contains_key(id)).then_some(())
    });
}

#[test]
fn every_event_arrives_signed_over_kills_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server(&dir);
    let application = Application::start(Answer::Status(200));
    stock(&server, "lamp", 1_000);
    let before = *feed(&server).values().max().unwrap();
    let (path, secret) = create(&server, &json!({ "url": application.url }));
    for _ in 0..3 {
        sell(&server, "lamp", 40);
        server.kill();
        server.restart();
    }
    sell(&server, "lamp", 40);
    wait_for_all(&server, &application, before);
    let known = feed(&server);
    for delivery in application.deliveries() {
        assert_eq!(delivery.signed_by(&[&secret]), [1]);
        let event = delivery.event();
        let id = event["id"].as_str().unwrap();
        assert_eq!(
            known.get(id),
            Some(&event["position"].as_str().unwrap().parse().unwrap()),
            "invented: {event}"
        );
    }
    let succeeded = wait_for("all deliveries to be noted", || {
        let page = answer(&call(&server, "GET", &format!("{path}/deliveries?limit=1000"), &Value::Null), 200);
        let all = page["data"].as_array().unwrap().clone();
        (all.len() == known.values().filter(|position| **position > before).count()).then_some(all)
    });
    assert!(succeeded.iter().all(|delivery| delivery["status"] == "succeeded"));
}

#[test]
fn filters_leave_out_types_skus_and_locations() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir);
    let application = Application::start(Answer::Status(200));
    create(&server, &json!({ "url": application.url, "types": ["reservation.created"], "skus": ["cup"] }));
    for sku in ["lamp", "cup"] {
        stock(&server, sku, 10);
        sell(&server, sku, 4);
    }
    application.wait_for(4);
    std::thread::sleep(Duration::from_millis(300));
    let got = application.deliveries();
    assert_eq!(got.len(), 4);
    assert!(got.iter().all(|delivery| delivery.event()["data"]["lines"][0]["sku"] == "cup"));
    assert!(got.iter().all(|delivery| delivery.kind() == "stockhold.reservation.created"));
}

#[test]
fn a_delivery_that_fails_waits_and_goes_out_when_the_application_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = server(&dir);
    let application = Application::start(Answer::Status(500));
    let (path, _) = create(&server, &json!({ "url": application.url, "types": ["reservation.created"] }));
    stock(&server, "lamp", 10);
    sell(&server, "lamp", 3);
    let pending = wait_for("pending deliveries", || {
        Some(deliveries(&server, &path, "pending")).filter(|pending| pending.len() == 3)
    });
    for delivery in &pending {
        assert_eq!(
            (&delivery["response_status"], &delivery["type"]),
            (&json!(500), &json!("reservation.created"))
        );
        assert!(delivery["next_attempt_at"].is_string() && delivery["delivery_id"] == delivery["event_id"]);
    }
    // Nothing is lost with the process.
    server.kill();
    server.restart();
    assert_eq!(deliveries(&server, &path, "pending").len(), 3);
    // The first success brings the others at once: the next attempt of none of them is due within minutes by itself.
    wait_for("the second attempt", || (application.deliveries().len() >= 6).then_some(()));
    application.set_answer(Answer::Status(200));
    let id = pending[0]["delivery_id"].as_str().unwrap();
    let retry = format!("{path}/deliveries/{id}/retry");
    assert_eq!(call(&server, "POST", &retry, &Value::Null).status, 204);
    wait_for("all to be delivered", || deliveries(&server, &path, "succeeded").len().eq(&3).then_some(()));
    assert!(deliveries(&server, &path, "pending").is_empty());
    let unknown = answer(&call(&server, "POST", &retry, &Value::Null), 404);
    assert_eq!(unknown["reason"], "unknown_delivery");
}

#[test]
fn an_application_asks_for_a_longer_pause() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir);
    let application = Application::start(Answer::With(429, "Retry-After", "3600"));
    let (path, _) = create(&server, &json!({ "url": application.url, "types": ["stock.set"] }));
    stock(&server, "lamp", 10);
    let pending = wait_for("the delivery", || deliveries(&server, &path, "pending").pop());
    let time = |name: &str| pending[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let pause = time("next_attempt_at").as_second() - time("created_at").as_second();
    assert!((3_600..3_700).contains(&pause), "{pending}");
    // A date counts too, and no pause is longer than a day.
    application.set_answer(Answer::With(503, "Retry-After", "Fri, 01 Jan 2427 00:00:00 GMT"));
    let (path, _) = create(&server, &json!({ "url": application.url, "types": ["stock.adjusted"] }));
    answer(
        &call(&server, "POST", "/v1/inventory/lamp/adjust", &json!({ "delta": 1, "reason": "found" })),
        200,
    );
    let pending = wait_for("the delivery", || deliveries(&server, &path, "pending").pop());
    let time = |name: &str| pending[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let pause = time("next_attempt_at").as_second() - time("created_at").as_second();
    assert!((86_400..86_500).contains(&pause), "{pending}");
}

#[test]
fn status_410_disables_an_endpoint_and_a_replay_brings_what_it_missed() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir);
    let application = Application::start(Answer::Status(410));
    let (path, _) = create(&server, &json!({ "url": application.url, "types": ["reservation.created"] }));
    stock(&server, "lamp", 100);
    sell(&server, "lamp", 1);
    let disabled = wait_for("the endpoint to be disabled", || {
        let endpoint = answer(&call(&server, "GET", &path, &Value::Null), 200);
        (endpoint["status"] == "disabled").then_some(endpoint)
    });
    assert_eq!(disabled["disabled_reason"], "the endpoint answered with status 410");
    // The status is written first, and the list of deliveries after it.
    wait_for("the failed delivery", || deliveries(&server, &path, "failed").len().eq(&1).then_some(()));
    let events =
        String::from_utf8_lossy(&call(&server, "GET", "/v1/events?after=0", &Value::Null).body).into_owned();
    assert!(events.contains("endpoint.disabled"), "{events}");

    application.set_answer(Answer::Status(200));
    application.forget();
    sell(&server, "lamp", 5);
    let enabled = answer(&call(&server, "PATCH", &path, &json!({ "status": "enabled" })), 200);
    assert_eq!((&enabled["status"], enabled.get("disabled_reason")), (&json!("enabled"), None));
    sell(&server, "lamp", 2);
    application.wait_for(2);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(application.deliveries().len(), 2, "what happened meanwhile waits for a replay");
    let range = wait_for("the range", || {
        let raw = call(&server, "POST", &format!("{path}/replay"), &json!({ "from_position": 1 }));
        (raw.status == 202).then(|| answer(&raw, 202))
    });
    assert_eq!(range["from_position"], 1);
    wait_for("the replay", || (ids(&application).len() == 8).then_some(()));
    wait_for("the note that it was delivered", || {
        deliveries(&server, &path, "failed").is_empty().then_some(())
    });
}

#[test]
fn failed_deliveries_are_replayed_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir);
    let application = Application::start(Answer::Status(200));
    let (path, _) = create(&server, &json!({ "url": application.url, "types": ["reservation.created"] }));
    stock(&server, "lamp", 100);
    sell(&server, "lamp", 3);
    application.wait_for(3);
    // One delivery is given up by the status that also disables.
    application.set_answer(Answer::Status(410));
    sell(&server, "lamp", 1);
    wait_for("the failed one", || (deliveries(&server, &path, "failed").len() == 1).then_some(()));
    application.set_answer(Answer::Status(200));
    application.forget();
    answer(&call(&server, "PATCH", &path, &json!({ "status": "enabled" })), 200);
    let replay =
        json!({ "since": "2020-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z", "only": "failed" });
    let replayed = wait_for("the position", || {
        let raw = call(&server, "POST", &format!("{path}/replay"), &replay);
        (raw.status == 202).then(|| answer(&raw, 202))
    });
    assert_eq!(replayed["deliveries"], 1);
    application.wait_for(1);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(application.deliveries().len(), 1);
    let outside = json!({ "from_position": 1_000_000 });
    let refused = answer(&call(&server, "POST", &format!("{path}/replay"), &outside), 400);
    assert_eq!(refused["errors"][0]["pointer"], "/from_position");
}

#[test]
fn redirects_are_failures_and_never_followed() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir);
    let application = Application::start(Answer::With(302, "Location", "/elsewhere"));
    let (path, _) = create(&server, &json!({ "url": application.url }));
    let test = answer(&call(&server, "POST", &format!("{path}/test"), &Value::Null), 202);
    assert_eq!((&test["delivered"], &test["response_status"]), (&json!(false), &json!(302)));
    assert!(application.deliveries().iter().all(|delivery| delivery.path == "/hook"));
}

#[test]
fn an_answer_without_an_end_is_cut_and_one_that_never_comes_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir);
    let endless = Application::start(Answer::Endless);
    let (path, _) = create(&server, &json!({ "url": endless.url, "types": ["limit.set"] }));
    let test = answer(&call(&server, "POST", &format!("{path}/test"), &Value::Null), 202);
    assert_eq!((&test["delivered"], &test["response_status"]), (&json!(true), &json!(200)));

    // The status decides, and not the body.
    let unfinished = Application::start(Answer::Unfinished(204));
    let (path, _) = create(&server, &json!({ "url": unfinished.url, "types": ["limit.set"] }));
    let test = answer(&call(&server, "POST", &format!("{path}/test"), &Value::Null), 202);
    assert_eq!((&test["delivered"], &test["response_status"]), (&json!(true), &json!(204)));
    unfinished.set_answer(Answer::Unfinished(503));
    let test = answer(&call(&server, "POST", &format!("{path}/test"), &Value::Null), 202);
    assert_eq!((&test["delivered"], &test["error"]), (&json!(false), &json!("Status")));

    let silent = Application::start(Answer::Hang);
    let (path, _) = create(&server, &json!({ "url": silent.url, "types": ["stock.set"] }));
    stock(&server, "lamp", 10);
    let pending = wait_for("the attempt to end", || deliveries(&server, &path, "pending").pop());
    assert_eq!(pending["error"], "no answer within 15 s");
    assert_eq!(pending.get("response_status"), None);
}

#[test]
fn a_full_endpoint_stops_at_its_position_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(&dir);
    let application = Application::start(Answer::Status(503));
    let request = json!({ "url": application.url, "types": ["reservation.created"] });
    let (path, _) = create(&server, &request);
    stock(&server, "lamp", 1_000);
    sell(&server, "lamp", 300);
    let pending = wait_for("as many to wait as may", || {
        Some(deliveries(&server, &path, "pending")).filter(|pending| pending.len() >= 100)
    });
    assert!(pending.len() <= 132, "{}", pending.len());
    application.set_answer(Answer::Status(200));
    let id = pending[0]["delivery_id"].as_str().unwrap();
    assert_eq!(call(&server, "POST", &format!("{path}/deliveries/{id}/retry"), &Value::Null).status, 204);
    wait_for("all to arrive", || (ids(&application).len() == 300).then_some(()));
    let known = feed(&server);
    let events: Vec<_> = application.deliveries().iter().map(Delivery::event).collect();
    assert!(events.iter().all(|event| known.contains_key(event["id"].as_str().unwrap())));
}
