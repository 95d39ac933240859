//! Idempotency keys: one effect however often a request comes, over restarts too.

use super::case_context::{CaseContext, Checked, SECOND};
use super::maker::{
    adjust, confirm, confirm_as, extend, release, reserve, reserve_for, return_of, set_stock,
};
use super::{Case, World, case};
use stockhold_domain::{Command, Envelope, Outcome, Rejection, Reply, Status};

pub(super) const CASES: &[Case] = &[
    case("a reserve sent again is the same reservation, over restarts", reserve_again),
    case("a key with another request is a mismatch, over restarts", mismatch),
    case("the same key twice in one batch has one effect", together),
    case("a replay shows the reservation as it is now", as_it_is_now),
    case("a confirm and a release sent again are replays", confirm_and_release_again),
    case("an extension sent again is a replay", extend_again),
    case("a return sent again takes nothing back twice", return_again),
    case("an adjustment sent again moves nothing twice", adjust_again),
    case("keys are scoped to the principal and the command", scoped),
    case("a refusal is not remembered", refused_is_forgotten),
    case("an owner may hold the same item twice", no_uniqueness_without_keys),
    case("a replay is answered before any rule is asked", replay_comes_first),
];

/// Sends a request once more, with fresh ids, as a caller does that saw no answer.
fn again(stage: &mut CaseContext<'_>, envelope: &Envelope) -> Checked<Outcome> {
    let envelope = stage.maker.again(envelope);
    stage.send(envelope)
}

/// Sends a request for the first time.
fn first(stage: &mut CaseContext<'_>, key: &str, command: Command) -> Checked<(Envelope, Reply)> {
    let envelope = stage.maker.keyed(key, command);
    match stage.send(envelope.clone())? {
        Outcome::Done(reply) => Ok((envelope, reply)),
        other => Err(format!("{:?} was answered with {other:?}", envelope.command)),
    }
}

fn reserve_again(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    let (envelope, made) = first(&mut stage, "k", reserve(&[(&item, 2)]))?;
    for _ in 0..3 {
        let replay = again(&mut stage, &envelope)?;
        ensure_eq!(replay, Outcome::Replayed(made.clone()), "the same reservation, marked as a replay");
        stage.expect_books(&item, 0, 2)?;
        stage.world.restart();
        stage.pass(SECOND);
    }
    ensure_eq!(stage.shown(&item)?.figures.sequence, 2, "one transition");
    Ok(())
}

fn mismatch(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    let (envelope, made) = first(&mut stage, "k", reserve(&[(&item, 2)]))?;
    for _ in 0..2 {
        for other in [reserve(&[(&item, 3)]), reserve_for(600, &[(&item, 2)])] {
            let other = stage.maker.keyed("k", other);
            let mismatch = Outcome::Refused(Rejection::IdempotencyMismatch);
            ensure_eq!(stage.send(other)?, mismatch, "another request");
        }
        ensure_eq!(again(&mut stage, &envelope)?, Outcome::Replayed(made.clone()), "the request itself");
        stage.expect_books(&item, 0, 2)?;
        stage.world.restart();
    }
    Ok(())
}

fn together(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    let one = stage.maker.keyed("k", reserve(&[(&item, 1)]));
    let two = stage.maker.again(&one);
    let other = stage.maker.keyed("k", reserve(&[(&item, 2)]));
    let id = one.fresh.reservation;
    let outcomes = stage.together(vec![one, two, other])?;
    ensure_matches!(
        outcomes.as_slice(),
        [
            Outcome::Done(Reply::Reservation(made)),
            Outcome::Replayed(Reply::Reservation(replayed)),
            Outcome::Refused(Rejection::IdempotencyMismatch),
        ] if made.id == id && made == replayed,
        "one effect"
    );
    stage.expect_books(&item, 0, 1)
}

fn as_it_is_now(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    for (key, status) in [("k1", Status::Confirmed), ("k2", Status::Cancelled), ("k3", Status::Expired)] {
        let (envelope, made) = first(&mut stage, key, reserve_for(5, &[(&item, 1)]))?;
        let Reply::Reservation(made) = made else { return Err(format!("no reservation: {made:?}")) };
        match status {
            Status::Confirmed => drop(stage.hold(confirm(made.id))?),
            Status::Cancelled => drop(stage.hold(release(made.id))?),
            Status::Expired | Status::Active => {
                stage.at(made.expires_at);
                stage.sweep()?;
            }
        }
        for _ in 0..2 {
            let now = stage.kept(made.id)?;
            ensure_eq!(now.status, status, "status");
            let replay = again(&mut stage, &envelope)?;
            ensure_eq!(replay, Outcome::Replayed(Reply::Reservation(now)), "as it is now");
            stage.world.restart();
        }
    }
    stage.expect_books(&item, 1, 0)
}

fn confirm_and_release_again(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    let sold = stage.hold(reserve(&[(&item, 1)]))?;
    let freed = stage.hold(reserve(&[(&item, 1)]))?;
    let (confirmed, sale) = first(&mut stage, "k", confirm_as(sold.id, "o1"))?;
    let (released, end) = first(&mut stage, "k", release(freed.id))?;
    for _ in 0..2 {
        stage.world.restart();
        stage.pass(3_600 * SECOND);
        ensure_eq!(again(&mut stage, &confirmed)?, Outcome::Replayed(sale.clone()), "the sale");
        ensure_eq!(again(&mut stage, &released)?, Outcome::Replayed(end.clone()), "the release");
    }
    let other = stage.maker.keyed("k", confirm_as(sold.id, "o2"));
    let mismatch = Outcome::Refused(Rejection::IdempotencyMismatch);
    ensure_eq!(stage.send(other)?, mismatch, "another order under the same key");
    // A confirm that finds its work done is done all the same, and so is its key.
    let (late, _) = first(&mut stage, "k2", confirm_as(sold.id, "o1"))?;
    ensure_eq!(again(&mut stage, &late)?, Outcome::Replayed(sale), "a second key on the same sale");
    stage.expect_books(&item, 1, 0)
}

fn extend_again(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    let hold = stage.hold(reserve_for(60, &[(&item, 1)]))?;
    let (envelope, made) = first(&mut stage, "k", extend(hold.id, 120))?;
    stage.pass(30 * SECOND);
    stage.world.restart();
    ensure_eq!(again(&mut stage, &envelope)?, Outcome::Replayed(made), "the deadline does not move again");
    let other = stage.maker.keyed("k", extend(hold.id, 121));
    let mismatch = Outcome::Refused(Rejection::IdempotencyMismatch);
    ensure_eq!(stage.send(other)?, mismatch, "another time to live");
    Ok(())
}

fn return_again(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    let hold = stage.hold(reserve(&[(&item, 4)]))?;
    stage.hold(confirm(hold.id))?;
    let (envelope, made) = first(&mut stage, "k", return_of(hold.id, &[(&item, 1)]))?;
    for _ in 0..2 {
        stage.world.restart();
        ensure_eq!(again(&mut stage, &envelope)?, Outcome::Replayed(made.clone()), "one unit came back");
        stage.expect_books(&item, 3, 0)?;
    }
    let other = stage.maker.keyed("k", return_of(hold.id, &[(&item, 2)]));
    let mismatch = Outcome::Refused(Rejection::IdempotencyMismatch);
    ensure_eq!(stage.send(other)?, mismatch, "two units under the same key");
    first(&mut stage, "k2", return_of(hold.id, &[(&item, 1)]))?;
    stage.expect_books(&item, 2, 0)
}

fn adjust_again(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    let (envelope, _) = first(&mut stage, "k", adjust(&item, 5))?;
    stage.hold(reserve(&[(&item, 1)]))?;
    for _ in 0..2 {
        stage.world.restart();
        let item = stage.shown(&item)?;
        let replay = Outcome::Replayed(Reply::Item { item: item.clone(), created: false });
        ensure_eq!(again(&mut stage, &envelope)?, replay, "the item as it is now");
        ensure_eq!(item.figures.total_units, 15, "total");
    }
    let other = stage.maker.keyed("k", adjust(&item, 6));
    let mismatch = Outcome::Refused(Rejection::IdempotencyMismatch);
    ensure_eq!(stage.send(other)?, mismatch, "another delta");
    Ok(())
}

fn scoped(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    let command = reserve(&[(&item, 1)]);
    for (principal, key) in [("p", "k"), ("q", "k"), ("p", "K"), ("p", "k ")] {
        let envelope = stage.maker.keyed_for(principal, key, command.clone());
        ensure_matches!(stage.send(envelope)?, Outcome::Done(_), "key {key:?} of {principal}");
    }
    stage.expect_books(&item, 0, 4)?;
    let other = stage.hold(reserve(&[(&item, 1)]))?;
    for command in [confirm(other.id), release(other.id)] {
        let envelope = stage.maker.keyed_for("p", "k", command);
        let outcome = stage.send(envelope)?;
        ensure!(
            outcome != Outcome::Refused(Rejection::IdempotencyMismatch),
            "a reserve's key is not a confirm's or a release's"
        );
    }
    stage.expect_status(other.id, Status::Confirmed)
}

fn refused_is_forgotten(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 1)?;
    let envelope = stage.maker.keyed("k", reserve(&[(&item, 2)]));
    for _ in 0..2 {
        let refused = again(&mut stage, &envelope)?;
        ensure_matches!(refused, Outcome::Refused(Rejection::InsufficientInventory(_)), "two of one");
        stage.world.restart();
    }
    // Not even the fingerprint is kept: another request may take the key.
    let other = stage.maker.keyed("k2", reserve(&[(&item, 3)]));
    ensure_matches!(stage.send(other)?, Outcome::Refused(_), "three of one");
    stage.done(set_stock(&item, 2))?;
    ensure_matches!(again(&mut stage, &envelope)?, Outcome::Done(_), "stock came back");
    ensure_matches!(again(&mut stage, &envelope)?, Outcome::Replayed(_), "now it is remembered");
    stage.done(set_stock(&item, 3))?;
    let other = stage.maker.keyed("k2", reserve(&[(&item, 1)]));
    ensure_matches!(stage.send(other)?, Outcome::Done(_), "the key of a refused request");
    stage.expect_books(&item, 0, 3)
}

fn no_uniqueness_without_keys(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 3)?;
    let command = reserve(&[(&item, 1)]);
    let first = stage.hold(command.clone())?;
    let second = stage.hold(command.clone())?;
    ensure!(first.id != second.id, "two reservations of one owner");
    for outcome in stage.all(vec![command; 2])? {
        ensure_matches!(outcome, Outcome::Done(_) | Outcome::Refused(_), "no replay without a key");
    }
    stage.expect_books(&item, 0, 3)
}

fn replay_comes_first(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 1)?;
    let (envelope, made) = first(&mut stage, "k", reserve(&[(&item, 1)]))?;
    let refused = stage.refused(reserve(&[(&item, 1)]))?;
    ensure_matches!(refused, Rejection::InsufficientInventory(_), "sold out");
    ensure_eq!(again(&mut stage, &envelope)?, Outcome::Replayed(made), "a replay while sold out");
    Ok(())
}
