//! Best available: side by side, by preference, leaving no single seat where that can be avoided.

use crate::table::{check, item, label};
use stockhold_domain::{Basket, BasketError, BestAvailable, RequestedLine, UnitSelection};

/// Two sections; the stalls have a row of six and one of four, the balcony one of five.
const HALL: &str = "
    0 stock hall - units                                            -> created total=0 available=0 v=1
    0 add hall a1@s/A,a2@s/A,a3@s/A,a4@s/A,a5@s/A,a6@s/A            -> added 6 unchanged 0 total=6 v=2
    0 add hall b1@s/B,b2@s/B+wide,b3@s/B+wide,b4@s/B                -> added 4 unchanged 0 total=10 v=3
    0 add hall k1@k/A,k2@k/A,k3@k/A,k4@k/A,k5@k/A                   -> added 5 unchanged 0 total=15 v=4
";

fn play(table: &str) {
    check(&format!("{HALL}{table}"));
}

#[test]
fn adjacent_units_leave_no_single_one_where_they_need_not() {
    play(
        "
        0 reserve r hall=5 adjacent ttl=9 -> active until 9000 hall=5(k1.2 k2.2 k3.2 k4.2 k5.2)
        0 reserve s hall=3 adjacent ttl=9 -> active until 9000 hall=3(a1.2 a2.2 a3.2)
        0 reserve t hall=2 adjacent ttl=9 -> active until 9000 hall=2(b1.2 b2.2)
        0 reserve u hall=2 adjacent ttl=9 -> active until 9000 hall=2(b3.2 b4.2)
        0 reserve v hall=2 adjacent ttl=9 -> active until 9000 hall=2(a4.2 a5.2)
        0 reserve w hall=2 adjacent ttl=9 -> insufficient_inventory hall=2>1@9000
        0 reserve w hall=2 adjacent partial ttl=9 -> active until 9000 hall=1/2(a6.2)
        ",
    );
}

#[test]
fn sections_are_tried_in_the_order_of_preference() {
    play(
        "
        0 reserve r hall=4 adjacent sections=k+s ttl=9    -> active until 9000 hall=4(k1.2 k2.2 k3.2 k4.2)
        0 reserve s hall=2 adjacent sections=k+s ttl=9    -> active until 9000 hall=2(a1.2 a2.2)
        0 reserve t hall=2 adjacent sections=k ttl=9      -> insufficient_inventory hall=2>1@9000
        0 reserve t hall=1 adjacent sections=none ttl=9   -> insufficient_inventory hall=1>0@9000 unknown=[none]
        0 reserve t hall=2 adjacent sections=k+no+x ttl=9 -> insufficient_inventory hall=2>1@9000 unknown=[no+x]
        0 reserve t hall=3 sections=k+s ttl=9             -> active until 9000 hall=3(k5.2 a3.2 a4.2)
        ",
    );
}

#[test]
fn a_section_without_a_unit_does_not_exist() {
    check(
        "
        0 stock hall - units              -> created total=0 available=0 v=1
        0 reserve r hall=1 sections=s     -> insufficient_inventory hall=1>0 unknown=[s]
        0 add hall a1@s/A,a2@s/A,b1@t/A   -> added 3 unchanged 0 total=3 v=2
        0 reserve r hall=3 sections=s     -> insufficient_inventory hall=3>2
        0 retire hall a1                  -> item total=2 available=2 v=3
        0 retire hall a2                  -> item total=1 available=1 v=4
        0 reserve r hall=1 sections=s     -> insufficient_inventory hall=1>0 unknown=[s]
        0 reserve r hall=1 sections=s+t ttl=9 -> active until 9000 hall=1(b1.2)
        ",
    );
}

#[test]
fn a_group_is_split_no_smaller_than_it_says() {
    play(
        "
        0 reserve r hall=7 adjacent ttl=9                    -> insufficient_inventory hall=7>6
        0 reserve r hall=7 together=4 ttl=9                  -> insufficient_inventory hall=7>6
        0 reserve r hall=7 together=3 ttl=9                  -> active until 9000 hall=7(a1.2 a2.2 a3.2 a4.2 k1.2 k2.2 k3.2)
        0 reserve s hall=8 together=2 sections=k+s ttl=9     -> active until 9000 hall=8(b1.2 b2.2 b3.2 b4.2 a5.2 a6.2 k4.2 k5.2)
        0 release s                                          -> cancelled at 0 hall=8(b1.3 b2.3 b3.3 b4.3 a5.3 a6.3 k4.3 k5.3)
        0 reserve s hall=6 together=2 sections=k+s ttl=9     -> active until 9000 hall=6(b1.4 b2.4 b3.4 b4.4 a5.4 a6.4)
        0 reserve t hall=3 together=3 ttl=9                  -> insufficient_inventory hall=3>0@9000
        0 reserve t hall=3 together=2 partial ttl=9          -> active until 9000 hall=2/3(k4.4 k5.4)
        ",
    );
}

#[test]
fn the_runs_of_a_group_give_up_what_the_last_one_needs() {
    play(
        "
        0 reserve r hall=12 together=4 ttl=9 -> active until 9000 hall=12(a1.2 a2.2 a3.2 a4.2 k1.2 k2.2 k3.2 k4.2 b1.2 b2.2 b3.2 b4.2)
        0 release r                          -> cancelled at 0 hall=12(a1.3 a2.3 a3.3 a4.3 k1.3 k2.3 k3.3 k4.3 b1.3 b2.3 b3.3 b4.3)
        0 reserve r hall=12 together=2 ttl=9 -> active until 9000 hall=12(a1.4 a2.4 a3.4 a4.4 a5.2 a6.2 k1.4 k2.4 k3.4 k4.4 b1.4 b2.4)
        0 release r                          -> cancelled at 0 hall=12(a1.5 a2.5 a3.5 a4.5 a5.3 a6.3 k1.5 k2.5 k3.5 k4.5 b1.5 b2.5)
        0 reserve r hall=10 together=2 ttl=9 -> active until 9000 hall=10(a1.6 a2.6 a3.6 a4.6 a5.4 a6.4 b1.6 b2.6 b3.4 b4.4)
        0 release r                          -> cancelled at 0 hall=10(a1.7 a2.7 a3.7 a4.7 a5.5 a6.5 b1.7 b2.7 b3.5 b4.5)
        0 reserve r hall=13 together=5 ttl=9 -> insufficient_inventory hall=13>11
        ",
    );
}

#[test]
fn attributes_leave_units_out() {
    play(
        "
        0 reserve r hall=1 with=wide ttl=9            -> active until 9000 hall=1(b2.2)
        0 reserve s hall=2 with=wide ttl=9            -> insufficient_inventory hall=2>1@9000
        0 reserve s hall=2 adjacent with=wide ttl=9   -> insufficient_inventory hall=2>1@9000
        0 reserve s hall=1 adjacent with=wide ttl=9   -> active until 9000 hall=1(b3.2)
        0 reserve t hall=1 with=deep ttl=9            -> insufficient_inventory hall=1>0@9000
        ",
    );
}

#[test]
fn due_holds_make_room_for_a_row() {
    play(
        "
        0 reserve r hall=[a3] ttl=5             -> active until 5000 hall=1(a3.2)
        0 reserve s hall=[k3] ttl=6             -> active until 6000 hall=1(k3.2)
        6000 reserve t hall=6 adjacent ttl=9    -> active until 15000 hall=6(a1.2 a2.2 a3.4 a4.2 a5.2 a6.2)
        6000 hold s                             -> active until 6000 hall=1(k3.2)
        6000 reserve u hall=5 adjacent ttl=9    -> active until 15000 hall=5(k1.2 k2.2 k3.4 k4.2 k5.2)
        ",
    );
}

#[test]
fn what_does_not_follow_in_position_is_not_adjacent() {
    check(
        "
        0 stock hall - units                                       -> created total=0 available=0 v=1
        0 add hall a1@s/A:1,a2@s/A:2,a4@s/A:4,a5@s/A:5,a6@s/A:6    -> added 5 unchanged 0 total=5 v=2
        0 reserve r hall=4 adjacent                                -> insufficient_inventory hall=4>3
        0 reserve r hall=3 adjacent ttl=9                          -> active until 9000 hall=3(a4.2 a5.2 a6.2)
        0 release r                                                -> cancelled at 0 hall=3(a4.3 a5.3 a6.3)
        0 retire hall a5                                           -> item total=4 available=4 v=3
        0 reserve s hall=2 adjacent ttl=9                          -> active until 9000 hall=2(a1.2 a2.2)
        0 reserve t hall=2 adjacent ttl=9                          -> insufficient_inventory hall=2>1@9000
        ",
    );
}

fn wish(sku: &str, quantity: u64, choice: Option<&UnitSelection>) -> (RequestedLine, Option<UnitSelection>) {
    (RequestedLine { item: item(sku), quantity }, choice.cloned())
}

#[test]
fn lines_on_one_item_say_the_same_of_its_units() {
    let side_by_side =
        UnitSelection::BestAvailable(BestAvailable { adjacent: true, ..BestAvailable::default() });
    let in_stalls = UnitSelection::BestAvailable(BestAvailable {
        sections: vec![label("stalls")],
        ..BestAvailable::default()
    });
    let named = |ids: &[&str]| UnitSelection::Named(ids.iter().map(|id| label(id)).collect());
    let (first, second) = (named(&["a1"]), named(&["a2", "a3"]));

    let summed = Basket::with_selections(vec![
        wish("hall", 2, Some(&side_by_side)),
        wish("hall", 3, Some(&side_by_side)),
    ]);
    let summed = summed.unwrap();
    assert_eq!(summed.lines(), [RequestedLine { item: item("hall"), quantity: 5 }]);
    assert_eq!(summed.selections(), Some(&[Some(side_by_side.clone())][..]));

    let joined =
        Basket::with_selections(vec![wish("hall", 1, Some(&first)), wish("hall", 1, Some(&second))]).unwrap();
    assert_eq!(joined.lines(), [RequestedLine { item: item("hall"), quantity: 3 }]);
    assert_eq!(joined.selection(0), Some(&named(&["a1", "a2", "a3"])));

    for (one, other) in [
        (Some(&side_by_side), Some(&in_stalls)),
        (Some(&side_by_side), None),
        (None, Some(&side_by_side)),
        (Some(&first), Some(&side_by_side)),
        (Some(&side_by_side), Some(&first)),
        (Some(&first), None),
        (None, Some(&first)),
    ] {
        let basket =
            Basket::with_selections(vec![wish("b", 1, None), wish("hall", 1, one), wish("hall", 1, other)]);
        assert_eq!(basket, Err(BasketError::Differs(2)), "{one:?} {other:?}");
    }
    let twice = Basket::with_selections(vec![wish("hall", 1, Some(&first)), wish("hall", 1, Some(&first))]);
    assert_eq!(twice, Err(BasketError::Twice(1)));
}

#[test]
fn a_basket_says_of_units_what_its_lines_said() {
    let side_by_side =
        UnitSelection::BestAvailable(BestAvailable { adjacent: true, ..BestAvailable::default() });
    let counted = Basket::with_selections(vec![wish("a", 1, None), wish("b", 2, None)]).unwrap();
    assert_eq!(counted.selections(), None);
    assert_eq!(counted.selection(0), None);
    let lines = vec![wish("a", 1, None), wish("hall", 2, Some(&side_by_side)), wish("a", 3, None)];
    let mixed = Basket::with_selections(lines).unwrap();
    assert_eq!(mixed.selections(), Some(&[None, Some(side_by_side.clone())][..]));
    assert_eq!(
        (mixed.selection(0), mixed.selection(1), mixed.selection(2)),
        (None, Some(&side_by_side), None)
    );
    assert_eq!(mixed.lines()[0].quantity, 4);
}
