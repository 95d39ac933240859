//! Records: put and delete if the version is the expected one.

use crate::table::{check, instant, record_key};
use stockhold_domain::{
    Command, Effects, KeyTarget, RecordChange, RecordValue, Resource, SetRecord, Transition, footprint,
    limits,
};

#[test]
fn a_record_changes_only_from_the_version_that_is_expected() {
    check(
        "
        0 record api_key/a one expect=1        -> record_changed v=0
        0 record api_key/a one expect=0        -> record one v=1
        0 record api_key/a two expect=0        -> record_changed v=1
        0 record api_key/a two expect=2        -> record_changed v=1
        0 record api_key/a two expect=1        -> record two v=2
        0 record api_key/b one expect=0        -> record one v=1
        0 record signing_key/a one expect=0    -> record one v=1
        0 record api_key/a - expect=1          -> record_changed v=2
        0 record api_key/a - expect=2          -> deleted v=3
        0 record api_key/a - expect=3          -> record_changed v=0
        ",
    );
}

/// The clock has no part in it: it stands still here, and runs back.
#[test]
fn a_version_is_never_used_twice_by_an_id() {
    check(
        "
        9 record api_key/a one expect=0        -> record one v=1
        9 record api_key/a - expect=1          -> deleted v=2
        5 record api_key/a one expect=2        -> record_changed v=0
        5 record api_key/a one expect=0        -> record one v=3
        5 record api_key/a two expect=1        -> record_changed v=3
        5 record api_key/a - expect=3          -> deleted v=4
        5 record api_key/a one expect=0        -> record one v=5
        ",
    );
}

#[test]
fn what_is_not_there_is_not_deleted() {
    let played = check(
        "
        0 record api_key/a - expect=0          -> invalid_request /expected_version
        0 record api_key/b one expect=0        -> record one v=1
        0 record api_key/b - expect=1          -> deleted v=2
        0 record api_key/b - expect=0          -> invalid_request /expected_version
        ",
    );
    assert!(!played.shop.records.contains_key(&record_key("api_key/a")));
}

#[test]
fn a_replay_shows_the_record_as_it_is_now() {
    check(
        "
        0 record api_key/a one expect=0 key=k  -> record one v=1
        0 record api_key/a one expect=0 key=k  -> again record one v=1
        0 record api_key/a other expect=0 key=k -> idempotency_mismatch
        0 record api_key/a two expect=1 key=l  -> record two v=2
        0 record api_key/a one expect=0 key=k  -> again record two v=2
        0 record api_key/a - expect=2 key=m    -> deleted v=3
        0 record api_key/a one expect=0 key=k  -> again deleted v=3
        0 record api_key/a one expect=9 key=n  -> record_changed v=0
        0 record api_key/a two expect=0 key=n  -> record two v=4
        ",
    );
}

#[test]
fn the_event_has_the_record_as_it_became_and_what_it_means() {
    let mut played = check("0 record api_key/a one expect=0 created -> record one v=1");
    let mut effects = Effects::default();
    played.run_in("record api_key/a - expect=1 revoked key=k", instant("7"), &mut effects);
    let [event] = &effects.events[..] else { panic!("{effects:?}") };
    let Transition::Record { change, record } = &event.transition else { panic!("{event:?}") };
    assert_eq!((*change, record.version, &record.value), (RecordChange::KeyRevoked, 2, &None));
    assert_eq!((event.at, event.previous), (instant("7"), None));
    assert_eq!(effects.keys[0].target, KeyTarget::Record(record_key("api_key/a")));
}

#[test]
fn its_footprint_is_the_record_also_by_a_used_key() {
    let mut played = check("0 record api_key/a one expect=0 key=k -> record one v=1");
    for (line, name) in [
        ("record signing_key/b one expect=0", "signing_key/b"),
        ("record api_key/a one expect=0 key=k", "api_key/a"),
    ] {
        let envelope = played.envelope(line);
        let mut names = Vec::new();
        footprint(&played.shop, &envelope, &mut names);
        names.retain(|name| !matches!(name, Resource::Key(_)));
        assert_eq!(names, [Resource::Record(record_key(name))], "{line}");
    }
}

#[test]
fn a_large_value_weighs_as_much_as_its_lines_would() {
    let mut played = check("");
    let mut envelope = played.envelope("record api_key/a one expect=0");
    envelope.command = Command::SetRecord(SetRecord {
        key: record_key("api_key/a"),
        expected_version: 0,
        value: Some(RecordValue::new(&vec![7; limits::RECORD_BYTES]).unwrap()),
        change: RecordChange::Silent,
    });
    let mut effects = Effects::default();
    let rules = played.rules.clone();
    stockhold_domain::decide(&mut played.shop, &rules, &envelope, instant("0"), &mut effects).unwrap();
    assert_eq!(effects.lines(), 512);
    assert!(!format!("{effects:?} {envelope:?}").contains("7, 7"), "no value is printed");
}
