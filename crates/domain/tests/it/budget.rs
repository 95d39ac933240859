//! One batch expires so many holds and no more; the rest goes on in the next.

use crate::said::said;
use crate::table::{Played, check, instant, item};
use stockhold_domain::{Effects, limits};

#[test]
fn a_crowd_is_expired_batch_by_batch() {
    check(
        "
        0 stock a 300               -> created total=300 available=300 v=1
        0 crowd 300 a ttl=5         -> ok
        4999 reserve r a=300        -> insufficient_inventory a=300>0@5000
        5000 reserve r a=300 ttl=5  -> later
        5000 books a                -> total=300 sold=0 held=44 active=44 seq=557 v=1 at=5000
        5000 hold r                 -> none
        5000 reserve r a=300 ttl=5  -> active until 10000 a=300
        5000 books a                -> total=300 sold=0 held=300 active=1 seq=602 v=1 at=5000
        ",
    );
}

#[test]
fn a_sweep_says_how_far_it_came() {
    check(
        "
        0 stock a 300       -> created total=300 available=300 v=1
        0 crowd 300 a ttl=5 -> ok
        4999 sweep          -> swept 0
        5000 sweep          -> swept 256
        5000 sweep          -> swept 44
        5000 sweep          -> swept 0
        ",
    );
}

#[test]
fn a_batch_has_one_budget() {
    let crowd = "
        0 stock a 300       -> created total=300 available=300 v=1
        0 stock b 2         -> created total=2 available=2 v=1
        0 reserve s b=1 ttl=5 -> active until 5000 b=1
        0 crowd 300 a ttl=5 -> ok
    ";
    let mut played = check(crowd);
    let mut effects = Effects::default();
    let now = instant("5000");
    for (command, expected) in [
        ("reserve r a=200 ttl=5", "active until 10000 a=200"),
        ("reserve t a=100 ttl=5", "later"),
        // What needs no room made, or has its own hold to end, does not wait for the crowd. Of equal deadlines the
        // smaller id goes first, so crowd99 is the last of the crowd.
        ("reserve u b=1 ttl=5", "active until 10000 b=1"),
        ("confirm s", "reservation_expired s since 5000"),
        ("release crowd99", "expired at 5000 a=1"),
        ("reserve v b=1 ttl=5", "active until 10000 b=1"),
        ("sweep", "swept 0"),
        ("reserve w a=58 ttl=5 partial", "later"),
        ("reserve w a=57 ttl=5", "active until 10000 a=57"),
    ] {
        let outcome = played.run_in(command, now, &mut effects);
        assert_eq!(said(&outcome), expected, "{command}");
    }
    let mut next = Effects::default();
    let outcome = played.run_in("reserve t a=43 ttl=5", now, &mut next);
    assert_eq!(said(&outcome), "active until 10000 a=43");
    let expiries = u32::try_from(effects.events.len()).unwrap();
    // Besides the budget: four reserves and two holds that were expired by their own commands.
    assert_eq!(expiries, limits::EXPIRIES_PER_BATCH + 4 + 2);
}

#[test]
fn a_batch_expires_no_more_once_it_has_all_the_lines_it_may() {
    const BASKETS: u32 = 8;
    let mut played = check("");
    let lines: Vec<String> =
        (0..limits::EXPIRED_LINES_PER_BATCH / BASKETS).map(|n| format!("i{n}=1")).collect();
    for n in 0..lines.len() {
        played.run(&format!("stock i{n} {}", BASKETS + 1), instant("0"));
    }
    for n in 0..BASKETS {
        let outcome = played.run(&format!("reserve r{n} {} ttl=5", lines.join(",")), instant("0"));
        assert!(said(&outcome).starts_with("active until 5000"), "{outcome:?}");
    }
    played.run("reserve s i0=1 ttl=5", instant("0"));
    for (command, expected) in [("sweep", "swept 8"), ("sweep", "swept 1"), ("sweep", "swept 0")] {
        assert_eq!(said(&played.run(command, instant("5000"))), expected);
    }
}

/// One seat more than a batch expires holds of, each with a hold of its own that falls due at 5000. The last of the crowd
/// is `crowd99`, and has the hundredth.
fn crowded_hall() -> (Played, Vec<String>) {
    let seats: Vec<String> = (0..=limits::EXPIRIES_PER_BATCH).map(|n| format!("u{n}")).collect();
    let count = seats.len();
    let played = check(&format!(
        "
        0 stock hall - units            -> created total=0 available=0 v=1
        0 add hall {all}                -> added {count} unchanged 0 total={count} v=2
        0 crowd {count} hall ttl=5      -> ok
        ",
        all = seats.join(",")
    ));
    (played, seats)
}

#[test]
fn a_crowd_that_has_the_named_units_is_expired_batch_by_batch() {
    let (mut played, seats) = crowded_hall();
    let reserve = format!("reserve r hall=[{}] ttl=5", seats.join("+"));
    let before = played.run(&reserve, instant("4999"));
    assert!(said(&before).starts_with("units_unavailable hall=[u0+u1+"), "{before:?}");
    assert_eq!(said(&played.run(&reserve, instant("5000"))), "later");
    assert_eq!(played.shop.items[&item("hall")].figures.held, 1, "one is left");
    let after = played.run(&reserve, instant("5000"));
    assert!(said(&after).starts_with("active until 10000 hall=257(u0.4 u1.4 "), "{after:?}");
}

#[test]
fn a_batch_that_has_expired_all_it_may_retires_no_due_unit() {
    let (mut played, _) = crowded_hall();
    let mut effects = Effects::default();
    for (command, expected) in [
        ("sweep", "swept 256"),
        ("retire hall u99", "later"),
        ("retire hall u98", "item total=256 available=255 v=3"),
    ] {
        let outcome = played.run_in(command, instant("5000"), &mut effects);
        assert_eq!(said(&outcome), expected, "{command}");
    }
    let outcome = played.run("retire hall u99", instant("5000"));
    assert_eq!(said(&outcome), "item total=255 available=255 v=4");
}

#[test]
fn units_with_ids_count_like_lines_of_what_a_batch_expires() {
    let mut played = check("0 stock hall - units -> created total=0 available=0 v=1");
    let half = limits::EXPIRED_LINES_PER_BATCH / 2;
    let seats: Vec<String> = (0..=2 * half).map(|n| format!("u{n}")).collect();
    played.run(&format!("add hall {}", seats.join(",")), instant("0"));
    for (name, quantity) in [("r0", half), ("r1", half), ("r2", 1)] {
        let outcome = played.run(&format!("reserve {name} hall={quantity} ttl=5"), instant("0"));
        assert!(said(&outcome).starts_with("active until 5000"), "{outcome:?}");
    }
    for (command, expected) in [("sweep", "swept 2"), ("sweep", "swept 1"), ("sweep", "swept 0")] {
        assert_eq!(said(&played.run(command, instant("5000"))), expected);
    }
}
