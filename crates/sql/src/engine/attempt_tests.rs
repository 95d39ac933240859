//! Who may join a batch that is locked.

use super::super::dialect::Rows;
use super::*;
use stockhold_domain::Item;
use stockhold_store::conformance::{Maker, maker};

fn item(key: &ItemKey, total_units: u64, mode: Mode) -> Item {
    let at = stockhold_domain::Instant::from_micros(0);
    let figures = stockhold_domain::StockCounters {
        total_units,
        confirmed_sold: 0,
        held: 0,
        active: 0,
        sequence: 1,
        at,
    };
    Item {
        key: key.clone(),
        mode,
        figures,
        settings: stockhold_domain::Settings::default().into(),
        version: 1,
        paused: false,
        created_at: at,
    }
}

/// With these items locked, and all pauses that concern reserves of them read.
fn boarded(items: Vec<Item>, pauses: &[&str]) -> Boarded {
    let wants = Wants {
        items: items.iter().map(|item| item.key.clone()).collect(),
        pauses: pauses.iter().map(|location| (*location).to_owned()).collect(),
        ..Wants::default()
    };
    let rows = Rows { items, ..Rows::default() };
    let locked = Locked { now: stockhold_domain::Instant::from_micros(0), serial: 1, rows };
    Boarded { needs: Needs { of_command: Vec::new(), wants }, locked, first: 0 }
}

#[test]
fn a_reserve_joins_that_finds_all_it_may_touch_and_enough_of_it() {
    let mut maker = Maker::new(1, "room-");
    let [a, b, hall] = ["a", "b", "hall"].map(|name| maker.item(name));
    let items = vec![item(&a, 5, Mode::Counted), item(&hall, 5, Mode::Units)];
    let boarded = boarded(items, &["", "default"]);
    let mut takes = |command, key: Option<&str>| {
        let envelope = match key {
            Some(key) => maker.keyed(key, command),
            None => maker.wrap(command),
        };
        boarded.room().takes(&Asked {
            envelope: Box::new(envelope),
            held: None,
            sequence: None,
            halls: HashSet::new(),
        })
    };
    assert!(takes(maker::reserve_for(60, &[(&a, 5)]), None));
    assert!(takes(maker::reserve_for(60, &[(&a, 1)]), Some("k")), "a key that nobody has read");
    assert!(!takes(maker::reserve_for(60, &[(&a, 6)]), None), "who would be refused");
    assert!(!takes(maker::reserve_for(60, &[(&a, 1), (&b, 1)]), None), "what is not locked");
    assert!(!takes(maker::reserve_for(60, &[(&hall, 1)]), None), "units with ids");
    assert!(!takes(maker::set_stock(&a, 9), None), "what is no reserve");
    assert!(!takes(maker::pause(&stockhold_domain::Scope::Everything), None), "what locks the pauses");
}

#[test]
fn nobody_joins_where_the_pauses_were_not_read() {
    let mut maker = Maker::new(2, "pauses-");
    let a = maker.item("a");
    for pauses in [[].as_slice(), &[""], &["default"]] {
        let boarded = boarded(vec![item(&a, 5, Mode::Counted)], pauses);
        let envelope = Box::new(maker.wrap(maker::reserve_for(60, &[(&a, 1)])));
        assert!(
            !boarded.room().takes(&Asked { envelope, held: None, halls: HashSet::new(), sequence: None }),
            "{pauses:?}"
        );
    }
}
