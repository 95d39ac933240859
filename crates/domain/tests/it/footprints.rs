//! A store that loads and locks: what a footprint names is enough, or what is missing is said and loaded, and the outcome
//! is the one that all of memory gives.

use crate::shop::{Shop, Slice};
use crate::table::{Played, check, id, instant, item};
use std::collections::BTreeSet;
use stockhold_domain::{
    DecideError, Effects, Envelope, HoldLimits, Instant, Label, NotLoaded, Outcome, Resource, decide,
    footprint,
};

const SHOP: &str = "
    0 stock a 3                       -> created total=3 available=3 v=1
    0 stock b 3                       -> created total=3 available=3 v=1
    0 stock hub/c 3                   -> created total=3 available=3 v=1
    0 reserve r a=1,b=1 ttl=5 key=k   -> active until 5000 a=1 b=1
    0 reserve s b=1,hub/c=1 ttl=9     -> active until 9000 b=1 hub/c=1
    0 reserve t a=1 ttl=60            -> active until 60000 a=1
    0 confirm t key=c                 -> confirmed at 0 a=1
    0 adjust a 1 key=d                -> item total=4 available=2 v=2
    0 record api_key/k one expect=0   -> record one v=1
";

const HALL: &str = "
    0 stock hall - units              -> created total=0 available=0 v=1
    0 add hall a,b,c                  -> added 3 unchanged 0 total=3 v=2
    0 reserve r hall=[c] ttl=5        -> active until 5000 hall=1(c.2)
";

fn names(slice: &Slice, envelope: &Envelope) -> BTreeSet<Resource> {
    let mut names = Vec::new();
    footprint(slice, envelope, &mut names);
    names.into_iter().collect()
}

/// Loads until the footprint is stable, as stores do. Returns how often it was asked.
fn load(slice: &mut Slice, envelope: &Envelope) -> u32 {
    for round in 1.. {
        let names = names(slice, envelope);
        if names.is_subset(&slice.loaded) {
            return round;
        }
        slice.loaded.extend(names);
    }
    unreachable!("a footprint ends")
}

/// Decides over a slice, loading what turns out to be missing; returns the outcome and what was loaded that late.
fn decide_over_slice(shop: &Shop, envelope: &Envelope, now: Instant) -> (Outcome, Shop, Vec<Resource>) {
    let mut loaded = BTreeSet::new();
    let mut late = Vec::new();
    loop {
        let mut slice = Slice { shop: shop.clone(), loaded: loaded.clone(), ..Slice::default() };
        assert!(load(&mut slice, envelope) <= 4, "key, reservation, items, and nothing new");
        let before = slice.loaded.clone();
        let decided = decide(&mut slice, &HoldLimits::default(), envelope, now, &mut Effects::default());
        match decided {
            Ok(outcome) => return (outcome, slice.shop, late),
            Err(DecideError::NotLoaded(NotLoaded(name))) => {
                assert!(!before.contains(&name), "{name:?} was loaded and is missing");
                loaded = before;
                loaded.insert(name.clone());
                late.push(name);
            }
            Err(DecideError::InvariantViolated(what)) => panic!("{what}"),
        }
    }
}

#[test]
fn a_slice_gives_the_same_outcome_as_all_of_memory() {
    let commands = [
        "reserve x a=1 ttl=5",
        "reserve x a=1,b=3,hub/c=2 ttl=5",
        "reserve x a=9,ghost=1",
        "reserve x b=3 ttl=5 partial",
        "reserve x default+hub/c=2,none+default/a=4 ttl=5",
        "reserve x most:default+hub/a=1,single:hub+default/b=2 ttl=5",
        "reserve x a=1,b=1 ttl=5 key=k",
        "confirm r",
        "confirm r key=k2",
        "confirm t key=c",
        "confirm ghost",
        "release r",
        "release s",
        "extend r 60",
        "return t all",
        "return t a=1,hub/c=1",
        "stock a 9",
        "stock new 9",
        "adjust a 1 key=d",
        "adjust ghost 1",
        "pause everything",
        "pause at=hub",
        "pause a",
        "resume everything",
        "sweep",
        "record api_key/k two expect=1 key=e",
        "record api_key/k two expect=0",
        "record api_key/x two expect=0",
    ];
    for at in ["1000", "5000", "9000"] {
        for command in commands {
            let mut played = check(SHOP);
            let envelope = played.envelope(command);
            let (outcome, after, _) = decide_over_slice(&played.shop, &envelope, instant(at));
            let mut whole = played.shop.clone();
            let expected =
                decide(&mut whole, &HoldLimits::default(), &envelope, instant(at), &mut Effects::default());
            assert_eq!(Ok(outcome), expected, "{command} at {at}");
            assert_eq!(after, whole, "{command} at {at}");
        }
    }
}

fn late(played: &mut Played, command: &str, at: &str) -> Vec<Resource> {
    let envelope = played.envelope(command);
    decide_over_slice(&played.shop, &envelope, instant(at)).2
}

#[test]
fn only_holds_that_fall_due_are_loaded_late() {
    let mut played = check(SHOP);
    for command in [
        "reserve x a=1,b=1",
        "reserve x none+default/a=1",
        "confirm r",
        "release s",
        "extend r 9",
        "return t all",
        "adjust a 1",
    ] {
        assert_eq!(late(&mut played, command, "1000"), [], "{command}");
        let due = late(&mut played, command, "9000");
        assert!(
            due.iter().all(|name| matches!(name, Resource::Hold(_) | Resource::Item(_))),
            "{command}: {due:?}"
        );
    }
    let basket_of_others = late(&mut played, "reserve x b=3 ttl=5", "9000");
    let expected = [
        Resource::Hold(id("r")),
        Resource::Item(item("a")),
        Resource::Hold(id("s")),
        Resource::Item(item("hub/c")),
    ];
    assert_eq!(basket_of_others, expected, "the due holds, and their other items");
}

#[test]
fn a_footprint_grows_from_id_to_reservation_to_items_and_then_stays() {
    let mut played = check(SHOP);
    let mut slice = Slice { shop: played.shop.clone(), ..Slice::default() };
    let envelope = played.envelope("confirm r");
    let hold = BTreeSet::from([Resource::Hold(id("r"))]);
    assert_eq!(names(&slice, &envelope), hold, "nothing is loaded");
    slice.loaded.extend(hold);
    let with_items =
        BTreeSet::from([Resource::Hold(id("r")), Resource::Item(item("a")), Resource::Item(item("b"))]);
    assert_eq!(names(&slice, &envelope), with_items, "the reservation is loaded");
    slice.loaded.extend(with_items.clone());
    assert_eq!(names(&slice, &envelope), with_items, "all is loaded");
}

#[test]
fn a_known_key_leads_to_what_it_made_and_nowhere_else() {
    let mut played = check(SHOP);
    let envelope = played.envelope("reserve x hub/c=1 key=k");
    let mut slice = Slice { shop: played.shop.clone(), ..Slice::default() };
    let key = Resource::Key(envelope.key.unwrap().hash);
    assert!(names(&slice, &envelope).contains(&key), "the key itself");
    slice.loaded.insert(key.clone());
    let known = BTreeSet::from([key, Resource::Hold(id("r"))]);
    assert_eq!(names(&slice, &envelope), known, "the reservation, and nothing of the basket");
    let fresh = played.envelope("reserve x hub/c=1,a=1 key=unused");
    let location = |name: &str| Resource::Pause(Some(Label::new(name).unwrap()));
    let expected = BTreeSet::from([
        Resource::Key(fresh.key.unwrap().hash),
        Resource::Pause(None),
        Resource::Limits,
        location("hub"),
        location("default"),
        Resource::Item(item("a")),
        Resource::Due(item("a")),
        Resource::Item(item("hub/c")),
        Resource::Due(item("hub/c")),
    ]);
    assert_eq!(names(&slice, &fresh), expected, "all that a reserve may touch");
}

#[test]
fn a_basket_with_more_units_than_one_may_have_names_none_past_the_limit() {
    let mut played = check(
        "
        0 stock hall - units  -> created total=0 available=0 v=1
        0 stock ring - units  -> created total=0 available=0 v=1
        ",
    );
    for (command, expected) in [
        (
            "reserve x hall=9999,ring=[a]",
            vec![
                Resource::Unit(item("ring"), Label::new("a").unwrap()),
                Resource::FreeUnits(item("hall"), None, 9_999),
            ],
        ),
        ("reserve x hall=9999,ring=[a+b]", vec![Resource::FreeUnits(item("hall"), None, 9_999)]),
        ("reserve x hall=10001,ring=[a]", Vec::new()),
    ] {
        let envelope = played.envelope(command);
        let loaded = [item("hall"), item("ring")].map(Resource::Item).into();
        let slice = Slice { shop: played.shop.clone(), loaded, ..Slice::default() };
        let mut units: Vec<Resource> = names(&slice, &envelope).into_iter().collect();
        units.retain(|name| matches!(name, Resource::Unit(..) | Resource::FreeUnits(..)));
        assert_eq!(units, expected, "{command}");
    }
}

#[test]
fn the_best_are_planned_once_where_nothing_is_due() {
    let mut played = check(HALL);
    for (at, deadlines, plans) in
        [("4999", true, 1), ("5000", true, 2), ("4999", false, 2), ("5000", false, 2)]
    {
        let envelope = played.envelope("reserve x hall=2 adjacent ttl=5");
        let mut slice = Slice { shop: played.shop.clone(), ..Slice::default() };
        load(&mut slice, &envelope);
        if !deadlines {
            // Nor are deadlines loaded for it by who has them only for those that fall short.
            slice.loaded.remove(&Resource::Due(item("hall")));
        }
        let mut effects = Effects::default();
        let outcome = decide(&mut slice, &HoldLimits::default(), &envelope, instant(at), &mut effects);
        assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
        assert_eq!((effects.events.len(), slice.plans.get()), (1, plans), "at {at}, deadlines: {deadlines}");
    }
}

#[test]
fn a_unit_that_has_to_be_free_leads_to_the_reservation_that_has_it() {
    let mut played = check(HALL);
    for (command, expected) in [
        ("reserve x hall=[c+a]", vec![id("r")]),
        ("retire hall c", vec![id("r")]),
        ("reserve x hall=1", vec![]),
    ] {
        let envelope = played.envelope(command);
        let mut slice = Slice { shop: played.shop.clone(), ..Slice::default() };
        load(&mut slice, &envelope);
        let holds = slice.loaded.iter().filter_map(|name| match name {
            Resource::Hold(id) => Some(*id),
            _ => None,
        });
        assert_eq!(holds.collect::<Vec<_>>(), expected, "{command}");
    }
}
