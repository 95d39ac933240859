//! Units with ids in pools.

use super::case_context::{CaseContext, Checked, SECOND};
use super::unit_histories::unit;
use super::units::ids;
use super::{Case, World, case};
use stockhold_domain::{
    BestAvailable, Command, Fulfilment, Hold, Instant, ItemKey, OptionalTerms, Outcome, PoolTerms, Rejection,
    Reply, Reserve, ReserveTerms, Seconds, StockChange, Transition, UnitSelection, UnitStatus, limits,
};
use stockhold_model::maker::{
    add_units, amend, amend_choosing, by_sections, confirm, confirm_late, create_unit_item, delete_pool,
    label, named, pool_of, put_into_pool, release, reserve_choosing, retire, return_all, return_units, row,
    seconds, set_pool, set_pool_of_units, split, take_out_of_pool, transfer, write_off,
};
use stockhold_store::{Query, QueryResult};

pub(super) const CASES: &[Case] = &[
    case("claims pass the units of a pool by, and those with the pool take them first, in order", in_order),
    case("a pool of units that does not fall back gives its own units only", strict),
    case("a unit of a pool is named with the pool only", by_name),
    case("units go into a pool and out of it by id and by section, if all are available", moved),
    case("the best available units are those of the pool, then those of both", best),
    case("a pool of units is released at its time, and what is held follows when it comes back", released),
    case("an idle pool of units is released, and draws keep it", idle),
    case("the units of a deleted pool are for everyone, over splits, merges and returns", deleted),
    case("units that are retired and written off leave their pool", gone),
    case("a late payer gets the units of the pool again", late_payer),
    case("a pool with more units than a batch takes out is released to the last", large),
    case("a presale of seats that ends while buyers reserve gives no seat twice", race),
];

const SEATS: [&str; 8] = ["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"];

/// Two rows of four seats, each in a section of its own.
fn hall(case: &mut CaseContext<'_>) -> Checked<ItemKey> {
    let hall = case.maker.item("hall");
    case.expect_done(create_unit_item(&hall))?;
    case.expect_done(add_units(&hall, row("stalls", "A", &SEATS[..4])))?;
    // A gap between the rows, so that no run goes over both.
    let mut back = row("balcony", "B", &SEATS[4..]);
    for (unit, position) in back.iter_mut().zip(11..) {
        unit.position = Some(position);
    }
    case.expect_done(add_units(&hall, back))?;
    Ok(hall)
}

fn any(hall: &ItemKey, pool: Option<&str>, count: u64) -> Command {
    choosing(hall, pool, count, None)
}

fn choosing(hall: &ItemKey, pool: Option<&str>, count: u64, choice: Option<UnitSelection>) -> Command {
    Command::Reserve(reserve_with(hall, pool, 60, count, choice))
}

fn reserve_with(
    hall: &ItemKey,
    pool: Option<&str>,
    ttl: u64,
    count: u64,
    choice: Option<UnitSelection>,
) -> Reserve {
    let reserve = reserve_choosing(ttl, vec![(hall, count, choice)]);
    let optional = OptionalTerms { pool: pool.map(label), ..OptionalTerms::default() };
    Reserve { terms: ReserveTerms::new(reserve.terms.owner_id.clone(), optional), ..reserve }
}

/// Allocated, held and sold units of a pool.
fn figures(case: &mut CaseContext<'_>, key: &ItemKey, name: &str) -> Checked<(u64, u64, u64)> {
    let item = case.read_item(key)?;
    let pool = item.pools.get(&label(name)).ok_or_else(|| format!("no pool {name}: {:?}", item.pools))?;
    Ok((pool.terms.allocated, pool.held, pool.sold))
}

fn drawn(hold: &Hold) -> u32 {
    hold.lines.iter().flat_map(|line| &line.details().draws).map(|draw| draw.units).sum()
}

/// The units that are available, those of the pool with a `*`, in claim order.
fn free(case: &mut CaseContext<'_>, hall: &ItemKey) -> Checked<String> {
    let mut free = Vec::new();
    for id in SEATS {
        if let Some(unit) = unit(case.world, hall, id)?
            && unit.status == UnitStatus::Available
        {
            free.push(format!("{id}{}", if unit.pool.is_some() { "*" } else { "" }));
        }
    }
    Ok(free.join(" "))
}

fn in_order(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case)?;
    let before = case.read_item(&hall)?;
    let put = case.expect_done(put_into_pool(&hall, "vip", &["b2", "a2"]))?;
    let Reply::Item { item, created: true } = put else { return Err(format!("not created: {put:?}")) };
    // One for the pool, one for its units. An item whose units have ids has no sequence.
    ensure_eq!((item.version, item.figures.sequence), (before.version + 2, 0), "the item");
    ensure_eq!((item.available(), item.pools.set_aside()), (6, 2), "what is left");
    let public = case.hold(any(&hall, None, 3))?;
    ensure_eq!(ids(&public), ["a1", "a3", "a4"], "the pool's are passed by");
    case.world.restart();
    let held = case.hold(any(&hall, Some("vip"), 3))?;
    ensure_eq!(ids(&held), ["a2", "b2", "b1"], "the pool's first");
    ensure_eq!(drawn(&held), 2, "the draw");
    ensure_eq!(figures(&mut case, &hall, "vip")?, (2, 2, 0), "held");
    case.hold(confirm(held.id))?;
    ensure_eq!(figures(&mut case, &hall, "vip")?, (2, 0, 2), "sold");
    let back = case.hold(return_units(held.id, &["a2"]))?;
    ensure_eq!(drawn(&back), 1, "the line");
    ensure_eq!(free(&mut case, &hall)?, "a2* b3 b4", "it is in its pool again");
    let refused = case.expect_refused(any(&hall, None, 3))?;
    ensure_matches!(
        &refused,
        Rejection::InsufficientInventory(short) if short[0].available == 2,
        "the pool is not for everyone"
    );
    case.hold(release(public.id))?;
    let map = case.world.find(Query::SeatMap { item: hall.clone(), layout: false });
    let Ok(QueryResult::SeatMap(Some(map))) = map else { return Err(format!("no seat map: {map:?}")) };
    ensure_eq!(
        (&*map.states.available, &*map.states.set_aside),
        (&[0b1100_1101][..], &[0b10][..]),
        "the map"
    );
    let amended = case.hold(any(&hall, Some("vip"), 3))?;
    ensure_eq!(ids(&amended), ["a2", "a1", "a3"], "in claim order");
    let less = case.hold(amend(amended.id, &[(&hall, 1)]))?;
    ensure_eq!(ids(&less), ["a2"], "general stock leaves first");
    Ok(())
}

fn strict(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case)?;
    let terms = PoolTerms { fallback: false, ..pool_of(0) };
    case.expect_done(set_pool_of_units(&hall, "vip", terms))?;
    let refused = case.expect_refused(set_pool(&hall, "vip", pool_of(2)))?;
    ensure_matches!(&refused, Rejection::InvalidRequest(e) if &*e.pointer == "/allocated", "units are counted");
    case.expect_done(put_into_pool(&hall, "vip", &["a3", "b1"]))?;
    let refused = case.expect_refused(any(&hall, Some("vip"), 3))?;
    ensure_matches!(&refused, Rejection::InsufficientInventory(s) if s[0].available == 2, "its own only");
    let all = reserve_with(&hall, Some("vip"), 60, 3, None);
    let partial = case.hold(Command::Reserve(Reserve { fulfilment: Fulfilment::Partial, ..all }))?;
    ensure_eq!(ids(&partial), ["a3", "b1"], "what it has");
    let refused = case.expect_refused(amend(partial.id, &[(&hall, 3)]))?;
    ensure_matches!(&refused, Rejection::InsufficientInventory(s) if s[0].available == 2, "an amend too");
    case.hold(release(partial.id))?;
    ensure_eq!(free(&mut case, &hall)?, "a1 a2 a3* a4 b1* b2 b3 b4", "given back");
    Ok(())
}

fn by_name(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case)?;
    case.expect_done(put_into_pool(&hall, "vip", &["a1", "a2"]))?;
    case.expect_done(put_into_pool(&hall, "press", &["b1"]))?;
    let taken = |refused: &Rejection, unit: &str| matches!(refused, Rejection::UnitsUnavailable(lines) if lines[0].units == [label(unit)]);
    let refused = case.expect_refused(choosing(&hall, None, 1, Some(named(&["a3", "a1"]))))?;
    ensure!(taken(&refused, "a1"), "without the pool: {refused:?}");
    let refused = case.expect_refused(choosing(&hall, Some("vip"), 1, Some(named(&["b1", "a1"]))))?;
    ensure!(taken(&refused, "b1"), "with another pool: {refused:?}");
    let hold = case.hold(choosing(&hall, Some("vip"), 1, Some(named(&["b3", "a2"]))))?;
    ensure_eq!((ids(&hold), drawn(&hold)), (vec!["b3", "a2"], 1), "with the pool");
    let swapped = case.hold(amend_choosing(hold.id, vec![(&hall, 1, Some(named(&["a1", "a2"])))]))?;
    ensure_eq!((ids(&swapped), drawn(&swapped)), (vec!["a2", "a1"], 2), "swapped");
    let refused = case.expect_refused(amend_choosing(hold.id, vec![(&hall, 1, Some(named(&["b1"])))]))?;
    ensure!(taken(&refused, "b1"), "a swap for another pool's: {refused:?}");
    ensure_eq!(figures(&mut case, &hall, "vip")?, (2, 2, 0), "held");
    Ok(())
}

fn moved(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case)?;
    let other = case.create_item("counted", 3)?;
    let held = case.hold(Command::Reserve(reserve_with(&hall, None, 5, 1, Some(named(&["b2"])))))?;
    let before = case.read_item(&hall)?;
    for command in [
        put_into_pool(&hall, "vip", &["a1", "b2"]),
        by_sections(put_into_pool(&hall, "vip", &[]), &["stalls", "balcony"]),
    ] {
        let refused = case.expect_refused(command)?;
        ensure_matches!(&refused, Rejection::UnitInUse { unit, .. } if unit.as_str() == "b2", "held");
    }
    ensure_eq!(case.read_item(&hall)?, before, "nothing changed");
    let refused = case.expect_refused(put_into_pool(&hall, "vip", &["a1", "x"]))?;
    ensure_matches!(&refused, Rejection::UnknownUnit { unit, .. } if unit.as_str() == "x", "no such unit");
    let refused = case.expect_refused(by_sections(put_into_pool(&hall, "vip", &[]), &["stalls", "pit"]))?;
    ensure_matches!(&refused, Rejection::InvalidRequest(e) if &*e.pointer == "/sections/1", "no such section");
    let refused = case.expect_refused(take_out_of_pool(&hall, "vip", &["a1"]))?;
    ensure_matches!(&refused, Rejection::UnknownPool { .. }, "no such pool");
    let refused = case.expect_refused(put_into_pool(&other, "vip", &["a1"]))?;
    ensure_matches!(&refused, Rejection::ModeMismatch { .. }, "units without ids");
    // A hold that is due ends first.
    case.advance(5 * SECOND);
    case.expect_done(by_sections(put_into_pool(&hall, "vip", &[]), &["balcony"]))?;
    ensure_eq!(case.read_hold(held.id)?.status, stockhold_domain::Status::Expired, "the hold");
    ensure_eq!(free(&mut case, &hall)?, "a1 a2 a3 a4 b1* b2* b3* b4*", "by section");
    let version = case.read_item(&hall)?.version;
    let again = case.item(by_sections(put_into_pool(&hall, "vip", &[]), &["balcony"]))?;
    ensure_eq!(again.version, version, "the same again changes nothing");
    case.world.restart();
    // From one pool into another, and units that are not in the pool stay where they are.
    case.expect_done(put_into_pool(&hall, "press", &["b4", "a4"]))?;
    let out = case.item(take_out_of_pool(&hall, "vip", &["b4", "b3", "a1"]))?;
    ensure_eq!(free(&mut case, &hall)?, "a1 a2 a3 a4* b1* b2* b3 b4*", "moved");
    ensure_eq!((out.available(), out.pools.set_aside()), (4, 4), "the item");
    ensure_eq!(figures(&mut case, &hall, "press")?, (2, 0, 0), "press");
    ensure_eq!(figures(&mut case, &hall, "vip")?, (2, 0, 0), "vip");
    let shown = unit(case.world, &hall, "b4")?.ok_or("no unit b4")?;
    ensure_eq!((shown.version, shown.pool), (3, Some(label("press"))), "each change is a version");
    let last = case.events_of(&[&hall]).pop().ok_or("no event")?;
    ensure_matches!(
        &last.transition,
        Transition::Stock { change: StockChange::UnitsPooled { pool: None, units }, .. }
            if units.iter().map(|unit| (unit.id.as_str(), unit.version)).eq([("b3", 3)]),
        "the event"
    );
    // Of a held unit of the pool only a change is refused.
    case.hold(choosing(&hall, Some("vip"), 1, Some(named(&["b1"]))))?;
    case.expect_done(put_into_pool(&hall, "vip", &["b1", "b2"]))?;
    let refused = case.expect_refused(take_out_of_pool(&hall, "vip", &["b2", "b1"]))?;
    ensure_matches!(&refused, Rejection::UnitInUse { unit, .. } if unit.as_str() == "b1", "held");
    ensure_eq!(figures(&mut case, &hall, "vip")?, (2, 1, 0), "nothing changed");
    Ok(())
}

fn best(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case)?;
    case.expect_done(put_into_pool(&hall, "vip", &["a4", "b2", "b3"]))?;
    let wish = |adjacent, sections: &[&str]| {
        let sections = sections.iter().map(|name| label(name)).collect();
        Some(UnitSelection::BestAvailable(BestAvailable { adjacent, sections, ..BestAvailable::default() }))
    };
    let public = case.hold(choosing(&hall, None, 3, wish(true, &[])))?;
    ensure_eq!(ids(&public), ["a1", "a2", "a3"], "without the pool");
    let pair = case.hold(choosing(&hall, Some("vip"), 2, wish(true, &[])))?;
    ensure_eq!((ids(&pair), drawn(&pair)), (vec!["b2", "b3"], 2), "the pair of the pool");
    case.hold(release(pair.id))?;
    let row = case.hold(choosing(&hall, Some("vip"), 4, wish(true, &["balcony"])))?;
    ensure_eq!((ids(&row), drawn(&row)), (vec!["b1", "b2", "b3", "b4"], 2), "the place of both");
    case.hold(release(row.id))?;
    let any = case.hold(choosing(&hall, Some("vip"), 4, wish(false, &["balcony"])))?;
    ensure_eq!((ids(&any), drawn(&any)), (vec!["b2", "b3", "b1", "b4"], 2), "the pool's first");
    Ok(())
}

/// An instant this many seconds from now.
fn later(case: &CaseContext<'_>, seconds: i64) -> Instant {
    Instant::from_micros(case.now().micros() + seconds * SECOND)
}

fn released(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (one, two) = (hall(&mut case)?, case.maker.item("two"));
    case.expect_done(create_unit_item(&two))?;
    case.expect_done(add_units(&two, row("stalls", "A", &SEATS[..4])))?;
    let ends = later(&case, 100);
    for item in [&one, &two] {
        let terms = PoolTerms { releases_at: Some(ends), fallback: false, ..pool_of(0) };
        case.expect_done(set_pool_of_units(item, "vip", terms))?;
        case.expect_done(by_sections(put_into_pool(item, "vip", &[]), &["stalls"]))?;
    }
    let held = case.hold(Command::Reserve(reserve_with(&one, Some("vip"), 600, 1, None)))?;
    let sold = case.hold(any(&one, Some("vip"), 1))?;
    case.hold(confirm(sold.id))?;
    case.set_clock(Instant::from_micros(ends.micros() - 1));
    case.expect_refused(any(&one, None, 5))?;
    case.set_clock(ends);
    let public = case.hold(any(&one, None, 5))?;
    ensure_eq!(ids(&public), ["a3", "a4", "b1", "b2", "b3"], "released by a reserve");
    ensure_eq!(figures(&mut case, &one, "vip")?, (2, 1, 1), "what was drawn");
    let swept = case.expect_done(Command::Sweep)?;
    ensure_matches!(swept, Reply::Swept { released: 1.., .. }, "the sweeper releases the other");
    let shown = case.read_item(&two)?;
    ensure_eq!((shown.available(), shown.pools.set_aside()), (4, 0), "general sale");
    ensure_eq!(shown.pools.get(&label("vip")).and_then(|pool| pool.released_at), Some(ends), "when");
    ensure_eq!(free(&mut case, &two)?, "a1 a2 a3 a4", "no unit is in the pool any more");
    case.world.restart();
    // What was drawn comes back to general stock.
    case.hold(release(held.id))?;
    ensure_eq!(figures(&mut case, &one, "vip")?, (1, 0, 1), "the hold came back");
    let back = case.hold(return_all(sold.id))?;
    ensure_eq!(back.lines[0].units()[0].pool, None, "the sale came back");
    ensure_eq!(figures(&mut case, &one, "vip")?, (0, 0, 0), "nothing is left of the pool");
    ensure_eq!(free(&mut case, &one)?, "a1 a2 b4", "for everyone");
    let former = case.hold(any(&one, Some("vip"), 2))?;
    ensure_eq!((ids(&former), drawn(&former)), (vec!["a1", "a2"], 0), "a former pool gives general stock");
    ensure_matches!(case.expect_done(Command::Sweep)?, Reply::Swept { released: 0, .. }, "once");
    Ok(())
}

fn idle(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case)?;
    let minute = Seconds::new(60).map_err(|error| error.to_string())?;
    let terms = PoolTerms { idle_release: Some(minute), ..pool_of(0) };
    case.expect_done(set_pool_of_units(&hall, "vip", terms))?;
    case.expect_done(by_sections(put_into_pool(&hall, "vip", &[]), &["stalls"]))?;
    case.advance(59 * SECOND);
    let hold = case.hold(Command::Reserve(reserve_with(&hall, Some("vip"), 600, 1, None)))?;
    case.advance(59 * SECOND);
    // Neither a sale nor a claim without the pool is a draw.
    case.hold(confirm(hold.id))?;
    case.hold(any(&hall, None, 1))?;
    case.world.restart();
    case.expect_done(Command::Sweep)?;
    ensure_eq!(figures(&mut case, &hall, "vip")?, (4, 0, 1), "not idle for a minute");
    case.advance(SECOND);
    case.expect_done(Command::Sweep)?;
    let public = case.hold(any(&hall, None, 6))?;
    ensure_eq!(ids(&public), ["a2", "a3", "a4", "b2", "b3", "b4"], "idle for a minute");
    ensure_eq!(figures(&mut case, &hall, "vip")?, (1, 0, 1), "what was sold");
    Ok(())
}

fn deleted(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case)?;
    case.expect_done(by_sections(put_into_pool(&hall, "vip", &[]), &["stalls"]))?;
    let hold = case.hold(any(&hall, Some("vip"), 3))?;
    let gone = case.item(delete_pool(&hall, "vip"))?;
    ensure_eq!((gone.available(), gone.pools.set_aside()), (5, 0), "its free unit is for everyone");
    ensure_eq!(free(&mut case, &hall)?, "a4 b1 b2 b3 b4", "it is in no pool");
    let part = case.hold(split(hold.id, &[(&hall, 1)]))?;
    ensure_eq!((ids(&part), drawn(&part)), (vec!["a1"], 1), "split off");
    ensure_eq!(figures(&mut case, &hall, "vip")?, (3, 3, 0), "a split moves what was drawn");
    let whole = case.hold(stockhold_model::maker::merge(hold.id, &[part.id]))?;
    ensure_eq!((ids(&whole), drawn(&whole)), (vec!["a2", "a3", "a1"], 3), "merged");
    case.hold(transfer(hold.id, &label("another")))?;
    case.world.restart();
    let less = case.hold(amend(hold.id, &[(&hall, 2)]))?;
    ensure_eq!(drawn(&less), 2, "amended");
    ensure_eq!(figures(&mut case, &hall, "vip")?, (2, 2, 0), "what came back is in no pool");
    case.hold(confirm(hold.id))?;
    case.hold(return_all(hold.id))?;
    ensure_eq!(figures(&mut case, &hall, "vip")?, (0, 0, 0), "returned");
    ensure_eq!(free(&mut case, &hall)?, "a1 a2 a3 a4 b1 b2 b3 b4", "for everyone");
    // The same name again is a new pool.
    let again = case.expect_done(put_into_pool(&hall, "vip", &["b4"]))?;
    ensure_matches!(again, Reply::Item { created: true, .. }, "a new pool");
    ensure_eq!(figures(&mut case, &hall, "vip")?, (1, 0, 0), "with its unit");
    Ok(())
}

fn gone(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case)?;
    case.expect_done(by_sections(put_into_pool(&hall, "vip", &[]), &["stalls"]))?;
    let retired = case.item(retire(&hall, "a1"))?;
    ensure_eq!((retired.figures.total_units, retired.available()), (7, 4), "retired");
    ensure_eq!(figures(&mut case, &hall, "vip")?, (3, 0, 0), "the pool");
    let hold = case.hold(any(&hall, Some("vip"), 4))?;
    case.hold(confirm(hold.id))?;
    // General stock leaves first, and a write-off of it takes nothing off the pool.
    case.hold(write_off(hold.id, &[(&hall, 1)]))?;
    ensure_eq!(figures(&mut case, &hall, "vip")?, (3, 0, 3), "a general unit was lost");
    case.hold(write_off(hold.id, &[(&hall, 1)]))?;
    ensure_eq!(figures(&mut case, &hall, "vip")?, (2, 0, 2), "a unit of the pool was lost");
    ensure_eq!(case.read_item(&hall)?.figures.total_units, 5, "two are gone");
    case.world.restart();
    case.hold(return_all(hold.id))?;
    ensure_eq!(figures(&mut case, &hall, "vip")?, (2, 0, 0), "the others came back");
    ensure_eq!(free(&mut case, &hall)?, "a3* a4* b2 b3 b4", "to their pool");
    Ok(())
}

fn late_payer(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case)?;
    case.expect_done(put_into_pool(&hall, "vip", &["a2", "a3"]))?;
    let hold = case.hold(Command::Reserve(reserve_with(&hall, Some("vip"), 5, 2, None)))?;
    case.advance(5 * SECOND);
    case.expect_refused(any(&hall, None, 7))?;
    let late = case.hold(confirm_late(hold.id, "7"))?;
    ensure_eq!((ids(&late), drawn(&late)), (vec!["a2", "a3"], 2), "the same units");
    ensure_eq!(figures(&mut case, &hall, "vip")?, (2, 0, 2), "sold");
    Ok(())
}

fn large(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = case.maker.item("hall");
    case.expect_done(create_unit_item(&hall))?;
    let most = limits::UNPOOLED_PER_BATCH as usize;
    let names: Vec<String> = (0..most + 2).map(|n| format!("{n:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for part in names.chunks(limits::UNITS_AT_ONCE) {
        case.expect_done(add_units(&hall, row("stalls", "A", part)))?;
        case.expect_done(put_into_pool(&hall, "vip", part))?;
    }
    let ends = later(&case, 10);
    let terms = PoolTerms { releases_at: Some(ends), ..pool_of(0) };
    case.expect_done(set_pool_of_units(&hall, "vip", terms))?;
    case.set_clock(ends);
    let hold = case.hold(any(&hall, None, 1))?;
    ensure_eq!(ids(&hold), ["00000"], "a reserve waits until all are taken out");
    let shown = case.read_item(&hall)?;
    ensure_eq!((shown.available(), shown.pools.set_aside()), (most as u64 + 1, 0), "all of them");
    Ok(())
}

/// Buyers of the public and of the presale reserve seats in the instant at which the presale ends.
fn race(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = case.maker.item("hall");
    case.expect_done(create_unit_item(&hall))?;
    let names: Vec<String> = (0..40).map(|n| format!("s{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    case.expect_done(add_units(&hall, row("stalls", "A", &names)))?;
    let ends = later(&case, 10);
    let terms = PoolTerms { releases_at: Some(ends), ..pool_of(0) };
    case.expect_done(set_pool_of_units(&hall, "vip", terms))?;
    case.expect_done(put_into_pool(&hall, "vip", &names[5..35]))?;
    let early = reserve_with(&hall, Some("vip"), 600, 1, None);
    let held = case.hold(Command::Reserve(Reserve { ttl: Some(seconds(600)), ..early }))?;
    case.set_clock(ends);
    let buyer = |number: u64| match number % 3 {
        0 => any(&hall, Some("vip"), 1),
        1 => any(&hall, None, 1),
        _ if number == 32 => Command::Sweep,
        _ if number == 35 => release(held.id),
        _ => any(&hall, Some("vip"), 2),
    };
    let outcomes = case.submit_all((0..60).map(buyer).collect())?;
    let mut seats: Vec<String> = Vec::new();
    for outcome in &outcomes {
        if let Outcome::Done(Reply::Reservation(hold)) = outcome
            && hold.id != held.id
        {
            seats.extend(ids(hold).into_iter().map(str::to_owned));
        }
    }
    ensure!((38..=40).contains(&seats.len()), "{} of 40 seats were given", seats.len());
    let count = seats.len() as u64;
    seats.sort_unstable();
    seats.dedup();
    ensure_eq!(seats.len() as u64, count, "each seat once");
    // A unit that came back while the pool was released is for everyone at the next reserve.
    let _ = case.run(any(&hall, None, 1))?;
    let shown = case.read_item(&hall)?;
    ensure_eq!(shown.pools.set_aside(), 0, "nothing is set aside any more");
    Ok(())
}
