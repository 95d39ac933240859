//! The messages to the thread of the gate.

use crate::admission::GateRequest;
use crate::counter::Settlement;
use stockhold_domain::{Envelope, ItemKey};
use stockhold_store::{Answer, Failure, GateSelection, GateStatus, ReloadSummary, ReplyTo};
use tokio::sync::oneshot;

pub(crate) enum Message {
    /// A request for which the gate is asked.
    Ask(AskedRequest),
    /// The store has answered a request that was admitted.
    Settle(Vec<(ItemKey, Settlement)>),
    /// The store has answered, and the gate has to have its numbers before the caller gets the answer.
    RaiseFirst {
        items: Vec<ItemKey>,
        /// Whether a pause began or ended.
        changes_pauses: bool,
        reply: ReplyTo,
        answer: Result<Answer, Failure>,
    },
    /// Writes counters anew.
    Reload { selection: GateSelection, reply: oneshot::Sender<Result<ReloadSummary, Failure>> },
    /// Shows the gate.
    Status { limit: usize, reply: oneshot::Sender<GateStatus> },
    /// The store was closed.
    Stop,
}

/// A request for which the gate is asked.
pub(crate) struct AskedRequest {
    pub(crate) commands: AskedCommands,
    pub(crate) reply: ReplyTo,
}

/// The commands of a request, with what the gate is asked for each reserve.
pub(crate) enum AskedCommands {
    One(Box<Envelope>, GateRequest),
    Many(Vec<(Envelope, Option<GateRequest>)>),
}
