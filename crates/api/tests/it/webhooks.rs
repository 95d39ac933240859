//! Webhook endpoints: how requests are read, and what is never shown.

use crate::samples::{ID, label, refused, written};
use stockhold_api::decode::{self, EventBound};
use stockhold_api::encode;
use stockhold_api::resources::deliveries::{DeliveriesQuery, DeliveryStatus};
use stockhold_api::resources::sinks::Sink;
use stockhold_api::resources::webhooks::{NewWebhook, WebhookSecret};
use stockhold_api::sink_record::SinkRecord;
use stockhold_api::webhook_record::{EndpointSecret, StoredSecret, WebhookRecord, WebhookStatus};
use stockhold_domain::Patch;
use stockhold_service::WebhookSecret as SecretText;

#[test]
fn the_meaning_of_a_request_has_the_same_bytes_as_ever() {
    let meaning =
        |body: &[u8]| String::from_utf8(decode::create_webhook(None, body).unwrap().meaning()).unwrap();
    assert_eq!(
        meaning(br#"{"url":"https://a","idempotency_key":"k"}"#),
        r#"["https://a",null,null,null,null]"#
    );
    assert_eq!(
        meaning(br#"{"rate_limit":5,"locations":["hub"],"skus":[],"types":["sale.*"],"url":"https://a"}"#),
        r#"["https://a",["sale.*"],[],["hub"],5]"#
    );
    let rotation = |body: &[u8]| {
        let (id, request) = decode::rotate_webhook("w", None, body).unwrap();
        String::from_utf8(request.meaning(&id)).unwrap()
    };
    assert_eq!(rotation(b""), r#"["w",86400]"#);
    assert_eq!(rotation(br#"{"overlap_seconds":0}"#), r#"["w",0]"#);
}

#[test]
fn a_change_keeps_clears_or_sets() {
    let change = |body: &[u8]| decode::update_webhook("w", None, body).unwrap().1;
    for (body, rate_limit) in [
        (&b"{}"[..], Patch::Keep),
        (br#"{"rate_limit":null}"#, Patch::Clear),
        (br#"{"rate_limit":7}"#, Patch::Set(7)),
    ] {
        assert_eq!(change(body).rate_limit, rate_limit);
    }
    let mut record = record();
    change(br#"{"rate_limit":null,"skus":["cup"],"status":"disabled"}"#).apply(&mut record);
    assert_eq!((record.rate_limit, &*record.url), (None, "https://shop.example/hook?key=1"));
    assert_eq!((record.skus, record.types), (vec!["cup".to_owned()], vec!["sale.*".to_owned()]));
    assert_eq!(record.status, WebhookStatus::Disabled);
    refused(
        decode::update_webhook(
            "w",
            None,
            br#"{"url":null,"types":["sale.*","sold"],"rate_limit":0,"status":"on","hue":1}"#,
        ),
        &[
            ("/url", "must be an address like https://shop.example/hook, found null"),
            (
                "/types/1",
                "must be a type of events or a pattern like reservation.*; the types are reservation.",
            ),
            ("/rate_limit", "must be a whole number from 1 to 1,000,000, found 0"),
            ("/status", "must be \"enabled\" or \"disabled\", found \"on\""),
            (
                "/hue",
                "is not a field here; the fields are `url`, `types`, `skus`, `locations`, `rate_limit`, `status`",
            ),
        ],
    );
}

#[test]
fn ranges_and_pages() {
    let replay = |body: &[u8]| decode::replay_webhook("w", None, body).map(|(_, range)| range);
    let range = replay(br#"{"from_position":3,"to_position":9,"only":"failed"}"#).unwrap();
    assert_eq!((range.from, range.to), (EventBound::Position(3), Some(EventBound::Position(9))));
    assert!(range.only_failed);
    refused(replay(b"{}"), &[("", "must have from_position or since")]);
    let two = br#"{"from_position":3,"to_position":9,"until":"2027-01-31T12:00:00Z"}"#;
    refused(replay(two), &[("/until", "must be left out beside to_position")]);
    let page = |query| decode::deliveries(ID, Some(query)).map(|(_, query)| query);
    let DeliveriesQuery { status, .. } = page("status=failed").unwrap();
    assert_eq!(status, Some(DeliveryStatus::Failed));
    let next = page("starting_after=12&limit=7").unwrap();
    assert_eq!((next.before(), next.page_size()), (Some(12), 7));
    let what = "must be the next_cursor of a page of this list, found \"0\"";
    refused(page("starting_after=0"), &[("/starting_after", what)]);
}

#[test]
fn a_secret_is_written_and_not_in_debug() {
    let secret = SecretText::from_bytes(&[7; 32]);
    let new = NewWebhook::of(label("w").as_str(), &record(), Some(&secret));
    let rotated = WebhookSecret::of(Some(&secret));
    for (json, debug) in [
        (written(|out| encode::shape(out, &new)), format!("{new:?}")),
        (written(|out| encode::shape(out, &rotated)), format!("{rotated:?}")),
    ] {
        assert!(json.ends_with(&format!(r#""secret":"{}"}}"#, secret.reveal())), "{json}");
        assert!(!debug.contains("whsec_"), "{debug}");
    }
    assert_eq!(written(|out| encode::shape(out, &WebhookSecret::of(None))), "{}");
}

#[test]
fn a_lag_has_three_digits_behind_the_point() {
    let lag = |millis| {
        let sink = Sink::of("ledger", &SinkRecord::default(), 2, std::time::Duration::from_millis(millis));
        written(|out| encode::shape(out, &sink))
    };
    assert_eq!(
        lag(12_400),
        r#"{"name":"ledger","kind":"","state":"standby","position":0,"lag_events":2,"lag_seconds":12.400}"#
    );
    assert!(lag(0).ends_with(r#""lag_seconds":0.000}"#), "{}", lag(0));
}

fn record() -> WebhookRecord {
    let secret = StoredSecret::Clear(SecretText::from_bytes(&[8; 32]));
    WebhookRecord {
        url: "https://shop.example/hook?key=1".to_owned(),
        types: vec!["sale.*".to_owned()],
        skus: Vec::new(),
        locations: Vec::new(),
        rate_limit: Some(10),
        status: WebhookStatus::Enabled,
        disabled_reason: None,
        secrets: vec![EndpointSecret { secret, ends_at: None }],
        created_at: 1,
        updated_at: 1,
        enabled_after: 7,
        scopes: Vec::new(),
    }
}
