//! Many reservations at once: of one item, of several items, and falling due together.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use stockhold_domain::{Hold, ItemKey, Outcome, PoolTerms, Rejection, Reply, Status};
use stockhold_model::maker::{pool_of, reserve, reserve_for, reserve_partial, set_pool};

pub(super) const CASES: &[Case] = &[
    case("two hundred concurrent reserves of a hundred units: exactly a hundred succeed", two_hundred_buyers),
    case("a batch of fifty reserves adds fifty to the sequence, without a gap", fifty_in_a_batch),
    case("baskets in opposite orders neither wait for each other nor oversell", opposite_orders),
    case("one reserve reclaims a thousand holds that are due at once", thousand_by_one),
    case("sweeps reclaim a thousand holds that are due at once", thousand_by_sweeps),
    case("event ids stay unique while a command waits for many holds to expire", crowd_of_events),
    case("a request behind many due holds is answered too", behind_the_crowd),
    case("a pool that is set with a past release is released, whatever else expires", pool_behind_the_crowd),
];

/// Commands that are submitted together while the crowd is created.
const AT_ONCE: usize = 250;
const CROWD: usize = 1_000;

fn reservation(outcome: &Outcome) -> Option<&Hold> {
    match outcome {
        Outcome::Done(Reply::Reservation(hold)) => Some(hold),
        _ => None,
    }
}

fn two_hundred_buyers(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 100)?;
    let outcomes = case.submit_all(vec![reserve_for(60, &[(&item, 1)]); 200])?;
    let (mut granted, mut refused) = (0, 0);
    for outcome in &outcomes {
        match outcome {
            Outcome::Done(Reply::Reservation(hold)) if hold.quantity() == 1 => granted += 1,
            Outcome::Refused(Rejection::InsufficientInventory(short))
                if short.iter().all(|s| s.available == 0 && s.next_expiry_at.is_some()) =>
            {
                refused += 1;
            }
            other => return Err(format!("answered with {other:?}")),
        }
    }
    ensure_eq!((granted, refused), (100, 100), "granted and refused");
    case.world.restart();
    case.expect_counters(&item, 0, 100)?;
    ensure_eq!(case.read_item(&item)?.figures.active, 100, "active reservations");
    Ok(())
}

fn fifty_in_a_batch(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 500)?;
    let before = case.read_item(&item)?.figures.sequence;
    let outcomes = case.submit_all(vec![reserve_for(60, &[(&item, 2)]); 50])?;
    let mut sequences = Vec::new();
    let mut ids = Vec::new();
    for hold in outcomes.iter().filter_map(reservation) {
        sequences.extend(hold.lines.iter().map(|line| line.sequence));
        ids.push(hold.id);
    }
    let expected: Vec<u64> = (before + 1..=before + 50).collect();
    ensure_eq!(sequences, expected, "sequences, in the order of the commands");
    ensure_eq!(case.read_item(&item)?.figures.sequence, before + 50, "the item's sequence");
    ids.sort_unstable();
    ids.dedup();
    ensure_eq!(ids.len(), 50, "different reservations");
    case.expect_counters(&item, 0, 100)
}

fn opposite_orders(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items: Vec<ItemKey> =
        ["a", "b", "c"].iter().map(|name| case.create_item(name, 60)).collect::<Checked<_>>()?;
    let orders: [[usize; 3]; 4] = [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]];
    let commands = (0..100).map(|n| {
        let lines: Vec<_> = orders[n % orders.len()].iter().map(|i| (&items[*i], 1)).collect();
        reserve_for(60, &lines)
    });
    let outcomes = case.submit_all(commands.collect())?;
    ensure_eq!(outcomes.iter().filter_map(reservation).count(), 60, "baskets held");
    for item in &items {
        case.expect_counters(item, 0, 60)?;
        ensure_eq!(case.read_item(item)?.figures.sequence, 61, "transitions of {item:?}");
    }
    Ok(())
}

/// 1,000 holds of one unit each, which are the whole stock, with the clock at their deadline.
fn crowd(case: &mut CaseContext<'_>) -> Checked<(ItemKey, Vec<Hold>)> {
    let item = case.create_item("a", CROWD as u64)?;
    let mut holds = Vec::new();
    for _ in 0..CROWD / AT_ONCE {
        let outcomes = case.submit_all(vec![reserve_for(60, &[(&item, 1)]); AT_ONCE])?;
        holds.extend(outcomes.iter().filter_map(reservation).cloned());
    }
    ensure_eq!(holds.len(), CROWD, "holds");
    case.expect_counters(&item, 0, CROWD as u64)?;
    case.advance(60 * SECOND);
    Ok((item, holds))
}

fn thousand_by_one(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, holds) = crowd(&mut case)?;
    let all = case.hold(reserve(&[(&item, CROWD as u64)]))?;
    ensure_eq!(all.quantity(), CROWD as u64, "one hold has all that fell due");
    for hold in &holds {
        case.expect_status(hold.id, Status::Expired)?;
    }
    let figures = case.read_item(&item)?.figures;
    let transitions = 1 + 2 * CROWD as u64 + 1;
    ensure_eq!((figures.held, figures.active, figures.sequence), (CROWD as u64, 1, transitions), "figures");
    Ok(())
}

fn thousand_by_sweeps(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, holds) = crowd(&mut case)?;
    ensure!(case.sweep()? >= CROWD as u64, "as many are swept as were due");
    case.world.restart();
    case.expect_counters(&item, 0, 0)?;
    for hold in &holds {
        case.expect_status(hold.id, Status::Expired)?;
    }
    ensure_eq!(case.read_item(&item)?.figures.sequence, 1 + 2 * CROWD as u64, "one expiry each");
    Ok(())
}

fn crowd_of_events(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, _) = crowd(&mut case)?;
    case.hold(reserve(&[(&item, CROWD as u64)]))?;
    let events = case.events_of(&[&item]);
    let mut ids: Vec<_> = events.iter().map(|event| event.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ensure_eq!(
        ids.len(),
        1 + 2 * CROWD + 1,
        "events with an id of their own: a set, reserves, expiries, a reserve"
    );
    Ok(())
}

fn behind_the_crowd(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (item, _) = crowd(&mut case)?;
    let other = case.create_item("b", 1)?;
    let outcomes = case.submit_all(vec![
        reserve_for(60, &[(&item, 600)]),
        reserve_for(60, &[(&other, 1)]),
        reserve_partial(60, &[(&item, 500), (&other, 1)]),
    ])?;
    let granted: Vec<_> = outcomes.iter().map(|o| reservation(o).map(Hold::quantity)).collect();
    // A request that needs no further expiry may overtake one that still waits for expiries.
    let in_order = granted == [Some(600), Some(1), Some(400)];
    let passed = granted == [None, Some(1), Some(500)];
    ensure!(in_order || passed, "granted {granted:?}");
    case.expect_counters(&item, 0, if in_order { 1_000 } else { 500 })
}

fn pool_behind_the_crowd(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let other = case.create_item("b", 10)?;
    let (item, _) = crowd(&mut case)?;
    let past = PoolTerms { releases_at: Some(case.now()), ..pool_of(4) };
    let all = reserve_for(60, &[(&item, CROWD as u64)]);
    let outcomes = case.submit_all(vec![all, set_pool(&other, "vip", past)])?;
    ensure_matches!(
        &outcomes[1],
        Outcome::Done(Reply::Item { item, created: true })
            if item.pools.all().iter().all(|pool| pool.released_at.is_some()) && item.available() == 10,
        "the pool has been released"
    );
    ensure_eq!(outcomes.iter().filter_map(reservation).count(), 1, "the reserve has all units");
    Ok(())
}
