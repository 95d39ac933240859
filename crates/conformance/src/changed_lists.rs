//! Lists of reservations after changes of what they are listed by: items, owner, customer and order.

use super::case_context::{CaseContext, Checked, SECOND};
use super::lists::{all, check, page};
use super::{Case, World, case};
use stockhold_domain::{
    Command, Event, Hold, ItemKey, Label, OptionalTerms, Patch, ReservationId, Reserve, ReserveTerms, Scope,
    Status, Transfer,
};
use stockhold_model::maker::{
    add_units, amend, amend_choosing, confirm_as, confirm_late, create_unit_item, label, merge, named,
    open_payment, release, reserve_choosing, reserve_of, row, set_stock, split, transfer, write_off,
};
use stockhold_model::{NaiveState, audit};
use stockhold_store::ReservationFilter;

pub(super) const CASES: &[Case] = &[
    case("an amended reservation is listed by the items that it has now", amended),
    case("a transferred reservation is listed by its new owner and customer", transferred),
    case("both parts of a split are listed by what they have", split_parts),
    case("a merged reservation is listed by the items of its sources, which end", merged),
    case("a reacquired reservation is listed by its order, owner and items", reacquired),
    case("reservations that change often are listed once, among many others", often),
    case("a change between two pages does not repeat a reservation", between_pages),
    case("the state after every kind of change is the fold of the events", folded),
];

fn ids(holds: &[Hold]) -> Vec<ReservationId> {
    holds.iter().map(|hold| hold.id).collect()
}

fn by_item(item: &ItemKey) -> ReservationFilter {
    let (sku, location) = (Some(label(item.sku())), Some(label(item.location())));
    ReservationFilter { sku, location, limit: 50, ..ReservationFilter::default() }
}

fn by_location(location: &Label) -> ReservationFilter {
    ReservationFilter { location: Some(location.clone()), limit: 50, ..ReservationFilter::default() }
}

fn by_owner(owner: &Label) -> ReservationFilter {
    ReservationFilter { owner_id: Some(owner.clone()), limit: 50, ..ReservationFilter::default() }
}

fn by_customer(owner: &Label, customer: &Label) -> ReservationFilter {
    ReservationFilter { customer_id: Some(customer.clone()), ..by_owner(owner) }
}

fn of_customer(customer: &Label) -> ReservationFilter {
    ReservationFilter { customer_id: Some(customer.clone()), limit: 50, ..ReservationFilter::default() }
}

fn with_status(status: Status, filter: ReservationFilter) -> ReservationFilter {
    ReservationFilter { status: Some(status), ..filter }
}

fn reserve_by(owner: &Label, lines: &[(&ItemKey, u64)]) -> Command {
    let terms = ReserveTerms { owner_id: owner.clone(), optional: None };
    Command::Reserve(Reserve { terms, ..reserve_of(lines) })
}

fn reserve_for_customer(owner: &Label, customer: &Label, lines: &[(&ItemKey, u64)]) -> Command {
    let optional = OptionalTerms { customer_id: Some(customer.clone()), ..OptionalTerms::default() };
    Command::Reserve(Reserve { terms: ReserveTerms::new(owner.clone(), optional), ..reserve_of(lines) })
}

/// Checks lists before and after a restart: each has exactly these reservations, as they are now.
fn expect_lists(
    case: &mut CaseContext<'_>,
    lists: &[(&str, ReservationFilter, &[ReservationId])],
) -> Checked {
    for restarted in [false, true] {
        if restarted {
            case.world.restart();
        }
        for (name, filter, expected) in lists {
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            let found = all(case.world, filter.clone())?;
            let mut found_ids = ids(&found);
            found_ids.sort_unstable();
            ensure_eq!(found_ids, expected, "{name}, restarted: {restarted}");
            for hold in &found {
                ensure_eq!(*hold, case.read_hold(hold.id)?, "{name} shows it as it is");
            }
        }
    }
    Ok(())
}

/// Items `a` and `b`, and an `a` at a location of its own.
fn items(case: &mut CaseContext<'_>) -> Checked<(Label, [ItemKey; 3])> {
    let hub = case.maker.location("hub");
    let items = [case.maker.item("a"), case.maker.item("b"), case.maker.item_at(hub.as_str(), "a")];
    for item in &items {
        case.expect_done(set_stock(item, 1_000))?;
    }
    Ok((hub, items))
}

fn amended(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (hub, [a, b, far]) = items(&mut case)?;
    let owner = case.maker.location("cart");
    let hold = case.hold(reserve_by(&owner, &[(&a, 1)]))?.id;
    let other = case.hold(reserve_by(&owner, &[(&a, 1), (&b, 1)]))?.id;
    case.hold(amend(hold, &[(&b, 2), (&far, 1)]))?;
    expect_lists(
        &mut case,
        &[
            ("a", by_item(&a), &[other]),
            ("b", by_item(&b), &[hold, other]),
            ("a at the hub", by_item(&far), &[hold]),
            ("the hub", by_location(&hub), &[hold]),
            ("the owner", by_owner(&owner), &[hold, other]),
            (
                "b and the owner",
                ReservationFilter { owner_id: Some(owner.clone()), ..by_item(&b) },
                &[hold, other],
            ),
        ],
    )?;
    // Back again, and the other one leaves.
    case.hold(amend(hold, &[(&a, 1)]))?;
    case.hold(amend(other, &[(&far, 1)]))?;
    expect_lists(
        &mut case,
        &[
            ("a", by_item(&a), &[hold]),
            ("b", by_item(&b), &[]),
            ("the hub", by_location(&hub), &[other]),
            ("active at the hub", with_status(Status::Active, by_location(&hub)), &[other]),
        ],
    )?;
    // What ended is listed by what it had last.
    case.hold(confirm_as(hold, "o1"))?;
    case.hold(release(other))?;
    expect_lists(
        &mut case,
        &[
            ("a", with_status(Status::Confirmed, by_item(&a)), &[hold]),
            ("b", by_item(&b), &[]),
            ("the hub", with_status(Status::Cancelled, by_location(&hub)), &[other]),
            ("active at the hub", with_status(Status::Active, by_location(&hub)), &[]),
        ],
    )
}

fn transferred(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 100)?;
    let [guest, ann, bob] = ["guest", "ann", "bob"].map(|name| case.maker.location(name));
    let [one, two] = ["c-1", "c-2"].map(|name| case.maker.location(name));
    let hold = case.hold(reserve_for_customer(&guest, &one, &[(&item, 1)]))?.id;
    let kept = case.hold(reserve_for_customer(&guest, &one, &[(&item, 1)]))?.id;
    let to = |owner: &Label, customer_id| {
        let owner_id = Some(owner.clone());
        let session_id = Patch::Keep;
        Command::Transfer(Transfer {
            override_limits: false,
            id: hold,
            owner_id,
            customer_id,
            session_id,
            expected: None,
        })
    };
    case.hold(to(&ann, Patch::Set(two.clone())))?;
    expect_lists(
        &mut case,
        &[
            ("guest", by_owner(&guest), &[kept]),
            ("ann", by_owner(&ann), &[hold]),
            ("the customer of guest", by_customer(&guest, &one), &[kept]),
            ("the new customer", by_customer(&ann, &two), &[hold]),
            ("the old customer of ann", by_customer(&ann, &one), &[]),
            ("all of the new customer", of_customer(&two), &[hold]),
            ("all of the old customer", of_customer(&one), &[kept]),
            ("active of ann", with_status(Status::Active, by_owner(&ann)), &[hold]),
            ("the item", by_item(&item), &[hold, kept]),
        ],
    )?;
    case.hold(to(&bob, Patch::Clear))?;
    case.hold(confirm_as(hold, "o1"))?;
    expect_lists(
        &mut case,
        &[
            ("ann", by_owner(&ann), &[]),
            ("bob", with_status(Status::Confirmed, by_owner(&bob)), &[hold]),
            ("no customer", by_customer(&bob, &two), &[]),
            ("all of no customer", of_customer(&two), &[]),
        ],
    )
}

fn split_parts(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (hub, [a, b, far]) = items(&mut case)?;
    let [owner, customer, other] = ["cart", "ann", "other"].map(|name| case.maker.location(name));
    let hold = case.hold(reserve_for_customer(&owner, &customer, &[(&a, 3), (&b, 1), (&far, 1)]))?.id;
    case.advance(SECOND);
    let part = case.hold(split(hold, &[(&a, 1), (&far, 1)]))?.id;
    let created = case.now();
    let since = ReservationFilter { created_after: Some(created), ..by_owner(&owner) };
    let until = ReservationFilter { created_before: Some(created), ..by_owner(&owner) };
    expect_lists(
        &mut case,
        &[
            ("a", by_item(&a), &[hold, part]),
            ("b", by_item(&b), &[hold]),
            ("the hub", by_location(&hub), &[part]),
            ("the owner", by_owner(&owner), &[hold, part]),
            ("the customer", by_customer(&owner, &customer), &[hold, part]),
            ("created by the split", since, &[part]),
            ("created before", until, &[hold]),
        ],
    )?;
    let order = case.maker.location("o");
    case.hold(transfer(part, &other))?;
    case.hold(confirm_as(part, order.as_str()))?;
    expect_lists(
        &mut case,
        &[
            ("the owner", by_owner(&owner), &[hold]),
            ("the other owner", by_owner(&other), &[part]),
            ("sold of a", with_status(Status::Confirmed, by_item(&a)), &[part]),
            ("active of a", with_status(Status::Active, by_item(&a)), &[hold]),
            (
                "the order",
                ReservationFilter { order_id: Some(order), limit: 5, ..ReservationFilter::default() },
                &[part],
            ),
        ],
    )
}

fn merged(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (hub, [a, b, far]) = items(&mut case)?;
    let [ann, bob] = ["ann", "bob"].map(|name| case.maker.location(name));
    let target = case.hold(reserve_by(&ann, &[(&a, 1)]))?.id;
    let first = case.hold(reserve_by(&bob, &[(&b, 1), (&a, 1)]))?.id;
    let second = case.hold(reserve_by(&bob, &[(&far, 1)]))?.id;
    case.hold(merge(target, &[first, second]))?;
    expect_lists(
        &mut case,
        &[
            ("active of b", with_status(Status::Active, by_item(&b)), &[target]),
            ("b", by_item(&b), &[target, first]),
            ("a", by_item(&a), &[target, first]),
            ("active at the hub", with_status(Status::Active, by_location(&hub)), &[target]),
            ("the hub", by_location(&hub), &[target, second]),
            ("ann", by_owner(&ann), &[target]),
            ("active of bob", with_status(Status::Active, by_owner(&bob)), &[]),
            ("ended of bob", with_status(Status::Cancelled, by_owner(&bob)), &[first, second]),
        ],
    )?;
    case.hold(confirm_as(target, "o1"))?;
    expect_lists(&mut case, &[("sold of b", with_status(Status::Confirmed, by_item(&b)), &[target])])
}

fn reacquired(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let [owner, customer, order] = ["cart", "ann", "o"].map(|name| case.maker.location(name));
    let hold = case.hold(reserve_for_customer(&owner, &customer, &[(&item, 2)]))?;
    case.set_clock(hold.expires_at);
    case.advance(SECOND);
    let sold = case.hold(confirm_late(hold.id, order.as_str()))?.id;
    let of_order = ReservationFilter { order_id: Some(order), limit: 5, ..ReservationFilter::default() };
    expect_lists(
        &mut case,
        &[
            ("the order", of_order, &[sold]),
            ("sold", with_status(Status::Confirmed, by_item(&item)), &[sold]),
            ("expired", with_status(Status::Expired, by_item(&item)), &[hold.id]),
            ("the owner", by_owner(&owner), &[sold, hold.id]),
            ("the customer", with_status(Status::Confirmed, by_customer(&owner, &customer)), &[sold]),
            ("active", with_status(Status::Active, by_owner(&owner)), &[]),
        ],
    )
}

/// Compares the lists of all items and owners with the fold of the events, in pages of several lengths.
fn compare_lists(case: &mut CaseContext<'_>, items: &[ItemKey], owners: &[Label]) -> Checked {
    for restarted in [false, true] {
        if restarted {
            case.world.restart();
        }
        let events = case.event_rows_of(items);
        for limit in [4, 50] {
            for status in [None, Some(Status::Active), Some(Status::Cancelled)] {
                let filters = items.iter().map(by_item).chain(owners.iter().map(by_owner));
                for filter in filters {
                    check(case.world, &events, &ReservationFilter { status, limit, ..filter })?;
                }
            }
        }
    }
    Ok(())
}

fn often(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (_, items) = items(&mut case)?;
    let owners = ["ann", "bob"].map(|name| case.maker.location(name));
    let mut holds = Vec::new();
    for n in 0..24_usize {
        holds.push(case.hold(reserve_by(&owners[n % 2], &[(&items[n % 3], 1)]))?.id);
        case.advance(1);
    }
    // Each moves through all items and both owners, back to where it was.
    for round in 1..=3_usize {
        for (n, id) in holds.iter().enumerate() {
            let commands =
                vec![amend(*id, &[(&items[(n + round) % 3], 1)]), transfer(*id, &owners[(n + round) % 2])];
            case.submit_all(commands)?;
            case.advance(1);
        }
        if round == 2 {
            case.world.restart();
        }
    }
    for (n, id) in holds.iter().enumerate() {
        match n % 6 {
            0 => drop(case.hold(confirm_as(*id, "o1"))?),
            1 => drop(case.hold(split(*id, &[(&items[n % 3], 1)])).err()),
            2 => drop(case.hold(merge(*id, &[holds[n + 1]]))?),
            3 => {}
            _ => drop(case.hold(release(*id))?),
        }
    }
    compare_lists(&mut case, &items, &owners)
}

fn between_pages(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (_, [a, b, _]) = items(&mut case)?;
    let owner = case.maker.location("cart");
    let mut holds = Vec::new();
    for _ in 0..12 {
        holds.push(case.hold(reserve_by(&owner, &[(&a, 1)]))?.id);
        case.advance(1);
    }
    holds.reverse();
    for filter in [by_item(&a), by_owner(&owner)] {
        let filter = ReservationFilter { limit: 5, ..filter };
        let first = page(case.world, &filter)?;
        ensure_eq!(ids(&first.holds), holds[..5], "the newest five");
        // One that was listed changes, and one that comes later too.
        for id in [holds[2], holds[8]] {
            case.hold(amend(id, &[(&b, 1), (&a, 2)]))?;
            case.hold(amend(id, &[(&a, 1)]))?;
        }
        let rest = all(case.world, ReservationFilter { after: first.next, ..filter.clone() })?;
        ensure_eq!(ids(&rest), holds[5..], "each of the others once");
        case.world.restart();
        ensure_eq!(ids(&all(case.world, filter)?), holds, "in the order of their creation");
    }
    Ok(())
}

/// Every kind of change, of counted stock and of units with ids.
fn folded(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (_, [a, b, far]) = items(&mut case)?;
    let hall = case.maker.item("hall");
    case.expect_done(create_unit_item(&hall))?;
    case.expect_done(add_units(&hall, row("stalls", "A", &["x", "y", "z"])))?;
    let seats = reserve_choosing(60, vec![(&a, 3, None), (&hall, 1, Some(named(&["x", "y"])))]);
    let hold = case.hold(Command::Reserve(seats))?.id;
    let lines = vec![(&b, 2, None), (&hall, 1, Some(named(&["y", "z"]))), (&a, 1, None)];
    case.hold(amend_choosing(hold, lines))?;
    case.hold(transfer(hold, &label("ann")))?;
    let part = case.hold(split(hold, &[(&hall, 1), (&b, 1)]))?.id;
    let source = case.hold(reserve_by(&label("ann"), &[(&far, 2), (&b, 1)]))?.id;
    case.hold(merge(part, &[source]))?;
    case.hold(open_payment(part, "p", 600))?;
    case.hold(stockhold_model::maker::close_payment(part))?;
    case.hold(open_payment(part, "q", 600))?;
    case.hold(confirm_as(part, "o1"))?;
    case.hold(stockhold_model::maker::fulfil_all(part))?;
    case.hold(write_off(part, &[(&b, 1), (&hall, 1)]))?;
    case.advance(61 * SECOND);
    case.hold(confirm_late(hold, "o2"))?;
    case.hold(stockhold_model::maker::return_all(part))?;
    case.expect_done(stockhold_model::maker::pause(&Scope::Item(a.clone())))?;
    let items = [&a, &b, &far, &hall];
    for _ in 0..2 {
        let events: Vec<Event> = case.world.events().into_iter().map(|row| row.event).collect();
        let folded = NaiveState::fold(&events, []);
        audit(&folded)?;
        let mut event_ids: Vec<_> = events.iter().map(|event| event.id).collect();
        event_ids.sort_unstable();
        event_ids.dedup();
        ensure_eq!(event_ids.len(), events.len(), "every event has an id of its own");
        for item in items {
            ensure_eq!(Some(&case.read_item(item)?), folded.items.get(item), "{item:?}");
        }
        let ours = |hold: &&Hold| hold.lines.iter().any(|line| items.contains(&&line.item));
        let holds: Vec<_> = folded.holds.values().filter(ours).collect();
        ensure_eq!(holds.len(), 4, "reservations");
        for hold in holds {
            ensure_eq!(&case.read_hold(hold.id)?, hold, "reservation {}", hold.id);
        }
        case.world.restart();
    }
    Ok(())
}
