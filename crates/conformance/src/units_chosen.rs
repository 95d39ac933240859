//! Best available: with one caller, and with many.

use super::case_context::{CaseContext, Checked, SECOND};
use super::units::{ids, reservation};
use super::{Case, World, case};
use stockhold_domain::{
    BestAvailable, Command, Fulfilment, ItemKey, Label, NewUnit, Outcome, Rejection, Reserve, UnitSelection,
};
use stockhold_model::maker::{
    self, add_units, create_unit_item, reserve_best, reserve_choosing, reserve_named, retire, row,
};

pub(super) const CASES: &[Case] = &[
    case("best-available units are adjacent and leave no single unit", side_by_side),
    case("a group is split only as it allows", split),
    case("concurrent best-available reserves of pairs each get a pair until none is left", pairs),
    case("a reserve that loses the best units gets the next best", next_best),
    case("the units of due holds are reserved as one row", due_row),
    case("a refused reserve names the sections that do not exist", unknown_sections),
    case("a section of two rows does not exist any more when its last unit is retired", section_ends),
    case("units become adjacent when the unit between them is retired", twin_goes),
];

/// Rows of five in the stalls, and one in the balcony.
fn hall(case: &mut CaseContext<'_>, rows: usize) -> Checked<ItemKey> {
    let hall = case.maker.item("hall");
    case.expect_done(create_unit_item(&hall))?;
    for n in 0..rows {
        let ids: Vec<String> = (1..=5).map(|seat| format!("s{n}-{seat}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        case.expect_done(add_units(&hall, row("stalls", &n.to_string(), &ids)))?;
    }
    case.expect_done(add_units(&hall, row("balcony", "0", &["k1", "k2", "k3", "k4", "k5"])))?;
    Ok(hall)
}

fn adjacent() -> BestAvailable {
    BestAvailable { adjacent: true, ..BestAvailable::default() }
}

fn side_by_side(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, 2)?;
    let three = case.hold(reserve_best(60, &hall, 3, adjacent()))?;
    ensure_eq!(ids(&three), ["s0-1", "s0-2", "s0-3"], "the first three");
    let four = case.hold(reserve_best(60, &hall, 4, adjacent()))?;
    ensure_eq!(ids(&four), ["s1-1", "s1-2", "s1-3", "s1-4"], "four leave one behind wherever they sit");
    let two = case.hold(reserve_best(60, &hall, 2, adjacent()))?;
    ensure_eq!(ids(&two), ["s0-4", "s0-5"], "two fill the gap");
    let sections = vec![maker::label("stalls"), maker::label("balcony")];
    let five = case.hold(reserve_best(60, &hall, 5, BestAvailable { sections, ..adjacent() }))?;
    ensure_eq!(ids(&five), ["k1", "k2", "k3", "k4", "k5"], "what the stalls have not");
    let none = case.expect_refused(reserve_best(60, &hall, 2, adjacent()))?;
    ensure_matches!(none, Rejection::InsufficientInventory(short) if short[0].available == 1, "one is left");
    Ok(())
}

fn split(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, 2)?;
    let best = |min_together| BestAvailable { min_together, ..adjacent() };
    let refused = case.expect_refused(reserve_best(60, &hall, 8, best(None)))?;
    ensure_matches!(refused, Rejection::InsufficientInventory(short) if short[0].available == 5, "in one run");
    let refused = case.expect_refused(reserve_best(60, &hall, 8, best(Some(5))))?;
    ensure_matches!(refused, Rejection::InsufficientInventory(short) if short[0].available == 5, "by fives");
    let eight = case.hold(reserve_best(60, &hall, 8, best(Some(3))))?;
    ensure_eq!(
        ids(&eight),
        ["s0-1", "s0-2", "s0-3", "s0-4", "s0-5", "s1-1", "s1-2", "s1-3"],
        "in as few runs as can be"
    );
    let choice = Some(UnitSelection::BestAvailable(best(Some(2))));
    let some = Reserve { fulfilment: Fulfilment::Partial, ..reserve_choosing(60, vec![(&hall, 9, choice)]) };
    let seven = case.hold(Command::Reserve(some))?;
    ensure_eq!(ids(&seven), ["k1", "k2", "k3", "k4", "k5", "s1-4", "s1-5"], "as many as can be had so");
    Ok(())
}

fn pairs(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, 9)?;
    let outcomes = case.submit_all(vec![reserve_best(60, &hall, 2, adjacent()); 40])?;
    let mut seats: Vec<&str> = Vec::new();
    for pair in outcomes.iter().filter_map(reservation).map(ids) {
        let row = |seat: &str| seat.rsplit_once('-').map_or("k", |(row, _)| row).to_owned();
        let number = |seat: &str| seat.chars().last().and_then(|last| last.to_digit(10)).unwrap_or(99);
        ensure_eq!(row(pair[0]), row(pair[1]), "the row of {pair:?}");
        ensure_eq!(number(pair[0]) + 1, number(pair[1]), "neighbours {pair:?}");
        seats.extend(pair);
    }
    ensure_eq!(seats.len(), 40, "two pairs of every row");
    seats.sort_unstable();
    seats.dedup();
    ensure_eq!(seats.len(), 40, "nobody sits on another's");
    for outcome in outcomes.iter().filter(|outcome| reservation(outcome).is_none()) {
        ensure_matches!(
            outcome,
            Outcome::Refused(Rejection::InsufficientInventory(short)) if short[0].available == 1,
            "single units are left"
        );
    }
    case.world.restart();
    case.expect_counters(&hall, 0, 40)
}

fn next_best(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, 2)?;
    let outcomes = case.submit_all(vec![
        reserve_named(60, &hall, &["s0-3"]),
        reserve_best(60, &hall, 5, adjacent()),
        reserve_best(60, &hall, 5, adjacent()),
        reserve_best(60, &hall, 5, adjacent()),
    ])?;
    let found: Vec<_> = outcomes.iter().filter_map(reservation).map(ids).collect();
    ensure_eq!(found.len(), 3, "holds");
    ensure_eq!((found[1][0], found[2][0]), ("s1-1", "k1"), "each the best that is left");
    Ok(())
}

fn due_row(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, 1)?;
    let sections = vec![maker::label("stalls")];
    let best = BestAvailable { sections, ..adjacent() };
    for seat in ["s0-2", "s0-4"] {
        case.hold(reserve_named(5, &hall, &[seat]))?;
    }
    let refused = case.expect_refused(reserve_best(60, &hall, 5, best.clone()))?;
    ensure_matches!(refused, Rejection::InsufficientInventory(short) if short[0].available == 1, "single seats");
    case.advance(5 * SECOND);
    let row = case.hold(reserve_best(60, &hall, 5, best))?;
    ensure_eq!(row.quantity(), 5, "the whole row");
    Ok(())
}

fn unknown_sections(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, 1)?;
    let in_sections = |names: &[&str]| BestAvailable {
        sections: names.iter().map(|name| maker::label(name)).collect(),
        ..BestAvailable::default()
    };
    for (sections, available, unknown) in
        [(&["balkony"][..], 0, &["balkony"][..]), (&["stalls", "box"], 5, &["box"]), (&["stalls"], 5, &[])]
    {
        let refused = case.expect_refused(reserve_best(60, &hall, 6, in_sections(sections)))?;
        let unknown_sections: Vec<_> = unknown.iter().map(|name| maker::label(name)).collect();
        ensure_matches!(
            refused,
            Rejection::InsufficientInventory(short)
                if short[0].available == available && short[0].unknown_sections == unknown_sections,
            "{sections:?}"
        );
    }
    let found = case.hold(reserve_best(60, &hall, 5, in_sections(&["box", "stalls"])))?;
    ensure_eq!(found.quantity(), 5, "a section that does not exist is skipped");
    Ok(())
}

fn twin_goes(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = case.maker.item("hall");
    case.expect_done(create_unit_item(&hall))?;
    let units = row("stalls", "A", &["a", "b", "c", "d"]).into_iter().zip([1, 2, 2, 3]);
    let placed = |(unit, position)| NewUnit { position: Some(position), ..unit };
    case.expect_done(add_units(&hall, units.map(placed).collect()))?;
    let refused = case.expect_refused(reserve_best(60, &hall, 3, adjacent()))?;
    ensure_matches!(refused, Rejection::InsufficientInventory(short) if short[0].available == 2, "two and two");
    case.expect_done(retire(&hall, "b"))?;
    let three = case.hold(reserve_best(60, &hall, 3, adjacent()))?;
    ensure_eq!(ids(&three), ["a", "c", "d"], "one row");
    Ok(())
}

fn section_ends(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, 1)?;
    case.expect_done(add_units(&hall, row("boxes", "0", &["x1"])))?;
    case.expect_done(add_units(&hall, row("boxes", "1", &["x2"])))?;
    let in_boxes = |units| {
        let sections = vec![maker::label("boxes")];
        reserve_best(60, &hall, units, BestAvailable { sections, ..BestAvailable::default() })
    };
    // The first reserve arranges the seats, which keep their gap when units are retired.
    let refused = case.expect_refused(in_boxes(3))?;
    expect_unknown(&refused, &[])?;
    case.expect_done(retire(&hall, "x1"))?;
    expect_unknown(&case.expect_refused(in_boxes(2))?, &[])?;
    case.expect_done(retire(&hall, "x2"))?;
    expect_unknown(&case.expect_refused(in_boxes(2))?, &[maker::label("boxes")])
}

fn expect_unknown(refused: &Rejection, sections: &[Label]) -> Checked {
    ensure_matches!(
        refused,
        Rejection::InsufficientInventory(short) if short[0].unknown_sections == sections,
        "sections that do not exist"
    );
    Ok(())
}
