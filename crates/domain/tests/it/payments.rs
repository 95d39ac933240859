//! Payment windows, late payers, fulfilment, and returns of what had left the shelf.

use crate::table::{check, id};

#[test]
fn a_window_keeps_a_hold_and_nothing_else_changes_it() {
    let played = check(
        "
        0 stock a 9               -> created total=9 available=9 v=1
        0 reserve r a=2 ttl=5     -> active until 5000 a=2
        0 reserve s a=1 ttl=50    -> active until 50000 a=1
        1000 pay r p window=30    -> active until 31000 paying p until 31000 a=2
        1000 books a              -> total=9 sold=0 held=3 active=2 seq=4 v=1 paying=2 at=1000
        2000 pay r q              -> payment_in_progress r p until 31000
        2000 pay r p window=10    -> active until 31000 paying p until 31000 a=2
        2000 pay r p window=60    -> active until 62000 paying p until 62000 a=2
        2000 books a              -> total=9 sold=0 held=3 active=2 seq=4 v=1 paying=2 at=2000
        3000 release r            -> payment_in_progress r p until 62000
        3000 extend r 9           -> payment_in_progress r p until 62000
        3000 amend r a=1          -> payment_in_progress r p until 62000
        3000 transfer r owner=ann -> payment_in_progress r p until 62000
        3000 split r a=1 into=t   -> payment_in_progress r p until 62000
        3000 merge r s            -> payment_in_progress r p until 62000
        3000 merge s r            -> payment_in_progress r p until 62000
        3000 confirm r payment=q  -> payment_in_progress r p until 62000
        3000 confirm r payment=p order=o -> confirmed at 3000 order=o paid p until 62000 a=2
        3000 books a              -> total=9 sold=2 held=1 active=1 seq=5 v=1 at=3000
        3000 confirm r payment=q  -> reservation_confirmed r order=o payment=p
        3000 confirm r payment=p  -> confirmed at 3000 order=o paid p until 62000 a=2
        3000 pay r p              -> reservation_confirmed r order=o payment=p
        3000 pay ghost p          -> unknown_reservation ghost
        ",
    );
    assert_eq!(played.shop.holds[&id("r")].version, 4);
}

#[test]
fn a_closed_window_leaves_time_for_another_payment() {
    check(
        "
        0 stock a 9                -> created total=9 available=9 v=1
        0 stock b 9 ttl=20         -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5      -> active until 5000 a=1
        1000 pay r p window=30     -> active until 31000 paying p until 31000 a=1
        2000 unpay r payment=q     -> active until 31000 paying p until 31000 a=1
        2000 unpay r reason=declined -> active until 62000 unpaid p until 31000 a=1
        2000 books a               -> total=9 sold=0 held=1 active=1 seq=4 v=1 at=2000
        2000 unpay r               -> active until 62000 unpaid p until 31000 a=1
        3000 pay r q window=30     -> active until 62000 paying q until 33000 a=1
        4000 confirm r             -> confirmed at 4000 paid q until 33000 a=1
        4000 unpay r               -> confirmed at 4000 paid q until 33000 a=1
        0 reserve s b=1 ttl=5      -> active until 5000 b=1
        1000 pay s p window=3      -> active until 5000 paying p until 4000 b=1
        2000 unpay s               -> active until 22000 unpaid p until 4000 b=1
        0 reserve t a=1 ttl=900    -> active until 904000 a=1
        5000 pay t p window=30     -> active until 904000 paying p until 35000 a=1
        5000 unpay t               -> active until 904000 unpaid p until 35000 a=1
        6000 release t             -> cancelled at 6000 unpaid p until 35000 a=1
        6000 unpay ghost           -> unknown_reservation ghost
        ",
    );
}

#[test]
fn windows_keep_a_hold_for_a_bounded_time() {
    check(
        "
        0 stock a 9 max-payment=100 -> created total=9 available=9 v=1
        0 stock b 9 max-payment=40  -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5      -> active until 5000 a=1
        1000 pay r p window=101    -> extension_limit 101000
        1000 pay r p               -> active until 101000 paying p until 101000 a=1
        2000 pay r p               -> extension_limit 101000
        2000 unpay r               -> active until 62000 unpaid p until 101000 a=1
        50000 pay r q window=51    -> active until 101000 paying q until 101000 a=1
        50000 unpay r              -> active until 110000 unpaid q until 101000 a=1
        100000 pay r q window=2    -> extension_limit 101000
        110000 release r           -> expired at 110000 unpaid q until 101000 a=1
        0 reserve s a=1,b=1 ttl=5  -> active until 115000 a=1 b=1
        110000 pay s p             -> active until 150000 paying p until 150000 a=1 b=1
        110001 books b             -> total=9 sold=0 held=1 active=1 seq=3 v=1 paying=1 at=110000
        150000 confirm s           -> reservation_expired s since 150000
        150000 hold s              -> expired at 150000 lapsed p until 150000 a=1 b=1
        150000 books b             -> total=9 sold=0 held=0 active=0 seq=4 v=1 at=150000
        ",
    );
}

#[test]
fn a_confirm_may_name_a_payment_without_a_window() {
    check(
        "
        0 stock a 9               -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5     -> active until 5000 a=1
        0 confirm r payment=p     -> confirmed at 0 unpaid p until 0 a=1
        0 confirm r payment=q     -> reservation_confirmed r payment=p
        0 books a                 -> total=9 sold=1 held=0 active=0 seq=3 v=1 at=0
        ",
    );
}

#[test]
fn a_late_payer_gets_the_same_units_if_there_are_any() {
    let played = check(
        "
        0 stock a 2                -> created total=2 available=2 v=1
        0 stock hall - units       -> created total=0 available=0 v=1
        0 add hall x,y             -> added 2 unchanged 0 total=2 v=2
        0 reserve r a=1,hall=[y] ttl=5 -> active until 5000 a=1 hall=1(y.2)
        0 reserve s a=2 ttl=5      -> insufficient_inventory a=2>1@5000
        5000 confirm r             -> reservation_expired r since 5000
        5000 pause at=default      -> paused
        5000 confirm r reacquire into=n -> not_reacquired r: sale_paused at=default
        5000 resume at=default     -> open
        5001 reserve s a=2 ttl=5   -> active until 10001 a=2
        5002 confirm r reacquire into=n -> not_reacquired r: insufficient_inventory a=1>0@10001
        5003 release s             -> cancelled at 5003 a=2
        5003 reserve t hall=[y] ttl=5 -> active until 10003 hall=1(y.4)
        5004 confirm r reacquire into=n -> not_reacquired r: units_unavailable hall=[y] next=10003
        10003 confirm r reacquire into=n order=o payment=p key=k -> confirmed at 10003 order=o unpaid p until 10003 a=1 hall=1(y.7)
        10003 hold r               -> expired at 5000 a=1 hall=1(y.3)
        10003 hold t               -> expired at 10003 hall=1(y.5)
        10004 books a              -> total=2 sold=1 held=0 active=0 seq=7 v=1 at=10003
        10004 confirm r reacquire into=m order=o -> confirmed at 10003 order=o unpaid p until 10003 a=1 hall=1(y.7)
        10004 confirm r reacquire into=m order=q -> reservation_confirmed n order=o payment=p
        10004 confirm r reacquire into=m order=o payment=p key=k -> again confirmed at 10003 order=o unpaid p until 10003 a=1 hall=1(y.7)
        10004 confirm r            -> reservation_expired r since 5000
        10004 confirm s reacquire into=m -> reservation_cancelled s
        ",
    );
    let (r, n) = (&played.shop.holds[&id("r")], &played.shop.holds[&id("n")]);
    assert_eq!((r.details().replaced_by, r.version), (Some(id("n")), 3));
    assert_eq!((n.details().replaces, n.version), (Some(id("r")), 2));
}

#[test]
fn units_leave_the_shelf_once() {
    check(
        "
        0 stock a 9               -> created total=9 available=9 v=1
        0 stock hall - units      -> created total=0 available=0 v=1
        0 add hall x,y            -> added 2 unchanged 0 total=2 v=2
        0 reserve r a=5,hall=[x+y] ttl=5 -> active until 5000 a=5 hall=2(x.2 y.2)
        0 fulfil r all            -> reservation_not_confirmed r
        1 confirm r               -> confirmed at 1 a=5 hall=2(x.3 y.3)
        2 fulfil r a=2            -> confirmed at 1 a=5+2 hall=2(x.3 y.3)
        2 books a                 -> total=9 sold=5 held=0 active=0 seq=4 v=1 fulfilled=2 at=2
        2 books hall              -> total=2 sold=2 held=0 active=0 seq=0 v=2 at=1
        2 fulfil r a=4            -> fulfil_exceeds_sold a=4>3
        2 fulfil r b=1            -> fulfil_exceeds_sold b=1>0
        3 fulfil r - units=y      -> confirmed at 1 a=5+2 hall=2+1(x.3 y.4+)
        3 map hall                -> s3 f4
        3 fulfil r - units=y      -> fulfil_exceeds_sold a=1>3
        3 fulfil r hall=[y]       -> fulfil_exceeds_sold hall=1>1
        4 fulfil r all            -> confirmed at 1 a=5+5 hall=2+2(x.4+ y.4+)
        4 fulfil r all            -> fulfil_exceeds_sold a=5>0
        4 fulfil ghost all        -> unknown_reservation ghost
        ",
    );
}

#[test]
fn a_return_takes_back_from_the_shelf_first_and_from_buyers_then() {
    check(
        "
        0 stock a 9               -> created total=9 available=9 v=1
        0 reserve r a=6 ttl=5     -> active until 5000 a=6
        0 confirm r               -> confirmed at 0 a=6
        0 fulfil r a=3            -> confirmed at 0 a=6+3
        1 return r a=1            -> confirmed at 0 a=6+3-1
        1 books a                 -> total=9 sold=5 held=0 active=0 seq=5 v=1 fulfilled=3 at=1
        1 return r a=3 from=shelf -> return_exceeds_sold a=3>2
        1 return r a=1 from=buyer -> confirmed at 0 a=6+2-2
        1 return r a=3            -> confirmed at 0 a=6+1-5
        1 books a                 -> total=9 sold=1 held=0 active=0 seq=7 v=1 fulfilled=1 at=1
        1 return r a=2 from=buyer -> return_exceeds_sold a=2>1
        2 return r all            -> confirmed at 0 a=6-6
        2 books a                 -> total=9 sold=0 held=0 active=0 seq=8 v=1 at=2
        2 fulfil r all            -> fulfil_exceeds_sold a=6>0
        ",
    );
}

#[test]
fn what_is_written_off_is_gone() {
    check(
        "
        0 stock a 9               -> created total=9 available=9 v=1
        0 stock hall - units      -> created total=0 available=0 v=1
        0 add hall x,y,z          -> added 3 unchanged 0 total=3 v=2
        0 reserve r a=4,hall=[x+y] ttl=5 -> active until 5000 a=4 hall=2(x.2 y.2)
        0 confirm r               -> confirmed at 0 a=4 hall=2(x.3 y.3)
        0 fulfil r a=1,hall=[x]   -> confirmed at 0 a=4+1 hall=2+1(x.4+ y.3)
        1 return r a=4,hall=2 write-off -> confirmed at 0 a=4-4 hall=2-2(x.5- y.4-)
        1 books a                 -> total=5 sold=0 held=0 active=0 seq=6 v=2 at=1
        1 books hall              -> total=1 sold=0 held=0 active=0 seq=0 v=3 at=1
        1 map hall                -> .1
        ",
    );
}

#[test]
fn a_count_of_the_shelf_does_not_count_shipments_twice() {
    check(
        "
        0 stock a - hand=9        -> created total=9 available=9 v=1
        0 stock b - hand=9 seen=2 -> created total=9 available=9 v=1
        0 reserve r a=4 ttl=5     -> active until 5000 a=4
        0 confirm r               -> confirmed at 0 a=4
        0 fulfil r a=3            -> confirmed at 0 a=4+3
        0 stock a - hand=6        -> invalid_request /fulfilled_units_seen
        0 stock a - hand=6 seen=3 -> item total=9 available=5 v=1
        1 fulfil r a=1            -> confirmed at 0 a=4+4
        2 stock a - hand=7 seen=3 -> item total=10 available=6 v=2
        2 stock a - hand=1 seen=2 -> below_committed sold=4 held=0 total=10
        2 stock a 9 hand=9        -> invalid_request /on_hand
        2 stock a - hand=1000000000000 seen=1 -> invalid_request /on_hand
        ",
    );
}
