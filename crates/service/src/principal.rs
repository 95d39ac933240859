//! The caller of a request: who it is, which scopes it has and what it is restricted to.

use crate::hold_token::HoldTokenClaims;
use crate::scope::{Scope, ScopeSet};
use std::fmt;
use stockhold_domain::{Access, Label, Restrictions};

/// The caller of a request.
///
/// Two callers are the same principal when their `actor` is the same: idempotency keys and reservations belong to it. A key's
/// principal outlives the key, so a rolled key goes on with the idempotency keys of the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// How the caller was identified.
    pub kind: PrincipalKind,
    /// What events say of the caller, for example `key:shop`. Different kinds and issuers never share one.
    pub actor: Label,
    /// What it may do.
    pub scopes: ScopeSet,
    /// What it may see and change.
    pub restrictions: Restrictions,
}

/// How a caller was identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrincipalKind {
    /// By the root key.
    Root,
    /// Not at all: no credentials are configured.
    Anonymous,
    /// By an API key; the key's id.
    Key(u128),
    /// By a token of a configured issuer.
    Jwt,
    /// By a hold token, for its reservation only.
    Hold(HoldTokenClaims),
    /// By the listener that it was accepted on.
    Listener,
    /// The service itself.
    System,
}

impl Principal {
    /// The caller with the root key.
    pub fn root() -> Self {
        Self::unrestricted(PrincipalKind::Root, "root", ScopeSet::ALL)
    }

    /// Every caller of a server without credentials.
    pub fn anonymous() -> Self {
        Self::unrestricted(PrincipalKind::Anonymous, "anonymous", ScopeSet::ALL)
    }

    /// The service itself.
    pub fn system() -> Self {
        Self::unrestricted(PrincipalKind::System, "system", ScopeSet::ALL)
    }

    fn unrestricted(kind: PrincipalKind, actor: &'static str, scopes: ScopeSet) -> Self {
        #[expect(clippy::expect_used, reason = "the three names are constants that the tests check")]
        let actor = Label::new(actor).expect("a constant is a label");
        Self { kind, actor, scopes, restrictions: Restrictions::default() }
    }

    /// The caller with an API key. `None` when the name does not fit into an actor: names are checked when a key is made.
    pub fn of_key(key_id: u128, name: &Label, scopes: ScopeSet, restrictions: Restrictions) -> Option<Self> {
        let actor = Label::new(&format!("key:{name}")).ok()?;
        Some(Self { kind: PrincipalKind::Key(key_id), actor, scopes, restrictions })
    }

    /// The caller with a token. `None` when issuer and name together do not fit into an actor.
    pub fn of_token(issuer: &str, name: &str, scopes: ScopeSet, restrictions: Restrictions) -> Option<Self> {
        let actor = Label::new(&format!("jwt:{issuer}#{name}")).ok()?;
        Some(Self { kind: PrincipalKind::Jwt, actor, scopes, restrictions })
    }

    /// The holder of the token of a reservation. It has no scope: its routes ask for the reservation instead.
    pub fn of_hold(claims: HoldTokenClaims) -> Option<Self> {
        let actor = Label::new(&format!("hold:{}", claims.reservation)).ok()?;
        let kind = PrincipalKind::Hold(claims);
        Some(Self { kind, actor, scopes: ScopeSet::NONE, restrictions: Restrictions::default() })
    }

    /// What the rules let the caller see and change.
    pub fn access(&self) -> Access {
        match self.kind {
            PrincipalKind::Hold(HoldTokenClaims { reservation, generation }) => {
                Access::Holder { id: reservation, transfers: generation }
            }
            _ if self.restrictions.is_none() => Access::Unrestricted,
            PrincipalKind::Root
            | PrincipalKind::Anonymous
            | PrincipalKind::Key(_)
            | PrincipalKind::Jwt
            | PrincipalKind::Listener
            | PrincipalKind::System => Access::Restricted(Box::new(self.restrictions.clone())),
        }
    }

    /// Whether the caller has a scope.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(scope)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.actor.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockhold_domain::ReservationId;

    fn label(text: &str) -> Label {
        Label::new(text).unwrap()
    }

    #[test]
    fn actors_of_different_kinds_differ() {
        let none = Restrictions::default();
        let key = Principal::of_key(7, &label("root"), ScopeSet::NONE, none.clone()).unwrap();
        let token = Principal::of_token("https://id.example", "root", ScopeSet::NONE, none).unwrap();
        let hold =
            Principal::of_hold(HoldTokenClaims { reservation: ReservationId::from_u128(1), generation: 0 })
                .unwrap();
        let actors = [Principal::root(), Principal::anonymous(), Principal::system(), key, token, hold]
            .map(|one| one.to_string());
        assert_eq!(
            actors,
            [
                "root",
                "anonymous",
                "system",
                "key:root",
                "jwt:https://id.example#root",
                "hold:00000000-0000-0000-0000-000000000001"
            ]
        );
    }

    #[test]
    fn an_actor_that_is_too_long_is_none() {
        assert_eq!(
            Principal::of_token(
                "https://id.example",
                &"x".repeat(128),
                ScopeSet::NONE,
                Restrictions::default()
            ),
            None
        );
    }
}
