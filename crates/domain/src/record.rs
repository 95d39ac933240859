//! Records: small things that are no stock, which change rarely and are read by their id. A record is private to the service:
//! its value may be a secret, so nothing prints it.

use crate::label::Label;
use crate::limits::RECORD_BYTES;
use alloc::sync::Arc;
use core::fmt;

/// What a record is. The rules treat all kinds alike: a kind is the first half of the name of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// A key that a caller of the API identifies itself with.
    ApiKey,
    /// A key that tokens are signed with.
    SigningKey,
    /// How far an event sink has come, and which instance serves it.
    Sink,
    /// The settings of a webhook endpoint.
    Webhook,
    /// How far the deliveries of a webhook endpoint have come, and which instance delivers.
    WebhookProgress,
    /// How far a stock master knows the sales, and which instance serves it.
    StockMaster,
    /// What the last comparison with a stock master found.
    Reconciliation,
    /// That there was an API key once. It outlives the keys.
    Credentials,
}

impl RecordKind {
    /// Every kind, in the order of the variants.
    pub const ALL: [Self; 8] = [
        Self::ApiKey,
        Self::SigningKey,
        Self::Sink,
        Self::Webhook,
        Self::WebhookProgress,
        Self::StockMaster,
        Self::Reconciliation,
        Self::Credentials,
    ];

    /// The name in stores and in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApiKey => "api_key",
            Self::SigningKey => "signing_key",
            Self::Sink => "sink",
            Self::Webhook => "webhook",
            Self::WebhookProgress => "webhook_progress",
            Self::StockMaster => "stock_master",
            Self::Reconciliation => "reconciliation",
            Self::Credentials => "credentials",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The name of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey {
    /// What it is.
    pub kind: RecordKind,
    /// Its id, which is unique within the kind.
    pub id: Label,
}

/// The bytes of a record, at most [`RECORD_BYTES`]. Only the owner of the kind knows what they mean. Cloning shares them.
#[derive(Clone, PartialEq, Eq)]
pub struct RecordValue(Arc<[u8]>);

/// More bytes than a record may have; how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordValueError(pub usize);

impl RecordValue {
    /// Checks and takes bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, RecordValueError> {
        if bytes.len() > RECORD_BYTES {
            return Err(RecordValueError(bytes.len()));
        }
        Ok(Self(bytes.into()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Shows the length and never the bytes, because a value may be a secret.
impl fmt::Debug for RecordValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for RecordValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is {} bytes long, at most {RECORD_BYTES} are allowed", self.0)
    }
}

/// A record, or what is left of a deleted one.
///
/// A deleted record keeps its key and its version, so that no version of an id is ever used twice, whatever the clock does.
/// A caller that read the record before the deletion can then not change the one that was created after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub key: RecordKey,
    /// The number of changes of this id: 1 when it is created, +1 for every change and for the deletion.
    pub version: u64,
    /// Its value; `None` when it is deleted.
    pub value: Option<RecordValue>,
}

impl Record {
    /// The version that the next change has to expect: 0 when the record is deleted.
    pub fn current_version(&self) -> u64 {
        if self.value.is_some() { self.version } else { 0 }
    }
}

/// What the change of a record means for those who read the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordChange {
    /// Bookkeeping of the service. No reader of events ever sees it.
    Silent,
    /// A key for access was created.
    KeyCreated,
    /// A key for access got a new secret.
    KeyRolled,
    /// A key for access is not valid any more.
    KeyRevoked,
    /// An operator had a sink skip an event that it refused.
    SinkEventSkipped,
    /// A webhook endpoint was created.
    EndpointCreated,
    /// The settings of a webhook endpoint were changed.
    EndpointChanged,
    /// A webhook endpoint was deleted.
    EndpointDeleted,
    /// The server disabled a webhook endpoint that takes nothing.
    EndpointDisabled,
    /// A webhook endpoint got a new secret.
    EndpointSecretRotated,
    /// A comparison with a stock master has found something.
    StockReconciled,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn a_value_is_bounded_and_never_printed() {
        let value = RecordValue::new(&vec![b's'; RECORD_BYTES]).unwrap();
        assert_eq!(format!("{value:?}"), "65536 bytes");
        let error = RecordValue::new(&vec![b's'; RECORD_BYTES + 1]).unwrap_err();
        assert_eq!(error.to_string(), "is 65537 bytes long, at most 65536 are allowed");
    }

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        for kind in RecordKind::ALL {
            assert_eq!(RecordKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(RecordKind::from_name("endpoint"), None);
    }
}
