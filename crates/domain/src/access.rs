//! What a caller may see and change. A command carries the access of its caller, and the rules judge it against the state that the
//! command changes. So nothing can happen between the judgement and the change.
//!
//! It knows no credentials and no scopes. Who made a reservation is not part of the state either: it never changes, so the service
//! judges that before.

use crate::basket::{Basket, RequestedLine};
use crate::command::{Amend, Command, Patch};
use crate::hold::{Hold, Status};
use crate::id::ReservationId;
use crate::item::{Item, ItemKey};
use crate::label::Label;
use crate::scope::Scope;
use crate::unit_selection::UnitSelection;
use alloc::boxed::Box;
use alloc::sync::Arc;

/// What the caller of a command may see and change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    Unrestricted,
    /// What the restrictions allow.
    Restricted(Box<Restrictions>),
    /// One reservation, while it is active and is not transferred: the holder of its token may extend it, release it and give units
    /// of it back.
    Holder {
        /// Which reservation.
        id: ReservationId,
        /// How often it had been transferred when the token was issued.
        transfers: u32,
    },
}

/// What a caller is restricted to. Without any restriction it sees everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restrictions {
    /// Only items at these locations, and reservations whose lines are all there. In order.
    pub locations: Option<Arc<[Label]>>,
    /// Only reservations of these sales channels. In order.
    pub channels: Option<Arc<[Label]>>,
    /// Only reservations that this principal made.
    pub own_reservations_only: bool,
}

/// Why a caller may not see or change something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessDenied {
    /// It is at this location, which is none of the caller's. `None`: at all locations.
    Location(Option<Label>),
    /// It is of this sales channel, which is none of the caller's. `None`: of no channel.
    Channel(Option<Label>),
    /// It concerns everything, and the caller is restricted.
    Everything,
    /// The holder of a token may not change this.
    NotForHolders,
    /// The reservation was transferred after the token had been issued.
    Transferred,
    /// The reservation of the token has ended.
    Ended,
}

impl Access {
    /// Why the command is refused whatever the state is.
    pub fn denies_command(&self, command: &Command) -> Option<AccessDenied> {
        match self {
            Self::Unrestricted => None,
            Self::Restricted(restrictions) => restrictions.denies_command(command),
            Self::Holder { id, .. } => {
                let is_theirs =
                    matches!(command, Command::Extend(_) | Command::Release(_) | Command::Amend(_))
                        && command.reservation() == Some(*id);
                (!is_theirs).then_some(AccessDenied::NotForHolders)
            }
        }
    }

    /// Why the command is refused that changes this reservation or takes its units.
    pub fn denies_change(&self, command: &Command, hold: &Hold) -> Option<AccessDenied> {
        self.denies_answer(command, hold).or_else(|| match (self, command) {
            (Self::Holder { .. }, Command::Amend(amend)) => {
                (!only_gives_back(amend, hold)).then_some(AccessDenied::NotForHolders)
            }
            (Self::Unrestricted | Self::Restricted(_) | Self::Holder { .. }, _) => None,
        })
    }

    /// Why the answer to a command that took effect before does not show this reservation.
    pub fn denies_answer(&self, command: &Command, hold: &Hold) -> Option<AccessDenied> {
        match (self.denies_hold(hold), command) {
            // A repeated release changes nothing.
            (Some(AccessDenied::Ended), Command::Release(_)) if hold.status != Status::Confirmed => None,
            (denied, _) => denied,
        }
    }

    /// Why a reservation is not shown.
    pub fn denies_hold(&self, hold: &Hold) -> Option<AccessDenied> {
        match self {
            Self::Unrestricted => None,
            Self::Restricted(restrictions) => restrictions.denies_hold(hold),
            Self::Holder { id, .. } if hold.id != *id => Some(AccessDenied::NotForHolders),
            Self::Holder { transfers, .. } if hold.details().transfers != *transfers => {
                Some(AccessDenied::Transferred)
            }
            Self::Holder { .. } => (hold.status != Status::Active).then_some(AccessDenied::Ended),
        }
    }

    /// Why an item is not shown.
    pub fn denies_item(&self, item: &Item) -> Option<AccessDenied> {
        match self {
            Self::Unrestricted => None,
            Self::Restricted(restrictions) => restrictions.denies_item(&item.key),
            Self::Holder { .. } => Some(AccessDenied::NotForHolders),
        }
    }
}

impl Restrictions {
    /// Whether nothing is restricted.
    pub fn is_none(&self) -> bool {
        self.locations.is_none() && self.channels.is_none() && !self.own_reservations_only
    }

    /// Whether a location may be seen.
    pub fn allows_location(&self, location: &str) -> bool {
        self.locations.as_ref().is_none_or(|allowed| allowed.iter().any(|one| one.as_str() == location))
    }

    /// Whether reservations of a sales channel may be seen. One without a channel belongs to none of them.
    pub fn allows_channel(&self, channel: Option<&str>) -> bool {
        let Some(allowed) = &self.channels else { return true };
        channel.is_some_and(|channel| allowed.iter().any(|one| one.as_str() == channel))
    }

    /// The channel of a reserve that names none: the only one that is allowed, if there is only one.
    pub fn default_channel(&self) -> Option<&Label> {
        match self.channels.as_deref() {
            Some([only]) => Some(only),
            _ => None,
        }
    }

    /// Why an item may not be seen or changed.
    pub fn denies_item(&self, item: &ItemKey) -> Option<AccessDenied> {
        self.denies_location(item.location())
    }

    /// Why a location may not be seen or changed.
    pub fn denies_location(&self, location: &str) -> Option<AccessDenied> {
        let allowed = self.allows_location(location);
        (!allowed).then(|| AccessDenied::Location(Label::new(location).ok()))
    }

    /// Why a pause, or the state of pauses, may not be seen or changed.
    pub fn denies_scope(&self, scope: &Scope) -> Option<AccessDenied> {
        match scope {
            Scope::Everything if self.is_none() => None,
            Scope::Everything if self.locations.is_some() => Some(AccessDenied::Location(None)),
            Scope::Everything => Some(AccessDenied::Everything),
            Scope::Location(location) => self.denies_location(location.as_str()),
            Scope::Item(item) => self.denies_item(item),
        }
    }

    /// Why a reservation may not be seen, besides having been made by another caller.
    pub fn denies_hold(&self, hold: &Hold) -> Option<AccessDenied> {
        let location = hold.lines.iter().find_map(|line| self.denies_item(&line.item));
        location.or_else(|| self.denies_channel(hold.terms.reserve.channel()))
    }

    fn denies_channel(&self, channel: Option<&Label>) -> Option<AccessDenied> {
        let allowed = self.allows_channel(channel.map(Label::as_str));
        (!allowed).then(|| AccessDenied::Channel(channel.cloned()))
    }

    fn denies_command(&self, command: &Command) -> Option<AccessDenied> {
        match command {
            Command::Reserve(reserve) => {
                self.denies_basket(&reserve.basket).or_else(|| self.denies_channel(reserve.terms.channel()))
            }
            Command::Amend(amend) => amend.basket.as_ref().and_then(|basket| self.denies_basket(basket)),
            Command::SetStock(set) => self.denies_item(&set.item),
            Command::AdjustStock(adjust) => self.denies_item(&adjust.item),
            Command::DeleteItem(delete) => self.denies_item(&delete.item),
            Command::AddUnits(add) => self.denies_item(&add.item),
            Command::RetireUnit(retire) => self.denies_item(&retire.item),
            Command::SetPool(set) => self.denies_item(&set.item),
            Command::DeletePool(delete) => self.denies_item(&delete.item),
            Command::SetUnitPool(set) => self.denies_item(&set.item),
            Command::SetSale(set) => self.denies_scope(&set.scope),
            Command::SetLimit(_) | Command::DeleteLimit(_) | Command::Sweep => {
                self.denies_scope(&Scope::Everything)
            }
            // The reservations that they name are judged. What a record is about, the service knows: it judges that.
            Command::Confirm(_)
            | Command::Release(_)
            | Command::Extend(_)
            | Command::Transfer(_)
            | Command::Split(_)
            | Command::Merge(_)
            | Command::OpenPayment(_)
            | Command::ClosePayment(_)
            | Command::StartCheckout(_)
            | Command::AdvancePayment(_)
            | Command::Refund(_)
            | Command::Fulfil(_)
            | Command::Return(_)
            | Command::SetRecord(_) => None,
        }
    }

    /// Why lines are refused: they may take from a location that is not allowed.
    fn denies_basket(&self, basket: &Basket) -> Option<AccessDenied> {
        basket.items().find_map(|item| self.denies_item(item))
    }
}

/// Whether an amend only gives units back or moves the deadline.
fn only_gives_back(amend: &Amend, hold: &Hold) -> bool {
    let fits = |(number, line): (usize, &RequestedLine)| {
        let Some(own) = hold.lines.iter().find(|own| own.item == line.item) else { return false };
        match amend.basket.as_ref().and_then(|basket| basket.selection(number)) {
            None => line.quantity <= u64::from(own.quantity),
            Some(UnitSelection::Named(ids)) => {
                ids.iter().all(|id| own.units().iter().any(|unit| unit.id == *id))
            }
            Some(UnitSelection::BestAvailable(_)) => false,
        }
    };
    let lines = amend.basket.iter().flat_map(|basket| basket.lines().iter().enumerate());
    amend.metadata == Patch::Keep && !amend.override_limits && lines.into_iter().all(fits)
}
