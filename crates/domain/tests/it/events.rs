//! What is kept of a reservation's way: a chain of events, and the place of each of its lines among its item's transitions.

use crate::table::{check, id, label};
use stockhold_domain::{EventId, OptionalTerms, Transition};

#[test]
fn each_event_of_a_reservation_names_the_one_before() {
    let played = check(
        "
        0 stock a 9              -> created total=9 available=9 v=1
        0 reserve r a=3 ttl=5    -> active until 5000 a=3
        0 reserve s a=1 ttl=5    -> active until 5000 a=1
        0 reserve t a=1 ttl=5    -> active until 5000 a=1
        1 extend r 9             -> active until 9001 a=3
        2 extend t 9             -> active until 9002 a=1
        3 confirm r              -> confirmed at 3 a=3
        4 return r a=1           -> confirmed at 3 a=3-1
        5 release t              -> cancelled at 5 a=1
        6 return r all           -> confirmed at 3 a=3-3
        5000 confirm s           -> reservation_expired s since 5000
        ",
    );
    for (name, events) in [("r", 5), ("s", 2), ("t", 3)] {
        let mut last = None;
        let mut count = 0;
        for event in &played.events {
            let Transition::Hold { hold, .. } = &event.transition else { continue };
            if hold.id == id(name) {
                assert_eq!(event.previous, last, "{name}");
                assert_eq!(hold.last_event, event.id, "{name}");
                last = Some(event.id);
                count += 1;
            }
        }
        assert_eq!(count, events, "{name}");
        assert_eq!(Some(played.shop.holds[&id(name)].last_event), last, "{name}");
    }
    assert_eq!(played.shop.holds[&id("s")].last_event, EventId::of_expiry(id("s")));
}

#[test]
fn a_line_has_its_items_sequence_at_its_latest_transition() {
    let played = check(
        "
        0 stock a 9                  -> created total=9 available=9 v=1
        0 stock b 9                  -> created total=9 available=9 v=1
        0 adjust b 1                 -> item total=10 available=10 v=2
        0 reserve r a=1,b=2 ttl=5    -> active until 5000 a=1 b=2
        0 reserve s a=1,b=1 ttl=5    -> active until 5000 a=1 b=1
        0 reserve t a=1,b=1 ttl=5    -> active until 5000 a=1 b=1
        0 reserve u a=1,b=1 ttl=9    -> active until 9000 a=1 b=1
        1 extend r 9                 -> active until 9001 a=1 b=2
        2 confirm r                  -> confirmed at 2 a=1 b=2
        3 release s                  -> cancelled at 3 a=1 b=1
        4 return r b=1               -> confirmed at 2 a=1 b=2-1
        5000 sweep                   -> swept 1
        5000 books a                 -> total=9 sold=1 held=1 active=1 seq=8 v=1 at=5000
        5000 books b                 -> total=10 sold=1 held=1 active=1 seq=10 v=2 at=5000
        ",
    );
    for (name, sequences) in [("r", [6, 9]), ("s", [7, 8]), ("t", [8, 10]), ("u", [5, 6])] {
        let lines = played.shop.holds[&id(name)].lines.iter();
        assert_eq!(lines.map(|line| line.sequence).collect::<Vec<_>>(), sequences, "{name}");
    }
}

#[test]
fn a_reservation_keeps_what_its_caller_said_and_has_no_room_for_what_it_did_not() {
    let played = check(
        r#"
        0 stock a 9                                  -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5                        -> active until 5000 a=1
        0 reserve s a=1 ttl=5 channel=app            -> active until 5000 a=1
        0 reserve t a=1 ttl=5 customer=c session=s   -> active until 5000 a=1
        0 reserve u a=1 ttl=5 metadata={"cart":1}    -> active until 5000 a=1
        1 confirm u                                  -> confirmed at 1 a=1
        "#,
    );
    let none = OptionalTerms::default();
    for (name, extras) in [
        ("r", None),
        ("s", Some(OptionalTerms { channel: Some(label("app")), ..none.clone() })),
        (
            "t",
            Some(OptionalTerms {
                customer_id: Some(label("c")),
                session_id: Some(label("s")),
                ..none.clone()
            }),
        ),
        ("u", Some(OptionalTerms { metadata: Some(r#"{"cart":1}"#.into()), ..none.clone() })),
    ] {
        assert_eq!(played.shop.holds[&id(name)].terms.reserve.optional.as_deref(), extras.as_ref(), "{name}");
    }
}
