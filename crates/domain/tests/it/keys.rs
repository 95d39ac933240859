//! Idempotency keys.

use crate::table::check;

#[test]
fn a_key_has_one_effect() {
    check(
        "
        0 stock a 9                        -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5 key=k        -> active until 5000 a=1
        1 reserve s a=1 ttl=5 key=k        -> again active until 5000 a=1
        1 reserve t a=2 ttl=5 key=k        -> idempotency_mismatch
        1 hold s                           -> none
        2 extend r 9 key=e                 -> active until 9002 a=1
        3 extend r 9 key=e                 -> again active until 9002 a=1
        3 confirm r order=o key=c          -> confirmed at 3 order=o a=1
        4 confirm r order=o key=c          -> again confirmed at 3 order=o a=1
        4 confirm r order=p key=c          -> idempotency_mismatch
        5 return r a=1 key=b               -> confirmed at 3 order=o a=1-1
        6 return r a=1 key=b               -> again confirmed at 3 order=o a=1-1
        6 return r a=1                     -> return_exceeds_sold a=1>0
        7 adjust a 5 key=d                 -> item total=14 available=14 v=2
        7 adjust a 1                       -> item total=15 available=15 v=3
        8 adjust a 5 key=d                 -> again item total=15 available=15 v=3
        9 reserve u a=1 ttl=5 key=k        -> again confirmed at 3 order=o a=1-1
        9 books a                          -> total=15 sold=0 held=0 active=0 seq=6 v=3 at=7
        ",
    );
}

#[test]
fn a_replay_shows_what_is_there_now() {
    check(
        "
        0 stock a 9                    -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5 key=k    -> active until 5000 a=1
        9000 reserve s a=1 ttl=5 key=k -> again active until 5000 a=1
        9000 sweep                     -> swept 1
        9000 reserve t a=1 ttl=5 key=k -> again expired at 9000 a=1
        ",
    );
}

#[test]
fn a_refusal_leaves_its_key_free() {
    check(
        "
        0 stock a 0                 -> created total=0 available=0 v=1
        0 reserve r a=1 ttl=5 key=k -> insufficient_inventory a=1>0
        0 stock a 9                 -> item total=9 available=9 v=2
        0 reserve r a=2 ttl=5 key=k -> active until 5000 a=2
        0 reserve s a=1 ttl=5 key=k -> idempotency_mismatch
        5000 confirm r key=c        -> reservation_expired r since 5000
        5000 release r key=c        -> expired at 5000 a=2
        5000 confirm r key=c        -> idempotency_mismatch
        ",
    );
}

#[test]
fn what_finds_its_work_done_takes_its_key_all_the_same() {
    check(
        "
        0 stock a 9               -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5     -> active until 5000 a=1
        0 reserve s a=1 ttl=5     -> active until 5000 a=1
        1 extend r 1 key=e        -> active until 5000 a=1
        2 confirm r               -> confirmed at 2 a=1
        3 confirm r key=c         -> confirmed at 2 a=1
        4 confirm r key=c         -> again confirmed at 2 a=1
        4 extend r 1 key=e        -> again confirmed at 2 a=1
        5 release s               -> cancelled at 5 a=1
        6 release s key=f         -> cancelled at 5 a=1
        7 release s key=f         -> again cancelled at 5 a=1
        ",
    );
}

#[test]
fn what_is_the_same_done_twice_takes_no_key() {
    check(
        "
        0 stock a 9 key=k                     -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5 key=k           -> active until 5000 a=1
        0 stock a 8 key=k                     -> item total=8 available=7 v=2
        0 stock hall - units key=k            -> created total=0 available=0 v=1
        0 add hall x,y key=k                  -> added 2 unchanged 0 total=2 v=2
        0 retire hall x key=k                 -> item total=1 available=1 v=3
        0 pause a key=k                       -> paused
        0 resume a key=k                      -> open
        0 sweep key=k                         -> swept 0
        0 adjust a 1 key=k                    -> idempotency_mismatch
        0 reserve s a=1 ttl=5 key=k           -> again active until 5000 a=1
        ",
    );
}
