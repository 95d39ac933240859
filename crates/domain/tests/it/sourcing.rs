//! Sourcing: lines of which several locations may give the units. `x+y+z/a=5` asks for five of `a` in this order of locations.

use crate::table::{check, instant, item, label};
use stockhold_domain::{
    Basket, BasketError, BasketLine, Effects, ItemKey, Outcome, RequestedLine, Source, SourceError, Strategy,
    UnitSelection, limits,
};

const HUBS: &str = "
    0 stock x/a 3                       -> created total=3 available=3 v=1
    0 stock y/a 5                       -> created total=5 available=5 v=1
    0 stock z/a 5                       -> created total=5 available=5 v=1
";

fn hubs(table: &str) {
    check(&format!("{HUBS}{table}"));
}

#[test]
fn locations_give_in_the_order_given() {
    hubs(
        "
        0 reserve r x+y+z/a=2           -> active until 600000 x/a=2
        0 reserve s x+y+z/a=4           -> active until 600000 x/a=1 y/a=3
        0 reserve t z+x+y/a=7           -> active until 600000 z/a=5 y/a=2
        0 reserve u x+y+z/a=1           -> insufficient_inventory x/a=1>0@600000 y/a=1>0@600000 z/a=1>0@600000
        0 release s                     -> cancelled at 0 x/a=1 y/a=3
        0 reserve u x+y+z/a=5           -> insufficient_inventory x/a=5>1@600000 y/a=5>3@600000 z/a=5>0@600000
        0 reserve u z+y+x/a=4           -> active until 600000 y/a=3 x/a=1
        ",
    );
}

#[test]
fn the_fullest_location_gives_first() {
    hubs(
        "
        0 reserve r most:x+y+z/a=1      -> active until 600000 y/a=1
        0 reserve s most:x+y+z/a=6      -> active until 600000 z/a=5 y/a=1
        0 reserve t most:y+x+z/a=1      -> active until 600000 y/a=1
        0 reserve u most:y+x+z/a=4      -> active until 600000 x/a=3 y/a=1
        0 stock w/a 0 allow=9           -> created total=0 available=9 v=1
        0 reserve v most:w+y+z/a=2      -> active until 600000 y/a=1 w/a=1~1
        ",
    );
}

#[test]
fn one_location_gives_the_whole_line() {
    hubs(
        "
        0 reserve r single:x+y+z/a=3    -> active until 600000 x/a=3
        0 reserve s single:x+y+z/a=3    -> active until 600000 y/a=3
        0 reserve t single:x+y+z/a=6    -> insufficient_inventory x/a=6>0@600000 y/a=6>2@600000 z/a=6>5
        0 reserve t single:x+y+z/a=6 partial -> active until 600000 z/a=5/6
        0 reserve u single:x+y+z/a=2    -> active until 600000 y/a=2
        0 reserve v single:x+y+z/a=1 partial -> insufficient_inventory x/a=1>0@600000 y/a=1>0@600000 z/a=1>0@600000
        ",
    );
}

#[test]
fn a_partial_reserve_shows_all_that_was_requested() {
    hubs(
        "
        0 reserve r x+y/a=9 partial     -> active until 600000 x/a=3/4 y/a=5
        0 reserve s x+y/a=9,z/a=2 partial -> active until 600000 z/a=2
        0 reserve t z/a=2,x+z/a=9 partial -> active until 600000 z/a=3/11
        0 reserve u z/a=2,x+z/a=9 partial -> insufficient_inventory z/a=2>0@600000 x/a=9>0@600000 z/a=9>0@600000
        ",
    );
}

#[test]
fn lines_take_in_the_order_of_the_request() {
    hubs(
        "
        0 reserve r y/a=2,x+y/a=5       -> active until 600000 y/a=4 x/a=3
        0 reserve s x+z/a=2,z+y/a=5     -> insufficient_inventory z/a=5>3 y/a=5>1@600000
        0 reserve s x+z/a=2,y/a=1,z+y/a=3 -> active until 600000 z/a=5 y/a=1
        0 release r                     -> cancelled at 0 y/a=4 x/a=3
        0 reserve t x/a=2,x/a=1,x+y/a=4 -> active until 600000 x/a=3 y/a=4
        ",
    );
}

#[test]
fn due_holds_end_before_the_next_location_is_asked() {
    hubs(
        "
        0 reserve r x/a=2 ttl=1         -> active until 1000 x/a=2
        0 reserve s x/a=1 ttl=2         -> active until 2000 x/a=1
        0 reserve t y/a=5 ttl=1         -> active until 1000 y/a=5
        999 reserve u x+z/a=1           -> active until 600999 z/a=1
        1000 reserve u x+y/a=2          -> active until 601000 x/a=2
        1000 hold r                     -> expired at 1000 x/a=2
        1000 hold t                     -> active until 1000 y/a=5
        1000 reserve v most:z+y/a=2     -> active until 601000 y/a=2
        1000 hold t                     -> expired at 1000 y/a=5
        2000 reserve w single:x+y/a=4   -> insufficient_inventory x/a=4>1@601000 y/a=4>3@601000
        2000 hold s                     -> expired at 2000 x/a=1
        ",
    );
}

#[test]
fn an_allowance_is_used_after_due_holds_ended() {
    check(
        "
        0 stock x/a 1 allow=2           -> created total=1 available=3 v=1
        0 stock y/a 5                   -> created total=5 available=5 v=1
        0 reserve r x/a=1 ttl=1         -> active until 1000 x/a=1
        1000 reserve s x+y/a=4          -> active until 601000 x/a=3~2 y/a=1
        1000 hold r                     -> expired at 1000 x/a=1
        ",
    );
}

#[test]
fn a_location_that_does_not_sell_gives_nothing() {
    hubs(
        "
        0 reserve q none+nil/a=1        -> unknown_item none/a
        0 reserve q none+nil/a=1,none+x/b=1,none+nil/a=2 -> unknown_item none/a,none/b
        0 reserve q none+x/a=1          -> active until 600000 x/a=1
        0 pause at=x                    -> paused
        0 reserve r none+x/a=1          -> sale_paused at=x
        0 reserve r x+y/a=1             -> active until 600000 y/a=1
        0 pause y/a                     -> paused
        0 reserve s x+y/a=1             -> sale_paused at=x
        0 stock z/a - starts=9000       -> item total=5 available=5 v=2
        0 reserve s z+y+x/a=1           -> sale_paused z/a starts 9000
        0 resume at=x                   -> open
        0 reserve s z+y+x/a=3           -> insufficient_inventory x/a=3>2@600000
        0 reserve s z+y+x/a=2           -> active until 600000 x/a=2
        9000 reserve t z+y+x/a=2        -> active until 609000 z/a=2
        9000 pause everything           -> paused
        9000 reserve u z+y+x/a=2        -> sale_paused everything
        ",
    );
}

#[test]
fn the_order_of_refusals_is_that_of_other_reserves() {
    check(
        "
        0 stock x/a 0                   -> created total=0 available=0 v=1
        0 stock x/b 0                   -> created total=0 available=0 v=1
        0 limit two 2 x/a per=customer  -> created most=2 v=1 g=1
        0 limit one 1 x/b               -> created most=1 v=1 g=1
        0 stock x/hall - units          -> created total=0 available=0 v=1
        0 pause x/a                     -> paused
        0 reserve r y+x/hall=1,x+y/a=1000001,ghost=1 ttl=1801 -> invalid_request /lines
        0 reserve r x+y/a=1000001,ghost=1 ttl=1801 -> ttl_too_long 1800
        0 reserve r x+y/a=1000001,ghost=1,x/b=2 -> unknown_item ghost
        0 reserve r x+y/a=1000001,x/b=2 -> sale_paused x/a
        0 resume x/a                    -> open
        0 reserve r x+y/a=1000001,x/b=2 -> quantity_limit x/a=1000001>1000000
        0 reserve r x+y/a=3,x/b=2       -> customer_required two
        0 reserve r x+y/a=3,x/b=2 customer=ann -> limit_exceeded one=0+2>1
        0 reserve r x+y/a=3,x/b=1 customer=ann -> insufficient_inventory x/a=3>0 x/b=1>0
        0 stock x/a 3                   -> item total=3 available=3 v=2
        0 stock x/b 1                   -> item total=1 available=1 v=2
        0 reserve r x+y/a=3,x/b=1 customer=ann -> limit_exceeded two(ann)=0+3>2
        0 reserve r x+y/a=2,x/b=1 customer=ann -> active until 600000 x/a=2 #two.1(ann)=2 x/b=1 #one.1=1
        0 reserve s x+y/a=1 override    -> active until 600000 x/a=1
        ",
    );
}

#[test]
fn a_limit_caps_what_a_location_gives() {
    hubs(
        "
        0 limit one 1 @x                -> created most=1 v=1 g=1
        0 reserve r x+y/a=3             -> active until 600000 x/a=1 #one.1=1 y/a=2
        0 reserve s single:x+y/a=2      -> active until 600000 y/a=2
        0 reserve t x+y/a=2             -> limit_exceeded one=1+2>1
        0 reserve t x+y/a=4             -> insufficient_inventory x/a=4>2@600000 y/a=4>1@600000
        0 reserve t x+y/a=4 partial     -> active until 600000 y/a=1/4
        0 reserve u x+y/a=4 partial     -> limit_exceeded one=1+2>1
        0 reserve u x+z/a=4 override    -> active until 600000 x/a=2 #one.1=2 z/a=2
        ",
    );
}

#[test]
fn due_holds_that_count_for_a_limit_end_first() {
    hubs(
        "
        0 limit two 2 @x                -> created most=2 v=1 g=1
        0 reserve r x/a=2 ttl=1         -> active until 1000 x/a=2 #two.1=2
        999 reserve s x+y/a=1           -> active until 600999 y/a=1
        1000 reserve t x+y/a=2          -> active until 601000 x/a=2 #two.1=2
        1000 hold r                     -> expired at 1000 x/a=2 #two.1=2
        ",
    );
}

#[test]
fn a_limit_over_several_locations_counts_all_lines() {
    hubs(
        "
        0 limit four 4 a                -> created most=4 v=1 g=1
        0 reserve r x+y/a=4,z+x/a=1 partial -> active until 600000 x/a=3 #four.1=3 y/a=1 #four.1=1
        0 release r                     -> cancelled at 0 x/a=3 #four.1=3 y/a=1 #four.1=1
        0 reserve s x/a=1,y+z/a=2,x+z/a=3 partial -> active until 600000 x/a=2/4 #four.1=2 y/a=2 #four.1=2
        0 reserve t x+y/a=4,z+x/a=1     -> limit_exceeded four=4+5>4
        ",
    );
}

#[test]
fn units_with_ids_stand_beside_sourced_lines() {
    hubs(
        "
        0 stock hall - units            -> created total=0 available=0 v=1
        0 add hall 1,2                  -> added 2 unchanged 0 total=2 v=2
        0 limit four 4 x/a,default/hall -> created most=4 v=1 g=1
        0 reserve r hall=[1],x+y/a=4    -> active until 600000 hall=1 #four.1=1(1.2) x/a=3 #four.1=3 y/a=1
        0 reserve s hall=[1],x+y/a=9    -> limit_exceeded four=4+1>4
        0 unlimit four                  -> no limit v=2
        0 reserve s hall=[1],x+y/a=9    -> units_unavailable hall=[1] next=600000
        0 reserve s hall=2,x+y/a=9      -> insufficient_inventory hall=2>1@600000 x/a=9>0@600000 y/a=9>4@600000
        0 reserve s hall=2,x+y/a=1 partial -> active until 600000 hall=1/2(2.2) y/a=1
        0 reserve t x+y/a=9,hall=2 partial -> active until 600000 y/a=3/9
        ",
    );
}

#[test]
fn a_key_is_answered_again() {
    hubs(
        "
        0 reserve r x+y/a=4 key=k       -> active until 600000 x/a=3 y/a=1
        0 reserve s x+y/a=4 key=k       -> again active until 600000 x/a=3 y/a=1
        0 reserve s y+x/a=4 key=k       -> idempotency_mismatch
        ",
    );
}

#[test]
fn the_items_that_give_decide_how_long_a_hold_lasts() {
    check(
        "
        0 stock x/a 1 ttl=5 max=9       -> created total=1 available=1 v=1
        0 stock y/a 9                   -> created total=9 available=9 v=1
        0 reserve r x+y/a=1             -> active until 5000 x/a=1
        0 reserve s x+y/a=1             -> active until 600000 y/a=1
        0 reserve t x+y/a=1 ttl=10      -> ttl_too_long 9
        ",
    );
}

#[test]
fn many_due_holds_take_several_batches() {
    let mut played = check(&format!(
        "{HUBS}
        0 stock w/a 300                 -> created total=300 available=300 v=1
        0 crowd 300 w/a ttl=1           -> ok
        "
    ));
    let mut batches = 0;
    loop {
        batches += 1;
        let mut effects = Effects::default();
        match played.run_in("reserve r w+x/a=300", instant("1000"), &mut effects) {
            Outcome::Later => assert_eq!(effects.events.len(), 256),
            Outcome::Done(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(batches, 2);
}

fn places(names: &[&str], strategy: Strategy) -> Result<Source, SourceError> {
    let locations: Vec<_> = names.iter().map(|name| label(name)).collect();
    Source::new(&label("a"), &locations, strategy)
}

#[test]
fn a_source_names_each_of_a_few_locations_once() {
    let source = places(&["x", "y"], Strategy::Single).unwrap();
    assert_eq!((source.items(), source.strategy()), (&[item("x/a"), item("y/a")][..], Strategy::Single));
    assert_eq!(places(&[], Strategy::Single), Err(SourceError::Empty));
    assert_eq!(places(&["x", "y", "x"], Strategy::Priority), Err(SourceError::Twice(2)));
    let names: Vec<String> = (0..=limits::SOURCE_LOCATIONS).map(|n| n.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(places(&names, Strategy::Priority), Err(SourceError::TooMany(17)));
    assert!(places(&names[1..], Strategy::Priority).is_ok());
}

fn line(item: &ItemKey, quantity: u64, source: Option<&Source>) -> BasketLine {
    let line = RequestedLine { item: item.clone(), quantity };
    BasketLine { line, selection: None, source: source.cloned() }
}

#[test]
fn a_line_with_a_source_is_joined_with_no_other() {
    let (a, b, source) = (item("x/a"), item("b"), places(&["x", "y"], Strategy::Priority).unwrap());
    let lines = vec![
        line(&b, 1, None),
        line(&a, 2, Some(&source)),
        line(&a, 3, None),
        line(&b, 4, None),
        line(&a, 5, Some(&source)),
        line(&a, 6, None),
    ];
    let basket = Basket::with_sources(lines.clone()).unwrap();
    let show = |n: usize| (basket.lines()[n].quantity, basket.source(n).is_some(), basket.items_of(n).len());
    assert_eq!([0, 1, 2, 3].map(show), [(5, false, 1), (2, true, 2), (9, false, 1), (5, true, 2)]);
    assert_eq!((basket.lines().len(), basket.items().count(), basket.has_sources()), (4, 6, true));
    let mut zero = lines.clone();
    zero[4].line.quantity = 0;
    assert_eq!(Basket::with_sources(zero), Err(BasketError::Zero(4)));
    let mut differs = lines;
    differs[3].selection = Some(UnitSelection::Named(vec![label("1")]));
    assert_eq!(Basket::with_sources(differs), Err(BasketError::Differs(3)));
    assert_eq!(Basket::with_sources(Vec::new()), Err(BasketError::Empty));
    assert!(!Basket::with_sources(vec![line(&a, 1, None)]).unwrap().has_sources());
}

#[test]
fn a_basket_names_so_many_items_together() {
    let names: Vec<String> = (0..limits::SOURCE_LOCATIONS).map(|n| n.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let source = places(&names, Strategy::Priority).unwrap();
    let sourced = |count: usize| vec![line(&source.items()[0], 1, Some(&source)); count];
    let most = limits::SOURCE_PAIRS / limits::SOURCE_LOCATIONS;
    assert!(Basket::with_sources(sourced(most)).is_ok());
    let mut more = sourced(most);
    more.push(line(&item("b"), 1, None));
    assert_eq!(Basket::with_sources(more), Err(BasketError::TooManyPairs(4_097)));
    let one = places(&["x"], Strategy::Priority).unwrap();
    let lines = vec![line(&one.items()[0], 1, Some(&one)); limits::BASKET_LINES + 1];
    assert_eq!(Basket::with_sources(lines), Err(BasketError::TooMany(2_001)));
}

#[test]
fn a_reservation_has_no_more_lines_than_others() {
    let mut played = check("0 stock x/none 1 -> created total=1 available=1 v=1");
    let mut lines = Vec::new();
    for n in 0..1_001 {
        for place in ["x", "y"] {
            played.run(&format!("stock {place}/{n} 1"), instant("0"));
        }
        lines.push(format!("x+y/{n}=2"));
    }
    let all = lines.join(",");
    let refused = crate::said::said(&played.run(&format!("reserve r {all}"), instant("0")));
    assert_eq!(refused, "invalid_request /lines");
    let fits = lines[1..].join(",");
    assert!(matches!(played.run(&format!("reserve r {fits}"), instant("0")), Outcome::Done(_)));
}
