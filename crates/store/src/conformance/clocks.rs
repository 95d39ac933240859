//! Clocks that step: time never runs backwards for an item, and nothing expires before its deadline. Whether the floor is
//! the item's or the whole store's is the store's to choose, so these cases hold for both.

use super::case_context::{CaseContext, Checked, MILLI, SECOND, after, deadline};
use super::maker::{confirm, extend, pause, release, reserve, reserve_for, resume};
use super::{Case, World, case};
use stockhold_domain::{Event, Instant, Rejection, Scope, Status, Transition};

pub(super) const CASES: &[Case] = &[
    case("a clock that steps back expires nothing early", back_expires_nothing),
    case("a clock that steps back revives nothing", back_revives_nothing),
    case("time never runs backwards for an item", no_item_runs_backwards),
    case("a restart with an earlier clock changes nothing", restart_with_an_earlier_clock),
    case("a clock that jumps ahead and back again counts as having been ahead", ahead_and_back),
    case("the pause of an item under an earlier clock counts as the item's newest instant", paused_later),
    case("an extension under a clock that stepped back never shortens", extend_under_an_earlier_clock),
];

const HOUR: i64 = 3_600 * SECOND;

fn back_expires_nothing(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 2)?;
    let hold = stage.hold(reserve_for(60, &[(&item, 1)]))?;
    for step in [-HOUR, MILLI, -1, HOUR - SECOND, -2 * HOUR] {
        stage.pass(step);
        stage.sweep()?;
        stage.expect_status(hold.id, Status::Active)?;
    }
    let other = stage.hold(reserve_for(60, &[(&item, 1)]))?;
    ensure!(other.expires_at >= hold.expires_at, "a later hold of the same length falls due no earlier");
    stage.refused(reserve(&[(&item, 1)]))?;
    stage.at(after(hold.expires_at, -1));
    stage.hold(confirm(hold.id))?;
    stage.expect_books(&item, 1, 1)
}

fn back_revives_nothing(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 2)?;
    let expired = stage.hold(reserve_for(60, &[(&item, 1)]))?;
    // Due, but nobody has said so yet, when the item moves on at a later instant.
    let due = stage.hold(reserve_for(60, &[(&item, 1)]))?;
    stage.at(expired.expires_at);
    stage.hold(release(expired.id))?;
    stage.pass(-30 * SECOND);
    for id in [expired.id, due.id] {
        let over = Rejection::ReservationExpired { id, expires_at: expired.expires_at };
        ensure_eq!(stage.refused(confirm(id))?, over, "a confirm under an earlier clock");
        stage.expect_status(id, Status::Expired)?;
    }
    stage.expect_books(&item, 0, 0)
}

fn no_item_runs_backwards(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    stage.pass(HOUR);
    let first = stage.hold(reserve_for(600, &[(&item, 1)]))?;
    let mut at = first.terms.created_at;
    for step in [-HOUR, -1, -HOUR, 1] {
        stage.pass(step);
        let hold = stage.hold(reserve_for(600, &[(&item, 1)]))?;
        ensure!(hold.terms.created_at >= at, "made at {:?}, before {at:?}", hold.terms.created_at);
        ensure_eq!(hold.expires_at, deadline(hold.terms.created_at, 600), "its full time to live");
        let ended = stage.hold(confirm(hold.id))?;
        let closed = ended.closing.map(|closing| closing.at);
        ensure!(closed >= Some(hold.terms.created_at), "closed at {closed:?}, before it was made");
        let figures = stage.shown(&item)?.figures;
        ensure!(Some(figures.at) >= closed, "the item's instant ran backwards: {figures:?}");
        at = figures.at;
    }
    Ok(())
}

fn paused_later(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 2)?;
    stage.pass(HOUR);
    stage.hold(reserve_for(60, &[(&item, 1)]))?;
    let newest = stage.shown(&item)?.figures.at;
    stage.pass(-HOUR);
    let scope = Scope::Item(item.clone());
    stage.done(pause(&scope))?;
    stage.done(resume(&scope))?;
    let ats: Vec<Instant> =
        stage.world.events().into_iter().filter_map(|row| sale_at(&row.event, &scope)).collect();
    ensure_eq!(ats.len(), 2, "a pause and its end");
    ensure!(ats.iter().all(|at| *at >= newest), "paused at {ats:?}, before {newest:?}");
    Ok(())
}

/// When an event paused or resumed the sale of this.
fn sale_at(event: &Event, of: &Scope) -> Option<Instant> {
    matches!(&event.transition, Transition::Sale { scope, .. } if scope == of).then_some(event.at)
}

fn restart_with_an_earlier_clock(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 3)?;
    let due = stage.hold(reserve_for(1, &[(&item, 1)]))?;
    let live = stage.hold(reserve_for(600, &[(&item, 1)]))?;
    stage.at(due.expires_at);
    stage.sweep()?;
    let before = stage.shown(&item)?;
    stage.pass(-HOUR);
    stage.world.restart();
    ensure_eq!(stage.shown(&item)?, before, "the item after the restart");
    stage.sweep()?;
    stage.expect_status(due.id, Status::Expired)?;
    stage.expect_status(live.id, Status::Active)?;
    let hold = stage.hold(reserve_for(600, &[(&item, 1)]))?;
    ensure!(hold.expires_at >= live.expires_at, "a later hold of the same length falls due no earlier");
    ensure!(hold.terms.created_at >= before.figures.at, "made before the item's newest instant");
    stage.at(after(hold.expires_at, -1));
    stage.hold(confirm(hold.id))?;
    Ok(())
}

fn ahead_and_back(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 2)?;
    let hold = stage.hold(reserve_for(60, &[(&item, 1)]))?;
    stage.pass(HOUR);
    // The item moves on at the later instant, which is durable; that the clock was wrong can't be known.
    stage.hold(reserve_for(60, &[(&item, 1)]))?;
    stage.pass(-HOUR);
    stage.world.restart();
    let over = Rejection::ReservationExpired { id: hold.id, expires_at: hold.expires_at };
    ensure_eq!(stage.refused(confirm(hold.id))?, over, "its deadline had passed for the item");
    stage.expect_books(&item, 0, 1)
}

fn extend_under_an_earlier_clock(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 2)?;
    let hold = stage.hold(reserve_for(60, &[(&item, 1)]))?;
    stage.pass(-HOUR);
    let extended = stage.hold(extend(hold.id, 60))?;
    ensure!(extended.expires_at >= hold.expires_at, "shortened to {:?}", extended.expires_at);
    stage.pass(-HOUR);
    stage.world.restart();
    let extended = stage.hold(extend(hold.id, 90))?;
    ensure!(extended.expires_at >= deadline(hold.terms.created_at, 90), "counted from before it was made");
    ensure!(extended.expires_at <= hold.terms.max_expires_at, "past its cap");
    Ok(())
}
