//! Who may see and change what, in the model. A caller's right is judged with the state that its command meets.

use super::Model;
use stockhold_domain::{
    Access, AccessDenied, Amend, Command, Envelope, Hold, ItemKey, Label, Patch, Rejection, Reply,
    Restrictions, Scope, Status, UnitSelection,
};

/// Refuses a command that its caller may not give.
pub(super) fn expect_access(model: &Model, envelope: &Envelope) -> Result<(), Rejection> {
    let denied = match &envelope.access {
        Access::Unrestricted => None,
        Access::Restricted(only) => {
            let named = named_items(&envelope.command).into_iter().find_map(|item| elsewhere(only, &item));
            let own = named.or_else(|| of_everything(only, &envelope.command));
            own.or_else(|| {
                let holds = named_holds(model, &envelope.command);
                holds.iter().find_map(|hold| beyond(only, hold))
            })
        }
        Access::Holder { id, transfers } => match &envelope.command {
            Command::Extend(asked) if asked.id == *id => old_token(model, envelope, *transfers),
            Command::Release(asked) if asked.id == *id => old_token(model, envelope, *transfers),
            Command::Amend(asked) if asked.id == *id => old_token(model, envelope, *transfers)
                .or_else(|| more_than_less(model, asked).then_some(AccessDenied::NotForHolders)),
            _ => Some(AccessDenied::NotForHolders),
        },
    };
    match denied {
        Some(denied) => Err(Rejection::AccessDenied { denied, replayed: false }),
        None => Ok(()),
    }
}

/// Refuses to show what an earlier command made to a caller who may not see it any more.
pub(super) fn expect_visible(envelope: &Envelope, reply: &Reply) -> Result<(), Rejection> {
    let denied = match (&envelope.access, reply) {
        (Access::Restricted(only), Reply::Reservation(hold)) => beyond(only, hold),
        (Access::Restricted(only), Reply::Item { item, .. }) => elsewhere(only, &item.key),
        (Access::Holder { transfers, .. }, Reply::Reservation(hold)) => {
            let is_release = matches!(envelope.command, Command::Release(_));
            token_of(hold, *transfers, is_release)
        }
        (Access::Holder { .. }, Reply::Item { .. }) => Some(AccessDenied::NotForHolders),
        _ => None,
    };
    match denied {
        Some(denied) => Err(Rejection::AccessDenied { denied, replayed: true }),
        None => Ok(()),
    }
}

/// The items that a command names, and those that it may take from.
fn named_items(command: &Command) -> Vec<ItemKey> {
    let of_basket = |basket: &stockhold_domain::Basket| basket.items().cloned().collect();
    match command {
        Command::Reserve(asked) => of_basket(&asked.basket),
        Command::Amend(Amend { basket: Some(basket), .. }) => of_basket(basket),
        other => other.changed_item().cloned().into_iter().collect(),
    }
}

/// What concerns more than items: a channel, a location, everything.
fn of_everything(only: &Restrictions, command: &Command) -> Option<AccessDenied> {
    match command {
        Command::Reserve(asked) => other_channel(only, asked.terms.channel()),
        Command::SetSale(asked) => match &asked.scope {
            Scope::Everything => Some(everything(only)),
            Scope::Location(location) => {
                is_elsewhere(only, location.as_str()).then(|| AccessDenied::Location(Some(location.clone())))
            }
            Scope::Item(_) => None,
        },
        Command::SetLimit(_) | Command::DeleteLimit(_) | Command::Sweep => Some(everything(only)),
        _ => None,
    }
}

fn everything(only: &Restrictions) -> AccessDenied {
    if only.locations.is_some() { AccessDenied::Location(None) } else { AccessDenied::Everything }
}

/// The reservations that a command names and that exist.
fn named_holds(model: &Model, command: &Command) -> Vec<Hold> {
    let mut ids: Vec<_> = command.reservation().into_iter().collect();
    if let Command::Merge(merge) = command {
        ids.extend(merge.from.iter().copied());
    }
    ids.into_iter().filter_map(|id| model.hold(id)).collect()
}

fn beyond(only: &Restrictions, hold: &Hold) -> Option<AccessDenied> {
    for line in &*hold.lines {
        if let Some(denied) = elsewhere(only, &line.item) {
            return Some(denied);
        }
    }
    other_channel(only, hold.terms.reserve.channel())
}

fn elsewhere(only: &Restrictions, item: &ItemKey) -> Option<AccessDenied> {
    let at = item.location();
    is_elsewhere(only, at).then(|| AccessDenied::Location(Label::new(at).ok()))
}

fn is_elsewhere(only: &Restrictions, location: &str) -> bool {
    match &only.locations {
        None => false,
        Some(some) => some.iter().all(|one| one.as_str() != location),
    }
}

fn other_channel(only: &Restrictions, channel: Option<&Label>) -> Option<AccessDenied> {
    let some = only.channels.as_ref()?;
    match channel {
        Some(channel) if some.contains(channel) => None,
        other => Some(AccessDenied::Channel(other.cloned())),
    }
}

/// What is wrong with the token of the reservation that a command names.
fn old_token(model: &Model, envelope: &Envelope, transfers: u32) -> Option<AccessDenied> {
    let is_release = matches!(envelope.command, Command::Release(_));
    named_holds(model, &envelope.command).iter().find_map(|hold| token_of(hold, transfers, is_release))
}

fn token_of(hold: &Hold, transfers: u32, is_release: bool) -> Option<AccessDenied> {
    if hold.details().transfers != transfers {
        return Some(AccessDenied::Transferred);
    }
    match hold.status {
        Status::Active => None,
        Status::Cancelled | Status::Expired if is_release => None,
        Status::Cancelled | Status::Expired | Status::Confirmed => Some(AccessDenied::Ended),
    }
}

/// Whether an amend asks for anything besides fewer units and another deadline.
fn more_than_less(model: &Model, asked: &Amend) -> bool {
    let Some(hold) = model.hold(asked.id) else { return false };
    if asked.metadata != Patch::Keep || asked.override_limits {
        return true;
    }
    let Some(basket) = &asked.basket else { return false };
    basket.lines().iter().enumerate().any(|(number, line)| {
        let own = hold.lines.iter().find(|own| own.item == line.item);
        match (own, basket.selection(number)) {
            (None, _) | (_, Some(UnitSelection::BestAvailable(_))) => true,
            (Some(own), None) => line.quantity > u64::from(own.quantity),
            (Some(own), Some(UnitSelection::Named(ids))) => {
                let has: Vec<&Label> = own.units().iter().map(|unit| &unit.id).collect();
                ids.iter().any(|id| !has.contains(&id))
            }
        }
    })
}
