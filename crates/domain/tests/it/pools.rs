//! Pools: `pools a` shows `name=allocated:held+sold`, and `^vip=2` behind a line says that two of its units were drawn from the pool.

use crate::table::check;

#[test]
fn a_pool_is_drawn_from_by_name_only() {
    check(
        "
        0 stock a 10 safety=1           -> created total=10 available=9 v=1
        0 pool a vip 4                  -> created total=10 available=5 v=2
        0 reserve r a=6                 -> insufficient_inventory a=6>5
        0 reserve r a=5                 -> active until 600000 a=5
        0 reserve s a=1                 -> insufficient_inventory a=1>0@600000
        0 reserve s a=3 pool=vip        -> active until 600000 a=3 ^vip=3
        0 pools a                       -> vip=4:3+0
        0 reserve t a=2 pool=vip        -> insufficient_inventory a=2>1@600000
        0 reserve t a=2 pool=vip partial -> active until 600000 a=1/2 ^vip=1
        0 confirm s                     -> confirmed at 0 a=3 ^vip=3
        0 pools a                       -> vip=4:1+3
        0 release t                     -> cancelled at 0 a=1/2 ^vip=1
        0 pools a                       -> vip=4:0+3
        0 return s a=1                  -> confirmed at 0 a=3-1 ^vip=2
        0 pools a                       -> vip=4:0+2
        0 reserve u a=1                 -> insufficient_inventory a=1>0@600000
        600000 sweep                    -> swept 1
        600000 pools a                  -> vip=4:0+2
        600000 reserve u a=1 pool=x     -> invalid_request /pool
        ",
    );
}

#[test]
fn general_stock_is_drawn_after_the_pool_if_it_falls_back() {
    check(
        "
        0 stock a 10                    -> created total=10 available=10 v=1
        0 pool a vip 2                  -> created total=10 available=8 v=2
        0 pool a press 2 strict         -> created total=10 available=6 v=3
        0 reserve r a=5 pool=vip        -> active until 600000 a=5 ^vip=2
        0 reserve s a=3 pool=press      -> insufficient_inventory a=3>2@600000
        0 reserve s a=2 pool=press      -> active until 600000 a=2 ^press=2
        0 amend r a=3                   -> active until 600000 a=3 ^vip=2
        0 amend r a=1                   -> active until 600000 a=1 ^vip=1
        0 amend r a=4                   -> active until 600000 a=4 ^vip=2
        0 split r a=3 into=p            -> active until 600000 a=3 ^vip=1
        0 hold r                        -> active until 600000 a=1 ^vip=1
        0 merge p r                     -> active until 600000 a=4 ^vip=2
        0 merge p s                     -> active until 600000 a=6 ^press=2 ^vip=2
        0 pools a                       -> press=2:2+0 vip=2:2+0
        0 amend p a=3                   -> active until 600000 a=3 ^press=2 ^vip=1
        0 confirm p                     -> confirmed at 0 a=3 ^press=2 ^vip=1
        0 return p a=2                  -> confirmed at 0 a=3-2 ^press=1
        0 return p a=1 write-off        -> confirmed at 0 a=3-3
        0 pools a                       -> press=1:0+0 vip=2:0+0
        0 books a                       -> total=9 sold=0 held=0 active=0 seq=19 v=4 at=0
        0 stock a 2                     -> below_committed sold=0 held=0 total=9 aside=3
        0 stock a 3                     -> item total=3 available=0 v=5
        ",
    );
}

#[test]
fn items_without_the_pool_give_general_stock() {
    check(
        "
        0 stock a 5                     -> created total=5 available=5 v=1
        0 stock b 5                     -> created total=5 available=5 v=1
        0 pool a vip 5                  -> created total=5 available=0 v=2
        0 reserve r a=1,b=1 pool=vip    -> active until 600000 a=1 ^vip=1 b=1
        0 reserve s b=1 pool=vip        -> invalid_request /pool
        0 reserve s b=1,ghost=1 pool=vip -> invalid_request /pool
        0 reserve s a=1,ghost=1 pool=vip -> unknown_item ghost
        ",
    );
}

#[test]
fn a_pool_is_released_at_its_time() {
    check(
        "
        0 stock a 10                    -> created total=10 available=10 v=1
        0 pool a vip 6 strict at=1000   -> created total=10 available=4 v=2
        0 reserve r a=2 pool=vip        -> active until 600000 a=2 ^vip=2
        0 confirm r                     -> confirmed at 0 a=2 ^vip=2
        999.999 reserve s a=5           -> insufficient_inventory a=5>4
        999.999 sweep                   -> swept 0
        1000 reserve s a=8              -> active until 601000 a=8
        1000 pools a                    -> vip=2:0+2@1000
        1000 reserve t a=1 pool=vip     -> insufficient_inventory a=1>0@601000
        1000 return r all               -> confirmed at 0 a=2-2
        1000 pools a                    -> vip=0:0+0@1000
        1000 reserve t a=2 pool=vip     -> active until 601000 a=2
        1000 pool a vip 1               -> below_committed sold=0 held=10 total=10
        1000 stock a 11                 -> item total=11 available=1 v=4
        1000 pool a vip 1               -> created total=11 available=0 v=5
        1000 reserve u a=1 pool=vip     -> active until 601000 a=1 ^vip=1
        ",
    );
}

#[test]
fn the_sweeper_releases_pools_and_an_idle_one_too() {
    check(
        "
        0 stock a 10                    -> created total=10 available=10 v=1
        0 stock b 10                    -> created total=10 available=10 v=1
        0 pool a vip 3 at=2000          -> created total=10 available=7 v=2
        0 pool b vip 3 idle=2           -> created total=10 available=7 v=2
        500 reserve r b=1 pool=vip ttl=1 -> active until 1500 b=1 ^vip=1
        2000 sweep                      -> swept 1 released 1
        2000 pools a                    -> vip=0:0+0@2000
        2000 pools b                    -> vip=3:0+0
        2499.999 sweep                  -> swept 0
        2500 sweep                      -> swept 0 released 1
        2500 pools b                    -> vip=0:0+0@2500
        2500 pool b vip 3 at=2400       -> created total=10 available=10 v=5
        2500 pools b                    -> vip=0:0+0@2500
        ",
    );
}

#[test]
fn what_is_drawn_stays_drawn_when_a_pool_is_deleted() {
    check(
        "
        0 stock a 4                     -> created total=4 available=4 v=1
        0 unpool a vip                  -> unknown_pool a vip
        0 pool a vip 5                  -> below_committed sold=0 held=0 total=4
        0 pool a vip 4                  -> created total=4 available=0 v=2
        0 pool a vip 4                  -> item total=4 available=0 v=2
        0 pool a vip 3 version=1        -> precondition_failed v=2
        0 reserve r a=3 pool=vip        -> active until 600000 a=3 ^vip=3
        0 pool a vip 2                  -> below_committed sold=0 held=3 total=4 aside=1
        0 pool a vip 3                  -> item total=4 available=1 v=3
        0 unpool a vip                  -> item total=4 available=1 v=4
        0 unpool a vip                  -> item total=4 available=1 v=4
        0 pools a                       -> vip=3:3+0@0
        0 amend r a=4                   -> active until 600000 a=4 ^vip=3
        0 amend r a=2                   -> active until 600000 a=2 ^vip=2
        0 pools a                       -> vip=2:2+0@0
        0 books a                       -> total=4 sold=0 held=2 active=1 seq=7 v=4 at=0
        0 release r                     -> cancelled at 0 a=2 ^vip=2
        0 pools a                       -> vip=0:0+0@0
        0 reserve s a=4 pool=vip        -> active until 600000 a=4
        ",
    );
}

#[test]
fn due_holds_are_expired_before_stock_is_set_aside() {
    check(
        "
        0 stock a 4 safety=4            -> created total=4 available=0 v=1
        0 stock a 4 safety=0            -> item total=4 available=4 v=2
        0 reserve r a=3 ttl=1           -> active until 1000 a=3
        999 pool a vip 2                -> below_committed sold=0 held=3 total=4
        1000 pool a vip 4               -> created total=4 available=0 v=3
        1000 hold r                     -> expired at 1000 a=3
        ",
    );
}

#[test]
fn a_backorder_never_takes_what_is_set_aside() {
    check(
        "
        0 stock a 4 allow=3             -> created total=4 available=7 v=1
        0 pool a vip 5                  -> below_committed sold=0 held=0 total=4
        0 pool a vip 4                  -> created total=4 available=3 v=2
        0 reserve r a=3                 -> active until 600000 a=3~3
        0 reserve s a=1                 -> insufficient_inventory a=1>0@600000
        0 reserve s a=4 pool=vip        -> active until 600000 a=4 ^vip=4
        0 amend r a=2                   -> active until 600000 a=2~2
        0 reserve t a=1 pool=vip        -> active until 600000 a=1~1
        0 pool a press 1                -> below_committed sold=0 held=7 total=4
        ",
    );
}

#[test]
fn a_late_payer_draws_from_the_pool_again() {
    check(
        "
        0 stock a 4                     -> created total=4 available=4 v=1
        0 pool a vip 2 strict           -> created total=4 available=2 v=2
        0 reserve r a=2 pool=vip ttl=1  -> active until 1000 a=2 ^vip=2
        1000 confirm r reacquire into=s -> confirmed at 1000 a=2 ^vip=2
        1000 pools a                    -> vip=2:0+2
        ",
    );
}

#[test]
fn an_item_has_a_bounded_number_of_pools_and_remembers_former_ones() {
    use std::fmt::Write;
    let mut table = String::from("0 stock a 99 -> created total=99 available=99 v=1\n");
    for number in 0..16 {
        writeln!(
            table,
            "0 pool a p{number} 1 -> created total=99 available={} v={}",
            98 - number,
            number + 2
        )
        .unwrap();
    }
    table.push_str("0 pool a more 1 -> too_many_pools a\n0 unpool a p3 -> item total=99 available=84 v=18\n");
    table.push_str("0 pool a more 1 -> created total=99 available=83 v=19\n");
    table.push_str("0 reserve r a=1 pool=p3 -> active until 600000 a=1\n");
    check(&table);
    // The 65th former pool takes the place of the first.
    let mut table = String::from("0 stock a 9 -> created total=9 available=9 v=1\n");
    for number in 0..65 {
        let version = 2 + 2 * number;
        writeln!(table, "{number} pool a q{number} 1 -> created total=9 available=8 v={version}").unwrap();
        writeln!(table, "{number} unpool a q{number} -> item total=9 available=9 v={}", version + 1).unwrap();
    }
    table.push_str("99 reserve r a=1 pool=q0 -> invalid_request /pool\n");
    table.push_str("99 reserve r a=1 pool=q1 -> active until 600099 a=1\n");
    check(&table);
}

#[test]
fn a_pool_that_ends_in_the_past_is_set_once() {
    check(
        "
        0 stock a 4                     -> created total=4 available=4 v=1
        9 pool a vip 3 at=5             -> created total=4 available=4 v=3
        9 pool a vip 3 at=5             -> item total=4 available=4 v=3
        9 pool a vip 3 at=20            -> created total=4 available=1 v=4
        ",
    );
}

#[test]
fn a_write_off_leaves_an_item_that_can_be_set() {
    check(
        "
        0 stock a 10 allow=10           -> created total=10 available=20 v=1
        0 pool a vip 8                  -> created total=10 available=12 v=2
        0 reserve r a=7                 -> active until 600000 a=7~5
        0 confirm r                     -> confirmed at 0 a=7~5
        0 fulfil r all                  -> confirmed at 0 a=7+7~5
        0 return r all write-off        -> confirmed at 0 a=7-7~5
        0 pools a                       -> vip=8:0+0
        0 stock a 3                     -> item total=3 available=5 v=3
        0 stock a 3 safety=1            -> item total=3 available=4 v=4
        0 stock a 2                     -> below_committed sold=0 held=0 total=3 aside=8
        ",
    );
}

#[test]
fn a_split_and_a_merge_keep_a_pool_that_is_older_than_all_that_are_remembered() {
    use std::fmt::Write;
    let mut table = String::from("0 stock a 9 -> created total=9 available=9 v=1\n");
    table.push_str("0 pool a vip 2 -> created total=9 available=7 v=2\n");
    table.push_str("0 reserve r a=2 pool=vip -> active until 600000 a=2 ^vip=2\n");
    table.push_str("0 unpool a vip -> item total=9 available=7 v=3\n");
    for number in 0..64 {
        let version = 4 + 2 * number;
        writeln!(table, "{} pool a q{number} 1 -> created total=9 available=6 v={version}", number + 1)
            .unwrap();
        writeln!(table, "{} unpool a q{number} -> item total=9 available=7 v={}", number + 1, version + 1)
            .unwrap();
    }
    table.push_str("99 reserve o a=1 -> active until 600099 a=1\n");
    table.push_str("99 merge o r -> active until 600099 a=3 ^vip=2\n");
    table.push_str("99 split o a=1 into=s -> active until 600099 a=1\n");
    table.push_str("99 split o a=1 into=t -> active until 600099 a=1 ^vip=1\n");
    check(&table);
}
