//! What is wrong with a message.

/// A message that is no request of its method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field, as RFC 6901 names it; empty for the whole message.
    pub pointer: String,
    /// What is wrong, and what would be right.
    pub detail: String,
}

impl Fault {
    pub(crate) fn new(pointer: impl Into<String>, detail: String) -> Self {
        Self { pointer: pointer.into(), detail }
    }
}
