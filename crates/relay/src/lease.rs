//! Which instance serves a sink or delivers to a webhook.
//!
//! The record of a sink names its holder, and so does the progress of a webhook. The holder writes the record at least every [`RENEW_INTERVAL`]. An instance that has seen the
//! same version for [`TERM`] takes the sink by a write that expects this version. No clocks of two machines are compared. If two
//! instances serve a sink for a moment, events are delivered twice, and the position is moved by one of them only.

use crate::records::{RelayRecords, StoredRecord};
use std::time::Duration;
use stockhold_api::sink_record::SinkRecord;
use stockhold_api::webhook_record::WebhookProgress;
use stockhold_domain::RecordChange;
use stockhold_store::Failure;
use tokio::time::Instant;

/// How often the holder writes the record of a store that other instances may serve too.
pub(crate) const RENEW_INTERVAL: Duration = Duration::from_secs(3);
/// How long a record must stay unchanged before another instance takes over.
pub(crate) const TERM: Duration = Duration::from_secs(8);

/// A record that names the instance that serves.
pub(crate) trait LeasedRecord: StoredRecord {
    /// The instance that serves.
    fn holder(&self) -> Option<&str>;

    /// Sets the instance that serves from now on.
    fn set_holder(&mut self, instance: &str);

    /// Notes that no instance serves.
    fn clear_holder(&mut self);
}

impl LeasedRecord for SinkRecord {
    fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    fn set_holder(&mut self, instance: &str) {
        self.holder = Some(instance.to_owned());
        self.last_error = None;
    }

    fn clear_holder(&mut self) {
        self.holder = None;
    }
}

impl LeasedRecord for WebhookProgress {
    fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    fn set_holder(&mut self, instance: &str) {
        self.holder = Some(instance.to_owned());
    }

    fn clear_holder(&mut self) {
        self.holder = None;
    }
}

/// A sink or a webhook that this instance serves.
pub(crate) struct Lease<'a, R> {
    records: &'a RelayRecords,
    name: &'a str,
    instance: &'a str,
    /// The record as it was written last.
    pub(crate) record: R,
    version: u64,
    written_at: Instant,
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseState {
    /// This instance has it, and nobody has changed the record.
    Kept,
    /// This instance has it. Somebody else has changed the record, which was read again.
    Changed,
    /// Another instance has it.
    Lost,
}

/// What this instance has seen of a record that another instance writes.
pub(crate) struct Standby {
    version: u64,
    since: Instant,
}

/// Takes a lease if it is free: new, left by its holder, or held by an instance that does not write any more. `first` makes the record
/// if there is none, and `prepare` changes it before it is written.
pub(crate) async fn acquire<'a, R: LeasedRecord>(
    records: &'a RelayRecords,
    (name, instance): (&'a str, &'a str),
    is_shared: bool,
    standby: &mut Option<Standby>,
    first: impl AsyncFnOnce() -> Result<R, Failure>,
    prepare: impl FnOnce(&mut R),
) -> Result<Option<Lease<'a, R>>, Failure> {
    let (mut record, version) = match records.read(name).await? {
        Some(found) => found,
        None => (first().await?, 0),
    };
    let is_held = is_shared && record.holder().is_some_and(|holder| holder != instance);
    if is_held {
        let seen = standby.get_or_insert_with(|| Standby { version, since: Instant::now() });
        if seen.version != version {
            *seen = Standby { version, since: Instant::now() };
        }
        if seen.since.elapsed() < TERM {
            return Ok(None);
        }
    }
    record.set_holder(instance);
    prepare(&mut record);
    *standby = None;
    let written = records.write(name, Some(&record), version, RecordChange::Silent).await?;
    Ok(written.map(|version| Lease { records, name, instance, record, version, written_at: Instant::now() }))
}

impl<R: LeasedRecord> Lease<'_, R> {
    /// Writes the record.
    pub(crate) async fn write(&mut self) -> Result<LeaseState, Failure> {
        let written =
            self.records.write(self.name, Some(&self.record), self.version, RecordChange::Silent).await?;
        match written {
            Some(version) => {
                (self.version, self.written_at) = (version, Instant::now());
                Ok(LeaseState::Kept)
            }
            None => self.check().await,
        }
    }

    /// The version of the record as it was written or read last.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// How long ago the record was written.
    pub(crate) fn age(&self) -> Duration {
        self.written_at.elapsed()
    }

    /// Looks whether somebody else has changed the record.
    pub(crate) async fn check(&mut self) -> Result<LeaseState, Failure> {
        let Some((record, version)) = self.records.read::<R>(self.name).await? else {
            return Ok(LeaseState::Lost);
        };
        if version == self.version {
            return Ok(LeaseState::Kept);
        }
        if record.holder() != Some(self.instance) {
            return Ok(LeaseState::Lost);
        }
        // The record may be this instance's own write whose answer was lost. To read it again is right then too.
        (self.record, self.version) = (record, version);
        Ok(LeaseState::Changed)
    }

    /// Leaves it to other instances.
    pub(crate) async fn leave(mut self) {
        self.record.clear_holder();
        if let Err(error) = self.write().await {
            tracing::debug!(name = self.name, %error, "a lease was not left in order");
        }
    }
}
