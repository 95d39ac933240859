//! How long a hold may last: defaults, caps, extensions.

use super::case_context::{CaseContext, Checked, SECOND, after, deadline};
use super::{Case, World, case};
use stockhold_domain::{Command, ItemKey, Patch, Rejection, SetStock, Status};
use stockhold_model::maker::{confirm, extend, release, reserve, reserve_for, seconds, set_stock, stock_of};

pub(super) const CASES: &[Case] = &[
    case("a hold lasts for its own time to live, or for the default of its items", times_to_live),
    case("a time to live beyond the maximum hold is refused", past_the_longest),
    case("an extension beyond the maximum hold stops at the cap", extension_past_the_longest),
    case("a basket has the shortest default of its items", smallest_of_a_basket),
    case("an extension never moves the deadline back", later_of_both),
    case("an extension stops at the cap, and is refused when the hold is at the cap", cap),
    case("an extended hold does not expire at its old deadline", old_deadline),
    case("an extension does not change the sequence", no_sequence),
    case("a closed reservation can't be extended", ended),
    case("extended holds expire in the order of their new deadlines", new_order),
    case("a changed setting does not change existing holds", settings_do_not_reach_back),
];

fn with_times(
    case: &mut CaseContext<'_>,
    name: &str,
    default_ttl: Option<u64>,
    max_hold: Option<u64>,
) -> Checked<ItemKey> {
    let item = case.maker.item(name);
    let setting = |time: Option<u64>| time.map_or(Patch::Keep, |time| Patch::Set(seconds(time)));
    let (default_ttl, max_hold) = (setting(default_ttl), setting(max_hold));
    case.expect_done(Command::SetStock(SetStock { default_ttl, max_hold, ..stock_of(&item, 10) }))?;
    Ok(item)
}

fn times_to_live(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let plain = with_times(&mut case, "a", None, None)?;
    let short = with_times(&mut case, "b", Some(30), None)?;
    let capped = with_times(&mut case, "c", None, Some(20))?;
    let long = with_times(&mut case, "d", Some(2_592_000), Some(2_592_000))?;
    for (item, ttl, max) in
        [(&plain, 600, 1_800), (&short, 30, 1_800), (&capped, 20, 20), (&long, 2_592_000, 2_592_000)]
    {
        let hold = case.hold(reserve(&[(item, 1)]))?;
        ensure_eq!(hold.expires_at, deadline(case.now(), ttl), "the default deadline of {item:?}");
        ensure_eq!(hold.terms.max_expires_at, deadline(case.now(), max), "the cap of {item:?}");
        for ttl in [1, max] {
            let hold = case.hold(reserve_for(ttl, &[(item, 1)]))?;
            ensure_eq!(hold.expires_at, deadline(case.now(), ttl), "the deadline asked for of {item:?}");
        }
    }
    Ok(())
}

fn past_the_longest(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let plain = with_times(&mut case, "a", None, None)?;
    let capped = with_times(&mut case, "b", None, Some(20))?;
    for (item, ttl, max) in [(&plain, 1_801, 1_800), (&plain, 2_592_000, 1_800), (&capped, 21, 20)] {
        let refused = case.expect_refused(reserve_for(ttl, &[(item, 1)]))?;
        ensure_eq!(refused, Rejection::TtlTooLong { max: seconds(max) }, "{ttl} seconds");
        case.expect_counters(item, 0, 0)?;
    }
    Ok(())
}

fn extension_past_the_longest(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = with_times(&mut case, "a", Some(10), Some(30))?;
    let hold = case.hold(reserve(&[(&item, 1)]))?;
    // The reservation keeps the longest hold that it was created with.
    let max_hold = Patch::Set(seconds(600));
    case.expect_done(Command::SetStock(SetStock { max_hold, ..stock_of(&item, 10) }))?;
    let extended = case.hold(extend(hold.id, 600))?;
    ensure_eq!(extended.expires_at, hold.terms.max_expires_at, "as long as it may be");
    case.world.restart();
    let refused = case.expect_refused(extend(hold.id, 600))?;
    let max_expires_at = hold.terms.max_expires_at;
    ensure_eq!(refused, Rejection::ExtensionLimit { max_expires_at }, "no further");
    Ok(())
}

fn smallest_of_a_basket(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = with_times(&mut case, "a", Some(100), Some(400))?;
    let b = with_times(&mut case, "b", Some(200), Some(300))?;
    let hold = case.hold(reserve(&[(&a, 1), (&b, 1)]))?;
    ensure_eq!(hold.expires_at, deadline(case.now(), 100), "the smallest default");
    ensure_eq!(hold.terms.max_expires_at, deadline(case.now(), 300), "the smallest cap");
    let refused = case.expect_refused(reserve_for(301, &[(&a, 1), (&b, 1)]))?;
    ensure_eq!(refused, Rejection::TtlTooLong { max: seconds(300) }, "more than one item allows");
    Ok(())
}

fn later_of_both(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    let hold = case.hold(reserve_for(100, &[(&item, 1)]))?;
    case.advance(10 * SECOND + 1);
    let shorter = case.hold(extend(hold.id, 5))?;
    ensure_eq!(shorter.expires_at, hold.expires_at, "a shorter one changes nothing");
    let longer = case.hold(extend(hold.id, 100))?;
    ensure_eq!(longer.expires_at, deadline(case.now(), 100), "now and the time to live, rounded up");
    case.world.restart();
    ensure_eq!(case.read_hold(hold.id)?.expires_at, longer.expires_at, "after a restart");
    Ok(())
}

fn cap(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = with_times(&mut case, "a", Some(10), Some(30))?;
    let hold = case.hold(reserve(&[(&item, 1)]))?;
    let max_expires_at = deadline(case.now(), 30);
    case.advance(9 * SECOND);
    let extended = case.hold(extend(hold.id, 30))?;
    ensure_eq!(extended.expires_at, max_expires_at, "as far as the cap");
    for _ in 0..2 {
        let refused = case.expect_refused(extend(hold.id, 1))?;
        ensure_eq!(refused, Rejection::ExtensionLimit { max_expires_at }, "at the cap");
        case.world.restart();
    }
    case.set_clock(after(max_expires_at, -1));
    case.expect_refused(extend(hold.id, 1))?;
    case.expect_status(hold.id, Status::Active)?;
    case.set_clock(max_expires_at);
    let over = Rejection::ReservationExpired { id: hold.id, expires_at: max_expires_at };
    ensure_eq!(case.expect_refused(extend(hold.id, 1))?, over, "past the cap it is expired");
    let full = case.hold(reserve_for(30, &[(&item, 1)]))?;
    let max_expires_at = full.terms.max_expires_at;
    ensure_eq!(full.expires_at, max_expires_at, "made at its cap");
    let refused = case.expect_refused(extend(full.id, 30))?;
    ensure_eq!(refused, Rejection::ExtensionLimit { max_expires_at }, "nothing to extend");
    Ok(())
}

fn old_deadline(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    let hold = case.hold(reserve_for(10, &[(&item, 1)]))?;
    case.advance(9 * SECOND);
    let extended = case.hold(extend(hold.id, 10))?;
    case.world.restart();
    case.set_clock(hold.expires_at);
    case.sweep()?;
    case.expect_status(hold.id, Status::Active)?;
    case.expect_refused(reserve(&[(&item, 1)]))?;
    case.set_clock(after(extended.expires_at, -1));
    case.sweep()?;
    case.hold(confirm(hold.id))?;
    case.expect_counters(&item, 1, 0)
}

fn no_sequence(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    let hold = case.hold(reserve_for(10, &[(&item, 1)]))?;
    let before = case.read_item(&item)?;
    case.advance(SECOND);
    let extended = case.hold(extend(hold.id, 100))?;
    ensure_eq!(extended.lines, hold.lines, "its lines");
    let shown = case.read_item(&item)?;
    ensure_eq!(shown.figures.sequence, before.figures.sequence, "sequence");
    ensure_eq!((shown.version, shown.figures.held), (before.version, 1), "version and held");
    Ok(())
}

fn ended(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 5)?;
    let mut holds = Vec::new();
    for _ in 0..3 {
        holds.push(case.hold(reserve_for(10, &[(&item, 1)]))?);
    }
    let ids = [holds[0].id, holds[1].id, holds[2].id];
    case.hold(confirm(ids[0]))?;
    case.hold(release(ids[1]))?;
    case.set_clock(holds[2].expires_at);
    case.sweep()?;
    let over = [
        Rejection::ReservationConfirmed { id: ids[0], order_id: None, payment_id: None },
        Rejection::ReservationCancelled(ids[1]),
        Rejection::ReservationExpired { id: ids[2], expires_at: holds[2].expires_at },
    ];
    for (id, over) in ids.iter().zip(over) {
        ensure_eq!(case.expect_refused(extend(*id, 60))?, over, "what has ended");
    }
    let nobody = case.maker.no_reservation();
    let unknown = Rejection::UnknownReservation(nobody);
    ensure_eq!(case.expect_refused(extend(nobody, 60))?, unknown, "what never was");
    Ok(())
}

fn new_order(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    let first = case.hold(reserve_for(10, &[(&item, 1)]))?;
    let second = case.hold(reserve_for(20, &[(&item, 1)]))?;
    case.hold(extend(first.id, 30))?;
    let refused = case.expect_refused(reserve(&[(&item, 1)]))?;
    ensure_matches!(
        refused,
        Rejection::InsufficientInventory(short) if short[0].next_expiry_at == Some(second.expires_at),
        "the earliest deadline is the second's"
    );
    case.advance(60 * SECOND);
    case.hold(reserve(&[(&item, 1)]))?;
    case.expect_status(first.id, Status::Active)?;
    case.expect_status(second.id, Status::Expired)
}

fn settings_do_not_reach_back(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    let hold = case.hold(reserve(&[(&item, 1)]))?;
    let max_hold = Patch::Set(seconds(5));
    case.expect_done(Command::SetStock(SetStock { max_hold, ..stock_of(&item, 2) }))?;
    case.expect_done(set_stock(&item, 3))?;
    ensure_eq!(case.read_hold(hold.id)?.expires_at, hold.expires_at, "its deadline");
    let extended = case.hold(extend(hold.id, 1_800))?;
    ensure_eq!(extended.expires_at, hold.terms.max_expires_at, "its cap is the one it was made with");
    let next = case.hold(reserve(&[(&item, 1)]))?;
    ensure_eq!(next.expires_at, deadline(case.now(), 5), "the next one has the new cap");
    Ok(())
}
