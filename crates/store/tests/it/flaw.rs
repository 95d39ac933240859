//! What a store can get wrong without noticing, and the case of the suite that notices.

/// What a broken world does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Keys are not durable.
    ForgetsKeysOnRestart,
    /// Pauses are not durable.
    ForgetsPausesOnRestart,
    /// The newest batch is not durable, though it was answered.
    LosesTheLastBatchOnRestart,
    /// Active holds are not found by their deadlines after a restart.
    ForgetsDeadlinesOnRestart,
    /// A hold counts as expired as soon as its deadline has passed, with no commit.
    ExpiryIsAPredicate,
    /// An item's newest instant is not kept, so a clock that steps back takes it along.
    DoesNotFloorTheClock,
    /// Time runs backwards over a restart only.
    ForgetsInstantsOnRestart,
    /// Holds are due a millisecond early.
    DueAMillisecondEarly,
    /// Holds are due a microsecond late.
    DueAMicrosecondLate,
    /// SKUs are compared as some databases do by default.
    IgnoresCase,
    /// So are trailing blanks.
    IgnoresTrailingBlanks,
    /// A refused request keeps its key.
    RemembersRefusals,
    /// A replay shows what was answered the first time.
    ReplaysTheFirstAnswer,
    /// A key with another request is a replay.
    IgnoresFingerprints,
    /// Commands that wait together see the state before the batch.
    DecidesOnAStaleState,
    /// Commands that wait together are decided last to first.
    DecidesBackwards,
    /// Gives up where a batch may expire no more.
    AnswersLater,
    /// Refuses where a batch may expire no more.
    RefusesInsteadOfLater,
    /// Loses the events of commands that were refused.
    DropsExpiriesOfRefusals,
    /// Positions have gaps.
    SkipsPositions,
    /// Writes an event once more for a replay.
    WritesReplays,
    /// Gives the first event of every command the same id.
    OneEventId,
    /// Units that came back stay sold.
    KeepsReturnedUnits,
    /// Units that are drawn from a pool stay in it.
    ForgetsDraws,
    /// Units that are sold can be reserved.
    FreesUnitsAtConfirm,
    /// A record that is created again begins with version 1 again.
    ForgetsVersionsOfDeletedRecords,
    /// Deleted records are on pages.
    ListsDeletedRecords,
}

impl Flaw {
    /// Every flaw with a case that it must fail.
    pub(crate) const CAUGHT_BY: [(Self, &'static str); 27] = [
        (Self::ForgetsKeysOnRestart, "a retried reserve returns the same reservation, over restarts"),
        (Self::ForgetsPausesOnRestart, "the pause of a location stops its sales and no others"),
        (
            Self::LosesTheLastBatchOnRestart,
            "two hundred concurrent reserves of a hundred units: exactly a hundred succeed",
        ),
        (
            Self::ForgetsDeadlinesOnRestart,
            "expiry is a committed transition, not a comparison with the clock",
        ),
        (Self::ExpiryIsAPredicate, "expiry is a committed transition, not a comparison with the clock"),
        (Self::DoesNotFloorTheClock, "the instants of an item's events never decrease"),
        (Self::ForgetsInstantsOnRestart, "a restart with an earlier clock changes nothing"),
        (Self::DueAMillisecondEarly, "confirm succeeds before the deadline and never at or after it"),
        (
            Self::DueAMicrosecondLate,
            "release succeeds before and after the deadline and frees the units once",
        ),
        (Self::IgnoresCase, "SKUs are compared byte by byte"),
        (Self::IgnoresTrailingBlanks, "SKUs are compared byte by byte"),
        (Self::RemembersRefusals, "a refused command does not use its key"),
        (Self::ReplaysTheFirstAnswer, "a replay shows the reservation as it is now"),
        (Self::IgnoresFingerprints, "a key that is reused for another request is a mismatch, over restarts"),
        (
            Self::DecidesOnAStaleState,
            "two hundred concurrent reserves of a hundred units: exactly a hundred succeed",
        ),
        (Self::DecidesBackwards, "a pause takes effect within a batch, in order"),
        (Self::AnswersLater, "one reserve reclaims a thousand holds that are due at once"),
        (Self::RefusesInsteadOfLater, "one reserve reclaims a thousand holds that are due at once"),
        (Self::DropsExpiriesOfRefusals, "a refused reserve has expired all due holds of its items"),
        (Self::SkipsPositions, "event positions are dense from 1, over restarts"),
        (Self::WritesReplays, "a refusal, a replay and a command without effect write no event"),
        (Self::OneEventId, "event positions are dense from 1, over restarts"),
        (Self::KeepsReturnedUnits, "returned units with ids are sold again"),
        (
            Self::ForgetsDraws,
            "a pool is drawn from by name only, and its units stay set aside over a restart",
        ),
        (Self::FreesUnitsAtConfirm, "a sold unit can't be reserved, over restarts"),
        (
            Self::ForgetsVersionsOfDeletedRecords,
            "a deleted record that is created again has a version of its own, over restarts",
        ),
        (Self::ListsDeletedRecords, "records of a kind are listed in pages, in order of their ids"),
    ];
}
