//! Counts of what happened in histories: every kind of fault and every branch that matters. A run fails when one of
//! them never happened.

use std::fmt;

macro_rules! counts {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// A counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Count {
            $($(#[doc = $doc])+ $name,)+
        }

        /// Every counter, with its text.
        const ALL: [(Count, &str); [$($text),+].len()] = [$((Count::$name, $text)),+];
    };
}

counts! {
    /// Histories that went to their end.
    Histories = "histories",
    /// Commands that reached a store.
    Commands = "commands",
    /// Commits.
    Commits = "commits",
    /// Starts on what was left.
    Recoveries = "recoveries",
    /// Seconds that passed on the simulated clocks while a store served.
    Seconds = "simulated seconds of service",

    /// Crashes with nothing under way.
    CrashIdle = "crash with no commit under way",
    /// Crashes with a batch closed and not written.
    CrashBeforeWrite = "crash before the write",
    /// Crashes in a write.
    CrashTorn = "crash within the write",
    /// Crashes after the write; the batch was there.
    CrashKept = "crash before the sync, the row kept",
    /// Crashes after the write; the batch was not there.
    CrashLost = "crash before the sync, the row lost",
    /// Crashes after the sync, nobody answered.
    CrashSynced = "crash after the sync, before the answers",
    /// Crashes with some answered.
    CrashHalf = "crash amid the answers",
    /// Power cuts that took the newest mark.
    MarkLost = "power cut that lost the newest mark",
    /// Power cuts that took transactions of the index.
    IndexBack = "power cut that set the index back",
    /// Commits that failed; the batch was not there.
    FailedLost = "failed commit, the row lost",
    /// Commits that failed; the batch was there.
    FailedKept = "failed commit, the row kept",
    /// Commits that took seconds.
    Slow = "slow commit",
    /// Disks that were full.
    DiskFull = "full disk",
    /// Bits turned over and noticed.
    Damage = "damage noticed at a start",
    /// Synced ends that vanished and were noticed.
    LostEnd = "lost end noticed at a start",
    /// Requests that never arrived.
    RequestLost = "request lost",
    /// Requests that arrived twice.
    RequestRepeated = "request repeated",
    /// Requests that arrived before one that was sent earlier.
    RequestReordered = "request reordered",
    /// Replies that never arrived.
    ReplyLost = "reply lost",
    /// Replies that arrived before one that was sent earlier.
    ReplyReordered = "reply reordered",
    /// Replies that arrived after the caller had asked again.
    ReplyLate = "reply after a retry",
    /// Retries with the same key.
    Retry = "retry with the same key",
    /// Requests that met another with the same key under way.
    KeyAtOnce = "same key under way twice",
    /// The store's clock stepped back.
    ClockBack = "clock stepped back",
    /// The store's clock stepped ahead.
    ClockAhead = "clock stepped ahead",
    /// The store stood still while time passed.
    Freeze = "freeze",
    /// The store's clock began to run at another speed.
    Drift = "drift",
    /// Nothing happened for days.
    Idle = "days without a request",
    /// Starts with a wall clock behind what the store had seen.
    EarlierWall = "start with an earlier wall clock",

    /// Commands that took effect.
    Done = "done",
    /// Commands answered from their key.
    Replay = "replay",
    /// Commands answered from a key that was used before the last crash.
    ReplayAfterCrash = "replay after a crash",
    /// Keys used for something else.
    Mismatch = "idempotency_mismatch",
    /// Keys that were used again when their time was over.
    KeyRetired = "key used again after its time",
    /// Refusals for want of stock.
    Insufficient = "insufficient_inventory",
    /// Refusals because of a pause.
    Paused = "sale_paused",
    /// Refusals because the sale had not begun or was over.
    OutsideWindow = "outside the sale window",
    /// Refusals to move what is not on the shelf.
    ExceedsOnHand = "fulfil_exceeds_on_hand",
    /// Events of reservations with backordered units.
    Backordered = "backordered",
    /// Refusals of what is too late.
    TooLate = "reservation_expired",
    /// Refusals because a payment is under way.
    PaymentInProgress = "payment_in_progress",
    /// Refusals of what a caller may not see or change.
    AccessDenied = "access denied",
    /// Refusals because an item or a reservation has another version.
    PreconditionFailed = "precondition_failed",
    /// Refusals to split off more than is held.
    SplitExceeds = "split_exceeds_held",
    /// Refusals to fulfil more than is sold.
    FulfilExceeds = "fulfil_exceeds_sold",
    /// Refusals because a reservation was never sold.
    NotConfirmed = "reservation_not_confirmed",
    /// Late confirms whose units were gone.
    NotReacquired = "late confirm refused",
    /// Other refusals.
    Refused = "refused otherwise",
    /// Commands put off to the next batch.
    Later = "put off to the next batch",
    /// Expiries of commands that were put off.
    LaterExpired = "expired by what was put off",
    /// Commands that made room on their way.
    GoneOn = "commands that made room for others",
    /// Reservations that had to be read.
    MissingHold = "reservation read from the index",
    /// Keys that had to be read.
    MissingKey = "key read from the index",
    /// Keys taken for present by a filter.
    FalsePositive = "absent key taken for present",
    /// Reads repeated because they were too old.
    StaleRead = "read that was too old",
    /// Expired by a reserve that needed the units.
    ExpiredOnDemand = "expired on demand",
    /// Expired by a command that came too late.
    ExpiredByOwn = "expired by its own late command",
    /// Expired by a sweep.
    ExpiredBySweep = "expired by a sweep",
    /// Reserves that got less than they asked for.
    Partial = "granted in part",
    /// Extensions.
    Extended = "extended",
    /// Extensions to the cap.
    ExtendedToCap = "extended to its cap",
    /// Refused extensions.
    ExtensionLimit = "extension_limit",
    /// Returns.
    Returned = "returned",
    /// Returns of what was sold before the last crash.
    ReturnedAfterCrash = "returned after a crash",
    /// Returns of more than was sold.
    ReturnExceeds = "return_exceeds_sold",
    /// Amends that changed something.
    Amended = "amended",
    /// Amends that added units.
    AmendedGrown = "amended to more units",
    /// Amends that gave units back.
    AmendedShrunk = "amended to fewer units",
    /// Amends that brought in another item.
    AmendedToNewItem = "amended to another item",
    /// Amends that moved the deadline.
    AmendedDeadline = "amended to another deadline",
    /// Amends that changed the metadata.
    AmendedMetadata = "amended to other metadata",
    /// Amends refused for want of stock.
    AmendShort = "amend refused for want of stock",
    /// Amends refused for another reason.
    AmendRefused = "amend refused otherwise",
    /// Transfers.
    Transferred = "transferred",
    /// Refused transfers.
    TransferRefused = "transfer refused",
    /// Splits.
    Split = "split",
    /// Refused splits.
    SplitRefused = "split refused",
    /// Merges.
    Merged = "merged",
    /// Reservations that ended in a merge.
    MergedAway = "merged into another reservation",
    /// Refused merges.
    MergeRefused = "merge refused",
    /// Payment windows.
    PaymentOpened = "payment window opened",
    /// Payments that the service takes and that were moved on.
    ChargeAdvanced = "charge moved on",
    /// Payments whose money was taken.
    ChargeCaptured = "charge captured",
    /// Payments that were ended without money.
    ChargeVoided = "charge voided",
    /// Payments whose money goes back.
    ChargeRefunding = "charge to be refunded",
    /// Payments whose money went back.
    ChargeRefunded = "charge refunded",
    /// Payment windows that were prolonged.
    PaymentProlonged = "payment window prolonged",
    /// Payment windows that moved the deadline past its cap.
    PaymentPastCap = "payment window past the cap of extensions",
    /// Payment windows refused because they would end too late.
    PaymentLimit = "payment window past its limit",
    /// Payment windows refused for another reason.
    PaymentRefused = "payment window refused otherwise",
    /// Payment windows that were closed.
    PaymentClosed = "payment window closed",
    /// Closed windows whose time for another payment is past the cap.
    GracePastCap = "time after a payment window past the cap of extensions",
    /// Refusals to close a window.
    CloseRefused = "closing of a payment window refused",
    /// Reservations that expired in a payment window.
    PaymentLapsed = "expired in a payment window",
    /// Reservations that were confirmed in a payment window.
    ConfirmedInWindow = "confirmed in a payment window",
    /// Late confirms that took the units again.
    Reacquired = "reacquired by a late confirm",
    /// Late confirms that were answered with the new reservation, repeated ones included.
    LateConfirm = "late confirm answered with the new reservation",
    /// Fulfilments.
    Fulfilled = "fulfilled",
    /// Refused fulfilments.
    FulfilRefused = "fulfil refused",
    /// Returns of units that had left the shelf.
    ReturnedByBuyer = "returned after it was fulfilled",
    /// Returns that were written off.
    WrittenOff = "written off",
    /// Totals set by a count of the shelf.
    ShelfCounted = "shelf counted",
    /// Refusals to set stock.
    SetStockRefused = "set stock refused",
    /// Items that were deleted.
    ItemDeleted = "item deleted",
    /// Units with ids that came.
    UnitsAdded = "units added",
    /// Units with ids that were retired.
    UnitRetired = "unit retired",
    /// Holds of units with ids.
    UnitsHeld = "units held by their ids",
    /// Sales of them.
    UnitsSold = "units sold by their ids",
    /// Ends and extensions of holds of them.
    UnitsLetGo = "units let go, or kept longer",
    /// Returns of them.
    UnitsReturned = "units returned by their ids",
    /// Amends of holds of them.
    UnitsAmended = "units amended by their ids",
    /// Splits of holds of them.
    UnitsSplit = "units split off by their ids",
    /// Merges of holds of them.
    UnitsMerged = "units merged by their ids",
    /// Late confirms of them.
    UnitsReacquired = "units reacquired by their ids",
    /// Fulfilments of them.
    UnitsFulfilled = "units fulfilled by their ids",
    /// Refusals because somebody has a unit.
    UnitsUnavailable = "units_unavailable",
    /// Refusals to delete an item.
    ItemInUse = "item_in_use",
    /// Refusals to retire a unit.
    UnitInUse = "unit_in_use",
    /// Records that were created or changed.
    RecordPut = "record created or changed",
    /// Records that were deleted.
    RecordDeleted = "record deleted",
    /// Refusals because a record has another version.
    RecordChanged = "record_changed",
    /// Refusals because limits leave too little.
    LimitExceeded = "limit_exceeded",
    /// Refusals because a limit is per customer and there is none.
    CustomerRequired = "customer_required",
    /// Refusals because no such limit exists.
    UnknownLimit = "unknown_limit",
    /// Amends that limits refuse.
    AmendOverLimit = "amend refused by a limit",
    /// Transfers and merges that limits refuse.
    MoveOverLimit = "transfer or merge refused by a limit",
    /// Late confirms that limits refuse.
    LateConfirmOverLimit = "late confirm refused by a limit",
    /// Events that passed limits by.
    LimitsOverridden = "limits passed by",
    /// Reserves that got less because of a limit.
    ClippedByLimit = "granted in part because of a limit",
    /// Expired by a reserve that a limit would have refused.
    ExpiredForLimit = "expired for a limit",
    /// Limits that were set for the first time.
    LimitSet = "limit set",
    /// Limits that were set again after they were deleted.
    LimitSetAgain = "deleted limit set again",
    /// Limits that were set with other items, channels or subjects, so that their counters began at 0.
    LimitGeneration = "limit set with a new generation",
    /// Limits that were lowered.
    LimitLowered = "limit lowered",
    /// Limits that were lowered below what is used.
    LimitBelowUse = "limit lowered below its use",
    /// Limits that were raised.
    LimitRaised = "limit raised",
    /// Limits that were set to count other units.
    LimitCountsOther = "limit set to count other units",
    /// Limits that were deleted.
    LimitDeleted = "limit deleted",
    /// Commands answered that their outcome is unknown.
    Unknown = "answered outcome_unknown",
    /// Unknown outcomes whose effect was there after all.
    UnknownKept = "outcome_unknown, and it was done",
    /// Commands answered that the store is unavailable.
    Unavailable = "answered unavailable",
    /// Commits during which other batches were decided.
    Overlapped = "decided while a commit was under way",
}

/// The value of each counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters([u64; ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; ALL.len()])
    }
}

impl Counters {
    /// The value of a counter.
    pub fn get(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// Adds 1.
    pub(crate) fn one(&mut self, count: Count) {
        self.more(count, 1);
    }

    /// Adds a number.
    pub(crate) fn more(&mut self, count: Count, times: u64) {
        self.0[count as usize] += times;
    }

    /// Adds the counters of another history.
    pub fn add(&mut self, other: &Self) {
        for (mine, others) in self.0.iter_mut().zip(other.0) {
            *mine += others;
        }
    }

    /// Every counter's text and value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ALL.iter().map(|(count, text)| (*text, self.get(*count)))
    }

    /// The counters that are zero.
    pub fn missing(&self) -> Vec<&'static str> {
        self.iter().filter(|(_, count)| *count == 0).map(|(text, _)| text).collect()
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (text, count) in self.iter() {
            writeln!(f, "{count:>12}  {text}")?;
        }
        Ok(())
    }
}
