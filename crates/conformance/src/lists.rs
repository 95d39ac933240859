//! Queries: pages of items, lists of reservations, histories and events. And several commands in one request.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use std::collections::BTreeSet;
use stockhold_domain::{
    Command, Hold, ItemKey, Label, Outcome, Reply, ReservationId, Reserve, ReserveTerms, Status,
};
use stockhold_model::maker::{self, confirm, extend, label, release, reserve_of, return_of};
use stockhold_store::{
    Cursor, EventRow, ItemPageRequest, Query, QueryResult, ReservationFilter, ReservationPage,
};

pub(super) const CASES: &[Case] = &[
    case("lists of reservations agree with the fold of all events", lists_are_what_events_come_to),
    case("a page starts where the page before ended", pages_follow_each_other),
    case("a list shows every command that was answered before", lists_show_what_was_answered),
    case("a history has every event of its reservation", histories_are_whole),
    case("pages of items are in order of location and SKU", shelves_are_in_order),
    case("events are read from any position", events_go_on),
    case("commands of one request are decided in their order", in_order),
    case("commands of one request may refer to closed reservations", in_order_with_what_is_closed),
    case("all of many commands of one request are decided", many_in_order),
];

fn reserve_by(owner: &Label, lines: &[(&ItemKey, u64)]) -> Command {
    let terms = ReserveTerms { owner_id: owner.clone(), optional: None };
    Command::Reserve(Reserve { terms, ..reserve_of(lines) })
}

/// Reservations of two owners on three items, of every status.
struct Crowd {
    owners: [Label; 2],
    items: [ItemKey; 3],
    holds: Vec<ReservationId>,
}

fn crowd(case: &mut CaseContext) -> Checked<Crowd> {
    let location = case.maker.location("hub");
    let owners = ["ann", "Ann"].map(|name| case.maker.location(name));
    let items = [case.maker.item("a"), case.maker.item("b"), case.maker.item_at(location.as_str(), "a")];
    for item in &items {
        case.expect_done(maker::set_stock(item, 1_000))?;
    }
    let mut holds = Vec::new();
    for n in 0..24_usize {
        let owner = &owners[usize::from(n % 5 == 0)];
        let first = &items[n % 3];
        let lines = if n % 4 == 0 { vec![(first, 1), (&items[(n + 1) % 3], 2)] } else { vec![(first, 2)] };
        let hold = case.hold(reserve_by(owner, &lines))?;
        holds.push(hold.id);
        match n % 6 {
            0 => drop(case.expect_done(confirm(hold.id))?),
            1 => drop(case.expect_done(release(hold.id))?),
            2 => drop(case.expect_done(extend(hold.id, 1_200))?),
            3 => {
                case.expect_done(confirm(hold.id))?;
                case.expect_done(return_of(hold.id, &[(first, 1)]))?;
            }
            _ => {}
        }
        case.advance(1);
    }
    // Those that were not extended fall due.
    case.advance(601 * SECOND);
    case.sweep()?;
    for item in &items {
        holds.push(case.hold(reserve_by(&owners[0], &[(item, 1)]))?.id);
    }
    Ok(Crowd { owners, items, holds })
}

/// One page of a list.
pub(super) fn page(world: &mut dyn World, filter: &ReservationFilter) -> Checked<ReservationPage> {
    match world.find(Query::Reservations(filter.clone())) {
        Ok(QueryResult::Reservations(page)) => {
            ensure!(page.holds.len() <= filter.limit, "a page has more than its limit");
            Ok(page)
        }
        other => Err(format!("a list was answered with {other:?}")),
    }
}

/// All pages of a list.
pub(super) fn all(world: &mut dyn World, mut filter: ReservationFilter) -> Checked<Vec<Hold>> {
    let mut holds = Vec::new();
    loop {
        let page = page(world, &filter)?;
        holds.extend(page.holds);
        let Some(next) = page.next else { return Ok(holds) };
        ensure!(filter.after != Some(next), "a page that leads to itself");
        filter.after = Some(next);
    }
}

fn ids(holds: &[Hold]) -> BTreeSet<ReservationId> {
    holds.iter().map(|hold| hold.id).collect()
}

/// Compares a list with the fold of the events: the same reservations in their current state, the newest first. In a
/// list of an order, the one that was confirmed last is first.
pub(super) fn check(
    world: &mut dyn World,
    events: &[EventRow],
    filter: &ReservationFilter,
) -> Checked<usize> {
    let expected = match stockhold_model::find(
        events,
        &Query::Reservations(ReservationFilter { limit: usize::MAX - 1, ..filter.clone() }),
    ) {
        QueryResult::Reservations(page) => page.holds,
        other => return Err(format!("the model answered {other:?}")),
    };
    let found = all(world, filter.clone())?;
    ensure_eq!(ids(&found), ids(&expected), "reservations of {filter:?}");
    ensure_eq!(found.len(), expected.len(), "no reservation twice in {filter:?}");
    let listed_at = |hold: &Hold| match (&filter.order_id, &hold.closing) {
        (Some(_), Some(closing)) => closing.at,
        _ => hold.terms.created_at,
    };
    let newest_first = found.windows(2).all(|two| listed_at(&two[0]) >= listed_at(&two[1]));
    ensure!(newest_first, "the newest come first in {filter:?}");
    for hold in &expected {
        ensure!(found.contains(hold), "{} is listed otherwise than it is", hold.id);
    }
    Ok(found.len())
}

fn filters(crowd: &Crowd, limit: usize) -> Vec<ReservationFilter> {
    let mut filters = Vec::new();
    let owners = [None, Some(crowd.owners[0].clone()), Some(crowd.owners[1].clone())];
    let [a, b, elsewhere] = &crowd.items;
    let places = [
        (Some(a.sku()), None),
        (Some(b.sku()), None),
        (Some(a.sku()), Some(a.location())),
        (Some(a.sku()), Some(elsewhere.location())),
        (Some(b.sku()), Some(elsewhere.location())),
        (None, Some(elsewhere.location())),
    ];
    for owner_id in &owners {
        for (sku, location) in places {
            for status in [
                None,
                Some(Status::Active),
                Some(Status::Confirmed),
                Some(Status::Cancelled),
                Some(Status::Expired),
            ] {
                let (sku, location) = (sku.map(label), location.map(label));
                filters.push(ReservationFilter {
                    owner_id: owner_id.clone(),
                    sku,
                    location,
                    status,
                    limit,
                    ..ReservationFilter::default()
                });
            }
        }
        if owner_id.is_some() {
            filters.push(ReservationFilter {
                owner_id: owner_id.clone(),
                limit,
                ..ReservationFilter::default()
            });
        }
    }
    filters
}

fn lists_are_what_events_come_to(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let crowd = crowd(case)?;
    for restarted in [false, true] {
        if restarted {
            case.world.restart();
        }
        let (events, mut found) = (case.event_rows_of(&crowd.items), 0);
        for filter in filters(&crowd, 50) {
            found += check(case.world, &events, &filter)?;
        }
        ensure!(found > crowd.holds.len(), "the lists have something");
    }
    let nobody = ReservationFilter {
        owner_id: Some(case.maker.location("nobody")),
        limit: 50,
        ..ReservationFilter::default()
    };
    ensure_eq!(check(case.world, &[], &nobody)?, 0, "reservations of nobody");
    Ok(())
}

fn pages_follow_each_other(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let crowd = crowd(case)?;
    let events = case.event_rows_of(&crowd.items);
    for limit in [1, 4] {
        for owner in &crowd.owners {
            let filter =
                ReservationFilter { owner_id: Some(owner.clone()), limit, ..ReservationFilter::default() };
            ensure!(check(case.world, &events, &filter)? > limit, "there are several pages");
        }
    }
    // Reservations that are created meanwhile are not in the remaining pages.
    let filter = ReservationFilter {
        owner_id: Some(crowd.owners[0].clone()),
        limit: 5,
        ..ReservationFilter::default()
    };
    let before = all(case.world, filter.clone())?;
    let first = page(case.world, &filter)?;
    let made = case.hold(reserve_by(&crowd.owners[0], &[(&crowd.items[0], 1)]))?;
    let rest = all(case.world, ReservationFilter { after: first.next, ..filter.clone() })?;
    ensure_eq!([first.holds, rest].concat(), before, "the pages of before");
    let newest = page(case.world, &filter)?;
    ensure_eq!(newest.holds.first().map(|hold| hold.id), Some(made.id), "the newest reservation");
    let beyond = ReservationFilter {
        after: Some(Cursor(0)),
        owner_id: Some(crowd.owners[0].clone()),
        limit: 5,
        ..ReservationFilter::default()
    };
    ensure_eq!(page(case.world, &beyond)?.holds.len(), 0, "reservations before the first");
    Ok(())
}

fn lists_show_what_was_answered(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let item = case.create_item("x", 100)?;
    let owner = case.maker.location("hasty");
    let list = |status| ReservationFilter {
        owner_id: Some(owner.clone()),
        status: Some(status),
        limit: 10,
        ..ReservationFilter::default()
    };
    for _ in 0..5 {
        let hold = case.hold(reserve_by(&owner, &[(&item, 1)]))?;
        let active = page(case.world, &list(Status::Active))?.holds;
        ensure_eq!(active, vec![hold.clone()], "what is active");
        case.expect_done(confirm(hold.id))?;
        ensure_eq!(
            page(case.world, &list(Status::Active))?.holds.len(),
            0,
            "what is active after the confirm"
        );
        let sold = page(case.world, &list(Status::Confirmed))?.holds;
        ensure_eq!(sold.first().map(|hold| hold.id), Some(hold.id), "the newest sale");
    }
    Ok(())
}

fn histories_are_whole(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let crowd = crowd(case)?;
    for restarted in [false, true] {
        if restarted {
            case.world.restart();
        }
        let events = case.event_rows_of(&crowd.items);
        for id in &crowd.holds {
            let query = Query::History(*id);
            match (case.world.find(query.clone()), stockhold_model::find(&events, &query)) {
                (Ok(QueryResult::History(found)), QueryResult::History(expected)) => {
                    ensure_eq!(found, expected, "history of {id}");
                }
                other => return Err(format!("a history was answered with {other:?}")),
            }
        }
    }
    let nobody = case.maker.no_reservation();
    ensure_matches!(
        case.world.find(Query::History(nobody)),
        Ok(QueryResult::History(None)),
        "history of nothing"
    );
    Ok(())
}

fn shelves_are_in_order(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let places = ["p", "P", "p "].map(|name| case.maker.location(name));
    let mut items = Vec::new();
    for place in &places {
        for name in ["b", "a", "ab", "B", "é"] {
            let item = case.maker.item_at(place.as_str(), name);
            case.expect_done(maker::set_stock(&item, 3))?;
            items.push(item);
        }
    }
    let (here, everywhere) = (case.event_rows_of(&items), case.world.events());
    for location in places.iter().map(Some).chain([None]) {
        let events = if location.is_some() { &here } else { &everywhere };
        for limit in [1, 4, 1_000] {
            let mut after = None;
            loop {
                let shelf = ItemPageRequest { location: location.cloned(), after: after.clone(), limit };
                let QueryResult::ItemPage(expected) =
                    stockhold_model::find(events, &Query::ItemPage(shelf.clone()))
                else {
                    return Err("the model has no shelf".to_owned());
                };
                let found = match case.world.find(Query::ItemPage(shelf.clone())) {
                    Ok(QueryResult::ItemPage(items)) => items,
                    other => return Err(format!("a shelf was answered with {other:?}")),
                };
                ensure_eq!(found, expected, "{shelf:?}");
                match found.last() {
                    // Reading all items of all cases would take long.
                    Some(last) if location.is_some() => after = Some(last.key.clone()),
                    _ => break,
                }
            }
        }
    }
    Ok(())
}

fn events_go_on(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    crowd(case)?;
    let events = case.world.events();
    let last = events.last().map_or(0, |row| row.position);
    for (after, limit) in
        [(0, 7), (last / 2, 50), (last - 1, 50), (last, 50), (last + 7, 50), (last - 10, 10)]
    {
        let query = Query::Events { after, limit };
        match (case.world.find(query.clone()), stockhold_model::find(&events, &query)) {
            (Ok(QueryResult::Events(found)), QueryResult::Events(expected)) => {
                ensure_eq!(found, expected, "{query:?}");
            }
            other => return Err(format!("events were answered with {other:?}")),
        }
    }
    Ok(())
}

fn outcomes(case: &mut CaseContext, commands: Vec<Command>) -> Checked<Vec<Outcome>> {
    let envelopes: Vec<_> = commands.into_iter().map(|command| case.maker.wrap(command)).collect();
    let asked = envelopes.len();
    let answers = case.world.submit_in_order(envelopes);
    ensure_eq!(answers.len(), asked, "answers to as many commands");
    answers.into_iter().map(|answer| answer.map_err(|failure| failure.to_string())).collect()
}

fn is_done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done(_))
}

fn in_order(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let item = case.create_item("one", 1)?;
    let held = case.hold(maker::reserve(&[(&item, 1)]))?;
    let take = || maker::reserve(&[(&item, 1)]);
    let found = outcomes(case, vec![take(), release(held.id), take(), take(), release(held.id)])?;
    let done: Vec<bool> = found.iter().map(is_done).collect();
    ensure_eq!(done, [false, true, true, false, true], "which of them took effect: {found:?}");
    case.expect_counters(&item, 0, 1)?;
    ensure_eq!(outcomes(case, Vec::new())?.len(), 0, "answers to no commands");
    Ok(())
}

/// The commands after one that needs a read have to wait.
fn in_order_with_what_is_closed(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let item = case.create_item("few", 40)?;
    let mut closed = Vec::new();
    for n in 0..20 {
        let envelope = case.maker.keyed(&format!("old-{n}"), maker::reserve(&[(&item, 1)]));
        let Outcome::Done(Reply::Reservation(hold)) = case.submit_one(envelope.clone())? else {
            return Err("no reservation".to_owned());
        };
        case.expect_done(confirm(hold.id))?;
        closed.push((hold.id, envelope));
    }
    case.world.restart();
    let mut envelopes = Vec::new();
    for (id, again) in &closed {
        envelopes.push(case.maker.wrap(confirm(*id)));
        envelopes.push(case.maker.again(again));
        envelopes.push(case.maker.wrap(maker::reserve(&[(&item, 2)])));
    }
    let answers = case.world.submit_in_order(envelopes);
    for (n, answer) in answers.into_iter().enumerate() {
        let outcome = answer.map_err(|failure| failure.to_string())?;
        let right = match n % 3 {
            0 => is_done(&outcome),
            1 => matches!(outcome, Outcome::Replayed(_)),
            // 20 units were left, two for each.
            _ => is_done(&outcome) == (n / 3 < 10),
        };
        ensure!(right, "command {n} was answered with {outcome:?}");
    }
    case.expect_counters(&item, 20, 20)
}

fn many_in_order(world: &mut dyn World) -> Checked {
    let case = &mut CaseContext::new(world);
    let item = case.create_item("many", 700)?;
    let commands = (0..1_000).map(|_| maker::reserve(&[(&item, 1)])).collect();
    let found = outcomes(case, commands)?;
    let done = found.iter().take_while(|outcome| is_done(outcome)).count();
    ensure_eq!(done, 700, "the first come get all there is");
    ensure!(!found.iter().skip(done).any(is_done), "nobody after them got any");
    case.expect_counters(&item, 0, 700)
}
