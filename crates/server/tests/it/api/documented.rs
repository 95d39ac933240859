//! The document against the server: it is served, every operation is there, and every example of a request is taken.

use super::contract::{Operation, operations};
use super::server::Server;
use super::wire::{Answer, Call, encoded};
use serde_json::{Value, json};
use std::collections::BTreeSet;
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
fn every_path_takes_the_methods_of_the_document_and_no_others() {
    let server = Server::start();
    let all = operations();
    for path in all.iter().map(|operation| operation.path).collect::<BTreeSet<_>>() {
        let target = path
            .replace("{sku}", "tea")
            .replace("{reservation_id}", "018bcfe5-6800-7fff-bfff-ffffffffffff")
            .replace("{reason}", "internal");
        let answer = server.ask(&Call::new("PATCH", target));
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

/// A shop in which every example makes sense: tea and cups, a concert with seats, and a reservation of tea.
struct Shop {
    server: Server,
    id: String,
}

impl Shop {
    fn open(operation: &Operation) -> Self {
        let server = Server::start();
        // An item that is set by the example is new, or at the version that the example names.
        let puts = if operation.id() == "set_stock" { 0 } else { 4 };
        for n in 1..=puts {
            server.ask(&Call::put("/v1/inventory/tea").json(&json!({ "total_units": 100 + n })));
        }
        server.stock("cup?location=hub-9", 100);
        server.ask(&Call::put("/v1/inventory/concert").json(&json!({ "mode": "units" })));
        // Seats that an example adds are not there yet.
        if operation.id() != "add_units" {
            let seat = |n: u32| json!({ "unit_id": format!("A-{n}"), "section": "stalls", "row": "A" });
            let seats = json!({ "units": (12..18).map(seat).collect::<Vec<_>>() });
            let added = server.ask(&Call::post("/v1/inventory/concert/units").json(&seats));
            assert_eq!(added.status, 200, "{}", added.text());
        }
        let id = if puts == 0 { String::new() } else { reserved(&server) };
        if operation.id() == "return_units" {
            let confirmed = server.ask(&Call::post(format!("/v1/reservations/{id}/confirm")));
            assert_eq!(confirmed.status, 200);
        }
        Self { server, id }
    }
}

fn reserved(server: &Server) -> String {
    let body = json!({ "owner_id": "cart-7", "quantity": 2, "ttl_seconds": 60 });
    let made = server.ask(&Call::post("/v1/inventory/tea/reserve").json(&body));
    made.json()["reservation_id"].as_str().unwrap().to_owned()
}

/// The operation as its examples say, in the shop.
fn call(operation: &Operation, shop: &Shop, body: Option<&Value>, with_all: bool) -> Call {
    let mut path = operation.path.to_owned();
    let mut query = Vec::new();
    let mut headers = Vec::new();
    let seats = ["/units", "/seat-map"].iter().any(|word| path.contains(word))
        || body.is_some_and(|body| ["units", "adjacent"].iter().any(|name| !body[*name].is_null()));
    for parameter in operation.parameters() {
        let name = parameter["name"].as_str().unwrap();
        let example = parameter["example"].as_str();
        match parameter["in"].as_str().unwrap() {
            "path" if name == "reservation_id" => path = path.replace("{reservation_id}", &shop.id),
            "path" if name == "sku" && seats => path = path.replace("{sku}", "concert"),
            "path" => path = path.replace(&format!("{{{name}}}"), example.unwrap()),
            "query" => query.extend(example.map(|example| format!("{name}={}", encoded(example)))),
            _ => headers.extend(example.map(|example| (name, example))),
        }
    }
    let mut call = Call::new(&operation.method.to_uppercase(), path);
    if with_all {
        if !query.is_empty() {
            call = call.query(&query.join("&"));
        }
        // A new item has no version to match.
        let headers = headers.into_iter().filter(|(name, _)| *name != "If-Match" || !shop.id.is_empty());
        call = headers.fold(call, |call, (name, value)| call.header(name, value));
    }
    match body {
        Some(body) => call.json(&ours(body, shop)),
        None => call,
    }
}

/// The example, naming a reservation that there is.
fn ours(body: &Value, shop: &Shop) -> Value {
    let mut text = body.to_string();
    for id in ["018bcfe5-6800-7fff-bfff-ffffffffffff", "018bcfe5-6800-7fff-bfff-fffffffffffe"] {
        if text.contains(id) {
            text = text.replace(id, &reserved(&shop.server));
        }
    }
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn assert_taken(operation: &Operation, name: &str, answer: &Answer) {
    let what = format!("{} {name}: {}", operation.id(), answer.text());
    assert!((200..300).contains(&answer.status), "{what}");
    if operation.id() == "run_commands" {
        let results = answer.json()["results"].as_array().unwrap().clone();
        let statuses: Vec<_> = results.iter().map(|result| result["status"].as_u64().unwrap()).collect();
        assert_eq!(statuses, [200, 200, 201, 201, 200, 200, 204], "{what}");
    }
}

#[test]
fn every_example_of_a_request_is_taken() {
    for operation in operations().iter().filter(|operation| operation.id() != "stream_events") {
        let media = &operation.value["requestBody"]["content"]["application/json"];
        let examples = media["examples"].as_object().into_iter().flatten();
        let bodies: Vec<_> =
            examples.map(|(name, example)| (name.as_str(), Some(&example["value"]))).collect();
        let bodies = if bodies.is_empty() { vec![("alone", None)] } else { bodies };
        for (name, body) in bodies {
            for with_all in [false, true] {
                let shop = Shop::open(operation);
                // The answer is held against the document where it is read.
                let answer = shop.server.ask(&call(operation, &shop, body, with_all));
                assert_taken(operation, name, &answer);
            }
        }
    }
}
