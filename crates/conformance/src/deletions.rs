//! Items that are deleted: when they may be, what is left of them, and what an item of the same name is like afterwards.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use stockhold_domain::{
    Command, DeleteItem, Item, ItemKey, Mode, Outcome, Precondition, Rejection, Reply, Reserve, Scope,
    SetStock, Status, StockChange, Transition,
};
use stockhold_model::maker::{
    add_units, adjust, confirm, create_unit_item, delete, label, pause, release, reserve, reserve_for,
    reserve_named, reserve_of, resume, retire, return_all, return_of, row, set_stock, stock_of,
};
use stockhold_store::{ItemPageRequest, Query, QueryResult, ReservationFilter};

pub(super) const CASES: &[Case] = &[
    case("a deleted item is gone, and its event has its last figures", gone),
    case("an item made again has fresh figures and a higher version", made_again),
    case("an item with sales, holds or units with ids is not deleted", in_use),
    case("due holds are expired before an item is deleted", due_holds),
    case("a deletion may have an expected version", expected_version),
    case("a deletion with a key takes effect once", replayed),
    case("a key of a deleted item is answered, and never fails", keys_of_deleted_items),
    case("reservations of a deleted item stay readable", closed_reservations),
    case("the rest of a basket comes back after one of its items was deleted", rest_of_a_basket),
    case("an item is made, deleted and made again in one batch", in_one_batch),
    case("of a reserve and a deletion in one batch the first one wins", reserve_or_delete),
    case("a deleted item may be made again in the other mode", other_mode),
    case("the pause of an item goes with it", pause_goes),
];

fn expect_deleted(case: &mut CaseContext, item: &ItemKey) -> Checked {
    let reply = case.expect_done(delete(item))?;
    ensure_eq!(reply, Reply::ItemDeleted, "the answer to a deletion");
    Ok(())
}

fn unknown(item: &ItemKey) -> Rejection {
    Rejection::UnknownItem(vec![item.clone()])
}

fn first_page(world: &mut dyn World, location: &str) -> Checked<Vec<ItemKey>> {
    let page = ItemPageRequest { location: Some(label(location)), after: None, limit: 100 };
    match world.find(Query::ItemPage(page)) {
        Ok(QueryResult::ItemPage(items)) => Ok(items.into_iter().map(|item| item.key).collect()),
        other => Err(format!("a page of items was answered with {other:?}")),
    }
}

fn gone(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let location = case.maker.location("hub");
    let [kept, item] = ["a", "b"].map(|sku| case.maker.item_at(location.as_str(), sku));
    for key in [&kept, &item] {
        case.expect_done(set_stock(key, 7))?;
    }
    let before = case.item(adjust(&item, 2))?;
    case.advance(SECOND);
    expect_deleted(&mut case, &item)?;
    for restarted in [false, true] {
        if restarted {
            case.world.restart();
        }
        ensure_eq!(case.world.item(&item), None, "a deleted item, restarted: {restarted}");
        ensure_eq!(
            first_page(case.world, location.as_str())?,
            std::slice::from_ref(&kept),
            "the page of items, restarted: {restarted}"
        );
        ensure_eq!(case.expect_refused(reserve(&[(&item, 1)]))?, unknown(&item), "a reserve");
        ensure_eq!(case.expect_refused(adjust(&item, 1))?, unknown(&item), "an adjustment");
        ensure_eq!(case.expect_refused(delete(&item))?, unknown(&item), "a second deletion");
    }
    let events = case.events_of(&[&item]);
    ensure_eq!(events.len(), 3, "set, adjusted and deleted");
    let Some(Transition::Stock { change: StockChange::Deleted, item: last }) =
        events.last().map(|event| event.transition.clone())
    else {
        return Err(format!("the last event is {:?}", events.last()));
    };
    let mut expected = before.clone();
    expected.version += 1;
    expected.figures.sequence += 1;
    expected.figures.at = case.now();
    ensure_eq!(last, expected, "the item in the event of its deletion");
    Ok(())
}

fn made_again(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 7)?;
    let hold = case.hold(reserve(&[(&item, 2)]))?;
    case.hold(release(hold.id))?;
    let before = case.item(adjust(&item, 2))?;
    expect_deleted(&mut case, &item)?;
    case.advance(SECOND);
    let reply = case.expect_done(set_stock(&item, 3))?;
    let Reply::Item { item: again, created: true } = reply else {
        return Err(format!("not created: {reply:?}"));
    };
    ensure_eq!((again.figures.sequence, again.available()), (1, 3), "sequence and available");
    ensure_eq!(again.created_at, case.now(), "created at");
    ensure!(again.version > before.version + 1, "version {} follows {}", again.version, before.version);
    let stale = SetStock { expected: Some(Precondition::version(before.version)), ..stock_of(&item, 9) };
    let refused = case.expect_refused(Command::SetStock(stale))?;
    ensure_eq!(
        refused,
        Rejection::PreconditionFailed { version: Some(again.version) },
        "a version of before"
    );
    let hold = case.hold(reserve(&[(&item, 3)]))?;
    ensure_eq!(hold.lines[0].sequence, 2, "the sequence begins anew");
    case.world.restart();
    case.expect_counters(&item, 0, 3)?;
    case.hold(confirm(hold.id))?;
    case.expect_counters(&item, 3, 0)
}

fn in_use(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 7)?;
    let sold = case.hold(reserve(&[(&item, 2)]))?;
    case.hold(confirm(sold.id))?;
    let held = case.hold(reserve(&[(&item, 3)]))?;
    let before = case.read_item(&item)?;
    let refused = case.expect_refused(delete(&item))?;
    ensure_eq!(refused, Rejection::ItemInUse { confirmed_sold: 2, held: 3, units: 0 }, "sold and held");
    ensure_eq!(case.read_item(&item)?, before, "nothing changed");
    case.hold(release(held.id))?;
    let refused = case.expect_refused(delete(&item))?;
    ensure_eq!(refused, Rejection::ItemInUse { confirmed_sold: 2, held: 0, units: 0 }, "sold");
    case.hold(return_of(sold.id, &[(&item, 1)]))?;
    let refused = case.expect_refused(delete(&item))?;
    ensure_eq!(refused, Rejection::ItemInUse { confirmed_sold: 1, held: 0, units: 0 }, "one is still sold");
    case.hold(return_all(sold.id))?;
    expect_deleted(&mut case, &item)?;

    let hall = case.maker.item("hall");
    case.expect_done(create_unit_item(&hall))?;
    case.expect_done(add_units(&hall, row("s", "A", &["a", "b"])))?;
    let refused = case.expect_refused(delete(&hall))?;
    ensure_eq!(refused, Rejection::ItemInUse { confirmed_sold: 0, held: 0, units: 2 }, "units with ids");
    let held = case.hold(reserve_named(60, &hall, &["a"]))?;
    let refused = case.expect_refused(delete(&hall))?;
    ensure_eq!(refused, Rejection::ItemInUse { confirmed_sold: 0, held: 1, units: 2 }, "one of them held");
    case.hold(release(held.id))?;
    for unit in ["a", "b"] {
        case.expect_done(retire(&hall, unit))?;
    }
    expect_deleted(&mut case, &hall)?;
    case.world.restart();
    ensure_eq!((case.world.item(&item), case.world.item(&hall)), (None, None), "both are gone");
    Ok(())
}

fn due_holds(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [item, other] = [case.create_item("a", 9)?, case.create_item("b", 9)?];
    let due = case.hold(reserve_for(1, &[(&item, 2), (&other, 1)]))?;
    let later = case.hold(reserve_for(10, &[(&item, 3)]))?;
    case.advance(SECOND);
    let refused = case.expect_refused(delete(&item))?;
    ensure_eq!(refused, Rejection::ItemInUse { confirmed_sold: 0, held: 3, units: 0 }, "one is not due");
    case.expect_status(due.id, Status::Expired)?;
    case.advance(9 * SECOND);
    expect_deleted(&mut case, &item)?;
    case.expect_status(later.id, Status::Expired)?;
    case.world.restart();
    ensure_eq!(case.world.item(&item), None, "the item");
    case.expect_counters(&other, 0, 0)
}

fn expected_version(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    let deletion =
        |expected| Command::DeleteItem(DeleteItem { item: item.clone(), expected: Some(expected) });
    let none = Rejection::PreconditionFailed { version: None };
    ensure_eq!(case.expect_refused(deletion(Precondition::Exists))?, none, "nothing is there");
    let version = case.item(set_stock(&item, 1))?.version;
    let other = Rejection::PreconditionFailed { version: Some(version) };
    for expected in [Precondition::version(version + 1), Precondition::Absent] {
        ensure_eq!(case.expect_refused(deletion(expected.clone()))?, other, "{expected:?}");
    }
    let reply = case.expect_done(deletion(Precondition::version(version)))?;
    ensure_eq!(reply, Reply::ItemDeleted, "the version that it has");
    Ok(())
}

fn replayed(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    let deletion = case.maker.keyed("key", delete(&item));
    let again = case.maker.again(&deletion);
    let outcomes = case.submit(vec![deletion.clone(), again])?;
    let expected = [Outcome::Done(Reply::ItemDeleted), Outcome::Replayed(Reply::ItemDeleted)];
    ensure_eq!(outcomes, expected, "twice in one batch");
    case.world.restart();
    case.advance(SECOND);
    let again = case.maker.again(&deletion);
    ensure_eq!(case.submit_one(again)?, Outcome::Replayed(Reply::ItemDeleted), "after a restart");
    let made = case.item(set_stock(&item, 5))?;
    let again = case.maker.again(&deletion);
    ensure_eq!(case.submit_one(again)?, Outcome::Replayed(Reply::ItemDeleted), "the item was made again");
    ensure_eq!(case.read_item(&item)?, made, "which stays");
    let other = case.create_item("b", 1)?;
    let wrong = case.maker.keyed("key", delete(&other));
    ensure_eq!(case.submit_one(wrong)?, Outcome::Refused(Rejection::IdempotencyMismatch), "another item");
    let unused = case.maker.item("never made");
    let refused = case.maker.keyed("unused", delete(&unused));
    ensure_eq!(case.submit_one(refused.clone())?, Outcome::Refused(unknown(&unused)), "an item never made");
    case.expect_done(set_stock(&unused, 1))?;
    let again = case.maker.again(&refused);
    ensure_eq!(case.submit_one(again)?, Outcome::Done(Reply::ItemDeleted), "refusals are not remembered");
    Ok(())
}

fn keys_of_deleted_items(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let adjusted = case.maker.keyed("adjust", adjust(&item, 1));
    let reserved = case.maker.keyed("reserve", reserve(&[(&item, 2)]));
    let outcomes = case.submit(vec![adjusted.clone(), reserved.clone()])?;
    let Outcome::Done(Reply::Reservation(hold)) = &outcomes[1] else { return Err(format!("{outcomes:?}")) };
    let released = case.hold(release(hold.id))?;
    expect_deleted(&mut case, &item)?;
    for restarted in [false, true] {
        if restarted {
            case.world.restart();
        }
        let again = case.maker.again(&adjusted);
        ensure_eq!(case.submit_one(again)?, Outcome::Refused(unknown(&item)), "its adjustment");
        let again = case.maker.again(&reserved);
        let expected = Outcome::Replayed(Reply::Reservation(released.clone()));
        ensure_eq!(case.submit_one(again)?, expected, "its reservation");
    }
    case.advance(SECOND);
    let made = case.item(set_stock(&item, 5))?;
    let again = case.maker.again(&adjusted);
    let expected = Outcome::Replayed(Reply::Item { item: made, created: false });
    ensure_eq!(case.submit_one(again)?, expected, "the item as it is now");
    Ok(())
}

fn closed_reservations(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let mut ids = Vec::new();
    for end in ["cancelled", "expired", "returned"] {
        let hold = case.hold(reserve_for(5, &[(&item, 1)]))?;
        match end {
            "cancelled" => drop(case.hold(release(hold.id))?),
            "expired" => {
                case.advance(5 * SECOND);
                case.sweep()?;
            }
            _ => {
                case.hold(confirm(hold.id))?;
                case.hold(return_all(hold.id))?;
            }
        }
        ids.push(hold.id);
    }
    let before = ids.iter().map(|id| case.read_hold(*id)).collect::<Checked<Vec<_>>>()?;
    expect_deleted(&mut case, &item)?;
    case.world.restart();
    for (id, before) in ids.iter().zip(&before) {
        ensure_eq!(case.read_hold(*id)?, *before, "a reservation of a deleted item");
    }
    let filter =
        ReservationFilter { sku: Some(label(item.sku())), limit: 10, ..ReservationFilter::default() };
    let found = case.world.find(Query::Reservations(filter));
    let Ok(QueryResult::Reservations(page)) = found else { return Err(format!("a list: {found:?}")) };
    ensure_eq!(page.holds.len(), 3, "the list of its SKU");
    let refused = case.expect_refused(return_all(ids[2]))?;
    ensure_matches!(refused, Rejection::ReturnExceedsSold { .. }, "a return of what came back");
    ensure_eq!(case.hold(release(ids[0]))?, before[0], "released once more");
    ensure_eq!(case.hold(confirm(ids[2]))?, before[2], "confirmed once more");
    Ok(())
}

fn rest_of_a_basket(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [item, other] = [case.create_item("a", 9)?, case.create_item("b", 9)?];
    let hold = case.hold(reserve(&[(&item, 2), (&other, 3)]))?;
    case.hold(confirm(hold.id))?;
    case.hold(return_of(hold.id, &[(&item, 2)]))?;
    expect_deleted(&mut case, &item)?;
    case.hold(return_of(hold.id, &[(&other, 1)]))?;
    case.expect_counters(&other, 2, 0)?;
    case.world.restart();
    case.advance(SECOND);
    let made = case.item(set_stock(&item, 4))?;
    let returned = case.hold(return_all(hold.id))?;
    let back: Vec<u32> = returned.lines.iter().map(|line| line.returned).collect();
    ensure_eq!(back, [2, 3], "returned of each line");
    ensure_eq!(case.read_item(&item)?, made, "the item that was made again has no part in it");
    case.expect_counters(&other, 0, 0)
}

fn in_one_batch(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    let outcomes = case.submit_all(vec![
        set_stock(&item, 1),
        delete(&item),
        reserve(&[(&item, 1)]),
        set_stock(&item, 5),
        reserve(&[(&item, 2)]),
    ])?;
    ensure_eq!(outcomes[1], Outcome::Done(Reply::ItemDeleted), "the deletion");
    ensure_eq!(outcomes[2], Outcome::Refused(unknown(&item)), "a reserve between");
    ensure_matches!(outcomes[3], Outcome::Done(Reply::Item { created: true, .. }), "made again");
    ensure_matches!(outcomes[4], Outcome::Done(Reply::Reservation(_)), "a reserve");
    case.expect_counters(&item, 0, 2)?;
    case.world.restart();
    case.expect_counters(&item, 0, 2)?;
    let Outcome::Done(Reply::Reservation(hold)) = &outcomes[4] else { return Ok(()) };
    let outcomes =
        case.submit_all(vec![release(hold.id), delete(&item), set_stock(&item, 6), delete(&item)])?;
    ensure!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done(_))), "{outcomes:?}");
    ensure_eq!(case.world.item(&item), None, "deleted twice");
    case.world.restart();
    ensure_eq!(case.world.item(&item), None, "after a restart");
    Ok(())
}

fn reserve_or_delete(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for deleted_first in [false, true] {
        let item = case.create_item(if deleted_first { "a" } else { "b" }, 9)?;
        let mut commands: Vec<Command> = (0..20).map(|_| reserve(&[(&item, 1)])).collect();
        commands.insert(if deleted_first { 0 } else { 10 }, delete(&item));
        let outcomes = case.submit_all(commands)?;
        let held = outcomes.iter().filter(|one| matches!(one, Outcome::Done(Reply::Reservation(_)))).count();
        if deleted_first {
            ensure_eq!(outcomes[0], Outcome::Done(Reply::ItemDeleted), "the deletion came first");
            ensure_eq!(held, 0, "holds of a deleted item");
        } else {
            let in_use = Rejection::ItemInUse { confirmed_sold: 0, held: 9, units: 0 };
            ensure_eq!(outcomes[10], Outcome::Refused(in_use), "the reserves came first");
            ensure_eq!(held, 9, "holds");
        }
        case.world.restart();
        ensure_eq!(case.world.item(&item).is_none(), deleted_first, "whether it is gone");
    }
    Ok(())
}

fn other_mode(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    case.expect_done(create_unit_item(&item))?;
    case.expect_done(add_units(&item, row("s", "A", &["a", "b"])))?;
    let sold = case.hold(reserve_named(60, &item, &["a", "b"]))?;
    case.hold(confirm(sold.id))?;
    case.hold(return_all(sold.id))?;
    for unit in ["a", "b"] {
        case.expect_done(retire(&item, unit))?;
    }
    let other = case.create_item("b", 9)?;
    expect_deleted(&mut case, &item)?;
    case.advance(SECOND);
    let counted = case.item(set_stock(&item, 4))?;
    ensure_eq!((counted.mode, counted.available()), (Mode::Counted, 4), "counted now");
    let basket = case.hold(reserve(&[(&item, 3), (&other, 1)]))?;
    case.expect_counters(&item, 0, 3)?;
    let refused = case.expect_refused(return_all(sold.id))?;
    ensure_matches!(refused, Rejection::ReturnExceedsSold { .. }, "a return of the units of before");
    let partial = Reserve { fulfilment: stockhold_domain::Fulfilment::Partial, ..reserve_of(&[(&item, 9)]) };
    let one = case.hold(Command::Reserve(partial))?;
    ensure_eq!(one.quantity(), 1, "what was left");
    case.world.restart();
    for id in [basket.id, one.id] {
        case.hold(release(id))?;
    }
    expect_deleted(&mut case, &item)?;
    case.advance(SECOND);
    let outcomes = case.submit_all(vec![
        create_unit_item(&item),
        add_units(&item, row("s", "A", &["a", "c"])),
        retire(&item, "c"),
    ])?;
    ensure!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done(_))), "{outcomes:?}");
    let hold = case.hold(reserve_named(60, &item, &["a"]))?;
    ensure_eq!(hold.lines[0].units()[0].version, 2, "a new unit of an old name");
    case.world.restart();
    let Item { mode, figures, .. } = case.read_item(&item)?;
    ensure_eq!((mode, figures.total_units, figures.held), (Mode::Units, 1, 1), "units with ids again");
    Ok(())
}

fn pause_goes(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let scope = Scope::Item(item.clone());
    case.expect_done(pause(&scope))?;
    expect_deleted(&mut case, &item)?;
    ensure_eq!(case.expect_refused(resume(&scope))?, unknown(&item), "the pause of nothing");
    case.advance(SECOND);
    let made = case.item(set_stock(&item, 9))?;
    ensure!(!made.paused, "a new item is not paused");
    case.hold(reserve(&[(&item, 1)]))?;
    Ok(())
}
