//! Scopes: what a caller may do, as names that keys and tokens carry.

use std::fmt;

/// Declares the scopes in one table.
macro_rules! scopes {
    ($($id:ident $name:literal $what:literal)+) => {
        /// Permission to use a group of routes. Writing does not include reading.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Scope {
            $(#[doc = $what] $id,)+
        }

        impl Scope {
            /// Every scope, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$id),+];

            /// The scope's name in keys, tokens and answers.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)+ }
            }

            /// What the scope allows, in a sentence.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$id => $what,)+ }
            }
        }
    };
}

scopes! {
    ReservationsWrite "reservations:write" "Create and change reservations."
    ReservationsRead "reservations:read" "Read reservations, their events and orders."
    InventoryRead "inventory:read" "Read items, availability, units, seat maps, pauses, pools and limits."
    InventoryWrite "inventory:write" "Set and adjust stock, add and retire units, set pools and prices."
    SaleAdmin "sale:admin" "Pause and resume, and change limits, sales and the gate."
    EventsRead "events:read" "Read the event feed and the event stream."
    WebhooksAdmin "webhooks:admin" "Manage webhooks and sinks of events."
    CheckoutWrite "checkout:write" "Start and continue checkouts."
    RefundsWrite "refunds:write" "Refund payments."
    CustomersRead "customers:read" "Read personal data of customers."
    CustomersWrite "customers:write" "Change and erase personal data of customers."
    LimitsOverride "limits:override" "Exceed limits with `override_limits` in a request."
    KeysAdmin "keys:admin" "Manage API keys, and read the audit events of access."
}

impl Scope {
    /// The scope of this name.
    pub fn from_name(name: &str) -> Result<Self, UnknownScope> {
        let found = Self::ALL.iter().copied().find(|scope| scope.name() == name);
        found.ok_or_else(|| UnknownScope(name.chars().take(MAX_SHOWN_CHARS).collect()))
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Most characters of an unknown name that an error repeats.
const MAX_SHOWN_CHARS: usize = 64;

/// A name that is no scope. It holds the start of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownScope(String);

impl fmt::Display for UnknownScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a scope; the scopes are ", self.0)?;
        for (number, scope) in Scope::ALL.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { "" } else { ", " }, scope.name())?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownScope {}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScopeSet(u32);

impl ScopeSet {
    /// No scope.
    pub const NONE: Self = Self(0);
    /// Every scope, as the root key has them.
    pub const ALL: Self = Self((1 << Scope::ALL.len()) - 1);

    /// Whether the set has this scope.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// The first scope of this set that another set lacks.
    pub fn first_missing_in(self, other: Self) -> Option<Scope> {
        self.iter().find(|scope| !other.contains(*scope))
    }

    /// Whether there is no scope in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes, in the order of [`Scope::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.iter().copied().filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<Scope> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_scope() {
        for scope in Scope::ALL.iter().copied() {
            assert_eq!(Scope::from_name(scope.name()), Ok(scope));
            assert!(ScopeSet::ALL.contains(scope));
            assert!(!ScopeSet::NONE.contains(scope));
            assert_eq!(ScopeSet::from_iter([scope]).iter().collect::<Vec<_>>(), [scope]);
        }
    }

    #[test]
    fn unknown_names_are_told_with_the_known_ones() {
        let error = Scope::from_name("reservations").unwrap_err().to_string();
        assert!(error.contains("\"reservations\" is not a scope") && error.contains("keys:admin"), "{error}");
        let long = "x".repeat(10_000);
        assert!(Scope::from_name(&long).unwrap_err().to_string().len() < 500);
    }

    #[test]
    fn sets() {
        let set = ScopeSet::from_iter([Scope::EventsRead, Scope::InventoryRead]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Scope::InventoryRead, Scope::EventsRead]);
        assert_eq!(
            set.first_missing_in(ScopeSet::from_iter([Scope::InventoryRead])),
            Some(Scope::EventsRead)
        );
        assert_eq!(set.first_missing_in(ScopeSet::ALL), None);
        assert!(ScopeSet::NONE.is_empty() && !set.is_empty());
    }
}
