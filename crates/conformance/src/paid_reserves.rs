//! Reserves whose payment the service takes at once.

use super::case_context::{CaseContext, Checked};
use super::checkouts::{PAID, changes, charge_of, is_due, priced, state_of};
use super::{Case, World, case};
use stockhold_domain::{
    CaptureMethod, ChargeState, CheckoutRequest, Command, ItemKey, OnDecline, Outcome, Rejection, Reply,
    Reserve, Status,
};
use stockhold_model::checkout_maker::{authorized, report};
use stockhold_model::checkout_maker::{checkout_terms, set_price};
use stockhold_model::maker::{label, reserve_for, seconds};

pub(super) const CASES: &[Case] =
    &[case("a reserve with a checkout begins its payment in the same commit", reserved_and_paid)];

/// A reserve of three units that is paid at once.
fn reserve_paying(item: &ItemKey) -> Reserve {
    let terms = checkout_terms(CaptureMethod::AfterConfirm, OnDecline::Release);
    let request = CheckoutRequest { order_id: Some(label("order-1")), terms, window: Some(seconds(300)) };
    let Command::Reserve(reserve) = reserve_for(60, &[(item, 3)]) else { unreachable!("a reserve") };
    Reserve { checkout: Some(request.into()), ..reserve }
}

fn reserved_and_paid(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = priced(&mut case, "a", 10)?;
    let envelope = case.maker.keyed("k", Command::Reserve(reserve_paying(&item)));
    let again = case.maker.again(&envelope);
    let Outcome::Done(Reply::Reservation(hold)) = case.submit_one(envelope)? else {
        return Err("not reserved".to_owned());
    };
    ensure_eq!(state_of(&hold)?, (Status::Active, ChargeState::Pending), "being paid");
    ensure_eq!(charge_of(&hold)?.amount, PAID, "for all lines");
    ensure_eq!(changes(&mut case, hold.id)?, ["created", "opened"], "its events");
    let Outcome::Replayed(_) = case.submit_one(again)? else { return Err("not replayed".to_owned()) };
    case.world.restart();
    let now = case.now();
    ensure_eq!(is_due(&mut case, hold.id, now)?, true, "the provider is to be asked");
    let sold = case.hold(report(&hold, authorized()))?;
    ensure_eq!((sold.status, sold.order_id()), (Status::Confirmed, Some(&label("order-1"))), "sold");
    // Without a price nothing is held, and what costs nothing is sold at once.
    let gift = case.create_item("gift", 10)?;
    let refused = case.expect_refused(Command::Reserve(reserve_paying(&gift)))?;
    ensure_eq!(refused, Rejection::PriceMissing(vec![gift.clone()]), "no price");
    case.expect_counters(&gift, 0, 0)?;
    case.expect_done(set_price(&gift, 0))?;
    let free = case.hold(Command::Reserve(reserve_paying(&gift)))?;
    ensure_eq!(state_of(&free)?, (Status::Confirmed, ChargeState::Captured), "free");
    ensure_eq!(changes(&mut case, free.id)?, ["created", "opened", "confirmed"], "events of what is free");
    case.expect_counters(&gift, 3, 0)
}
