//! Confirm, release, extension and expiry around a deadline: a hold is live while now is before it, and due at equality.

use super::case_context::{CaseContext, Checked, MILLI, SECOND, after};
use super::maker::{confirm, extend, release, reserve, reserve_for, reserve_partial};
use super::{Case, World, case};
use stockhold_domain::{Command, Hold, ItemKey, Outcome, Rejection, Shortage, Status};

pub(super) const CASES: &[Case] = &[
    case("confirm succeeds before the deadline and never at or after it", confirm_at_the_edge),
    case("release succeeds on both sides of the deadline and gives back once", release_at_the_edge),
    case("extend succeeds before the deadline and never at or after it", extend_at_the_edge),
    case("a reserve takes a unit over at the deadline and never before it", reserve_at_the_edge),
    case("confirm, release and sweep together: one wins", all_at_the_edge),
    case("terminal states stay", terminal_states),
    case("expiry is a committed transition, not a predicate", committed_transition),
    case("a reserve expires no more than it needs, earliest first", no_more_than_needed),
    case("a reserve that fits expires nothing", fits_without),
    case("a refused reserve leaves nothing due on its items", refusal_leaves_nothing_due),
    case("a hold that falls due during a reserve frees all of its items", whole_holds),
    case("confirm and release expire their own hold and no other", own_hold_only),
    case("a sweep expires what is due and nothing else", sweep_what_is_due),
];

/// Microseconds from the deadline.
const EDGES: [i64; 5] = [-MILLI, -1, 0, 1, MILLI];

/// A single unit that is held, with the clock at an edge of its deadline. The clock has microseconds, so that the
/// deadline is rounded.
fn edge(stage: &mut CaseContext<'_>, name: &str, edge: i64) -> Checked<(ItemKey, Hold)> {
    stage.pass(SECOND + 7);
    let item = stage.stocked(name, 1)?;
    let hold = stage.hold(reserve_for(5, &[(&item, 1)]))?;
    stage.at(after(hold.expires_at, edge));
    Ok((item, hold))
}

fn expired(hold: &Hold) -> Rejection {
    Rejection::ReservationExpired { id: hold.id, expires_at: hold.expires_at }
}

fn confirm_at_the_edge(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut stage, &format!("a{offset}"), offset)?;
        if offset < 0 {
            let sold = stage.hold(confirm(hold.id))?;
            ensure_eq!(sold.status, Status::Confirmed, "at {offset} µs");
            ensure_eq!(sold.closing.map(|c| c.at), Some(stage.now()), "closed at");
            stage.expect_books(&item, 1, 0)?;
        } else {
            ensure_eq!(stage.refused(confirm(hold.id))?, expired(&hold), "at {offset} µs");
            stage.expect_status(hold.id, Status::Expired)?;
            stage.expect_books(&item, 0, 0)?;
        }
        stage.world.restart();
        let figures = stage.shown(&item)?.figures;
        ensure_eq!((figures.active, figures.sequence), (0, 3), "active and sequence at {offset} µs");
    }
    Ok(())
}

fn release_at_the_edge(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut stage, &format!("a{offset}"), offset)?;
        let expected = if offset < 0 { Status::Cancelled } else { Status::Expired };
        for _ in 0..2 {
            ensure_eq!(stage.hold(release(hold.id))?.status, expected, "at {offset} µs");
            ensure_eq!(stage.shown(&item)?.figures.sequence, 3, "given back once at {offset} µs");
        }
        stage.expect_books(&item, 0, 0)?;
        let over = if offset < 0 { Rejection::ReservationCancelled(hold.id) } else { expired(&hold) };
        ensure_eq!(stage.refused(confirm(hold.id))?, over, "confirm after the end at {offset} µs");
    }
    Ok(())
}

fn extend_at_the_edge(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut stage, &format!("a{offset}"), offset)?;
        if offset < 0 {
            let extended = stage.hold(extend(hold.id, 5))?;
            ensure!(extended.expires_at > hold.expires_at, "the deadline moved on at {offset} µs");
            stage.at(after(extended.expires_at, -1));
            stage.hold(confirm(hold.id))?;
            stage.expect_books(&item, 1, 0)?;
        } else {
            ensure_eq!(stage.refused(extend(hold.id, 5))?, expired(&hold), "at {offset} µs");
            stage.expect_books(&item, 0, 0)?;
        }
    }
    Ok(())
}

fn reserve_at_the_edge(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut stage, &format!("a{offset}"), offset)?;
        if offset < 0 {
            let next_expiry_at = Some(hold.expires_at);
            let short = Shortage { item: item.clone(), requested: 1, available: 0, next_expiry_at };
            let refused = stage.refused(reserve(&[(&item, 1)]))?;
            ensure_eq!(refused, Rejection::InsufficientInventory(vec![short]), "at {offset} µs");
            stage.expect_status(hold.id, Status::Active)?;
        } else {
            let next = stage.hold(reserve(&[(&item, 1)]))?;
            stage.expect_status(hold.id, Status::Expired)?;
            ensure_eq!(stage.refused(confirm(hold.id))?, expired(&hold), "the late confirm at {offset} µs");
            stage.expect_status(next.id, Status::Active)?;
        }
        stage.expect_books(&item, 0, 1)?;
    }
    Ok(())
}

fn all_at_the_edge(world: &mut dyn World) -> Checked {
    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let mut stage = CaseContext::new(world);
    for (n, order) in ORDERS.iter().enumerate() {
        for offset in EDGES {
            let (item, hold) = edge(&mut stage, &format!("a{n}{offset}"), offset)?;
            let commands = [confirm(hold.id), release(hold.id), Command::Sweep];
            let outcomes = stage.all(order.iter().map(|which| commands[*which].clone()).collect())?;
            let answer = |which: usize| order.iter().position(|o| *o == which).map(|at| &outcomes[at]);
            let confirmed = matches!(answer(0), Some(Outcome::Done(_)));
            let released = matches!(answer(1), Some(Outcome::Done(_)));
            let ended = stage.kept(hold.id)?;
            let at = format!("order {order:?} at {offset} µs");
            // Commands of one caller are decided in the order given, so the first of the two wins while there is time.
            let confirm_first = order.iter().position(|o| *o == 0) < order.iter().position(|o| *o == 1);
            let expected = match (offset < 0, confirm_first) {
                (true, true) => (Status::Confirmed, true, false),
                (true, false) => (Status::Cancelled, false, true),
                (false, _) => (Status::Expired, false, true),
            };
            ensure_eq!((ended.status, confirmed, released), expected, "{at}");
            stage.expect_books(&item, u64::from(confirmed), 0)?;
            ensure_eq!(stage.shown(&item)?.figures.sequence, 3, "one transition ended it, {at}");
        }
    }
    Ok(())
}

fn terminal_states(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    let mut ended = Vec::new();
    for status in [Status::Confirmed, Status::Cancelled, Status::Expired] {
        let hold = stage.hold(reserve_for(5, &[(&item, 1)]))?;
        match status {
            Status::Confirmed => drop(stage.hold(confirm(hold.id))?),
            Status::Cancelled => drop(stage.hold(release(hold.id))?),
            Status::Expired | Status::Active => {
                stage.at(hold.expires_at);
                stage.sweep()?;
            }
        }
        ended.push((hold.id, status));
    }
    for _ in 0..2 {
        for (id, status) in &ended {
            stage.run(confirm(*id))?;
            stage.run(release(*id))?;
            stage.expect_status(*id, *status)?;
        }
        stage.pass(3_600 * SECOND);
        stage.sweep()?;
        stage.world.restart();
    }
    ensure_eq!(
        stage.refused(release(ended[0].0))?,
        Rejection::ReservationConfirmed { id: ended[0].0, order_id: None },
        "release of what is sold"
    );
    stage.expect_books(&item, 1, 0)?;
    ensure_eq!(stage.shown(&item)?.figures.sequence, 7, "set, three reserves, three ends");
    Ok(())
}

fn committed_transition(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let (item, hold) = edge(&mut stage, "a", MILLI)?;
    for _ in 0..2 {
        stage.expect_books(&item, 0, 1)?;
        ensure_eq!(stage.shown(&item)?.available(), 0, "shown between a deadline and its expiry");
        stage.expect_status(hold.id, Status::Active)?;
        stage.world.restart();
    }
    ensure!(stage.sweep()? >= 1, "the sweep expires it");
    let closing = stage.kept(hold.id)?.closing;
    ensure_eq!(closing.map(|c| c.at), Some(stage.now()), "expired when it was stored as such");
    stage.world.restart();
    stage.expect_status(hold.id, Status::Expired)?;
    ensure_eq!(stage.shown(&item)?.available(), 1, "free once it is stored as expired");
    Ok(())
}

fn no_more_than_needed(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 4)?;
    let mut holds = Vec::new();
    for ttl in [4, 2, 3, 1] {
        holds.push(stage.hold(reserve_for(ttl, &[(&item, 1)]))?.id);
    }
    stage.pass(10 * SECOND);
    stage.hold(reserve(&[(&item, 2)]))?;
    for (id, status) in holds.iter().zip([Status::Active, Status::Expired, Status::Active, Status::Expired]) {
        stage.expect_status(*id, status)?;
    }
    stage.expect_books(&item, 0, 4)
}

fn fits_without(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 2)?;
    let hold = stage.hold(reserve_for(1, &[(&item, 1)]))?;
    stage.pass(10 * SECOND);
    stage.hold(reserve(&[(&item, 1)]))?;
    stage.expect_status(hold.id, Status::Active)?;
    stage.expect_books(&item, 0, 2)
}

fn refusal_leaves_nothing_due(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 3)?;
    let first = stage.hold(reserve_for(1, &[(&item, 1)]))?;
    let second = stage.hold(reserve_for(2, &[(&item, 1)]))?;
    stage.pass(10 * SECOND);
    let short = Shortage { item: item.clone(), requested: 4, available: 3, next_expiry_at: None };
    let refused = stage.refused(reserve(&[(&item, 4)]))?;
    ensure_eq!(refused, Rejection::InsufficientInventory(vec![short]), "four of three");
    stage.world.restart();
    stage.expect_status(first.id, Status::Expired)?;
    stage.expect_status(second.id, Status::Expired)?;
    stage.expect_books(&item, 0, 0)
}

fn whole_holds(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 2)?;
    let b = stage.stocked("b", 3)?;
    let both = stage.hold(reserve_for(1, &[(&a, 2), (&b, 3)]))?;
    stage.at(both.expires_at);
    stage.hold(reserve_partial(60, &[(&a, 1)]))?;
    stage.expect_status(both.id, Status::Expired)?;
    stage.expect_books(&a, 0, 1)?;
    stage.expect_books(&b, 0, 0)?;
    ensure_eq!(stage.shown(&b)?.figures.sequence, 3, "set, reserve, expiry");
    stage.hold(reserve(&[(&b, 3), (&a, 1)]))?;
    stage.expect_books(&b, 0, 3)
}

fn own_hold_only(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 3)?;
    let mut holds = Vec::new();
    for _ in 0..3 {
        holds.push(stage.hold(reserve_for(1, &[(&item, 1)]))?);
    }
    stage.pass(10 * SECOND);
    ensure_eq!(stage.refused(confirm(holds[1].id))?, expired(&holds[1]), "a late confirm");
    ensure_eq!(stage.hold(release(holds[2].id))?.status, Status::Expired, "a late release");
    stage.expect_status(holds[0].id, Status::Active)?;
    stage.expect_books(&item, 0, 1)
}

fn sweep_what_is_due(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 3)?;
    let early = stage.hold(reserve_for(5, &[(&item, 1)]))?;
    let late = stage.hold(reserve_for(6, &[(&item, 1)]))?;
    let sold = stage.hold(reserve_for(5, &[(&item, 1)]))?;
    stage.hold(confirm(sold.id))?;
    stage.at(after(early.expires_at, -1));
    stage.sweep()?;
    stage.expect_books(&item, 1, 2)?;
    stage.at(early.expires_at);
    stage.sweep()?;
    stage.expect_status(early.id, Status::Expired)?;
    stage.expect_status(late.id, Status::Active)?;
    stage.expect_status(sold.id, Status::Confirmed)?;
    ensure_eq!(stage.sweep()?, 0, "nothing is expired twice");
    stage.expect_books(&item, 1, 1)
}
