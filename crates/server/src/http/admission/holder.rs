//! Whom admitted work is counted for.

use std::net::IpAddr;
use stockhold_domain::Label;

/// Whom admitted work is counted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// All callers of a server that needs no credentials. They are one, so only the bounds of the whole server apply.
    Everybody,
    /// A caller whose credential is not known, by its network. `None` is an address that many callers share: this machine, or a
    /// trusted proxy.
    Unauthenticated(Option<IpAddr>),
    /// A caller with a credential, by its actor.
    Principal(Label),
}
