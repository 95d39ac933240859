//! Refunds of payments that the service took.

use super::case_context::{CaseContext, Checked, SECOND, after};
use super::checkouts::{PAID, charge_of, is_due, paid, paying, state_of};
use super::{Case, World, case};
use stockhold_domain::{
    ChargeState, Command, Currency, Disposition, Hold, OrderStatus, Patch, PaymentStep, Price,
    ProviderReport, RefundSelection, Rejection, Return, ReturnFrom, SaleSelection, SetStock, Status, limits,
};
use stockhold_model::checkout_maker::{authorized, captured, checkout, no_answer, refund_of, report, step};
use stockhold_model::maker::{label, reserve_for, stock_of};

pub(super) const CASES: &[Case] = &[
    case("refunds are made one after the other, and end in a refunded order", refunds),
    case("a refund of units returns them, and its parts add up to the whole", refund_of_units),
    case("a refund that the provider refuses ten times has failed until it is tried again", refund_fails),
    case("a report about a refund changes nothing while no refund was asked for", refund_unasked),
];

fn refunds(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, hold) = paid(&mut case, "a")?;
    let first = case.hold(refund_of(hold.id, RefundSelection::Amount(1_000)))?;
    ensure_eq!(state_of(&first)?, (Status::Confirmed, ChargeState::Refunding), "the first");
    let second = case.hold(refund_of(hold.id, RefundSelection::Amount(500)))?;
    let refused = case.expect_refused(refund_of(hold.id, RefundSelection::Amount(1_501)))?;
    let exceeds =
        |requested, refundable| Rejection::RefundExceedsCaptured { id: hold.id, requested, refundable };
    ensure_eq!(refused, exceeds(1_501, 1_500), "more than is left");
    case.world.restart();
    let one = case.hold(report(&second, ProviderReport::Refunded))?;
    ensure_eq!(state_of(&one)?, (Status::Confirmed, ChargeState::Refunding), "the second is next");
    ensure_eq!((charge_of(&one)?.refunded, charge_of(&one)?.refund_attempts), (1_000, 2), "one was made");
    let two = case.hold(report(&one, ProviderReport::Refunded))?;
    ensure_eq!(state_of(&two)?, (Status::Confirmed, ChargeState::Captured), "both were made");
    ensure_eq!(two.order_status(), Some(OrderStatus::PartiallyRefunded), "the order");
    let rest = case.hold(refund_of(hold.id, RefundSelection::Rest))?;
    let all = case.hold(report(&rest, ProviderReport::Refunded))?;
    ensure_eq!(state_of(&all)?, (Status::Confirmed, ChargeState::Refunded), "all of it");
    ensure_eq!(all.order_status(), Some(OrderStatus::Refunded), "the order is refunded");
    let refused = case.expect_refused(refund_of(hold.id, RefundSelection::Rest))?;
    ensure_eq!(refused, exceeds(0, 0), "nothing is left");
    case.expect_counters(&item, 3, 0)
}

fn refund_of_units(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let currency = Currency::new("eur").expect("three letters");
    let discounts = [stockhold_domain::Discount {
        reduction: stockhold_domain::Reduction::Percent(3),
        from: None,
        to: None,
        channels: [].into(),
    }];
    let price = Price { unit_amount: 333, currency, discounts: discounts.into() };
    let set = SetStock { total_units: None, price: Patch::Set(price.into()), ..stock_of(&item, 0) };
    case.expect_done(Command::SetStock(set))?;
    let hold = case.hold(reserve_for(60, &[(&item, 3)]))?;
    // Three units at 333 less 3 percent: 969, which three does divide, and 970 does not.
    let opened = case.hold(checkout(hold.id))?;
    let sold = case.hold(report(&opened, captured(969)))?;
    let lines = |count: u64, disposition| RefundSelection::Lines {
        selection: SaleSelection::Lines(stockhold_model::maker::basket_choosing(vec![(&item, count, None)])),
        disposition,
    };
    let one = case.hold(refund_of(sold.id, lines(1, Disposition::Restock)))?;
    ensure_eq!(charge_of(&one)?.refunds.iter().map(|refund| refund.amount).sum::<u64>(), 323, "one unit");
    case.expect_counters(&item, 2, 0)?;
    // A unit that came back without its money is refunded with the next one.
    case.hold(Command::Return(Return {
        id: sold.id,
        selection: SaleSelection::Lines(stockhold_model::maker::basket_choosing(vec![(&item, 1, None)])),
        from: Some(ReturnFrom::Unfulfilled),
        disposition: Disposition::Restock,
        reason: label("came back"),
    }))?;
    case.world.restart();
    let rest = case.hold(refund_of(sold.id, lines(1, Disposition::WriteOff)))?;
    let pending: Vec<u64> = charge_of(&rest)?.refunds.iter().map(|refund| refund.amount).collect();
    ensure_eq!(pending, [323, 646], "the parts are the whole");
    ensure_eq!(
        rest.lines.iter().map(|line| (line.returned, line.details().refunded)).collect::<Vec<_>>(),
        [(3, 969)],
        "the line"
    );
    ensure_eq!(case.read_item(&item)?.figures.total_units, 9, "one unit was written off");
    let refused = case.expect_refused(refund_of(sold.id, lines(1, Disposition::Restock)))?;
    ensure_eq!(matches!(refused, Rejection::ReturnExceedsSold { .. }), true, "no unit is left");
    // A refund of money leaves too little for the refund of units.
    let other = case.hold(reserve_for(60, &[(&item, 2)]))?;
    let opened = case.hold(checkout(other.id))?;
    let sold = case.hold(report(&opened, captured(646)))?;
    case.hold(refund_of(sold.id, RefundSelection::Amount(600)))?;
    let refused = case.expect_refused(refund_of(sold.id, lines(1, Disposition::Restock)))?;
    let expected = Rejection::RefundExceedsCaptured { id: sold.id, requested: 323, refundable: 46 };
    ensure_eq!(refused, expected, "too little is left");
    case.expect_counters(&item, 2, 0)
}

fn refund_fails(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (_, hold) = paid(&mut case, "a")?;
    let mut shown = case.hold(refund_of(hold.id, RefundSelection::Rest))?;
    shown = case.hold(report(&shown, no_answer()))?;
    let refusal = || ProviderReport::RefundRefused { error: label("insufficient_funds") };
    for n in 1..limits::REFUND_REFUSALS {
        shown = case.hold(report(&shown, refusal()))?;
        ensure_eq!(
            (charge_of(&shown)?.state, charge_of(&shown)?.refusals),
            (ChargeState::Refunding, n),
            "refused"
        );
    }
    case.world.restart();
    let failed = case.hold(report(&shown, refusal()))?;
    ensure_eq!(state_of(&failed)?, (Status::Confirmed, ChargeState::RefundFailed), "failed");
    ensure_eq!(failed.order_status(), Some(OrderStatus::Paid), "the money is not back");
    let later = after(case.now(), 3_600 * SECOND);
    ensure_eq!(is_due(&mut case, hold.id, later)?, false, "nobody is asked");
    let again = case.hold(step(hold.id, PaymentStep::RetryRefund))?;
    ensure_eq!((charge_of(&again)?.state, charge_of(&again)?.refusals), (ChargeState::Refunding, 0), "again");
    ensure_eq!(case.hold(step(hold.id, PaymentStep::RetryRefund))?, again, "twice");
    let done = case.hold(report(&again, ProviderReport::Refunded))?;
    ensure_eq!(state_of(&done)?, (Status::Confirmed, ChargeState::Refunded), "went back");
    Ok(())
}

fn refund_unasked(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (_, pending) = paying(&mut case, "a")?;
    expect_no_refund(&mut case, &pending)?;
    let sold = case.hold(report(&pending, authorized()))?;
    expect_no_refund(&mut case, &sold)?;
    let capturing = case.hold(report(&sold, no_answer()))?;
    expect_no_refund(&mut case, &capturing)?;
    let paid = case.hold(report(&capturing, captured(PAID)))?;
    expect_no_refund(&mut case, &paid)?;
    let (_, other) = paying(&mut case, "b")?;
    let voiding = case.hold(step(other.id, PaymentStep::Cancel))?;
    expect_no_refund(&mut case, &voiding)
}

fn expect_no_refund(case: &mut CaseContext<'_>, hold: &Hold) -> Checked {
    let refused = ProviderReport::RefundRefused { error: label("insufficient_funds") };
    for unasked in [refused, ProviderReport::Refunded] {
        ensure_eq!(&case.hold(report(hold, unasked))?, hold, "the reservation after the report");
    }
    Ok(())
}
