//! Units with ids: added, held, sold, given back, expired, returned, retired; and many who want the same.

use super::case_context::{CaseContext, Checked, SECOND};
use super::history::units_of;
use super::maker::{
    self, add_units, confirm, extend, named, release, reserve, reserve_choosing, reserve_for, reserve_named,
    reserve_partial, retire, return_all, return_units, row, set_hall, stock_of,
};
use super::{Case, World, case};
use crate::{Query, QueryResult, SeatMap, UnitFilter, UnitState};
use stockhold_domain::{
    Basket, Command, Hold, ItemKey, Label, Line, Mode, NewUnit, Outcome, Rejection, Reply, RequestedLine,
    Reserve, Return, ReturnSelection, SetStock, Status, UnavailableUnits, UnitStatus, limits,
};

pub(super) const CASES: &[Case] = &[
    case("any units are the first in the order of their positions, over restarts", any_in_order),
    case("named units are had all, or the taken are told", named_or_taken),
    case("overlapping names in opposite orders: no unit is promised twice", opposite_orders),
    case("two units and a thousand buyers: two holds and 998 refusals", thousand_buyers),
    case("a unit of a hold that fell due is had by the next, and the hold is gone whole", taken_over),
    case("a thousand units that fall due at once are reclaimed by one reserve", thousand_due),
    case("a hundred named units that as many reservations have", hundred_holders),
    case("a unit that is sold is nobody else's, over restarts", sold_is_sold),
    case("returned units with ids are sold again", sold_again),
    case("an id that two lines have comes back by its line only", back_by_its_line),
    case("a unit counts its moves without a gap, over restarts", versions),
    case("counted and unit lines share one fate", mixed_baskets),
    case("partial takes the named units that there are", partial),
    case("a basket past the limit of units with ids is refused, whatever there is", basket_units),
    case("units are added once, and neither they nor the mode change", added_once),
    case("a unit is retired when nobody has it", retired),
    case("units are listed in the order of their claims, and the seat map is them", listed),
];

/// An item with units in one row, in this order.
pub(super) fn hall(stage: &mut CaseContext<'_>, ids: &[&str]) -> Checked<ItemKey> {
    let hall = stage.maker.item("hall");
    stage.done(set_hall(&hall))?;
    stage.done(add_units(&hall, row("stalls", "A", ids)))?;
    Ok(hall)
}

/// An item with so many units.
fn large_hall(stage: &mut CaseContext<'_>, count: usize) -> Checked<ItemKey> {
    let ids: Vec<String> = (0..count).map(|n| format!("{n:05}")).collect();
    hall(stage, &ids.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A reservation's units, in the order of its lines.
pub(super) fn ids(hold: &Hold) -> Vec<&str> {
    hold.lines.iter().flat_map(Line::units).map(|unit| unit.id.as_str()).collect()
}

fn versions_of(hold: &Hold) -> Vec<(&str, u64)> {
    let units = hold.lines.iter().flat_map(Line::units);
    units.map(|unit| (unit.id.as_str(), unit.version)).collect()
}

fn taken(item: &ItemKey, units: &[&str]) -> Rejection {
    with_unknown(item, units, &[])
}

fn with_unknown(item: &ItemKey, units: &[&str], unknown: &[&str]) -> Rejection {
    let labels = |ids: &[&str]| ids.iter().map(|id| maker::label(id)).collect();
    let (units, unknown) = (labels(units), labels(unknown));
    Rejection::UnitsUnavailable(vec![UnavailableUnits { item: item.clone(), units, unknown }])
}

pub(super) fn reservation(outcome: &Outcome) -> Option<&Hold> {
    match outcome {
        Outcome::Done(Reply::Reservation(hold)) => Some(hold),
        _ => None,
    }
}

/// Checks that every unit stands with the one reservation that has it, and that the figures count them.
fn expect_sound(stage: &mut CaseContext<'_>, hall: &ItemKey, holds: &[Hold]) -> Checked {
    let figures = stage.shown(hall)?.figures;
    let units = units_of(stage.world, hall);
    let mut with: Vec<(&str, UnitStatus)> = Vec::new();
    for hold in holds {
        let status = match hold.status {
            Status::Active => UnitStatus::Held(hold.id),
            _ => UnitStatus::Sold(hold.id),
        };
        with.extend(ids(hold).into_iter().map(|id| (id, status)));
    }
    with.sort_unstable_by_key(|(id, _)| *id);
    let mut shown: Vec<(&str, UnitStatus)> = units
        .iter()
        .filter(|unit| unit.status != UnitStatus::Available)
        .map(|unit| (unit.id.as_str(), unit.status))
        .collect();
    shown.sort_unstable_by_key(|(id, _)| *id);
    ensure_eq!(shown, with, "units that somebody has");
    ensure_eq!(
        (figures.total_units, figures.held + figures.confirmed_sold),
        (units.len() as u64, with.len() as u64),
        "figures of {hall:?}"
    );
    Ok(())
}

fn any_in_order(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["c", "a", "b", "d"])?;
    let first = stage.hold(reserve_for(60, &[(&hall, 2)]))?;
    ensure_eq!(ids(&first), ["c", "a"], "the first two");
    stage.world.restart();
    let second = stage.hold(reserve_for(60, &[(&hall, 1)]))?;
    ensure_eq!(ids(&second), ["b"], "the next");
    stage.hold(release(first.id))?;
    let third = stage.hold(reserve_for(60, &[(&hall, 2)]))?;
    ensure_eq!(ids(&third), ["c", "a"], "what came back comes first");
    ensure_eq!(stage.kept(third.id)?, third, "as it was answered");
    let short = stage.refused(reserve_for(60, &[(&hall, 2)]))?;
    ensure_matches!(short, Rejection::InsufficientInventory(short) if short[0].available == 1, "one is left");
    expect_sound(&mut stage, &hall, &[second, third])
}

fn named_or_taken(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b", "c"])?;
    let hold = stage.hold(reserve_named(60, &hall, &["c", "a"]))?;
    ensure_eq!(ids(&hold), ["c", "a"], "in the order asked for");
    for _ in 0..2 {
        let refused = stage.refused(reserve_named(60, &hall, &["b", "a", "nobody", "c"]))?;
        ensure_eq!(
            refused,
            with_unknown(&hall, &["a", "nobody", "c"], &["nobody"]),
            "the taken and the unknown"
        );
        stage.world.restart();
    }
    stage.expect_books(&hall, 0, 2)?;
    ensure_eq!(ids(&stage.hold(reserve_named(60, &hall, &["b"]))?), ["b"], "what was not taken");
    Ok(())
}

fn opposite_orders(world: &mut dyn World) -> Checked {
    const UNITS: usize = 24;
    let mut stage = CaseContext::new(world);
    let hall = large_hall(&mut stage, UNITS)?;
    let id = |n: usize| format!("{:05}", n % UNITS);
    let mut commands = Vec::new();
    for start in 0..UNITS {
        let set: Vec<String> = (0..4).map(|n| id(start * 5 + n)).collect();
        let mut set: Vec<&str> = set.iter().map(String::as_str).collect();
        commands.push(reserve_named(60, &hall, &set));
        set.reverse();
        commands.push(reserve_named(60, &hall, &set));
    }
    let outcomes = stage.all(commands)?;
    let holds: Vec<Hold> = outcomes.iter().filter_map(reservation).cloned().collect();
    ensure!(!holds.is_empty() && holds.len() <= UNITS / 4, "{} holds", holds.len());
    for outcome in &outcomes {
        ensure_matches!(
            outcome,
            Outcome::Done(_) | Outcome::Refused(Rejection::UnitsUnavailable(_)),
            "had or told who is taken"
        );
    }
    stage.world.restart();
    expect_sound(&mut stage, &hall, &holds)
}

fn thousand_buyers(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b"])?;
    let mut holds = Vec::new();
    let mut refused = 0;
    for _ in 0..4 {
        for outcome in stage.all(vec![reserve_for(60, &[(&hall, 1)]); 250])? {
            match outcome {
                Outcome::Done(Reply::Reservation(hold)) => holds.push(hold),
                Outcome::Refused(Rejection::InsufficientInventory(short)) if short[0].available == 0 => {
                    refused += 1;
                }
                other => return Err(format!("answered with {other:?}")),
            }
        }
    }
    ensure_eq!((holds.len(), refused), (2, 998), "holds and refusals");
    stage.world.restart();
    expect_sound(&mut stage, &hall, &holds)
}

fn taken_over(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b", "c", "d"])?;
    let due = stage.hold(reserve_named(5, &hall, &["a", "b"]))?;
    let other = stage.hold(reserve_named(6, &hall, &["c"]))?;
    stage.at(due.expires_at);
    stage.pass(-1);
    let early = stage.refused(reserve_named(60, &hall, &["b"]))?;
    ensure_eq!(early, taken(&hall, &["b"]), "a microsecond before the deadline");
    stage.pass(2 * SECOND);
    // Each of them, and the one that fell due besides, meets the same state.
    let outcomes = stage.all(vec![
        reserve_named(60, &hall, &["b"]),
        reserve_named(60, &hall, &["a", "d"]),
        confirm(due.id),
    ])?;
    let holds: Vec<Hold> = outcomes.iter().filter_map(reservation).cloned().collect();
    ensure_eq!(holds.iter().map(ids).collect::<Vec<_>>(), [vec!["b"], vec!["a", "d"]], "both have theirs");
    ensure_eq!(versions_of(&holds[0]), [("b", 4)], "added, held, expired, held");
    ensure_matches!(outcomes[2], Outcome::Refused(Rejection::ReservationExpired { .. }), "a late confirm");
    stage.expect_status(due.id, Status::Expired)?;
    stage.expect_status(other.id, Status::Active)?;
    stage.sweep()?;
    stage.expect_status(other.id, Status::Expired)?;
    stage.world.restart();
    expect_sound(&mut stage, &hall, &holds)
}

fn thousand_due(world: &mut dyn World) -> Checked {
    const UNITS: usize = 1_000;
    let mut stage = CaseContext::new(world);
    let hall = large_hall(&mut stage, UNITS)?;
    for _ in 0..4 {
        let outcomes = stage.all(vec![reserve_for(5, &[(&hall, 1)]); UNITS / 4])?;
        ensure_eq!(outcomes.iter().filter_map(reservation).count(), UNITS / 4, "holds");
    }
    stage.pass(60 * SECOND);
    let all = stage.hold(reserve(&[(&hall, UNITS as u64)]))?;
    ensure!(all.lines[0].units().iter().all(|unit| unit.version == 4), "added, held, expired, held");
    stage.world.restart();
    expect_sound(&mut stage, &hall, &[all])
}

fn hundred_holders(world: &mut dyn World) -> Checked {
    const UNITS: usize = 100;
    let mut stage = CaseContext::new(world);
    let hall = large_hall(&mut stage, UNITS)?;
    let outcomes = stage.all(vec![reserve_for(5, &[(&hall, 1)]); UNITS])?;
    let held: Vec<&str> = outcomes.iter().filter_map(reservation).flat_map(ids).collect();
    ensure_eq!(held.len(), UNITS, "units that are held, each by another reservation");
    ensure_eq!(stage.refused(reserve_named(60, &hall, &held))?, taken(&hall, &held), "all of them");
    let each = held.iter().map(|id| reserve_named(60, &hall, &[id])).collect();
    for (outcome, id) in stage.all(each)?.into_iter().zip(&held) {
        ensure_eq!(outcome, Outcome::Refused(taken(&hall, &[id])), "one of them, all at once");
    }
    stage.pass(60 * SECOND);
    let all = stage.hold(reserve_named(60, &hall, &held))?;
    ensure_eq!(ids(&all), held, "all of them, which are due");
    stage.world.restart();
    expect_sound(&mut stage, &hall, &[all])
}

fn sold_is_sold(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b"])?;
    let hold = stage.hold(reserve_named(60, &hall, &["a"]))?;
    let sold = stage.hold(confirm(hold.id))?;
    for _ in 0..2 {
        ensure_eq!(stage.refused(reserve_named(60, &hall, &["a"]))?, taken(&hall, &["a"]), "it is sold");
        ensure_matches!(
            stage.refused(reserve(&[(&hall, 2)]))?,
            Rejection::InsufficientInventory(short) if short[0].available == 1,
            "one is left"
        );
        stage.pass(4_000 * SECOND);
        stage.sweep()?;
        stage.world.restart();
    }
    expect_sound(&mut stage, &hall, &[sold])
}

fn sold_again(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b", "c"])?;
    let first = stage.hold(reserve(&[(&hall, 3)]))?;
    stage.hold(confirm(first.id))?;
    let back = stage.hold(return_units(first.id, &["c", "a"]))?;
    ensure_eq!(versions_of(&back), [("a", 4), ("b", 3), ("c", 4)], "two came back");
    ensure_eq!(back.lines[0].returned, 2, "they are counted");
    let again = stage.refused(return_units(first.id, &["a"]))?;
    ensure_matches!(again, Rejection::ReturnExceedsSold { sold: 1, .. }, "once");
    stage.world.restart();
    let second = stage.hold(reserve_named(60, &hall, &["a"]))?;
    let second = stage.hold(confirm(second.id))?;
    let rest = stage.hold(return_all(first.id))?;
    ensure_eq!(rest.lines[0].returned, 3, "the rest");
    stage.refused(return_all(first.id))?;
    expect_sound(&mut stage, &hall, &[second])?;
    ensure_eq!(stage.refused(reserve_named(60, &hall, &["a"]))?, taken(&hall, &["a"]), "it is sold again");
    Ok(())
}

fn back_by_its_line(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b"])?;
    let ring = stage.maker.item("ring");
    stage.done(set_hall(&ring))?;
    stage.done(add_units(&ring, row("floor", "A", &["a", "c"])))?;
    let both = reserve_choosing(60, vec![(&hall, 2, None), (&ring, 2, None)]);
    let sold = stage.hold(Command::Reserve(both))?;
    stage.hold(confirm(sold.id))?;
    for _ in 0..2 {
        let refused = stage.refused(return_units(sold.id, &["b", "a"]))?;
        ensure_matches!(refused, Rejection::InvalidRequest(wrong) if &*wrong.pointer == "/units/1", "a is in both");
        stage.expect_books(&hall, 2, 0)?;
        stage.expect_books(&ring, 2, 0)?;
        stage.world.restart();
    }
    let named = Basket::with_selections(vec![(
        RequestedLine { item: ring.clone(), quantity: 1 },
        Some(named(&["a"])),
    )]);
    let selection = ReturnSelection::Lines(named.map_err(|error| format!("{error:?}"))?);
    let reason = maker::label("unwanted");
    stage.hold(Command::Return(Return { id: sold.id, selection, reason }))?;
    stage.expect_books(&hall, 2, 0)?;
    stage.expect_books(&ring, 1, 0)?;
    let refused = stage.refused(return_units(sold.id, &["a"]))?;
    ensure_matches!(refused, Rejection::InvalidRequest(_), "not even when one of them came back");
    stage.hold(return_units(sold.id, &["c"]))?;
    let left = stage.hold(return_all(sold.id))?;
    ensure!(left.lines.iter().all(|line| line.returned == line.quantity), "all of it: {left:?}");
    expect_sound(&mut stage, &hall, &[])
}

fn versions(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a"])?;
    let mut version = 1;
    for round in 0..3 {
        let hold = stage.hold(reserve_for(5, &[(&hall, 1)]))?;
        ensure_eq!(versions_of(&hold), [("a", version + 1)], "held in round {round}");
        stage.hold(extend(hold.id, 60))?;
        ensure_eq!(versions_of(&stage.kept(hold.id)?), [("a", version + 1)], "an extension adds none");
        let ended = match round {
            0 => stage.hold(release(hold.id))?,
            1 => {
                stage.pass(100 * SECOND);
                stage.sweep()?;
                stage.kept(hold.id)?
            }
            _ => stage.hold(confirm(hold.id))?,
        };
        ensure_eq!(versions_of(&ended), [("a", version + 2)], "ended in round {round}");
        version += 2;
        stage.world.restart();
        let unit = units_of(stage.world, &hall).remove(0);
        ensure_eq!(unit.version, version, "after round {round}");
    }
    let item = stage.shown(&hall)?;
    ensure_eq!((item.figures.sequence, item.version), (0, 2), "no sequence; reservations make no version");
    Ok(())
}

fn mixed_baskets(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b"])?;
    let tins = stage.stocked("tins", 3)?;
    let basket = |quantity, unit: &str| {
        Command::Reserve(reserve_choosing(
            60,
            vec![(&tins, quantity, None), (&hall, 1, Some(named(&[unit])))],
        ))
    };
    let both = stage.hold(basket(2, "a"))?;
    ensure_eq!(both.quantity(), 3, "both lines");
    let refused = stage.refused(basket(2, "b"))?;
    ensure_matches!(refused, Rejection::InsufficientInventory(short) if short.len() == 1, "tins are short");
    ensure_eq!(stage.refused(basket(2, "a"))?, taken(&hall, &["a"]), "units come first");
    stage.expect_books(&tins, 0, 2)?;
    stage.expect_books(&hall, 0, 1)?;
    stage.world.restart();
    let both = stage.hold(confirm(both.id))?;
    stage.expect_books(&tins, 2, 0)?;
    expect_sound(&mut stage, &hall, std::slice::from_ref(&both))?;
    let lone = stage.hold(basket(1, "b"))?;
    stage.pass(100 * SECOND);
    stage.sweep()?;
    stage.expect_status(lone.id, Status::Expired)?;
    stage.expect_books(&tins, 2, 0)?;
    expect_sound(&mut stage, &hall, &[both])
}

fn partial(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b", "c"])?;
    let partial = |units: &[&str]| {
        let fulfilment = stockhold_domain::Fulfilment::Partial;
        Command::Reserve(Reserve { fulfilment, ..reserve_choosing(60, vec![(&hall, 1, Some(named(units)))]) })
    };
    let first = stage.hold(reserve_named(60, &hall, &["b"]))?;
    let some = stage.hold(partial(&["c", "b", "a"]))?;
    ensure_eq!(ids(&some), ["c", "a"], "those that are free");
    ensure_eq!((some.lines[0].requested, some.lines[0].quantity), (3, 2), "of three");
    ensure_eq!(stage.refused(partial(&["b", "a"]))?, taken(&hall, &["b", "a"]), "none of them");
    stage.hold(release(some.id))?;
    let some = stage.hold(reserve_partial(60, &[(&hall, 9)]))?;
    ensure_eq!(ids(&some), ["a", "c"], "as many as there are");
    expect_sound(&mut stage, &hall, &[first, some])
}

fn basket_units(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let one = hall(&mut stage, &["a", "b"])?;
    let other = stage.maker.item("other");
    stage.done(set_hall(&other))?;
    let tins = stage.stocked("tins", limits::LINE_QUANTITY)?;
    let limit = limits::BASKET_UNITS;
    let over = |requested| Rejection::QuantityLimit { item: None, requested, limit };
    let any = stage.refused(reserve(&[(&other, limit - 1), (&one, 2)]))?;
    ensure_eq!(any, over(limit + 1), "any units");
    let some = reserve_choosing(60, vec![(&other, limit - 1, None), (&one, 2, Some(named(&["a", "b"])))]);
    ensure_eq!(stage.refused(Command::Reserve(some))?, over(limit + 1), "named units");
    let both = stage.refused(reserve_partial(60, &[(&other, limit), (&one, limit)]))?;
    ensure_eq!(both, over(2 * limit), "as far as stock goes");
    let at_most = stage.hold(reserve_partial(60, &[(&one, 2), (&tins, limit), (&other, limit - 2)]))?;
    ensure_eq!((ids(&at_most), at_most.quantity()), (vec!["a", "b"], 2 + limit), "at the limit");
    stage.expect_books(&tins, 0, limit)?;
    expect_sound(&mut stage, &one, &[at_most])
}

fn added_once(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b"])?;
    let again = stage.done(add_units(&hall, row("stalls", "A", &["b", "c"])))?;
    ensure_matches!(again, Reply::Units { added: 1, unchanged: 1, item } if item.figures.total_units == 3, "b");
    let moved = stage.refused(add_units(&hall, row("stalls", "B", &["d", "b"])))?;
    ensure_matches!(moved, Rejection::InvalidRequest(error) if &*error.pointer == "/units/1", "b elsewhere");
    stage.world.restart();
    let units = units_of(stage.world, &hall);
    let shown: Vec<_> = units.iter().map(|unit| (unit.id.as_str(), unit.place.position)).collect();
    ensure_eq!(shown, [("a", 1), ("b", 2), ("c", 3)], "nothing was added with it");
    let counted = SetStock { mode: Some(Mode::Counted), total_units: None, ..stock_of(&hall, 0) };
    for (wrong, pointer) in [
        (Command::SetStock(counted), "/mode"),
        (maker::set_stock(&hall, 4), "/total_units"),
        (maker::adjust(&hall, 1), "/delta"),
    ] {
        let refused = stage.refused(wrong)?;
        ensure_matches!(refused, Rejection::InvalidRequest(error) if &*error.pointer == pointer, "{pointer}");
    }
    let same = stage.item(maker::set_stock(&hall, 3))?;
    ensure_eq!((same.mode, same.version), (Mode::Units, 3), "the number of units changes nothing");
    let tins = stage.stocked("tins", 3)?;
    let wrong = stage.refused(add_units(&tins, row("s", "A", &["a"])))?;
    ensure_matches!(wrong, Rejection::InvalidRequest(_), "units of counted stock");
    let wrong = stage.refused(reserve_named(60, &tins, &["a"]))?;
    ensure_matches!(wrong, Rejection::InvalidRequest(_), "named units of counted stock");
    let nobody = stage.maker.item("never set");
    let unknown = stage.refused(add_units(&nobody, row("s", "A", &["a"])))?;
    ensure_eq!(unknown, Rejection::UnknownItem(vec![nobody]), "no item");
    Ok(())
}

fn retired(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["a", "b", "c"])?;
    let held = stage.hold(reserve_named(5, &hall, &["a"]))?;
    let sold = stage.hold(reserve_named(5, &hall, &["b"]))?;
    let sold = stage.hold(confirm(sold.id))?;
    for (unit, status) in [("a", UnitStatus::Held(held.id)), ("b", UnitStatus::Sold(sold.id))] {
        let (item, label) = (hall.clone(), maker::label(unit));
        let refused = stage.refused(retire(&hall, unit))?;
        ensure_eq!(refused, Rejection::UnitInUse { item, unit: label, status }, "{unit} is in use");
    }
    stage.item(retire(&hall, "c"))?;
    let unknown = Rejection::UnknownUnit { item: hall.clone(), unit: maker::label("c") };
    ensure_eq!(stage.refused(retire(&hall, "c"))?, unknown, "once");
    stage.at(held.expires_at);
    let item = stage.item(retire(&hall, "a"))?;
    ensure_eq!(item.figures.total_units, 1, "what fell due is not in use");
    stage.expect_status(held.id, Status::Expired)?;
    stage.world.restart();
    expect_sound(&mut stage, &hall, &[sold])?;
    stage.done(add_units(&hall, row("stalls", "A", &["a"])))?;
    let again = stage.hold(reserve_named(60, &hall, &["a"]))?;
    ensure_eq!(versions_of(&again), [("a", 2)], "a new unit of an old name");
    Ok(())
}

fn listed(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hall = hall(&mut stage, &["b", "a"])?;
    let balcony = NewUnit { position: Some(1), ..row("balcony", "A", &["z"]).remove(0) };
    stage.done(add_units(&hall, vec![balcony]))?;
    let held = stage.hold(reserve_named(60, &hall, &["z"]))?;
    let sold = stage.hold(reserve_named(60, &hall, &["a"]))?;
    stage.hold(confirm(sold.id))?;
    for _ in 0..2 {
        let mut page = |status, section: Option<&str>| {
            let section = section.map(maker::label);
            let query = UnitFilter { item: hall.clone(), status, section, after: None, limit: 9 };
            match stage.world.find(Query::Units(query)) {
                Ok(QueryResult::Units(Some(page))) => Ok(page.units),
                other => Err(format!("asked for units, it answered {other:?}")),
            }
        };
        let ids = |units: Vec<stockhold_domain::Unit>| -> Vec<Label> {
            units.into_iter().map(|unit| unit.id).collect()
        };
        let expected = |ids: &[&str]| -> Vec<Label> { ids.iter().map(|id| maker::label(id)).collect() };
        ensure_eq!(ids(page(None, None)?), expected(&["b", "z", "a"]), "by position, then id");
        ensure_eq!(ids(page(None, Some("stalls"))?), expected(&["b", "a"]), "of a section");
        ensure_eq!(ids(page(Some(UnitState::Available), None)?), expected(&["b"]), "available");
        ensure_eq!(ids(page(Some(UnitState::Sold), None)?), expected(&["a"]), "sold");
        let with = page(Some(UnitState::Held), None)?;
        ensure_eq!(with[0].status, UnitStatus::Held(held.id), "with whom");
        let map = seat_map(&mut stage, &hall)?;
        ensure_eq!((map.states.count, map.states.moves), (3, 1 + 2 + 3), "units and their moves");
        ensure_eq!((map.states.available[0], map.states.sold[0]), (0b001, 0b100), "where they stand");
        let layout: Vec<Label> =
            map.layout.iter().flat_map(|all| all.iter()).map(|(id, _)| id.clone()).collect();
        ensure_eq!(layout, expected(&["b", "z", "a"]), "the layout has the same order");
        stage.world.restart();
    }
    let tins = stage.stocked("tins", 1)?;
    for item in [tins, stage.maker.item("never set")] {
        let map = stage.world.find(Query::SeatMap { item, layout: true });
        ensure_matches!(map, Ok(QueryResult::SeatMap(None)), "no units with ids");
    }
    Ok(())
}

fn seat_map(stage: &mut CaseContext<'_>, hall: &ItemKey) -> Checked<SeatMap> {
    match stage.world.find(Query::SeatMap { item: hall.clone(), layout: true }) {
        Ok(QueryResult::SeatMap(Some(map))) => Ok(*map),
        other => Err(format!("asked for a seat map, it answered {other:?}")),
    }
}
