//! Sale windows, units that are sold before they are there, and deliveries that are expected.

use super::case_context::{CaseContext, Checked, SECOND, after};
use super::{Case, World, case};
use stockhold_domain::{
    AdjustStock, Command, Hold, Instant, ItemKey, LineDetails, Outcome, Patch, Rejection, SaleWindow,
    SetStock, StockChange, Supply, Transition,
};
use stockhold_model::maker::{
    amend, confirm, fulfil, fulfil_all, label, reserve, reserve_for, set_stock, stock_of, write_off,
};

pub(super) const CASES: &[Case] = &[
    case("an item is sold from the start of its window to before its end", window),
    case("a sale window holds within a batch, in order, and over restarts", window_in_a_batch),
    case("an allowance is sold, and each line says what is not there yet and when it comes", allowance),
    case("the last units of an allowance go to one of many", last_units),
    case("an allowance is never set below what is backordered", lowered),
    case("a due hold ends before a line is backordered", due_hold),
    case("a delivery that arrives raises the total and is no longer expected", delivery),
    case("what is not there neither leaves the shelf nor is lost", not_on_hand),
];

fn supply(id: &str, quantity: u64, available_from: Instant) -> Supply {
    Supply { id: label(id), quantity, available_from }
}

fn allow(item: &ItemKey, oversell_allowance: u64) -> Command {
    let oversell_allowance = Some(oversell_allowance);
    Command::SetStock(SetStock { total_units: None, oversell_allowance, ..stock_of(item, 0) })
}

fn late(hold: &Hold) -> Vec<LineDetails> {
    hold.lines.iter().map(|line| line.details().clone()).collect()
}

fn details(backordered: u32, promised_at: Option<Instant>) -> LineDetails {
    LineDetails { backordered, promised_at, ..LineDetails::default() }
}

fn refused_before(item: &ItemKey, start: Instant) -> Rejection {
    Rejection::OutsideSaleWindow { item: item.clone(), window: SaleWindow::NotStarted(start) }
}

fn refused_after(item: &ItemKey, end: Instant) -> Rejection {
    Rejection::OutsideSaleWindow { item: item.clone(), window: SaleWindow::Ended(end) }
}

fn window(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let other = case.create_item("b", 9)?;
    let (start, end) = (after(case.now(), 5 * SECOND), after(case.now(), 9 * SECOND));
    let set = SetStock {
        total_units: None,
        sale_starts_at: Patch::Set(start),
        sale_ends_at: Patch::Set(end),
        ..stock_of(&item, 0)
    };
    let shown = case.item(Command::SetStock(set))?;
    ensure_eq!(shown.available(), 9, "stock is seen before the sale");
    for round in 0..2 {
        let settings = case.read_item(&item)?.settings;
        ensure_eq!((settings.sale_starts_at, settings.sale_ends_at), (Some(start), Some(end)), "{round}");
        let refused = case.expect_refused(reserve(&[(&other, 1), (&item, 1)]))?;
        ensure_eq!(refused, refused_before(&item, start), "before, round {round}");
        case.world.restart();
    }
    case.set_clock(start);
    let hold = case.hold(reserve_for(60, &[(&item, 1)]))?;
    case.set_clock(after(end, -1));
    case.hold(amend(hold.id, &[(&item, 2)]))?;
    case.set_clock(end);
    let refused = case.expect_refused(reserve(&[(&item, 1)]))?;
    ensure_eq!(refused, refused_after(&item, end), "at the end");
    let refused = case.expect_refused(amend(hold.id, &[(&item, 3)]))?;
    ensure_eq!(refused, refused_after(&item, end), "an amend that adds");
    case.hold(amend(hold.id, &[(&item, 1)]))?;
    case.hold(confirm(hold.id))?;
    let open = SetStock {
        total_units: None,
        sale_starts_at: Patch::Clear,
        sale_ends_at: Patch::Clear,
        ..stock_of(&item, 0)
    };
    case.expect_done(Command::SetStock(open))?;
    case.hold(reserve(&[(&item, 8)]))?;
    Ok(())
}

fn window_in_a_batch(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let end = after(case.now(), SECOND);
    let set =
        |sale_ends_at| Command::SetStock(SetStock { total_units: None, sale_ends_at, ..stock_of(&item, 0) });
    case.expect_done(set(Patch::Set(end)))?;
    case.set_clock(end);
    let outcomes = case.submit_in_order(vec![
        reserve(&[(&item, 1)]),
        set(Patch::Clear),
        reserve(&[(&item, 1)]),
        set(Patch::Set(end)),
        reserve(&[(&item, 1)]),
    ])?;
    let refused = Outcome::Refused(refused_after(&item, end));
    ensure_eq!(outcomes[0], refused, "after the end");
    ensure_matches!(outcomes[2], Outcome::Done(_), "without an end");
    ensure_eq!(outcomes[4], refused, "after the end again");
    case.world.restart();
    ensure_eq!(Outcome::Refused(case.expect_refused(reserve(&[(&item, 1)]))?), refused, "restarted");
    case.expect_counters(&item, 0, 1)
}

fn allowance(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    let [soon, later] = [SECOND, 2 * SECOND].map(|time| after(case.now(), time));
    let set = SetStock {
        oversell_allowance: Some(4),
        // In another order than they come.
        incoming: Some([supply("boat", 2, later), supply("truck", 1, soon)].into()),
        ..stock_of(&item, 3)
    };
    let shown = case.item(Command::SetStock(set))?;
    ensure_eq!((shown.available(), shown.available_now()), (7, 3), "available");
    let there = case.hold(reserve_for(60, &[(&item, 2)]))?;
    ensure_eq!(late(&there), [details(0, None)], "all of it is there");
    let first = case.hold(reserve_for(60, &[(&item, 2)]))?;
    ensure_eq!(late(&first), [details(1, Some(soon))], "one of two comes with the truck");
    let second = case.hold(reserve_for(60, &[(&item, 2)]))?;
    ensure_eq!(late(&second), [details(2, Some(later))], "both come with the boat");
    let third = case.hold(reserve_for(60, &[(&item, 1)]))?;
    ensure_eq!(late(&third), [details(1, None)], "nothing that is expected covers it");
    ensure_matches!(
        case.expect_refused(reserve(&[(&item, 1)]))?,
        Rejection::InsufficientInventory(short) if short[0].available == 0,
        "more than the allowance"
    );
    for round in 0..2 {
        let shown = case.read_item(&item)?;
        ensure_eq!((shown.available(), shown.backordered()), (0, 4), "the item, round {round}");
        ensure_eq!(late(&case.read_hold(first.id)?), late(&first), "the line, round {round}");
        case.world.restart();
    }
    // A line loses its backordered units first.
    let smaller = case.hold(amend(first.id, &[(&item, 1)]))?;
    ensure_eq!(late(&smaller), [details(0, None)], "only the unit that is there");
    let sold = case.hold(confirm(second.id))?;
    ensure_eq!(late(&sold), late(&second), "a sale keeps it");
    case.expect_counters(&item, 2, 4)
}

fn last_units(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    case.expect_done(allow(&item, 2))?;
    let outcomes = case.submit_all((0..40).map(|_| reserve(&[(&item, 1)])).collect())?;
    let held = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Done(_))).count();
    ensure_eq!(held, 3, "the unit and the allowance");
    case.world.restart();
    case.expect_counters(&item, 0, 3)
}

fn lowered(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    case.expect_done(allow(&item, 3))?;
    let hold = case.hold(reserve(&[(&item, 4)]))?;
    let expected = Rejection::BelowCommitted { set_aside: 0, confirmed_sold: 0, held: 4, total_units: 2 };
    ensure_eq!(case.expect_refused(allow(&item, 1))?, expected, "below what is backordered");
    let smaller = case.expect_refused(set_stock(&item, 0))?;
    ensure_eq!(smaller, expected, "a total below what is backordered");
    case.expect_done(set_stock(&item, 1))?;
    case.expect_done(allow(&item, 3))?;
    case.hold(confirm(hold.id))?;
    let expected = Rejection::BelowCommitted { set_aside: 0, confirmed_sold: 4, held: 0, total_units: 1 };
    ensure_eq!(case.expect_refused(allow(&item, 2))?, expected, "below what is sold");
    case.expect_done(set_stock(&item, 4))?;
    case.expect_done(allow(&item, 0))?;
    ensure_eq!(case.read_item(&item)?.backordered(), 0, "nothing is backordered");
    Ok(())
}

fn due_hold(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    case.expect_done(allow(&item, 1))?;
    case.hold(reserve_for(1, &[(&item, 1)]))?;
    let waiting = case.hold(reserve_for(60, &[(&item, 1)]))?;
    ensure_eq!(late(&waiting), [details(1, None)], "while the first is held");
    case.hold(confirm(waiting.id))?;
    case.advance(SECOND);
    let hold = case.hold(reserve_for(1, &[(&item, 1)]))?;
    ensure_eq!(late(&hold), [details(1, None)], "the sale has the unit that came back");
    case.expect_done(set_stock(&item, 2))?;
    case.advance(SECOND);
    let hold = case.hold(reserve_for(60, &[(&item, 1)]))?;
    ensure_eq!(late(&hold), [details(0, None)], "the due hold ended first");
    case.expect_counters(&item, 1, 1)
}

fn receive(item: &ItemKey, delta: i64, id: &str) -> Command {
    let (item, reason) = (item.clone(), label("received"));
    Command::AdjustStock(AdjustStock {
        item,
        delta,
        reason,
        supply_id: Some(label(id)),
        override_owner: false,
        expected: None,
    })
}

fn delivery(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    let soon = after(case.now(), SECOND);
    let incoming = Some([supply("truck", 3, soon), supply("boat", 5, soon)].into());
    let before = case.item(Command::SetStock(SetStock { incoming, ..stock_of(&item, 1) }))?;
    let envelope = case.maker.keyed("k", receive(&item, 2, "truck"));
    for _ in 0..2 {
        case.submit_one(envelope.clone())?;
        case.world.restart();
    }
    let shown = case.read_item(&item)?;
    ensure_eq!((shown.figures.total_units, shown.version), (3, before.version + 1), "received once");
    let expected = [supply("truck", 1, soon), supply("boat", 5, soon)];
    ensure_eq!(&*shown.settings.incoming, &expected, "the rest is expected");
    let events = case.events_of(&[&item]);
    let change =
        StockChange::Adjusted { delta: 2, reason: label("received"), supply_id: Some(label("truck")) };
    ensure_eq!(
        events.last().map(|event| &event.transition),
        Some(&Transition::Stock { change, item: shown }),
        "the event"
    );
    // More than was expected may come.
    let shown = case.item(receive(&item, 4, "truck"))?;
    ensure_eq!(&*shown.settings.incoming, &[supply("boat", 5, soon)], "all of it came");
    ensure_eq!(shown.figures.total_units, 7, "all of it counts");
    let unknown = Rejection::UnknownSupply { item: item.clone(), supply_id: label("truck") };
    ensure_eq!(case.expect_refused(receive(&item, 1, "truck"))?, unknown, "it came before");
    ensure_matches!(
        case.expect_refused(receive(&item, -1, "boat"))?,
        Rejection::InvalidRequest(error) if *error.pointer == *"/delta",
        "a delivery that takes away"
    );
    Ok(())
}

fn not_on_hand(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    case.expect_done(allow(&item, 2))?;
    let hold = case.hold(reserve(&[(&item, 4)]))?;
    case.hold(confirm(hold.id))?;
    let exceeds = |requested, on_hand| Rejection::ExceedsOnHand { item: item.clone(), requested, on_hand };
    ensure_eq!(case.expect_refused(fulfil_all(hold.id))?, exceeds(4, 2), "all");
    ensure_eq!(case.expect_refused(write_off(hold.id, &[(&item, 3)]))?, exceeds(3, 2), "a loss");
    case.hold(fulfil(hold.id, &[(&item, 1)]))?;
    ensure_eq!(case.expect_refused(fulfil(hold.id, &[(&item, 2)]))?, exceeds(2, 1), "one is left");
    case.hold(write_off(hold.id, &[(&item, 1)]))?;
    ensure_eq!(case.expect_refused(fulfil(hold.id, &[(&item, 1)]))?, exceeds(1, 0), "none is left");
    case.expect_done(set_stock(&item, 4))?;
    case.hold(fulfil_all(hold.id))?;
    let shown = case.read_item(&item)?.figures;
    ensure_eq!((shown.total_units, shown.confirmed_sold, shown.fulfilled), (4, 3, 3), "figures");
    // The total does not fall below what has left, whatever the allowance.
    let refused = case.expect_refused(set_stock(&item, 2))?;
    ensure_matches!(refused, Rejection::BelowCommitted { total_units: 4, .. }, "below what has left");
    Ok(())
}
