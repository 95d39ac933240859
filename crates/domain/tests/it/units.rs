//! Units with ids: added and retired, held, sold, given back, expired, returned.

use crate::said::said;
use crate::table::{check, instant, item};
use stockhold_domain::limits;

/// Four seats of one row.
const HALL: &str = "
    0 stock hall - units                      -> created total=0 available=0 v=1
    0 add hall a1@s/A,a2@s/A,a3@s/A,a4@s/A    -> added 4 unchanged 0 total=4 v=2
";

fn play(table: &str) {
    check(&format!("{HALL}{table}"));
}

#[test]
fn units_are_added_once_and_never_changed() {
    play(
        "
        1 add hall a1@s/A,a5@s/A                 -> added 1 unchanged 1 total=5 v=3
        1 add hall a1@s/A:1                      -> added 0 unchanged 1 total=5 v=3
        1 add hall a9,a1@s/B                     -> invalid_request /units/1
        1 add hall a1@s/A:7                      -> invalid_request /units/0
        1 add hall a1@s/A+aisle                  -> invalid_request /units/0
        1 add hall b1,b1                         -> invalid_request /units/1/unit_id
        1 add hall b1:9007199254740992           -> invalid_request /units/0/position
        1 add ghost b1                           -> unknown_item ghost
        1 books hall                             -> total=5 sold=0 held=0 active=0 seq=0 v=3 at=1
        1 add hall z:9007199254740991            -> added 1 unchanged 0 total=6 v=4
        1 add hall y                             -> invalid_request /units/0/position
        ",
    );
}

#[test]
fn a_mode_stays_and_the_total_is_the_number_of_units() {
    play(
        "
        1 stock hall 4                 -> item total=4 available=4 v=2
        1 stock hall 5                 -> mode_mismatch hall units
        1 stock hall - counted         -> mode_mismatch hall units
        1 stock hall - safety=1        -> item total=4 available=3 v=3
        1 adjust hall 1                -> mode_mismatch hall units
        1 stock tins 5                 -> created total=5 available=5 v=1
        1 stock tins 5 units           -> mode_mismatch tins counted
        1 stock new 3 units            -> invalid_request /total_units
        1 add tins t1                  -> mode_mismatch tins counted
        1 retire tins t1               -> mode_mismatch tins counted
        1 reserve r tins=[t1]          -> mode_mismatch tins counted
        1 reserve r tins=1 adjacent    -> mode_mismatch tins counted
        ",
    );
}

#[test]
fn any_units_are_the_first_in_the_order_of_their_positions() {
    check(
        "
        0 stock hall - units             -> created total=0 available=0 v=1
        0 add hall c:5,b:5,a:9,d:1       -> added 4 unchanged 0 total=4 v=2
        0 reserve r hall=3 ttl=5         -> active until 5000 hall=3(d.2 b.2 c.2)
        0 reserve s hall=2 ttl=5         -> insufficient_inventory hall=2>1@5000
        0 reserve s hall=2 ttl=5 partial -> active until 5000 hall=1/2(a.2)
        1 release r                      -> cancelled at 1 hall=3(d.3 b.3 c.3)
        1 map hall                       -> .3 .3 .3 h2
        1 books hall                     -> total=4 sold=0 held=1 active=1 seq=0 v=2 at=1
        ",
    );
}

#[test]
fn named_units_are_had_all_or_the_taken_are_told() {
    play(
        "
        0 reserve r hall=[a3+a1] ttl=5           -> active until 5000 hall=2(a3.2 a1.2)
        0 reserve s hall=[a1+a2+zz+a3] ttl=5     -> units_unavailable hall=[a1+zz+a3] unknown=[zz]
        0 reserve s hall=[a1+a2] ttl=9 partial   -> active until 9000 hall=1/2(a2.2)
        0 reserve t hall=[a1+zz] ttl=9 partial   -> units_unavailable hall=[a1+zz] unknown=[zz]
        4999 reserve t hall=[a1] ttl=9           -> units_unavailable hall=[a1] next=5000
        5000 reserve t hall=[a1] ttl=9           -> active until 14000 hall=1(a1.4)
        5000 hold r                              -> expired at 5000 hall=2(a3.3 a1.3)
        5000 map hall                            -> h4 h2 .3 .1
        ",
    );
}

#[test]
fn a_named_unit_expires_the_hold_that_has_it_and_no_other() {
    play(
        "
        0 reserve r hall=[a1] ttl=5    -> active until 5000 hall=1(a1.2)
        0 reserve s hall=[a2] ttl=6    -> active until 6000 hall=1(a2.2)
        7000 reserve t hall=[a2] ttl=5 -> active until 12000 hall=1(a2.4)
        7000 hold r                    -> active until 5000 hall=1(a1.2)
        7000 reserve u hall=3 ttl=5    -> active until 12000 hall=3(a1.4 a3.2 a4.2)
        ",
    );
}

#[test]
fn a_hold_moves_all_its_units_and_each_counts_its_moves() {
    play(
        "
        0 reserve r hall=2 ttl=5    -> active until 5000 hall=2(a1.2 a2.2)
        1 extend r 60               -> active until 60001 hall=2(a1.2 a2.2)
        2 confirm r                 -> confirmed at 2 hall=2(a1.3 a2.3)
        2 confirm r                 -> confirmed at 2 hall=2(a1.3 a2.3)
        3 return r units=a2         -> confirmed at 2 hall=2-1(a1.3 a2.4-)
        3 map hall                  -> s3 .4 .1 .1
        3 return r units=a2         -> return_exceeds_sold hall=1>1
        3 return r units=a1+zz      -> return_exceeds_sold hall=2>1
        4 reserve s hall=[a2] ttl=5 -> active until 5004 hall=1(a2.5)
        5 confirm s                 -> confirmed at 5 hall=1(a2.6)
        6 return r all              -> confirmed at 2 hall=2-2(a1.4- a2.4-)
        6 map hall                  -> .4 s6 .1 .1
        6 return r all              -> return_exceeds_sold hall=2>0
        6 return s hall=1           -> confirmed at 5 hall=1-1(a2.7-)
        6 books hall                -> total=4 sold=0 held=0 active=0 seq=0 v=2 at=6
        ",
    );
}

#[test]
fn lines_come_back_by_number_and_by_name() {
    play(
        "
        0 stock tins 9                     -> created total=9 available=9 v=1
        0 reserve r hall=4,tins=2 ttl=5    -> active until 5000 hall=4(a1.2 a2.2 a3.2 a4.2) tins=2
        1 confirm r                        -> confirmed at 1 hall=4(a1.3 a2.3 a3.3 a4.3) tins=2
        2 return r hall=[a3]               -> confirmed at 1 hall=4-1(a1.3 a2.3 a3.4- a4.3) tins=2
        2 return r hall=[a3+a1]            -> return_exceeds_sold hall=2>3
        3 return r hall=2,tins=1           -> confirmed at 1 hall=4-3(a1.4- a2.4- a3.4- a4.3) tins=2-1
        3 return r hall=2                  -> return_exceeds_sold hall=2>1
        4 return r all                     -> confirmed at 1 hall=4-4(a1.4- a2.4- a3.4- a4.4-) tins=2-2
        4 books tins                       -> total=9 sold=0 held=0 active=0 seq=5 v=1 at=4
        ",
    );
}

#[test]
fn an_id_that_two_lines_have_comes_back_by_its_line_only() {
    play(
        "
        0 stock ring - units               -> created total=0 available=0 v=1
        0 add ring a1,b1                   -> added 2 unchanged 0 total=2 v=2
        0 reserve r hall=[a1],ring=2 ttl=5 -> active until 5000 hall=1(a1.2) ring=2(a1.2 b1.2)
        1 confirm r                        -> confirmed at 1 hall=1(a1.3) ring=2(a1.3 b1.3)
        2 return r units=a1                -> invalid_request /units/0
        2 return r units=zz+b1+a1          -> invalid_request /units/2
        2 books hall                       -> total=4 sold=1 held=0 active=0 seq=0 v=2 at=1
        2 return r units=b1                -> confirmed at 1 hall=1(a1.3) ring=2-1(a1.3 b1.4-)
        3 return r hall=[a1]               -> confirmed at 1 hall=1-1(a1.4-) ring=2-1(a1.3 b1.4-)
        3 return r units=a1                -> invalid_request /units/0
        3 return r ring=[a1]               -> confirmed at 1 hall=1-1(a1.4-) ring=2-2(a1.4- b1.4-)
        ",
    );
}

#[test]
fn counted_and_unit_lines_share_one_fate() {
    play(
        "
        0 stock tins 1                          -> created total=1 available=1 v=1
        0 reserve r tins=2,hall=[a1+zz] ttl=5   -> units_unavailable hall=[zz] unknown=[zz]
        0 reserve r tins=2,hall=[a1] ttl=5      -> insufficient_inventory tins=2>1
        0 books hall                            -> total=4 sold=0 held=0 active=0 seq=0 v=2 at=0
        0 reserve r tins=1,hall=[a1] ttl=5      -> active until 5000 tins=1 hall=1(a1.2)
        0 reserve s tins=1,hall=2 ttl=5 partial -> active until 5000 hall=2(a2.2 a3.2)
        9000 sweep                              -> swept 2
        9000 map hall                           -> .3 .3 .3 .1
        ",
    );
}

#[test]
fn lines_on_one_item_are_joined() {
    play(
        "
        0 reserve r hall=[a1],hall=[a3] ttl=5 -> active until 5000 hall=2(a1.2 a3.2)
        0 reserve s hall=1,hall=1 ttl=5       -> active until 5000 hall=2(a2.2 a4.2)
        ",
    );
}

#[test]
fn safety_stock_is_kept_from_named_buyers_too() {
    play(
        "
        0 stock hall - safety=3                 -> item total=4 available=1 v=3
        0 reserve r hall=[a1+a2] ttl=5          -> insufficient_inventory hall=2>1
        0 reserve r hall=[a1+a2] ttl=5 partial  -> active until 5000 hall=1/2(a1.2)
        0 reserve s hall=[a2] ttl=5             -> insufficient_inventory hall=1>0@5000
        ",
    );
}

#[test]
fn a_unit_is_retired_when_nobody_has_it() {
    play(
        "
        0 reserve r hall=[a1] ttl=5  -> active until 5000 hall=1(a1.2)
        0 reserve s hall=[a2] ttl=5  -> active until 5000 hall=1(a2.2)
        0 confirm s                  -> confirmed at 0 hall=1(a2.3)
        0 retire hall a1             -> unit_in_use hall a1 held
        0 retire hall a2             -> unit_in_use hall a2 sold
        0 retire hall zz             -> unknown_unit hall zz
        0 retire ghost a1            -> unknown_item ghost
        0 retire hall a3             -> item total=3 available=1 v=3
        0 retire hall a3             -> unknown_unit hall a3
        0 map hall                   -> h2 s3 .1
        5000 retire hall a1          -> item total=2 available=1 v=4
        5000 hold r                  -> expired at 5000 hall=1(a1.3)
        5000 return s all            -> confirmed at 0 hall=1-1(a2.4-)
        5000 retire hall a2          -> item total=1 available=1 v=5
        5000 retire hall a4          -> item total=0 available=0 v=6
        5000 reserve t hall=1        -> insufficient_inventory hall=1>0
        5000 add hall a3,a1          -> added 2 unchanged 0 total=2 v=7
        5000 reserve t hall=1 ttl=5  -> active until 10000 hall=1(a3.2)
        ",
    );
}

#[test]
fn a_line_takes_so_many_units_with_ids_at_most() {
    play(
        "
        0 pause hall                  -> paused
        0 reserve r hall=10001        -> sale_paused hall
        0 resume hall                 -> open
        0 reserve r hall=10001        -> quantity_limit hall=10001>10000
        0 reserve r hall=1000001      -> quantity_limit hall=1000001>10000
        0 reserve r hall=10000        -> insufficient_inventory hall=10000>4
        ",
    );
}

#[test]
fn a_basket_takes_so_many_units_with_ids_at_most() {
    play(
        "
        0 stock ring - units                         -> created total=0 available=0 v=1
        0 stock tins 20000                           -> created total=20000 available=20000 v=1
        0 reserve r hall=9999,ring=1,tins=1          -> insufficient_inventory hall=9999>4 ring=1>0
        0 reserve r hall=9999,tins=1,ring=2          -> quantity_limit units=10001>10000
        0 reserve r hall=9999,ring=2 partial         -> quantity_limit units=10001>10000
        0 reserve r hall=9999,ring=2 adjacent        -> quantity_limit units=10001>10000
        0 reserve r ring=9999,hall=[a1+a2]           -> quantity_limit units=10001>10000
        0 reserve r ring=9999,hall=[a1]              -> insufficient_inventory ring=9999>0
        0 reserve r hall=10000,ring=10000            -> quantity_limit units=20000>10000
        0 reserve r hall=9999,ring=10001             -> quantity_limit ring=10001>10000
        0 reserve r hall=9999,ring=2,tins=1000001    -> quantity_limit tins=1000001>1000000
        0 reserve r hall=18446744073709551615,ring=1 -> quantity_limit hall=18446744073709551615>10000
        0 reserve r tins=20000,hall=4 ttl=5          -> active until 5000 tins=20000 hall=4(a1.2 a2.2 a3.2 a4.2)
        ",
    );
}

/// So many units, each with so many attributes.
fn add(count: usize, attributes: usize) -> String {
    let attributes: String = (0..attributes).fold(String::new(), |all, n| all + &format!("+a{n}"));
    let units: Vec<String> = (0..count).map(|n| format!("u{n}{attributes}")).collect();
    format!("add hall {}", units.join(","))
}

#[test]
fn a_command_adds_so_many_units_at_most_each_with_so_many_attributes() {
    let hall = "0 stock hall - units -> created total=0 available=0 v=1";
    for (command, expected) in [
        (add(limits::UNITS_AT_ONCE, 0), "added 10000 unchanged 0 total=10000 v=2"),
        (add(limits::UNITS_AT_ONCE + 1, 0), "invalid_request /units"),
        (add(1, limits::ATTRIBUTES), "added 1 unchanged 0 total=1 v=2"),
        (add(2, limits::ATTRIBUTES + 1), "invalid_request /units/0/attributes"),
    ] {
        assert_eq!(said(&check(hall).run(&command, instant("0"))), expected);
    }
}

#[test]
fn an_item_has_so_many_units_with_ids_at_most() {
    for (there, count, expected) in [
        (2, 1, "added 1 unchanged 0 total=999999 v=2"),
        (2, 2, "added 2 unchanged 0 total=1000000 v=2"),
        (2, 3, "invalid_request /units"),
        (0, 1, "invalid_request /units"),
    ] {
        let mut played = check("0 stock hall - units -> created total=0 available=0 v=1");
        let hall = played.shop.items.get_mut(&item("hall")).unwrap();
        hall.figures.total_units = limits::ITEM_UNITS - there;
        assert_eq!(said(&played.run(&add(count, 0), instant("0"))), expected, "{there} and {count}");
    }
}
