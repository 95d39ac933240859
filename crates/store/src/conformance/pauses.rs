//! Pause of an item, a location and everything.

use super::case_context::{CaseContext, Checked, SECOND};
use super::maker::{confirm, extend, pause, release, reserve, reserve_for, resume, return_all, set_stock};
use super::{Case, World, case};
use crate::{Query, QueryResult};
use stockhold_domain::{ItemKey, Label, Outcome, Rejection, Reply, Scope, Status};

pub(super) const CASES: &[Case] = &[
    case("the pause of an item stops its sale and no other", of_an_item),
    case("the pause of a location stops its sales and no others", of_a_location),
    case("the pause of everything stops every sale", of_everything),
    case("pauses are apart: each ends with its own resume", apart),
    case("confirm, release, extend, return and expiry go on while paused", what_goes_on),
    case("a pause takes effect within a batch, in order", within_a_batch),
    case("the pause of an item that does not exist is refused", of_nothing),
    case("what is paused as a whole can be read", read),
    case("a pause changes neither version nor sequence", no_version),
];

/// Pauses, checks over a restart, resumes, checks again: whatever the checks say, the sale is open afterwards.
fn while_paused(
    stage: &mut CaseContext<'_>,
    scope: &Scope,
    check: impl Fn(&mut CaseContext<'_>) -> Checked,
) -> Checked {
    ensure_eq!(stage.done(pause(scope))?, Reply::Sale { paused: true }, "paused");
    let checked = check(stage).and_then(|()| {
        stage.world.restart();
        check(stage).map_err(|what| format!("after a restart: {what}"))?;
        ensure_eq!(stage.done(pause(scope))?, Reply::Sale { paused: true }, "paused once more");
        check(stage).map_err(|what| format!("paused twice: {what}"))
    });
    ensure_eq!(stage.done(resume(scope))?, Reply::Sale { paused: false }, "resumed");
    checked
}

fn expect_paused(stage: &mut CaseContext<'_>, item: &ItemKey, scope: &Scope) -> Checked {
    let refused = stage.refused(reserve(&[(item, 1)]))?;
    ensure_eq!(refused, Rejection::SalePaused(scope.clone()), "a reserve of {item:?}");
    Ok(())
}

fn expect_open(stage: &mut CaseContext<'_>, item: &ItemKey) -> Checked {
    let hold = stage.hold(reserve(&[(item, 1)]))?;
    stage.hold(release(hold.id))?;
    Ok(())
}

/// Items' own pauses are not in it, and a world that cases share may have others' in it.
fn read(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let [hub, nowhere] = ["hub", "nowhere"].map(|name| stage.maker.location(name));
    let (a, b) = (stage.stocked("a", 5)?, stage.maker.item_at(hub.as_str(), "b"));
    stage.done(set_stock(&b, 5))?;
    let expect = |stage: &mut CaseContext<'_>, everything: bool, locations: &[&Label]| {
        for restarted in [false, true] {
            let found = match stage.world.find(Query::Pauses) {
                Ok(QueryResult::Pauses(found)) => found,
                other => return Err(format!("no pauses but {other:?}")),
            };
            ensure_eq!(found.everything, everything, "everything, restarted: {restarted}");
            ensure!(found.locations.is_sorted(), "in order: {:?}", found.locations);
            let ours: Vec<_> = found.locations.iter().filter(|one| [&hub, &nowhere].contains(one)).collect();
            ensure_eq!(ours.as_slice(), locations, "locations, restarted: {restarted}");
            stage.world.restart();
        }
        Ok(())
    };
    expect(&mut stage, false, &[])?;
    stage.done(pause(&Scope::Item(a.clone())))?;
    expect(&mut stage, false, &[])?;
    stage.done(resume(&Scope::Item(a)))?;
    // A location where nothing is stocked can be paused, and shows.
    let [here, there] = [&hub, &nowhere].map(|location| Scope::Location(location.clone()));
    stage.done(pause(&there))?;
    stage.done(pause(&here))?;
    expect(&mut stage, false, &[&hub, &nowhere])?;
    stage.done(pause(&Scope::Everything))?;
    stage.done(resume(&here))?;
    let seen = expect(&mut stage, true, &[&nowhere]);
    stage.done(resume(&Scope::Everything))?;
    seen?;
    stage.done(resume(&there))?;
    expect(&mut stage, false, &[])
}

fn of_an_item(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 5)?;
    let b = stage.stocked("A", 5)?;
    let scope = Scope::Item(a.clone());
    while_paused(&mut stage, &scope, |stage| {
        expect_paused(stage, &a, &scope)?;
        ensure!(stage.shown(&a)?.paused, "the item is shown as paused");
        let both = stage.refused(reserve(&[(&b, 1), (&a, 1)]))?;
        ensure_eq!(both, Rejection::SalePaused(scope.clone()), "a basket with it");
        expect_open(stage, &b)
    })?;
    ensure!(!stage.shown(&a)?.paused, "the item is shown as open");
    expect_open(&mut stage, &a)?;
    stage.world.restart();
    expect_open(&mut stage, &a)
}

fn of_a_location(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let (hub, shop) = (stage.maker.location("hub"), stage.maker.location("Hub"));
    let a = stage.maker.item_at(hub.as_str(), "a");
    let b = stage.maker.item_at(shop.as_str(), "a");
    stage.done(set_stock(&a, 5))?;
    stage.done(set_stock(&b, 5))?;
    let scope = Scope::Location(hub.clone());
    while_paused(&mut stage, &scope, |stage| {
        expect_paused(stage, &a, &scope)?;
        expect_open(stage, &b)?;
        let late = stage.maker.item_at(hub.as_str(), "made while paused");
        stage.done(set_stock(&late, 5))?;
        expect_paused(stage, &late, &scope)
    })?;
    expect_open(&mut stage, &a)
}

fn of_everything(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 5)?;
    let b = stage.maker.item_at("elsewhere", "a");
    stage.done(set_stock(&b, 5))?;
    while_paused(&mut stage, &Scope::Everything, |stage| {
        expect_paused(stage, &a, &Scope::Everything)?;
        expect_paused(stage, &b, &Scope::Everything)
    })?;
    expect_open(&mut stage, &a)?;
    stage.world.restart();
    expect_open(&mut stage, &b)
}

fn apart(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let hub = stage.maker.location("hub");
    let a = stage.maker.item_at(hub.as_str(), "a");
    stage.done(set_stock(&a, 5))?;
    let (item, location) = (Scope::Item(a.clone()), Scope::Location(hub));
    while_paused(&mut stage, &item, |stage| {
        while_paused(stage, &location, |stage| {
            while_paused(stage, &Scope::Everything, |stage| expect_paused(stage, &a, &Scope::Everything))?;
            expect_paused(stage, &a, &location)
        })?;
        expect_paused(stage, &a, &item)
    })?;
    expect_open(&mut stage, &a)
}

fn what_goes_on(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    for scope in [Scope::Item(item.clone()), Scope::Everything] {
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(stage.hold(reserve_for(60, &[(&item, 1)]))?.id);
        }
        stage.done(pause(&scope))?;
        let mut checks = || -> Checked {
            stage.hold(extend(ids[0], 120))?;
            stage.hold(confirm(ids[0]))?;
            stage.hold(return_all(ids[0]))?;
            stage.hold(release(ids[1]))?;
            stage.world.restart();
            stage.hold(confirm(ids[2]))?;
            stage.pass(60 * SECOND);
            stage.sweep()?;
            stage.expect_status(ids[3], Status::Expired)?;
            stage.done(set_stock(&item, 11))?;
            Ok(())
        };
        let checked = checks();
        stage.done(resume(&scope))?;
        checked?;
    }
    stage.expect_books(&item, 2, 0)
}

fn within_a_batch(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    let scope = Scope::Item(item.clone());
    let buy = reserve(&[(&item, 1)]);
    let outcomes = stage.all(vec![buy.clone(), pause(&scope), buy.clone(), resume(&scope), buy])?;
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
    stage.expect_books(&item, 0, 2)
}

fn of_nothing(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.maker.item("a");
    let refused = stage.refused(pause(&Scope::Item(item.clone())))?;
    ensure_eq!(refused, Rejection::UnknownItem(vec![item.clone()]), "an item that does not exist");
    stage.done(set_stock(&item, 1))?;
    expect_open(&mut stage, &item)
}

fn no_version(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let item = stage.stocked("a", 10)?;
    let before = stage.shown(&item)?;
    stage.pass(SECOND);
    let scope = Scope::Item(item.clone());
    stage.done(pause(&scope))?;
    let mut paused = stage.shown(&item)?;
    ensure!(paused.paused, "shown as paused");
    paused.paused = false;
    ensure_eq!(paused, before, "all but the pause itself");
    let kept = stage.item(set_stock(&item, 12))?;
    ensure!(kept.paused, "a set does not resume");
    stage.done(resume(&scope))?;
    expect_open(&mut stage, &item)
}
