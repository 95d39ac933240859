//! Which instance serves a sink.
//!
//! The record of a sink names its holder. The holder writes the record at least every [`RENEW_INTERVAL`]. An instance that has seen the
//! same version for [`TERM`] takes the sink by a write that expects this version. No clocks of two machines are compared. If two
//! instances serve a sink for a moment, events are delivered twice, and the position is moved by one of them only.

use crate::records::{SinkRecords, Versioned};
use std::time::Duration;
use stockhold_api::sink_record::{SinkRecord, SinkState};
use stockhold_domain::RecordChange;
use stockhold_store::Failure;
use tokio::time::Instant;

/// How often the holder writes the record of a store that other instances may serve too.
pub(crate) const RENEW_INTERVAL: Duration = Duration::from_secs(3);
/// How long a record must stay unchanged before another instance takes the sink.
pub(crate) const TERM: Duration = Duration::from_secs(8);

/// A sink that this instance serves.
pub(crate) struct Lease<'a> {
    records: &'a SinkRecords,
    name: &'a str,
    instance: &'a str,
    /// The record as it was written last.
    pub(crate) record: SinkRecord,
    version: u64,
    written_at: Instant,
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseState {
    /// This instance has it, and nobody has changed the record.
    Kept,
    /// This instance has it. An operator has changed the record, which was read again.
    Changed,
    /// Another instance has it.
    Lost,
}

/// What this instance has seen of the record of a sink that another instance serves.
pub(crate) struct Standby {
    version: u64,
    since: Instant,
}

/// Takes a sink if it is free: new, left by its holder, or held by an instance that does not write any more.
pub(crate) async fn acquire<'a>(
    records: &'a SinkRecords,
    (name, instance, kind): (&'a str, &'a str, &str),
    is_shared: bool,
    standby: &mut Option<Standby>,
    first_position: impl AsyncFnOnce() -> Result<u64, Failure>,
) -> Result<Option<Lease<'a>>, Failure> {
    let (mut record, version) = match records.read(name).await? {
        Some(found) => found,
        None => (SinkRecord { position: first_position().await?, ..SinkRecord::default() }, 0),
    };
    let is_held = is_shared && record.holder.as_ref().is_some_and(|holder| holder != instance);
    if is_held {
        let seen = standby.get_or_insert_with(|| Standby { version, since: Instant::now() });
        if seen.version != version {
            *seen = Standby { version, since: Instant::now() };
        }
        if seen.since.elapsed() < TERM {
            return Ok(None);
        }
    }
    kind.clone_into(&mut record.kind);
    record.holder = Some(instance.to_owned());
    record.state = SinkState::Running;
    record.last_error = None;
    *standby = None;
    let written = records.write(name, Some(&record), version, RecordChange::Silent).await?;
    Ok(written.map(|version| Lease { records, name, instance, record, version, written_at: Instant::now() }))
}

impl Lease<'_> {
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

    /// How long ago the record was written.
    pub(crate) fn age(&self) -> Duration {
        self.written_at.elapsed()
    }

    /// Looks whether somebody else has changed the record.
    pub(crate) async fn check(&mut self) -> Result<LeaseState, Failure> {
        let Some((record, version)): Option<Versioned> = self.records.read(self.name).await? else {
            return Ok(LeaseState::Lost);
        };
        if version == self.version {
            return Ok(LeaseState::Kept);
        }
        if record.holder.as_deref() != Some(self.instance) {
            return Ok(LeaseState::Lost);
        }
        // The record may be this instance's own write whose answer was lost. To read it again is right then too.
        (self.record, self.version) = (record, version);
        Ok(LeaseState::Changed)
    }

    /// Leaves the sink to other instances.
    pub(crate) async fn leave(mut self) {
        self.record.holder = None;
        self.record.state = SinkState::Standby;
        if let Err(error) = self.write().await {
            tracing::debug!(sink = self.name, %error, "the sink was not left in order");
        }
    }
}
