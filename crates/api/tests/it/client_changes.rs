//! The client's calls that change a reservation, against the server that remembers the requests.

use crate::client::{Act, Asked, answer, refusal, server};
use crate::samples::{ID, full_hold, hold, id};
use stockhold_api::client::{Change, Client, Error};
use stockhold_api::encode;
use stockhold_api::wire::{
    Amendment, Confirmation, MergeRequest, Patch, PaymentWindow, Recipient, RequestedLine, Shipment, Status,
    Wish,
};
use stockhold_domain::ReservationId;

const VERSION_AND_KEY: Change<'static> = Change { version: Some(7), key: Some("k") };

fn reservation() -> Act {
    answer(200, |out| encode::reservation(out, &hold()))
}

fn tea(quantity: u64) -> RequestedLine {
    RequestedLine { sku: "tea".to_owned(), location: Some("hub 9".to_owned()), quantity }
}

fn amendment() -> Amendment {
    let seats = Wish { units: vec!["A 1".to_owned()], ..Wish::default() };
    let seats = stockhold_api::wire::AmendedLine { sku: "hall".to_owned(), location: None, wish: seats };
    Amendment {
        lines: Some(vec![tea(2).into(), seats]),
        partial: true,
        ttl_seconds: Some(60),
        metadata: Some(serde_json::json!({ "gift": true })),
        override_limits: false,
    }
}

fn window() -> PaymentWindow {
    PaymentWindow { payment_id: "pay/1".to_owned(), window_seconds: Some(900) }
}

/// Calls every change once, with a version and a key where it takes them. Stops at the first error.
async fn every_change(client: &Client, change: Change<'_>) -> Result<(), Error> {
    let other = ReservationId::from_u128(7);
    let recipient = Recipient {
        owner_id: Some("ann".to_owned()),
        customer_id: Patch::Set("c-1".to_owned()),
        session_id: Patch::Clear,
        override_limits: false,
    };
    client.amend(id(), &amendment(), change).await?;
    client.transfer(id(), &recipient, change).await?;
    client.split(id(), &[tea(1)], change).await?;
    client.merge(id(), &MergeRequest { from: vec![other], override_limits: false }, change).await?;
    client.open_payment(id(), &window(), change).await?;
    let paid = Confirmation {
        order_id: Some("o-1".to_owned()),
        payment_id: Some("pay/1".to_owned()),
        reacquire: true,
        override_limits: false,
    };
    client.confirm_as(id(), &paid, change.key).await?;
    let shipped = Shipment { lines: Some(vec![tea(1)]), units: None };
    client.fulfil(id(), &shipped, change.key).await?;
    Ok(())
}

/// Method, path and body of the requests of [`every_change`].
fn expected() -> [(&'static str, &'static str, String); 7] {
    let other = ReservationId::from_u128(7);
    [
        (
            "PATCH",
            "",
            r#"{"lines":[{"sku":"tea","location":"hub 9","quantity":2},{"sku":"hall","units":["A 1"]}],"fulfilment":"partial","ttl_seconds":60,"metadata":{"gift":true}}"#
                .to_owned(),
        ),
        ("POST", "/transfer", r#"{"owner_id":"ann","customer_id":"c-1","session_id":null}"#.to_owned()),
        ("POST", "/split", r#"{"lines":[{"sku":"tea","location":"hub 9","quantity":1}]}"#.to_owned()),
        ("POST", "/merge", format!(r#"{{"from":["{other}"]}}"#)),
        ("POST", "/payment", r#"{"payment_id":"pay/1","window_seconds":900}"#.to_owned()),
        (
            "POST",
            "/confirm",
            r#"{"order_id":"o-1","payment_id":"pay/1","if_expired":"reacquire"}"#.to_owned(),
        ),
        ("POST", "/fulfil", r#"{"lines":[{"sku":"tea","location":"hub 9","quantity":1}]}"#.to_owned()),
    ]
}

#[tokio::test]
async fn changes_go_out_as_the_routes_want_them() {
    let server = server(vec![reservation()]);
    let client = Client::new(&server.base).unwrap();
    every_change(&client, VERSION_AND_KEY).await.unwrap();
    let asked = server.asked.lock().unwrap();
    let expected = expected();
    assert_eq!(asked.len(), expected.len());
    for (asked, (method, path, body)) in asked.iter().zip(expected) {
        let takes_version = !matches!(path, "/confirm" | "/fulfil");
        let expected = Asked {
            line: format!("{method} /v1/reservations/{ID}{path} HTTP/1.1"),
            key: Some("\"k\"".to_owned()),
            if_match: takes_version.then(|| "\"7\"".to_owned()),
            content_type: Some("application/json".to_owned()),
            body,
        };
        assert_eq!(*asked, expected);
    }
}

#[tokio::test]
async fn what_a_change_leaves_out_is_not_sent() {
    let server = server(vec![reservation()]);
    let client = Client::new(&server.base).unwrap();
    let change = Change::default();
    client.amend(id(), &Amendment::default(), change).await.unwrap();
    let owner = Recipient { owner_id: Some("ann".to_owned()), ..Recipient::default() };
    client.transfer(id(), &owner, change).await.unwrap();
    let window = PaymentWindow { payment_id: "p".to_owned(), window_seconds: None };
    client.open_payment(id(), &window, change).await.unwrap();
    client.confirm_as(id(), &Confirmation::default(), None).await.unwrap();
    client.fulfil(id(), &Shipment::default(), None).await.unwrap();
    let units = Shipment { lines: None, units: Some(vec!["A 1".to_owned()]) };
    client.fulfil(id(), &units, None).await.unwrap();
    let asked = server.asked.lock().unwrap();
    let bodies: Vec<&str> = asked.iter().map(|asked| &*asked.body).collect();
    assert_eq!(
        bodies,
        ["{}", r#"{"owner_id":"ann"}"#, r#"{"payment_id":"p"}"#, "{}", "{}", r#"{"units":["A 1"]}"#]
    );
    // Each has a key of its own, and none a precondition.
    let mut keys: Vec<_> = asked.iter().map(|asked| asked.key.clone().unwrap()).collect();
    assert!(keys.iter().all(|key| key.len() == 32), "{keys:?}");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), asked.len());
    assert!(asked.iter().all(|asked| asked.if_match.is_none()), "{asked:?}");
}

#[tokio::test]
async fn answers_of_changes_are_read() {
    let server = server(vec![
        answer(201, |out| encode::reservation(out, &hold())),
        answer(200, |out| encode::reservation(out, &full_hold())),
        answer(204, |_| {}),
    ]);
    let client = Client::new(&server.base).unwrap();
    let part = client.split(id(), &[tea(1)], Change::default()).await.unwrap();
    assert_eq!((part.reservation_id, part.status, part.version), (id(), Status::Active, hold().version));
    let sold = client.confirm_as(id(), &Confirmation::default(), None).await.unwrap();
    assert_eq!((sold.status, sold.lines.len()), (Status::Confirmed, full_hold().lines.len()));
    client.close_payment(id(), Some("pay/1"), Some("card declined")).await.unwrap();
    client.close_payment(id(), None, None).await.unwrap();
    let asked = server.asked.lock().unwrap();
    let lines: Vec<&str> = asked[2..].iter().map(|asked| &*asked.line).collect();
    let path = format!("DELETE /v1/reservations/{ID}/payment");
    assert_eq!(
        lines,
        [format!("{path}?payment_id=pay%2F1&reason=card%20declined HTTP/1.1"), format!("{path} HTTP/1.1")]
    );
    assert!(
        asked[2..].iter().all(|asked| asked.body.is_empty() && asked.content_type.is_none()),
        "{asked:?}"
    );
    assert!(asked[2].key.is_some() && asked[2].key != asked[3].key, "{asked:?}");
}

#[tokio::test]
async fn a_change_that_got_no_answer_is_repeated_with_its_key_and_version() {
    let acts = || {
        vec![
            refusal(503, "Retry-After: 0\r\n", "overloaded"),
            Act::HangUp,
            refusal(503, "", "outcome_unknown"),
        ]
    };
    for number in 0..expected().len() {
        let mut all = vec![reservation(); number];
        all.extend(acts());
        all.push(reservation());
        let server = server(all);
        let client = Client::new(&server.base).unwrap();
        every_change(&client, Change { version: Some(7), key: None }).await.unwrap();
        let asked = server.asked.lock().unwrap();
        assert_eq!(asked.len(), expected().len() + 3);
        let tries = &asked[number..number + 4];
        assert!(tries.iter().all(|one| *one == tries[0] && one.key.is_some()), "{tries:?}");
    }
    // A retry must not close a window that was opened since: its key says that it is one.
    let mut all = acts();
    all.push(answer(204, |_| {}));
    let server = server(all);
    let client = Client::new(&server.base).unwrap();
    client.close_payment(id(), None, None).await.unwrap();
    let asked = server.asked.lock().unwrap();
    assert!(asked.len() == 4 && asked.iter().all(|one| *one == asked[0] && one.key.is_some()), "{asked:?}");
}

#[tokio::test]
async fn refusals_of_changes_are_errors_and_are_not_repeated() {
    for (number, (status, reason)) in [
        (412, "precondition_failed"),
        (409, "payment_in_progress"),
        (409, "split_exceeds_held"),
        (409, "reservation_expired"),
        (409, "extension_limit"),
        (409, "reservation_confirmed"),
        (409, "fulfil_exceeds_sold"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut acts = vec![reservation(); number];
        acts.push(refusal(status, "", reason));
        let server = server(acts);
        let client = Client::new(&server.base).unwrap();
        match every_change(&client, VERSION_AND_KEY).await {
            Err(Error::Refused(problem)) => {
                assert_eq!((&*problem.reason, problem.status), (reason, status));
            }
            other => panic!("{reason}: {other:?}"),
        }
        assert_eq!(server.asked.lock().unwrap().len(), number + 1, "{reason}");
    }
    let stranger = server(vec![Act::Answer(200, "", "<html>".to_owned())]);
    let client = Client::new(&stranger.base).unwrap();
    let read = client.amend(id(), &amendment(), Change::default()).await;
    assert!(matches!(read, Err(Error::Unexpected { status: 200, .. })), "{read:?}");
    let unsent = client.amend(id(), &amendment(), Change { version: None, key: Some("a\nb") }).await;
    assert!(matches!(unsent, Err(Error::Unsendable(_))), "{unsent:?}");
    assert_eq!(stranger.asked.lock().unwrap().len(), 1);
}
