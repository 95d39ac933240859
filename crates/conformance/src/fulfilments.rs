//! What has left the shelf: fulfilment, returns from the shelf or from buyers, write-offs and counts of the shelf.

use super::case_context::{CaseContext, Checked, SECOND, no_counters};
use super::units::hall;
use super::{Case, World, case};
use stockhold_domain::{
    Command, Disposition, Hold, HoldChange, Item, ItemKey, Mode, MovedUnits, Outcome, Precondition,
    Rejection, ReservationId, Return, ReturnFrom, SaleSelection, SetStock, ShelfCount, Status, StockChange,
    StockCounters, Transition, limits,
};
use stockhold_model::maker::{
    confirm, confirm_as, count_shelf, delete, fulfil, fulfil_all, label, release, reserve, reserve_for,
    return_all, return_from, return_of, return_selected, set_stock, stock_of, write_off,
};

pub(super) const CASES: &[Case] = &[
    case("a sale is fulfilled in parts, over restarts, and each event has what left", in_parts),
    case("a fulfilment of all is what is neither fulfilled nor returned", everything),
    case("a fulfilment of more than is left on the shelf is refused", exceeding),
    case("a fulfilment of a reservation that was not confirmed is refused", not_confirmed),
    case("of a fulfilment and a return of the same unit, the second finds it where the first left it", race),
    case("two fulfilments of the same units have one effect", twice),
    case("a return takes from the shelf first and from buyers then", unfulfilled_first),
    case("a return from the shelf or from buyers takes no other unit", from_one_side),
    case("a write-off lowers the total of each item, each in an event of its own", written_off),
    case("a write-off is caught by an expected version, and the next sale sees it", version_of_a_write_off),
    case("a count of the shelf does not count shipments twice", counted_shelf),
    case("a count of the shelf is refused where it says too little or too much", wrong_counts),
    case("a fulfilled sale whose item was deleted is refused and not lost", deleted_item),
];

fn figures(total_units: u64, confirmed_sold: u64, fulfilled: u64, sequence: u64) -> StockCounters {
    StockCounters { total_units, confirmed_sold, fulfilled, sequence, ..no_counters() }
}

/// Five units of `a` and two of `b`, of nine each, sold.
fn sale(case: &mut CaseContext<'_>) -> Checked<(ItemKey, ItemKey, ReservationId)> {
    let a = case.create_item("a", 9)?;
    let b = case.create_item("b", 9)?;
    let hold = case.hold(reserve(&[(&a, 5), (&b, 2)]))?;
    case.hold(confirm_as(hold.id, "o1"))?;
    Ok((a, b, hold.id))
}

/// Fulfilled and returned units of each line.
fn moved(hold: &Hold) -> Vec<(u32, u32)> {
    hold.lines.iter().map(|line| (line.fulfilled, line.returned)).collect()
}

fn counted(quantity: u32) -> MovedUnits {
    MovedUnits { quantity, ..MovedUnits::default() }
}

fn in_parts(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b, id) = sale(&mut case)?;
    let before = case.read_hold(id)?;
    case.advance(SECOND);
    let shown = case.hold(fulfil(id, &[(&a, 2)]))?;
    ensure_eq!(moved(&shown), [(2, 0), (0, 0)], "two of a");
    ensure_eq!((shown.version, shown.status), (3, Status::Confirmed), "version and status");
    ensure_eq!(shown.closing, before.closing, "the sale stays as it was");
    for _ in 0..2 {
        ensure_eq!(case.read_hold(id)?, shown, "as it was answered");
        let (change, of_event, counters) = case.latest_change(id)?;
        ensure_eq!(change, HoldChange::Fulfilled { lines: [counted(2), counted(0)].into() }, "what left");
        ensure_eq!(of_event, shown, "the reservation of the event");
        let counters: Vec<_> = counters.iter().map(|one| (one.fulfilled, one.sequence)).collect();
        ensure_eq!(counters, [(2, 4), (0, 3)], "the figures of every line");
        let sequences: Vec<u64> = shown.lines.iter().map(|line| line.sequence).collect();
        ensure_eq!(sequences, [4, 3], "the sequence of every line");
        case.world.restart();
    }
    let shown = case.hold(fulfil(id, &[(&b, 1), (&a, 1), (&b, 1)]))?;
    ensure_eq!(moved(&shown), [(3, 0), (2, 0)], "lines of the same item are summed");
    case.expect_figures(&a, figures(9, 5, 3, 5))?;
    case.expect_figures(&b, figures(9, 2, 2, 4))?;
    ensure_eq!(case.read_item(&a)?.available(), 4, "fulfilment changes nothing that is available");
    Ok(())
}

fn everything(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b, id) = sale(&mut case)?;
    case.hold(fulfil(id, &[(&a, 2)]))?;
    case.hold(return_of(id, &[(&a, 1), (&b, 2)]))?;
    let shown = case.hold(fulfil_all(id))?;
    ensure_eq!(moved(&shown), [(4, 1), (0, 2)], "the rest of a");
    let (change, ..) = case.latest_change(id)?;
    ensure_eq!(change, HoldChange::Fulfilled { lines: [counted(2), counted(0)].into() }, "what left");
    case.expect_figures(&a, figures(9, 4, 4, 6))?;
    case.expect_figures(&b, figures(9, 0, 0, 4))?;
    case.world.restart();
    let nothing = Rejection::FulfilExceedsSold { item: a.clone(), requested: 5, unfulfilled: 0 };
    ensure_eq!(case.expect_refused(fulfil_all(id))?, nothing, "nothing is left");
    ensure_eq!(case.read_hold(id)?, shown, "as before");
    Ok(())
}

fn exceeding(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b, id) = sale(&mut case)?;
    let stranger = case.create_item("c", 9)?;
    let exceeds = |item: &ItemKey, requested, unfulfilled| {
        let item = item.clone();
        Rejection::FulfilExceedsSold { item, requested, unfulfilled }
    };
    for (lines, refusal) in [
        (vec![(&b, 1), (&a, 6)], exceeds(&a, 6, 5)),
        (vec![(&a, 3), (&a, 3)], exceeds(&a, 6, 5)),
        (vec![(&a, u64::MAX), (&a, u64::MAX)], exceeds(&a, u64::MAX, 5)),
        (vec![(&a, 1), (&stranger, 1)], exceeds(&stranger, 1, 0)),
    ] {
        ensure_eq!(case.expect_refused(fulfil(id, &lines))?, refusal, "{lines:?}");
    }
    ensure_eq!(case.read_hold(id)?.version, 2, "nothing changed");
    case.hold(fulfil(id, &[(&a, 3)]))?;
    case.hold(return_of(id, &[(&a, 1)]))?;
    case.world.restart();
    // Three were shipped and one came back from the shelf.
    ensure_eq!(case.expect_refused(fulfil(id, &[(&a, 2)]))?, exceeds(&a, 2, 1), "two of the last");
    case.hold(fulfil(id, &[(&a, 1)]))?;
    case.expect_figures(&a, figures(9, 4, 4, 6))?;
    case.expect_figures(&b, figures(9, 2, 0, 3))
}

fn not_confirmed(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let freed = case.hold(reserve(&[(&item, 1)]))?;
    case.hold(release(freed.id))?;
    let active = case.hold(reserve_for(60, &[(&item, 1)]))?;
    let due = case.hold(reserve_for(1, &[(&item, 1)]))?;
    case.set_clock(due.expires_at);
    for _ in 0..2 {
        for id in [freed.id, active.id, due.id] {
            for command in [fulfil_all(id), fulfil(id, &[(&item, 1)])] {
                let refused = case.expect_refused(command)?;
                ensure_eq!(refused, Rejection::ReservationNotConfirmed(id), "what was never sold");
            }
        }
        case.world.restart();
    }
    let nobody = case.maker.no_reservation();
    let unknown = Rejection::UnknownReservation(nobody);
    ensure_eq!(case.expect_refused(fulfil_all(nobody))?, unknown, "what never was");
    case.expect_status(due.id, Status::Expired)?;
    case.expect_counters(&item, 0, 1)
}

fn race(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for one_request in [false, true] {
        for (n, from) in
            [None, Some(ReturnFrom::Unfulfilled), Some(ReturnFrom::Fulfilled)].into_iter().enumerate()
        {
            for fulfil_first in [false, true] {
                let name = format!("a{n}-{one_request}-{fulfil_first}");
                let item = case.create_item(&name, 1)?;
                let hold = case.hold(reserve(&[(&item, 1)]))?;
                case.hold(confirm(hold.id))?;
                case.world.restart();
                let back = Return { from, ..return_selected(hold.id, SaleSelection::All) };
                let mut commands = [fulfil_all(hold.id), Command::Return(back)];
                if !fulfil_first {
                    commands.reverse();
                }
                let mut outcomes = case.submit_two(one_request, commands)?;
                if !fulfil_first {
                    outcomes.reverse();
                }
                let done = outcomes.map(|outcome| matches!(outcome, Outcome::Done(_)));
                // A unit that came back is not shipped. A unit that was shipped comes back from its buyer only.
                let expected = match (fulfil_first, from) {
                    (true, Some(ReturnFrom::Unfulfilled)) | (false, Some(ReturnFrom::Fulfilled)) => {
                        [true, false]
                    }
                    (true, _) => [true, true],
                    (false, _) => [false, true],
                };
                ensure_eq!(done, expected, "fulfilment and return of {name}");
                let [is_fulfilled, is_returned] = expected;
                let sold = u64::from(!is_returned);
                let shipped = u64::from(is_fulfilled && !is_returned);
                let transitions = u64::from(is_fulfilled) + u64::from(is_returned);
                case.expect_figures(&item, figures(1, sold, shipped, 3 + transitions))?;
                let shown = case.read_hold(hold.id)?;
                let expected = (u32::from(is_fulfilled && !is_returned), u32::from(is_returned));
                ensure_eq!(moved(&shown), [expected], "the line of {name}");
            }
        }
    }
    Ok(())
}

fn twice(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for one_request in [false, true] {
        let item = case.create_item(&format!("a{one_request}"), 9)?;
        let hold = case.hold(reserve(&[(&item, 3)]))?;
        case.hold(confirm(hold.id))?;
        let outcomes = case.submit_two(one_request, [fulfil_all(hold.id), fulfil(hold.id, &[(&item, 3)])])?;
        ensure_matches!(outcomes[0], Outcome::Done(_), "the first");
        let nothing = Rejection::FulfilExceedsSold { item: item.clone(), requested: 3, unfulfilled: 0 };
        ensure_eq!(outcomes[1], Outcome::Refused(nothing), "the second");
        case.expect_figures(&item, figures(9, 3, 3, 4))?;
    }
    let item = case.create_item("b", 9)?;
    let hold = case.hold(reserve(&[(&item, 3)]))?;
    let commands = vec![confirm(hold.id), fulfil(hold.id, &[(&item, 2)]), fulfil_all(hold.id)];
    for outcome in case.submit_in_order(commands)? {
        ensure_matches!(outcome, Outcome::Done(_), "a confirm and two fulfilments");
    }
    case.world.restart();
    case.expect_figures(&item, figures(9, 3, 3, 5))
}

/// The latest return of a reservation: units, and those of them that had been fulfilled.
fn latest_return(case: &mut CaseContext<'_>, id: ReservationId) -> Checked<Vec<(u32, u32)>> {
    match case.latest_change(id)?.0 {
        HoldChange::Returned { lines, fulfilled, .. } => {
            Ok(lines.iter().zip(&fulfilled).map(|(moved, fulfilled)| (moved.quantity, *fulfilled)).collect())
        }
        other => Err(format!("no return but {other:?}")),
    }
}

fn unfulfilled_first(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b, id) = sale(&mut case)?;
    case.hold(fulfil(id, &[(&a, 3)]))?;
    ensure_eq!(moved(&case.hold(return_of(id, &[(&a, 1)]))?), [(3, 1), (0, 0)], "one from the shelf");
    ensure_eq!(latest_return(&mut case, id)?, [(1, 0), (0, 0)], "its event");
    case.expect_figures(&a, figures(9, 4, 3, 5))?;
    case.world.restart();
    let shown = case.hold(return_of(id, &[(&a, 2)]))?;
    ensure_eq!(moved(&shown), [(2, 3), (0, 0)], "one from the shelf, one from a buyer");
    ensure_eq!(latest_return(&mut case, id)?, [(2, 1), (0, 0)], "its event");
    case.expect_figures(&a, figures(9, 2, 2, 6))?;
    ensure_eq!(moved(&case.hold(return_all(id))?), [(0, 5), (0, 2)], "the rest");
    ensure_eq!(latest_return(&mut case, id)?, [(2, 2), (2, 0)], "its event");
    case.world.restart();
    case.expect_figures(&a, figures(9, 0, 0, 7))?;
    case.expect_figures(&b, figures(9, 0, 0, 4))?;
    case.hold(reserve(&[(&a, 9), (&b, 9)]))?;
    Ok(())
}

fn from_one_side(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, _, id) = sale(&mut case)?;
    case.hold(fulfil(id, &[(&a, 3)]))?;
    let exceeds = |requested, sold| Rejection::ReturnExceedsSold { item: a.clone(), requested, sold };
    let (shelf, buyer) = (ReturnFrom::Unfulfilled, ReturnFrom::Fulfilled);
    ensure_eq!(case.expect_refused(return_from(id, &[(&a, 3)], shelf))?, exceeds(3, 2), "two are there");
    ensure_eq!(case.expect_refused(return_from(id, &[(&a, 4)], buyer))?, exceeds(4, 3), "three are there");
    ensure_eq!(moved(&case.hold(return_from(id, &[(&a, 1)], buyer))?), [(2, 1), (0, 0)], "from a buyer");
    case.expect_figures(&a, figures(9, 4, 2, 5))?;
    case.world.restart();
    ensure_eq!(moved(&case.hold(return_from(id, &[(&a, 2)], shelf))?), [(2, 3), (0, 0)], "from the shelf");
    ensure_eq!(latest_return(&mut case, id)?, [(2, 0), (0, 0)], "its event");
    ensure_eq!(case.expect_refused(return_from(id, &[(&a, 1)], shelf))?, exceeds(1, 0), "the shelf is empty");
    // All from one side leaves the other side and the other lines of it.
    let all = Return { from: Some(buyer), ..return_selected(id, SaleSelection::All) };
    ensure_eq!(moved(&case.hold(Command::Return(all))?), [(0, 5), (0, 0)], "all of the buyers");
    case.expect_figures(&a, figures(9, 0, 0, 7))
}

fn written_off(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b, id) = sale(&mut case)?;
    let (item_a, item_b) = (case.read_item(&a)?, case.read_item(&b)?);
    case.hold(fulfil(id, &[(&a, 2)]))?;
    case.advance(SECOND);
    let shown = case.hold(write_off(id, &[(&b, 1), (&a, 4)]))?;
    ensure_eq!(moved(&shown), [(1, 4), (0, 1)], "three from the shelf and one from a buyer, and one of b");
    for _ in 0..2 {
        case.expect_figures(&a, figures(5, 1, 1, 6))?;
        case.expect_figures(&b, figures(8, 1, 0, 5))?;
        let versions = [case.read_item(&a)?.version, case.read_item(&b)?.version];
        ensure_eq!(versions, [item_a.version + 1, item_b.version + 1], "a total is an operator's value");
        let events = case.events_of(&[&a, &b]);
        let Some([returned, of_a, of_b]) = events.last_chunk() else {
            return Err(format!("only {} events", events.len()));
        };
        let Transition::Hold { change, .. } = &returned.transition else {
            return Err(format!("no return but {returned:?}"));
        };
        let expected = HoldChange::Returned {
            lines: [counted(4), counted(1)].into(),
            fulfilled: [1, 0].into(),
            disposition: Disposition::WriteOff,
            reason: label("unwanted"),
        };
        ensure_eq!(*change, expected, "the return");
        for (event, item, delta) in [(of_a, &a, -4), (of_b, &b, -1)] {
            let expected = StockChange::Adjusted { delta, reason: label("unwanted"), supply_id: None };
            let shown = case.read_item(item)?;
            ensure_eq!(event.transition, Transition::Stock { change: expected, item: shown }, "{item:?}");
        }
        ensure_eq!(shown.last_event, returned.id, "the latest event of the reservation");
        case.world.restart();
    }
    // What was written off is neither sold nor returned again.
    ensure_eq!(case.read_item(&a)?.available(), 4, "available");
    let refused = case.expect_refused(return_of(id, &[(&a, 2)]))?;
    ensure_matches!(refused, Rejection::ReturnExceedsSold { sold: 1, .. }, "one is left");
    let refused = case.expect_refused(write_off(id, &[(&a, 2)]))?;
    ensure_matches!(refused, Rejection::ReturnExceedsSold { sold: 1, .. }, "one is left");
    let all = Return { disposition: Disposition::WriteOff, ..return_selected(id, SaleSelection::All) };
    case.hold(Command::Return(all))?;
    case.expect_figures(&a, figures(4, 0, 0, 8))?;
    case.expect_figures(&b, figures(7, 0, 0, 7))
}

fn version_of_a_write_off(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, _, id) = sale(&mut case)?;
    case.hold(fulfil(id, &[(&a, 5)]))?;
    let seen = case.read_item(&a)?;
    let count = |version| {
        let expected = Some(Precondition::version(version));
        Command::SetStock(SetStock { expected, ..count_shelf(&a, 4, Some(5)) })
    };
    // The reserve of all that is available sees the write-off before it.
    let outcomes = case.submit_in_order(vec![
        write_off(id, &[(&a, 2)]),
        count(seen.version),
        reserve(&[(&a, 5)]),
        reserve(&[(&a, 4)]),
    ])?;
    ensure_matches!(outcomes[0], Outcome::Done(_), "the write-off");
    let stale = Rejection::PreconditionFailed { version: Some(seen.version + 1) };
    ensure_eq!(outcomes[1], Outcome::Refused(stale), "a count from before the write-off");
    ensure_matches!(
        outcomes[2],
        Outcome::Refused(Rejection::InsufficientInventory(short)) if short[0].available == 4,
        "more than is available"
    );
    ensure_matches!(outcomes[3], Outcome::Done(_), "all that is available");
    // The shipments of the return are no longer among those that were fulfilled.
    let held = StockCounters { held: 4, active: 1, ..figures(7, 3, 3, 7) };
    case.expect_figures(&a, held)?;
    case.world.restart();
    case.expect_figures(&a, held)
}

fn on_hand(item: &Item) -> u64 {
    item.figures.total_units - item.figures.fulfilled
}

fn counted_shelf(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.maker.item("a");
    let new = case.item(Command::SetStock(count_shelf(&a, 9, None)))?;
    ensure_eq!(new.figures.total_units, 9, "a new item");
    let hold = case.hold(reserve(&[(&a, 5)]))?;
    case.hold(confirm(hold.id))?;
    case.hold(fulfil(hold.id, &[(&a, 3)]))?;
    let seen = case.read_item(&a)?;
    ensure_eq!((on_hand(&seen), seen.figures.fulfilled), (6, 3), "what the count finds");
    // One more unit is shipped before the count arrives.
    case.hold(fulfil(hold.id, &[(&a, 1)]))?;
    case.advance(SECOND);
    let same = case.item(Command::SetStock(count_shelf(&a, 6, Some(3))))?;
    ensure_eq!((same.version, same.figures), (seen.version, case.read_item(&a)?.figures), "no change");
    case.expect_figures(&a, figures(9, 5, 4, 5))?;
    let found = case.item(Command::SetStock(count_shelf(&a, 7, Some(3))))?;
    ensure_eq!((found.version, found.figures.total_units), (seen.version + 1, 10), "one unit was found");
    case.world.restart();
    ensure_eq!(on_hand(&case.read_item(&a)?), 6, "seven less the one that was shipped");
    // A shipped unit came back after the count, so the count knows of more shipments than there are.
    case.hold(return_from(hold.id, &[(&a, 2)], ReturnFrom::Fulfilled))?;
    let after = case.item(Command::SetStock(count_shelf(&a, 6, Some(4))))?;
    ensure_eq!((after.figures.total_units, after.figures.fulfilled), (10, 2), "total and fulfilled");
    ensure_eq!(on_hand(&after), 8, "six, and two that came back");
    let empty = case.expect_refused(Command::SetStock(count_shelf(&a, 0, Some(2))))?;
    let below = Rejection::BelowCommitted { set_aside: 0, confirmed_sold: 3, held: 0, total_units: 10 };
    ensure_eq!(empty, below, "less than is sold");
    let last = case.item(Command::SetStock(count_shelf(&a, 1, Some(2))))?;
    ensure_eq!((last.figures.total_units, last.available()), (3, 0), "exactly what is sold");
    Ok(())
}

fn wrong_counts(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 9)?;
    let both =
        SetStock { shelf: Some(ShelfCount { on_hand: 9, fulfilled_seen: Some(0) }), ..stock_of(&a, 9) };
    let most = limits::TOTAL_UNITS;
    for (command, wrong_pointer) in [
        (count_shelf(&a, 9, None), "/fulfilled_units_seen"),
        (both, "/on_hand"),
        (count_shelf(&a, most, Some(1)), "/on_hand"),
        (count_shelf(&a, u64::MAX, Some(u64::MAX)), "/on_hand"),
    ] {
        let refused = case.expect_refused(Command::SetStock(command.clone()))?;
        ensure_matches!(
            refused,
            Rejection::InvalidRequest(wrong) if &*wrong.pointer == wrong_pointer,
            "{command:?}"
        );
    }
    case.expect_figures(&a, figures(9, 0, 0, 1))?;
    let full = case.item(Command::SetStock(count_shelf(&a, most - 1, Some(1))))?;
    ensure_eq!(full.figures.total_units, most, "the largest total");
    let new = case.maker.item("b");
    let item = case.item(Command::SetStock(count_shelf(&new, 4, Some(2))))?;
    ensure_eq!(item.figures.total_units, 4, "nothing was shipped of a new item");
    case.world.restart();
    ensure_eq!(case.read_item(&new)?, item, "after a restart");
    // Units with ids are as many as have ids, whatever is counted.
    let hall = hall(&mut case, &["x", "y"])?;
    let sold = case.hold(reserve(&[(&hall, 2)]))?;
    case.hold(confirm(sold.id))?;
    case.hold(fulfil(sold.id, &[(&hall, 1)]))?;
    let shown = case.read_item(&hall)?;
    ensure_eq!(case.item(Command::SetStock(count_shelf(&hall, 1, Some(1))))?, shown, "what is there");
    let refused = case.expect_refused(Command::SetStock(count_shelf(&hall, 2, Some(1))))?;
    let mode = Rejection::ModeMismatch { item: hall, mode: Mode::Units };
    ensure_eq!(refused, mode, "a unit without an id");
    Ok(())
}

fn deleted_item(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b, id) = sale(&mut case)?;
    case.hold(fulfil_all(id))?;
    let refused = case.expect_refused(delete(&a))?;
    ensure_matches!(refused, Rejection::ItemInUse { confirmed_sold: 5, .. }, "an item with sales");
    case.hold(return_of(id, &[(&a, 5)]))?;
    case.expect_done(delete(&a))?;
    case.world.restart();
    let none = Rejection::FulfilExceedsSold { item: a.clone(), requested: 1, unfulfilled: 0 };
    ensure_eq!(case.expect_refused(fulfil(id, &[(&a, 1)]))?, none, "a line of an item that is gone");
    ensure_eq!(moved(&case.hold(return_of(id, &[(&b, 1)]))?), [(0, 5), (1, 1)], "the other line goes on");
    case.expect_figures(&b, figures(9, 1, 1, 5))?;
    // Another item by that name has nothing to do with the sale.
    case.expect_done(set_stock(&a, 3))?;
    ensure_eq!(case.expect_refused(fulfil(id, &[(&a, 1)]))?, none, "a line of an item that is new");
    case.hold(return_all(id))?;
    case.expect_figures(&a, figures(3, 0, 0, 1))
}
