//! Units with ids through amend, split, merge, fulfilment, write-off and reacquire: which units, in which state, at which
//! version.

use super::case_context::{CaseContext, Checked, MILLI, SECOND, after, no_counters};
use super::unit_histories::{compare, unit};
use super::units::{hall, ids};
use super::{Case, World, case};
use stockhold_domain::{
    BestAvailable, Command, Disposition, Hold, HoldChange, Instant, ItemKey, Label, Line, LineChange,
    LineUnit, MovedUnits, Outcome, Rejection, Reply, ReservationId, Return, SaleSelection, Shortage, Status,
    StockChange, StockCounters, Transition, UnavailableUnits, UnitSelection, UnitStatus,
};
use stockhold_model::maker::{
    add_units, amend, amend_choosing, confirm, confirm_late, create_unit_item, fulfil_all, fulfil_units,
    label, merge, named, open_payment, release, reserve_choosing, reserve_for, reserve_named, retire,
    return_selected, return_units, row, split, split_named,
};
use stockhold_store::{Query, QueryResult, UnitFilter, UnitState};

pub(super) const CASES: &[Case] = &[
    case("an amend to a number of units keeps those that the line has", number_of_units),
    case("an amend to named units keeps, gives back and takes exactly those", named_units),
    case("an amend that drops a line of units gives all of them back", dropped_line),
    case("an amend to units that others have is refused with the time of the next", unavailable),
    case("an amend to the best units plans over free and own units", best_units),
    case("an amend gets the unit of a due hold and never of one that is not due", unit_of_a_due_hold),
    case("a split moves named units, or the first of a line", split_units),
    case("a merge moves units to the end of a line", merge_units),
    case("units under payment are counted, and their versions stay", paid_units),
    case("a unit that has left the shelf says so until it comes back", fulfilled_units),
    case("a unit that is added after one that has left the shelf has the next position", next_position),
    case("of a fulfilment and a return of one named unit, the second finds it as the first left it", race),
    case("a unit that is written off is retired", written_off),
    case("a late payer gets the same units or is refused", same_units_again),
    case("the histories of units follow every change of their reservations", histories),
];

fn versions(hold: &Hold) -> Vec<(&str, u64)> {
    let units = hold.lines.iter().flat_map(Line::units);
    units.map(|unit| (unit.id.as_str(), unit.version)).collect()
}

/// Units of a sale with whether they left the shelf and whether they were returned.
fn flags(hold: &Hold) -> Vec<(&str, bool, bool)> {
    let units = hold.lines.iter().flat_map(Line::units);
    units.map(|unit| (unit.id.as_str(), unit.fulfilled, unit.returned)).collect()
}

fn expect_unit(case: &mut CaseContext<'_>, item: &ItemKey, id: &str, expected: (UnitStatus, u64)) -> Checked {
    let shown = unit(case.world, item, id)?.map(|unit| (unit.status, unit.version));
    ensure_eq!(shown, Some(expected), "status and version of unit {id:?}");
    Ok(())
}

fn given_back(id: &str, version: u64) -> LineUnit {
    LineUnit { id: label(id), version, fulfilled: false, returned: false, pool: None }
}

/// Figures of an item whose units have ids: they have no sequence.
fn figures(total_units: u64, held: u64, active: u64) -> StockCounters {
    StockCounters { total_units, held, active, ..no_counters() }
}

fn taken(item: &ItemKey, units: &[&str], unknown: &[&str], next_expiry_at: Option<Instant>) -> Rejection {
    let labels = |ids: &[&str]| -> Vec<Label> { ids.iter().map(|id| label(id)).collect() };
    let (units, unknown) = (labels(units), labels(unknown));
    Rejection::UnitsUnavailable(vec![UnavailableUnits { item: item.clone(), units, unknown, next_expiry_at }])
}

fn amend_named(hold: &Hold, item: &ItemKey, ids: &[&str]) -> Command {
    amend_choosing(hold.id, vec![(item, 1, Some(named(ids)))])
}

fn number_of_units(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c", "d", "e"])?;
    let hold = case.hold(reserve_named(60, &hall, &["d", "b"]))?;
    let grown = case.hold(amend(hold.id, &[(&hall, 3)]))?;
    ensure_eq!(versions(&grown), [("d", 2), ("b", 2), ("a", 2)], "its own, and the first free one");
    case.world.restart();
    let shrunk = case.hold(amend(hold.id, &[(&hall, 2)]))?;
    ensure_eq!(versions(&shrunk), [("b", 2), ("a", 2)], "without the last in claim order");
    let (change, ..) = case.latest_change(hold.id)?;
    let line = LineChange { quantity_before: 3, kept: 2, released: [given_back("d", 3)].into() };
    ensure_eq!(change, HoldChange::Amended { lines: [line].into() }, "what the line was before");
    expect_unit(&mut case, &hall, "d", (UnitStatus::Available, 3))?;
    expect_unit(&mut case, &hall, "b", (UnitStatus::Held(hold.id), 2))?;
    let same = case.hold(amend(hold.id, &[(&hall, 2)]))?;
    ensure_eq!(same, shrunk, "the same number changes nothing");
    let refused = case.expect_refused(amend(hold.id, &[(&hall, 6)]))?;
    let short = Shortage {
        item: hall.clone(),
        requested: 6,
        available: 5,
        next_expiry_at: Some(hold.expires_at),
        unknown_sections: Vec::new(),
        approximate: false,
    };
    ensure_eq!(refused, Rejection::InsufficientInventory(vec![short]), "its own units count as available");
    case.world.restart();
    let all = case.hold(amend(hold.id, &[(&hall, 5)]))?;
    ensure_eq!(versions(&all), [("b", 2), ("a", 2), ("c", 2), ("d", 4), ("e", 2)], "all of them");
    case.expect_figures(&hall, figures(5, 5, 1))?;
    case.hold(amend(hold.id, &[(&hall, 1)]))?;
    case.world.restart();
    ensure_eq!(versions(&case.read_hold(hold.id)?), [("a", 2)], "the first in claim order");
    case.expect_figures(&hall, figures(5, 1, 1))?;
    ensure_eq!(ids(&case.hold(reserve_for(60, &[(&hall, 4)]))?), ["b", "c", "d", "e"], "the others are free");
    Ok(())
}

fn named_units(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c", "d"])?;
    let hold = case.hold(reserve_named(60, &hall, &["a", "b"]))?;
    let moved = case.hold(amend_named(&hold, &hall, &["d", "b"]))?;
    ensure_eq!(versions(&moved), [("b", 2), ("d", 2)], "what it keeps, then what it takes");
    for _ in 0..2 {
        let (change, shown, counters) = case.latest_change(hold.id)?;
        let line = LineChange { quantity_before: 2, kept: 1, released: [given_back("a", 3)].into() };
        ensure_eq!(change, HoldChange::Amended { lines: [line].into() }, "what the line was before");
        ensure_eq!(shown, moved, "the reservation of the event");
        ensure_eq!((counters[0].held, counters[0].sequence), (2, 0), "the figures");
        for (id, status, version) in [
            ("a", UnitStatus::Available, 3),
            ("b", UnitStatus::Held(hold.id), 2),
            ("c", UnitStatus::Available, 1),
            ("d", UnitStatus::Held(hold.id), 2),
        ] {
            expect_unit(&mut case, &hall, id, (status, version))?;
        }
        case.world.restart();
    }
    ensure_eq!(case.hold(amend_named(&hold, &hall, &["b", "d"]))?, moved, "the same units");
    ensure_eq!(ids(&case.hold(reserve_named(60, &hall, &["a"]))?), ["a"], "the unit that it gave back");
    let refused = case.expect_refused(amend_named(&hold, &hall, &["b", "a"]))?;
    ensure_matches!(refused, Rejection::UnitsUnavailable(_), "which is taken now");
    Ok(())
}

fn dropped_line(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b"])?;
    let tins = case.create_item("tins", 9)?;
    let lines = vec![(&hall, 1, Some(named(&["b", "a"]))), (&tins, 1, None)];
    let hold = case.hold(Command::Reserve(reserve_choosing(60, lines)))?;
    let amended = case.hold(amend(hold.id, &[(&tins, 2)]))?;
    ensure_eq!((amended.lines.len(), amended.quantity()), (1, 2), "the line that is left");
    for _ in 0..2 {
        let (change, shown, counters) = case.latest_change(hold.id)?;
        let kept = LineChange { quantity_before: 1, ..LineChange::default() };
        let released = [given_back("b", 3), given_back("a", 3)].into();
        let dropped = LineChange { quantity_before: 2, kept: 0, released };
        ensure_eq!(change, HoldChange::Amended { lines: [kept, dropped].into() }, "the lines before");
        let line = &shown.lines[1];
        ensure_eq!((&line.item, line.quantity, line.units()), (&hall, 0, &[][..]), "the dropped line");
        ensure!(line.units.is_some(), "its item has units with ids");
        ensure_eq!((counters[1].held, counters[1].active), (0, 0), "its figures");
        for id in ["a", "b"] {
            expect_unit(&mut case, &hall, id, (UnitStatus::Available, 3))?;
        }
        case.world.restart();
    }
    case.expect_figures(&hall, figures(2, 0, 0))?;
    let back = case.hold(amend(hold.id, &[(&tins, 2), (&hall, 1)]))?;
    ensure_eq!(versions(&back), [("a", 4)], "a new line takes the first free unit");
    Ok(())
}

fn unavailable(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c", "d", "e"])?;
    let hold = case.hold(reserve_named(60, &hall, &["a"]))?;
    let early = case.hold(reserve_named(30, &hall, &["b"]))?;
    case.hold(reserve_named(90, &hall, &["c"]))?;
    let sold = case.hold(reserve_named(60, &hall, &["d"]))?;
    case.hold(confirm(sold.id))?;
    for _ in 0..2 {
        let until = Some(early.expires_at);
        for (wanted, refusal) in [
            (&["c", "a", "b"][..], taken(&hall, &["c", "b"], &[], until)),
            (&["b", "e"], taken(&hall, &["b"], &[], until)),
            (&["b", "d"], taken(&hall, &["b", "d"], &[], None)),
            (&["a", "q", "b"], taken(&hall, &["q", "b"], &["q"], None)),
        ] {
            let refused = case.expect_refused(amend_named(&hold, &hall, wanted))?;
            ensure_eq!(refused, refusal, "an amend to {wanted:?}");
        }
        case.world.restart();
    }
    ensure_eq!(case.read_hold(hold.id)?, hold, "nothing changed");
    expect_unit(&mut case, &hall, "e", (UnitStatus::Available, 1))
}

fn best_units(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c", "d", "e"])?;
    let hold = case.hold(reserve_named(60, &hall, &["b", "d"]))?;
    let other = case.hold(reserve_named(60, &hall, &["a"]))?;
    let together = |quantity| {
        let best = BestAvailable { adjacent: true, ..BestAvailable::default() };
        amend_choosing(hold.id, vec![(&hall, quantity, Some(UnitSelection::BestAvailable(best)))])
    };
    let four = case.hold(together(4))?;
    let mut found = versions(&four);
    found.sort_unstable();
    ensure_eq!(found, [("b", 2), ("c", 2), ("d", 2), ("e", 2)], "its own two, and those beside them");
    let refused = case.expect_refused(together(5))?;
    ensure_matches!(
        refused,
        Rejection::InsufficientInventory(short) if short[0].available == 4,
        "the run ends at a unit of another hold"
    );
    case.hold(release(other.id))?;
    case.world.restart();
    case.hold(together(5))?;
    case.expect_figures(&hall, figures(5, 5, 1))?;
    let two = case.hold(together(2))?;
    ensure_eq!(two.quantity(), 2, "two of its five");
    case.world.restart();
    case.expect_figures(&hall, figures(5, 2, 1))
}

fn unit_of_a_due_hold(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in [-MILLI, -1, 0, 1, MILLI] {
        case.advance(SECOND + 7);
        let hall = case.maker.item(&format!("hall{offset}"));
        case.expect_done(create_unit_item(&hall))?;
        case.expect_done(add_units(&hall, row("stalls", "A", &["a", "b", "c"])))?;
        let hold = case.hold(reserve_named(60, &hall, &["a"]))?;
        let due = case.hold(reserve_named(5, &hall, &["b", "c"]))?;
        case.set_clock(after(due.expires_at, offset));
        let outcome = case.run(amend_named(&hold, &hall, &["a", "b"]))?;
        if offset < 0 {
            let refusal = taken(&hall, &["b"], &[], Some(due.expires_at));
            ensure_eq!(outcome, Outcome::Refused(refusal), "at {offset} µs");
            case.expect_status(due.id, Status::Active)?;
            case.expect_figures(&hall, figures(3, 3, 2))?;
        } else {
            ensure_matches!(outcome, Outcome::Done(_), "at {offset} µs");
            case.expect_status(due.id, Status::Expired)?;
            expect_unit(&mut case, &hall, "b", (UnitStatus::Held(hold.id), 4))?;
            expect_unit(&mut case, &hall, "c", (UnitStatus::Available, 3))?;
            case.expect_figures(&hall, figures(3, 2, 1))?;
        }
    }
    Ok(())
}

fn split_units(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c", "d", "e"])?;
    let hold = case.hold(reserve_named(60, &hall, &["e", "b", "c", "a"]))?;
    let exceeds = |requested, held| Rejection::SplitExceedsHeld { item: hall.clone(), requested, held };
    for wanted in [&["d"][..], &["b", "d"], &["q"]] {
        let refused = case.expect_refused(split_named(hold.id, &hall, wanted))?;
        ensure_eq!(refused, exceeds(wanted.len() as u64, 4), "a split of {wanted:?}");
    }
    ensure_eq!(case.expect_refused(split(hold.id, &[(&hall, 5)]))?, exceeds(5, 4), "five of four");
    let refused = case.expect_refused(split_named(hold.id, &hall, &["a", "b", "c", "e"]))?;
    ensure_matches!(refused, Rejection::InvalidRequest(_), "everything");
    ensure_eq!(case.read_hold(hold.id)?, hold, "nothing changed");
    let part = case.hold(split_named(hold.id, &hall, &["a", "b"]))?;
    ensure_eq!(versions(&part), [("b", 4), ("a", 4)], "given back and taken, in the order of the line");
    let (change, ..) = case.latest_change(hold.id)?;
    let released = [given_back("b", 3), given_back("a", 3)].into();
    let line = LineChange { quantity_before: 4, kept: 2, released };
    ensure_eq!(change, HoldChange::Split { lines: [line].into(), into: part.id }, "the line before");
    for _ in 0..2 {
        ensure_eq!(versions(&case.read_hold(hold.id)?), [("e", 2), ("c", 2)], "what is left");
        expect_unit(&mut case, &hall, "b", (UnitStatus::Held(part.id), 4))?;
        expect_unit(&mut case, &hall, "e", (UnitStatus::Held(hold.id), 2))?;
        case.expect_figures(&hall, figures(5, 4, 2))?;
        case.world.restart();
    }
    let first = case.hold(split(hold.id, &[(&hall, 1)]))?;
    ensure_eq!(versions(&first), [("e", 4)], "the first of the line");
    case.set_clock(hold.expires_at);
    case.sweep()?;
    case.expect_figures(&hall, figures(5, 0, 0))?;
    for id in ["a", "b", "e"] {
        expect_unit(&mut case, &hall, id, (UnitStatus::Available, 5))?;
    }
    expect_unit(&mut case, &hall, "c", (UnitStatus::Available, 3))
}

fn merge_units(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c", "d"])?;
    let ring = case.maker.item("ring");
    case.expect_done(create_unit_item(&ring))?;
    case.expect_done(add_units(&ring, row("floor", "A", &["a"])))?;
    let target = case.hold(reserve_named(60, &hall, &["c"]))?;
    let first = case.hold(reserve_named(60, &hall, &["d", "a"]))?;
    let lines = vec![(&ring, 1, Some(named(&["a"]))), (&hall, 1, Some(named(&["b"])))];
    let second = case.hold(Command::Reserve(reserve_choosing(60, lines)))?;
    let merged = case.hold(merge(target.id, &[first.id, second.id]))?;
    let expected = [("c", 2), ("d", 4), ("a", 4), ("b", 4), ("a", 4)];
    ensure_eq!(versions(&merged), expected, "its own, then those of the others in order");
    for _ in 0..2 {
        let (change, ..) = case.latest_change(target.id)?;
        let own = LineChange { quantity_before: 1, kept: 1, released: [].into() };
        let from = [first.id, second.id].into();
        let lines = [own, LineChange::default()].into();
        ensure_eq!(change, HoldChange::Merged { lines, from }, "the lines before");
        let source = case.read_hold(first.id)?;
        ensure_eq!(versions(&source), [("d", 3), ("a", 3)], "what a source gave");
        for (item, id) in [(&hall, "a"), (&hall, "b"), (&hall, "d"), (&ring, "a")] {
            expect_unit(&mut case, item, id, (UnitStatus::Held(target.id), 4))?;
        }
        case.expect_figures(&hall, figures(4, 4, 1))?;
        case.expect_figures(&ring, figures(1, 1, 1))?;
        case.world.restart();
    }
    case.hold(confirm(target.id))?;
    expect_unit(&mut case, &hall, "d", (UnitStatus::Sold(target.id), 5))?;
    expect_unit(&mut case, &hall, "c", (UnitStatus::Sold(target.id), 3))
}

fn paid_units(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c"])?;
    let hold = case.hold(reserve_named(5, &hall, &["a", "c"]))?;
    let opened = case.hold(open_payment(hold.id, "p", 30))?;
    ensure_eq!(versions(&opened), [("a", 2), ("c", 2)], "a payment is no transition of a unit");
    case.expect_figures(&hall, StockCounters { held_under_payment: 2, ..figures(3, 2, 1) })?;
    case.world.restart();
    case.set_clock(after(hold.expires_at, MILLI));
    let refused = case.expect_refused(reserve_named(60, &hall, &["a"]))?;
    ensure_eq!(refused, taken(&hall, &["a"], &[], Some(opened.expires_at)), "until the end of the window");
    case.set_clock(opened.expires_at);
    case.hold(reserve_named(60, &hall, &["a"]))?;
    case.expect_status(hold.id, Status::Expired)?;
    expect_unit(&mut case, &hall, "c", (UnitStatus::Available, 3))?;
    case.expect_figures(&hall, figures(3, 1, 1))
}

fn fulfilled_units(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c"])?;
    let hold = case.hold(reserve_named(60, &hall, &["c", "a", "b"]))?;
    case.hold(confirm(hold.id))?;
    let shown = case.hold(fulfil_units(hold.id, &["a"]))?;
    ensure_eq!(versions(&shown), [("c", 3), ("a", 4), ("b", 3)], "its version rises");
    for _ in 0..2 {
        let shown = case.read_hold(hold.id)?;
        ensure_eq!(flags(&shown), [("c", false, false), ("a", true, false), ("b", false, false)], "one left");
        ensure_eq!(shown.lines[0].fulfilled, 1, "its line counts it");
        let (change, ..) = case.latest_change(hold.id)?;
        let moved = MovedUnits { quantity: 1, places: [1].into() };
        ensure_eq!(change, HoldChange::Fulfilled { lines: [moved].into() }, "its place in the line");
        expect_unit(&mut case, &hall, "a", (UnitStatus::Fulfilled(hold.id), 4))?;
        let item = hall.clone();
        let sold = UnitFilter { item, status: Some(UnitState::Sold), section: None, after: None, limit: 9 };
        ensure_matches!(
            case.world.find(Query::Units(sold)),
            Ok(QueryResult::Units(Some(page))) if page.units.len() == 3,
            "it is listed among the sold units"
        );
        let in_use = Rejection::UnitInUse {
            item: hall.clone(),
            unit: label("a"),
            status: UnitStatus::Fulfilled(hold.id),
        };
        ensure_eq!(case.expect_refused(retire(&hall, "a"))?, in_use, "a sold unit can't be retired");
        let refused = case.expect_refused(reserve_named(60, &hall, &["a"]))?;
        ensure_eq!(refused, taken(&hall, &["a"], &[], None), "it is sold");
        let exceeds = Rejection::FulfilExceedsSold { item: hall.clone(), requested: 2, unfulfilled: 2 };
        ensure_eq!(case.expect_refused(fulfil_units(hold.id, &["b", "a"]))?, exceeds, "it left once");
        case.world.restart();
    }
    let sold = StockCounters { confirmed_sold: 3, fulfilled: 1, ..figures(3, 0, 0) };
    case.expect_figures(&hall, sold)?;
    // A return without a selection takes the units from the shelf first.
    let back = case.hold(stockhold_model::maker::return_of(hold.id, &[(&hall, 2)]))?;
    ensure_eq!(flags(&back), [("c", false, true), ("a", true, false), ("b", false, true)], "two came back");
    let back = case.hold(return_units(hold.id, &["a"]))?;
    ensure_eq!((back.lines[0].fulfilled, back.lines[0].returned), (0, 3), "the line is net of returns");
    case.world.restart();
    ensure_eq!(flags(&case.read_hold(hold.id)?)[1], ("a", true, true), "it had left and came back");
    expect_unit(&mut case, &hall, "a", (UnitStatus::Available, 5))?;
    case.expect_figures(&hall, figures(3, 0, 0))?;
    let next = case.hold(reserve_named(60, &hall, &["a"]))?;
    case.hold(confirm(next.id))?;
    ensure_eq!(flags(&case.read_hold(next.id)?), [("a", false, false)], "another sale starts anew");
    Ok(())
}

fn next_position(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b"])?;
    let hold = case.hold(reserve_for(60, &[(&hall, 2)]))?;
    case.hold(confirm(hold.id))?;
    case.hold(fulfil_all(hold.id))?;
    case.world.restart();
    case.expect_done(add_units(&hall, row("stalls", "A", &["c"])))?;
    let mut positions = Vec::new();
    for id in ["a", "b", "c"] {
        positions.push(unit(case.world, &hall, id)?.map(|unit| unit.place.position));
    }
    ensure_eq!(positions, [Some(1), Some(2), Some(3)], "the positions");
    Ok(())
}

fn race(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for (one_request, fulfil_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let hall = case.maker.item(&format!("hall{one_request}{fulfil_first}"));
        case.expect_done(create_unit_item(&hall))?;
        case.expect_done(add_units(&hall, row("stalls", "A", &["a", "b"])))?;
        let hold = case.hold(reserve_named(60, &hall, &["a", "b"]))?;
        case.hold(confirm(hold.id))?;
        case.world.restart();
        let mut commands = [fulfil_units(hold.id, &["a"]), return_units(hold.id, &["a"])];
        if !fulfil_first {
            commands.reverse();
        }
        let outcomes = case.submit_two(one_request, commands)?;
        ensure_matches!(outcomes[0], Outcome::Done(_), "the first");
        if fulfil_first {
            ensure_matches!(outcomes[1], Outcome::Done(_), "a unit comes back from its buyer");
        } else {
            let exceeds = Rejection::FulfilExceedsSold { item: hall.clone(), requested: 1, unfulfilled: 1 };
            ensure_eq!(outcomes[1], Outcome::Refused(exceeds), "a unit that came back");
        }
        let version = if fulfil_first { 5 } else { 4 };
        expect_unit(&mut case, &hall, "a", (UnitStatus::Available, version))?;
        case.expect_figures(&hall, StockCounters { confirmed_sold: 1, ..figures(2, 0, 0) })?;
        ensure_eq!(flags(&case.read_hold(hold.id)?), [("a", fulfil_first, true), ("b", false, false)], "a");
    }
    Ok(())
}

fn write_off(id: ReservationId, selection: SaleSelection) -> Command {
    Command::Return(Return { disposition: Disposition::WriteOff, ..return_selected(id, selection) })
}

fn written_off(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c", "d"])?;
    let version = case.read_item(&hall)?.version;
    let hold = case.hold(reserve_named(60, &hall, &["a", "b", "c"]))?;
    case.hold(confirm(hold.id))?;
    case.hold(fulfil_units(hold.id, &["b"]))?;
    let units = SaleSelection::Units(["a", "b"].map(label).into());
    let shown = case.hold(write_off(hold.id, units.clone()))?;
    ensure_eq!(flags(&shown), [("a", false, true), ("b", true, true), ("c", false, false)], "two are lost");
    for _ in 0..2 {
        let events = case.events_of(&[&hall]);
        let Some([returned, retired]) = events.last_chunk() else {
            return Err(format!("only {} events", events.len()));
        };
        ensure_matches!(
            &returned.transition,
            Transition::Hold { change: HoldChange::Returned { fulfilled, .. }, .. } if **fulfilled == [1],
            "the return"
        );
        let change = StockChange::UnitsRetired(["a", "b"].map(label).into());
        let item = case.read_item(&hall)?;
        ensure_eq!(retired.transition, Transition::Stock { change, item: item.clone() }, "what was retired");
        ensure_eq!((item.figures.total_units, item.version), (2, version + 1), "total and version");
        for id in ["a", "b"] {
            ensure_eq!(unit(case.world, &hall, id)?, None, "a unit that is gone");
        }
        let rows = case.event_rows_of(std::slice::from_ref(&hall));
        for id in ["a", "b", "c", "d"] {
            compare(case.world, &rows, &hall, id)?;
        }
        case.world.restart();
    }
    case.expect_figures(&hall, StockCounters { confirmed_sold: 1, ..figures(2, 0, 0) })?;
    let refused = case.expect_refused(write_off(hold.id, units))?;
    ensure_matches!(refused, Rejection::ReturnExceedsSold { .. }, "they are lost once");
    let refused = case.expect_refused(reserve_named(60, &hall, &["a"]))?;
    ensure_eq!(refused, taken(&hall, &["a"], &["a"], None), "it does not exist");
    case.expect_done(add_units(&hall, row("stalls", "A", &["a"])))?;
    expect_unit(&mut case, &hall, "a", (UnitStatus::Available, 1))?;
    // The old sale does not reach the new unit of that name.
    let refused = case.expect_refused(fulfil_units(hold.id, &["a"]))?;
    ensure_matches!(refused, Rejection::FulfilExceedsSold { .. }, "another unit");
    case.hold(write_off(hold.id, SaleSelection::All))?;
    case.expect_figures(&hall, figures(2, 0, 0))?;
    ensure_eq!(ids(&case.hold(reserve_for(60, &[(&hall, 2)]))?), ["d", "a"], "what is left");
    Ok(())
}

fn same_units_again(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c", "d"])?;
    let hold = case.hold(reserve_named(5, &hall, &["c", "b"]))?;
    case.set_clock(hold.expires_at);
    let buyer = case.hold(reserve_named(60, &hall, &["b"]))?;
    let refused = |refusal| {
        let refusal = Box::new(refusal);
        Rejection::NotReacquired { id: hold.id, refusal }
    };
    case.world.restart();
    let of_buyer = refused(taken(&hall, &["b"], &[], Some(buyer.expires_at)));
    ensure_eq!(case.expect_refused(confirm_late(hold.id, "o1"))?, of_buyer, "one of them is held");
    expect_unit(&mut case, &hall, "c", (UnitStatus::Available, 3))?;
    // The hold of the buyer expires for the late payer.
    case.set_clock(buyer.expires_at);
    let sold = case.hold(confirm_late(hold.id, "o1"))?;
    ensure_eq!(versions(&sold), [("c", 5), ("b", 7)], "the same units, in the same order");
    case.world.restart();
    ensure_eq!(case.read_hold(sold.id)?, sold, "as it was answered");
    ensure_eq!(versions(&case.read_hold(hold.id)?), [("c", 3), ("b", 3)], "the old one as it was");
    expect_unit(&mut case, &hall, "b", (UnitStatus::Sold(sold.id), 7))?;
    case.expect_figures(&hall, StockCounters { confirmed_sold: 2, ..figures(4, 0, 0) })?;
    // A unit that is sold or gone is not replaced by another one.
    let late = case.hold(reserve_for(5, &[(&hall, 1)]))?;
    ensure_eq!(ids(&late), ["a"], "the first free one");
    case.set_clock(late.expires_at);
    let buyer = case.hold(reserve_named(60, &hall, &["a"]))?;
    case.hold(confirm(buyer.id))?;
    let again = |refusal| Rejection::NotReacquired { id: late.id, refusal: Box::new(refusal) };
    let outcome = case.expect_refused(confirm_late(late.id, "o2"))?;
    ensure_eq!(outcome, again(taken(&hall, &["a"], &[], None)), "it is sold");
    case.hold(write_off(buyer.id, SaleSelection::All))?;
    let outcome = case.expect_refused(confirm_late(late.id, "o2"))?;
    ensure_eq!(outcome, again(taken(&hall, &["a"], &["a"], None)), "it is gone");
    expect_unit(&mut case, &hall, "d", (UnitStatus::Available, 1))
}

/// A history with every change of a reservation, compared with the fold of the events.
fn histories(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let all = ["a", "b", "c", "d", "e", "f"];
    let hall = hall(&mut case, &all)?;
    let hold = case.hold(reserve_named(60, &hall, &["f", "a", "b"]))?;
    case.hold(amend_named(&hold, &hall, &["a", "b", "c", "d"]))?;
    let part = case.hold(split_named(hold.id, &hall, &["a", "b"]))?;
    let other = case.hold(reserve_named(60, &hall, &["e"]))?;
    case.hold(merge(other.id, &[hold.id]))?;
    case.hold(amend(other.id, &[(&hall, 2)]))?;
    let outcomes = case.submit_in_order(vec![
        open_payment(part.id, "p", 60),
        confirm(part.id),
        fulfil_units(part.id, &["b"]),
        write_off(part.id, SaleSelection::Units(vec![label("b")])),
        fulfil_all(part.id),
        return_units(part.id, &["a"]),
    ])?;
    for outcome in &outcomes {
        ensure_matches!(outcome, Outcome::Done(Reply::Reservation(_)), "a change of the part");
    }
    case.set_clock(other.expires_at);
    case.hold(confirm_late(other.id, "o1"))?;
    for _ in 0..2 {
        let rows = case.event_rows_of(std::slice::from_ref(&hall));
        for id in all {
            compare(case.world, &rows, &hall, id)?;
        }
        case.world.restart();
    }
    case.expect_figures(&hall, StockCounters { confirmed_sold: 2, ..figures(5, 0, 0) })
}
