//! What deciding comes to. That a store could not answer is none of it: the rules know no failure.

use crate::hold::Hold;
use crate::item::Item;
use crate::record::Record;
use crate::rejection::Rejection;

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect, or had taken effect before without a key to say so.
    Done(Reply),
    /// Its key was used before for the same request: what that made, as it is now.
    Replayed(Reply),
    /// A rule stands against it. Holds that fell due may have been expired on the way.
    Refused(Rejection),
    /// The batch has expired all it may and more is due: run the command again in the next batch.
    Later,
}

/// What a command made or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The reservation as it is now.
    Reservation(Hold),
    /// The item as it is now, and whether the command created it.
    Item {
        /// As it is now.
        item: Item,
        /// Whether it is new.
        created: bool,
    },
    /// Whether the sale is paused.
    Sale {
        /// As it is now.
        paused: bool,
    },
    /// Units came to an item.
    Units {
        /// The item as it is now.
        item: Item,
        /// How many are new.
        added: u32,
        /// How many were there before.
        unchanged: u32,
    },
    /// How many holds were expired.
    Swept {
        /// By this command.
        expired: u32,
    },
    /// The record as it is now, which has no value when it is deleted.
    Record(Record),
}
