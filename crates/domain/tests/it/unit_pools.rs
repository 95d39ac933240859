//! Units with ids in pools. `map hall` shows each unit with its pool behind `^`.

use crate::table::{check, item};
use stockhold_domain::{Resource, limits};

const HALL: &str = "
    0 stock hall - units                          -> created total=0 available=0 v=1
    0 add hall a1@a:1,a2@a:2,a3@a:3,b1@b:11,b2@b:12,b3@b:13 -> added 6 unchanged 0 total=6 v=2
";

fn hall(table: &str) {
    check(&format!("{HALL}{table}"));
}

#[test]
fn claims_without_the_pool_pass_its_units_by() {
    hall(
        "
        0 into hall vip a1+b2             -> created total=6 available=4 v=4
        0 pools hall                      -> vip=2:0+0
        0 map hall                        -> .2^vip .1 .1 .1 .2^vip .1
        0 reserve r hall=2                -> active until 600000 hall=2(a2.2 a3.2)
        0 reserve s hall=2 pool=vip       -> active until 600000 hall=2 ^vip=2(a1.3 b2.3)
        0 pools hall                      -> vip=2:2+0
        0 reserve t hall=2 pool=vip       -> active until 600000 hall=2(b1.2 b3.2)
        0 reserve u hall=1                -> insufficient_inventory hall=1>0@600000
        0 release s                       -> cancelled at 0 hall=2 ^vip=2(a1.4 b2.4)
        0 reserve u hall=1                -> insufficient_inventory hall=1>0@600000
        0 map hall                        -> .4^vip h2 h2 h2 .4^vip h2
        0 pools hall                      -> vip=2:0+0
        0 books hall                      -> total=6 sold=0 held=4 active=2 seq=0 v=4 at=0
        ",
    );
}

#[test]
fn the_pool_gives_first_and_general_stock_the_rest() {
    hall(
        "
        0 pool hall vip -                 -> created total=6 available=6 v=3
        0 pool hall vip 2                 -> invalid_request /allocated
        0 into hall vip b2+b3             -> item total=6 available=4 v=4
        0 pool hall vip - strict          -> item total=6 available=4 v=5
        0 reserve r hall=3 pool=vip       -> insufficient_inventory hall=3>2
        0 reserve r hall=3 pool=vip partial -> active until 600000 hall=2/3 ^vip=2(b2.3 b3.3)
        0 release r                       -> cancelled at 0 hall=2/3 ^vip=2(b2.4 b3.4)
        0 reserve s hall=[b2+a1] pool=vip -> units_unavailable hall=[a1]
        0 pool hall vip -                 -> item total=6 available=4 v=6
        0 reserve s hall=3 pool=vip       -> active until 600000 hall=3 ^vip=2(b2.5 b3.5 a1.2)
        0 amend s hall=2                  -> active until 600000 hall=2 ^vip=2(b2.5 b3.5)
        0 amend s hall=1                  -> active until 600000 hall=1 ^vip=1(b2.5)
        0 amend s hall=4                  -> active until 600000 hall=4 ^vip=2(b2.5 b3.7 a1.4 a2.2)
        0 split s hall=3 into=p           -> active until 600000 hall=3 ^vip=1(b2.7 a1.6 a2.4)
        0 hold s                          -> active until 600000 hall=1 ^vip=1(b3.7)
        0 merge s p                       -> active until 600000 hall=4 ^vip=2(b3.7 b2.9 a1.8 a2.6)
        0 confirm s                       -> confirmed at 0 hall=4 ^vip=2(b3.8 b2.10 a1.9 a2.7)
        0 pools hall                      -> vip=2:0+2
        0 return s hall=3                 -> confirmed at 0 hall=4-3 ^vip=1(b3.9- b2.10 a1.10- a2.8-)
        0 pools hall                      -> vip=2:0+1
        0 map hall                        -> .10 .8 .1 .1 s10^vip .9^vip
        ",
    );
}

#[test]
fn a_unit_of_a_pool_is_named_with_the_pool_only() {
    hall(
        "
        0 into hall vip a1                -> created total=6 available=5 v=4
        0 into hall press b1              -> created total=6 available=4 v=6
        0 reserve r hall=[a1]             -> units_unavailable hall=[a1]
        0 reserve r hall=[b1+a1] pool=vip -> units_unavailable hall=[b1]
        0 reserve r hall=[b3+a1] pool=vip -> active until 600000 hall=2 ^vip=1(b3.2 a1.3)
        0 amend r hall=[a1+b2]            -> active until 600000 hall=2 ^vip=1(a1.3 b2.2)
        600000 confirm r reacquire        -> confirmed at 600000 hall=2 ^vip=1(a1.6 b2.5)
        600000 map hall                   -> s6^vip .1 .1 .2^press s5 .3
        ",
    );
}

#[test]
fn only_available_units_change_their_pool() {
    hall(
        "
        0 reserve r hall=[b2] ttl=5       -> active until 5000 hall=1(b2.2)
        0 into hall vip a1+b2             -> unit_in_use hall b2 held
        0 pools hall                      ->
        0 map hall                        -> .1 .1 .1 .1 h2 .1
        0 into hall vip sections=b        -> unit_in_use hall b2 held
        0 into hall vip a1+a1             -> invalid_request /units/1
        0 into hall vip sections=c        -> invalid_request /sections/0
        0 into hall vip x                 -> unknown_unit hall x
        0 out hall vip a1                 -> unknown_pool hall vip
        5000 into hall vip sections=b     -> created total=6 available=3 v=4
        5000 map hall                     -> .1 .1 .1 .2^vip .4^vip .2^vip
        5000 into hall vip sections=b     -> item total=6 available=3 v=4
        5000 into hall press b1+a1        -> created total=6 available=2 v=6
        5000 pools hall                   -> press=2:0+0 vip=2:0+0
        5000 reserve s hall=[b2] pool=vip -> active until 605000 hall=1 ^vip=1(b2.5)
        5000 into hall vip b2+b3          -> item total=6 available=2 v=6
        5000 into hall press b2           -> unit_in_use hall b2 held
        5000 out hall vip b2              -> unit_in_use hall b2 held
        5000 out hall vip b3+a1+a2        -> item total=6 available=3 v=7
        5000 pools hall                   -> press=2:0+0 vip=1:1+0
        5000 out hall vip b3 version=6    -> precondition_failed v=7
        5000 stock a 1                    -> created total=1 available=1 v=1
        5000 into a vip x                 -> mode_mismatch a counted
        5000 pool a vip -                 -> invalid_request /allocated
        ",
    );
}

#[test]
fn a_released_pool_gives_its_free_units_to_everyone() {
    hall(
        "
        0 pool hall vip - strict at=9000  -> created total=6 available=6 v=3
        0 into hall vip a1+a2+a3          -> item total=6 available=3 v=4
        0 reserve r hall=1 pool=vip       -> active until 600000 hall=1 ^vip=1(a1.3)
        0 reserve s hall=1 pool=vip       -> active until 600000 hall=1 ^vip=1(a2.3)
        0 confirm s                       -> confirmed at 0 hall=1 ^vip=1(a2.4)
        8999 sweep                        -> swept 0
        9000 sweep                        -> swept 0 released 1
        9000 map hall                     -> h3^vip s4^vip .3 .1 .1 .1
        9000 pools hall                   -> vip=2:1+1@9000
        9000 split r hall=1 into=p        -> invalid_request /lines
        9000 reserve t hall=4 pool=vip    -> active until 609000 hall=4(a3.4 b1.2 b2.2 b3.2)
        9000 release r                    -> cancelled at 9000 hall=1 ^vip=1(a1.4)
        9000 map hall                     -> .4 s4^vip h4 h2 h2 h2
        9000 pools hall                   -> vip=1:0+1@9000
        9000 return s all                 -> confirmed at 0 hall=1-1(a2.5-)
        9000 pools hall                   -> vip=0:0+0@9000
        9000 reserve u hall=2             -> active until 609000 hall=2(a1.5 a2.6)
        9000 books hall                   -> total=6 sold=0 held=6 active=2 seq=0 v=6 at=9000
        ",
    );
}

#[test]
fn an_idle_pool_is_released_by_a_reserve_too() {
    hall(
        "
        0 pool hall vip - strict idle=10  -> created total=6 available=6 v=3
        1000 into hall vip sections=a     -> item total=6 available=3 v=4
        5000 reserve r hall=1 pool=vip    -> active until 605000 hall=1 ^vip=1(a1.3)
        14999 reserve s hall=4            -> insufficient_inventory hall=4>3@605000
        15000 reserve s hall=4            -> active until 615000 hall=4(a2.4 a3.4 b1.2 b2.2)
        15000 pools hall                  -> vip=1:1+0@15000
        15000 into hall vip b3            -> item total=6 available=0 v=8
        15000 pools hall                  -> vip=2:1+0
        15000 release r                   -> cancelled at 15000 hall=1 ^vip=1(a1.4)
        15000 map hall                    -> .4^vip h4 h4 h2 h2 .2^vip
        ",
    );
}

#[test]
fn what_is_held_goes_on_when_its_pool_is_deleted() {
    hall(
        "
        0 into hall vip a1+a2+a3          -> created total=6 available=3 v=4
        0 reserve r hall=3 pool=vip       -> active until 600000 hall=3 ^vip=3(a1.3 a2.3 a3.3)
        0 amend r hall=2                  -> active until 600000 hall=2 ^vip=2(a1.3 a2.3)
        0 unpool hall vip                 -> item total=6 available=4 v=6
        0 map hall                        -> h3^vip h3^vip .5 .1 .1 .1
        0 split r hall=[a1] into=p        -> active until 600000 hall=1 ^vip=1(a1.5)
        0 pools hall                      -> vip=2:2+0@0
        0 merge r p                       -> active until 600000 hall=2 ^vip=2(a2.3 a1.7)
        0 pools hall                      -> vip=2:2+0@0
        0 transfer r owner=x              -> active until 600000 hall=2 ^vip=2(a2.3 a1.7)
        0 amend r hall=[a2]               -> active until 600000 hall=1 ^vip=1(a2.3)
        0 map hall                        -> .8 h3^vip .5 .1 .1 .1
        0 unpool hall vip                 -> item total=6 available=5 v=6
        600000 sweep                      -> swept 1
        600000 map hall                   -> .8 .4 .5 .1 .1 .1
        600000 pools hall                 -> vip=0:0+0@0
        ",
    );
}

#[test]
fn units_that_go_leave_their_pools() {
    hall(
        "
        0 into hall vip a1+a2+a3          -> created total=6 available=3 v=4
        0 retire hall a1                  -> item total=5 available=3 v=5
        0 pools hall                      -> vip=2:0+0
        0 reserve r hall=3 pool=vip       -> active until 600000 hall=3 ^vip=2(a2.3 a3.3 b1.2)
        0 confirm r                       -> confirmed at 0 hall=3 ^vip=2(a2.4 a3.4 b1.3)
        0 return r units=a2 write-off     -> confirmed at 0 hall=3-1 ^vip=1(a2.5- a3.4 b1.3)
        0 pools hall                      -> vip=1:0+1
        0 return r hall=1 write-off       -> confirmed at 0 hall=3-2 ^vip=1(a2.5- a3.4 b1.4-)
        0 pools hall                      -> vip=1:0+1
        0 unpool hall vip                 -> item total=3 available=2 v=8
        0 return r all write-off          -> confirmed at 0 hall=3-3(a2.5- a3.5- b1.4-)
        0 pools hall                      -> vip=0:0+0@0
        0 books hall                      -> total=2 sold=0 held=0 active=0 seq=0 v=9 at=0
        ",
    );
}

#[test]
fn the_best_of_the_pool_come_before_the_best_of_all() {
    hall(
        "
        0 into hall vip a3+b1+b3          -> created total=6 available=3 v=4
        0 reserve r hall=2 adjacent       -> active until 600000 hall=2(a1.2 a2.2)
        0 reserve s hall=2 adjacent pool=vip -> active until 600000 hall=2 ^vip=1(b1.3 b2.2)
        0 reserve t hall=2 adjacent pool=vip -> insufficient_inventory hall=2>1@600000
        0 reserve t hall=2 sections=b pool=vip partial -> active until 600000 hall=1/2 ^vip=1(b3.3)
        0 pools hall                      -> vip=3:2+0
        ",
    );
}

#[test]
fn safety_stock_is_kept_from_those_with_a_pool_too() {
    hall(
        "
        0 stock hall - safety=3           -> item total=6 available=3 v=3
        0 into hall vip a1+a2             -> created total=6 available=1 v=5
        0 reserve r hall=[b1+b2+a1] pool=vip partial -> active until 600000 hall=2/3 ^vip=1(b1.2 a1.3)
        0 reserve s hall=2 pool=vip       -> insufficient_inventory hall=2>1@600000
        ",
    );
}

/// A pool with more units than one batch takes out.
#[test]
fn a_large_pool_is_released_batch_by_batch() {
    let ids = |from: u32, to: u32| (from..to).map(|n| format!("{n:05}")).collect::<Vec<_>>();
    let half = limits::UNPOOLED_PER_BATCH;
    let (first, second) = (ids(0, half), ids(half, half + 3));
    let added = |ids: &[String]| ids.iter().map(|id| format!("{id}@a")).collect::<Vec<_>>().join(",");
    let played = check(&format!(
        "
        0 stock hall - units        -> created total=0 available=0 v=1
        0 add hall {}               -> added 10000 unchanged 0 total=10000 v=2
        0 add hall {}               -> added 3 unchanged 0 total=10003 v=3
        0 into hall vip sections=a  -> invalid_request /sections
        0 into hall vip {}          -> created total=10003 available=3 v=5
        0 into hall vip {}          -> item total=10003 available=0 v=6
        0 pool hall vip - at=9000   -> item total=10003 available=0 v=7
        9000 reserve r hall=1       -> later
        9000 pools hall             -> vip=3:0+0@9000
        9000 reserve r hall=1       -> active until 609000 hall=1(00000.4)
        9000 pools hall             -> vip=0:0+0@9000
        9000 into hall vip {}       -> unit_in_use hall 00000 held
        9000 into hall vip {}       -> created total=10003 available=9999 v=12
        9000 unpool hall vip        -> item total=10003 available=10002 v=14
        ",
        added(&first),
        added(&second),
        first.join("+"),
        second.join("+"),
        first.join("+"),
        second.join("+"),
    ));
    assert_eq!(played.shop.unit_indexes[&item("hall")].first_free(None, 20_000).count(), 10_002);
}

#[test]
fn a_footprint_names_free_units_of_the_pool_and_then_general_stock() {
    let mut played = check(&format!(
        "{HALL}
        0 into hall vip a1+b2 -> created total=6 available=4 v=4
        0 pool hall press - strict -> created total=6 available=4 v=5
        ",
    ));
    let pool = |name: &str| Some(crate::table::label(name));
    let of = |pool, count| Resource::FreeUnits(item("hall"), pool, count);
    for (command, expected) in [
        ("reserve r hall=3", vec![of(None, 3)]),
        ("reserve r hall=2 pool=vip", vec![of(pool("vip"), 2)]),
        ("reserve r hall=3 pool=vip", vec![of(pool("vip"), 2), of(None, 1)]),
        ("reserve r hall=3 pool=press", vec![]),
        ("reserve r hall=3 pool=x", vec![of(None, 3)]),
        ("unpool hall vip", vec![of(pool("vip"), 2)]),
        ("unpool hall press", vec![]),
    ] {
        let mut names = Vec::new();
        stockhold_domain::footprint(&played.shop.clone(), &played.envelope(command), &mut names);
        names.retain(|name| matches!(name, Resource::FreeUnits(..)));
        assert_eq!(names, expected, "{command}");
    }
    let mut names = Vec::new();
    let command = played.envelope("into hall press sections=b");
    stockhold_domain::footprint(&played.shop, &command, &mut names);
    let unit = |id: &str| Resource::Unit(item("hall"), crate::table::label(id));
    let hall = [Resource::Item(item("hall")), Resource::SeatMap(item("hall"))];
    assert_eq!(names, [&hall[..], &[unit("b1"), unit("b2"), unit("b3")]].concat());
}
