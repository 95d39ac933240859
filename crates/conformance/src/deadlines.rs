//! Confirm, release, extension and expiry around a deadline: a hold is live while now is before it, and due at equality.

use super::case_context::{CaseContext, Checked, MILLI, SECOND, after};
use super::{Case, World, case};
use stockhold_domain::{Command, Hold, ItemKey, Outcome, Rejection, Shortage, Status};
use stockhold_model::maker::{confirm, extend, release, reserve, reserve_for, reserve_partial};

pub(super) const CASES: &[Case] = &[
    case("confirm succeeds before the deadline and never at or after it", confirm_at_the_edge),
    case("release succeeds before and after the deadline and frees the units once", release_at_the_edge),
    case("extend succeeds before the deadline and never at or after it", extend_at_the_edge),
    case("a reserve gets a held unit at the deadline and never before it", reserve_at_the_edge),
    case("of a concurrent confirm, release and sweep exactly one takes effect", all_at_the_edge),
    case("a closed reservation never changes its status", terminal_states),
    case("expiry is a committed transition, not a comparison with the clock", committed_transition),
    case("a reserve expires no more holds than it needs, earliest deadline first", no_more_than_needed),
    case("a reserve that fits expires no hold", fits_without),
    case("a refused reserve has expired all due holds of its items", refusal_leaves_nothing_due),
    case("a hold that falls due during a reserve frees all of its items", whole_holds),
    case("a late confirm or release expires its own hold and no other", own_hold_only),
    case("a sweep expires all due holds and no other", sweep_what_is_due),
];

/// Microseconds from the deadline.
pub(super) const EDGES: [i64; 5] = [-MILLI, -1, 0, 1, MILLI];

/// A single unit that is held, with the clock at an edge of its deadline. The clock has microseconds, so that the
/// deadline is rounded.
fn edge(case: &mut CaseContext<'_>, name: &str, edge: i64) -> Checked<(ItemKey, Hold)> {
    case.advance(SECOND + 7);
    let item = case.create_item(name, 1)?;
    let hold = case.hold(reserve_for(5, &[(&item, 1)]))?;
    case.set_clock(after(hold.expires_at, edge));
    Ok((item, hold))
}

/// The refusal of a command on a reservation that has expired.
pub(super) fn expired(hold: &Hold) -> Rejection {
    Rejection::ReservationExpired { id: hold.id, expires_at: hold.expires_at }
}

fn confirm_at_the_edge(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut case, &format!("a{offset}"), offset)?;
        if offset < 0 {
            let sold = case.hold(confirm(hold.id))?;
            ensure_eq!(sold.status, Status::Confirmed, "at {offset} µs");
            ensure_eq!(sold.closing.map(|c| c.at), Some(case.now()), "closed at");
            case.expect_counters(&item, 1, 0)?;
        } else {
            ensure_eq!(case.expect_refused(confirm(hold.id))?, expired(&hold), "at {offset} µs");
            case.expect_status(hold.id, Status::Expired)?;
            case.expect_counters(&item, 0, 0)?;
        }
        case.world.restart();
        let figures = case.read_item(&item)?.figures;
        ensure_eq!((figures.active, figures.sequence), (0, 3), "active and sequence at {offset} µs");
    }
    Ok(())
}

fn release_at_the_edge(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut case, &format!("a{offset}"), offset)?;
        let expected = if offset < 0 { Status::Cancelled } else { Status::Expired };
        for _ in 0..2 {
            ensure_eq!(case.hold(release(hold.id))?.status, expected, "at {offset} µs");
            ensure_eq!(case.read_item(&item)?.figures.sequence, 3, "given back once at {offset} µs");
        }
        case.expect_counters(&item, 0, 0)?;
        let over = if offset < 0 { Rejection::ReservationCancelled(hold.id) } else { expired(&hold) };
        ensure_eq!(case.expect_refused(confirm(hold.id))?, over, "confirm after the end at {offset} µs");
    }
    Ok(())
}

fn extend_at_the_edge(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut case, &format!("a{offset}"), offset)?;
        if offset < 0 {
            let extended = case.hold(extend(hold.id, 5))?;
            ensure!(extended.expires_at > hold.expires_at, "the deadline moved on at {offset} µs");
            case.set_clock(after(extended.expires_at, -1));
            case.hold(confirm(hold.id))?;
            case.expect_counters(&item, 1, 0)?;
        } else {
            ensure_eq!(case.expect_refused(extend(hold.id, 5))?, expired(&hold), "at {offset} µs");
            case.expect_counters(&item, 0, 0)?;
        }
    }
    Ok(())
}

fn reserve_at_the_edge(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut case, &format!("a{offset}"), offset)?;
        if offset < 0 {
            let next_expiry_at = Some(hold.expires_at);
            let short = Shortage {
                item: item.clone(),
                requested: 1,
                available: 0,
                next_expiry_at,
                unknown_sections: Vec::new(),
                approximate: false,
            };
            let refused = case.expect_refused(reserve(&[(&item, 1)]))?;
            ensure_eq!(refused, Rejection::InsufficientInventory(vec![short]), "at {offset} µs");
            case.expect_status(hold.id, Status::Active)?;
        } else {
            let next = case.hold(reserve(&[(&item, 1)]))?;
            case.expect_status(hold.id, Status::Expired)?;
            ensure_eq!(
                case.expect_refused(confirm(hold.id))?,
                expired(&hold),
                "the late confirm at {offset} µs"
            );
            case.expect_status(next.id, Status::Active)?;
        }
        case.expect_counters(&item, 0, 1)?;
    }
    Ok(())
}

fn all_at_the_edge(world: &mut dyn World) -> Checked {
    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let mut case = CaseContext::new(world);
    for (n, order) in ORDERS.iter().enumerate() {
        for offset in EDGES {
            let (item, hold) = edge(&mut case, &format!("a{n}{offset}"), offset)?;
            let commands = [confirm(hold.id), release(hold.id), Command::Sweep];
            let outcomes = case.submit_all(order.iter().map(|which| commands[*which].clone()).collect())?;
            let answer = |which: usize| order.iter().position(|o| *o == which).map(|at| &outcomes[at]);
            let confirmed = matches!(answer(0), Some(Outcome::Done(_)));
            let released = matches!(answer(1), Some(Outcome::Done(_)));
            let ended = case.read_hold(hold.id)?;
            let at = format!("order {order:?} at {offset} µs");
            // Commands of one caller are decided in the order given, so the first of the two wins while there is time.
            let confirm_first = order.iter().position(|o| *o == 0) < order.iter().position(|o| *o == 1);
            let expected = match (offset < 0, confirm_first) {
                (true, true) => (Status::Confirmed, true, false),
                (true, false) => (Status::Cancelled, false, true),
                (false, _) => (Status::Expired, false, true),
            };
            ensure_eq!((ended.status, confirmed, released), expected, "{at}");
            case.expect_counters(&item, u64::from(confirmed), 0)?;
            ensure_eq!(case.read_item(&item)?.figures.sequence, 3, "one transition ended it, {at}");
        }
    }
    Ok(())
}

fn terminal_states(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let mut ended = Vec::new();
    for status in [Status::Confirmed, Status::Cancelled, Status::Expired] {
        let hold = case.hold(reserve_for(5, &[(&item, 1)]))?;
        match status {
            Status::Confirmed => drop(case.hold(confirm(hold.id))?),
            Status::Cancelled => drop(case.hold(release(hold.id))?),
            Status::Expired | Status::Active => {
                case.set_clock(hold.expires_at);
                case.sweep()?;
            }
        }
        ended.push((hold.id, status));
    }
    for _ in 0..2 {
        for (id, status) in &ended {
            case.run(confirm(*id))?;
            case.run(release(*id))?;
            case.expect_status(*id, *status)?;
        }
        case.advance(3_600 * SECOND);
        case.sweep()?;
        case.world.restart();
    }
    ensure_eq!(
        case.expect_refused(release(ended[0].0))?,
        Rejection::ReservationConfirmed { id: ended[0].0, order_id: None, payment_id: None },
        "release of what is sold"
    );
    case.expect_counters(&item, 1, 0)?;
    ensure_eq!(case.read_item(&item)?.figures.sequence, 7, "set, three reserves, three ends");
    Ok(())
}

fn committed_transition(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, hold) = edge(&mut case, "a", MILLI)?;
    for _ in 0..2 {
        case.expect_counters(&item, 0, 1)?;
        ensure_eq!(case.read_item(&item)?.available(), 0, "shown between a deadline and its expiry");
        case.expect_status(hold.id, Status::Active)?;
        case.world.restart();
    }
    ensure!(case.sweep()? >= 1, "the sweep expires it");
    let closing = case.read_hold(hold.id)?.closing;
    ensure_eq!(closing.map(|c| c.at), Some(case.now()), "expired when it was stored as such");
    case.world.restart();
    case.expect_status(hold.id, Status::Expired)?;
    ensure_eq!(case.read_item(&item)?.available(), 1, "free once it is stored as expired");
    Ok(())
}

fn no_more_than_needed(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 4)?;
    let mut holds = Vec::new();
    for ttl in [4, 2, 3, 1] {
        holds.push(case.hold(reserve_for(ttl, &[(&item, 1)]))?.id);
    }
    case.advance(10 * SECOND);
    case.hold(reserve(&[(&item, 2)]))?;
    for (id, status) in holds.iter().zip([Status::Active, Status::Expired, Status::Active, Status::Expired]) {
        case.expect_status(*id, status)?;
    }
    case.expect_counters(&item, 0, 4)
}

fn fits_without(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    let hold = case.hold(reserve_for(1, &[(&item, 1)]))?;
    case.advance(10 * SECOND);
    case.hold(reserve(&[(&item, 1)]))?;
    case.expect_status(hold.id, Status::Active)?;
    case.expect_counters(&item, 0, 2)
}

fn refusal_leaves_nothing_due(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 3)?;
    let first = case.hold(reserve_for(1, &[(&item, 1)]))?;
    let second = case.hold(reserve_for(2, &[(&item, 1)]))?;
    case.advance(10 * SECOND);
    let short = Shortage {
        item: item.clone(),
        requested: 4,
        available: 3,
        next_expiry_at: None,
        unknown_sections: Vec::new(),
        approximate: false,
    };
    let refused = case.expect_refused(reserve(&[(&item, 4)]))?;
    ensure_eq!(refused, Rejection::InsufficientInventory(vec![short]), "four of three");
    case.world.restart();
    case.expect_status(first.id, Status::Expired)?;
    case.expect_status(second.id, Status::Expired)?;
    case.expect_counters(&item, 0, 0)
}

fn whole_holds(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 2)?;
    let b = case.create_item("b", 3)?;
    let both = case.hold(reserve_for(1, &[(&a, 2), (&b, 3)]))?;
    case.set_clock(both.expires_at);
    case.hold(reserve_partial(60, &[(&a, 1)]))?;
    case.expect_status(both.id, Status::Expired)?;
    case.expect_counters(&a, 0, 1)?;
    case.expect_counters(&b, 0, 0)?;
    ensure_eq!(case.read_item(&b)?.figures.sequence, 3, "set, reserve, expiry");
    case.hold(reserve(&[(&b, 3), (&a, 1)]))?;
    case.expect_counters(&b, 0, 3)
}

fn own_hold_only(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 3)?;
    let mut holds = Vec::new();
    for _ in 0..3 {
        holds.push(case.hold(reserve_for(1, &[(&item, 1)]))?);
    }
    case.advance(10 * SECOND);
    ensure_eq!(case.expect_refused(confirm(holds[1].id))?, expired(&holds[1]), "a late confirm");
    ensure_eq!(case.hold(release(holds[2].id))?.status, Status::Expired, "a late release");
    case.expect_status(holds[0].id, Status::Active)?;
    case.expect_counters(&item, 0, 1)
}

fn sweep_what_is_due(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 3)?;
    let early = case.hold(reserve_for(5, &[(&item, 1)]))?;
    let late = case.hold(reserve_for(6, &[(&item, 1)]))?;
    let sold = case.hold(reserve_for(5, &[(&item, 1)]))?;
    case.hold(confirm(sold.id))?;
    case.set_clock(after(early.expires_at, -1));
    case.sweep()?;
    case.expect_counters(&item, 1, 2)?;
    case.set_clock(early.expires_at);
    case.sweep()?;
    case.expect_status(early.id, Status::Expired)?;
    case.expect_status(late.id, Status::Active)?;
    case.expect_status(sold.id, Status::Confirmed)?;
    ensure_eq!(case.sweep()?, 0, "nothing is expired twice");
    case.expect_counters(&item, 1, 1)
}
