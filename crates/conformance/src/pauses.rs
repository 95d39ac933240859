//! Pause of an item, a location and everything.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use stockhold_domain::{ItemKey, Label, Outcome, Rejection, Reply, Scope, Status};
use stockhold_model::maker::{
    confirm, extend, pause, release, reserve, reserve_for, resume, return_all, set_stock,
};
use stockhold_store::{Query, QueryResult};

pub(super) const CASES: &[Case] = &[
    case("the pause of an item stops its sale and no other", of_an_item),
    case("the pause of a location stops its sales and no others", of_a_location),
    case("the pause of everything stops every sale", of_everything),
    case("pauses are independent: each ends with its own resume", apart),
    case("confirm, release, extend, return and expiry work during a pause", what_goes_on),
    case("a pause takes effect within a batch, in order", within_a_batch),
    case("the pause of an item that does not exist is refused", of_nothing),
    case("pauses can be read", read),
    case("a pause changes neither version nor sequence", no_version),
];

/// Pauses, checks before and after a restart, resumes, and checks again. The sale is open afterwards in any case.
fn while_paused(
    case: &mut CaseContext<'_>,
    scope: &Scope,
    check: impl Fn(&mut CaseContext<'_>) -> Checked,
) -> Checked {
    ensure_eq!(case.expect_done(pause(scope))?, Reply::Sale { paused: true }, "paused");
    let checked = check(case).and_then(|()| {
        case.world.restart();
        check(case).map_err(|what| format!("after a restart: {what}"))?;
        ensure_eq!(case.expect_done(pause(scope))?, Reply::Sale { paused: true }, "paused once more");
        check(case).map_err(|what| format!("paused twice: {what}"))
    });
    ensure_eq!(case.expect_done(resume(scope))?, Reply::Sale { paused: false }, "resumed");
    checked
}

fn expect_paused(case: &mut CaseContext<'_>, item: &ItemKey, scope: &Scope) -> Checked {
    let refused = case.expect_refused(reserve(&[(item, 1)]))?;
    ensure_eq!(refused, Rejection::SalePaused(scope.clone()), "a reserve of {item:?}");
    Ok(())
}

fn expect_open(case: &mut CaseContext<'_>, item: &ItemKey) -> Checked {
    let hold = case.hold(reserve(&[(item, 1)]))?;
    case.hold(release(hold.id))?;
    Ok(())
}

/// Pauses of items are not in the list. In a shared world it may have pauses of other cases.
fn read(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [hub, nowhere] = ["hub", "nowhere"].map(|name| case.maker.location(name));
    let (a, b) = (case.create_item("a", 5)?, case.maker.item_at(hub.as_str(), "b"));
    case.expect_done(set_stock(&b, 5))?;
    let expect = |case: &mut CaseContext<'_>, everything: bool, locations: &[&Label]| {
        for restarted in [false, true] {
            let found = match case.world.find(Query::Pauses) {
                Ok(QueryResult::Pauses(found)) => found,
                other => return Err(format!("no pauses but {other:?}")),
            };
            ensure_eq!(found.everything, everything, "everything, restarted: {restarted}");
            ensure!(found.locations.is_sorted(), "in order: {:?}", found.locations);
            let ours: Vec<_> = found.locations.iter().filter(|one| [&hub, &nowhere].contains(one)).collect();
            ensure_eq!(ours.as_slice(), locations, "locations, restarted: {restarted}");
            case.world.restart();
        }
        Ok(())
    };
    expect(&mut case, false, &[])?;
    case.expect_done(pause(&Scope::Item(a.clone())))?;
    expect(&mut case, false, &[])?;
    case.expect_done(resume(&Scope::Item(a)))?;
    // A location without items can be paused, and the list shows it.
    let [here, there] = [&hub, &nowhere].map(|location| Scope::Location(location.clone()));
    case.expect_done(pause(&there))?;
    case.expect_done(pause(&here))?;
    expect(&mut case, false, &[&hub, &nowhere])?;
    case.expect_done(pause(&Scope::Everything))?;
    case.expect_done(resume(&here))?;
    let seen = expect(&mut case, true, &[&nowhere]);
    case.expect_done(resume(&Scope::Everything))?;
    seen?;
    case.expect_done(resume(&there))?;
    expect(&mut case, false, &[])
}

fn of_an_item(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 5)?;
    let b = case.create_item("A", 5)?;
    let scope = Scope::Item(a.clone());
    while_paused(&mut case, &scope, |case| {
        expect_paused(case, &a, &scope)?;
        ensure!(case.read_item(&a)?.paused, "the item is shown as paused");
        let both = case.expect_refused(reserve(&[(&b, 1), (&a, 1)]))?;
        ensure_eq!(both, Rejection::SalePaused(scope.clone()), "a basket with it");
        expect_open(case, &b)
    })?;
    ensure!(!case.read_item(&a)?.paused, "the item is shown as open");
    expect_open(&mut case, &a)?;
    case.world.restart();
    expect_open(&mut case, &a)
}

fn of_a_location(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (hub, shop) = (case.maker.location("hub"), case.maker.location("Hub"));
    let a = case.maker.item_at(hub.as_str(), "a");
    let b = case.maker.item_at(shop.as_str(), "a");
    case.expect_done(set_stock(&a, 5))?;
    case.expect_done(set_stock(&b, 5))?;
    let scope = Scope::Location(hub.clone());
    while_paused(&mut case, &scope, |case| {
        expect_paused(case, &a, &scope)?;
        expect_open(case, &b)?;
        let late = case.maker.item_at(hub.as_str(), "made while paused");
        case.expect_done(set_stock(&late, 5))?;
        expect_paused(case, &late, &scope)
    })?;
    expect_open(&mut case, &a)
}

fn of_everything(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 5)?;
    let b = case.maker.item_at("elsewhere", "a");
    case.expect_done(set_stock(&b, 5))?;
    while_paused(&mut case, &Scope::Everything, |case| {
        expect_paused(case, &a, &Scope::Everything)?;
        expect_paused(case, &b, &Scope::Everything)
    })?;
    expect_open(&mut case, &a)?;
    case.world.restart();
    expect_open(&mut case, &b)
}

fn apart(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hub = case.maker.location("hub");
    let a = case.maker.item_at(hub.as_str(), "a");
    case.expect_done(set_stock(&a, 5))?;
    let (item, location) = (Scope::Item(a.clone()), Scope::Location(hub));
    while_paused(&mut case, &item, |case| {
        while_paused(case, &location, |case| {
            while_paused(case, &Scope::Everything, |case| expect_paused(case, &a, &Scope::Everything))?;
            expect_paused(case, &a, &location)
        })?;
        expect_paused(case, &a, &item)
    })?;
    expect_open(&mut case, &a)
}

fn what_goes_on(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    for scope in [Scope::Item(item.clone()), Scope::Everything] {
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(case.hold(reserve_for(60, &[(&item, 1)]))?.id);
        }
        case.expect_done(pause(&scope))?;
        let mut checks = || -> Checked {
            case.hold(extend(ids[0], 120))?;
            case.hold(confirm(ids[0]))?;
            case.hold(return_all(ids[0]))?;
            case.hold(release(ids[1]))?;
            case.world.restart();
            case.hold(confirm(ids[2]))?;
            case.advance(60 * SECOND);
            case.sweep()?;
            case.expect_status(ids[3], Status::Expired)?;
            case.expect_done(set_stock(&item, 11))?;
            Ok(())
        };
        let checked = checks();
        case.expect_done(resume(&scope))?;
        checked?;
    }
    case.expect_counters(&item, 2, 0)
}

fn within_a_batch(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let scope = Scope::Item(item.clone());
    let buy = reserve(&[(&item, 1)]);
    let outcomes = case.submit_all(vec![buy.clone(), pause(&scope), buy.clone(), resume(&scope), buy])?;
    ensure_matches!(
        outcomes.as_slice(),
        [
            Outcome::Done(_),
            Outcome::Done(Reply::Sale { paused: true }),
            Outcome::Refused(Rejection::SalePaused(_)),
            Outcome::Done(Reply::Sale { paused: false }),
            Outcome::Done(_),
        ],
        "decided in the order given"
    );
    case.expect_counters(&item, 0, 2)
}

fn of_nothing(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    let refused = case.expect_refused(pause(&Scope::Item(item.clone())))?;
    ensure_eq!(refused, Rejection::UnknownItem(vec![item.clone()]), "an item that does not exist");
    case.expect_done(set_stock(&item, 1))?;
    expect_open(&mut case, &item)
}

fn no_version(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 10)?;
    let before = case.read_item(&item)?;
    case.advance(SECOND);
    let scope = Scope::Item(item.clone());
    case.expect_done(pause(&scope))?;
    let mut paused = case.read_item(&item)?;
    ensure!(paused.paused, "shown as paused");
    paused.paused = false;
    ensure_eq!(paused, before, "all but the pause itself");
    let kept = case.item(set_stock(&item, 12))?;
    ensure!(kept.paused, "a set does not resume");
    case.expect_done(resume(&scope))?;
    expect_open(&mut case, &item)
}
