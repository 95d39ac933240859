//! What an archive has done.

use super::json::Object;

/// What one request for an archive has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveReport {
    /// The position of the last event that was in the archive before.
    pub after: u64,
    /// The position of the last event that is in the archive now.
    pub through: u64,
    /// The number of events that left the store.
    pub dropped: u64,
    /// The position of the last event that has left the store.
    pub dropped_through: u64,
    /// The number of reservations that left.
    pub reservations: u64,
    /// The consumer because of which older events stay, and the position up to which it has got them.
    pub held_back: Option<(String, u64)>,
    /// Whether no other event is old enough and was delivered to all.
    pub is_complete: bool,
}

/// What an archive has done.
pub fn archive(out: &mut Vec<u8>, report: &ArchiveReport) {
    let mut object = Object::open(out);
    object.number("after", report.after);
    object.number("through", report.through);
    object.number("dropped_events", report.dropped);
    object.number("dropped_through", report.dropped_through);
    object.number("reservations", report.reservations);
    if let Some((name, position)) = &report.held_back {
        object.text("held_back_by", name);
        object.number("held_back_position", *position);
    }
    object.flag("complete", report.is_complete);
    object.close();
}
