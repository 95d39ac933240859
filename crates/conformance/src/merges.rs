//! Merge: the lines of reservations become those of one, and the others end.

use super::case_context::{CaseContext, Checked, SECOND, after, deadline, no_counters};
use super::deadlines::{EDGES, expired};
use super::{Case, World, case};
use stockhold_domain::{
    Command, Hold, HoldChange, ItemKey, LineChange, Outcome, Patch, Rejection, ReservationId, Scope,
    SetStock, Shortage, Status, StockCounters, Transition, limits,
};
use stockhold_model::maker::{
    close_payment, confirm, extend, merge, open_payment, pause, release, reserve, reserve_for, resume,
    seconds, set_stock, split, stock_of,
};

pub(super) const CASES: &[Case] = &[
    case("a merge adds the lines of others, which end as merged", merge_events),
    case("the lines of a merge expire at the deadline of their new reservation", new_deadline),
    case("a merge after a closed payment window keeps the time that is left", after_a_payment),
    case("the deadline of a merge is cut to the earliest limit of all", earliest_limit),
    case("of a merge and a command that ends its source, the first takes effect", merge_and_end),
    case("a merge with a source that expires in the same batch changes no other reservation", source_expires),
    case("two merges of one source into two reservations: one succeeds", two_targets),
    case("a merge with a wrong, unknown, closed or paying reservation changes nothing", refused),
    case("a merge takes in twenty reservations, as far as a line may grow", limits_of_a_merge),
    case("a split can be merged back", back_again),
    case("a pause does not stop a merge", during_a_pause),
];

fn quantities(hold: &Hold) -> Vec<(&ItemKey, u32, u32)> {
    hold.lines.iter().map(|line| (&line.item, line.requested, line.quantity)).collect()
}

fn figures(held: u64, active: u64, sequence: u64) -> StockCounters {
    StockCounters { total_units: 9, held, active, sequence, ..no_counters() }
}

fn merge_events(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [a, b, c] = ["a", "b", "c"].map(|name| case.maker.item(name));
    for item in [&a, &b, &c] {
        case.expect_done(set_stock(item, 9))?;
    }
    let target = case.hold(reserve_for(60, &[(&c, 1), (&a, 2)]))?;
    let first = case.hold(reserve_for(90, &[(&b, 2), (&a, 1)]))?;
    let second = case.hold(reserve_for(30, &[(&b, 3)]))?;
    case.advance(SECOND);
    let merged = case.hold(merge(target.id, &[first.id, second.id]))?;
    ensure_eq!(quantities(&merged), [(&c, 1, 1), (&a, 3, 3), (&b, 5, 5)], "the sums");
    ensure_eq!((merged.version, merged.expires_at), (2, target.expires_at), "version and deadline");
    ensure_eq!(merged.terms.reserve, target.terms.reserve, "the owner stays");
    for _ in 0..2 {
        ensure_eq!(case.read_hold(target.id)?, merged, "as it was answered");
        ensure_eq!(merged.details().merged_from, [first.id, second.id], "where the lines come from");
        let at = case.now();
        let with = |one: StockCounters| StockCounters { at, ..one };
        let (change, shown, counters) = case.latest_change(target.id)?;
        let before = |quantity_before| LineChange { quantity_before, ..LineChange::default() };
        let from = [first.id, second.id].into();
        let lines = [before(1), before(2), before(0)].into();
        ensure_eq!(change, HoldChange::Merged { lines, from }, "what each line was before");
        ensure_eq!(shown, merged, "the reservation of the event");
        let expected = [figures(1, 1, 2), figures(3, 1, 5), figures(5, 1, 6)].map(with);
        ensure_eq!(counters.to_vec(), expected, "the figures of every item");
        for (source, lines) in [(&first, vec![(&b, 2, 2), (&a, 1, 1)]), (&second, vec![(&b, 3, 3)])] {
            let shown = case.read_hold(source.id)?;
            ensure_eq!((shown.status, shown.version), (Status::Cancelled, 2), "the end of a source");
            ensure_eq!(quantities(&shown), lines, "its lines are those of before");
            ensure_eq!(shown.details().merged_into, Some(target.id), "where its lines went");
            let closing = shown.closing.as_ref().and_then(|closing| closing.reason.as_ref());
            ensure_eq!(closing.map(stockhold_domain::Label::as_str), Some("merged"), "the reason");
            let history = case.history(source.id)?;
            let changes = history.iter().filter_map(|event| match &event.transition {
                Transition::Hold { change, .. } => Some(change),
                _ => None,
            });
            let changes: Vec<_> = changes.cloned().collect();
            ensure_eq!(changes, [HoldChange::Created, HoldChange::MergedAway], "the events of a source");
        }
        case.world.restart();
    }
    for (item, expected) in [(&a, figures(3, 1, 5)), (&b, figures(5, 1, 6)), (&c, figures(1, 1, 2))] {
        case.expect_figures(item, expected)?;
    }
    ensure_eq!(case.hold(release(first.id))?.status, Status::Cancelled, "a release of what has ended");
    let over = Rejection::ReservationCancelled(second.id);
    ensure_eq!(case.expect_refused(confirm(second.id))?, over, "a confirm of what has ended");
    case.hold(confirm(target.id))?;
    case.expect_counters(&a, 3, 0)?;
    case.expect_counters(&b, 5, 0)?;
    case.expect_counters(&c, 1, 0)
}

fn new_deadline(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 2)?;
    let target = case.hold(reserve_for(60, &[(&item, 1)]))?;
    let source = case.hold(reserve_for(5, &[(&item, 1)]))?;
    case.hold(merge(target.id, &[source.id]))?;
    case.world.restart();
    case.set_clock(source.expires_at);
    case.sweep()?;
    case.expect_status(source.id, Status::Cancelled)?;
    let short = Shortage {
        item: item.clone(),
        requested: 1,
        available: 0,
        next_expiry_at: Some(target.expires_at),
        unknown_sections: Vec::new(),
        approximate: false,
    };
    let refused = case.expect_refused(reserve(&[(&item, 1)]))?;
    ensure_eq!(refused, Rejection::InsufficientInventory(vec![short]), "at the old deadline");
    case.set_clock(target.expires_at);
    case.sweep()?;
    case.expect_status(target.id, Status::Expired)?;
    case.expect_counters(&item, 0, 0)?;
    case.hold(reserve(&[(&item, 2)]))?;
    Ok(())
}

fn after_a_payment(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    let settings = SetStock {
        max_hold: Patch::Set(seconds(20)),
        max_payment: Patch::Set(seconds(100)),
        ..stock_of(&item, 9)
    };
    case.expect_done(Command::SetStock(settings))?;
    for paid_is_target in [false, true] {
        let paid = case.hold(reserve(&[(&item, 1)]))?;
        let first = case.now();
        case.hold(open_payment(paid.id, "p", 30))?;
        case.advance(25 * SECOND);
        let plain = case.hold(reserve_for(10, &[(&item, 2)]))?;
        let closed = case.hold(close_payment(paid.id))?;
        ensure!(closed.expires_at > closed.terms.max_expires_at, "past the longest hold");
        let (target, source) = if paid_is_target { (&closed, &plain) } else { (&plain, &closed) };
        let merged = case.hold(merge(target.id, &[source.id]))?;
        // Neither reservation is cut to a limit that has passed already.
        let expected = target.expires_at.min(source.expires_at.max(source.terms.max_expires_at));
        ensure_eq!(merged.expires_at, expected, "the deadline, paid is target: {paid_is_target}");
        ensure_eq!(merged.terms.max_expires_at, paid.terms.max_expires_at, "the earliest limit");
        ensure_eq!(merged.details().first_payment_at, Some(first), "the first payment window");
        case.world.restart();
        ensure_eq!(case.read_hold(target.id)?, merged, "after a restart");
        let limit = Rejection::ExtensionLimit { max_expires_at: deadline(first, 100) };
        ensure_eq!(case.expect_refused(open_payment(target.id, "q", 76))?, limit, "a window too long");
        case.hold(open_payment(target.id, "q", 75))?;
        case.hold(confirm(target.id))?;
    }
    case.expect_counters(&item, 6, 0)
}

fn earliest_limit(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let plain = case.create_item("plain", 9)?;
    let short = case.maker.item("short");
    let max_hold = Patch::Set(seconds(20));
    case.expect_done(Command::SetStock(SetStock { max_hold, ..stock_of(&short, 9) }))?;
    let target = case.hold(reserve_for(600, &[(&plain, 1)]))?;
    let source = case.hold(reserve_for(5, &[(&short, 1)]))?;
    let cut = source.terms.max_expires_at;
    let merged = case.hold(merge(target.id, &[source.id]))?;
    ensure_eq!((merged.expires_at, merged.terms.max_expires_at), (cut, cut), "the earliest limit");
    let limit = Rejection::ExtensionLimit { max_expires_at: cut };
    ensure_eq!(case.expect_refused(extend(target.id, 600))?, limit, "an extension");
    case.world.restart();
    case.set_clock(after(cut, -1));
    case.sweep()?;
    case.expect_status(target.id, Status::Active)?;
    case.set_clock(cut);
    case.sweep()?;
    case.expect_status(target.id, Status::Expired)?;
    case.expect_counters(&plain, 0, 0)?;
    case.expect_counters(&short, 0, 0)
}

/// A target that lives long and a source, with the clock at an offset from the source's deadline.
fn edge(case: &mut CaseContext<'_>, name: &str, offset: i64) -> Checked<(ItemKey, Hold, Hold)> {
    case.advance(SECOND + 7);
    let item = case.create_item(name, 9)?;
    let target = case.hold(reserve_for(60, &[(&item, 1)]))?;
    let source = case.hold(reserve_for(5, &[(&item, 2)]))?;
    case.set_clock(after(source.expires_at, offset));
    Ok((item, target, source))
}

fn merge_and_end(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let ends: [fn(ReservationId) -> Command; 3] = [confirm, release, |_| Command::Sweep];
    for (n, end) in ends.iter().enumerate() {
        for (one_request, merge_first) in [(false, false), (false, true), (true, false), (true, true)] {
            for offset in EDGES {
                let name = format!("a{n}-{one_request}-{merge_first}-{offset}");
                let (item, target, source) = edge(&mut case, &name, offset)?;
                let mut commands = [merge(target.id, &[source.id]), end(source.id)];
                if !merge_first {
                    commands.reverse();
                }
                let mut outcomes = case.submit_two(one_request, commands)?;
                if !merge_first {
                    outcomes.reverse();
                }
                let [merged, _] = outcomes;
                let (live, is_sweep) = (offset < 0, n == 2);
                let is_merged = live && (merge_first || is_sweep);
                let status = match (live, is_merged, n) {
                    (false, ..) => Status::Expired,
                    (true, false, 0) => Status::Confirmed,
                    (true, ..) => Status::Cancelled,
                };
                ensure_eq!(matches!(merged, Outcome::Done(_)), is_merged, "the merge of {name}");
                case.expect_status(source.id, status)?;
                let shown = case.read_hold(target.id)?;
                if is_merged {
                    ensure_eq!((shown.quantity(), shown.version), (3, 2), "the target of {name}");
                } else {
                    ensure_eq!(shown, target, "the target of {name}");
                }
                let sold = if status == Status::Confirmed { 2 } else { 0 };
                case.expect_counters(&item, sold, shown.quantity())?;
            }
        }
    }
    Ok(())
}

fn source_expires(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in EDGES {
        let (item, target, due) = edge(&mut case, &format!("a{offset}"), offset)?;
        let other = case.hold(reserve_for(60, &[(&item, 3)]))?;
        let outcomes = case.submit_in_order(vec![
            merge(target.id, &[other.id, due.id]),
            merge(target.id, &[other.id]),
            Command::Sweep,
        ])?;
        if offset < 0 {
            ensure_matches!(outcomes[0], Outcome::Done(_), "both at {offset} µs");
            let over = Rejection::ReservationCancelled(other.id);
            ensure_eq!(outcomes[1], Outcome::Refused(over), "a second time at {offset} µs");
            case.expect_status(due.id, Status::Cancelled)?;
            case.expect_figures(&item, figures(6, 1, 7))?;
        } else {
            ensure_eq!(outcomes[0], Outcome::Refused(expired(&due)), "both at {offset} µs");
            ensure_matches!(outcomes[1], Outcome::Done(_), "the other one at {offset} µs");
            case.expect_status(due.id, Status::Expired)?;
            case.expect_figures(&item, figures(4, 1, 7))?;
        }
        // A target that is due is not merged into, and its sources stay.
        let source = case.hold(reserve_for(600, &[(&item, 1)]))?;
        case.set_clock(target.expires_at);
        ensure_eq!(case.expect_refused(merge(target.id, &[source.id]))?, expired(&target), "a late merge");
        ensure_eq!(case.read_hold(source.id)?, source, "the source of a late merge");
        case.expect_counters(&item, 0, 1)?;
    }
    Ok(())
}

fn two_targets(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for one_request in [false, true] {
        let item = case.create_item(&format!("a{one_request}"), 9)?;
        let [one, two, source] = [1, 2, 4].map(|units| case.hold(reserve(&[(&item, units)])));
        let (one, two, source) = (one?, two?, source?);
        let merges = [merge(one.id, &[source.id]), merge(two.id, &[source.id])];
        let [won, lost] = case.submit_two(one_request, merges)?;
        ensure_matches!(won, Outcome::Done(_), "the first");
        let over = Rejection::ReservationCancelled(source.id);
        ensure_eq!(lost, Outcome::Refused(over), "the second");
        // Two reservations can't be merged into each other.
        let [won, lost] =
            case.submit_two(one_request, [merge(two.id, &[one.id]), merge(one.id, &[two.id])])?;
        ensure_matches!(won, Outcome::Done(_), "the first");
        ensure_eq!(lost, Outcome::Refused(Rejection::ReservationCancelled(one.id)), "the second");
        case.world.restart();
        ensure_eq!(case.read_hold(two.id)?.quantity(), 7, "all units are in one reservation");
        case.expect_figures(&item, figures(7, 1, 8))?;
    }
    Ok(())
}

fn refused(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let [target, fine, sold, freed, paying] =
        [(); 5].map(|()| case.hold(reserve(&[(&item, 1)])).map(|hold| hold.id));
    let (target, fine, sold, freed, paying) = (target?, fine?, sold?, freed?, paying?);
    case.hold(confirm(sold))?;
    case.hold(release(freed))?;
    case.hold(open_payment(paying, "p", 60))?;
    let nobody = case.maker.no_reservation();
    let before = [target, fine].map(|id| case.read_hold(id));
    let figures = case.read_item(&item)?.figures;
    let many: Vec<ReservationId> = (0..=limits::MERGE_SOURCES).map(|_| case.maker.no_reservation()).collect();
    for (from, pointer) in [
        (vec![], "/from"),
        (many, "/from"),
        (vec![target], "/from/0"),
        (vec![nobody, fine, target], "/from/2"),
        (vec![fine, nobody, fine], "/from/2"),
    ] {
        let refused = case.expect_refused(merge(target, &from))?;
        ensure_matches!(refused, Rejection::InvalidRequest(wrong) if &*wrong.pointer == pointer, "{pointer}");
    }
    for _ in 0..2 {
        let confirmed = Rejection::ReservationConfirmed { id: sold, order_id: None, payment_id: None };
        for (id, refusal) in [
            (nobody, Rejection::UnknownReservation(nobody)),
            (sold, confirmed),
            (freed, Rejection::ReservationCancelled(freed)),
        ] {
            ensure_eq!(case.expect_refused(merge(target, &[fine, id]))?, refusal, "a merge with {id}");
            ensure_eq!(case.expect_refused(merge(id, &[fine]))?, refusal, "a merge into {id}");
        }
        // A source that does not exist comes before what is wrong with the target.
        let unknown = Rejection::UnknownReservation(nobody);
        ensure_eq!(case.expect_refused(merge(sold, &[nobody]))?, unknown, "a merge of nothing");
        for (id, from) in [(target, paying), (paying, target)] {
            let refused = case.expect_refused(merge(id, &[from]))?;
            ensure_matches!(refused, Rejection::PaymentInProgress { id, .. } if *id == paying, "a payment");
        }
        case.world.restart();
    }
    ensure_eq!([target, fine].map(|id| case.read_hold(id)), before, "the reservations are as before");
    ensure_eq!(case.read_item(&item)?.figures, figures, "the figures are as before");
    Ok(())
}

fn limits_of_a_merge(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", limits::TOTAL_UNITS)?;
    let outcomes = case.submit_all(vec![reserve(&[(&item, 1)]); limits::MERGE_SOURCES])?;
    let sources: Vec<ReservationId> =
        outcomes.iter().filter_map(super::units::reservation).map(|hold| hold.id).collect();
    let target = case.hold(reserve(&[(&item, limits::LINE_QUANTITY - 19)]))?;
    let requested = limits::LINE_QUANTITY + 1;
    let over = Rejection::QuantityLimit { item: Some(item.clone()), requested, limit: limits::LINE_QUANTITY };
    ensure_eq!(case.expect_refused(merge(target.id, &sources))?, over, "one unit too many");
    ensure_eq!(case.read_hold(target.id)?, target, "the target is as before");
    case.expect_status(sources[0], Status::Active)?;
    let merged = case.hold(merge(target.id, &sources[1..]))?;
    ensure_eq!(merged.quantity(), limits::LINE_QUANTITY, "as many as a line may have");
    let small = case.hold(reserve(&[(&item, 1)]))?;
    let outcomes = case.submit_all(vec![reserve(&[(&item, 1)]); limits::MERGE_SOURCES])?;
    let sources: Vec<ReservationId> =
        outcomes.iter().filter_map(super::units::reservation).map(|hold| hold.id).collect();
    case.world.restart();
    let merged = case.hold(merge(small.id, &sources))?;
    ensure_eq!((merged.quantity(), &merged.details().merged_from), (21, &sources), "twenty reservations");
    case.world.restart();
    ensure_eq!(case.read_hold(small.id)?, merged, "after a restart");
    case.expect_counters(&item, 0, limits::LINE_QUANTITY + 21 + 1)
}

fn back_again(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve(&[(&item, 5)]))?;
    let part = case.hold(split(hold.id, &[(&item, 2)]))?;
    let outcomes = case.submit_two(true, [merge(hold.id, &[part.id]), confirm(part.id)])?;
    ensure_matches!(
        outcomes,
        [Outcome::Done(_), Outcome::Refused(Rejection::ReservationCancelled(_))],
        "the part is merged away before it is confirmed"
    );
    case.world.restart();
    let whole = case.read_hold(hold.id)?;
    ensure_eq!(quantities(&whole), [(&item, 5, 5)], "whole again");
    let details = whole.details();
    ensure_eq!((&details.split_into, &details.merged_from), (&vec![part.id], &vec![part.id]), "both moves");
    case.expect_figures(&item, figures(5, 1, 6))
}

fn during_a_pause(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let target = case.hold(reserve(&[(&item, 1)]))?;
    let source = case.hold(reserve(&[(&item, 2)]))?;
    let scope = Scope::Item(item.clone());
    case.expect_done(pause(&scope))?;
    ensure_eq!(case.hold(merge(target.id, &[source.id]))?.quantity(), 3, "the sum");
    case.expect_done(resume(&scope))?;
    case.expect_counters(&item, 0, 3)
}
