//! The results of `decide`. A failure of the store is not among them: see `stockhold_store::Failure`.

use crate::hold::Hold;
use crate::item::Item;
use crate::limit::Limit;
use crate::record::Record;
use crate::rejection::Rejection;

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect, or an equal command without a key had taken effect before.
    Done(Reply),
    /// Its idempotency key was used before by the same request. The value is the current state of what that request
    /// made.
    Replayed(Reply),
    /// A rule refused it. It may have expired due holds all the same.
    Refused(Rejection),
    /// The batch has reached its limit of expiries and more holds are due. Run the command again in the next batch.
    Later,
}

/// What a command created, changed or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The reservation as it is now.
    Reservation(Hold),
    /// The item as it is now, and whether the command created it.
    Item {
        /// The current state.
        item: Item,
        /// Whether the command created it.
        created: bool,
    },
    /// The item was deleted.
    ItemDeleted,
    /// Whether the sale is paused.
    Sale {
        /// The current state.
        paused: bool,
    },
    /// Units were added to an item.
    Units {
        /// The item as it is now.
        item: Item,
        /// Number of new units.
        added: u32,
        /// Number of units that existed before.
        unchanged: u32,
    },
    /// Holds were expired and pools released.
    Swept {
        /// Number of holds that this command expired.
        expired: u32,
        /// Number of items whose pools this command released.
        released: u32,
    },
    /// The limit as it is now, and whether the command created it.
    Limit {
        /// The current state. It has no terms when it is deleted.
        limit: Limit,
        /// Whether the command created it.
        created: bool,
    },
    /// The record as it is now, which has no value when it is deleted.
    Record(Record),
}
