//! Limits: for each customer, for each owner, and for all together.

use super::case_context::{CaseContext, Checked, SECOND};
use super::sourcing::shortages;
use super::{Case, World, case};
use stockhold_domain::{
    Command, CounterKey, DeleteLimit, ExceededLimit, Fulfilment, Hold, ItemKey, Label, Limit, LimitCounter,
    LimitEffects, LimitTarget, LimitTerms, LimitedUnits, LineCount, OptionalTerms, Outcome, Patch,
    Precondition, Rejection, Reply, Reserve, ReserveTerms, SetLimit, Subject, SubjectKind, Transfer,
    Transition,
};
use stockhold_model::maker::{
    amend, basket_choosing, confirm, confirm_late, create_unit_item, delete_limit, label, merge,
    per_customer, release, reserve, reserve_by, reserve_for, return_of, row, set_limit, split,
};
use stockhold_store::{LimitUsage, Query, QueryResult, UsageRequest};

pub(super) const CASES: &[Case] = &[
    case("a customer gets so many over several items and reservations, over restarts", per_customer_of_items),
    case("a limit per customer needs a customer", nameless),
    case("a quota is shared by all who buy through its channels", quota),
    case("a partial reserve gets what limits leave, line by line", partial),
    case("of many requests of one customer, as many are held as the limit allows", crowd_of_one),
    case("buyers who have a limit each do not get in each other's way", crowd_of_many),
    case("a limit holds from its commit on, within a batch and over restarts", within_a_batch),
    case("a lower limit refuses more and takes nothing away", lowered),
    case("a limit of other items or subjects begins at 0, and its old counts move nothing", generations),
    case("the same items in another order are the same limit", in_another_order),
    case("a deleted limit refuses nobody, and the next of its name begins at 0", deleted),
    case("due holds that count for a limit end before it refuses", due_holds),
    case("a hold that changes hands counts for its new customer", transferred),
    case("a split and a merge of one customer's holds count nothing twice", split_and_merged),
    case("an amend is judged without counting its hold twice", amended),
    case("a return lowers what a limit counts, and held units count alone if it says so", returned),
    case("a late payer is judged as one who reserves", late_payer),
    case("who may override a limit is counted, and the event names the limit", overridden),
    case(
        "the event of the reserve names the limit, and not that of a hold that it expires",
        overridden_and_expired,
    ),
    case("units with ids count like others", units_with_ids),
    case("limits and what they count can be read", read),
];

fn limit(case: &mut CaseContext<'_>, name: &str, terms: LimitTerms) -> Checked<Limit> {
    let id = case.maker.limit(name);
    match case.expect_done(set_limit(&id, terms))? {
        Reply::Limit { limit, .. } => Ok(limit),
        other => Err(format!("no limit but {other:?}")),
    }
}

fn by(customer: &str, lines: &[(&ItemKey, u64)]) -> Command {
    Command::Reserve(reserve_by(customer, 60, lines))
}

fn through(channel: &str, lines: &[(&ItemKey, u64)]) -> Reserve {
    let optional = OptionalTerms { channel: Some(label(channel)), ..OptionalTerms::default() };
    let Command::Reserve(plain) = reserve_for(60, lines) else { unreachable!("a reserve") };
    Reserve { terms: ReserveTerms::new(label("owner"), optional), ..plain }
}

fn shared(items: &[&ItemKey], channel: &str, most: u64) -> LimitTerms {
    LimitTerms { channels: [label(channel)].into(), per: None, ..per_customer(items, most) }
}

fn exceeded(id: &Label, limit: u64, used: u64, requested: u64, subject: Option<&str>) -> Rejection {
    let subject = subject.map(label);
    Rejection::LimitExceeded(vec![ExceededLimit { limit_id: id.clone(), limit, used, requested, subject }])
}

/// Held and sold units that a limit counts for a subject.
fn usage(case: &mut CaseContext<'_>, id: &Label, subject: Option<&str>) -> Checked<(u64, u64)> {
    let request = UsageRequest { limit_id: id.clone(), subject: subject.map(label), after: None, limit: 10 };
    match case.world.find(Query::LimitUsage(request)) {
        Ok(QueryResult::LimitUsage(Some(LimitUsage { counters, .. }))) if counters.len() == 1 => {
            Ok((counters[0].1.held, counters[0].1.sold))
        }
        other => Err(format!("the usage of {id} was answered with {other:?}")),
    }
}

fn counts(hold: &Hold) -> Vec<Vec<u32>> {
    let of_line = |counted: &Vec<LineCount>| counted.iter().map(|count| count.units).collect();
    hold.lines.iter().map(|line| of_line(&line.details().counted)).collect()
}

fn per_customer_of_items(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = (case.create_item("a", 99)?, case.create_item("b", 99)?);
    let c = case.create_item("c", 99)?;
    let two = limit(&mut case, "two", per_customer(&[&a, &b], 2))?;
    ensure_eq!((two.version, two.generation), (1, 1), "the first version");
    let first = case.hold(by("ann", &[(&a, 1)]))?;
    let key = CounterKey { limit: two.id.clone(), generation: 1, subject: Subject::Customer(label("ann")) };
    ensure_eq!(first.lines[0].details().counted, [LineCount { key: key.clone(), units: 1 }], "the line");
    let counters = [(key, LimitCounter { held: 1, sold: 0 })].into();
    let events = case.events_of(&[&a]);
    ensure_matches!(
        events.last().map(|event| &event.transition),
        Some(Transition::Hold { limits: Some(effects), .. })
            if **effects == LimitEffects { counters, ..LimitEffects::default() },
        "the event has the counter after it"
    );
    let more = case.expect_refused(by("ann", &[(&b, 1), (&c, 5), (&a, 1)]))?;
    ensure_eq!(more, exceeded(&two.id, 2, 1, 2, Some("ann")), "two more");
    case.hold(by("ann", &[(&b, 1), (&c, 5)]))?;
    case.hold(confirm(first.id))?;
    for round in 0..2 {
        ensure_eq!(usage(&mut case, &two.id, Some("ann"))?, (1, 1), "one is held and one sold, {round}");
        let one = case.expect_refused(by("ann", &[(&a, 1)]))?;
        ensure_eq!(one, exceeded(&two.id, 2, 2, 1, Some("ann")), "one more, round {round}");
        case.world.restart();
    }
    case.hold(by("bob", &[(&a, 2)]))?;
    case.expect_counters(&a, 1, 2)
}

/// Targets and channels are sets: the same in another order is the same limit, and its counts go on.
fn in_another_order(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = (case.create_item("a", 9)?, case.create_item("b", 9)?);
    let one = |items: [&ItemKey; 2], channels: [&str; 2]| LimitTerms {
        channels: channels.iter().map(|name| label(name)).collect(),
        ..per_customer(&items, 2)
    };
    let set = limit(&mut case, "two", one([&a, &b], ["app", "web"]))?;
    let again = limit(&mut case, "two", one([&b, &a], ["web", "app"]))?;
    ensure_eq!(again, set, "the same again changes nothing");
    let lower = limit(&mut case, "two", LimitTerms { limit: 1, ..one([&b, &a], ["web", "app"]) })?;
    ensure_eq!((lower.version, lower.generation), (2, 1), "the counts go on");
    Ok(())
}

fn nameless(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = (case.create_item("a", 9)?, case.create_item("b", 9)?);
    let two = limit(&mut case, "two", per_customer(&[&a], 2))?;
    let required = Rejection::CustomerRequired { limit_id: two.id };
    ensure_eq!(case.expect_refused(reserve(&[(&b, 1), (&a, 1)]))?, required, "a reserve");
    let hold = case.hold(reserve(&[(&b, 1)]))?;
    ensure_eq!(case.expect_refused(amend(hold.id, &[(&b, 1), (&a, 1)]))?, required, "an amend");
    let named = case.hold(by("ann", &[(&a, 1)]))?;
    let transfer = Transfer {
        id: named.id,
        owner_id: None,
        customer_id: Patch::Clear,
        session_id: Patch::Keep,
        override_limits: false,
        expected: None,
    };
    ensure_eq!(case.expect_refused(Command::Transfer(transfer))?, required, "a transfer to nobody");
    Ok(())
}

fn quota(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hub = case.maker.location("hub");
    let (a, b) = (case.create_item("a", 99)?, case.maker.item_at(hub.as_str(), "b"));
    case.expect_done(stockhold_model::maker::set_stock(&b, 99))?;
    // It names an item by its location, and one before it exists.
    let c = case.maker.item("c");
    let terms = LimitTerms {
        targets: [LimitTarget::Location(hub), LimitTarget::Item(a.clone()), LimitTarget::Item(c.clone())]
            .into(),
        ..shared(&[], "web", 3)
    };
    let web = limit(&mut case, "web", terms)?;
    case.hold(Command::Reserve(through("web", &[(&a, 1), (&b, 1)])))?;
    case.expect_done(stockhold_model::maker::set_stock(&c, 99))?;
    let refused = case.expect_refused(Command::Reserve(through("web", &[(&c, 2)])))?;
    ensure_eq!(refused, exceeded(&web.id, 3, 2, 2, None), "more than the quota");
    case.hold(Command::Reserve(through("app", &[(&c, 2)])))?;
    case.hold(reserve(&[(&a, 5)]))?;
    case.hold(Command::Reserve(through("web", &[(&c, 1)])))?;
    ensure_eq!(usage(&mut case, &web.id, None)?, (3, 0), "of the channel");
    Ok(())
}

fn partial(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = (case.create_item("a", 2)?, case.create_item("b", 9)?);
    let five = limit(&mut case, "five", shared(&[&a, &b], "web", 5))?;
    let asked = Reserve { fulfilment: Fulfilment::Partial, ..through("web", &[(&a, 4), (&b, 4)]) };
    let hold = case.hold(Command::Reserve(asked.clone()))?;
    let got: Vec<_> = hold.lines.iter().map(|line| (line.quantity, line.requested)).collect();
    ensure_eq!(got, [(2, 4), (3, 4)], "what stock and then the limit leave");
    ensure_eq!(counts(&hold), [vec![2], vec![3]], "what is counted");
    let refused = case.expect_refused(Command::Reserve(asked))?;
    ensure_eq!(refused, exceeded(&five.id, 5, 5, 8, None), "nothing is left");
    let c = case.create_item("c", 0)?;
    limit(&mut case, "none", shared(&[&b], "app", 0))?;
    let asked = Reserve { fulfilment: Fulfilment::Partial, ..through("app", &[(&b, 1), (&c, 2)]) };
    let refused = case.expect_refused(Command::Reserve(asked))?;
    ensure_eq!(shortages(&refused)?, [(&c, 2, 0)], "the line that a limit stops is not short of stock");
    Ok(())
}

fn crowd_of_one(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = (case.create_item("a", 99)?, case.create_item("b", 99)?);
    let two = limit(&mut case, "two", per_customer(&[&a, &b], 2))?;
    let items = [&a, &b];
    let outcomes = case.submit_all((0..40).map(|n| by("ann", &[(items[n % 2], 1)])).collect())?;
    let held = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Done(_))).count();
    ensure_eq!(held, 2, "as many as the limit");
    ensure!(
        outcomes.iter().all(|outcome| matches!(
            outcome,
            Outcome::Done(_) | Outcome::Refused(Rejection::LimitExceeded(_))
        )),
        "each was held or refused by the limit"
    );
    case.world.restart();
    ensure_eq!(usage(&mut case, &two.id, Some("ann"))?, (2, 0), "counted");
    Ok(())
}

fn crowd_of_many(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 40)?;
    limit(&mut case, "two", per_customer(&[&a], 2))?;
    let buyers = (0..60).map(|n| by(&format!("buyer-{n}"), &[(&a, 2)])).collect();
    let outcomes = case.submit_all(buyers)?;
    let held = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Done(_))).count();
    ensure_eq!(held, 20, "everybody who asked while stock lasted");
    case.expect_counters(&a, 0, 40)
}

fn within_a_batch(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 99)?;
    let id = case.maker.limit("batch");
    let outcomes = case.submit_in_order(vec![
        by("ann", &[(&a, 3)]),
        set_limit(&id, per_customer(&[&a], 2)),
        by("ann", &[(&a, 3)]),
        by("ann", &[(&a, 2)]),
        delete_limit(&id),
        by("ann", &[(&a, 3)]),
        set_limit(&id, per_customer(&[&a], 1)),
        by("ann", &[(&a, 1)]),
        by("ann", &[(&a, 1)]),
    ])?;
    let done: Vec<bool> = outcomes.iter().map(|outcome| matches!(outcome, Outcome::Done(_))).collect();
    ensure_eq!(done, [true, true, false, true, true, true, true, true, false], "in order");
    case.world.restart();
    ensure_eq!(case.expect_refused(by("ann", &[(&a, 1)]))?, exceeded(&id, 1, 1, 1, Some("ann")), "restarted");
    case.expect_counters(&a, 0, 9)
}

fn lowered(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 99)?;
    let five = limit(&mut case, "five", per_customer(&[&a], 5))?;
    let hold = case.hold(by("ann", &[(&a, 4)]))?;
    let lower = limit(&mut case, "five", per_customer(&[&a], 2))?;
    ensure_eq!((lower.version, lower.generation), (five.version + 1, five.generation), "the counts go on");
    let again = limit(&mut case, "five", per_customer(&[&a], 2))?;
    ensure_eq!(again.version, lower.version, "the same again changes nothing");
    ensure_eq!(case.expect_refused(by("ann", &[(&a, 1)]))?, exceeded(&five.id, 2, 4, 1, Some("ann")), "more");
    ensure_eq!(
        case.expect_refused(amend(hold.id, &[(&a, 5)]))?,
        exceeded(&five.id, 2, 4, 1, Some("ann")),
        "a"
    );
    let smaller = case.hold(amend(hold.id, &[(&a, 3)]))?;
    ensure_eq!(counts(&smaller), [vec![3]], "shrinking always works");
    case.hold(confirm(hold.id))?;
    ensure_eq!(usage(&mut case, &five.id, Some("ann"))?, (0, 3), "a confirm is not judged");
    let stale = SetLimit {
        id: five.id.clone(),
        terms: per_customer(&[&a], 9),
        expected: Some(Precondition::version(five.version)),
    };
    let refused = case.expect_refused(Command::SetLimit(stale))?;
    ensure_eq!(refused, Rejection::PreconditionFailed { version: Some(lower.version) }, "an old version");
    limit(&mut case, "five", per_customer(&[&a], 4))?;
    case.hold(by("ann", &[(&a, 1)]))?;
    Ok(())
}

fn generations(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = (case.create_item("a", 99)?, case.create_item("b", 99)?);
    let two = limit(&mut case, "two", per_customer(&[&a], 2))?;
    let old = case.hold(by("ann", &[(&a, 2)]))?;
    let wider = limit(&mut case, "two", per_customer(&[&a, &b], 2))?;
    ensure_eq!((wider.version, wider.generation), (two.version + 1, two.version + 1), "another generation");
    ensure_eq!(usage(&mut case, &two.id, Some("ann"))?, (0, 0), "it begins at 0");
    let new = case.hold(by("ann", &[(&b, 1)]))?;
    case.hold(release(old.id))?;
    ensure_eq!(usage(&mut case, &two.id, Some("ann"))?, (1, 0), "the old hold moves nothing");
    case.world.restart();
    let per_owner = LimitTerms { per: Some(SubjectKind::Owner), ..per_customer(&[&a, &b], 2) };
    limit(&mut case, "two", per_owner)?;
    case.hold(confirm(new.id))?;
    ensure_eq!(usage(&mut case, &two.id, Some("owner"))?, (0, 0), "for owners it begins at 0");
    case.hold(by("ann", &[(&b, 2)]))?;
    ensure_eq!(usage(&mut case, &two.id, Some("owner"))?, (2, 0), "and counts them");
    Ok(())
}

fn deleted(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 99)?;
    let one = limit(&mut case, "one", per_customer(&[&a], 1))?;
    let hold = case.hold(by("ann", &[(&a, 1)]))?;
    let expected = Some(Precondition::version(one.version + 1));
    let stale = Command::DeleteLimit(DeleteLimit { id: one.id.clone(), expected });
    let refused = case.expect_refused(stale)?;
    ensure_eq!(refused, Rejection::PreconditionFailed { version: Some(one.version) }, "another version");
    for _ in 0..2 {
        let reply = case.expect_done(delete_limit(&one.id))?;
        ensure_matches!(reply, Reply::Limit { limit, .. } if limit.terms.is_none() && limit.version == 2, "gone");
        case.world.restart();
    }
    case.hold(by("ann", &[(&a, 3)]))?;
    let again = limit(&mut case, "one", per_customer(&[&a], 1))?;
    ensure_eq!((again.version, again.generation), (3, 3), "its versions never repeat");
    case.hold(release(hold.id))?;
    case.hold(by("ann", &[(&a, 1)]))?;
    ensure_eq!(usage(&mut case, &one.id, Some("ann"))?, (1, 0), "only what came after");
    let nobody = case.maker.limit("nobody");
    ensure_eq!(case.expect_refused(delete_limit(&nobody))?, Rejection::UnknownLimit(nobody), "never there");
    Ok(())
}

fn due_holds(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = (case.create_item("a", 99)?, case.create_item("b", 99)?);
    let hoard = LimitTerms { counts: LimitedUnits::Held, ..per_customer(&[&a, &b], 2) };
    let hoard = limit(&mut case, "hoard", hoard)?;
    case.hold(Command::Reserve(reserve_by("ann", 1, &[(&a, 1)])))?;
    let second = case.hold(Command::Reserve(reserve_by("ann", 2, &[(&a, 1)])))?;
    case.hold(Command::Reserve(reserve_by("bob", 1, &[(&a, 1)])))?;
    ensure_eq!(
        case.expect_refused(by("ann", &[(&b, 1)]))?,
        exceeded(&hoard.id, 2, 2, 1, Some("ann")),
        "none due"
    );
    case.advance(SECOND);
    // The hold that is due is of another item. Only as many end as are in the way.
    case.hold(by("ann", &[(&b, 1)]))?;
    case.expect_counters(&a, 0, 2)?;
    case.expect_status(second.id, stockhold_domain::Status::Active)?;
    case.world.restart();
    case.advance(SECOND);
    case.hold(by("ann", &[(&b, 1)]))?;
    ensure_eq!(usage(&mut case, &hoard.id, Some("ann"))?, (2, 0), "at the limit again");
    Ok(())
}

fn to_customer(hold: &Hold, customer: &str) -> Command {
    Command::Transfer(Transfer {
        id: hold.id,
        owner_id: None,
        customer_id: Patch::Set(label(customer)),
        session_id: Patch::Keep,
        override_limits: false,
        expected: None,
    })
}

fn transferred(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 99)?;
    let two = limit(&mut case, "two", per_customer(&[&a], 2))?;
    let (ann, bob) = (case.hold(by("ann", &[(&a, 2)]))?, case.hold(by("bob", &[(&a, 1)]))?);
    let refused = case.expect_refused(to_customer(&ann, "bob"))?;
    ensure_eq!(refused, exceeded(&two.id, 2, 1, 2, Some("bob")), "too many for the new one");
    case.hold(to_customer(&ann, "eve"))?;
    for (customer, units) in [("ann", 0), ("bob", 1), ("eve", 2)] {
        ensure_eq!(usage(&mut case, &two.id, Some(customer))?, (units, 0), "{customer}");
    }
    case.world.restart();
    case.hold(confirm(ann.id))?;
    ensure_eq!(usage(&mut case, &two.id, Some("eve"))?, (0, 2), "the sale is hers");
    case.hold(to_customer(&bob, "ann"))?;
    ensure_eq!(usage(&mut case, &two.id, Some("bob"))?, (0, 0), "given away");
    Ok(())
}

fn split_and_merged(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 99)?;
    let three = limit(&mut case, "three", per_customer(&[&a], 3))?;
    let whole = case.hold(by("ann", &[(&a, 3)]))?;
    let part = case.hold(split(whole.id, &[(&a, 1)]))?;
    ensure_eq!(counts(&part), [vec![1]], "the part");
    ensure_eq!(usage(&mut case, &three.id, Some("ann"))?, (3, 0), "both together");
    limit(&mut case, "three", per_customer(&[&a], 1))?;
    let merged = case.hold(merge(whole.id, &[part.id]))?;
    ensure_eq!(counts(&merged), [vec![3]], "one's own holds merge, whatever the limit is now");
    limit(&mut case, "three", per_customer(&[&a], 4))?;
    let other = case.hold(by("bob", &[(&a, 2)]))?;
    let refused = case.expect_refused(merge(whole.id, &[other.id]))?;
    ensure_eq!(refused, exceeded(&three.id, 4, 3, 2, Some("ann")), "another customer's");
    case.hold(amend(whole.id, &[(&a, 2)]))?;
    case.hold(merge(whole.id, &[other.id]))?;
    ensure_eq!(usage(&mut case, &three.id, Some("ann"))?, (4, 0), "they count for the one who has them");
    ensure_eq!(usage(&mut case, &three.id, Some("bob"))?, (0, 0), "and no longer for the other");
    Ok(())
}

fn amended(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let (a, b) = (case.create_item("a", 99)?, case.create_item("b", 99)?);
    let old = case.hold(by("ann", &[(&a, 2)]))?;
    let three = limit(&mut case, "three", per_customer(&[&a, &b], 3))?;
    let cart = case.hold(by("ann", &[(&a, 2)]))?;
    case.hold(amend(cart.id, &[(&a, 3)]))?;
    let refused = case.expect_refused(amend(cart.id, &[(&a, 4)]))?;
    ensure_eq!(refused, exceeded(&three.id, 3, 3, 1, Some("ann")), "one too many");
    // What the same amend gives back counts as free.
    let moved = case.hold(amend(cart.id, &[(&b, 3)]))?;
    ensure_eq!(counts(&moved), [vec![3]], "the other item");
    case.hold(amend(cart.id, &[(&b, 1), (&a, 1)]))?;
    ensure_eq!(usage(&mut case, &three.id, Some("ann"))?, (2, 0), "two are left");
    // The limit knows nothing older, and only what is added to an older hold.
    let grown = case.hold(amend(old.id, &[(&a, 3)]))?;
    ensure_eq!(counts(&grown), [vec![1]], "one of three");
    case.world.restart();
    case.hold(amend(old.id, &[(&a, 1)]))?;
    ensure_eq!(usage(&mut case, &three.id, Some("ann"))?, (2, 0), "what came last leaves first");
    Ok(())
}

fn returned(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 99)?;
    let all = limit(&mut case, "all", per_customer(&[&a], 3))?;
    let held = LimitTerms { counts: LimitedUnits::Held, ..per_customer(&[&a], 2) };
    let held = limit(&mut case, "held", held)?;
    let sale = case.hold(by("ann", &[(&a, 2)]))?;
    case.hold(confirm(sale.id))?;
    ensure_eq!(usage(&mut case, &held.id, Some("ann"))?, (0, 2), "both counters have the sale");
    let refused = case.expect_refused(by("ann", &[(&a, 2)]))?;
    ensure_eq!(refused, exceeded(&all.id, 3, 2, 2, Some("ann")), "only one of them compares it");
    case.hold(return_of(sale.id, &[(&a, 1)]))?;
    case.hold(by("ann", &[(&a, 2)]))?;
    ensure_eq!(usage(&mut case, &all.id, Some("ann"))?, (2, 1), "held and sold");
    case.world.restart();
    case.hold(return_of(sale.id, &[(&a, 1)]))?;
    ensure_eq!(usage(&mut case, &all.id, Some("ann"))?, (2, 0), "all came back");
    Ok(())
}

fn late_payer(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 99)?;
    let two = limit(&mut case, "two", per_customer(&[&a], 2))?;
    let late = case.hold(Command::Reserve(reserve_by("ann", 1, &[(&a, 2)])))?;
    case.advance(SECOND);
    let other = case.hold(by("ann", &[(&a, 1)]))?;
    let refused = case.expect_refused(confirm_late(late.id, "o1"))?;
    let expected =
        Rejection::NotReacquired { id: late.id, refusal: Box::new(exceeded(&two.id, 2, 1, 2, Some("ann"))) };
    ensure_eq!(refused, expected, "they bought again meanwhile");
    case.hold(release(other.id))?;
    case.hold(confirm_late(late.id, "o1"))?;
    ensure_eq!(usage(&mut case, &two.id, Some("ann"))?, (0, 2), "sold to them");
    Ok(())
}

fn overridden(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 99)?;
    let one = limit(&mut case, "one", per_customer(&[&a], 1))?;
    let forced = Reserve { override_limits: true, ..reserve_by("ann", 60, &[(&a, 3)]) };
    let hold = case.hold(Command::Reserve(forced))?;
    ensure_eq!(counts(&hold), [vec![3]], "counted all the same");
    let events = case.events_of(&[&a]);
    ensure_matches!(
        events.last().map(|event| &event.transition),
        Some(Transition::Hold { limits: Some(effects), .. }) if *effects.overridden == [one.id.clone()],
        "the limit that was passed by"
    );
    ensure_eq!(usage(&mut case, &one.id, Some("ann"))?, (3, 0), "counted");
    let nameless = Reserve { override_limits: true, ..through("web", &[(&a, 1)]) };
    let hold = case.hold(Command::Reserve(nameless))?;
    ensure_eq!(counts(&hold), [Vec::<u32>::new()], "nobody to count for");
    let fits = Reserve { override_limits: true, ..reserve_by("bob", 60, &[(&a, 1)]) };
    case.hold(Command::Reserve(fits))?;
    let events = case.events_of(&[&a]);
    ensure_matches!(
        events.last().map(|event| &event.transition),
        Some(Transition::Hold { limits: Some(effects), .. }) if effects.overridden.is_empty(),
        "a limit that would not have refused"
    );
    ensure_eq!(
        case.expect_refused(by("ann", &[(&a, 1)]))?,
        exceeded(&one.id, 1, 3, 1, Some("ann")),
        "others"
    );
    Ok(())
}

fn overridden_and_expired(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 3)?;
    let one = limit(&mut case, "one", per_customer(&[&a], 1))?;
    let due = case.hold(by("bob", &[(&a, 1)]))?;
    case.advance(60 * SECOND);
    let forced = Reserve { override_limits: true, ..reserve_by("ann", 60, &[(&a, 3)]) };
    let forced = case.hold(Command::Reserve(forced))?;
    let mut named = Vec::new();
    for event in case.events_of(&[&a]) {
        if let Transition::Hold { hold, limits: Some(effects), .. } = event.transition {
            named.push((hold.id, effects.overridden));
        }
    }
    let nothing: Box<[Label]> = [].into();
    let expected = [(due.id, nothing.clone()), (due.id, nothing), (forced.id, [one.id].into())];
    ensure_eq!(named, expected, "the limits that events name");
    Ok(())
}

fn units_with_ids(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let hall = case.maker.item("hall");
    case.expect_done(create_unit_item(&hall))?;
    case.expect_done(stockhold_model::maker::add_units(
        &hall,
        row("A", "1", &["1", "2", "3", "4", "5", "6"]),
    ))?;
    let two = limit(&mut case, "two", per_customer(&[&hall], 2))?;
    let first = case.hold(by("ann", &[(&hall, 1)]))?;
    let named = Reserve {
        basket: basket_choosing(vec![(&hall, 2, Some(stockhold_model::maker::named(&["5", "6"])))]),
        ..reserve_by("ann", 60, &[(&hall, 1)])
    };
    let refused = case.expect_refused(Command::Reserve(named.clone()))?;
    ensure_eq!(refused, exceeded(&two.id, 2, 1, 2, Some("ann")), "seats by name");
    let some = case.hold(Command::Reserve(Reserve { fulfilment: Fulfilment::Partial, ..named }))?;
    ensure_eq!(some.lines[0].units().len(), 1, "one of them, when some are enough");
    case.hold(confirm(first.id))?;
    case.world.restart();
    ensure_eq!(usage(&mut case, &two.id, Some("ann"))?, (1, 1), "held and sold");
    case.expect_counters(&hall, 1, 1)
}

fn read(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let a = case.create_item("a", 99)?;
    let first = limit(&mut case, "limit-1", per_customer(&[&a], 9))?;
    let second = limit(&mut case, "limit-2", shared(&[&a], "web", 9))?;
    let gone = limit(&mut case, "limit-3", per_customer(&[&a], 9))?;
    case.expect_done(delete_limit(&gone.id))?;
    for customer in ["cy", "ann", "bob"] {
        case.hold(by(customer, &[(&a, 1)]))?;
    }
    let eve = case.hold(by("eve", &[(&a, 1)]))?;
    case.hold(release(eve.id))?;
    for round in 0..2 {
        for (id, expected) in
            [(&first.id, Some(first.clone())), (&second.id, Some(second.clone())), (&gone.id, None)]
        {
            let found = case.world.find(Query::Limit(id.clone()));
            ensure_matches!(found, Ok(QueryResult::Limit(found)) if *found == expected, "{id}, round {round}");
        }
        // Other cases may have limits in the same world.
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let found = case.world.find(Query::Limits { after, limit: 2 });
            let Ok(QueryResult::Limits(page)) = found else { return Err(format!("no limits but {found:?}")) };
            all.extend(page.iter().cloned());
            if page.len() < 2 {
                break;
            }
            after = page.last().map(|limit| limit.id.clone());
        }
        ensure!(all.is_sorted_by(|one, other| one.id < other.id), "in order of their ids");
        let ours = [&first, &second];
        ensure!(ours.iter().all(|limit| all.contains(limit)), "both are there, round {round}");
        ensure!(all.iter().all(|limit| limit.terms.is_some()), "deleted ones are not");
        let page = |after: Option<&str>| {
            let (limit_id, after) = (first.id.clone(), after.map(label));
            Query::LimitUsage(UsageRequest { limit_id, subject: None, after, limit: 2 })
        };
        let one = LimitCounter { held: 1, sold: 0 };
        for (after, expected) in [(None, vec!["ann", "bob"]), (Some("bob"), vec!["cy"]), (Some("cy"), vec![])]
        {
            let expected: Vec<_> = expected.into_iter().map(|name| (Some(label(name)), one)).collect();
            let found = case.world.find(page(after));
            ensure_matches!(
                found,
                Ok(QueryResult::LimitUsage(Some(usage))) if usage.counters == expected && usage.limit == first,
                "usage after {after:?}, round {round}"
            );
        }
        let unknown = UsageRequest { limit_id: gone.id.clone(), subject: None, after: None, limit: 9 };
        let found = case.world.find(Query::LimitUsage(unknown));
        ensure_matches!(found, Ok(QueryResult::LimitUsage(None)), "a deleted limit counts nothing");
        case.world.restart();
    }
    Ok(())
}
