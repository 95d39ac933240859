//! The lines of baskets: their limits, their sums and their results.

use super::case_context::{CaseContext, Checked, SECOND, after, deadline};
use super::{Case, World, case};
use stockhold_domain::{
    Command, Fulfilment, ItemKey, OptionalTerms, Outcome, Patch, Rejection, Reserve, ReserveTerms, SetStock,
    Shortage, limits,
};
use stockhold_model::maker::{
    self, confirm, reserve, reserve_for, reserve_of, reserve_partial, seconds, set_stock, stock_of,
};

pub(super) const CASES: &[Case] = &[
    case("lines of the same item are merged into one", same_item_twice),
    case("the sum of the lines of one item decides whether they fit", sum_is_judged),
    case("a basket is held in full or not at all", all_or_nothing),
    case("a partial reserve grants the available units and leaves empty lines out", partial),
    case(
        "an item that a partial reserve leaves out does not limit the duration of the hold",
        times_of_what_is_held,
    ),
    case("a partial reserve that would grant nothing is refused", partial_of_nothing),
    case("a partial reserve expires due holds before it grants less", partial_reclaims),
    case("insufficient_inventory reports the available units and the next expiry", shortage),
    case("a reserve of unknown items names them and holds nothing", unknown_items),
    case("SKUs are compared byte by byte", bytes_of_skus),
    case("the same SKU at two locations is two items", locations),
    case("a basket may have two thousand lines", two_thousand_lines),
    case("a refusal lists all of a hundred lines that lack stock", hundred_short),
    case("a reservation keeps the fields that it was created with", terms),
];

fn same_item_twice(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 10)?;
    let b = case.create_item("b", 10)?;
    let hold = case.hold(reserve(&[(&a, 2), (&b, 1), (&a, 3)]))?;
    let lines: Vec<_> = hold.lines.iter().map(|l| (&l.item, l.requested, l.quantity, l.sequence)).collect();
    ensure_eq!(lines, [(&a, 5, 5, 2), (&b, 1, 1, 2)], "lines, in the order first named");
    ensure_eq!(hold.quantity(), 6, "units over all lines");
    case.expect_counters(&a, 0, 5)?;
    let item = case.read_item(&a)?;
    ensure_eq!((item.figures.active, item.figures.sequence), (1, 2), "active reservations and sequence");
    case.hold(confirm(hold.id))?;
    case.expect_counters(&a, 5, 0)
}

fn sum_is_judged(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 4)?;
    let refused = case.expect_refused(reserve(&[(&a, 3), (&a, 3)]))?;
    let short = Shortage {
        item: a.clone(),
        requested: 6,
        available: 4,
        next_expiry_at: None,
        unknown_sections: Vec::new(),
        approximate: false,
    };
    ensure_eq!(refused, Rejection::InsufficientInventory(vec![short]), "six of four");
    let hold = case.hold(reserve_partial(60, &[(&a, 3), (&a, 3)]))?;
    let lines: Vec<_> = hold.lines.iter().map(|l| (l.requested, l.quantity)).collect();
    ensure_eq!(lines, [(6, 4)], "what there is of a summed line");
    case.expect_counters(&a, 0, 4)
}

fn all_or_nothing(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 5)?;
    let b = case.create_item("b", 1)?;
    let refused = case.expect_refused(reserve(&[(&a, 5), (&b, 2)]))?;
    let short = Shortage {
        item: b.clone(),
        requested: 2,
        available: 1,
        next_expiry_at: None,
        unknown_sections: Vec::new(),
        approximate: false,
    };
    ensure_eq!(refused, Rejection::InsufficientInventory(vec![short]), "only what falls short is named");
    case.expect_counters(&a, 0, 0)?;
    case.expect_counters(&b, 0, 0)?;
    ensure_eq!(case.read_item(&a)?.figures.sequence, 1, "a refusal is no transition");
    case.hold(reserve(&[(&a, 5), (&b, 1)]))?;
    case.expect_counters(&a, 0, 5)
}

fn partial(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 2)?;
    let b = case.create_item("b", 0)?;
    let c = case.create_item("c", 9)?;
    let hold = case.hold(reserve_partial(60, &[(&a, 5), (&b, 1), (&c, 9)]))?;
    let lines: Vec<_> = hold.lines.iter().map(|l| (&l.item, l.requested, l.quantity)).collect();
    ensure_eq!(lines, [(&a, 5, 2), (&c, 9, 9)], "lines");
    case.expect_counters(&a, 0, 2)?;
    case.expect_counters(&b, 0, 0)?;
    case.expect_counters(&c, 0, 9)?;
    ensure_eq!(case.read_item(&b)?.figures.sequence, 1, "a line that got nothing is no transition");
    Ok(())
}

fn times_of_what_is_held(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [kept, gone] = ["a", "b"].map(|name| case.maker.item(name));
    let with = |item, units, ttl, max| {
        let (default_ttl, max_hold) = (Patch::Set(seconds(ttl)), Patch::Set(seconds(max)));
        Command::SetStock(SetStock { default_ttl, max_hold, ..stock_of(item, units) })
    };
    case.expect_done(with(&kept, 9, 300, 1_800))?;
    case.expect_done(with(&gone, 0, 5, 10))?;
    let reserve = |ttl: Option<u64>, lines: &[(&ItemKey, u64)]| {
        let (ttl, fulfilment) = (ttl.map(seconds), Fulfilment::Partial);
        Command::Reserve(Reserve { ttl, fulfilment, ..reserve_of(lines) })
    };
    let now = case.now();
    let ends = |ttl: u64, max: u64| (now.deadline(seconds(ttl)), now.deadline(seconds(max)));
    for (ttl, lines, expected) in [
        (None, [(&kept, 1), (&gone, 1)], ends(300, 1_800)),
        (None, [(&gone, 1), (&kept, 1)], ends(300, 1_800)),
        (Some(7), [(&kept, 1), (&gone, 1)], ends(7, 1_800)),
    ] {
        let hold = case.hold(reserve(ttl, &lines))?;
        ensure_eq!(hold.lines.len(), 1, "one line is left out");
        ensure_eq!((hold.expires_at, hold.terms.max_expires_at), expected, "deadlines of {ttl:?}");
    }
    // The limits of a request are checked before the stock.
    let refused = case.expect_refused(reserve(Some(11), &[(&kept, 1), (&gone, 1)]))?;
    ensure_eq!(refused, Rejection::TtlTooLong { max: seconds(10) }, "11 s");
    case.expect_done(with(&gone, 1, 5, 10))?;
    let both = case.hold(reserve(None, &[(&kept, 1), (&gone, 2)]))?;
    let deadlines = (both.expires_at, both.terms.max_expires_at);
    ensure_eq!(deadlines, ends(5, 10), "what is held in part bounds it");
    Ok(())
}

fn partial_of_nothing(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 1)?;
    let b = case.create_item("b", 0)?;
    let first = case.hold(reserve_for(60, &[(&a, 1)]))?;
    let refused = case.expect_refused(reserve_partial(60, &[(&a, 2), (&b, 3)]))?;
    let short = |item, requested, next_expiry_at| Shortage {
        item,
        requested,
        available: 0,
        next_expiry_at,
        unknown_sections: Vec::new(),
        approximate: false,
    };
    let both = vec![short(a, 2, Some(first.expires_at)), short(b, 3, None)];
    ensure_eq!(refused, Rejection::InsufficientInventory(both), "nothing of either");
    Ok(())
}

fn partial_reclaims(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 3)?;
    let first = case.hold(reserve_for(1, &[(&a, 1)]))?;
    let second = case.hold(reserve_for(100, &[(&a, 1)]))?;
    case.set_clock(first.expires_at);
    let hold = case.hold(reserve_partial(60, &[(&a, 3)]))?;
    ensure_eq!(hold.quantity(), 2, "the free unit and the one that was due");
    case.expect_status(first.id, stockhold_domain::Status::Expired)?;
    case.expect_status(second.id, stockhold_domain::Status::Active)
}

fn shortage(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 5)?;
    let b = case.create_item("b", 2)?;
    let late = case.hold(reserve_for(100, &[(&a, 1)]))?;
    let early = case.hold(reserve_for(50, &[(&a, 1), (&b, 1)]))?;
    let refused = case.expect_refused(reserve(&[(&b, 2), (&a, 4)]))?;
    let next_expiry_at = Some(early.expires_at);
    let expected = vec![
        Shortage {
            item: b.clone(),
            requested: 2,
            available: 1,
            next_expiry_at,
            unknown_sections: Vec::new(),
            approximate: false,
        },
        Shortage {
            item: a.clone(),
            requested: 4,
            available: 3,
            next_expiry_at,
            unknown_sections: Vec::new(),
            approximate: false,
        },
    ];
    ensure_eq!(refused, Rejection::InsufficientInventory(expected), "in the order asked for");
    case.hold(confirm(early.id))?;
    let refused = case.expect_refused(reserve(&[(&a, 4)]))?;
    let next_expiry_at = Some(late.expires_at);
    let expected = vec![Shortage {
        item: a.clone(),
        requested: 4,
        available: 3,
        next_expiry_at,
        unknown_sections: Vec::new(),
        approximate: false,
    }];
    ensure_eq!(refused, Rejection::InsufficientInventory(expected), "a sold unit falls due no more");
    Ok(())
}

fn unknown_items(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 5)?;
    let (x, y) = (case.maker.item("x"), case.maker.item("y"));
    let refused = case.expect_refused(reserve_partial(60, &[(&y, 1), (&a, 1), (&x, 1), (&y, 1)]))?;
    ensure_eq!(refused, Rejection::UnknownItem(vec![y, x]), "each once, in the order first named");
    case.expect_counters(&a, 0, 0)?;
    let nobody = case.maker.no_reservation();
    let unknown = Rejection::UnknownReservation(nobody);
    ensure_eq!(case.expect_refused(confirm(nobody))?, unknown, "confirm of nothing");
    ensure_eq!(case.expect_refused(maker::release(nobody))?, unknown, "release of nothing");
    Ok(())
}

fn bytes_of_skus(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let names = ["abc", "ABC", "abc ", "ábc", "a\u{301}bc"];
    let mut items = Vec::new();
    for (name, total) in names.iter().zip(1..) {
        items.push(case.create_item(name, total)?);
    }
    let all: Vec<_> = items.iter().zip(1..).collect();
    let hold = case.hold(reserve(&all))?;
    ensure_eq!(hold.lines.len(), names.len(), "as many lines as there are items");
    case.world.restart();
    for (item, held) in all {
        case.expect_counters(item, 0, held)?;
    }
    Ok(())
}

fn locations(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let here = case.maker.item_at("here", "a");
    let there = case.maker.item_at("There", "a");
    case.expect_done(set_stock(&here, 1))?;
    let refused = case.expect_refused(reserve(&[(&there, 1)]))?;
    ensure_eq!(refused, Rejection::UnknownItem(vec![there.clone()]), "stock elsewhere");
    case.expect_done(set_stock(&there, 2))?;
    case.hold(reserve(&[(&there, 2), (&here, 1)]))?;
    case.expect_counters(&here, 0, 1)?;
    case.expect_counters(&there, 0, 2)
}

fn two_thousand_lines(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items: Vec<_> = (0..limits::BASKET_LINES).map(|n| case.maker.item(&n.to_string())).collect();
    for some in items.chunks(250) {
        for outcome in case.submit_all(some.iter().map(|item| set_stock(item, 7)).collect())? {
            ensure_matches!(outcome, Outcome::Done(_), "an item was set");
        }
    }
    let lines: Vec<_> = items.iter().zip(0_u64..).map(|(item, n)| (item, 1 + n % 7)).collect();
    let hold = case.hold(reserve(&lines))?;
    ensure_eq!(hold.lines.len(), limits::BASKET_LINES, "lines");
    case.world.restart();
    let sold = case.hold(confirm(hold.id))?;
    ensure_eq!(sold.lines.len(), limits::BASKET_LINES, "lines of the sale");
    for (item, quantity) in lines {
        case.expect_counters(item, quantity, 0)?;
    }
    Ok(())
}

fn terms(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 5)?;
    let optional = OptionalTerms {
        pool: None,
        channel: Some(maker::label("web")),
        customer_id: Some(maker::label("customer 7")),
        session_id: Some(maker::label("session 7")),
        metadata: Some(r#"{"gift":true}"#.into()),
    };
    let asked = Reserve {
        ttl: Some(maker::seconds(60)),
        terms: ReserveTerms::new(maker::label("cart 7"), optional.clone()),
        ..reserve_of(&[(&a, 1)])
    };
    case.set_clock(after(case.now(), 1));
    let envelope = case.maker.wrap(Command::Reserve(asked));
    let id = envelope.fresh.reservation;
    ensure_matches!(case.submit_one(envelope)?, Outcome::Done(_), "a reserve");
    case.world.restart();
    let hold = case.read_hold(id)?;
    ensure_eq!(hold.id, id, "the id that the caller gave");
    ensure_eq!(hold.terms.reserve.owner_id.as_str(), "cart 7", "owner");
    ensure_eq!(hold.terms.reserve.optional.as_deref(), Some(&optional), "the optional parts");
    ensure_eq!(hold.terms.created_at, case.now(), "created at");
    ensure_eq!(hold.expires_at, deadline(case.now(), 60), "deadline");
    ensure_eq!(hold.expires_at.micros() % 1_000, 0, "a deadline is whole milliseconds");
    ensure!(hold.expires_at > after(case.now(), 60_000_000), "rounded up");
    ensure_eq!(hold.terms.max_expires_at, deadline(case.now(), 1_800), "the latest deadline");
    ensure_eq!(hold.closing, None, "not ended");
    Ok(())
}

fn hundred_short(world: &mut dyn World) -> Checked {
    const ITEMS: usize = 100;
    let mut case = CaseContext::new(world);
    let items: Vec<ItemKey> = (0..ITEMS).map(|n| case.maker.item(&format!("{n:03}"))).collect();
    case.submit_all(items.iter().map(|item| set_stock(item, 1)).collect())?;
    let each = |ttl| items.iter().map(|item| reserve_for(ttl, &[(item, 1)])).collect();
    case.submit_all(each(5))?;
    let due = deadline(case.now(), 5);
    let short = |item: &ItemKey| Shortage {
        item: item.clone(),
        requested: 1,
        available: 0,
        next_expiry_at: Some(due),
        unknown_sections: Vec::new(),
        approximate: false,
    };
    for (outcome, item) in case.submit_all(each(60))?.into_iter().zip(&items) {
        ensure_eq!(
            outcome,
            Outcome::Refused(Rejection::InsufficientInventory(vec![short(item)])),
            "one at a time"
        );
    }
    let lines: Vec<_> = items.iter().map(|item| (item, 1)).collect();
    let all = Rejection::InsufficientInventory(items.iter().map(short).collect());
    ensure_eq!(case.expect_refused(reserve_for(60, &lines))?, all, "all in one basket");
    ensure_eq!(case.expect_refused(reserve_partial(60, &lines))?, all, "or as many as there are");
    case.advance(60 * SECOND);
    ensure_eq!(case.hold(reserve_for(60, &lines))?.quantity(), ITEMS as u64, "when all of them are due");
    Ok(())
}
