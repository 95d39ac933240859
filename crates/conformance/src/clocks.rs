//! Clocks that step: time never runs backwards for an item, and nothing expires before its deadline. A store may clamp
//! the clock for each item or for the whole store, so these cases hold for both.

use super::case_context::{CaseContext, Checked, MILLI, SECOND, after, deadline};
use super::{Case, World, case};
use stockhold_domain::{Event, Instant, Rejection, Scope, Status, Transition};
use stockhold_model::maker::{confirm, extend, pause, release, reserve, reserve_for, resume};

pub(super) const CASES: &[Case] = &[
    case("no hold expires early when the clock steps back", back_expires_nothing),
    case("no closed reservation becomes active when the clock steps back", back_revives_nothing),
    case("the instants of an item's events never decrease", no_item_runs_backwards),
    case("a restart with an earlier clock changes nothing", restart_with_an_earlier_clock),
    case("after a clock jumps ahead and back, the later time stays in effect", ahead_and_back),
    case("a pause under an earlier clock has the item's newest instant", paused_later),
    case("an extension under an earlier clock never shortens a hold", extend_under_an_earlier_clock),
];

const HOUR: i64 = 3_600 * SECOND;

fn back_expires_nothing(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    let hold = case.hold(reserve_for(60, &[(&item, 1)]))?;
    for step in [-HOUR, MILLI, -1, HOUR - SECOND, -2 * HOUR] {
        case.advance(step);
        case.sweep()?;
        case.expect_status(hold.id, Status::Active)?;
    }
    let other = case.hold(reserve_for(60, &[(&item, 1)]))?;
    ensure!(other.expires_at >= hold.expires_at, "a later hold of the same length falls due no earlier");
    case.expect_refused(reserve(&[(&item, 1)]))?;
    case.set_clock(after(hold.expires_at, -1));
    case.hold(confirm(hold.id))?;
    case.expect_counters(&item, 1, 1)
}

fn back_revives_nothing(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    let expired = case.hold(reserve_for(60, &[(&item, 1)]))?;
    // The hold is due and not expired yet when the item is changed at a later instant.
    let due = case.hold(reserve_for(60, &[(&item, 1)]))?;
    case.set_clock(expired.expires_at);
    case.hold(release(expired.id))?;
    case.advance(-30 * SECOND);
    for id in [expired.id, due.id] {
        let over = Rejection::ReservationExpired { id, expires_at: expired.expires_at };
        ensure_eq!(case.expect_refused(confirm(id))?, over, "a confirm under an earlier clock");
        case.expect_status(id, Status::Expired)?;
    }
    case.expect_counters(&item, 0, 0)
}

fn no_item_runs_backwards(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    case.advance(HOUR);
    let first = case.hold(reserve_for(600, &[(&item, 1)]))?;
    let mut at = first.terms.created_at;
    for step in [-HOUR, -1, -HOUR, 1] {
        case.advance(step);
        let hold = case.hold(reserve_for(600, &[(&item, 1)]))?;
        ensure!(hold.terms.created_at >= at, "made at {:?}, before {at:?}", hold.terms.created_at);
        ensure_eq!(hold.expires_at, deadline(hold.terms.created_at, 600), "its full time to live");
        let ended = case.hold(confirm(hold.id))?;
        let closed = ended.closing.map(|closing| closing.at);
        ensure!(closed >= Some(hold.terms.created_at), "closed at {closed:?}, before it was made");
        let figures = case.read_item(&item)?.figures;
        ensure!(Some(figures.at) >= closed, "the item's instant ran backwards: {figures:?}");
        at = figures.at;
    }
    Ok(())
}

fn paused_later(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    case.advance(HOUR);
    case.hold(reserve_for(60, &[(&item, 1)]))?;
    let newest = case.read_item(&item)?.figures.at;
    case.advance(-HOUR);
    let scope = Scope::Item(item.clone());
    case.expect_done(pause(&scope))?;
    case.expect_done(resume(&scope))?;
    let ats: Vec<Instant> =
        case.world.events().into_iter().filter_map(|row| sale_at(&row.event, &scope)).collect();
    ensure_eq!(ats.len(), 2, "a pause and its end");
    ensure!(ats.iter().all(|at| *at >= newest), "paused at {ats:?}, before {newest:?}");
    Ok(())
}

/// The time of the event that paused or resumed the sale of this scope.
fn sale_at(event: &Event, of: &Scope) -> Option<Instant> {
    matches!(&event.transition, Transition::Sale { scope, .. } if scope == of).then_some(event.at)
}

fn restart_with_an_earlier_clock(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 3)?;
    let due = case.hold(reserve_for(1, &[(&item, 1)]))?;
    let live = case.hold(reserve_for(600, &[(&item, 1)]))?;
    case.set_clock(due.expires_at);
    case.sweep()?;
    let before = case.read_item(&item)?;
    case.advance(-HOUR);
    case.world.restart();
    ensure_eq!(case.read_item(&item)?, before, "the item after the restart");
    case.sweep()?;
    case.expect_status(due.id, Status::Expired)?;
    case.expect_status(live.id, Status::Active)?;
    let hold = case.hold(reserve_for(600, &[(&item, 1)]))?;
    ensure!(hold.expires_at >= live.expires_at, "a later hold of the same length falls due no earlier");
    ensure!(hold.terms.created_at >= before.figures.at, "made before the item's newest instant");
    case.set_clock(after(hold.expires_at, -1));
    case.hold(confirm(hold.id))?;
    Ok(())
}

fn ahead_and_back(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    let hold = case.hold(reserve_for(60, &[(&item, 1)]))?;
    case.advance(HOUR);
    // The item is changed at the later instant, which is durable. Nobody can know that the clock was wrong.
    case.hold(reserve_for(60, &[(&item, 1)]))?;
    case.advance(-HOUR);
    case.world.restart();
    let over = Rejection::ReservationExpired { id: hold.id, expires_at: hold.expires_at };
    ensure_eq!(case.expect_refused(confirm(hold.id))?, over, "its deadline had passed for the item");
    case.expect_counters(&item, 0, 1)
}

fn extend_under_an_earlier_clock(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    let hold = case.hold(reserve_for(60, &[(&item, 1)]))?;
    case.advance(-HOUR);
    let extended = case.hold(extend(hold.id, 60))?;
    ensure!(extended.expires_at >= hold.expires_at, "shortened to {:?}", extended.expires_at);
    case.advance(-HOUR);
    case.world.restart();
    let extended = case.hold(extend(hold.id, 90))?;
    ensure!(extended.expires_at >= deadline(hold.terms.created_at, 90), "counted from before it was made");
    ensure!(extended.expires_at <= hold.terms.max_expires_at, "past its cap");
    Ok(())
}
