//! Stores that are broken on purpose, to see that the checker notices. A flaw sits where the simulator stands in for a part
//! of the store; the rules and the core stay whole.

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Answers are given before the sync.
    AnswersBeforeTheSync,
    /// A sync says that it is done, and a crash takes what it was for.
    SyncsNothing,
    /// A commit loses its keys.
    LosesKeys,
    /// The sweeper's clock is two seconds ahead.
    ExpiresEarly,
    /// A start does not floor time by what was committed.
    ForgetsTheFloor,
    /// A retried request is taken for a new one.
    ActsTwice,
    /// A commit that failed is said to have done nothing.
    FailsAsIfNothing,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::AnswersBeforeTheSync,
        Self::SyncsNothing,
        Self::LosesKeys,
        Self::ExpiresEarly,
        Self::ForgetsTheFloor,
        Self::ActsTwice,
        Self::FailsAsIfNothing,
    ];
}
