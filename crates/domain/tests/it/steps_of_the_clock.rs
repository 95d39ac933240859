//! Time never runs backwards for an item, whatever the clock does.

use crate::table::check;

#[test]
fn an_earlier_clock_counts_as_the_items_newest_instant() {
    check(
        "
        5000 stock a 9           -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5    -> active until 10000 a=1
        0 books a                -> total=9 sold=0 held=1 active=1 seq=2 v=1 at=5000
        8000 extend r 6          -> active until 14000 a=1
        1000 adjust a 1          -> item total=10 available=9 v=2
        1000 extend r 9          -> active until 17000 a=1
        1000 confirm r           -> confirmed at 8000 a=1
        1000 return r all        -> confirmed at 8000 a=1-1
        1000 books a             -> total=10 sold=0 held=0 active=0 seq=5 v=2 at=8000
        ",
    );
}

#[test]
fn what_was_due_for_an_item_stays_due() {
    check(
        "
        0 stock a 1                -> created total=1 available=1 v=1
        0 reserve r a=1 ttl=5      -> active until 5000 a=1
        6000 adjust a 1            -> item total=2 available=1 v=2
        1000 sweep                 -> swept 0
        1000 hold r                -> active until 5000 a=1
        1000 reserve s a=2 ttl=5   -> active until 11000 a=2
        1000 hold r                -> expired at 6000 a=1
        ",
    );
}

#[test]
fn the_newest_of_a_holds_items_counts_for_all_of_it() {
    check(
        "
        0 stock a 9               -> created total=9 available=9 v=1
        0 stock b 9               -> created total=9 available=9 v=1
        0 reserve r a=1,b=1 ttl=5 -> active until 5000 a=1 b=1
        5000 adjust b 1           -> item total=10 available=9 v=2
        1000 confirm r            -> reservation_expired r since 5000
        1000 books a              -> total=9 sold=0 held=0 active=0 seq=3 v=1 at=5000
        1000 reserve s a=1 ttl=1  -> active until 6000 a=1
        ",
    );
}

#[test]
fn the_newest_of_a_baskets_items_counts_for_what_is_due_of_any() {
    check(
        "
        0 stock a 1                          -> created total=1 available=1 v=1
        0 stock b 9                          -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5                -> active until 5000 a=1
        6000 adjust b 1                      -> item total=10 available=10 v=2
        1000 reserve s a=1,b=1 ttl=5 partial -> active until 11000 a=1 b=1
        ",
    );
}
