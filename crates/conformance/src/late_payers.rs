//! Confirms that come after the deadline and take the same units again.

use super::case_context::{CaseContext, Checked, SECOND, after, no_counters};
use super::deadlines::EDGES;
use super::{Case, World, case};
use stockhold_domain::{
    Command, Confirm, Hold, HoldChange, IfExpired, ItemKey, OptionalTerms, Outcome, Patch, Rejection, Reply,
    ReservationId, Reserve, ReserveTerms, Scope, SetStock, Shortage, Status, StockCounters, Transition,
};
use stockhold_model::maker::{
    confirm, confirm_as, confirm_late, delete, label, open_payment, pause, release, reserve, reserve_for,
    reserve_of, resume, seconds, set_stock, stock_of,
};

pub(super) const CASES: &[Case] = &[
    case("a late payer gets the same lines in a new reservation, and the old one stays expired", reacquired),
    case("of a late payer and a buyer of the last unit, the first gets it", last_unit),
    case("a late payer at the deadline gets the units in one commit", at_the_edge),
    case("a second late confirm answers with the reservation of the first", second_confirm),
    case("a late payer gets all lines or none", all_or_none),
    case("a pause or a deleted item refuses a late payer, and limits do not", what_is_judged),
    case("a late payer keeps the payment of the window that lapsed", lapsed_payment),
    case("a confirm that may reacquire confirms an active hold and refuses a released one", other_states),
];

/// A reservation that was expired by a sweep.
fn swept(case: &mut CaseContext<'_>, lines: &[(&ItemKey, u64)]) -> Checked<Hold> {
    let hold = case.hold(reserve_for(5, lines))?;
    case.set_clock(hold.expires_at);
    case.sweep()?;
    case.advance(SECOND);
    Ok(hold)
}

fn not_reacquired(id: ReservationId, refusal: Rejection) -> Rejection {
    Rejection::NotReacquired { id, refusal: Box::new(refusal) }
}

fn shortage(item: &ItemKey, requested: u64, by: Option<&Hold>) -> Shortage {
    Shortage {
        item: item.clone(),
        requested,
        available: 0,
        next_expiry_at: by.map(|hold| hold.expires_at),
        unknown_sections: Vec::new(),
        approximate: false,
    }
}

fn changes(case: &mut CaseContext<'_>, id: ReservationId) -> Checked<Vec<HoldChange>> {
    let change = |event: stockhold_domain::Event| match event.transition {
        Transition::Hold { change, .. } => Some(change),
        _ => None,
    };
    Ok(case.history(id)?.into_iter().filter_map(change).collect())
}

fn reacquired(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 3)?;
    let b = case.create_item("b", 9)?;
    let optional = OptionalTerms {
        pool: None,
        channel: Some(label("web")),
        customer_id: Some(label("ann")),
        session_id: Some(label("s-1")),
        metadata: Some("{\"price\":12}".into()),
    };
    let terms = ReserveTerms::new(label("cart"), optional);
    let command = Reserve { terms: terms.clone(), ttl: Some(seconds(5)), ..reserve_of(&[(&b, 2), (&a, 3)]) };
    let hold = case.hold(Command::Reserve(command))?;
    case.set_clock(hold.expires_at);
    case.sweep()?;
    case.world.restart();
    case.advance(3_600 * SECOND);
    let sold = case.hold(confirm_late(hold.id, "o1"))?;
    ensure!(sold.id != hold.id, "another reservation");
    ensure_eq!((sold.status, sold.version), (Status::Confirmed, 2), "created and confirmed");
    let lines = |hold: &Hold| -> Vec<(ItemKey, u32)> {
        hold.lines.iter().map(|line| (line.item.clone(), line.quantity)).collect()
    };
    ensure_eq!(lines(&sold), lines(&hold), "the same lines");
    ensure_eq!(sold.terms.reserve, terms, "the same terms");
    ensure_eq!(sold.terms.created_at, case.now(), "created now");
    ensure_eq!((sold.order_id(), sold.details().replaces), (Some(&label("o1")), Some(hold.id)), "the sale");
    for _ in 0..2 {
        ensure_eq!(case.read_hold(sold.id)?, sold, "as it was answered");
        let old = case.read_hold(hold.id)?;
        ensure_eq!((old.status, old.version), (Status::Expired, 3), "the old one stays expired");
        ensure_eq!(old.details().replaced_by, Some(sold.id), "what replaces it");
        ensure_eq!(old.closing.as_ref().map(|closing| closing.at), Some(hold.expires_at), "when it expired");
        let of_old = [HoldChange::Created, HoldChange::Expired, HoldChange::Replaced];
        ensure_eq!(changes(&mut case, hold.id)?, of_old, "the events of the old one");
        let of_new = [HoldChange::Created, HoldChange::Confirmed];
        ensure_eq!(changes(&mut case, sold.id)?, of_new, "the events of the new one");
        let history = case.history(sold.id)?;
        ensure_eq!((history[0].previous, history[1].previous), (None, Some(history[0].id)), "the chain");
        case.expect_figures(
            &a,
            StockCounters { total_units: 3, confirmed_sold: 3, sequence: 5, ..no_counters() },
        )?;
        case.world.restart();
    }
    let refused = case.expect_refused(confirm(hold.id))?;
    ensure_matches!(refused, Rejection::ReservationExpired { .. }, "without the option");
    Ok(())
}

fn last_unit(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for (one_request, late_first) in [(false, false), (false, true), (true, false), (true, true)] {
        for expired_before in [false, true] {
            let name = format!("a-{one_request}-{late_first}-{expired_before}");
            let item = case.create_item(&name, 1)?;
            let hold = case.hold(reserve_for(5, &[(&item, 1)]))?;
            case.set_clock(hold.expires_at);
            if expired_before {
                case.sweep()?;
                case.world.restart();
            }
            let mut commands = [confirm_late(hold.id, "o1"), reserve(&[(&item, 1)])];
            if !late_first {
                commands.reverse();
            }
            let mut outcomes = case.submit_two(one_request, commands)?;
            if !late_first {
                outcomes.reverse();
            }
            case.expect_status(hold.id, Status::Expired)?;
            match outcomes {
                [Outcome::Done(Reply::Reservation(sold)), Outcome::Refused(refused)] if late_first => {
                    ensure_eq!(sold.status, Status::Confirmed, "{name}");
                    let short = Rejection::InsufficientInventory(vec![shortage(&item, 1, None)]);
                    ensure_eq!(refused, short, "the buyer of {name}");
                    case.expect_figures(
                        &item,
                        StockCounters { total_units: 1, confirmed_sold: 1, sequence: 5, ..no_counters() },
                    )?;
                }
                [Outcome::Refused(refused), Outcome::Done(Reply::Reservation(buyer))] if !late_first => {
                    let short = Rejection::InsufficientInventory(vec![shortage(&item, 1, Some(&buyer))]);
                    ensure_eq!(refused, not_reacquired(hold.id, short), "the late payer of {name}");
                    case.expect_figures(
                        &item,
                        StockCounters { total_units: 1, held: 1, active: 1, sequence: 4, ..no_counters() },
                    )?;
                    case.hold(release(buyer.id))?;
                    let sold = case.hold(confirm_late(hold.id, "o1"))?;
                    ensure_eq!(sold.status, Status::Confirmed, "once the unit is free again");
                }
                other => return Err(format!("{name} was answered with {other:?}")),
            }
        }
    }
    Ok(())
}

fn at_the_edge(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in EDGES {
        case.advance(SECOND + 7);
        let item = case.create_item(&format!("a{offset}"), 1)?;
        let hold = case.hold(reserve_for(5, &[(&item, 1)]))?;
        case.set_clock(after(hold.expires_at, offset));
        let sold = case.hold(confirm_late(hold.id, "o1"))?;
        let (same, transitions) = if offset < 0 { (true, 3) } else { (false, 5) };
        ensure_eq!(sold.id == hold.id, same, "whether the hold itself is confirmed at {offset} µs");
        case.world.restart();
        let status = if same { Status::Confirmed } else { Status::Expired };
        case.expect_status(hold.id, status)?;
        case.expect_figures(
            &item,
            StockCounters { total_units: 1, confirmed_sold: 1, sequence: transitions, ..no_counters() },
        )?;
    }
    Ok(())
}

fn second_confirm(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    for one_request in [false, true] {
        let hold = swept(&mut case, &[(&item, 2)])?;
        let commands = [confirm_late(hold.id, "o1"), confirm_late(hold.id, "o1")];
        let outcomes = case.submit_two(one_request, commands)?;
        let [Outcome::Done(Reply::Reservation(sold)), Outcome::Done(Reply::Reservation(again))] = outcomes
        else {
            return Err(format!("two late confirms were answered with {outcomes:?}"));
        };
        ensure_eq!(sold, again, "the same reservation");
        for _ in 0..2 {
            case.advance(3_600 * SECOND);
            case.world.restart();
            ensure_eq!(case.hold(confirm_late(hold.id, "o1"))?, sold, "the same order");
            let no_order = Confirm {
                override_limits: false,
                id: hold.id,
                order_id: None,
                payment_id: None,
                if_expired: IfExpired::Reacquire,
            };
            ensure_eq!(case.hold(Command::Confirm(no_order.clone()))?, sold, "no order");
            let order_id = Some(label("o1"));
            let confirmed = Rejection::ReservationConfirmed { id: sold.id, order_id, payment_id: None };
            ensure_eq!(case.expect_refused(confirm_late(hold.id, "o2"))?, confirmed, "another order");
            let payment_id = Some(label("p"));
            let paid = Command::Confirm(Confirm { payment_id, ..no_order });
            ensure_eq!(case.expect_refused(paid)?, confirmed, "a payment where none was named");
        }
        ensure_eq!(changes(&mut case, hold.id)?.len(), 3, "the events of the old one");
        ensure_eq!(changes(&mut case, sold.id)?.len(), 2, "the events of the new one");
    }
    case.expect_counters(&item, 4, 0)
}

fn all_or_none(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [a, b, c] = ["a", "b", "c"].map(|name| case.maker.item(name));
    for item in [&a, &b, &c] {
        case.expect_done(set_stock(item, 2))?;
    }
    let hold = swept(&mut case, &[(&a, 2), (&b, 2), (&c, 1)])?;
    let buyer = case.hold(reserve_for(60, &[(&b, 1)]))?;
    let shown = [&a, &b, &c].map(|item| case.read_item(item));
    let short = Shortage { available: 1, ..shortage(&b, 2, Some(&buyer)) };
    let refusal = not_reacquired(hold.id, Rejection::InsufficientInventory(vec![short]));
    for _ in 0..2 {
        ensure_eq!(case.expect_refused(confirm_late(hold.id, "o1"))?, refusal, "one line is short");
        ensure_eq!([&a, &b, &c].map(|item| case.read_item(item)), shown, "nothing is taken");
        ensure_eq!(case.read_hold(hold.id)?.version, 2, "the reservation is as before");
        case.world.restart();
    }
    // The buyer's hold is expired for the late payer.
    case.set_clock(buyer.expires_at);
    case.hold(confirm_late(hold.id, "o1"))?;
    case.expect_status(buyer.id, Status::Expired)?;
    for (item, sold) in [(&a, 2), (&b, 2), (&c, 1)] {
        case.expect_counters(item, sold, 0)?;
    }
    Ok(())
}

fn what_is_judged(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 9)?;
    let gone = case.create_item("gone", 9)?;
    let hold = swept(&mut case, &[(&a, 5)])?;
    let lost = swept(&mut case, &[(&a, 1), (&gone, 1)])?;
    let scope = Scope::Item(a.clone());
    case.expect_done(pause(&scope))?;
    case.world.restart();
    let paused = not_reacquired(hold.id, Rejection::SalePaused(scope.clone()));
    ensure_eq!(case.expect_refused(confirm_late(hold.id, "o1"))?, paused, "a pause");
    case.expect_done(delete(&gone))?;
    // An item that is gone comes before a pause.
    let unknown = not_reacquired(lost.id, Rejection::UnknownItem(vec![gone.clone()]));
    ensure_eq!(case.expect_refused(confirm_late(lost.id, "o2"))?, unknown, "a deleted item");
    case.expect_done(resume(&scope))?;
    ensure_eq!(case.expect_refused(confirm_late(lost.id, "o2"))?, unknown, "a deleted item");
    // A limit that was lowered since does not refuse it.
    let limited =
        SetStock { default_ttl: Patch::Set(seconds(1)), max_hold: Patch::Set(seconds(1)), ..stock_of(&a, 9) };
    case.expect_done(Command::SetStock(limited))?;
    case.hold(confirm_late(hold.id, "o1"))?;
    case.expect_counters(&a, 5, 0)
}

fn lapsed_payment(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    let hold = case.hold(reserve_for(5, &[(&item, 1)]))?;
    let opened = case.hold(open_payment(hold.id, "p", 30))?;
    case.set_clock(opened.expires_at);
    let late = Command::Confirm(Confirm {
        override_limits: false,
        id: hold.id,
        order_id: Some(label("o1")),
        payment_id: Some(label("p")),
        if_expired: IfExpired::Reacquire,
    });
    let sold = case.hold(late.clone())?;
    ensure!(sold.id != hold.id, "another reservation");
    case.world.restart();
    let sold_payment = sold.details().payment.as_ref().map(|payment| payment.id.clone());
    ensure_eq!(sold_payment, Some(label("p")), "the payment of the sale");
    ensure_eq!(case.hold(late)?, sold, "the same again");
    let other = Confirm {
        override_limits: false,
        id: hold.id,
        order_id: Some(label("o1")),
        payment_id: Some(label("q")),
        if_expired: IfExpired::Reacquire,
    };
    let refusal = Rejection::ReservationConfirmed {
        id: sold.id,
        order_id: Some(label("o1")),
        payment_id: Some(label("p")),
    };
    ensure_eq!(case.expect_refused(Command::Confirm(other))?, refusal, "another payment");
    case.expect_figures(
        &item,
        StockCounters { total_units: 1, confirmed_sold: 1, sequence: 6, ..no_counters() },
    )
}

fn other_states(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let active = case.hold(reserve(&[(&item, 1)]))?;
    ensure_eq!(case.hold(confirm_late(active.id, "o1"))?.id, active.id, "an active hold");
    ensure_eq!(case.hold(confirm_late(active.id, "o1"))?.id, active.id, "a confirmed one");
    let refused = case.expect_refused(confirm_late(active.id, "o2"))?;
    ensure_matches!(refused, Rejection::ReservationConfirmed { id, .. } if *id == active.id, "another order");
    let freed = case.hold(reserve(&[(&item, 1)]))?;
    case.hold(release(freed.id))?;
    case.world.restart();
    let over = Rejection::ReservationCancelled(freed.id);
    ensure_eq!(case.expect_refused(confirm_late(freed.id, "o3"))?, over, "a released one");
    let nobody = case.maker.no_reservation();
    let unknown = Rejection::UnknownReservation(nobody);
    ensure_eq!(case.expect_refused(confirm_late(nobody, "o3"))?, unknown, "no reservation");
    ensure_eq!(case.hold(confirm_as(active.id, "o1"))?.version, 2, "one confirm took effect");
    case.expect_counters(&item, 1, 0)
}
