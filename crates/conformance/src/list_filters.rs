//! Filters of lists of reservations: by order, by customer and by the time of creation.

use super::case_context::{CaseContext, Checked, SECOND, after};
use super::lists::{all, check, page};
use super::{Case, World, case};
use stockhold_domain::{
    Command, Confirm, Hold, IfExpired, Instant, ItemKey, Label, OptionalTerms, Outcome, Reply, ReservationId,
    Reserve, ReserveTerms, Status,
};
use stockhold_model::maker::{self, confirm, release, reserve_of, return_of};
use stockhold_store::ReservationFilter;

pub(super) const CASES: &[Case] = &[
    case("an order is found as soon as its confirm is answered", orders_are_found_at_once),
    case("an order is found among many others, and after a restart", orders_are_found_among_others),
    case("a reservation that one batch creates and confirms is found by its order", orders_of_one_batch),
    case("reservations are listed by their customer", customers),
    case("a list for a creator lacks nothing that the actor created", creators),
    case("bounds of the creation time include the first and exclude the last", times),
    case("all filters of a list apply together", filters_combine),
];

fn confirm_for(id: ReservationId, order: &Label) -> Command {
    Command::Confirm(Confirm {
        override_limits: false,
        id,
        order_id: Some(order.clone()),
        payment_id: None,
        if_expired: IfExpired::Refuse,
    })
}

fn reserve_for_customer(owner: &Label, customer: Option<&Label>, item: &ItemKey) -> Command {
    let optional = OptionalTerms { customer_id: customer.cloned(), ..OptionalTerms::default() };
    Command::Reserve(Reserve {
        terms: ReserveTerms::new(owner.clone(), optional),
        ..reserve_of(&[(item, 1)])
    })
}

fn of_order(order: &Label) -> ReservationFilter {
    ReservationFilter { order_id: Some(order.clone()), limit: 50, ..ReservationFilter::default() }
}

fn ids(holds: &[Hold]) -> Vec<ReservationId> {
    holds.iter().map(|hold| hold.id).collect()
}

fn orders_are_found_at_once(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let item = case.create_item("a", 100)?;
    let [order, other, of_other_case] = ["o-1", "o-2", "O-1"].map(|name| case.maker.location(name));
    let mut confirmed = Vec::new();
    for _ in 0..4 {
        let hold = case.hold(maker::reserve(&[(&item, 2)]))?;
        ensure_eq!(ids(&all(case.world, of_order(&order))?), confirmed, "before the confirm");
        case.expect_done(confirm_for(hold.id, &order))?;
        confirmed.insert(0, hold.id);
        ensure_eq!(ids(&all(case.world, of_order(&order))?), confirmed, "after the confirm");
        case.expect_refused(confirm_for(hold.id, &other))?;
        case.advance(SECOND);
    }
    let plain = case.hold(maker::reserve(&[(&item, 1)]))?;
    case.expect_done(confirm(plain.id))?;
    // A reservation is listed as it is now.
    let first = confirmed[3];
    case.expect_done(return_of(first, &[(&item, 1)]))?;
    let shown = case.read_hold(first)?;
    let listed = all(case.world, of_order(&order))?;
    ensure!(listed.contains(&shown), "{first} is listed as it was before the return");
    for (name, expected) in [(&other, 0), (&of_other_case, 0), (&order, 4)] {
        ensure_eq!(all(case.world, of_order(name))?.len(), expected, "reservations of {name:?}");
    }
    Ok(())
}

/// Reservations that were confirmed in another order than they were created in, each for one of three orders.
fn orders_are_found_among_others(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let item = case.create_item("a", 1_000)?;
    let orders = ["x", "y", "z"].map(|name| case.maker.location(name));
    let mut holds = Vec::new();
    for _ in 0..30 {
        holds.push(case.hold(maker::reserve(&[(&item, 1)]))?.id);
        case.advance(1);
    }
    for (n, id) in holds.iter().enumerate().rev() {
        case.expect_done(confirm_for(*id, &orders[n % 3]))?;
        case.advance(1);
    }
    for restarted in [false, true] {
        if restarted {
            case.world.restart();
        }
        let events = case.event_rows_of(std::slice::from_ref(&item));
        for (n, order) in orders.iter().enumerate() {
            // The first that was created is the last that was confirmed.
            let expected: Vec<_> = holds.iter().skip(n).step_by(3).copied().collect();
            for limit in [1, 4, 50] {
                let filter = ReservationFilter { limit, ..of_order(order) };
                ensure_eq!(ids(&all(case.world, filter.clone())?), expected, "{order:?} by {limit}");
                check(case.world, &events, &filter)?;
            }
        }
    }
    // What is confirmed meanwhile is not in the remaining pages.
    let filter = ReservationFilter { limit: 4, ..of_order(&orders[0]) };
    let before = ids(&all(case.world, filter.clone())?);
    let first = page(case.world, &filter)?;
    let late = case.hold(maker::reserve(&[(&item, 1)]))?;
    case.expect_done(confirm_for(late.id, &orders[0]))?;
    let rest = all(case.world, ReservationFilter { after: first.next, ..filter })?;
    ensure_eq!([ids(&first.holds), ids(&rest)].concat(), before, "the pages of before");
    Ok(())
}

fn orders_of_one_batch(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let order = case.maker.location("o");
    let reserves = [(); 2].map(|()| case.maker.wrap(maker::reserve(&[(&item, 1)])));
    let [first, second] = [0, 1].map(|n: usize| reserves[n].fresh.reservation);
    // The one that was made last is confirmed first.
    let confirms = [second, first].map(|id| case.maker.wrap(confirm_for(id, &order)));
    for answer in case.world.submit_in_order(reserves.into_iter().chain(confirms).collect()) {
        ensure_matches!(answer, Ok(Outcome::Done(_)), "reserves and their confirms");
    }
    ensure_eq!(ids(&all(case.world, of_order(&order))?), [first, second], "the order");
    case.world.restart();
    ensure_eq!(ids(&all(case.world, of_order(&order))?), [first, second], "the order after a restart");
    Ok(())
}

/// What others created may be in the list too.
fn creators(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let item = case.create_item("a", 100)?;
    let owner = case.maker.location("cart");
    let actors = ["key:ann", "key:bob"].map(|name| case.maker.location(name));
    let run = |case: &mut CaseContext<'_>, actor: &Label, command: Command| {
        let mut envelope = case.maker.wrap(command);
        envelope.origin.actor = actor.clone();
        match case.submit_one(envelope)? {
            Outcome::Done(Reply::Reservation(hold)) => Ok(hold.id),
            other => Err(format!("no reservation but {other:?}")),
        }
    };
    let mut made = [Vec::new(), Vec::new()];
    for n in 0..40 {
        let of = usize::from(n % 8 == 0);
        let command = reserve_of(&[(&item, 2)]);
        let terms = ReserveTerms::new(owner.clone(), OptionalTerms::default());
        made[of].push(run(case, &actors[of], Command::Reserve(Reserve { terms, ..command }))?);
    }
    // A part belongs to the creator of the whole, also when somebody else split it.
    let whole = made[1][0];
    made[1].push(run(case, &actors[0], maker::split(whole, &[(&item, 1)]))?);
    for restarted in [false, true] {
        if restarted {
            case.world.restart();
        }
        for (actor, expected) in actors.iter().zip(&made) {
            for limit in [7, 50] {
                let filter = ReservationFilter {
                    created_by: Some(actor.clone()),
                    limit,
                    ..ReservationFilter::default()
                };
                let listed = ids(&all(case.world, filter)?);
                ensure!(
                    expected.iter().all(|id| listed.contains(id)),
                    "reservations of {actor:?}: {listed:?}"
                );
            }
        }
    }
    Ok(())
}

fn customers(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let item = case.create_item("a", 100)?;
    let owner = case.maker.location("cart");
    let known = ["ann", "Ann"].map(|name| case.maker.location(name));
    let mut made = [Vec::new(), Vec::new(), Vec::new()];
    for n in 0..12 {
        let customer = known.get(n % 3);
        made[n % 3].insert(0, case.hold(reserve_for_customer(&owner, customer, &item))?.id);
        case.advance(1);
    }
    for restarted in [false, true] {
        if restarted {
            case.world.restart();
        }
        for (customer, expected) in known.iter().zip(&made) {
            for (owner_id, limit) in [(Some(owner.clone()), 3), (None, 50)] {
                let filter = ReservationFilter {
                    owner_id,
                    customer_id: Some(customer.clone()),
                    limit,
                    ..ReservationFilter::default()
                };
                ensure_eq!(ids(&all(case.world, filter)?), *expected, "reservations of {customer:?}");
            }
        }
    }
    Ok(())
}

fn times(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let item = case.create_item("a", 100)?;
    let owner = case.maker.location("cart");
    let mut made: Vec<(Instant, ReservationId)> = Vec::new();
    // Two at each instant, and instants that are close together and far apart.
    for step in [0, 1, SECOND, 3_600 * SECOND] {
        case.advance(step);
        for _ in 0..2 {
            let hold = case.hold(reserve_for_customer(&owner, None, &item))?;
            made.insert(0, (hold.terms.created_at, hold.id));
        }
    }
    let (newest, oldest) = (made[0].0, made[made.len() - 1].0);
    let mut bounds: Vec<Option<Instant>> = made.iter().map(|(at, _)| Some(*at)).collect();
    bounds.dedup();
    bounds.extend([Some(after(oldest, -SECOND)), Some(after(newest, 1)), None]);
    for restarted in [false, true] {
        if restarted {
            case.world.restart();
        }
        let mut listed = 0;
        for from in &bounds {
            for to in bounds.iter().filter(|to| from.is_none() || to.is_none() || *to > from) {
                let filter = ReservationFilter {
                    owner_id: Some(owner.clone()),
                    created_after: *from,
                    created_before: *to,
                    limit: 50,
                    ..ReservationFilter::default()
                };
                let within =
                    |at: &Instant| from.is_none_or(|from| *at >= from) && to.is_none_or(|to| *at < to);
                let expected: Vec<_> = made.iter().filter(|(at, _)| within(at)).map(|(_, id)| *id).collect();
                ensure_eq!(ids(&all(case.world, filter)?), expected, "from {from:?} to {to:?}");
                listed += expected.len();
            }
        }
        ensure!(listed > made.len(), "the lists have something");
        // Nobody else has made reservations since this case began.
        let alone = ReservationFilter {
            created_after: Some(after(oldest, 1)),
            created_before: Some(newest),
            limit: 3,
            ..ReservationFilter::default()
        };
        let expected: Vec<_> = made[2..made.len() - 2].iter().map(|(_, id)| *id).collect();
        ensure_eq!(ids(&all(case.world, alone)?), expected, "a list by time alone");
    }
    Ok(())
}

fn filters_combine(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let items = [case.create_item("a", 100)?, case.create_item("b", 100)?];
    let [owner, other] = ["cart-1", "cart-2"].map(|name| case.maker.location(name));
    let [customer, order] = ["ann", "o-1"].map(|name| case.maker.location(name));
    let mut holds = Vec::new();
    for n in 0..16_usize {
        let owner = if n % 2 == 0 { &owner } else { &other };
        let known = (n / 2 % 2 == 0).then_some(&customer);
        let hold = case.hold(reserve_for_customer(owner, known, &items[n / 4 % 2]))?;
        match n / 8 {
            0 => case.expect_done(confirm_for(hold.id, &order))?,
            _ => case.expect_done(release(hold.id))?,
        };
        holds.push((n, hold));
        case.advance(SECOND);
    }
    let events = case.event_rows_of(&items);
    let half = holds[4].1.terms.created_at;
    let full = ReservationFilter {
        owner_id: Some(owner),
        sku: Some(maker::label(items[1].sku())),
        location: Some(maker::label(items[1].location())),
        status: Some(Status::Confirmed),
        order_id: Some(order),
        customer_id: Some(customer),
        created_after: Some(half),
        created_before: Some(holds[8].1.terms.created_at),
        limit: 50,
        ..ReservationFilter::default()
    };
    // The fifth alone has all of it.
    ensure_eq!(ids(&all(case.world, full.clone())?), [holds[4].1.id], "all filters at once");
    let wider: [(ReservationFilter, usize); 7] = [
        (ReservationFilter { owner_id: None, ..full.clone() }, 2),
        (ReservationFilter { customer_id: None, ..full.clone() }, 2),
        (ReservationFilter { sku: None, location: None, ..full.clone() }, 1),
        (ReservationFilter { sku: None, created_after: None, ..full.clone() }, 2),
        (ReservationFilter { order_id: None, ..full.clone() }, 1),
        (ReservationFilter { status: Some(Status::Cancelled), ..full.clone() }, 0),
        (ReservationFilter { order_id: None, status: None, created_before: None, ..full.clone() }, 2),
    ];
    for (filter, expected) in wider {
        ensure_eq!(check(case.world, &events, &filter)?, expected, "{filter:?}");
    }
    Ok(())
}
