//! The steps of a history: of callers, of the network, of the disk, of the store, and faults. A step has small numbers
//! that select among what exists when the step is executed. So any selection of a history's steps is a history too,
//! which shrinking needs.

use stockhold_model::Op;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A caller sends a request.
    Send(OpRequest),
    /// A caller sends several commands as one request.
    SendAll(Vec<OpRequest>),
    /// A caller sends a request with a key once more: one of the newest.
    Retry(u8),
    /// A caller asks for reservations and items.
    Request(u8),
    /// Several holds of one unit that fall due together, and a caller who then requests all of these units.
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

    /// The commit advances one stage: close the batch, take it, write, sync, and put the answers one by one.
    Nudge,
    /// The commit in flight is finished, and everything that waits is committed.
    Commit,
    /// A reader thread executes one waiting read.
    Bring(u8),
    /// A command whose read is complete is decided.
    Readmit(u8),
    /// Every waiting read is executed.
    Read,
    /// The indexer gets this many commits and writes a chunk.
    Chunk(u8),
    /// Memory forgets what the index has.
    Forget,
    /// The indexer writes the keys as a run of the index.
    Runs,
    /// Old runs are merged and dropped.
    Tend,
    /// The sweeper looks for due holds.
    Sweep,
    /// The sweeper runs until nothing is due.
    SweepAll,

    /// Time passes, in microseconds.
    Advance(i64),
    /// Time passes to a deadline, and this many microseconds more or less.
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
    /// The commit in flight fails, and soon the machine starts again.
    FailCommit(Crash),
    /// The commit in flight takes this many seconds.
    SlowCommit(u8),
    /// The disk is full, or not any more.
    DiskFull(bool),
}

/// A command that a caller sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpRequest {
    /// The command.
    pub(crate) op: Op,
    /// Its idempotency key, if it has one. Equal numbers are equal keys.
    pub(crate) key: Option<u16>,
    /// Selects the reservation and the lines that the command is about, among those that exist when it is sent.
    pub(crate) aim: u16,
}

/// How a machine stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    /// The stage that the commit reaches before.
    pub(crate) stage: u8,
    /// Whether an unsynced row is kept, lost or torn.
    pub(crate) fate: u8,
    /// Whether the power was cut, and how many transactions of the index that removed.
    pub(crate) power: Option<u8>,
    /// The batch in which a bit is flipped before the start, which the start must notice.
    pub(crate) damage: Option<u8>,
    /// Whether the newest commit is removed before the start, which the start must notice.
    pub(crate) lost_end: bool,
    /// Whether the start writes the index while it reads the log.
    pub(crate) writes: bool,
}
