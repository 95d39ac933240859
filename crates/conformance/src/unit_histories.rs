//! One unit with an id: its state and its history.

use super::case_context::{CaseContext, Checked, SECOND};
use super::units::hall;
use super::{Case, World, case};
use stockhold_domain::{Command, HoldChange, ItemKey, NewUnit, StockChange, Transition, Unit, UnitStatus};
use stockhold_model::maker::{
    self, add_units, confirm, create_unit_item, extend, label, release, reserve_choosing, reserve_for,
    reserve_named, retire, return_units, row,
};
use stockhold_store::{EventRow, Query, QueryResult, UNIT_HISTORY_LIMIT};

pub(super) const CASES: &[Case] = &[
    case("a unit's history has every event that changed it, over restarts", whole),
    case("units of the same name at other items have histories of their own", of_the_same_name),
    case("a retired unit has no history, and a new unit of its id starts one", begun_anew),
    case("a long history has its newest events only", the_newest),
    case("a history is complete through batches of many units", among_many),
    case("a unit that does not exist is not found", nothing),
];

pub(super) fn unit(world: &mut dyn World, item: &ItemKey, id: &str) -> Checked<Option<Unit>> {
    match world.find(Query::Unit { item: item.clone(), unit: label(id) }) {
        Ok(QueryResult::Unit(unit)) => Ok(unit),
        other => Err(format!("asked for a unit, it answered {other:?}")),
    }
}

fn history(world: &mut dyn World, item: &ItemKey, id: &str) -> Checked<Option<Vec<EventRow>>> {
    match world.find(Query::UnitHistory { item: item.clone(), unit: label(id) }) {
        Ok(QueryResult::UnitHistory(rows)) => Ok(rows),
        other => Err(format!("asked for the history of a unit, it answered {other:?}")),
    }
}

/// Compares a unit and its history with the fold of all events.
pub(super) fn compare(world: &mut dyn World, events: &[EventRow], item: &ItemKey, id: &str) -> Checked {
    let named = || (item.clone(), label(id));
    let ((item_of_one, one), (item_of_all, all)) = (named(), named());
    let expected = stockhold_model::find(events, &Query::Unit { item: item_of_one, unit: one });
    ensure_matches!(expected, QueryResult::Unit(expected) if *expected == unit(world, item, id)?, "unit {id:?} of {item:?}");
    match stockhold_model::find(events, &Query::UnitHistory { item: item_of_all, unit: all }) {
        QueryResult::UnitHistory(expected) => {
            ensure_eq!(history(world, item, id)?, expected, "history of unit {id:?} of {item:?}");
        }
        other => return Err(format!("the model answered {other:?}")),
    }
    Ok(())
}

fn kinds(rows: Option<Vec<EventRow>>) -> Vec<&'static str> {
    let kind = |row: &EventRow| match &row.event.transition {
        Transition::Hold { change, .. } => match change {
            HoldChange::Created => "held",
            HoldChange::Extended => "extended",
            HoldChange::Confirmed => "sold",
            HoldChange::Cancelled => "released",
            HoldChange::Expired => "expired",
            HoldChange::Amended { .. } => "amended",
            HoldChange::Transferred { .. } => "transferred",
            HoldChange::Split { .. } => "split",
            HoldChange::CreatedBySplit => "created by a split",
            HoldChange::Merged { .. } => "merged",
            HoldChange::MergedAway => "merged away",
            HoldChange::PaymentOpened { .. } => "payment opened",
            HoldChange::PaymentClosed { .. } => "payment closed",
            HoldChange::PaymentAdvanced { .. } => "payment advanced",
            HoldChange::Replaced => "replaced",
            HoldChange::Fulfilled { .. } => "fulfilled",
            HoldChange::Returned { .. } => "returned",
        },
        Transition::Stock { change: StockChange::UnitsAdded(_), .. } => "added",
        Transition::Stock { .. }
        | Transition::Sale { .. }
        | Transition::Limit { .. }
        | Transition::Record { .. } => "something else",
    };
    rows.unwrap_or_default().iter().map(kind).collect()
}

fn whole(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c"])?;
    let tins = case.create_item("tins", 5)?;
    let both = case.hold(reserve_named(60, &hall, &["b", "a"]))?;
    case.hold(extend(both.id, 120))?;
    case.hold(release(both.id))?;
    case.hold(reserve_named(5, &hall, &["a"]))?;
    case.advance(10 * SECOND);
    // The next reserve of it expires the due hold.
    let with_tins = reserve_choosing(60, vec![(&tins, 2, None), (&hall, 1, Some(maker::named(&["a"])))]);
    let sold = case.hold(Command::Reserve(with_tins))?;
    case.hold(confirm(sold.id))?;
    case.hold(return_units(sold.id, &["a"]))?;
    let last = case.hold(reserve_for(60, &[(&hall, 2)]))?;
    for restarted in [false, true] {
        if restarted {
            case.world.restart();
        }
        let events = case.event_rows_of(&[hall.clone(), tins.clone()]);
        for id in ["a", "b", "c", "d"] {
            compare(case.world, &events, &hall, id)?;
        }
        let shown = unit(case.world, &hall, "a")?;
        ensure_eq!(shown.map(|unit| (unit.status, unit.version)), Some((UnitStatus::Held(last.id), 9)), "a");
        ensure_eq!(
            kinds(history(case.world, &hall, "a")?),
            ["added", "held", "released", "held", "expired", "held", "sold", "returned", "held"],
            "what happened to a"
        );
        ensure_eq!(
            kinds(history(case.world, &hall, "b")?),
            ["added", "held", "released", "held"],
            "what happened to b"
        );
        ensure_eq!(kinds(history(case.world, &hall, "c")?), ["added"], "what happened to c");
    }
    Ok(())
}

fn of_the_same_name(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let elsewhere = case.maker.location("elsewhere");
    let halls = [case.maker.item("x"), case.maker.item("y"), case.maker.item_at(elsewhere.as_str(), "x")];
    for hall in &halls {
        case.expect_done(create_unit_item(hall))?;
        case.expect_done(add_units(hall, row("stalls", "A", &["a", "b"])))?;
    }
    let [x, y, _] = &halls;
    let named = |ids| Some(maker::named(ids));
    let hold = case
        .hold(Command::Reserve(reserve_choosing(60, vec![(x, 1, named(&["a"])), (y, 1, named(&["b"]))])))?;
    case.hold(confirm(hold.id))?;
    let events = case.event_rows_of(&halls);
    for (hall, moves) in halls.iter().zip([[3, 1], [1, 3], [1, 1]]) {
        for (id, moves) in ["a", "b"].into_iter().zip(moves) {
            compare(case.world, &events, hall, id)?;
            ensure_eq!(kinds(history(case.world, hall, id)?).len(), moves, "moves of {id} of {hall:?}");
        }
    }
    Ok(())
}

fn begun_anew(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c"])?;
    let place = |position| NewUnit { position: Some(position), ..row("stalls", "A", &["a"]).remove(0) };
    let moved = case.hold(reserve_named(60, &hall, &["a"]))?;
    case.hold(release(moved.id))?;
    case.item(retire(&hall, "a"))?;
    for _ in 0..2 {
        ensure_eq!(unit(case.world, &hall, "a")?, None, "a unit that is gone");
        ensure_eq!(history(case.world, &hall, "a")?, None, "its history");
        case.world.restart();
    }
    case.expect_done(add_units(&hall, vec![place(1)]))?;
    case.hold(reserve_named(60, &hall, &["a"]))?;
    let events = case.event_rows_of(std::slice::from_ref(&hall));
    compare(case.world, &events, &hall, "a")?;
    ensure_eq!(kinds(history(case.world, &hall, "a")?), ["added", "held"], "another one of its name");
    // Within one batch: at the old place, and at another one.
    for (id, position) in [("b", 2), ("c", 9)] {
        let anew = NewUnit { position: Some(position), ..row("stalls", "A", &[id]).remove(0) };
        case.submit_all(vec![retire(&hall, id), add_units(&hall, vec![anew])])?;
        let events = case.event_rows_of(std::slice::from_ref(&hall));
        compare(case.world, &events, &hall, id)?;
        let shown = history(case.world, &hall, id)?;
        let last = events.iter().rev().find(|row| matches!(&row.event.transition, Transition::Stock { .. }));
        ensure_eq!(shown.as_deref(), last.map(std::slice::from_ref), "another {id} in one batch");
    }
    Ok(())
}

fn the_newest(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b"])?;
    // Added, changed many times, and held again: exactly as many events as a history shows.
    for _ in 0..UNIT_HISTORY_LIMIT / 2 - 1 {
        let hold = case.hold(reserve_named(60, &hall, &["a"]))?;
        case.hold(release(hold.id))?;
    }
    let hold = case.hold(reserve_named(60, &hall, &["a"]))?;
    let shown = kinds(history(case.world, &hall, "a")?);
    ensure_eq!((shown.len(), shown.first()), (UNIT_HISTORY_LIMIT, Some(&"added")), "all of its moves");
    case.hold(release(hold.id))?;
    for _ in 0..2 {
        let shown = kinds(history(case.world, &hall, "a")?);
        ensure_eq!(
            (shown.len(), shown.first()),
            (UNIT_HISTORY_LIMIT, Some(&"held")),
            "the newest of its moves"
        );
        case.world.restart();
    }
    let events = case.event_rows_of(std::slice::from_ref(&hall));
    compare(case.world, &events, &hall, "a")?;
    compare(case.world, &events, &hall, "b")
}

fn among_many(world: &mut dyn World) -> Checked {
    const UNITS: usize = 120;
    let mut case = CaseContext::new(world);
    let ids: Vec<String> = (0..UNITS).map(|n| format!("{n:05}")).collect();
    let hall = hall(&mut case, &ids.iter().map(String::as_str).collect::<Vec<_>>())?;
    for _ in 0..3 {
        case.submit_all(vec![reserve_for(5, &[(&hall, 3)]); UNITS / 3])?;
        case.advance(10 * SECOND);
        case.sweep()?;
    }
    for _ in 0..2 {
        let events = case.event_rows_of(std::slice::from_ref(&hall));
        for id in ["00000", "00059", "00119"] {
            compare(case.world, &events, &hall, id)?;
            ensure_eq!(kinds(history(case.world, &hall, id)?).len(), 7, "moves of {id}");
        }
        case.world.restart();
    }
    Ok(())
}

fn nothing(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a"])?;
    let empty = case.maker.item("empty");
    case.expect_done(create_unit_item(&empty))?;
    let tins = case.create_item("tins", 1)?;
    case.hold(reserve_for(60, &[(&tins, 1)]))?;
    let unknown = case.maker.item("never set");
    for (item, id) in [(&hall, "A"), (&hall, "a "), (&empty, "a"), (&tins, "a"), (&unknown, "a")] {
        ensure_eq!(unit(case.world, item, id)?, None, "unit {id:?} of {item:?}");
        ensure_eq!(history(case.world, item, id)?, None, "its history");
    }
    Ok(())
}
