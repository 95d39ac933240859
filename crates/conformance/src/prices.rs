//! Prices: a line keeps what its units cost when they were reserved.

use super::case_context::{CaseContext, Checked, SECOND, after};
use super::{Case, World, case};
use stockhold_domain::{
    Command, Currency, Discount, Hold, ItemKey, LinePrice, Patch, Price, Reduction, Rejection, Reserve,
    SetStock, limits,
};
use stockhold_model::maker::{
    amend, amend_choosing, confirm, confirm_late, create_unit_item, label, merge, named, release, reserve,
    reserve_for, reserve_named, reserve_of, reserve_partial, return_of, row, split, stock_of,
};

pub(super) const CASES: &[Case] = &[
    case("an item keeps its price and its low stock until they are removed", settings),
    case("a line keeps the price at which its units were reserved", frozen),
    case("the discount that takes off most applies, in its time and its channels", discounts),
    case("a percentage of a line is rounded half up, once", rounding),
    case("an amend prices what it adds, and takes away a share", amended),
    case("an amend of units with ids prices those that it adds", amended_units),
    case("a split divides an amount, and a merge adds it up again", divided),
    case("a late payer pays the old price", late_payer),
    case("lines of two currencies are never in one reservation", two_currencies),
    case("a line costs nothing known unless all of its units had a price", no_price),
    case("a price out of its bounds is refused", refused),
];

fn currency(code: &str) -> Currency {
    Currency::new(code).expect("three letters")
}

fn price(unit_amount: u64) -> Price {
    Price { unit_amount, currency: currency("usd"), discounts: [].into() }
}

fn with(unit_amount: u64, discounts: &[Discount]) -> Price {
    Price { discounts: discounts.into(), ..price(unit_amount) }
}

fn discount(reduction: Reduction) -> Discount {
    Discount { reduction, from: None, to: None, channels: [].into() }
}

fn set_price(item: &ItemKey, price: Price) -> Command {
    Command::SetStock(SetStock { total_units: None, price: Patch::Set(price.into()), ..stock_of(item, 0) })
}

fn priced_item(case: &mut CaseContext<'_>, name: &str, price: Price) -> Result<ItemKey, String> {
    let item = case.create_item(name, 100)?;
    case.expect_done(set_price(&item, price))?;
    Ok(item)
}

/// What each line costs: its amount of one unit, its discount and its amount.
type Amounts = Option<(Option<u64>, u64, u64)>;

fn amounts(hold: &Hold) -> Vec<Amounts> {
    let of = |price: &LinePrice| (price.unit_amount, price.discount, price.amount);
    hold.lines.iter().map(|line| line.details().price.as_ref().map(of)).collect()
}

fn in_channel(channel: &str, item: &ItemKey, quantity: u64) -> Command {
    let mut reserve = reserve_of(&[(item, quantity)]);
    let mut optional = reserve.terms.optional.as_deref().cloned().unwrap_or_default();
    optional.channel = Some(label(channel));
    reserve.terms.optional = Some(Box::new(optional));
    Command::Reserve(Reserve { ..reserve })
}

fn settings(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let now = case.now();
    let full = Discount {
        reduction: Reduction::AmountOff(5),
        from: Some(now),
        to: Some(after(now, SECOND)),
        channels: [label("web"), label("app")].into(),
    };
    let price = with(1_999, &[full, discount(Reduction::Percent(100))]);
    let set = SetStock {
        total_units: None,
        price: Patch::Set(price.clone().into()),
        low_stock: Patch::Set(0),
        ..stock_of(&item, 0)
    };
    let shown = case.item(Command::SetStock(set.clone()))?;
    let again = case.item(Command::SetStock(set))?;
    ensure_eq!(again.version, shown.version, "the same price changes nothing");
    for round in 0..2 {
        let settings = case.read_item(&item)?.settings;
        ensure_eq!(settings.price.as_deref(), Some(&price), "the price, round {round}");
        ensure_eq!(settings.low_stock, Some(0), "the low stock, round {round}");
        case.world.restart();
    }
    let clear =
        SetStock { total_units: None, price: Patch::Clear, low_stock: Patch::Clear, ..stock_of(&item, 0) };
    case.expect_done(Command::SetStock(clear))?;
    case.world.restart();
    let settings = case.read_item(&item)?.settings;
    ensure_eq!((settings.price.clone(), settings.low_stock), (None, None), "removed");
    Ok(())
}

fn frozen(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = priced_item(&mut case, "a", with(99_900, &[discount(Reduction::Percent(10))]))?;
    let b = priced_item(&mut case, "b", price(250))?;
    let hold = case.hold(reserve_for(60, &[(&a, 1), (&b, 3)]))?;
    let expected = vec![Some((Some(99_900), 9_990, 89_910)), Some((Some(250), 0, 750))];
    ensure_eq!(amounts(&hold), expected, "reserved");
    case.expect_done(set_price(&a, price(1)))?;
    let amended = case.hold(amend(hold.id, &[(&a, 1), (&b, 3)]))?;
    ensure_eq!(amounts(&amended), expected, "an amend that changes nothing");
    let sold = case.hold(confirm(hold.id))?;
    ensure_eq!(amounts(&sold), expected, "sold");
    let returned = case.hold(return_of(hold.id, &[(&b, 1)]))?;
    ensure_eq!(amounts(&returned), expected, "a return changes no price");
    for round in 0..2 {
        ensure_eq!(amounts(&case.read_hold(hold.id)?), expected, "read, round {round}");
        let events = case.history(hold.id)?;
        for event in &events {
            let stockhold_domain::Transition::Hold { hold, .. } = &event.transition else { continue };
            ensure_eq!(amounts(hold), expected, "in an event");
        }
        case.world.restart();
    }
    let partial = case.hold(reserve_partial(60, &[(&b, 500)]))?;
    ensure_eq!(amounts(&partial), [Some((Some(250), 0, 98 * 250))], "what was granted is priced");
    Ok(())
}

fn discounts(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let now = case.now();
    let [start, end] = [SECOND, 5 * SECOND].map(|time| after(now, time));
    let of_web = Discount { channels: [label("web")].into(), ..discount(Reduction::AmountOff(300)) };
    let timed = Discount { from: Some(start), to: Some(end), ..discount(Reduction::Percent(50)) };
    let item = priced_item(&mut case, "a", with(1_000, &[discount(Reduction::Percent(10)), of_web, timed]))?;
    let two = |case: &mut CaseContext<'_>, command| -> Result<Amounts, String> {
        Ok(amounts(&case.hold(command)?)[0])
    };
    ensure_eq!(two(&mut case, reserve(&[(&item, 2)]))?, Some((Some(1_000), 200, 1_800)), "before its time");
    ensure_eq!(two(&mut case, in_channel("web", &item, 2))?, Some((Some(1_000), 600, 1_400)), "its channel");
    ensure_eq!(two(&mut case, in_channel("app", &item, 2))?, Some((Some(1_000), 200, 1_800)), "another");
    case.set_clock(start);
    ensure_eq!(
        two(&mut case, in_channel("web", &item, 2))?,
        Some((Some(1_000), 1_000, 1_000)),
        "at its start"
    );
    case.set_clock(after(end, -1));
    ensure_eq!(
        two(&mut case, reserve(&[(&item, 2)]))?,
        Some((Some(1_000), 1_000, 1_000)),
        "just before its end"
    );
    case.set_clock(end);
    ensure_eq!(two(&mut case, reserve(&[(&item, 2)]))?, Some((Some(1_000), 200, 1_800)), "at its end");
    let free = priced_item(&mut case, "b", with(7, &[discount(Reduction::AmountOff(9))]))?;
    ensure_eq!(two(&mut case, reserve(&[(&free, 3)]))?, Some((Some(7), 21, 0)), "never below nothing");
    Ok(())
}

fn rounding(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    // 15 % of 10, 30 and 50 are 1.5, 4.5 and 7.5.
    let item = priced_item(&mut case, "a", with(10, &[discount(Reduction::Percent(15))]))?;
    for (quantity, taken_off) in [(1, 2), (3, 5), (5, 8), (2, 3)] {
        let hold = case.hold(reserve(&[(&item, quantity)]))?;
        let amount = quantity * 10 - taken_off;
        ensure_eq!(amounts(&hold), [Some((Some(10), taken_off, amount))], "{quantity} units");
    }
    Ok(())
}

fn amended(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = priced_item(&mut case, "a", with(100, &[discount(Reduction::AmountOff(10))]))?;
    let other = priced_item(&mut case, "b", price(40))?;
    let hold = case.hold(reserve_for(60, &[(&item, 2)]))?;
    let more = case.hold(amend(hold.id, &[(&item, 3)]))?;
    ensure_eq!(amounts(&more), [Some((Some(100), 30, 270))], "at the same price");
    case.expect_done(set_price(&item, price(130)))?;
    let mixed = case.hold(amend(hold.id, &[(&item, 4), (&other, 1)]))?;
    ensure_eq!(
        amounts(&mixed),
        [Some((None, 30, 400)), Some((Some(40), 0, 40))],
        "one unit at the new price"
    );
    let less = case.hold(amend(hold.id, &[(&item, 3), (&other, 1)]))?;
    // Three quarters of 430 and of 30 are 322.5 and 22.5.
    ensure_eq!(amounts(&less), [Some((None, 23, 300)), Some((Some(40), 0, 40))], "a share, rounded half up");
    let without = case.hold(amend(hold.id, &[(&other, 1)]))?;
    ensure_eq!(amounts(&without), [Some((Some(40), 0, 40))], "a line that is gone");
    let again = case.hold(amend(hold.id, &[(&other, 1), (&item, 1)]))?;
    ensure_eq!(
        amounts(&again),
        [Some((Some(40), 0, 40)), Some((Some(130), 0, 130))],
        "a line that comes back"
    );
    case.world.restart();
    ensure_eq!(amounts(&case.read_hold(hold.id)?), amounts(&again), "restarted");
    Ok(())
}

fn amended_units(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.maker.item("a");
    case.expect_done(create_unit_item(&item))?;
    case.expect_done(stockhold_model::maker::add_units(&item, row("stalls", "1", &["1", "2", "3", "4"])))?;
    case.expect_done(set_price(&item, price(100)))?;
    let hold = case.hold(reserve_named(60, &item, &["1", "2"]))?;
    ensure_eq!(amounts(&hold), [Some((Some(100), 0, 200))], "two seats");
    case.expect_done(set_price(&item, price(150)))?;
    let other = case.hold(amend_choosing(hold.id, vec![(&item, 2, Some(named(&["2", "3"])))]))?;
    ensure_eq!(amounts(&other), [Some((None, 0, 250))], "one seat is kept, one is new");
    let new = case.hold(amend_choosing(hold.id, vec![(&item, 1, Some(named(&["4"])))]))?;
    ensure_eq!(amounts(&new), [Some((Some(150), 0, 150))], "none is kept");
    Ok(())
}

fn divided(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = priced_item(&mut case, "a", with(100, &[discount(Reduction::Percent(1))]))?;
    let hold = case.hold(reserve_for(60, &[(&item, 3)]))?;
    ensure_eq!(amounts(&hold), [Some((Some(100), 3, 297))], "three");
    case.expect_done(set_price(&item, price(90)))?;
    let mixed = case.hold(amend(hold.id, &[(&item, 5)]))?;
    ensure_eq!(amounts(&mixed), [Some((None, 3, 477))], "and two");
    let part = case.hold(split(hold.id, &[(&item, 2)]))?;
    // Two fifths of 480 and of 3 are 192 and 1.2.
    ensure_eq!(amounts(&part), [Some((None, 1, 191))], "the part");
    ensure_eq!(amounts(&case.read_hold(hold.id)?), [Some((None, 2, 286))], "the rest");
    let merged = case.hold(merge(hold.id, &[part.id]))?;
    ensure_eq!(amounts(&merged), [Some((None, 3, 477))], "together again");
    let [one, other] = [1, 2].map(|quantity| reserve_for(60, &[(&item, quantity)]));
    let (one, other) = (case.hold(one)?, case.hold(other)?);
    let merged = case.hold(merge(one.id, &[other.id]))?;
    ensure_eq!(amounts(&merged), [Some((Some(90), 0, 270))], "the same price of a unit");
    Ok(())
}

fn late_payer(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = priced_item(&mut case, "a", price(100))?;
    let other = priced_item(&mut case, "b", price(7))?;
    let hold = case.hold(reserve_for(1, &[(&item, 2), (&other, 1)]))?;
    case.expect_done(set_price(&item, Price { currency: currency("eur"), ..price(300) }))?;
    case.advance(2 * SECOND);
    let sold = case.hold(confirm_late(hold.id, "order-1"))?;
    ensure!(sold.id != hold.id, "another reservation");
    ensure_eq!(amounts(&sold), [Some((Some(100), 0, 200)), Some((Some(7), 0, 7))], "as it was promised");
    Ok(())
}

fn two_currencies(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let dollars = priced_item(&mut case, "a", price(100))?;
    let euros = priced_item(&mut case, "b", Price { currency: currency("EUR"), ..price(100) })?;
    let free = case.create_item("c", 9)?;
    let is_refused = |case: &mut CaseContext<'_>, command, pointer: &str| -> Checked {
        let refused = case.expect_refused(command)?;
        ensure_matches!(&refused, Rejection::InvalidRequest(error) if &*error.pointer == pointer, "{refused:?}");
        Ok(())
    };
    is_refused(&mut case, reserve(&[(&dollars, 1), (&free, 1), (&euros, 1)]), "/lines")?;
    let hold = case.hold(reserve_for(60, &[(&dollars, 1), (&free, 1)]))?;
    is_refused(&mut case, amend(hold.id, &[(&dollars, 1), (&euros, 1)]), "/lines")?;
    let other = case.hold(reserve_for(60, &[(&euros, 1)]))?;
    is_refused(&mut case, merge(hold.id, &[other.id]), "/from")?;
    ensure_eq!(
        amounts(&case.hold(amend(hold.id, &[(&euros, 2)]))?),
        [Some((Some(100), 0, 200))],
        "one by one"
    );
    case.expect_done(set_price(&euros, price(100)))?;
    is_refused(&mut case, amend(hold.id, &[(&euros, 3)]), "/lines")?;
    case.expect_counters(&euros, 0, 3)?;
    case.hold(release(other.id))?;
    let dear = priced_item(&mut case, "d", price(limits::UNIT_AMOUNT))?;
    let total = SetStock { price: Patch::Keep, ..stock_of(&dear, 10_000) };
    case.expect_done(Command::SetStock(total))?;
    is_refused(&mut case, reserve(&[(&dear, 9_008)]), "/lines")?;
    case.hold(reserve(&[(&dear, 9_007)]))?;
    Ok(())
}

fn no_price(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let hold = case.hold(reserve_for(60, &[(&item, 1)]))?;
    ensure_eq!(amounts(&hold), [None], "without a price");
    case.expect_done(set_price(&item, price(5)))?;
    ensure_eq!(amounts(&case.hold(amend(hold.id, &[(&item, 2)]))?), [None], "one of two has none");
    let other = case.hold(reserve_for(60, &[(&item, 1)]))?;
    ensure_eq!(amounts(&other), [Some((Some(5), 0, 5))], "with a price");
    ensure_eq!(amounts(&case.hold(merge(other.id, &[hold.id]))?), [None], "one of three has one");
    Ok(())
}

fn refused(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 9)?;
    let now = case.now();
    let many = vec![discount(Reduction::Percent(1)); limits::DISCOUNTS + 1];
    let reversed = Discount { from: Some(now), to: Some(now), ..discount(Reduction::Percent(1)) };
    let channels = vec![label("web"); limits::DISCOUNT_CHANNELS + 1].into();
    let known = discount(Reduction::Percent(1));
    let wrong = [
        (price(limits::UNIT_AMOUNT + 1), "/price/unit_amount"),
        (with(1, &many), "/price/discounts"),
        (with(1, &[known.clone(), discount(Reduction::Percent(0))]), "/price/discounts/1/percent"),
        (with(1, &[discount(Reduction::Percent(101))]), "/price/discounts/0/percent"),
        (with(1, &[discount(Reduction::AmountOff(0))]), "/price/discounts/0/amount_off"),
        (with(1, &[reversed]), "/price/discounts/0/to"),
        (with(1, &[Discount { channels, ..known }]), "/price/discounts/0/channels"),
    ];
    for (price, pointer) in wrong {
        let refused = case.expect_refused(set_price(&item, price))?;
        ensure_matches!(&refused, Rejection::InvalidRequest(error) if &*error.pointer == pointer, "{refused:?}");
    }
    let low_stock = Patch::Set(limits::TOTAL_UNITS + 1);
    let refused = case.expect_refused(Command::SetStock(SetStock { low_stock, ..stock_of(&item, 9) }))?;
    ensure_matches!(&refused, Rejection::InvalidRequest(error) if &*error.pointer == "/low_stock", "{refused:?}");
    ensure_eq!(case.read_item(&item)?.settings.price, None, "nothing was set");
    Ok(())
}
