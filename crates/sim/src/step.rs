//! The steps of a history: what callers do, what the network and the disk do to them, what of the store's work is done
//! next, and what goes wrong. A step is data in small numbers that choose among what there is when it is taken, so any
//! selection of a history's steps is a history too, which is what shrinking needs.

use stockhold_store::conformance::Op;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A caller sends a request.
    Send {
        /// What it asks.
        op: Op,
        /// Which key it takes, if any: the same number is the same key.
        key: Option<u16>,
    },
    /// A caller sends several commands as one request, each with a key or none.
    SendAll(Vec<(Op, Option<u16>)>),
    /// A caller sends a request with a key once more: one of the newest.
    Retry(u8),
    /// A caller asks for reservations and items.
    Request(u8),
    /// So many holds of one unit, which fall due together, and one who wants all of it then.
    Crowd(u16),

    /// A request arrives: 0 is the oldest under way.
    Arrive(u8),
    /// A request is lost.
    LoseRequest(u8),
    /// A request will arrive twice.
    RepeatRequest(u8),
    /// A reply arrives: 0 is the oldest under way.
    Reply(u8),
    /// A reply is lost.
    LoseReply(u8),

    /// The commit goes one stage further: kick, take, write, sync, settle, and answer by answer.
    Nudge,
    /// The commit under way is finished, and what waits is committed too.
    Commit,
    /// A reader reads for one who waits.
    Bring(u8),
    /// One whose read has come is decided.
    Readmit(u8),
    /// Everybody who waits for a read gets it.
    Read,
    /// The indexer hears of so many commits and writes a chunk.
    Chunk(u8),
    /// Memory forgets what the index has.
    Forget,
    /// The indexer writes the keys as a run.
    Runs,
    /// Old runs are merged and dropped.
    Tend,
    /// The sweeper looks for what is due.
    Sweep,
    /// The sweeper runs until nothing is due.
    SweepAll,

    /// Time passes, in microseconds.
    Advance(i64),
    /// Time passes up to somebody's deadline, and so many microseconds more or less.
    ToDeadline(u8, i64),
    /// Nothing happens for so many hours.
    Idle(u16),
    /// The store's clock steps, in seconds.
    SetClock(i16),
    /// The wall clock is set, in seconds.
    SetWall(i16),
    /// The machine stands still while time passes, in seconds.
    Freeze(u16),
    /// The monotonic clock runs at another speed.
    Drift(u8),

    /// The machine goes down and starts again.
    Crash(Crash),
    /// The commit under way fails, and a moment later the machine starts again.
    FailCommit(Crash),
    /// The commit under way takes so many seconds.
    SlowCommit(u8),
    /// The disk is full, or not any more.
    DiskFull(bool),
}

/// How a machine goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    /// How far the commit is brought before.
    pub(crate) stage: u8,
    /// Whether a row that was not synced is kept, lost or torn.
    pub(crate) fate: u8,
    /// Whether the power was cut, and how many of the index's transactions that took.
    pub(crate) power: Option<u8>,
    /// Whether a bit of what is left is turned over first, to see that it is noticed: in which batch.
    pub(crate) damage: Option<u8>,
    /// Whether the newest commit is taken away first, to see that it is noticed.
    pub(crate) lost_end: bool,
    /// Whether the start writes the index on its way.
    pub(crate) writes: bool,
}
