//! Amends that compete with other commands on the same reservation or on the same stock.

use super::case_context::{CaseContext, Checked, SECOND, after, no_counters};
use super::deadlines::{EDGES, expired};
use super::units::{hall, ids};
use super::{Case, World, case};
use stockhold_domain::{
    Amend, Command, Hold, ItemKey, Merge, OpenPayment, Outcome, Patch, Precondition, Rejection, Reply,
    ReservationId, Shortage, Split, Status, StockCounters, Transfer, UnavailableUnits,
};
use stockhold_model::maker::{
    amend, amend_choosing, amend_of, close_payment, confirm, extend, label, merge, named, open_payment,
    release, reserve_for, reserve_named, split, transfer,
};

pub(super) const CASES: &[Case] = &[
    case("amend succeeds before the deadline and never at or after it", amend_at_the_edge),
    case(
        "transfer, split and merge succeed before the deadline and never at or after it",
        others_at_the_edge,
    ),
    case("of an amend and a command that ends its reservation, the first takes effect", amend_and_end),
    case("an amend that moves the deadline wins against a sweep only before the deadline", amend_and_sweep),
    case("of two amends with one expected version, one succeeds", one_version),
    case("an expected version is checked by every command that changes a reservation", expected_versions),
    case("swaps in opposite directions are refused while nothing is free", swaps_of_full_stock),
    case("swaps in opposite directions all succeed with one free unit", swaps_with_a_free_unit),
    case("an amend gets the unit of a due hold, and its late confirm gets nothing", amend_and_due_hold),
    case("the units that an amend gives back can be reserved in the same batch", given_back_in_a_batch),
];

/// Three units of an item, one of which is held, with the clock at an offset from the hold's deadline.
fn edge(case: &mut CaseContext<'_>, name: &str, offset: i64) -> Checked<(ItemKey, Hold)> {
    case.advance(SECOND + 7);
    let item = case.create_item(name, 3)?;
    let hold = case.hold(reserve_for(5, &[(&item, 1)]))?;
    case.set_clock(after(hold.expires_at, offset));
    Ok((item, hold))
}

fn three_units() -> StockCounters {
    StockCounters { total_units: 3, ..no_counters() }
}

fn amend_at_the_edge(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut case, &format!("a{offset}"), offset)?;
        if offset < 0 {
            let larger = case.hold(amend(hold.id, &[(&item, 2)]))?;
            ensure_eq!((larger.quantity(), larger.version), (2, 2), "amended at {offset} µs");
            ensure_eq!(larger.expires_at, hold.expires_at, "the deadline stays at {offset} µs");
            case.world.restart();
            case.set_clock(hold.expires_at);
            ensure_eq!(
                case.expect_refused(amend(hold.id, &[(&item, 1)]))?,
                expired(&hold),
                "at the deadline"
            );
            let ended = StockCounters { sequence: 4, ..three_units() };
            case.expect_figures(&item, ended)?;
        } else {
            ensure_eq!(case.expect_refused(amend(hold.id, &[(&item, 2)]))?, expired(&hold), "at {offset} µs");
            case.world.restart();
            case.expect_figures(&item, StockCounters { sequence: 3, ..three_units() })?;
        }
        case.expect_status(hold.id, Status::Expired)?;
        ensure_eq!(case.expect_refused(amend(hold.id, &[(&item, 2)]))?, expired(&hold), "once more");
    }
    Ok(())
}

fn others_at_the_edge(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in EDGES {
        for which in 0..4 {
            case.advance(SECOND + 7);
            let item = case.create_item(&format!("a{offset}-{which}"), 5)?;
            let long = case.hold(reserve_for(60, &[(&item, 1)]))?;
            let hold = case.hold(reserve_for(5, &[(&item, 2)]))?;
            case.set_clock(after(hold.expires_at, offset));
            let command = match which {
                0 => transfer(hold.id, &label("ann")),
                1 => split(hold.id, &[(&item, 1)]),
                2 => merge(hold.id, &[long.id]),
                _ => merge(long.id, &[hold.id]),
            };
            let outcome = case.run(command)?;
            let at = format!("command {which} at {offset} µs");
            if offset < 0 {
                ensure_matches!(outcome, Outcome::Done(_), "{at}");
                case.expect_counters(&item, 0, 3)?;
            } else {
                ensure_eq!(outcome, Outcome::Refused(expired(&hold)), "{at}");
                case.expect_status(hold.id, Status::Expired)?;
                ensure_eq!(case.read_hold(long.id)?, long, "the other reservation, {at}");
                case.expect_counters(&item, 0, 1)?;
            }
        }
    }
    Ok(())
}

fn amend_and_end(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let ends: [fn(ReservationId) -> Command; 3] = [confirm, release, |_| Command::Sweep];
    for (one_request, amend_first) in [(false, false), (false, true), (true, false), (true, true)] {
        for (n, end) in ends.iter().enumerate() {
            for offset in EDGES {
                let name = format!("a{n}-{offset}-{one_request}-{amend_first}");
                let (item, hold) = edge(&mut case, &name, offset)?;
                let mut commands = [amend(hold.id, &[(&item, 2)]), end(hold.id)];
                if !amend_first {
                    commands.reverse();
                }
                let mut outcomes = case.submit_two(one_request, commands)?;
                if !amend_first {
                    outcomes.reverse();
                }
                let [amended, ended] = outcomes;
                let live = offset < 0;
                let (status, refusal) = match (live, n) {
                    (false, _) => (Status::Expired, Some(expired(&hold))),
                    (true, 0) => {
                        let sold =
                            Rejection::ReservationConfirmed { id: hold.id, order_id: None, payment_id: None };
                        (Status::Confirmed, Some(sold).filter(|_| !amend_first))
                    }
                    (true, 1) => {
                        let released = Rejection::ReservationCancelled(hold.id);
                        (Status::Cancelled, Some(released).filter(|_| !amend_first))
                    }
                    (true, _) => (Status::Active, None),
                };
                let is_amended = refusal.is_none();
                match refusal {
                    Some(refusal) => ensure_eq!(amended, Outcome::Refused(refusal), "amend of {name}"),
                    None => ensure_matches!(amended, Outcome::Done(_), "amend of {name}"),
                }
                let ends_late = !live && n == 0;
                ensure_eq!(matches!(ended, Outcome::Done(_)), !ends_late, "the other command of {name}");
                let quantity = if is_amended { 2 } else { 1 };
                let shown = case.read_hold(hold.id)?;
                ensure_eq!((shown.status, shown.quantity()), (status, quantity), "reservation of {name}");
                let transitions = u64::from(is_amended) + u64::from(status != Status::Active);
                let figures = StockCounters { sequence: 2 + transitions, ..three_units() };
                let figures = match status {
                    Status::Confirmed => StockCounters { confirmed_sold: quantity, ..figures },
                    Status::Active => StockCounters { held: quantity, active: 1, ..figures },
                    Status::Cancelled | Status::Expired => figures,
                };
                case.expect_figures(&item, figures)?;
            }
        }
    }
    Ok(())
}

fn amend_and_sweep(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut case, &format!("a{offset}"), offset)?;
        let ttl = stockhold_domain::Seconds::new(60).ok();
        let later = Amend { basket: None, ttl, ..amend_of(hold.id, &[(&item, 1)]) };
        let [amended, _] = case.submit_two(true, [Command::Amend(later), Command::Sweep])?;
        if offset < 0 {
            let Outcome::Done(Reply::Reservation(amended)) = amended else {
                return Err(format!("an amend at {offset} µs was answered with {amended:?}"));
            };
            case.world.restart();
            case.set_clock(after(amended.expires_at, -1));
            case.sweep()?;
            case.expect_status(hold.id, Status::Active)?;
            case.set_clock(amended.expires_at);
        } else {
            ensure_eq!(amended, Outcome::Refused(expired(&hold)), "at {offset} µs");
        }
        case.sweep()?;
        case.expect_status(hold.id, Status::Expired)?;
        case.expect_figures(&item, StockCounters { sequence: 3, ..three_units() })?;
    }
    Ok(())
}

fn one_version(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for one_request in [false, true] {
        let item = case.create_item(&format!("a{one_request}"), 9)?;
        let hold = case.hold(reserve_for(60, &[(&item, 1)]))?;
        let to = |quantity, version| {
            let expected = Some(Precondition::version(version));
            Command::Amend(Amend { expected, ..amend_of(hold.id, &[(&item, quantity)]) })
        };
        let [won, lost] = case.submit_two(one_request, [to(2, 1), to(3, 1)])?;
        ensure_matches!(won, Outcome::Done(Reply::Reservation(hold)) if hold.version == 2, "the first");
        let stale = Rejection::PreconditionFailed { version: Some(2) };
        ensure_eq!(lost, Outcome::Refused(stale.clone()), "the second");
        case.world.restart();
        ensure_eq!(case.expect_refused(to(3, 1))?, stale, "the second once more");
        // The version is checked before the lines, which would change nothing.
        ensure_eq!(case.expect_refused(to(2, 1))?, stale, "the first once more");
        ensure_eq!(case.hold(to(3, 2))?.version, 3, "with the version that the refusal showed");
        case.expect_figures(
            &item,
            StockCounters { total_units: 9, held: 3, active: 1, sequence: 4, ..no_counters() },
        )?;
    }
    Ok(())
}

fn expected_versions(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve_for(60, &[(&item, 2)]))?;
    let other = case.hold(reserve_for(60, &[(&item, 1)]))?;
    let id = hold.id;
    // The second version is that of the amend below.
    case.hold(amend(id, &[(&item, 3)]))?;
    let commands = |expected: &Precondition| {
        let expected = Some(expected.clone());
        let Command::Split(part) = split(id, &[(&item, 1)]) else { unreachable!("a split") };
        let Command::Transfer(ann) = transfer(id, &label("ann")) else { unreachable!("a transfer") };
        let from = [other.id].into();
        [
            Command::Amend(Amend { expected: expected.clone(), ..amend_of(id, &[(&item, 4)]) }),
            Command::Transfer(Transfer { expected: expected.clone(), ..ann }),
            Command::Split(Split { expected: expected.clone(), ..part }),
            Command::Merge(Merge { override_limits: false, id, from, expected: expected.clone() }),
            Command::OpenPayment(OpenPayment { id, payment_id: label("p"), window: None, expected }),
        ]
    };
    let shown = case.read_hold(id)?;
    for expected in [
        Precondition::version(1),
        Precondition::version(3),
        Precondition::VersionIn([1, 3].into()),
        Precondition::Absent,
    ] {
        for command in commands(&expected) {
            let refused = case.expect_refused(command)?;
            ensure_eq!(refused, Rejection::PreconditionFailed { version: Some(2) }, "{expected:?}");
        }
        case.world.restart();
    }
    ensure_eq!(case.read_hold(id)?, shown, "nothing changed");
    for (version, command) in (2..).zip(commands(&Precondition::Exists)) {
        ensure_eq!(case.read_hold(id)?.version, version, "before a command");
        case.hold(command)?;
    }
    ensure_eq!(case.read_hold(id)?.version, 7, "each of them is a transition");
    case.hold(close_payment(id))?;
    case.hold(release(id))?;
    // The version comes before the terminal state.
    for command in commands(&Precondition::version(1)) {
        let refused = case.expect_refused(command)?;
        ensure_eq!(refused, Rejection::PreconditionFailed { version: Some(9) }, "after the end");
    }
    for command in commands(&Precondition::version(9)) {
        ensure_eq!(case.expect_refused(command)?, Rejection::ReservationCancelled(id), "after the end");
    }
    Ok(())
}

/// The refusal of one unit of an item that has none for the caller.
fn short_of_one(item: &ItemKey, next_expiry_at: stockhold_domain::Instant) -> Rejection {
    Rejection::InsufficientInventory(vec![Shortage {
        item: item.clone(),
        requested: 1,
        available: 0,
        next_expiry_at: Some(next_expiry_at),
        unknown_sections: Vec::new(),
        approximate: false,
    }])
}

fn swaps_of_full_stock(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for one_request in [false, true] {
        let a = case.create_item(&format!("a{one_request}"), 1)?;
        let b = case.create_item(&format!("b{one_request}"), 1)?;
        let of_a = case.hold(reserve_for(60, &[(&a, 1)]))?;
        let of_b = case.hold(reserve_for(60, &[(&b, 1)]))?;
        let swaps = [amend(of_a.id, &[(&b, 1)]), amend(of_b.id, &[(&a, 1)])];
        let outcomes = case.submit_two(one_request, swaps)?;
        let refused =
            [short_of_one(&b, of_b.expires_at), short_of_one(&a, of_a.expires_at)].map(Outcome::Refused);
        ensure_eq!(outcomes, refused, "both are refused");
        for hold in [&of_a, &of_b] {
            ensure_eq!(case.read_hold(hold.id)?, *hold, "both keep what they have");
        }
        let held = StockCounters { total_units: 1, held: 1, active: 1, sequence: 2, ..no_counters() };
        case.expect_figures(&a, held)?;
        case.expect_figures(&b, held)?;
    }
    let hall = hall(&mut case, &["x", "y"])?;
    let [of_x, of_y] =
        [case.hold(reserve_named(60, &hall, &["x"]))?, case.hold(reserve_named(60, &hall, &["y"]))?];
    let to = |hold: &Hold, seat| amend_choosing(hold.id, vec![(&hall, 1, Some(named(&[seat])))]);
    let taken = |seat, by: &Hold| {
        let (item, units) = (hall.clone(), vec![label(seat)]);
        let next_expiry_at = Some(by.expires_at);
        let line = UnavailableUnits { item, units, unknown: Vec::new(), next_expiry_at };
        Outcome::Refused(Rejection::UnitsUnavailable(vec![line]))
    };
    let outcomes = case.submit_two(false, [to(&of_x, "y"), to(&of_y, "x")])?;
    ensure_eq!(outcomes, [taken("y", &of_y), taken("x", &of_x)], "seats");
    Ok(())
}

fn swaps_with_a_free_unit(world: &mut dyn World) -> Checked {
    const PAIRS: usize = 10;
    let mut case = CaseContext::new(world);
    for b_first in [true, false] {
        let a = case.create_item(&format!("a{b_first}"), 11)?;
        let b = case.create_item(&format!("b{b_first}"), 10)?;
        let mut swaps = Vec::new();
        for _ in 0..PAIRS {
            let of_a = case.hold(reserve_for(60, &[(&a, 1)]))?;
            let of_b = case.hold(reserve_for(60, &[(&b, 1)]))?;
            let mut pair = [amend(of_a.id, &[(&b, 1)]), amend(of_b.id, &[(&a, 1)])];
            if b_first {
                pair.reverse();
            }
            swaps.extend(pair);
        }
        let outcomes = case.submit_all(swaps)?;
        // Each swap frees the unit that the next one takes. Where the first one finds nothing free, it alone is refused.
        let refused = outcomes.iter().position(|outcome| !matches!(outcome, Outcome::Done(_)));
        let done = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Done(_))).count();
        let expected = if b_first { (None, 2 * PAIRS) } else { (Some(0), 2 * PAIRS - 1) };
        ensure_eq!((refused, done), expected, "the refused one, and the number of swaps");
        let of_a = if b_first { 10 } else { 11 };
        let figures = |total_units, held, done: usize| StockCounters {
            total_units,
            held,
            active: held,
            sequence: 11 + done as u64,
            ..no_counters()
        };
        case.world.restart();
        case.expect_figures(&a, figures(11, of_a, done))?;
        case.expect_figures(&b, figures(10, 20 - of_a, done))?;
    }
    Ok(())
}

fn amend_and_due_hold(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for (one_request, amend_first) in [(false, false), (false, true), (true, false), (true, true)] {
        for offset in EDGES {
            case.advance(SECOND + 7);
            let item = case.create_item(&format!("a{offset}-{one_request}-{amend_first}"), 2)?;
            let buyer = case.hold(reserve_for(60, &[(&item, 1)]))?;
            let due = case.hold(reserve_for(5, &[(&item, 1)]))?;
            case.set_clock(after(due.expires_at, offset));
            let mut commands = [amend(buyer.id, &[(&item, 2)]), confirm(due.id)];
            if !amend_first {
                commands.reverse();
            }
            let mut outcomes = case.submit_two(one_request, commands)?;
            if !amend_first {
                outcomes.reverse();
            }
            let [amended, confirmed] = outcomes;
            if offset < 0 {
                // The refusal shows the units of the own hold as available.
                let next_expiry_at = if amend_first { due.expires_at } else { buyer.expires_at };
                let short = Shortage {
                    item: item.clone(),
                    requested: 2,
                    available: 1,
                    next_expiry_at: Some(next_expiry_at),
                    unknown_sections: Vec::new(),
                    approximate: false,
                };
                let short = Rejection::InsufficientInventory(vec![short]);
                ensure_eq!(amended, Outcome::Refused(short), "at {offset} µs");
                ensure_matches!(confirmed, Outcome::Done(_), "at {offset} µs");
                case.expect_counters(&item, 1, 1)?;
            } else {
                ensure_matches!(amended, Outcome::Done(_), "at {offset} µs");
                ensure_eq!(confirmed, Outcome::Refused(expired(&due)), "at {offset} µs");
                case.expect_counters(&item, 0, 2)?;
            }
        }
    }
    Ok(())
}

fn given_back_in_a_batch(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = hall(&mut case, &["x", "y"])?;
    let tins = case.create_item("tins", 2)?;
    let first = case.hold(reserve_named(60, &hall, &["x"]))?;
    let both = case.hold(reserve_for(60, &[(&tins, 2)]))?;
    let outcomes = case.submit_in_order(vec![
        reserve_named(60, &hall, &["x"]),
        amend_choosing(first.id, vec![(&hall, 1, Some(named(&["y"])))]),
        reserve_named(60, &hall, &["x"]),
        amend(both.id, &[(&tins, 1)]),
        reserve_for(60, &[(&tins, 1)]),
        extend(first.id, 90),
    ])?;
    let done: Vec<bool> = outcomes.iter().map(|outcome| matches!(outcome, Outcome::Done(_))).collect();
    ensure_eq!(done, [false, true, true, true, true, true], "which of them took effect: {outcomes:?}");
    ensure_matches!(
        &outcomes[2],
        Outcome::Done(Reply::Reservation(hold)) if ids(hold) == ["x"],
        "the seat that the amend gave back"
    );
    case.world.restart();
    ensure_eq!(ids(&case.read_hold(first.id)?), ["y"], "the seat that the amend took");
    case.expect_counters(&hall, 0, 2)?;
    case.expect_counters(&tins, 0, 2)?;
    case.hold(open_payment(first.id, "p", 30))?;
    let refused = case.expect_refused(Command::Amend(Amend {
        basket: None,
        metadata: Patch::Clear,
        ..amend_of(first.id, &[(&hall, 1)])
    }))?;
    ensure_matches!(refused, Rejection::PaymentInProgress { .. }, "while the payment is under way");
    Ok(())
}
