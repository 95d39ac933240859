//! What is stored of an event sink: how far it has come, which instance serves it, and its last failure. The relay writes it, and
//! the routes of sinks read it, so every instance shows the same.

use crate::delivery_state::{DeliveryFailure, DeliveryState};
use serde::{Deserialize, Serialize};

/// A failed delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkFailure {
    /// When, what and what next.
    #[serde(flatten)]
    pub failure: DeliveryFailure,
    /// The id of the event that could not be delivered.
    pub event_id: String,
    /// Its position.
    pub position: u64,
    /// Failed attempts.
    pub attempts: u32,
}

/// An event that was put aside: a part of it could not be delivered, and others behind it were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsideEvent {
    /// Its id.
    pub event_id: String,
    /// Its position.
    pub position: u64,
    /// The part that is missing, such as `mail`.
    pub part: String,
    /// When it was put aside, in microseconds since 1970.
    pub at: i64,
}

/// An event that a sink skips. The id tells an event of the feed from those that are derived from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedEvent {
    /// Its id.
    pub event_id: String,
    /// Its position.
    pub position: u64,
}

/// What is stored of a sink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkRecord {
    /// Its kind, for example `file`.
    pub kind: String,
    /// The newest event that was delivered, or left out by the filter, with all before it.
    pub position: u64,
    /// The instance that serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The failure that keeps it from getting events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<SinkFailure>,
    /// How often events were replayed.
    #[serde(default)]
    pub replays: u32,
    /// The last event of the newest replay.
    #[serde(default)]
    pub replay_through: u64,
    /// Events behind `position` that the sink skips, the newest request last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedEvent>,
    /// Events up to `position` of which a part is still to be delivered, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aside: Vec<AsideEvent>,
}

/// The bytes of a record can't be read.
#[derive(Debug)]
pub struct SinkRecordError(serde_json::Error);

impl std::fmt::Display for SinkRecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the record of a sink can't be read: {}", self.0)
    }
}

impl std::error::Error for SinkRecordError {}

impl SinkRecord {
    /// Most events that are put aside. With more, the sink is blocked.
    pub const ASIDE: usize = 200;

    /// Its state.
    pub fn state(&self) -> DeliveryState {
        DeliveryState::of(self.holder.as_deref(), self.last_error.as_ref().map(|error| &error.failure))
    }

    /// The position up to which it needs no event any more.
    pub fn needed_after(&self) -> u64 {
        self.aside.first().map_or(self.position, |aside| self.position.min(aside.position - 1))
    }

    /// The bytes to store.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads stored bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SinkRecordError> {
        serde_json::from_slice(bytes).map_err(SinkRecordError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = SinkRecord {
            kind: "file".to_owned(),
            position: 7,
            holder: Some("a".to_owned()),
            last_error: Some(SinkFailure {
                failure: DeliveryFailure::new(1_795_000_000_000_000, "too large")
                    .with_action(Some("make it smaller"))
                    .with_next_attempt(1_795_000_001_000_000),
                event_id: "e".to_owned(),
                position: 8,
                attempts: 3,
            }),
            replays: 2,
            replay_through: 9,
            skipped: vec![SkippedEvent { event_id: "e".to_owned(), position: 8 }],
            aside: vec![AsideEvent { event_id: "d".to_owned(), position: 5, part: "mail".to_owned(), at: 1 }],
        };
        assert_eq!(SinkRecord::from_bytes(&record.to_bytes()).unwrap(), record);
        assert_eq!((record.state(), record.needed_after()), (DeliveryState::Blocked, 4));
        let oldest = SinkRecord::from_bytes(br#"{"kind":"file","position":3}"#).unwrap();
        assert_eq!((oldest.position, oldest.state(), oldest.needed_after()), (3, DeliveryState::Standby, 3));
        assert!(SinkRecord::from_bytes(b"{}").is_err());
    }

    #[test]
    fn the_fullest_record_fits() {
        let id = "01a212ce-ea56-7d81-82da-d02f932e6add";
        let aside = AsideEvent {
            event_id: id.to_owned(),
            position: u64::MAX >> 11,
            part: "push".to_owned(),
            at: 1_795_627_174_558_536,
        };
        let record = SinkRecord { aside: vec![aside; SinkRecord::ASIDE], ..SinkRecord::default() };
        assert!(record.to_bytes().len() < stockhold_domain::limits::RECORD_BYTES / 2);
    }
}
