//! Confirmed again, and taken back.

use crate::table::check;

#[test]
fn confirming_again_is_the_same_answer_and_another_order_is_not() {
    check(
        "
        0 stock a 9             -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5   -> active until 5000 a=1
        1 confirm r order=o1    -> confirmed at 1 order=o1 a=1
        9999 confirm r order=o1 -> confirmed at 1 order=o1 a=1
        9999 confirm r          -> confirmed at 1 order=o1 a=1
        9999 confirm r order=o2 -> reservation_confirmed r order=o1
        1 reserve s a=1 ttl=5   -> active until 5001 a=1
        2 confirm s             -> confirmed at 2 a=1
        3 confirm s order=o1    -> reservation_confirmed s
        3 confirm ghost         -> unknown_reservation ghost
        3 books a               -> total=9 sold=2 held=0 active=0 seq=5 v=1 at=2
        ",
    );
}

#[test]
fn units_come_back_once() {
    check(
        "
        0 stock a 9                -> created total=9 available=9 v=1
        0 stock b 9                -> created total=9 available=9 v=1
        0 reserve r a=3,b=2 ttl=5  -> active until 5000 a=3 b=2
        0 return r all             -> reservation_not_confirmed r
        1 confirm r                -> confirmed at 1 a=3 b=2
        2 return r a=4             -> return_exceeds_sold a=4>3
        2 return r a=2,a=2         -> return_exceeds_sold a=4>3
        2 return r b=1,ghost=1     -> return_exceeds_sold ghost=1>0
        2 books b                  -> total=9 sold=2 held=0 active=0 seq=3 v=1 at=1
        3 return r a=1             -> confirmed at 1 a=3-1 b=2
        3 books a                  -> total=9 sold=2 held=0 active=0 seq=4 v=1 at=3
        3 books b                  -> total=9 sold=2 held=0 active=0 seq=3 v=1 at=1
        4 return r a=3             -> return_exceeds_sold a=3>2
        4 return r b=2,a=1         -> confirmed at 1 a=3-2 b=2-2
        5 return r all             -> confirmed at 1 a=3-3 b=2-2
        5 books a                  -> total=9 sold=0 held=0 active=0 seq=6 v=1 at=5
        5 books b                  -> total=9 sold=0 held=0 active=0 seq=4 v=1 at=4
        6 return r all             -> return_exceeds_sold a=3>0
        6 return r b=1             -> return_exceeds_sold b=1>0
        6 return ghost all         -> unknown_reservation ghost
        ",
    );
}

#[test]
fn what_was_released_or_expired_does_not_come_back() {
    check(
        "
        0 stock a 9           -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5 -> active until 5000 a=1
        0 reserve s a=1 ttl=5 -> active until 5000 a=1
        1 release r           -> cancelled at 1 a=1
        1 return r all        -> reservation_not_confirmed r
        5000 sweep            -> swept 1
        5000 return s all     -> reservation_not_confirmed s
        ",
    );
}
