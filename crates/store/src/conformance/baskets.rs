//! What a basket may hold and what becomes of its lines.

use super::case_context::{CaseContext, Checked, SECOND, after, deadline};
use super::maker::{
    self, confirm, reserve, reserve_for, reserve_of, reserve_partial, seconds, set_stock, stock_of,
};
use super::{Case, World, case};
use stockhold_domain::{
    Command, Fulfilment, ItemKey, OptionalTerms, Outcome, Patch, Rejection, Reserve, ReserveTerms, SetStock,
    Shortage, limits,
};

pub(super) const CASES: &[Case] = &[
    case("lines on the same item are summed and answered as one", same_item_twice),
    case("lines on the same item are judged by their sum", sum_is_judged),
    case("a basket is held in full or not at all", all_or_nothing),
    case("partial grants what there is and leaves empty lines out", partial),
    case("what partial leaves out does not bound the time of what is held", times_of_what_is_held),
    case("partial that would grant nothing is refused", partial_of_nothing),
    case("partial expires what is due before it grants less", partial_reclaims),
    case("a refusal for lack of stock tells what there is and when to look again", shortage),
    case("unknown items are named and nothing is held", unknown_items),
    case("SKUs are compared byte by byte", bytes_of_skus),
    case("the same SKU at two locations is two items", locations),
    case("a basket may have two thousand lines", two_thousand_lines),
    case("a hundred lines that fall short", hundred_short),
    case("what a reservation was made with stays with it", terms),
];

fn same_item_twice(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 10)?;
    let b = stage.stocked("b", 10)?;
    let hold = stage.hold(reserve(&[(&a, 2), (&b, 1), (&a, 3)]))?;
    let lines: Vec<_> = hold.lines.iter().map(|l| (&l.item, l.requested, l.quantity, l.sequence)).collect();
    ensure_eq!(lines, [(&a, 5, 5, 2), (&b, 1, 1, 2)], "lines, in the order first named");
    ensure_eq!(hold.quantity(), 6, "units over all lines");
    stage.expect_books(&a, 0, 5)?;
    let item = stage.shown(&a)?;
    ensure_eq!((item.figures.active, item.figures.sequence), (1, 2), "active reservations and sequence");
    stage.hold(confirm(hold.id))?;
    stage.expect_books(&a, 5, 0)
}

fn sum_is_judged(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 4)?;
    let refused = stage.refused(reserve(&[(&a, 3), (&a, 3)]))?;
    let short = Shortage { item: a.clone(), requested: 6, available: 4, next_expiry_at: None };
    ensure_eq!(refused, Rejection::InsufficientInventory(vec![short]), "six of four");
    let hold = stage.hold(reserve_partial(60, &[(&a, 3), (&a, 3)]))?;
    let lines: Vec<_> = hold.lines.iter().map(|l| (l.requested, l.quantity)).collect();
    ensure_eq!(lines, [(6, 4)], "what there is of a summed line");
    stage.expect_books(&a, 0, 4)
}

fn all_or_nothing(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 5)?;
    let b = stage.stocked("b", 1)?;
    let refused = stage.refused(reserve(&[(&a, 5), (&b, 2)]))?;
    let short = Shortage { item: b.clone(), requested: 2, available: 1, next_expiry_at: None };
    ensure_eq!(refused, Rejection::InsufficientInventory(vec![short]), "only what falls short is named");
    stage.expect_books(&a, 0, 0)?;
    stage.expect_books(&b, 0, 0)?;
    ensure_eq!(stage.shown(&a)?.figures.sequence, 1, "a refusal is no transition");
    stage.hold(reserve(&[(&a, 5), (&b, 1)]))?;
    stage.expect_books(&a, 0, 5)
}

fn partial(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 2)?;
    let b = stage.stocked("b", 0)?;
    let c = stage.stocked("c", 9)?;
    let hold = stage.hold(reserve_partial(60, &[(&a, 5), (&b, 1), (&c, 9)]))?;
    let lines: Vec<_> = hold.lines.iter().map(|l| (&l.item, l.requested, l.quantity)).collect();
    ensure_eq!(lines, [(&a, 5, 2), (&c, 9, 9)], "lines");
    stage.expect_books(&a, 0, 2)?;
    stage.expect_books(&b, 0, 0)?;
    stage.expect_books(&c, 0, 9)?;
    ensure_eq!(stage.shown(&b)?.figures.sequence, 1, "a line that got nothing is no transition");
    Ok(())
}

fn times_of_what_is_held(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let [kept, gone] = ["a", "b"].map(|name| stage.maker.item(name));
    let with = |item, units, ttl, max| {
        let (default_ttl, max_hold) = (Patch::Set(seconds(ttl)), Patch::Set(seconds(max)));
        Command::SetStock(SetStock { default_ttl, max_hold, ..stock_of(item, units) })
    };
    stage.done(with(&kept, 9, 300, 1_800))?;
    stage.done(with(&gone, 0, 5, 10))?;
    let reserve = |ttl: Option<u64>, wants: &[(&ItemKey, u64)]| {
        let (ttl, fulfilment) = (ttl.map(seconds), Fulfilment::Partial);
        Command::Reserve(Reserve { ttl, fulfilment, ..reserve_of(wants) })
    };
    let now = stage.now();
    let ends = |ttl: u64, max: u64| (now.deadline(seconds(ttl)), now.deadline(seconds(max)));
    for (ttl, wants, expected) in [
        (None, [(&kept, 1), (&gone, 1)], ends(300, 1_800)),
        (None, [(&gone, 1), (&kept, 1)], ends(300, 1_800)),
        (Some(7), [(&kept, 1), (&gone, 1)], ends(7, 1_800)),
    ] {
        let hold = stage.hold(reserve(ttl, &wants))?;
        ensure_eq!(hold.lines.len(), 1, "one line is left out");
        ensure_eq!((hold.expires_at, hold.terms.max_expires_at), expected, "deadlines of {ttl:?}");
    }
    // What can be asked for is judged before it is known what there is.
    let refused = stage.refused(reserve(Some(11), &[(&kept, 1), (&gone, 1)]))?;
    ensure_eq!(refused, Rejection::TtlTooLong { max: seconds(10) }, "11 s");
    stage.done(with(&gone, 1, 5, 10))?;
    let both = stage.hold(reserve(None, &[(&kept, 1), (&gone, 2)]))?;
    let deadlines = (both.expires_at, both.terms.max_expires_at);
    ensure_eq!(deadlines, ends(5, 10), "what is held in part bounds it");
    Ok(())
}

fn partial_of_nothing(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 1)?;
    let b = stage.stocked("b", 0)?;
    let first = stage.hold(reserve_for(60, &[(&a, 1)]))?;
    let refused = stage.refused(reserve_partial(60, &[(&a, 2), (&b, 3)]))?;
    let short = |item, requested, next_expiry_at| Shortage { item, requested, available: 0, next_expiry_at };
    let both = vec![short(a, 2, Some(first.expires_at)), short(b, 3, None)];
    ensure_eq!(refused, Rejection::InsufficientInventory(both), "nothing of either");
    Ok(())
}

fn partial_reclaims(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 3)?;
    let first = stage.hold(reserve_for(1, &[(&a, 1)]))?;
    let second = stage.hold(reserve_for(100, &[(&a, 1)]))?;
    stage.at(first.expires_at);
    let hold = stage.hold(reserve_partial(60, &[(&a, 3)]))?;
    ensure_eq!(hold.quantity(), 2, "the free unit and the one that was due");
    stage.expect_status(first.id, stockhold_domain::Status::Expired)?;
    stage.expect_status(second.id, stockhold_domain::Status::Active)
}

fn shortage(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 5)?;
    let b = stage.stocked("b", 2)?;
    let late = stage.hold(reserve_for(100, &[(&a, 1)]))?;
    let early = stage.hold(reserve_for(50, &[(&a, 1), (&b, 1)]))?;
    let refused = stage.refused(reserve(&[(&b, 2), (&a, 4)]))?;
    let next_expiry_at = Some(early.expires_at);
    let expected = vec![
        Shortage { item: b.clone(), requested: 2, available: 1, next_expiry_at },
        Shortage { item: a.clone(), requested: 4, available: 3, next_expiry_at },
    ];
    ensure_eq!(refused, Rejection::InsufficientInventory(expected), "in the order asked for");
    stage.hold(confirm(early.id))?;
    let refused = stage.refused(reserve(&[(&a, 4)]))?;
    let next_expiry_at = Some(late.expires_at);
    let expected = vec![Shortage { item: a.clone(), requested: 4, available: 3, next_expiry_at }];
    ensure_eq!(refused, Rejection::InsufficientInventory(expected), "a sold unit falls due no more");
    Ok(())
}

fn unknown_items(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 5)?;
    let (x, y) = (stage.maker.item("x"), stage.maker.item("y"));
    let refused = stage.refused(reserve_partial(60, &[(&y, 1), (&a, 1), (&x, 1), (&y, 1)]))?;
    ensure_eq!(refused, Rejection::UnknownItem(vec![y, x]), "each once, in the order first named");
    stage.expect_books(&a, 0, 0)?;
    let nobody = stage.maker.no_reservation();
    let unknown = Rejection::UnknownReservation(nobody);
    ensure_eq!(stage.refused(confirm(nobody))?, unknown, "confirm of nothing");
    ensure_eq!(stage.refused(maker::release(nobody))?, unknown, "release of nothing");
    Ok(())
}

fn bytes_of_skus(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let names = ["abc", "ABC", "abc ", "ábc", "a\u{301}bc"];
    let mut items = Vec::new();
    for (name, total) in names.iter().zip(1..) {
        items.push(stage.stocked(name, total)?);
    }
    let all: Vec<_> = items.iter().zip(1..).collect();
    let hold = stage.hold(reserve(&all))?;
    ensure_eq!(hold.lines.len(), names.len(), "as many lines as there are items");
    stage.world.restart();
    for (item, held) in all {
        stage.expect_books(item, 0, held)?;
    }
    Ok(())
}

fn locations(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let here = stage.maker.item_at("here", "a");
    let there = stage.maker.item_at("There", "a");
    stage.done(set_stock(&here, 1))?;
    let refused = stage.refused(reserve(&[(&there, 1)]))?;
    ensure_eq!(refused, Rejection::UnknownItem(vec![there.clone()]), "stock elsewhere");
    stage.done(set_stock(&there, 2))?;
    stage.hold(reserve(&[(&there, 2), (&here, 1)]))?;
    stage.expect_books(&here, 0, 1)?;
    stage.expect_books(&there, 0, 2)
}

fn two_thousand_lines(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let items: Vec<_> = (0..limits::BASKET_LINES).map(|n| stage.maker.item(&n.to_string())).collect();
    for some in items.chunks(250) {
        for outcome in stage.all(some.iter().map(|item| set_stock(item, 7)).collect())? {
            ensure_matches!(outcome, Outcome::Done(_), "an item was set");
        }
    }
    let wants: Vec<_> = items.iter().zip(0_u64..).map(|(item, n)| (item, 1 + n % 7)).collect();
    let hold = stage.hold(reserve(&wants))?;
    ensure_eq!(hold.lines.len(), limits::BASKET_LINES, "lines");
    stage.world.restart();
    let sold = stage.hold(confirm(hold.id))?;
    ensure_eq!(sold.lines.len(), limits::BASKET_LINES, "lines of the sale");
    for (item, quantity) in wants {
        stage.expect_books(item, quantity, 0)?;
    }
    Ok(())
}

fn terms(world: &mut dyn World) -> Checked {
    let mut stage = CaseContext::new(world);
    let a = stage.stocked("a", 5)?;
    let optional = OptionalTerms {
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
    stage.at(after(stage.now(), 1));
    let envelope = stage.maker.wrap(Command::Reserve(asked));
    let id = envelope.fresh.reservation;
    ensure_matches!(stage.send(envelope)?, Outcome::Done(_), "a reserve");
    stage.world.restart();
    let hold = stage.kept(id)?;
    ensure_eq!(hold.id, id, "the id that the caller gave");
    ensure_eq!(hold.terms.reserve.owner_id.as_str(), "cart 7", "owner");
    ensure_eq!(hold.terms.reserve.optional.as_deref(), Some(&optional), "the optional parts");
    ensure_eq!(hold.terms.created_at, stage.now(), "created at");
    ensure_eq!(hold.expires_at, deadline(stage.now(), 60), "deadline");
    ensure_eq!(hold.expires_at.micros() % 1_000, 0, "a deadline is whole milliseconds");
    ensure!(hold.expires_at > after(stage.now(), 60_000_000), "rounded up");
    ensure_eq!(hold.terms.max_expires_at, deadline(stage.now(), 1_800), "the latest deadline");
    ensure_eq!(hold.closing, None, "not ended");
    Ok(())
}

fn hundred_short(world: &mut dyn World) -> Checked {
    const ITEMS: usize = 100;
    let mut stage = CaseContext::new(world);
    let items: Vec<ItemKey> = (0..ITEMS).map(|n| stage.maker.item(&format!("{n:03}"))).collect();
    stage.all(items.iter().map(|item| set_stock(item, 1)).collect())?;
    let each = |ttl| items.iter().map(|item| reserve_for(ttl, &[(item, 1)])).collect();
    stage.all(each(5))?;
    let due = deadline(stage.now(), 5);
    let short = |item: &ItemKey| Shortage {
        item: item.clone(),
        requested: 1,
        available: 0,
        next_expiry_at: Some(due),
    };
    for (outcome, item) in stage.all(each(60))?.into_iter().zip(&items) {
        ensure_eq!(
            outcome,
            Outcome::Refused(Rejection::InsufficientInventory(vec![short(item)])),
            "one at a time"
        );
    }
    let wants: Vec<_> = items.iter().map(|item| (item, 1)).collect();
    let all = Rejection::InsufficientInventory(items.iter().map(short).collect());
    ensure_eq!(stage.refused(reserve_for(60, &wants))?, all, "all in one basket");
    ensure_eq!(stage.refused(reserve_partial(60, &wants))?, all, "or as many as there are");
    stage.pass(60 * SECOND);
    ensure_eq!(stage.hold(reserve_for(60, &wants))?.quantity(), ITEMS as u64, "when all of them are due");
    Ok(())
}
