//! Transfer and split of a reservation: who has which lines afterwards, and the events of both.

use super::case_context::{CaseContext, Checked, SECOND, after, deadline, no_counters};
use super::deadlines::expired;
use super::{Case, World, case};
use stockhold_domain::{
    Command, Hold, HoldChange, HoldTerms, ItemKey, Label, LineChange, OptionalTerms, Outcome, Parties, Patch,
    Rejection, Reply, ReservationId, Reserve, ReserveTerms, Scope, SetStock, Status, StockCounters, Transfer,
    Transition, limits,
};
use stockhold_model::maker::{
    close_payment, confirm, confirm_as, fulfil_all, label, open_payment, pause, release, reserve, reserve_of,
    reserve_partial, resume, seconds, set_stock, split, stock_of, transfer,
};

pub(super) const CASES: &[Case] = &[
    case("a transfer changes owner, customer and session, and its event has those before", transferred),
    case("a transfer that names nothing, or a closed reservation, is refused", transfer_refused),
    case("a split moves lines to a new reservation, and both events say so", split_events),
    case("both parts of a split can be confirmed, over restarts", confirm_both),
    case("both parts of a split can be confirmed in the batch of the split", confirm_both_in_a_batch),
    case("the parts of a split end each on their own", separate_ends),
    case("a split takes over the terms, the limit and the first payment window", inherited),
    case("a split of more than is held or of everything is refused", too_much),
    case("a split of a line that was granted in part keeps the sum of what was requested", partly_granted),
    case("a reservation that is split many times lists its latest parts", again_and_again),
    case("a pause stops neither a transfer nor a split", during_a_pause),
];

fn optional(customer: &str, session: &str) -> OptionalTerms {
    OptionalTerms {
        pool: None,
        channel: Some(label("web")),
        customer_id: Some(label(customer)),
        session_id: Some(label(session)),
        metadata: Some("{\"gift\":true}".into()),
    }
}

/// A reserve for 60 seconds with every optional field.
fn reserve_with_terms(lines: &[(&ItemKey, u64)]) -> Command {
    let terms = ReserveTerms::new(label("cart"), optional("guest", "s-1"));
    Command::Reserve(Reserve { terms, ttl: Some(seconds(60)), ..reserve_of(lines) })
}

fn transfer_of(
    id: ReservationId,
    owner_id: Option<&str>,
    customer_id: Patch<&str>,
    session_id: Patch<&str>,
) -> Command {
    let (customer_id, session_id) = (customer_id.map(label), session_id.map(label));
    let owner_id = owner_id.map(label);
    Command::Transfer(Transfer {
        override_limits: false,
        id,
        owner_id,
        customer_id,
        session_id,
        expected: None,
    })
}

fn figures(held: u64, active: u64, sequence: u64) -> StockCounters {
    StockCounters { total_units: 9, held, active, sequence, ..no_counters() }
}

fn quantities(hold: &Hold) -> Vec<(&ItemKey, u32, u32)> {
    hold.lines.iter().map(|line| (&line.item, line.requested, line.quantity)).collect()
}

fn transferred(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve_with_terms(&[(&item, 2)]))?;
    let terms = |owner: &str, customer: Option<&str>, session: Option<&str>| {
        let (customer_id, session_id) = (customer.map(label), session.map(label));
        ReserveTerms::new(label(owner), OptionalTerms { customer_id, session_id, ..optional("ann", "s-1") })
    };
    let parties = |owner: &str, customer: Option<&str>, session: Option<&str>| Parties {
        owner_id: label(owner),
        customer_id: customer.map(label),
        session_id: session.map(label),
    };
    let steps = [
        (Some("ann"), Patch::Set("ann-1"), Patch::Clear, ("ann", Some("ann-1"), None)),
        (None, Patch::Keep, Patch::Set("s-2"), ("ann", Some("ann-1"), Some("s-2"))),
        (Some("bob"), Patch::Clear, Patch::Keep, ("bob", None, Some("s-2"))),
    ];
    let mut from = ("cart", Some("guest"), Some("s-1"));
    for (version, (owner, customer, session, to)) in (2..).zip(steps) {
        case.advance(SECOND);
        let shown = case.hold(transfer_of(hold.id, owner, customer, session))?;
        ensure_eq!(shown.terms.reserve, terms(to.0, to.1, to.2), "the terms of version {version}");
        ensure_eq!(
            (shown.version, shown.expires_at, &shown.lines),
            (version, hold.expires_at, &hold.lines),
            "version, deadline and lines"
        );
        case.world.restart();
        ensure_eq!(case.read_hold(hold.id)?, shown, "after a restart");
        let (change, of_event, _) = case.latest_change(hold.id)?;
        let before = Box::new(parties(from.0, from.1, from.2));
        ensure_eq!(change, HoldChange::Transferred { from: before }, "who it was for before");
        ensure_eq!(of_event, shown, "the reservation of the event");
        // The same again changes nothing.
        ensure_eq!(case.hold(transfer_of(hold.id, owner, customer, session))?, shown, "once more");
        from = to;
    }
    ensure_eq!(case.history(hold.id)?.len(), 4, "the events of the reservation");
    case.expect_figures(&item, figures(2, 1, 2))?;
    let sold = case.hold(confirm(hold.id))?;
    ensure_eq!(sold.terms.reserve, terms("bob", None, Some("s-2")), "the terms of the sale");
    Ok(())
}

fn transfer_refused(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let nobody = case.maker.no_reservation();
    let active = case.hold(reserve_with_terms(&[(&item, 1)]))?;
    for id in [active.id, nobody] {
        let refused = case.expect_refused(transfer_of(id, None, Patch::Keep, Patch::Keep))?;
        ensure_matches!(refused, Rejection::InvalidRequest(wrong) if wrong.pointer.is_empty(), "nothing");
    }
    let unknown = Rejection::UnknownReservation(nobody);
    ensure_eq!(case.expect_refused(transfer(nobody, &label("ann")))?, unknown, "nothing to transfer");
    let sold = case.hold(reserve_with_terms(&[(&item, 1)]))?;
    case.hold(confirm_as(sold.id, "o1"))?;
    let freed = case.hold(reserve_with_terms(&[(&item, 1)]))?;
    case.hold(release(freed.id))?;
    case.set_clock(active.expires_at);
    let confirmed =
        Rejection::ReservationConfirmed { id: sold.id, order_id: Some(label("o1")), payment_id: None };
    for _ in 0..2 {
        for (id, refusal) in [
            (sold.id, confirmed.clone()),
            (freed.id, Rejection::ReservationCancelled(freed.id)),
            (active.id, expired(&active)),
        ] {
            ensure_eq!(case.expect_refused(transfer(id, &label("ann")))?, refusal, "a transfer of {id}");
            let owner = case.read_hold(id)?.terms.reserve.owner_id.clone();
            ensure_eq!(owner.as_str(), "cart", "the owner of {id}");
        }
        case.world.restart();
    }
    Ok(())
}

fn split_events(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [a, b, c] = ["a", "b", "c"].map(|name| case.maker.item(name));
    for item in [&a, &b, &c] {
        case.expect_done(set_stock(item, 9))?;
    }
    let hold = case.hold(reserve(&[(&a, 3), (&b, 2), (&c, 1)]))?;
    case.advance(SECOND);
    let part = case.hold(split(hold.id, &[(&b, 2), (&a, 1)]))?;
    ensure_eq!(quantities(&part), [(&a, 1, 1), (&b, 2, 2)], "the lines of the part, in the order of before");
    ensure_eq!(
        (part.version, part.status, part.expires_at),
        (1, Status::Active, hold.expires_at),
        "the part"
    );
    ensure_eq!(part.details().split_from, Some(hold.id), "where it comes from");
    for _ in 0..2 {
        let rest = case.read_hold(hold.id)?;
        ensure_eq!(quantities(&rest), [(&a, 2, 2), (&c, 1, 1)], "what is left");
        ensure_eq!((rest.version, rest.expires_at), (2, hold.expires_at), "version and deadline");
        ensure_eq!(rest.details().split_into, [part.id], "where the lines went");
        ensure_eq!(case.read_hold(part.id)?, part, "the part as it was answered");

        let at = case.now();
        let with = |one: StockCounters| StockCounters { at, ..one };
        let (change, shown, counters) = case.latest_change(hold.id)?;
        let before = |quantity_before| LineChange { quantity_before, ..LineChange::default() };
        let lines = [before(3), before(1), before(2)].into();
        ensure_eq!(change, HoldChange::Split { lines, into: part.id }, "what each line was before");
        let expected = [(&a, 2, 2), (&c, 1, 1), (&b, 0, 0)];
        ensure_eq!(quantities(&shown), expected, "the line that left has no units");
        let given = [figures(2, 1, 3), figures(1, 1, 2), figures(0, 0, 3)].map(with);
        ensure_eq!(counters.to_vec(), given, "the units are given back");

        let first = case.history(part.id)?;
        ensure_eq!(first.len(), 1, "the events of the part");
        ensure_eq!((first[0].previous, first[0].id), (None, part.last_event), "its first event");
        let Transition::Hold { change: HoldChange::CreatedBySplit, figures: counters, .. } =
            &first[0].transition
        else {
            return Err(format!("the first event is {:?}", first[0]));
        };
        ensure_eq!(counters.to_vec(), [figures(3, 2, 4), figures(2, 1, 4)].map(with), "and taken again");
        case.world.restart();
    }
    case.expect_figures(&a, figures(3, 2, 4))?;
    case.expect_figures(&b, figures(2, 1, 4))?;
    case.expect_figures(&c, figures(1, 1, 2))
}

fn confirm_both(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve(&[(&item, 5)]))?;
    let part = case.hold(split(hold.id, &[(&item, 2)]))?;
    case.world.restart();
    ensure_eq!(case.hold(confirm_as(part.id, "o1"))?.quantity(), 2, "the part");
    case.expect_figures(
        &item,
        StockCounters { total_units: 9, confirmed_sold: 2, held: 3, active: 1, sequence: 5, ..no_counters() },
    )?;
    case.world.restart();
    ensure_eq!(case.hold(confirm_as(hold.id, "o2"))?.quantity(), 3, "the rest");
    case.hold(fulfil_all(part.id))?;
    case.expect_figures(
        &item,
        StockCounters { total_units: 9, confirmed_sold: 5, fulfilled: 2, sequence: 7, ..no_counters() },
    )?;
    let changes: Vec<HoldChange> = case
        .history(part.id)?
        .into_iter()
        .filter_map(|event| match event.transition {
            Transition::Hold { change, .. } => Some(change),
            _ => None,
        })
        .collect();
    ensure_matches!(
        changes.as_slice(),
        [HoldChange::CreatedBySplit, HoldChange::Confirmed, HoldChange::Fulfilled { .. }],
        "the history of the part"
    );
    Ok(())
}

fn confirm_both_in_a_batch(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    for (n, first_is_part) in [false, true].into_iter().enumerate() {
        let hold = case.hold(reserve(&[(&item, 3)]))?;
        let cut = case.maker.wrap(split(hold.id, &[(&item, 1)]));
        let part = cut.fresh.reservation;
        let mut ids = [hold.id, part];
        if first_is_part {
            ids.reverse();
        }
        let confirms = ids.map(|id| case.maker.wrap(confirm(id)));
        let commands = [cut].into_iter().chain(confirms).collect();
        for answer in case.world.submit_in_order(commands) {
            ensure_matches!(answer, Ok(Outcome::Done(_)), "a split and both confirms");
        }
        case.world.restart();
        case.expect_status(hold.id, Status::Confirmed)?;
        case.expect_status(part, Status::Confirmed)?;
        case.expect_counters(&item, 3 * (n as u64 + 1), 0)?;
    }
    Ok(())
}

fn separate_ends(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve_with_terms(&[(&item, 4)]))?;
    let [released, extended, kept] = [(); 3].map(|()| case.hold(split(hold.id, &[(&item, 1)])));
    let (released, extended, kept) = (released?, extended?, kept?);
    case.hold(release(released.id))?;
    let later = case.hold(stockhold_model::maker::extend(extended.id, 120))?;
    case.world.restart();
    case.set_clock(after(hold.expires_at, -1));
    case.sweep()?;
    case.expect_counters(&item, 0, 3)?;
    case.set_clock(hold.expires_at);
    case.sweep()?;
    for (id, status) in [
        (hold.id, Status::Expired),
        (released.id, Status::Cancelled),
        (extended.id, Status::Active),
        (kept.id, Status::Expired),
    ] {
        case.expect_status(id, status)?;
    }
    case.set_clock(after(later.expires_at, -1));
    case.hold(confirm(extended.id))?;
    case.expect_counters(&item, 1, 0)
}

fn inherited(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    let max_payment = Patch::Set(seconds(100));
    case.expect_done(Command::SetStock(SetStock { max_payment, ..stock_of(&item, 9) }))?;
    let hold = case.hold(reserve_with_terms(&[(&item, 3)]))?;
    let first = case.now();
    case.hold(open_payment(hold.id, "p", 10))?;
    case.hold(close_payment(hold.id))?;
    case.advance(20 * SECOND);
    let part = case.hold(split(hold.id, &[(&item, 1)]))?;
    let terms = HoldTerms { created_at: case.now(), ..(*hold.terms).clone() };
    ensure_eq!(*part.terms, terms, "the terms, from now on");
    ensure_eq!(part.details().first_payment_at, Some(first), "the first payment window");
    ensure_eq!(part.details().payment, None, "the part has no payment of its own");
    case.world.restart();
    ensure_eq!(case.read_hold(part.id)?, part, "after a restart");
    // No window ends later than 100 s after the first one was opened.
    let limit = Rejection::ExtensionLimit { max_expires_at: deadline(first, 100) };
    ensure_eq!(case.expect_refused(open_payment(part.id, "q", 81))?, limit, "a window that ends too late");
    let paying = case.hold(open_payment(part.id, "q", 80))?;
    ensure_eq!(paying.expires_at, deadline(first, 100), "the last moment");
    case.expect_figures(&item, StockCounters { held_under_payment: 1, ..figures(3, 2, 7) })
}

fn too_much(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [a, b, other] = ["a", "b", "other"].map(|name| case.maker.item(name));
    for item in [&a, &b, &other] {
        case.expect_done(set_stock(item, 9))?;
    }
    let hold = case.hold(reserve(&[(&a, 3), (&b, 2)]))?;
    let exceeds = |item: &ItemKey, requested, held| {
        let item = item.clone();
        Rejection::SplitExceedsHeld { item, requested, held }
    };
    for (lines, refusal) in [
        (vec![(&b, 1), (&a, 4)], exceeds(&a, 4, 3)),
        (vec![(&a, 2), (&a, 2)], exceeds(&a, 4, 3)),
        (vec![(&a, u64::MAX)], exceeds(&a, u64::MAX, 3)),
        (vec![(&a, 1), (&other, 1)], exceeds(&other, 1, 0)),
    ] {
        ensure_eq!(case.expect_refused(split(hold.id, &lines))?, refusal, "a split of {lines:?}");
    }
    let refused = case.expect_refused(split(hold.id, &[(&a, 3), (&b, 2)]))?;
    ensure_matches!(refused, Rejection::InvalidRequest(wrong) if &*wrong.pointer == "/lines", "everything");
    case.world.restart();
    ensure_eq!(case.read_hold(hold.id)?, hold, "nothing changed");
    ensure_eq!(case.history(hold.id)?.len(), 1, "the events of the reservation");
    case.hold(split(hold.id, &[(&a, 3), (&b, 1)]))?;
    let one = case.read_hold(hold.id)?;
    ensure_eq!(quantities(&one), [(&b, 1, 1)], "one unit is left");
    let refused = case.expect_refused(split(hold.id, &[(&b, 1)]))?;
    ensure_matches!(refused, Rejection::InvalidRequest(_), "the last unit is everything");
    case.hold(confirm(hold.id))?;
    let refused = case.expect_refused(split(hold.id, &[(&b, 1)]))?;
    ensure_matches!(refused, Rejection::ReservationConfirmed { .. }, "a split of a sale");
    Ok(())
}

fn partly_granted(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 3)?;
    let hold = case.hold(reserve_partial(60, &[(&item, 8)]))?;
    ensure_eq!(quantities(&hold), [(&item, 8, 3)], "three of eight");
    let part = case.hold(split(hold.id, &[(&item, 2)]))?;
    ensure_eq!(quantities(&part), [(&item, 2, 2)], "the part");
    ensure_eq!(quantities(&case.read_hold(hold.id)?), [(&item, 6, 1)], "the rest");
    case.world.restart();
    ensure_eq!(quantities(&case.read_hold(hold.id)?), [(&item, 6, 1)], "the rest after a restart");
    case.expect_counters(&item, 0, 3)
}

fn again_and_again(world: &mut dyn World) -> Checked {
    // Two more parts than a reservation lists.
    const PARTS: usize = limits::RELATED_RESERVATIONS + 2;
    const UNITS: u64 = PARTS as u64 + 1;
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", UNITS)?;
    let hold = case.hold(reserve(&[(&item, UNITS)]))?;
    let mut parts = Vec::new();
    for outcome in case.submit_all(vec![split(hold.id, &[(&item, 1)]); PARTS])? {
        let Outcome::Done(Reply::Reservation(part)) = outcome else {
            return Err(format!("a split was answered with {outcome:?}"));
        };
        parts.push(part.id);
    }
    case.world.restart();
    let rest = case.read_hold(hold.id)?;
    ensure_eq!((rest.quantity(), rest.version), (1, UNITS), "what is left");
    ensure_eq!(rest.details().split_into, parts[2..], "the latest parts, in order");
    for id in [parts[0], parts[PARTS - 1]] {
        ensure_eq!(case.read_hold(id)?.details().split_from, Some(hold.id), "where {id} comes from");
    }
    let sequence = 2 * UNITS;
    case.expect_figures(
        &item,
        StockCounters { total_units: UNITS, held: UNITS, active: UNITS, sequence, ..no_counters() },
    )
}

fn during_a_pause(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve(&[(&item, 3)]))?;
    let scope = Scope::Item(item.clone());
    case.expect_done(pause(&scope))?;
    let part = case.hold(split(hold.id, &[(&item, 1)]))?;
    let owner: Label = label("ann");
    ensure_eq!(case.hold(transfer(part.id, &owner))?.terms.reserve.owner_id, owner, "the new owner");
    case.world.restart();
    case.expect_counters(&item, 0, 3)?;
    case.expect_done(resume(&scope))?;
    Ok(())
}
