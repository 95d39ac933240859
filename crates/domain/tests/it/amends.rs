//! Amend, transfer, split and merge.

use crate::table::{check, id};

#[test]
fn an_amend_replaces_the_lines_and_counts_its_own_units_as_free() {
    let played = check(
        "
        0 stock a 5          -> created total=5 available=5 v=1
        0 stock b 5          -> created total=5 available=5 v=1
        0 reserve r a=4 ttl=5 -> active until 5000 a=4
        1 amend r a=5        -> active until 5000 a=5
        1 books a            -> total=5 sold=0 held=5 active=1 seq=3 v=1 at=1
        2 amend r a=6        -> insufficient_inventory a=6>5@5000
        2 amend r a=6 partial -> active until 5000 a=5/6
        3 amend r b=2,a=1    -> active until 5000 b=2 a=1
        3 books a            -> total=5 sold=0 held=1 active=1 seq=4 v=1 at=3
        3 books b            -> total=5 sold=0 held=2 active=1 seq=2 v=1 at=3
        4 amend r b=2        -> active until 5000 b=2
        4 books a            -> total=5 sold=0 held=0 active=0 seq=5 v=1 at=4
        5 confirm r          -> confirmed at 5 b=2
        5 books b            -> total=5 sold=2 held=0 active=0 seq=3 v=1 at=5
        6 amend r b=1        -> reservation_confirmed r
        6 amend ghost b=1    -> unknown_reservation ghost
        ",
    );
    assert_eq!(
        played.shop.holds[&id("r")].version,
        6,
        "five changes and the creation; refusals count for nothing"
    );
}

#[test]
fn an_amend_that_changes_nothing_is_no_event() {
    let played = check(
        "
        0 stock a 5             -> created total=5 available=5 v=1
        0 stock b 5             -> created total=5 available=5 v=1
        0 reserve r a=2,b=1 ttl=5 -> active until 5000 a=2 b=1
        1 amend r -             -> active until 5000 a=2 b=1
        1 amend r a=2,b=1       -> active until 5000 a=2 b=1
        1 amend r - ttl=4       -> active until 5000 a=2 b=1
        1 amend r - metadata=-  -> active until 5000 a=2 b=1
        1 books a               -> total=5 sold=0 held=2 active=1 seq=2 v=1 at=0
        2 amend r - metadata=m  -> active until 5000 a=2 b=1
        3 amend r - ttl=9       -> active until 9003 a=2 b=1
        3 amend r a=2,b=1 version=3 -> active until 9003 a=2 b=1
        3 amend r a=1 version=2 -> precondition_failed v=3
        3 release r             -> cancelled at 3 a=2 b=1
        3 amend r a=1 version=2 -> precondition_failed v=4
        3 amend r a=1           -> reservation_cancelled r
        ",
    );
    assert_eq!(
        played.shop.holds[&id("r")].terms.reserve.optional.as_ref().unwrap().metadata.as_deref(),
        Some("m")
    );
}

#[test]
fn a_line_that_gets_nothing_is_as_if_it_was_not_named() {
    let played = check(
        "
        0 stock a 5               -> created total=5 available=5 v=1
        0 stock b 0               -> created total=0 available=0 v=1
        0 stock c 5               -> created total=5 available=5 v=1
        0 reserve r a=2 ttl=5     -> active until 5000 a=2
        1 amend r a=2,b=1 partial -> active until 5000 a=2
        1 books a                 -> total=5 sold=0 held=2 active=1 seq=2 v=1 at=0
        0 reserve s a=1,c=1 ttl=5 -> active until 5000 a=1 c=1
        1 amend s a=1,b=1 partial -> active until 5000 a=1
        1 books c                 -> total=5 sold=0 held=0 active=0 seq=3 v=1 at=1
        ",
    );
    assert_eq!((played.shop.holds[&id("r")].version, played.shop.holds[&id("s")].version), (1, 2));
}

#[test]
fn only_what_an_amend_adds_is_judged() {
    check(
        "
        0 stock a 9           -> created total=9 available=9 v=1
        0 stock b 9           -> created total=9 available=9 v=1
        0 stock hall - units  -> created total=0 available=0 v=1
        0 add hall x,y,z      -> added 3 unchanged 0 total=3 v=2
        0 reserve r a=3,hall=[x+y] ttl=5 -> active until 5000 a=3 hall=2(x.2 y.2)
        0 pause everything    -> paused
        1 amend r a=2,hall=[y] -> active until 5000 a=2 hall=1(y.2)
        1 map hall            -> .3 h2 .1
        1 amend r a=2,hall=[x] -> sale_paused everything
        1 amend r a=3,hall=[y] -> sale_paused everything
        1 amend r a=2,hall=[y],b=1 -> sale_paused everything
        1 amend r a=2,hall=[y],ghost=1 -> unknown_item ghost
        1 amend r a=[q],hall=[y] -> mode_mismatch a counted
        1 amend r a=1         -> active until 5000 a=1
        1 resume everything   -> open
        2 amend r a=1000001   -> quantity_limit a=1000001>1000000
        ",
    );
}

#[test]
fn units_that_a_line_keeps_stay_and_the_others_are_free_at_once() {
    check(
        "
        0 stock hall - units        -> created total=0 available=0 v=1
        0 add hall a:1,b:2,c:3,d:4,e:5  -> added 5 unchanged 0 total=5 v=2
        0 reserve r hall=[d+b] ttl=9 -> active until 9000 hall=2(d.2 b.2)
        1 amend r hall=3            -> active until 9000 hall=3(d.2 b.2 a.2)
        1 map hall                  -> h2 h2 .1 h2 .1
        2 amend r hall=2            -> active until 9000 hall=2(b.2 a.2)
        2 map hall                  -> h2 h2 .1 .3 .1
        3 reserve s hall=[d] ttl=9  -> active until 9003 hall=1(d.4)
        4 amend r hall=[a+d]        -> units_unavailable hall=[d] next=9003
        4 amend r hall=[c+a+e]      -> active until 9000 hall=3(a.2 c.2 e.2)
        4 map hall                  -> h2 .3 h2 h4 h2
        5 amend r hall=3 adjacent   -> active until 9000 hall=3(a.2 c.2 b.4)
        5 books hall                -> total=5 sold=0 held=4 active=2 seq=0 v=2 at=5
        6 amend r hall=5            -> insufficient_inventory hall=5>4@9000
        6 amend r hall=2 adjacent together=2 -> active until 9000 hall=2(a.2 b.4)
        ",
    );
}

#[test]
fn a_swap_needs_no_free_stock_beside_it_and_expires_what_is_due() {
    check(
        "
        0 stock a 2            -> created total=2 available=2 v=1
        0 reserve r a=1 ttl=9  -> active until 9000 a=1
        0 reserve s a=1 ttl=5  -> active until 5000 a=1
        4999 amend r a=2       -> insufficient_inventory a=2>1@5000
        5000 amend r a=2       -> active until 9000 a=2
        5000 hold s            -> expired at 5000 a=1
        9000 amend r a=1       -> reservation_expired r since 9000
        9000 books a           -> total=2 sold=0 held=0 active=0 seq=6 v=1 at=9000
        ",
    );
}

#[test]
fn a_hold_that_is_due_by_the_clock_of_a_new_item_is_not_amended() {
    check(
        "
        0 stock a 2             -> created total=2 available=2 v=1
        0 reserve r a=1 ttl=5   -> active until 5000 a=1
        6000 stock b 2          -> created total=2 available=2 v=1
        4000 amend r a=1,b=1    -> reservation_expired r since 5000
        4000 books a            -> total=2 sold=0 held=0 active=0 seq=3 v=1 at=6000
        4000 books b            -> total=2 sold=0 held=0 active=0 seq=1 v=1 at=6000
        ",
    );
}

#[test]
fn the_deadline_moves_as_an_extension_would_and_new_lines_bring_their_limits() {
    check(
        "
        0 stock a 9                -> created total=9 available=9 v=1
        0 stock b 9 max=20         -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=900    -> active until 900000 a=1
        1000 amend r a=2 ttl=60    -> active until 900000 a=2
        1000 amend r - ttl=1000    -> active until 1001000 a=2
        2000 amend r a=1,b=1       -> active until 22000 a=1 b=1
        2000 amend r a=1 ttl=9000  -> extension_limit 22000
        2000 extend r 5            -> extension_limit 22000
        2000 amend r a=1           -> active until 22000 a=1
        0 reserve s a=1 ttl=10     -> active until 12000 a=1
        2000 amend s - ttl=2592000 -> active until 1802000 a=1
        2000 amend s - ttl=1       -> extension_limit 1802000
        ",
    );
}

#[test]
fn an_amend_after_a_closed_payment_window_keeps_the_deadline() {
    check(
        "
        0 stock a 9 max=20         -> created total=9 available=9 v=1
        0 stock b 9                -> created total=9 available=9 v=1
        0 stock c 9 max=30         -> created total=9 available=9 v=1
        0 reserve r a=2 ttl=10     -> active until 10000 a=2
        1000 pay r p window=30     -> active until 31000 paying p until 31000 a=2
        25000 unpay r              -> active until 85000 unpaid p until 31000 a=2
        26000 amend r - ttl=5      -> extension_limit 20000
        26000 amend r - metadata=m -> active until 85000 unpaid p until 31000 a=2
        26000 amend r a=1,b=1      -> active until 85000 unpaid p until 31000 a=1 b=1
        26000 amend r a=1,c=1      -> active until 56000 unpaid p until 31000 a=1 c=1
        ",
    );
}

#[test]
fn a_transfer_changes_who_it_is_for_and_nothing_else() {
    let played = check(
        "
        0 stock a 9                       -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=5 session=s customer=c metadata=m -> active until 5000 a=1
        0 pause everything                -> paused
        1 transfer r                      -> invalid_request
        1 transfer r owner=ann session=- version=1 -> active until 5000 a=1
        1 transfer r owner=ann version=1  -> precondition_failed v=2
        1 transfer r owner=ann            -> active until 5000 a=1
        1 books a                         -> total=9 sold=0 held=1 active=1 seq=2 v=1 at=1
        2 confirm r                       -> confirmed at 2 a=1
        2 transfer r owner=bob            -> reservation_confirmed r
        2 transfer ghost owner=bob        -> unknown_reservation ghost
        ",
    );
    let hold = &played.shop.holds[&id("r")];
    let terms = &hold.terms.reserve;
    let optional = terms.optional.as_ref().unwrap();
    assert_eq!((terms.owner_id.as_str(), hold.version), ("ann", 3));
    assert_eq!(optional.customer_id.as_ref().map(stockhold_domain::Label::as_str), Some("c"));
    assert_eq!((optional.session_id.as_ref(), optional.metadata.as_deref()), (None, Some("m")));
}

#[test]
fn a_split_moves_lines_under_the_same_deadline() {
    let played = check(
        "
        0 stock a 9                  -> created total=9 available=9 v=1
        0 stock hall - units         -> created total=0 available=0 v=1
        0 add hall x,y,z             -> added 3 unchanged 0 total=3 v=2
        0 reserve r a=3,hall=[x+y+z] ttl=5 -> active until 5000 a=3 hall=3(x.2 y.2 z.2)
        1 split r a=4 into=s         -> split_exceeds_held a=4>3
        1 split r b=1 into=s         -> split_exceeds_held b=1>0
        1 split r hall=[x+q] into=s  -> split_exceeds_held hall=2>3
        1 split r a=3,hall=3 into=s  -> invalid_request /lines
        1 split r a=1,hall=[y] into=s key=k -> active until 5000 a=1 hall=1(y.4)
        1 hold r                     -> active until 5000 a=2 hall=2(x.2 z.2)
        1 books a                    -> total=9 sold=0 held=3 active=2 seq=4 v=1 at=1
        1 books hall                 -> total=3 sold=0 held=3 active=2 seq=0 v=2 at=1
        1 map hall                   -> h2 h4 h2
        2 split r a=2 into=t         -> active until 5000 a=2
        2 hold r                     -> active until 5000 hall=2(x.2 z.2)
        3 confirm s                  -> confirmed at 3 a=1 hall=1(y.5)
        3 split r a=1,hall=[y] into=u key=k -> again confirmed at 3 a=1 hall=1(y.5)
        5000 hold r                  -> active until 5000 hall=2(x.2 z.2)
        5000 release r               -> expired at 5000 hall=2(x.3 z.3)
        5000 split r hall=1 into=v   -> reservation_expired r since 5000
        ",
    );
    let (r, s) = (&played.shop.holds[&id("r")], &played.shop.holds[&id("s")]);
    assert_eq!(r.details().split_into, [id("s"), id("t")]);
    assert_eq!(
        (s.details().split_from, s.version, s.terms.created_at.millis()),
        (Some(id("r")), 2, r.terms.created_at.millis() + 1)
    );
    assert_eq!(s.terms.max_expires_at, r.terms.max_expires_at);
}

#[test]
fn a_merge_adds_the_lines_of_others_which_end() {
    let played = check(
        "
        0 stock a 9                  -> created total=9 available=9 v=1
        0 stock b 9                  -> created total=9 available=9 v=1
        0 stock hall - units         -> created total=0 available=0 v=1
        0 add hall x,y,z             -> added 3 unchanged 0 total=3 v=2
        0 reserve r a=1,hall=[z] ttl=5 -> active until 5000 a=1 hall=1(z.2)
        0 reserve s a=2,b=1 ttl=9    -> active until 9000 a=2 b=1
        0 reserve t hall=[x] ttl=9   -> active until 9000 hall=1(x.2)
        0 reserve u a=1 ttl=1        -> active until 1000 a=1
        1 merge r r                  -> invalid_request /from/0
        1 merge r s,t,s              -> invalid_request /from/2
        1 merge r s,ghost            -> unknown_reservation ghost
        0 pause everything           -> paused
        1 merge r s,t key=k          -> active until 5000 a=3 hall=2(z.2 x.4) b=1
        1 hold s                     -> cancelled at 1 reason=merged a=2 b=1
        1 hold t                     -> cancelled at 1 reason=merged hall=1(x.3)
        1 books a                    -> total=9 sold=0 held=4 active=2 seq=6 v=1 at=1
        1 books b                    -> total=9 sold=0 held=1 active=1 seq=4 v=1 at=1
        1 map hall                   -> h4 .1 h2
        2 merge r s                  -> reservation_cancelled s
        2 merge r s,t key=k          -> again active until 5000 a=3 hall=2(z.2 x.4) b=1
        1000 merge r u               -> reservation_expired u since 1000
        1000 hold u                  -> expired at 1000 a=1
        1000 confirm r               -> confirmed at 1000 a=3 hall=2(z.3 x.5) b=1
        ",
    );
    let (r, s) = (&played.shop.holds[&id("r")], &played.shop.holds[&id("s")]);
    assert_eq!(r.details().merged_from, [id("s"), id("t")]);
    assert_eq!((s.details().merged_into, s.version), (Some(id("r")), 2));
}

#[test]
fn a_merge_is_judged_as_if_the_sum_had_been_reserved() {
    check(
        "
        0 stock a 3000000            -> created total=3000000 available=3000000 v=1
        0 stock b 9 max=10           -> created total=9 available=9 v=1
        0 reserve r a=999999 ttl=50  -> active until 50000 a=999999
        0 reserve s a=2 ttl=50       -> active until 50000 a=2
        0 reserve t b=1 ttl=5        -> active until 5000 b=1
        0 merge r s                  -> quantity_limit a=1000001>1000000
        0 hold s                     -> active until 50000 a=2
        0 merge r t                  -> active until 10000 a=999999 b=1
        1 extend r 60                -> extension_limit 10000
        ",
    );
}

#[test]
fn a_merge_after_a_closed_payment_window_leaves_time_and_keeps_the_limit_of_windows() {
    check(
        "
        0 stock a 9 max=20          -> created total=9 available=9 v=1
        0 stock b 9 max-payment=100 -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=10      -> active until 10000 a=1
        0 reserve s a=1 ttl=10      -> active until 10000 a=1
        1000 pay r p window=30      -> active until 31000 paying p until 31000 a=1
        2000 pay s p window=30      -> active until 32000 paying p until 32000 a=1
        25000 unpay r               -> active until 85000 unpaid p until 31000 a=1
        26000 unpay s               -> active until 86000 unpaid p until 32000 a=1
        26000 reserve t b=1 ttl=900 -> active until 926000 b=1
        26000 reserve u b=1 ttl=900 -> active until 926000 b=1
        27000 merge r t             -> active until 85000 unpaid p until 31000 a=1 b=1
        27000 merge u s             -> active until 86000 b=1 a=1
        28000 pay u q window=75     -> extension_limit 102000
        28000 pay u q window=74     -> active until 102000 paying q until 102000 b=1 a=1
        ",
    );
}

#[test]
fn an_unknown_reservation_is_named_before_its_key() {
    check(
        "
        0 stock a 9               -> created total=9 available=9 v=1
        0 reserve r a=2 ttl=5     -> active until 5000 a=2
        0 amend r a=1 key=k       -> active until 5000 a=1
        0 amend r a=2 key=k       -> idempotency_mismatch
        0 amend ghost a=1 key=k   -> unknown_reservation ghost
        0 amend r a=1 key=k       -> again active until 5000 a=1
        ",
    );
}
