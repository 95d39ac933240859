//! Sold units that come back.

use super::case_context::{CaseContext, Checked, SECOND};
use super::maker::{confirm, confirm_as, label, release, reserve, reserve_for, return_all, return_of};
use super::{Case, World, case};
use stockhold_domain::{Hold, ItemKey, Rejection, ReservationId, Status};

pub(super) const CASES: &[Case] = &[
    case("a confirm is answered the same again, and another order is told so", confirm_again),
    case("some units of some lines come back, then the rest", piecewise),
    case("everything comes back at once", everything),
    case("no more comes back than was sold", exceeding),
    case("what was never sold does not come back", not_confirmed),
    case("an item that was not sold with it does not come back", unknown_line),
    case("returned units are sold again", sold_again),
];

fn confirm_again(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 2)?;
    let hold = stage.hold(reserve(&[(&item, 1)]))?;
    let sold = stage.hold(confirm_as(hold.id, "o1"))?;
    stage.pass(3_600 * SECOND);
    stage.world.restart();
    for command in [confirm_as(hold.id, "o1"), confirm(hold.id)] {
        ensure_eq!(stage.hold(command)?, sold, "the same answer again");
    }
    let other = stage.refused(confirm_as(hold.id, "o2"))?;
    let order_id = Some(label("o1"));
    ensure_eq!(other, Rejection::ReservationConfirmed { id: hold.id, order_id }, "another order");
    stage.expect_books(&item, 1, 0)?;
    let plain = stage.hold(reserve(&[(&item, 1)]))?;
    stage.hold(confirm(plain.id))?;
    let named = stage.refused(confirm_as(plain.id, "o1"))?;
    let confirmed = Rejection::ReservationConfirmed { id: plain.id, order_id: None };
    ensure_eq!(named, confirmed, "an order where none was named");
    stage.expect_books(&item, 2, 0)?;
    ensure_eq!(stage.shown(&item)?.figures.sequence, 5, "no second effect");
    Ok(())
}

/// Three units of `a` and two of `b`, sold.
fn sale(stage: &mut CaseContext<'_>) -> Checked<(ItemKey, ItemKey, ReservationId)> {
    let a = stage.stocked("a", 10)?;
    let b = stage.stocked("b", 10)?;
    let hold = stage.hold(reserve(&[(&a, 3), (&b, 2)]))?;
    stage.hold(confirm_as(hold.id, "o1"))?;
    Ok((a, b, hold.id))
}

fn returned(hold: &Hold) -> Vec<(u32, u64)> {
    hold.lines.iter().map(|line| (line.returned, line.sequence)).collect()
}

fn piecewise(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let (a, b, id) = sale(&mut stage)?;
    stage.pass(3_600 * SECOND);
    let hold = stage.hold(return_of(id, &[(&a, 1)]))?;
    ensure_eq!(hold.status, Status::Confirmed, "it stays sold");
    ensure_eq!(returned(&hold), [(1, 4), (0, 3)], "returned and sequence by line");
    stage.expect_books(&a, 2, 0)?;
    stage.expect_books(&b, 2, 0)?;
    let hold = stage.hold(return_of(id, &[(&b, 1), (&a, 1), (&b, 1)]))?;
    ensure_eq!(returned(&hold), [(2, 5), (2, 4)], "lines on the same item are summed");
    stage.world.restart();
    let hold = stage.hold(return_all(id))?;
    ensure_eq!(returned(&hold), [(3, 6), (2, 4)], "the rest");
    ensure_eq!(hold.quantity(), 5, "what was granted stays known");
    stage.expect_books(&a, 0, 0)?;
    stage.expect_books(&b, 0, 0)?;
    ensure_eq!(stage.shown(&b)?.figures.sequence, 4, "a line with nothing left is no transition");
    stage.expect_status(id, Status::Confirmed)
}

fn everything(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let (a, b, id) = sale(&mut stage)?;
    let hold = stage.hold(return_all(id))?;
    ensure_eq!(returned(&hold), [(3, 4), (2, 4)], "all of both");
    let order_id = hold.closing.and_then(|closing| closing.order_id);
    ensure_eq!(order_id.as_ref().map(stockhold_domain::Label::as_str), Some("o1"), "its order stays");
    let refused = stage.refused(return_all(id))?;
    ensure_matches!(refused, Rejection::ReturnExceedsSold { sold: 0, .. }, "nothing is left");
    stage.expect_books(&a, 0, 0)?;
    stage.expect_books(&b, 0, 0)
}

fn exceeding(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let (a, b, id) = sale(&mut stage)?;
    let exceeds = |item: &ItemKey, requested, sold| {
        let item = item.clone();
        Rejection::ReturnExceedsSold { item, requested, sold }
    };
    ensure_eq!(stage.refused(return_of(id, &[(&b, 1), (&a, 4)]))?, exceeds(&a, 4, 3), "four of three");
    ensure_eq!(stage.refused(return_of(id, &[(&a, 2), (&a, 2)]))?, exceeds(&a, 4, 3), "two and two of three");
    ensure_eq!(
        stage.refused(return_of(id, &[(&a, u64::MAX), (&a, u64::MAX)]))?,
        exceeds(&a, u64::MAX, 3),
        "more than can be counted"
    );
    stage.expect_books(&b, 2, 0)?;
    stage.hold(return_of(id, &[(&a, 2)]))?;
    ensure_eq!(stage.refused(return_of(id, &[(&a, 2)]))?, exceeds(&a, 2, 1), "two of the last");
    stage.expect_books(&a, 1, 0)
}

fn not_confirmed(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 5)?;
    let released = stage.hold(reserve(&[(&item, 1)]))?;
    stage.hold(release(released.id))?;
    let active = stage.hold(reserve_for(60, &[(&item, 1)]))?;
    let due = stage.hold(reserve_for(1, &[(&item, 1)]))?;
    stage.at(due.expires_at);
    for id in [released.id, active.id, due.id] {
        for command in [return_all(id), return_of(id, &[(&item, 1)])] {
            let refused = stage.refused(command)?;
            ensure_eq!(refused, Rejection::ReservationNotConfirmed(id), "what was never sold");
        }
    }
    let nobody = stage.maker.no_reservation();
    let unknown = Rejection::UnknownReservation(nobody);
    ensure_eq!(stage.refused(return_all(nobody))?, unknown, "what never was");
    stage.expect_status(active.id, Status::Active)
}

fn unknown_line(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let (a, b, id) = sale(&mut stage)?;
    let other = stage.stocked("c", 5)?;
    for stranger in [other, stage.maker.item("never set")] {
        let refused = stage.refused(return_of(id, &[(&a, 1), (&stranger, 1)]))?;
        let expected = Rejection::ReturnExceedsSold { item: stranger, requested: 1, sold: 0 };
        ensure_eq!(refused, expected, "an item of no line");
    }
    stage.expect_books(&a, 3, 0)?;
    stage.expect_books(&b, 2, 0)
}

fn sold_again(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 1)?;
    let first = stage.hold(reserve(&[(&item, 1)]))?;
    stage.hold(confirm(first.id))?;
    stage.refused(reserve(&[(&item, 1)]))?;
    stage.hold(return_all(first.id))?;
    let second = stage.hold(reserve(&[(&item, 1)]))?;
    stage.hold(confirm(second.id))?;
    stage.refused(return_all(first.id))?;
    stage.expect_books(&item, 1, 0)
}
