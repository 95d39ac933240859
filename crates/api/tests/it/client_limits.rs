//! The client's calls on limits, and `override_limits` in its requests, against the server that remembers the requests.

use crate::client::{Act, answer, refusal, server};
use crate::samples::{ID, hold, id, item, key, label};
use std::num::NonZeroU32;
use std::time::Duration;
use stockhold_api::client::{At, Change, Client, Error};
use stockhold_api::encode::List;
use stockhold_api::resources::limits::{LimitUsageQuery, LimitsQuery};
use stockhold_api::wire::{
    Amendment, Command, Confirmation, Event, EventLimit, ExceededLimit, LimitItem, LimitRequest, LineLimit,
    MergeRequest, Recipient, RequestedLine, Terms,
};
use stockhold_api::{decode, encode};
use stockhold_domain::{
    CounterKey, EventId, Hold, HoldChange, Label, Limit, LimitCounter, LimitEffects, LimitTarget,
    LimitedUnits, Line, LineCount, LineDetails, Origin, RequestId, ReservationId, SubjectKind, Transition,
};
use stockhold_store::EventRow;

const LIMIT_ID: &str = "drop 7/each";

/// The terms that the client sends.
fn terms() -> LimitRequest {
    let item = |sku: Option<&str>, location: Option<&str>| LimitItem {
        sku: sku.map(label),
        location: location.map(label),
    };
    LimitRequest {
        items: vec![item(Some("tee-s"), None), item(None, Some("hub 9")), item(Some("tea"), Some("hub 9"))],
        channels: Some(vec![label("web")]),
        per: Some(SubjectKind::Customer),
        limit: 2,
        counts: LimitedUnits::Held,
    }
}

/// The same terms as the server has them.
fn limit() -> Limit {
    Limit {
        id: label(LIMIT_ID),
        version: 3,
        generation: 2,
        terms: Some(
            stockhold_domain::LimitTerms {
                targets: [
                    LimitTarget::Sku(label("tee-s")),
                    LimitTarget::Location(label("hub 9")),
                    LimitTarget::Item(key("hub 9", "tea")),
                ]
                .into(),
                channels: [label("web")].into(),
                per: Some(SubjectKind::Customer),
                limit: 2,
                counts: LimitedUnits::Held,
            }
            .into(),
        ),
    }
}

#[tokio::test]
async fn limits_go_out_as_the_routes_want_them_and_come_back() {
    let counter = LimitCounter { held: 1, sold: 4 };
    let usage = move |out: &mut Vec<u8>| encode::limit_usage(out, &limit(), Some(&label("ann")), counter);
    let page = |put: &dyn Fn(&mut Vec<u8>)| {
        answer(200, |out| {
            let mut list = List::open(out, "data");
            put(list.entry(out));
            list.close_page(out, true, Some("c0"));
        })
    };
    let one = || answer(200, |out| encode::limit(out, &limit()));
    let server = server(vec![
        one(),
        one(),
        page(&|out| encode::limit(out, &limit())),
        answer(200, usage),
        answer(200, |out| encode::limit_usage(out, &limit(), None, counter)),
        page(&usage),
        answer(204, |_| {}),
    ]);
    let client = Client::new(&server.base).unwrap();
    let set = client.put_limit(LIMIT_ID, &terms(), Some(7)).await.unwrap();
    assert_eq!((set.limit_id.as_str(), set.version, set.generation), (LIMIT_ID, 3, 2));
    assert_eq!(set.terms, terms());
    assert_eq!(client.limit(LIMIT_ID).await.unwrap(), set);
    let listed =
        client.limits(&LimitsQuery { limit: Some(2), starting_after: Some("c/1".to_owned()) }).await.unwrap();
    assert_eq!((&listed.data[..], listed.next_cursor.as_deref()), (&[set][..], Some("c0")));
    let third =
        LimitUsageQuery { limit: Some(1), starting_after: Some("c/2".to_owned()), ..Default::default() };
    let anns = client.limit_usage(LIMIT_ID, Some("ann & bob")).await.unwrap();
    assert_eq!((anns.subject.as_ref().map(Label::as_str), anns.limit, anns.used), (Some("ann"), 2, 1));
    let shared = client.limit_usage(LIMIT_ID, None).await.unwrap();
    assert_eq!((shared.subject, shared.held, shared.sold), (None, 1, 4));
    let all = client.limit_usage_page(LIMIT_ID, &third).await.unwrap();
    assert_eq!((&all.data[..], all.has_more), (&[anns][..], true));
    client.delete_limit(LIMIT_ID, Some(8)).await.unwrap();

    let asked = server.asked.lock().unwrap();
    let path = "/v1/limits/drop%207%2Feach";
    let lines = [
        format!("PUT {path}"),
        format!("GET {path}"),
        "GET /v1/limits?limit=2&starting_after=c%2F1".to_owned(),
        format!("GET {path}/usage?subject=ann%20%26%20bob"),
        format!("GET {path}/usage"),
        format!("GET {path}/usage?limit=1&starting_after=c%2F2"),
        format!("DELETE {path}"),
    ];
    let found: Vec<_> = asked.iter().map(|asked| &*asked.line).collect();
    assert_eq!(found, lines.map(|line| line + " HTTP/1.1"));
    let versions = [Some("\"7\""), None, None, None, None, None, Some("\"8\"")];
    assert!(asked.iter().zip(versions).all(|(asked, version)| asked.if_match.as_deref() == version));
    assert!(asked.iter().all(|asked| asked.key.is_none()), "{asked:?}");
    assert_eq!(
        asked[0].body,
        r#"{"items":[{"sku":"tee-s"},{"location":"hub 9"},{"sku":"tea","location":"hub 9"}],"channels":["web"],"per":"customer","limit":2,"counts":"held"}"#
    );
    let read = decode::set_limit("drop-7", None, None, asked[0].body.as_bytes()).unwrap();
    assert!(
        matches!(read, stockhold_domain::Command::SetLimit(set) if Some(&set.terms) == limit().terms.as_deref())
    );
}

#[tokio::test]
async fn a_limit_with_a_version_is_sent_once_and_without_one_again() {
    let patience = NonZeroU32::new(3).unwrap();
    let silent = server(vec![Act::HangUp]);
    let client = Client::new(&silent.base).unwrap().with_patience(patience, Duration::from_mins(1));
    let mut before = 0;
    for (version, expected) in [(Some(1), 1), (None, 3)] {
        for set in [true, false] {
            let tries = if set {
                client.put_limit("l", &terms(), version).await.map(drop)
            } else {
                client.delete_limit("l", version).await
            };
            assert!(matches!(tries, Err(Error::Unreachable { tries, .. }) if tries == expected), "{tries:?}");
            before += usize::try_from(expected).unwrap();
            assert_eq!(silent.asked.lock().unwrap().len(), before);
        }
    }
}

#[tokio::test]
async fn requests_say_that_they_pass_limits_by() {
    let server = server(vec![answer(200, |out| encode::reservation(out, &hold()))]);
    let client = Client::new(&server.base).unwrap();
    let other = ReservationId::from_u128(7);
    let reserve = Terms { owner_id: "o".to_owned(), override_limits: true, ..Terms::default() };
    let tea = RequestedLine { sku: "tea".to_owned(), location: None, quantity: 1 };
    let any = Change::default();
    let (amendment, recipient, merge, confirmation) = (
        Amendment { override_limits: true, ..Amendment::default() },
        Recipient { owner_id: Some("p".to_owned()), override_limits: true, ..Recipient::default() },
        MergeRequest { from: vec![other], override_limits: true },
        Confirmation { reacquire: true, override_limits: true, ..Confirmation::default() },
    );
    client.reserve(At { sku: "tea", location: None }, 1, &reserve, None).await.unwrap();
    client.reserve_basket(std::slice::from_ref(&tea), &reserve, None).await.unwrap();
    client.amend(id(), &amendment, any).await.unwrap();
    client.transfer(id(), &recipient, any).await.unwrap();
    client.merge(id(), &merge, any).await.unwrap();
    client.confirm_as(id(), &confirmation, None).await.unwrap();
    let asked = server.asked.lock().unwrap();
    let bodies: Vec<&str> = asked.iter().map(|asked| &*asked.body).collect();
    assert_eq!(
        bodies,
        [
            r#"{"quantity":1,"owner_id":"o","override_limits":true}"#,
            r#"{"lines":[{"sku":"tea","quantity":1}],"owner_id":"o","override_limits":true}"#,
            r#"{"override_limits":true}"#,
            r#"{"owner_id":"p","override_limits":true}"#,
            &format!(r#"{{"from":["{other}"],"override_limits":true}}"#),
            r#"{"if_expired":"reacquire","override_limits":true}"#,
        ]
    );
    // The command of a batch is the same.
    let command = Command::Merge { reservation_id: id(), merge, if_version: None, idempotency_key: None };
    assert_eq!(
        serde_json::to_string(&command).unwrap(),
        format!(r#"{{"op":"merge","reservation_id":"{ID}","from":["{other}"],"override_limits":true}}"#)
    );
}

#[tokio::test]
async fn a_refusal_names_the_limits() {
    let Act::Answer(status, headers, body) = refusal(409, "", "limit_exceeded") else { unreachable!() };
    let limits = r#","limits":[{"limit_id":"l","subject":"ann","limit":2,"used":1,"requested":3}]}"#;
    let body = body.strip_suffix('}').unwrap().to_owned() + limits;
    let server = server(vec![Act::Answer(status, headers, body)]);
    let client = Client::new(&server.base).unwrap();
    let tea = At { sku: "tea", location: None };
    match client.reserve(tea, 3, &Terms { owner_id: "o".to_owned(), ..Terms::default() }, None).await {
        Err(Error::Refused(problem)) => {
            let (limit_id, subject) = ("l".to_owned(), Some("ann".to_owned()));
            let expected = ExceededLimit { limit_id, limit: 2, used: 1, requested: 3, subject };
            assert_eq!(problem.limits, [expected]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn events_and_lines_show_limits() {
    let counter_key = CounterKey {
        limit: label("l"),
        generation: 2,
        subject: hold().terms.reserve.subject(Some(SubjectKind::Owner)).unwrap(),
    };
    let owner = hold().terms.reserve.owner_id.clone();
    let counted = vec![LineCount { key: counter_key.clone(), units: 2 }];
    let details = LineDetails { counted, ..LineDetails::default() };
    let mut lines = hold().lines.to_vec();
    lines[0] = Line { details: Some(details.into()), ..lines[0].clone() };
    let hold = Hold { lines: lines.into(), ..hold() };
    let effects = LimitEffects {
        pools: [].into(),
        counters: [(counter_key, LimitCounter { held: 5, sold: 1 })].into(),
        overridden: [label("m")].into(),
    };
    let row = |transition| EventRow {
        position: 7,
        event: stockhold_domain::Event {
            id: EventId::from_u128(1),
            at: hold.terms.created_at,
            origin: Origin {
                actor: label("shop"),
                key_id: None,
                request_id: RequestId::Made(1),
                trace: None,
            },
            previous: None,
            transition,
        },
    };
    let read = |transition| -> Event {
        serde_json::from_str(&crate::samples::written(|out| encode::event(out, &row(transition)))).unwrap()
    };
    let created = read(Transition::Hold {
        change: HoldChange::Created,
        hold: hold.clone(),
        figures: [item().figures, item().figures].into(),
        limits: Some(effects.into()),
    });
    let moved = &created.limit_counters[0];
    assert_eq!((moved.limit_id.as_str(), moved.generation, moved.held, moved.sold), ("l", 2, 5, 1));
    assert_eq!(moved.subject.as_ref(), Some(&owner));
    assert_eq!(created.limits_overridden, ["m"]);
    let expected = LineLimit { limit_id: label("l"), generation: 2, subject: Some(owner), quantity: 2 };
    assert_eq!(&created.lines[0].limits[..], std::slice::from_ref(&expected));
    let shown: stockhold_api::wire::Reservation =
        serde_json::from_str(&crate::samples::written(|out| encode::reservation(out, &hold))).unwrap();
    assert_eq!(shown.lines[0].limits, [expected]);
    let set = read(Transition::Limit { limit: limit() }).limit.unwrap();
    assert_eq!((set.terms, set.generation, set.version), (Some(terms()), Some(2), 3));
    let gone = read(Transition::Limit { limit: Limit { terms: None, version: 4, ..limit() } }).limit;
    let limit_id = label(LIMIT_ID);
    assert_eq!(gone, Some(EventLimit { limit_id, version: 4, generation: None, terms: None }));
}
