//! Many at once: what is promised stays what there is, and one key makes one reservation.

use super::server::Server;
use super::wire::{Answer, Call};
use serde_json::{Value, json};
use std::sync::Barrier;
use std::thread;

/// Sends a request from each of so many threads at the same moment.
fn all_at_once(server: &Server, threads: usize, call: impl Fn(usize) -> Call + Sync) -> Vec<Answer> {
    let barrier = Barrier::new(threads);
    let one = |n: usize| {
        let (mut wire, call) = (server.connect(), call(n));
        barrier.wait();
        wire.ask(&call)
    };
    thread::scope(|scope| {
        let threads = (0..threads).map(|n| scope.spawn(move || one(n))).collect::<Vec<_>>();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn two_hundred_buyers_and_a_hundred_units() {
    let server = Server::start();
    server.stock("drop", 100);
    let answers = all_at_once(&server, 200, |n| {
        let body = json!({ "owner_id": format!("buyer-{n}") });
        Call::post("/v1/inventory/drop/reserve").json(&body).key(&format!("key-{n}"))
    });
    let (held, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!((held.len(), refused.len()), (100, 100));
    for refusal in refused {
        let problem = refusal.json();
        assert_eq!(refusal.status, 409);
        assert_eq!(
            (&problem["reason"], &problem["available"]),
            (&json!("insufficient_inventory"), &json!(0))
        );
    }
    let mut sequences =
        held.iter().map(|answer| answer.json()["lines"][0]["sequence"].clone()).collect::<Vec<_>>();
    sequences.sort_by_key(Value::as_u64);
    assert_eq!(sequences, (2..=101).map(Value::from).collect::<Vec<_>>(), "the sequence has gaps");
    let item = server.item("drop");
    assert_eq!((&item["held_units"], &item["available"]), (&json!(100), &json!(0)));

    let ids = held.iter().map(|answer| answer.json()["reservation_id"].as_str().unwrap().to_owned());
    let ids = ids.collect::<Vec<_>>();
    // Each is confirmed and released at the same moment: one wins.
    let answers = all_at_once(&server, 200, |n| {
        let path = format!("/v1/reservations/{}", ids[n / 2]);
        if n % 2 == 0 { Call::post(format!("{path}/confirm")) } else { Call::delete(path) }
    });
    for (n, pair) in answers.chunks(2).enumerate() {
        let reason = |answer: &Answer| answer.json()["reason"].clone();
        match (pair[0].status, pair[1].status) {
            (200, 409) => assert_eq!(reason(&pair[1]), "reservation_confirmed"),
            (409, 204) => assert_eq!(reason(&pair[0]), "reservation_cancelled"),
            other => panic!("{other:?} for {}", ids[n]),
        }
    }
    let sold = answers.iter().filter(|answer| answer.status == 200).count();
    let item = server.item("drop");
    assert_eq!((&item["confirmed_sold"], &item["held_units"]), (&json!(sold), &json!(0)));
}

#[test]
fn one_key_from_twenty_threads() {
    let server = Server::start();
    server.stock("drop", 100);
    let body = json!({ "owner_id": "o", "quantity": 3 });
    let answers =
        all_at_once(&server, 20, |_| Call::post("/v1/inventory/drop/reserve").json(&body).key("one"));
    let made = answers[0].json();
    for answer in &answers {
        assert_eq!((answer.status, answer.json()), (200, made.clone()));
    }
    let replays = answers.iter().filter(|answer| answer.header("idempotent-replayed") == Some("true"));
    assert_eq!(replays.count(), 19);
    assert_eq!(server.item("drop")["held_units"], 3);
}

#[test]
fn two_seats_and_many_buyers_who_want_any_of_them_or_one_by_name() {
    let server = Server::start();
    let made = server.ask(&Call::put("/v1/inventory/hall").json(&json!({ "mode": "units" })));
    assert_eq!(made.status, 201, "{}", made.text());
    let units = json!({ "units": [{ "unit_id": "A-1", "row": "A" }, { "unit_id": "A-2", "row": "A" }] });
    assert_eq!(server.ask(&Call::post("/v1/inventory/hall/units").json(&units)).status, 200);
    let answers = all_at_once(&server, 200, |n| {
        let mut body = json!({ "owner_id": format!("buyer-{n}") });
        match n % 4 {
            0 => body["units"] = json!(["A-1"]),
            1 => body["units"] = json!(["A-2"]),
            2 => body["adjacent"] = true.into(),
            _ => {}
        }
        Call::post("/v1/inventory/hall/reserve").json(&body)
    });
    let (held, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert_eq!((held.len(), refused.len()), (2, 198));
    let mut seats: Vec<_> =
        held.iter().map(|answer| answer.json()["lines"][0]["units"][0]["unit_id"].clone()).collect();
    seats.sort_by_key(Value::to_string);
    assert_eq!(seats, ["A-1", "A-2"]);
    for refusal in refused {
        let reason = refusal.json()["reason"].clone();
        assert!(reason == "units_unavailable" || reason == "insufficient_inventory", "{}", refusal.text());
    }
    assert_eq!(server.item("hall")["held_units"], 2);
}
