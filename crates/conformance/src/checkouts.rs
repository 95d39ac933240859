//! Checkouts: payments that the service takes, through everything that a provider may say about them.

use super::case_context::{CaseContext, Checked, MILLI, SECOND, after, deadline};
use super::{Case, World, case};
use std::collections::BTreeSet;
use stockhold_domain::{
    CaptureMethod, Charge, ChargeState, Command, ExtraAmount, Hold, HoldChange, Instant, ItemKey, OnDecline,
    OrderStatus, Outcome, PaymentState, PaymentStep, ProviderReport, RefundSelection, Rejection,
    ReservationId, Status, limits,
};
use stockhold_model::checkout_maker::{
    authorized, captured, checkout, checkout_terms, checkout_with, customer_terms, decline, no_answer,
    provider_ref, refund_of, report, set_price, step,
};
use stockhold_model::maker::{
    amend, close_payment, confirm, confirm_late, confirm_paid, extend, fulfil_all, label, open_payment,
    release, reserve_for, return_of, set_stock,
};

pub(super) const CASES: &[Case] = &[
    case("a checkout that captures after the confirm becomes an order, and then its money is taken", sold),
    case("a checkout that charges first is confirmed with its money", charged_first),
    case("what costs nothing is confirmed at once", free),
    case("a checkout needs a price of every line, and its amount has bounds", refused),
    case("a checkout with a stored payment method keeps what was encrypted, and needs one", of_customer),
    case("while the service takes a payment, no other command changes the reservation", nothing_else_changes),
    case("a declined payment releases its hold, or keeps it for another one", declined),
    case("a payment that waits for its buyer is asked for again after the wait", waiting),
    case("a report about another version changes nothing", stale),
    case("a failed request gets a new key, and one without an answer keeps its key", attempts),
    case("a hold whose payment is given up ends when the provider has ended the payment", given_up),
    case("money that comes after the payment was given up goes back", money_after_the_end),
    case("money that comes after the hold expired takes the units again at the old price", late_money),
    case("the key of a report about late money is left to its caller", late_money_with_key),
    case("late money goes back if the units are gone", late_money_goes_back),
    case("a hold that expires ends its payment", expired),
    case("a capture that fails for good returns the units and ends the payment", capture_fails),
    case("a repeated checkout with the same key is the same checkout", same_key),
];

pub(super) const PAID: u64 = 3_000;

/// An item with this many units at 1,000 a unit.
pub(super) fn priced(case: &mut CaseContext<'_>, name: &str, total: u64) -> Checked<ItemKey> {
    let item = case.create_item(name, total)?;
    case.expect_done(set_price(&item, 1_000))?;
    Ok(item)
}

/// A hold of three units for 60 seconds.
fn held(case: &mut CaseContext<'_>, name: &str) -> Checked<(ItemKey, Hold)> {
    let item = priced(case, name, 10)?;
    let hold = case.hold(reserve_for(60, &[(&item, 3)]))?;
    Ok((item, hold))
}

/// The same, with a checkout under way.
pub(super) fn paying(case: &mut CaseContext<'_>, name: &str) -> Checked<(ItemKey, Hold)> {
    let (item, hold) = held(case, name)?;
    Ok((item, case.hold(checkout(hold.id))?))
}

/// The same, sold and captured.
pub(super) fn paid(case: &mut CaseContext<'_>, name: &str) -> Checked<(ItemKey, Hold)> {
    let (item, hold) = paying(case, name)?;
    let sold = case.hold(report(&hold, authorized()))?;
    Ok((item, case.hold(report(&sold, captured(PAID)))?))
}

pub(super) fn charge_of(hold: &Hold) -> Checked<&Charge> {
    hold.charge().ok_or_else(|| format!("{} has no charge", hold.id))
}

pub(super) fn state_of(hold: &Hold) -> Checked<(Status, ChargeState)> {
    Ok((hold.status, charge_of(hold)?.state))
}

/// Whether the payment of a reservation is due at an instant.
pub(super) fn is_due(case: &mut CaseContext<'_>, id: ReservationId, at: Instant) -> Checked<bool> {
    Ok(case.due_payments(at)?.contains(&id))
}

/// The changes of a reservation in order, of which the provider is asked about.
pub(super) fn changes(case: &mut CaseContext<'_>, id: ReservationId) -> Checked<Vec<&'static str>> {
    let events = case.history(id)?;
    let ids: BTreeSet<_> = events.iter().map(|event| event.id).collect();
    ensure_eq!(ids.len(), events.len(), "each event has an id of its own");
    let word = |event: &stockhold_domain::Event| match &event.transition {
        stockhold_domain::Transition::Hold { change, .. } => match change {
            HoldChange::Created => "created",
            HoldChange::PaymentOpened { .. } => "opened",
            HoldChange::PaymentAdvanced { state_changed: true, .. } => "advanced",
            HoldChange::PaymentAdvanced { state_changed: false, .. } => "tried",
            HoldChange::PaymentClosed { .. } => "closed",
            HoldChange::Confirmed => "confirmed",
            HoldChange::Cancelled => "cancelled",
            HoldChange::Expired => "expired",
            HoldChange::Replaced => "replaced",
            HoldChange::Returned { .. } => "returned",
            _ => "other",
        },
        _ => "other",
    };
    Ok(events.iter().map(word).collect())
}

fn sold(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, hold) = held(&mut case, "a")?;
    let mut start =
        checkout_with(hold.id, checkout_terms(CaptureMethod::AfterConfirm, OnDecline::Release), 90);
    start.request.terms.extra = [ExtraAmount { name: label("postage"), amount: 490 }].into();
    start.request.order_id = Some(label("order-1"));
    let opened = case.hold(Command::StartCheckout(start))?;
    let charge = charge_of(&opened)?;
    ensure_eq!((charge.amount, charge.state), (3_490, ChargeState::Pending), "what is asked for");
    ensure_eq!(opened.expires_at, deadline(case.now(), 90), "the end of the window");
    ensure_eq!(opened.order_status(), None, "no order yet");
    ensure_eq!(case.read_item(&item)?.figures.held_under_payment, 3, "held for the payment");
    case.world.restart();
    ensure_eq!(case.read_hold(hold.id)?, opened, "after a restart");
    let now = case.now();
    ensure_eq!(is_due(&mut case, hold.id, now)?, true, "due at once");
    case.advance(SECOND);
    let sold = case.hold(report(&opened, authorized()))?;
    ensure_eq!(state_of(&sold)?, (Status::Confirmed, ChargeState::Authorized), "confirmed");
    ensure_eq!(sold.order_status(), Some(OrderStatus::Authorized), "the order");
    ensure_eq!(sold.order_id(), Some(&label("order-1")), "its id");
    case.expect_counters(&item, 3, 0)?;
    case.world.restart();
    ensure_eq!(case.read_hold(hold.id)?, sold, "sold, after a restart");
    let now = case.now();
    ensure_eq!(is_due(&mut case, hold.id, now)?, true, "due for the capture after a restart");
    // Until the money is taken, the sale does not move.
    let uncaptured = case.expect_refused(fulfil_all(hold.id))?;
    ensure_eq!(matches!(uncaptured, Rejection::PaymentInProgress { .. }), true, "fulfil");
    case.expect_refused(return_of(hold.id, &[(&item, 1)]))?;
    case.expect_refused(refund_of(hold.id, RefundSelection::Rest))?;
    let paid = case.hold(report(&sold, captured(3_490)))?;
    ensure_eq!(state_of(&paid)?, (Status::Confirmed, ChargeState::Captured), "captured");
    ensure_eq!(paid.order_status(), Some(OrderStatus::Paid), "the order is paid");
    let later = after(case.now(), 3_600 * SECOND);
    for _ in 0..2 {
        ensure_eq!(is_due(&mut case, hold.id, later)?, false, "at rest");
        let expected = ["created", "opened", "advanced", "confirmed", "advanced"];
        ensure_eq!(changes(&mut case, hold.id)?, expected, "the history");
        case.world.restart();
    }
    case.hold(fulfil_all(hold.id))?;
    Ok(())
}

fn charged_first(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, hold) = held(&mut case, "a")?;
    let terms = checkout_terms(CaptureMethod::ChargeThenConfirm, OnDecline::Release);
    let opened = case.hold(Command::StartCheckout(checkout_with(hold.id, terms, 60)))?;
    let paid = case.hold(report(&opened, captured(PAID)))?;
    ensure_eq!(state_of(&paid)?, (Status::Confirmed, ChargeState::Captured), "paid");
    ensure_eq!(charge_of(&paid)?.captured, PAID, "the money");
    ensure_eq!(paid.order_id().is_some(), true, "an order gets an id");
    case.expect_counters(&item, 3, 0)?;
    Ok(())
}

fn free(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 5)?;
    case.expect_done(set_price(&item, 0))?;
    let hold = case.hold(reserve_for(60, &[(&item, 2)]))?;
    let sold = case.hold(checkout(hold.id))?;
    ensure_eq!(state_of(&sold)?, (Status::Confirmed, ChargeState::Captured), "sold");
    ensure_eq!(sold.order_status(), Some(OrderStatus::Paid), "an order");
    let later = after(case.now(), 3_600 * SECOND);
    ensure_eq!(is_due(&mut case, hold.id, later)?, false, "nobody is asked");
    let refused = case.expect_refused(refund_of(hold.id, RefundSelection::Rest))?;
    ensure_eq!(refused, Rejection::PaymentNotCaptured(hold.id), "no money to give back");
    case.expect_counters(&item, 2, 0)
}

fn of_customer(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = priced(&mut case, "a", 5)?;
    let hold = case.hold(reserve_for(60, &[(&item, 1)]))?;
    let with =
        |sealed: &[u8]| Command::StartCheckout(checkout_with(hold.id, customer_terms("ann", sealed), 60));
    let refused = case.expect_refused(with(b""))?;
    ensure_eq!(refused, Rejection::PaymentMethodMissing { customer_id: label("ann") }, "no payment method");
    let longest = [7; limits::SEALED_METHOD_BYTES];
    let paid = case.hold(with(&longest))?;
    for _ in 0..2 {
        let shown = case.read_hold(hold.id)?;
        ensure_eq!(shown, paid, "the payment");
        let terms = shown.charge().map(|charge| charge.terms.clone());
        ensure_eq!(terms.as_deref(), Some(&customer_terms("ann", &longest)), "what was encrypted");
        ensure_eq!(shown.order_customer(), Some(&label("ann")), "who pays");
        case.world.restart();
    }
    Ok(())
}

fn refused(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = priced(&mut case, "a", 5)?;
    let b = case.create_item("b", 5)?;
    let mixed = case.hold(reserve_for(60, &[(&a, 1), (&b, 1)]))?;
    ensure_eq!(case.expect_refused(checkout(mixed.id))?, Rejection::PriceMissing(vec![b]), "no price");
    let hold = case.hold(reserve_for(60, &[(&a, 1)]))?;
    let extra = |count: usize, amount: u64| {
        let extra = ExtraAmount { name: label("more"), amount };
        let terms = stockhold_domain::CheckoutTerms {
            extra: vec![extra; count].into(),
            ..checkout_terms(CaptureMethod::AfterConfirm, OnDecline::Release)
        };
        Command::StartCheckout(checkout_with(hold.id, terms, 60))
    };
    for command in [extra(limits::EXTRA_AMOUNTS + 1, 1), extra(1, limits::AMOUNT)] {
        let refused = case.expect_refused(command)?;
        ensure_eq!(matches!(refused, Rejection::InvalidRequest(_)), true, "{refused:?}");
    }
    let refused = case.expect_refused(refund_of(hold.id, RefundSelection::Rest))?;
    ensure_eq!(refused, Rejection::ReservationNotConfirmed(hold.id), "a refund of a hold");
    case.hold(extra(limits::EXTRA_AMOUNTS, 1))?;
    let other = case.hold(reserve_for(60, &[(&a, 1)]))?;
    case.hold(confirm(other.id))?;
    let refused = case.expect_refused(refund_of(other.id, RefundSelection::Rest))?;
    ensure_eq!(refused, Rejection::PaymentNotCaptured(other.id), "the caller took the money");
    let refused = case.expect_refused(step(other.id, PaymentStep::RetryRefund))?;
    ensure_eq!(refused, Rejection::PaymentNotCaptured(other.id), "no refund has failed");
    let refused = case.expect_refused(checkout(other.id))?;
    ensure_eq!(matches!(refused, Rejection::ReservationConfirmed { .. }), true, "a sale");
    let nobody = case.maker.no_reservation();
    for command in
        [checkout(nobody), step(nobody, PaymentStep::Cancel), refund_of(nobody, RefundSelection::Rest)]
    {
        ensure_eq!(case.expect_refused(command)?, Rejection::UnknownReservation(nobody), "unknown");
    }
    Ok(())
}

fn nothing_else_changes(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, hold) = paying(&mut case, "a")?;
    let payment = hold.details().payment.clone().ok_or("no payment")?;
    let refusal =
        Rejection::PaymentInProgress { id: hold.id, payment_id: payment.id.clone(), until: payment.until };
    for command in [
        checkout(hold.id),
        confirm(hold.id),
        confirm_paid(hold.id, payment.id.as_str()),
        release(hold.id),
        extend(hold.id, 100),
        amend(hold.id, &[(&item, 1)]),
        open_payment(hold.id, payment.id.as_str(), 100),
        close_payment(hold.id),
    ] {
        let text = format!("{command:?}");
        ensure_eq!(case.expect_refused(command)?, refusal, "{text}");
    }
    ensure_eq!(case.read_hold(hold.id)?, hold, "unchanged");
    Ok(())
}

fn declined(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, hold) = paying(&mut case, "a")?;
    let ended = case.hold(report(&hold, decline()))?;
    ensure_eq!(state_of(&ended)?, (Status::Cancelled, ChargeState::Declined), "released");
    let reason = ended.closing.as_ref().and_then(|closing| closing.reason.clone());
    ensure_eq!(reason, Some(label("payment_failed")), "why");
    ensure_eq!(charge_of(&ended)?.error, Some(label("card_declined")), "the code");
    case.expect_counters(&item, 0, 0)?;
    ensure_eq!(case.read_item(&item)?.figures.held_under_payment, 0, "nothing is held for a payment");

    let (item, hold) = held(&mut case, "b")?;
    let keep = checkout_terms(CaptureMethod::AfterConfirm, OnDecline::Keep);
    let opened = case.hold(Command::StartCheckout(checkout_with(hold.id, keep.clone(), 300)))?;
    let kept = case.hold(report(&opened, decline()))?;
    ensure_eq!(state_of(&kept)?, (Status::Active, ChargeState::Declined), "kept");
    ensure_eq!(kept.expires_at, hold.expires_at, "the deadline from before");
    case.world.restart();
    let again = case.hold(Command::StartCheckout(checkout_with(hold.id, keep, 300)))?;
    ensure_eq!(again.details().authorizations, 2, "another payment has another key");
    let sold = case.hold(report(&again, authorized()))?;
    ensure_eq!(sold.status, Status::Confirmed, "sold by another payment");
    case.expect_counters(&item, 3, 0)
}

fn waiting(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (_, hold) = paying(&mut case, "a")?;
    let action = || ProviderReport::RequiresAction { provider_ref: provider_ref("pi_1") };
    let waits = case.hold(report(&hold, action()))?;
    ensure_eq!(state_of(&waits)?, (Status::Active, ChargeState::RequiresAction), "waits");
    let due = after(case.now(), 2 * SECOND);
    for _ in 0..2 {
        ensure_eq!(is_due(&mut case, hold.id, after(due, -MILLI))?, false, "not due before the wait");
        ensure_eq!(is_due(&mut case, hold.id, due)?, true, "due after the wait");
        case.world.restart();
    }
    let still = case.hold(report(&waits, action()))?;
    ensure_eq!(charge_of(&still)?.tries, 1, "looked once");
    // A word of the provider makes it due at once, and again changes nothing.
    let woken = case.hold(step(hold.id, PaymentStep::Wake))?;
    ensure_eq!(charge_of(&woken)?.due_at, Some(case.now()), "due now");
    ensure_eq!(case.hold(step(hold.id, PaymentStep::Wake))?, woken, "woken twice");
    let now = case.now();
    ensure_eq!(is_due(&mut case, hold.id, now)?, true, "listed as due");
    let processing = ProviderReport::Processing { provider_ref: provider_ref("pi_1") };
    let processing = case.hold(report(&woken, processing))?;
    ensure_eq!(state_of(&processing)?, (Status::Active, ChargeState::Processing), "processing");
    let sold = case.hold(report(&processing, captured(PAID)))?;
    ensure_eq!(state_of(&sold)?, (Status::Confirmed, ChargeState::Captured), "sold");
    ensure_eq!(case.hold(step(hold.id, PaymentStep::Wake))?, sold, "at rest, a word changes nothing");
    let expected = ["created", "opened", "advanced", "tried", "tried", "advanced", "advanced", "confirmed"];
    ensure_eq!(changes(&mut case, hold.id)?, expected, "the history");
    Ok(())
}

fn stale(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, hold) = paying(&mut case, "a")?;
    let both = case.submit_two(true, [report(&hold, authorized()), report(&hold, decline())])?;
    for outcome in both {
        ensure_eq!(matches!(outcome, Outcome::Done(_)), true, "a report is never refused");
    }
    let shown = case.read_hold(hold.id)?;
    ensure_eq!(shown.version, hold.version + 2, "one of them was written");
    ensure_eq!(shown.status, Status::Confirmed, "the first one");
    ensure_eq!(case.hold(report(&hold, decline()))?, shown, "an old report changes nothing");
    case.expect_counters(&item, 3, 0)
}

fn attempts(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (_, hold) = paying(&mut case, "a")?;
    ensure_eq!(hold.details().authorizations, 1, "the first key");
    let silent = case.hold(report(&hold, no_answer()))?;
    ensure_eq!((silent.details().authorizations, charge_of(&silent)?.tries), (1, 1), "the same key");
    let failed = case.hold(report(&silent, ProviderReport::Failed { error: label("http_500") }))?;
    ensure_eq!((failed.details().authorizations, charge_of(&failed)?.tries), (2, 2), "a new key");
    let sold = case.hold(report(&failed, authorized()))?;
    ensure_eq!(charge_of(&sold)?.capture_attempts, 1, "the first key of the capture");
    let silent = case.hold(report(&sold, no_answer()))?;
    ensure_eq!(state_of(&silent)?, (Status::Confirmed, ChargeState::Capturing), "capturing");
    ensure_eq!(silent.order_status(), Some(OrderStatus::Authorized), "the order waits");
    ensure_eq!(charge_of(&silent)?.capture_attempts, 1, "the same key of the capture");
    let failed = case.hold(report(&silent, ProviderReport::Failed { error: label("http_500") }))?;
    ensure_eq!(charge_of(&failed)?.capture_attempts, 2, "a new key of the capture");
    case.world.restart();
    let paid = case.hold(report(&failed, captured(PAID)))?;
    ensure_eq!((charge_of(&paid)?.error.clone(), charge_of(&paid)?.tries), (None, 0), "no failure is left");
    Ok(())
}

fn given_up(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, hold) = paying(&mut case, "a")?;
    let ending = case.hold(step(hold.id, PaymentStep::Cancel))?;
    ensure_eq!(state_of(&ending)?, (Status::Active, ChargeState::Voiding), "the hold waits for the provider");
    ensure_eq!(case.hold(step(hold.id, PaymentStep::Cancel))?, ending, "given up twice");
    case.expect_counters(&item, 0, 3)?;
    case.world.restart();
    let silent = case.hold(report(&ending, no_answer()))?;
    let found = case.hold(report(&silent, authorized()))?;
    ensure_eq!(state_of(&found)?, (Status::Active, ChargeState::Voiding), "it is not sold");
    ensure_eq!(charge_of(&found)?.due_at, Some(case.now()), "and is ended at once");
    let ended = case.hold(report(&found, ProviderReport::Cancelled))?;
    ensure_eq!(state_of(&ended)?, (Status::Cancelled, ChargeState::Voided), "ended");
    let reason = ended.closing.as_ref().and_then(|closing| closing.reason.clone());
    ensure_eq!(reason, Some(label("payment_cancelled")), "why");
    ensure_eq!(case.hold(step(hold.id, PaymentStep::Cancel))?, ended, "given up after the end");
    case.expect_counters(&item, 0, 0)?;
    let (_, sold) = paid(&mut case, "b")?;
    let refused = case.expect_refused(step(sold.id, PaymentStep::Cancel))?;
    ensure_eq!(matches!(refused, Rejection::ReservationConfirmed { .. }), true, "a sale is not given up");
    Ok(())
}

fn money_after_the_end(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, hold) = paying(&mut case, "a")?;
    let ending = case.hold(step(hold.id, PaymentStep::Cancel))?;
    let back = case.hold(report(&ending, captured(PAID)))?;
    ensure_eq!(state_of(&back)?, (Status::Cancelled, ChargeState::Refunding), "goes back");
    let pending: Vec<u64> = charge_of(&back)?.refunds.iter().map(|refund| refund.amount).collect();
    ensure_eq!(pending, [PAID], "all of it");
    case.world.restart();
    let now = case.now();
    ensure_eq!(is_due(&mut case, hold.id, now)?, true, "an obligation after a restart");
    let silent = case.hold(report(&back, no_answer()))?;
    let done = case.hold(report(&silent, ProviderReport::Refunded))?;
    ensure_eq!(state_of(&done)?, (Status::Cancelled, ChargeState::Refunded), "went back");
    ensure_eq!(done.order_status(), None, "no order");
    case.expect_counters(&item, 0, 0)
}

/// A hold under payment that has expired, with the clock at its deadline.
fn lapsed(case: &mut CaseContext<'_>, name: &str) -> Checked<(ItemKey, Hold)> {
    let (item, hold) = paying(case, name)?;
    case.set_clock(hold.expires_at);
    case.sweep()?;
    let shown = case.read_hold(hold.id)?;
    ensure_eq!(state_of(&shown)?, (Status::Expired, ChargeState::Voiding), "expired under payment");
    Ok((item, shown))
}

fn late_money(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for (n, money) in [authorized(), captured(PAID)].into_iter().enumerate() {
        let (item, expired) = lapsed(&mut case, &format!("a{n}"))?;
        case.expect_done(set_stock(&item, 20))?;
        case.world.restart();
        let sold = case.hold(report(&expired, money))?;
        ensure_eq!(sold.status, Status::Confirmed, "sold after all");
        ensure_eq!(sold.details().replaces, Some(expired.id), "in place of the expired one");
        ensure_eq!(sold.order_id(), Some(&charge_of(&expired)?.order_id), "the same order");
        ensure_eq!(sold.price().map(|price| price.amount), Some(PAID), "the old price");
        let old = case.read_hold(expired.id)?;
        ensure_eq!((old.status, old.charge()), (Status::Expired, None), "its payment moved");
        case.expect_counters(&item, 3, 0)?;
        let later = after(case.now(), 3_600 * SECOND);
        for _ in 0..2 {
            ensure_eq!(is_due(&mut case, expired.id, later)?, false, "nothing is left to do for the old one");
            ensure_eq!(is_due(&mut case, sold.id, later)?, n == 0, "the capture is left to do");
            case.world.restart();
        }
    }
    Ok(())
}

fn late_money_with_key(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, expired) = lapsed(&mut case, "a")?;
    case.expect_done(set_stock(&item, 20))?;
    let envelope = case.maker.keyed("k", report(&expired, captured(PAID)));
    let Outcome::Done(_) = case.submit_one(envelope)? else { return Err("not sold".to_owned()) };
    let envelope = case.maker.keyed("k", reserve_for(60, &[(&item, 1)]));
    let Outcome::Done(_) = case.submit_one(envelope)? else { return Err("the key was used".to_owned()) };
    Ok(())
}

fn late_money_goes_back(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for (n, money) in [authorized(), captured(PAID)].into_iter().enumerate() {
        let (item, expired) = lapsed(&mut case, &format!("a{n}"))?;
        let all = case.hold(reserve_for(60, &[(&item, 10)]))?;
        case.hold(confirm(all.id))?;
        let back = case.hold(report(&expired, money))?;
        let expected = if n == 0 { ChargeState::Voiding } else { ChargeState::Refunding };
        ensure_eq!(state_of(&back)?, (Status::Expired, expected), "goes back");
        ensure_eq!(charge_of(&back)?.due_at, Some(case.now()), "at once");
        // What is given back is not sold when units come free later.
        case.hold(return_of(all.id, &[(&item, 10)]))?;
        let done = if n == 0 { ProviderReport::Cancelled } else { ProviderReport::Refunded };
        let done = case.hold(report(&back, done))?;
        let expected = if n == 0 { ChargeState::Voided } else { ChargeState::Refunded };
        ensure_eq!(state_of(&done)?, (Status::Expired, expected), "went back");
        case.expect_counters(&item, 0, 0)?;
    }
    // A caller that paid in another way has the units already.
    let (item, expired) = lapsed(&mut case, "b")?;
    case.hold(confirm_late(expired.id, "by hand"))?;
    let expired = case.read_hold(expired.id)?;
    let back = case.hold(report(&expired, captured(PAID)))?;
    ensure_eq!(state_of(&back)?, (Status::Expired, ChargeState::Refunding), "replaced by the caller");
    case.expect_counters(&item, 3, 0)
}

fn expired(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, hold) = paying(&mut case, "a")?;
    // A report that comes too late meets an expired hold, which gets its units again.
    case.set_clock(hold.expires_at);
    let sold = case.hold(report(&hold, authorized()))?;
    ensure_eq!(sold.details().replaces, Some(hold.id), "expired by the report, and sold again");
    case.expect_counters(&item, 3, 0)?;
    let (item, hold) = paying(&mut case, "b")?;
    case.set_clock(hold.expires_at);
    let ended = case.hold(report(&hold, decline()))?;
    ensure_eq!(state_of(&ended)?, (Status::Expired, ChargeState::Voided), "declined too late");
    ensure_eq!(ended.details().payment.as_ref().map(|one| one.state), Some(PaymentState::Lapsed), "lapsed");
    case.expect_counters(&item, 0, 0)?;
    let (item, hold) = paying(&mut case, "c")?;
    let ending = case.hold(step(hold.id, PaymentStep::Cancel))?;
    case.set_clock(hold.expires_at);
    let back = case.hold(report(&ending, captured(PAID)))?;
    ensure_eq!(state_of(&back)?, (Status::Expired, ChargeState::Refunding), "given up, then expired");
    case.expect_counters(&item, 0, 0)
}

fn capture_fails(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for (n, report_of_failure) in [decline(), ProviderReport::Cancelled].into_iter().enumerate() {
        let (item, hold) = paying(&mut case, &format!("a{n}"))?;
        let sold = case.hold(report(&hold, authorized()))?;
        let undone = case.hold(report(&sold, report_of_failure))?;
        ensure_eq!(state_of(&undone)?, (Status::Confirmed, ChargeState::Voiding), "undone");
        ensure_eq!(undone.order_status(), Some(OrderStatus::Cancelled), "the order");
        ensure_eq!(undone.lines.iter().map(|line| line.returned).collect::<Vec<_>>(), [3], "returned");
        case.expect_counters(&item, 0, 0)?;
        case.world.restart();
        let ended = case.hold(report(&undone, ProviderReport::Cancelled))?;
        ensure_eq!(state_of(&ended)?, (Status::Confirmed, ChargeState::Voided), "ended");
        let expected = ["created", "opened", "advanced", "confirmed", "advanced", "returned", "advanced"];
        ensure_eq!(changes(&mut case, hold.id)?, expected, "the history");
        let refused = case.expect_refused(refund_of(hold.id, RefundSelection::Rest))?;
        ensure_eq!(refused, Rejection::PaymentNotCaptured(hold.id), "no money to give back");
    }
    Ok(())
}

fn same_key(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (_, hold) = held(&mut case, "a")?;
    let envelope = case.maker.keyed("k", checkout(hold.id));
    let again = case.maker.again(&envelope);
    let Outcome::Done(_) = case.submit_one(envelope)? else { return Err("not started".to_owned()) };
    let opened = case.read_hold(hold.id)?;
    let Outcome::Replayed(_) = case.submit_one(again)? else { return Err("not replayed".to_owned()) };
    ensure_eq!(case.read_hold(hold.id)?, opened, "started once");
    let paid = case.hold(report(&opened, captured(PAID)))?;
    let envelope = case.maker.keyed("r", refund_of(paid.id, RefundSelection::Amount(10)));
    let again = case.maker.again(&envelope);
    case.submit_one(envelope)?;
    case.submit_one(again)?;
    let refunds = charge_of(&case.read_hold(hold.id)?)?.refunds.len();
    ensure_eq!(refunds, 1, "refunded once");
    Ok(())
}
