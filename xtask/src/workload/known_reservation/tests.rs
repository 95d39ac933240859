//! Tests of what a client knows of a reservation.

use super::*;
use serde_json::json;

fn stock() -> Vec<Stock> {
    let stock = |sku: &str, seats| Stock { sku: sku.to_owned(), total: 10, seats };
    vec![stock("a", false), stock("b", false), stock("hall", true)]
}

fn made_by() -> Made {
    Made { request: Request::get("/"), status: 200 }
}

fn reserve(sku: usize, quantity: u64, first_seat: Option<u64>) -> Reserve {
    let lines = vec![(sku, quantity)];
    Reserve { client: 7, number: 1, basket: false, partial: false, ttl: 9, customer: None, lines, first_seat }
}

fn answer(status: &str, second: u32, quantity: u64) -> Value {
    json!({
        "reservation_id": "r", "status": status, "quantity": quantity, "version": if status == "active" { 1 } else { 2 },
        "owner_id": reserve(1, 3, None).owner(),
        "lines": [{"sku": "b", "quantity": quantity, "requested_quantity": quantity}],
        "expires_at": format!("2026-01-01T00:00:{second:02}.000Z"), "max_expires_at": "2026-01-02T00:00:00.000Z",
        "closed_at": "2026-01-01T00:00:30.000Z",
    })
}

fn known() -> KnownReservation {
    KnownReservation::new(&reserve(1, 3, None), made_by(), &answer("active", 20, 3), &stock()).unwrap()
}

fn agrees(mut known: KnownReservation, answer: &Value) -> bool {
    Shown::read(answer, &stock()).and_then(|shown| known.check(&shown)).is_ok()
}

fn with(mut answer: Value, name: &str, value: Value) -> Value {
    answer[name] = value;
    answer
}

#[test]
fn what_agrees_is_accepted() {
    assert!(agrees(known(), &answer("active", 20, 3)));
    assert!(agrees(known(), &answer("expired", 20, 3)));
}

#[test]
fn every_broken_promise_is_seen() {
    let broken = [
        answer("confirmed", 20, 3),
        answer("active", 19, 3),
        answer("active", 21, 3),
        answer("active", 20, 2),
        answer("expired", 31, 3),
        with(answer("active", 20, 3), "version", json!(2)),
        with(answer("expired", 20, 3), "version", json!(1)),
        with(answer("active", 20, 3), "owner_id", json!("another")),
        with(answer("active", 20, 3), "customer_id", json!("a customer")),
        with(answer("active", 20, 3), "split_into", json!(["other"])),
        with(
            answer("active", 20, 3),
            "payment",
            json!({"payment_id": "p", "state": "open", "until": "2026-01-01T00:00:20.000Z"}),
        ),
    ];
    for answer in broken {
        assert!(!agrees(known(), &answer), "{answer}");
    }
    let mut settled = known();
    settled.state = ReservationState::Confirmed;
    assert!(!agrees(settled, &answer("cancelled", 20, 3)));
}

#[test]
fn a_grant_of_something_else_is_seen() {
    let asked = reserve(1, 4, None);
    assert!(KnownReservation::new(&asked, made_by(), &answer("active", 20, 3), &stock()).is_err());
}

#[test]
fn a_window_that_was_closed_may_have_lapsed_before() {
    let mut known = known();
    let before = known.deadline;
    known.version = 3;
    known.deadline = Deadline { from: before.from, to: before.to + 60_000 };
    known.payment = Some(KnownPayment { id: "p".to_owned(), state: WindowState::Ended, until: None, before });
    let shown = |status, second, version: u64, state| {
        let payment = json!({"payment_id": "p", "state": state, "until": "2026-01-01T00:00:19.000Z"});
        with(with(answer(status, second, 3), "version", json!(version)), "payment", payment)
    };
    assert!(agrees(known.clone(), &shown("active", 45, 3, "closed")));
    assert!(agrees(known.clone(), &shown("expired", 25, 4, "closed")));
    assert!(agrees(known.clone(), &shown("expired", 20, 3, "lapsed")));
    for broken in [
        shown("active", 45, 3, "open"),
        shown("active", 45, 3, "lapsed"),
        shown("active", 45, 4, "closed"),
        shown("active", 19, 3, "closed"),
        shown("expired", 25, 5, "closed"),
    ] {
        assert!(!agrees(known.clone(), &broken), "{broken}");
    }
}

fn seats(units: &[(&str, u64, bool)], returned: u64) -> Value {
    let units: Vec<_> = units
        .iter()
        .map(|(id, version, returned)| json!({"unit_id": id, "version": version, "returned": returned}))
        .collect();
    let line = json!({
        "sku": "hall", "quantity": 2, "requested_quantity": 2, "returned_quantity": returned, "units": units,
    });
    with(with(answer("active", 20, 2), "lines", json!([line])), "quantity", json!(2))
}

#[test]
fn seats_that_were_named_are_those_that_are_granted() {
    let granted = |first_seat, units: &[&str]| {
        let units: Vec<_> = units.iter().map(|id| (*id, 1, false)).collect();
        let request = reserve(2, 2, first_seat);
        KnownReservation::new(&request, made_by(), &seats(&units, 0), &stock()).is_ok()
    };
    assert!(granted(None, &["s-4", "s-7"]));
    assert!(granted(Some(4), &["s-4", "s-5"]) && granted(Some(9), &["s-0", "s-9"]));
    assert!(!granted(Some(4), &["s-4", "s-7"]) && !granted(Some(4), &["s-4", "s-4"]));
}

#[test]
fn units_stay_the_same_and_never_go_back() {
    let told = seats(&[("s-1", 2, false), ("s-2", 5, false)], 0);
    let known = KnownReservation::new(&reserve(2, 2, Some(1)), made_by(), &told, &stock()).unwrap();
    assert!(agrees(known.clone(), &seats(&[("s-1", 3, false), ("s-2", 5, false)], 0)));
    let broken = [
        seats(&[("s-1", 2, false), ("s-3", 5, false)], 0),
        seats(&[("s-1", 2, false), ("s-2", 4, false)], 0),
        seats(&[("s-1", 2, false)], 0),
        seats(&[("s-1", 2, true), ("s-2", 5, false)], 0),
    ];
    for answer in broken {
        assert!(!agrees(known.clone(), &answer), "{answer}");
    }
}
