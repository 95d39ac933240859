//! The order in which a reserve is refused. The request starts with everything wrong at once, and one thing is put right
//! at a time: each refusal is given although all later ones apply too.

use crate::table::check;

#[test]
fn a_reserve_is_refused_for_the_first_reason_that_applies() {
    check(
        "
        0 stock a 0                                                -> created total=0 available=0 v=1
        0 pause everything                                         -> paused
        0 pause at=default                                         -> paused
        0 pause a                                                  -> paused

        0 reserve r a=1000001,ghost=1,spook=1 ttl=1801             -> invalid_request /ttl_seconds
        0 reserve r a=1000001,ghost=1,spook=1 ttl=1800             -> unknown_item ghost,spook
        0 reserve r a=1000001 ttl=1800                             -> sale_paused everything
        0 resume everything                                        -> open
        0 reserve r a=1000001 ttl=1800                             -> sale_paused at=default
        0 resume at=default                                        -> open
        0 reserve r a=1000001 ttl=1800                             -> sale_paused a
        0 resume a                                                 -> open
        0 reserve r a=1000001 ttl=1800                             -> quantity_limit a=1000001>1000000
        0 reserve r a=1000000 ttl=1800                             -> insufficient_inventory a=1000000>0
        0 stock a 1000000                                          -> item total=1000000 available=1000000 v=2
        0 reserve r a=1000000 ttl=1800                             -> active until 1800000 a=1000000
        ",
    );
}

#[test]
fn a_used_key_is_answered_before_any_of_them() {
    check(
        "
        0 stock a 1                                     -> created total=1 available=1 v=1
        0 reserve r a=1 ttl=5 key=k                     -> active until 5000 a=1
        0 pause everything                              -> paused
        0 reserve s a=1 ttl=5 key=k                     -> again active until 5000 a=1
        0 reserve s ghost=1000001 ttl=9999 pool=x key=k -> idempotency_mismatch
        ",
    );
}
