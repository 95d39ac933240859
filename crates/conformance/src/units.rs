//! Units with ids: added, held, sold, released, expired, returned and retired, also with many requests for the same
//! unit.

use super::case_context::{CaseContext, Checked, SECOND, units_of};
use super::{Case, World, case};
use stockhold_domain::{
    Basket, Command, Hold, Instant, Item, ItemKey, Label, Line, Mode, NewUnit, Outcome, Rejection, Reply,
    RequestedLine, Reserve, SaleSelection, SetStock, Status, UnavailableUnits, UnitStatus, limits,
};
use stockhold_model::maker::{
    self, add_units, confirm, create_unit_item, extend, named, release, reserve, reserve_choosing,
    reserve_for, reserve_named, reserve_partial, retire, return_all, return_units, row, stock_of,
};
use stockhold_store::{Query, QueryResult, SeatMap, UnitFilter, UnitState};

pub(super) const CASES: &[Case] = &[
    case("a line without a selection gets the first units by position, over restarts", any_in_order),
    case("named units are granted all, or the unavailable ones are listed", named_or_taken),
    case("overlapping selections in opposite orders never get the same unit", opposite_orders),
    case("of a thousand reserves of two units, two succeed and 998 are refused", thousand_buyers),
    case("a reserve of one unit of a due hold expires the whole hold", taken_over),
    case("one reserve reclaims a thousand units that are due at once", thousand_due),
    case("one reserve of named units expires a hundred due holds", hundred_holders),
    case("a sold unit can't be reserved, over restarts", sold_is_sold),
    case("returned units with ids are sold again", sold_again),
    case("a unit id that two lines have is returned by its line only", back_by_its_line),
    case("the versions of a unit have no gap, over restarts", versions),
    case("lines with and without unit ids succeed or fail together", mixed_baskets),
    case("a partial reserve gets the named units that are available", partial),
    case("a basket over the limit of units with ids is refused even when they are available", basket_units),
    case("units are added once, and neither they nor the mode can be changed", added_once),
    case("only an available unit can be retired", retired),
    case("units and the seat map are in the order in which units are claimed", listed),
];

/// An item with units in one row, in this order.
pub(super) fn hall(case: &mut CaseContext<'_>, ids: &[&str]) -> Checked<ItemKey> {
    let hall = case.maker.item("hall");
    case.expect_done(create_unit_item(&hall))?;
    case.expect_done(add_units(&hall, row("stalls", "A", ids)))?;
    Ok(hall)
}

/// An item with this many units.
fn large_hall(case: &mut CaseContext<'_>, count: usize) -> Checked<ItemKey> {
    let ids: Vec<String> = (0..count).map(|n| format!("{n:05}")).collect();
    hall(case, &ids.iter().map(String::as_str).collect::<Vec<_>>())
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

/// The refusal of units that are held, the first until an instant.
fn taken_until(item: &ItemKey, units: &[&str], until: Instant) -> Rejection {
    let Rejection::UnitsUnavailable(mut lines) = taken(item, units) else { unreachable!("of units") };
    lines[0].next_expiry_at = Some(until);
    Rejection::UnitsUnavailable(lines)
}

fn with_unknown(item: &ItemKey, units: &[&str], unknown: &[&str]) -> Rejection {
    let labels = |ids: &[&str]| ids.iter().map(|id| maker::label(id)).collect();
    let (units, unknown) = (labels(units), labels(unknown));
    let item = item.clone();
    Rejection::UnitsUnavailable(vec![UnavailableUnits { item, units, unknown, next_expiry_at: None }])
}

pub(super) fn reservation(outcome: &Outcome) -> Option<&Hold> {
    match outcome {
        Outcome::Done(Reply::Reservation(hold)) => Some(hold),
        _ => None,
    }
}

/// Checks that every unit belongs to the one reservation that has it, and that the counters are right.
fn expect_sound(case: &mut CaseContext<'_>, hall: &ItemKey, holds: &[Hold]) -> Checked {
    let figures = case.read_item(hall)?.figures;
    let units = units_of(case.world, hall);
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
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["c", "a", "b", "d"])?;
    let first = case.hold(reserve_for(60, &[(&hall, 2)]))?;
    ensure_eq!(ids(&first), ["c", "a"], "the first two");
    case.world.restart();
    let second = case.hold(reserve_for(60, &[(&hall, 1)]))?;
    ensure_eq!(ids(&second), ["b"], "the next");
    case.hold(release(first.id))?;
    let third = case.hold(reserve_for(60, &[(&hall, 2)]))?;
    ensure_eq!(ids(&third), ["c", "a"], "what came back comes first");
    ensure_eq!(case.read_hold(third.id)?, third, "as it was answered");
    let short = case.expect_refused(reserve_for(60, &[(&hall, 2)]))?;
    ensure_matches!(short, Rejection::InsufficientInventory(short) if short[0].available == 1, "one is left");
    expect_sound(&mut case, &hall, &[second, third])
}

fn named_or_taken(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c"])?;
    let hold = case.hold(reserve_named(60, &hall, &["c", "a"]))?;
    ensure_eq!(ids(&hold), ["c", "a"], "in the order asked for");
    for _ in 0..2 {
        let refused = case.expect_refused(reserve_named(60, &hall, &["b", "a", "nobody", "c"]))?;
        ensure_eq!(
            refused,
            with_unknown(&hall, &["a", "nobody", "c"], &["nobody"]),
            "the taken and the unknown"
        );
        case.world.restart();
    }
    case.expect_counters(&hall, 0, 2)?;
    ensure_eq!(ids(&case.hold(reserve_named(60, &hall, &["b"]))?), ["b"], "what was not taken");
    Ok(())
}

fn opposite_orders(world: &mut dyn World) -> Checked {
    const UNITS: usize = 24;
    let mut case = CaseContext::new(world);
    let hall = large_hall(&mut case, UNITS)?;
    let id = |n: usize| format!("{:05}", n % UNITS);
    let mut commands = Vec::new();
    for start in 0..UNITS {
        let set: Vec<String> = (0..4).map(|n| id(start * 5 + n)).collect();
        let mut set: Vec<&str> = set.iter().map(String::as_str).collect();
        commands.push(reserve_named(60, &hall, &set));
        set.reverse();
        commands.push(reserve_named(60, &hall, &set));
    }
    let outcomes = case.submit_all(commands)?;
    let holds: Vec<Hold> = outcomes.iter().filter_map(reservation).cloned().collect();
    ensure!(!holds.is_empty() && holds.len() <= UNITS / 4, "{} holds", holds.len());
    for outcome in &outcomes {
        ensure_matches!(
            outcome,
            Outcome::Done(_) | Outcome::Refused(Rejection::UnitsUnavailable(_)),
            "had or told who is taken"
        );
    }
    case.world.restart();
    expect_sound(&mut case, &hall, &holds)
}

fn thousand_buyers(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b"])?;
    let mut holds = Vec::new();
    let mut refused = 0;
    for _ in 0..4 {
        for outcome in case.submit_all(vec![reserve_for(60, &[(&hall, 1)]); 250])? {
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
    case.world.restart();
    expect_sound(&mut case, &hall, &holds)
}

fn taken_over(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c", "d"])?;
    let due = case.hold(reserve_named(5, &hall, &["a", "b"]))?;
    let other = case.hold(reserve_named(6, &hall, &["c"]))?;
    case.set_clock(due.expires_at);
    case.advance(-1);
    let early = case.expect_refused(reserve_named(60, &hall, &["b"]))?;
    ensure_eq!(early, taken_until(&hall, &["b"], due.expires_at), "a microsecond before the deadline");
    case.advance(2 * SECOND);
    // Every command sees the same state, including the hold that fell due.
    let outcomes = case.submit_all(vec![
        reserve_named(60, &hall, &["b"]),
        reserve_named(60, &hall, &["a", "d"]),
        confirm(due.id),
    ])?;
    let holds: Vec<Hold> = outcomes.iter().filter_map(reservation).cloned().collect();
    ensure_eq!(holds.iter().map(ids).collect::<Vec<_>>(), [vec!["b"], vec!["a", "d"]], "both have theirs");
    ensure_eq!(versions_of(&holds[0]), [("b", 4)], "added, held, expired, held");
    ensure_matches!(outcomes[2], Outcome::Refused(Rejection::ReservationExpired { .. }), "a late confirm");
    case.expect_status(due.id, Status::Expired)?;
    case.expect_status(other.id, Status::Active)?;
    case.sweep()?;
    case.expect_status(other.id, Status::Expired)?;
    case.world.restart();
    expect_sound(&mut case, &hall, &holds)
}

fn thousand_due(world: &mut dyn World) -> Checked {
    const UNITS: usize = 1_000;
    let mut case = CaseContext::new(world);
    let hall = large_hall(&mut case, UNITS)?;
    for _ in 0..4 {
        let outcomes = case.submit_all(vec![reserve_for(5, &[(&hall, 1)]); UNITS / 4])?;
        ensure_eq!(outcomes.iter().filter_map(reservation).count(), UNITS / 4, "holds");
    }
    case.advance(60 * SECOND);
    let all = case.hold(reserve(&[(&hall, UNITS as u64)]))?;
    ensure!(all.lines[0].units().iter().all(|unit| unit.version == 4), "added, held, expired, held");
    case.world.restart();
    expect_sound(&mut case, &hall, &[all])
}

fn hundred_holders(world: &mut dyn World) -> Checked {
    const UNITS: usize = 100;
    let mut case = CaseContext::new(world);
    let hall = large_hall(&mut case, UNITS)?;
    let outcomes = case.submit_all(vec![reserve_for(5, &[(&hall, 1)]); UNITS])?;
    let held: Vec<&str> = outcomes.iter().filter_map(reservation).flat_map(ids).collect();
    let until = case.now().deadline(maker::seconds(5));
    ensure_eq!(held.len(), UNITS, "units that are held, each by another reservation");
    let all = case.expect_refused(reserve_named(60, &hall, &held))?;
    ensure_eq!(all, taken_until(&hall, &held, until), "all of them");
    let each = held.iter().map(|id| reserve_named(60, &hall, &[id])).collect();
    for (outcome, id) in case.submit_all(each)?.into_iter().zip(&held) {
        ensure_eq!(outcome, Outcome::Refused(taken_until(&hall, &[id], until)), "one of them, all at once");
    }
    case.advance(60 * SECOND);
    let all = case.hold(reserve_named(60, &hall, &held))?;
    ensure_eq!(ids(&all), held, "all of them, which are due");
    case.world.restart();
    expect_sound(&mut case, &hall, &[all])
}

fn sold_is_sold(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b"])?;
    let hold = case.hold(reserve_named(60, &hall, &["a"]))?;
    let sold = case.hold(confirm(hold.id))?;
    for _ in 0..2 {
        ensure_eq!(
            case.expect_refused(reserve_named(60, &hall, &["a"]))?,
            taken(&hall, &["a"]),
            "it is sold"
        );
        ensure_matches!(
            case.expect_refused(reserve(&[(&hall, 2)]))?,
            Rejection::InsufficientInventory(short) if short[0].available == 1,
            "one is left"
        );
        case.advance(4_000 * SECOND);
        case.sweep()?;
        case.world.restart();
    }
    expect_sound(&mut case, &hall, &[sold])
}

fn sold_again(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c"])?;
    let first = case.hold(reserve(&[(&hall, 3)]))?;
    case.hold(confirm(first.id))?;
    let back = case.hold(return_units(first.id, &["c", "a"]))?;
    ensure_eq!(versions_of(&back), [("a", 4), ("b", 3), ("c", 4)], "two came back");
    ensure_eq!(back.lines[0].returned, 2, "they are counted");
    let again = case.expect_refused(return_units(first.id, &["a"]))?;
    ensure_matches!(again, Rejection::ReturnExceedsSold { sold: 1, .. }, "once");
    case.world.restart();
    let second = case.hold(reserve_named(60, &hall, &["a"]))?;
    let second = case.hold(confirm(second.id))?;
    let rest = case.hold(return_all(first.id))?;
    ensure_eq!(rest.lines[0].returned, 3, "the rest");
    case.expect_refused(return_all(first.id))?;
    expect_sound(&mut case, &hall, &[second])?;
    ensure_eq!(
        case.expect_refused(reserve_named(60, &hall, &["a"]))?,
        taken(&hall, &["a"]),
        "it is sold again"
    );
    Ok(())
}

fn back_by_its_line(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b"])?;
    let ring = case.maker.item("ring");
    case.expect_done(create_unit_item(&ring))?;
    case.expect_done(add_units(&ring, row("floor", "A", &["a", "c"])))?;
    let both = reserve_choosing(60, vec![(&hall, 2, None), (&ring, 2, None)]);
    let sold = case.hold(Command::Reserve(both))?;
    case.hold(confirm(sold.id))?;
    for _ in 0..2 {
        let refused = case.expect_refused(return_units(sold.id, &["b", "a"]))?;
        ensure_matches!(refused, Rejection::InvalidRequest(wrong) if &*wrong.pointer == "/units/1", "a is in both");
        case.expect_counters(&hall, 2, 0)?;
        case.expect_counters(&ring, 2, 0)?;
        case.world.restart();
    }
    let named = Basket::with_selections(vec![(
        RequestedLine { item: ring.clone(), quantity: 1 },
        Some(named(&["a"])),
    )]);
    let selection = SaleSelection::Lines(named.map_err(|error| format!("{error:?}"))?);
    case.hold(Command::Return(maker::return_selected(sold.id, selection)))?;
    case.expect_counters(&hall, 2, 0)?;
    case.expect_counters(&ring, 1, 0)?;
    let refused = case.expect_refused(return_units(sold.id, &["a"]))?;
    ensure_matches!(refused, Rejection::InvalidRequest(_), "not even when one of them came back");
    case.hold(return_units(sold.id, &["c"]))?;
    let left = case.hold(return_all(sold.id))?;
    ensure!(left.lines.iter().all(|line| line.returned == line.quantity), "all of it: {left:?}");
    expect_sound(&mut case, &hall, &[])
}

fn versions(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a"])?;
    let mut version = 1;
    for round in 0..3 {
        let hold = case.hold(reserve_for(5, &[(&hall, 1)]))?;
        ensure_eq!(versions_of(&hold), [("a", version + 1)], "held in round {round}");
        case.hold(extend(hold.id, 60))?;
        ensure_eq!(versions_of(&case.read_hold(hold.id)?), [("a", version + 1)], "an extension adds none");
        let ended = match round {
            0 => case.hold(release(hold.id))?,
            1 => {
                case.advance(100 * SECOND);
                case.sweep()?;
                case.read_hold(hold.id)?
            }
            _ => case.hold(confirm(hold.id))?,
        };
        ensure_eq!(versions_of(&ended), [("a", version + 2)], "ended in round {round}");
        version += 2;
        case.world.restart();
        let unit = units_of(case.world, &hall).remove(0);
        ensure_eq!(unit.version, version, "after round {round}");
    }
    let item = case.read_item(&hall)?;
    ensure_eq!(item.figures.sequence, 0, "no sequence");
    ensure_eq!(item.version, Item::first_version(item.created_at) + 1, "reservations make no version");
    Ok(())
}

fn mixed_baskets(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b"])?;
    let tins = case.create_item("tins", 3)?;
    let basket = |quantity, unit: &str| {
        Command::Reserve(reserve_choosing(
            60,
            vec![(&tins, quantity, None), (&hall, 1, Some(named(&[unit])))],
        ))
    };
    let both = case.hold(basket(2, "a"))?;
    ensure_eq!(both.quantity(), 3, "both lines");
    let refused = case.expect_refused(basket(2, "b"))?;
    ensure_matches!(refused, Rejection::InsufficientInventory(short) if short.len() == 1, "tins are short");
    let refused = case.expect_refused(basket(2, "a"))?;
    ensure_eq!(refused, taken_until(&hall, &["a"], both.expires_at), "units come first");
    case.expect_counters(&tins, 0, 2)?;
    case.expect_counters(&hall, 0, 1)?;
    case.world.restart();
    let both = case.hold(confirm(both.id))?;
    case.expect_counters(&tins, 2, 0)?;
    expect_sound(&mut case, &hall, std::slice::from_ref(&both))?;
    let lone = case.hold(basket(1, "b"))?;
    case.advance(100 * SECOND);
    case.sweep()?;
    case.expect_status(lone.id, Status::Expired)?;
    case.expect_counters(&tins, 2, 0)?;
    expect_sound(&mut case, &hall, &[both])
}

fn partial(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c"])?;
    let partial = |units: &[&str]| {
        let fulfilment = stockhold_domain::Fulfilment::Partial;
        Command::Reserve(Reserve { fulfilment, ..reserve_choosing(60, vec![(&hall, 1, Some(named(units)))]) })
    };
    let first = case.hold(reserve_named(60, &hall, &["b"]))?;
    let some = case.hold(partial(&["c", "b", "a"]))?;
    ensure_eq!(ids(&some), ["c", "a"], "those that are free");
    ensure_eq!((some.lines[0].requested, some.lines[0].quantity), (3, 2), "of three");
    let refused = case.expect_refused(partial(&["b", "a"]))?;
    ensure_eq!(refused, taken_until(&hall, &["b", "a"], first.expires_at), "none of them");
    case.hold(release(some.id))?;
    let some = case.hold(reserve_partial(60, &[(&hall, 9)]))?;
    ensure_eq!(ids(&some), ["a", "c"], "as many as there are");
    expect_sound(&mut case, &hall, &[first, some])
}

fn basket_units(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let one = hall(&mut case, &["a", "b"])?;
    let other = case.maker.item("other");
    case.expect_done(create_unit_item(&other))?;
    let tins = case.create_item("tins", limits::LINE_QUANTITY)?;
    let limit = limits::BASKET_UNITS;
    let over = |requested| Rejection::QuantityLimit { item: None, requested, limit };
    let any = case.expect_refused(reserve(&[(&other, limit - 1), (&one, 2)]))?;
    ensure_eq!(any, over(limit + 1), "any units");
    let some = reserve_choosing(60, vec![(&other, limit - 1, None), (&one, 2, Some(named(&["a", "b"])))]);
    ensure_eq!(case.expect_refused(Command::Reserve(some))?, over(limit + 1), "named units");
    let both = case.expect_refused(reserve_partial(60, &[(&other, limit), (&one, limit)]))?;
    ensure_eq!(both, over(2 * limit), "as far as stock goes");
    let at_most = case.hold(reserve_partial(60, &[(&one, 2), (&tins, limit), (&other, limit - 2)]))?;
    ensure_eq!((ids(&at_most), at_most.quantity()), (vec!["a", "b"], 2 + limit), "at the limit");
    case.expect_counters(&tins, 0, limit)?;
    expect_sound(&mut case, &one, &[at_most])
}

fn added_once(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b"])?;
    let again = case.expect_done(add_units(&hall, row("stalls", "A", &["b", "c"])))?;
    ensure_matches!(again, Reply::Units { added: 1, unchanged: 1, item } if item.figures.total_units == 3, "b");
    let moved = case.expect_refused(add_units(&hall, row("stalls", "B", &["d", "b"])))?;
    ensure_matches!(moved, Rejection::InvalidRequest(error) if &*error.pointer == "/units/1", "b elsewhere");
    case.world.restart();
    let units = units_of(case.world, &hall);
    let shown: Vec<_> = units.iter().map(|unit| (unit.id.as_str(), unit.place.position)).collect();
    ensure_eq!(shown, [("a", 1), ("b", 2), ("c", 3)], "nothing was added with it");
    let counted = SetStock { mode: Some(Mode::Counted), total_units: None, ..stock_of(&hall, 0) };
    let mismatch = |item: &ItemKey, mode| Rejection::ModeMismatch { item: item.clone(), mode };
    for (wrong, what) in [
        (Command::SetStock(counted), "another mode"),
        (maker::set_stock(&hall, 4), "another total"),
        (maker::adjust(&hall, 1), "a delta"),
    ] {
        ensure_eq!(case.expect_refused(wrong)?, mismatch(&hall, Mode::Units), "{what}");
    }
    let before = case.read_item(&hall)?;
    let same = case.item(maker::set_stock(&hall, 3))?;
    ensure_eq!(
        (same.mode, same.version),
        (Mode::Units, before.version),
        "the number of units changes nothing"
    );
    let tins = case.create_item("tins", 3)?;
    let wrong = case.expect_refused(add_units(&tins, row("s", "A", &["a"])))?;
    ensure_eq!(wrong, mismatch(&tins, Mode::Counted), "units of counted stock");
    let wrong = case.expect_refused(reserve_named(60, &tins, &["a"]))?;
    ensure_eq!(wrong, mismatch(&tins, Mode::Counted), "named units of counted stock");
    let wrong = case.expect_refused(retire(&tins, "a"))?;
    ensure_eq!(wrong, mismatch(&tins, Mode::Counted), "a unit of counted stock");
    let total = SetStock { mode: Some(Mode::Units), ..stock_of(&case.maker.item("new hall"), 3) };
    let wrong = case.expect_refused(Command::SetStock(total))?;
    ensure_matches!(wrong, Rejection::InvalidRequest(error) if &*error.pointer == "/total_units", "a new hall");
    let nobody = case.maker.item("never set");
    let unknown = case.expect_refused(add_units(&nobody, row("s", "A", &["a"])))?;
    ensure_eq!(unknown, Rejection::UnknownItem(vec![nobody]), "no item");
    Ok(())
}

fn retired(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["a", "b", "c"])?;
    let held = case.hold(reserve_named(5, &hall, &["a"]))?;
    let sold = case.hold(reserve_named(5, &hall, &["b"]))?;
    let sold = case.hold(confirm(sold.id))?;
    for (unit, status) in [("a", UnitStatus::Held(held.id)), ("b", UnitStatus::Sold(sold.id))] {
        let (item, label) = (hall.clone(), maker::label(unit));
        let refused = case.expect_refused(retire(&hall, unit))?;
        ensure_eq!(refused, Rejection::UnitInUse { item, unit: label, status }, "{unit} is in use");
    }
    case.item(retire(&hall, "c"))?;
    let unknown = Rejection::UnknownUnit { item: hall.clone(), unit: maker::label("c") };
    ensure_eq!(case.expect_refused(retire(&hall, "c"))?, unknown, "once");
    case.set_clock(held.expires_at);
    let item = case.item(retire(&hall, "a"))?;
    ensure_eq!(item.figures.total_units, 1, "what fell due is not in use");
    case.expect_status(held.id, Status::Expired)?;
    case.world.restart();
    expect_sound(&mut case, &hall, &[sold])?;
    case.expect_done(add_units(&hall, row("stalls", "A", &["a"])))?;
    let again = case.hold(reserve_named(60, &hall, &["a"]))?;
    ensure_eq!(versions_of(&again), [("a", 2)], "a new unit of an old name");
    Ok(())
}

fn listed(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["b", "a"])?;
    let balcony = NewUnit { position: Some(1), ..row("balcony", "A", &["z"]).remove(0) };
    case.expect_done(add_units(&hall, vec![balcony]))?;
    let held = case.hold(reserve_named(60, &hall, &["z"]))?;
    let sold = case.hold(reserve_named(60, &hall, &["a"]))?;
    case.hold(confirm(sold.id))?;
    for _ in 0..2 {
        let mut page = |status, section: Option<&str>| {
            let section = section.map(maker::label);
            let query = UnitFilter { item: hall.clone(), status, section, after: None, limit: 9 };
            match case.world.find(Query::Units(query)) {
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
        let map = seat_map(&mut case, &hall)?;
        ensure_eq!((map.states.count, map.states.moves), (3, 1 + 2 + 3), "units and their moves");
        ensure_eq!((map.states.available[0], map.states.sold[0]), (0b001, 0b100), "where they stand");
        let layout: Vec<Label> =
            map.layout.iter().flat_map(|all| all.iter()).map(|(id, _)| id.clone()).collect();
        ensure_eq!(layout, expected(&["b", "z", "a"]), "the layout has the same order");
        case.world.restart();
    }
    let tins = case.create_item("tins", 1)?;
    for item in [tins, case.maker.item("never set")] {
        let map = case.world.find(Query::SeatMap { item, layout: true });
        ensure_matches!(map, Ok(QueryResult::SeatMap(None)), "no units with ids");
    }
    Ok(())
}

fn seat_map(case: &mut CaseContext<'_>, hall: &ItemKey) -> Checked<SeatMap> {
    match case.world.find(Query::SeatMap { item: hall.clone(), layout: true }) {
        Ok(QueryResult::SeatMap(Some(map))) => Ok(*map),
        other => Err(format!("asked for a seat map, it answered {other:?}")),
    }
}
