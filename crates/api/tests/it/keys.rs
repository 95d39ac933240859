//! API keys: how requests are read, and what answers and events show.

use crate::samples::{at, label, refused, written};
use stockhold_api::decode;
use stockhold_api::resources::keys::{ApiKey, NewApiKey as ShownKey};
use stockhold_api::{EventType, cursor, encode, wire};
use stockhold_domain::{
    Event, EventId, Instant, Origin, Record, RecordChange, RecordKey, RecordKind, RecordValue, RequestId,
    Transition,
};
use stockhold_service::{KeyId, KeyRecord, NewApiKey, NewKeySpec, Principal, create_key};
use stockhold_store::EventRow;

const ID: &str = "key_000102030405060708090a0b0c0d0e0f";

fn full() -> NewKeySpec {
    NewKeySpec {
        name: "Shop \"1\"".to_owned(),
        principal: "shop".to_owned(),
        scopes: vec!["inventory:read".to_owned(), "events:read".to_owned()],
        locations: Some(vec!["hub".to_owned()]),
        channels: Some(vec!["web".to_owned(), "app".to_owned()]),
        own_reservations_only: true,
        expires_at: Some(Instant::from_millis(4_102_358_400_500)),
        allowed_cidrs: Some(vec!["192.0.2.0/24".to_owned()]),
        rate_limit: Some((5, 9)),
    }
}

fn made() -> (KeyRecord, NewApiKey) {
    create_key(&Principal::root(), &full(), at(0)).unwrap()
}

#[test]
fn a_request_for_a_key() {
    let body = br#"{"name":"Shop \"1\"","principal":"shop","scopes":["inventory:read","events:read"],"locations":["hub"],
        "channels":["web","app"],"own_reservations_only":true,"expires_at":"2099-12-31T01:00:00.5+01:00",
        "allowed_cidrs":["192.0.2.0/24"],"rate_limit":{"per_second":5,"burst":9},"idempotency_key":"k"}"#;
    let read = decode::create_key(None, body).unwrap();
    assert_eq!((&read.spec(), read.idempotency_key.as_deref()), (&full(), Some("k")));
    let least = decode::create_key(None, br#"{"name":"n","principal":"p","scopes":["x"]}"#).unwrap();
    let bare = NewKeySpec {
        name: "n".to_owned(),
        principal: "p".to_owned(),
        scopes: vec!["x".to_owned()],
        ..NewKeySpec::default()
    };
    assert_eq!((least.spec(), least.idempotency_key), (bare, None));
}

#[test]
fn requests_that_are_wrong() {
    refused(
        decode::create_key(None, b"{}"),
        &[("/name", "is required"), ("/principal", "is required"), ("/scopes", "is required")],
    );
    let nested =
        br#"{"name":"n","principal":"p","scopes":["events:read"],"rate_limit":{"per_second":2,"burst":1.0}}"#;
    let faults = decode::create_key(None, nested).unwrap_err().errors;
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(&*faults[0].pointer, "/rate_limit/burst");
    let body = br#"{"name":"","principal":"p","scopes":"x","expires_at":"tomorrow","rate_limit":{"per_second":0},"digest":"d"}"#;
    refused(
        decode::create_key(Some("x=1"), body),
        &[
            ("/x", "is not known"),
            ("/name", "must not be empty"),
            ("/scopes", "must be an array, found \"x\""),
            (
                "/expires_at",
                "must be a time like 2027-01-31T12:00:00Z (RFC 3339), from 1970 on, found \"tomorrow\"",
            ),
            ("/rate_limit/per_second", "must be a whole number from 1 to 1,000,000, found 0"),
            ("/digest", "is not a field here"),
        ],
    );
    refused(
        decode::roll_key(ID, None, br#"{"expire_old_in_seconds":2592001}"#),
        &[("/expire_old_in_seconds", "must be a whole number of seconds from 0 to 2,592,000, found 2592001")],
    );
    refused(decode::key("key_7", None), &[("/key_id", "found \"key_7\"")]);
    let (_, secret) = made();
    let invalid = decode::key(secret.reveal(), None).unwrap_err();
    assert!(!invalid.errors[0].detail.contains("sh_live_"), "a key in a path is not repeated");
}

#[test]
fn rolls_and_pages() {
    let id = KeyId::parse(ID).unwrap();
    let (key_id, plain) = decode::roll_key(ID, None, b"").unwrap();
    assert_eq!((key_id, plain.expire_old_in_seconds, plain.idempotency_key), (id, 0, None));
    let (_, longest) = decode::roll_key(ID, None, br#"{"expire_old_in_seconds":2592000}"#).unwrap();
    assert_eq!(longest.expire_old_in_seconds, 2_592_000);
    assert_eq!(decode::keys(None), Ok((None, 50)));
    let query = format!("limit=2&starting_after={}", cursor::of_key(id));
    assert_eq!(decode::keys(Some(&query)), Ok((Some(id), 2)));
    refused(decode::keys(Some("starting_after=7")), &[("/starting_after", "must be the next_cursor")]);
}

/// Another order and another notation mean the same. Everything else is another request.
#[test]
fn the_meaning_of_a_request() {
    let meaning = |members: &str| {
        let body = format!(r#"{{"name":"n","principal":"p",{members}}}"#);
        decode::create_key(None, body.as_bytes()).unwrap().meaning()
    };
    let base = meaning(r#""scopes":["a","b"],"expires_at":"2099-12-31T00:00:00Z""#);
    assert_eq!(base, meaning(r#""expires_at":"2099-12-31T01:00:00.000+01:00","scopes":["b","a","b"]"#));
    assert_eq!(
        base,
        meaning(r#""scopes":["a","b"],"expires_at":"2099-12-31T00:00:00Z","idempotency_key":"k""#)
    );
    let others = [
        r#""scopes":["a"]"#,
        r#""scopes":["a","b"]"#,
        r#""scopes":["a"],"locations":["x"]"#,
        r#""scopes":["a"],"channels":["x"]"#,
        r#""scopes":["a"],"allowed_cidrs":["x"]"#,
        r#""scopes":["a"],"own_reservations_only":true"#,
        r#""scopes":["a"],"rate_limit":{"per_second":1,"burst":2}"#,
        r#""scopes":["a"],"rate_limit":{"per_second":2,"burst":1}"#,
        r#""scopes":["a"],"expires_at":"2099-12-31T00:00:00Z""#,
    ];
    let all: Vec<_> = others.iter().map(|members| meaning(members)).collect();
    for (number, one) in all.iter().enumerate() {
        assert!(*one != base && !all[..number].contains(one), "{}", others[number]);
    }
    let roll = |body: &str| {
        let (id, request) = decode::roll_key(ID, None, body.as_bytes()).unwrap();
        request.meaning(id)
    };
    assert_eq!(roll(""), roll(r#"{"expire_old_in_seconds":0}"#));
    assert_ne!(roll(""), roll(r#"{"expire_old_in_seconds":1}"#));
}

#[test]
fn a_key_is_shown_without_its_digest_and_once_with_itself() {
    let (key, text) = made();
    let digest = text.digest().to_hex();
    let shown = written(|out| encode::shape(out, &ApiKey::from(&key)));
    let expected = format!(
        concat!(
            r#"{{"key_id":"{}","name":"Shop \"1\"","principal":"shop","scopes":["inventory:read","events:read"],"#,
            r#""locations":["hub"],"channels":["app","web"],"own_reservations_only":true,"#,
            r#""allowed_cidrs":["192.0.2.0/24"],"rate_limit":{{"per_second":5,"burst":9}},"#,
            r#""created_at":"2023-11-14T22:13:20.000Z","expires_at":"2099-12-31T00:00:00.500Z"}}"#
        ),
        key.key_id
    );
    assert_eq!(shown, expected);
    let once = written(|out| encode::shape(out, &ShownKey::of(&key, Some(&text))));
    assert_eq!(once, format!(r#"{},"key":"{}"}}"#, &shown[..shown.len() - 1], text.reveal()));
    assert!(!once.contains(&digest[32..]), "the id is the first half of the digest");
}

fn row(change: RecordChange, value: &[u8]) -> EventRow {
    let key = RecordKey { kind: RecordKind::ApiKey, id: label(ID) };
    let record = Record { key, version: 1, value: Some(RecordValue::new(value).unwrap()) };
    let origin =
        Origin { actor: label("root"), key_id: None, request_id: RequestId::Given(label("r")), trace: None };
    let transition = Transition::Record { change, record };
    EventRow {
        position: 3,
        event: Event { id: EventId::from_u128(1), at: at(0), origin, previous: None, transition },
    }
}

#[test]
fn events_of_keys() {
    let (key, text) = made();
    let digest = text.digest().to_hex();
    for (change, kind) in [
        (RecordChange::KeyCreated, "access.key_created"),
        (RecordChange::KeyRolled, "access.key_rolled"),
        (RecordChange::KeyRevoked, "access.key_revoked"),
    ] {
        let event = row(change, &key.to_bytes());
        assert!(EventType::of(&event.event).unwrap().name().starts_with("access.key_"));
        let json = written(|out| encode::event(out, &event));
        let read: wire::Event = serde_json::from_str(&json).unwrap();
        assert_eq!((&*read.kind, read.key_id.as_deref()), (kind, Some(ID)));
        assert!(json.contains(r#""scopes":["inventory:read","events:read"]"#), "{json}");
        assert!(json.contains(r#""rate_limit":{"per_second":5,"burst":9}"#), "{json}");
        assert!(!json.contains(&digest[..32]) && !json.contains(&digest[32..]), "{json}");
        let unreadable = written(|out| encode::event(out, &row(change, b"a secret")));
        assert!(unreadable.contains(ID) && !unreadable.contains("secret"), "{unreadable}");
    }
    let silent = row(RecordChange::Silent, &key.to_bytes());
    assert!(EventType::of(&silent.event).is_none(), "bookkeeping is for nobody");
    assert!(!written(|out| encode::event(out, &silent)).contains("shop"));
}
