//! Refusals of access control: what is wrong with a credential, and what a caller lacks.

use crate::scope::Scope;
use stockhold_domain::Label;

/// What is wrong with the credential of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CredentialFault {
    /// There is none.
    Missing,
    /// It is none of the known kinds, or was mistyped or changed.
    Malformed,
    /// It is well formed, and nobody knows it.
    Unknown,
    /// Its time is over.
    Expired,
    /// It was revoked.
    Revoked,
    /// It may not be used from the caller's network.
    Network,
}

impl CredentialFault {
    /// Every fault.
    pub const ALL: [Self; 6] =
        [Self::Missing, Self::Malformed, Self::Unknown, Self::Expired, Self::Revoked, Self::Network];

    /// Its name in answers and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Network => "network",
        }
    }
}

/// What a caller lacks that may not do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingPermission {
    /// A scope.
    Scope(Scope),
    /// The right to a location. `None`: what was requested concerns all locations.
    Location(Option<Label>),
    /// The right to a sales channel. `None`: what was requested concerns all channels.
    Channel(Option<Label>),
}
