//! Idempotency keys: one effect for all repetitions of a request, also over restarts.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use stockhold_domain::{Command, Envelope, Outcome, Rejection, Reply, Status};
use stockhold_model::maker::{
    adjust, confirm, confirm_as, extend, release, reserve, reserve_for, return_of, set_stock,
};

pub(super) const CASES: &[Case] = &[
    case("a retried reserve returns the same reservation, over restarts", reserve_again),
    case("a key that is reused for another request is a mismatch, over restarts", mismatch),
    case("the same key twice in one batch has one effect", together),
    case("a replay shows the reservation as it is now", as_it_is_now),
    case("a retried confirm or release is a replay", confirm_and_release_again),
    case("a retried extension is a replay", extend_again),
    case("a retried return has no second effect", return_again),
    case("a retried adjustment has no second effect", adjust_again),
    case("idempotency keys are scoped to the principal and the command", scoped),
    case("a refused command does not use its key", refused_is_forgotten),
    case("an owner may hold the same item twice", no_uniqueness_without_keys),
    case("a replay is answered before any rule is checked", replay_comes_first),
];

/// Sends a request again with new ids, as a caller does that got no answer.
fn again(case: &mut CaseContext<'_>, envelope: &Envelope) -> Checked<Outcome> {
    let envelope = case.maker.again(envelope);
    case.submit_one(envelope)
}

/// Sends a request for the first time.
fn first(case: &mut CaseContext<'_>, key: &str, command: Command) -> Checked<(Envelope, Reply)> {
    let envelope = case.maker.keyed(key, command);
    match case.submit_one(envelope.clone())? {
        Outcome::Done(reply) => Ok((envelope, reply)),
        other => Err(format!("{:?} was answered with {other:?}", envelope.command)),
    }
}

fn reserve_again(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let (envelope, made) = first(&mut case, "k", reserve(&[(&item, 2)]))?;
    for _ in 0..3 {
        let replay = again(&mut case, &envelope)?;
        ensure_eq!(replay, Outcome::Replayed(made.clone()), "the same reservation, marked as a replay");
        case.expect_counters(&item, 0, 2)?;
        case.world.restart();
        case.advance(SECOND);
    }
    ensure_eq!(case.read_item(&item)?.figures.sequence, 2, "one transition");
    Ok(())
}

fn mismatch(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let (envelope, made) = first(&mut case, "k", reserve(&[(&item, 2)]))?;
    for _ in 0..2 {
        for other in [reserve(&[(&item, 3)]), reserve_for(600, &[(&item, 2)])] {
            let other = case.maker.keyed("k", other);
            let mismatch = Outcome::Refused(Rejection::IdempotencyMismatch);
            ensure_eq!(case.submit_one(other)?, mismatch, "another request");
        }
        ensure_eq!(again(&mut case, &envelope)?, Outcome::Replayed(made.clone()), "the request itself");
        case.expect_counters(&item, 0, 2)?;
        case.world.restart();
    }
    Ok(())
}

fn together(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let one = case.maker.keyed("k", reserve(&[(&item, 1)]));
    let two = case.maker.again(&one);
    let other = case.maker.keyed("k", reserve(&[(&item, 2)]));
    let id = one.fresh.reservation;
    let outcomes = case.submit(vec![one, two, other])?;
    ensure_matches!(
        outcomes.as_slice(),
        [
            Outcome::Done(Reply::Reservation(made)),
            Outcome::Replayed(Reply::Reservation(replayed)),
            Outcome::Refused(Rejection::IdempotencyMismatch),
        ] if made.id == id && made == replayed,
        "one effect"
    );
    case.expect_counters(&item, 0, 1)
}

fn as_it_is_now(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    for (key, status) in [("k1", Status::Confirmed), ("k2", Status::Cancelled), ("k3", Status::Expired)] {
        let (envelope, made) = first(&mut case, key, reserve_for(5, &[(&item, 1)]))?;
        let Reply::Reservation(made) = made else { return Err(format!("no reservation: {made:?}")) };
        match status {
            Status::Confirmed => drop(case.hold(confirm(made.id))?),
            Status::Cancelled => drop(case.hold(release(made.id))?),
            Status::Expired | Status::Active => {
                case.set_clock(made.expires_at);
                case.sweep()?;
            }
        }
        for _ in 0..2 {
            let now = case.read_hold(made.id)?;
            ensure_eq!(now.status, status, "status");
            let replay = again(&mut case, &envelope)?;
            ensure_eq!(replay, Outcome::Replayed(Reply::Reservation(now)), "as it is now");
            case.world.restart();
        }
    }
    case.expect_counters(&item, 1, 0)
}

fn confirm_and_release_again(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let sold = case.hold(reserve(&[(&item, 1)]))?;
    let freed = case.hold(reserve(&[(&item, 1)]))?;
    let (confirmed, sale) = first(&mut case, "k", confirm_as(sold.id, "o1"))?;
    let (released, end) = first(&mut case, "k", release(freed.id))?;
    for _ in 0..2 {
        case.world.restart();
        case.advance(3_600 * SECOND);
        ensure_eq!(again(&mut case, &confirmed)?, Outcome::Replayed(sale.clone()), "the sale");
        ensure_eq!(again(&mut case, &released)?, Outcome::Replayed(end.clone()), "the release");
    }
    let other = case.maker.keyed("k", confirm_as(sold.id, "o2"));
    let mismatch = Outcome::Refused(Rejection::IdempotencyMismatch);
    ensure_eq!(case.submit_one(other)?, mismatch, "another order under the same key");
    // A confirm of a reservation that is confirmed already succeeds, and its key is stored.
    let (late, _) = first(&mut case, "k2", confirm_as(sold.id, "o1"))?;
    ensure_eq!(again(&mut case, &late)?, Outcome::Replayed(sale), "a second key on the same sale");
    case.expect_counters(&item, 1, 0)
}

fn extend_again(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let hold = case.hold(reserve_for(60, &[(&item, 1)]))?;
    let (envelope, made) = first(&mut case, "k", extend(hold.id, 120))?;
    case.advance(30 * SECOND);
    case.world.restart();
    ensure_eq!(again(&mut case, &envelope)?, Outcome::Replayed(made), "the deadline does not move again");
    let other = case.maker.keyed("k", extend(hold.id, 121));
    let mismatch = Outcome::Refused(Rejection::IdempotencyMismatch);
    ensure_eq!(case.submit_one(other)?, mismatch, "another time to live");
    Ok(())
}

fn return_again(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let hold = case.hold(reserve(&[(&item, 4)]))?;
    case.hold(confirm(hold.id))?;
    let (envelope, made) = first(&mut case, "k", return_of(hold.id, &[(&item, 1)]))?;
    for _ in 0..2 {
        case.world.restart();
        ensure_eq!(again(&mut case, &envelope)?, Outcome::Replayed(made.clone()), "one unit came back");
        case.expect_counters(&item, 3, 0)?;
    }
    let other = case.maker.keyed("k", return_of(hold.id, &[(&item, 2)]));
    let mismatch = Outcome::Refused(Rejection::IdempotencyMismatch);
    ensure_eq!(case.submit_one(other)?, mismatch, "two units under the same key");
    first(&mut case, "k2", return_of(hold.id, &[(&item, 1)]))?;
    case.expect_counters(&item, 2, 0)
}

fn adjust_again(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let (envelope, _) = first(&mut case, "k", adjust(&item, 5))?;
    case.hold(reserve(&[(&item, 1)]))?;
    for _ in 0..2 {
        case.world.restart();
        let item = case.read_item(&item)?;
        let replay = Outcome::Replayed(Reply::Item { item: item.clone(), created: false });
        ensure_eq!(again(&mut case, &envelope)?, replay, "the item as it is now");
        ensure_eq!(item.figures.total_units, 15, "total");
    }
    let other = case.maker.keyed("k", adjust(&item, 6));
    let mismatch = Outcome::Refused(Rejection::IdempotencyMismatch);
    ensure_eq!(case.submit_one(other)?, mismatch, "another delta");
    Ok(())
}

fn scoped(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let command = reserve(&[(&item, 1)]);
    for (principal, key) in [("p", "k"), ("q", "k"), ("p", "K"), ("p", "k ")] {
        let envelope = case.maker.keyed_for(principal, key, command.clone());
        ensure_matches!(case.submit_one(envelope)?, Outcome::Done(_), "key {key:?} of {principal}");
    }
    case.expect_counters(&item, 0, 4)?;
    let other = case.hold(reserve(&[(&item, 1)]))?;
    for command in [confirm(other.id), release(other.id)] {
        let envelope = case.maker.keyed_for("p", "k", command);
        let outcome = case.submit_one(envelope)?;
        ensure!(
            outcome != Outcome::Refused(Rejection::IdempotencyMismatch),
            "a reserve's key is not a confirm's or a release's"
        );
    }
    case.expect_status(other.id, Status::Confirmed)
}

fn refused_is_forgotten(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    let envelope = case.maker.keyed("k", reserve(&[(&item, 2)]));
    for _ in 0..2 {
        let refused = again(&mut case, &envelope)?;
        ensure_matches!(refused, Outcome::Refused(Rejection::InsufficientInventory(_)), "two of one");
        case.world.restart();
    }
    // The fingerprint is not kept either, so another request may use the key.
    let other = case.maker.keyed("k2", reserve(&[(&item, 3)]));
    ensure_matches!(case.submit_one(other)?, Outcome::Refused(_), "three of one");
    case.expect_done(set_stock(&item, 2))?;
    ensure_matches!(again(&mut case, &envelope)?, Outcome::Done(_), "stock came back");
    ensure_matches!(again(&mut case, &envelope)?, Outcome::Replayed(_), "now it is remembered");
    case.expect_done(set_stock(&item, 3))?;
    let other = case.maker.keyed("k2", reserve(&[(&item, 1)]));
    ensure_matches!(case.submit_one(other)?, Outcome::Done(_), "the key of a refused request");
    case.expect_counters(&item, 0, 3)
}

fn no_uniqueness_without_keys(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 3)?;
    let command = reserve(&[(&item, 1)]);
    let first = case.hold(command.clone())?;
    let second = case.hold(command.clone())?;
    ensure!(first.id != second.id, "two reservations of one owner");
    for outcome in case.submit_all(vec![command; 2])? {
        ensure_matches!(outcome, Outcome::Done(_) | Outcome::Refused(_), "no replay without a key");
    }
    case.expect_counters(&item, 0, 3)
}

fn replay_comes_first(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    let (envelope, made) = first(&mut case, "k", reserve(&[(&item, 1)]))?;
    let refused = case.expect_refused(reserve(&[(&item, 1)]))?;
    ensure_matches!(refused, Rejection::InsufficientInventory(_), "sold out");
    ensure_eq!(again(&mut case, &envelope)?, Outcome::Replayed(made), "a replay while sold out");
    Ok(())
}
