//! Returns of sold units.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use stockhold_domain::{Hold, ItemKey, Rejection, ReservationId, Status};
use stockhold_model::maker::{
    confirm, confirm_as, label, release, reserve, reserve_for, return_all, return_of,
};

pub(super) const CASES: &[Case] = &[
    case("a repeated confirm has the same answer, and another order id is refused", confirm_again),
    case("a sale can be returned in parts", piecewise),
    case("a sale can be returned as a whole", everything),
    case("a return of more units than were sold is refused", exceeding),
    case("a return of a reservation that was not confirmed is refused", not_confirmed),
    case("a return of an item that the reservation does not have is refused", unknown_line),
    case("returned units are sold again", sold_again),
];

fn confirm_again(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    let hold = case.hold(reserve(&[(&item, 1)]))?;
    let sold = case.hold(confirm_as(hold.id, "o1"))?;
    case.advance(3_600 * SECOND);
    case.world.restart();
    for command in [confirm_as(hold.id, "o1"), confirm(hold.id)] {
        ensure_eq!(case.hold(command)?, sold, "the same answer again");
    }
    let other = case.expect_refused(confirm_as(hold.id, "o2"))?;
    let order_id = Some(label("o1"));
    ensure_eq!(
        other,
        Rejection::ReservationConfirmed { id: hold.id, order_id, payment_id: None },
        "another order"
    );
    case.expect_counters(&item, 1, 0)?;
    let plain = case.hold(reserve(&[(&item, 1)]))?;
    case.hold(confirm(plain.id))?;
    let named = case.expect_refused(confirm_as(plain.id, "o1"))?;
    let confirmed = Rejection::ReservationConfirmed { id: plain.id, order_id: None, payment_id: None };
    ensure_eq!(named, confirmed, "an order where none was named");
    case.expect_counters(&item, 2, 0)?;
    ensure_eq!(case.read_item(&item)?.figures.sequence, 5, "no second effect");
    Ok(())
}

/// Three units of `a` and two of `b`, sold.
fn sale(case: &mut CaseContext<'_>) -> Checked<(ItemKey, ItemKey, ReservationId)> {
    let a = case.create_item("a", 10)?;
    let b = case.create_item("b", 10)?;
    let hold = case.hold(reserve(&[(&a, 3), (&b, 2)]))?;
    case.hold(confirm_as(hold.id, "o1"))?;
    Ok((a, b, hold.id))
}

fn returned(hold: &Hold) -> Vec<(u32, u64)> {
    hold.lines.iter().map(|line| (line.returned, line.sequence)).collect()
}

fn piecewise(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b, id) = sale(&mut case)?;
    case.advance(3_600 * SECOND);
    let hold = case.hold(return_of(id, &[(&a, 1)]))?;
    ensure_eq!(hold.status, Status::Confirmed, "it stays sold");
    ensure_eq!(returned(&hold), [(1, 4), (0, 3)], "returned and sequence by line");
    case.expect_counters(&a, 2, 0)?;
    case.expect_counters(&b, 2, 0)?;
    let hold = case.hold(return_of(id, &[(&b, 1), (&a, 1), (&b, 1)]))?;
    ensure_eq!(returned(&hold), [(2, 5), (2, 4)], "lines on the same item are summed");
    case.world.restart();
    let hold = case.hold(return_all(id))?;
    ensure_eq!(returned(&hold), [(3, 6), (2, 4)], "the rest");
    ensure_eq!(hold.quantity(), 5, "what was granted stays known");
    case.expect_counters(&a, 0, 0)?;
    case.expect_counters(&b, 0, 0)?;
    ensure_eq!(case.read_item(&b)?.figures.sequence, 4, "a line with nothing left is no transition");
    case.expect_status(id, Status::Confirmed)
}

fn everything(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b, id) = sale(&mut case)?;
    let hold = case.hold(return_all(id))?;
    ensure_eq!(returned(&hold), [(3, 4), (2, 4)], "all of both");
    let order_id = hold.closing.and_then(|closing| closing.order_id);
    ensure_eq!(order_id.as_ref().map(stockhold_domain::Label::as_str), Some("o1"), "its order stays");
    let refused = case.expect_refused(return_all(id))?;
    ensure_matches!(refused, Rejection::ReturnExceedsSold { sold: 0, .. }, "nothing is left");
    case.expect_counters(&a, 0, 0)?;
    case.expect_counters(&b, 0, 0)
}

fn exceeding(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b, id) = sale(&mut case)?;
    let exceeds = |item: &ItemKey, requested, sold| {
        let item = item.clone();
        Rejection::ReturnExceedsSold { item, requested, sold }
    };
    ensure_eq!(case.expect_refused(return_of(id, &[(&b, 1), (&a, 4)]))?, exceeds(&a, 4, 3), "four of three");
    ensure_eq!(
        case.expect_refused(return_of(id, &[(&a, 2), (&a, 2)]))?,
        exceeds(&a, 4, 3),
        "two and two of three"
    );
    ensure_eq!(
        case.expect_refused(return_of(id, &[(&a, u64::MAX), (&a, u64::MAX)]))?,
        exceeds(&a, u64::MAX, 3),
        "more than can be counted"
    );
    case.expect_counters(&b, 2, 0)?;
    case.hold(return_of(id, &[(&a, 2)]))?;
    ensure_eq!(case.expect_refused(return_of(id, &[(&a, 2)]))?, exceeds(&a, 2, 1), "two of the last");
    case.expect_counters(&a, 1, 0)
}

fn not_confirmed(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 5)?;
    let released = case.hold(reserve(&[(&item, 1)]))?;
    case.hold(release(released.id))?;
    let active = case.hold(reserve_for(60, &[(&item, 1)]))?;
    let due = case.hold(reserve_for(1, &[(&item, 1)]))?;
    case.set_clock(due.expires_at);
    for id in [released.id, active.id, due.id] {
        for command in [return_all(id), return_of(id, &[(&item, 1)])] {
            let refused = case.expect_refused(command)?;
            ensure_eq!(refused, Rejection::ReservationNotConfirmed(id), "what was never sold");
        }
    }
    let nobody = case.maker.no_reservation();
    let unknown = Rejection::UnknownReservation(nobody);
    ensure_eq!(case.expect_refused(return_all(nobody))?, unknown, "what never was");
    case.expect_status(active.id, Status::Active)
}

fn unknown_line(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b, id) = sale(&mut case)?;
    let other = case.create_item("c", 5)?;
    for stranger in [other, case.maker.item("never set")] {
        let refused = case.expect_refused(return_of(id, &[(&a, 1), (&stranger, 1)]))?;
        let expected = Rejection::ReturnExceedsSold { item: stranger, requested: 1, sold: 0 };
        ensure_eq!(refused, expected, "an item of no line");
    }
    case.expect_counters(&a, 3, 0)?;
    case.expect_counters(&b, 2, 0)
}

fn sold_again(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    let first = case.hold(reserve(&[(&item, 1)]))?;
    case.hold(confirm(first.id))?;
    case.expect_refused(reserve(&[(&item, 1)]))?;
    case.hold(return_all(first.id))?;
    let second = case.hold(reserve(&[(&item, 1)]))?;
    case.hold(confirm(second.id))?;
    case.expect_refused(return_all(first.id))?;
    case.expect_counters(&item, 1, 0)
}
