//! Payment windows: how long they keep a reservation, what they refuse meanwhile, and what they leave.

use super::case_context::{CaseContext, Checked, MILLI, SECOND, after, deadline, no_counters};
use super::deadlines::{EDGES, expired};
use super::{Case, World, case};
use stockhold_domain::{
    ClosePayment, Command, Confirm, Hold, HoldChange, IfExpired, ItemKey, OpenPayment, Outcome, Patch,
    Payment, PaymentState, Rejection, ReservationId, SetStock, Shortage, Status, StockCounters,
};
use stockhold_model::maker::{
    amend, close_payment, confirm, confirm_as, confirm_paid, extend, label, merge, open_payment, release,
    reserve, reserve_for, seconds, set_stock, split, stock_of, transfer,
};

pub(super) const CASES: &[Case] = &[
    case("a payment window is opened before the deadline and never at or after it", opened_at_the_edge),
    case("of a payment window and a command that ends its reservation, the first takes effect", open_and_end),
    case(
        "a window keeps a reservation until its end, and confirm succeeds before it only",
        kept_until_its_end,
    ),
    case("while a payment is under way, no other command changes the reservation", nothing_else_changes),
    case("a confirm goes through for the payment of the window, which the sale keeps", confirm_in_a_window),
    case("a confirm may name a payment without a window", confirm_without_a_window),
    case("a sale does not show a payment whose window was closed", closed_payment_is_not_the_sale),
    case("the same payment again has the later end of both, and is no change if that is known", same_payment),
    case("a closed window gives the deadline back and leaves time for another payment", closed),
    case("the time after a closed window is the default time of the item if that is shorter", short_grace),
    case("closing where no window is open, or another one is, changes nothing", closed_without_effect),
    case("no window ends later than the longest payment after the first was opened", longest_payment),
    case("a window has the default length, or the longest that its items allow", default_window),
    case(
        "the longest payment of an item is a setting, and without it the service's applies",
        longest_setting,
    ),
    case("a window may pass the longest hold", past_the_longest_hold),
    case("the events of a window have its payment, its end and the reason", window_events),
];

const LONG: i64 = 30 * SECOND;

fn figures(total_units: u64, held: u64, sequence: u64) -> StockCounters {
    let active = u64::from(held > 0);
    StockCounters { total_units, held, active, sequence, ..no_counters() }
}

fn paying(units: u64, counters: StockCounters) -> StockCounters {
    StockCounters { held_under_payment: units, ..counters }
}

fn payment_of(hold: &Hold) -> Checked<&Payment> {
    hold.details().payment.as_ref().ok_or_else(|| format!("{} has no payment", hold.id))
}

/// Payment and state of a reservation's window.
fn state_of(hold: &Hold) -> Checked<(&str, PaymentState)> {
    payment_of(hold).map(|payment| (payment.id.as_str(), payment.state))
}

fn in_progress(hold: &Hold) -> Checked<Rejection> {
    let Payment { id, until, .. } = payment_of(hold)?.clone();
    Ok(Rejection::PaymentInProgress { id: hold.id, payment_id: id, until })
}

/// Two units of an item that are held, with the clock at an offset from their deadline.
fn edge(case: &mut CaseContext<'_>, name: &str, offset: i64) -> Checked<(ItemKey, Hold)> {
    case.advance(SECOND + 7);
    let item = case.create_item(name, 2)?;
    let hold = case.hold(reserve_for(5, &[(&item, 2)]))?;
    case.set_clock(after(hold.expires_at, offset));
    Ok((item, hold))
}

fn opened_at_the_edge(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut case, &format!("a{offset}"), offset)?;
        if offset < 0 {
            let opened = case.hold(open_payment(hold.id, "p", 30))?;
            ensure_eq!(opened.expires_at, deadline(case.now(), 30), "the end of the window");
            case.expect_figures(&item, paying(2, figures(2, 2, 3)))?;
            case.world.restart();
            ensure_eq!(case.read_hold(hold.id)?, opened, "after a restart");
            // At the old deadline nobody gets the units.
            case.set_clock(after(hold.expires_at, MILLI));
            case.sweep()?;
            let short = Shortage {
                item: item.clone(),
                requested: 1,
                available: 0,
                next_expiry_at: Some(opened.expires_at),
                unknown_sections: Vec::new(),
                approximate: false,
            };
            let refused = case.expect_refused(reserve(&[(&item, 1)]))?;
            ensure_eq!(refused, Rejection::InsufficientInventory(vec![short]), "at {offset} µs");
            case.hold(confirm(hold.id))?;
            case.expect_figures(&item, StockCounters { confirmed_sold: 2, ..figures(2, 0, 4) })?;
        } else {
            ensure_eq!(case.expect_refused(open_payment(hold.id, "p", 30))?, expired(&hold), "{offset} µs");
            case.world.restart();
            let shown = case.read_hold(hold.id)?;
            ensure_eq!((shown.status, &shown.details), (Status::Expired, &None), "at {offset} µs");
            case.expect_figures(&item, figures(2, 0, 3))?;
        }
    }
    Ok(())
}

fn open_and_end(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let ends: [fn(ReservationId) -> Command; 3] = [confirm, release, |_| Command::Sweep];
    for (n, end) in ends.iter().enumerate() {
        for (one_request, open_first) in [(false, false), (false, true), (true, false), (true, true)] {
            for offset in EDGES {
                let name = format!("a{n}-{one_request}-{open_first}-{offset}");
                let (item, hold) = edge(&mut case, &name, offset)?;
                let mut commands = [open_payment(hold.id, "p", 30), end(hold.id)];
                if !open_first {
                    commands.reverse();
                }
                let mut outcomes = case.submit_two(one_request, commands)?;
                if !open_first {
                    outcomes.reverse();
                }
                let [opened, ended] = outcomes.map(|outcome| matches!(outcome, Outcome::Done(_)));
                let shown = case.read_hold(hold.id)?;
                let live = offset < 0;
                // A window that is open refuses a release, and does not stop a confirm.
                let (status, opens, ends) = match (live, n, open_first) {
                    (false, ..) => (Status::Expired, false, n != 0),
                    (true, 0, _) => (Status::Confirmed, open_first, true),
                    (true, 1, false) => (Status::Cancelled, false, true),
                    (true, 1, true) => (Status::Active, true, false),
                    (true, ..) => (Status::Active, true, true),
                };
                ensure_eq!((shown.status, opened, ended), (status, opens, ends), "{name}");
                let state = match (opens, status) {
                    (false, _) => None,
                    (true, Status::Confirmed) => Some(PaymentState::Completed),
                    (true, _) => Some(PaymentState::Open),
                };
                let found = shown.details().payment.as_ref().map(|payment| payment.state);
                ensure_eq!(found, state, "the payment of {name}");
                let transitions = u64::from(opens) + u64::from(status != Status::Active);
                let units = if status == Status::Active { 2 } else { 0 };
                let counters = StockCounters {
                    confirmed_sold: if status == Status::Confirmed { 2 } else { 0 },
                    ..figures(2, units, 2 + transitions)
                };
                case.expect_figures(&item, paying(units, counters))?;
            }
        }
    }
    Ok(())
}

fn kept_until_its_end(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    for offset in EDGES {
        let (item, hold) = edge(&mut case, &format!("a{offset}"), -LONG / 10)?;
        let opened = case.hold(open_payment(hold.id, "p", 30))?;
        case.world.restart();
        case.set_clock(after(opened.expires_at, offset));
        let outcomes = case.submit_two(true, [Command::Sweep, confirm_paid(hold.id, "p")])?;
        let shown = case.read_hold(hold.id)?;
        if offset < 0 {
            ensure_matches!(outcomes[1], Outcome::Done(_), "at {offset} µs");
            ensure_eq!(state_of(&shown)?, ("p", PaymentState::Completed), "at {offset} µs");
            case.expect_figures(&item, StockCounters { confirmed_sold: 2, ..figures(2, 0, 4) })?;
        } else {
            ensure_eq!(outcomes[1], Outcome::Refused(expired(&opened)), "at {offset} µs");
            ensure_eq!(shown.status, Status::Expired, "at {offset} µs");
            ensure_eq!(state_of(&shown)?, ("p", PaymentState::Lapsed), "at {offset} µs");
            case.expect_figures(&item, figures(2, 0, 4))?;
            case.hold(reserve(&[(&item, 2)]))?;
        }
    }
    Ok(())
}

fn nothing_else_changes(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve(&[(&item, 3)]))?;
    let other = case.hold(reserve(&[(&item, 1)]))?;
    let opened = case.hold(open_payment(hold.id, "p", 900))?;
    let (refusal, figures) = (in_progress(&opened)?, case.read_item(&item)?.figures);
    let mut confirm_other = confirm_paid(hold.id, "q");
    for _ in 0..2 {
        for command in [
            release(hold.id),
            extend(hold.id, 60),
            // A shrinking amend and one that changes nothing are refused too.
            amend(hold.id, &[(&item, 1)]),
            amend(hold.id, &[(&item, 3)]),
            transfer(hold.id, &label("ann")),
            split(hold.id, &[(&item, 1)]),
            merge(hold.id, &[other.id]),
            merge(other.id, &[hold.id]),
            open_payment(hold.id, "q", 60),
            confirm_other.clone(),
        ] {
            ensure_eq!(case.expect_refused(command.clone())?, refusal, "{command:?}");
        }
        confirm_other = Command::Confirm(Confirm {
            override_limits: false,
            id: hold.id,
            order_id: Some(label("o1")),
            payment_id: Some(label("q")),
            if_expired: IfExpired::Reacquire,
        });
        case.world.restart();
    }
    // The payment comes before the limit of an extension.
    ensure_eq!(case.read_hold(hold.id)?, opened, "nothing changed");
    ensure_eq!(case.read_item(&item)?.figures, figures, "no figure changed");
    case.hold(close_payment(hold.id))?;
    case.hold(amend(hold.id, &[(&item, 1)]))?;
    case.hold(release(hold.id))?;
    case.expect_counters(&item, 0, 1)
}

fn confirm_in_a_window(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    for (n, command) in
        [confirm as fn(ReservationId) -> Command, |id| confirm_paid(id, "p"), |id| confirm_as(id, "o1")]
            .into_iter()
            .enumerate()
    {
        let hold = case.hold(reserve(&[(&item, 2)]))?;
        case.hold(open_payment(hold.id, "p", 60))?;
        let sold = case.hold(command(hold.id))?;
        ensure_eq!(state_of(&sold)?, ("p", PaymentState::Completed), "confirm {n}");
        case.world.restart();
        ensure_eq!(case.read_hold(hold.id)?, sold, "after a restart");
        for again in [confirm(hold.id), confirm_paid(hold.id, "p"), command(hold.id)] {
            ensure_eq!(case.hold(again)?, sold, "confirmed once more");
        }
        let refusal = Rejection::ReservationConfirmed {
            id: hold.id,
            order_id: sold.order_id().cloned(),
            payment_id: Some(label("p")),
        };
        for other in [confirm_paid(hold.id, "q"), confirm_as(hold.id, "o2"), open_payment(hold.id, "p", 60)] {
            ensure_eq!(case.expect_refused(other)?, refusal, "another payment or order");
        }
        ensure_eq!(case.hold(close_payment(hold.id))?, sold, "closing a window of a sale");
        let total = 2 * (n as u64 + 1);
        case.expect_counters(&item, total, 0)?;
    }
    Ok(())
}

fn confirm_without_a_window(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve(&[(&item, 1)]))?;
    let sold = case.hold(confirm_paid(hold.id, "p"))?;
    ensure_eq!(payment_of(&sold)?.id, label("p"), "the payment of the sale");
    // A window that was closed gives way to the payment of the confirm.
    let second = case.hold(reserve(&[(&item, 1)]))?;
    case.hold(open_payment(second.id, "p", 60))?;
    case.hold(close_payment(second.id))?;
    let sold_later = case.hold(confirm_paid(second.id, "q"))?;
    case.world.restart();
    for (sold, payment, other) in [(&sold, "p", "q"), (&sold_later, "q", "p")] {
        ensure_eq!(case.read_hold(sold.id)?, *sold, "after a restart");
        ensure_eq!(payment_of(sold)?.id, label(payment), "the payment of {}", sold.id);
        let payment_id = Some(label(payment));
        let refusal = Rejection::ReservationConfirmed { id: sold.id, order_id: None, payment_id };
        ensure_eq!(case.expect_refused(confirm_paid(sold.id, other))?, refusal, "another payment");
    }
    case.expect_figures(&item, StockCounters { confirmed_sold: 2, ..figures(9, 0, 7) })
}

fn closed_payment_is_not_the_sale(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve(&[(&item, 1)]))?;
    let opened = case.hold(open_payment(hold.id, "p", 60))?;
    case.hold(close_payment(hold.id))?;
    let sold = case.hold(confirm(hold.id))?;
    ensure_eq!(sold.details().payment, None, "the payment of the sale");
    ensure_eq!(sold.details().first_payment_at, opened.details().first_payment_at, "the first window");
    case.world.restart();
    ensure_eq!(case.read_hold(hold.id)?, sold, "after a restart");
    ensure_eq!(case.hold(confirm(hold.id))?, sold, "confirmed once more");
    // The declined payment and one that nobody named are both other payments than that of the sale.
    let refusal = Rejection::ReservationConfirmed { id: hold.id, order_id: None, payment_id: None };
    for other in ["p", "q"] {
        ensure_eq!(case.expect_refused(confirm_paid(hold.id, other))?, refusal, "payment {other}");
    }
    case.expect_figures(&item, StockCounters { confirmed_sold: 1, ..figures(9, 0, 5) })
}

fn same_payment(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve_for(5, &[(&item, 2)]))?;
    let opened = case.hold(open_payment(hold.id, "p", 30))?;
    case.advance(10 * SECOND);
    for window in [1, 19, 20] {
        let same = case.hold(open_payment(hold.id, "p", window))?;
        ensure_eq!(same, opened, "a window that ends no later");
    }
    ensure_eq!(case.history(hold.id)?.len(), 2, "the events of the reservation");
    let later = case.hold(open_payment(hold.id, "p", 60))?;
    ensure_eq!((later.expires_at, later.version), (deadline(case.now(), 60), 3), "the later end");
    ensure_matches!(
        case.latest_change(hold.id)?.0,
        HoldChange::PaymentOpened { prolonged: true },
        "a window that was open before"
    );
    case.expect_figures(&item, paying(2, figures(9, 2, 3)))?;
    case.world.restart();
    case.set_clock(after(opened.expires_at, MILLI));
    case.sweep()?;
    case.expect_status(hold.id, Status::Active)?;
    // The deadline before the first of both windows comes back.
    let closed = case.hold(close_payment(hold.id))?;
    ensure_eq!(payment_of(&closed)?.deadline_before, hold.expires_at, "the deadline before the window");
    case.expect_figures(&item, figures(9, 2, 4))
}

fn closed(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 1)?;
    for (ttl, restarted) in [(5, false), (5, true), (300, false), (300, true)] {
        let hold = case.hold(reserve_for(ttl, &[(&item, 1)]))?;
        case.advance(SECOND);
        let opened = case.hold(open_payment(hold.id, "p", 600))?;
        ensure_eq!(opened.expires_at, deadline(case.now(), 600), "the end of the window");
        case.advance(SECOND + 7);
        if restarted {
            case.world.restart();
        }
        let closed = case.hold(close_payment(hold.id))?;
        let expected = deadline(case.now(), 60).max(hold.expires_at);
        ensure_eq!(closed.expires_at, expected, "the deadline of before, but no earlier than in 60 s");
        ensure_eq!(state_of(&closed)?, ("p", PaymentState::Closed), "the payment");
        if restarted {
            case.world.restart();
        }
        ensure_eq!(case.read_hold(hold.id)?, closed, "as it was answered");
        // Another payment can be tried, and its window does not shorten the time.
        let retried = case.hold(open_payment(hold.id, "q", 1))?;
        ensure_eq!(retried.expires_at, expected, "a window within the deadline");
        case.hold(close_payment(hold.id))?;
        case.set_clock(after(expected, -1));
        case.sweep()?;
        case.expect_refused(reserve(&[(&item, 1)]))?;
        case.set_clock(expected);
        let next = case.hold(reserve(&[(&item, 1)]))?;
        case.expect_status(hold.id, Status::Expired)?;
        ensure_eq!(state_of(&case.read_hold(hold.id)?)?, ("q", PaymentState::Closed), "it did not lapse");
        case.hold(release(next.id))?;
        case.expect_counters(&item, 0, 0)?;
    }
    Ok(())
}

fn short_grace(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (default_ttl, max_hold) = (Patch::Set(seconds(20)), Patch::Set(seconds(20)));
    let quick = case.maker.item("quick");
    case.expect_done(Command::SetStock(SetStock { default_ttl, max_hold, ..stock_of(&quick, 9) }))?;
    let plain = case.create_item("plain", 9)?;
    for lines in [vec![(&quick, 1)], vec![(&plain, 1), (&quick, 1)]] {
        let hold = case.hold(reserve(&lines))?;
        case.hold(open_payment(hold.id, "p", 100))?;
        case.advance(50 * SECOND);
        let closed = case.hold(close_payment(hold.id))?;
        ensure_eq!(closed.expires_at, deadline(case.now(), 20), "the default time of the item");
        ensure!(closed.expires_at > closed.terms.max_expires_at, "it may pass the longest hold");
        let max_expires_at = closed.terms.max_expires_at;
        let limit = Rejection::ExtensionLimit { max_expires_at };
        ensure_eq!(case.expect_refused(extend(hold.id, 20))?, limit, "an extension");
        case.world.restart();
        case.set_clock(after(closed.expires_at, -1));
        case.hold(confirm(hold.id))?;
    }
    Ok(())
}

fn closed_without_effect(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let close = |id, payment: Option<&str>| {
        Command::ClosePayment(ClosePayment { id, payment_id: payment.map(label), reason: None })
    };
    let hold = case.hold(reserve(&[(&item, 1)]))?;
    for payment in [None, Some("p")] {
        ensure_eq!(case.hold(close(hold.id, payment))?, hold, "no window was ever opened");
    }
    let opened = case.hold(open_payment(hold.id, "p", 60))?;
    ensure_eq!(case.hold(close(hold.id, Some("q")))?, opened, "another window is open");
    case.expect_figures(&item, paying(1, figures(9, 1, 3)))?;
    let closed = case.hold(close(hold.id, Some("p")))?;
    ensure_eq!((state_of(&closed)?.1, closed.version), (PaymentState::Closed, 3), "the one that is open");
    case.world.restart();
    for payment in [None, Some("p"), Some("q")] {
        ensure_eq!(case.hold(close(hold.id, payment))?, closed, "it is closed");
    }
    let released = case.hold(release(hold.id))?;
    ensure_eq!(case.hold(close(hold.id, None))?, released, "the reservation has ended");
    let due = case.hold(reserve_for(5, &[(&item, 1)]))?;
    case.hold(open_payment(due.id, "p", 6))?;
    case.advance(6 * SECOND);
    let lapsed = case.hold(close(due.id, Some("p")))?;
    ensure_eq!(lapsed.status, Status::Expired, "a late end of a window");
    ensure_eq!(state_of(&lapsed)?, ("p", PaymentState::Lapsed), "a late end of a window");
    ensure_eq!(case.history(hold.id)?.len(), 4, "the events of the reservation");
    let nobody = case.maker.no_reservation();
    let unknown = Rejection::UnknownReservation(nobody);
    ensure_eq!(case.expect_refused(close(nobody, None))?, unknown, "no reservation");
    ensure_eq!(case.expect_refused(open_payment(nobody, "p", 60))?, unknown, "no reservation");
    Ok(())
}

fn longest_payment(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    let max_payment = Patch::Set(seconds(100));
    case.expect_done(Command::SetStock(SetStock { max_payment, ..stock_of(&item, 9) }))?;
    let hold = case.hold(reserve_for(60, &[(&item, 1)]))?;
    let limit = |from| Rejection::ExtensionLimit { max_expires_at: deadline(from, 100) };
    ensure_eq!(case.expect_refused(open_payment(hold.id, "p", 101))?, limit(case.now()), "too long");
    ensure_eq!(case.read_hold(hold.id)?, hold, "a window that is refused is not the first one");
    case.advance(10 * SECOND);
    let first = case.now();
    case.hold(open_payment(hold.id, "p", 10))?;
    case.advance(5 * SECOND);
    ensure_eq!(case.expect_refused(open_payment(hold.id, "p", 96))?, limit(first), "prolonged too far");
    case.hold(close_payment(hold.id))?;
    case.world.restart();
    ensure_eq!(case.expect_refused(open_payment(hold.id, "q", 96))?, limit(first), "another one");
    let last = case.hold(open_payment(hold.id, "q", 95))?;
    ensure_eq!(last.expires_at, deadline(first, 100), "the last moment");
    ensure_eq!(last.details().first_payment_at, Some(first), "the first window");
    case.world.restart();
    case.set_clock(after(last.expires_at, -SECOND));
    ensure_eq!(case.expect_refused(open_payment(hold.id, "q", 2))?, limit(first), "a second too long");
    // After the last window is closed there is the time for another payment, but no window.
    let closed = case.hold(close_payment(hold.id))?;
    ensure_eq!(closed.expires_at, deadline(case.now(), 60), "time for another payment");
    case.advance(2 * SECOND);
    ensure_eq!(case.expect_refused(open_payment(hold.id, "r", 1))?, limit(first), "no window is left");
    case.hold(confirm_paid(hold.id, "r"))?;
    case.expect_counters(&item, 1, 0)
}

fn default_window(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [plain, short, long] = ["plain", "short", "long"].map(|name| case.maker.item(name));
    case.expect_done(set_stock(&plain, 9))?;
    for (item, most) in [(&short, 40), (&long, 604_800)] {
        let max_payment = Patch::Set(seconds(most));
        case.expect_done(Command::SetStock(SetStock { max_payment, ..stock_of(item, 9) }))?;
    }
    for (lines, window, most) in [
        (vec![(&plain, 1)], 900, 3_600),
        (vec![(&short, 1)], 40, 40),
        (vec![(&long, 1)], 900, 604_800),
        (vec![(&long, 1), (&short, 1), (&plain, 1)], 40, 40),
    ] {
        let hold = case.hold(reserve_for(60, &lines))?;
        let payment_id = label("p");
        let open = OpenPayment { id: hold.id, payment_id, window: None, expected: None };
        let opened = case.hold(Command::OpenPayment(open))?;
        let until = payment_of(&opened)?.until;
        ensure_eq!(until, deadline(case.now(), window), "the default length for {lines:?}");
        let limit = Rejection::ExtensionLimit { max_expires_at: deadline(case.now(), most) };
        ensure_eq!(case.expect_refused(open_payment(hold.id, "p", most + 1))?, limit, "too long");
        case.hold(open_payment(hold.id, "p", most))?;
    }
    Ok(())
}

fn longest_setting(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    let set = |max_payment| Command::SetStock(SetStock { max_payment, ..stock_of(&item, 9) });
    let own = case.item(set(Patch::Set(seconds(100))))?;
    case.world.restart();
    ensure_eq!(case.read_item(&item)?, own, "after a restart");
    ensure_eq!(case.item(set(Patch::Keep))?.version, own.version, "a setting that is not named stays");
    // The settings at the opening of a window count, whenever the reservation was made.
    let hold = case.hold(reserve(&[(&item, 1)]))?;
    let now = case.now();
    let limit = |most| Rejection::ExtensionLimit { max_expires_at: deadline(now, most) };
    ensure_eq!(case.expect_refused(open_payment(hold.id, "p", 101))?, limit(100), "its own setting");
    let cleared = case.item(set(Patch::Clear))?;
    ensure_eq!((cleared.settings.max_payment, cleared.version), (None, own.version + 1), "cleared");
    case.world.restart();
    ensure_eq!(case.expect_refused(open_payment(hold.id, "p", 3_601))?, limit(3_600), "the service's");
    case.hold(open_payment(hold.id, "p", 3_600))?;
    Ok(())
}

fn past_the_longest_hold(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    let max_hold = Patch::Set(seconds(20));
    case.expect_done(Command::SetStock(SetStock { max_hold, ..stock_of(&item, 9) }))?;
    let hold = case.hold(reserve(&[(&item, 1)]))?;
    let opened = case.hold(open_payment(hold.id, "p", 3_600))?;
    ensure_eq!(opened.expires_at, deadline(case.now(), 3_600), "far behind the longest hold");
    ensure_eq!(opened.terms, hold.terms, "the terms stay");
    case.world.restart();
    case.advance(3_600 * SECOND - MILLI);
    case.sweep()?;
    case.hold(confirm_paid(hold.id, "p"))?;
    case.expect_counters(&item, 1, 0)
}

fn window_events(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 9)?;
    let b = case.create_item("b", 9)?;
    let hold = case.hold(reserve_for(60, &[(&a, 2), (&b, 1)]))?;
    case.advance(SECOND);
    let opened = case.hold(open_payment(hold.id, "p", 30))?;
    let until = deadline(case.now(), 30);
    for _ in 0..2 {
        let (change, shown, counters) = case.latest_change(hold.id)?;
        ensure_eq!((change, &shown), (HoldChange::PaymentOpened { prolonged: false }, &opened), "opened");
        let expected = Payment {
            id: label("p"),
            state: PaymentState::Open,
            until,
            deadline_before: hold.expires_at,
            charge: None,
        };
        ensure_eq!(*payment_of(&shown)?, expected, "the payment of the event");
        let shown: Vec<_> = counters.iter().map(|one| (one.held, one.held_under_payment)).collect();
        ensure_eq!(shown, [(2, 2), (1, 1)], "the figures of every line");
        case.world.restart();
    }
    let reason = Some(label("declined"));
    let close = ClosePayment { id: hold.id, payment_id: Some(label("p")), reason: reason.clone() };
    let closed = case.hold(Command::ClosePayment(close))?;
    case.world.restart();
    let (change, shown, counters) = case.latest_change(hold.id)?;
    ensure_eq!((change, shown), (HoldChange::PaymentClosed { reason }, closed), "closed");
    let shown: Vec<_> = counters.iter().map(|one| (one.held, one.held_under_payment, one.sequence)).collect();
    ensure_eq!(shown, [(2, 0, 4), (1, 0, 4)], "the figures of every line");
    Ok(())
}
