//! Flaws: mistakes that the simulator makes on purpose, to prove that its checker notices them. Most are steps of the store
//! in the wrong order. A flaw is in the simulator, which takes the steps; the rules and the core of the store stay correct.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Answers are put before the sync.
    AnswersBeforeSync,
    /// Refusals are put before the state that they depend on is synced.
    RefusesBeforeSync,
    /// Items are published before the sync.
    PublishesBeforeSync,
    /// The sync is skipped: a power cut loses the newest commit.
    SkipsSync,
    /// The index is written before the log is synced, and so it is ahead of the log.
    IndexesBeforeSync,
    /// A commit that failed is written again.
    RetriesFailedCommit,
    /// A commit that failed is reported as not done, before its outcome is known.
    ReportsFailedCommitAsUndone,
    /// A start drops the newest batch of the log.
    DropsNewestBatchAtStart,
    /// A start does not clamp the clock to the newest committed instant.
    IgnoresCommittedTimeAtStart,
    /// Memory forgets keys before the index has them.
    ForgetsKeysBeforeIndexed,
    /// A commit is written without its keys.
    LosesKeys,
    /// A retried request is executed as a new one.
    ExecutesRetryAsNew,
    /// The sweeper's clock is two seconds ahead.
    ExpiresEarly,
}

impl Flaw {
    /// All flaws.
    pub const ALL: [Self; 13] = [
        Self::AnswersBeforeSync,
        Self::RefusesBeforeSync,
        Self::PublishesBeforeSync,
        Self::SkipsSync,
        Self::IndexesBeforeSync,
        Self::RetriesFailedCommit,
        Self::ReportsFailedCommitAsUndone,
        Self::DropsNewestBatchAtStart,
        Self::IgnoresCommittedTimeAtStart,
        Self::ForgetsKeysBeforeIndexed,
        Self::LosesKeys,
        Self::ExecutesRetryAsNew,
        Self::ExpiresEarly,
    ];
}
