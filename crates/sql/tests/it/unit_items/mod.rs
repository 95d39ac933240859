//! Units with ids, whatever the dialect: two instances that want the same, and what the database itself sees to.

pub(crate) mod audit;
pub(crate) mod histories;
mod locks;
pub(crate) mod races;

use crate::audit::{Shop, adds_up, for_every_dialect};
use crate::fixture::run;
use stockhold_conformance::{Maker, maker};
use stockhold_domain::{Envelope, Hold, ItemKey, Outcome, Unit, UnitStatus};
use stockhold_store::{Failure, Query, QueryResult, Store, UnitFilter};

for_every_dialect! { unit_items:
    races:
        two_units_and_a_thousand_buyers
        overlapping_names_in_opposite_orders
        who_loses_the_best_finds_the_next_best
        any_and_the_best_at_once
        names_and_any_and_the_best_meet_no_deadlock
        units_that_fall_due_in_the_middle
        baskets_of_both_kinds_in_opposite_orders
        baskets_over_two_large_halls_in_opposite_orders
        safety_stock_is_kept_at_two_instances
        whatever_callers_do_adds_up;
    locks:
        a_claim_does_not_wait_for_its_items_row
        a_unit_that_somebody_keeps_locked_keeps_its_own_hold_only
        a_claim_passes_by_what_others_have_locked
        nobody_is_refused_what_may_come_back
        what_is_passed_by_and_taken_is_sold_out
        what_is_waited_for_is_locked_in_the_order_of_ids
        who_passes_a_unit_by_does_not_hold_up_who_has_it
        the_database_refuses_what_no_rule_lets_through;
    audit:
        every_kind_of_drift_of_units_is_found
        sold_units_outlive_the_archive
        a_hall_is_taken_over;
    histories:
        a_history_takes_no_more_room_than_it_shows
        events_that_were_archived_are_left_out;
}

/// An item with units in rows of so many: `r<row>-<seat>`.
pub(crate) fn hall(store: &dyn Store, maker: &mut Maker, rows: usize, seats: usize) -> ItemKey {
    hall_of(store, maker, rows, |row| (0..seats).map(|seat| format!("r{row:02}-{seat:02}")).collect())
}

/// An item with so many rows of units.
fn hall_of(
    store: &dyn Store,
    maker: &mut Maker,
    rows: usize,
    row_of: impl Fn(usize) -> Vec<String>,
) -> ItemKey {
    let hall = maker.item("hall");
    run(store, maker.wrap(maker::create_unit_item(&hall))).unwrap();
    for row in 0..rows {
        let ids = row_of(row);
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let units = maker::row("stalls", &row.to_string(), &ids);
        let added = run(store, maker.wrap(maker::add_units(&hall, units)));
        assert!(matches!(added, Ok(Outcome::Done(_))), "{added:?}");
    }
    hall
}

/// All units of an item.
fn units(store: &dyn Store, item: &ItemKey) -> Vec<Unit> {
    let filter = UnitFilter { item: item.clone(), status: None, section: None, after: None, limit: 4_096 };
    match crate::fixture::Desk::new().find(store, Query::Units(filter)) {
        Ok(QueryResult::Units(Some(page))) => page.units,
        other => panic!("{other:?}"),
    }
}

fn ids(hold: &Hold) -> Vec<&str> {
    hold.lines.iter().flat_map(stockhold_domain::Line::units).map(|unit| unit.id.as_str()).collect()
}

/// Every hold has its units, no unit is in two of them, and nobody else has any.
fn each_has_its_own<S: Shop>(shop: &mut S, store: &dyn Store, item: &ItemKey, holds: &[Hold]) {
    let mut with: Vec<(String, UnitStatus)> = Vec::new();
    for hold in holds {
        with.extend(ids(hold).into_iter().map(|id| (id.to_owned(), UnitStatus::Held(hold.id))));
    }
    with.sort_by(|one, other| one.0.cmp(&other.0));
    let mut shown: Vec<(String, UnitStatus)> = units(store, item)
        .into_iter()
        .filter(|unit| unit.status != UnitStatus::Available)
        .map(|unit| (unit.id.as_str().to_owned(), unit.status))
        .collect();
    shown.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(shown, with);
    shop.audit();
    adds_up(shop);
}

type Outcomes = Vec<Result<Outcome, Failure>>;

/// The same commands, made by two makers.
fn twice(makers: &mut [Maker], mut make: impl FnMut(&mut Maker) -> Vec<Envelope>) -> Vec<Vec<Envelope>> {
    makers.iter_mut().map(&mut make).collect()
}
