//! Stock that is set and adjusted, baskets, and where figures end.

use crate::table::{check, item};
use stockhold_domain::{Basket, BasketError, RequestedLine, limits};

#[test]
fn no_total_falls_below_what_is_committed() {
    check(
        "
        0 stock a 10             -> created total=10 available=10 v=1
        0 reserve r a=2 ttl=5    -> active until 5000 a=2
        0 confirm r              -> confirmed at 0 a=2
        0 reserve s a=3 ttl=5    -> active until 5000 a=3
        0 stock a 4              -> below_committed sold=2 held=3 total=10
        0 adjust a -6            -> below_committed sold=2 held=3 total=10
        0 adjust a -11           -> below_committed sold=2 held=3 total=10
        0 adjust a -9223372036854775808 -> below_committed sold=2 held=3 total=10
        0 stock a 10 safety=6    -> item total=10 available=0 v=2
        0 stock a 5              -> item total=5 available=0 v=3
        0 adjust a -1            -> below_committed sold=2 held=3 total=5
        0 adjust a 7             -> item total=12 available=1 v=4
        0 books a                -> total=12 sold=2 held=3 active=1 seq=7 v=4 at=0
        ",
    );
}

#[test]
fn figures_end_where_their_limits_say() {
    check(
        "
        0 stock a 1000000000001         -> invalid_request /total_units
        0 stock a 18446744073709551615  -> invalid_request /total_units
        0 stock a -                     -> invalid_request /total_units
        0 books a                       -> none
        0 stock a 1000000000000         -> created total=1000000000000 available=1000000000000 v=1
        0 adjust a 1                    -> invalid_request /delta
        0 adjust a 9223372036854775807  -> invalid_request /delta
        0 adjust a -1000000000000       -> item total=0 available=0 v=2
        0 adjust a 1000000000000        -> item total=1000000000000 available=1000000000000 v=3
        0 stock a 1000000000000 safety=18446744073709551615 -> item total=1000000000000 available=0 v=4
        0 reserve r a=1 partial ttl=5   -> insufficient_inventory a=1>0
        0 stock a 1000000000000 safety=0 -> item total=1000000000000 available=1000000000000 v=5
        0 reserve r a=1000000 ttl=5     -> active until 5000 a=1000000
        0 reserve s a=999999,a=2 ttl=5  -> quantity_limit a=1000001>1000000
        0 reserve s a=18446744073709551615,a=18446744073709551615 ttl=5 -> quantity_limit a=18446744073709551615>1000000
        0 reserve s a=999999,a=1 ttl=5  -> active until 5000 a=1000000
        0 books a                       -> total=1000000000000 sold=0 held=2000000 active=2 seq=7 v=5 at=0
        ",
    );
}

#[test]
fn settings_are_taken_back_and_a_total_may_be_left_out() {
    check(
        "
        0 stock a -                    -> invalid_request /total_units
        0 stock a 5 ttl=none max=none  -> created total=5 available=5 v=1
        0 stock a - ttl=none           -> item total=5 available=5 v=1
        0 stock a - ttl=9 max=20       -> item total=5 available=5 v=2
        0 reserve r a=1                -> active until 9000 a=1
        0 stock a - max=none           -> item total=5 available=4 v=3
        0 reserve s a=1 ttl=21         -> active until 21000 a=1
        0 stock a - ttl=none safety=2  -> item total=5 available=1 v=4
        0 reserve t a=1                -> active until 600000 a=1
        0 adjust a 4                   -> item total=9 available=4 v=5
        0 stock a - safety=0           -> item total=9 available=6 v=6
        0 books a                      -> total=9 sold=0 held=3 active=3 seq=9 v=6 at=0
        ",
    );
}

#[test]
fn a_set_names_what_it_changes() {
    check(
        "
        0 stock a 5 version=1         -> precondition_failed
        0 adjust a 1 version=1        -> precondition_failed
        0 adjust a 1                  -> unknown_item a
        0 stock a 5 safety=1 ttl=9    -> created total=5 available=4 v=1
        1 stock a 5                   -> item total=5 available=4 v=1
        1 stock a 5 safety=1 ttl=9    -> item total=5 available=4 v=1
        1 books a                     -> total=5 sold=0 held=0 active=0 seq=1 v=1 at=0
        2 stock a 6 version=2         -> precondition_failed v=1
        2 stock a 6 version=1         -> item total=6 available=5 v=2
        2 adjust a 1 version=1        -> precondition_failed v=2
        2 adjust a 1 version=2        -> item total=7 available=6 v=3
        2 reserve r a=1               -> active until 9002 a=1
        ",
    );
}

#[test]
fn pauses_are_apart_and_stop_reserves_only() {
    check(
        "
        0 stock a 5               -> created total=5 available=5 v=1
        0 stock hub/a 5           -> created total=5 available=5 v=1
        0 reserve r a=1 ttl=5     -> active until 5000 a=1
        0 reserve s a=1 ttl=5     -> active until 5000 a=1
        0 pause ghost             -> unknown_item ghost
        0 pause a                 -> paused
        0 pause a                 -> paused
        0 reserve t hub/a=1,a=1   -> sale_paused a
        0 reserve t hub/a=1 ttl=5 -> active until 5000 hub/a=1
        0 pause at=hub            -> paused
        0 reserve u a=1,hub/a=1   -> sale_paused a
        0 reserve u hub/a=1,a=1   -> sale_paused at=hub
        0 pause everything        -> paused
        0 reserve u hub/a=1,a=1   -> sale_paused everything
        1 extend r 9              -> active until 9001 a=1
        1 confirm r               -> confirmed at 1 a=1
        1 return r all            -> confirmed at 1 a=1-1
        1 release s               -> cancelled at 1 a=1
        5000 sweep                -> swept 1
        5000 adjust a 1           -> item total=6 available=6 v=2
        5000 resume everything    -> open
        5000 resume a             -> open
        5000 reserve v a=1 ttl=5  -> active until 10000 a=1
        5000 reserve w hub/a=1    -> sale_paused at=hub
        ",
    );
}

#[test]
fn an_item_that_is_not_in_use_is_deleted() {
    check(
        "
        0 delete a                         -> unknown_item a
        0 delete a version=1               -> precondition_failed
        0 stock a 5                        -> created total=5 available=5 v=1
        0 stock b 5                        -> created total=5 available=5 v=1
        0 reserve r a=1,b=1 ttl=5          -> active until 5000 a=1 b=1
        0 reserve s a=2 ttl=9              -> active until 9000 a=2
        0 reserve t a=1,b=2 ttl=9          -> active until 9000 a=1 b=2
        0 confirm t                        -> confirmed at 0 a=1 b=2
        0 delete a version=2               -> precondition_failed v=1
        0 delete a                         -> item_in_use sold=1 held=3 units=0
        5000 delete a                      -> item_in_use sold=1 held=2 units=0
        5000 books b                       -> total=5 sold=2 held=0 active=0 seq=5 v=1 at=5000
        5000 release s                     -> cancelled at 5000 a=2
        5000 delete a                      -> item_in_use sold=1 held=0 units=0
        5000 return t a=1                  -> confirmed at 0 a=1-1 b=2
        5000 delete a version=1 key=k      -> deleted
        5000 books a                       -> none
        5000 delete a version=1 key=k      -> again deleted
        5000 delete a                      -> unknown_item a
        5000 reserve u a=1                 -> unknown_item a
        5000 return t b=1                  -> confirmed at 0 a=1-1 b=2-1
        6000 stock a 3                     -> created total=3 available=3 v=1
        6000 books a                       -> total=3 sold=0 held=0 active=0 seq=1 v=1 at=6000
        6000 delete a version=1            -> precondition_failed v=6000001
        6000 return t all                  -> confirmed at 0 a=1-1 b=2-2
        6000 delete a version=1 key=k      -> again deleted
        6000 books a                       -> total=3 sold=0 held=0 active=0 seq=1 v=1 at=6000
        ",
    );
}

#[test]
fn an_item_with_units_is_deleted_when_all_are_retired() {
    check(
        "
        0 stock hall - units               -> created total=0 available=0 v=1
        0 add hall a,b                     -> added 2 unchanged 0 total=2 v=2
        0 delete hall                      -> item_in_use sold=0 held=0 units=2
        0 retire hall a                    -> item total=1 available=1 v=3
        0 retire hall b                    -> item total=0 available=0 v=4
        0 delete hall                      -> deleted
        1 stock hall 4                     -> created total=4 available=4 v=1
        1 reserve r hall=4 ttl=5           -> active until 5001 hall=4
        ",
    );
}

#[test]
fn a_key_of_an_item_that_was_deleted_is_answered() {
    check(
        "
        0 stock a 5                        -> created total=5 available=5 v=1
        0 adjust a 1 key=k                 -> item total=6 available=6 v=2
        0 delete a                         -> deleted
        0 adjust a 1 key=k                 -> unknown_item a
        1 stock a 2                        -> created total=2 available=2 v=1
        1 adjust a 1 key=k                 -> again item total=2 available=2 v=1
        ",
    );
}

#[test]
fn lines_on_the_same_item_are_one() {
    check(
        "
        0 stock a 5                        -> created total=5 available=5 v=1
        0 stock b 5                        -> created total=5 available=5 v=1
        0 reserve r a=3,b=1,a=3 ttl=5      -> insufficient_inventory a=6>5
        0 reserve r a=3,b=1,a=3 ttl=5 partial -> active until 5000 a=5/6 b=1
        0 reserve s a=1,b=4 ttl=5 partial  -> active until 5000 b=4
        0 reserve t b=2,a=1 ttl=5 partial  -> insufficient_inventory b=2>0@5000 a=1>0@5000
        0 books a                          -> total=5 sold=0 held=5 active=1 seq=2 v=1 at=0
        ",
    );
}

#[test]
fn baskets_have_bounds() {
    let wants = |count: usize, quantity| {
        (0..count).map(|n| RequestedLine { item: item(&n.to_string()), quantity }).collect::<Vec<_>>()
    };
    assert_eq!(Basket::new(Vec::new()), Err(BasketError::Empty));
    assert_eq!(Basket::new(wants(2_001, 1)), Err(BasketError::TooMany(2_001)));
    assert_eq!(Basket::new(wants(limits::BASKET_LINES, 1)).unwrap().lines().len(), 2_000);
    let mut with_nothing = wants(3, 1);
    with_nothing[2].quantity = 0;
    assert_eq!(Basket::new(with_nothing), Err(BasketError::Zero(2)));
    assert_eq!(Basket::new(wants(1, 0)), Err(BasketError::Zero(0)));
    let mut same = wants(2, u64::MAX);
    same[1].item = same[0].item.clone();
    assert_eq!(Basket::new(same).unwrap().lines(), wants(1, u64::MAX));
}

#[test]
fn a_total_that_another_system_owns() {
    check(
        "
        0 stock a 5 master=erp              -> created total=5 available=5 v=1
        1 stock a 6                         -> stock_owned_elsewhere a erp
        1 stock a 5                         -> item total=5 available=5 v=1
        1 stock a - safety=1                -> item total=5 available=4 v=2
        1 adjust a 1                        -> stock_owned_elsewhere a erp
        1 adjust a 1 version=9              -> precondition_failed a=2
        1 adjust a 1 override               -> item total=6 available=5 v=3
        1 stock a 7 override                -> item total=7 available=6 v=4
        1 stock a 3 master=pos              -> item total=3 available=2 v=5
        1 stock a 9 master=none             -> item total=9 available=8 v=6
        1 adjust a -1                       -> item total=8 available=7 v=7
        1 stock hall - units master=erp     -> invalid_request /stock_master
        ",
    );
}
