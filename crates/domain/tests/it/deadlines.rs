//! A hold is live while now is before its deadline, and due at equality: a millisecond and a microsecond before, at, and
//! after, for every command that asks.

use crate::table::check;

/// Instants around a deadline at 5000; the deadline that one more second leads to from there; whether the hold is live.
const EDGES: [(&str, &str, bool); 5] = [
    ("4999", "5999", true),
    ("4999.999", "6000", true),
    ("5000", "6000", false),
    ("5000.001", "6001", false),
    ("5001", "6001", false),
];

/// Runs a table at every edge: `T` stands for the instant, `T+1s` for a deadline one second on, and of two outcomes
/// (`live | due`) the first counts while the hold is live.
fn check_edges(table: &str) {
    for (at, next, live) in EDGES {
        let line = |line: &str| {
            let line = line.replace("T+1s", next);
            let words: Vec<&str> = line.split(' ').map(|word| if word == "T" { at } else { word }).collect();
            let line = words.join(" ").replace("at=T", &format!("at={at}"));
            match line.split_once("->").map(|(left, right)| (left, right.split_once('|'))) {
                Some((left, Some((early, late)))) => format!("{left}-> {}", if live { early } else { late }),
                _ => line,
            }
        };
        check(&table.lines().map(line).collect::<Vec<_>>().join("\n"));
    }
}

#[test]
fn confirm() {
    check_edges(
        "
        0 stock a 1           -> created total=1 available=1 v=1
        0 reserve r a=1 ttl=5 -> active until 5000 a=1
        T confirm r           -> confirmed at T a=1 | reservation_expired r since 5000
        T confirm r           -> confirmed at T a=1 | reservation_expired r since 5000
        T books a             -> total=1 sold=1 held=0 active=0 seq=3 v=1 at=T | total=1 sold=0 held=0 active=0 seq=3 v=1 at=T
        T release r           -> reservation_confirmed r | expired at T a=1
        T extend r 60         -> reservation_confirmed r | reservation_expired r since 5000
        ",
    );
}

#[test]
fn what_is_left_out_of_a_partial_hold_does_not_bound_its_time() {
    check(
        "
        0 stock a 9 ttl=300 max=900          -> created total=9 available=9 v=1
        0 stock b 0 ttl=5 max=10             -> created total=0 available=0 v=1
        0 reserve r a=1,b=1 partial          -> active until 300000 a=1
        0 extend r 900                       -> active until 900000 a=1
        0 reserve s b=1,a=1 ttl=7 partial    -> active until 7000 a=1
        0 reserve t a=1,b=1 ttl=11 partial   -> ttl_too_long 10
        0 stock b 1                          -> item total=1 available=1 v=2
        0 reserve u a=1,b=2 partial          -> active until 5000 a=1 b=1/2
        ",
    );
}

#[test]
fn release() {
    check_edges(
        "
        0 stock a 1           -> created total=1 available=1 v=1
        0 reserve r a=1 ttl=5 -> active until 5000 a=1
        T release r reason=x  -> cancelled at T reason=x a=1 | expired at T a=1
        T release r reason=y  -> cancelled at T reason=x a=1 | expired at T a=1
        T confirm r           -> reservation_cancelled r | reservation_expired r since 5000
        T extend r 60         -> reservation_cancelled r | reservation_expired r since 5000
        T books a             -> total=1 sold=0 held=0 active=0 seq=3 v=1 at=T
        ",
    );
}

#[test]
fn extend() {
    check_edges(
        "
        0 stock a 1           -> created total=1 available=1 v=1
        0 reserve r a=1 ttl=5 -> active until 5000 a=1
        T extend r 1          -> active until T+1s a=1 | reservation_expired r since 5000
        T books a             -> total=1 sold=0 held=1 active=1 seq=2 v=1 at=T | total=1 sold=0 held=0 active=0 seq=3 v=1 at=T
        5500 confirm r        -> confirmed at 5500 a=1 | reservation_expired r since 5000
        ",
    );
}

#[test]
fn reserve() {
    check_edges(
        "
        0 stock a 1           -> created total=1 available=1 v=1
        0 reserve r a=1 ttl=5 -> active until 5000 a=1
        T reserve s a=1 ttl=1 -> insufficient_inventory a=1>0@5000 | active until T+1s a=1
        T hold r              -> active until 5000 a=1 | expired at T a=1
        T books a             -> total=1 sold=0 held=1 active=1 seq=2 v=1 at=0 | total=1 sold=0 held=1 active=1 seq=4 v=1 at=T
        ",
    );
}

#[test]
fn sweep_and_return() {
    check_edges(
        "
        0 stock a 2           -> created total=2 available=2 v=1
        0 reserve r a=1 ttl=5 -> active until 5000 a=1
        0 reserve s a=1 ttl=5 -> active until 5000 a=1
        T return s all        -> reservation_not_confirmed s
        T sweep               -> swept 0 | swept 1
        T hold r              -> active until 5000 a=1 | expired at T a=1
        T sweep               -> swept 0
        ",
    );
}

#[test]
fn deadlines_are_whole_milliseconds_rounded_up() {
    check(
        "
        0 stock a 9               -> created total=9 available=9 v=1
        0.001 reserve r a=1 ttl=5 -> active until 5001 a=1
        0.999 reserve s a=1 ttl=5 -> active until 5001 a=1
        1 reserve t a=1 ttl=5     -> active until 5001 a=1
        5000.999 confirm r        -> confirmed at 5000.999 a=1
        5001 confirm s            -> reservation_expired s since 5001
        ",
    );
}

#[test]
fn a_reserve_expires_what_it_needs_and_no_more() {
    check(
        "
        0 stock a 4                    -> created total=4 available=4 v=1
        0 reserve r4 a=1 ttl=4         -> active until 4000 a=1
        0 reserve r2 a=1 ttl=2         -> active until 2000 a=1
        0 reserve r3 a=1 ttl=3         -> active until 3000 a=1
        0 reserve r1 a=1 ttl=1         -> active until 1000 a=1
        2500 reserve s a=3 ttl=9       -> insufficient_inventory a=3>2@3000
        2500 hold r3                   -> active until 3000 a=1
        2500 books a                   -> total=4 sold=0 held=2 active=2 seq=7 v=1 at=2500
        9000 reserve t a=3 ttl=9       -> active until 18000 a=3
        9000 hold r4                   -> active until 4000 a=1
        9000 reserve u a=9 ttl=9 partial -> active until 18000 a=1/9
        9000 hold r4                   -> expired at 9000 a=1
        ",
    );
}

#[test]
fn a_hold_is_taken_over_whole() {
    check(
        "
        0 stock a 1               -> created total=1 available=1 v=1
        0 stock b 1               -> created total=1 available=1 v=1
        0 stock c 1               -> created total=1 available=1 v=1
        0 reserve r a=1,b=1 ttl=1 -> active until 1000 a=1 b=1
        0 reserve s b=1 ttl=1     -> insufficient_inventory b=1>0@1000
        0 reserve t c=1 ttl=1     -> active until 1000 c=1
        1000 reserve u b=1 ttl=1  -> active until 2000 b=1
        1000 hold r               -> expired at 1000 a=1 b=1
        1000 hold t               -> active until 1000 c=1
        1000 books a              -> total=1 sold=0 held=0 active=0 seq=3 v=1 at=1000
        1000 books b              -> total=1 sold=0 held=1 active=1 seq=4 v=1 at=1000
        ",
    );
}

#[test]
fn extensions_end_at_the_cap() {
    check(
        "
        0 stock a 9 ttl=10 max=30  -> created total=9 available=9 v=1
        0 reserve r a=1            -> active until 10000 a=1
        1000 extend r 5            -> active until 10000 a=1
        9000 extend r 20           -> active until 29000 a=1
        9000 extend r 2592000      -> active until 30000 a=1
        9000 extend r 1            -> extension_limit 30000
        29999.999 extend r 1       -> extension_limit 30000
        30000 extend r 1           -> reservation_expired r since 30000
        40000 reserve s a=1 ttl=30 -> active until 70000 a=1
        40000 extend s 1           -> extension_limit 70000
        40000 extend ghost 1       -> unknown_reservation ghost
        40000 books a              -> total=9 sold=0 held=1 active=1 seq=4 v=1 at=40000
        ",
    );
}

#[test]
fn times_are_the_nearest_settings_and_of_a_basket_the_smallest() {
    use stockhold_domain::{HoldLimits, LocationLimits, Seconds};
    let seconds = |seconds| Some(Seconds::new(seconds).unwrap());
    let limits = LocationLimits { default_ttl: seconds(30), max_hold: seconds(60), max_payment: None };
    let locations = vec![(crate::table::label("hub"), limits)];
    crate::table::check_under(
        HoldLimits { locations, ..HoldLimits::default() },
        "
        0 stock a 9                   -> created total=9 available=9 v=1
        0 stock hub/a 9               -> created total=9 available=9 v=1
        0 stock hub/b 9 ttl=90 max=40 -> created total=9 available=9 v=1
        0 reserve r1 a=1              -> active until 600000 a=1
        0 reserve r2 hub/a=1          -> active until 30000 hub/a=1
        0 reserve r3 hub/b=1          -> active until 40000 hub/b=1
        0 reserve r4 a=1,hub/a=1      -> active until 30000 a=1 hub/a=1
        0 reserve r5 hub/a=1 ttl=60   -> active until 60000 hub/a=1
        0 reserve r6 hub/a=1 ttl=61   -> ttl_too_long 60
        0 reserve r7 a=1,hub/b=1 ttl=41 -> ttl_too_long 40
        0 reserve r8 a=1 ttl=1800     -> active until 1800000 a=1
        ",
    );
}
