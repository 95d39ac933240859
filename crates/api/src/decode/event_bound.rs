//! Where ranges of events begin and end.

use super::Invalid;
use stockhold_domain::Instant;

/// The first or the last event of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventBound {
    /// This event.
    Position(u64),
    /// The first that was decided at this instant or later, or the last that was decided then or before.
    Time(Instant),
}

impl EventBound {
    /// The first event, from `from_position` and `since` of a body.
    pub(crate) fn first(from_position: Option<u64>, since: Option<Instant>) -> Result<Self, Invalid> {
        match (from_position, since) {
            (Some(position), None) => Ok(Self::Position(position)),
            (None, Some(since)) => Ok(Self::Time(since)),
            (Some(_), Some(_)) => Err(Invalid::new("/since", "must be left out beside from_position")),
            (None, None) => Err(Invalid::new("", "must have from_position or since")),
        }
    }

    /// The last event, from `to_position` and `until` of a body.
    pub(crate) fn last(to_position: Option<u64>, until: Option<Instant>) -> Result<Option<Self>, Invalid> {
        match (to_position, until) {
            (Some(position), None) => Ok(Some(Self::Position(position))),
            (None, Some(until)) => Ok(Some(Self::Time(until))),
            (Some(_), Some(_)) => Err(Invalid::new("/until", "must be left out beside to_position")),
            (None, None) => Ok(None),
        }
    }
}
