//! What became of a message.

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The other system has taken it.
    Sent,
    /// The other system refuses it for good. Why, without an address.
    Refused(String),
    /// It has to be sent again. Why, without an address.
    Later(String),
}
