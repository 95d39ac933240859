//! Access: a command is judged with the state that it changes, so a change that others make at the same moment can't come between.

use super::case_context::{CaseContext, Checked, SECOND};
use super::{Case, World, case};
use stockhold_domain::{
    Access, AccessDenied, Command, Envelope, Hold, ItemKey, Label, Outcome, Patch, Rejection, Reply, Reserve,
    ReserveTerms, Restrictions, Scope, Status,
};
use stockhold_model::maker::{
    add_units, adjust, amend, amend_choosing, amend_of, close_payment, confirm, confirm_late,
    create_unit_item, delete, delete_limit, delete_pool, extend, fulfil_all, label, merge, named,
    open_payment, pause, per_customer, pool_of, release, reserve, reserve_for, reserve_named, reserve_of,
    return_all, row, seconds, set_limit, set_pool, set_stock, split, transfer,
};

pub(super) const CASES: &[Case] = &[
    case("a transfer ends the token that was issued before, for commands that come with it", transfer_first),
    case("a token gives one reservation back, extends and ends it, and nothing else", holders),
    case("a token ends with its reservation", ended),
    case("a restricted caller changes no reservation that leaves its locations at the same moment", left),
    case("a restricted caller merges nothing from elsewhere", merged),
    case(
        "a restricted caller changes no other location, no other channel and nothing of everything",
        elsewhere,
    ),
    case("a replay shows nothing that its caller may not see any more", replays),
    case("what is refused to a caller changes nothing and uses no key", keys),
];

fn only_at(location: &str) -> Access {
    let locations = Some([label(location)].into());
    Access::Restricted(Box::new(Restrictions { locations, ..Restrictions::default() }))
}

fn only_of(channel: &str) -> Access {
    let channels = Some([label(channel)].into());
    Access::Restricted(Box::new(Restrictions { channels, ..Restrictions::default() }))
}

fn holder(hold: &Hold) -> Access {
    Access::Holder { id: hold.id, transfers: hold.details().transfers }
}

fn denied(denied: AccessDenied) -> Outcome {
    Outcome::Refused(Rejection::AccessDenied { denied, replayed: false })
}

fn not_at(item: &ItemKey) -> AccessDenied {
    AccessDenied::Location(Label::new(item.location()).ok())
}

/// Two items at two locations.
fn two_places(case: &mut CaseContext<'_>) -> Checked<[ItemKey; 2]> {
    let elsewhere = case.maker.location("elsewhere");
    let items = [case.maker.item("a"), case.maker.item_at(elsewhere.as_str(), "a")];
    for item in &items {
        case.expect_done(set_stock(item, 100))?;
    }
    Ok(items)
}

/// Submits in one request: what one caller does first, and then what another one asks for.
fn after_another(
    case: &mut CaseContext<'_>,
    first: Command,
    access: &Access,
    then: Command,
) -> Checked<Outcome> {
    let envelopes = vec![case.maker.wrap(first), case.maker.wrap_as(access, then)];
    let mut outcomes = case.world.submit_in_order(envelopes);
    let outcome = outcomes.pop().ok_or("no answer")?.map_err(|failure| failure.to_string())?;
    ensure_matches!(outcomes.pop(), Some(Ok(Outcome::Done(_))), "what the other caller did");
    Ok(outcome)
}

fn run_as(case: &mut CaseContext<'_>, access: &Access, command: Command) -> Checked<Outcome> {
    let envelope = case.maker.wrap_as(access, command);
    case.submit_one(envelope)
}

/// What changes a reservation, for each command that a holder may send.
fn by_holders(hold: &Hold, item: &ItemKey) -> [Command; 3] {
    [release(hold.id), extend(hold.id, 900), amend(hold.id, &[(item, 1)])]
}

fn transfer_first(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 100)?;
    let other = label("other");
    for number in 0..3 {
        let hold = case.hold(reserve_for(60, &[(&item, 2)]))?;
        let command = by_holders(&hold, &item).into_iter().nth(number).ok_or("no command")?;
        let outcome = after_another(&mut case, transfer(hold.id, &other), &holder(&hold), command.clone())?;
        ensure_eq!(outcome, denied(AccessDenied::Transferred), "{command:?} by an old token");
        let after = case.read_hold(hold.id)?;
        ensure_eq!((after.status, after.version), (Status::Active, hold.version + 1), "only transferred");
        ensure_eq!(after.expires_at, hold.expires_at, "its deadline");
        ensure_matches!(run_as(&mut case, &holder(&after), command)?, Outcome::Done(_), "by the new token");
    }
    Ok(())
}

fn holders(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [item, far] = two_places(&mut case)?;
    let hall = case.maker.item("hall");
    case.expect_done(create_unit_item(&hall))?;
    case.expect_done(add_units(&hall, row("S", "A", &["A1", "A2", "A3"])))?;
    let hold = case.hold(reserve_for(60, &[(&item, 3)]))?;
    let other = case.hold(reserve_for(60, &[(&item, 3)]))?;
    let seats = case.hold(reserve_named(60, &hall, &["A1", "A2"]))?;
    let refused = denied(AccessDenied::NotForHolders);
    let described = Command::Amend(stockhold_domain::Amend {
        metadata: Patch::Set("{}".into()),
        ..amend_of(hold.id, &[(&item, 1)])
    });
    for command in [
        amend(hold.id, &[(&item, 4)]),
        amend(hold.id, &[(&item, 1), (&far, 1)]),
        described,
        confirm(hold.id),
        confirm_late(hold.id, "order"),
        transfer(hold.id, &label("other")),
        split(hold.id, &[(&item, 1)]),
        merge(hold.id, &[other.id]),
        open_payment(hold.id, "payment", 60),
        close_payment(hold.id),
        fulfil_all(hold.id),
        return_all(hold.id),
        release(other.id),
        extend(other.id, 900),
        amend(other.id, &[(&item, 1)]),
        reserve(&[(&item, 1)]),
        set_stock(&item, 1),
        pause(&Scope::Everything),
        Command::Sweep,
    ] {
        ensure_eq!(run_as(&mut case, &holder(&hold), command.clone())?, refused, "{command:?}");
    }
    let more = amend_choosing(seats.id, vec![(&hall, 2, Some(named(&["A1", "A3"])))]);
    ensure_eq!(run_as(&mut case, &holder(&seats), more)?, refused, "another seat");
    let fewer = amend_choosing(seats.id, vec![(&hall, 1, Some(named(&["A2"])))]);
    ensure_matches!(run_as(&mut case, &holder(&seats), fewer)?, Outcome::Done(_), "fewer seats");
    for command in [amend(hold.id, &[(&item, 2)]), extend(hold.id, 900), release(hold.id)] {
        ensure_matches!(run_as(&mut case, &holder(&hold), command)?, Outcome::Done(_), "may be done");
    }
    ensure_eq!(case.read_hold(other.id)?, other, "another reservation stays");
    Ok(())
}

fn ended(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let item = case.create_item("a", 100)?;
    let gone = denied(AccessDenied::Ended);
    let hold = case.hold(reserve_for(60, &[(&item, 2)]))?;
    let outcome = after_another(&mut case, confirm(hold.id), &holder(&hold), release(hold.id))?;
    ensure_eq!(outcome, gone, "released after the sale");
    for command in by_holders(&hold, &item) {
        ensure_eq!(run_as(&mut case, &holder(&hold), command.clone())?, gone, "{command:?} of a sale");
    }
    let hold = case.hold(reserve_for(60, &[(&item, 2)]))?;
    let outcome = after_another(&mut case, release(hold.id), &holder(&hold), extend(hold.id, 90))?;
    ensure_eq!(outcome, gone, "extended after its end");
    ensure_matches!(run_as(&mut case, &holder(&hold), release(hold.id))?, Outcome::Done(_), "released twice");
    Ok(())
}

/// Commands on a reservation, and whether it has to be confirmed for them.
fn on_reservation(hold: &Hold, item: &ItemKey) -> Vec<(bool, Command)> {
    vec![
        (false, confirm(hold.id)),
        (false, confirm_late(hold.id, "order")),
        (false, release(hold.id)),
        (false, extend(hold.id, 900)),
        (false, amend(hold.id, &[(item, 1)])),
        (false, transfer(hold.id, &label("other"))),
        (false, split(hold.id, &[(item, 1)])),
        (false, open_payment(hold.id, "payment", 60)),
        (false, close_payment(hold.id)),
        (true, fulfil_all(hold.id)),
        (true, return_all(hold.id)),
    ]
}

fn left(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [near, far] = two_places(&mut case)?;
    let access = only_at(near.location());
    let kinds = {
        let hold = case.hold(reserve_for(60, &[(&near, 2)]))?;
        on_reservation(&hold, &near).len()
    };
    for number in 0..kinds {
        let hold = case.hold(reserve_for(600, &[(&near, 2)]))?;
        let (of_sale, command) = on_reservation(&hold, &near).remove(number);
        let grown = amend(hold.id, &[(&near, 2), (&far, 1)]);
        let outcome = if of_sale {
            case.hold(grown)?;
            after_another(&mut case, confirm(hold.id), &access, command.clone())?
        } else {
            after_another(&mut case, grown, &access, command.clone())?
        };
        ensure_eq!(outcome, denied(not_at(&far)), "{command:?} of a caller that is restricted");
        let after = case.read_hold(hold.id)?;
        let version = hold.version + 1 + u64::from(of_sale);
        ensure_eq!((after.version, after.lines.len()), (version, 2), "nothing else was done: {command:?}");
        // The caller may do the same where everything is in sight.
        let hold = case.hold(reserve_for(600, &[(&near, 2)]))?;
        if of_sale {
            case.expect_done(confirm(hold.id))?;
        }
        let (_, command) = on_reservation(&hold, &near).remove(number);
        let outcome = run_as(&mut case, &access, command.clone())?;
        ensure!(
            !matches!(outcome, Outcome::Refused(Rejection::AccessDenied { .. })),
            "{command:?} was answered with {outcome:?}"
        );
    }
    Ok(())
}

fn merged(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [near, far] = two_places(&mut case)?;
    let target = case.hold(reserve_for(60, &[(&near, 2)]))?;
    let source = case.hold(reserve_for(60, &[(&near, 1)]))?;
    let access = only_at(near.location());
    let grown = amend(source.id, &[(&near, 1), (&far, 1)]);
    let outcome = after_another(&mut case, grown, &access, merge(target.id, &[source.id]))?;
    ensure_eq!(outcome, denied(not_at(&far)), "a source that has left");
    ensure_eq!(case.read_hold(target.id)?, target, "the target stays");
    case.expect_status(source.id, Status::Active)?;
    let source = case.hold(reserve_for(60, &[(&near, 1)]))?;
    ensure_matches!(
        run_as(&mut case, &access, merge(target.id, &[source.id]))?,
        Outcome::Done(Reply::Reservation(_)),
        "a source in sight"
    );
    Ok(())
}

fn of_channel(item: &ItemKey, channel: Option<&str>) -> Command {
    let reserve = reserve_of(&[(item, 1)]);
    let optional = stockhold_domain::OptionalTerms {
        channel: channel.map(label),
        ..stockhold_domain::OptionalTerms::default()
    };
    Command::Reserve(Reserve {
        terms: ReserveTerms::new(label("owner"), optional),
        ttl: Some(seconds(600)),
        ..reserve
    })
}

fn elsewhere(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [near, far] = two_places(&mut case)?;
    let access = only_at(near.location());
    let before = case.read_item(&far)?;
    for command in [
        reserve(&[(&near, 1), (&far, 1)]),
        set_stock(&far, 1),
        adjust(&far, 1),
        delete(&far),
        add_units(&far, row("S", "A", &["A1"])),
        stockhold_model::maker::retire(&far, "A1"),
        set_pool(&far, "pool", pool_of(1)),
        delete_pool(&far, "pool"),
        pause(&Scope::Item(far.clone())),
        pause(&Scope::Location(label(far.location()))),
    ] {
        ensure_eq!(run_as(&mut case, &access, command.clone())?, denied(not_at(&far)), "{command:?}");
    }
    ensure_eq!(case.read_item(&far)?, before, "nothing changed there");
    let limit = case.maker.limit("limit");
    let of_everything = [
        pause(&Scope::Everything),
        set_limit(&limit, per_customer(&[&near], 3)),
        delete_limit(&limit),
        Command::Sweep,
    ];
    for command in of_everything {
        let outcome = run_as(&mut case, &access, command.clone())?;
        ensure_eq!(outcome, denied(AccessDenied::Location(None)), "{command:?}");
        let outcome = run_as(&mut case, &only_of("web"), command.clone())?;
        ensure_eq!(outcome, denied(AccessDenied::Everything), "{command:?}");
    }
    let made = case.hold(of_channel(&near, Some("web")))?;
    let others = [case.hold(of_channel(&near, Some("app")))?, case.hold(of_channel(&near, None))?];
    ensure_matches!(run_as(&mut case, &only_of("web"), release(made.id))?, Outcome::Done(_), "its channel");
    for (hold, channel) in others.iter().zip([Some("app"), None]) {
        let refused = denied(AccessDenied::Channel(channel.map(label)));
        let outcome = run_as(&mut case, &only_of("web"), release(hold.id))?;
        ensure_eq!(outcome, refused, "a reservation of {channel:?}");
        let outcome = run_as(&mut case, &only_of("web"), of_channel(&near, channel))?;
        ensure_eq!(outcome, refused, "a reserve for {channel:?}");
    }
    Ok(())
}

fn replays(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [near, far] = two_places(&mut case)?;
    let replayed = |denied| Outcome::Refused(Rejection::AccessDenied { denied, replayed: true });
    let made = case.maker.keyed("made", reserve_for(600, &[(&near, 2)]));
    let Outcome::Done(Reply::Reservation(hold)) = case.submit_one(made.clone())? else {
        return Err("not reserved".to_owned());
    };
    let again = |case: &mut CaseContext<'_>, access: &Access| {
        let envelope = Envelope { access: access.clone(), ..case.maker.again(&made) };
        case.submit_one(envelope)
    };
    let here = only_at(near.location());
    ensure_matches!(again(&mut case, &here)?, Outcome::Replayed(_), "in sight");
    ensure_eq!(again(&mut case, &only_at("nowhere"))?, replayed(not_at(&near)), "another location");
    ensure_eq!(again(&mut case, &only_of("web"))?, replayed(AccessDenied::Channel(None)), "a channel");
    case.expect_done(amend(hold.id, &[(&near, 2), (&far, 1)]))?;
    ensure_eq!(again(&mut case, &here)?, replayed(not_at(&far)), "it left the location");
    ensure_matches!(again(&mut case, &Access::Unrestricted)?, Outcome::Replayed(_), "seen by others");
    let adjusted = case.maker.keyed("adjusted", adjust(&far, 1));
    ensure_matches!(case.submit_one(adjusted.clone())?, Outcome::Done(_), "adjusted");
    let envelope = Envelope { access: here.clone(), ..case.maker.again(&adjusted) };
    ensure_eq!(case.submit_one(envelope)?, replayed(not_at(&far)), "an item");
    // A holder sees its own request again until the reservation changes hands.
    let token = holder(&hold);
    let shrunk = Envelope { access: token, ..case.maker.keyed("shrunk", amend(hold.id, &[(&near, 1)])) };
    ensure_matches!(case.submit_one(shrunk.clone())?, Outcome::Done(_), "given back");
    let envelope = case.maker.again(&shrunk);
    ensure_matches!(case.submit_one(envelope)?, Outcome::Replayed(_), "given back before");
    case.expect_done(transfer(hold.id, &label("other")))?;
    let envelope = case.maker.again(&shrunk);
    ensure_eq!(case.submit_one(envelope)?, replayed(AccessDenied::Transferred), "after a transfer");
    Ok(())
}

fn keys(world: &mut dyn World) -> Checked {
    let mut case = CaseContext::new(world);
    let [near, far] = two_places(&mut case)?;
    let hold = case.hold(reserve_for(2, &[(&far, 1)]))?;
    let access = only_at(near.location());
    case.advance(3 * SECOND);
    let command = Envelope { access: access.clone(), ..case.maker.keyed("key", release(hold.id)) };
    ensure_eq!(case.submit_one(command.clone())?, denied(not_at(&far)), "a hold that is due");
    case.expect_status(hold.id, Status::Active)?;
    let allowed = Envelope { access: Access::Unrestricted, ..case.maker.again(&command) };
    ensure_matches!(case.submit_one(allowed)?, Outcome::Done(_), "the key was not used");
    // Another request under a used key says no more than the reservation's own refusal.
    let other = case.hold(reserve_for(60, &[(&far, 1)]))?;
    let reused = Envelope { access, ..case.maker.keyed("key", release(other.id)) };
    ensure_eq!(case.submit_one(reused)?, denied(not_at(&far)), "another request");
    Ok(())
}
