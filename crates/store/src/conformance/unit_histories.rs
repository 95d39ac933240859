//! One unit with an id: as it is, and what happened to it.

use super::case_context::{CaseContext, Checked, SECOND};
use super::maker::{
    self, add_units, confirm, extend, label, release, reserve_choosing, reserve_for, reserve_named, retire,
    return_units, row, set_hall,
};
use super::units::hall;
use super::{Case, World, case};
use crate::{EventRow, Query, QueryResult, UNIT_HISTORY_LIMIT, model};
use stockhold_domain::{Command, HoldChange, ItemKey, NewUnit, StockChange, Transition, Unit, UnitStatus};

pub(super) const CASES: &[Case] = &[
    case("a unit is shown, and the history of each is what moved it, over restarts", whole),
    case("units of the same name at other items have histories of their own", of_the_same_name),
    case("a unit that was retired has no history, and another one of its name a new one", begun_anew),
    case("of a long history the newest events are shown", the_newest),
    case("a history leads through batches of many units", among_many),
    case("what is no unit is not shown", nothing),
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

/// Holds a unit and its history against what all events come to.
pub(super) fn compare(world: &mut dyn World, events: &[EventRow], item: &ItemKey, id: &str) -> Checked {
    let named = || (item.clone(), label(id));
    let ((item_of_one, one), (item_of_all, all)) = (named(), named());
    let expected = model::find(events, &Query::Unit { item: item_of_one, unit: one });
    ensure_matches!(expected, QueryResult::Unit(expected) if *expected == unit(world, item, id)?, "unit {id:?} of {item:?}");
    match model::find(events, &Query::UnitHistory { item: item_of_all, unit: all }) {
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
            HoldChange::Returned { .. } => "returned",
        },
        Transition::Stock { change: StockChange::UnitsAdded(_), .. } => "added",
        Transition::Stock { .. } | Transition::Sale { .. } => "something else",
    };
    rows.unwrap_or_default().iter().map(kind).collect()
}

fn whole(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b", "c"])?;
    let tins = stage.stocked("tins", 5)?;
    let both = stage.hold(reserve_named(60, &hall, &["b", "a"]))?;
    stage.hold(extend(both.id, 120))?;
    stage.hold(release(both.id))?;
    stage.hold(reserve_named(5, &hall, &["a"]))?;
    stage.pass(10 * SECOND);
    // Who wants it next finds that it fell due.
    let with_tins = reserve_choosing(60, vec![(&tins, 2, None), (&hall, 1, Some(maker::named(&["a"])))]);
    let sold = stage.hold(Command::Reserve(with_tins))?;
    stage.hold(confirm(sold.id))?;
    stage.hold(return_units(sold.id, &["a"]))?;
    let last = stage.hold(reserve_for(60, &[(&hall, 2)]))?;
    for restarted in [false, true] {
        if restarted {
            stage.world.restart();
        }
        let events = stage.rows_of(&[hall.clone(), tins.clone()]);
        for id in ["a", "b", "c", "d"] {
            compare(stage.world, &events, &hall, id)?;
        }
        let shown = unit(stage.world, &hall, "a")?;
        ensure_eq!(shown.map(|unit| (unit.status, unit.version)), Some((UnitStatus::Held(last.id), 9)), "a");
        ensure_eq!(
            kinds(history(stage.world, &hall, "a")?),
            ["added", "held", "released", "held", "expired", "held", "sold", "returned", "held"],
            "what happened to a"
        );
        ensure_eq!(
            kinds(history(stage.world, &hall, "b")?),
            ["added", "held", "released", "held"],
            "what happened to b"
        );
        ensure_eq!(kinds(history(stage.world, &hall, "c")?), ["added"], "what happened to c");
    }
    Ok(())
}

fn of_the_same_name(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let elsewhere = stage.maker.location("elsewhere");
    let halls = [stage.maker.item("x"), stage.maker.item("y"), stage.maker.item_at(elsewhere.as_str(), "x")];
    for hall in &halls {
        stage.done(set_hall(hall))?;
        stage.done(add_units(hall, row("stalls", "A", &["a", "b"])))?;
    }
    let [x, y, _] = &halls;
    let named = |ids| Some(maker::named(ids));
    let hold = stage
        .hold(Command::Reserve(reserve_choosing(60, vec![(x, 1, named(&["a"])), (y, 1, named(&["b"]))])))?;
    stage.hold(confirm(hold.id))?;
    let events = stage.rows_of(&halls);
    for (hall, moves) in halls.iter().zip([[3, 1], [1, 3], [1, 1]]) {
        for (id, moves) in ["a", "b"].into_iter().zip(moves) {
            compare(stage.world, &events, hall, id)?;
            ensure_eq!(kinds(history(stage.world, hall, id)?).len(), moves, "moves of {id} of {hall:?}");
        }
    }
    Ok(())
}

fn begun_anew(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b", "c"])?;
    let place = |position| NewUnit { position: Some(position), ..row("stalls", "A", &["a"]).remove(0) };
    let moved = stage.hold(reserve_named(60, &hall, &["a"]))?;
    stage.hold(release(moved.id))?;
    stage.item(retire(&hall, "a"))?;
    for _ in 0..2 {
        ensure_eq!(unit(stage.world, &hall, "a")?, None, "a unit that is gone");
        ensure_eq!(history(stage.world, &hall, "a")?, None, "its history");
        stage.world.restart();
    }
    stage.done(add_units(&hall, vec![place(1)]))?;
    stage.hold(reserve_named(60, &hall, &["a"]))?;
    let events = stage.rows_of(std::slice::from_ref(&hall));
    compare(stage.world, &events, &hall, "a")?;
    ensure_eq!(kinds(history(stage.world, &hall, "a")?), ["added", "held"], "another one of its name");
    // Within one batch: where the other was, and elsewhere.
    for (id, position) in [("b", 2), ("c", 9)] {
        let anew = NewUnit { position: Some(position), ..row("stalls", "A", &[id]).remove(0) };
        stage.all(vec![retire(&hall, id), add_units(&hall, vec![anew])])?;
        let events = stage.rows_of(std::slice::from_ref(&hall));
        compare(stage.world, &events, &hall, id)?;
        let shown = history(stage.world, &hall, id)?;
        let last = events.iter().rev().find(|row| matches!(&row.event.transition, Transition::Stock { .. }));
        ensure_eq!(shown.as_deref(), last.map(std::slice::from_ref), "another {id} in one batch");
    }
    Ok(())
}

fn the_newest(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b"])?;
    // Added, moved to and fro, and held once more: as many as are shown.
    for _ in 0..UNIT_HISTORY_LIMIT / 2 - 1 {
        let hold = stage.hold(reserve_named(60, &hall, &["a"]))?;
        stage.hold(release(hold.id))?;
    }
    let hold = stage.hold(reserve_named(60, &hall, &["a"]))?;
    let shown = kinds(history(stage.world, &hall, "a")?);
    ensure_eq!((shown.len(), shown.first()), (UNIT_HISTORY_LIMIT, Some(&"added")), "all of its moves");
    stage.hold(release(hold.id))?;
    for _ in 0..2 {
        let shown = kinds(history(stage.world, &hall, "a")?);
        ensure_eq!(
            (shown.len(), shown.first()),
            (UNIT_HISTORY_LIMIT, Some(&"held")),
            "the newest of its moves"
        );
        stage.world.restart();
    }
    let events = stage.rows_of(std::slice::from_ref(&hall));
    compare(stage.world, &events, &hall, "a")?;
    compare(stage.world, &events, &hall, "b")
}

fn among_many(world: &mut dyn World) -> Checked {
    const UNITS: usize = 120;
    let mut stage = CaseContext::new(world);
    let ids: Vec<String> = (0..UNITS).map(|n| format!("{n:05}")).collect();
    let hall = hall(&mut stage, &ids.iter().map(String::as_str).collect::<Vec<_>>())?;
    for _ in 0..3 {
        stage.all(vec![reserve_for(5, &[(&hall, 3)]); UNITS / 3])?;
        stage.pass(10 * SECOND);
        stage.sweep()?;
    }
    for _ in 0..2 {
        let events = stage.rows_of(std::slice::from_ref(&hall));
        for id in ["00000", "00059", "00119"] {
            compare(stage.world, &events, &hall, id)?;
            ensure_eq!(kinds(history(stage.world, &hall, id)?).len(), 7, "moves of {id}");
        }
        stage.world.restart();
    }
    Ok(())
}

fn nothing(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a"])?;
    let empty = stage.maker.item("empty");
    stage.done(set_hall(&empty))?;
    let tins = stage.stocked("tins", 1)?;
    stage.hold(reserve_for(60, &[(&tins, 1)]))?;
    let unknown = stage.maker.item("never set");
    for (item, id) in [(&hall, "A"), (&hall, "a "), (&empty, "a"), (&tins, "a"), (&unknown, "a")] {
        ensure_eq!(unit(stage.world, item, id)?, None, "unit {id:?} of {item:?}");
        ensure_eq!(history(stage.world, item, id)?, None, "its history");
    }
    Ok(())
}
