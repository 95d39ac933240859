//! Idempotency keys of the commands that change a reservation, and the order of their refusals.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use stockhold_domain::{
    Amend, Command, Envelope, Hold, ItemKey, Merge, OpenPayment, Outcome, Patch, Precondition, Rejection,
    Reply, ReservationId, Scope, SetStock, Split, Status, Transfer,
};
use stockhold_model::maker::{
    amend, amend_of, close_payment, confirm, confirm_late, extend, fulfil, fulfil_all, label, merge,
    open_payment, pause, release, reserve, reserve_for, resume, seconds, split, stock_of, transfer,
    write_off,
};

pub(super) const CASES: &[Case] = &[
    case("a retried change of a reservation has one effect, over restarts", retried),
    case("the same key twice in one batch changes a reservation once", twice_in_a_batch),
    case("a change that had no effect keeps its key", without_effect),
    case("a refused change does not use its key", refused),
    case("a replay of a change shows the reservation as it is now", as_it_is_now),
    case(
        "a key of another request is a mismatch, after an unknown reservation and before all else",
        mismatch,
    ),
    case("the refusals of a change have a fixed order", order_of_refusals),
    case("the refusals of a payment window have a fixed order", order_of_payment_refusals),
];

/// A command on a reservation, prepared so that it takes effect, and another one that may reuse its key.
struct Change {
    name: &'static str,
    command: Command,
    other: Command,
    /// The reservation that the command is about.
    id: ReservationId,
}

/// One change of every kind, each of a reservation of its own.
fn changes(case: &mut CaseContext<'_>, item: &ItemKey) -> Checked<Vec<Change>> {
    let mut changes = Vec::new();
    let mut add = |name, id, command, other| changes.push(Change { name, command, other, id });
    let active = |case: &mut CaseContext<'_>| case.hold(reserve_for(60, &[(item, 3)])).map(|hold| hold.id);
    let sold = |case: &mut CaseContext<'_>| {
        let id = active(case)?;
        case.hold(confirm(id))?;
        Checked::Ok(id)
    };
    let late = case.hold(reserve_for(1, &[(item, 1)]))?.id;
    case.advance(SECOND);
    let id = active(case)?;
    add("amend", id, amend(id, &[(item, 4)]), amend(id, &[(item, 5)]));
    let id = active(case)?;
    add("transfer", id, transfer(id, &label("ann")), transfer(id, &label("bob")));
    let id = active(case)?;
    add("split", id, split(id, &[(item, 1)]), split(id, &[(item, 2)]));
    let (id, source) = (active(case)?, active(case)?);
    add("merge", id, merge(id, &[source]), merge(id, &[source, id]));
    let id = active(case)?;
    add("open payment", id, open_payment(id, "p", 60), open_payment(id, "p", 61));
    let id = active(case)?;
    case.hold(open_payment(id, "p", 60))?;
    let other = stockhold_domain::ClosePayment { id, payment_id: None, reason: Some(label("declined")) };
    add("close payment", id, close_payment(id), Command::ClosePayment(other));
    let id = sold(case)?;
    add("fulfil", id, fulfil(id, &[(item, 1)]), fulfil_all(id));
    let id = sold(case)?;
    add("return", id, write_off(id, &[(item, 1)]), write_off(id, &[(item, 2)]));
    add("late confirm", late, confirm_late(late, "o1"), confirm_late(late, "o2"));
    Ok(changes)
}

/// Submits a request for the first time.
fn first(case: &mut CaseContext<'_>, envelope: &Envelope) -> Checked<Hold> {
    match case.submit_one(envelope.clone())? {
        Outcome::Done(Reply::Reservation(hold)) => Ok(hold),
        other => Err(format!("{:?} was answered with {other:?}", envelope.command)),
    }
}

/// Submits a request again with new ids.
fn again(case: &mut CaseContext<'_>, envelope: &Envelope) -> Checked<Outcome> {
    let envelope = case.maker.again(envelope);
    case.submit_one(envelope)
}

fn retried(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 100)?;
    for Change { name, command, other, id } in changes(&mut case, &item)? {
        let envelope = case.maker.keyed(name, command);
        let done = first(&mut case, &envelope)?;
        let events = case.event_rows_of(std::slice::from_ref(&item)).len();
        let (shown, figures) = (case.read_hold(id)?, case.read_item(&item)?);
        for _ in 0..3 {
            let replay = Outcome::Replayed(Reply::Reservation(done.clone()));
            ensure_eq!(again(&mut case, &envelope)?, replay, "{name} again");
            let reused = case.maker.keyed(name, other.clone());
            let mismatch = Outcome::Refused(Rejection::IdempotencyMismatch);
            ensure_eq!(case.submit_one(reused)?, mismatch, "another {name} under the same key");
            case.world.restart();
        }
        ensure_eq!(case.read_hold(id)?, shown, "the reservation of {name}");
        ensure_eq!(case.read_item(&item)?, figures, "the item of {name}");
        let found = case.event_rows_of(std::slice::from_ref(&item)).len();
        ensure_eq!(found, events, "the events of {name}");
    }
    Ok(())
}

fn twice_in_a_batch(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 100)?;
    for Change { name, command, other, id } in changes(&mut case, &item)? {
        let version = case.read_hold(id)?.version;
        let one = case.maker.keyed(name, command);
        let two = case.maker.again(&one);
        let three = case.maker.keyed(name, other);
        let outcomes: Vec<_> = case.world.submit_in_order(vec![one, two, three]);
        ensure_matches!(
            outcomes.as_slice(),
            [
                Ok(Outcome::Done(Reply::Reservation(done))),
                Ok(Outcome::Replayed(Reply::Reservation(replayed))),
                Ok(Outcome::Refused(Rejection::IdempotencyMismatch)),
            ] if done == replayed,
            "{name}"
        );
        // The late confirm expires the reservation, if nothing else did, and replaces it.
        let shown = case.read_hold(id)?;
        let transitions = if shown.status == Status::Expired { 2 } else { 1 };
        ensure_eq!(shown.version, version + transitions, "the version after {name}");
    }
    Ok(())
}

fn without_effect(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve_for(60, &[(&item, 2)]))?;
    let id = hold.id;
    let mut envelopes = Vec::new();
    for (n, command) in
        [amend(id, &[(&item, 2)]), transfer(id, &label("owner")), close_payment(id)].into_iter().enumerate()
    {
        let envelope = case.maker.keyed(&format!("k{n}"), command);
        ensure_eq!(first(&mut case, &envelope)?, hold, "a command without effect");
        envelopes.push(envelope);
    }
    // They would have an effect now, or would be refused.
    case.hold(amend(id, &[(&item, 5)]))?;
    case.hold(transfer(id, &label("ann")))?;
    let opened = case.hold(open_payment(id, "p", 60))?;
    for _ in 0..2 {
        for envelope in &envelopes {
            let replay = Outcome::Replayed(Reply::Reservation(opened.clone()));
            ensure_eq!(again(&mut case, envelope)?, replay, "{:?}", envelope.command);
        }
        case.world.restart();
    }
    ensure_eq!(case.read_hold(id)?, opened, "as it was");
    Ok(())
}

fn refused(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let changes = changes_refused(&mut case, &item)?;
    for (name, command, allow) in changes {
        let envelope = case.maker.keyed(name, command);
        for _ in 0..2 {
            let outcome = again(&mut case, &envelope)?;
            ensure_matches!(outcome, Outcome::Refused(_), "{name} at first");
            case.world.restart();
        }
        case.expect_done(allow)?;
        ensure_matches!(again(&mut case, &envelope)?, Outcome::Done(_), "{name} when it is possible");
        ensure_matches!(again(&mut case, &envelope)?, Outcome::Replayed(_), "{name} once more");
    }
    Ok(())
}

/// Changes that are refused, each with the command that makes it possible.
fn changes_refused(
    case: &mut CaseContext<'_>,
    item: &ItemKey,
) -> Checked<Vec<(&'static str, Command, Command)>> {
    let hold = case.hold(reserve(&[(item, 1)]))?.id;
    let paying = case.hold(reserve(&[(item, 1)]))?.id;
    case.hold(open_payment(paying, "p", 600))?;
    let unpaid = case.hold(reserve(&[(item, 3)]))?.id;
    let more = SetStock { total_units: Some(20), ..stock_of(item, 20) };
    Ok(vec![
        ("amend", amend(hold, &[(item, 9)]), Command::SetStock(more)),
        ("merge", merge(hold, &[paying]), close_payment(paying)),
        ("split", split(unpaid, &[(item, 3)]), amend(unpaid, &[(item, 4)])),
        ("fulfil", fulfil_all(unpaid), confirm(unpaid)),
    ])
}

fn as_it_is_now(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve_for(60, &[(&item, 3)]))?;
    let cut = case.maker.keyed("split", split(hold.id, &[(&item, 1)]));
    let part = first(&mut case, &cut)?;
    let amended = case.maker.keyed("amend", amend(hold.id, &[(&item, 4)]));
    first(&mut case, &amended)?;
    let moved = case.hold(transfer(hold.id, &label("ann")))?;
    let sold = case.hold(confirm(part.id))?;
    for _ in 0..2 {
        let replay = Outcome::Replayed(Reply::Reservation(sold.clone()));
        ensure_eq!(again(&mut case, &cut)?, replay, "the part as it is now");
        let replay = Outcome::Replayed(Reply::Reservation(moved.clone()));
        ensure_eq!(again(&mut case, &amended)?, replay, "the reservation as it is now");
        case.world.restart();
    }
    case.set_clock(hold.expires_at);
    case.sweep()?;
    case.world.restart();
    let outcome = again(&mut case, &amended)?;
    ensure_matches!(
        outcome,
        Outcome::Replayed(Reply::Reservation(hold)) if hold.status == Status::Expired,
        "after its end"
    );
    Ok(())
}

fn mismatch(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve(&[(&item, 1)]))?;
    let ended = case.hold(reserve(&[(&item, 1)]))?;
    case.hold(release(ended.id))?;
    let envelope = case.maker.keyed("k", amend(hold.id, &[(&item, 2)]));
    let done = first(&mut case, &envelope)?;
    let nobody = case.maker.no_reservation();
    for _ in 0..2 {
        let stale = Amend { expected: Some(Precondition::version(9)), ..amend_of(hold.id, &[(&item, 2)]) };
        for (command, refusal) in [
            (amend(nobody, &[(&item, 2)]), Rejection::UnknownReservation(nobody)),
            (Command::Amend(stale), Rejection::IdempotencyMismatch),
            (amend(ended.id, &[(&item, 2)]), Rejection::IdempotencyMismatch),
        ] {
            let reused = case.maker.keyed("k", command);
            ensure_eq!(case.submit_one(reused)?, Outcome::Refused(refusal), "another request");
        }
        let replay = Outcome::Replayed(Reply::Reservation(done.clone()));
        ensure_eq!(again(&mut case, &envelope)?, replay, "the request itself");
        case.world.restart();
    }
    case.expect_counters(&item, 0, 2)
}

fn order_of_refusals(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    let max_hold = Patch::Set(seconds(60));
    case.expect_done(Command::SetStock(SetStock { max_hold, ..stock_of(&item, 3) }))?;
    // A hold at its latest deadline under a payment, which falls short of what is asked for during a pause.
    let hold = case.hold(reserve_for(60, &[(&item, 2)]))?;
    let opened = case.hold(open_payment(hold.id, "p", 30))?;
    let scope = Scope::Item(item.clone());
    case.expect_done(pause(&scope))?;
    let ask = |id, version| {
        Command::Amend(Amend {
            ttl: Some(seconds(30)),
            expected: Some(Precondition::version(version)),
            ..amend_of(id, &[(&item, 9)])
        })
    };
    let nobody = case.maker.no_reservation();
    let unknown = Rejection::UnknownReservation(nobody);
    ensure_eq!(case.expect_refused(ask(nobody, 1))?, unknown, "no reservation");
    let stale = Rejection::PreconditionFailed { version: Some(2) };
    ensure_eq!(case.expect_refused(ask(hold.id, 1))?, stale, "another version");
    let paying = Rejection::PaymentInProgress {
        id: hold.id,
        payment_id: label("p"),
        until: opened.details().payment.as_ref().map_or(hold.expires_at, |payment| payment.until),
    };
    ensure_eq!(case.expect_refused(ask(hold.id, 2))?, paying, "a payment");
    ensure_eq!(case.expect_refused(extend(hold.id, 60))?, paying, "a payment before the limit");
    case.hold(close_payment(hold.id))?;
    let max_expires_at = hold.terms.max_expires_at;
    let limit = Rejection::ExtensionLimit { max_expires_at };
    ensure_eq!(case.expect_refused(ask(hold.id, 3))?, limit, "the limit of the deadline");
    let lines_only = amend(hold.id, &[(&item, 9)]);
    ensure_eq!(case.expect_refused(lines_only.clone())?, Rejection::SalePaused(scope.clone()), "a pause");
    case.expect_done(resume(&scope))?;
    let short = case.expect_refused(lines_only)?;
    ensure_matches!(short, Rejection::InsufficientInventory(short) if short[0].available == 3, "stock");
    case.hold(release(hold.id))?;
    case.world.restart();
    let stale = Rejection::PreconditionFailed { version: Some(4) };
    ensure_eq!(case.expect_refused(ask(hold.id, 3))?, stale, "another version after the end");
    let over = Rejection::ReservationCancelled(hold.id);
    ensure_eq!(case.expect_refused(ask(hold.id, 4))?, over, "the end");
    // The form comes first of all.
    let expected = Some(Precondition::version(1));
    let nothing = Transfer {
        override_limits: false,
        id: nobody,
        owner_id: None,
        customer_id: Patch::Keep,
        session_id: Patch::Keep,
        expected: expected.clone(),
    };
    let merged =
        Merge { override_limits: false, id: nobody, from: [nobody].into(), expected: expected.clone() };
    for command in [Command::Transfer(nothing), Command::Merge(merged)] {
        let refused = case.expect_refused(command)?;
        ensure_matches!(refused, Rejection::InvalidRequest(_), "the form");
    }
    let Command::Split(all) = split(hold.id, &[(&item, 2)]) else { unreachable!("a split") };
    ensure_eq!(
        case.expect_refused(Command::Split(Split { expected, ..all }))?,
        stale,
        "a split of another version after the end"
    );
    Ok(())
}

fn order_of_payment_refusals(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 3)?;
    let hold = case.hold(reserve_for(60, &[(&item, 2)]))?;
    let opened = case.hold(open_payment(hold.id, "p", 30))?;
    let until = opened.details().payment.as_ref().map_or(hold.expires_at, |payment| payment.until);
    let ask = |payment: &str, version| {
        Command::OpenPayment(OpenPayment {
            id: hold.id,
            payment_id: label(payment),
            window: Some(seconds(604_800)),
            expected: Some(Precondition::version(version)),
        })
    };
    let stale = Rejection::PreconditionFailed { version: Some(2) };
    ensure_eq!(case.expect_refused(ask("q", 1))?, stale, "another version");
    let paying = Rejection::PaymentInProgress { id: hold.id, payment_id: label("p"), until };
    ensure_eq!(case.expect_refused(ask("q", 2))?, paying, "another payment");
    let limit = case.expect_refused(ask("p", 2))?;
    ensure_matches!(limit, Rejection::ExtensionLimit { .. }, "the limit of the window");
    case.hold(confirm(hold.id))?;
    case.world.restart();
    let stale = Rejection::PreconditionFailed { version: Some(3) };
    ensure_eq!(case.expect_refused(ask("q", 2))?, stale, "another version after the end");
    let payment_id = Some(label("p"));
    let sold = Rejection::ReservationConfirmed { id: hold.id, order_id: None, payment_id };
    ensure_eq!(case.expect_refused(ask("q", 3))?, sold, "the end");
    Ok(())
}
