//! Amend of counted lines, deadline and metadata: what it changes, what it refuses and what its event has.

use super::case_context::{CaseContext, Checked, SECOND, after, deadline, no_counters};
use super::deadlines::expired;
use super::{Case, World, case};
use std::sync::Arc;
use stockhold_domain::{
    Amend, Command, Fulfilment, Hold, HoldChange, Instant, ItemKey, LineChange, Mode, OptionalTerms, Patch,
    Rejection, Reserve, ReserveTerms, Scope, SetStock, Shortage, Status, StockCounters, limits,
};
use stockhold_model::maker::{
    amend, amend_of, close_payment, confirm, extend, label, named, open_payment, pause, release, reserve,
    reserve_for, reserve_of, reserve_partial, resume, seconds, set_stock, stock_of,
};

pub(super) const CASES: &[Case] = &[
    case("an amend replaces the lines, and its event has the lines before", lines_before),
    case("an amend that changes nothing raises no version and writes no event", no_change),
    case("a pause refuses only what an amend adds", pause_judges_additions),
    case("an amend is refused as a whole, and the refusal counts its own units as available", all_or_nothing),
    case("an amend of unknown items, wrong modes or too many units is refused", malformed_lines),
    case("a partial amend gets what is available and keeps what it asked for", partial),
    case("a partial amend drops the lines that it does not name, whatever else it gets", partial_drops),
    case("an amend moves the deadline as an extension would", time_to_live),
    case("a line that comes in brings the limit of its item", limit_of_a_new_line),
    case("an amend after a closed payment window keeps the deadline", after_a_payment),
    case("an amend replaces or clears the metadata and keeps the other terms", metadata),
    case("an amend of a closed or unknown reservation is refused", closed),
    case("the history of a reservation that was amended often is whole", long_history),
];

/// An amend that takes what is available.
fn amend_partial(id: stockhold_domain::ReservationId, lines: &[(&ItemKey, u64)]) -> Command {
    Command::Amend(Amend { fulfilment: Fulfilment::Partial, ..amend_of(id, lines) })
}

/// An amend of the time to live alone.
fn amend_ttl(hold: &Hold, ttl: u64) -> Command {
    Command::Amend(Amend { basket: None, ttl: Some(seconds(ttl)), ..amend_of(hold.id, &some_line(hold)) })
}

/// An amend of the metadata alone.
fn amend_metadata(hold: &Hold, metadata: Patch<Arc<str>>) -> Command {
    Command::Amend(Amend { basket: None, metadata, ..amend_of(hold.id, &some_line(hold)) })
}

fn some_line(hold: &Hold) -> Vec<(&ItemKey, u64)> {
    hold.lines.iter().map(|line| (&line.item, 1)).collect()
}

/// Requested and granted units of each line.
fn quantities(hold: &Hold) -> Vec<(&ItemKey, u32, u32)> {
    hold.lines.iter().map(|line| (&line.item, line.requested, line.quantity)).collect()
}

fn before(quantity_before: u32) -> LineChange {
    LineChange { quantity_before, ..LineChange::default() }
}

fn figures(held: u64, sequence: u64) -> StockCounters {
    let active = u64::from(held > 0);
    StockCounters { total_units: 9, held, active, sequence, ..no_counters() }
}

fn lines_before(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [a, b, c] = ["a", "b", "c"].map(|name| case.maker.item(name));
    for item in [&a, &b, &c] {
        case.expect_done(set_stock(item, 9))?;
    }
    let hold = case.hold(reserve(&[(&a, 3), (&b, 2)]))?;
    case.advance(SECOND);
    let amended = case.hold(amend(hold.id, &[(&c, 1), (&a, 4)]))?;
    ensure_eq!(quantities(&amended), [(&c, 1, 1), (&a, 4, 4)], "the lines, in the order of the request");
    ensure_eq!(
        (amended.version, amended.status, amended.expires_at),
        (2, Status::Active, hold.expires_at),
        "version, status and deadline"
    );
    ensure_eq!(amended.terms, hold.terms, "the terms stay");
    for _ in 0..2 {
        ensure_eq!(case.read_hold(hold.id)?, amended, "as it was answered");
        let (change, shown, counters) = case.latest_change(hold.id)?;
        let lines = [before(0), before(3), before(2)].into();
        ensure_eq!(change, HoldChange::Amended { lines }, "what each line was before");
        let expected = [(&c, 1, 1), (&a, 4, 4), (&b, 0, 0)];
        ensure_eq!(quantities(&shown), expected, "the dropped line has no units");
        ensure_eq!(shown.without_removed_lines(), amended, "the reservation of the event");
        let at = case.now();
        let counters: Vec<StockCounters> = counters.to_vec();
        let expected = [figures(1, 2), figures(4, 3), figures(0, 3)].map(|one| StockCounters { at, ..one });
        ensure_eq!(counters, expected, "the figures of every item that moved");
        let sequences: Vec<u64> = shown.lines.iter().map(|line| line.sequence).collect();
        ensure_eq!(sequences, [2, 3, 3], "the sequence of every line");
        let history = case.history(hold.id)?;
        ensure_eq!(
            history.last().and_then(|event| event.previous),
            Some(hold.last_event),
            "the event before"
        );
        case.world.restart();
    }
    // A line that stays as it is moves nothing.
    let amended = case.hold(amend(hold.id, &[(&c, 1), (&a, 2)]))?;
    let sequences: Vec<u64> = amended.lines.iter().map(|line| line.sequence).collect();
    ensure_eq!(sequences, [2, 4], "the sequences of the lines");
    for (item, expected) in [(&a, figures(2, 4)), (&b, figures(0, 3)), (&c, figures(1, 2))] {
        case.expect_figures(item, expected)?;
    }
    case.hold(confirm(hold.id))?;
    case.expect_counters(&a, 2, 0)?;
    case.expect_counters(&b, 0, 0)?;
    case.expect_counters(&c, 1, 0)
}

fn no_change(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 9)?;
    let b = case.create_item("b", 9)?;
    let plain = case.hold(reserve_for(60, &[(&a, 2), (&b, 1)]))?;
    let hold = case.hold(amend_metadata(&plain, Patch::Set("{\"gift\":true}".into())))?;
    case.advance(SECOND);
    let (at, figures) = (case.read_item(&a)?.figures.at, case.read_item(&a)?.figures);
    for command in [
        amend(hold.id, &[(&a, 2), (&b, 1)]),
        amend(hold.id, &[(&b, 1), (&a, 1), (&a, 1)]),
        amend_partial(hold.id, &[(&a, 2), (&b, 1)]),
        amend_ttl(&hold, 59),
        amend_ttl(&hold, 1),
        amend_metadata(&hold, Patch::Keep),
        amend_metadata(&hold, Patch::Set("{\"gift\":true}".into())),
    ] {
        ensure_eq!(case.hold(command.clone())?, hold, "{command:?}");
    }
    case.world.restart();
    ensure_eq!(case.read_hold(hold.id)?, hold, "after a restart");
    ensure_eq!(case.history(hold.id)?.len(), 2, "the events of the reservation");
    ensure_eq!(case.read_item(&a)?.figures, figures, "the figures, which were last changed at {at:?}");
    ensure_eq!(case.hold(amend_ttl(&hold, 60))?.version, 3, "a deadline that moves is a change");
    ensure_eq!(case.read_item(&a)?.figures.sequence, 2, "a deadline is no figure of an item");
    Ok(())
}

fn pause_judges_additions(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hub = case.maker.location("hub");
    let [a, b] = ["a", "b"].map(|name| case.maker.item_at(hub.as_str(), name));
    let elsewhere = case.create_item("c", 9)?;
    for item in [&a, &b] {
        case.expect_done(set_stock(item, 9))?;
    }
    let hold = case.hold(reserve(&[(&a, 3), (&b, 1)]))?;
    let scope = Scope::Location(hub);
    case.expect_done(pause(&scope))?;
    let paused = Rejection::SalePaused(scope.clone());
    for command in [
        amend(hold.id, &[(&a, 4), (&b, 1)]),
        amend(hold.id, &[(&a, 1), (&b, 2)]),
        amend_partial(hold.id, &[(&a, 4)]),
    ] {
        ensure_eq!(case.expect_refused(command)?, paused, "more of an item that is paused");
    }
    case.world.restart();
    case.hold(amend_metadata(&hold, Patch::Set("{}".into())))?;
    case.hold(amend_ttl(&hold, 700))?;
    let same = case.hold(amend(hold.id, &[(&b, 1), (&a, 3), (&elsewhere, 1)]))?;
    ensure_eq!(quantities(&same), [(&b, 1, 1), (&a, 3, 3), (&elsewhere, 1, 1)], "another item is on sale");
    let fewer = case.hold(amend(hold.id, &[(&a, 2)]))?;
    ensure_eq!(quantities(&fewer), [(&a, 2, 2)], "fewer and fewer lines");
    let dropped = case.expect_refused(amend(hold.id, &[(&a, 2), (&b, 1)]))?;
    ensure_eq!(dropped, paused, "a line that was dropped is new");
    ensure_eq!(
        case.expect_refused(amend(hold.id, &[(&a, 3)]))?,
        paused,
        "units that were given back are new"
    );
    case.expect_done(resume(&scope))?;
    case.hold(amend(hold.id, &[(&a, 3)]))?;
    case.expect_counters(&a, 0, 3)?;
    case.expect_counters(&b, 0, 0)
}

fn all_or_nothing(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [a, b, c] = ["a", "b", "c"].map(|name| case.maker.item(name));
    for item in [&a, &b, &c] {
        case.expect_done(set_stock(item, 9))?;
    }
    let hold = case.hold(reserve_for(60, &[(&a, 4), (&c, 1)]))?;
    let other = case.hold(reserve_for(30, &[(&a, 2), (&b, 8)]))?;
    let shown = [&a, &b, &c].map(|item| case.read_item(item));
    let refused = case.expect_refused(amend(hold.id, &[(&c, 9), (&a, 8), (&b, 2)]))?;
    let shortage = |item: &ItemKey, requested, available| Shortage {
        item: item.clone(),
        requested,
        available,
        next_expiry_at: Some(other.expires_at),
        unknown_sections: Vec::new(),
        approximate: false,
    };
    // Of a, 3 units are free and 4 are the reservation's own.
    let short = vec![shortage(&a, 8, 7), shortage(&b, 2, 1)];
    ensure_eq!(refused, Rejection::InsufficientInventory(short), "two lines of three");
    for _ in 0..2 {
        ensure_eq!(case.read_hold(hold.id)?, hold, "the reservation is as before");
        ensure_eq!([&a, &b, &c].map(|item| case.read_item(item)), shown, "the items are as before");
        case.world.restart();
    }
    case.hold(amend(hold.id, &[(&c, 9), (&a, 7), (&b, 1)]))?;
    for (item, held) in [(&a, 9), (&b, 9), (&c, 9)] {
        case.expect_counters(item, 0, held)?;
        ensure_eq!(case.read_item(item)?.available(), 0, "everything is held");
    }
    Ok(())
}

fn malformed_lines(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", limits::TOTAL_UNITS)?;
    let b = case.create_item("b", 9)?;
    let missing = case.maker.item("missing");
    let hold = case.hold(reserve(&[(&a, 2)]))?;
    let unknown = Rejection::UnknownItem(vec![missing.clone()]);
    ensure_eq!(case.expect_refused(amend(hold.id, &[(&b, 1), (&missing, 1)]))?, unknown, "an unknown item");
    let seats = stockhold_model::maker::amend_choosing(hold.id, vec![(&a, 1, Some(named(&["x"])))]);
    let mode = Rejection::ModeMismatch { item: a.clone(), mode: Mode::Counted };
    ensure_eq!(case.expect_refused(seats)?, mode, "units of a counted item");
    let limit = limits::LINE_QUANTITY;
    let over = Rejection::QuantityLimit { item: Some(a.clone()), requested: limit + 1, limit };
    ensure_eq!(case.expect_refused(amend(hold.id, &[(&a, limit), (&a, 1)]))?, over, "too many units");
    ensure_eq!(case.read_hold(hold.id)?, hold, "nothing changed");
    ensure_eq!(case.hold(amend(hold.id, &[(&a, limit)]))?.quantity(), limit, "as many as a line may have");
    case.expect_counters(&a, 0, limit)
}

fn partial(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 5)?;
    let b = case.create_item("b", 5)?;
    let hold = case.hold(reserve_partial(60, &[(&a, 2)]))?;
    case.hold(reserve_for(60, &[(&b, 5)]))?;
    let amended = case.hold(amend_partial(hold.id, &[(&a, 7)]))?;
    ensure_eq!(quantities(&amended), [(&a, 7, 5)], "five of seven");
    // The same units for another wish are another line.
    let amended = case.hold(amend_partial(hold.id, &[(&a, 6)]))?;
    ensure_eq!((quantities(&amended), amended.version), (vec![(&a, 6, 5)], 3), "five of six");
    case.expect_figures(
        &a,
        StockCounters { total_units: 5, held: 5, active: 1, sequence: 3, ..no_counters() },
    )?;
    let nothing = case.expect_refused(amend_partial(hold.id, &[(&b, 1)]))?;
    ensure_matches!(nothing, Rejection::InsufficientInventory(_), "nothing at all");
    case.world.restart();
    ensure_eq!(case.read_hold(hold.id)?, amended, "as before");
    let smaller = case.hold(amend_partial(hold.id, &[(&a, 1)]))?;
    ensure_eq!(quantities(&smaller), [(&a, 1, 1)], "one of one");
    case.expect_counters(&a, 0, 1)
}

fn partial_drops(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [a, b, gone] = ["a", "b", "gone"].map(|name| case.maker.item(name));
    for item in [&a, &b] {
        case.expect_done(set_stock(item, 9))?;
    }
    case.expect_done(set_stock(&gone, 0))?;
    let hold = case.hold(reserve(&[(&a, 2), (&b, 1)]))?;
    // As many lines as before are named, but one of them gets nothing.
    let amended = case.hold(amend_partial(hold.id, &[(&a, 2), (&gone, 1)]))?;
    ensure_eq!((quantities(&amended), amended.version), (vec![(&a, 2, 2)], 2), "b was not named");
    case.expect_counters(&b, 0, 0)?;
    ensure_eq!(case.read_hold(hold.id)?, amended, "as it was answered");
    // More lines than before are named, and what is granted is what it has.
    let same = case.hold(amend_partial(hold.id, &[(&a, 2), (&gone, 1)]))?;
    ensure_eq!(same, amended, "nothing changed");
    ensure_eq!(case.history(hold.id)?.len(), 2, "the events of the reservation");
    Ok(())
}

fn time_to_live(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    let max_hold = Patch::Set(seconds(30));
    case.expect_done(Command::SetStock(SetStock { max_hold, ..stock_of(&item, 9) }))?;
    let hold = case.hold(reserve_for(10, &[(&item, 1)]))?;
    let max_expires_at = deadline(case.now(), 30);
    case.advance(5 * SECOND);
    let shorter =
        case.hold(Command::Amend(Amend { ttl: Some(seconds(2)), ..amend_of(hold.id, &[(&item, 2)]) }))?;
    ensure_eq!((shorter.expires_at, shorter.quantity()), (hold.expires_at, 2), "never earlier");
    let longer = case.hold(amend_ttl(&hold, 10))?;
    ensure_eq!(longer.expires_at, deadline(case.now(), 10), "later");
    case.world.restart();
    case.set_clock(hold.expires_at);
    case.sweep()?;
    let capped = case.hold(amend_ttl(&hold, limits::TTL_CEILING_SECONDS.into()))?;
    ensure_eq!(capped.expires_at, max_expires_at, "as late as it may be");
    let limit = Rejection::ExtensionLimit { max_expires_at };
    let more = Amend { ttl: Some(seconds(1)), ..amend_of(hold.id, &[(&item, 3)]) };
    ensure_eq!(case.expect_refused(Command::Amend(more))?, limit, "no later, and no other lines either");
    case.expect_counters(&item, 0, 2)?;
    case.hold(amend(hold.id, &[(&item, 3)]))?;
    case.set_clock(after(max_expires_at, -1));
    case.sweep()?;
    case.expect_status(hold.id, Status::Active)?;
    case.set_clock(max_expires_at);
    case.sweep()?;
    case.expect_status(hold.id, Status::Expired)?;
    case.expect_counters(&item, 0, 0)
}

fn limit_of_a_new_line(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let plain = case.create_item("plain", 9)?;
    let short = case.maker.item("short");
    let max_hold = Patch::Set(seconds(20));
    case.expect_done(Command::SetStock(SetStock { max_hold, ..stock_of(&short, 9) }))?;
    let hold = case.hold(reserve_for(900, &[(&plain, 1)]))?;
    case.advance(10 * SECOND);
    let cut: Instant = deadline(case.now(), 20);
    let amended = case.hold(amend(hold.id, &[(&plain, 1), (&short, 1)]))?;
    ensure_eq!((amended.expires_at, amended.terms.max_expires_at), (cut, cut), "the limit of the new line");
    let limit = Rejection::ExtensionLimit { max_expires_at: cut };
    ensure_eq!(case.expect_refused(extend(hold.id, 900))?, limit, "an extension");
    case.advance(SECOND);
    let without = case.hold(amend(hold.id, &[(&plain, 2)]))?;
    ensure_eq!((without.expires_at, without.terms.max_expires_at), (cut, cut), "it stays without the line");
    let again = case.hold(amend(hold.id, &[(&plain, 2), (&short, 2)]))?;
    ensure_eq!(again.terms.max_expires_at, cut, "the earlier limit counts");
    case.world.restart();
    ensure_eq!(case.read_hold(hold.id)?, again, "after a restart");
    case.set_clock(after(cut, -1));
    case.sweep()?;
    case.expect_status(hold.id, Status::Active)?;
    case.set_clock(cut);
    case.sweep()?;
    case.expect_status(hold.id, Status::Expired)?;
    case.expect_counters(&plain, 0, 0)?;
    case.expect_counters(&short, 0, 0)
}

fn after_a_payment(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [a, b] = ["a", "b"].map(|name| case.maker.item(name));
    for (item, longest) in [(&a, 20), (&b, 30)] {
        let max_hold = Patch::Set(seconds(longest));
        case.expect_done(Command::SetStock(SetStock { max_hold, ..stock_of(item, 9) }))?;
    }
    let hold = case.hold(reserve(&[(&a, 2)]))?;
    case.hold(open_payment(hold.id, "p", 30))?;
    case.advance(25 * SECOND);
    let closed = case.hold(close_payment(hold.id))?;
    let limit = closed.terms.max_expires_at;
    ensure!(closed.expires_at > limit && case.now() > limit, "past the longest hold");
    let refused = case.expect_refused(amend_ttl(&hold, 5))?;
    ensure_eq!(refused, Rejection::ExtensionLimit { max_expires_at: limit }, "no later");
    for command in [amend_metadata(&hold, Patch::Set("{}".into())), amend(hold.id, &[(&a, 1)])] {
        let shown = case.hold(command)?;
        ensure_eq!((shown.expires_at, shown.terms.max_expires_at), (closed.expires_at, limit), "as before");
        case.world.restart();
    }
    // A line that comes in brings its limit, from now on.
    let shown = case.hold(amend(hold.id, &[(&a, 1), (&b, 1)]))?;
    ensure_eq!(shown.expires_at, deadline(case.now(), 30), "the limit of the new line");
    case.set_clock(after(shown.expires_at, -1));
    case.hold(confirm(hold.id))?;
    case.expect_counters(&a, 1, 0)
}

fn metadata(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let optional = OptionalTerms {
        pool: None,
        channel: Some(label("web")),
        customer_id: Some(label("ann")),
        session_id: Some(label("s-1")),
        metadata: Some("{\"gift\":true}".into()),
    };
    let terms = ReserveTerms::new(label("cart"), optional.clone());
    let hold = case.hold(Command::Reserve(Reserve { terms, ..reserve_of(&[(&item, 1)]) }))?;
    for (version, (patch, expected)) in (2..).zip([
        (Patch::Set("{\"note\":\"ring\"}".into()), Some("{\"note\":\"ring\"}")),
        (Patch::Set("{}".into()), Some("{}")),
        (Patch::Clear, None),
        (Patch::Set("{\"gift\":false}".into()), Some("{\"gift\":false}")),
    ]) {
        let amended = case.hold(amend_metadata(&hold, patch))?;
        let expected = OptionalTerms { metadata: expected.map(Into::into), ..optional.clone() };
        ensure_eq!(amended.terms.reserve, ReserveTerms::new(label("cart"), expected), "version {version}");
        ensure_eq!((amended.version, &amended.lines), (version, &hold.lines), "version and lines");
        case.world.restart();
        ensure_eq!(case.read_hold(hold.id)?, amended, "after a restart");
        let (change, ..) = case.latest_change(hold.id)?;
        ensure_eq!(change, HoldChange::Amended { lines: [before(1)].into() }, "no line changed");
    }
    ensure_eq!(case.read_item(&item)?.figures.sequence, 2, "metadata is no figure of an item");
    Ok(())
}

fn closed(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let [sold, freed, due] = [600, 600, 5].map(|ttl| case.hold(reserve_for(ttl, &[(&item, 1)])));
    let (sold, freed, due) = (sold?, freed?, due?);
    case.hold(confirm(sold.id))?;
    case.hold(release(freed.id))?;
    case.set_clock(due.expires_at);
    let nobody = case.maker.no_reservation();
    for _ in 0..2 {
        let confirmed = Rejection::ReservationConfirmed { id: sold.id, order_id: None, payment_id: None };
        for (id, refusal) in [
            (sold.id, confirmed),
            (freed.id, Rejection::ReservationCancelled(freed.id)),
            (due.id, expired(&due)),
            (nobody, Rejection::UnknownReservation(nobody)),
        ] {
            ensure_eq!(case.expect_refused(amend(id, &[(&item, 2)]))?, refusal, "an amend of {id}");
        }
        case.world.restart();
    }
    case.expect_counters(&item, 1, 0)
}

fn long_history(world: &mut dyn World) -> Checked {
    const AMENDS: u64 = 140;
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve(&[(&item, 1)]))?;
    for number in 0..AMENDS {
        case.hold(amend(hold.id, &[(&item, 2 + number % 2)]))?;
        if number == AMENDS / 2 {
            case.world.restart();
        }
    }
    // Two transitions of one commit.
    case.submit_two(true, [amend(hold.id, &[(&item, 5)]), amend(hold.id, &[(&item, 6)])])?;
    let sold = case.hold(confirm(hold.id))?;
    ensure_eq!(sold.version, AMENDS + 4, "every transition is counted");
    for _ in 0..2 {
        let history = case.history(hold.id)?;
        ensure_eq!(history.len() as u64, sold.version, "every transition is in the history");
        let previous: Vec<_> = history.iter().skip(1).map(|event| event.previous).collect();
        let ids: Vec<_> = history.iter().map(|event| Some(event.id)).collect();
        ensure_eq!(previous[..], ids[..ids.len() - 1], "each follows the one before");
        ensure_eq!(ids.last(), Some(&Some(sold.last_event)), "the latest event");
        case.world.restart();
    }
    case.expect_counters(&item, 6, 0)
}
