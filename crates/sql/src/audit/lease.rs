//! The lease of the archive: one archive at a time works on a database, from whatever machine.
//!
//! The row of `archived` has the holder and when its lease ends, by the clock of the database. The holder renews it. Each transaction in
//! which events leave locks the row and checks the holder, so an archive that was stopped for longer than its lease removes nothing.

use super::{ArchiveError, ArchiveLease, AuditSession};
use core::time::Duration;
use std::time::Instant as Monotonic;
use stockhold_domain::Instant;
use stockhold_store::ids::IdSource;
use tokio::runtime::Runtime;

/// How long a lease lasts. After a crash, the next archive waits for so long.
const TERM: Duration = Duration::from_secs(10);
/// The time after which it is renewed at the next step.
const RENEW_AFTER: Duration = Duration::from_secs(3);
/// How often it is looked whether the lease of another archive has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long the end of another lease is waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(12);

/// The lease of this archive.
pub(super) struct Lease {
    holder: String,
    taken: Monotonic,
}

impl Lease {
    /// Takes the lease. The one of an archive that has crashed ends by itself, and is waited for; one that is renewed meanwhile belongs to
    /// an archive that is at work.
    pub(super) fn take<S: AuditSession>(
        runtime: &Runtime,
        session: &mut S,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, ArchiveError> {
        let mut ids =
            IdSource::from_system().map_err(|error| ArchiveError::Interrupted(error.to_string()))?;
        // The number of the process tells people which one it is, and the random bits are of no other archive.
        let holder = format!("{}-{:016x}", std::process::id(), ids.random() >> 64);
        let mut lease = Self { holder, taken: Monotonic::now() };
        let begun = Monotonic::now();
        let mut other: Option<ArchiveLease> = None;
        loop {
            let found = lease.ask(runtime, session, true)?;
            if found.holder == lease.holder {
                return Ok(lease);
            }
            let is_renewed = other.as_ref().is_some_and(|before| *before != found);
            if is_renewed || begun.elapsed() > LONGEST_WAIT {
                return Err(ArchiveError::Interrupted(format!(
                    "another archive is at work on this database ({}): try again once it has ended",
                    name_of(&found)
                )));
            }
            if is_cancelled() {
                return Err(ArchiveError::Interrupted("the server is stopping".to_owned()));
            }
            other = Some(found);
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Who has the lease.
    pub(super) fn holder(&self) -> &str {
        &self.holder
    }

    /// Renews the lease if that is due.
    pub(super) fn renew<S: AuditSession>(
        &mut self,
        runtime: &Runtime,
        session: &mut S,
    ) -> Result<(), ArchiveError> {
        if self.taken.elapsed() < RENEW_AFTER {
            return Ok(());
        }
        let found = self.ask(runtime, session, false)?;
        if found.holder == self.holder {
            Ok(())
        } else {
            Err(ArchiveError::Interrupted(is_taken_over(&found)))
        }
    }

    /// Ends the lease.
    pub(super) fn give_back<S: AuditSession>(
        &self,
        runtime: &Runtime,
        session: &mut S,
    ) -> Result<(), ArchiveError> {
        runtime.block_on(async {
            session.roll_back().await?;
            let (now, _) = session.overdue(None, 1).await?;
            session.lease_archive(&self.holder, now, now).await?;
            Ok::<_, ArchiveError>(())
        })
    }

    /// Renews the lease, or takes it if `takes` and nobody else has it. Returns who has it. A lease that another archive has had meanwhile
    /// is not renewed.
    fn ask<S: AuditSession>(
        &mut self,
        runtime: &Runtime,
        session: &mut S,
        takes: bool,
    ) -> Result<ArchiveLease, ArchiveError> {
        let asked = Monotonic::now();
        let found = runtime.block_on(async {
            let (now, _) = session.overdue(None, 1).await?;
            let term = i64::try_from(TERM.as_micros()).unwrap_or(i64::MAX);
            let until = Instant::from_micros(now.micros().saturating_add(term));
            let ended_by = if takes { now } else { Instant::from_micros(i64::MIN) };
            session.lease_archive(&self.holder, ended_by, until).await
        })?;
        if found.holder == self.holder {
            self.taken = asked;
        }
        Ok(found)
    }
}

/// Why an archive does not go on that has lost its lease.
pub(super) fn is_taken_over(by: &ArchiveLease) -> String {
    format!(
        "another archive has begun on this database meanwhile ({}), because this one was stopped for longer than {} s",
        name_of(by),
        TERM.as_secs()
    )
}

/// A holder as people know it.
fn name_of(lease: &ArchiveLease) -> String {
    let process = lease.holder.split('-').next().unwrap_or_default();
    format!("process {process} of this machine or another one")
}
