//! Equality up to what the model does not predict: event ids, and the wording of a refusal's detail.

use super::NO_EVENT;
use stockhold_domain::{Hold, Outcome, Rejection, Reply};

/// Whether two outcomes are equal.
pub fn outcomes_agree(one: &Outcome, other: &Outcome) -> bool {
    plain(one) == plain(other)
}

/// Whether two reservations are equal, except for the id of their latest event.
pub fn holds_agree(one: &Hold, other: &Hold) -> bool {
    plain_hold(one) == plain_hold(other)
}

fn plain(outcome: &Outcome) -> Outcome {
    match outcome.clone() {
        Outcome::Done(Reply::Reservation(hold)) => Outcome::Done(Reply::Reservation(plain_hold(&hold))),
        Outcome::Replayed(Reply::Reservation(hold)) => {
            Outcome::Replayed(Reply::Reservation(plain_hold(&hold)))
        }
        Outcome::Refused(Rejection::InvalidRequest(mut error)) => {
            error.detail.clear();
            Outcome::Refused(Rejection::InvalidRequest(error))
        }
        other => other,
    }
}

fn plain_hold(hold: &Hold) -> Hold {
    Hold { last_event: NO_EVENT, ..hold.clone() }
}
