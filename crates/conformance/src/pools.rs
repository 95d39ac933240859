//! Pools: parts of an item's stock that are set aside.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use stockhold_domain::{
    Command, Fulfilment, Hold, ItemKey, Outcome, Pool, PoolTerms, Rejection, Reply, Reserve, Seconds,
    StockChange, Transition,
};
use stockhold_model::maker::{
    amend, confirm, delete_pool, label, pool_of, release, reserve, reserve_for, reserve_from, return_of,
    set_pool,
};

pub(super) const CASES: &[Case] = &[
    case("a pool is drawn from by name only, and its units stay set aside over a restart", by_name),
    case("general stock follows a pool that falls back, and leaves first", falls_back),
    case("a pool is released at its time by the sweeper and by a reserve that needs it", released),
    case("an idle pool is released when nothing was drawn for its time", idle),
    case("what was drawn from a deleted pool goes to general sale when it comes back", deleted),
    case("setting aside more than is free is refused, and due holds end first", below_committed),
    case("a presale that ends while buyers reserve promises no unit twice", race),
    case("a late payer draws from the pool again", late_payer),
];

fn from(pool: &str, lines: &[(&ItemKey, u64)]) -> Command {
    Command::Reserve(reserve_from(pool, 60, lines))
}

/// Allocated, held and sold units of a pool.
fn figures(case: &mut CaseContext<'_>, key: &ItemKey, name: &str) -> Checked<(u64, u64, u64)> {
    let item = case.read_item(key)?;
    let pool = item.pools.get(&label(name)).ok_or_else(|| format!("no pool {name}: {:?}", item.pools))?;
    Ok((pool.terms.allocated, pool.held, pool.sold))
}

fn draws(hold: &Hold) -> Vec<(String, u32)> {
    let draws = hold.lines.iter().flat_map(|line| &line.details().draws);
    draws.map(|draw| (draw.pool.to_string(), draw.units)).collect()
}

fn vip(units: u32) -> Vec<(String, u32)> {
    vec![("vip".to_owned(), units)]
}

fn by_name(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 10)?;
    let before = case.read_item(&a)?;
    let set = case.item(set_pool(&a, "vip", pool_of(4)))?;
    ensure_eq!(
        (set.version, set.figures.sequence),
        (before.version + 1, before.figures.sequence + 1),
        "the item"
    );
    ensure_eq!((set.available(), set.pools.set_aside()), (6, 4), "what is left");
    let again = case.item(set_pool(&a, "vip", pool_of(4)))?;
    ensure_eq!(again.version, set.version, "the same again changes nothing");
    ensure_matches!(
        case.expect_refused(reserve(&[(&a, 7)]))?,
        Rejection::InsufficientInventory(short) if short[0].available == 6,
        "more than is left without the pool"
    );
    let hold = case.hold(from("vip", &[(&a, 3)]))?;
    ensure_eq!(draws(&hold), vip(3), "the draw");
    case.world.restart();
    ensure_eq!(figures(&mut case, &a, "vip")?, (4, 3, 0), "held");
    case.hold(confirm(hold.id))?;
    ensure_eq!(figures(&mut case, &a, "vip")?, (4, 0, 3), "sold");
    case.hold(return_of(hold.id, &[(&a, 2)]))?;
    ensure_eq!(figures(&mut case, &a, "vip")?, (4, 0, 1), "returned");
    ensure_eq!(draws(&case.read_hold(hold.id)?), vip(1), "the line");
    let refused = case.expect_refused(from("gold", &[(&a, 1)]))?;
    ensure_matches!(&refused, Rejection::InvalidRequest(error) if &*error.pointer == "/pool", "no such pool");
    ensure_eq!(case.read_item(&a)?.available(), 6, "general stock is untouched");
    Ok(())
}

fn falls_back(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = (case.create_item("a", 10)?, case.create_item("b", 10)?);
    case.expect_done(set_pool(&a, "vip", pool_of(2)))?;
    case.expect_done(set_pool(&a, "press", PoolTerms { fallback: false, ..pool_of(3) }))?;
    let hold = case.hold(from("vip", &[(&a, 5), (&b, 1)]))?;
    ensure_eq!(draws(&hold), vip(2), "the pool first, and nothing of an item without it");
    ensure_matches!(
        case.expect_refused(from("press", &[(&a, 4)]))?,
        Rejection::InsufficientInventory(short) if short[0].available == 3,
        "no general stock for a pool that does not fall back"
    );
    let partial = Reserve { fulfilment: Fulfilment::Partial, ..reserve_from("press", 60, &[(&a, 4)]) };
    let press = case.hold(Command::Reserve(partial))?;
    ensure_eq!(press.lines[0].quantity, 3, "what the pool has");
    let less = case.hold(amend(hold.id, &[(&a, 1)]))?;
    ensure_eq!(draws(&less), vip(1), "general stock left first");
    let more = case.hold(amend(hold.id, &[(&a, 4)]))?;
    ensure_eq!(draws(&more), vip(2), "the pool again");
    case.hold(release(press.id))?;
    ensure_eq!(figures(&mut case, &a, "press")?, (3, 0, 0), "given back to its pool");
    ensure_eq!(figures(&mut case, &a, "vip")?, (2, 2, 0), "held");
    case.expect_counters(&a, 0, 4)
}

fn released(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = (case.create_item("a", 10)?, case.create_item("b", 10)?);
    let ends = stockhold_domain::Instant::from_micros(case.now().micros() + 100 * SECOND);
    for item in [&a, &b] {
        case.expect_done(set_pool(item, "vip", PoolTerms { releases_at: Some(ends), ..pool_of(6) }))?;
    }
    case.hold(Command::Reserve(reserve_from("vip", 600, &[(&a, 2)])))?;
    case.set_clock(stockhold_domain::Instant::from_micros(ends.micros() - 1));
    case.expect_refused(reserve(&[(&a, 5)]))?;
    case.set_clock(ends);
    case.hold(reserve(&[(&a, 8)]))?;
    ensure_eq!(figures(&mut case, &a, "vip")?, (2, 2, 0), "released by a reserve");
    let swept = case.expect_done(Command::Sweep)?;
    ensure_matches!(swept, Reply::Swept { released: 1.., .. }, "the sweeper releases the other");
    let shown = case.read_item(&b)?;
    ensure_eq!((shown.available(), shown.pools.set_aside()), (10, 0), "general sale");
    ensure_eq!(shown.pools.get(&label("vip")).and_then(|pool| pool.released_at), Some(ends), "when");
    let events = case.events_of(&[&b]);
    ensure_matches!(
        events.last().map(|event| &event.transition),
        Some(Transition::Stock { change: StockChange::PoolReleased { pool }, .. }) if pool.as_str() == "vip",
        "the event"
    );
    case.world.restart();
    let hold = case.hold(from("vip", &[(&b, 1)]))?;
    ensure_eq!(draws(&hold), Vec::new(), "a reserve that names a former pool gets general stock");
    ensure_matches!(case.expect_done(Command::Sweep)?, Reply::Swept { released: 0, .. }, "once");
    // A release in the past is at once.
    let past = case.item(set_pool(&b, "vip", PoolTerms { releases_at: Some(ends), ..pool_of(3) }))?;
    ensure_eq!((past.available(), past.pools.set_aside()), (9, 0), "released as it was set");
    Ok(())
}

fn idle(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 10)?;
    let minute = Seconds::new(60).map_err(|error| error.to_string())?;
    case.expect_done(set_pool(&a, "vip", PoolTerms { idle_release: Some(minute), ..pool_of(6) }))?;
    case.advance(59 * SECOND);
    let hold = case.hold(Command::Reserve(reserve_from("vip", 600, &[(&a, 1)])))?;
    case.advance(59 * SECOND);
    // Neither giving units back nor a sale is a draw.
    case.hold(confirm(hold.id))?;
    case.world.restart();
    case.expect_done(Command::Sweep)?;
    ensure_eq!(figures(&mut case, &a, "vip")?, (6, 0, 1), "not idle for a minute");
    case.advance(SECOND);
    case.expect_done(Command::Sweep)?;
    ensure_eq!(figures(&mut case, &a, "vip")?, (1, 0, 1), "released");
    Ok(())
}

fn deleted(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 5)?;
    ensure_matches!(case.expect_refused(delete_pool(&a, "vip"))?, Rejection::UnknownPool { .. }, "none yet");
    case.expect_done(set_pool(&a, "vip", pool_of(5)))?;
    let hold = case.hold(from("vip", &[(&a, 3)]))?;
    let shown = case.item(delete_pool(&a, "vip"))?;
    ensure_eq!((shown.available(), shown.pools.allocated()), (2, 3), "its free units are for sale");
    let again = case.item(delete_pool(&a, "vip"))?;
    ensure_eq!(again.version, shown.version, "again changes nothing");
    case.hold(amend(hold.id, &[(&a, 1)]))?;
    ensure_eq!(figures(&mut case, &a, "vip")?, (1, 1, 0), "what came back is no longer in the pool");
    case.hold(reserve(&[(&a, 4)]))?;
    case.hold(release(hold.id))?;
    let shown = case.read_item(&a)?;
    ensure_eq!((shown.available(), shown.pools.current().count()), (1, 0), "it is gone");
    Ok(())
}

fn below_committed(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 5)?;
    let hold = case.hold(reserve_for(10, &[(&a, 3)]))?;
    case.expect_done(set_pool(&a, "vip", pool_of(1)))?;
    ensure_eq!(
        case.expect_refused(set_pool(&a, "press", pool_of(2)))?,
        Rejection::BelowCommitted { confirmed_sold: 0, held: 3, total_units: 5, set_aside: 1 },
        "one is free"
    );
    ensure_matches!(
        case.expect_refused(stockhold_model::maker::set_stock(&a, 3))?,
        Rejection::BelowCommitted { set_aside: 1, .. },
        "a total that takes from the pool"
    );
    case.advance(10 * SECOND);
    let set = case.item(set_pool(&a, "press", pool_of(4)))?;
    ensure_eq!((set.available(), set.pools.set_aside()), (0, 5), "the due hold ended first");
    ensure_eq!(case.read_hold(hold.id)?.status, stockhold_domain::Status::Expired, "the hold");
    Ok(())
}

/// Buyers of the public and of the presale reserve in the instant at which the presale ends.
fn race(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 40)?;
    let ends = stockhold_domain::Instant::from_micros(case.now().micros() + 10 * SECOND);
    case.expect_done(set_pool(&a, "vip", PoolTerms { releases_at: Some(ends), ..pool_of(30) }))?;
    case.set_clock(ends);
    let buyer = |number: u64| match number % 3 {
        0 => from("vip", &[(&a, 1)]),
        1 => reserve(&[(&a, 1)]),
        _ if number == 32 => Command::Sweep,
        _ => from("vip", &[(&a, 2)]),
    };
    let outcomes = case.submit_all((0..60).map(buyer).collect())?;
    let sold: u32 = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Done(Reply::Reservation(hold)) => Some(hold.lines[0].quantity),
            _ => None,
        })
        .sum();
    ensure!((39..=40).contains(&sold), "{sold} of 40 units were promised");
    let shown = case.read_item(&a)?;
    ensure_eq!(shown.figures.held, u64::from(sold), "held");
    let free: u64 = shown.pools.all().iter().map(Pool::free).sum();
    ensure_eq!(free, 0, "nothing is set aside any more");
    Ok(())
}

fn late_payer(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 4)?;
    case.expect_done(set_pool(&a, "vip", PoolTerms { fallback: false, ..pool_of(2) }))?;
    let hold = case.hold(Command::Reserve(reserve_from("vip", 5, &[(&a, 2)])))?;
    case.advance(5 * SECOND);
    let late = case.hold(stockhold_model::maker::confirm_late(hold.id, "7"))?;
    ensure_eq!(draws(&late), vip(2), "the new hold");
    ensure_eq!(figures(&mut case, &a, "vip")?, (2, 0, 2), "sold");
    Ok(())
}
