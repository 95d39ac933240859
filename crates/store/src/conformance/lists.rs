//! What is read: pages of items, lists of reservations, histories, events; and commands that are handed over as one.

use super::case_context::{CaseContext, Checked, SECOND};
use super::maker::{self, confirm, extend, label, release, reserve_of, return_of};
use super::{Case, World, case};
use crate::model;
use crate::{Cursor, EventRow, ItemPageRequest, Query, QueryResult, ReservationFilter, ReservationPage};
use std::collections::BTreeSet;
use stockhold_domain::{
    Command, Hold, ItemKey, Label, Outcome, Reply, ReservationId, Reserve, ReserveTerms, Status,
};

pub(super) const CASES: &[Case] = &[
    case("lists of reservations are what all events come to", lists_are_what_events_come_to),
    case("a list goes on where its page ended", pages_follow_each_other),
    case("a list shows what was answered before it was asked", lists_show_what_was_answered),
    case("a history has every event of its reservation", histories_are_whole),
    case("items come in order of location and SKU, in pages", shelves_are_in_order),
    case("events go on after a position", events_go_on),
    case("commands handed over as one are decided in their order", in_order),
    case("commands handed over as one may need what is closed", in_order_with_what_is_closed),
    case("many commands handed over as one are all decided", many_in_order),
];

fn reserve_by(owner: &Label, wants: &[(&ItemKey, u64)]) -> Command {
    let terms = ReserveTerms { owner_id: owner.clone(), optional: None };
    Command::Reserve(Reserve { terms, ..reserve_of(wants) })
}

/// Reservations of two owners on three items, of every status.
struct Crowd {
    owners: [Label; 2],
    items: [ItemKey; 3],
    holds: Vec<ReservationId>,
}

fn crowd(stage: &mut CaseContext) -> Checked<Crowd> {
    let location = stage.maker.location("hub");
    let owners = ["ann", "Ann"].map(|name| stage.maker.location(name));
    let items = [stage.maker.item("a"), stage.maker.item("b"), stage.maker.item_at(location.as_str(), "a")];
    for item in &items {
        stage.done(maker::set_stock(item, 1_000))?;
    }
    let mut holds = Vec::new();
    for n in 0..24_usize {
        let owner = &owners[usize::from(n % 5 == 0)];
        let first = &items[n % 3];
        let wants = if n % 4 == 0 { vec![(first, 1), (&items[(n + 1) % 3], 2)] } else { vec![(first, 2)] };
        let hold = stage.hold(reserve_by(owner, &wants))?;
        holds.push(hold.id);
        match n % 6 {
            0 => drop(stage.done(confirm(hold.id))?),
            1 => drop(stage.done(release(hold.id))?),
            2 => drop(stage.done(extend(hold.id, 1_200))?),
            3 => {
                stage.done(confirm(hold.id))?;
                stage.done(return_of(hold.id, &[(first, 1)]))?;
            }
            _ => {}
        }
        stage.pass(1);
    }
    // Those that were not extended fall due.
    stage.pass(601 * SECOND);
    stage.sweep()?;
    for item in &items {
        holds.push(stage.hold(reserve_by(&owners[0], &[(item, 1)]))?.id);
    }
    Ok(Crowd { owners, items, holds })
}

fn page(world: &mut dyn World, filter: &ReservationFilter) -> Checked<ReservationPage> {
    match world.find(Query::Reservations(filter.clone())) {
        Ok(QueryResult::Reservations(page)) => {
            ensure!(page.holds.len() <= filter.limit, "a page has more than its limit");
            Ok(page)
        }
        other => Err(format!("a list was answered with {other:?}")),
    }
}

/// All pages of a list.
fn all(world: &mut dyn World, mut filter: ReservationFilter) -> Checked<Vec<Hold>> {
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

/// Holds a list against what the events of its reservations come to: the same ones, as they are now, the newest first.
fn check(world: &mut dyn World, events: &[EventRow], filter: &ReservationFilter) -> Checked<usize> {
    let expected = match model::find(
        events,
        &Query::Reservations(ReservationFilter { limit: usize::MAX - 1, ..filter.clone() }),
    ) {
        QueryResult::Reservations(page) => page.holds,
        other => return Err(format!("the model answered {other:?}")),
    };
    let found = all(world, filter.clone())?;
    ensure_eq!(ids(&found), ids(&expected), "reservations of {filter:?}");
    ensure_eq!(found.len(), expected.len(), "no reservation twice in {filter:?}");
    let newest_first = found.windows(2).all(|two| two[0].terms.created_at >= two[1].terms.created_at);
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
                    after: None,
                    limit,
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
    let stage = &mut CaseContext::new(world);
    let crowd = crowd(stage)?;
    for restarted in [false, true] {
        if restarted {
            stage.world.restart();
        }
        let (events, mut found) = (stage.rows_of(&crowd.items), 0);
        for filter in filters(&crowd, 50) {
            found += check(stage.world, &events, &filter)?;
        }
        ensure!(found > crowd.holds.len(), "the lists have something");
    }
    let nobody = ReservationFilter {
        owner_id: Some(stage.maker.location("nobody")),
        limit: 50,
        ..ReservationFilter::default()
    };
    ensure_eq!(check(stage.world, &[], &nobody)?, 0, "reservations of nobody");
    Ok(())
}

fn pages_follow_each_other(world: &mut dyn World) -> Checked {
    let stage = &mut CaseContext::new(world);
    let crowd = crowd(stage)?;
    let events = stage.rows_of(&crowd.items);
    for limit in [1, 4] {
        for owner in &crowd.owners {
            let filter =
                ReservationFilter { owner_id: Some(owner.clone()), limit, ..ReservationFilter::default() };
            ensure!(check(stage.world, &events, &filter)? > limit, "there are several pages");
        }
    }
    // What is made meanwhile does not come into the pages that are left.
    let filter = ReservationFilter {
        owner_id: Some(crowd.owners[0].clone()),
        limit: 5,
        ..ReservationFilter::default()
    };
    let before = all(stage.world, filter.clone())?;
    let first = page(stage.world, &filter)?;
    let made = stage.hold(reserve_by(&crowd.owners[0], &[(&crowd.items[0], 1)]))?;
    let rest = all(stage.world, ReservationFilter { after: first.next, ..filter.clone() })?;
    ensure_eq!([first.holds, rest].concat(), before, "the pages of before");
    let newest = page(stage.world, &filter)?;
    ensure_eq!(newest.holds.first().map(|hold| hold.id), Some(made.id), "the newest reservation");
    let beyond = ReservationFilter {
        after: Some(Cursor(0)),
        owner_id: Some(crowd.owners[0].clone()),
        limit: 5,
        ..ReservationFilter::default()
    };
    ensure_eq!(page(stage.world, &beyond)?.holds.len(), 0, "reservations before the first");
    Ok(())
}

fn lists_show_what_was_answered(world: &mut dyn World) -> Checked {
    let stage = &mut CaseContext::new(world);
    let item = stage.stocked("x", 100)?;
    let owner = stage.maker.location("hasty");
    let list = |status| ReservationFilter {
        owner_id: Some(owner.clone()),
        status: Some(status),
        limit: 10,
        ..ReservationFilter::default()
    };
    for _ in 0..5 {
        let hold = stage.hold(reserve_by(&owner, &[(&item, 1)]))?;
        let active = page(stage.world, &list(Status::Active))?.holds;
        ensure_eq!(active, vec![hold.clone()], "what is active");
        stage.done(confirm(hold.id))?;
        ensure_eq!(
            page(stage.world, &list(Status::Active))?.holds.len(),
            0,
            "what is active after the confirm"
        );
        let sold = page(stage.world, &list(Status::Confirmed))?.holds;
        ensure_eq!(sold.first().map(|hold| hold.id), Some(hold.id), "the newest sale");
    }
    Ok(())
}

fn histories_are_whole(world: &mut dyn World) -> Checked {
    let stage = &mut CaseContext::new(world);
    let crowd = crowd(stage)?;
    for restarted in [false, true] {
        if restarted {
            stage.world.restart();
        }
        let events = stage.rows_of(&crowd.items);
        for id in &crowd.holds {
            let query = Query::History(*id);
            match (stage.world.find(query.clone()), model::find(&events, &query)) {
                (Ok(QueryResult::History(found)), QueryResult::History(expected)) => {
                    ensure_eq!(found, expected, "history of {id}");
                }
                other => return Err(format!("a history was answered with {other:?}")),
            }
        }
    }
    let nobody = stage.maker.no_reservation();
    ensure_matches!(
        stage.world.find(Query::History(nobody)),
        Ok(QueryResult::History(None)),
        "history of nothing"
    );
    Ok(())
}

fn shelves_are_in_order(world: &mut dyn World) -> Checked {
    let stage = &mut CaseContext::new(world);
    let places = ["p", "P", "p "].map(|name| stage.maker.location(name));
    let mut items = Vec::new();
    for place in &places {
        for name in ["b", "a", "ab", "B", "é"] {
            let item = stage.maker.item_at(place.as_str(), name);
            stage.done(maker::set_stock(&item, 3))?;
            items.push(item);
        }
    }
    let (here, everywhere) = (stage.rows_of(&items), stage.world.events());
    for location in places.iter().map(Some).chain([None]) {
        let events = if location.is_some() { &here } else { &everywhere };
        for limit in [1, 4, 1_000] {
            let mut after = None;
            loop {
                let shelf = ItemPageRequest { location: location.cloned(), after: after.clone(), limit };
                let QueryResult::ItemPage(expected) = model::find(events, &Query::ItemPage(shelf.clone()))
                else {
                    return Err("the model has no shelf".to_owned());
                };
                let found = match stage.world.find(Query::ItemPage(shelf.clone())) {
                    Ok(QueryResult::ItemPage(items)) => items,
                    other => return Err(format!("a shelf was answered with {other:?}")),
                };
                ensure_eq!(found, expected, "{shelf:?}");
                match found.last() {
                    // All items of all cases, one after the other, would take long.
                    Some(last) if location.is_some() => after = Some(last.key.clone()),
                    _ => break,
                }
            }
        }
    }
    Ok(())
}

fn events_go_on(world: &mut dyn World) -> Checked {
    let stage = &mut CaseContext::new(world);
    crowd(stage)?;
    let events = stage.world.events();
    let last = events.last().map_or(0, |row| row.position);
    for (after, limit) in
        [(0, 7), (last / 2, 50), (last - 1, 50), (last, 50), (last + 7, 50), (last - 10, 10)]
    {
        let query = Query::Events { after, limit };
        match (stage.world.find(query.clone()), model::find(&events, &query)) {
            (Ok(QueryResult::Events(found)), QueryResult::Events(expected)) => {
                ensure_eq!(found, expected, "{query:?}")
            }
            other => return Err(format!("events were answered with {other:?}")),
        }
    }
    Ok(())
}

fn outcomes(stage: &mut CaseContext, commands: Vec<Command>) -> Checked<Vec<Outcome>> {
    let envelopes: Vec<_> = commands.into_iter().map(|command| stage.maker.wrap(command)).collect();
    let asked = envelopes.len();
    let answers = stage.world.submit_in_order(envelopes);
    ensure_eq!(answers.len(), asked, "answers to as many commands");
    answers.into_iter().map(|answer| answer.map_err(|failure| failure.to_string())).collect()
}

fn is_done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done(_))
}

fn in_order(world: &mut dyn World) -> Checked {
    let stage = &mut CaseContext::new(world);
    let item = stage.stocked("one", 1)?;
    let held = stage.hold(maker::reserve(&[(&item, 1)]))?;
    let take = || maker::reserve(&[(&item, 1)]);
    let found = outcomes(stage, vec![take(), release(held.id), take(), take(), release(held.id)])?;
    let done: Vec<bool> = found.iter().map(is_done).collect();
    ensure_eq!(done, [false, true, true, false, true], "which of them took effect: {found:?}");
    stage.expect_books(&item, 0, 1)?;
    ensure_eq!(outcomes(stage, Vec::new())?.len(), 0, "answers to no commands");
    Ok(())
}

/// Whatever a store has to read for one of them, those behind it wait.
fn in_order_with_what_is_closed(world: &mut dyn World) -> Checked {
    let stage = &mut CaseContext::new(world);
    let item = stage.stocked("few", 40)?;
    let mut closed = Vec::new();
    for n in 0..20 {
        let envelope = stage.maker.keyed(&format!("old-{n}"), maker::reserve(&[(&item, 1)]));
        let Outcome::Done(Reply::Reservation(hold)) = stage.send(envelope.clone())? else {
            return Err("no reservation".to_owned());
        };
        stage.done(confirm(hold.id))?;
        closed.push((hold.id, envelope));
    }
    stage.world.restart();
    let mut envelopes = Vec::new();
    for (id, again) in &closed {
        envelopes.push(stage.maker.wrap(confirm(*id)));
        envelopes.push(stage.maker.again(again));
        envelopes.push(stage.maker.wrap(maker::reserve(&[(&item, 2)])));
    }
    let answers = stage.world.submit_in_order(envelopes);
    for (n, answer) in answers.into_iter().enumerate() {
        let outcome = answer.map_err(|failure| failure.to_string())?;
        let right = match n % 3 {
            0 => is_done(&outcome),
            1 => matches!(outcome, Outcome::Replayed(_)),
            // There were 20 left, two for each.
            _ => is_done(&outcome) == (n / 3 < 10),
        };
        ensure!(right, "command {n} was answered with {outcome:?}");
    }
    stage.expect_books(&item, 20, 20)
}

fn many_in_order(world: &mut dyn World) -> Checked {
    let stage = &mut CaseContext::new(world);
    let item = stage.stocked("many", 700)?;
    let commands = (0..1_000).map(|_| maker::reserve(&[(&item, 1)])).collect();
    let found = outcomes(stage, commands)?;
    let done = found.iter().take_while(|outcome| is_done(outcome)).count();
    ensure_eq!(done, 700, "the first come get all there is");
    ensure!(!found.iter().skip(done).any(is_done), "nobody after them got any");
    stage.expect_books(&item, 0, 700)
}
