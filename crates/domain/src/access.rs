//! What a caller may see and change. A command carries the access of its caller, and the rules judge it against the state that the
//! command changes. So nothing can happen between the judgement and the change.
//!
//! It knows no credentials and no scopes. Who made a reservation is not part of the state either: it never changes, so the service
//! judges that before.

use crate::hold::{Hold, Status};
use crate::id::ReservationId;
use crate::item::{Item, ItemKey};
use crate::label::Label;
use crate::scope::Scope;
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

    /// Why reservations of a sales channel may not be seen or made.
    pub(crate) fn denies_channel(&self, channel: Option<&Label>) -> Option<AccessDenied> {
        let allowed = self.allows_channel(channel.map(Label::as_str));
        (!allowed).then(|| AccessDenied::Channel(channel.cloned()))
    }
}
