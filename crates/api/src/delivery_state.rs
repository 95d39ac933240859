//! The state of something that works with another system: a sink (mail and push among them), or a stock master. It follows from what is
//! stored, so it never says that something works that does not.

use crate::printable::quote;
use serde::{Deserialize, Serialize};

/// Whether it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// It works.
    Running,
    /// The last attempt failed, and the next one may succeed.
    Retrying,
    /// Nothing goes on before somebody acts.
    Blocked,
    /// No instance serves it.
    Standby,
}

impl DeliveryState {
    /// The state of something with this holder and this failure.
    pub fn of(holder: Option<&str>, failure: Option<&DeliveryFailure>) -> Self {
        match (holder, failure) {
            (None, _) => Self::Standby,
            (_, None) => Self::Running,
            (_, Some(DeliveryFailure { action: Some(_), .. })) => Self::Blocked,
            (_, Some(_)) => Self::Retrying,
        }
    }
}

/// Why it does not work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryFailure {
    /// When the last attempt failed, in microseconds since 1970.
    pub at: i64,
    /// What the other system said, or what happened.
    pub message: String,
    /// When the next attempt is due, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<i64>,
    /// Who has to do what before it goes on. `None`: it may go on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

impl DeliveryFailure {
    /// A failure that may end by itself.
    pub fn new(at: i64, message: &str) -> Self {
        Self { at, message: quote(message), next_at: None, action: None }
    }

    /// The same, if there is something that somebody has to do.
    pub fn with_action(self, action: Option<&str>) -> Self {
        Self { action: action.map(quote), ..self }
    }

    /// The same, with the time of the next attempt.
    pub fn with_next_attempt(self, next_at: i64) -> Self {
        Self { next_at: Some(next_at), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_follows_from_the_holder_and_the_failure() {
        let failed = DeliveryFailure::new(1, "too\nlarge");
        assert_eq!(failed.message, "too large");
        let blocked = failed.clone().with_action(Some("give it the right"));
        for (holder, failure, state) in [
            (None, None, DeliveryState::Standby),
            (None, Some(&blocked), DeliveryState::Standby),
            (Some("a"), None, DeliveryState::Running),
            (Some("a"), Some(&failed), DeliveryState::Retrying),
            (Some("a"), Some(&blocked), DeliveryState::Blocked),
        ] {
            assert_eq!(DeliveryState::of(holder, failure), state);
        }
    }
}
