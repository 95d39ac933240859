//! Changes of an item's stock and settings by operators, and the limits of counters.

use super::case_context::{CaseContext, Checked, SECOND, deadline};
use super::{Case, World, case};
use stockhold_domain::{
    AdjustStock, Command, Fulfilment, Item, ItemKey, Mode, Patch, Precondition, Rejection, Reply, Reserve,
    SetStock, Settings, limits,
};
use stockhold_model::maker::{
    adjust, confirm, create_unit_item, label, reserve, reserve_of, seconds, set_stock, stock_of,
};

pub(super) const CASES: &[Case] = &[
    case("an item is created by setting its stock", created),
    case("a set keeps omitted settings, and has no effect when nothing changes", unnamed_stay),
    case("a cleared setting has no value", taken_back),
    case("an omitted total stays, and a new item needs one", total_left_out),
    case("the total can't fall below the sold and held units", below_committed),
    case("safety stock is not sold, and it may exceed the available units", safety_stock),
    case("whether an item is gated is kept, and no rule reads it", gated),
    case("a total that an external system owns changes with an override only", owned_elsewhere),
    case("a set or an adjustment may have an expected version", expected_version),
    case("a set may require that the item exists, or that it does not", expected_presence),
    case("a total at the limit is accepted, and a total beyond it is invalid", total_limit),
    case("the quantity limit applies to the sum of an item's lines", quantity_limit),
    case("an adjustment changes the total", adjusted),
    case("an adjustment out of bounds changes nothing", adjusted_too_far),
];

fn created(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.item("a");
    ensure_eq!(case.world.item(&key), None, "an item that was never set");
    let reply = case.expect_done(set_stock(&key, 0))?;
    let Reply::Item { item, created: true } = reply else { return Err(format!("not created: {reply:?}")) };
    ensure_eq!((item.figures.total_units, item.figures.sequence), (0, 1), "total and sequence");
    ensure_eq!(item.version, Item::first_version(case.now()), "version");
    ensure_eq!(item.created_at, case.now(), "created at");
    case.world.restart();
    ensure_eq!(case.read_item(&key)?, item, "as it was answered");
    case.advance(SECOND);
    let reply = case.expect_done(set_stock(&key, 5))?;
    let Reply::Item { item: next, created: false } = reply else { return Err(format!("created: {reply:?}")) };
    ensure_eq!((next.figures.sequence, next.figures.total_units), (2, 5), "once more");
    ensure_eq!(next.version, item.version + 1, "version");
    ensure_eq!((next.created_at, next.figures.at), (item.created_at, case.now()), "created at and moved at");
    Ok(())
}

fn unnamed_stay(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.item("a");
    let full = SetStock {
        safety_stock: Some(2),
        default_ttl: Patch::Set(seconds(30)),
        max_hold: Patch::Set(seconds(90)),
        metadata: Patch::Set(r#"{"colour":"red"}"#.into()),
        ..stock_of(&key, 10)
    };
    let item = case.item(Command::SetStock(full.clone()))?;
    ensure_eq!(item.available(), 8, "available");
    for command in [Command::SetStock(full), set_stock(&key, 10)] {
        case.advance(SECOND);
        ensure_eq!(case.item(command)?, item, "a set that changes nothing");
    }
    let moved = case.item(set_stock(&key, 20))?;
    ensure_eq!((moved.version, moved.figures.total_units), (item.version + 1, 20), "version and total");
    ensure_eq!(moved.settings, item.settings, "settings that were not named");
    let less = Command::SetStock(SetStock { safety_stock: Some(0), ..stock_of(&key, 20) });
    let less = case.item(less)?;
    ensure_eq!((less.settings.safety_stock, less.available()), (0, 20), "no safety stock");
    ensure_eq!(less.version, moved.version + 1, "version of a setting");
    ensure_eq!(less.settings.default_ttl, Some(seconds(30)), "the other settings");
    case.world.restart();
    ensure_eq!(case.read_item(&key)?, less, "after a restart");
    Ok(())
}

fn taken_back(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.item("a");
    let full = SetStock {
        default_ttl: Patch::Set(seconds(30)),
        max_hold: Patch::Set(seconds(90)),
        metadata: Patch::Set(r#"{"colour":"red"}"#.into()),
        ..stock_of(&key, 10)
    };
    let nothing = Settings::default();
    let bare = SetStock {
        total_units: None,
        default_ttl: Patch::Clear,
        max_hold: Patch::Clear,
        metadata: Patch::Clear,
        ..full.clone()
    };
    case.expect_done(Command::SetStock(SetStock { total_units: Some(10), ..bare.clone() }))?;
    ensure_eq!(*case.read_item(&key)?.settings, nothing, "a new item has none of its own anyway");
    case.expect_done(Command::SetStock(full.clone()))?;
    let hold = case.hold(reserve(&[(&key, 1)]))?;
    ensure_eq!(hold.expires_at, deadline(case.now(), 30), "the item's own time");
    let one = case.item(Command::SetStock(SetStock { default_ttl: Patch::Clear, ..stock_of(&key, 10) }))?;
    ensure_eq!(
        (one.settings.default_ttl, one.settings.max_hold),
        (None, Some(seconds(90))),
        "the other one stays"
    );
    let none = case.item(Command::SetStock(bare.clone()))?;
    ensure_eq!((none.version, &*none.settings), (one.version + 1, &nothing), "none is left");
    ensure_eq!(none.figures.total_units, 10, "a total that is not named stays");
    let same = case.item(Command::SetStock(bare))?;
    ensure_eq!(same.version, none.version, "taken back once more, nothing changes");
    case.world.restart();
    ensure_eq!(case.read_item(&key)?, same, "after a restart");
    ensure_eq!(
        case.read_hold(hold.id)?.terms.max_expires_at,
        hold.terms.max_expires_at,
        "what it was made with"
    );
    Ok(())
}

/// A change of settings without a total succeeds while stock changes.
fn total_left_out(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.item("a");
    let keep = |units| {
        Command::SetStock(SetStock { total_units: None, safety_stock: Some(units), ..stock_of(&key, 0) })
    };
    let missing = case.expect_refused(keep(1))?;
    ensure_matches!(missing, Rejection::InvalidRequest(error) if &*error.pointer == "/total_units", "a new item");
    let key = busy(&mut case)?;
    let item = case.item(keep(2))?;
    ensure_eq!((item.figures.total_units, item.available()), (10, 3), "ten, less five, less two");
    ensure_eq!((item.figures.confirmed_sold, item.figures.held), (2, 3), "sold and held");
    case.item(set_stock(&key, 7))?;
    let item = case.item(keep(0))?;
    ensure_eq!((item.figures.total_units, item.available()), (7, 2), "seven, less five");
    Ok(())
}

/// Ten units: two sold, three held.
fn busy(case: &mut CaseContext<'_>) -> Checked<ItemKey> {
    let item = case.create_item("a", 10)?;
    let sold = case.hold(reserve(&[(&item, 2)]))?;
    case.hold(confirm(sold.id))?;
    case.hold(reserve(&[(&item, 3)]))?;
    Ok(item)
}

fn below_committed(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = busy(&mut case)?;
    let below = Rejection::BelowCommitted { set_aside: 0, confirmed_sold: 2, held: 3, total_units: 10 };
    for total in [0, 4] {
        ensure_eq!(case.expect_refused(set_stock(&item, total))?, below, "a total of {total}");
    }
    let before = case.read_item(&item)?;
    ensure_eq!(
        (before.version, before.figures.total_units),
        (Item::first_version(before.created_at), 10),
        "nothing changed"
    );
    let item = case.item(set_stock(&item, 5))?;
    ensure_eq!((item.figures.total_units, item.available()), (5, 0), "exactly what is committed");
    case.expect_refused(reserve(&[(&item.key, 1)]))?;
    Ok(())
}

fn safety_stock(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = busy(&mut case)?;
    let keep = |units| Command::SetStock(SetStock { safety_stock: Some(units), ..stock_of(&key, 10) });
    ensure_eq!(case.item(keep(4))?.available(), 1, "ten, less five, less four");
    case.expect_refused(reserve(&[(&key, 2)]))?;
    for units in [6, u64::MAX] {
        ensure_eq!(case.item(keep(units))?.available(), 0, "never below 0");
    }
    let fulfilment = Fulfilment::Partial;
    case.expect_refused(Command::Reserve(Reserve { fulfilment, ..reserve_of(&[(&key, 1)]) }))?;
    ensure_eq!(case.item(set_stock(&key, 5))?.figures.total_units, 5, "safety stock is no promise");
    Ok(())
}

fn gated(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [key, hall] = ["a", "hall"].map(|name| case.maker.item(name));
    let set = |gated, item| Command::SetStock(SetStock { total_units: None, gated, ..stock_of(item, 0) });
    let plain = case.item(set_stock(&key, 2))?;
    ensure_eq!(plain.settings.gated, false, "a new item");
    for same in [Patch::Clear, Patch::Set(false)] {
        ensure_eq!(case.item(set(same, &key))?, plain, "it is not gated already");
    }
    let gated = case.item(set(Patch::Set(true), &key))?;
    ensure_eq!((gated.settings.gated, gated.version), (true, plain.version + 1), "set");
    for round in 0..2 {
        ensure_eq!(case.read_item(&key)?, gated, "as it was answered, round {round}");
        ensure_eq!(case.item(set(Patch::Set(true), &key))?, gated, "it is gated already");
        case.world.restart();
    }
    let other = SetStock { default_ttl: Patch::Set(seconds(30)), ..stock_of(&key, 3) };
    ensure_eq!(case.item(Command::SetStock(other))?.settings.gated, true, "a set of other settings");
    ensure_eq!(case.item(adjust(&key, -1))?.settings.gated, true, "an adjustment");
    case.hold(reserve(&[(&key, 2)]))?;
    ensure_matches!(
        case.expect_refused(reserve(&[(&key, 1)]))?,
        Rejection::InsufficientInventory(short) if short[0].available == 0 && !short[0].approximate,
        "the store knows the number"
    );
    for not in [Patch::Set(false), Patch::Clear] {
        case.expect_done(set(Patch::Set(true), &key))?;
        ensure_eq!(case.item(set(not, &key))?.settings.gated, false, "{not:?}");
        case.world.restart();
        ensure_eq!(case.read_item(&key)?.settings.gated, false, "{not:?}, restarted");
    }
    let refused = |rejection: &Rejection| matches!(rejection, Rejection::InvalidRequest(error) if *error.pointer == *"/gated");
    let units = SetStock {
        mode: Some(Mode::Units),
        gated: Patch::Set(true),
        ..SetStock { total_units: None, ..stock_of(&hall, 0) }
    };
    ensure!(refused(&case.expect_refused(Command::SetStock(units))?), "a new item whose units have ids");
    let made = case.item(create_unit_item(&hall))?;
    ensure!(refused(&case.expect_refused(set(Patch::Set(true), &hall))?), "an item whose units have ids");
    ensure_eq!(case.item(set(Patch::Set(false), &hall))?, made, "not gated, as it is");
    Ok(())
}

fn owned_elsewhere(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [key, hall] = ["a", "hall"].map(|name| case.maker.item(name));
    let erp = Patch::Set(label("erp"));
    let set = |total_units, stock_master, item| SetStock { total_units, stock_master, ..stock_of(item, 0) };
    let owned = case.item(Command::SetStock(set(Some(5), erp.clone(), &key)))?;
    ensure_eq!(owned.settings.stock_master, Some(label("erp")), "a new item has its owner and its total");
    let refused = Rejection::StockOwnedElsewhere { item: key.clone(), stock_master: label("erp") };
    for round in 0..2 {
        ensure_eq!(case.read_item(&key)?, owned, "as it was answered, round {round}");
        ensure_eq!(case.expect_refused(set_stock(&key, 6))?, refused, "another total, round {round}");
        ensure_eq!(case.expect_refused(adjust(&key, 1))?, refused, "an adjustment, round {round}");
        ensure_eq!(case.item(set_stock(&key, 5))?, owned, "the same total, round {round}");
        case.world.restart();
    }
    let gated = SetStock { gated: Patch::Set(true), ..set(None, Patch::Keep, &key) };
    ensure_eq!(case.item(Command::SetStock(gated))?.figures.total_units, 5, "another setting");
    let forced = SetStock { override_owner: true, ..stock_of(&key, 7) };
    ensure_eq!(case.item(Command::SetStock(forced))?.figures.total_units, 7, "a set with an override");
    let Command::AdjustStock(less) = adjust(&key, -3) else { return Err("no adjustment".to_owned()) };
    let less = Command::AdjustStock(AdjustStock { override_owner: true, ..less });
    ensure_eq!(case.item(less)?.figures.total_units, 4, "an adjustment with an override");
    let hold = case.hold(reserve(&[(&key, 4)]))?;
    case.expect_done(confirm(hold.id))?;
    let other = case.item(Command::SetStock(set(Some(6), Patch::Set(label("pos")), &key)))?;
    ensure_eq!(other.figures.total_units, 6, "a new owner and its total");
    let own = case.item(Command::SetStock(set(Some(8), Patch::Clear, &key)))?;
    ensure_eq!((own.figures.total_units, &own.settings.stock_master), (8, &None), "no owner any more");
    ensure_eq!(case.item(adjust(&key, 1))?.figures.total_units, 9, "an adjustment by the service's own");
    let units = SetStock { mode: Some(Mode::Units), ..set(None, erp, &hall) };
    let refused = case.expect_refused(Command::SetStock(units))?;
    ensure_matches!(
        &refused,
        Rejection::InvalidRequest(error) if *error.pointer == *"/stock_master",
        "units with ids are added one by one"
    );
    Ok(())
}

fn expected_version(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.item("a");
    let set = |total, expected| Command::SetStock(SetStock { expected, ..stock_of(&key, total) });
    let version = |version| Some(Precondition::version(version));
    let none = Rejection::PreconditionFailed { version: None };
    ensure_eq!(case.expect_refused(set(5, version(1)))?, none, "a version of nothing");
    ensure_eq!(case.world.item(&key), None, "nothing was created");
    let first = case.item(set(5, None))?.version;
    let other = Rejection::PreconditionFailed { version: Some(first) };
    for expected in [0, first - 1, first + 1, u64::MAX] {
        ensure_eq!(case.expect_refused(set(7, version(expected)))?, other, "version {expected}");
    }
    ensure_eq!(case.item(set(7, version(first)))?.version, first + 1, "the version it has");
    case.hold(reserve(&[(&key, 1)]))?;
    ensure_eq!(case.item(set(8, version(first + 1)))?.version, first + 2, "reservations move no version");
    let adjust = |expected| {
        let (item, reason) = (key.clone(), label("count"));
        Command::AdjustStock(AdjustStock {
            item,
            delta: 1,
            reason,
            supply_id: None,
            override_owner: false,
            expected,
        })
    };
    let other = Rejection::PreconditionFailed { version: Some(first + 2) };
    ensure_eq!(case.expect_refused(adjust(version(first + 1)))?, other, "an adjustment of another version");
    ensure_eq!(
        case.item(adjust(version(first + 2)))?.version,
        first + 3,
        "an adjustment of the version it has"
    );
    Ok(())
}

fn expected_presence(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.item("a");
    let set =
        |total, expected| Command::SetStock(SetStock { expected: Some(expected), ..stock_of(&key, total) });
    let any_of = |versions: &[u64]| Precondition::VersionIn(versions.into());
    let none = Rejection::PreconditionFailed { version: None };
    for expected in [Precondition::Exists, any_of(&[1, 2]), any_of(&[])] {
        ensure_eq!(case.expect_refused(set(5, expected.clone()))?, none, "{expected:?} of nothing");
    }
    ensure_eq!(case.world.item(&key), None, "nothing was created");
    let first = case.item(set(5, Precondition::Absent))?.version;
    let there = Rejection::PreconditionFailed { version: Some(first) };
    for expected in [Precondition::Absent, any_of(&[first + 1, first + 2]), any_of(&[])] {
        ensure_eq!(case.expect_refused(set(7, expected.clone()))?, there, "{expected:?} of version {first}");
    }
    // It is refused even if the values are equal, because the caller intended to create the item.
    ensure_eq!(case.expect_refused(set(5, Precondition::Absent))?, there, "created again");
    ensure_eq!(case.item(set(7, Precondition::Exists))?.version, first + 1, "whatever its version");
    let one_of = any_of(&[first + 7, first + 1]);
    ensure_eq!(case.item(set(8, one_of))?.version, first + 2, "one of several versions");
    Ok(())
}

fn total_limit(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = case.maker.item("a");
    for total in [limits::TOTAL_UNITS + 1, u64::MAX] {
        let refused = case.expect_refused(set_stock(&key, total))?;
        ensure_matches!(
            refused,
            Rejection::InvalidRequest(error) if &*error.pointer == "/total_units",
            "a total of {total}"
        );
    }
    ensure_eq!(case.world.item(&key), None, "nothing was created");
    let item = case.item(set_stock(&key, limits::TOTAL_UNITS))?;
    ensure_eq!(item.available(), limits::TOTAL_UNITS, "available");
    let hold = case.hold(reserve(&[(&key, limits::LINE_QUANTITY)]))?;
    case.hold(confirm(hold.id))?;
    case.world.restart();
    case.expect_counters(&key, limits::LINE_QUANTITY, 0)?;
    ensure_eq!(case.read_item(&key)?.available(), limits::TOTAL_UNITS - limits::LINE_QUANTITY, "the rest");
    Ok(())
}

fn quantity_limit(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", limits::TOTAL_UNITS)?;
    let b = case.create_item("b", limits::TOTAL_UNITS)?;
    let limit = limits::LINE_QUANTITY;
    let over =
        |item: &ItemKey, requested| Rejection::QuantityLimit { item: Some(item.clone()), requested, limit };
    ensure_eq!(case.expect_refused(reserve(&[(&a, limit + 1)]))?, over(&a, limit + 1), "one line");
    ensure_eq!(
        case.expect_refused(reserve(&[(&b, 1), (&a, limit), (&a, 1)]))?,
        over(&a, limit + 1),
        "two lines on the same item"
    );
    ensure_eq!(
        case.expect_refused(reserve(&[(&a, u64::MAX), (&a, u64::MAX)]))?,
        over(&a, u64::MAX),
        "more than can be counted"
    );
    let fulfilment = Fulfilment::Partial;
    let partial = Command::Reserve(Reserve { fulfilment, ..reserve_of(&[(&a, limit + 1)]) });
    ensure_eq!(case.expect_refused(partial)?, over(&a, limit + 1), "partial");
    let hold = case.hold(reserve(&[(&a, limit - 1), (&b, limit), (&a, 1)]))?;
    ensure_eq!(hold.quantity(), 2 * limit, "two lines at the limit");
    case.expect_counters(&a, 0, limit)
}

fn adjusted(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let missing = case.maker.item("missing");
    ensure_eq!(
        case.expect_refused(adjust(&missing, 1))?,
        Rejection::UnknownItem(vec![missing]),
        "an item that does not exist"
    );
    let key = busy(&mut case)?;
    let before = case.read_item(&key)?;
    case.advance(SECOND);
    let more = case.item(adjust(&key, 7))?;
    ensure_eq!(more.figures.total_units, 17, "a delivery");
    let counts = (more.version - before.version, more.figures.sequence - before.figures.sequence);
    ensure_eq!((counts, more.figures.at), ((1, 1), case.now()), "version, sequence and instant");
    ensure_eq!(case.item(adjust(&key, -12))?.figures.total_units, 5, "down to what is committed");
    case.world.restart();
    ensure_eq!(case.read_item(&key)?.available(), 0, "available");
    Ok(())
}

fn adjusted_too_far(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let key = busy(&mut case)?;
    let before = case.read_item(&key)?;
    let below = Rejection::BelowCommitted { set_aside: 0, confirmed_sold: 2, held: 3, total_units: 10 };
    for delta in [-6, -10, -11, i64::MIN] {
        ensure_eq!(case.expect_refused(adjust(&key, delta))?, below, "by {delta}");
    }
    let room = i64::try_from(limits::TOTAL_UNITS - 10).unwrap_or(i64::MAX);
    for delta in [room + 1, i64::MAX] {
        let refused = case.expect_refused(adjust(&key, delta))?;
        ensure_matches!(
            refused,
            Rejection::InvalidRequest(error) if &*error.pointer == "/delta",
            "by {delta}"
        );
    }
    ensure_eq!(case.read_item(&key)?, before, "nothing changed");
    ensure_eq!(case.item(adjust(&key, room))?.figures.total_units, limits::TOTAL_UNITS, "to the limit");
    Ok(())
}
