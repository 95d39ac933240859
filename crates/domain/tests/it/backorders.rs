//! Sale windows, units that may be sold before they are there, and deliveries that are expected. `~2@900` behind a line: two of its units
//! are backordered and promised for the instant 900.

use crate::table::check;

#[test]
fn an_item_is_sold_in_its_window_only() {
    check(
        "
        0 stock a 9 starts=1000 ends=3000 -> created total=9 available=9 v=1
        999 reserve r a=1                 -> sale_paused a starts 1000
        1000 reserve r a=1                -> active until 601000 a=1
        2999.999 amend r a=2              -> active until 601000 a=2
        3000 reserve s a=1                -> sale_paused a ended 3000
        3000 amend r a=3                  -> sale_paused a ended 3000
        3000 amend r a=1                  -> active until 601000 a=1
        3000 confirm r                    -> confirmed at 3000 a=1
        3000 stock a - ends=none          -> item total=9 available=8 v=2
        3000 reserve s a=1                -> active until 603000 a=1
        3000 stock a - starts=9000        -> item total=9 available=7 v=3
        3000 pause a                      -> paused
        3000 reserve t a=1                -> sale_paused a
        3000 resume a                     -> open
        3000 reserve t a=1                -> sale_paused a starts 9000
        3000 reserve t ghost=1,a=1        -> unknown_item ghost
        3000 stock b 1 starts=5 ends=5    -> invalid_request /sale_ends_at
        3000 stock a - ends=9000          -> invalid_request /sale_ends_at
        ",
    );
}

#[test]
fn a_late_payer_gets_nothing_after_the_sale() {
    check(
        "
        0 stock a 9 ends=3000             -> created total=9 available=9 v=1
        0 reserve r a=1 ttl=2             -> active until 2000 a=1
        3000 confirm r reacquire into=s -> not_reacquired r: sale_paused a ended 3000
        ",
    );
}

#[test]
fn the_allowance_is_sold_before_it_is_there() {
    check(
        "
        0 stock a 2 allow=3 incoming=boat:1@900+truck:1@400 -> created total=2 available=5 v=1
        0 reserve r a=3                -> active until 600000 a=3~1@400
        0 reserve s a=1                -> active until 600000 a=1~1@900
        0 reserve t a=1                -> active until 600000 a=1~1
        0 reserve u a=1                -> insufficient_inventory a=1>0@600000
        1 amend r a=1                  -> active until 600000 a=1
        1 amend r a=2                  -> active until 600000 a=2~1@900
        1 split r a=1 into=v           -> active until 600000 a=1~1@900
        1 merge r v                    -> active until 600000 a=2~1@900
        1 merge r t                    -> active until 600000 a=3~2
        1 confirm r                    -> confirmed at 1 a=3~2
        1 fulfil r all                 -> exceeds_on_hand a=3>2
        1 fulfil r a=2                 -> confirmed at 1 a=3+2~2
        1 stock a - allow=1            -> below_committed sold=3 held=1 total=2
        1 stock a - allow=2            -> item total=2 available=0 v=2
        1 adjust a -1                  -> below_committed sold=3 held=1 total=2
        1 adjust a 1 supply=ship       -> unknown_supply a ship
        1 adjust a -1 supply=boat      -> invalid_request /delta
        1 adjust a 3 supply=truck      -> item total=5 available=3 v=3
        1 adjust a 1 supply=truck      -> unknown_supply a truck
        1 return r a=1 write-off from=shelf -> confirmed at 1 a=3+2-1~2
        ",
    );
}

#[test]
fn a_due_hold_ends_before_a_line_is_backordered() {
    check(
        "
        0 stock a 1 allow=1       -> created total=1 available=2 v=1
        0 reserve r a=1 ttl=1     -> active until 1000 a=1
        999 reserve s a=1 ttl=1   -> active until 1999 a=1~1
        1999 reserve t a=1        -> active until 601999 a=1
        1999 books a              -> total=1 sold=0 held=1 active=1 seq=6 v=1 at=1999
        ",
    );
}

#[test]
fn a_unit_that_is_not_there_is_not_lost_and_does_not_leave() {
    check(
        "
        0 stock a 1 allow=2                -> created total=1 available=3 v=1
        0 reserve r a=3                    -> active until 600000 a=3~2
        0 confirm r                        -> confirmed at 0 a=3~2
        0 return r a=2 write-off            -> exceeds_on_hand a=2>1
        0 fulfil r a=1                     -> confirmed at 0 a=3+1~2
        0 return r a=1 write-off            -> exceeds_on_hand a=1>0
        0 return r a=1 from=fulfilled write-off -> confirmed at 0 a=3-1~2
        0 books a                          -> total=0 sold=2 held=0 active=0 seq=6 v=2 at=0
        ",
    );
}

#[test]
fn terms_that_cannot_be() {
    check(
        "
        0 stock hall - units allow=1         -> invalid_request /oversell_allowance
        0 stock hall - units incoming=a:1@1  -> invalid_request /incoming
        0 stock hall - units starts=1        -> created total=0 available=0 v=1
        0 stock hall - allow=1               -> invalid_request /oversell_allowance
        0 stock hall - gated=true            -> invalid_request /gated
        0 stock hall - gated=false           -> item total=0 available=0 v=1
        0 stock hall - gated=none            -> item total=0 available=0 v=1
        0 stock a 1 allow=1000000000001      -> invalid_request /oversell_allowance
        0 stock a 1 incoming=b:0@1           -> invalid_request /incoming/0/quantity
        0 stock a 1 incoming=b:1@1+b:1@2     -> invalid_request /incoming/1/supply_id
        0 stock a 1 incoming=b:1@1           -> created total=1 available=1 v=1
        0 stock a - incoming=none            -> item total=1 available=1 v=2
        0 stock a 0 allow=1 safety=1         -> item total=0 available=0 v=3
        ",
    );
}

#[test]
fn gated() {
    check(
        "
        0 stock a 1 gated=true          -> created total=1 available=1 v=1
        0 stock a 1                     -> item total=1 available=1 v=1
        0 stock a - gated=true          -> item total=1 available=1 v=1
        0 reserve 1 a=2                 -> insufficient_inventory a=2>1
        0 stock a - gated=false         -> item total=1 available=1 v=2
        0 stock a - gated=none          -> item total=1 available=1 v=2
        0 stock a - gated=true          -> item total=1 available=1 v=3
        0 stock a - gated=none          -> item total=1 available=1 v=4
        0 stock b 1 gated=none          -> created total=1 available=1 v=1
        0 stock hall - units gated=true -> invalid_request /gated
        ",
    );
}
