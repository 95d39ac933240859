//! What became of a message. A text never has an address, a token or a secret.

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The other system has taken it.
    Sent,
    /// It will never be taken, because of its recipient.
    Refused(String),
    /// It is not taken, and it is not known whether that is because of its recipient. Others may be taken.
    Aside(String),
    /// It has to be sent again.
    Later(String),
    /// Nothing is taken before somebody does the second.
    Blocked(String, &'static str),
}

impl Verdict {
    /// What was wrong.
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Sent => "",
            Self::Refused(why) | Self::Aside(why) | Self::Later(why) | Self::Blocked(why, _) => why,
        }
    }
}
