//! What operators do with stock masters.

use crate::lease::RENEW_INTERVAL;
use crate::relay::Relay;
use crate::stock_masters::{StockMasterOptions, report_name};
use std::time::Duration;
use stockhold_api::resources::reconciliation::StockMaster;
use stockhold_api::stock_master_record::{ReconciliationOrder, ReportRecord, StockMasterRecord};
use stockhold_domain::RecordChange;
use stockhold_store::Failure;

/// Longest wait for a reconciliation.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// How often it is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Tries of a change of a record that its holder changes at the same time.
const TRIES: usize = 20;

/// Why a command of an operator was not done.
#[derive(Debug)]
pub enum ReconciliationError {
    /// There is no such stock master. The names of those that there are.
    UnknownStockMaster(Vec<String>),
    /// The batch is not one that the stock master refuses.
    NotRefused,
    /// It is configured, or an instance serves it, so it can't be forgotten.
    InUse,
    /// It has not ended in time. It goes on.
    Timeout,
    /// The store did not answer.
    Store(Failure),
}

impl From<Failure> for ReconciliationError {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}

impl Relay {
    /// All stock masters: those that are configured here, and those that the store has a record of.
    pub async fn stock_masters(&self) -> Result<Vec<StockMaster>, Failure> {
        let mut all: Vec<_> = self.records.read_all::<StockMasterRecord>().await?;
        let reports = self.records.read_all::<ReportRecord>().await?;
        for StockMasterOptions { name, kind, .. } in self.stock_master_options() {
            if !all.iter().any(|(known, ..)| known == name) {
                let record =
                    StockMasterRecord { kind: kind.name().to_owned(), ..StockMasterRecord::default() };
                all.push((name.clone(), record, 0));
            }
        }
        all.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        let status = |(name, mut record, _): (String, StockMasterRecord, u64)| {
            let is_configured = self.stock_master_options().iter().any(|options| options.name == name);
            if !is_configured && !self.is_shared() {
                // The process that served it was killed, and this one does not.
                record.holder = None;
            }
            let report = reports.iter().find(|(of, ..)| *of == name).map(|(_, report, _)| report);
            StockMaster::of(&name, &record, report)
        };
        Ok(all.into_iter().map(status).collect())
    }

    /// Has a stock master compared now, and returns the report. The instance that serves it does it.
    pub async fn reconcile(&self, name: &str, dry_run: bool) -> Result<ReportRecord, ReconciliationError> {
        let request = ReconciliationOrder { id: self.records.new_id(), dry_run };
        self.change_stock_master(name, |record| {
            record.request = Some(request.clone());
            Ok(())
        })
        .await?;
        let report = report_name(name, dry_run);
        let begun = tokio::time::Instant::now();
        while begun.elapsed() < LONGEST_WAIT {
            if let Some((found, _)) = self.records.read::<ReportRecord>(&report).await?
                && found.request_id.as_ref() == Some(&request.id)
            {
                return Ok(found);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(ReconciliationError::Timeout)
    }

    /// Counts a batch that the stock master refuses as booked: an operator has booked it by hand.
    pub async fn accept_batch(&self, name: &str, batch_id: &str) -> Result<(), ReconciliationError> {
        self.change_stock_master(name, |record| {
            let batch = record.batch.take_if(|batch| batch.batch_id == batch_id && batch.refused.is_some());
            let batch = batch.ok_or(ReconciliationError::NotRefused)?;
            (record.position, record.part) = (batch.through, batch.part);
            record.failures.decrements = None;
            Ok(())
        })
        .await
    }

    /// Deletes what is stored of a stock master that is not configured any more.
    pub async fn forget_stock_master(&self, name: &str) -> Result<(), ReconciliationError> {
        if self.stock_master_options().iter().any(|options| options.name == name) {
            return Err(ReconciliationError::InUse);
        }
        let Some((record, version)) = self.records.read::<StockMasterRecord>(name).await? else {
            return Ok(());
        };
        if self.is_shared() && record.holder.is_some() {
            // A holder that lives writes the record in this time, and the version below is not the newest one any more.
            tokio::time::sleep(RENEW_INTERVAL + RENEW_INTERVAL / 2).await;
        }
        for dry_run in [false, true] {
            let report = report_name(name, dry_run);
            if let Some((_, version)) = self.records.read::<ReportRecord>(&report).await? {
                let deleted =
                    self.records.write::<ReportRecord>(&report, None, version, RecordChange::Silent);
                deleted.await?;
            }
        }
        // Last, so that an interrupted request can be repeated.
        match self.records.write::<StockMasterRecord>(name, None, version, RecordChange::Silent).await? {
            Some(_) => Ok(()),
            None => Err(ReconciliationError::InUse),
        }
    }

    async fn change_stock_master(
        &self,
        name: &str,
        set: impl Fn(&mut StockMasterRecord) -> Result<(), ReconciliationError>,
    ) -> Result<(), ReconciliationError> {
        for _ in 0..TRIES {
            let Some((mut record, version)) = self.records.read::<StockMasterRecord>(name).await? else {
                let names = self.stock_masters().await?.into_iter().map(|known| known.stock_master);
                return Err(ReconciliationError::UnknownStockMaster(names.collect()));
            };
            set(&mut record)?;
            if self.records.write(name, Some(&record), version, RecordChange::Silent).await?.is_some() {
                return Ok(());
            }
        }
        Err(Failure::Overloaded.into())
    }
}
