//! What is stored of an event sink: how far it has come, which instance serves it, and its last failure. The relay writes it, and
//! the routes of sinks read it, so every instance shows the same.

use serde::{Deserialize, Serialize};
use stockhold_domain::Instant;

/// Longest message of an error that is stored, in bytes.
const MESSAGE_BYTES: usize = 500;

/// The state of a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SinkState {
    /// Events are delivered.
    Running,
    /// The last delivery failed, and is tried again.
    Retrying,
    /// The sink refuses an event for good, and nothing behind it is sent.
    Blocked,
    /// No instance serves it.
    #[default]
    Standby,
}

impl SinkState {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Blocked => "blocked",
            Self::Standby => "standby",
        }
    }
}

/// A failed delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkFailure {
    /// When the last attempt failed, in microseconds since 1970.
    pub at: i64,
    /// What the sink said.
    pub message: String,
    /// The id of the event that could not be delivered.
    pub event_id: String,
    /// Its position.
    pub position: u64,
    /// Failed attempts.
    pub attempts: u32,
}

impl SinkFailure {
    /// When the last attempt failed.
    pub fn time(&self) -> Instant {
        Instant::from_micros(self.at)
    }

    /// A message without control characters and of bounded length.
    pub fn message(text: &str) -> String {
        bounded_text(text, MESSAGE_BYTES)
    }
}

/// A text without control characters, of at most so many bytes.
pub(crate) fn bounded_text(text: &str, most: usize) -> String {
    let mut bounded = String::new();
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if bounded.len() + c.len_utf8() > most {
            break;
        }
        bounded.push(c);
    }
    bounded
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
    /// Its state at the holder.
    #[serde(default)]
    pub state: SinkState,
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
    /// The bytes to store.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads stored bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SinkRecordError> {
        serde_json::from_slice(bytes).map_err(SinkRecordError)
    }
}

/// A sink as its readers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkStatus {
    /// Its name.
    pub name: String,
    /// What is stored of it.
    pub record: SinkRecord,
    /// Events of the feed that it has not got yet.
    pub lag_events: u64,
    /// The age of the oldest of them, in milliseconds.
    pub lag_millis: u64,
}

/// The events that a replay delivers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayRange {
    /// The first one.
    pub from: u64,
    /// The newest one at the time of the request. The events after it follow.
    pub to: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = SinkRecord {
            kind: "file".to_owned(),
            position: 7,
            state: SinkState::Blocked,
            holder: Some("a".to_owned()),
            last_error: Some(SinkFailure {
                at: 1_795_000_000_000_000,
                message: SinkFailure::message("too\nlarge"),
                event_id: "e".to_owned(),
                position: 8,
                attempts: 3,
            }),
            replays: 2,
            replay_through: 9,
            skipped: vec![SkippedEvent { event_id: "e".to_owned(), position: 8 }],
        };
        assert_eq!(SinkRecord::from_bytes(&record.to_bytes()).unwrap(), record);
        assert_eq!(record.last_error.unwrap().message, "too large");
        let oldest = SinkRecord::from_bytes(br#"{"kind":"file","position":3}"#).unwrap();
        assert_eq!((oldest.position, oldest.state, oldest.holder), (3, SinkState::Standby, None));
        assert!(SinkRecord::from_bytes(b"{}").is_err());
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let cut = SinkFailure::message(&"é".repeat(400));
        assert_eq!(cut.len(), 500);
    }
}
