//! Sourcing: reserves of which lines name the locations that may give.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use stockhold_domain::{
    Basket, BasketLine, Command, ExceededLimit, Fulfilment, Hold, ItemKey, Label, LimitTarget, LimitTerms,
    Outcome, Patch, Rejection, Reply, RequestedLine, Reserve, Scope, SetStock, Source, Status, Strategy,
    limits,
};
use stockhold_model::maker::{
    label, per_customer, reserve_by, reserve_for, reserve_of, seconds, set_limit, set_stock, stock_of,
};

pub(super) const CASES: &[Case] = &[
    case("locations give in the order given, and what one lacks the next gives", priority),
    case("the fullest location gives first, and of several as full the first given", most_stock),
    case("one location gives a whole line, the first that can", single),
    case("a partial reserve of sourced lines shows all that was requested", partial),
    case("due holds of a location end before the next one is asked", due_holds),
    case("a location that is paused, outside its window or without the SKU gives nothing", not_selling),
    case("a sourced basket gets everything or nothing", all_or_nothing),
    case("a limit caps what a location gives, and refuses only if nothing else does", capped),
    case("a plain line and a sourced line of one item take one after the other", with_plain_lines),
    case("a sourced reserve is answered again by its key, with what it took", replayed),
    case("a hundred buyers over sixteen locations in different orders oversell nothing", crowd),
    case("a crowd reclaims the due holds of sixteen locations", crowd_of_due_holds),
    case("a sourced basket takes from as many items as a reservation has lines", large),
];

/// A SKU at several locations, each with its units.
fn stock(case: &mut CaseContext<'_>, name: &str, units: &[u64]) -> Checked<Vec<ItemKey>> {
    let mut items = Vec::new();
    for (n, units) in units.iter().enumerate() {
        let location = case.maker.location(&format!("hub-{n}"));
        let item = case.maker.item_at(location.as_str(), name);
        case.expect_done(set_stock(&item, *units))?;
        items.push(item);
    }
    Ok(items)
}

fn location(item: &ItemKey) -> Label {
    label(item.location())
}

fn line(strategy: Strategy, items: &[&ItemKey], quantity: u64) -> BasketLine {
    let locations: Vec<Label> = items.iter().map(|item| location(item)).collect();
    let source = Source::new(&label(items[0].sku()), &locations, strategy).expect("a source");
    let line = RequestedLine { item: items[0].clone(), quantity };
    BasketLine { line, selection: None, source: Some(source) }
}

fn plain_line(item: &ItemKey, quantity: u64) -> BasketLine {
    BasketLine { line: RequestedLine { item: item.clone(), quantity }, selection: None, source: None }
}

fn reserve_lines(ttl: u64, lines: Vec<BasketLine>) -> Reserve {
    let plain = reserve_of(&[(&lines[0].line.item, 1)]);
    Reserve {
        ttl: Some(seconds(ttl)),
        basket: Basket::with_sources(lines).expect("lines that are a basket"),
        ..plain
    }
}

fn from(strategy: Strategy, items: &[&ItemKey], quantity: u64) -> Command {
    Command::Reserve(reserve_lines(60, vec![line(strategy, items, quantity)]))
}

fn partly(lines: Vec<BasketLine>) -> Command {
    Command::Reserve(Reserve { fulfilment: Fulfilment::Partial, ..reserve_lines(60, lines) })
}

/// Item, units and requested units of each line.
fn shown(hold: &Hold) -> Vec<(&ItemKey, u32, u32)> {
    hold.lines.iter().map(|line| (&line.item, line.quantity, line.requested)).collect()
}

pub(super) fn shortages(rejection: &Rejection) -> Checked<Vec<(&ItemKey, u64, u64)>> {
    match rejection {
        Rejection::InsufficientInventory(short) => {
            Ok(short.iter().map(|line| (&line.item, line.requested, line.available)).collect())
        }
        other => Err(format!("no shortage but {other:?}")),
    }
}

fn priority(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[3, 5, 5])?;
    let [x, y, z] = [&items[0], &items[1], &items[2]];
    let one = case.hold(from(Strategy::Priority, &[x, y, z], 2))?;
    ensure_eq!(shown(&one), [(x, 2, 2)], "the first alone");
    let two = case.hold(from(Strategy::Priority, &[x, y, z], 4))?;
    ensure_eq!(shown(&two), [(x, 1, 1), (y, 3, 3)], "the first, and then the second");
    case.world.restart();
    let three = case.hold(from(Strategy::Priority, &[z, y, x], 7))?;
    ensure_eq!(shown(&three), [(z, 5, 5), (y, 2, 2)], "in another order");
    for (item, held) in [(x, 3), (y, 5), (z, 5)] {
        case.expect_counters(item, 0, held)?;
    }
    Ok(())
}

fn most_stock(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[3, 5, 5])?;
    let [x, y, z] = [&items[0], &items[1], &items[2]];
    let first = case.hold(from(Strategy::MostStock, &[x, z, y], 1))?;
    ensure_eq!(shown(&first), [(z, 1, 1)], "the first of two that are as full");
    let second = case.hold(from(Strategy::MostStock, &[x, z, y], 8))?;
    ensure_eq!(shown(&second), [(y, 5, 5), (z, 3, 3)], "the fullest, and then the next");
    // Two holds that are due make the emptiest the fullest.
    let due = reserve_lines(1, vec![plain_line(x, 3)]);
    let due = case.hold(Command::Reserve(due))?;
    case.advance(SECOND);
    let third = case.hold(from(Strategy::MostStock, &[z, x], 1))?;
    ensure_eq!(shown(&third), [(x, 1, 1)], "what is due counts as free");
    case.expect_status(due.id, Status::Expired)
}

fn single(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[3, 5, 5])?;
    let [x, y, z] = [&items[0], &items[1], &items[2]];
    let one = case.hold(from(Strategy::Single, &[x, y, z], 4))?;
    ensure_eq!(shown(&one), [(y, 4, 4)], "the first that has all");
    let refused = case.expect_refused(from(Strategy::Single, &[x, y, z], 6))?;
    ensure_eq!(shortages(&refused)?, [(x, 6, 3), (y, 6, 1), (z, 6, 5)], "none has all");
    let most = case.hold(partly(vec![line(Strategy::Single, &[x, y, z], 6)]))?;
    ensure_eq!(shown(&most), [(z, 5, 6)], "the one that has most");
    case.expect_counters(x, 0, 0)
}

fn partial(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[3, 2, 4])?;
    let [x, y, z] = [&items[0], &items[1], &items[2]];
    let hold = case.hold(partly(vec![
        line(Strategy::Priority, &[x, y], 9),
        line(Strategy::Priority, &[y, x], 5),
        plain_line(z, 1),
    ]))?;
    ensure_eq!(shown(&hold), [(x, 3, 7), (y, 2, 2), (z, 1, 1)], "a line that gets nothing is left out");
    let more = case.hold(partly(vec![line(Strategy::Priority, &[y, z], 9)]))?;
    ensure_eq!(shown(&more), [(z, 3, 9)], "the first that gives is asked for all");
    case.world.restart();
    let refused =
        case.expect_refused(partly(vec![line(Strategy::Priority, &[y, z], 9), plain_line(x, 2)]))?;
    ensure_eq!(shortages(&refused)?, [(y, 9, 0), (z, 9, 0), (x, 2, 0)], "nothing at all");
    Ok(())
}

fn due_holds(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[3, 5])?;
    let [x, y] = [&items[0], &items[1]];
    let first = case.hold(reserve_for(1, &[(x, 2)]))?;
    let second = case.hold(reserve_for(2, &[(x, 1)]))?;
    case.advance(SECOND);
    let hold = case.hold(from(Strategy::Priority, &[x, y], 2))?;
    ensure_eq!(shown(&hold), [(x, 2, 2)], "what fell due is there");
    case.expect_status(first.id, Status::Expired)?;
    case.expect_status(second.id, Status::Active)?;
    case.advance(SECOND);
    let hold = case.hold(from(Strategy::Single, &[x, y], 2))?;
    ensure_eq!(shown(&hold), [(y, 2, 2)], "one that is due is not enough");
    case.expect_status(second.id, Status::Expired)
}

fn not_selling(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[3, 3])?;
    let [x, y] = [&items[0], &items[1]];
    let [none, nil] = ["none", "nil"].map(|name| case.maker.item_at(case.maker.location(name).as_str(), "a"));
    let unknown = case.expect_refused(from(Strategy::Priority, &[&none, &nil], 1))?;
    ensure_eq!(unknown, Rejection::UnknownItem(vec![none.clone()]), "stocked nowhere");
    let hold = case.hold(from(Strategy::Priority, &[&none, x, y], 1))?;
    ensure_eq!(shown(&hold), [(x, 1, 1)], "a location that does not stock it is passed by");
    let paused = Scope::Location(location(x));
    case.expect_done(stockhold_model::maker::pause(&paused))?;
    let hold = case.hold(from(Strategy::MostStock, &[x, y], 1))?;
    ensure_eq!(shown(&hold), [(y, 1, 1)], "and one that is paused");
    let closed = SetStock { sale_ends_at: Patch::Set(case.now()), ..stock_of(y, 3) };
    case.expect_done(Command::SetStock(closed))?;
    let refused = case.expect_refused(from(Strategy::Single, &[&none, x, y], 1))?;
    ensure_eq!(refused, Rejection::SalePaused(paused.clone()), "none sells: the first that is stocked");
    let refused = case.expect_refused(from(Strategy::Single, &[y, x], 1))?;
    ensure_matches!(refused, Rejection::OutsideSaleWindow { item, .. } if item == y, "the other order");
    case.expect_done(stockhold_model::maker::resume(&paused))?;
    let refused = case.expect_refused(from(Strategy::Priority, &[y, x], 3))?;
    ensure_eq!(shortages(&refused)?, [(x, 3, 2)], "only those that sell are listed");
    Ok(())
}

fn all_or_nothing(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[3, 3])?;
    let others = stock(&mut case, "b", &[3, 3])?;
    let [x, y, b] = [&items[0], &items[1], &others[0]];
    let lines = || vec![line(Strategy::Priority, &[b, &others[1]], 5), line(Strategy::Priority, &[x, y], 7)];
    let refused = case.expect_refused(Command::Reserve(reserve_lines(60, lines())))?;
    ensure_eq!(shortages(&refused)?, [(x, 7, 3), (y, 7, 3)], "what is short");
    for item in items.iter().chain(&others) {
        case.expect_counters(item, 0, 0)?;
    }
    case.expect_done(set_stock(y, 4))?;
    let hold = case.hold(Command::Reserve(reserve_lines(60, lines())))?;
    ensure_eq!(hold.lines.len(), 4, "one line for each item that gives");
    case.world.restart();
    ensure_eq!(case.hold(stockhold_model::maker::confirm(hold.id))?.quantity(), 12, "a sale like others");
    Ok(())
}

fn capped(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[3, 3])?;
    let [x, y] = [&items[0], &items[1]];
    let id = case.maker.limit("one");
    let terms = LimitTerms { targets: [LimitTarget::Location(location(x))].into(), ..per_customer(&[], 1) };
    case.expect_done(set_limit(&id, terms))?;
    let by = |lines: Vec<BasketLine>, fulfilment| {
        let reserve = reserve_lines(60, lines);
        let terms = reserve_by("ann", 60, &[(x, 1)]).terms;
        Command::Reserve(Reserve { terms, fulfilment, ..reserve })
    };
    let nameless = case.expect_refused(from(Strategy::Priority, &[y, x], 1))?;
    ensure_eq!(nameless, Rejection::CustomerRequired { limit_id: id.clone() }, "a customer is needed");
    let hold = case.hold(by(vec![line(Strategy::Priority, &[x, y], 3)], Fulfilment::All))?;
    ensure_eq!(shown(&hold), [(x, 1, 1), (y, 2, 2)], "the limit caps the first");
    let refused = case.expect_refused(by(vec![line(Strategy::Priority, &[x, y], 3)], Fulfilment::All))?;
    let exceeded = |requested| {
        let (limit_id, subject) = (id.clone(), Some(label("ann")));
        Rejection::LimitExceeded(vec![ExceededLimit { limit_id, limit: 1, used: 1, requested, subject }])
    };
    ensure_eq!(refused, exceeded(2), "only the limit is in the way");
    let refused = case.expect_refused(by(vec![line(Strategy::Priority, &[x, y], 4)], Fulfilment::All))?;
    ensure_eq!(shortages(&refused)?, [(x, 4, 2), (y, 4, 1)], "stock is in the way too");
    let hold = case.hold(by(vec![line(Strategy::Priority, &[x, y], 4)], Fulfilment::Partial))?;
    ensure_eq!(shown(&hold), [(y, 1, 4)], "as much as both leave");
    let refused = case.expect_refused(by(vec![line(Strategy::Priority, &[x, y], 4)], Fulfilment::Partial))?;
    ensure_eq!(refused, exceeded(2), "nothing is left");
    let Command::Reserve(forced) = from(Strategy::Priority, &[x, y], 2) else { unreachable!("a reserve") };
    let hold = case.hold(Command::Reserve(Reserve { override_limits: true, ..forced }))?;
    ensure_eq!(shown(&hold), [(x, 2, 2)], "a principal that may override limits gets all available units");
    Ok(())
}

fn with_plain_lines(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[3, 5])?;
    let [x, y] = [&items[0], &items[1]];
    let lines = vec![line(Strategy::Priority, &[x, y], 2), plain_line(x, 1), plain_line(x, 1)];
    let refused = case.expect_refused(Command::Reserve(reserve_lines(60, lines.clone())))?;
    ensure_eq!(shortages(&refused)?, [(x, 2, 1)], "the plain line comes second");
    let mut turned = lines;
    turned.rotate_left(1);
    let hold = case.hold(Command::Reserve(reserve_lines(60, turned)))?;
    ensure_eq!(shown(&hold), [(x, 3, 3), (y, 1, 1)], "the plain line comes first");
    Ok(())
}

fn replayed(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[1, 5])?;
    let [x, y] = [&items[0], &items[1]];
    let asked = case.maker.keyed("key", from(Strategy::Priority, &[x, y], 2));
    let Outcome::Done(Reply::Reservation(hold)) = case.submit_one(asked.clone())? else {
        return Err("it was not reserved".to_owned());
    };
    case.expect_done(set_stock(x, 9))?;
    case.world.restart();
    let again = case.maker.again(&asked);
    let outcome = case.submit_one(again)?;
    ensure_matches!(outcome, Outcome::Replayed(Reply::Reservation(same)) if *same == hold, "the same answer");
    let other = case.maker.keyed("key", from(Strategy::Single, &[x, y], 2));
    ensure_eq!(
        case.submit_one(other)?,
        Outcome::Refused(Rejection::IdempotencyMismatch),
        "another strategy is another request"
    );
    Ok(())
}

/// Sixteen locations in an order of their own for each buyer.
fn turned(items: &[ItemKey], buyer: usize) -> Vec<&ItemKey> {
    let mut order: Vec<&ItemKey> = items.iter().collect();
    order.rotate_left(buyer % items.len());
    if buyer % 3 == 1 {
        order.reverse();
    }
    order
}

fn crowd(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[10; limits::SOURCE_LOCATIONS])?;
    let strategies = [Strategy::Priority, Strategy::MostStock, Strategy::Single];
    let buyers = (0..100).map(|buyer| from(strategies[buyer % 3], &turned(&items, buyer), 2));
    let outcomes = case.submit_all(buyers.collect())?;
    let mut held = 0;
    for outcome in &outcomes {
        match outcome {
            Outcome::Done(Reply::Reservation(made)) => held += made.quantity(),
            Outcome::Refused(Rejection::InsufficientInventory(_)) => {}
            other => return Err(format!("answered with {other:?}")),
        }
    }
    ensure_eq!(held, 160, "all units are held");
    let mut sum = 0;
    for item in &items {
        let figures = case.read_item(item)?.figures;
        ensure_eq!(figures.held, 10, "{item:?} gave all and no more");
        sum += figures.held;
    }
    ensure_eq!(sum, held, "what items gave and what reservations have");
    Ok(())
}

fn crowd_of_due_holds(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let items = stock(&mut case, "a", &[10; limits::SOURCE_LOCATIONS])?;
    let first = items.iter().flat_map(|item| std::iter::repeat_n(reserve_for(1, &[(item, 2)]), 5));
    case.submit_all(first.collect())?;
    case.advance(SECOND);
    let buyers = (0..40).map(|buyer| from(Strategy::Priority, &turned(&items, buyer), 4));
    let outcomes = case.submit_all(buyers.collect())?;
    let done = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Done(_))).count();
    ensure_eq!(done, 40, "what fell due is there for all");
    for item in &items {
        case.expect_counters(item, 0, 10)?;
    }
    Ok(())
}

fn large(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hubs = ["hub-0", "hub-1"].map(|name| case.maker.location(name));
    let names: Vec<String> = (0..=limits::BASKET_LINES / 2).map(|n| format!("large-{n}")).collect();
    let items: Vec<[ItemKey; 2]> = names
        .iter()
        .map(|name| [0, 1].map(|hub: usize| case.maker.item_at(hubs[hub].as_str(), name)))
        .collect();
    for part in items.chunks(100) {
        case.submit_all(part.iter().flatten().map(|item| set_stock(item, 1)).collect())?;
    }
    let lines = |items: &[[ItemKey; 2]]| -> Vec<BasketLine> {
        items.iter().map(|[one, other]| line(Strategy::Priority, &[one, other], 2)).collect()
    };
    let refused = case.expect_refused(Command::Reserve(reserve_lines(60, lines(&items))))?;
    ensure_matches!(refused, Rejection::InvalidRequest(error) if &*error.pointer == "/lines", "too many");
    let hold = case.hold(Command::Reserve(reserve_lines(60, lines(&items[1..]))))?;
    ensure_eq!(hold.lines.len(), limits::BASKET_LINES, "lines");
    case.world.restart();
    ensure_eq!(case.hold(stockhold_model::maker::confirm(hold.id))?.quantity(), 2_000, "units of the sale");
    Ok(())
}
