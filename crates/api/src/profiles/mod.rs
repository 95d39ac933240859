//! The wire shapes of two older kinds of clients: quick-commerce hubs ([`hub`]) and storefronts ([`storefront`]).
//!
//! A profile decodes requests into the commands that the native routes use, and encodes their outcomes in its own words. It must
//! never decide anything that the rules decide. Members of a body that a profile does not know, and queries, are ignored: clients
//! that exist already may send them.

mod error;
pub mod hub;
pub mod storefront;

pub use error::{ErrorCode, write_error};

use stockhold_domain::{Command, Confirm, Hold, IfExpired, Release, ReservationId};

/// A profile: a set of routes with a wire shape of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Quick commerce: short holds per hub.
    Hub,
    /// A storefront's cart.
    Storefront,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Hub, Self::Storefront];

    /// The first segment of the paths of its routes.
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Hub => "hub",
            Self::Storefront => "storefront",
        }
    }

    /// The profile that a path on the API's listener belongs to, whether it is the path of a route or not.
    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.below(path).is_some())
    }

    /// The path without the profile's first segment, if it begins with that.
    pub fn below(self, path: &str) -> Option<&str> {
        let rest = path.strip_prefix('/')?.strip_prefix(self.segment())?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    }
}

/// How a profile shows a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The hub's answer to a confirm.
    HubConfirmed,
    /// The hub's answer to a release.
    HubReleased,
    /// The storefront's answer to a reserve.
    StorefrontReservation,
    /// The storefront's answer to every other command.
    StorefrontDone,
}

/// Writes a reservation as a profile shows it.
pub fn write_reservation(out: &mut Vec<u8>, shape: Shape, hold: &Hold) {
    match shape {
        Shape::HubConfirmed => hub::write_ended(out, hold, "confirmed"),
        Shape::HubReleased => hub::write_ended(out, hold, "released"),
        Shape::StorefrontReservation => storefront::write_reservation(out, hold),
        Shape::StorefrontDone => storefront::write_done(out),
    }
}

/// The confirm of both profiles: without an order or a payment, and never of an expired reservation.
fn confirm(id: ReservationId) -> Command {
    Command::Confirm(Confirm {
        override_limits: false,
        id,
        order_id: None,
        payment_id: None,
        if_expired: IfExpired::default(),
    })
}

/// The release of both profiles.
fn release(id: ReservationId) -> Command {
    Command::Release(Release { id, reason: None })
}
